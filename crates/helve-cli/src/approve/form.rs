//! What a longer yes would allow: one rule for each part of the command that can have one, each of which can be edited,
//! what it is bound to, where it holds and until when; and the parts that will be asked about again. Pure, like the
//! question around it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anstyle::Style;
use helve::{Approval, ApprovalRequest, AskedPart, Grant, Lasting, Scope};

use super::editor::{Edit, Editor};
use super::keys::{Event, Key};
use super::page::{Document, Pager};
use super::screen::{self, Screen};
use super::terminal::Size;
use crate::ui;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What people may not expect of a session.
pub(super) const SESSION_MEANS: &str = "A session is a name, not this process: the rules hold in every process that uses \
    the name, for at most 24 hours. Without --session it is the day's date (UTC).";

/// Until when a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Revoked,
    Tomorrow,
    Month,
}

/// A rule for one part of the command.
struct Rule {
    /// The part, an index into the parts of the request.
    part: usize,
    pattern: String,
    /// The directory that it is bound to.
    directory: Option<PathBuf>,
    /// The files whose content it is bound to.
    scripts: Vec<String>,
}

/// The rules of an answer that is being given.
pub(super) struct Form {
    lasting: Lasting,
    session: String,
    workspace: PathBuf,
    rules: Vec<Rule>,
    /// The parts that have no rule.
    asked_again: Vec<String>,
    scope: Scope,
    until: Until,
    /// Which row the cursor is on: the rules, then where, then until when.
    row: usize,
    /// Whether the next screen shows where the cursor is.
    moved: bool,
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
        let (mut rules, mut asked_again) = (Vec::new(), Vec::new());
        for (at, part) in request.parts.iter().enumerate() {
            match part.offer.clone().filter(|_| can_last(request, part)) {
                Some(pattern) => {
                    let scripts = part.scripts.iter().map(|script| script.path.clone()).collect();
                    rules.push(Rule { part: at, pattern, directory: part.directory.clone(), scripts });
                }
                None => asked_again.push(part.text.clone()),
            }
        }
        Form {
            lasting,
            session: request.session.clone(),
            workspace: request.workspace.clone(),
            rules,
            asked_again,
            scope: Scope::Workspace,
            until: Until::Revoked,
            row: 0,
            moved: false,
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
        self.rules.len() + if self.lasting == Lasting::Always { 2 } else { 0 }
    }

    pub(super) fn draw(&mut self, size: Size, notice: Option<&'static str>) -> Screen {
        let (document, heads) = self.document();
        if std::mem::take(&mut self.moved) {
            let (_, starts) = document.rows(size.columns);
            let row = heads.get(self.row).and_then(|line| starts.get(*line));
            self.pager.go_to(row.copied().unwrap_or(0));
        }
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

    /// The rules, and the line on which each row that the cursor can be on begins.
    fn document(&self) -> (Document, Vec<usize>) {
        let mut page = Document::default();
        let mut heads = Vec::with_capacity(self.rows());
        let head = match self.lasting {
            Lasting::Always => "Run it, and from now on allow without asking:".to_owned(),
            _ => format!("Run it, and in the session {} allow without asking:", self.session),
        };
        page.prose(ui::STRONG, &head);
        for (at, rule) in self.rules.iter().enumerate() {
            heads.push(page.len());
            page.prose(self.style(at), &format!("{} rule {}", self.pointer(at), at + 1));
            page.quoted(&rule.pattern, &[]);
            if let Some(directory) = &rule.directory {
                page.entry("only in", &self.place(directory));
            }
            for script in &rule.scripts {
                page.entry("only while", &format!("{script} is as it is now"));
            }
        }
        if !self.asked_again.is_empty() {
            page.gap();
            page.prose(Style::new(), "Run this once too, and ask about it again:");
            self.asked_again.iter().for_each(|text| page.quoted(text, &[]));
        }
        page.gap();
        if self.lasting == Lasting::Always {
            let at = self.rules.len();
            let scope = match self.scope {
                Scope::User => "everywhere",
                _ => "this workspace",
            };
            let until = match self.until {
                Until::Revoked => "until it is revoked",
                Until::Tomorrow => "for 1 day",
                Until::Month => "for 30 days",
            };
            heads.push(page.len());
            page.prose(self.style(at), &format!("{} where: {scope}", self.pointer(at)));
            heads.push(page.len());
            page.prose(self.style(at + 1), &format!("{} how long: {until}", self.pointer(at + 1)));
        } else {
            page.prose(Style::new(), SESSION_MEANS);
        }
        (page, heads)
    }

    /// A directory as a rule is bound to it: everywhere else than in one workspace, by its place in the workspace.
    fn place(&self, directory: &Path) -> String {
        match directory.strip_prefix(&self.workspace) {
            Ok(below) if self.lasting == Lasting::Always && self.scope == Scope::User => {
                match below.as_os_str().is_empty() {
                    true => "the top directory of any workspace".to_owned(),
                    false => format!("{} of any workspace", below.display()),
                }
            }
            _ => directory.display().to_string(),
        }
    }

    fn pointer(&self, row: usize) -> char {
        if self.row == row { '>' } else { ' ' }
    }

    fn style(&self, row: usize) -> Style {
        if self.row == row { ui::STRONG } else { Style::new() }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let on_pattern = self.row < self.rules.len();
        match key {
            Key::Escape | Key::Char('q') => return Step::Back,
            Key::Char('y') if self.pager.seen_end() => return Step::Answer(self.answer()),
            Key::Up => self.go(self.row.saturating_sub(1)),
            Key::Down | Key::Tab => self.go((self.row + 1).min(self.rows().saturating_sub(1))),
            Key::Char('e') | Key::Enter if on_pattern => {
                self.editing = self.rules.get(self.row).map(|rule| Editor::new(&rule.pattern));
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
        (self.row, self.moved) = (row, true);
    }

    fn change(&mut self, back: bool) {
        if self.row == self.rules.len() {
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
                let Some(rule) = self.rules.get_mut(self.row) else { return };
                match request.accepts(rule.part, &text) {
                    Ok(()) => {
                        rule.pattern = text;
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
        let grant = |rule: &Rule| Grant { pattern: rule.pattern.clone(), scope, expires, part: rule.part };
        let grants = self.rules.iter().map(grant).collect();
        match self.lasting {
            Lasting::Always => Approval::Always { grants },
            _ => Approval::Session { grants },
        }
    }
}

/// Whether a longer answer can hold for a part. A rule for what another program starts is no use as long as that program
/// has none.
pub(super) fn can_last(request: &ApprovalRequest, part: &AskedPart) -> bool {
    let run = request.analysis.as_ref().zip(part.run).and_then(|(analysis, run)| analysis.runs.get(run));
    let alone = run.is_none_or(|run| run.via.is_empty());
    part.offer.is_some() && (alone || request.parts.iter().all(|part| part.offer.is_some()))
}
