//! Control groups: a wall around all commands of one view, where the host lets Helve build one.
//!
//! In: the bounds of a command. Out: groups that a view's zygote is put into before it makes members, which inherit
//! them; and afterwards, whether the wall was hit. Commands of a view share the wall, so it stands a little behind the
//! bounds of one: a member's own init ends its command at the bound and says which it was, and the wall catches what is
//! too fast for it or what it cannot see.
//!
//! ```text
//! a group that was given to Helve          top of the hierarchy as Helve sees it, or marked as delegated
//!   └ helve-PID-START-NUMBER               one per zygote: memory (and, where it can be had, processes)
//! ```
//!
//! Invariant: nothing is made, moved or removed except groups of that name, this process and what it started. A group in which
//! somebody else manages processes is not Helve's to divide, though it could; then there is no wall.
//!
//! Not here: the bounds themselves (`sys::native::watch` and resource limits hold them with or without a wall).

mod host;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helve_core::{Exit, LimitHit, ProcessLimits};

use host::{Host, Version};

/// The wall stands so many bytes behind the bound: room for the zygote and for members that wait.
const MEMORY_ROOM: u64 = 128 << 20;
/// The wall stands so many processes behind the bound, for the same reason.
const PROCESS_ROOM: u64 = 256;
/// How often, and after what pause, removing a group is tried again while its processes die.
const REMOVALS: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// The groups of one zygote. Dropping them removes them, as soon as the processes in them are gone.
#[derive(Debug)]
pub(crate) struct Groups {
    version: Version,
    memory: PathBuf,
    /// The same as `memory` where one hierarchy has all controllers.
    processes: Option<PathBuf>,
    memory_kills: AtomicU64,
    refused_forks: AtomicU64,
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
        // From here on dropping the value removes what was made.
        let mut groups = Groups {
            version: host.version,
            memory: host.memory.join(&name),
            processes: None,
            memory_kills: AtomicU64::new(0),
            refused_forks: AtomicU64::new(0),
        };
        fs::create_dir(&groups.memory)?;
        groups.bound_memory(limits.memory_bytes.saturating_add(MEMORY_ROOM))?;
        if let Some(parent) = &host.processes {
            let group = parent.join(&name);
            if group != groups.memory {
                fs::create_dir(&group)?;
            }
            groups.processes = Some(group.clone());
            write(&group, "pids.max", limits.processes.saturating_add(PROCESS_ROOM))?;
        }
        Ok(groups)
    }

    fn bound_memory(&self, bytes: u64) -> io::Result<()> {
        match self.version {
            Version::One => {
                write(&self.memory, "memory.limit_in_bytes", bytes)?;
                // Counts swapped pages too; kernels that do not count them have no such file.
                let _ = write(&self.memory, "memory.memsw.limit_in_bytes", bytes);
            }
            Version::Two => {
                write(&self.memory, "memory.max", bytes)?;
                let _ = write(&self.memory, "memory.swap.max", 0);
            }
        }
        Ok(())
    }

    /// Puts a process in, and with it everything that it will start. This takes the kernel some milliseconds, so it is
    /// done once, for a zygote that has not made anything yet.
    pub(crate) fn enter(&self, pid: u32) -> io::Result<()> {
        self.directories().try_for_each(|group| write(group, "cgroup.procs", u64::from(pid)))
    }

    /// Whether a command that ended so hit the wall. Asked after every command that failed, it tells what happened
    /// since it was asked last.
    pub(crate) fn hit(&self, exit: Exit, limits: &ProcessLimits) -> Option<LimitHit> {
        if exit == Exit::Code(0) {
            return None;
        }
        let kills = match self.version {
            Version::One => counter(&self.memory, "memory.oom_control", "oom_kill"),
            Version::Two => counter(&self.memory, "memory.events", "oom_kill"),
        };
        let refused = self.processes.as_deref().map_or(0, |group| counter(group, "pids.events", "max"));
        let grown = |seen: &AtomicU64, now| seen.swap(now, Ordering::Relaxed) < now;
        let refused = grown(&self.refused_forks, refused).then_some(LimitHit::Processes(limits.processes));
        let killed = grown(&self.memory_kills, kills).then_some(LimitHit::Memory(limits.memory_bytes));
        killed.or(refused)
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        let processes = self.processes.as_deref().filter(|group| *group != self.memory);
        std::iter::once(self.memory.as_path()).chain(processes)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if self.version == Version::Two {
            // Kernels before 5.14 do not have it; the processes end with their zygote anyway.
            let _ = write(&self.memory, "cgroup.kill", 1);
        }
        let mut left: Vec<PathBuf> = self.directories().map(Path::to_owned).collect();
        left.retain(|group| is_busy(fs::remove_dir(group)));
        if left.is_empty() {
            return;
        }
        let remove = move || {
            for _ in 0..REMOVALS {
                std::thread::sleep(REMOVAL_PAUSE);
                left.retain(|group| is_busy(fs::remove_dir(group)));
                if left.is_empty() {
                    return;
                }
            }
        };
        // What is left all the same is removed at a later start.
        let _ = std::thread::Builder::new().name("helve-groups".to_owned()).spawn(remove);
    }
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
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made the group of this name, and when it started.
fn maker(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let maker = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().map(|_suffix| maker)
}

#[cfg(test)]
mod tests;
