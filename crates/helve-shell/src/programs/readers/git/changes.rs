//! Subcommands of git that change the repository or the work tree, or reach a network.
//!
//! Their many plain options need no list: what they change is said by the subcommand. Options that name programs are
//! looked for by name, abbreviations included.

use super::{Call, config, named, paths};
use crate::analysis::{Arg, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Place, may_hide_option};
use crate::programs::{Meaning, On};

/// Long options whose value is a command or a program.
const PROGRAMS: &[&str] = &["upload-pack", "receive-pack", "exec", "extcmd", "tool"];

/// Long options of what shows commits with which git starts programs that settings name, unlike what it does otherwise.
const STARTS: &[&str] = &["ext-diff", "textconv", "remerge-diff", "show-signature"];

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
            operands(call).for_each(|at| meaning.reads(call.operand(at)));
            changes(call, meaning, &Repository);
        }
        "commit" | "update-index" | "update-ref" | "gc" | "prune" | "repack" | "pack-refs"
        | "pack-objects" | "write-tree" | "read-tree" | "commit-tree" | "commit-graph"
        | "multi-pack-index" | "mktag" | "mktree" | "replace" | "maintenance" | "unpack-objects"
        | "index-pack" | "prune-packed" | "fast-import" | "update-server-info" | "rerere" | "credential"
        | "credential-store" | "credential-cache" | "refs" => {
            changes(call, meaning, &Repository);
        }
        "hash-object" => {
            operands(call).for_each(|at| meaning.reads(call.operand(at)));
            if has(call, "-w") {
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
            operands(call).for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
            changes(call, meaning, &Tree);
        }
        "clean" => clean(call, meaning),
        "push" | "send-pack" => {
            meaning.departs(DepartureKind::Change, call.at);
            super::note_remote(call, meaning, operands(call).next());
        }
        "fetch" | "pull" | "remote-update" | "fetch-pack" => {
            super::note_remote(call, meaning, operands(call).next());
            changes(call, meaning, if call.name == "pull" { &Tree } else { &Repository });
        }
        "clone" => clone(call, meaning),
        "init" => {
            meaning.departs(DepartureKind::Change, call.at);
            let directory = operands(call).next().map_or_else(|| call.path("."), |at| call.operand(at));
            meaning.writes(directory);
        }
        "branch" => listing(
            call,
            meaning,
            "ladDmMcCfuqvr",
            &["-l", "--list", "-v", "-vv", "-a", "-r", "--show-current"],
        ),
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
            if operands(call).count() > 1 || has(call, "-d") || has(call, "--delete") {
                changes(call, meaning, &Repository);
            }
        }
        "config" => config::change(call, meaning),
        "format-patch" => format_patch(call, meaning),
        "bundle" => {
            if let Some(at) = operands(call).nth(1).filter(|_| verb(call) == Some("create")) {
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

/// The arguments behind the subcommand that are no options.
pub(super) fn operands<'a>(call: &'a Call<'_>) -> impl Iterator<Item = usize> + 'a {
    let ended = args(call).iter().position(|arg| arg.text() == Some("--")).unwrap_or(usize::MAX);
    args(call).iter().enumerate().filter_map(move |(index, arg)| {
        let option =
            index == ended || (index < ended && arg.prefix().starts_with('-') && arg.text() != Some("-"));
        (!option).then_some(call.at + 1 + index)
    })
}

fn verb<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    operands(call).next().and_then(|at| call.text(at))
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

/// Options that name programs, whatever the subcommand.
fn dangerous_options(call: &Call<'_>, meaning: &mut Meaning) {
    let all = call.args();
    for (index, arg) in args(call).iter().enumerate() {
        let at = call.at + 1 + index;
        let known = arg.prefix();
        if known == "--" && arg.text().is_some() {
            return;
        }
        if may_hide_option(arg) {
            meaning.departs(DepartureKind::PossibleOption, at);
        }
        let attached = |skip| Place { option: at, arg: at, skip };
        let next = Place { option: at, arg: at + 1, skip: 0 };
        if let Some(long) = known.strip_prefix("--") {
            let (name, place) = match long.split_once('=') {
                Some((name, _)) => (name, attached(name.len() + 3)),
                None => (long, next),
            };
            let is = |wanted: &&&str| name.len() >= 3 && wanted.starts_with(name) && name != "tool-help";
            match PROGRAMS.iter().find(is) {
                Some(&"tool") if call.name != "difftool" && call.name != "mergetool" => {}
                Some(&"tool") => meaning.departs(DepartureKind::Program, at),
                // `rebase --exec` and the others hold a text for a shell.
                Some(_) => super::note_command(call, meaning, place),
                None if name == "config" && call.name == "clone" => config::note(meaning, all, place),
                None if name == "template" => meaning.departs(DepartureKind::Configuration, at),
                None if name == "strategy" => meaning.departs(DepartureKind::Program, at),
                None => shows(call, meaning, name, place),
            }
            continue;
        }
        match (call.name, known.get(..2), known.len()) {
            ("rebase" | "difftool", Some("-x"), length) | ("clone", Some("-u"), length) => {
                super::note_command(call, meaning, if length > 2 { attached(2) } else { next });
            }
            ("clone", Some("-c"), length) => {
                config::note(meaning, all, if length > 2 { attached(2) } else { next });
            }
            ("tag", Some("-v"), _) => meaning.departs(DepartureKind::Program, at),
            _ => {}
        }
    }
    if call.invocation.more == More::Anything && !has(call, "--") {
        meaning.departs(DepartureKind::PossibleOption, all.len());
    }
}

/// Options of subcommands that list commits, tags or branches, as those that only show them have.
fn shows(call: &Call<'_>, meaning: &mut Meaning, name: &str, place: Place) {
    if !matches!(call.name, "branch" | "tag" | "stash" | "reflog" | "notes" | "format-patch") {
        return;
    }
    let args = call.args();
    let is = |wanted: &str| name.len() >= 3 && wanted.starts_with(name);
    let starts = STARTS.iter().any(|option| is(option))
        || (call.name == "tag" && is("verify"))
        || ["sort", "diff-merges", "submodule"].iter().any(|option| {
            is(option) && place.text(args).is_none_or(|value| super::views::starts(option, value))
        })
        || ((is("format") || is("pretty"))
            && place.value(args).is_some_and(|format| super::views::shows_signature(&format)));
    if starts {
        meaning.departs(DepartureKind::Program, place.option);
    }
    if is("output") && matches!(call.name, "stash" | "reflog") {
        meaning.departs(DepartureKind::Output, place.option);
        meaning.writes(place.on(args));
    }
}

fn clean(call: &Call<'_>, meaning: &mut Meaning) {
    let short = |letter: char| {
        args(call).iter().any(|arg| {
            let known = arg.prefix();
            known.starts_with('-') && !known.starts_with("--") && known.contains(letter)
        })
    };
    if short('n') || has(call, "--dry-run") {
        return;
    }
    meaning.departs(DepartureKind::Change, call.at);
    let mut paths = operands(call).peekable();
    if paths.peek().is_none() {
        meaning.does(EffectKind::Delete, call.path("."));
    }
    paths.for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
}

fn clone(call: &Call<'_>, meaning: &mut Meaning) {
    meaning.departs(DepartureKind::Change, call.at);
    // Options with a value in the next argument would be taken for the URL.
    let valued = [
        "-b",
        "--branch",
        "-o",
        "--origin",
        "-u",
        "--upload-pack",
        "--depth",
        "-j",
        "--jobs",
        "-c",
        "--config",
        "--reference",
        "--separate-git-dir",
        "--filter",
        "--shallow-since",
        "--template",
        "--server-option",
        "--shallow-exclude",
        "--bundle-uri",
        "--reference-if-able",
        "--revision",
    ];
    let mut operands =
        operands(call).filter(|at| !call.text(at - 1).is_some_and(|before| valued.contains(&before)));
    let url = operands.next();
    super::note_remote(call, meaning, url);
    match (operands.next(), url.and_then(|at| call.text(at))) {
        (Some(directory), _) => meaning.writes(call.operand(directory)),
        (None, Some(url)) => {
            let name =
                url.trim_end_matches('/').trim_end_matches(".git").rsplit(['/', ':']).next().unwrap_or(url);
            meaning.writes(call.path(name));
        }
        (None, None) => meaning.writes(On::Unknown(Some(call.at))),
    }
    for at in call.at + 1..call.args().len() {
        if call.text(at) == Some("--separate-git-dir") && at + 1 < call.args().len() {
            meaning.writes(call.operand(at + 1));
        }
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
    let named = operands(call).next().is_some() || call.invocation.more != More::Nothing;
    if changing || (named && !listed) {
        changes(call, meaning, &Change::Repository);
    }
}

fn options_that_list(call: &Call<'_>) -> bool {
    let names = [
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "--sort",
        "--format",
        "--column",
    ];
    args(call).iter().any(|arg| names.iter().any(|name| arg.prefix().split('=').next() == Some(name)))
}

/// Subcommands with verbs of their own, of which some only show.
fn by_verb(call: &Call<'_>, meaning: &mut Meaning, shows: &[&str]) {
    match verb(call) {
        Some("update" | "prune" | "show") if call.name == "remote" => {
            let remote = operands(call).nth(1);
            super::note_remote(call, meaning, remote);
            if verb(call) != Some("show") {
                changes(call, meaning, &Change::Repository);
            }
        }
        Some("add" | "set-url") if call.name == "remote" => {
            changes(call, meaning, &Change::Repository);
            for at in operands(call) {
                if call.text(at).is_some_and(|text| text.contains("::")) {
                    meaning.departs(DepartureKind::Program, at);
                }
            }
        }
        Some(verb) if shows.contains(&verb) => {}
        None if operands(call).next().is_none() && call.invocation.more == More::Nothing => {}
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
            operands(call).skip(1).for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
        }
        Some("add") => {
            changes(call, meaning, &Change::Repository);
            let taken = |at: &usize| !matches!(call.text(at - 1), Some("-b" | "-B" | "--reason"));
            if let Some(at) = operands(call).filter(taken).nth(1) {
                meaning.writes(call.operand(at));
            }
        }
        _ => changes(call, meaning, &Change::Repository),
    }
}

fn submodule(call: &Call<'_>, meaning: &mut Meaning) {
    let mut words = operands(call);
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
            if matches!(name, "add" | "update") {
                super::note_remote(call, meaning, words.next().filter(|_| name == "add"));
            }
            changes(call, meaning, &Change::Tree);
        }
    }
}

fn bisect(call: &Call<'_>, meaning: &mut Meaning) {
    match verb(call) {
        Some("log" | "view" | "visualize" | "help" | "terms") => {}
        Some("run") => {
            let first = operands(call).nth(1).unwrap_or(call.args().len());
            meaning.departs(DepartureKind::Program, call.at);
            meaning.runs(call.invocation.from(first), call.invocation.more);
            changes(call, meaning, &Change::Tree);
        }
        _ => changes(call, meaning, &Change::Tree),
    }
}

fn format_patch(call: &Call<'_>, meaning: &mut Meaning) {
    if has(call, "--stdout") {
        return;
    }
    meaning.departs(DepartureKind::Output, call.at);
    let mut directory = None;
    for (index, arg) in args(call).iter().enumerate() {
        let at = call.at + 1 + index;
        let known = arg.prefix();
        if matches!(known, "-o" | "--output-directory" | "--output") && at + 1 < call.args().len() {
            directory = Some(call.operand(at + 1));
        } else if let Some((name, _)) = known.split_once('=').filter(|(name, _)| name.starts_with("--outp")) {
            directory = Some(On::Tail(at, name.len() + 1));
        } else if known.starts_with("-o") && known.len() > 2 {
            directory = Some(On::Tail(at, 2));
        }
    }
    meaning.writes(directory.unwrap_or_else(|| call.path(".")));
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
