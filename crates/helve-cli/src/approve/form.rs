//! What a longer yes would allow: one rule for each part of the command, each of which can be edited, where it holds and
//! until when. Pure, like the question around it.

use std::time::{Duration, SystemTime};

use anstyle::Style;
use helve::{Approval, ApprovalRequest, Grant, Lasting, Scope};

use super::editor::{Edit, Editor};
use super::keys::{Event, Key};
use super::page::{Document, Pager};
use super::screen::{self, Screen};
use super::terminal::Size;
use crate::ui;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Until when a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Revoked,
    Tomorrow,
    Month,
}

/// The rules of an answer that is being given.
pub(super) struct Form {
    lasting: Lasting,
    session: String,
    patterns: Vec<String>,
    scope: Scope,
    until: Until,
    /// Which row the cursor is on: the patterns, then where, then until when.
    row: usize,
    editing: Option<Editor>,
    /// Why the edited rule is not taken.
    problem: Option<String>,
    pager: Pager,
    height: usize,
}

/// What came of a key.
pub(super) enum Step {
    Stay,
    Back,
    Answer(Approval),
}

impl Form {
    pub(super) fn new(request: &ApprovalRequest, lasting: Lasting) -> Self {
        Form {
            lasting,
            session: request.session.clone(),
            patterns: request.parts.iter().map(|part| part.offer.clone().unwrap_or_default()).collect(),
            scope: Scope::Workspace,
            until: Until::Revoked,
            row: 0,
            editing: None,
            problem: None,
            pager: Pager::default(),
            height: 1,
        }
    }

    pub(super) fn edits(&self) -> bool {
        self.editing.is_some()
    }

    fn rows(&self) -> usize {
        self.patterns.len() + if self.lasting == Lasting::Always { 2 } else { 0 }
    }

    pub(super) fn draw(&mut self, size: Size, notice: Option<&'static str>) -> Screen {
        let document = self.document();
        let problem = self.problem.clone();
        let edits = self.edits();
        let footer = |position: Option<&str>, seen_end: bool| {
            let mut rows = screen::rule(position, notice);
            if let Some(problem) = &problem {
                rows.push(ui::styled(ui::BAD, &crate::harmless::one_line(problem, size.columns)));
            }
            rows.push(match (edits, seen_end) {
                (true, _) => "[Enter] take it  [Esc] leave it as it was".to_owned(),
                (false, true) => {
                    "[y] allow and run  [e]dit  [up/down]  [left/right] change  [Esc] back".to_owned()
                }
                (false, false) => "[down/space] read on  [Esc] back".to_owned(),
            });
            rows
        };
        let screen = match &self.editing {
            Some(editor) => screen::with_editor(&document, &mut self.pager, size, footer, editor),
            None => screen::paged(&document, &mut self.pager, size, footer),
        };
        self.height = screen.page_height;
        screen
    }

    fn document(&self) -> Document {
        let mut page = Document::default();
        let head = match self.lasting {
            Lasting::Always => "Run it, and from now on allow without asking:".to_owned(),
            _ => format!("Run it, and in the session {} allow without asking:", self.session),
        };
        page.prose(ui::STRONG, &head);
        for (at, pattern) in self.patterns.iter().enumerate() {
            page.prose(self.style(at), &format!("{} rule {}", self.pointer(at), at + 1));
            page.quoted(pattern, &[]);
        }
        if self.lasting == Lasting::Always {
            let at = self.patterns.len();
            let scope = match self.scope {
                Scope::User => "everywhere",
                _ => "this workspace",
            };
            let until = match self.until {
                Until::Revoked => "until it is revoked",
                Until::Tomorrow => "for 1 day",
                Until::Month => "for 30 days",
            };
            page.gap();
            page.prose(self.style(at), &format!("{} where: {scope}", self.pointer(at)));
            page.prose(self.style(at + 1), &format!("{} how long: {until}", self.pointer(at + 1)));
        }
        page
    }

    fn pointer(&self, row: usize) -> char {
        if self.row == row { '>' } else { ' ' }
    }

    fn style(&self, row: usize) -> Style {
        if self.row == row { ui::STRONG } else { Style::new() }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let on_pattern = self.row < self.patterns.len();
        match key {
            Key::Escape | Key::Char('q') => return Step::Back,
            Key::Char('y') if self.pager.seen_end() => return Step::Answer(self.answer()),
            Key::Up => self.go(self.row.saturating_sub(1)),
            Key::Down | Key::Tab => self.go((self.row + 1).min(self.rows().saturating_sub(1))),
            Key::Char('e') | Key::Enter if on_pattern => {
                self.editing = self.patterns.get(self.row).map(|pattern| Editor::new(pattern));
                self.problem = None;
            }
            Key::Left | Key::Right | Key::Enter | Key::Char('e') if !on_pattern => {
                self.change(key == Key::Left);
            }
            Key::Char(' ' | 'b') | Key::PageUp | Key::PageDown => {
                self.pager.key(key, self.height);
            }
            _ => {}
        }
        Step::Stay
    }

    /// Moves the cursor; what it stands on is on the screen.
    fn go(&mut self, row: usize) {
        self.row = row;
        // Two lines for each rule behind the heading; near enough where rules take several rows.
        let line = if row < self.patterns.len() { 2 * row } else { usize::MAX };
        self.pager.go_to(line);
    }

    fn change(&mut self, back: bool) {
        if self.row == self.patterns.len() {
            self.scope = if self.scope == Scope::User { Scope::Workspace } else { Scope::User };
            return;
        }
        self.until = match (self.until, back) {
            (Until::Revoked, false) | (Until::Month, true) => Until::Tomorrow,
            (Until::Tomorrow, false) | (Until::Revoked, true) => Until::Month,
            (Until::Month, false) | (Until::Tomorrow, true) => Until::Revoked,
        };
    }

    /// A key or a paste while a rule is edited. A rule that would not be taken stays in the editor, with the reason.
    pub(super) fn edit(&mut self, event: &Event, request: &ApprovalRequest) {
        let Some(editor) = self.editing.as_mut() else { return };
        match editor.take(event) {
            Edit::Going => self.problem = None,
            Edit::GivenUp => (self.editing, self.problem) = (None, None),
            Edit::Done => {
                let text = editor.text().trim().to_owned();
                match request.accepts(self.row, &text) {
                    Ok(()) => {
                        if let Some(pattern) = self.patterns.get_mut(self.row) {
                            *pattern = text;
                        }
                        (self.editing, self.problem) = (None, None);
                    }
                    Err(problem) => self.problem = Some(problem),
                }
            }
        }
    }

    fn answer(&self) -> Approval {
        let (scope, until) = match self.lasting {
            Lasting::Always => (self.scope, self.until),
            _ => (Scope::Session, Until::Revoked),
        };
        let expires = match until {
            Until::Revoked => None,
            Until::Tomorrow => Some(SystemTime::now() + DAY),
            Until::Month => Some(SystemTime::now() + 30 * DAY),
        };
        let grants = self.patterns.iter().enumerate();
        let grants =
            grants.map(|(part, pattern)| Grant { pattern: pattern.clone(), scope, expires, part }).collect();
        match self.lasting {
            Lasting::Always => Approval::Always { grants },
            _ => Approval::Session { grants },
        }
    }
}
