//! Subcommands of git that read.

use super::{Call, paths, remotes};
use crate::analysis::{Arg, ArgPart, DepartureKind, More};
use crate::programs::options::{Grammar, Item, Place, read_from};
use crate::programs::{Meaning, On};

/// Options of everything that shows differences.
pub(super) const DIFF: &str = "patch no-patch unified? output= output-indicator-new= output-indicator-old= \
    output-indicator-context= raw patch-with-raw indent-heuristic no-indent-heuristic minimal patience \
    histogram anchored= diff-algorithm= stat? stat-width= stat-name-width= stat-count= stat-graph-width= \
    compact-summary no-compact-summary numstat shortstat dirstat? cumulative dirstat-by-file? summary \
    patch-with-stat name-only name-status submodule? color? no-color color-moved? no-color-moved \
    color-moved-ws= no-color-moved-ws word-diff? word-diff-regex= color-words? no-renames renames \
    rename-empty no-rename-empty check ws-error-highlight= full-index binary abbrev? no-abbrev \
    break-rewrites? find-renames? find-copies? find-copies-harder irreversible-delete diff-filter= \
    find-object= pickaxe-all pickaxe-regex skip-to= rotate-to= relative? no-relative text \
    ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines \
    ignore-matching-lines= inter-hunk-context= function-context exit-code quiet ext-diff no-ext-diff \
    textconv no-textconv ignore-submodules? src-prefix= dst-prefix= no-prefix default-prefix \
    line-prefix= ita-invisible-in-index ita-visible-in-index cached staged merge-base no-index base ours \
    theirs cc combined-all-paths diff-merges= no-diff-merges dd remerge-diff order-file=";

/// Options of everything that walks through history.
pub(super) const LOG: &str = "follow no-follow decorate? no-decorate decorate-refs= decorate-refs-exclude= clear-decorations \
    source mailmap no-mailmap use-mailmap no-use-mailmap log-size max-count= skip= since= after= until= \
    before= since-as-filter= max-age= min-age= author= committer= grep-reflog= grep= all-match \
    invert-grep regexp-ignore-case basic-regexp extended-regexp fixed-strings perl-regexp remove-empty \
    merges no-merges min-parents= max-parents= no-min-parents no-max-parents first-parent \
    exclude-first-parent-only not all branches? tags? remotes? glob= exclude= exclude-hidden= reflog \
    alternate-refs single-worktree ignore-missing bisect stdin cherry-mark cherry-pick left-only \
    right-only cherry walk-reflogs merge boundary simplify-by-decoration show-pulls full-history dense \
    sparse simplify-merges ancestry-path? date-order author-date-order topo-order reverse no-walk? \
    do-walk pretty? format= oneline abbrev-commit no-abbrev-commit encoding= expand-tabs? no-expand-tabs \
    notes? no-notes standard-notes no-standard-notes show-notes? show-notes-by-default show-signature \
    no-show-signature relative-date date= parents children left-right graph no-graph show-linear-break? \
    header timestamp count objects objects-edge indexed-objects object-names no-object-names filter= \
    no-filter use-bitmap-index disk-usage? missing= root no-commit-id always full-diff progress? \
    numbered email group= zero bisect-vars? bisect-all no-commit-header commit-header unpacked";

/// One grammar for all that show commits and differences: what one of them refuses does no harm.
const REVIEW: Grammar = Grammar {
    flags: "psuzabwWRDtrcmiEFPgqven0dhk",
    values: "SGOlLI",
    optional: "UMCBXw",
    names: &[DIFF, LOG],
    numbers: true,
    ..Grammar::NONE
};

const STATUS: Grammar = Grammar {
    flags: "svbzM",
    optional: "uM",
    names: &["short branch no-branch show-stash no-show-stash porcelain? long verbose untracked-files? \
        ignore-submodules? ignored? column? no-column ahead-behind no-ahead-behind renames no-renames \
        find-renames? null"],
    ..Grammar::NONE
};

const GREP: Grammar = Grammar {
    flags: "aIirvwxEGFPnlLzcohHqpWs",
    values: "efABCm",
    optional: "O",
    names: &[
        "cached untracked no-index exclude-standard no-exclude-standard recurse-submodules text textconv \
        no-textconv ignore-case max-depth= recursive no-recursive word-regexp invert-match full-name \
        extended-regexp basic-regexp perl-regexp fixed-strings line-number column name-only \
        files-with-matches files-without-match open-files-in-pager? null only-matching count color? \
        no-color break heading show-function context= after-context= before-context= function-context \
        max-count= threads= and or not all-match quiet no-line-number ext-grep file=",
    ],
    numbers: true,
    ..Grammar::NONE
};

const BLAME: Grammar = Grammar {
    flags: "cbltfnspekwh",
    values: "LS",
    optional: "MC",
    names: &[
        DIFF,
        "root show-stats progress? no-progress score-debug show-name show-number porcelain line-porcelain \
        show-email incremental encoding= contents= date= abbrev? first-parent ignore-rev= \
        ignore-revs-file= color-lines color-by-age since= reverse minimal",
    ],
    ..Grammar::NONE
};

/// Options of small subcommands that only print, taken together.
const PRINTING: Grammar = Grammar {
    flags: "acdefghijklmnopqrstuvwxzHEISV",
    values: "",
    optional: "L",
    names: &[
        LOG,
        "verify short abbrev-ref? show-toplevel show-cdup show-prefix show-superproject-working-tree \
        git-dir absolute-git-dir git-common-dir git-path= is-inside-work-tree is-inside-git-dir \
        is-bare-repository is-shallow-repository show-object-format? show-ref-format symbolic \
        symbolic-full-name revs-only no-revs flags no-flags default= prefix= sq sq-quote parseopt \
        path-format= local-env-vars shared-index-path disambiguate= cached deleted modified others \
        ignored stage directory no-empty-directory unmerged killed exclude= exclude-from= \
        exclude-per-directory= exclude-standard error-unmatch with-tree= full-name recurse-submodules \
        deduplicate eol sparse debug resolve-undo long name-only name-status object-only full-tree null \
        textconv filters path= batch? batch-check? batch-command? batch-all-objects buffer \
        follow-symlinks allow-unknown-type unordered mailmap use-mailmap all tags contains dirty? \
        broken? candidates= exact-match match= always first-parent octopus independent is-ancestor \
        fork-point heads branches head dereference hash? exclude-existing? exists quiet sort= count= \
        shell perl python tcl points-at? merged? no-merged? no-contains? ignore-case omit-empty \
        include-root-refs start-after verbose human-readable refs undefined no-undefined stdin no-index \
        non-matching source raw unreachable dangling no-dangling root reflogs no-reflogs full no-full \
        connectivity-only strict name-objects progress no-progress build-options guides config literally \
        no-filters stable unstable verbatim abbrev? color? creation-factor left-only= no-dual-color",
    ],
    numbers: true,
    ..Grammar::NONE
};

const LS_REMOTE: Grammar = Grammar {
    flags: "htqb",
    values: "ou",
    names: &[
        "heads branches tags refs quiet upload-pack= exec= exit-code get-url sort= symref server-option=",
    ],
    ..Grammar::NONE
};

const ARCHIVE: Grammar = Grammar {
    flags: "lv",
    values: "o",
    names: &["format= list verbose prefix= output= add-file= add-virtual-file= worktree-attributes mtime= \
        remote= exec="],
    numbers: true,
    ..Grammar::NONE
};

/// Notes what a subcommand does that reads; false if this is none of them.
pub(super) fn note(call: &Call<'_>, meaning: &mut Meaning) -> bool {
    let grammar = match call.name {
        "diff" | "log" | "show" | "whatchanged" | "shortlog" | "rev-list" | "diff-tree" | "diff-index"
        | "diff-files" | "range-diff" => &REVIEW,
        "status" => &STATUS,
        "grep" => &GREP,
        "blame" | "annotate" => &BLAME,
        "rev-parse" | "ls-files" | "ls-tree" | "cat-file" | "describe" | "name-rev" | "merge-base"
        | "cherry" | "count-objects" | "show-ref" | "for-each-ref" | "var" | "version" | "help"
        | "check-ignore" | "check-attr" | "check-mailmap" | "check-ref-format" | "verify-pack" | "fsck"
        | "show-branch" | "get-tar-commit-id" | "patch-id" | "stripspace" | "column" | "diagnose" => {
            &PRINTING
        }
        "ls-remote" => &LS_REMOTE,
        "archive" => &ARCHIVE,
        _ => return false,
    };
    let items = read_from(call.args(), call.at + 1, grammar);
    meaning.notes_doubts(&items, call.invocation);
    let mut operands = Vec::new();
    let mut end = usize::MAX;
    let mut pattern_given = false;
    for item in items {
        match item {
            Item::Flag(name, at) => departs(call, meaning, name, at),
            Item::Value(name, place) => {
                pattern_given |= matches!(name, "e" | "f" | "file");
                value(call, meaning, name, place);
            }
            Item::Operand(at) | Item::Maybe(at) => operands.push(at),
            Item::End(at) => end = at,
            Item::Unknown(_) | Item::Open(_) | Item::Stray(_) => {}
        }
    }
    if shows_content(call.name) {
        let pattern = usize::from(call.name == "grep" && !pattern_given);
        // What stands behind `--` is a pathspec for certain, but where none is taken; so is all that `archive` has behind the
        // commit.
        let is_pathspec = |at: usize| match call.name {
            "archive" => operands.first() != Some(&at),
            "cat-file" | "verify-pack" => false,
            _ => at > end,
        };
        let shown = operands.iter().skip(pattern).copied();
        shown.clone().filter(|at| !is_pathspec(*at)).for_each(|at| call.may_read(meaning, at));
        let pathspecs = shown.filter(|at| is_pathspec(*at) && !paths::only_leaves_out(call, *at));
        meaning.perhaps.extend(paths::matched(call, pathspecs).into_iter().map(paths::no_word));
    } else if matches!(call.name, "rev-parse" | "rev-list" | "ls-tree") {
        // What a file holds in a commit is named here, and shown under that name by another command.
        let is_file = |at: &&usize| call.text(**at).is_some_and(|text| text.contains(':'));
        operands.iter().filter(is_file).for_each(|at| call.may_read(meaning, *at));
    }
    match call.name {
        "ls-remote" => remotes::named_or_usual(call, meaning, operands.first().copied()),
        "diff" if has(call, "--no-index") => operands.iter().for_each(|at| meaning.reads(call.operand(*at))),
        _ => meaning.reads(call.path(".")),
    }
    if call.invocation.more != More::Nothing && call.name == "ls-remote" {
        meaning.departs(DepartureKind::Program, call.args().len());
    }
    true
}

/// Whether a subcommand shows what is in files, rather than what commits and names there are.
fn shows_content(name: &str) -> bool {
    matches!(
        name,
        "diff"
            | "log"
            | "show"
            | "whatchanged"
            | "diff-tree"
            | "diff-index"
            | "diff-files"
            | "range-diff"
            | "grep"
            | "blame"
            | "annotate"
            | "cat-file"
            | "archive"
            | "verify-pack"
    )
}

fn has(call: &Call<'_>, option: &str) -> bool {
    call.args().iter().any(|arg| arg.text() == Some(option))
}

fn departs(call: &Call<'_>, meaning: &mut Meaning, name: &'static str, at: usize) {
    match (call.name, name) {
        // A signature is checked by the program that `gpg.program` names, a merge is made anew by those that
        // `.gitattributes` and `merge.*.driver` name, and a manual page is shown by another.
        (_, "ext-diff" | "textconv" | "filters" | "show-signature" | "remerge-diff" | "help")
        | ("grep", "O" | "open-files-in-pager") => {
            meaning.departs(DepartureKind::Program, at);
        }
        ("help", "w" | "i" | "m") => meaning.departs(DepartureKind::Program, at),
        ("diagnose", _) => meaning.departs(DepartureKind::Output, at),
        _ => {}
    }
}

fn value(call: &Call<'_>, meaning: &mut Meaning, name: &'static str, place: Place) {
    let args = call.args();
    match (call.name, name) {
        (_, "output") | ("archive" | "diagnose", "o") => meaning.writes_option(args, place),
        // A text with arguments is for a shell.
        ("grep", "O" | "open-files-in-pager") if place.prefix(args).contains(' ') => {
            meaning.runs_option_text(args, place);
        }
        ("grep", "O" | "open-files-in-pager") => meaning.runs_program(args, place),
        ("grep", "f" | "file")
        | ("archive", "add-file")
        | (_, "O" | "order-file" | "contents" | "ignore-revs-file" | "exclude-from") => {
            meaning.reads(place.on(args));
        }
        ("blame" | "annotate", "S") => meaning.reads(call.on(place)),
        (_, "skip-to" | "rotate-to" | "relative") => call.may_hold(meaning, place),
        // `-L1,5:path`, `-L:function:path`; of blame, its lines alone.
        (name, "L") if !matches!(name, "blame" | "annotate") => {
            match place.text(args).map(|range| range.rsplit_once(':')) {
                Some(Some((_, path))) => call.may_name(meaning, path, place.arg),
                Some(None) => {}
                None => meaning.perhaps.push(On::Unknown(Some(place.option))),
            }
        }
        (_, "upload-pack" | "exec") | ("ls-remote", "u") => super::note_command(call, meaning, place),
        (_, "format" | "pretty") if place.value(args).is_none_or(|format| shows_signature(&format)) => {
            meaning.departs(DepartureKind::Program, place.option);
        }
        (_, "sort" | "diff-merges" | "submodule")
            if place.text(args).is_none_or(|text| starts(name, text)) =>
        {
            meaning.departs(DepartureKind::Program, place.option);
        }
        ("archive", "remote") => remotes::note(call, meaning, place),
        _ => {}
    }
}

/// Whether a value has git start what a setting names: a check of signatures, merges that are made anew, or `git diff` in
/// a repository inside this one, whose settings count there.
pub(super) fn starts(option: &str, value: &str) -> bool {
    match option {
        "sort" => value.contains("signature"),
        "diff-merges" => matches!(value, "r" | "remerge"),
        _ => !matches!(value, "short" | "log"),
    }
}

/// Whether a format has a commit's signature checked, or may do so: `%G?`, `%(signature)`.
pub(super) fn shows_signature(format: &Arg) -> bool {
    let mut last = None;
    for part in &format.parts {
        match part {
            ArgPart::Known(text) | ArgPart::Glob(text) => {
                if text.contains("%G") || text.contains("%(signature") || text.contains("%(*signature") {
                    return true;
                }
                last = text.chars().last();
            }
            // What follows a `%` is not known.
            ArgPart::Unknown if last == Some('%') => return true,
            ArgPart::Unknown => last = None,
        }
    }
    false
}
