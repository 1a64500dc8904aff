//! Processes that code starts: the shell lines and argvs in its calls.

use std::ops::Range;

use super::calls::{Call, Code};
use super::strings::{GAP, UNKNOWN, shell_line, shell_text};
use super::tokens::{Family, Kind, Quote};
use super::{Evaluations, MAX_FINDS, ShellText};

/// How many tokens the end of a line is searched for.
const MAX_LINE_TOKENS: usize = 256;

/// How a call says what to start.
enum Start {
    /// The first argument is a line for a shell, or a list that is an argv; further strings make an argv of it.
    Line,
    /// The argument at this place is the program; the list behind it is the rest.
    ProgramAndList(usize),
    /// The argument at this place is a list with the program's own name first.
    ListWithName(usize),
    /// The arguments from this place on are the argv.
    Spread(usize),
    /// A file name that is a command if a bar stands before or behind it.
    Opened,
}

/// The lines that code gives to a shell, also in the code that it evaluates.
pub(super) fn shell_texts(family: Family, text: &str, evaluations: &mut Evaluations) -> Vec<ShellText> {
    let code = Code::new(family, text);
    let mut found = Vec::new();
    for (index, token) in code.tokens.iter().enumerate() {
        if found.len() >= MAX_FINDS {
            break;
        }
        match token.kind {
            Kind::Command => {
                let mut line = String::new();
                let quote = if family == Family::Ruby { Quote::Template } else { Quote::Escaped };
                code.decode(quote, &text[token.inner.clone()], &mut line);
                found.push(ShellText { range: token.span.clone(), text: shell_text(&line) });
            }
            Kind::Text(_) if is_piped(&code, index) => {
                found.extend(line_of(&code, &(index..index + 1), token.span.clone()));
            }
            Kind::Word => {
                found.extend(started_bare(&code, index));
                let Some(call) = code.call(index).filter(|call| call.is_called) else { continue };
                if let Some(start) = start(&code, &call) {
                    found.extend(started(&code, &call, &start));
                } else if let Some(inner) = evaluations.enter(&code, &call) {
                    let inside = shell_texts(family, &inner, evaluations);
                    evaluations.leave();
                    found.extend(
                        inside.into_iter().map(|line| ShellText { range: call.span.clone(), ..line }),
                    );
                }
            }
            _ => {}
        }
    }
    // The table of awk follows what its programs write out; here is left what they put together.
    found.retain(|line| family != Family::Awk || line.text.contains(UNKNOWN));
    found
}

/// How a call starts a process, if it does.
fn start(code: &Code<'_>, call: &Call<'_>) -> Option<Start> {
    Some(match (code.family, call.name) {
        (
            Family::Python,
            "system" | "popen" | "getoutput" | "getstatusoutput" | "create_subprocess_shell",
        ) => Start::Line,
        (Family::Python, "run" | "call" | "check_call" | "check_output" | "Popen")
            if code.mentions.subprocess =>
        {
            Start::Line
        }
        (Family::Python, "create_subprocess_exec") => Start::Spread(0),
        (Family::Python, "spawn") if call.qualifier == "pty" => Start::Line,
        (Family::Python, "execv" | "execve" | "execvp" | "execvpe" | "posix_spawn" | "posix_spawnp") => {
            Start::ListWithName(1)
        }
        (Family::Python, "spawnv" | "spawnve" | "spawnvp" | "spawnvpe") => Start::ListWithName(2),
        (Family::Python, "execl" | "execle" | "execlp" | "execlpe") => Start::Spread(1),
        (Family::Python, "spawnl" | "spawnle" | "spawnlp" | "spawnlpe") => Start::Spread(2),
        (Family::Perl, "system" | "exec") => Start::Line,
        (Family::Perl, "open") => Start::Opened,
        (Family::Ruby, "system" | "exec" | "spawn" | "popen" | "popen2" | "popen2e" | "popen3") => {
            Start::Line
        }
        (Family::Ruby, "capture2" | "capture2e" | "capture3") => Start::Line,
        (Family::Ruby, "open") => Start::Opened,
        (Family::Node, "exec") if code.mentions.child_process => Start::Line,
        (Family::Node, "execSync") => Start::Line,
        (Family::Node, "spawn" | "execFile") if code.mentions.child_process || call.qualifier == "Bun" => {
            Start::ProgramAndList(0)
        }
        (Family::Node, "spawnSync" | "execFileSync") => Start::ProgramAndList(0),
        (Family::Node, "Command") if call.qualifier == "Deno" => Start::ProgramAndList(0),
        (Family::Php, "system" | "exec" | "shell_exec" | "passthru" | "popen" | "proc_open")
            if !call.is_method =>
        {
            Start::Line
        }
        (Family::Php, "pcntl_exec") => Start::ProgramAndList(0),
        (Family::Lua, "execute") if call.qualifier == "os" => Start::Line,
        (Family::Lua, "popen") => Start::Line,
        (Family::Awk, "system") => Start::Line,
        (Family::AppleScript, "script") => Start::Line,
        (Family::Other | Family::Julia, "system" | "shell" | "execute") => Start::Line,
        (Family::Other, "system2") => Start::ProgramAndList(0),
        _ => return None,
    })
}

fn started(code: &Code<'_>, call: &Call<'_>, start: &Start) -> Option<ShellText> {
    let argument = |at: usize| call.arguments.get(at);
    let argv = |words: Vec<String>| {
        (!words.is_empty()).then(|| ShellText { range: call.span.clone(), text: shell_line(&words) })
    };
    let spread = |from: usize| {
        let words = call.arguments.iter().skip(from);
        words.map(|part| code.value(part).unwrap_or_else(|| GAP.to_string())).collect::<Vec<_>>()
    };
    match start {
        Start::Line => {
            let first = argument(0)?;
            if let Some(words) = code.items(first).filter(|_| !starts_with_call_bracket(code, first)) {
                return argv(words);
            }
            let several = matches!(code.family, Family::Perl | Family::Ruby)
                && argument(1).is_some_and(|second| code.value(second).is_some());
            if several { argv(spread(0)) } else { line_of(code, first, call.span.clone()) }
        }
        Start::ProgramAndList(at) => {
            if let Some(words) = argument(*at).and_then(|first| code.items(first)) {
                return argv(words);
            }
            let program = code.value(argument(*at)?)?;
            let rest = call.list.clone().find_map(|index| code.items(&(index..call.list.end)));
            // A program with spaces in its name is a line that is given with `shell: true`.
            match rest {
                Some(rest) => argv(std::iter::once(program).chain(rest).collect()),
                None => Some(ShellText { range: call.span.clone(), text: shell_text(&program) }),
            }
        }
        Start::ListWithName(at) => {
            let mut words = code.items(argument(*at)?)?;
            let program = code.value(argument(at - 1)?);
            if let (Some(program), Some(first)) = (program, words.first_mut()) {
                *first = program;
            }
            argv(words)
        }
        Start::Spread(at) => {
            let mut words = spread(*at);
            if let Some(program) = at.checked_sub(1).and_then(argument).and_then(|part| code.value(part))
                && let Some(first) = words.first_mut()
            {
                *first = program;
            }
            argv(words)
        }
        Start::Opened => opened(code, call),
    }
}

/// In Perl and Lua a bracket around arguments is no list.
fn starts_with_call_bracket(code: &Code<'_>, part: &Range<usize>) -> bool {
    code.kind(part.start) == Some(Kind::Mark(b'('))
        && !code.value(part).is_none_or(|_| code.family == Family::Python)
}

/// `open(F, "ls |")`, `open(F, "-|", "ls")`, `open("|ls")`.
fn opened(code: &Code<'_>, call: &Call<'_>) -> Option<ShellText> {
    let values: Vec<String> = call.arguments.iter().filter_map(|part| code.value(part)).collect();
    let bar = values.iter().position(|value| value.trim().starts_with('|') || value.trim().ends_with('|'))?;
    let command = values[bar].trim().trim_matches('|');
    let rest = &values[bar + 1..];
    let text = match (command, rest) {
        ("-" | "", [line]) => shell_text(line),
        ("-" | "", words) => shell_line(words),
        (line, _) => shell_text(line),
    };
    Some(ShellText { range: call.span.clone(), text })
}

fn line_of(code: &Code<'_>, part: &Range<usize>, range: Range<usize>) -> Option<ShellText> {
    let text = shell_text(&code.value(part)?);
    (!text.trim().is_empty()).then_some(ShellText { range, text })
}

/// Whether a string of awk stands at a pipe: `"date" | getline`, `print | "sort"`.
fn is_piped(code: &Code<'_>, index: usize) -> bool {
    if code.family != Family::Awk {
        return false;
    }
    let bar = |at: Option<usize>| at.and_then(|at| code.kind(at)) == Some(Kind::Mark(b'|'));
    let before = bar(index.checked_sub(1)) && !bar(index.checked_sub(2));
    let skip = if code.kind(index + 2) == Some(Kind::Mark(b'&')) { 3 } else { 2 };
    before || (bar(Some(index + 1)) && code.word(index + skip) == "getline")
}

/// Starts that need no call: Tcl's `exec rm -rf x`, and the `$` of script libraries for JavaScript.
fn started_bare(code: &Code<'_>, index: usize) -> Option<ShellText> {
    let start = code.tokens.get(index + 1)?.span.start;
    match (code.family, code.word(index)) {
        (Family::Tcl, "exec" | "spawn" | "system") => {
            let end = code.tokens[index..]
                .iter()
                .take(MAX_LINE_TOKENS)
                .find(|token| matches!(token.kind, Kind::Mark(b';' | b'\n' | b']')));
            let end = end.map_or(code.text.len(), |token| token.span.start);
            let range = code.tokens[index].span.start..end;
            Some(ShellText { range, text: code.text[start..end].to_owned() })
        }
        (Family::Node, "$") if matches!(code.kind(index + 1), Some(Kind::Text(Quote::Template))) => {
            line_of(code, &(index + 1..index + 2), code.tokens[index + 1].span.clone())
        }
        _ => None,
    }
}
