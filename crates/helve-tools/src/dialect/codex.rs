//! Codex's names: `shell`, `exec_command`, `apply_patch`, `read_file`, `list_dir`, `grep_files`, `view_image`.

use helve_core::DialectTool;
use helve_core::dialect::Parameter;
use serde_json::{Value, json};

use super::{Args, PATTERN, as_it_is, seconds};

pub(super) fn tools() -> Vec<DialectTool> {
    vec![
        DialectTool {
            name: "shell",
            tool: "exec",
            description: "Runs a command, given as a program and its arguments; [\"bash\", \"-lc\", \"…\"] runs a shell \
                          script. Gives its output.",
            parameters: vec![
                Parameter::same("command").required().shaped(json!({
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string"},
                    "description": "The program and its arguments.",
                })),
                Parameter::ours("workdir", "working_dir"),
                Parameter::ours("timeout_ms", "timeout").shaped(json!({
                    "type": "integer",
                    "minimum": 1,
                    "description": "After how many milliseconds the command is ended.",
                })),
            ],
            adapt: shell,
        },
        DialectTool {
            name: "exec_command",
            tool: "exec",
            description: "Runs a shell command and gives its output. Nothing keeps running after the call.",
            parameters: vec![
                Parameter::ours("cmd", "command").required(),
                Parameter::ours("workdir", "working_dir"),
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
            name: "read_file",
            tool: "read_file",
            description: "Reads a file and shows its lines with their numbers, from offset on, at most limit of them.",
            parameters: vec![
                Parameter::ours("file_path", "path").required(),
                Parameter::same("offset"),
                Parameter::same("limit"),
            ],
            adapt: |args| {
                args.insert("line_numbers".to_owned(), true.into());
            },
        },
        DialectTool {
            name: "list_dir",
            tool: "list_dir",
            description: "Lists the entries of a directory.",
            parameters: vec![
                Parameter::ours("dir_path", "path").required(),
                Parameter::same("limit"),
                Parameter::same("depth"),
            ],
            adapt: as_it_is,
        },
        DialectTool {
            name: "grep_files",
            tool: "grep",
            description: "Finds files whose content matches a regular expression.",
            parameters: vec![
                Parameter::same("pattern").required().said(PATTERN),
                Parameter::ours("include", "glob"),
                Parameter::same("path"),
                Parameter::same("limit"),
            ],
            adapt: |args| {
                args.insert("mode".to_owned(), "files".into());
            },
        },
        DialectTool {
            name: "view_image",
            tool: "read_file",
            description: "Shows an image file.",
            parameters: vec![Parameter::same("path").required()],
            adapt: as_it_is,
        },
    ]
}

/// Words become one command for a shell, each quoted; a shell with a script is the script.
fn shell(args: &mut Args) {
    seconds(args, "timeout");
    let Some(words) = args.get("command").and_then(Value::as_array) else { return };
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let command = match words[..] {
        ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", script] => script.to_owned(),
        _ => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    args.insert("command".to_owned(), command.into());
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn words_become_a_command_that_means_the_same() {
        let cases = [
            (json!(["bash", "-lc", "ls | wc -l"]), "ls | wc -l"),
            (json!(["ls", "-l", "a b"]), "ls -l 'a b'"),
            (json!(["echo", "it's", "$HOME", ""]), r"echo 'it'\''s' '$HOME' ''"),
            (json!(["bash", "-lc", "a", "b"]), "bash -lc a b"),
            (json!(["~/x", "a=b", "#"]), "'~/x' 'a=b' '#'"),
        ];
        for (words, command) in cases {
            let mut args = Args::new();
            args.insert("command".into(), words.clone());
            shell(&mut args);
            assert_eq!(args["command"], command, "{words}");
        }
    }
}
