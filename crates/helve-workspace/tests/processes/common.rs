//! What the tests with processes of their own share.

use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

/// Numbers that differ from run to run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Dice {
        Dice(std::hash::RandomState::new().build_hasher().finish() | 1)
    }

    /// A number below `bound`.
    pub(crate) fn roll(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Whether the long versions are asked for.
pub(crate) fn soak() -> bool {
    std::env::var_os("HELVE_TEST_SOAK").is_some_and(|value| value == "1")
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This program again, to play one of its ignored tests as a process of its own, behind `before`.
pub(crate) fn role(test: &str, before: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut command = match before.split_first() {
        None => Command::new(own),
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).arg(own);
            command
        }
    };
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command
}

/// A user without rights.
pub(crate) const ORDINARY: &[&str] =
    &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];

/// Every name below a directory, links not followed.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            all.push(entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

/// The names that commits make for a moment.
pub(crate) fn litter(dir: &Path) -> Vec<String> {
    names(dir).into_iter().filter(|name| name.contains(".helve-")).collect()
}
