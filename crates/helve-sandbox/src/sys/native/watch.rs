//! What a member's init, or a supervisor, looks at while a command runs, so that it can end one that takes too much.
//!
//! In: the bounds, the workspace and the private file system as descriptors, and the member's own `/proc`. Out: the
//! bound that was passed, and when to look again. It holds where the host gives no control groups, and it tells which
//! bound it was where it does.
//!
//! | bound | what is added up |
//! |---|---|
//! | memory | pages, swapped pages and shared memory of all processes, each once, and what the private file system holds; |
//! | | where the host runs out of memory, by how much it has less, whoever took it |
//! | processes | threads of every process but init |
//! | processor time | of every process, with that of the children that it has waited for; in a control group all of it |
//! | disk | by how much the free space of the workspace's file system fell, whoever took it |
//!
//! Looking costs time, so it is paced: the less is left of a bound, the sooner comes the next look, down to
//! [`SOONEST_MS`], and looking never takes more than a fifth of the time.
//!
//! Only system calls without a C library between are made and nothing is allocated: init shares its memory, `errno`
//! included, with the zygote. Without control groups two things are not added up: memory that belongs to no process
//! (page tables, pipes, sockets, unmapped files of `memfd_create`), which is noticed when the host runs short of it; and
//! processor time of children that their parent refused to wait for.

mod processes;

use std::os::fd::{BorrowedFd, RawFd};

use helve_core::ProcessLimits;
use libc::c_int;
use processes::{HostMemory, Processes, Totals};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::native::wire::Bound;

/// The shortest time between two looks.
const SOONEST_MS: u64 = 2;
/// The longest time between two looks.
const LATEST_MS: u64 = 25;
/// The time before the first look: a command that only runs for a moment is never looked at.
const FIRST_MS: u64 = 5;
/// How fast memory or a disk can be filled, for pacing.
const BYTES_PER_MS: u64 = 2 << 20;
/// How fast processes can be made, for pacing.
const PROCESSES_PER_MS: u64 = 16;
/// Every so many looks memory is added up exactly although it looks small: swapped pages show only then.
const EXACT_EVERY: u32 = 8;

/// A host of whose memory less than this part is left is in danger.
const DANGER: u64 = 16;

/// One command's bounds and what was seen of it. Plain data; its descriptors end with the process that made it.
pub(in crate::sys) struct Watch {
    limits: ProcessLimits,
    processes: Processes,
    workspace: RawFd,
    private: RawFd,
    /// The statistics of processor time of the command's control group.
    processor: RawFd,
    free_at_start: u64,
    host_at_start: HostMemory,
    looks: u32,
    cpu_passed: bool,
    blind: bool,
    due_ms: u64,
}

impl Watch {
    /// Starts to watch. `workspace` is any descriptor on the file system whose space is bounded, `private` one on the
    /// private file system, `processor` one of `cpu.stat`; the negative number stands for none. An error is the `errno` of
    /// opening `/proc`.
    pub(super) fn new(
        limits: &ProcessLimits,
        workspace: RawFd,
        private: RawFd,
        processor: RawFd,
    ) -> Result<Watch, c_int> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(c"/proc", flags, Mode::empty()).map_err(rustix::io::Errno::raw_os_error)?;
        Ok(Watch { processor, ..Watch::of(limits, Processes::new(root), workspace, private) })
    }

    /// One for everything that will descend from a supervisor, on a `/proc` that others are in too. To be made before the
    /// supervisor is: it allocates. See [`Watch::begin`].
    pub(in crate::sys) fn of_tree(limits: &ProcessLimits, workspace: RawFd) -> std::io::Result<Watch> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = crate::drain::above_streams(rustix::fs::open(c"/proc", flags, Mode::empty())?)?;
        // One more than there may be shows that there are too many.
        let processes = Processes::of_tree(root, limits.processes.saturating_add(1));
        let host_at_start = processes.host_memory().unwrap_or_default();
        Ok(Watch { host_at_start, ..Watch::of(limits, processes, workspace, -1) })
    }

    /// Says who the supervisor is.
    pub(in crate::sys) fn begin(&mut self, supervisor: u32) {
        self.processes.set_top(supervisor);
    }

    /// The descriptor of its `/proc`, which has to stay open.
    pub(in crate::sys) fn root(&self) -> RawFd {
        self.processes.root()
    }

    fn of(limits: &ProcessLimits, processes: Processes, workspace: RawFd, private: RawFd) -> Watch {
        Watch {
            limits: *limits,
            // Read when there is a reason to look: a command that only runs for a moment is over by then.
            host_at_start: HostMemory::default(),
            processes,
            workspace,
            private,
            processor: -1,
            free_at_start: free_bytes(workspace).unwrap_or(0),
            looks: 0,
            cpu_passed: false,
            blind: false,
            due_ms: now_ms().saturating_add(FIRST_MS),
        }
    }

    /// The command has started: from here on it is counted what the disk loses.
    pub(super) fn start(&mut self) {
        self.free_at_start = free_bytes(self.workspace).unwrap_or(self.free_at_start);
        self.host_at_start = self.processes.host_memory().unwrap_or(self.host_at_start);
        self.due_ms = now_ms();
    }

    /// In how many milliseconds the next look is due; 0 if it is.
    pub(in crate::sys) fn next_ms(&self) -> c_int {
        c_int::try_from(self.due_ms.saturating_sub(now_ms())).unwrap_or(c_int::MAX)
    }

    /// Looks once, if that is due. The bound that was passed, if one was.
    ///
    /// To be called whatever woke the init: a command can wake it all the time, by children that end.
    pub(in crate::sys) fn tick(&mut self) -> Option<Bound> {
        let started = now_ms();
        if started < self.due_ms {
            return None;
        }
        let left = match self.look() {
            Ok(left) => left,
            Err(bound) => return Some(bound),
        };
        let ended = now_ms();
        let rest = ended.saturating_sub(started).saturating_mul(4);
        self.due_ms = ended.saturating_add(left.pause().max(rest));
        None
    }

    fn look(&mut self) -> Result<Left, Bound> {
        self.looks = self.looks.wrapping_add(1);
        let disk = self.disk()?;
        let (totals, processes) = self.count()?;
        self.sight(&totals)?;
        self.cpu(&totals)?;
        self.danger()?;
        let memory = self.memory(&totals)?;
        Ok(Left { bytes: disk.min(memory), processes })
    }

    /// A command that takes the host's last descriptors or memory could not be looked at any more. That is no way out:
    /// twice in a row it counts as too much memory.
    fn sight(&mut self, totals: &Totals) -> Result<(), Bound> {
        let before = std::mem::replace(&mut self.blind, totals.unreadable);
        if before && totals.unreadable { Err(Bound::Memory) } else { Ok(()) }
    }

    /// Whether the host runs out of memory, and has less by more than the bound since the command started.
    fn danger(&self) -> Result<(), Bound> {
        let HostMemory { total, available } = self.processes.host_memory().unwrap_or(self.host_at_start);
        let taken = self.host_at_start.available.saturating_sub(available);
        let is_short = available < total / DANGER;
        if is_short && taken > self.limits.memory_bytes.min(total / 2) { Err(Bound::Memory) } else { Ok(()) }
    }

    /// What is left of the disk bound.
    fn disk(&self) -> Result<u64, Bound> {
        let free = free_bytes(self.workspace).unwrap_or(self.free_at_start);
        self.limits.disk_bytes.checked_sub(self.free_at_start.saturating_sub(free)).ok_or(Bound::Disk)
    }

    /// The sums over all processes, and how many more there may be.
    fn count(&self) -> Result<(Totals, u64), Bound> {
        // Processes that come and go while they are counted make a sum too large. A second one settles it: too many
        // are too many both times.
        for _ in 0..2 {
            let totals = self.processes.totals(self.limits.processes);
            if let Some(left) = self.limits.processes.checked_sub(totals.threads) {
                return Ok((totals, left));
            }
        }
        Err(Bound::Processes)
    }

    fn cpu(&mut self, totals: &Totals) -> Result<(), Bound> {
        if let Some(used) = processor_seconds(self.processor) {
            return if used > self.limits.cpu_seconds { Err(Bound::Cpu) } else { Ok(()) };
        }
        // A child that ends while the sum is made is seen twice, as itself and in its parent's time: one look alone
        // proves nothing.
        let passed = totals.cpu_seconds() > self.limits.cpu_seconds;
        if std::mem::replace(&mut self.cpu_passed, passed) && passed { Err(Bound::Cpu) } else { Ok(()) }
    }

    /// What is left of the memory bound. The exact sum is dear, so it is made where a cheap one that is never smaller,
    /// but for swapped pages, does not already show that all is well.
    fn memory(&self, totals: &Totals) -> Result<u64, Bound> {
        let bound = self.limits.memory_bytes;
        let private = used_bytes(self.private).unwrap_or(0);
        let at_most = totals.resident_bytes.saturating_add(private);
        if at_most <= bound && !self.looks.is_multiple_of(EXACT_EVERY) {
            return Ok(bound - at_most);
        }
        let memory = self.processes.memory();
        let own = private.saturating_add(memory.private);
        if let Some(left) = bound.checked_sub(own.saturating_add(memory.shared)) {
            return Ok(left);
        }
        // Many processes may map the same pages, which the sum has counted for each.
        bound.checked_sub(private.saturating_add(self.processes.memory_once())).ok_or(Bound::Memory)
    }
}

/// What is left of the bounds after a look.
struct Left {
    bytes: u64,
    processes: u64,
}

impl Left {
    /// How long to wait, so that nothing can pass its bound by much until then.
    fn pause(&self) -> u64 {
        let soonest = (self.bytes / BYTES_PER_MS).min(self.processes / PROCESSES_PER_MS);
        soonest.clamp(SOONEST_MS, LATEST_MS)
    }
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

/// Bytes that an ordinary user may still write to the file system of `fd`.
fn free_bytes(fd: RawFd) -> Option<u64> {
    let sizes = rustix::fs::fstatvfs(borrow(fd)?).ok()?;
    Some(sizes.f_bavail.saturating_mul(sizes.f_frsize))
}

/// Bytes that are taken on the file system of `fd`.
fn used_bytes(fd: RawFd) -> Option<u64> {
    let sizes = rustix::fs::fstatvfs(borrow(fd)?).ok()?;
    Some(sizes.f_blocks.saturating_sub(sizes.f_bfree).saturating_mul(sizes.f_frsize))
}

/// The processor time of a control group, in whole seconds begun, from its `cpu.stat`.
fn processor_seconds(fd: RawFd) -> Option<u64> {
    let mut buffer = [0; 64];
    let count = rustix::io::pread(borrow(fd)?, &mut buffer, 0).ok()?;
    // It is on the first line.
    let digits = buffer.get(..count)?.strip_prefix(b"usage_usec ")?.split(|byte| *byte == b'\n').next()?;
    processes::number(digits).map(|microseconds| microseconds.div_ceil(1_000_000))
}

fn borrow<'a>(fd: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: whoever made the watch keeps the descriptor open as long as it looks, and -1 is left out.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

#[cfg(test)]
mod tests;
