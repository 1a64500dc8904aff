//! Whether a path that a call names is refused, seen from inside: by whom the command is in all but Landlock and the filter.
//!
//! Everything is asked by name, so that nothing stays open. What is not there, in a place where nothing of the outside is
//! shown, may be there outside; Helve looks. What is there and cannot be written lies on a mount that is read only. The
//! answer may be wrong by the time it is given: it is a hint.

use std::mem::MaybeUninit;

use libc::{c_int, pid_t};

use super::super::raw::syscall;
use super::Witness;
use super::log::Body;
use super::memory;
use super::text::{PATH_BYTES, Text, split};
use crate::confine::seccomp::Look;
use crate::native::notes::Act;

/// A path as the init names it: perhaps through the command's own directory.
type Place = Text<{ PATH_BYTES + 64 }>;

/// Places that are each process's own, or the kernel's; what is refused there is no rule of a view.
const OWN: [&[u8]; 3] = [b"/proc/", b"/sys/", b"/dev/"];

/// `ST_RDONLY` of a mount.
const READ_ONLY: u64 = 1;

/// What there is to know of a file.
struct Found {
    device: u64,
    number: u64,
    mode: u32,
}

impl Found {
    fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

/// Looks from inside.
pub(super) struct Sight<'a> {
    pub(super) witness: &'a Witness,
    /// Open on the member's own file system, or -1.
    pub(super) private: c_int,
}

impl Sight<'_> {
    /// What a call with these arguments shows to be refused at the path that `named` says.
    pub(super) fn path(
        &self,
        pid: pid_t,
        arguments: &[u64; 6],
        (from, at, look): (Option<usize>, usize, Look),
    ) -> Option<Body> {
        let of = |index: usize| arguments.get(index).copied().unwrap_or_default();
        let name = memory::path(pid, of(at))?;
        let from = from.map_or(libc::AT_FDCWD, |index| of(index) as c_int);
        let place = place(pid, from, name.bytes())?;
        match look {
            Look::Read => self.read(place, Act::Read),
            Look::Execute => self.read(place, Act::Execute),
            Look::Write => self.write(place, true),
            Look::Change => self.write(place, false),
            Look::Make => {
                if stat(&place, libc::AT_SYMLINK_NOFOLLOW).is_ok() {
                    None
                } else {
                    self.entry(place)
                }
            }
            Look::Replace => self.entry(place),
            Look::Remove => self.remove(place),
            Look::Open(flags) => self.open(place, of(flags) as c_int),
        }
    }

    /// The same for the name of a socket, up to its NUL. One without a name has none.
    pub(super) fn named(&self, pid: pid_t, name: &[u8], act: Act) -> Option<Body> {
        let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        self.read(place(pid, libc::AT_FDCWD, name)?, act)
    }

    fn open(&self, place: Place, flags: c_int) -> Option<Body> {
        // A file without a name lies in the directory that is named.
        const UNNAMED: c_int = 0o20_000_000;
        if flags & libc::O_PATH != 0 {
            return None;
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_TRUNC | UNNAMED) != 0;
        if writes {
            self.write(place, flags & libc::O_CREAT != 0)
        } else if flags & libc::O_CREAT != 0 && stat(&place, 0).is_err() {
            self.entry(place)
        } else {
            self.read(place, Act::Read)
        }
    }

    /// Reading: it is a cover, or not there.
    fn read(&self, place: Place, act: Act) -> Option<Body> {
        match stat(&place, 0) {
            Ok(found) if self.is_cover(&found) => {
                let length = place.bytes().len();
                note(act, true, place, length)
            }
            Err(libc::ENOENT | libc::ENOTDIR) => self.missing(place, act),
            _ => None,
        }
    }

    /// Writing: it lies where nothing can be written, or is not there.
    fn write(&self, place: Place, makes: bool) -> Option<Body> {
        match is_read_only(&place) {
            Ok(true) => {
                // Devices, pipes and sockets are written wherever they lie.
                let found = stat(&place, 0).ok()?;
                let counts = found.is(libc::S_IFREG) || found.is(libc::S_IFDIR);
                let length = place.bytes().len();
                counts.then(|| note(Act::Write, true, place, length)).flatten()
            }
            Err(libc::ENOENT) if makes => self.entry(place),
            Err(libc::ENOENT | libc::ENOTDIR) => self.missing(place, Act::Write),
            _ => None,
        }
    }

    /// An entry of a directory that lies where nothing can be written, or is not there.
    fn entry(&self, place: Place) -> Option<Body> {
        let (_, end) = split(place.bytes())?;
        match is_read_only(&above(&place, end)?) {
            Ok(true) => note(Act::Write, true, place, end),
            Err(libc::ENOENT | libc::ENOTDIR) => self.missing(place, Act::Write),
            _ => None,
        }
    }

    /// What goes away, if it is there.
    fn remove(&self, place: Place) -> Option<Body> {
        let found = stat(&place, libc::AT_SYMLINK_NOFOLLOW).ok()?;
        // A mount that only covers it lies on a directory that can be written.
        if !found.is(libc::S_IFLNK) && is_read_only(&place) == Ok(true) {
            let length = place.bytes().len();
            return note(Act::Write, true, place, length);
        }
        self.entry(place)
    }

    /// What is not there, if the nearest directory above it shows nothing of the outside.
    fn missing(&self, place: Place, act: Act) -> Option<Body> {
        let mut end = place.bytes().len();
        loop {
            (_, end) = split(place.bytes().get(..end)?)?;
            match stat(&above(&place, end)?, 0) {
                Ok(found) => {
                    return self.is_own(&found).then(|| note(act, false, place, end)).flatten();
                }
                Err(libc::ENOENT | libc::ENOTDIR) if end > 1 => {}
                Err(_) => return None,
            }
        }
    }

    fn is_cover(&self, found: &Found) -> bool {
        self.witness.hidden.contains(&found.device)
            || self.witness.covers.contains(&(found.device, found.number))
    }

    /// Whether a directory is the sandbox's own.
    fn is_own(&self, found: &Found) -> bool {
        found.device == self.witness.root || self.is_cover(found) || {
            let empty = Text::<2>::new();
            let private = stat_at(self.private, &empty, libc::AT_EMPTY_PATH);
            self.private != -1 && private.is_ok_and(|private| private.device == found.device)
        }
    }
}

/// How the init names what a process names from a directory. None for what is no place of a view.
fn place(pid: pid_t, from: c_int, name: &[u8]) -> Option<Place> {
    let mut place = Place::new();
    if name.first() != Some(&b'/') {
        place.push(b"/proc/")?;
        place.push_number(u32::try_from(pid).ok()?)?;
        if from == libc::AT_FDCWD {
            place.push(b"/cwd/")?;
        } else {
            place.push(b"/fd/")?;
            place.push_number(u32::try_from(from).ok()?)?;
            place.push(b"/")?;
        }
    } else if OWN.iter().any(|own| name.starts_with(own)) {
        return None;
    }
    place.push(name)?;
    Some(place)
}

/// The directory above, whose name ends there.
fn above(place: &Place, end: usize) -> Option<Place> {
    let mut above = Place::new();
    above.push(place.bytes().get(..end)?)?;
    Some(above)
}

/// Notes a path whose first `end` bytes name what exists: by its real name, and then the rest.
fn note(act: Act, stands: bool, place: Place, end: usize) -> Option<Body> {
    let mut exists = Place::new();
    exists.push(place.bytes().get(..end)?)?;
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe { syscall!(libc::SYS_openat, libc::AT_FDCWD, exists.as_ptr(), flags, 0) }.ok()?;
    let real = name_of(fd as c_int);
    super::super::descriptors::close(fd as c_int);
    let mut real = real?;
    let rest = place.bytes().get(end..)?;
    if !rest.is_empty() {
        if !real.bytes().ends_with(b"/") {
            real.push(b"/")?;
        }
        let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
        real.push(rest.get(start..)?)?;
    }
    // Through a directory of its own it may have led there too.
    if OWN.iter().any(|own| real.bytes().starts_with(own)) {
        return None;
    }
    Body::path(act, stands, real.bytes())
}

/// The real name of what is open.
fn name_of(fd: c_int) -> Option<Text<PATH_BYTES>> {
    let mut link = Text::<32>::new();
    link.push(b"/proc/self/fd/")?;
    link.push_number(u32::try_from(fd).ok()?)?;
    let mut name = Text::new();
    let room = name.room();
    // SAFETY: the path ends with NUL; the room lives through the call and its length is given.
    let count = unsafe {
        syscall!(libc::SYS_readlinkat, libc::AT_FDCWD, link.as_ptr(), room.as_mut_ptr(), room.len())
    };
    name.set_length(count.ok()?);
    name.bytes().starts_with(b"/").then_some(name)
}

fn stat(place: &Place, flags: c_int) -> Result<Found, c_int> {
    stat_at(libc::AT_FDCWD, place, flags)
}

fn stat_at<const N: usize>(from: c_int, place: &Text<N>, flags: c_int) -> Result<Found, c_int> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with NUL, and the structure lives through the call. All zero is a value of it.
    let stat = unsafe {
        let flags = flags | libc::AT_NO_AUTOMOUNT;
        syscall!(libc::SYS_newfstatat, from, place.as_ptr(), stat.as_mut_ptr(), flags)?;
        stat.assume_init()
    };
    Ok(Found { device: stat.st_dev, number: stat.st_ino, mode: stat.st_mode })
}

/// Whether the mount on which a path lies is read only.
fn is_read_only(place: &Place) -> Result<bool, c_int> {
    // The kernel's structure on machines of 64 bits: fifteen words, the flags of the mount in the eleventh.
    const FLAGS: usize = 10;
    let mut system = [0_u64; 15];
    // SAFETY: the path ends with NUL, and the words live through the call.
    unsafe { syscall!(libc::SYS_statfs, place.as_ptr(), system.as_mut_ptr()) }?;
    Ok(system.get(FLAGS).is_some_and(|flags| flags & READ_ONLY != 0))
}
