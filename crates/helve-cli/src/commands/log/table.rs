//! One line a call, for people or for programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anstyle::Style;
use helve::store::{CallRow, CallState, Home, Undo};
use serde::Serialize;
use serde_json::Value;

use super::sound::Journals;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, ui};

/// Columns before the arguments: time, call, tool, state, duration, undo, and the gaps between.
const BEFORE_ARGUMENTS: usize = 19 + 28 + 12 + 19 + 10 + 4 + 12;

/// A call for a program to read.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    row: &'a CallRow,
    /// Whether `helve undo` can put back what it changed.
    can_undo: bool,
    /// Whether what it would change waits for `helve commit` or `helve discard`.
    pending: bool,
    /// Whether the journal that has it is what was written; none where that was not checked.
    verified: Option<bool>,
}

/// Prints rows; the head of the table once, before the first.
pub(super) struct Printer<'j> {
    json: bool,
    journals: &'j mut Journals,
    /// What calls can be undone; none where nothing is kept.
    undo: Option<Undo>,
    /// Whether a call that can be undone was printed.
    pub(super) any_undo: bool,
    room: usize,
    headed: bool,
}

impl<'j> Printer<'j> {
    pub(super) fn new(json: bool, home: &Home, journals: &'j mut Journals) -> Self {
        // Where nobody counts columns, enough to recognize a command.
        let room = ui::columns().map_or(100, |columns| columns.saturating_sub(BEFORE_ARGUMENTS).max(20));
        Printer { json, journals, undo: Undo::open(home).ok(), any_undo: false, room, headed: false }
    }

    /// What is printed from here on came later than all before.
    pub(super) fn anew(&mut self) {
        self.journals.anew();
    }

    /// Says what is wrong with the journal of a session, whether or not a row of it is printed.
    pub(super) fn ask(&mut self, session: &str) {
        self.journals.is_sound(session);
    }

    pub(super) fn print(&mut self, rows: &[CallRow]) -> Result<(), Failure> {
        let undo = self.undo.as_ref().map(|undo| can_undo(undo, rows)).unwrap_or_default();
        self.any_undo |= !undo.is_empty();
        let pending: BTreeSet<String> =
            self.undo.iter().flat_map(Undo::pending).flatten().map(|record| record.call).collect();
        let verified: Vec<Option<bool>> =
            rows.iter().map(|row| self.journals.is_sound(&row.session)).collect();
        if self.json {
            return rows.iter().zip(verified).try_for_each(|(row, verified)| {
                let (can_undo, pending) = (undo.contains(&row.call), pending.contains(&row.call));
                ui::heard::print_json(&Shown { row, can_undo, pending, verified })
            });
        }
        let mut text = String::new();
        if !self.headed && !rows.is_empty() {
            self.headed = true;
            let head = format!(
                "{:19}  {:28}  {:12}  {:19}  {:>10}  {:4}  ARGUMENTS",
                "TIME (UTC)", "CALL", "TOOL", "STATE", "DURATION", "UNDO"
            );
            let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &head));
        }
        for row in rows {
            let (style, state) = state(row);
            let state = ui::styled(style, &format!("{:19}", one_line(state, 19)));
            let tool = one_line(row.tool.as_deref().unwrap_or("?"), 12);
            let duration = row.duration_us.map(moment::show_duration).unwrap_or_default();
            let mark = match (undo.contains(&row.call), pending.contains(&row.call)) {
                (true, _) => "yes",
                (false, true) => "wait",
                (false, false) => "",
            };
            let _ = writeln!(
                text,
                "{:19}  {:28}  {tool:12}  {state}  {duration:>10}  {mark:4}  {}",
                moment::show(row.at_us),
                row.call,
                one_line(&words(row), self.room),
            );
        }
        ui::heard::print_styled(&text)
    }
}

/// Which of the calls can be undone.
fn can_undo(undo: &Undo, rows: &[CallRow]) -> BTreeSet<String> {
    let Some(first) = rows.iter().map(|row| row.call.as_str()).min() else { return BTreeSet::new() };
    let in_force = undo.in_force(first).unwrap_or_default();
    rows.iter().map(|row| row.call.clone()).filter(|call| in_force.contains_key(call)).collect()
}

/// How a call stands, in a word.
pub(super) fn state(row: &CallRow) -> (Style, &str) {
    match (row.state, row.ok) {
        (CallState::Running, _) => (ui::CAREFUL, "running"),
        (CallState::Cut, _) => (ui::BAD, "cut"),
        (CallState::Done, Some(true)) => (ui::GOOD, "ok"),
        (CallState::Done, _) => (ui::BAD, row.error_kind.as_deref().unwrap_or("failed")),
    }
}

/// The arguments as briefly as they can be recognized: a single text without its JSON around it.
fn words(row: &CallRow) -> String {
    let Some(args) = &row.args else { return String::new() };
    match serde_json::from_str::<Value>(args) {
        Ok(Value::Object(members)) => match members.values().collect::<Vec<_>>()[..] {
            [Value::String(text)] => text.clone(),
            _ => members.get("command").and_then(Value::as_str).unwrap_or(args).to_owned(),
        },
        // Arguments that could not be read are recorded as text.
        Ok(Value::String(text)) => text,
        _ => args.clone(),
    }
}
