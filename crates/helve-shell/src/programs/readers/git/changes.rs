//! Subcommands of git that change the repository or the work tree, or reach a network.
//!
//! Their many plain options need no list: what they change is said by the subcommand. Options that name programs are
//! looked for by letter, also among others, and by name, abbreviations included.

use super::values::{Given, Name, Takes, is_short_for};
use super::{Call, config, named, paths, remotes, views};
use crate::analysis::{Arg, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Place, may_hide_option};
use crate::programs::{Meaning, On};

/// Long options whose value is a command.
const PROGRAMS: &[&str] = &["upload-pack", "receive-pack", "exec", "extcmd"];

/// Long options of what shows commits with which git starts programs that settings name, unlike what it does otherwise.
const STARTS: &[&str] = &["ext-diff", "textconv", "remerge-diff", "show-signature"];

/// Ways to merge that git has itself; any other is a program.
const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// What a subcommand changes.
enum Change {
    /// The repository.
    Repository,
    /// The repository and files of the work tree.
    Tree,
}

/// Notes what a subcommand does that changes something; false if this is none that git has.
pub(super) fn note(call: &Call<'_>, meaning: &mut Meaning) -> bool {
    use Change::{Repository, Tree};
    match call.name {
        "add" | "stage" => {
            paths::matched(call, call.operands()).into_iter().for_each(|on| meaning.reads(on));
            changes(call, meaning, &Repository);
        }
        "commit" | "update-index" | "update-ref" | "gc" | "prune" | "repack" | "pack-refs" | "write-tree"
        | "read-tree" | "commit-tree" | "commit-graph" | "multi-pack-index" | "mktag" | "mktree"
        | "replace" | "maintenance" | "unpack-objects" | "index-pack" | "prune-packed" | "fast-import"
        | "update-server-info" | "rerere" | "credential" | "credential-store" | "credential-cache"
        | "refs" => {
            changes(call, meaning, &Repository);
        }
        "pack-objects" => {
            call.operands().for_each(|at| meaning.writes(call.operand(at)));
            changes(call, meaning, &Repository);
        }
        "hash-object" => {
            call.operands().for_each(|at| meaning.reads(call.operand(at)));
            if call.options().any(|given| given.name == Name::Letter('w')) {
                changes(call, meaning, &Repository);
            }
        }
        "mv" => {
            paths::moves(call, meaning);
            changes(call, meaning, &Tree);
        }
        "checkout" | "restore" | "checkout-index" => {
            paths::restored(call, meaning);
            changes(call, meaning, &Tree);
        }
        "switch" | "reset" | "merge" | "rebase" | "cherry-pick" | "revert" | "am" | "apply"
        | "sparse-checkout" | "merge-file" | "merge-tree" | "quiltimport" | "backfill" => {
            changes(call, meaning, &Tree);
        }
        "rm" => {
            paths::removed(call, meaning);
            changes(call, meaning, &Tree);
        }
        "clean" => {
            if !call.is_on(Some('n'), "dry-run", 1) {
                meaning.departs(DepartureKind::Change, call.at);
                paths::cleans(call, meaning);
            }
        }
        "push" | "send-pack" => {
            meaning.departs(DepartureKind::Change, call.at);
            remotes::exchanges(call, meaning);
        }
        "fetch" | "pull" | "remote-update" | "fetch-pack" => {
            remotes::exchanges(call, meaning);
            changes(call, meaning, if call.name == "pull" { &Tree } else { &Repository });
        }
        "clone" => remotes::clone(call, meaning),
        "init" => {
            meaning.departs(DepartureKind::Change, call.at);
            let directory = call.operands().next().map_or_else(|| call.path("."), |at| call.operand(at));
            meaning.writes(directory);
        }
        "unpack-file" => {
            meaning.departs(DepartureKind::Output, call.at);
            meaning.writes(call.path("."));
        }
        "branch" => listing(call, meaning, "ladDmMcCfuqvr", &["-l", "--list", "-a", "-r", "--show-current"]),
        "tag" => listing(call, meaning, "adfmsuFe", &["-l", "--list", "-n", "-v", "--verify"]),
        "remote" => by_verb(call, meaning, &["show", "get-url", "-v", "--verbose"]),
        "stash" => stash(call, meaning),
        "notes" => by_verb(call, meaning, &["list", "show", "get-ref"]),
        "reflog" => {
            if matches!(verb(call), Some("expire" | "delete" | "drop")) {
                changes(call, meaning, &Repository);
            }
        }
        "worktree" => worktree(call, meaning),
        "submodule" => submodule(call, meaning),
        "bisect" => bisect(call, meaning),
        "symbolic-ref" => {
            if call.operands().count() > 1 || call.is_given('d', "delete") {
                changes(call, meaning, &Repository);
            }
        }
        "config" => config::change(call, meaning),
        "format-patch" => format_patch(call, meaning),
        "bundle" => {
            if let Some(at) = call.operands().nth(1).filter(|_| verb(call) == Some("create")) {
                meaning.departs(DepartureKind::Output, at);
                meaning.writes(call.operand(at));
            }
        }
        "difftool" | "mergetool" | "gui" | "citool" | "gitk" | "instaweb" | "web--browse" | "daemon"
        | "shell" | "send-email" | "request-pull" | "http-backend" | "upload-pack" | "receive-pack"
        | "upload-archive" | "svn" | "p4" | "cvsimport" | "lfs" | "hook" | "fsmonitor--daemon" => {
            meaning.departs(DepartureKind::Program, call.at);
            meaning.hides(OpaqueReason::UnknownProgram, Some(call.at));
        }
        "filter-branch" | "filter-repo" => {
            meaning.departs(DepartureKind::Code, call.at);
            meaning.hides(OpaqueReason::Code, Some(call.at));
            filters(call, meaning);
            changes(call, meaning, &Tree);
        }
        "for-each-repo" => {
            meaning.departs(DepartureKind::Program, call.at);
            meaning.hides(OpaqueReason::UnknownProgram, Some(call.at));
        }
        _ => return false,
    }
    dangerous_options(call, meaning);
    named::note(call, meaning);
    true
}

pub(super) fn args<'a>(call: &'a Call<'_>) -> &'a [Arg] {
    call.invocation.from(call.at + 1)
}

fn verb<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    call.operands().next().and_then(|at| call.text(at))
}

/// Whether an option stands behind the subcommand as it is.
pub(super) fn has(call: &Call<'_>, option: &str) -> bool {
    args(call).iter().any(|arg| arg.text() == Some(option))
}

fn changes(call: &Call<'_>, meaning: &mut Meaning, change: &Change) {
    meaning.departs(DepartureKind::Change, call.at);
    meaning.writes(call.path(".git"));
    if matches!(change, Change::Tree) {
        meaning.writes(call.path("."));
    }
}

/// Options that name programs, files that are written and other repositories, whatever the subcommand.
fn dangerous_options(call: &Call<'_>, meaning: &mut Meaning) {
    let end = call.end().unwrap_or(usize::MAX);
    for (index, arg) in args(call).iter().enumerate() {
        let at = call.at + 1 + index;
        if at < end && may_hide_option(arg) {
            meaning.departs(DepartureKind::PossibleOption, at);
        }
    }
    for given in call.options() {
        match given.takes {
            Takes::Remote => remotes::note(call, meaning, given.place),
            Takes::Written => meaning.writes(call.on(given.place)),
            _ => {}
        }
        match given.name {
            Name::Letter(letter) => short_option(call, meaning, given, letter),
            Name::Long(name) => long_option(call, meaning, given, name),
        }
    }
    if call.invocation.more == More::Anything && !has(call, "--") {
        meaning.departs(DepartureKind::PossibleOption, call.args().len());
    }
}

fn short_option(call: &Call<'_>, meaning: &mut Meaning, given: Given<'_>, letter: char) {
    match (call.name, letter) {
        ("rebase" | "difftool", 'x') | ("clone", 'u') => super::note_command(call, meaning, given.place),
        ("clone", 'c') => config::note(meaning, call.args(), given.place),
        ("merge" | "rebase" | "pull", 's') => strategy(call, meaning, given),
        ("tag", 'v') => meaning.departs(DepartureKind::Program, given.place.option),
        _ => {}
    }
}

fn long_option(call: &Call<'_>, meaning: &mut Meaning, given: Given<'_>, name: &str) {
    let at = given.place.option;
    // `rebase --exec` and the others hold a text for a shell.
    if PROGRAMS.iter().any(|program| given.is_long(program)) {
        super::note_command(call, meaning, given.place);
    } else if matches!(call.name, "difftool" | "mergetool") && given.is_long("tool") {
        meaning.departs(DepartureKind::Program, at);
    } else if call.name == "clone" && given.is_long("config") {
        config::note(meaning, call.args(), given.place);
    } else if given.is_long("template") {
        meaning.departs(DepartureKind::Configuration, at);
    } else if is_short_for(name, "strategy", 3) {
        strategy(call, meaning, given);
    } else {
        shows(call, meaning, given);
    }
}

/// A way to merge.
fn strategy(call: &Call<'_>, meaning: &mut Meaning, given: Given<'_>) {
    if !given.place.text(call.args()).is_some_and(|name| STRATEGIES.contains(&name)) {
        meaning.departs(DepartureKind::Program, given.place.option);
    }
}

/// Options of subcommands that list commits, tags or branches, as those that only show them have.
fn shows(call: &Call<'_>, meaning: &mut Meaning, given: Given<'_>) {
    if !matches!(call.name, "branch" | "tag" | "stash" | "reflog" | "notes" | "format-patch") {
        return;
    }
    let (args, place) = (call.args(), given.place);
    let is = |wanted: &str| matches!(given.name, Name::Long(name) if is_short_for(name, wanted, 3));
    let starts = STARTS.iter().any(|option| is(option))
        || (call.name == "tag" && is("verify"))
        || ["sort", "diff-merges", "submodule"]
            .iter()
            .any(|option| is(option) && place.text(args).is_none_or(|value| views::starts(option, value)))
        || ((is("format") || is("pretty"))
            && place.value(args).is_some_and(|format| views::shows_signature(&format)));
    if starts {
        meaning.departs(DepartureKind::Program, place.option);
    }
    if is("output") && matches!(call.name, "stash" | "reflog") {
        meaning.departs(DepartureKind::Output, place.option);
    }
}

/// `branch` and `tag`: they list unless an operand or one of the letters makes them change something.
fn listing(call: &Call<'_>, meaning: &mut Meaning, letters: &str, lists: &[&str]) {
    let listed = lists.iter().any(|option| has(call, option)) || options_that_list(call);
    let changing = args(call).iter().any(|arg| {
        let known = arg.prefix();
        let short = known.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        short.is_some_and(|rest| {
            rest.chars().any(|letter| letters.contains(letter) && !"lavrqn".contains(letter))
        }) || matches!(
            known,
            "--delete"
                | "--move"
                | "--copy"
                | "--force"
                | "--edit-description"
                | "--unset-upstream"
                | "--annotate"
                | "--sign"
                | "--create-reflog"
                | "--track"
        ) || known.starts_with("--set-upstream")
            || known.starts_with("--message")
            || known.starts_with("--file")
    });
    let named = call.operands().next().is_some() || call.invocation.more != More::Nothing;
    if changing || (named && !listed) {
        changes(call, meaning, &Change::Repository);
    }
}

/// Whether an option has it list whatever else is named. One that only says how a list looks does not.
fn options_that_list(call: &Call<'_>) -> bool {
    let names = ["--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    args(call).iter().any(|arg| names.iter().any(|name| arg.prefix().split('=').next() == Some(name)))
}

/// Subcommands with verbs of their own, of which some only show.
fn by_verb(call: &Call<'_>, meaning: &mut Meaning, shows: &[&str]) {
    match verb(call) {
        Some("update" | "prune" | "show") if call.name == "remote" => {
            remotes::named_or_usual(call, meaning, call.operands().nth(1));
            if verb(call) != Some("show") {
                changes(call, meaning, &Change::Repository);
            }
        }
        Some("add" | "set-url") if call.name == "remote" => {
            changes(call, meaning, &Change::Repository);
            for at in call.operands() {
                if call.text(at).is_some_and(|text| text.contains("::")) {
                    meaning.departs(DepartureKind::Program, at);
                }
            }
            if verb(call) == Some("add") && call.is_on(Some('f'), "fetch", 1) {
                remotes::named_or_usual(call, meaning, call.operands().nth(2));
            }
        }
        Some("set-head") if call.name == "remote" => {
            changes(call, meaning, &Change::Repository);
            if call.is_given('a', "auto") {
                remotes::named_or_usual(call, meaning, call.operands().nth(1));
            }
        }
        Some(verb) if shows.contains(&verb) => {}
        None if call.operands().next().is_none() && call.invocation.more == More::Nothing => {}
        _ => changes(call, meaning, &Change::Repository),
    }
}

fn stash(call: &Call<'_>, meaning: &mut Meaning) {
    match verb(call) {
        Some("list" | "show") => {}
        _ => changes(call, meaning, &Change::Tree),
    }
}

fn worktree(call: &Call<'_>, meaning: &mut Meaning) {
    match verb(call) {
        None | Some("list") => {}
        Some("remove") => {
            meaning.departs(DepartureKind::Change, call.at);
            call.operands().skip(1).for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
        }
        Some("add") => {
            changes(call, meaning, &Change::Repository);
            if let Some(at) = call.operands().nth(1) {
                meaning.writes(call.operand(at));
            }
        }
        Some("move") => {
            changes(call, meaning, &Change::Repository);
            let mut words = call.operands().skip(1);
            words.next().into_iter().for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
            words.next().into_iter().for_each(|at| meaning.writes(call.operand(at)));
        }
        _ => changes(call, meaning, &Change::Repository),
    }
}

fn submodule(call: &Call<'_>, meaning: &mut Meaning) {
    let mut words = call.operands();
    let verb = words.next();
    match verb.and_then(|at| call.text(at)) {
        None | Some("status" | "summary") => {}
        Some("foreach") => {
            let first = words.next().unwrap_or(call.args().len());
            meaning.departs(DepartureKind::Program, call.at);
            match call.invocation.from(first) {
                [] => {}
                [only] => meaning.runs_text(only.clone(), "sh"),
                argv => meaning.runs(argv, More::Nothing),
            }
        }
        Some(name) => {
            match name {
                "add" => {
                    remotes::named_or_usual(call, meaning, words.next());
                    remotes::urls(call, meaning, words);
                }
                "update" => remotes::usual(call, meaning),
                _ => {}
            }
            changes(call, meaning, &Change::Tree);
        }
    }
}

fn bisect(call: &Call<'_>, meaning: &mut Meaning) {
    match verb(call) {
        Some("log" | "view" | "visualize" | "help" | "terms") => {}
        Some("run") => {
            let first = call.operands().nth(1).unwrap_or(call.args().len());
            meaning.departs(DepartureKind::Program, call.at);
            meaning.runs(call.invocation.from(first), call.invocation.more);
            changes(call, meaning, &Change::Tree);
        }
        _ => changes(call, meaning, &Change::Tree),
    }
}

fn format_patch(call: &Call<'_>, meaning: &mut Meaning) {
    if call.is_on(None, "stdout", "std".len()) {
        return;
    }
    meaning.departs(DepartureKind::Output, call.at);
    if !call.options().any(|given| given.takes == Takes::Written) {
        meaning.writes(call.path("."));
    }
    // It stands behind the name of each file, and may lead out of the directory.
    let is_name = |place: Place| place.text(call.args()).is_some_and(|suffix| !suffix.contains('/'));
    let suffixes = call.options().filter(|given| given.is_long("suffix") && !is_name(given.place));
    suffixes.for_each(|given| meaning.writes(On::Unknown(Some(given.place.option))));
}

/// The texts that `filter-branch` has a shell run.
fn filters(call: &Call<'_>, meaning: &mut Meaning) {
    let all = call.args();
    for at in call.at + 1..all.len() {
        let Some(name) = call.text(at) else { continue };
        if name.starts_with("--")
            && name.ends_with("-filter")
            && let Some(text) = all.get(at + 1)
        {
            meaning.runs_text(text.clone(), "sh");
        }
    }
}
