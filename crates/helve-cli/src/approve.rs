//! The person at the terminal. Asked on the terminal itself, never through standard input, so that nothing that feeds
//! Helve can answer; what was typed before the question is thrown away. The whole call is shown, nothing is shortened.
//!
//! | module | does |
//! |---|---|
//! | `terminal` | raw mode and back, rows out, keys in |
//! | `keys`, `editor` | bytes to keys; a line that is edited |
//! | `page`, `screen` | text of any length on a screen of any size |
//! | `question` | what a request says, as a document |
//! | `dialog`, `form`, `list` | one question, the rules of a longer yes, several questions |
//! | `aside` | what is typed while no question is there |
//!
//! Everything but `terminal` and `aside` is pure. Deliberately not here: what an answer is worth; that is the pipeline's.

pub(crate) mod aside;
mod dialog;
mod editor;
mod form;
mod keys;
mod list;
mod page;
mod question;
mod screen;
mod terminal;
#[cfg(test)]
mod testing;

use std::io::{self, IsTerminal};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use helve::{Answer, Approval, ApprovalRequest, Approver, BoxFuture, Cancel, CancelHandle};
use tokio::sync::{Mutex, oneshot};

use crate::{harmless, ui};
use dialog::Dialog;
use keys::{Event, Key};
use list::List;
use screen::Screen;
use terminal::{Input, Size, Terminal};

pub(crate) use terminal::restore;

/// Under this name answers are recorded.
const NAME: &str = "terminal";

/// Somebody who can be asked.
pub(crate) struct Person {
    cancel: Cancel,
    /// What Ctrl-C at a question does.
    take_back: Arc<dyn Fn() + Send + Sync>,
    /// One question at a time. The thread that asks holds it, so that a question whose call was given up has left the
    /// terminal before the next one takes it.
    asking: Arc<Mutex<()>>,
}

/// The person at the terminal, if there is one. Ctrl-C at a question takes everything back.
pub(crate) fn person(cancel: &Cancel, canceller: &CancelHandle) -> Option<Person> {
    let (cancel, canceller) = (cancel.clone(), canceller.clone());
    is_somebody_there().then(|| Person {
        cancel,
        take_back: Arc::new(move || canceller.cancel()),
        asking: Arc::default(),
    })
}

/// The same where Ctrl-C at a question does something else.
pub(crate) fn person_who(take_back: Arc<dyn Fn() + Send + Sync>) -> Option<Person> {
    is_somebody_there().then(|| Person { cancel: Cancel::never(), take_back, asking: Arc::default() })
}

/// Whether there is a person at a terminal.
pub(crate) fn is_somebody_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a plain yes on one line. A terminal that cannot be used says no.
pub(crate) fn confirm(question: &str) -> bool {
    terminal::read_line(question).is_ok_and(|line| matches!(line.trim(), "y" | "Y" | "yes"))
}

impl Approver for Person {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let answer = self.converse(std::slice::from_ref(request)).await.pop();
            Answer::new(NAME, answer.unwrap_or(Approval::Nobody))
        })
    }

    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(async move {
            let answers = self.converse(requests).await;
            answers.into_iter().map(|answer| Answer::new(NAME, answer)).collect()
        })
    }
}

impl Person {
    /// An answer for each request. A terminal that cannot be used is nobody.
    async fn converse(&self, requests: &[ApprovalRequest]) -> Vec<Approval> {
        let count = requests.len();
        let nobody = || vec![Approval::Nobody; count];
        let alone = Arc::clone(&self.asking).lock_owned().await;
        let Ok((taken_back, wait)) = UnixStream::pair() else { return nobody() };
        let shown = requests.to_vec();
        let (answer, mut answered) = oneshot::channel();
        // A thread of its own: one that waits for a person must not hold up the running calls.
        let asker = std::thread::Builder::new().name("approval".to_owned()).spawn(move || {
            let answers = ask_on_terminal(wait, &shown);
            drop(alone);
            let _ = answer.send(answers);
        });
        if asker.is_err() {
            return nobody();
        }
        let answers = tokio::select! {
            answers = &mut answered => answers,
            () = self.cancel.cancelled() => {
                // The terminal is put back before anything else is written to it.
                drop(taken_back);
                answered.await
            }
        };
        let answers = answers.ok().and_then(Result::ok).filter(|answers| answers.len() == count);
        let answers = answers.unwrap_or_else(nobody);
        if answers.contains(&Approval::Cancelled) {
            (self.take_back)();
        }
        for (request, answer) in requests.iter().zip(&answers) {
            leave_a_trace(request, answer);
        }
        answers
    }
}

/// The question is gone from the screen; a line says what came of it.
fn leave_a_trace(request: &ApprovalRequest, answer: &Approval) {
    let said = match answer {
        Approval::Once => "allowed once",
        Approval::Session { .. } => "allowed for this session",
        Approval::Always { .. } => "allowed always",
        Approval::Denied { .. } => "refused",
        Approval::Nobody | Approval::Cancelled | Approval::TimedOut => return,
    };
    let what = request.command.as_deref().unwrap_or(&request.tool);
    ui::note(&format!("{said}: {}", harmless::one_line(what, 60)));
}

fn ask_on_terminal(taken_back: UnixStream, requests: &[ApprovalRequest]) -> io::Result<Vec<Approval>> {
    let _quiet = ui::hold_notes();
    let mut terminal = Terminal::open(taken_back)?;
    let answers = match requests {
        [request] => {
            let mut dialog = Dialog::new(request);
            run(&mut terminal, &mut dialog, Dialog::draw, Dialog::take)?.map(|answer| vec![answer])
        }
        requests => run(&mut terminal, &mut List::new(requests), List::draw, List::take)?,
    };
    Ok(answers.unwrap_or_else(|| vec![Approval::Cancelled; requests.len()]))
}

/// Draws and takes until there is an answer; none when the question is taken back.
fn run<D, A>(
    terminal: &mut Terminal,
    dialog: &mut D,
    draw: impl Fn(&mut D, Size) -> Screen,
    take: impl Fn(&mut D, &[Event]) -> Option<A>,
) -> io::Result<Option<A>> {
    // First only what is asked about; the choices come when they can be made.
    let screen = draw(dialog, terminal.size());
    let shown = screen.rows.get(..screen.page_rows).unwrap_or(&screen.rows);
    terminal.draw(shown, None)?;
    if !terminal.settle()? {
        return Ok(None);
    }
    loop {
        let screen = draw(dialog, terminal.size());
        terminal.draw(&screen.rows, screen.cursor)?;
        match terminal.wait()? {
            Input::TakenBack => return Ok(None),
            Input::Resized => {}
            Input::Events(events) if events == [Event::Key(Key::Suspend)] => terminal.suspend()?,
            Input::Events(events) => {
                if let Some(answer) = take(dialog, &events) {
                    return Ok(Some(answer));
                }
            }
        }
    }
}
