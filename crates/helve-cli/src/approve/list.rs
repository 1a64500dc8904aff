//! Several questions at once: all of them one below the other, each whole, with a cursor. One is opened and answered by
//! itself, or all that are left get one answer. Pure, like the questions in it.

use anstyle::Style;
use helve::{Approval, ApprovalRequest};

use super::dialog::{Dialog, NOT_TYPED, denied};
use super::editor::{Edit, Editor};
use super::keys::{Event, Key};
use super::page::{Document, Pager};
use super::question;
use super::screen::{self, Screen};
use super::terminal::Size;
use crate::ui;

/// The questions of one batch.
pub(super) struct List<'a> {
    requests: &'a [ApprovalRequest],
    questions: Vec<Document>,
    answers: Vec<Option<Approval>>,
    cursor: usize,
    pager: Pager,
    height: usize,
    /// Whether the next screen shows where the cursor is.
    moved: bool,
    opened: Option<Dialog<'a>>,
    /// Why all that are left are refused.
    reason: Option<Editor>,
    notice: Option<&'static str>,
}

impl<'a> List<'a> {
    pub(super) fn new(requests: &'a [ApprovalRequest]) -> Self {
        List {
            requests,
            questions: requests.iter().map(question::document).collect(),
            answers: vec![None; requests.len()],
            cursor: 0,
            pager: Pager::default(),
            height: 1,
            moved: false,
            opened: None,
            reason: None,
            notice: None,
        }
    }

    pub(super) fn draw(&mut self, size: Size) -> Screen {
        if let Some(dialog) = &mut self.opened {
            return dialog.draw(size);
        }
        let (document, heads) = self.document();
        if std::mem::take(&mut self.moved) {
            let (_, starts) = document.rows(size.columns);
            let row = heads.get(self.cursor).and_then(|line| starts.get(*line));
            self.pager.go_to(row.copied().unwrap_or(0));
        }
        let (notice, refusing) = (self.notice, self.reason.is_some());
        let footer = |position: Option<&str>, seen_end: bool| {
            let mut rows = screen::rule(position, notice);
            rows.push(match (refusing, seen_end) {
                (true, _) => "Why not? The model reads it. [Enter] without a reason, [Esc] back".to_owned(),
                (false, true) => {
                    "[Enter] answer this one  [up/down]  [o]nce for all that are left  [n]o to all that are left".to_owned()
                }
                (false, false) => {
                    "[Enter] answer this one  [up/down]  [space] next page  [b]ack  [q] to the end  [n]o to all".to_owned()
                }
            });
            rows
        };
        let screen = match &self.reason {
            Some(editor) => screen::with_editor(&document, &mut self.pager, size, footer, editor),
            None => screen::paged(&document, &mut self.pager, size, footer),
        };
        self.height = screen.page_height;
        screen
    }

    /// All questions, and the line on which each begins.
    fn document(&self) -> (Document, Vec<usize>) {
        let mut page = Document::default();
        let mut heads = Vec::with_capacity(self.questions.len());
        for (at, question) in self.questions.iter().enumerate() {
            let pointer = if at == self.cursor { '>' } else { ' ' };
            let state = match self.answers.get(at).and_then(Option::as_ref) {
                None => "open",
                Some(Approval::Denied { .. }) => "no",
                Some(Approval::Session { .. }) => "yes, for this session",
                Some(Approval::Always { .. }) => "yes, always",
                Some(_) => "yes, once",
            };
            let style = if at == self.cursor { ui::STRONG } else { Style::new() };
            heads.push(page.len());
            page.prose(style, &format!("{pointer} Question {} of {}: {state}", at + 1, self.questions.len()));
            page.append(question.clone());
            page.gap();
        }
        (page, heads)
    }

    /// Takes what came with one read; gives the answers when there is one for each question.
    pub(super) fn take(&mut self, events: &[Event]) -> Option<Vec<Approval>> {
        if events.contains(&Event::Key(Key::Interrupt)) {
            return Some(vec![Approval::Cancelled; self.requests.len()]);
        }
        self.notice = None;
        if let Some(dialog) = &mut self.opened {
            if events == [Event::Key(Key::Escape)] && dialog.is_at_the_question() {
                self.opened = None;
            } else if let Some(answer) = dialog.take(events) {
                self.opened = None;
                if let Some(place) = self.answers.get_mut(self.cursor) {
                    *place = Some(answer);
                }
                self.go_to_open();
            }
            return self.finished();
        }
        for event in events {
            match (&mut self.reason, event) {
                (Some(editor), event) => match editor.take(event) {
                    Edit::Going => {}
                    Edit::GivenUp => self.reason = None,
                    Edit::Done => {
                        let answer = denied(&editor.text());
                        self.reason = None;
                        self.answer_the_rest(&answer);
                        break;
                    }
                },
                (None, Event::Key(key)) if events.len() == 1 => self.key(*key),
                _ => self.notice = Some(NOT_TYPED),
            }
        }
        self.finished()
    }

    fn key(&mut self, key: Key) {
        let last = self.requests.len().saturating_sub(1);
        match key {
            Key::Up | Key::Char('k') => (self.cursor, self.moved) = (self.cursor.saturating_sub(1), true),
            Key::Down | Key::Char('j') => (self.cursor, self.moved) = ((self.cursor + 1).min(last), true),
            Key::Enter => self.opened = self.requests.get(self.cursor).map(Dialog::new),
            Key::Char('o') if self.pager.seen_end() => self.answer_the_rest(&Approval::Once),
            Key::Char('n') => self.reason = Some(Editor::default()),
            _ => {
                self.pager.key(key, self.height);
            }
        }
    }

    fn answer_the_rest(&mut self, answer: &Approval) {
        for place in self.answers.iter_mut().filter(|place| place.is_none()) {
            *place = Some(answer.clone());
        }
    }

    /// Moves the cursor to the next question without an answer.
    fn go_to_open(&mut self) {
        let count = self.answers.len();
        let next = (0..count).map(|step| (self.cursor + step) % count);
        let open = next.into_iter().find(|at| self.answers.get(*at).is_some_and(Option::is_none));
        if let Some(open) = open {
            (self.cursor, self.moved) = (open, true);
        }
    }

    fn finished(&self) -> Option<Vec<Approval>> {
        self.answers.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{keys, request, shown};
    use super::*;
    use pretty_assertions::assert_eq;

    const SIZE: Size = Size { rows: 40, columns: 100 };

    #[test]
    fn one_is_answered_by_itself_and_the_rest_together() {
        let requests =
            [request("touch a", &[None]), request("touch b", &[None]), request("touch c", &[None])];
        let mut list = List::new(&requests);
        let screen = shown(&list.draw(SIZE));
        for part in ["> Question 1 of 3: open", "  | touch a", "  Question 3 of 3: open", "  | touch c"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        assert_eq!(list.take(&keys("j")), None);
        assert_eq!(list.take(&[Event::Key(Key::Enter)]), None);
        assert!(shown(&list.draw(SIZE)).starts_with("exec wants to run:\n  | touch b\n"));
        assert_eq!(list.take(&[Event::Key(Key::Escape)]), None);
        assert_eq!(list.take(&[Event::Key(Key::Enter)]), None);
        list.draw(SIZE);
        assert_eq!(list.take(&keys("n")), None);
        assert_eq!(list.take(&keys("why")), None);
        assert_eq!(list.take(&[Event::Key(Key::Enter)]), None);
        assert!(shown(&list.draw(SIZE)).contains("> Question 3 of 3: open"));
        assert_eq!(
            list.take(&keys("o")),
            Some(vec![Approval::Once, Approval::Denied { reason: "why".into() }, Approval::Once])
        );
    }

    #[test]
    fn all_are_refused_or_taken_back_together() {
        let requests = [request("touch a", &[None]), request("touch b", &[None])];
        let mut list = List::new(&requests);
        list.draw(SIZE);
        assert_eq!(list.take(&keys("n")), None);
        let no = Approval::Denied { reason: "no reason was given".into() };
        assert_eq!(list.take(&[Event::Key(Key::Enter)]), Some(vec![no.clone(), no]));
        let cancelled = vec![Approval::Cancelled; 2];
        assert_eq!(List::new(&requests).take(&[Event::Key(Key::Interrupt)]), Some(cancelled));
    }

    #[test]
    fn nothing_is_allowed_before_all_was_seen_or_by_a_paste() {
        let requests = [request("touch a", &[None]), request(&"x\n".repeat(60), &[None])];
        let mut list = List::new(&requests);
        let small = Size { rows: 10, columns: 80 };
        list.draw(small);
        assert_eq!(list.take(&keys("o")), None);
        assert_eq!(list.take(&keys("q")), None);
        list.draw(small);
        assert_eq!(list.take(&[Event::Paste("o".into())]), None);
        assert_eq!(list.take(&keys("oo")), None);
        assert!(shown(&list.draw(small)).contains("press one key"));
        assert_eq!(list.take(&keys("o")), Some(vec![Approval::Once; 2]));
    }
}
