//! One line a call, for people or for programs.

use std::fmt::Write as _;

use anstyle::Style;
use helve::store::{CallRow, CallState};
use serde_json::Value;

use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{moment, ui};

/// Columns before the arguments: time, call, tool, state, duration, and the gaps between.
const BEFORE_ARGUMENTS: usize = 19 + 28 + 12 + 19 + 10 + 10;

/// Prints rows; the head of the table once, before the first.
pub(super) struct Printer {
    json: bool,
    room: usize,
    headed: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        // Where nobody counts columns, enough to recognize a command.
        let room = ui::columns().map_or(100, |columns| columns.saturating_sub(BEFORE_ARGUMENTS).max(20));
        Printer { json, room, headed: false }
    }

    pub(super) fn print(&mut self, rows: &[CallRow]) -> Result<(), Failure> {
        if self.json {
            return rows.iter().try_for_each(ui::print_json);
        }
        let mut text = String::new();
        if !self.headed && !rows.is_empty() {
            self.headed = true;
            let head = format!(
                "{:19}  {:28}  {:12}  {:19}  {:>10}  ARGUMENTS",
                "TIME (UTC)", "CALL", "TOOL", "STATE", "DURATION"
            );
            let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &head));
        }
        for row in rows {
            let (style, state) = state(row);
            let state = ui::styled(style, &format!("{:19}", one_line(state, 19)));
            let tool = one_line(row.tool.as_deref().unwrap_or("?"), 12);
            let duration = row.duration_us.map(moment::show_duration).unwrap_or_default();
            let _ = writeln!(
                text,
                "{:19}  {:28}  {tool:12}  {state}  {duration:>10}  {}",
                moment::show(row.at_us),
                row.call,
                one_line(&words(row), self.room),
            );
        }
        ui::print_styled(&text)
    }
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
