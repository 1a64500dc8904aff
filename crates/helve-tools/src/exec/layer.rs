//! What a command changed in a layer over the workspace, in words and as facts.
//!
//! A file that is gone at one path and new at another with the same content counts as renamed. The text names some paths and
//! shows some diffs; the facts name all paths up to a bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use helve_core::files::Is;
use helve_core::{CallId, LayerEntry, LayerOutcome, LayerReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::paths::shown;

/// How many paths the text names.
const LINES: usize = 40;
/// How many characters of diffs the text shows.
const DIFF_CHARS: usize = 12_000;
/// How many paths the facts name.
const FACTS: usize = 1000;

/// One thing that happened to the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LayerChanged {
    /// `added`, `changed`, `deleted` or `renamed`.
    pub change: String,
    /// `file`, `directory` or `link`.
    pub kind: String,
    /// The path, relative to the workspace; after a rename the new one.
    pub path: String,
    /// The path before a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The permission bits afterwards, where they are new or other ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The extended attributes that are new, other ones or gone, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// What a link leads to afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What changed in the text of a file, where there is text and not too much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// What happened to the workspace, path by path, renames together; with diffs where the report holds contents.
pub fn changed(report: &LayerReport) -> Vec<LayerChanged> {
    let mut gone: BTreeMap<&str, Vec<&LayerEntry>> = BTreeMap::new();
    for entry in &report.changes {
        if let (Is::File { id, .. }, Is::Absent) = (&entry.was, &entry.is) {
            gone.entry(&id.0).or_default().push(entry);
        }
    }
    let mut renamed: BTreeMap<&str, &LayerEntry> = BTreeMap::new();
    for entry in &report.changes {
        if let (Is::Absent, Is::File { id, .. }) = (&entry.was, &entry.is)
            && let Some(from) = gone.get_mut(id.0.as_str()).and_then(Vec::pop)
        {
            renamed.insert(&entry.path, from);
        }
    }
    let left: Vec<&str> = renamed.values().map(|from| from.path.as_str()).collect();
    let here = |entry: &&LayerEntry| !(entry.is == Is::Absent && left.contains(&entry.path.as_str()));
    report
        .changes
        .iter()
        .filter(here)
        .map(|entry| one(entry, renamed.get(entry.path.as_str()).copied()))
        .collect()
}

fn one(entry: &LayerEntry, from: Option<&LayerEntry>) -> LayerChanged {
    let change = match (&entry.was, &entry.is, from) {
        (.., Some(_)) => "renamed",
        (Is::Absent, ..) => "added",
        (_, Is::Absent, _) => "deleted",
        _ => "changed",
    };
    let shown = if entry.is == Is::Absent { &entry.was } else { &entry.is };
    let kind = match shown {
        Is::Directory | Is::Folder { .. } => "directory",
        Is::Link { .. } => "link",
        Is::Absent | Is::File { .. } => "file",
    };
    let bits = |is: &Is| match is {
        Is::File { mode, .. } | Is::Folder { mode, .. } => Some(*mode),
        _ => None,
    };
    let mode = bits(&entry.is).filter(|mode| bits(&entry.was) != Some(*mode) && from.is_none());
    let had = from.unwrap_or(entry).was.attributes();
    let attributes = match &entry.is {
        Is::Absent => Vec::new(),
        is => is.attributes().differing(had).into_iter().map(str::to_owned).collect(),
    };
    let target = match &entry.is {
        Is::Link { target } => Some(target.clone()),
        _ => None,
    };
    let side = |is: &Is, content: &Option<Vec<u8>>| match is {
        Is::File { .. } => content.clone(),
        _ => Some(Vec::new()),
    };
    let is_file = matches!(entry.was, Is::File { .. }) || matches!(entry.is, Is::File { .. });
    let both = side(&entry.was, &entry.before)
        .zip(side(&entry.is, &entry.after))
        .filter(|_| is_file && from.is_none());
    let diff = both.and_then(|(before, after)| crate::unified_diff(&entry.path, &before, &after));
    LayerChanged {
        change: change.to_owned(),
        kind: kind.to_owned(),
        path: entry.path.clone(),
        from: from.map(|from| from.path.clone()),
        mode: mode.map(|mode| format!("{mode:04o}")),
        attributes,
        target,
        diff: diff.filter(|diff| !diff.is_empty()),
    }
}

impl LayerChanged {
    /// As one line, whatever the names are.
    pub fn line(&self) -> String {
        let kind = if self.kind == "file" { String::new() } else { format!(" {}", self.kind) };
        let path = shown(&self.path);
        let mut line = match &self.from {
            Some(from) => format!("renamed {} to {path}", shown(from)),
            None => format!("{}{kind} {path}", self.change),
        };
        if let Some(target) = &self.target {
            let _ = write!(line, " -> {}", shown(target));
        }
        let mut besides = Vec::new();
        if let Some(mode) = self.mode.as_ref().filter(|_| self.change == "changed") {
            besides.push(format!("mode {mode}"));
        }
        if !self.attributes.is_empty() {
            besides.push(format!("attributes {}", self.attributes.join(", ")));
        }
        if !besides.is_empty() {
            let _ = write!(line, " ({})", besides.join("; "));
        }
        line
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LayerFacts {
    /// `pending` while the changes wait for the owner, `done` when they are in the workspace, `dropped` when they are gone.
    state: &'static str,
    /// How many paths are other than before.
    paths: usize,
    /// The changes, up to a bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<LayerChanged>,
    /// What the command did that could not be taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    /// Why the changes could not be put into the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl LayerFacts {
    pub(super) fn of(report: &LayerReport) -> LayerFacts {
        let mut changes = changed(report);
        changes.truncate(FACTS);
        // The text shows them; here they would be said twice.
        changes.iter_mut().for_each(|change| change.diff = None);
        let left_out =
            report.left_out.iter().take(FACTS).map(|(path, why)| format!("{path}: {why}")).collect();
        let (state, refused) = match &report.outcome {
            LayerOutcome::Pending => ("pending", None),
            LayerOutcome::Done => ("done", None),
            LayerOutcome::Dropped => ("dropped", None),
            LayerOutcome::Refused(why) => ("pending", Some(why.clone())),
        };
        LayerFacts { state, paths: report.changes.len(), changes, left_out, refused }
    }
}

/// What the reader of a result is told; nothing about changes that are where they belong.
pub(super) fn text(report: &LayerReport, call: &CallId) -> Option<String> {
    let mut text = String::new();
    match &report.outcome {
        LayerOutcome::Pending => {
            text.push_str("\nPreview: nothing was changed. The command would change:");
            describe(report, &mut text);
            let _ = write!(
                text,
                "\n\nThe owner decides: `helve commit {call}` makes it happen, `helve discard {call}` drops it."
            );
        }
        LayerOutcome::Refused(why) => {
            let _ = write!(text, "\nThe command ran, and its changes are NOT in the workspace. {why}");
            describe(report, &mut text);
            let _ = write!(text, "\n\n`helve diff {call}` shows them, `helve discard {call}` drops them.");
        }
        LayerOutcome::Dropped => text.push_str("\nThe workspace is as it was before the command."),
        LayerOutcome::Done => {}
    }
    for (path, why) in report.left_out.iter().take(LINES) {
        let _ = write!(text, "\nLeft as it was: {path} ({why})");
    }
    for path in report.linked.iter().take(LINES) {
        let _ = write!(text, "\n{path} had other names (hard links); they keep what they held.");
    }
    (!text.is_empty()).then_some(text)
}

fn describe(report: &LayerReport, text: &mut String) {
    let changes = changed(report);
    for change in changes.iter().take(LINES) {
        let _ = write!(text, "\n  {}", change.line());
    }
    if let Some(more) = changes.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = write!(text, "\n  and {more} more");
    }
    let mut room = DIFF_CHARS;
    let mut left = 0;
    for diff in changes.iter().filter_map(|change| change.diff.as_ref()) {
        match room.checked_sub(diff.len()) {
            Some(rest) => {
                room = rest;
                let _ = write!(text, "\n{}", diff.trim_end());
            }
            None => left += 1,
        }
    }
    if left > 0 {
        let _ = write!(text, "\n({left} more diffs: `helve diff`)");
    }
}

#[cfg(test)]
mod tests {
    use helve_core::files::{Attributes, ContentId};
    use pretty_assertions::assert_eq;

    use super::*;

    fn file(text: &str, mode: u32) -> Is {
        Is::File { id: ContentId(text.to_owned()), mode, attributes: Attributes::NONE }
    }

    fn marked(text: &str, mode: u32, names: &[&str]) -> Is {
        let attributes = names.iter().map(|name| (*name, &b"1"[..])).collect();
        Is::File { id: ContentId(text.to_owned()), mode, attributes }
    }

    fn entry(path: &str, was: Is, is: Is) -> LayerEntry {
        let held = |is: &Is| match is {
            Is::File { id, .. } => Some(format!("{}\n", id.0).into_bytes()),
            _ => None,
        };
        let (before, after) = (held(&was), held(&is));
        LayerEntry { path: path.to_owned(), was, is, before, after }
    }

    #[test]
    fn a_file_that_moved_is_told_once_and_everything_else_by_its_kind() {
        let changes = vec![
            entry("a", file("one", 0o644), Is::Absent),
            entry("b", Is::Absent, file("one", 0o644)),
            entry("c", Is::Absent, file("one", 0o644)),
            entry("d", file("x", 0o644), file("x", 0o755)),
            entry("e", Is::Absent, Is::Folder { mode: 0o755, attributes: Attributes::NONE }),
            entry("f", Is::Link { target: "old".into() }, Is::Link { target: "new".into() }),
            entry("g", file("before", 0o644), file("after", 0o644)),
            entry("h", file("gone", 0o644), Is::Absent),
            entry("i", file("x", 0o644), marked("x", 0o600, &["user.a", "user.b"])),
            entry("j", marked("moved", 0o644, &["user.a"]), Is::Absent),
            entry("k", Is::Absent, marked("moved", 0o644, &["user.a"])),
            entry("l", Is::Absent, marked("new", 0o644, &["user.a"])),
        ];
        let report =
            LayerReport { outcome: LayerOutcome::Pending, changes, left_out: Vec::new(), linked: Vec::new() };
        let lines: Vec<String> = changed(&report).iter().map(LayerChanged::line).collect();
        assert_eq!(
            lines,
            [
                "renamed a to b",
                "added c",
                "changed d (mode 0755)",
                "added directory e",
                "changed link f -> new",
                "changed g",
                "deleted h",
                "changed i (mode 0600; attributes user.a, user.b)",
                "renamed j to k",
                "added l (attributes user.a)",
            ]
        );
        let call = CallId::from_parts(1, 1);
        let told = text(&report, &call).unwrap();
        assert!(told.contains("\n  renamed a to b\n"), "{told}");
        assert!(told.contains("\n-before\n+after"), "{told}");
        assert!(told.contains(&format!("`helve commit {call}`")), "{told}");
    }

    #[test]
    fn no_name_makes_a_line_of_its_own() {
        let forged = "z\ndeleted important";
        let changes = vec![
            entry("gone\n1", file("one", 0o644), Is::Absent),
            entry("new\n1", Is::Absent, file("one", 0o644)),
            entry("lnk", Is::Absent, Is::Link { target: forged.into() }),
            entry(forged, Is::Absent, file("x", 0o644)),
        ];
        let report =
            LayerReport { outcome: LayerOutcome::Pending, changes, left_out: Vec::new(), linked: Vec::new() };
        let told = text(&report, &CallId::from_parts(1, 1)).unwrap();
        let lines: Vec<&str> = told.lines().skip(2).collect();
        assert_eq!(
            lines[..8],
            [
                r#"  renamed "gone\n1" to "new\n1""#,
                r#"  added link lnk -> "z\ndeleted important""#,
                r#"  added "z\ndeleted important""#,
                r#"--- "a/z\ndeleted important""#,
                r#"+++ "b/z\ndeleted important""#,
                "@@ -0,0 +1 @@",
                "+x",
                "",
            ]
        );
    }
}
