//! The table of built-in rules: names, reasons, and which list they belong to.

use helve_core::Verdict;

use super::asked::ASKED;

/// One built-in rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The name by which the owner can list it.
    pub(crate) name: &'static str,
    /// Why, in a sentence without its full stop.
    pub(crate) reason: &'static str,
    pub(crate) verdict: Verdict,
}

pub(super) const RM_RECURSIVE: &str = "guard.rm-recursive";
pub(super) const WINDOWS_DELETE: &str = "guard.windows-delete";
pub(super) const DISK_FORMAT: &str = "guard.disk-format";
pub(super) const DD: &str = "guard.dd";
pub(super) const DEVICE_WRITE: &str = "guard.device-write";
pub(super) const POWER: &str = "guard.power";
pub(super) const FORK_BOMB: &str = "guard.fork-bomb";
pub(super) const DOWNLOAD_RUN: &str = "guard.download-run";
pub(super) const PROTECTED_WRITE: &str = "guard.protected-write";

const DENIED: &[(&str, &str)] = &[
    (RM_RECURSIVE, "it deletes whole directory trees"),
    (WINDOWS_DELETE, "it deletes files or directories without asking"),
    (DISK_FORMAT, "it formats or repartitions a disk"),
    (DD, "dd copies raw data and overwrites disks and files"),
    (DEVICE_WRITE, "it writes to a disk device"),
    (POWER, "it stops or restarts the machine"),
    (FORK_BOMB, "the function starts itself without end"),
    (
        DOWNLOAD_RUN,
        "it runs what it gets from a network, unseen; download it to a file and look at that first",
    ),
    (
        PROTECTED_WRITE,
        "it changes files that run or configure programs without being asked: git's hooks and \
     configuration, settings of editors and agents, or Helve's own files",
    ),
];

/// All rules: first those that refuse, then those that ask.
fn all() -> impl Iterator<Item = Rule> {
    let denied = DENIED.iter().map(|(name, reason)| Rule { name, reason, verdict: Verdict::Deny });
    denied.chain(ASKED.iter().map(|rule| Rule {
        name: rule.name,
        reason: rule.reason,
        verdict: Verdict::Ask,
    }))
}

/// A rule by its name.
pub(crate) fn by_name(name: &str) -> Option<Rule> {
    all().find(|rule| rule.name == name)
}

/// The names of the rules with this verdict.
pub(crate) fn names(verdict: Verdict) -> Vec<&'static str> {
    all().filter(|rule| rule.verdict == verdict).map(|rule| rule.name).collect()
}
