//! One run: something is said to the model, what happens is shown, and Ctrl-C stops it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_agent::control::Control;
use helve_agent::events::{Bound, Ending, Event};
use helve_agent::talk::UserMessage;

use super::show::{self, Reader, Show};
use super::start::Talk;
use crate::approve::aside::{self, Typed};
use crate::failure::Failure;
use crate::ui;
use crate::ui::lane::{self, Attending, Pace};

/// How often what moves on the screen moves.
const TICK: Duration = Duration::from_millis(120);

/// How long, at the end of a run that was stopped or had no more time, a reader is waited for that reads nothing.
pub(crate) const SHORT: Duration = Duration::from_secs(5);
/// And at the end of any other, if it had no bound on its time: who looks at a page of it for a while loses nothing.
const LONG: Duration = Duration::from_secs(600);

/// What came of a run.
pub(crate) struct Turn {
    pub(crate) ending: Ending,
    /// What the owner said too late for it.
    pub(crate) unheard: Vec<String>,
}

/// Says something to the model and shows what comes of it. What the owner types meanwhile goes to the model.
pub(crate) async fn turn(talk: &mut Talk, text: String, reader: Reader) -> Result<Turn, Failure> {
    let control = Control::new();
    let hands = talk.hands.clone();
    let holding = hands.hold(&control);
    let (began, attending) = (Instant::now(), attend(&control));
    let show = Show::new(reader, control.clone());
    let moves = show.moves();
    let show = Arc::new(Mutex::new(Some(show)));
    if moves {
        // It has its own thread: it moves also while everything else is busy.
        let show = Arc::clone(&show);
        let tick = move || {
            loop {
                std::thread::sleep(TICK);
                match lock(&show).as_mut() {
                    Some(show) => show.tick(),
                    None => return,
                }
            }
        };
        // Without it nothing moves, and nothing else is lost.
        let _ = std::thread::Builder::new().name("screen".to_owned()).spawn(tick);
    }
    let (shown, steered) = (Arc::clone(&show), control.clone());
    let hear = move |typed: Typed| {
        let mut show = lock(&shown);
        let Some(show) = show.as_mut() else { return };
        match typed {
            Typed::Going(text) => show.typed(&text),
            Typed::Line(text) if text.trim().is_empty() => show.typed(""),
            Typed::Line(text) => {
                show.steered(&text);
                steered.steer(text);
            }
        }
    };
    let aside = if moves { aside::listen(hear) } else { None };
    let mut watch = |event: Event| {
        if let Some(show) = lock(&show).as_mut() {
            show.take(&event);
        }
    };
    let message = UserMessage { text, ..UserMessage::default() };
    let ending = talk.agent.run(message, &control, &mut watch).await;
    let patience = patience(&ending, talk.time(), began.elapsed());
    talk.ended = Some(ending.clone());
    talk.left = Left { last: Some(ending.clone()), patience };
    drop(aside);
    drop(holding);
    drop(attending);
    let show = lock(&show).take();
    show.map_or(Ok(()), Show::finish)?;
    Ok(Turn { ending, unheard: control.unheard() })
}

/// A run goes at the pace of whoever reads of it, and ends where nobody does.
fn attend(control: &Control) -> Attending {
    let control = control.clone();
    lane::attend(move |pace| match pace {
        Pace::Behind => control.set_behind(true),
        Pace::CaughtUp => control.set_behind(false),
        Pace::Unread => control.stop_run(),
    })
}

/// How long a reader that reads nothing is waited for at the end, where the run could take so much time and took so much.
fn patience(ending: &Ending, most: Option<Duration>, took: Duration) -> Duration {
    match (ending, most) {
        (Ending::Cancelled | Ending::Bound { bound: Bound::Time }, _) => SHORT,
        (_, Some(most)) => most.saturating_sub(took).clamp(SHORT, LONG),
        (_, None) => LONG,
    }
}

/// How a talk is left.
pub(crate) struct Left {
    /// How its last run ended; none if there was none.
    pub(crate) last: Option<Ending>,
    /// How long somebody who reads nothing of it is waited for.
    pub(crate) patience: Duration,
}

impl Default for Left {
    fn default() -> Self {
        Left { last: None, patience: SHORT }
    }
}

impl Left {
    /// The exit code of a talk that ended so, once its reader has all of it or reads no more. One that reads no more changes no
    /// code: it is that of the last run, which was stopped for that if it had not ended by then.
    pub(crate) fn code(&self, ended: Result<u8, Failure>) -> Result<u8, Failure> {
        let (code, mut is_read) = match (ended, &self.last) {
            (Err(Failure::ReaderGone), Some(last)) => (show::exit_code(last), false),
            (ended, _) => (ended?, true),
        };
        match lane::flush(self.patience) {
            Err(Failure::ReaderGone) => is_read = false,
            written => written?,
        }
        if !is_read {
            ui::note("nobody reads the output any more");
        }
        Ok(code)
    }
}

/// The talk is over: the owner's hooks hear of it, and what they say is shown.
pub(crate) async fn close(talk: &mut Talk, reader: Reader) -> Result<(), Failure> {
    let Some(ending) = talk.ended.take() else { return Ok(()) };
    let mut show = Show::new(reader, Control::new());
    talk.agent.close(ending.name(), &mut |event| show.take(&event)).await;
    show.finish()
}

fn lock(show: &Mutex<Option<Show>>) -> MutexGuard<'_, Option<Show>> {
    show.lock().unwrap_or_else(PoisonError::into_inner)
}
