//! Which hooks of a repository a subcommand of git may run.

use std::path::Path;

use super::is_absent;
use crate::readers;

/// The hook that anything may run which refreshes the index, reading too.
pub(super) const OF_INDEX: &str = "post-index-change";

/// Subcommands that make commits or take those of others over.
const COMMIT: &[&str] = &["commit", "merge", "pull", "rebase", "cherry-pick", "revert", "am"];

/// Subcommands that write files of a commit to the work tree or to a new one.
const CHECKOUT: &[&str] =
    &["checkout", "switch", "restore", "clone", "worktree", "bisect", "stash", "submodule", "rebase", "pull"];

/// Subcommands that change another repository, which may be the same.
const PUSH: &[&str] = &["push", "send-pack"];

/// Hooks, each with the subcommands that may run it; no list stands for all that do more than read or fill the index.
const HOOKS: &[(&str, &[&str])] = &[
    ("applypatch-msg", COMMIT),
    ("pre-applypatch", COMMIT),
    ("post-applypatch", COMMIT),
    ("pre-commit", COMMIT),
    ("pre-merge-commit", COMMIT),
    ("prepare-commit-msg", COMMIT),
    ("commit-msg", COMMIT),
    ("post-commit", COMMIT),
    ("post-merge", COMMIT),
    ("post-rewrite", COMMIT),
    ("pre-rebase", COMMIT),
    ("pre-auto-gc", &[]),
    ("reference-transaction", &[]),
    ("pre-push", &["push"]),
    ("post-checkout", CHECKOUT),
    ("pre-receive", PUSH),
    ("update", PUSH),
    ("proc-receive", PUSH),
    ("post-receive", PUSH),
    ("post-update", PUSH),
    ("push-to-checkout", PUSH),
    ("sendemail-validate", &["send-email"]),
    ("p4-changelist", &["p4"]),
    ("p4-prepare-changelist", &["p4"]),
    ("p4-post-changelist", &["p4"]),
    ("p4-pre-submit", &["p4"]),
];

/// Subcommands that run no hook but the index's own, besides those that only read.
const QUIET: &[&str] = &[
    "add",
    "annotate",
    "apply",
    "archive",
    "bundle",
    "checkout-index",
    "clean",
    "column",
    "commit-graph",
    "config",
    "diff-files",
    "diff-index",
    "format-patch",
    "fsck",
    "hash-object",
    "help",
    "init",
    "ls-remote",
    "mv",
    "prune",
    "range-diff",
    "read-tree",
    "repack",
    "rerere",
    "rm",
    "sparse-checkout",
    "stage",
    "stripspace",
    "update-index",
    "var",
    "write-tree",
];

/// Subcommands that run no hook but those that all others run.
const OTHERS: &[&str] = &[
    "branch",
    "fetch",
    "gc",
    "maintenance",
    "notes",
    "pack-refs",
    "reflog",
    "remote",
    "replace",
    "reset",
    "symbolic-ref",
    "tag",
    "update-ref",
];

/// The hooks of a repository, or of several.
#[derive(Default)]
pub(super) struct Hooks {
    /// The subcommands of each one that is there.
    of: Vec<&'static [&'static str]>,
}

impl Hooks {
    /// Looks for hooks in a directory of them.
    pub(super) fn look(hooks: &Path) -> Hooks {
        let is_there = |name: &str| !is_absent(&hooks.join(name));
        Hooks { of: HOOKS.iter().filter(|(name, _)| is_there(name)).map(|(_, of)| *of).collect() }
    }

    /// Takes those of another repository over.
    pub(super) fn add(&mut self, more: Hooks) {
        let new = more.of.into_iter().filter(|of| !self.of.contains(of)).collect::<Vec<_>>();
        self.of.extend(new);
    }

    /// Whether the subcommand may run one.
    pub(super) fn may_run(&self, subcommand: Option<&str>) -> bool {
        self.of.iter().any(|of| may_run(subcommand, of))
    }
}

/// Whether a subcommand may run a hook with these subcommands. A name that is not known is an alias, and may stand for any.
fn may_run(subcommand: Option<&str>, subcommands: &[&str]) -> bool {
    match subcommand {
        Some(name) if is_quiet(name) => false,
        Some(name) if is_known(name) => subcommands.is_empty() || subcommands.contains(&name),
        _ => true,
    }
}

fn is_quiet(subcommand: &str) -> bool {
    QUIET.contains(&subcommand) || readers::is_git_reader(subcommand)
}

/// Whether a file of this name is a hook wherever it lies in a directory called `hooks`: many other things are an `update`.
pub(in super::super) fn is_hook(name: &str) -> bool {
    name != "update" && (name == OF_INDEX || HOOKS.iter().any(|(hook, _)| *hook == name))
}

/// Whether a name is that of a subcommand of which is known what it runs.
pub(super) fn is_known(subcommand: &str) -> bool {
    is_quiet(subcommand)
        || OTHERS.contains(&subcommand)
        || HOOKS.iter().any(|(_, subcommands)| subcommands.contains(&subcommand))
}

#[cfg(test)]
mod tests;
