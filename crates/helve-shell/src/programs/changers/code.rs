//! What code in other languages plainly says: deletions, processes, devices, downloads.
//!
//! In comes the literal text that an interpreter is given, out go what it does by the calls that are written out
//! ([`deeds`]) and the shell lines that it starts ([`shell_texts`]). Code can hide anything, so the walker marks it opaque
//! whatever is found here; the finds only let a guard refuse what is plain to see. Names inside strings and comments
//! do not count.
//!
//! Deliberately not here: evaluation. A name that is put together when the code runs is not seen.

mod calls;
mod processes;
mod strings;
mod tokens;

use std::ops::Range;

use self::calls::{Call, Code};
use self::strings::is_certain;
use self::tokens::{Family, Kind};
use super::{hosts, windows};
use crate::analysis::EffectKind;

/// How deep code inside the strings of code is followed.
const MAX_DEPTH: usize = 3;

/// The most finds that are kept. Who wrote more than that is not to be understood anyway.
const MAX_FINDS: usize = 128;

/// One thing that code does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeDeed {
    pub(crate) kind: EffectKind,
    /// Where in the code.
    pub(crate) range: Range<usize>,
    /// The path, or for a connection the host, if it is written out.
    pub(crate) on: Option<String>,
}

/// A line that code gives to a shell, or an argv written as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellText {
    /// Where in the code.
    pub(crate) range: Range<usize>,
    /// The line as a shell reads it. What shows only when the code runs is `${UNKNOWN}`.
    pub(crate) text: String,
}

/// What the code does by itself.
pub(crate) fn deeds(language: &str, text: &str) -> Vec<CodeDeed> {
    match language {
        "powershell" => windows::powershell(text),
        "cmd" => windows::cmd(text),
        _ => deeds_within(Family::of(language), text, &mut Evaluations::of(text)),
    }
}

/// The lines that the code gives to a shell.
pub(crate) fn shell_texts(language: &str, text: &str) -> Vec<ShellText> {
    match language {
        "powershell" | "cmd" => windows::shell_texts(text),
        _ => processes::shell_texts(Family::of(language), text, &mut Evaluations::of(text)),
    }
}

/// What code inside the strings of code may still cost.
struct Evaluations {
    depth: usize,
    bytes: usize,
}

impl Evaluations {
    fn of(text: &str) -> Self {
        Evaluations { depth: MAX_DEPTH, bytes: text.len() + 1024 }
    }

    /// The code that a call evaluates, if it is written out and not too much. [`Self::leave`] it afterwards.
    fn enter(&mut self, code: &Code<'_>, call: &Call<'_>) -> Option<String> {
        if self.depth == 0 || self.bytes == 0 || !evaluates(code, call) {
            return None;
        }
        let inner = code.value(call.arguments.first()?)?;
        self.bytes = self.bytes.saturating_sub(inner.len() + call.list.len());
        self.depth -= 1;
        Some(inner)
    }

    fn leave(&mut self) {
        self.depth += 1;
    }
}

fn deeds_within(family: Family, text: &str, evaluations: &mut Evaluations) -> Vec<CodeDeed> {
    let code = Code::new(family, text);
    let mut found = Vec::new();
    let mut connections = Vec::new();
    for index in 0..code.tokens.len() {
        if found.len() >= MAX_FINDS {
            break;
        }
        let Some(call) = code.call(index) else { continue };
        if let Some(kind) = deletion(&code, &call) {
            found.push(CodeDeed { kind, range: call.span.clone(), on: first_path(&code, &call) });
        } else if let Some(host) = connection(&code, &call) {
            connections.push(call.token);
            found.push(CodeDeed { kind: EffectKind::Connect, range: call.span.clone(), on: host });
        } else if let Some((kind, path)) = file_access(&code, &call) {
            found.push(CodeDeed { kind, range: call.span.clone(), on: Some(path) });
        } else if let Some(kind) = on_machine(&code, &call) {
            found.push(CodeDeed { kind, range: call.span.clone(), on: None });
        } else if let Some(inner) = evaluations.enter(&code, &call) {
            let inside = deeds_within(family, &inner, evaluations);
            evaluations.leave();
            found.extend(inside.into_iter().map(|deed| CodeDeed { range: call.span.clone(), ..deed }));
        }
    }
    found.extend(downloaded_code(&code, &connections));
    found.extend(fork_bomb(&code));
    found
}

/// Calls that stop the machine or end processes.
fn on_machine(code: &Code<'_>, call: &Call<'_>) -> Option<EffectKind> {
    let has_brackets = code.kind(call.token + 1) == Some(Kind::Mark(b'('));
    let next = code.word(call.token + 1);
    let previous = call.token.checked_sub(1).map_or("", |before| code.word(before));
    match (call.qualifier, call.name) {
        (_, "reboot") if has_brackets => Some(EffectKind::Power),
        (_, "shut") if code.family == Family::AppleScript && next == "down" => Some(EffectKind::Power),
        (_, "restart") if code.family == Family::AppleScript && previous == "to" => Some(EffectKind::Power),
        // Signal 0 only asks whether a process is there.
        ("os" | "process" | "Process" | "posix", "kill") if has_brackets => {
            let asks = call
                .arguments
                .get(1)
                .is_some_and(|signal| signal.len() == 1 && code.word(signal.start) == "0");
            (!asks).then_some(EffectKind::Kill)
        }
        _ => None,
    }
}

/// Which deletion a call is.
fn deletion(code: &Code<'_>, call: &Call<'_>) -> Option<EffectKind> {
    use EffectKind::{Delete, DeleteTree};
    let named_as_value = matches!(call.qualifier, "os" | "shutil" | "fs" | "File" | "FileUtils");
    // Perl's `unlink` works on `$_` when it is given nothing.
    let perl_statement = code.family == Family::Perl
        && !call.is_method
        && !matches!(code.kind(call.token + 1), Some(Kind::Mark(b'=' | b'}' | b':')));
    if !call.is_called && !named_as_value && !perl_statement {
        return None;
    }
    match (code.family, call.qualifier, call.name) {
        (Family::Python, _, "rmtree") | (Family::Perl, _, "rmtree" | "remove_tree") => Some(DeleteTree),
        (Family::Python, "os", "remove" | "removedirs") => Some(Delete),
        (Family::Python, _, "unlink" | "rmdir") => Some(Delete),
        (Family::Python, "", "remove" | "removedirs") if !call.is_method && code.mentions.os => Some(Delete),
        (Family::Python, alias, "remove") if !alias.is_empty() && alias == code.mentions.os_alias => {
            Some(Delete)
        }
        (Family::Perl, _, "unlink" | "rmdir") => Some(Delete),
        (
            Family::Ruby,
            _,
            "rm_r" | "rm_rf" | "remove_dir" | "remove_entry" | "remove_entry_secure" | "rmtree",
        ) => Some(DeleteTree),
        (Family::Ruby, "File" | "Dir", "delete" | "unlink" | "rmdir") => Some(Delete),
        (Family::Ruby, "FileUtils", "rm" | "rm_f" | "remove" | "rmdir" | "safe_unlink") => Some(Delete),
        (Family::Ruby, _, "rm_f") => Some(Delete),
        (Family::Node, _, "rimraf" | "rimrafSync") | (Family::Node, "rimraf", "sync") => Some(DeleteTree),
        (Family::Node, _, "require") if requires_rimraf(code, call) => Some(DeleteTree),
        (Family::Node, "fse" | "fsExtra", "remove" | "removeSync" | "emptyDir" | "emptyDirSync") => {
            Some(DeleteTree)
        }
        (Family::Node, _, "removeSync" | "emptyDirSync") => Some(DeleteTree),
        (Family::Node, _, "rmSync" | "rmdirSync" | "rmdir") | (Family::Node, "Deno", "remove") => {
            Some(if is_recursive(code, call) { DeleteTree } else { Delete })
        }
        (Family::Node, _, "rm") if call.is_method || code.mentions.fs => {
            Some(if is_recursive(code, call) { DeleteTree } else { Delete })
        }
        (Family::Node, _, "unlink" | "unlinkSync") => Some(Delete),
        (Family::Php, _, "deleteDirectory") => Some(DeleteTree),
        (Family::Php, _, "unlink" | "rmdir") if !call.is_method => Some(Delete),
        (Family::Lua, _, "rmtree") => Some(DeleteTree),
        (Family::Lua, "os", "remove") | (Family::Lua, "lfs", "rmdir") => Some(Delete),
        (Family::Julia, _, "rm") | (Family::Other, _, "unlink" | "rmtree") => {
            Some(if is_recursive(code, call) || call.name == "rmtree" { DeleteTree } else { Delete })
        }
        _ => None,
    }
}

/// `require('rimraf')(x)`, `require('rimraf').sync(x)`: used where it is loaded.
fn requires_rimraf(code: &Code<'_>, call: &Call<'_>) -> bool {
    call.arguments.first().and_then(|name| code.value(name)).as_deref() == Some("rimraf")
        && matches!(code.kind(call.list.end + 1), Some(Kind::Mark(b'(' | b'.')))
}

/// Whether the arguments say `recursive` and not that it is off.
fn is_recursive(code: &Code<'_>, call: &Call<'_>) -> bool {
    call.list.clone().any(|index| {
        code.word(index) == "recursive" && !matches!(code.word(index + 2), "false" | "FALSE" | "F")
    })
}

/// The first argument, or the path of `Path('x').unlink()`, if it is written out.
fn first_path(code: &Code<'_>, call: &Call<'_>) -> Option<String> {
    if call.name == "require" {
        return None;
    }
    let first = call.arguments.first();
    let value = first.and_then(|part| code.value(part));
    let value = value.or_else(|| match code.items(first?)?.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    });
    let value = match value {
        None if first.is_none() && call.is_method => path_before(code, call.token),
        value => value,
    };
    value.filter(|path| is_certain(path) && !path.is_empty())
}

/// The string in `Path('x')` in front of a method.
fn path_before(code: &Code<'_>, token: usize) -> Option<String> {
    let start = token.checked_sub(5)?;
    let is_path = code.word(start) == "Path" && code.kind(start + 3) == Some(Kind::Mark(b')'));
    code.value(&(start + 2..start + 3)).filter(|_| is_path)
}

/// Which file a call reads or writes, if that is written out.
fn file_access(code: &Code<'_>, call: &Call<'_>) -> Option<(EffectKind, String)> {
    if !call.is_called {
        return None;
    }
    let argument = |at: usize| {
        call.arguments.get(at).and_then(|part| code.value(part)).filter(|value| is_certain(value))
    };
    let by_mode = |mode: Option<String>| {
        let writes = mode.is_some_and(|mode| mode.contains(['w', 'a', 'x', '+', '>']));
        if writes { EffectKind::Write } else { EffectKind::Read }
    };
    let first = || argument(0).filter(|path| !path.is_empty() && !path.contains("://"));
    match call.name {
        "open" | "fopen" | "openSync" if code.family == Family::Perl => match (argument(1)?, argument(2)) {
            (mode, _) if mode.contains('|') => None,
            (mode, Some(path)) => Some((by_mode(Some(mode)), path)),
            (both, None) => {
                let path = both.trim_start_matches(['>', '<', '+', ' ']).to_owned();
                Some((by_mode(Some(both)), path))
            }
        },
        "open" | "fopen" | "openSync" => {
            let path = first().filter(|path| !path.contains('|'))?;
            Some((by_mode(argument(1).or_else(|| named_mode(code, call))), path))
        }
        "write_text" | "write_bytes" => Some((EffectKind::Write, path_before(code, call.token)?)),
        "read_text" | "read_bytes" => Some((EffectKind::Read, path_before(code, call.token)?)),
        "writeFile" | "writeFileSync" | "appendFile" | "appendFileSync" | "createWriteStream"
        | "truncateSync" | "file_put_contents" | "writeTextFile" | "writeTextFileSync" => {
            Some((EffectKind::Write, first()?))
        }
        "write" if matches!(call.qualifier, "File" | "IO") => Some((EffectKind::Write, first()?)),
        "rename" | "renameSync" | "move" | "copy" | "copyfile" | "copyFileSync" | "copytree" | "copy2" => {
            Some((EffectKind::Write, argument(1)?))
        }
        "readFile" | "readFileSync" | "createReadStream" | "file_get_contents" | "readTextFile"
        | "readfile" => Some((EffectKind::Read, first()?)),
        "read" | "readlines" | "foreach" if matches!(call.qualifier, "File" | "IO") => {
            Some((EffectKind::Read, first()?))
        }
        "lines" if call.qualifier == "io" => Some((EffectKind::Read, first()?)),
        "listdir" | "scandir" | "readdirSync" => Some((EffectKind::Read, first()?)),
        _ => None,
    }
}

/// The value of `mode='w'`.
fn named_mode(code: &Code<'_>, call: &Call<'_>) -> Option<String> {
    let at = call.list.clone().find(|index| code.word(*index) == "mode")?;
    code.value(&(at + 2..(at + 3).min(call.list.end).max(at + 2)))
}

/// The host that a call connects to: none if it is no connection, an empty place if the host is not written out.
fn connection(code: &Code<'_>, call: &Call<'_>) -> Option<Option<String>> {
    if !call.is_called {
        return None;
    }
    let first_of = |part| code.items(part).map_or_else(|| code.value(part), |items| items.into_iter().next());
    let values = || call.arguments.iter().filter_map(first_of);
    let url_host =
        || values().find_map(|value| value.contains("://").then(|| hosts::of_url(&value)).flatten());
    let any_host = || url_host().or_else(|| values().next().filter(|host| is_certain(host)));
    match call.name {
        "urlopen" | "urlretrieve" | "curl_init" | "getstore" | "getprint" | "download_file" => {
            Some(url_host())
        }
        "fetch" if code.family == Family::Node && !call.is_method => Some(url_host()),
        "fsockopen" | "create_connection" | "createConnection" => Some(any_host()),
        "connect" if call.is_method && values().next().is_some() => Some(any_host()),
        "get" | "post" | "put" | "head" | "request" | "open" | "file_get_contents" | "download"
        | "Request" | "get_response" | "parse" | "stream" | "fopen" | "urlread" | "copy" => {
            let host = url_host()?;
            Some(Some(host))
        }
        _ => None,
    }
}

/// Whether a call runs a string as code.
fn evaluates(code: &Code<'_>, call: &Call<'_>) -> bool {
    call.is_called
        && match code.family {
            Family::Python => matches!(call.name, "exec" | "eval" | "compile"),
            Family::Node => matches!(call.name, "eval" | "Function" | "runInThisContext" | "runInNewContext"),
            Family::Lua => matches!(call.name, "load" | "loadstring" | "dostring"),
            _ => matches!(call.name, "eval" | "instance_eval" | "class_eval"),
        }
}

/// Code, or a line for a shell, that is fetched and run at once: `exec(urlopen(…).read())`.
fn downloaded_code(code: &Code<'_>, connections: &[usize]) -> Vec<CodeDeed> {
    if connections.is_empty() {
        return Vec::new();
    }
    let runs = |name: &str| {
        let code = ["exec", "eval", "compile", "loadstring", "load", "Function", "runInThisContext"];
        let lines = ["system", "popen", "Popen", "getoutput", "check_output", "execSync", "shell_exec"];
        code.contains(&name) || lines.contains(&name)
    };
    (0..code.tokens.len())
        .filter(|index| runs(code.word(*index)))
        .filter_map(|index| code.call(index))
        .filter(|call| {
            let first = connections.partition_point(|at| *at < call.list.start);
            call.is_called && connections.get(first).is_some_and(|at| *at < call.list.end)
        })
        .map(|call| CodeDeed { kind: EffectKind::RunsDownload, range: call.span, on: None })
        .collect()
}

/// A loop without end that starts processes and waits for none.
fn fork_bomb(code: &Code<'_>) -> Option<CodeDeed> {
    let tokens = 0..code.tokens.len();
    let forks = |index: usize| matches!(code.word(index), "fork" | "pcntl_fork" | "forkpty");
    let fork = tokens.clone().find(|index| forks(*index) && code.call(*index).is_some())?;
    let waits =
        |word: &str| matches!(word, "wait" | "waitpid" | "accept" | "waitall" | "pcntl_wait" | "detach");
    if tokens.clone().any(|index| waits(code.word(index))) {
        return None;
    }
    let endless = tokens.clone().find(|index| match code.word(*index) {
        "while" => {
            let open = usize::from(code.kind(index + 1) == Some(Kind::Mark(b'(')));
            matches!(code.word(index + 1 + open), "True" | "true" | "1" | "fork") || forks(index + 1 + open)
        }
        "until" => matches!(code.word(index + 1), "false"),
        "loop" => matches!(code.family, Family::Ruby),
        "for" => {
            code.kind(index + 2) == Some(Kind::Mark(b';')) && code.kind(index + 3) == Some(Kind::Mark(b';'))
        }
        _ => false,
    })?;
    let first = &code.tokens[fork.min(endless)].span;
    let last = &code.tokens[fork.max(endless)].span;
    Some(CodeDeed { kind: EffectKind::ForkBomb, range: first.start..last.end, on: None })
}

#[cfg(test)]
mod tests;
