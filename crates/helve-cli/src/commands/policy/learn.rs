//! `helve policy learn`: rules that would have allowed what was run, as TOML. Nothing is written unless that is asked for.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use helve::{Observation, Policy, ProposedRule, Sources};
use serde_json::json;

use super::past::{self, Allowed, Seen};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::harmless;
use crate::{approve, setup, ui};

/// Whether the rules go into the user's file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    No,
    /// After a yes on the terminal.
    Asked,
    /// Without a question.
    Now,
}

pub(super) fn learn(
    global: &Global,
    since: Option<u64>,
    commands: Option<&Path>,
    write: Write,
) -> Result<(), Failure> {
    if write == Write::Asked && !approve::is_somebody_there() {
        return Err(Failure::usage(
            "there is no terminal to ask on before rules are written: look at them without --write first, then add --yes",
        ));
    }
    let seen = match commands {
        Some(file) => Allowed { lasting: past::from_file(file)?, ..Allowed::default() },
        None => past::allowed(global, since)?,
    };
    let workspace = setup::workspace(global)?;
    let home = std::env::home_dir();
    let count = seen.lasting.len();
    let learned = |seen: Vec<Seen>| {
        let seen = seen.into_iter().map(|seen| Observation { command: seen.command, count: seen.count });
        helve::learn(&seen.collect::<Vec<_>>(), &workspace, home.as_deref())
    };
    let proposed = learned(seen.lasting);
    let mut once = learned(seen.once);
    once.retain(|rule| proposed.iter().all(|known| known.command != rule.command));
    let text = document(&proposed, count);
    if global.json {
        ui::print_json(&json!({"commands": count, "proposed": proposed, "allowed_once": once}))?;
    } else {
        // What is printed can be put into a file as it is, so that nothing in it may be obeyed by a terminal.
        ui::print(&harmless(&format!("{text}{}", commented(&once))))?;
    }
    if write == Write::No || proposed.is_empty() {
        return Ok(());
    }
    let file = setup::sources(global).user.ok_or_else(|| {
        Failure::usage("there is no place for a user's file: set XDG_CONFIG_HOME or HOME, or name one with --config FILE")
    })?;
    let question =
        format!("Add these {} rules to {}? [y/N] ", proposed.len(), harmless(&file.display().to_string()));
    if write == Write::Asked && !approve::confirm(&question) {
        ui::note("nothing is written");
        return Ok(());
    }
    append(global, &file, &text)
}

fn document(proposed: &[ProposedRule], commands: usize) -> String {
    let mut text =
        format!("# Proposed by `helve policy learn` from {commands} different commands that were run.\n");
    if commands == 0 {
        text.push_str("# There were none to learn from.\n");
    } else if proposed.is_empty() {
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

/// Rules for what was allowed only once, as comments: whoever said yes to one call did not say it to the next.
fn commented(once: &[ProposedRule]) -> String {
    let mut text = String::new();
    if !once.is_empty() {
        text.push_str("\n# Somebody was asked about these and allowed them only once, so they are proposed as comments.\n");
    }
    for rule in once {
        text.push('\n');
        for line in rule.toml().lines() {
            let _ = writeln!(text, "# {line}");
        }
    }
    text
}

/// Adds the rules to the user's file, if that is still sound with them.
fn append(global: &Global, file: &Path, text: &str) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::usage(format!("{} cannot be written: {error}", file.display()));
    let before = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(cannot)?,
    };
    let addition = if before.is_empty() { text.to_owned() } else { format!("\n{text}") };
    check(global, &format!("{before}{addition}"))?;
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    let mut open = File::options().append(true).create(true).open(file).map_err(cannot)?;
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
