//! What git still has to do in a repository: the steps of a rebase that waits, and commits that wait to be taken over.
//!
//! Git goes on with what stands in its files, whoever wrote it. A step may be a command, and a way to merge is the program
//! `git-merge-NAME`. Only steps, options and ways that are known to start nothing pass.

use std::path::Path;

use super::{Content, hooks, read};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Steps of a rebase that are no commands of the shell.
const STEPS: &[&str] = &[
    "b",
    "break",
    "d",
    "drop",
    "e",
    "edit",
    "f",
    "fixup",
    "l",
    "label",
    "m",
    "merge",
    "noop",
    "p",
    "pick",
    "r",
    "reset",
    "revert",
    "reword",
    "s",
    "squash",
    "t",
    "u",
    "update-ref",
];

/// Ways to merge that git has itself.
const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// Options for the commits that wait, as git writes them, besides the way to merge.
const OPTIONS: &[&str] = &[
    "allow-empty",
    "allow-empty-message",
    "allow-ff",
    "allow-rerere-auto",
    "default-msg-cleanup",
    "drop-redundant-commits",
    "edit",
    "gpg-sign",
    "keep-redundant-commits",
    "mainline",
    "no-commit",
    "record-origin",
    "signoff",
    "strategy-option",
];

/// What waits in a repository and may start a program.
pub(super) struct Unfinished {
    rebase: bool,
    commits: bool,
}

impl Unfinished {
    /// Looks for it in a git directory.
    pub(super) fn look(git: &Path) -> Unfinished {
        let is_plain = |name: &str, plain: fn(&str) -> bool| match read(&git.join(name), MAX_FILE) {
            Content::Nothing => true,
            Content::Bytes(bytes) => String::from_utf8(bytes).is_ok_and(|text| plain(&text)),
            Content::TooMuch => false,
        };
        Unfinished {
            rebase: !is_plain("rebase-merge/git-rebase-todo", are_harmless)
                || !is_plain("rebase-merge/strategy", is_of_git),
            commits: !is_plain("sequencer/opts", are_options),
        }
    }

    /// Whether a subcommand may go on with it.
    pub(super) fn may_start(&self, subcommand: Option<&str>) -> bool {
        match subcommand {
            Some("rebase") => self.rebase,
            Some("cherry-pick" | "revert") => self.commits,
            Some(name) if hooks::is_known(name) => false,
            _ => self.rebase || self.commits,
        }
    }
}

/// Whether each line is a step that starts nothing.
fn are_harmless(steps: &str) -> bool {
    steps.split('\n').map(|line| line.trim_start_matches([' ', '\t'])).all(|line| {
        let name = line.split([' ', '\t', '\r']).next().unwrap_or_default();
        name.is_empty() || name.starts_with('#') || STEPS.contains(&name)
    })
}

fn is_of_git(strategy: &str) -> bool {
    STRATEGIES.contains(&strategy.strip_suffix('\n').unwrap_or(strategy))
}

/// Whether each line is one that git writes there, and the way to merge is its own.
fn are_options(text: &str) -> bool {
    text.lines().all(|line| match line.trim().split_once(" = ") {
        Some(("strategy", name)) => is_of_git(name),
        // Such an end would take the next line in.
        Some((name, value)) => OPTIONS.contains(&name) && !value.ends_with('\\'),
        None => matches!(line.trim(), "" | "[options]"),
    })
}
