//! The extended attributes in a layer, compared with those below.

use std::os::fd::BorrowedFd;

use helve_core::files::{Attributes, Is};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::{Entry, Reader};
use crate::attributes::{self, Holds, Ids};

/// What is left out where everything else is taken.
const ONLY: &str = "its extended attributes alone";

/// What is the same for all of one file system.
#[derive(Clone, Copy)]
pub(super) struct Part {
    above: Holds,
    below: Holds,
    ids: Ids,
}

impl Part {
    pub(super) fn of(upper: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Result<Part, Errno> {
        let (above, below) = (rustix::fs::fstat(upper)?, rustix::fs::fstat(lower)?);
        // Root's commands are somebody else outside, to whom the workspace is shown as his own.
        let owner = if rustix::process::geteuid().is_root() { &above } else { &below };
        let ids = Ids { user: (owner.st_uid, below.st_uid), group: (owner.st_gid, below.st_gid) };
        Ok(Part { above: Holds::of(upper), below: Holds::of(lower), ids })
    }
}

impl Reader<'_> {
    /// Those of what is below; none where they cannot be had, and the path is left out.
    pub(super) fn attributes_below(&mut self, below: &Entry, path: &[u8]) -> Option<Attributes> {
        match attributes::read(&below.place, None) {
            Ok(attributes) => Some(attributes),
            Err(unread) => {
                self.leave_out(
                    path,
                    &format!("its extended attributes could not be put back: {}", unread.why()),
                );
                None
            }
        }
    }

    /// The attributes of what is in the layer. Those that cannot be taken over are as they were.
    pub(super) fn attributes_above(&mut self, entry: &Entry, was: &Is, path: &[u8]) -> Attributes {
        let before = match (was, entry.kind()) {
            (Is::File { attributes, .. }, FileType::RegularFile)
            | (Is::Folder { attributes, .. }, FileType::Directory) => attributes,
            _ => &Attributes::NONE,
        };
        let read = attributes::read(&entry.place, Some(&|| entry.widen()));
        let (now, part) = match (read, self.part) {
            (Ok(now), _) if now == *before => return now,
            (Ok(now), Some(part)) => (part.ids.of(now), part),
            (Ok(_), None) => return before.clone(),
            (Err(unread), _) => {
                self.leave_out(path, &format!("{ONLY}: {}", unread.why()));
                return before.clone();
            }
        };
        // A layer that cannot hold them has not those either that are below.
        let missing = before.only(|name| !part.above.can(name));
        let held = now.only(|name| part.below.can(name));
        if held != now {
            self.leave_out(path, &format!("{ONLY}: the file system there cannot hold them"));
        }
        held.iter().chain(missing.iter()).collect()
    }
}
