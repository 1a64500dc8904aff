//! Control groups: a wall around commands, where the host lets Helve build one.
//!
//! In: the bounds of a command. Out: groups for the commands of one view, and afterwards whether the wall was hit.
//!
//! ```text
//! a group that was given to Helve      top of the hierarchy as Helve sees it, or marked as delegated
//!   ├ helve-PID-START-self             Helve and what else it starts, where it had to leave the given group
//!   └ helve-PID-START-NUMBER           one per zygote
//!       ├ zygote                       the zygote and the inits of its members     (unified hierarchy only)
//!       └ command-NUMBER               one command, born there                     (unified hierarchy only)
//! ```
//!
//! In the unified hierarchy (`own`) each command has a wall of its own, at its bounds. In the older hierarchies (`shared`)
//! a process can only inherit its groups, so all commands of a view share one wall, which stands a little behind the bounds
//! of one. Either way a member's own init watches its command and says which bound it was; the wall catches what is too
//! fast for it or what it cannot see.
//!
//! Invariant: nothing is made, moved or removed except groups of that name, this process and what it started. A group in which
//! somebody else manages processes is not Helve's to divide, though it could; then there is no wall.
//!
//! Not here: the bounds themselves (`sys::native::watch` and resource limits hold them with or without a wall).

mod host;
mod own;
mod shared;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helve_core::ProcessLimits;

use host::{Host, Version};
use shared::Shared;

pub(crate) use own::{Own, Room};

/// How often, and after what pause, removing groups is tried again while their processes die: first by whoever drops
/// them, then by a thread.
const SOON: (u32, Duration) = (10, Duration::from_millis(5));
const LATER: (u32, Duration) = (100, Duration::from_millis(20));

/// How often, and after what pause, a group is emptied before it is given up that it can hand anything down: whoever is
/// about to end cannot be moved any more, and is in it until he has.
const MOVES: u32 = 25;
const MOVE_PAUSE: Duration = Duration::from_millis(10);

/// The groups of one zygote. Dropping them removes them, as soon as the processes in them are gone.
#[derive(Debug)]
pub(crate) enum Groups {
    /// One wall for all commands.
    Shared(Shared),
    /// One for each.
    Own(Own),
}

impl Groups {
    /// Groups for one zygote whose commands have these bounds; none where the host gives none.
    pub(crate) fn for_view(limits: &ProcessLimits) -> Option<Groups> {
        static HOST: OnceLock<Option<Host>> = OnceLock::new();
        let host = HOST.get_or_init(|| {
            let host = Host::find()?;
            host.parents().for_each(remove_leftovers);
            Some(host)
        });
        Groups::make(host.as_ref()?, limits).ok()
    }

    fn make(host: &Host, limits: &ProcessLimits) -> io::Result<Groups> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = own_name(&NUMBER.fetch_add(1, Ordering::Relaxed).to_string())?;
        match host.version {
            Version::One => Shared::make(host, &name, limits).map(Groups::Shared),
            Version::Two => Own::make(&host.memory.join(name), limits).map(Groups::Own),
        }
    }
}

/// Removes groups once nobody is in them. What is left all the same is removed at a later start.
fn remove(mut groups: Vec<PathBuf>) {
    if try_to_remove(&mut groups, SOON) {
        return;
    }
    let later = move || {
        try_to_remove(&mut groups, LATER);
    };
    let _ = std::thread::Builder::new().name("helve-groups".to_owned()).spawn(later);
}

/// Whether all are removed.
fn try_to_remove(groups: &mut Vec<PathBuf>, (times, pause): (u32, Duration)) -> bool {
    for _ in 0..times {
        groups.retain(|group| is_busy(fs::remove_dir(group)));
        if groups.is_empty() {
            return true;
        }
        std::thread::sleep(pause);
    }
    false
}

fn is_busy(removed: io::Result<()>) -> bool {
    removed.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

fn write(group: &Path, file: &str, value: u64) -> io::Result<()> {
    fs::write(group.join(file), value.to_string())
}

/// The number after `name` in a file of such lines; 0 if it cannot be read.
fn counter(group: &Path, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

const PREFIX: &str = "helve-";

/// A name that says which process made the group: its number, and when it started, because numbers are used again.
fn own_name(suffix: &str) -> io::Result<String> {
    let pid = std::process::id();
    let start = start_time(pid).ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    Ok(format!("{PREFIX}{pid}-{start}-{suffix}"))
}

/// When a process started, in the kernel's ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 22)
}

/// The user as whom a process opens files.
pub(crate) fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().nth(3)?.parse().ok()
}

/// A field of `/proc/PID/stat` after the name, counted as in the kernel's manual.
fn stat_field(pid: u32, field: usize) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may hold anything; the state, which follows it, is the third field.
    stat.rsplit_once(") ")?.1.split(' ').nth(field.checked_sub(3)?)?.parse().ok()
}

/// Removes the groups whose maker is gone. One with a process in it stays: the kernel removes no such group.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_str()
            .and_then(maker)
            .is_some_and(|(pid, start)| start_time(pid) != Some(start))
        {
            below(&entry.path()).for_each(|group| drop(fs::remove_dir(group)));
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The groups in a group.
fn below(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// The process that made the group of this name, and when it started.
fn maker(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let maker = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().map(|_suffix| maker)
}

#[cfg(test)]
mod tests;
