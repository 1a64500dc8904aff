//! `glob`: finds files by their names.
//!
//! In come patterns and a directory; out goes one path a line, relative to the workspace, in the order of their bytes. A
//! page ends at `limit` paths or at the limit `search_bytes`, and says with which `after` to go on.
//!
//! Deliberately not here: walking. That is the bridge's [`helve_core::files::Files::walk`].

use std::time::Duration;

use helve_core::files::{Kinds, WalkRequest};
use helve_core::typed::schema_of;
use helve_core::{Access, Context, ErrorKind, Lane, Output, Resource, ToolError, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::paths::{self, OneOrMore, entry_line, fitting, quoted, unread_note};

/// So long a walk for a hint may take.
const HINT_TIME: Duration = Duration::from_millis(500);

pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// Which names: *.rs at any depth, src/**/*.ts by path, *.{c,h} for several endings; a leading ! leaves out.
    #[schemars(extend("x-aliases" = ["patterns", "glob", "globs", "glob_pattern", "name", "query"]))]
    pattern: OneOrMore,
    /// The directory to look in, relative to the workspace.
    #[serde(default = "paths::here")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "file", "dir", "directory", "dir_path", "cwd", "folder", "target_directory"]))]
    path: String,
    /// What to find.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["type", "file_type"]))]
    kind: Kind,
    /// Whether names that begin with a dot are found; .git is never entered.
    #[serde(default = "yes")]
    #[schemars(extend("x-aliases" = ["include_hidden"]))]
    hidden: bool,
    /// Whether what .gitignore and .ignore name is found too.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    ignored: bool,
    /// Whether type, size in bytes and time of last change stand in front.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["details", "stat", "-l"]))]
    long: bool,
    /// How many paths at the most.
    #[serde(default = "many")]
    #[schemars(range(min = 1, max = 10_000), extend("x-aliases" = ["max_results", "head_limit", "maxResults"], "x-clamp" = true))]
    limit: usize,
    /// Only paths after this one, to go on where a page ended.
    #[schemars(extend("x-aliases" = ["cursor"]))]
    after: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Files,
    Directories,
    All,
}

fn yes() -> bool {
    true
}

fn many() -> usize {
    500
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// How many paths are shown.
    found: usize,
    /// Whether there are more.
    more: bool,
    /// The `after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<String>,
    /// How many directories could not be read.
    unread: u64,
}

impl TypedTool for Glob {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "glob",
            "Finds files by name with glob patterns, in the whole workspace or below a directory, without what .gitignore names. \
             Gives paths relative to the workspace, sorted. Use grep to find files by what is in them.",
            parameters,
        )
        .title("Find files")
        .aliases(&["find", "find_files"])
        .lane(Lane::Files)
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        Access { reads: vec![Resource::Path(args.path.clone())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let globs = args.pattern.split();
        if globs.is_empty() {
            let message = "The pattern is empty.";
            return Err(ToolError::new(ErrorKind::InvalidParams, message).hint("Use * to find every file."));
        }
        paths::check_below(&globs)?;
        let directories_only = globs.iter().all(|glob| glob.ends_with('/'));
        let kinds = match args.kind {
            Kind::Files if directories_only => Kinds::Directories,
            Kind::Files => Kinds::Files,
            Kind::Directories => Kinds::Directories,
            Kind::All => Kinds::All,
        };
        let request = WalkRequest {
            path: args.path,
            globs,
            kinds,
            hidden: args.hidden,
            obey_ignore: !args.ignored,
            depth: None,
            limit: args.limit,
            after: args.after,
            stat: args.long,
        };
        let files = ctx.files()?;
        let found = files.walk(&request).await?;
        let bytes = usize::try_from(ctx.limits().search_bytes).unwrap_or(usize::MAX);
        let mut lines: Vec<String> = found.entries.iter().map(|entry| entry_line(entry, args.long)).collect();
        let count = fitting(&lines, bytes);
        let more = found.more || count < lines.len();
        lines.truncate(count);
        let last = found.entries.get(count.wrapping_sub(1)).map(|entry| entry.path.clone());
        let next_after = last.filter(|_| more);
        if lines.is_empty() {
            let none =
                if request.after.is_some() { "No more files." } else { "No files found matching pattern" };
            lines.push(none.to_owned());
            if request.globs.iter().any(|glob| glob.starts_with('/')) {
                lines.push("\n[A pattern that begins with / begins at the directory that is searched, not at the root of the machine]".to_owned());
            }
            if request.obey_ignore && request.after.is_none() {
                let all = WalkRequest { obey_ignore: false, limit: 1, stat: false, ..request.clone() };
                // What is ignored may be most of the tree, and a hint is not worth a long wait.
                let walked = tokio::time::timeout(HINT_TIME, files.walk(&all)).await;
                if walked.is_ok_and(|walked| walked.is_ok_and(|all| !all.entries.is_empty())) {
                    lines.push(
                        "\n[Something that ignore files name matches; ignored=true finds it]".to_owned(),
                    );
                }
            }
        }
        if let Some(after) = &next_after {
            lines.push(format!(
                "\n[More files. Continue with the same arguments and after={}.]",
                quoted(after)
            ));
        }
        lines.extend(unread_note(&found.unread, found.unread_count).map(|note| format!("\n{note}")));
        let facts = Facts { found: count, more, next_after, unread: found.unread_count };
        Ok(Output::text(lines.join("\n")).with_details(crate::details(&facts)).as_page())
    }
}

#[cfg(test)]
mod tests;
