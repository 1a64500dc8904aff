//! `list_dir`: what is in a directory.
//!
//! In come a path and how deep; out goes one line an entry, in the order of the bytes of their names, a `/` behind a
//! directory. A page ends at `limit` entries or at the limit `search_bytes`, and says with which `after` to go on. What
//! ignore files name is left out unless `ignored` says so; what is closed to tools is never shown.
//!
//! Deliberately not here: reading directories. That is the bridge's [`Files::list`] and [`Files::walk`].

use helve_core::files::{FileEntry, Files, Kinds, ListRequest, WalkRequest};
use helve_core::typed::schema_of;
use helve_core::{Access, Context, Lane, Output, Resource, ToolError, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::paths::{self, entry_line, fitting, ignored_note, leaves_out, quoted, unread_note};

pub(crate) struct ListDir;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The directory, relative to the workspace.
    #[serde(default = "paths::here")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "file", "dir", "directory", "dir_path", "directory_path", "folder", "target_directory", "relative_workspace_path"]))]
    path: String,
    /// How deep to go; 1 is the directory's own entries.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100), extend("x-aliases" = ["max_depth", "maxDepth", "levels"], "x-clamp" = true))]
    depth: usize,
    /// Whether names that begin with a dot are shown.
    #[serde(default = "yes")]
    #[schemars(extend("x-aliases" = ["include_hidden", "show_hidden", "all"]))]
    hidden: bool,
    /// Whether what .gitignore names is shown too.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    ignored: bool,
    /// Whether type, size in bytes and time of last change stand in front.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["details", "stat", "-l"]))]
    long: bool,
    /// How many entries at the most.
    #[serde(default = "many")]
    #[schemars(range(min = 1, max = 5_000), extend("x-aliases" = ["max_entries", "max_results", "head_limit"], "x-clamp" = true))]
    limit: usize,
    /// Only entries after this one, to go on where a page ended.
    #[schemars(extend("x-aliases" = ["cursor"]))]
    after: Option<String>,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn many() -> usize {
    500
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// How many entries are shown.
    entries: usize,
    /// Whether there are more.
    more: bool,
    /// The `after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<String>,
    /// How many directories could not be read.
    unread: u64,
}

/// A page of entries, whoever found them.
struct Found {
    entries: Vec<FileEntry>,
    more: bool,
    /// How many ignore files leave out; none of a walk, which does not count them.
    ignored: Option<u64>,
    unread: Vec<String>,
    unread_count: u64,
}

impl TypedTool for ListDir {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "list_dir",
            "Lists what is in a directory, sorted by name, with / behind directories and @ behind links. What .gitignore \
             names is left out unless ignored is true. depth shows what is below it too. Use glob to find files by name and grep to find them by content.",
            parameters,
        )
        .title("List a directory")
        .aliases(&["ls"])
        .lane(Lane::Files)
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        Access { reads: vec![Resource::Path(args.path.clone())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let files = ctx.files()?;
        let found = found(&args, files).await?;
        let bytes = usize::try_from(ctx.limits().search_bytes).unwrap_or(usize::MAX);
        let mut lines: Vec<String> = found.entries.iter().map(|entry| entry_line(entry, args.long)).collect();
        let count = fitting(&lines, bytes);
        let more = found.more || count < lines.len();
        lines.truncate(count);
        let last = found.entries.get(count.wrapping_sub(1)).map(|entry| entry.path.clone());
        let next_after = last.filter(|_| more);
        if lines.is_empty() {
            lines.push(nothing(&args, files, found.ignored).await.to_owned());
        }
        if let Some(after) = &next_after {
            lines.push(format!("\n[More entries. Continue with the same path and after={}.]", quoted(after)));
        }
        // Where nothing is shown, that is told already.
        let is_whole = args.after.is_none() && !more && count > 0;
        let ignored = found.ignored.filter(|_| is_whole).and_then(ignored_note);
        lines.extend(ignored.map(|note| format!("\n{note}")));
        lines.extend(unread_note(&found.unread, found.unread_count).map(|note| format!("\n{note}")));
        let facts = Facts { entries: count, more, next_after, unread: found.unread_count };
        Ok(Output::text(lines.join("\n")).with_details(crate::details(&facts)).as_page())
    }
}

async fn found(args: &Args, files: &dyn Files) -> Result<Found, ToolError> {
    if args.depth > 1 {
        let walked = files
            .walk(&WalkRequest {
                path: args.path.clone(),
                globs: Vec::new(),
                kinds: Kinds::All,
                hidden: args.hidden,
                obey_ignore: !args.ignored,
                depth: Some(args.depth),
                limit: args.limit,
                after: args.after.clone(),
                stat: args.long,
            })
            .await?;
        return Ok(Found {
            entries: walked.entries,
            more: walked.more,
            ignored: None,
            unread: walked.unread,
            unread_count: walked.unread_count,
        });
    }
    let listed = files
        .list(&ListRequest {
            path: args.path.clone(),
            after: args.after.clone(),
            limit: args.limit,
            hidden: args.hidden,
            obey_ignore: !args.ignored,
        })
        .await?;
    Ok(Found {
        entries: listed.entries,
        more: listed.more,
        ignored: Some(listed.ignored),
        unread: Vec::new(),
        unread_count: 0,
    })
}

/// What is said where nothing is shown.
async fn nothing(args: &Args, files: &dyn Files, ignored: Option<u64>) -> &'static str {
    if args.after.is_some() {
        return "(no more entries)";
    }
    let leaves_out = match ignored {
        Some(count) => count > 0,
        None => !args.ignored && leaves_out(files, &args.path, args.hidden).await,
    };
    match leaves_out {
        true => "(nothing but what .gitignore names; ignored=true shows it)",
        false => "(empty directory)",
    }
}
