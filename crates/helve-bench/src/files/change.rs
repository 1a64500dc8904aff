//! `edit_file` beside reading, writing, flushing and renaming the same file with plain system calls.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::tree::large_file;
use super::{Asked, Library, Measured, Place};
use crate::report::{Promise, Row};
use crate::sample::in_turns;

pub(super) fn measure(asked: &Asked<'_>, _: &Place) -> Measured<Vec<Row>> {
    let place = Place::new()?;
    let workspace = place.workspace();
    let library = Library::new(&workspace, &place.root.path().join("state"))?;
    fs::write(workspace.join("edited"), large_file())?;
    fs::write(workspace.join("plain"), large_file())?;
    let rounds = if asked.quick { 5 } else { 101 };
    let plain = || replaced(&workspace);
    // Each edit undoes the one before it, so that the file stays the same.
    let turn = Cell::new(false);
    let edit = |exact: bool| -> Measured<()> {
        let back = turn.replace(!turn.get());
        library.call("edit_file", &toggle(exact, back)).map(drop)
    };
    let miss = || -> Measured<()> {
        match library.any_call("edit_file", &missed()).ok {
            true => Err("an edit was found that is not there".into()),
            false => Ok(()),
        }
    };
    let row = |name: &'static str, pair: crate::sample::Pair, promise| Row {
        name: name.into(),
        subject: pair.subject,
        reference: Some(("read, write, fsync, rename", pair.reference)),
        promise: Promise::Ratio(promise),
        mib: None,
    };
    Ok(vec![
        row("edit_file, exact, 1.3 MB", in_turns(rounds, 1, || edit(true), plain)?, 2.0),
        row("edit_file, other quotes, 1.3 MB", in_turns(rounds, 1, || edit(false), plain)?, 6.0),
        row("edit_file, not found, with hints, 1.3 MB", in_turns(rounds, 1, miss, plain)?, 10.0),
    ])
}

/// An edit of a line near the end, and the one that takes it back; not exact means with typographic quotation marks.
pub(super) fn toggle(exact: bool, back: bool) -> Value {
    let line = |word: &str, open: &str, close: &str| {
        format!("let value_20000 = {word}({open}item 20000{close}, 140000);")
    };
    let (from, to) = if back { ("calculate", "compute") } else { ("compute", "calculate") };
    let (open, close) = if exact { ("\"", "\"") } else { ("\u{201c}", "\u{201d}") };
    json!({"path": "edited", "edits": [{"oldText": line(from, open, close), "newText": line(to, "\"", "\"")}]})
}

/// Text that is nowhere, but much like what is there.
pub(super) fn missed() -> Value {
    let old = "    let value_20000 = compute(\"item 20000\", 140000); // stop\n    let valeu_20001 = compute(\"item 20001\", 140007);";
    json!({"path": "edited", "edits": [{"oldText": old, "newText": "x"}]})
}

fn replaced(workspace: &Path) -> Measured<()> {
    let bytes = fs::read(workspace.join("plain"))?;
    let temporary = workspace.join("plain.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, workspace.join("plain"))?;
    Ok(())
}
