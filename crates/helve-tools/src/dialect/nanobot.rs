//! nanobot's names: `exec`, `read_file`, `write_file`, `edit_file`, `apply_patch` (which replaces and adds texts), `list_dir`,
//! `find_files`, `grep`.

use helve_core::DialectTool;
use helve_core::dialect::Parameter;
use serde_json::{Value, json};

use super::{Args, EVERYWHERE, NEW_TEXT, OLD_TEXT, as_it_is, search_mode};

/// How deep a recursive listing goes.
const DEEP: u64 = 64;

pub(super) fn tools() -> Vec<DialectTool> {
    vec![
        DialectTool {
            name: "exec",
            tool: "exec",
            description: "Runs a shell command and gives its output. Nothing keeps running after the call.",
            parameters: vec![
                Parameter::same("command").required(),
                Parameter::same("working_dir"),
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
            name: "edit_file",
            tool: "edit_file",
            description: "Replaces a text in a file. old_text must be in it exactly once, unless replace_all is true.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::ours("old_text", "oldText").required().said(OLD_TEXT),
                Parameter::ours("new_text", "newText").required().said(NEW_TEXT),
                Parameter::same("replace_all").said(EVERYWHERE),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "apply_patch",
            tool: "apply_patch",
            description: "Replaces texts in files and adds texts to them, all of it or nothing. Each old_text must be in its \
                          file exactly once.",
            parameters: vec![
                Parameter::same("edits").required().shaped(json!({
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 20,
                    "description": "The edits, in their order.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "minLength": 1, "description": "The file."},
                            "action": {
                                "type": "string",
                                "enum": ["replace", "add"],
                                "description": "replace puts new_text where old_text is; add puts it at the end of the file, which is made if it is not there.",
                            },
                            "old_text": {"type": "string", "description": "With replace: the text to replace."},
                            "new_text": {"type": "string", "description": "What stands there afterwards."},
                        },
                        "required": ["path", "action"],
                        "additionalProperties": false,
                    },
                })),
                Parameter::same("dry_run"),
            ],
            adapt: without_empty_old_texts,
        },
        DialectTool {
            name: "list_dir",
            tool: "list_dir",
            description: "Lists the entries of a directory, and with recursive everything below them.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::own("recursive", json!({
                    "type": "boolean",
                    "default": false,
                    "description": "Whether everything below is listed too.",
                })),
                Parameter::ours("max_entries", "limit"),
            ],
            adapt: list,
        },
        DialectTool {
            name: "find_files",
            tool: "glob",
            description: "Finds files by a pattern of their paths, such as **/*.py.",
            parameters: vec![
                Parameter::same("path"),
                Parameter::ours("glob", "pattern").required(),
                Parameter::ours("head_limit", "limit"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "grep",
            tool: "grep",
            description: "Searches the content of files with a regular expression, or with a plain text if fixed_strings is true.",
            parameters: vec![
                Parameter::same("pattern").required().said("What to look for: a regular expression without look-around and back-references, or with fixed_strings a plain text."),
                Parameter::same("path"),
                Parameter::same("glob"),
                Parameter::same("type"),
                Parameter::ours("case_insensitive", "ignore_case"),
                Parameter::ours("fixed_strings", "literal"),
                Parameter::ours("output_mode", "mode").shaped(json!({
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "content gives lines, files_with_matches paths, count how many lines match in each file.",
                })),
                Parameter::ours("context_before", "before").said("Lines to show before each match."),
                Parameter::ours("context_after", "after").said("Lines to show after each match."),
                Parameter::ours("head_limit", "limit"),
                Parameter::ours("offset", "skip"),
            ],
            adapt: search_mode,
        },
    ]
}

/// An empty old_text, which models send along with add, says nothing.
fn without_empty_old_texts(args: &mut Args) {
    let edits = args.get_mut("edits").and_then(Value::as_array_mut);
    for edit in edits.into_iter().flatten().filter_map(Value::as_object_mut) {
        if edit.get("old_text").and_then(Value::as_str) == Some("") {
            edit.remove("old_text");
        }
    }
}

fn list(args: &mut Args) {
    let recursive = args.remove("recursive").is_some_and(|value| value == true);
    args.insert("depth".to_owned(), if recursive { DEEP.into() } else { 1.into() });
}
