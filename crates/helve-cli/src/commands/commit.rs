//! `helve commit`: puts what a command would change into the workspace.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::UndoRecord;

use super::{diff, undo};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::setup::{self, Running};
use crate::{moment, ui};

/// Make happen what a command would change
#[derive(ClapArgs)]
#[command(long_about = "\
Put into the workspace what a command would change: one that ran with tools.exec.mode = \"preview\", or under \
`helve sandbox --dry-run`. All of it or nothing, each file at one moment: contents, modes, links, directories. A path that was \
changed since the command ran is a conflict, which is named, and nothing happens. Without CALL it is the newest that waits here. \
`helve diff CALL` shows what it is.

A commit is recorded like a call, and `helve undo` takes it back.")]
#[command(after_help = "\
Examples:
  helve commit
  helve commit --list
  helve commit c_01JZ4M5V6W7X8Y9Z0ABCDEFGHJ")]
pub(crate) struct Options {
    /// The call; `helve commit --list` and `helve log` show them
    call: Option<String>,
    /// Only list the calls whose changes wait, the newest first
    #[arg(long, conflicts_with = "call")]
    list: bool,
}

pub(crate) fn commit(global: &Global, options: Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let running = Running::new(global, policy)?;
    undo::settle(&running.runtime);
    if options.list {
        return list(&pending(&running)?, global.json);
    }
    let call = named(&running, options.call)?;
    let result = running.block_on(|runtime, _, _| async move {
        runtime.commit(&call).await.map_err(|error| diff::told(&error))
    })??;
    undo::show(&result, "", global.json)?;
    Ok(result.exit_code())
}

/// The calls whose changes wait here.
pub(super) fn pending(running: &Running) -> Result<Vec<UndoRecord>, Failure> {
    running.runtime.pending_calls().map_err(|error| diff::told(&error))
}

/// The call that was named, or the newest that waits.
pub(super) fn named(running: &Running, call: Option<String>) -> Result<String, Failure> {
    if let Some(call) = call {
        return Ok(call);
    }
    let none = || Failure::not_found("no changes wait here to be committed or discarded");
    let newest = pending(running)?.into_iter().next().ok_or_else(none)?;
    ui::note(&format!("the newest that waits is {}: {} paths", newest.call, newest.changes.len()));
    Ok(newest.call)
}

fn list(pending: &[UndoRecord], json: bool) -> Result<u8, Failure> {
    if json {
        ui::print_json(&pending)?;
        return Ok(0);
    }
    if pending.is_empty() {
        ui::note("no changes wait here");
        return Ok(0);
    }
    let mut text = String::new();
    let head = format!("{:19}  {:28}  {:12}  PATHS", "TIME (UTC)", "CALL", "TOOL");
    let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &head));
    for record in pending {
        let paths: Vec<&str> = record.changes.iter().take(20).map(|change| change.path.as_str()).collect();
        let _ = writeln!(
            text,
            "{:19}  {:28}  {:12}  {} {}",
            moment::show(record.at_us),
            record.call,
            one_line(&record.tool, 12),
            record.changes.len(),
            one_line(&paths.join(" "), 100),
        );
    }
    ui::print_styled(&text)?;
    Ok(0)
}
