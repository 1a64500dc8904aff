//! The directory that a command without a mount namespace has for itself: its `TMPDIR` and its `HOME`.
//!
//! It is made for one call, for its user alone, in the system's directory for such things, and removed when the command's
//! tree is gone: by the supervisor, so that it goes even when Helve was killed, and otherwise by whoever drops it.
//!
//! What a command leaves may be millions of directories deep. So nothing here recurses: what lies in a directory is moved up
//! until nothing is nested. Removing allocates nothing, because the supervisor may not.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;

use crate::drain::above_streams;
use crate::sys::confine::Identity;

/// Where such a directory may be made, in this order, after the one that the environment names.
const PLACES: [&str; 2] = ["/tmp", "/var/tmp"];

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory for one call.
#[derive(Debug)]
pub(crate) struct Private {
    parent: OwnedFd,
    name: CString,
    path: PathBuf,
}

impl Private {
    /// Makes one for this process's own user, or for another one. It holds an empty `home`. No place that `avoid` names is
    /// used.
    pub(crate) fn make(identity: Option<Identity>, avoid: impl Fn(&Path) -> bool) -> io::Result<Private> {
        let usual = PLACES.map(PathBuf::from);
        let places =
            std::iter::once(std::env::temp_dir()).chain(usual).filter_map(|place| place.canonicalize().ok());
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for place in places.filter(|place| !avoid(place)) {
            match Private::make_in(&place, identity) {
                Ok(private) => return Ok(private),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn make_in(place: &Path, identity: Option<Identity>) -> io::Result<Private> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = above_streams(rustix::fs::openat(CWD, place, flags, Mode::empty())?)?;
        loop {
            let name = format!("helve-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
                Ok(()) => {}
                // Left behind by another process of this number, or put there by somebody else.
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let path = place.join(&name);
            let private = Private { parent, name: CString::new(name)?, path };
            private.furnish(identity)?;
            return Ok(private);
        }
    }

    fn furnish(&self, identity: Option<Identity>) -> io::Result<()> {
        let own = self.open()?;
        rustix::fs::mkdirat(&own, "home", Mode::RWXU)?;
        let home = rustix::fs::openat(&own, "home", DIRECTORY, Mode::empty())?;
        if let Some(Identity { user, group }) = identity {
            std::os::unix::fs::fchown(&home, Some(user), Some(group))?;
            std::os::unix::fs::fchown(&own, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// The directory itself.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.parent, &*self.name, DIRECTORY, Mode::empty())?)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it and everything in it. Async-signal-safe.
    pub(crate) fn remove(&self) {
        if rustix::fs::unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR) == Err(Errno::NOENT) {
            return;
        }
        if let Ok(top) = open_to_empty(self.parent.as_fd(), &self.name) {
            empty(top.as_fd());
        }
        let _ = rustix::fs::unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR);
    }
}

impl AsRawFd for Private {
    fn as_raw_fd(&self) -> RawFd {
        self.parent.as_raw_fd()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Opens a directory whatever its mode says. Only who is not root needs a mode, and he can change none but his own.
fn open_to_empty(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    if !rustix::process::geteuid().is_root() {
        let _ = rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty());
    }
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Empties a directory: looks through it again and again, as long as something could be removed.
fn empty(top: BorrowedFd<'_>) {
    let mut moved = 0;
    loop {
        let mut removed = false;
        each_entry(top, |name| {
            removed |= take_away(top, name) || flatten(top, name, &mut moved);
        });
        if !removed {
            return;
        }
    }
}

/// Removes a file or an empty directory.
fn take_away(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    rustix::fs::unlinkat(parent, name, AtFlags::empty()).is_ok()
        || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok()
}

/// Removes a directory of `top`, after what is in it was removed or, if it is a directory that holds something, moved into
/// `top` itself.
fn flatten(top: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> bool {
    let Ok(directory) = open_to_empty(top, name) else { return false };
    each_entry(directory.as_fd(), |inner| {
        if take_away(directory.as_fd(), inner) {
            return;
        }
        // A directory that moves has its own entry for the one above changed, for which it must be writable.
        drop(open_to_empty(directory.as_fd(), inner));
        let mut place = [0; NAME_BYTES];
        for _ in 0..MOST_TRIES {
            *moved += 1;
            let target = spell(*moved, &mut place);
            match rustix::fs::renameat_with(&directory, inner, top, target, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                _ => return,
            }
        }
    });
    rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR).is_ok()
}

/// A command may have taken some of the names.
const MOST_TRIES: u32 = 1000;
const NAME_BYTES: usize = 24;

/// A number as a name.
fn spell(mut number: u64, place: &mut [u8; NAME_BYTES]) -> &CStr {
    let mut start = NAME_BYTES - 1;
    while let Some(digit) = start.checked_sub(1).and_then(|at| place.get_mut(at)) {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        start -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let text = place.get(start..).unwrap_or_default();
    CStr::from_bytes_until_nul(text).unwrap_or(c"x")
}

/// Calls `act` for every entry of a directory but itself and the one above.
fn each_entry(directory: BorrowedFd<'_>, mut act: impl FnMut(&CStr)) {
    if rustix::fs::seek(directory, SeekFrom::Start(0)).is_err() {
        return;
    }
    let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            act(entry.file_name());
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_are_spelled() {
        let mut place = [0; NAME_BYTES];
        for number in [0, 7, 10, 12345, u64::MAX] {
            assert_eq!(spell(number, &mut place).to_str().unwrap(), number.to_string());
        }
    }

    #[test]
    fn nothing_is_left_whatever_lies_in_it() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "kept").unwrap();
        let private = Private::make(None, |_| false).unwrap();
        let path = private.path().to_owned();
        assert!(path.join("home").is_dir());
        // Deeper than a path can be long, and than descriptors or a stack would last.
        let mut at = private.open().unwrap();
        for _ in 0..1_500 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deep", DIRECTORY, Mode::empty()).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), path.join("link")).unwrap();
        for index in 0..60 {
            let folder = path.join(index.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::create_dir_all(folder.join("a/b")).unwrap();
            std::fs::write(folder.join("a/b/file"), "text").unwrap();
            std::os::unix::fs::symlink("..", folder.join("a/up")).unwrap();
            let closed = std::os::unix::fs::PermissionsExt::from_mode(0o0);
            std::fs::set_permissions(folder.join("a"), closed).unwrap();
        }
        drop(private);
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
    }

    #[test]
    fn it_is_for_its_user_alone_and_not_where_it_must_not_be() {
        use std::os::unix::fs::MetadataExt;
        let private = Private::make(None, |_| false).unwrap();
        assert_eq!(private.path().metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(Private::make(None, |_| true).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
