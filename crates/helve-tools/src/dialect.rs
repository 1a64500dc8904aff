//! The dialects: our tools as other agents name and shape them.
//!
//! A file is one agent's table. A row names a tool there, ours, and the parameters; what it does not say of a parameter is
//! ours. A tool of theirs that none of ours can stand for is not in the table, and a tool of ours without a row keeps
//! its own name.
//!
//! Deliberately not here: how a call is translated and checked ([`helve_core::dialect`] and the pipeline).

mod claude;
mod codex;
mod ironclaw;
mod nanobot;
mod openclaw;

use helve_core::Dialect;
use serde_json::{Map, Value};

/// The names of the dialects. The first is our own, which needs no table.
pub const DIALECTS: [&str; 6] = ["helve", "claude", "codex", "ironclaw", "nanobot", "openclaw"];

/// The table of a dialect; none for our own names and for a name that no dialect has.
pub fn dialect(name: &str) -> Option<Dialect> {
    let tools = match name {
        "claude" => claude::tools(),
        "codex" => codex::tools(),
        "ironclaw" => ironclaw::tools(),
        "nanobot" => nanobot::tools(),
        "openclaw" => openclaw::tools(),
        _ => return None,
    };
    let name = DIALECTS.into_iter().find(|known| *known == name)?;
    Some(Dialect { name, tools })
}

/// What is said of the text to replace where there is one replacement a call.
const OLD_TEXT: &str = "The text to replace. It must be in the file exactly once.";
/// Of what stands there afterwards.
const NEW_TEXT: &str = "What stands there afterwards; \"\" deletes it.";
/// Of a replacement of all places.
const EVERYWHERE: &str = "Replace it everywhere.";
/// Of a pattern that is never a plain text.
const PATTERN: &str = "What to look for: a regular expression without look-around and back-references.";

type Args = Map<String, Value>;

/// Nothing to adapt.
fn as_it_is(_: &mut Args) {}

/// Milliseconds become seconds, the last one begun counting as whole.
fn seconds(args: &mut Args, key: &str) {
    if let Some(milliseconds) = args.get(key).and_then(Value::as_u64) {
        args.insert(key.to_owned(), milliseconds.div_ceil(1000).max(1).into());
    }
}

/// The modes of a search as most agents call them.
fn search_mode(args: &mut Args) {
    let ours = match args.get("mode").and_then(Value::as_str) {
        Some("content") => "lines",
        Some("files_with_matches") => "files",
        Some("count") => "count",
        _ => return,
    };
    args.insert("mode".to_owned(), ours.into());
}

/// The keys of each edit get our names.
fn edits(args: &mut Args) {
    let edits = args.get_mut("edits").and_then(Value::as_array_mut);
    for edit in edits.into_iter().flatten().filter_map(Value::as_object_mut) {
        for (theirs, ours) in [("old_string", "oldText"), ("new_string", "newText")] {
            if let Some(text) = edit.remove(theirs) {
                edit.insert(ours.to_owned(), text);
            }
        }
    }
}
