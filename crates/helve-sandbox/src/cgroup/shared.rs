//! One wall around all commands of a view, inherited from their zygote: all that the older hierarchies can do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use helve_core::{Exit, LimitHit, ProcessLimits};

use super::host::Host;
use super::{counter, write};

/// The wall stands so many bytes behind the bound: room for the zygote and for members that wait.
pub(super) const MEMORY_ROOM: u64 = 128 << 20;
/// The wall stands so many processes behind the bound, for the same reason.
pub(super) const PROCESS_ROOM: u64 = 256;

/// The groups of one zygote, one in each hierarchy.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) memory: PathBuf,
    pub(super) processes: Option<PathBuf>,
    pub(super) memory_kills: AtomicU64,
    pub(super) refused_forks: AtomicU64,
}

impl Shared {
    pub(super) fn make(host: &Host, name: &str, limits: &ProcessLimits) -> io::Result<Shared> {
        // From here on dropping the value removes what was made.
        let mut groups = Shared {
            memory: host.memory.join(name),
            processes: None,
            memory_kills: AtomicU64::new(0),
            refused_forks: AtomicU64::new(0),
        };
        fs::create_dir(&groups.memory)?;
        let bytes = limits.memory_bytes.saturating_add(MEMORY_ROOM);
        write(&groups.memory, "memory.limit_in_bytes", bytes)?;
        // Counts swapped pages too; kernels that do not count them have no such file.
        let _ = write(&groups.memory, "memory.memsw.limit_in_bytes", bytes);
        if let Some(parent) = &host.processes {
            let group = parent.join(name);
            fs::create_dir(&group)?;
            groups.processes = Some(group.clone());
            write(&group, "pids.max", limits.processes.saturating_add(PROCESS_ROOM))?;
        }
        Ok(groups)
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
        let kills = counter(&self.memory, "memory.oom_control", "oom_kill");
        let refused = self.processes.as_deref().map_or(0, |group| counter(group, "pids.events", "max"));
        let grown = |seen: &AtomicU64, now| seen.swap(now, Ordering::Relaxed) < now;
        let refused = grown(&self.refused_forks, refused).then_some(LimitHit::Processes(limits.processes));
        let killed = grown(&self.memory_kills, kills).then_some(LimitHit::Memory(limits.memory_bytes));
        killed.or(refused)
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.memory.as_path()).chain(self.processes.as_deref())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        super::remove(self.directories().map(Path::to_owned).collect());
    }
}
