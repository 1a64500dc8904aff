//! Who says what is written to a file: the command, or the program that writes it.
//!
//! In comes an effect with its run; out goes its [`Author`]. Of programs that no table knows, arguments count too: the value of
//! `-o`, and files that perl or ruby edit in place.

use helve_shell::Span;
use helve_shell::analysis::{Arg, DepartureKind, Effect, Run, Target};

use super::argv::{Argv, lower};

/// Who says what a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// The command: with a redirection, or a program that copies or edits what it is given.
    Hand,
    /// The program that writes it, to a place that the command names.
    Program,
    /// The program whose own it is, as git's repository is git's; or nobody, where only modes and times change.
    Keeper,
}

/// Who says what an effect writes.
pub(super) fn author(run: Option<&Run>, effect: &Effect) -> Author {
    let Some(run) = run.filter(|run| !is_redirected(Some(run), effect)) else { return Author::Hand };
    let name = lower(run.program.as_deref().unwrap_or_default());
    let keeps = match name.as_ref() {
        "git" => git_keeps(run, effect),
        "chmod" | "chown" | "chgrp" | "touch" | "setfacl" | "mkdir" => true,
        "sed" => return Author::Hand,
        name if copies(name) => return Author::Hand,
        _ => return Author::Program,
    };
    // A text that was put together has one place for all of its words.
    let is_output =
        run.departures.iter().any(|it| it.kind == DepartureKind::Output && it.span == effect.span);
    if keeps && !is_output { Author::Keeper } else { Author::Hand }
}

/// Whether git writes what it keeps itself: the repository and the work tree, not a file that an option or an operand names.
fn git_keeps(run: &Run, effect: &Effect) -> bool {
    let Some(git) = Argv::of(run).git() else { return false };
    match git.name.as_ref() {
        "config" | "checkout" | "restore" | "rm" | "clean" => true,
        // A repository may be made under its usual name.
        "clone" | "init" if matches!(&effect.target, Target::Path { path, .. } if path.ends_with(".git")) => {
            true
        }
        _ => git.named_in(run).is_some_and(|subcommand| subcommand.span == effect.span),
    }
}

/// Who says what is written to a file that an argument only names, where the run writes it.
pub(super) fn author_of_named(run: &Run, effect: &Effect) -> Option<Author> {
    let name = lower(run.program.as_deref().unwrap_or_default());
    let language = name.trim_end_matches(|ch: char| ch.is_ascii_digit() || ch == '.');
    if matches!(language, "perl" | "ruby") {
        return edits_in_place(run).then_some(Author::Hand);
    }
    if run.understood {
        return None;
    }
    let at = run.argv.partition_point(|arg| arg.span.start < effect.span.start);
    let is_output = |arg: &Arg| {
        let text = arg.prefix();
        text.starts_with("--output=") || text.starts_with("-o") && !text.starts_with("-o=")
    };
    let named = run.argv.get(at).is_some_and(|arg| arg.span == effect.span && is_output(arg));
    let before = at.checked_sub(1).and_then(|at| run.argv.get(at)).and_then(Arg::text);
    let is_last = run.argv.len() > 2 && at + 1 == run.argv.len();
    let written = named || matches!(before, Some("-o" | "--output")) || name == "objcopy" && is_last;
    written.then_some(Author::Program)
}

/// Whether an interpreter is told to write back to the files that it reads: `perl -pi.bak -e …`.
fn edits_in_place(run: &Run) -> bool {
    // What stands behind these letters is theirs.
    let takes_rest = |letter: &char| "CEFIDKMTVWdemrx".contains(*letter);
    Argv::of(run)
        .options()
        .filter(|text| !text.starts_with("--"))
        .any(|text| text.chars().take_while(|letter| !takes_rest(letter)).any(|letter| letter == 'i'))
}

/// Programs that write what they are given to the path that they are given.
pub(super) fn copies(name: &str) -> bool {
    matches!(
        name,
        "dd" | "cp" | "mv" | "ln" | "install" | "tee" | "shred" | "truncate" | "sponge" | "cat" | "rsync"
    )
}

/// Whether the effect comes from a redirection: it points at none of the arguments.
pub(super) fn is_redirected(run: Option<&Run>, effect: &Effect) -> bool {
    run.is_some_and(|run| {
        let holds = |outer: Span, inner: Span| outer.start <= inner.start && inner.end <= outer.end;
        // Arguments stand in the order of the text: only the last that starts before and the next one can touch it.
        let behind = run.argv.partition_point(|arg| arg.span.start <= effect.span.start);
        let mut near = run.argv.iter().skip(behind.saturating_sub(1)).take(2);
        effect.span != run.span
            && !near.any(|arg| holds(arg.span, effect.span) || holds(effect.span, arg.span))
    })
}
