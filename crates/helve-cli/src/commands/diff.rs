//! `helve diff`: what a call changed in files, as a unified diff.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use clap::Args as ClapArgs;
use helve::store::{FileState, UndoChange, UndoStage};
use helve::{Runtime, ToolError};
use serde::Serialize;

use super::undo;
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::setup::{self, Running};
use crate::ui;

const PLACE: Style = AnsiColor::Cyan.on_default();

/// Show what a call changed in files
#[derive(ClapArgs)]
#[command(long_about = "\
Show what a call changed in files of the workspace, as a unified diff. Without CALL it is the last call that changed \
something here and was not undone (of one session with --session). `helve undo --list` lists them, `helve commit --list` \
those whose changes wait. A file that has changed since is marked so. With --json: one object with the paths, what they were and are, and their diffs.")]
#[command(after_help = "\
Examples:
  helve diff
  helve diff c_01JZ4M5V6W7X8Y9Z0ABCDEFGHJ
  helve diff --json")]
pub(crate) struct Options {
    /// The call; `helve undo --list` and `helve log` show them
    call: Option<String>,
}

/// What a program reads.
#[derive(Serialize)]
struct Shown<'a> {
    call: &'a str,
    tool: &'a str,
    session: &'a str,
    undone: bool,
    /// Whether nothing has happened yet: the changes wait to be committed or discarded.
    pending: bool,
    files: Vec<ShownFile>,
}

#[derive(Serialize)]
struct ShownFile {
    #[serde(flatten)]
    change: UndoChange,
    /// None where there is no text to compare, or too much.
    diff: Option<String>,
    changed_since: bool,
}

pub(crate) fn diff(global: &Global, options: Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let session = setup::named_session(global, &policy);
    let running = Running::new(global, policy)?;
    undo::settle(&running.runtime);
    let call = match options.call {
        Some(call) => call,
        None => {
            let entries = undo::of_named(global, &running.runtime, session.as_deref())?;
            undo::last(&entries).ok_or_else(undo::none)?.record.call.clone()
        }
    };
    let entry = running.runtime.file_call(&call).map_err(|error| told(&error))?;
    let waits = entry.stage == UndoStage::Pending;
    let changes = entry.record.changes.clone();
    let files = running.block_on(|runtime, _, _| async move {
        let mut files = Vec::new();
        for change in changes {
            files.push(file(&runtime, change, waits).await?);
        }
        Ok::<_, Failure>(files)
    })??;
    let record = &entry.record;
    if global.json {
        let (call, tool, session) = (&record.call, &record.tool, &record.session);
        ui::print_json(&Shown { call, tool, session, undone: entry.undone, pending: waits, files })?;
        return Ok(0);
    }
    if waits {
        ui::note(&format!(
            "{0} has changed nothing yet: `helve commit {0}` or `helve discard {0}`",
            record.call
        ));
    }
    let mut text = String::new();
    for file in &files {
        text.push_str(&coloured(file));
    }
    ui::print_styled(&text)?;
    Ok(0)
}

async fn file(runtime: &Runtime, change: UndoChange, waits: bool) -> Result<ShownFile, Failure> {
    let contents = runtime.file_contents(&change).await.map_err(|error| told(&error))?;
    let side = |state: &FileState, content: Option<Vec<u8>>| match state {
        FileState::File { .. } => content,
        _ => Some(Vec::new()),
    };
    let both = side(&change.was, contents.before).zip(side(&change.is, contents.after));
    let is_file = |state: &FileState| matches!(state, FileState::File { .. });
    let both = both.filter(|_| is_file(&change.was) || is_file(&change.is));
    let diff = both.and_then(|(before, after)| helve::unified_diff(&change.path, &before, &after));
    let as_expected = if waits { contents.as_before } else { contents.untouched };
    Ok(ShownFile { change, diff, changed_since: !as_expected })
}

/// What a call changed, for a person.
pub(super) async fn of_call(runtime: &Runtime, call: &str) -> Result<String, Failure> {
    let entry = runtime.file_call(call).map_err(|error| told(&error))?;
    let mut text = String::new();
    let waits = entry.stage == UndoStage::Pending;
    for change in entry.record.changes {
        text.push_str(&coloured(&file(runtime, change, waits).await?));
    }
    Ok(text)
}

/// What was changed since a call, in the files that it changed.
pub(super) async fn since(runtime: &Runtime, call: &str) -> Result<String, Failure> {
    let entry = runtime.file_call(call).map_err(|error| told(&error))?;
    let mut text = String::new();
    for change in &entry.record.changes {
        let contents = runtime.file_contents(change).await.map_err(|error| told(&error))?;
        if contents.untouched {
            continue;
        }
        let (after, now) = (contents.after.unwrap_or_default(), contents.now.unwrap_or_default());
        if let Some(diff) = helve::unified_diff(&change.path, &after, &now) {
            text.push_str(&lines(&diff));
        }
    }
    Ok(text)
}

fn coloured(file: &ShownFile) -> String {
    let change = &file.change;
    let name = one_line(&change.path, 200);
    let mode = |mode: u32| format!("{mode:04o}");
    let what = match (&change.was, &change.is) {
        (FileState::Absent, FileState::Directory | FileState::Folder { .. }) => "made the directory",
        (FileState::Folder { .. }, FileState::Folder { .. }) => "changed the directory",
        (FileState::Directory | FileState::Folder { .. }, FileState::Absent) => "removed the directory",
        (FileState::Absent, FileState::Link { .. }) => "made the link",
        (FileState::Link { .. }, FileState::Absent) => "removed the link",
        (FileState::Absent, _) => "made",
        (_, FileState::Absent) => "removed",
        _ => "changed",
    };
    let bits = |state: &FileState| match state {
        FileState::File { mode, .. } | FileState::Folder { mode, .. } => Some(*mode),
        _ => None,
    };
    let mut text = String::new();
    let since = if file.changed_since { ", and changed since" } else { "" };
    let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &format!("{what} {name}{since}")));
    if let (Some(was), Some(is)) = (bits(&change.was), bits(&change.is))
        && was != is
    {
        let _ = writeln!(text, "mode {} became {}", mode(was), mode(is));
    }
    let differing = match &change.is {
        FileState::Absent => Vec::new(),
        is => is.attributes().differing(change.was.attributes()),
    };
    for name in differing {
        let value = |state: &FileState| match state.attributes().get(name) {
            Some(value) if name.starts_with("user.") => format!("\"{}\"", value.escape_ascii()),
            Some(_) => "a list".to_owned(),
            None => "none".to_owned(),
        };
        let (was, is) = (one_line(&value(&change.was), 100), one_line(&value(&change.is), 100));
        let _ = writeln!(text, "attribute {} {was} became {is}", one_line(name, 100));
    }
    if let FileState::Link { target } = &change.is {
        let _ = writeln!(text, "leads to {}", one_line(target, 200));
    }
    match (&file.diff, &change.was, &change.is) {
        (Some(diff), ..) => text.push_str(&lines(diff)),
        (None, FileState::File { .. }, _) | (None, _, FileState::File { .. }) => {
            let _ = writeln!(text, "(no diff: the same text, no text, too long, or not kept)");
        }
        _ => {}
    }
    text
}

/// A diff with the colours that people know.
pub(super) fn lines(diff: &str) -> String {
    let mut text = String::new();
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => ui::GOOD,
            Some(b'-') => ui::BAD,
            Some(b'@') => PLACE,
            _ => Style::new(),
        };
        let _ = writeln!(text, "{}", ui::styled(style, &harmless(line)));
    }
    text
}

/// An error of the runtime as one of this command.
pub(super) fn told(error: &ToolError) -> Failure {
    let hint = error.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
    Failure::of_kind(error.kind, error.kind.exit_code(), format!("{}{hint}", error.message))
}
