//! `helve policy learn`: rules that would have allowed what was run, as TOML. Nothing is written unless that is asked for.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use helve::{Observation, Policy, ProposedRule, Sources};
use serde_json::json;

use super::past;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{setup, ui};

pub(super) fn learn(
    global: &Global,
    since: Option<u64>,
    commands: Option<&Path>,
    write: bool,
) -> Result<(), Failure> {
    let seen = match commands {
        Some(file) => past::from_file(file)?,
        None => past::from_journal(global, since, true)?,
    };
    let count = seen.len();
    let seen: Vec<Observation> =
        seen.into_iter().map(|seen| Observation { command: seen.command, count: seen.count }).collect();
    let workspace = setup::workspace(global)?;
    let home = std::env::home_dir();
    let proposed = helve::learn(&seen, &workspace, home.as_deref());
    let text = document(&proposed, count);
    if global.json {
        ui::print_json(&json!({"commands": count, "proposed": proposed}))?;
    } else {
        // What is printed can be put into a file as it is, so that nothing in it may be obeyed by a terminal.
        ui::print(&harmless(&text))?;
    }
    if write && !proposed.is_empty() {
        append(global, &text)?;
    }
    Ok(())
}

fn document(proposed: &[ProposedRule], commands: usize) -> String {
    let mut text =
        format!("# Proposed by `helve policy learn` from {commands} different commands that were run.\n");
    if proposed.is_empty() {
        text.push_str(
            "# None of them makes a rule: they are opaque, or a rule for them would give away too much.\n",
        );
    } else {
        text.push_str("# With an allow list, what no rule is about asks (rules_otherwise).\n");
    }
    for rule in proposed {
        let _ = write!(text, "\n{}", rule.toml());
    }
    text
}

/// Adds the rules to the user's file, if that is still sound with them.
fn append(global: &Global, text: &str) -> Result<(), Failure> {
    let file = setup::sources(global).user.ok_or_else(|| {
        Failure::usage("there is no place for a user's file: set XDG_CONFIG_HOME or HOME, or name one with --config FILE")
    })?;
    let cannot =
        |error: std::io::Error| Failure::usage(format!("{} cannot be written: {error}", file.display()));
    let before = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(cannot)?,
    };
    let addition = if before.is_empty() { text.to_owned() } else { format!("\n{text}") };
    check(global, &format!("{before}{addition}"))?;
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    let mut open = File::options().append(true).create(true).open(&file).map_err(cannot)?;
    open.write_all(addition.as_bytes()).and_then(|()| open.sync_all()).map_err(cannot)?;
    ui::note(&harmless(&format!("the rules are added to {}", file.display())));
    Ok(())
}

/// What would be written is a configuration that loads.
fn check(global: &Global, text: &str) -> Result<(), Failure> {
    let refuse =
        |why: String| Failure::usage(format!("nothing is written, because the file would not load: {why}"));
    Policy::from_toml(text).map_err(|error| refuse(error.to_string()))?;
    // The other layers must still be sound too; they do not change.
    let others = Sources { user: None, user_required: false, ..setup::sources(global) };
    Policy::load(&others).map(|_| ()).map_err(|error| refuse(error.to_string()))
}
