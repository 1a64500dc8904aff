//! One run: something is said to the model, what happens is shown, and Ctrl-C stops it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve_agent::control::Control;
use helve_agent::events::{Ending, Event};
use helve_agent::talk::UserMessage;

use super::show::{Reader, Show};
use super::start::Talk;
use crate::failure::Failure;

/// How often what moves on the screen moves.
const TICK: Duration = Duration::from_millis(120);

/// Says something to the model and shows what comes of it.
pub(crate) async fn turn(talk: &mut Talk, text: String, reader: Reader) -> Result<Ending, Failure> {
    let control = Control::new();
    let hands = talk.hands.clone();
    let holding = hands.hold(&control);
    let show = Show::new(reader, control.clone());
    let moves = show.moves();
    let show = Arc::new(Mutex::new(Some(show)));
    if moves {
        // It has its own thread: it moves also while everything else is busy.
        let show = Arc::clone(&show);
        let tick = move || loop {
            std::thread::sleep(TICK);
            match show.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(show) => show.tick(),
                None => return,
            }
        };
        // Without it nothing moves, and nothing else is lost.
        let _ = std::thread::Builder::new().name("screen".to_owned()).spawn(tick);
    }
    let mut watch = |event: Event| {
        if let Some(show) = show.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            show.take(&event);
        }
    };
    let message = UserMessage { text, ..UserMessage::default() };
    let ending = talk.agent.run(message, &control, &mut watch).await;
    drop(holding);
    let show = show.lock().unwrap_or_else(PoisonError::into_inner).take();
    show.map_or(Ok(()), Show::finish)?;
    Ok(ending)
}
