//! One run: something is said to the model, what happens is shown, and Ctrl-C stops it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_agent::control::Control;
use helve_agent::events::{Ending, Event};
use helve_agent::talk::UserMessage;

use super::show::{self, Reader, Show};
use super::start::Talk;
use crate::approve::aside::{self, Typed};
use crate::failure::Failure;
use crate::ui;

/// How often what moves on the screen moves.
const TICK: Duration = Duration::from_millis(120);

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
    talk.ended = Some(ending.clone());
    drop(aside);
    drop(holding);
    let show = lock(&show).take();
    show.map_or(Ok(()), Show::finish)?;
    Ok(Turn { ending, unheard: control.unheard() })
}

/// The exit code of a talk whose output nobody reads any more: that of its last run, which was stopped for that if it had not
/// ended by then. Anything else stays as it is.
pub(crate) fn unread(ended: Result<u8, Failure>, last: Option<&Ending>) -> Result<u8, Failure> {
    match (ended, last) {
        (Err(Failure::ReaderGone), Some(last)) => {
            ui::note("nobody reads the output any more");
            Ok(show::exit_code(last))
        }
        (ended, _) => ended,
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
