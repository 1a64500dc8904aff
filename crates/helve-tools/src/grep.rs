//! `grep`: finds lines by what is in them.
//!
//! In come a pattern, a directory or a file, and filters; out goes `path:line: text` for a match and `path-line- text`
//! around it, or files, or counts. A page ends at `limit` matches or at the limit `search_bytes`, and says with which `skip` to
//! go on. A line that is longer than the limit `search_line_chars` is cut around its match.
//!
//! Deliberately not here: walking and matching. That is the bridge's [`helve_core::files::Files::search`].

mod report;

use helve_core::files::{CaseMode, SearchMode, SearchRequest};
use helve_core::limits::fixed::GREP_MATCHES;
use helve_core::typed::schema_of;
use helve_core::{Access, Context, Lane, Output, Resource, ToolError, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::paths::{self, OneOrMore};

pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// What to look for: a regular expression without look-around and back-references, or with literal a plain text.
    #[schemars(length(min = 1, max = 10_000), extend("x-aliases" = ["query", "regex", "regexp", "search", "search_pattern", "search_term", "-e"]))]
    pattern: String,
    /// The directory or file to look in, relative to the workspace.
    #[serde(default = "paths::here")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "file", "dir", "directory", "dir_path", "folder", "target_directory"]))]
    path: String,
    /// Only files with these names: *.rs, src/**/*.ts, *.{c,h}; a leading ! leaves out.
    #[schemars(extend("x-aliases" = ["globs", "include", "includes", "include_pattern", "glob_pattern", "file_pattern", "-g"]))]
    glob: Option<OneOrMore>,
    /// Only files of these types, as ripgrep names them: rust, py, js, ts, go, java, c, cpp, md, json.
    #[serde(rename = "type")]
    #[schemars(extend("x-aliases" = ["types", "file_type", "fileType", "-t"]))]
    types: Option<OneOrMore>,
    /// Whether the pattern is a plain text.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["fixed_strings", "fixedStrings", "fixed_string", "literal_text", "is_literal", "-F"]))]
    literal: bool,
    /// Whether upper and lower case are the same.
    #[schemars(extend("x-aliases" = ["ignoreCase", "case_insensitive", "caseInsensitive", "-i", "i"]))]
    ignore_case: Option<bool>,
    /// How letters are compared if ignore_case does not say; smart ignores case if the pattern is in lower case.
    #[serde(default)]
    case: Case,
    /// Whether only whole words match.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["word_regexp", "whole_word", "-w"]))]
    word: bool,
    /// Whether a match may span lines, and . matches the end of a line.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["multi_line", "multiLine", "-U"]))]
    multiline: bool,
    /// Lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100), extend("x-aliases" = ["context_lines", "contextLines", "-C", "C"], "x-clamp" = true))]
    context: usize,
    /// Lines to show before each match, if not as many as context says.
    #[schemars(range(min = 0, max = 100), extend("x-aliases" = ["before_context", "context_before", "beforeContext", "-B", "B"], "x-clamp" = true))]
    before: Option<usize>,
    /// Lines to show after each match, if not as many as context says.
    #[schemars(range(min = 0, max = 100), extend("x-aliases" = ["after_context", "context_after", "afterContext", "-A", "A"], "x-clamp" = true))]
    after: Option<usize>,
    /// What to give: lines (or content), files (or files_with_matches), or the count of each file.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["output_mode", "outputMode"], "enum" = ["lines", "files", "count", "content", "files_with_matches"]))]
    mode: Mode,
    /// Whether lines stand with their numbers.
    #[serde(default = "yes")]
    #[schemars(extend("x-aliases" = ["line_number", "show_line_numbers", "-n", "n"]))]
    line_numbers: bool,
    /// Whether files whose names begin with a dot are searched; .git never is.
    #[serde(default = "yes")]
    #[schemars(extend("x-aliases" = ["include_hidden"]))]
    hidden: bool,
    /// Whether what .gitignore and .ignore name is searched too.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    ignored: bool,
    /// How many matching lines, or files, at the most; 0 for as many as one call gives.
    #[serde(default = "many")]
    #[schemars(range(min = 0, max = 5_000), extend("x-aliases" = ["head_limit", "headLimit", "max_results", "maxResults", "max_count", "max_matches", "-m"], "x-clamp" = true))]
    limit: usize,
    /// How many of them to leave out first, to go on where a page ended.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000), extend("x-aliases" = ["offset"], "x-clamp" = true))]
    skip: usize,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Mode {
    #[default]
    #[serde(alias = "content")]
    Lines,
    #[serde(alias = "files_with_matches")]
    Files,
    Count,
}

fn yes() -> bool {
    true
}

fn many() -> usize {
    100
}

impl TypedTool for Grep {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "grep",
            "Finds lines by a regular expression or a plain text (literal), in the whole workspace, below a directory or in one \
             file, without what .gitignore names and without binary files. Gives path:line: text, sorted by path; \
             context shows lines around each match, mode gives files or counts instead.",
            parameters,
        )
        .title("Search in files")
        .aliases(&["search_files"])
        .lane(Lane::Files)
        .read_only()
        .output_schema(schema_of::<report::Facts>())
    }

    fn access(&self, args: &Args) -> Access {
        Access { reads: vec![Resource::Path(args.path.clone())], ..Access::default() }
    }

    async fn run(&self, args: Args, ctx: &Context) -> Result<Output, ToolError> {
        let bound = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let case = match (args.ignore_case, args.case) {
            (Some(true), _) | (None, Case::Insensitive) => CaseMode::Insensitive,
            (None, Case::Smart) => CaseMode::Smart,
            (Some(false), _) | (None, Case::Sensitive) => CaseMode::Sensitive,
        };
        let globs = args.glob.map(OneOrMore::split).unwrap_or_default();
        paths::check_below(&globs)?;
        let request = SearchRequest {
            path: args.path,
            pattern: args.pattern,
            literal: args.literal,
            case,
            word: args.word,
            multiline: args.multiline,
            globs,
            types: args.types.map(OneOrMore::split).unwrap_or_default(),
            hidden: args.hidden,
            obey_ignore: !args.ignored,
            before: args.before.unwrap_or(args.context),
            after: args.after.unwrap_or(args.context),
            mode: match args.mode {
                Mode::Lines => SearchMode::Lines,
                Mode::Files => SearchMode::Files,
                Mode::Count => SearchMode::Count,
            },
            limit: if args.limit == 0 { GREP_MATCHES } else { args.limit },
            skip: args.skip,
            line_chars: bound(ctx.limits().search_line_chars).max(20),
            max_bytes: bound(ctx.limits().search_bytes),
        };
        let files = ctx.files()?;
        let found = files.search(&request).await?;
        let ignored = found.files.is_empty()
            && request.skip == 0
            && request.obey_ignore
            && paths::leaves_out(files, &request.path, request.hidden).await;
        Ok(report::output(&found, &request, args.line_numbers, ignored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_described_by_what_it_is_for() {
        let schema = schema_of::<Args>();
        for (name, starts) in [("glob", "Only files with these names"), ("type", "Only files of these types")]
        {
            let told = schema["properties"][name]["description"].as_str().unwrap_or_default();
            assert!(told.starts_with(starts), "{name}: {told}");
        }
    }
}
