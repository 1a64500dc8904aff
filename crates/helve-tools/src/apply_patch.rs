//! `apply_patch`: one patch over any number of files, all of it or nothing.
//!
//! In comes a patch in Codex's envelope or as a unified diff. Every file that it names is read once, the engine
//! [`crate::patch`] works out in memory what each of them is afterwards, and one commit makes all of it so, under the condition
//! that every file is still what was read. If any hunk has no place, all that have none are told and nothing changes.
//! Instead of a patch, texts to replace or to add can be given (`edits`), with the same promise.
//!
//! Deliberately not here: where a path may lead and how files are replaced together. That is the bridge's.

mod edits;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use encoding_rs::Encoding;
use helve_core::files::{Files, Seen};
use helve_core::limits::fixed::DIFF_TEXT;
use helve_core::typed::schema_of;
use helve_core::{
    Access, Cancel, Context, ErrorKind, Lane, Output, Resource, ToolError, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::coding::{decoded, encoding_of, looks_like_utf8};
use crate::diff;
use crate::patch::{self, Deed, Known, Plan, Planned, Problem};
use crate::write_file::again::Tries;
use edits::{Action, TextEdit};

pub(crate) struct ApplyPatch;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The patch, from '*** Begin Patch' to '*** End Patch', or a unified diff as git writes it.
    #[schemars(length(min = 1), extend("x-aliases" = ["patch", "diff", "content", "patch_text", "patchText"]))]
    input: Option<String>,
    /// Instead of input: texts to replace or to add, in any number of files.
    #[schemars(length(min = 1, max = 100))]
    edits: Option<Vec<TextEdit>>,
    /// Only say what would change.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["dryRun"]))]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// Whether nothing was really changed.
    dry_run: bool,
    /// The files by what became of them.
    summary: Summary,
    /// Files that the patch names and that are as it wants them already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unchanged: Vec<String>,
    /// Hunks that were found in spite of a difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inexact: Vec<Inexact>,
    /// What changed, as a unified diff; without files whose difference is too large to show.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    diff: String,
    /// Files whose difference is too large to show, or no text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    diff_without: Vec<String>,
}

#[derive(Default, Serialize, JsonSchema)]
struct Summary {
    /// Files that are new.
    added: Vec<String>,
    /// Files with another content.
    modified: Vec<String>,
    /// Files that are gone.
    deleted: Vec<String>,
    /// Files with another path, and perhaps another content.
    moved: Vec<Moved>,
}

#[derive(Serialize, JsonSchema)]
struct Moved {
    /// Where it was.
    from: String,
    /// Where it is.
    to: String,
}

#[derive(Serialize, JsonSchema)]
struct Inexact {
    /// The file.
    path: String,
    /// The line of the patch at which the hunk starts.
    patch_line: usize,
    /// The line of the file at which it was found.
    line: usize,
    /// What did not count: trailing_space, unicode or indentation, each with those before it; or what the patch says of the
    /// place and did not hold: header, end_of_file or line_number.
    ignored: &'static str,
}

impl TypedTool for ApplyPatch {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "apply_patch",
            "Changes any number of files with one patch: all of it is applied, or nothing. Between '*** Begin Patch' and \
             '*** End Patch' stand '*** Add File: PATH' with lines that start with +, '*** Delete File: PATH', and '*** Update \
             File: PATH', perhaps '*** Move to: PATH', with hunks: '@@', then lines that start with a space (context), - \
             (removed) or + (added). Show about three lines around each change, and '@@ class A' or '@@ def f' above it \
             where lines repeat. A unified diff does as well; its line numbers may be wrong.",
            parameters,
        )
        .title("Apply a patch")
        .aliases(&["applypatch", "patch"])
        .lane(Lane::Files)
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        let (mut reads, mut writes, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        let mut wanted = args.edits.as_deref().map(edited_paths).unwrap_or_default();
        match args.input.as_deref().map(patch::parse) {
            Some(Ok(patch)) => {
                wanted.extend(paths(&patch));
                deletes.extend(deleted_paths(&patch).map(|path| Resource::Path(path.to_owned())));
            }
            // What cannot be read may mean anything in the workspace.
            Some(Err(_)) => writes.push(Resource::Path(".".to_owned())),
            None => {}
        }
        for Wanted { path, must_read } in wanted {
            reads.extend(must_read.then(|| Resource::Path(path.clone())));
            writes.push(Resource::Path(path));
        }
        Access { reads, writes, deletes, ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let files = ctx.files()?;
        let input = match (args.input, args.edits) {
            (Some(input), None) => Input::Patch(input.into()),
            (None, Some(edits)) => Input::Edits(edits.into()),
            (input, _) => return Err(words::one_of_both(input.is_some())),
        };
        let text = input.clone();
        let wanted = off_async(move || match &text {
            Input::Patch(text) => patch::parse(text).map(|patch| paths(&patch)).map_err(words::bad_patch),
            Input::Edits(edits) => Ok(edited_paths(edits)),
        });
        let wanted = wanted.await??;
        let seen: Vec<Option<Seen>> = wanted.iter().map(|wanted| files.last_seen(&wanted.path)).collect();
        let mut tries = Tries::default();
        loop {
            let mut raced = false;
            let outcome = attempt(files, &wanted, &seen, &input, (args.dry_run, &mut raced), ctx).await;
            // Somebody else was faster: once more with what is there now.
            if !(raced && tries.again(&outcome).await) {
                return outcome;
            }
        }
    }
}

/// What a call wants.
#[derive(Clone)]
enum Input {
    Patch(Arc<str>),
    Edits(Arc<[TextEdit]>),
}

/// Reads, plans and commits; `raced` says that the commit met another change.
async fn attempt(
    files: &dyn Files,
    wanted: &[Wanted],
    seen: &[Option<Seen>],
    input: &Input,
    (dry_run, raced): (bool, &mut bool),
    ctx: &Context,
) -> Result<Output, ToolError> {
    let read = read(files, wanted, seen, ctx.limits().file_bytes).await;
    let stale: Vec<(&Wanted, &Seen)> = (wanted.iter().zip(seen))
        .filter_map(|(wanted, seen)| Some((wanted, seen.as_ref()?)))
        .filter(|(wanted, seen)| files.last_seen(&wanted.path).is_some_and(|now| now.id != seen.id))
        .collect();
    let outcome = match read {
        Ok(known) => planned(files, known, input.clone(), (dry_run, raced), ctx.cancelled().clone()).await,
        Err(error) => Err(error),
    };
    // The caller knows its patch and what it saw before, not what somebody else did to a file since.
    for (wanted, seen) in stale {
        files.saw_last(&wanted.path, seen);
    }
    outcome
}

async fn planned(
    files: &dyn Files,
    (known, guarded): (HashMap<String, Known>, HashSet<String>),
    input: Input,
    (dry_run, raced): (bool, &mut bool),
    cancel: Cancel,
) -> Result<Output, ToolError> {
    let (mut plan, mut notes) = off_async(move || made(&input, &known, dry_run, &cancel)).await??;
    let changes = std::mem::take(&mut plan.changes);
    if !changes.is_empty() {
        let made = files.commit(changes, dry_run).await;
        *raced = made.as_ref().is_err_and(|error| error.kind == ErrorKind::Conflict);
        made?;
    }
    let is_guarded = |file: &&Planned| guarded.contains(file.from.as_ref().unwrap_or(&file.path));
    let changed = plan.files.iter().filter(|file| file.after.is_some()).filter(is_guarded);
    notes.extend(changed.map(|file| words::read_only(&file.path, dry_run)));
    Ok(answer(&plan, &notes, dry_run).await)
}

/// Work that takes its time, away from the async threads.
async fn off_async<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ToolError::internal("The work on the patch was broken off."))
}

/// A path that a patch names.
struct Wanted {
    path: String,
    /// Whether its content is needed whatever is there; else only if a file is there.
    must_read: bool,
}

fn paths(patch: &patch::Patch<'_>) -> Vec<Wanted> {
    let mut known = HashSet::new();
    let mut wanted = Vec::new();
    for section in &patch.sections {
        let (must_read, to) = match &section.deed {
            Deed::Add { .. } => (false, None),
            Deed::Delete { .. } => (true, None),
            Deed::Update { to, .. } => (true, to.as_ref()),
        };
        for (path, must_read) in [(Some(&section.path), must_read), (to, false)] {
            if let Some(path) = path.filter(|path| known.insert((*path).clone())) {
                wanted.push(Wanted { path: path.clone(), must_read });
            }
        }
    }
    wanted
}

/// The paths where nothing is left: of files that go, and of those that get another path.
fn deleted_paths<'a>(patch: &'a patch::Patch<'_>) -> impl Iterator<Item = &'a str> {
    let goes = |section: &&patch::Section<'_>| match &section.deed {
        Deed::Add { .. } => false,
        Deed::Delete { .. } => true,
        Deed::Update { to, .. } => to.as_ref().is_some_and(|to| *to != section.path),
    };
    patch.sections.iter().filter(goes).map(|section| section.path.as_str())
}

fn edited_paths(edits: &[TextEdit]) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut known = HashMap::new();
    for edit in edits {
        let at = *known.entry(&edit.path).or_insert_with(|| {
            wanted.push(Wanted { path: edit.path.clone(), must_read: false });
            wanted.len() - 1
        });
        if let Some(one) = wanted.get_mut(at) {
            one.must_read |= edit.action == Action::Replace;
        }
    }
    wanted
}

/// Reads every file once, all of them together at most `limit` bytes; also which of them are marked read-only.
async fn read(
    files: &dyn Files,
    wanted: &[Wanted],
    seen: &[Option<Seen>],
    limit: u64,
) -> Result<(HashMap<String, Known>, HashSet<String>), ToolError> {
    let mut left = limit;
    let (mut known, mut guarded) = (HashMap::new(), HashSet::new());
    for (Wanted { path, must_read }, seen) in wanted.iter().zip(seen) {
        // What a denied path holds is not needed to see that nothing is there. What is no file says so when it is read.
        let is_there = *must_read || files.stat(path).await?.is_some();
        let found = if is_there {
            match files.read(path, left).await {
                Ok(content) => {
                    left = left.saturating_sub(content.bytes.len() as u64);
                    let stale = seen.as_ref().is_some_and(|seen| seen.id != content.id);
                    if content.stat.mode & 0o222 == 0 {
                        guarded.insert(path.clone());
                    }
                    let (bytes, encoding) = as_text(files, path, content.bytes).await?;
                    Known::File { bytes: Arc::new(bytes), id: content.id, stale, encoding }
                }
                Err(error) => match error.kind {
                    ErrorKind::NotFound => Known::Absent,
                    ErrorKind::ToolFailed => Known::Unreadable(error.message),
                    ErrorKind::TooLarge if left < limit => return Err(words::too_much(path, limit)),
                    _ => return Err(error),
                },
            }
        } else {
            Known::Absent
        };
        known.insert(path.clone(), found);
    }
    Ok((known, guarded))
}

/// A file's bytes, as UTF-8 where they are text in another encoding.
async fn as_text(
    files: &dyn Files,
    path: &str,
    bytes: Vec<u8>,
) -> Result<(Vec<u8>, Option<&'static Encoding>), ToolError> {
    let (bytes, is_utf8) = off_async(move || {
        let is_utf8 = looks_like_utf8(&bytes);
        (bytes, is_utf8)
    })
    .await?;
    if is_utf8 {
        return Ok((bytes, None));
    }
    let Some(encoding) = encoding_of(files, path).await else { return Ok((bytes, None)) };
    off_async(move || match decoded(encoding, &bytes) {
        Some(text) => (text.into_bytes(), Some(encoding)),
        None => (bytes, None),
    })
    .await
}

/// The plan and what of the patch is left undone, or every reason why there is none.
fn made(
    input: &Input,
    known: &HashMap<String, Known>,
    dry_run: bool,
    cancel: &Cancel,
) -> Result<(Plan, Vec<String>), ToolError> {
    let text = match input {
        Input::Patch(text) => text,
        Input::Edits(edits) => return Ok((edits::plan(edits, known, cancel)?, Vec::new())),
    };
    let patch = patch::parse(text).map_err(words::bad_patch)?;
    match patch::plan(&patch, known, cancel) {
        Ok(plan) => {
            let notes = plan.replaced.iter().map(|path| words::replaced(path, dry_run));
            let notes = notes.chain(patch.notes).collect();
            Ok((plan, notes))
        }
        Err(problems) => Err(words::refusal(&problems)),
    }
}

async fn answer(plan: &Plan, notes: &[String], dry_run: bool) -> Output {
    let mut facts = Facts {
        dry_run,
        summary: Summary::default(),
        unchanged: plan.unchanged.clone(),
        inexact: plan.inexact.iter().map(inexact).collect(),
        diff: String::new(),
        diff_without: Vec::new(),
    };
    for Planned { path, from, before, after } in &plan.files {
        match (from, before, after) {
            (Some(from), ..) => {
                facts.summary.moved.push(Moved { from: from.clone(), to: path.clone() });
            }
            (None, None, _) => facts.summary.added.push(path.clone()),
            (None, Some(_), Some(_)) => facts.summary.modified.push(path.clone()),
            (None, Some(_), None) => facts.summary.deleted.push(path.clone()),
        }
    }
    let compared: Vec<_> = plan
        .files
        .iter()
        .map(|file| (file.path.clone(), file.from.clone(), file.before.clone(), file.after.clone()))
        .collect();
    if let Ok((diff, without)) = off_async(move || differences(&compared)).await {
        (facts.diff, facts.diff_without) = (diff, without);
    }
    Output::text(words::told(&facts, notes)).with_details(crate::details(&facts))
}

type Compared = (String, Option<String>, Option<Arc<Vec<u8>>>, Option<Arc<Vec<u8>>>);

/// The diffs of all files as far as there is room, and the files for which there is none.
fn differences(files: &[Compared]) -> (String, Vec<String>) {
    let (mut text, mut without) = (String::new(), Vec::new());
    for (path, from, before, after) in files {
        let empty = Arc::default();
        let (old, new) = (before.as_ref().unwrap_or(&empty), after.as_ref().unwrap_or(&empty));
        let mut one = String::new();
        if let Some(from) = from {
            one.push_str(&format!("rename from {from}\nrename to {path}\n"));
        }
        match diff::between(path, old, new) {
            None => {}
            Some(diff::Difference { unified: Some(unified), .. }) => {
                // The names are told anew: a file may be new, gone or moved.
                let side =
                    |there: &Option<_>, name: String| there.as_ref().map_or("/dev/null".to_owned(), |_| name);
                let old_name = side(before, format!("a/{}", from.as_ref().unwrap_or(path)));
                let new_name = side(after, format!("b/{path}"));
                one.push_str(&format!("--- {old_name}\n+++ {new_name}\n"));
                one.push_str(unified.splitn(3, '\n').nth(2).unwrap_or_default());
            }
            Some(_) => {
                without.push(path.clone());
                continue;
            }
        }
        if text.len() + one.len() > DIFF_TEXT {
            without.push(path.clone());
        } else {
            text.push_str(&one);
        }
    }
    (text, without)
}

fn inexact(found: &patch::Inexact) -> Inexact {
    Inexact {
        path: found.path.clone(),
        patch_line: found.hunk,
        line: found.line,
        ignored: words::ignored(found.why),
    }
}

/// Why a patch cannot be applied, as what kind of failure.
fn kind(problems: &[Problem]) -> ErrorKind {
    let all = |test: fn(&patch::Fault) -> bool| problems.iter().all(|problem| test(&problem.fault));
    if all(|fault| matches!(fault, patch::Fault::Missing)) {
        ErrorKind::NotFound
    } else if all(|fault| matches!(fault, patch::Fault::Stale)) {
        ErrorKind::Conflict
    } else {
        ErrorKind::ToolFailed
    }
}
