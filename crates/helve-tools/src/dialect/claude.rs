//! Claude Code's names: `Read`, `Write`, `Edit`, `MultiEdit`, `LS`, `Glob`, `Grep`, `Bash`.

use helve_core::DialectTool;
use helve_core::dialect::Parameter;
use serde_json::json;

use super::{Args, EVERYWHERE, NEW_TEXT, OLD_TEXT, PATTERN, as_it_is, edits, search_mode, seconds};

pub(super) fn tools() -> Vec<DialectTool> {
    vec![
        DialectTool {
            name: "Read",
            tool: "read_file",
            description: "Reads a file and shows its lines with their numbers. Give offset and limit for a part of a long \
                          file. Images are shown, PDF files and notebooks are given as text.",
            parameters: vec![
                Parameter::ours("file_path", "path").required(),
                Parameter::same("offset"),
                Parameter::same("limit"),
            ],
            adapt: numbered,
        },
        DialectTool {
            name: "Write",
            tool: "write_file",
            description: "Writes a file: makes it, or replaces all of its content. Prefer Edit for a file that is there.",
            parameters: vec![
                Parameter::ours("file_path", "path").required(),
                Parameter::same("content").required(),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "Edit",
            tool: "edit_file",
            description: "Replaces a text in a file. old_string must be in it exactly once, unless replace_all is true; copy it \
                          from the file without line numbers.",
            parameters: vec![
                Parameter::ours("file_path", "path").required(),
                Parameter::ours("old_string", "oldText").required().said(OLD_TEXT),
                Parameter::ours("new_string", "newText").required().said(NEW_TEXT),
                Parameter::same("replace_all").said(EVERYWHERE),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "MultiEdit",
            tool: "edit_file",
            description: "Makes several replacements in one file, all of them or none. Each old_string is looked for in the file \
                          as it is before the call.",
            parameters: vec![
                Parameter::ours("file_path", "path").required(),
                Parameter::same("edits").required().shaped(json!({
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 100,
                    "description": "The replacements.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_string": {"type": "string", "minLength": 1, "description": "The text to replace."},
                            "new_string": {"type": "string", "description": "What stands there afterwards."},
                            "replace_all": {"type": "boolean", "description": "Replace it everywhere."},
                        },
                        "required": ["old_string", "new_string"],
                        "additionalProperties": false,
                    },
                })),
            ],
            adapt: edits,
        },
        DialectTool {
            name: "LS",
            tool: "list_dir",
            description: "Lists the files and directories of a directory.",
            parameters: vec![Parameter::same("path").required()],
            adapt: as_it_is,
        },
        DialectTool {
            name: "Glob",
            tool: "glob",
            description: "Finds files by a pattern of their paths, such as **/*.rs.",
            parameters: vec![Parameter::same("pattern").required(), Parameter::same("path")],
            adapt: as_it_is,
        },
        DialectTool {
            name: "Grep",
            tool: "grep",
            description: "Searches the content of files with a regular expression. output_mode says whether matching lines, \
                          files or counts are given.",
            parameters: vec![
                Parameter::same("pattern").required().said(PATTERN),
                Parameter::same("path"),
                Parameter::same("glob"),
                Parameter::same("type"),
                Parameter::ours("output_mode", "mode").shaped(json!({
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "default": "files_with_matches",
                    "description": "content gives lines, files_with_matches paths, count how many lines match in each file.",
                })),
                Parameter::ours("-i", "ignore_case"),
                Parameter::ours("-n", "line_numbers"),
                Parameter::ours("-A", "after").said("Lines to show after each match, if not as many as -C says."),
                Parameter::ours("-B", "before").said("Lines to show before each match, if not as many as -C says."),
                Parameter::ours("-C", "context"),
                Parameter::same("multiline"),
                Parameter::ours("head_limit", "limit"),
                Parameter::ours("offset", "skip"),
            ],
            adapt: search_mode,
        },
        DialectTool {
            name: "Bash",
            tool: "exec",
            description: "Runs a shell command and gives its output. Nothing keeps running after the call. Prefer Read, Edit, \
                          Glob and Grep for files.",
            parameters: vec![
                Parameter::same("command").required(),
                Parameter::same("timeout").shaped(json!({
                    "type": "integer",
                    "minimum": 1,
                    "description": "After how many milliseconds the command is ended.",
                })),
            ],
            adapt: |args| seconds(args, "timeout"),
        },
    ]
}

fn numbered(args: &mut Args) {
    args.insert("line_numbers".to_owned(), true.into());
}
