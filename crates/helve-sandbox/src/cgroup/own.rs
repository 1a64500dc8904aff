//! A wall for each command, in the unified hierarchy.
//!
//! ```text
//! enter      the zygote goes into the view's group, and makes a control group namespace whose top that is
//! divide     it goes on into a group below, and the view's group hands controllers down
//! room       a group with the bounds of one command; the init of a member has the command born in it, and reads there
//!            how much processor time it took
//! ```
//!
//! A member's init stays in the zygote's group: it runs in the zygote's memory, and the kernel, where it kills for want of
//! memory, kills everybody who shares the victim's. For the same reason a wall is never so near that a process which has not
//! executed its program yet could hit it.
//!
//! The kernel lets a process have a child born elsewhere if it may write the lists of processes of that group and of the one
//! above both, and if both lie below the top of its control group namespace. As root, commands and their init are another
//! user than Helve, to whom those lists are given.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::{Exit, LimitHit, ProcessLimits};
use rustix::fs::{CWD, Mode, OFlags};

use super::{below, counter, is_busy, write};

/// How many more processes there may be than the bound says, so that a command's init sees the bound passed and ends it.
const PROCESS_ROOM: u64 = 16;
/// The least memory at which a wall stands: enough to become a program. A lower bound is the init's to hold.
const LEAST_MEMORY: u64 = 16 << 20;
/// What all commands of a view together get of the processors where Helve, with 100, wants them too.
const WEIGHT: u64 = 50;

/// The groups of one zygote.
#[derive(Debug)]
pub(crate) struct Own {
    top: PathBuf,
    limits: ProcessLimits,
    /// Whether commands can be born in groups below.
    open: AtomicBool,
    /// Who has them born, where that is not this process's user.
    user: Mutex<Option<u32>>,
    next: AtomicU64,
    /// For the next command.
    spare: Mutex<Option<Room>>,
    busy: Arc<Busy>,
}

/// Groups of commands that are over, in which somebody still was.
#[derive(Debug, Default)]
struct Busy(Mutex<Vec<PathBuf>>);

impl Busy {
    fn list(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    pub(super) fn make(top: &Path, limits: &ProcessLimits) -> io::Result<Own> {
        fs::create_dir(top)?;
        // Where processors are not shared out there is no such file.
        let _ = write(top, "cpu.weight", WEIGHT);
        Ok(Own {
            top: top.to_owned(),
            limits: *limits,
            open: AtomicBool::new(false),
            user: Mutex::new(None),
            next: AtomicU64::new(0),
            spare: Mutex::new(None),
            busy: Arc::default(),
        })
    }

    /// Puts a zygote into the view's group.
    pub(crate) fn enter(&self, pid: u32) -> io::Result<()> {
        write(&self.top, "cgroup.procs", u64::from(pid))
    }

    /// Opens the groups for commands, once the zygote, which runs as this user, has its namespace.
    pub(crate) fn divide(&self, user: u32) -> io::Result<()> {
        let zygote = self.top.join("zygote");
        fs::create_dir(&zygote)?;
        if user != rustix::process::geteuid().as_raw() {
            *self.user.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
            give(&self.top, user)?;
        }
        let has = fs::read_to_string(self.top.join("cgroup.controllers"))?;
        let wanted = ["memory", "pids", "cpu"].into_iter();
        let wanted = wanted.filter(|name| has.split_whitespace().any(|word| word == *name));
        let wanted = wanted.map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ");
        let mut handed = Ok(());
        for _ in 0..super::MOVES {
            for pid in fs::read_to_string(self.top.join("cgroup.procs"))?.split_whitespace() {
                // Whoever has ended need not be moved; whoever came meanwhile is moved next time.
                let _ = fs::write(zygote.join("cgroup.procs"), pid);
            }
            handed = fs::write(self.top.join("cgroup.subtree_control"), &wanted);
            if handed.is_ok() {
                self.open.store(true, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(super::MOVE_PAUSE);
        }
        handed
    }

    /// Commands are born elsewhere from now on.
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    /// Whether commands are born in groups of their own.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A group for one command; none if there can be none.
    pub(crate) fn room(&self) -> Option<Room> {
        if !self.is_open() {
            return None;
        }
        self.spare().take().or_else(|| self.new_room().ok())
    }

    /// Removes rooms that were busy, and makes the next one ready if there will be `more`. Whether some still are busy.
    pub(crate) fn tidy(&self, more: bool) -> bool {
        let mut spare = self.spare();
        let wanted = more && self.is_open();
        let room = if wanted { spare.take().or_else(|| self.new_room().ok()) } else { None };
        *spare = room;
        drop(spare);
        let mut busy = self.busy.list();
        busy.retain(|group| is_busy(fs::remove_dir(group)));
        !busy.is_empty()
    }

    fn spare(&self) -> MutexGuard<'_, Option<Room>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_room(&self) -> io::Result<Room> {
        let path = self.top.join(format!("command-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &path, flags, Mode::empty()).inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        })?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let processor = rustix::fs::openat(&directory, "cpu.stat", flags, Mode::empty()).ok();
        // From here on dropping it removes it.
        let room = Room { path, directory, processor, limits: self.limits, busy: Arc::clone(&self.busy) };
        write(&room.path, "memory.max", self.limits.memory_bytes.max(LEAST_MEMORY))?;
        // Kernels that do not count swapped pages have no such file.
        let _ = write(&room.path, "memory.swap.max", 0);
        write(&room.path, "memory.oom.group", 1)?;
        write(&room.path, "pids.max", self.limits.processes.saturating_add(PROCESS_ROOM))?;
        if let Some(user) = *self.user.lock().unwrap_or_else(PoisonError::into_inner) {
            give(&room.path, user)?;
        }
        Ok(room)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.spare().take());
        // Kernels before 5.14 do not have it; the processes end with their zygote anyway.
        let _ = write(&self.top, "cgroup.kill", 1);
        super::remove(below(&self.top).chain([self.top.clone()]).collect());
    }
}

/// Lets somebody move processes in and out of a group, within the groups of which he may do so.
fn give(group: &Path, user: u32) -> io::Result<()> {
    std::os::unix::fs::chown(group.join("cgroup.procs"), Some(user), None)
}

/// The group of one command. Dropping it ends whatever is in it, and removes it.
#[derive(Debug)]
pub(crate) struct Room {
    path: PathBuf,
    directory: OwnedFd,
    /// `cpu.stat`, which every group has.
    processor: Option<OwnedFd>,
    limits: ProcessLimits,
    busy: Arc<Busy>,
}

impl Room {
    /// Itself, and its statistics of processor time.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.directory.as_fd()).chain(self.processor.as_ref().map(AsFd::as_fd))
    }

    /// Ends whatever is in it.
    pub(crate) fn kill(&self) {
        // Where the kernel cannot, the member's own end does.
        let _ = write(&self.path, "cgroup.kill", 1);
    }

    /// Whether its command, which ended so, hit the wall.
    pub(crate) fn hit(&self, exit: Exit) -> Option<LimitHit> {
        if exit == Exit::Code(0) {
            return None;
        }
        let has = |file, name| counter(&self.path, file, name) > 0;
        let killed = has("memory.events", "oom_kill").then_some(LimitHit::Memory(self.limits.memory_bytes));
        killed.or_else(|| has("pids.events", "max").then_some(LimitHit::Processes(self.limits.processes)))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if is_busy(fs::remove_dir(&self.path)) {
            self.kill();
            self.busy.list().push(self.path.clone());
        }
    }
}
