//! A layer over the workspace: an overlay whose upper directory, in memory, takes every change.
//!
//! ```text
//! commands ──► overlay ──┬─ upper: tmpfs of a given size, reached from outside by descriptor alone
//!                        └─ lower: the workspace as it is, shown to commands as without a layer
//! ```
//!
//! Laid while the template is built, so that everything that stands in the workspace (guards, hidden and read-only places,
//! other mounts) comes on top of it. Of several file systems in a workspace each has an overlay of its own. The file system in
//! memory is attached for a moment, because that is what an overlay needs; then no path leads to it. Attributes of overlays are
//! those of users everywhere, so that what is read from the upper directory is the same for root and for others.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use helve_core::files::Attributes;
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, UnmountFlags};

use super::builder::{Builder, move_onto};
use super::failure::Failure;
use super::template::set_writable;
use crate::native::setup::Layer;
use crate::native::wire::Step;

/// Where the file system in memory is attached for a moment.
const PLACE: &str = "/.helve/layer";
/// So many files and directories can be in a layer.
const INODES: &str = "1000000";

/// A layer that is laid.
pub(super) struct Laid {
    /// The upper directories: of the workspace, then of each file system in it.
    pub(super) uppers: Vec<OwnedFd>,
    /// The overlay as a mount of its own with nothing on top, for who looks at the workspace from outside.
    pub(super) merged: OwnedFd,
    /// The overlay in its place.
    overlay: OwnedFd,
    /// Whether only what is shown as a mount of its own can be written.
    sealed: bool,
}

fn failed(errno: Errno) -> Failure {
    (Step::Layer, errno.raw_os_error())
}

/// Attaches the workspace, and the layer over it, which takes nothing but what is written to its pins where it is sealed.
pub(super) fn lay(
    root: &mut Builder,
    path: &Path,
    workspace: OwnedFd,
    layer: &Layer,
    sealed: bool,
) -> Result<Laid, Failure> {
    // What is attached stays reachable by what it was opened with.
    let lower = rustix::io::fcntl_dupfd_cloexec(&workspace, 3).map_err(failed)?;
    root.attach(path, workspace)?;
    let memory = memory(layer.bytes).map_err(failed)?;
    let held = rustix::io::fcntl_dupfd_cloexec(&memory, 3).map_err(failed)?;
    root.attach(Path::new(PLACE), held)?;
    let nested: Vec<OwnedFd> = layer
        .nested
        .iter()
        .map(|inside| open_beneath(&lower, inside))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let (overlay, upper) = overlay(&memory, "0", &lower).map_err(failed)?;
    let target = open_beneath(&lower, Path::new("")).map_err(failed)?;
    move_onto(&overlay, &target).map_err(failed)?;
    root.forget(path);
    let clone =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let merged = rustix::mount::open_tree(&overlay, "", clone).map_err(failed)?;
    let mut uppers = vec![upper];
    for (index, (lower, inside)) in nested.iter().zip(&layer.nested).enumerate() {
        let (inner, upper) = self::overlay(&memory, &(index + 1).to_string(), lower).map_err(failed)?;
        move_onto(&inner, &open_beneath(&overlay, inside).map_err(failed)?).map_err(failed)?;
        uppers.push(upper);
    }
    let link = format!("/proc/self/fd/{}", memory.as_raw_fd());
    rustix::mount::unmount(link, UnmountFlags::DETACH).map_err(failed)?;
    if sealed {
        set_writable(overlay.as_fd(), false).map_err(|errno| (Step::Layer, errno))?;
    }
    Ok(Laid { uppers, merged, overlay, sealed })
}

impl Laid {
    /// Shows a directory or file of the layer as a mount of its own, which can be written.
    pub(super) fn pin(&self, root: &mut Builder, path: &Path, inside: &Path) -> Result<(), Failure> {
        let target = match open_beneath(&self.overlay, inside) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        let clone = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = rustix::mount::open_tree(&target, "", clone).map_err(failed)?;
        if self.sealed {
            set_writable(tree.as_fd(), true).map_err(|errno| (Step::Layer, errno))?;
        }
        root.attach(path, tree)
    }
}

fn open_beneath(at: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat2(at, path, flags, Mode::empty(), how)
}

/// A file system in memory, attached nowhere.
fn memory(bytes: u64) -> Result<OwnedFd, Errno> {
    let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let size = bytes.to_string();
    for (key, value) in [("size", size.as_str()), ("nr_inodes", INODES), ("mode", "700")] {
        rustix::mount::fsconfig_set_string(system.as_fd(), key, value)?;
    }
    mount(system.as_fd())
}

/// An overlay over a directory, attached nowhere, and its upper directory.
fn overlay(memory: &OwnedFd, name: &str, lower: &OwnedFd) -> Result<(OwnedFd, OwnedFd), Errno> {
    let open = |name: &str| {
        rustix::fs::mkdirat(memory, name, Mode::from(0o700))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(memory, name, flags, Mode::empty())
    };
    let (upper, work) = (open(name)?, open(&format!("{name}-work"))?);
    // What is seen at the top of an overlay is its upper directory.
    let stat = rustix::fs::fstat(lower)?;
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    match rustix::fs::chownat(
        memory,
        name,
        Some(owner.0),
        Some(owner.1),
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    ) {
        // A group that this namespace does not know cannot be given either, and whoever owns the directory is right already.
        Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::chmodat(
        memory,
        name,
        Mode::from_raw_mode(stat.st_mode & 0o7777),
        rustix::fs::AtFlags::empty(),
    )?;
    copy_attributes(lower, &upper);
    let system = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: no name has to be written so that an option cannot misread it.
    for (key, directory) in [("lowerdir", lower), ("upperdir", &upper), ("workdir", &work)] {
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        rustix::mount::fsconfig_set_string(system.as_fd(), key, link)?;
    }
    rustix::mount::fsconfig_set_flag(system.as_fd(), "userxattr")?;
    Ok((mount(system.as_fd())?, upper))
}

/// The attributes at the top, above all the list that what is made in it begins with. One that names somebody whom this
/// namespace does not know cannot be given.
fn copy_attributes(lower: &OwnedFd, upper: &OwnedFd) {
    const MAX_BYTES: usize = 64 << 10;
    let link = |of: &OwnedFd| format!("/proc/self/fd/{}", of.as_raw_fd());
    let (from, to) = (link(lower), link(upper));
    let mut list = vec![0; MAX_BYTES];
    let len = rustix::fs::listxattr(&from, &mut list[..]).unwrap_or_default();
    let names = list.get(..len).unwrap_or_default().split(|byte| *byte == 0);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    for name in names.filter(|name| Attributes::is_taken(name)) {
        let mut value = vec![0; MAX_BYTES];
        if let Ok(len) = rustix::fs::getxattr(&from, name, &mut value[..]) {
            let value = value.get(..len).unwrap_or_default();
            let _ = rustix::fs::setxattr(&to, name, value, XattrFlags::empty());
        }
    }
}

fn mount(system: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::mount::fsconfig_create(system)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
