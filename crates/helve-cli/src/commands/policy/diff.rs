//! `helve policy diff`: what differs between two configurations, in settings and in what they decide.

use std::fmt::Write as _;
use std::path::Path;

use helve::{Change, Decision, Policy, Sources};
use serde_json::Value;

use super::past;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui, verdict};

pub(super) fn diff(global: &Global, a: &Path, b: &Path, commands: Option<&Path>) -> Result<(), Failure> {
    let commands = match commands {
        Some(file) => past::from_file(file)?,
        None => past::from_journal(global)?,
    };
    let commands: Vec<String> = commands.into_iter().map(|seen| seen.command).collect();
    let (before, after) = (load(global, a)?, load(global, b)?);
    let changes = helve::diff(&before, &after, &commands, &setup::workspace(global)?);
    if global.json {
        return ui::print_json(&changes);
    }
    let mut text = String::new();
    let mut decided = 0;
    for change in &changes {
        match change {
            Change::Setting { key, before, after } => {
                let (before, after) = (value(before), value(after));
                let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &harmless(key)));
                let _ = writeln!(text, "  {} {before}\n  {} {after}", minus(), plus());
            }
            Change::Verdict { command, before, after } => {
                decided += 1;
                let way = match after.verdict.cmp(&before.verdict) {
                    std::cmp::Ordering::Less => ui::styled(ui::CAREFUL, " (laxer)"),
                    std::cmp::Ordering::Equal => String::new(),
                    std::cmp::Ordering::Greater => ui::styled(ui::GOOD, " (stricter)"),
                };
                let _ = writeln!(text, "{}{way}", one_line(command, usize::MAX));
                let _ = writeln!(text, "  {} {}\n  {} {}", minus(), said(before), plus(), said(after));
            }
        }
    }
    let settings = changes.len() - decided;
    let _ = writeln!(
        text,
        "{settings} settings differ; {decided} of {} commands are decided otherwise.",
        commands.len()
    );
    ui::print_styled(&text)
}

/// One configuration in place of the user's; the machine's file and `--set` hold for both.
fn load(global: &Global, file: &Path) -> Result<Policy, Failure> {
    let sources = Sources { user: Some(file.to_owned()), user_required: true, ..setup::sources(global) };
    Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))
}

fn value(value: &Value) -> String {
    if value.is_null() { "not set".to_owned() } else { one_line(&value.to_string(), usize::MAX) }
}

fn said(decision: &Decision) -> String {
    format!("{}  {}", verdict::column(decision.verdict), one_line(&decision.rule, 80))
}

fn minus() -> String {
    ui::styled(ui::BAD, "-")
}

fn plus() -> String {
    ui::styled(ui::GOOD, "+")
}
