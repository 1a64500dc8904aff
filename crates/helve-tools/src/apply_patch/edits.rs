//! Texts replaced or added in several files, as some agents' models ask for a patch. In come the edits and what each file
//! is, out goes the same plan that a patch makes.
//!
//! Edits of one file build on each other, in their order. Every edit that does not fit is told at once.

use std::collections::HashMap;
use std::sync::Arc;

use encoding_rs::Encoding;
use helve_core::files::{Act, Change, Expect};
use helve_core::{Cancel, ErrorKind, Problem, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::edit::{self, Edit};
use crate::edit_file::words;
use crate::patch::{Known, Plan, Planned, stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Replace,
    Add,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct TextEdit {
    /// The file, relative to the workspace.
    #[schemars(length(min = 1), extend("x-aliases" = ["file_path", "filePath", "file"]))]
    pub(super) path: String,
    /// replace puts new_text where old_text is; add puts it at the end of the file, which is made if it is not there.
    pub(super) action: Action,
    /// With replace: the text to replace. It must be in the file exactly once.
    #[schemars(length(min = 1), extend("x-aliases" = ["old_string", "oldText"]))]
    old_text: Option<String>,
    /// What stands there afterwards; "" deletes it.
    #[schemars(extend("x-aliases" = ["new_string", "newText"]))]
    new_text: Option<String>,
}

/// A file on its way through the edits.
struct Walking<'k> {
    known: &'k Known,
    now: Option<Arc<Vec<u8>>>,
}

impl Walking<'_> {
    fn encoding(&self) -> Option<&'static Encoding> {
        match self.known {
            Known::File { encoding, .. } => *encoding,
            Known::Absent | Known::Unreadable(_) => None,
        }
    }
}

/// Takes the edits over the files. `known` has every path that they name, by the same text.
pub(super) fn plan(
    edits: &[TextEdit],
    known: &HashMap<String, Known>,
    cancel: &Cancel,
) -> Result<Plan, ToolError> {
    let mut files: HashMap<&str, Walking<'_>> = HashMap::new();
    let mut order = Vec::new();
    let mut problems: Vec<ToolError> = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        let path = edit.path.as_str();
        let file = files.entry(path).or_insert_with(|| {
            order.push(path);
            let known = known.get(path).unwrap_or(&Known::Absent);
            let now = if let Known::File { bytes, .. } = known { Some(Arc::clone(bytes)) } else { None };
            Walking { known, now }
        });
        let made = edit.make(at, file, cancel).map(Arc::new);
        match made.and_then(|after| stored(&after, file.encoding()).map(|_| after)) {
            Ok(after) => file.now = Some(after),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(refusal(problems, edits.len()));
    }
    let mut plan = Plan::default();
    for path in order {
        let Some(file) = files.remove(path) else { continue };
        let encoding = file.encoding();
        let Walking { known, now: Some(after) } = file else { continue };
        let (before, expect) = match known {
            Known::File { bytes, id, .. } => (Some(Arc::clone(bytes)), Expect::Content(id.clone())),
            Known::Absent | Known::Unreadable(_) => (None, Expect::Absent),
        };
        if before.as_ref() == Some(&after) {
            plan.unchanged.push(path.to_owned());
            continue;
        }
        let act = Act::Put(stored(&after, encoding)?);
        plan.changes.push(Change { path: path.to_owned(), act, expect });
        plan.files.push(Planned { path: path.to_owned(), from: None, before, after: Some(after) });
    }
    Ok(plan)
}

impl TextEdit {
    /// The file's content after this edit.
    fn make(&self, at: usize, file: &Walking<'_>, cancel: &Cancel) -> Result<Vec<u8>, ToolError> {
        let missing = |key: &str, expected: &str| {
            let problem = Problem::new(format!("/edits/{at}/{key}"), expected, "nothing");
            ToolError::invalid("apply_patch", vec![problem])
        };
        let Some(new) = &self.new_text else {
            return Err(missing("new_text", "the text that is put there; \"\" deletes"));
        };
        if let Known::Unreadable(why) = file.known {
            return Err(ToolError::failed(why.clone()));
        }
        match (self.action, &file.now, &self.old_text) {
            (Action::Add, now, _) => Ok(longer(now.as_ref().map(|now| now.as_slice()), new)),
            (Action::Replace, _, None) => Err(missing("old_text", "the text that new_text replaces")),
            (Action::Replace, None, _) => {
                Err(ToolError::not_found(format!("The file to update does not exist: {}", self.path))
                    .hint("Use the action add to make a new file."))
            }
            (Action::Replace, Some(now), Some(old)) => {
                let edits = [Edit { old: old.clone(), new: new.clone(), all: false }];
                // One place of each text: the result is no longer than the arguments make it.
                match edit::apply_until(now, &edits, usize::MAX, cancel) {
                    Ok(edited) => Ok(edited.bytes),
                    Err(misses) => Err(words::refusal(&self.path, &edits, &misses)),
                }
            }
        }
    }
}

/// A file with a text at its end. The text begins and ends with whole lines, and its line ends are those of the file.
fn longer(now: Option<&[u8]>, text: &str) -> Vec<u8> {
    let now = now.unwrap_or_default();
    let first_end = now.iter().position(|byte| *byte == b'\n');
    let crlf = first_end.is_some_and(|at| at > 0 && now.get(at - 1) == Some(&b'\r'));
    let mut added = String::new();
    if !now.is_empty() && !now.ends_with(b"\n") {
        added.push('\n');
    }
    added.push_str(text);
    if !text.is_empty() && !text.ends_with('\n') {
        added.push('\n');
    }
    if crlf {
        added = added.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    [now, added.as_bytes()].concat()
}

/// One error for all that is wrong.
fn refusal(mut problems: Vec<ToolError>, edits: usize) -> ToolError {
    let count = problems.len();
    if edits == 1 || problems.iter().all(|problem| problem.kind == ErrorKind::InvalidParams) {
        let all: Vec<Problem> = problems.iter().flat_map(|problem| problem.problems.clone()).collect();
        if !all.is_empty() {
            return ToolError::invalid("apply_patch", all);
        }
        return problems.remove(0);
    }
    let kind =
        problems.first().map(|first| first.kind).filter(|kind| problems.iter().all(|one| one.kind == *kind));
    let messages: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
    let message =
        format!("{}\nNothing was changed: {count} of {edits} edits do not fit.", messages.join("\n"));
    let error = ToolError::new(kind.unwrap_or(ErrorKind::ToolFailed), message);
    match problems.into_iter().find_map(|problem| problem.hint) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::files::ContentId;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    fn planned(files: &[(&str, &str)], edits: Value) -> Result<Vec<(String, String)>, ToolError> {
        let file = |text: &str| Known::File {
            bytes: Arc::new(text.as_bytes().to_vec()),
            id: ContentId(text.to_owned()),
            stale: false,
            encoding: None,
        };
        let known = files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect();
        let edits: Vec<TextEdit> = serde_json::from_value(edits).unwrap();
        let text =
            |bytes: &Option<Arc<Vec<u8>>>| String::from_utf8(bytes.as_ref().unwrap().to_vec()).unwrap();
        Ok(plan(&edits, &known, &Cancel::never())?
            .files
            .iter()
            .map(|file| (file.path.clone(), text(&file.after)))
            .collect())
    }

    #[test]
    fn texts_are_replaced_and_added_over_files_and_build_on_each_other() {
        let edits = json!([
            {"path": "a", "action": "replace", "old_text": "one", "new_text": "two"},
            {"path": "new", "action": "add", "new_text": "made"},
            {"path": "a", "action": "replace", "old_text": "two", "new_text": "three"},
            {"path": "b", "action": "add", "new_text": "x\ny"},
        ]);
        let after = planned(&[("a", "one\n"), ("b", "no end\r\nof line")], edits).unwrap();
        let wanted = [("a", "three\n"), ("new", "made\n"), ("b", "no end\r\nof line\r\nx\r\ny\r\n")];
        assert_eq!(after, wanted.map(|(path, text)| (path.to_owned(), text.to_owned())));
    }

    #[test]
    fn every_edit_that_does_not_fit_is_told() {
        let edits = json!([
            {"path": "a", "action": "replace", "old_text": "one", "new_text": "two"},
            {"path": "a", "action": "replace", "old_text": "gone", "new_text": "two"},
            {"path": "none", "action": "replace", "old_text": "x", "new_text": "y"},
        ]);
        let error = planned(&[("a", "one\n")], edits).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.message.contains("does not exist: none"), "{}", error.message);
        assert!(
            error.message.ends_with("Nothing was changed: 2 of 3 edits do not fit."),
            "{}",
            error.message
        );
        let lacking = json!([{"path": "a", "action": "replace", "new_text": "x"}]);
        let error = planned(&[("a", "one\n")], lacking).unwrap_err();
        assert_eq!(
            (error.kind, error.problems[0].pointer.as_str()),
            (ErrorKind::InvalidParams, "/edits/0/old_text")
        );
    }
}
