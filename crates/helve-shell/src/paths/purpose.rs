//! What the words of a segment are for: files, text, or code.
//!
//! The tables name the few programs for which the plain reading ("an argument that looks like a path is one") would
//! mostly be wrong. Everything that is not in a table is read plainly.

use super::directories;
use crate::command::{Command, Position, Redirect, Segment, Word};

/// What a word is for, as far as paths are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It may name a file.
    File,
    /// It names nothing.
    Text,
    /// A shell will read it.
    ShellCode,
    /// An interpreter will read it.
    Code,
}

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"];

/// Programs that hand an argument to a shell without being asked with `-c`.
const SHELL_CALLERS: [&str; 5] = ["eval", "watch", "su", "script", "parallel"];

const INTERPRETERS: [&str; 9] = ["python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "deno"];

/// Programs that take a pattern or a program first and files after it.
const PATTERN_FIRST: [&str; 13] =
    ["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "nawk", "jq"];

/// Programs whose option takes a separator, for which `/` is a usual choice.
const SEPARATED: [&str; 9] = ["cut", "sort", "paste", "column", "awk", "gawk", "mawk", "nawk", "xargs"];

/// What the text that a command prints is for: with a pipe it may become another program's input, or its code.
pub(super) fn of_printed(command: &Command) -> Purpose {
    match (directories::has_pipe(command), command.segments.iter().any(|segment| runs(segment, &SHELLS))) {
        (false, _) => Purpose::Text,
        (true, true) => Purpose::ShellCode,
        (true, false) => Purpose::File,
    }
}

/// The purpose of each word of the segment. `printed` is what the command's printed text is for.
pub(super) fn of(segment: &Segment, printed: Purpose) -> Vec<Purpose> {
    let mut purposes = vec![Purpose::File; segment.words.len()];
    let Some(name) = segment.name() else { return purposes };
    if segment.words.len() == 1 {
        return purposes;
    }
    let name = program(&name.text);
    let names_shell = runs(segment, &SHELLS);
    let runs_shell = names_shell || SHELL_CALLERS.contains(&name);
    let interprets = interpreter(segment);
    let input = input_of(names_shell, interprets);
    let prints = matches!(name, "echo" | "printf");
    let mut pattern_due = PATTERN_FIRST.contains(&name) && !gives_pattern(segment, name);
    let mut before = "";
    for (word, purpose) in segment.words.iter().zip(&mut purposes) {
        if word.position == Position::Redirect(Redirect::HereString) {
            *purpose = input;
        }
        if word.position != Position::Argument {
            continue;
        }
        let is_option = word.text.starts_with('-') && word.text.len() > 1;
        *purpose = if name == "tr" {
            Purpose::Text
        } else if prints && printed == Purpose::ShellCode && has_space(word) {
            Purpose::ShellCode
        } else if prints && printed == Purpose::Text && !word.glob && !segment.substituted {
            Purpose::Text
        } else if runs_shell && (is_code_option(before) || has_space(word)) && !is_option {
            Purpose::ShellCode
        } else if interprets && word.text.contains(['\'', '"']) {
            Purpose::Code
        } else if PATTERN_FIRST.contains(&name) && is_pattern_option(before) {
            pattern(name)
        } else if pattern_due && !is_option && !takes_value(name, before) {
            pattern_due = false;
            pattern(name)
        } else if word.text == "/" && SEPARATED.contains(&name) && is_option_text(before) {
            Purpose::Text
        } else {
            Purpose::File
        };
        before = &word.text;
    }
    purposes
}

/// What a here-document of the segment is for.
pub(super) fn of_input(segment: &Segment) -> Purpose {
    input_of(runs(segment, &SHELLS), interpreter(segment))
}

/// What the input of a program is for.
fn input_of(shell: bool, interpreter: bool) -> Purpose {
    match (shell, interpreter) {
        (true, _) => Purpose::ShellCode,
        (false, true) => Purpose::Code,
        (false, false) => Purpose::Text,
    }
}

/// The last component of a program's path.
fn program(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

/// True if a word names one of the programs, also behind `sudo`, `env`, `timeout 5` and the like.
fn runs(segment: &Segment, programs: &[&str]) -> bool {
    words(segment).any(|word| programs.contains(&program(&word.text)))
}

fn interpreter(segment: &Segment) -> bool {
    words(segment).any(|word| {
        let name = program(&word.text).trim_end_matches(|ch: char| ch.is_ascii_digit() || ch == '.');
        INTERPRETERS.contains(&name)
    })
}

fn words(segment: &Segment) -> impl Iterator<Item = &Word> {
    segment.words.iter().filter(|word| matches!(word.position, Position::Name | Position::Argument))
}

fn has_space(word: &Word) -> bool {
    word.text.contains(|ch: char| ch.is_ascii_whitespace())
}

fn is_option_text(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// `-c`, also with other letters before it as in `-lc`, and `--command`.
fn is_code_option(text: &str) -> bool {
    text == "--command" || short_option_ends_with(text, 'c')
}

/// `-e`, also with other letters before it as in `-rne`, and `--regexp`, `--expression`.
fn is_pattern_option(text: &str) -> bool {
    matches!(text, "--regexp" | "--expression") || short_option_ends_with(text, 'e')
}

fn short_option_ends_with(text: &str, last: char) -> bool {
    text.strip_prefix('-')
        .and_then(|letters| letters.strip_suffix(last))
        .is_some_and(|letters| letters.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// True if the pattern comes with an option, so that every plain argument is a file.
fn gives_pattern(segment: &Segment, name: &str) -> bool {
    let awk = name.ends_with("awk");
    segment.arguments().any(|word| {
        let text = word.text.as_str();
        let from_file =
            short_option_ends_with(text, 'f') || text.starts_with("--file") || text == "--from-file";
        let from_option =
            is_pattern_option(text) || text.starts_with("--regexp=") || text.starts_with("--expression=");
        from_file || from_option && !awk
    })
}

/// True if the option is followed by a value that is not the pattern.
fn takes_value(name: &str, option: &str) -> bool {
    match name {
        "awk" | "gawk" | "mawk" | "nawk" => matches!(option, "-F" | "-v"),
        "sed" => option == "-l",
        "jq" => matches!(option, "--arg" | "--argjson" | "--indent"),
        _ => matches!(option, "-A" | "-B" | "-C" | "-m" | "-g" | "-t" | "--glob" | "--type" | "--include"),
    }
}

/// A pattern only matches, but the little programs of sed and awk can open files.
fn pattern(name: &str) -> Purpose {
    if name.ends_with("awk") || name == "sed" { Purpose::Code } else { Purpose::Text }
}
