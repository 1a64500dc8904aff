//! The template: the tree of mounts that every member starts from.
//!
//! In: the plan. Every place that is shown from outside is opened as a mount of its own first; then a new root is built and
//! the mounts are moved into it by descriptor; then it becomes the root. So no path is looked up twice, and nothing of the
//! old root is left. Private directories and `/proc` belong to each member; here only their places are made.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::c_int;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::builder::Builder;
use super::failure::Failure;
use super::guards::{EMPTY_DIRECTORY, EMPTY_FILE};
use super::identity::Identity;
use super::layer::{self, Laid};
use crate::native::setup::{Place, Setup};
use crate::native::wire::Step;

/// What members need of the template.
pub(super) struct Template {
    /// The workspace.
    pub(super) workspace: OwnedFd,
    /// Its path.
    pub(super) workspace_path: CString,
    /// The root, below which everything may be read.
    pub(super) root: OwnedFd,
    /// `/dev`, whose devices may be written.
    pub(super) devices: OwnedFd,
    /// What may be written, the workspace included, and whether it is a directory.
    pub(super) writable: Vec<(OwnedFd, bool)>,
    /// Each member's own directories.
    pub(super) private: Vec<Private>,
    /// Directories inside private ones: their path in the private file system.
    pub(super) inner: Vec<CString>,
    /// Mounts that lie below a private directory: where, their path in the private file system, whether a directory.
    pub(super) nested: Vec<(CString, CString, bool)>,
}

/// A directory that each member has for itself.
pub(super) struct Private {
    /// Where it is.
    pub(super) place: CString,
    /// Its name in the member's private file system.
    pub(super) name: CString,
    /// Whether everybody may write there, as in `/tmp`.
    pub(super) open: bool,
}

/// How many mounts may lie below private directories.
pub(super) const MOST_NESTED: usize = 128;

/// Directories that belong to the system, whose owner inside stays who he is where they are only looked at.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix"];

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

fn mounts(errno: Errno) -> Failure {
    (Step::Mounts, errno.raw_os_error())
}

/// What every template has, made before the view is known: devices, a process file system, the usual files.
pub(super) struct Common {
    proc: OwnedFd,
    devices: Vec<(&'static str, OwnedFd)>,
    root: Builder,
}

impl Common {
    /// From the mount namespace of this process.
    pub(super) fn make() -> Result<Common, Failure> {
        let proc = tree(Path::new("/proc")).map_err(mounts)?;
        let devices = DEVICES.into_iter().map(|name| Ok((name, device(name)?))).collect::<Result<_, _>>()?;
        Ok(Common { proc, devices, root: Builder::with_usual()? })
    }
}

/// Builds the template in the mount namespace of this process, and makes it the root.
///
/// Gives the layer over the workspace, if there is to be one.
pub(super) fn build(setup: &Setup, common: Common, identity: &mut Identity) -> Result<Option<Laid>, Failure> {
    let mut root = common.root.for_plan(&setup.mounts)?;
    let sources = sources(setup, &root, identity)?;
    root.cover_outside()?;
    let mut proc = Some(common.proc);
    let mut laid = None;
    for ((path, place), source) in setup.mounts.iter().zip(sources) {
        let is_workspace = *path == setup.workspace;
        let in_layer = setup.layer.as_ref().filter(|_| is_workspace || *place == Place::ReadWrite);
        let source = match (in_layer, source, path.strip_prefix(&setup.workspace)) {
            (Some(layer), Some(source), _) if is_workspace => {
                // A workspace that is not to be written has a layer in which nothing changes but what is writable inside.
                let sealed = *place == Place::ReadOnly;
                laid = Some(layer::lay(&mut root, path, source, layer, sealed)?);
                continue;
            }
            (Some(_), _, Ok(inside)) => {
                // What is writable in the workspace is a part of the layer too.
                if let Some(laid) = &laid {
                    laid.pin(&mut root, path, inside)?;
                }
                continue;
            }
            (_, source, _) => source,
        };
        match (place, source) {
            _ if root.stands(path) => {}
            (Place::ReadOnly | Place::ReadWrite, Some(source)) => root.attach(path, source)?,
            (Place::ReadOnly | Place::ReadWrite, None) => {}
            // Where it cannot be made, a member says so.
            (Place::Private, _) => drop(root.directory(path)),
            (Place::Proc, _) => {
                if let Some(proc) = proc.take() {
                    root.attach(path, proc)?;
                }
            }
            (Place::Devices, _) => root.devices(path, &common.devices)?,
            (Place::Link(target), _) => root.link(path, target)?,
            (Place::File(content), _) => drop(root.file(path, content)?),
            (Place::Copy, Some(source)) => root.copy(path, source)?,
            (Place::Copy, None) => drop(root.file(path, b"")?),
            (Place::HiddenDirectory, _) => root.attach(path, empty(FileType::Directory)?)?,
            (Place::HiddenFile, _) => root.attach(path, empty(FileType::RegularFile)?)?,
        }
    }
    root.file(Path::new(EMPTY_FILE), b"")?;
    root.directory(Path::new(EMPTY_DIRECTORY))?;
    root.become_root()?;
    Ok(laid)
}

/// Opens what is shown from outside, with the rights that it has inside; for each mount of the plan what there is to open.
/// The workspace comes first: it may decide who commands are, and the other places are shown to them.
fn sources(setup: &Setup, root: &Builder, identity: &mut Identity) -> Result<Vec<Option<OwnedFd>>, Failure> {
    let mut workspace = Some(shown(setup, identity, &setup.workspace, true)?);
    let source = |(path, place): &(PathBuf, Place)| match place {
        // A layer takes what is written in its place, and shows it as writable as it is to be.
        Place::ReadOnly if *path == setup.workspace && setup.layer.is_some() => Ok(workspace.take()),
        Place::ReadWrite if *path == setup.workspace => Ok(workspace.take()),
        Place::ReadOnly | Place::ReadWrite => {
            // Only the workspace has a layer; what could be changed beside it would stay changed.
            let writable = *place == Place::ReadWrite && setup.layer.is_none();
            match shown(setup, identity, path, writable) {
                // It went away after the plan was made; then there is nothing to show or to protect.
                Err((Step::Mounts, libc::ENOENT)) if *path != setup.workspace => Ok(None),
                tree => tree.map(Some),
            }
        }
        // What this user cannot read is empty inside.
        Place::Copy if !root.stands(path) => Ok(File::open(path).ok().map(OwnedFd::from)),
        _ => Ok(None),
    };
    setup.mounts.iter().map(source).collect()
}

/// A place from outside as commands see it.
fn shown(setup: &Setup, identity: &mut Identity, path: &Path, writable: bool) -> Result<OwnedFd, Failure> {
    let tree = tree(path).map_err(mounts)?;
    if path == setup.workspace {
        let stat = rustix::fs::fstat(&tree).map_err(mounts)?;
        if (stat.st_dev, stat.st_ino) != setup.identity {
            // It was replaced since Helve looked at it.
            return Err((Step::Mounts, libc::ESTALE));
        }
    }
    let read_only = if writable { 0 } else { libc::MOUNT_ATTR_RDONLY };
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | read_only;
    set_attributes(tree.as_fd(), attributes, None).map_err(|errno| (Step::Mounts, errno))?;
    let is_system = SYSTEM.iter().any(|system| path.starts_with(system)) || path.starts_with("/etc");
    if writable || !is_system {
        identity.adopt(tree.as_fd(), writable, path == setup.workspace)?;
    }
    Ok(tree)
}

/// A mount of its own of what stands at a path, with what is mounted below it.
pub(super) fn tree(path: &Path) -> Result<OwnedFd, Errno> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    // Files of /etc may be links, to be followed; all other places are real already.
    let follow = path.starts_with("/etc");
    let flags = if follow { flags } else { flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW };
    rustix::mount::open_tree(CWD, path, flags)
}

fn device(name: &str) -> Result<OwnedFd, Failure> {
    let tree = tree(&Path::new("/dev").join(name)).map_err(mounts)?;
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
    set_attributes(tree.as_fd(), attributes, None).map_err(|errno| (Step::Mounts, errno))?;
    Ok(tree)
}

/// Adds attributes to a tree of mounts; shows it through `users` if given.
pub(super) fn set_attributes(
    tree: BorrowedFd<'_>,
    attributes: u64,
    users: Option<BorrowedFd<'_>>,
) -> Result<(), c_int> {
    change_attributes(
        tree,
        &libc::mount_attr {
            attr_set: attributes | users.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
            attr_clr: 0,
            propagation: 0,
            userns_fd: users.map_or(0, |users| users.as_raw_fd() as u64),
        },
    )
}

/// Makes a tree of mounts writable, or takes that from it.
pub(super) fn set_writable(tree: BorrowedFd<'_>, writable: bool) -> Result<(), c_int> {
    let flag = |given: bool| if given { libc::MOUNT_ATTR_RDONLY } else { 0 };
    let (attr_set, attr_clr) = (flag(!writable), flag(writable));
    change_attributes(tree, &libc::mount_attr { attr_set, attr_clr, propagation: 0, userns_fd: 0 })
}

fn change_attributes(tree: BorrowedFd<'_>, change: &libc::mount_attr) -> Result<(), c_int> {
    // SAFETY: the path is empty and NUL-terminated, the structure lives through the call and its size is given.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            std::ptr::from_ref(change),
            size_of::<libc::mount_attr>(),
        )
    };
    if answer == -1 { Err(crate::sys::report::errno()) } else { Ok(()) }
}

/// A new file system that stays empty, or one file of it.
fn empty(kind: FileType) -> Result<OwnedFd, Failure> {
    let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(mounts)?;
    rustix::mount::fsconfig_set_string(system.as_fd(), "size", "4k").map_err(mounts)?;
    rustix::mount::fsconfig_set_string(system.as_fd(), "mode", "755").map_err(mounts)?;
    rustix::mount::fsconfig_create(system.as_fd()).map_err(mounts)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = rustix::mount::fsmount(system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes);
    let mount = mount.map_err(mounts)?;
    let seal = |mount: OwnedFd| {
        set_attributes(mount.as_fd(), libc::MOUNT_ATTR_RDONLY, None)
            .map_err(|errno| (Step::Mounts, errno))?;
        Ok(mount)
    };
    if kind == FileType::Directory {
        return seal(mount);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    drop(rustix::fs::openat(&mount, "empty", flags, Mode::from(0o444)).map_err(mounts)?);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    // A detached mount can be cloned only by kernels from 6.15 on; before, the whole of it is attached once.
    match rustix::mount::open_tree(&mount, "empty", flags) {
        Ok(file) => seal(file),
        Err(_) => attached_file(&mount).and_then(seal),
    }
}

/// The file `empty` of a detached mount, as a mount of its own: attached for a moment where nobody looks.
fn attached_file(mount: &OwnedFd) -> Result<OwnedFd, Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", CWD, "/dev", flags).map_err(mounts)?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let file = rustix::mount::open_tree(CWD, "/dev/empty", clone).map_err(mounts);
    rustix::mount::unmount("/dev", UnmountFlags::DETACH).map_err(mounts)?;
    file
}

/// What members need, seen from the namespaces in which the zygote stays.
pub(super) fn describe(setup: &Setup) -> Result<Template, Failure> {
    let path =
        |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| (Step::Mounts, libc::EINVAL));
    let open = |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let writable = setup.mounts.iter().filter(|(_, place)| *place == Place::ReadWrite);
    let writable = writable.filter_map(|(path, _)| Some((open(path).ok()?, path.is_dir()))).collect();
    let mut template = Template {
        workspace: open(&setup.workspace).map_err(mounts)?,
        workspace_path: path(&setup.workspace)?,
        root: open(Path::new("/")).map_err(mounts)?,
        devices: open(Path::new("/dev")).map_err(mounts)?,
        writable,
        private: Vec::new(),
        inner: Vec::new(),
        nested: Vec::new(),
    };
    // Where there is only one private directory it is the file system itself.
    let is_root = |place: &Path| {
        let above = |(other, kind): &(PathBuf, Place)| {
            *kind == Place::Private && other != place && place.starts_with(other)
        };
        !setup.mounts.iter().any(above)
    };
    let private = setup.mounts.iter().filter(|(place, kind)| *kind == Place::Private && is_root(place));
    let several = private.count() > 1;
    let mut roots: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (place, kind) in &setup.mounts {
        let above = roots.iter().find(|(root, _)| place.starts_with(root));
        let inside = above.and_then(|(root, name)| Some(name.join(place.strip_prefix(root).ok()?)));
        match (kind, inside) {
            (Place::Private, Some(inside)) => {
                template.add_inner(&inside)?;
                template.inner.push(path(&inside)?);
            }
            (Place::Private, None) => {
                let name = if several { format!("private{}", roots.len()) } else { String::new() };
                let open =
                    place != Path::new("/") && ["/tmp", "/var/tmp"].map(Path::new).contains(&place.as_path());
                template.private.push(Private { place: path(place)?, name: path(Path::new(&name))?, open });
                roots.push((place.clone(), name.into()));
            }
            // Only the uppermost of several nested ones is moved; it brings the others along.
            (
                Place::ReadOnly | Place::ReadWrite | Place::HiddenDirectory | Place::HiddenFile,
                Some(inside),
            ) => {
                let covered = setup.mounts.iter().any(|(other, kind)| {
                    other != place
                        && place.starts_with(other)
                        && matches!(kind, Place::ReadOnly | Place::ReadWrite | Place::HiddenDirectory)
                        && roots.iter().any(|(root, _)| other.starts_with(root))
                });
                if !covered && place.exists() {
                    template.add_inner(&inside)?;
                    template.nested.push((path(place)?, path(&inside)?, place.is_dir()));
                }
            }
            _ => {}
        }
    }
    if template.nested.len() > MOST_NESTED {
        return Err((Step::Mounts, libc::E2BIG));
    }
    Ok(template)
}

impl Template {
    /// Has members make the directories above a path in the private file system.
    fn add_inner(&mut self, path: &Path) -> Result<(), Failure> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        // The first is empty; a private directory that is one of several is made before.
        for path in above.into_iter().skip(1) {
            let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| (Step::Mounts, libc::EINVAL))?;
            if !self.inner.contains(&path) {
                self.inner.push(path);
            }
        }
        Ok(())
    }
}

/// Whose a tree is: user and group.
pub(super) fn owner(tree: BorrowedFd<'_>) -> Result<(u32, u32), Errno> {
    let stat = rustix::fs::statat(tree, "", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_uid, stat.st_gid))
}
