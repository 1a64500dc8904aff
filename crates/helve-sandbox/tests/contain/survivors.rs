//! What is left of a call: processes, found by a token that every process of it carries, and descriptors, mounts and
//! control groups by their number.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::within;

/// The processes that have `token` in their environment or among their arguments.
pub(crate) fn carrying(token: &str) -> Vec<String> {
    let has = |path: &Path, name: &str| {
        let bytes = std::fs::read(path.join(name)).unwrap_or_default();
        bytes.windows(token.len()).any(|window| window == token.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let own = Path::new("/proc").join(std::process::id().to_string());
    let found = processes.filter(|path| *path != own && (has(path, "environ") || has(path, "cmdline")));
    found.map(|path| describe(&path)).collect()
}

fn describe(process: &Path) -> String {
    let read = |name: &str| std::fs::read(process.join(name)).unwrap_or_default();
    format!("{} {}", process.display(), String::from_utf8_lossy(&read("cmdline")).replace('\0', " "))
}

/// Waits until no process carries the token; those that still do after `limit`.
pub(crate) fn after(limit: Duration, token: &str) -> Vec<String> {
    let start = Instant::now();
    loop {
        let left = carrying(token);
        if left.is_empty() || start.elapsed() > within(limit) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What this process holds and has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Memory, in KiB.
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
    /// Its children and theirs.
    pub(crate) processes: usize,
    pub(crate) zombies: usize,
    /// Mounts of the namespace that it lives in.
    pub(crate) mounts: usize,
    /// Control groups of the machine.
    pub(crate) groups: usize,
    /// Entries of its directory for temporary files.
    pub(crate) temporary: usize,
}

impl Holdings {
    pub(crate) fn now() -> Holdings {
        let count = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        let family = descendants(std::process::id());
        Holdings {
            memory: memory.unwrap(),
            descriptors: count(Path::new("/proc/self/fd")),
            processes: family.len(),
            zombies: family.iter().filter(|(_, state)| *state == 'Z').count(),
            mounts: std::fs::read_to_string("/proc/self/mounts").unwrap().lines().count(),
            groups: groups(Path::new("/sys/fs/cgroup")),
            temporary: count(&std::env::temp_dir()),
        }
    }
}

/// Children of `ancestor`, theirs and so on, with their states.
fn descendants(ancestor: u32) -> Vec<(u32, char)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<(u32, u32, char)> = processes
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name stands in brackets and may have spaces.
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?.chars().next()?;
            Some((pid, fields.next()?.parse().ok()?, state))
        })
        .collect();
    let mut family: Vec<(u32, char)> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for (pid, _, state) in all.iter().filter(|(_, of, _)| *of == parent) {
            parents.push(*pid);
            family.push((*pid, *state));
        }
    }
    family
}

/// How many control groups there are below `path`.
fn groups(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|folder| 1 + groups(&folder.path())).sum()
}
