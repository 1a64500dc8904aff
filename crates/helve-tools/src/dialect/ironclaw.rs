//! IronClaw's names: `shell`, `read_file`, `write_file`, `apply_patch` (which replaces texts), `list_dir`, `glob`, `grep`.

use helve_core::DialectTool;
use helve_core::dialect::Parameter;
use serde_json::json;

use super::{Args, EVERYWHERE, NEW_TEXT, OLD_TEXT, PATTERN, as_it_is, search_mode};

pub(super) fn tools() -> Vec<DialectTool> {
    vec![
        DialectTool {
            name: "shell",
            tool: "exec",
            description: "Runs a shell command and gives its output and exit code.",
            parameters: vec![
                Parameter::same("command").required(),
                Parameter::ours("workdir", "working_dir"),
                Parameter::same("timeout"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "read_file",
            tool: "read_file",
            description: "Reads a file and shows its lines with their numbers, from offset on, at most limit of them.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::same("offset"),
                Parameter::same("limit"),
            ],
            adapt: |args| {
                args.insert("line_numbers".to_owned(), true.into());
            },
        },
        DialectTool {
            name: "write_file",
            tool: "write_file",
            description: "Writes a file: makes it, or replaces all of its content.",
            parameters: vec![Parameter::same("path").required(), Parameter::same("content").required()],
            adapt: as_it_is,
        },
        DialectTool {
            name: "apply_patch",
            tool: "edit_file",
            description: "Replaces a text in a file. old_string must be in it exactly once, unless replace_all is true.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::ours("old_string", "oldText").required().said(OLD_TEXT),
                Parameter::ours("new_string", "newText").required().said(NEW_TEXT),
                Parameter::same("replace_all").said(EVERYWHERE),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "list_dir",
            tool: "list_dir",
            description: "Lists the entries of a directory, and with recursive what is below them.",
            parameters: vec![
                Parameter::same("path"),
                Parameter::own("recursive", json!({
                    "type": "boolean",
                    "default": false,
                    "description": "Whether what is below is listed too, max_depth levels deep.",
                })),
                Parameter::ours("max_depth", "depth").shaped(json!({
                    "type": "integer",
                    "minimum": 1,
                    "description": "With recursive: how many levels, 3 if absent.",
                })),
            ],
            adapt: list,
        },
        DialectTool {
            name: "glob",
            tool: "glob",
            description: "Finds files by a pattern of their paths, such as **/*.rs.",
            parameters: vec![
                Parameter::same("pattern").required(),
                Parameter::same("path"),
                Parameter::ours("max_results", "limit"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "grep",
            tool: "grep",
            description: "Searches the content of files with a regular expression.",
            parameters: vec![
                Parameter::same("pattern").required().said(PATTERN),
                Parameter::same("path"),
                Parameter::same("glob"),
                Parameter::ours("type_filter", "type"),
                Parameter::ours("output_mode", "mode").shaped(json!({
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "content gives lines, files_with_matches paths, count how many lines match in each file.",
                })),
                Parameter::same("context"),
                Parameter::ours("before_context", "before"),
                Parameter::ours("after_context", "after"),
                Parameter::ours("case_insensitive", "ignore_case"),
                Parameter::ours("head_limit", "limit"),
                Parameter::ours("offset", "skip"),
                Parameter::same("multiline"),
            ],
            adapt: search_mode,
        },
    ]
}

/// Without `recursive` only the directory itself is listed.
fn list(args: &mut Args) {
    let recursive = args.remove("recursive").is_some_and(|value| value == true);
    let depth = args.remove("depth").filter(|_| recursive);
    args.insert("depth".to_owned(), depth.unwrap_or(if recursive { 3.into() } else { 1.into() }));
}
