//! OpenClaw's names: `read`, `write`, `edit`, `apply_patch`, `ls`, `find`, `grep`, `exec`.

use helve_core::DialectTool;
use helve_core::dialect::Parameter;
use serde_json::json;

use super::{Args, as_it_is};

pub(super) fn tools() -> Vec<DialectTool> {
    vec![
        DialectTool {
            name: "read",
            tool: "read_file",
            description: "Reads a file: text page by page, images as images. The end of a page says how to go on.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::same("offset"),
                Parameter::same("limit"),
                Parameter::same("cursor"),
                Parameter::same("optional"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "write",
            tool: "write_file",
            description: "Writes a file: makes it, or replaces all of its content.",
            parameters: vec![Parameter::same("path").required(), Parameter::same("content").required()],
            adapt: as_it_is,
        },
        DialectTool {
            name: "edit",
            tool: "edit_file",
            description: "Replaces texts in a file, all of them or none. Each oldText must be in the file exactly once.",
            parameters: vec![
                Parameter::same("path").required(),
                Parameter::same("edits"),
                Parameter::same("oldText"),
                Parameter::same("newText"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "apply_patch",
            tool: "apply_patch",
            description: "Changes files with one patch from '*** Begin Patch' to '*** End Patch': all of it is applied, or \
                          nothing.",
            parameters: vec![Parameter::same("input").required()],
            adapt: as_it_is,
        },
        DialectTool {
            name: "ls",
            tool: "list_dir",
            description: "Lists the entries of a directory in the order of their names, after one of them if after is given.",
            parameters: vec![Parameter::same("path"), Parameter::same("limit"), Parameter::same("after")],
            adapt: as_it_is,
        },
        DialectTool {
            name: "find",
            tool: "glob",
            description: "Finds files by a pattern of their paths, such as **/*.ts.",
            parameters: vec![
                Parameter::same("pattern").required(),
                Parameter::same("path"),
                Parameter::same("limit"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "grep",
            tool: "grep",
            description: "Searches the content of files with a regular expression, or with a plain text if literal is true.",
            parameters: vec![
                Parameter::same("pattern").required(),
                Parameter::same("path"),
                Parameter::same("glob"),
                Parameter::ours("ignoreCase", "ignore_case"),
                Parameter::same("literal"),
                Parameter::same("context"),
                Parameter::same("limit"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "exec",
            tool: "exec",
            description: "Runs a shell command and gives its output. Nothing keeps running after the call.",
            parameters: vec![
                Parameter::same("command").required(),
                Parameter::ours("workdir", "working_dir").shaped(json!({
                    "type": "string",
                    "description": "Where the command starts; the workspace if absent or empty.",
                })),
                Parameter::ours("timeoutSeconds", "timeout"),
            ],
            adapt: place,
        },
    ]
}

/// An empty directory means none.
fn place(args: &mut Args) {
    if args.get("working_dir").is_some_and(|dir| dir == "") {
        args.remove("working_dir");
    }
}
