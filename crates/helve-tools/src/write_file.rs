//! `write_file`: gives a file a new content, adds to its end, or makes it.
//!
//! In come a path and a text; out goes how many bytes were written, and what changed. A file that changed since the
//! session last saw it is not overwritten: the answer shows how it changed instead. Large content comes in chunks:
//! `append` with `at`, the size that the file must have, so that a chunk that came twice is written once.
//!
//! Deliberately not here: how a file is replaced without a moment in which it is neither old nor new. That is
//! the bridge's [`Files::commit`].

pub(crate) mod again;
mod conflict;
pub(crate) mod form;

use std::sync::Arc;

use helve_core::files::{Act, Change, Expect, Files};
use helve_core::typed::schema_of;
use helve_core::{
    Access, Context, ErrorKind, FilesPlace, Lane, Output, Resource, ToolError, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diff;

use again::Tries;
pub(crate) use conflict::explained;

/// An old version of at most so many bytes is read to show what changed.
const MAX_COMPARED: u64 = 1 << 20;

pub(crate) struct WriteFile;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Overwrite,
    Append,
    Create,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, relative to the workspace. Directories above it are made.
    #[schemars(length(min = 1), extend("x-aliases" = ["file_path", "filePath", "file", "filename", "target_file"]))]
    path: String,
    /// The text to write, as it shall be in the file; may be empty.
    #[schemars(extend("x-aliases" = ["contents", "file_text", "text", "data"]))]
    content: String,
    /// overwrite replaces the whole file, append adds to its end, create refuses a file that is there.
    #[serde(default)]
    mode: Mode,
    /// With append: the size in bytes that the file must have, so that a chunk that is sent again is not written twice.
    #[schemars(extend("x-aliases" = ["offset", "position"]))]
    at: Option<u64>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It was not there.
    Created,
    /// It has another content than before.
    Changed,
    /// It had this content already.
    Unchanged,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Facts {
    /// The file, relative to the workspace.
    path: String,
    /// How many bytes were written.
    bytes_written: u64,
    /// Whether the file is in a sandbox.
    sandbox: bool,
    /// What became of the file.
    status: Status,
    /// How many bytes the file has now.
    total_bytes: u64,
    /// What changed, as a unified diff; absent if it is too large, or nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The first changed line of the new content.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_changed_line: Option<usize>,
}

impl TypedTool for WriteFile {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "write_file",
            "Writes a text file: the whole file (overwrite, the default), at its end (append), or only if it is not there \
             (create). Use edit_file to change a part of a file. A file that changed since you last saw it is not \
             overwritten. Send content of more than 1 MB in chunks: the first with overwrite, the others with append and at.",
            parameters,
        )
        .title("Write a file")
        .aliases(&["write", "sandboxed_write"])
        .lane(Lane::Files)
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        Access { writes: vec![Resource::Path(args.path.clone())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let files = ctx.files()?;
        match args.mode {
            Mode::Append => append(args, files, ctx.limits().file_bytes).await,
            Mode::Overwrite | Mode::Create => put(args, files).await,
        }
    }
}

/// The path as the seeds write it, with a mark where it is in a sandbox.
pub(crate) fn shown(files: &dyn Files, path: &str) -> String {
    match files.place() {
        FilesPlace::Sandbox => format!("sandbox:{path}"),
        FilesPlace::Host | FilesPlace::Memory => path.to_owned(),
    }
}

async fn put(args: Args, files: &dyn Files) -> Result<Output, ToolError> {
    let Args { path, content, mode, .. } = args;
    let create = mode == Mode::Create;
    let bytes = Arc::new(content.into_bytes());
    if !create && files.place() == FilesPlace::Sandbox && files.last_seen(&path).is_none() {
        // A look at what is there is a journey: most often nothing is, and the commit finds out.
        let act = Act::Put(Arc::clone(&bytes));
        let change = Change { path: path.clone(), act, expect: Expect::Absent };
        match commit_one(files, change).await {
            Err(error) if error.kind == ErrorKind::Conflict => {}
            Ok(changed) => return Ok(written(files, changed, None, bytes, "").await),
            Err(error) => return Err(error),
        }
    }
    // What the session has seen must not be read again, or a change by somebody else would count as seen.
    let (before, expect) = match files.last_seen(&path) {
        _ if create => (None, Expect::Absent),
        Some(seen) => (seen.content, Expect::AsSeen),
        None => match files.read(&path, MAX_COMPARED).await {
            Ok(found) => (Some(found.bytes), Expect::Content(found.id)),
            Err(error) if error.kind == ErrorKind::NotFound => (None, Expect::Absent),
            Err(error) if error.kind == ErrorKind::TooLarge => (None, Expect::AsSeen),
            Err(error) => return Err(error),
        },
    };
    let guarded = if create { String::new() } else { form::is_read_only(files, &path).await };
    let change = Change { path: path.clone(), act: Act::Put(Arc::clone(&bytes)), expect };
    let changed = match commit_one(files, change).await {
        Ok(changed) => changed,
        Err(error) if error.kind == ErrorKind::Conflict && create => return Err(exists(error, &path)),
        Err(error) if error.kind == ErrorKind::Conflict => return Err(explained(error, files, &path).await),
        Err(error) => match survived(files, &path, &bytes, &error).await {
            Some(changed) => changed,
            None => return Err(error),
        },
    };
    Ok(written(files, changed, before, bytes, &guarded).await)
}

/// What a write says of itself.
async fn written(
    files: &dyn Files,
    changed: helve_core::files::Changed,
    before: Option<Vec<u8>>,
    bytes: Arc<Vec<u8>>,
    notes: &str,
) -> Output {
    let written = bytes.len() as u64;
    let name = shown(files, &changed.path);
    let status = match &changed.before {
        None if before.is_none() => Status::Created,
        None => Status::Changed,
        Some(before) if Some(before) == changed.after.as_ref() => Status::Unchanged,
        Some(_) => Status::Changed,
    };
    let lost = before.as_deref().map(|before| form::lost(before, &bytes)).unwrap_or_default();
    let difference = match (status, before) {
        (Status::Unchanged, _) => None,
        (Status::Created, _) => compared(&changed.path, Vec::new(), bytes).await,
        (Status::Changed, Some(before)) => compared(&changed.path, before, bytes).await,
        (Status::Changed, None) => None,
    };
    let text = match status {
        Status::Unchanged => format!("No changes made to {name}. The file already has identical content."),
        Status::Created => format!("Successfully wrote {written} bytes to {name}"),
        Status::Changed => format!("Successfully wrote {written} bytes to {name}{lost}{notes}"),
    };
    let facts = Facts {
        bytes_written: if matches!(status, Status::Unchanged) { 0 } else { written },
        sandbox: files.place() == FilesPlace::Sandbox,
        status,
        total_bytes: changed.len,
        first_changed_line: difference.as_ref().map(|found| found.first_line),
        diff: difference.and_then(|found| found.unified),
        path: changed.path,
    };
    Output::text(text).with_details(crate::details(&facts))
}

/// Compares off the async threads.
async fn compared(path: &str, before: Vec<u8>, after: Arc<Vec<u8>>) -> Option<diff::Difference> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || diff::between(&path, &before, &after)).await.ok().flatten()
}

/// A commit of one change.
pub(crate) async fn commit_one(
    files: &dyn Files,
    change: Change,
) -> Result<helve_core::files::Changed, ToolError> {
    let done = files.commit(vec![change], false).await?.into_iter().next();
    done.ok_or_else(|| ToolError::internal("The bridge to the files gave no answer about a change."))
}

/// An act that failed after it had happened is a success, if the file has exactly the bytes that were meant.
pub(crate) async fn survived(
    files: &dyn Files,
    path: &str,
    meant: &[u8],
    error: &ToolError,
) -> Option<helve_core::files::Changed> {
    if !matches!(error.kind, ErrorKind::ToolFailed | ErrorKind::Internal | ErrorKind::Timeout) {
        return None;
    }
    let found = files.read(path, meant.len() as u64).await.ok()?;
    (found.bytes == meant).then_some(helve_core::files::Changed {
        path: found.path,
        before: None,
        after: Some(found.id),
        len: found.bytes.len() as u64,
    })
}

fn exists(error: ToolError, path: &str) -> ToolError {
    ToolError { message: format!("{path} is there already, and mode create makes new files only."), ..error }
        .hint("Choose another path, or mode overwrite to replace it, or edit_file to change a part of it.")
}

async fn append(args: Args, files: &dyn Files, max: u64) -> Result<Output, ToolError> {
    let Args { path, content, at, .. } = args;
    let (bytes, notes) = form::fitting(files, &path, content, max).await?;
    let guarded = form::is_read_only(files, &path).await;
    let added = bytes.len() as u64;
    let mut tries = Tries::default();
    let changed = loop {
        if let Some(at) = at
            && let Some(output) = chunk(files, &path, at, &bytes, max).await?
        {
            return Ok(output);
        }
        // Whatever is there: what is added needs no knowledge of it.
        let change = Change { path: path.clone(), act: Act::Append(bytes.clone()), expect: Expect::Any };
        let outcome = commit_one(files, change).await;
        if !tries.again(&outcome).await {
            break outcome?;
        }
    };
    let created = changed.before.is_none();
    let status = match added {
        _ if created => Status::Created,
        0 => Status::Unchanged,
        _ => Status::Changed,
    };
    let name = shown(files, &changed.path);
    let facts = Facts {
        bytes_written: added,
        sandbox: files.place() == FilesPlace::Sandbox,
        status,
        total_bytes: changed.len,
        diff: None,
        first_changed_line: None,
        path: changed.path,
    };
    let mut text =
        format!("Successfully wrote {added} bytes to {name} (appended, {} bytes now)", facts.total_bytes);
    text.push_str(&notes);
    text.push_str(&guarded);
    Ok(Output::text(text).with_details(crate::details(&facts)))
}

/// Whether the file is as long as a chunk wants it; the answer, if it has the chunk already.
async fn chunk(
    files: &dyn Files,
    path: &str,
    at: u64,
    bytes: &[u8],
    max: u64,
) -> Result<Option<Output>, ToolError> {
    let length = files.stat(path).await?.map_or(0, |stat| stat.len);
    if length == at {
        return Ok(None);
    }
    if at.checked_add(bytes.len() as u64) == Some(length) {
        let found = files.read(path, max).await?;
        if found.bytes.ends_with(bytes) {
            let name = shown(files, &found.path);
            let facts = Facts {
                bytes_written: 0,
                sandbox: files.place() == FilesPlace::Sandbox,
                status: Status::Unchanged,
                total_bytes: length,
                diff: None,
                first_changed_line: None,
                path: found.path,
            };
            let text = format!("No changes made to {name}. It has this chunk already ({length} bytes now).");
            return Ok(Some(Output::text(text).with_details(crate::details(&facts))));
        }
    }
    let message = format!("{path} has {length} bytes, not {at}: this chunk does not belong at its end.");
    Err(ToolError::new(ErrorKind::Conflict, message).hint(format!(
        "Go on with at={length}, or write the file anew from its first chunk with mode overwrite."
    )))
}
