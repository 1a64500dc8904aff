//! Commands of Windows: deletions, disks, power and what else `cmd` and PowerShell change, in any case of letters.
//!
//! The same table serves an argv that a POSIX shell starts ([`understand`]) and the text that `cmd /c` or
//! `powershell -Command` is given ([`cmd`], [`powershell`]); [`lines`] cuts such text into commands. Reading that text
//! follows neither variables nor control flow.

mod lines;

use self::lines::{Line, Word};
use super::code::{CodeDeed, ShellText};
use super::{Deed, Invocation, Meaning, On, hosts};
use crate::analysis::EffectKind;
use crate::quote;

/// The most finds that are kept.
const MAX_FINDS: usize = 128;

/// How deep text inside text is followed.
const MAX_DEPTH: usize = 3;

/// Programs of POSIX systems whose lines are handed on, as PowerShell runs there too.
const POSIX: &[&str] = &[
    "bash",
    "sh",
    "zsh",
    "dash",
    "wsl",
    "sudo",
    "python",
    "python3",
    "perl",
    "ruby",
    "node",
    "php",
    "dd",
    "mkfs",
    "mkfs.ext4",
    "mkfs.xfs",
    "reboot",
    "poweroff",
    "halt",
    "kill",
    "pkill",
    "killall",
    "chmod",
    "chown",
    "find",
    "git",
    "curl",
    "wget",
    "docker",
    "crontab",
    "systemctl",
];

/// What a command is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// The word with this index; the name is word 0.
    Word(usize),
    Unknown,
    Machine,
}

/// What the argv of a Windows program means when a POSIX shell starts it. The name is in small letters.
pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let name = base(program);
    let has_switch = |letters: &str| {
        invocation.args.iter().any(|arg| arg.text().is_some_and(|text| is_switch(text, letters)))
    };
    let is_ours = match name {
        "del" | "erase" | "rd" | "deltree" | "remove-item" | "diskpart" | "format-volume" | "clear-disk"
        | "initialize-disk" | "remove-partition" | "vssadmin" | "wbadmin" | "bcdedit" | "stop-computer"
        | "restart-computer" | "taskkill" | "stop-process" | "clear-content" | "schtasks" | "takeown"
        | "icacls" | "invoke-expression" | "invoke-webrequest" | "invoke-restmethod" | "set-content"
        | "out-file" | "format" => true,
        "rmdir" => has_switch("sq"),
        // Elsewhere this name reads the documentation of Ruby.
        "ri" => invocation.args.iter().any(|arg| arg.text().is_some_and(is_recurse)),
        "robocopy" => true,
        "shutdown" => has_switch("srphgoal?"),
        "cipher" => has_switch("w"),
        "reg" | "wmic" | "net" => invocation.args.len() > 1,
        _ => false,
    };
    if !is_ours {
        return None;
    }
    let arguments = invocation.args.iter().map(|arg| arg.text().unwrap_or("$").to_owned());
    let words: Vec<String> = std::iter::once(name.to_owned()).chain(arguments).collect();
    let deeds = judge(&words).into_iter().map(|(kind, place)| Deed {
        kind,
        on: match place {
            Where::Word(index) if kind == EffectKind::Connect => match hosts::of_url(&words[index]) {
                Some(host) => On::Host(host, Some(index - 1)),
                None => On::Unknown(Some(index - 1)),
            },
            Where::Word(index) => On::Arg(index - 1),
            Where::Unknown => On::Unknown(None),
            Where::Machine => On::Machine,
        },
    });
    Some(Meaning { deeds: deeds.collect(), ..Meaning::default() }.whole())
}

/// Whether a word is a switch of one of these letters, with or without a value, and no path.
fn is_switch(word: &str, letters: &str) -> bool {
    let mut behind = word.strip_prefix('/').unwrap_or_default().chars();
    let letter = behind.next().map(|letter| letter.to_ascii_lowercase());
    letter.is_some_and(|letter| letters.contains(letter))
        && behind.next().is_none_or(|next| matches!(next, '/' | ':'))
}

/// What text does that PowerShell is given.
pub(crate) fn powershell(text: &str) -> Vec<CodeDeed> {
    found(&lines::powershell(text), MAX_DEPTH)
}

/// What text does that `cmd` is given.
pub(crate) fn cmd(text: &str) -> Vec<CodeDeed> {
    found(&lines::cmd(text), MAX_DEPTH)
}

/// The lines of POSIX programs in text for PowerShell or `cmd`.
pub(crate) fn shell_texts(text: &str) -> Vec<ShellText> {
    let mut found = Vec::new();
    for line in lines::powershell(text) {
        let words = unwrapped(&line.words);
        let Some(first) = words.first() else { continue };
        if found.len() < MAX_FINDS && POSIX.contains(&name_of(&first.text).as_str()) {
            let skip = usize::from(name_of(&first.text) == "wsl");
            let quoted: Vec<_> = words[skip..].iter().map(|word| quote(&word.text)).collect();
            found.push(ShellText { range: line.range(), text: quoted.join(" ") });
        }
    }
    found
}

fn found(lines: &[Line], depth: usize) -> Vec<CodeDeed> {
    let mut found = Vec::new();
    let mut evaluates = None;
    for (index, line) in lines.iter().enumerate() {
        let words = unwrapped(&line.words);
        let texts: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let Some(name) = texts.first().map(|name| name_of(name)) else { continue };
        if matches!(name.as_str(), "iex" | "invoke-expression") {
            evaluates = evaluates.or_else(|| Some(line.range()));
            if depth > 0 {
                let inside = self::found(&lines::powershell(&texts[1..].join(" ")), depth - 1);
                found.extend(inside.into_iter().map(|deed| CodeDeed { range: line.range(), ..deed }));
            }
        }
        let fed = lists_tree(index.checked_sub(1).and_then(|before| lines.get(before)));
        for (kind, place) in judge(&texts) {
            // What a list of a whole tree delivers is deleted, all of it.
            let whole = kind == EffectKind::Delete && place == Where::Unknown && fed;
            let kind = if whole { EffectKind::DeleteTree } else { kind };
            let (range, on) = match place {
                Where::Word(at) => (words[at].range.clone(), written_out(kind, &texts[at])),
                Where::Unknown | Where::Machine => (line.range(), None),
            };
            found.push(CodeDeed { kind, range, on });
        }
        found.extend(method(line, lines.get(index + 1)));
        if found.len() >= MAX_FINDS {
            break;
        }
    }
    let downloads = found.iter().any(|deed| deed.kind == EffectKind::Connect);
    if let Some(range) = evaluates.filter(|_| downloads) {
        found.push(CodeDeed { kind: EffectKind::RunsDownload, range, on: None });
    }
    found
}

/// Whether a command lists a directory with all that is in it.
fn lists_tree(line: Option<&Line>) -> bool {
    let Some([first, rest @ ..]) = line.map(|line| unwrapped(&line.words)) else { return false };
    matches!(name_of(&first.text).as_str(), "gci" | "get-childitem" | "dir" | "ls")
        && rest.iter().any(|word| is_recurse(&word.text))
}

/// A word as a path or host, if it holds no variable.
fn written_out(kind: EffectKind, word: &str) -> Option<String> {
    if word.contains(['$', '%']) {
        return None;
    }
    if kind == EffectKind::Connect { hosts::of_url(word) } else { Some(word.to_owned()) }
}

/// Methods of .NET whose arguments stand in the brackets behind: `[IO.File]::Delete('x')`.
fn method(line: &Line, arguments: Option<&Line>) -> Option<CodeDeed> {
    let last = line.words.last()?.text.to_ascii_lowercase();
    let arguments = arguments.map_or(&[][..], |line| &line.words);
    let kind = if last.ends_with("directory]::delete") {
        let recursive = arguments.iter().skip(1).any(|word| !word.text.eq_ignore_ascii_case("$false"));
        if recursive { EffectKind::DeleteTree } else { EffectKind::Delete }
    } else if last.ends_with("file]::delete") {
        EffectKind::Delete
    } else if last.ends_with(".downloadstring")
        || last.ends_with(".downloadfile")
        || last.ends_with(".downloaddata")
    {
        EffectKind::Connect
    } else {
        return None;
    };
    let on = arguments.first().and_then(|word| written_out(kind, &word.text));
    Some(CodeDeed { kind, range: line.range(), on })
}

/// The words without what only introduces a command.
fn unwrapped(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let [first, behind @ ..] = rest {
        let lower = name_of(&first.text);
        let skip = match (lower.as_str(), behind) {
            (
                "do" | "else" | "call" | "start" | "start-process" | "saps" | "try" | "." | "return",
                [_, ..],
            ) => 1,
            ("if", [not, exist, _, _, ..]) if is(not, "not") && is(exist, "exist") => 4,
            ("if", [exist, _, _, ..]) if is(exist, "exist") => 3,
            ("cmd", [switch, _, ..]) if is(switch, "/c") || is(switch, "/k") => 2,
            ("powershell" | "pwsh", [switch, _, ..]) if is(switch, "-c") || is(switch, "-command") => 2,
            (variable, [equals, _, ..]) if variable.starts_with('$') && is(equals, "=") => 2,
            ("-argumentlist" | "-filepath" | "/b" | "/wait", [_, ..]) => 1,
            _ => return rest,
        };
        rest = &rest[skip..];
    }
    rest
}

fn is(word: &Word, text: &str) -> bool {
    word.text.eq_ignore_ascii_case(text)
}

/// A program's name without directory and ending.
fn base(name: &str) -> &str {
    let name = name.rsplit(['\\', '/']).next().unwrap_or(name);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".com")).unwrap_or(name)
}

/// A word of a command as a program's name in small letters.
fn name_of(word: &str) -> String {
    base(&word.to_ascii_lowercase()).to_owned()
}

/// What a command does, by its words.
fn judge(words: &[String]) -> Vec<(EffectKind, Where)> {
    use EffectKind::{Connect, Delete, DeleteTree, Device, Kill, Persist, Power, Privilege, Write};
    let Some(name) = words.first().map(|name| name_of(name)) else { return Vec::new() };
    let has = |text: &str| words.iter().skip(1).any(|word| word.eq_ignore_ascii_case(text));
    let switch = |letter: char| {
        words.iter().skip(1).filter(|word| word.starts_with('/')).any(|word| {
            word.split('/')
                .any(|part| part.chars().next().is_some_and(|first| first.eq_ignore_ascii_case(&letter)))
        })
    };
    if has("/?") || has("-?") || has("--help") {
        return Vec::new();
    }
    let machine = |kind| vec![(kind, Where::Machine)];
    match name.as_str() {
        "del" | "erase" | "rd" | "rmdir" | "remove-item" | "ri" | "rm" | "deltree" => {
            // Given a directory, a forced or quiet `del` empties it without a question.
            let by_switch =
                switch('s') || (matches!(name.as_str(), "del" | "erase") && (switch('f') || switch('q')));
            let recursive =
                by_switch || name == "deltree" || words.iter().skip(1).any(|word| is_recurse(word));
            each(if recursive { DeleteTree } else { Delete }, &operands(words))
        }
        "robocopy" if has("/mir") || has("/purge") => match operands(words).get(1) {
            Some(target) => vec![(DeleteTree, Where::Word(*target))],
            None => vec![(DeleteTree, Where::Unknown)],
        },
        "robocopy" => {
            operands(words).get(1).map(|target| (Write, Where::Word(*target))).into_iter().collect()
        }
        "format" if words.iter().any(|word| is_drive(word)) => machine(Device),
        "diskpart" | "format-volume" | "clear-disk" | "initialize-disk" | "remove-partition" => {
            machine(Device)
        }
        "cipher" if switch('w') => machine(Device),
        "vssadmin" if has("delete") || has("resize") => machine(Device),
        "wmic" if has("shadowcopy") && has("delete") => machine(Device),
        "wbadmin" if has("delete") => machine(Device),
        "bcdedit" if words.len() > 1 && !has("/enum") => machine(Privilege),
        "reg" if has("delete") => vec![(Delete, Where::Unknown)],
        "reg" if has("add") && words.iter().any(|word| word.to_ascii_lowercase().contains("\\run")) => {
            vec![(Persist, Where::Unknown)]
        }
        "schtasks" if has("/create") => machine(Persist),
        "net" if (has("user") || has("localgroup")) && has("/add") => machine(Privilege),
        "takeown" => machine(Privilege),
        "icacls" if words.len() > 2 => vec![(Write, Where::Word(1))],
        "shutdown" if !switch('a') && !switch('l') && "srphgo".chars().any(switch) => machine(Power),
        "stop-computer" | "restart-computer" => machine(Power),
        "taskkill" | "stop-process" | "spps" => vec![(Kill, Where::Unknown)],
        "clear-content" | "clc" | "set-content" | "add-content" | "out-file" => {
            operands(words).into_iter().take(1).map(|at| (Write, Where::Word(at))).collect()
        }
        "invoke-webrequest" | "iwr" | "invoke-restmethod" | "irm" | "curl" | "wget"
        | "start-bitstransfer" => each(Connect, &operands(words)[..operands(words).len().min(1)]),
        _ => Vec::new(),
    }
}

/// `c:`
fn is_drive(word: &str) -> bool {
    word.len() == 2 && word.ends_with(':') && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

/// A deed on each place, or on something unknown where a pipe delivers it.
fn each(kind: EffectKind, places: &[usize]) -> Vec<(EffectKind, Where)> {
    if places.is_empty() {
        return vec![(kind, Where::Unknown)];
    }
    places.iter().map(|place| (kind, Where::Word(*place))).collect()
}

/// `-Recurse`, its abbreviations, and the `-rf` of other systems.
fn is_recurse(word: &str) -> bool {
    let Some(option) = word.strip_prefix('-').map(str::to_ascii_lowercase) else { return false };
    let option = option.split(':').next().unwrap_or_default();
    (!option.is_empty() && "recurse".starts_with(option))
        || option == "-recursive"
        || is_posix_cluster(option)
}

fn is_posix_cluster(option: &str) -> bool {
    option.len() <= 4 && option.contains('r') && option.chars().all(|letter| "rfvi".contains(letter))
}

/// The words that are neither switches nor the values of those that have one.
fn operands(words: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 1;
    while at < words.len() {
        let word = words[at].to_ascii_lowercase();
        let is_slash_switch = word.starts_with('/') && word.split('/').skip(1).all(|part| part.len() <= 2);
        match word.strip_prefix('-') {
            Some("path" | "literalpath" | "lp" | "uri" | "source" | "filepath") => {}
            Some(
                "filter" | "include" | "exclude" | "erroraction" | "ea" | "stream" | "credential" | "value"
                | "outfile" | "encoding" | "method" | "headers" | "body",
            ) => at += 1,
            Some(_) => {}
            None if is_slash_switch => {}
            None => found.push(at),
        }
        at += 1;
    }
    found
}
