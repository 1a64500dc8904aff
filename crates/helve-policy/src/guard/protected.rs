//! Files that run or configure programs without being asked: git's hooks and configuration, settings of editors and
//! agents, and Helve's own.
//!
//! In comes what a command does; out goes where it changes such a file, also behind links. Git itself may write its files,
//! but not set a key that names a program other than one that everybody knows.

use std::path::Path;

use helve_core::protected;
use helve_shell::Span;
use helve_shell::analysis::{Arg, Effect, EffectKind, Run, Target};

use super::families::place;
use super::links::Links;
use super::written::{Author, author, author_of_named};
use super::{Case, Guard, disk, repository};
use crate::config::layers::WORKSPACE_FILE;

/// Where a command changes protected files: the simple command that does it, and its run.
pub(super) fn look(guard: &Guard, case: &Case<'_>) -> Vec<(Span, Option<usize>)> {
    let analysis = case.analysis;
    let links = Links::of(case);
    let run = |effect: &Effect| effect.run.and_then(|run| analysis.runs.get(run));
    let is_hit = |effect: &Effect, kind, author| is_changed(guard, case, &links, effect, kind, author);
    let done = analysis.effects.iter().filter(|effect| {
        matches!(effect.kind, EffectKind::Write | EffectKind::Delete)
            && is_hit(effect, effect.kind, author(run(effect), effect))
    });
    let named = analysis.possible.iter().map(|possible| &possible.effect).filter(|effect| {
        let author = run(effect).and_then(|run| author_of_named(run, effect));
        author.is_some_and(|author| is_hit(effect, EffectKind::Write, author))
    });
    let set = analysis.runs.iter().enumerate().filter(|(_, run)| names_program(run));
    done.chain(named)
        .map(|effect| (place(analysis, effect), effect.run))
        .chain(set.map(|(index, run)| (run.span, Some(index))))
        .collect()
}

/// Whether an effect of this kind changes a protected file.
fn is_changed(
    guard: &Guard,
    case: &Case<'_>,
    links: &Links,
    effect: &Effect,
    kind: EffectKind,
    author: Author,
) -> bool {
    if author == Author::Keeper {
        return false;
    }
    let (path, pattern) = match &effect.target {
        Target::Path { path, .. } => (path, ""),
        Target::Glob { under, pattern, .. } => (under, pattern.as_str()),
        Target::Unknown => {
            let text = case.text.get(effect.span.range()).unwrap_or_default();
            return kind == EffectKind::Write && is_partly_of_git(text);
        }
        Target::Host(_) | Target::Machine => return false,
    };
    if kind == EffectKind::Delete {
        // Without them git takes others, or none; a single hook may go.
        return of_git(path, pattern) == Some(OfGit::Root);
    }
    let is_one = |path: &Path| {
        is_own(guard, case, path) || author == Author::Hand && configures(guard, case.setting.workspace, path)
    };
    let behind = |path: &Path| {
        // A link to the repository is no part of it, but what lies behind the link is.
        is_one(path) || of_git(path, pattern).is_some_and(|part| part != OfGit::Repository)
    };
    of_git(path, pattern).is_some()
        || is_one(path)
        || links.lead(path, effect.run).is_some_and(|path| behind(&path))
}

/// What of git's own a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfGit {
    /// The repository as a whole, or the link or file that stands for it.
    Repository,
    /// Its configuration, or the directory of its hooks.
    Root,
    /// A hook.
    Hook,
}

/// Which part of git's own a path is, if it is one that runs programs. Names are compared as file systems do that do not
/// tell capital letters, and a pattern counts for all that it may match.
fn of_git(path: &Path, pattern: &str) -> Option<OfGit> {
    let mut parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().to_lowercase()).collect();
    parts.extend(pattern.split('/').filter(|part| !part.is_empty()).map(str::to_lowercase));
    let at = parts.iter().position(|part| is(part, ".git"))?;
    let inside = parts.get(at + 1..)?;
    let Some((first, rest)) = inside.split_first() else { return Some(OfGit::Repository) };
    // The repositories of submodules and further work trees lie below.
    let nested = is(first, "modules") || is(first, "worktrees");
    let own = if nested { rest } else { inside };
    let hooks = own.iter().take(if nested { own.len() } else { 1 }).position(|part| is(part, "hooks"));
    if let Some(hooks) = hooks {
        return Some(if hooks + 1 == own.len() { OfGit::Root } else { OfGit::Hook });
    }
    let is_file = if nested { own.len() > 1 } else { own.len() == 1 };
    let configures =
        |last: &String| ["config", "config.worktree", "commondir"].iter().any(|name| is(last, name));
    (is_file && own.last().is_some_and(configures)).then_some(OfGit::Root)
}

/// Whether a part of a path is this name, or a pattern that may match it. A pattern matches hidden names only where it
/// starts with the dot.
fn is(part: &str, name: &str) -> bool {
    if !part.contains(['*', '?', '[']) {
        return part == name;
    }
    part.starts_with('.') == name.starts_with('.') && disk::matches(part, name)
}

/// Whether a path of which a part shows only when it runs is such a part of git's own by the rest of it:
/// `"$d/.git/config"`, `.git/hooks/$name`, `"$(git rev-parse --git-dir)/hooks/pre-commit"`.
fn is_partly_of_git(written: &str) -> bool {
    let opens = written.find(['$', '`']);
    let closes = written.rfind(['$', '`', ')', '}']);
    let (Some(opens), Some(closes)) = (opens, closes) else { return false };
    let (head, unknown, tail) =
        (&written[..opens], written.get(opens..=closes).unwrap_or_default(), &written[closes + 1..]);
    let is_name = |ch: char| ch.is_ascii_alphanumeric() || ch == '_';
    let tail = if unknown.ends_with('$') { tail.trim_start_matches(is_name) } else { tail };
    let (head, tail) = (head.trim_matches('"'), tail.trim_matches('"'));
    if [head, tail].iter().any(|part| part.contains(|ch: char| ch.is_whitespace() || "\"'|&;<>".contains(ch)))
    {
        return false;
    }
    let says = |words: &[&str]| words.iter().any(|word| unknown.contains(word));
    let known = match () {
        () if says(&["--git-dir", "--git-common-dir", "--absolute-git-dir"]) => ".git",
        () if says(&["--git-path hooks"]) => ".git/hooks",
        () => "?",
    };
    let is_hook = tail.rsplit_once("hooks/").is_some_and(|(_, name)| repository::is_hook(name));
    is_hook || of_git(Path::new(&format!("{head}{known}{tail}")), "").is_some()
}

fn is_own(guard: &Guard, case: &Case<'_>, path: &Path) -> bool {
    guard.own_files.iter().any(|file| path.starts_with(file))
        || path == case.setting.workspace.join(WORKSPACE_FILE)
}

/// Whether a path has a protected name, or lies in a directory that has one. Of git's structure only parts count.
fn configures(guard: &Guard, workspace: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(workspace) else { return false };
    let mut parts = below.components();
    let is_one = |part: std::path::Component<'_>| {
        let name = part.as_os_str().as_encoded_bytes();
        protected::is_among(&guard.protected, name) && !protected::is_among(&[protected::GIT], name)
    };
    parts.any(is_one) && parts.next().is_none_or(|first| first.as_os_str() != protected::WORKTREES)
}

/// Whether a run of git sets a key of its configuration that names a program.
pub(super) fn names_program(run: &Run) -> bool {
    if run.program.as_deref() != Some("git") {
        return false;
    }
    let Some((key, value)) = setting(run.argv.get(1..).unwrap_or_default()) else { return false };
    let key = key.to_lowercase();
    let (section, rest) = key.split_once('.').unwrap_or((&key, ""));
    let name = rest.rsplit('.').next().unwrap_or_default();
    let value = value.text();
    let known = |programs: &[&str]| value.is_some_and(|value| is_known(value, programs));
    match (section, name) {
        ("core", "hookspath") => value != Some("/dev/null"),
        ("core", "fsmonitor") => !value.is_some_and(is_switch),
        ("core" | "sequence", "editor") => !known(EDITORS),
        ("core", "pager") | ("pager", _) => !known(PAGERS) && !value.is_some_and(is_switch),
        ("interactive", "difffilter") => !known(PAGERS),
        ("core", "sshcommand") => !known(&["ssh"]),
        ("core", "gitproxy" | "askpass" | "alternaterefscommand") => true,
        // Other aliases are subcommands of git, which are read when they are used.
        ("alias", _) => value.is_none_or(|value| value.trim_start().starts_with('!')),
        ("filter", "clean" | "smudge" | "process") => !known(&["git-lfs", "git"]),
        ("diff", "external" | "command" | "textconv") | ("merge", "driver") => !known(DIFFERS),
        ("difftool" | "mergetool", "cmd" | "path") => !known(EDITORS) && !known(DIFFERS),
        ("include" | "includeif", "path") => true,
        ("credential", "helper") => !value.is_some_and(is_known_helper),
        ("gpg", "program") => !known(&["gpg", "gpg2", "gpgsm", "ssh-keygen"]),
        ("uploadpack", "packobjectshook") | ("init", "templatedir") => true,
        ("remote", "uploadpack" | "receivepack") => !known(&["git-upload-pack", "git-receive-pack"]),
        ("trailer" | "browser" | "man" | "guitool", "command" | "cmd") | ("tar", "command") => true,
        ("submodule", "update") => value.is_none_or(|value| value.starts_with('!')),
        _ => false,
    }
}

/// Programs that only show or edit what they are given.
const EDITORS: &[&str] = &[
    "atom",
    "code",
    "code-insiders",
    "codium",
    "cursor",
    "ed",
    "emacs",
    "emacsclient",
    "gedit",
    "gvim",
    "helix",
    "hx",
    "idea",
    "joe",
    "kate",
    "kak",
    "mate",
    "meld",
    "micro",
    "mvim",
    "nano",
    "notepad",
    "nvim",
    "pico",
    "subl",
    "true",
    "vi",
    "vim",
    "vimdiff",
    "windsurf",
    "zed",
    ":",
];
const PAGERS: &[&str] = &["bat", "batcat", "cat", "delta", "diff-so-fancy", "less", "more", "most"];
const DIFFERS: &[&str] = &[
    "colordiff",
    "delta",
    "diff",
    "difft",
    "exiftool",
    "git",
    "meld",
    "nbdime",
    "nbdiff",
    "git-nbdiffdriver",
    "git-nbmergedriver",
    "opendiff",
    "pdftotext",
    "true",
    "vimdiff",
];

/// Whether a value calls one of these programs, by its name alone, and nothing else.
fn is_known(value: &str, programs: &[&str]) -> bool {
    let mut words = value.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let first = first.strip_suffix(".exe").unwrap_or(first);
    let plain = |word: &str| {
        let lower = word.to_ascii_lowercase();
        // Options with which editors, pagers and ssh run other programs.
        !lower.contains("command")
            && !lower.starts_with(['!', '+'])
            && !lower.starts_with("-c")
            && lower != "-f"
    };
    programs.contains(&first)
        && !value.contains([';', '|', '&', '`', '<', '>', '\n'])
        && !value.contains("$(")
        && words.all(plain)
}

fn is_switch(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "" | "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1"
    )
}

/// Helpers that keep or ask for passwords and that git or a host's own tool brings along.
fn is_known_helper(value: &str) -> bool {
    let first = value.split_ascii_whitespace().next().unwrap_or_default();
    let own = ["cache", "store", "osxkeychain", "manager", "manager-core", "libsecret", "wincred", "oauth"];
    value.is_empty()
        || own.contains(&first) && !value.contains([';', '|', '&', '`', '$', '\n'])
        || matches!(value, "!gh auth git-credential" | "!glab auth git-credential")
        || value == "!aws codecommit credential-helper $@"
}

/// The key and the value that `git … config …` sets; none for any other command of git.
fn setting(args: &[Arg]) -> Option<(&str, &Arg)> {
    const GLOBAL: [&str; 6] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
    const VALUED: [&str; 9] =
        ["-f", "--file", "--blob", "--type", "-t", "--default", "--value", "--comment", "--url"];
    let mut rest = args.iter();
    loop {
        match rest.next()?.text()? {
            text if GLOBAL.contains(&text) => {
                rest.next()?;
            }
            text if text.starts_with('-') => {}
            "config" => break,
            _ => return None,
        }
    }
    let mut operands: Vec<&Arg> = Vec::new();
    while let Some(arg) = rest.next() {
        match arg.prefix() {
            option if operands.len() < 2 && option.starts_with('-') => {
                let reads = ["--get", "--unset", "--list", "--edit", "--rem", "--ren"];
                if reads.iter().any(|start| option.starts_with(start)) || matches!(option, "-l" | "-e") {
                    return None;
                }
                if VALUED.contains(&option) {
                    rest.next()?;
                }
            }
            _ => operands.push(arg),
        }
    }
    match operands.as_slice() {
        [command, key, value, ..] if command.text() == Some("set") => Some((key.text()?, *value)),
        [key, value, ..] => Some((key.text()?, *value)).filter(|(key, _)| key.contains('.')),
        _ => None,
    }
}
