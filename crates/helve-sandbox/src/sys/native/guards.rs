//! Guards on paths of the workspace: mounts on top of it, set before a call and replaced before the next where it needs others.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, UnmountFlags};

use super::builder::move_onto;
use super::failure::Failure;
use super::template::{set_attributes, tree};
use crate::native::wire::{Cover, Guarded, Step};

/// What guards paths of the workspace, as mounts on top of it.
#[derive(Default)]
pub(super) struct Guards(Vec<OwnedFd>);

/// What stands for a hidden file and a hidden directory, in the template itself: a mount that is attached nowhere could be
/// copied by new kernels only.
pub(super) const EMPTY_FILE: &str = "/.helve/file";
/// See [`EMPTY_FILE`].
pub(super) const EMPTY_DIRECTORY: &str = "/.helve/directory";

impl Guards {
    /// Takes the guards away that are there, and sets these.
    pub(super) fn set(&mut self, workspace: &OwnedFd, entries: &[Guarded]) -> Result<(), Failure> {
        let failed = |errno: Errno| (Step::Guard, errno.raw_os_error());
        while let Some(guard) = self.0.pop() {
            let link = format!("/proc/self/fd/{}", guard.as_raw_fd());
            match rustix::mount::unmount(link, UnmountFlags::DETACH) {
                // The kernel takes a mount away itself when the file under it is replaced.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        for entry in entries {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let path = OsStr::from_bytes(&entry.path);
            let target = match rustix::fs::openat2(workspace, path, flags, Mode::empty(), how) {
                Ok(target) => target,
                // It went away since it was found: there is nothing to guard. Whoever makes it again is seen afterwards.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let clone = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE
                | OpenTreeFlags::AT_EMPTY_PATH;
            let tree = match entry.cover {
                Cover::Hidden => tree(Path::new(empty_for(&target).map_err(failed)?)),
                Cover::Pin | Cover::ReadOnly => rustix::mount::open_tree(&target, "", clone),
            };
            let tree = tree.map_err(failed)?;
            if entry.cover != Cover::Pin {
                set_attributes(tree.as_fd(), libc::MOUNT_ATTR_RDONLY, None)
                    .map_err(|errno| (Step::Guard, errno))?;
            }
            move_onto(&tree, &target).map_err(failed)?;
            self.0.push(tree);
        }
        Ok(())
    }
}

/// What hides a file or a directory.
fn empty_for(target: &OwnedFd) -> Result<&'static str, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(target)?.st_mode);
    Ok(if kind == FileType::Directory { EMPTY_DIRECTORY } else { EMPTY_FILE })
}
