//! One name in a directory of a layer, or of what lies below, reached by descriptor without following a link.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

use crate::attributes;

/// Marks a directory of which nothing below shows.
pub(super) const OPAQUE: &CStr = c"user.overlay.opaque";

/// A name in a directory, and what it leads to.
pub(super) struct Entry {
    pub(super) place: OwnedFd,
    pub(super) stat: Stat,
}

impl Entry {
    pub(super) fn of(dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<Entry>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&place)?;
        Ok(Some(Entry { place, stat }))
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// Stands for what is gone.
    pub(super) fn is_whiteout(&self) -> bool {
        self.kind() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    /// Gives its owner the right to read it.
    pub(super) fn widen(&self) -> Result<(), Errno> {
        let extra = if self.kind() == FileType::Directory { 0o700 } else { 0o400 };
        rustix::fs::chmod(attributes::link(&self.place), Mode::from_raw_mode(self.mode() | extra))
    }

    /// Opens what it is for reading. Bits that its owner took from himself do not count.
    pub(super) fn open(&self, widen: bool) -> Result<File, Errno> {
        let link = attributes::link(&self.place);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(&link, flags, Mode::empty()).map(File::from);
        // One that can be opened may still be one in which nothing can be reached.
        if widen && self.kind() == FileType::Directory && self.mode() & 0o500 != 0o500 {
            self.widen()?;
        }
        match open() {
            Err(Errno::ACCESS) if widen => {
                self.widen()?;
                open()
            }
            other => other,
        }
    }
}

/// The names in a directory that was just opened, sorted.
pub(super) fn names(dir: &File) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    let mut room = [MaybeUninit::uninit(); 4 << 10];
    let mut entries = RawDir::new(dir, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether a directory of the layer hides everything below.
pub(super) fn is_opaque(dir: &File) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::fgetxattr(dir, OPAQUE, &mut value[..]).is_ok_and(|len| value.get(..len) == Some(b"y"))
}

/// Opens a directory to read its names.
pub(super) fn open_dir(dir: BorrowedFd<'_>) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, ".", flags, Mode::empty()).map(File::from)
}
