//! The processes of a command as `/proc` shows them: all of a member's own, or those that descend from a supervisor.
//!
//! A process may end at any moment: what cannot be read any more counts nothing. No file that is read here asks whether
//! the reader may look into the process, except `smaps_rollup`; a process cannot hide from the others.

use std::cell::Cell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

/// Clock ticks a second in `/proc`: a constant of the kernel's interface on every architecture that Helve knows.
const TICKS_PER_SECOND: u64 = 100;
/// The longest file that is read; the lines that matter come before that.
const FILE_BYTES: usize = 3072;
/// Directory entries that are read at once.
const LIST_BYTES: usize = 3072;
/// The longest number of a process.
const DIGITS: usize = 10;
/// The most processes of a tree that are looked at.
const MOST_IN_TREE: u64 = 64 * 1024;

/// A `/proc`, and which of its processes count.
pub(super) struct Processes {
    root: OwnedFd,
    page_bytes: u64,
    /// Who is at the top, as a number: it does not count itself.
    top: u32,
    /// Where there are others than those that descend from the top: room for the numbers of those.
    tree: Option<Cell<Vec<u32>>>,
}

/// Sums over all processes but the top one, whose children's time alone counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Threads, a process that nobody has waited for yet counting as one.
    pub(super) threads: u64,
    /// Resident bytes; what is shared counts for each process that shares it.
    pub(super) resident_bytes: u64,
    /// Whether a process was there that could not be read for want of descriptors or memory.
    pub(super) unreadable: bool,
    cpu_ticks: u64,
}

impl Totals {
    /// Whole seconds of processor time.
    pub(super) fn cpu_seconds(&self) -> u64 {
        self.cpu_ticks / TICKS_PER_SECOND
    }
}

/// Memory of all processes but the top one, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Pages of one process, resident or swapped, counted for each process that has them from another.
    pub(super) private: u64,
    /// Shared memory, counted for each process that maps it. Pages of files on a disk are not in it.
    pub(super) shared: u64,
}

/// Memory of the host, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostMemory {
    pub(super) total: u64,
    /// What can be had without swapping.
    pub(super) available: u64,
}

impl Processes {
    pub(super) fn new(root: OwnedFd) -> Processes {
        // SAFETY: a plain number; the answer is a constant that the program was started with.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Processes { root, page_bytes: u64::try_from(page_bytes).unwrap_or(4096), top: 1, tree: None }
    }

    /// Those that descend from one process, up to `most` of them. This allocates; nothing else does.
    pub(super) fn of_tree(root: OwnedFd, most: u64) -> Processes {
        let room = usize::try_from(most.min(MOST_IN_TREE)).unwrap_or(0);
        Processes { tree: Some(Cell::new(Vec::with_capacity(room))), ..Processes::new(root) }
    }

    /// Says who is at the top.
    pub(super) fn set_top(&mut self, pid: u32) {
        self.top = pid;
    }

    /// The descriptor of the `/proc`.
    pub(super) fn root(&self) -> RawFd {
        self.root.as_raw_fd()
    }

    fn is_top(&self, pid: &[u8]) -> bool {
        number(pid) == Some(u64::from(self.top))
    }

    /// The sums. They are cut short once there are more than `enough` threads.
    pub(super) fn totals(&self, enough: u64) -> Totals {
        let mut totals = Totals::default();
        let listed = self.each(|pid| {
            let mut buffer = [0; FILE_BYTES];
            let stat = match self.read(&[pid, b"/stat"], &mut buffer) {
                Ok(line) => Stat::parse(line),
                Err(Errno::NFILE | Errno::MFILE | Errno::NOMEM) => {
                    totals.unreadable = true;
                    None
                }
                // It has ended.
                Err(_) => None,
            };
            let Some(stat) = stat else { return true };
            totals.cpu_ticks = totals.cpu_ticks.saturating_add(stat.children_ticks);
            if !self.is_top(pid) {
                totals.cpu_ticks = totals.cpu_ticks.saturating_add(stat.own_ticks);
                totals.threads = totals.threads.saturating_add(stat.threads.max(1));
                let bytes = stat.resident_pages.saturating_mul(self.page_bytes);
                totals.resident_bytes = totals.resident_bytes.saturating_add(bytes);
            }
            totals.threads <= enough
        });
        totals.unreadable |= listed.is_err();
        totals
    }

    /// The memory of the host, if it is shown.
    pub(super) fn host_memory(&self) -> Option<HostMemory> {
        let mut buffer = [0; FILE_BYTES];
        let text = self.read(&[b"meminfo"], &mut buffer).ok()?;
        Some(HostMemory {
            total: kilobytes(text, b"MemTotal:")?,
            available: kilobytes(text, b"MemAvailable:")?,
        })
    }

    /// The memory of all processes.
    pub(super) fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        let _ = self.each(|pid| {
            let mut buffer = [0; FILE_BYTES];
            if !self.is_top(pid)
                && let Ok(status) = self.read(&[pid, b"/status"], &mut buffer)
            {
                let shared = kilobytes(status, b"RssShmem:").unwrap_or(0);
                memory.shared = memory.shared.saturating_add(shared);
                memory.private = memory.private.saturating_add(match kilobytes(status, b"RssAnon:") {
                    Some(resident) => [b"VmSwap:".as_slice(), b"HugetlbPages:"]
                        .iter()
                        .filter_map(|name| kilobytes(status, name))
                        .fold(resident, u64::saturating_add),
                    // A list of many groups pushes these lines out of the buffer. All that is resident counts then.
                    None => self.resident_bytes(pid),
                });
            }
            true
        });
        memory
    }

    /// The same in one number, each page counted once however many processes map it, shared memory as well as what
    /// processes have in common since one came from the other. A process that cannot be looked into counts with all that
    /// it maps.
    pub(super) fn memory_once(&self) -> u64 {
        let mut sum: u64 = 0;
        let _ = self.each(|pid| {
            if !self.is_top(pid) {
                sum = sum.saturating_add(self.share(pid));
            }
            true
        });
        sum
    }

    fn share(&self, pid: &[u8]) -> u64 {
        let mut buffer = [0; FILE_BYTES];
        let Ok(status) = self.read(&[pid, b"/status"], &mut buffer) else { return 0 };
        let [anonymous, shared, swapped, huge] =
            [b"RssAnon:".as_slice(), b"RssShmem:", b"VmSwap:", b"HugetlbPages:"]
                .map(|name| kilobytes(status, name));
        let anonymous = anonymous.unwrap_or_else(|| self.resident_bytes(pid));
        let most = [anonymous, shared.unwrap_or(0), swapped.unwrap_or(0)];
        let names = [b"Pss_Anon:".as_slice(), b"Pss_Shmem:", b"SwapPss:"];
        let rollup = match most {
            [0, 0, 0] => Err(Errno::NOENT),
            _ => self.read(&[pid, b"/smaps_rollup"], &mut buffer),
        };
        let share = |(name, most): (&[u8], u64)| match rollup {
            Ok(rollup) => kilobytes(rollup, name).unwrap_or(most),
            Err(_) => most,
        };
        names.into_iter().zip(most).map(share).fold(huge.unwrap_or(0), u64::saturating_add)
    }

    fn resident_bytes(&self, pid: &[u8]) -> u64 {
        let mut buffer = [0; FILE_BYTES];
        let stat = self.read(&[pid, b"/stat"], &mut buffer).ok().and_then(Stat::parse);
        stat.map_or(0, |stat| stat.resident_pages.saturating_mul(self.page_bytes))
    }

    /// Calls `visit` with each process's number as text, until it says false.
    fn each(&self, visit: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        match &self.tree {
            None => self.each_of_all(visit),
            Some(tree) => {
                let mut found = tree.take();
                let done = self.each_of_tree(&mut found, visit);
                tree.set(found);
                done
            }
        }
    }

    /// The top and everybody below, a parent before its children. `found` never grows beyond the room that it has: whoever
    /// finds no place there is one too many anyway.
    fn each_of_tree(&self, found: &mut Vec<u32>, mut visit: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        found.clear();
        let mut next = Some(self.top);
        let mut at = 0;
        while let Some(pid) = next {
            let mut digits = [0; DIGITS];
            let pid = spell(pid, &mut digits);
            if !visit(pid) {
                break;
            }
            // Of one that has ended meanwhile, the children have another parent, and are seen in the next look.
            if let Err(errno @ (Errno::NFILE | Errno::MFILE | Errno::NOMEM)) = self.add_children(pid, found) {
                return Err(errno);
            }
            next = found.get(at).copied();
            at += 1;
        }
        Ok(())
    }

    /// The children of every thread of a process.
    fn add_children(&self, pid: &[u8], found: &mut Vec<u32>) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let threads = self.open(&[pid, b"/task"], flags)?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); LIST_BYTES / 4];
        let mut list = RawDir::new(&threads, &mut buffer);
        while let Some(entry) = list.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.iter().all(u8::is_ascii_digit) {
                match self.open(&[pid, b"/task/", name, b"/children"], OFlags::RDONLY | OFlags::CLOEXEC) {
                    Ok(children) => add_numbers(&children, found)?,
                    Err(Errno::NOENT | Errno::SRCH) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(())
    }

    fn each_of_all(&self, mut visit: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        rustix::fs::seek(&self.root, SeekFrom::Start(0))?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); LIST_BYTES];
        let mut list = RawDir::new(&self.root, &mut buffer);
        while let Some(entry) = list.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.iter().all(u8::is_ascii_digit) && !visit(name) {
                break;
            }
        }
        Ok(())
    }

    /// The start of a file whose path is these parts in a row.
    fn read<'a>(&self, parts: &[&[u8]], buffer: &'a mut [u8; FILE_BYTES]) -> Result<&'a [u8], Errno> {
        let fd = self.open(parts, OFlags::RDONLY | OFlags::CLOEXEC)?;
        let mut length = 0;
        while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match rustix::io::read(&fd, rest)? {
                0 => break,
                count => length = length.saturating_add(count),
            }
        }
        Ok(buffer.get(..length).unwrap_or_default())
    }

    /// Opens the file whose path is these parts in a row.
    fn open(&self, parts: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut path = [0_u8; 48];
        // The last byte stays 0: it ends the path.
        let room = path.len() - 1;
        let bytes = parts.iter().copied().flatten();
        path.iter_mut().take(room).zip(bytes).for_each(|(to, from)| *to = *from);
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::NAMETOOLONG)?;
        rustix::fs::openat(&self.root, path, flags, Mode::empty())
    }
}

/// Adds the numbers of a list to `found`, as long as there is room.
fn add_numbers(list: &OwnedFd, found: &mut Vec<u32>) -> Result<(), Errno> {
    let mut buffer = [0_u8; FILE_BYTES];
    let mut number: u32 = 0;
    loop {
        let count = rustix::io::read(list, &mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        for byte in buffer.iter().take(count) {
            if byte.is_ascii_digit() {
                number = number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
            } else if number > 0 {
                if found.len() < found.capacity() {
                    found.push(number);
                }
                number = 0;
            }
        }
    }
}

/// A number as text.
fn spell(mut number: u32, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        length += 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits.get(DIGITS - length..).unwrap_or_default()
}

/// What a line of `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    own_ticks: u64,
    children_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(line: &[u8]) -> Option<Stat> {
        // The name is in parentheses and may hold anything, parentheses too; the fields after it are plain.
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields = line.get(name_end..)?.split(|byte| *byte == b' ').skip(1);
        // The first of them is the third of the line. Each `nth` goes on after the last.
        let own_ticks = number(fields.nth(14 - 3)?)?.saturating_add(number(fields.next()?)?);
        let children_ticks = number(fields.next()?)?.saturating_add(number(fields.next()?)?);
        let threads = number(fields.nth(20 - 18)?)?;
        let resident_pages = number(fields.nth(24 - 21)?)?;
        Some(Stat { own_ticks, children_ticks, threads, resident_pages })
    }
}

/// The bytes of a line such as `RssAnon: 1234 kB`.
fn kilobytes(text: &[u8], name: &[u8]) -> Option<u64> {
    let value = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    number(value.trim_ascii().strip_suffix(b" kB")?).map(|count| count.saturating_mul(1024))
}

/// A decimal number.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(value)
    })
}

#[cfg(test)]
pub(super) mod tests;
