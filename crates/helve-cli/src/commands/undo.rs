//! `helve undo`: puts back what was there before a call changed files.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::store::UndoStage;
use helve::{CallResult, ErrorKind, Runtime, UndoEntry};

use super::diff;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::setup::{self, Running};
use crate::{harmless, moment, ui};

/// Put back what was there before a call changed files
#[derive(ClapArgs)]
#[command(long_about = "\
Put back what was there before a call changed files of the workspace: contents, modes, files that were not there, \
directories that it made. All of it or nothing. Without CALL it is the last call that changed something here and was not \
undone yet (of one session with --session), so that doing it again goes further back. A file that has changed since the \
call is a conflict, and what changed is shown; --force puts back what was there before the call and loses that.

An undo is recorded like a call, and can be undone itself by its own id. What is kept for it has a budget \
(limits.undo_store_bytes): the oldest calls cannot be undone any more.")]
#[command(after_help = "\
Examples:
  helve undo
  helve undo --list
  helve undo c_01JZ4M5V6W7X8Y9Z0ABCDEFGHJ
  helve undo --force c_01JZ4M5V6W7X8Y9Z0ABCDEFGHJ")]
pub(crate) struct Options {
    /// The call; `helve undo --list` and `helve log` show them
    call: Option<String>,
    /// Put back also what has changed since the call
    #[arg(long)]
    force: bool,
    /// Only list the calls that can be undone, the newest first
    #[arg(long, conflicts_with_all = ["call", "force"])]
    list: bool,
}

pub(crate) fn undo(global: &Global, options: Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let session = setup::named_session(global, &policy);
    let running = Running::new(global, policy)?;
    settle(&running.runtime);
    if options.list {
        let entries = of_named(global, &running.runtime, session.as_deref())?;
        let next = last(&entries).map(|entry| entry.record.call.clone());
        return list(&entries, next.as_deref(), global.json);
    }
    let call = match options.call {
        Some(call) => call,
        None => {
            let entries = of_named(global, &running.runtime, session.as_deref())?;
            let record = &last(&entries).ok_or_else(none)?.record;
            let paths: Vec<&str> = record.changes.iter().map(|change| change.path.as_str()).collect();
            let what = format!("{} of {}", record.tool, moment::show(record.at_us));
            ui::note(&format!(
                "the last call is {}: {what}, {}",
                record.call,
                one_line(&paths.join(" "), 100)
            ));
            record.call.clone()
        }
    };
    let (result, changed) = running.block_on(|runtime, _, _| async move {
        let result = runtime.undo(&call, options.force).await.map_err(|error| diff::told(&error))?;
        let changed = match result.error.as_ref().map(|error| error.kind) {
            Some(ErrorKind::Conflict) => diff::since(&runtime, &call).await.unwrap_or_default(),
            _ => String::new(),
        };
        Ok::<_, Failure>((result, changed))
    })??;
    show(&result, &changed, global.json)?;
    Ok(result.exit_code())
}

pub(super) fn show(result: &CallResult, changed: &str, json: bool) -> Result<(), Failure> {
    if json {
        return ui::print_json(result);
    }
    for note in &result.notes {
        ui::note(&harmless::harmless(note));
    }
    ui::print(&result.text())?;
    ui::print_styled(changed)
}

/// The calls that changed files here.
pub(super) fn of_session(runtime: &Runtime, session: Option<&str>) -> Result<Vec<UndoEntry>, Failure> {
    let mut entries = runtime.file_calls().map_err(|error| diff::told(&error))?;
    if let Some(session) = session {
        entries.retain(|entry| entry.record.session == session);
    }
    Ok(entries)
}

/// The same for a command. A session that an option names has to be there.
pub(super) fn of_named(
    global: &Global,
    runtime: &Runtime,
    session: Option<&str>,
) -> Result<Vec<UndoEntry>, Failure> {
    let entries = of_session(runtime, session)?;
    if let (true, Some(session)) = (entries.is_empty(), &global.session) {
        let known = setup::existing_home()?.map(|home| home.sessions_ever_seen()).transpose()?;
        if !known.is_some_and(|known| known.contains(session)) {
            return Err(Failure::no_session(session));
        }
    }
    Ok(entries)
}

/// Says what became of calls that died, so that those of which nothing is left are not among the others.
pub(super) fn settle(runtime: &Runtime) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // What is in the way is told by whatever comes next.
    let told = tokio.ok().and_then(|tokio| tokio.block_on(runtime.settle()).ok());
    for note in told.into_iter().flatten() {
        ui::note(&harmless::harmless(&note));
    }
}

/// The last call that changed something and is still in force.
pub(super) fn last(entries: &[UndoEntry]) -> Option<&UndoEntry> {
    entries.iter().find(|entry| !entry.undone && entry.record.undoes.is_none())
}

/// Nothing can be undone.
pub(super) fn none() -> Failure {
    Failure::not_found("no call has changed files here that could be undone. `helve undo --list` shows all")
}

fn list(entries: &[UndoEntry], next: Option<&str>, json: bool) -> Result<u8, Failure> {
    if json {
        ui::print_json(&entries)?;
        return Ok(0);
    }
    if entries.is_empty() {
        ui::note("no call has changed files here");
        return Ok(0);
    }
    let mut text = String::new();
    let head = format!("{:19}  {:28}  {:12}  {:8}  FILES", "TIME (UTC)", "CALL", "TOOL", "STATE");
    let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &head));
    for entry in entries {
        let record = &entry.record;
        let (style, state) = match (entry.undone, entry.stage) {
            (true, _) => (ui::FAINT, "undone"),
            (false, UndoStage::Cut) => (ui::BAD, "cut"),
            (false, _) => (ui::GOOD, "done"),
        };
        let paths: Vec<&str> = record.changes.iter().map(|change| change.path.as_str()).collect();
        let _ = writeln!(
            text,
            "{:19}  {:28}  {:12}  {}  {}",
            moment::show(record.at_us),
            record.call,
            one_line(&record.tool, 12),
            ui::styled(style, &format!("{state:8}")),
            one_line(&paths.join(" "), 100),
        );
    }
    ui::print_styled(&text)?;
    if let Some(next) = next {
        ui::note(&format!("`helve undo` takes {next}"));
    }
    Ok(0)
}
