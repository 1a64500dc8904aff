//! One question from its first row to the answer: reading, choosing, the rules of a longer yes, the reason of a no. Pure:
//! events and sizes go in, rows and in the end an [`Approval`] come out.
//!
//! Only a key that comes alone is an answer; what is pasted, or comes faster than a hand types, is none. Before the last row has
//! been on the screen, or was skipped to, there is no yes.

use anstyle::Style;
use helve::{Approval, ApprovalRequest, Lasting};

use super::editor::{Edit, Editor};
use super::form::{Form, SESSION_MEANS, Step, can_last};
use super::keys::{Event, Key};
use super::page::{Document, Pager};
use super::question;
use super::screen::{self, Screen};
use super::terminal::Size;
use crate::ui;

/// Pressed in place of an answer.
pub(super) const NOT_TYPED: &str = "That was pasted or came too fast to be typed: press one key.";

/// A question on the screen.
pub(super) struct Dialog<'a> {
    request: &'a ApprovalRequest,
    document: Document,
    pager: Pager,
    /// How many rows the last page had.
    height: usize,
    state: State,
    notice: Option<&'static str>,
}

enum State {
    Question,
    Help(Pager),
    Form(Form),
    Reason(Editor),
}

impl<'a> Dialog<'a> {
    pub(super) fn new(request: &'a ApprovalRequest) -> Self {
        let document = question::document(request);
        Dialog { request, document, pager: Pager::default(), height: 1, state: State::Question, notice: None }
    }

    /// The screen now.
    pub(super) fn draw(&mut self, size: Size) -> Screen {
        match &mut self.state {
            State::Question => {
                let choices = self.choices();
                let notice = self.notice;
                let position = |position: Option<&str>, seen_end: bool| {
                    let mut rows = screen::rule(position, notice);
                    rows.extend(if seen_end {
                        choices.clone()
                    } else {
                        vec!["[space] next page  [b]ack  [q] to the end  [n]o".to_owned()]
                    });
                    rows
                };
                let screen = screen::paged(&self.document, &mut self.pager, size, position);
                self.height = screen.page_height;
                screen
            }
            State::Help(pager) => {
                let footer = |position: Option<&str>, _: bool| {
                    let mut rows = screen::rule(position, None);
                    rows.push("[space] next page  [Esc] back to the question".to_owned());
                    rows
                };
                let screen = screen::paged(&help(), pager, size, footer);
                self.height = screen.page_height;
                screen
            }
            State::Form(form) => form.draw(size, self.notice),
            State::Reason(editor) => {
                let editor = editor.clone();
                let footer = |position: Option<&str>, _: bool| {
                    let mut rows = screen::rule(position, None);
                    rows.push("Why not? The model reads it. [Enter] without a reason, [Esc] back".to_owned());
                    rows
                };
                screen::with_editor(&self.document, &mut self.pager, size, footer, &editor)
            }
        }
    }

    /// Whether it shows the question itself, and nothing that was opened from it.
    pub(super) fn is_at_the_question(&self) -> bool {
        matches!(self.state, State::Question)
    }

    /// Takes what came with one read; gives the answer, if that was it.
    pub(super) fn take(&mut self, events: &[Event]) -> Option<Approval> {
        self.notice = None;
        let steady = matches!(events, [Event::Key(Key::Up | Key::Down | Key::PageUp | Key::PageDown), ..]);
        let one_key_held = steady && events.windows(2).all(|pair| pair[0] == pair[1]);
        for event in events {
            let answer = match event {
                Event::Key(Key::Interrupt) => Some(Approval::Cancelled),
                _ if self.edits() => self.edit(event),
                Event::Key(key) if events.len() == 1 || one_key_held => self.key(*key),
                _ => {
                    self.notice = Some(NOT_TYPED);
                    None
                }
            };
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    fn edits(&self) -> bool {
        match &self.state {
            State::Reason(_) => true,
            State::Form(form) => form.edits(),
            State::Question | State::Help(_) => false,
        }
    }

    fn edit(&mut self, event: &Event) -> Option<Approval> {
        match &mut self.state {
            State::Form(form) => form.edit(event, self.request),
            State::Reason(editor) => match editor.take(event) {
                Edit::Going => {}
                Edit::GivenUp => self.state = State::Question,
                Edit::Done => return Some(denied(&editor.text())),
            },
            State::Question | State::Help(_) => {}
        }
        None
    }

    fn key(&mut self, key: Key) -> Option<Approval> {
        match &mut self.state {
            State::Question => return self.choose(key),
            State::Help(pager) => {
                if !pager.key(key, self.height) || key == Key::Char('q') {
                    self.state = State::Question;
                }
            }
            State::Form(form) => match form.key(key) {
                Step::Stay => {}
                Step::Back => self.state = State::Question,
                Step::Answer(approval) => return Some(approval),
            },
            State::Reason(_) => {}
        }
        None
    }

    fn choose(&mut self, key: Key) -> Option<Approval> {
        let seen = self.pager.seen_end();
        match key {
            Key::Char('o') if seen => return Some(Approval::Once),
            Key::Char('s') if seen && longest(self.request) >= Lasting::Session => {
                self.state = State::Form(Form::new(self.request, Lasting::Session));
            }
            Key::Char('a') if seen && longest(self.request) == Lasting::Always => {
                self.state = State::Form(Form::new(self.request, Lasting::Always));
            }
            Key::Char('n') => self.state = State::Reason(Editor::default()),
            Key::Char('?') => self.state = State::Help(Pager::default()),
            _ => {
                self.pager.key(key, self.height);
            }
        }
        None
    }

    fn choices(&self) -> Vec<String> {
        let mut line = "[o]nce".to_owned();
        if longest(self.request) >= Lasting::Session {
            line.push_str("  [s]ession");
        }
        if longest(self.request) == Lasting::Always {
            line.push_str("  [a]lways");
        }
        line.push_str("  [n]o  [v]iew again  [?]");
        let mut rows = Vec::new();
        if let Some(why) = not_longer(self.request) {
            rows.push(ui::styled(ui::FAINT, &why));
        }
        rows.push(ui::styled(ui::STRONG, &line));
        rows
    }
}

/// The longest answer that can be given: some part must have a rule, and the owner's ceiling holds.
fn longest(request: &ApprovalRequest) -> Lasting {
    let offered = request.parts.iter().any(|part| can_last(request, part));
    if offered { request.longest } else { Lasting::Once }
}

/// Why, or for which parts, an answer cannot hold longer.
fn not_longer(request: &ApprovalRequest) -> Option<String> {
    if request.longest == Lasting::Once {
        return Some("Every answer to this holds only once.".to_owned());
    }
    let parts = request.parts.len();
    match request.parts.iter().filter(|part| !can_last(request, part)).count() {
        0 => None,
        all if all == parts => {
            Some("No rule for this would be safe to keep, so an answer holds only once.".to_owned())
        }
        some => {
            Some(format!("{some} of {parts} parts can be allowed only once and will be asked about again."))
        }
    }
}

pub(super) fn denied(reason: &str) -> Approval {
    let reason = reason.trim();
    let reason = if reason.is_empty() { "no reason was given" } else { reason };
    Approval::Denied { reason: reason.to_owned() }
}

fn help() -> Document {
    let mut page = Document::default();
    let mut entry = |name: &str, text: &str| page.entry(name, text);
    entry("o  once", "this call, now, and nothing else");
    entry(
        "s  session",
        "this call, and calls of the shown rules in the session of the shown name, for at most 24 hours",
    );
    entry(
        "a  always",
        "this call, and calls of the shown rules until they expire or `helve approvals revoke`",
    );
    entry("n  no", "refuse; the model reads the reason that you give");
    entry("v  view", "the question from its beginning");
    entry("space, enter", "the next page");
    entry("b", "the page before");
    entry("q", "to the end");
    entry("arrows", "row by row");
    entry("Ctrl-C", "take the call back");
    entry("Ctrl-Z", "back to the shell; the question waits");
    page.gap();
    page.prose(Style::new(), SESSION_MEANS);
    page.prose(
        Style::new(),
        "A rule allows a command as it is shown and no more: another option that names a program or a file to write asks \
         again, and so does a script whose content has changed. `helve check` explains a command, `helve why` a past \
         decision.",
    );
    page
}

#[cfg(test)]
mod tests;
