//! Settings of git: which of them name programs, and which are plain.

use super::{Call, views};
use crate::Span;
use crate::analysis::{Arg, DepartureKind, EffectKind};
use crate::programs::options::Place;
use crate::programs::{Meaning, On};

/// Settings that change nothing but how things look, and who commits.
const PLAIN: &[&str] = &[
    "advice.",
    "color.",
    "column.",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.excludedecoration",
    "log.follow",
    "log.graphcolors",
    "log.initialdecorationset",
    "log.mailmap",
    "log.showroot",
    "status.",
    "blame.blankboundary",
    "blame.coloring",
    "blame.date",
    "blame.markignoredlines",
    "blame.markunblamablelines",
    "blame.showemail",
    "blame.showroot",
    "core.quotepath",
    "core.abbrev",
    "core.autocrlf",
    "core.safecrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.longpaths",
    "core.commentchar",
    "core.whitespace",
    "core.bigfilethreshold",
    "core.compression",
    "user.name",
    "user.email",
    "author.",
    "committer.",
    "init.defaultbranch",
    "diff.algorithm",
    "diff.renames",
    "diff.renamelimit",
    "diff.noprefix",
    "diff.mnemonicprefix",
    "diff.context",
    "diff.interhunkcontext",
    "diff.colormoved",
    "diff.colormovedws",
    "diff.suppressblankempty",
    "diff.submodule=log",
    "diff.submodule=short",
    "diff.relative",
    "diff.statgraphwidth",
    "merge.conflictstyle",
    "merge.renamelimit",
    "merge.ff",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "rebase.autostash",
    "rebase.autosquash",
    "fetch.prune",
    "gc.auto",
    "index.threads",
    "pack.threads",
    "feature.manyfiles",
    "grep.linenumber",
    "grep.patterntype",
    "grep.extendedregexp",
    "grep.column",
    "grep.fullname",
    "format.pretty",
    "versionsort.",
    "tag.sort",
    "branch.sort",
    "help.autocorrect",
    "commit.gpgsign=false",
    "tag.gpgsign=false",
    "log.showsignature=false",
    "core.pager=cat",
    "core.pager=",
    "core.pager=less",
    "core.fsmonitor=false",
    "core.untrackedcache",
    "submodule.recurse=false",
    "maintenance.auto",
    "protocol.version",
    "http.postbuffer",
    "http.lowspeedlimit",
    "http.lowspeedtime",
    "checkout.",
    "clean.requireforce",
];

/// Plain settings that count for one run alone, not in the file of a repository: they change what the lines of a rebase
/// mean, or which command runs for another.
const FOR_ONE_RUN: &[&str] = &["core.commentchar", "help.autocorrect"];

/// Settings whose value is a command, by their last word.
const COMMANDS: &[&str] = &[
    "pager",
    "editor",
    "sshcommand",
    "fsmonitor",
    "askpass",
    "gitproxy",
    "external",
    "command",
    "textconv",
    "cmd",
    "program",
    "clean",
    "smudge",
    "process",
    "packobjectshook",
    "uploadpack",
    "receivepack",
    "difffilter",
    "driver",
    "helper",
    "browser",
    "smtpserver",
    "tocmd",
    "cccmd",
    "defaultkeycommand",
    "alternaterefscommand",
];

/// `-c name=value`.
pub(super) fn note(meaning: &mut Meaning, args: &[Arg], place: Place) {
    let known = place.prefix(args);
    let whole = place.text(args);
    let (name, value) = known.split_once('=').unwrap_or((known, ""));
    let name = name.to_ascii_lowercase();
    if whole.is_some() && is_plain(&name, value) {
        return;
    }
    meaning.departs(DepartureKind::Configuration, place.option);
    if holds_command(&name) && known.contains('=') {
        meaning.departs(DepartureKind::Program, place.option);
        let skip = place.skip + known.len() - value.len();
        if name.starts_with("alias.") {
            // Without `!`, an alias is another subcommand.
            if value.starts_with('!') {
                note_text(meaning, args, Place { skip: skip + 1, ..place });
            }
        } else {
            note_text(meaning, args, Place { skip, ..place });
        }
    }
}

fn note_text(meaning: &mut Meaning, args: &[Arg], place: Place) {
    if let Some(text) = place.value(args) {
        meaning.runs_text(text, "sh");
    }
}

/// Whether a setting of a repository changes nothing but how things look, and names no program: its name in lower case,
/// and its value as the file has it.
pub fn is_plain_setting(name: &str, value: &str) -> bool {
    !FOR_ONE_RUN.contains(&name) && is_plain(name, value)
}

/// Whether a setting, in lower case, is plain. An entry with a dot at its end stands for a section, one with `=` for one
/// value only.
fn is_plain(name: &str, value: &str) -> bool {
    let with_value = format!("{name}={}", value.to_ascii_lowercase());
    let starts = match name {
        "format.pretty" => views::shows_signature(&Arg::known(value, Span { start: 0, end: 0 })),
        "tag.sort" | "branch.sort" => views::starts("sort", value),
        _ => false,
    };
    if starts {
        return false;
    }
    if name.starts_with("pager.") {
        return matches!(value, "false" | "true" | "cat" | "less" | "0" | "1");
    }
    PLAIN.iter().any(|plain| match plain.contains('=') {
        true => with_value == *plain,
        false => name == *plain || (plain.ends_with('.') && name.starts_with(plain)),
    })
}

/// Whether the value of a setting, in lower case, is run by a shell.
pub(super) fn holds_command(name: &str) -> bool {
    name.starts_with("alias.")
        || name.starts_with("pager.")
        || COMMANDS.contains(&name.rsplit('.').next().unwrap_or(name))
}

/// Whether a setting, in lower case, decides which code runs later: a command, a directory of hooks, another file of
/// settings, a transport.
fn steers(name: &str) -> bool {
    holds_command(name)
        || ["include.", "includeif.", "protocol.", "url.", "safe."]
            .iter()
            .any(|section| name.starts_with(section))
        || matches!(name, "core.hookspath" | "core.attributesfile" | "init.templatedir" | "core.worktree")
}

/// What `git config` is asked to print, as a verb or as an option.
const ASKING: &[&str] =
    &["get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool", "list"];

/// What it changes without a value.
const CHANGING: &[&str] = &["add", "replace-all", "unset", "unset-all", "remove-section", "rename-section"];

/// `git config`: it prints, unless there is a value to set or a verb that changes.
pub(super) fn change(call: &Call<'_>, meaning: &mut Meaning) {
    let words: Vec<usize> = call.operands().collect();
    let verb = words.first().and_then(|at| call.text(*at)).unwrap_or_default();
    let is_verb = [ASKING, CHANGING, &["edit", "set"]].iter().any(|verbs| verbs.contains(&verb));
    // Behind the name of a setting no argument is an option.
    let name = words.get(usize::from(is_verb)).copied().unwrap_or(usize::MAX);
    let options = || call.options().filter(|given| given.place.option < name);
    let has = |names: &[&str]| options().any(|given| names.iter().any(|name| given.is_long(name)));
    let is = |names: &[&str]| names.contains(&verb) || has(names);
    let edits = is(&["edit"]) || options().any(|given| given.is('e', "edit"));
    let has_value = words.len() > 1 || call.args().len() > name.saturating_add(1);
    if is(ASKING) || options().any(|given| given.is('l', "list")) || !(has_value || is(CHANGING) || edits) {
        return;
    }
    meaning.departs(DepartureKind::Change, call.at);
    if edits {
        meaning.departs(DepartureKind::Program, call.at);
    }
    let elsewhere = has(&["global", "system"]);
    // The last one counts.
    let named = options().filter(|given| given.is('f', "file")).last().map(|given| call.on(given.place));
    let file = match (&named, elsewhere) {
        (Some(file), _) => file.clone(),
        (None, true) => On::Unknown(Some(call.at)),
        (None, false) => call.path(".git/config"),
    };
    let steered = words.iter().any(|at| call.text(*at).is_none_or(|key| steers(&key.to_ascii_lowercase())));
    // A plain setting does not make the file one that starts things later.
    let plain = !steered && !elsewhere && named.is_none();
    meaning.writes(if plain { call.path(".git") } else { file.clone() });
    if steered {
        meaning.departs(DepartureKind::Configuration, call.at);
        meaning.does(EffectKind::Persist, file);
    }
}
