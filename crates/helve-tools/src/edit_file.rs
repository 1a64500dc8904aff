//! `edit_file`: replaces texts in a file and nothing else of it.
//!
//! In come a path and edits; out goes the file with all of them, or none and what is wrong with each. The engine
//! [`crate::edit`] finds the texts; this tool reads the file, writes it under the condition that it is still what was
//! read, and says what happened.
//!
//! | module | does |
//! |---|---|
//! | `words` | what is said about edits that do not fit |
//! | `recent` | the edits that this process made last, to know one that comes again |
//! | `encoded` | files that are not UTF-8 |

mod encoded;
mod recent;
pub(crate) mod words;

use std::sync::Arc;

use helve_core::files::{Act, Change, ContentId, Expect, FileContent, Files};
use helve_core::limits::fixed::EDITS;
use helve_core::typed::schema_of;
use helve_core::{
    Access, Cancel, Context, ErrorKind, FilesPlace, Lane, Output, Problem, Resource, ToolError, ToolSpec,
    TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diff;
use crate::edit::{Applied, Cleaning, Edit, Edited, Level, Miss};
use crate::write_file::again::Tries;
use crate::write_file::{commit_one, form, shown, survived};
use encoded::Attempt;
use recent::Recent;

#[derive(Default)]
pub(crate) struct EditFile {
    recent: Recent,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// The file, relative to the workspace.
    #[schemars(length(min = 1), extend("x-aliases" = ["file_path", "filePath", "file", "filename", "target_file"]))]
    path: String,
    /// The replacements; each is found in the file as it is now, and all are made or none.
    #[schemars(length(min = 1, max = 100), extend("x-aliases" = ["changes", "replacements"]))]
    edits: Option<Vec<OneEdit>>,
    /// Instead of edits, for one replacement: the text to replace. It must be in the file exactly once.
    #[schemars(length(min = 1), extend("x-aliases" = ["old_string", "old_text", "oldString", "old_str", "search"]))]
    old_text: Option<String>,
    /// With oldText: what stands there afterwards; "" deletes it.
    #[schemars(extend("x-aliases" = ["new_string", "new_text", "newString", "new_str", "replace"]))]
    new_text: Option<String>,
    /// With oldText: replace it everywhere.
    #[serde(default, rename = "replace_all")]
    #[schemars(extend("x-aliases" = ["replaceAll", "all"]))]
    replace_all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
struct OneEdit {
    /// The text to replace, with as much around it as makes it unique in the file.
    #[schemars(length(min = 1), extend("x-aliases" = ["old_string", "old_text", "oldString", "old_str", "search"]))]
    old_text: String,
    /// What stands there afterwards; "" deletes it.
    #[schemars(extend("x-aliases" = ["new_string", "new_text", "newString", "new_str", "replace"]))]
    new_text: String,
    /// Replace it everywhere instead of at its only place.
    #[serde(default, rename = "replace_all")]
    #[schemars(extend("x-aliases" = ["replaceAll", "all"]))]
    replace_all: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Changed,
    Unchanged,
    AlreadyApplied,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Facts {
    /// The file, relative to the workspace.
    path: String,
    /// Whether the file is in a sandbox.
    sandbox: bool,
    /// What became of the file; already_applied if this edit was made before and came again.
    status: Status,
    /// How many places were replaced.
    replacements: usize,
    /// For each edit what did not count when its text was found: exact (nothing), line_endings, trailing_space, unicode
    /// or indentation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    matched: Vec<&'static str>,
    /// What changed, as a unified diff; absent if it is too large, or nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The first changed line of the new content.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_changed_line: Option<usize>,
}

impl TypedTool for EditFile {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "edit_file",
            "Replaces texts in a file and leaves everything else as it is. Give oldText and newText, or several of them as \
             edits. Each oldText must be in the file exactly once, unless replace_all is true; copy it from the file \
             without line numbers. Small differences in white space and typography are forgiven where only one place fits.",
            parameters,
        )
        .title("Edit a file")
        .aliases(&["edit", "sandboxed_edit", "str_replace"])
        .lane(Lane::Files)
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        let path = vec![Resource::Path(args.path.clone())];
        Access { reads: path.clone(), writes: path, ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let files = ctx.files()?;
        let (path, edits) = edits_of(args)?;
        let seen = files.last_seen(&path);
        let max = ctx.limits().file_bytes;
        let bounds = (max, ctx.cancelled());
        // Where a look at the file is a journey, the edit is made to what is remembered of it, and the commit finds out
        // whether that still holds. Whatever else comes of it, the file itself decides.
        if let Some(known) =
            files.recall(&path).filter(|known| Some(&known.id) == seen.as_ref().map(|seen| &seen.id))
            && let Ok((output, Status::Changed)) = self.attempt(files, &path, known, &edits, bounds).await
        {
            return Ok(output);
        }
        let mut tries = Tries::default();
        loop {
            let content = files.read(&path, max).await.map_err(words::unreadable)?;
            let known = seen.as_ref().is_none_or(|seen| seen.id == content.id);
            let outcome = self.attempt(files, &path, content, &edits, bounds).await;
            if !known && let Some(seen) = &seen {
                // The model knows the old file and its own edit, not what somebody else did to it.
                files.saw_last(&path, seen);
            }
            if !tries.again(&outcome).await {
                return outcome.map(|(output, _)| output);
            }
        }
    }
}

/// The edits of a call, however they were given.
fn edits_of(args: Args) -> Result<(String, Vec<Edit>), ToolError> {
    let mut edits: Vec<Edit> = Vec::new();
    for OneEdit { old_text, new_text, replace_all } in args.edits.into_iter().flatten() {
        edits.push(Edit { old: old_text, new: new_text, all: replace_all });
    }
    match (args.old_text, args.new_text) {
        (Some(old), Some(new)) => {
            let top = Edit { old, new, all: args.replace_all };
            if !edits.contains(&top) {
                edits.push(top);
            }
        }
        (Some(_), None) => return Err(missing("newText", "the text that replaces oldText; \"\" deletes it")),
        (None, Some(_)) => return Err(missing("oldText", "the text that newText replaces")),
        (None, None) if edits.is_empty() => {
            return Err(missing("edits", "edits, or oldText and newText"));
        }
        (None, None) => {}
    }
    if edits.len() > EDITS {
        let message = format!("{} edits are more than the limit of {EDITS} in one call.", edits.len());
        return Err(ToolError::new(ErrorKind::TooLarge, message).hint("Send them in several calls."));
    }
    Ok((args.path, edits))
}

fn missing(key: &str, expected: &str) -> ToolError {
    ToolError::invalid("edit_file", vec![Problem::new(format!("/{key}"), expected, "nothing")])
}

impl EditFile {
    async fn attempt(
        &self,
        files: &dyn Files,
        path: &str,
        content: FileContent,
        edits: &[Edit],
        bounds: (u64, &Cancel),
    ) -> Result<(Output, Status), ToolError> {
        let FileContent { bytes: before, id, path: name, stat } = content;
        let shown = shown(files, &name);
        let Attempt { before, outcome, changes } =
            encoded::apply(files, &name, before, edits, bounds).await?;
        let edited = match outcome {
            Ok(edited) => edited,
            Err(misses)
                if words::all_absent(&misses)
                    && (self.recent.made(&name, &id, edits)
                        || has_made(files, path, (&before, &id), edits, bounds).await) =>
            {
                let facts = facts(files, name, Status::AlreadyApplied, &[]);
                let text =
                    format!("Successfully edited {shown}\nThis edit was already applied; the file has it.");
                return Ok((Output::text(text).with_details(crate::details(&facts)), Status::AlreadyApplied));
            }
            Err(misses) => return Err(words::refusal(&shown, edits, &misses)),
        };
        let Edited { bytes: after, applied, spans } = edited;
        if !changes {
            let facts = facts(files, name, Status::Unchanged, &applied);
            let text =
                format!("No changes made to {shown}. The replacement text is identical to the original.");
            return Ok((Output::text(text).with_details(crate::details(&facts)), Status::Unchanged));
        }
        let after = Arc::new(after);
        let act = Act::Put(Arc::clone(&after));
        let change = Change { path: path.to_owned(), act, expect: Expect::Content(id) };
        // What changed is worked out while the change is made.
        let compare = async {
            let (name, after) = (name.clone(), Arc::clone(&after));
            tokio::task::spawn_blocking(move || diff::between(&name, &before, &after)).await
        };
        let (made, difference) = tokio::join!(biased; commit_one(files, change), compare);
        let changed = match made {
            Ok(changed) => changed,
            Err(error) => match survived(files, path, &after, &error).await {
                Some(changed) => changed,
                None => return Err(error),
            },
        };
        if let Some(id) = &changed.after {
            self.recent.add(&name, id, edits);
        }
        let mut text = format!("Successfully edited {shown}");
        text.push_str(&words::notes(&applied, spans.len()));
        text.push_str(&form::read_only(stat.mode));
        let mut facts = facts(files, name, Status::Changed, &applied);
        facts.replacements = spans.len();
        // One that cannot be had is one that is not shown: the change is made.
        if let Ok(Some(difference)) = difference {
            facts.first_changed_line = Some(difference.first_line);
            facts.diff = difference.unified;
        }
        Ok((Output::text(text).with_details(crate::details(&facts)), Status::Changed))
    }
}

/// Whether the session's last change of a file, which another process may have made, was these edits: by making them to
/// what was there before it.
async fn has_made(
    files: &dyn Files,
    path: &str,
    (now, id): (&[u8], &ContentId),
    edits: &[Edit],
    bounds: (u64, &Cancel),
) -> bool {
    let Some(former) = files.former(path, id, bounds.0).await else { return false };
    match encoded::apply(files, path, former, edits, bounds).await {
        Ok(Attempt { outcome: Ok(edited), .. }) => edited.bytes == now,
        _ => false,
    }
}

fn facts(files: &dyn Files, path: String, status: Status, applied: &[Applied]) -> Facts {
    Facts {
        path,
        sandbox: files.place() == FilesPlace::Sandbox,
        status,
        replacements: 0,
        matched: applied.iter().map(|applied| applied.level.name()).collect(),
        diff: None,
        first_changed_line: None,
    }
}

#[cfg(test)]
mod tests;
