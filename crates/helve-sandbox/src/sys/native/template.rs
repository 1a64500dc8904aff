//! The template: the tree of mounts that every member starts from.
//!
//! In: the plan. Every place that is shown from outside is opened as a mount of its own first; then a new root is built and
//! the mounts are moved into it by descriptor; then it becomes the root. So no path is looked up twice, and nothing of the
//! old root is left. Private directories and `/proc` belong to each member; here only their places are made.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use libc::c_int;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::failure::Failure;
use super::identity::Identity;
use crate::native::setup::{Place, Setup};
use crate::native::wire::{Cover, Guarded, Step};

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

/// Directories that belong to the system, whose owner inside stays who he is.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix"];

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

fn mounts(errno: Errno) -> Failure {
    (Step::Mounts, errno.raw_os_error())
}

fn other(error: io::Error) -> Failure {
    (Step::Mounts, error.raw_os_error().unwrap_or(libc::EIO))
}

/// Builds the template in the mount namespace of this process, and makes it the root.
pub(super) fn build(setup: &Setup, identity: &mut Identity) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(mounts)?;
    let sources = sources(setup, identity)?;
    let proc = tree(Path::new("/proc")).map_err(mounts)?;
    let devices = DEVICES.iter().map(|name| device(name)).collect::<Result<Vec<_>, _>>()?;

    // Any directory will do: what it holds was opened above where it is needed.
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("helve", "/usr", "tmpfs", flags, c"mode=755,size=32m").map_err(mounts)?;
    let root = rustix::fs::open("/usr", DIRECTORY, Mode::empty()).map_err(mounts)?;
    let builder = Builder { device: rustix::fs::fstat(&root).map_err(mounts)?.st_dev, root };

    let mut proc = Some(proc);
    for (path, place, source) in sources {
        match (place, source) {
            (Place::ReadOnly | Place::ReadWrite, Some(source)) => builder.attach(&path, source)?,
            (Place::ReadOnly | Place::ReadWrite, None) => {}
            (Place::Private, _) => drop(builder.directory(&path)),
            (Place::Proc, _) => {
                if let Some(proc) = proc.take() {
                    builder.attach(&path, proc)?;
                }
            }
            (Place::Devices, _) => builder.devices(&path, &devices)?,
            (Place::Link(target), _) => builder.link(&path, &target)?,
            (Place::File(content), _) => builder.file(&path, &content)?,
            (Place::Copy, Some(source)) => {
                let mut content = Vec::new();
                let read = File::from(source).take(COPY_BYTES).read_to_end(&mut content);
                read.map_err(other)?;
                builder.file(&path, &content)?;
            }
            (Place::Copy, None) => builder.file(&path, b"")?,
            (Place::HiddenDirectory, _) => builder.attach(&path, empty(FileType::Directory)?)?,
            (Place::HiddenFile, _) => builder.attach(&path, empty(FileType::RegularFile)?)?,
        }
    }
    builder.file(Path::new(EMPTY_FILE), b"")?;
    drop(builder.directory(Path::new(EMPTY_DIRECTORY))?);
    builder.become_root()
}

/// What is read of a file that is copied; the plan copies none that is larger.
const COPY_BYTES: u64 = 1 << 20;

type Source = (PathBuf, Place, Option<OwnedFd>);

/// Opens what is shown from outside, with the rights that it has inside. The workspace comes first: it may decide who
/// commands are, and the other places are shown to them.
fn sources(setup: &Setup, identity: &mut Identity) -> Result<Vec<Source>, Failure> {
    let mut workspace = Some(shown(setup, identity, &setup.workspace, true)?);
    let mut sources = Vec::new();
    for (path, place) in &setup.mounts {
        let source = match place {
            Place::ReadWrite if *path == setup.workspace => workspace.take(),
            Place::ReadOnly | Place::ReadWrite => {
                match shown(setup, identity, path, *place == Place::ReadWrite) {
                    // It went away after the plan was made; then there is nothing to show or to protect.
                    Err((Step::Mounts, libc::ENOENT)) if *path != setup.workspace => None,
                    tree => Some(tree?),
                }
            }
            // What this user cannot read is empty inside.
            Place::Copy => File::open(path).ok().map(OwnedFd::from),
            _ => None,
        };
        sources.push((path.clone(), place.clone(), source));
    }
    Ok(sources)
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
    if !SYSTEM.iter().any(|system| path.starts_with(system)) && !path.starts_with("/etc") {
        identity.adopt(tree.as_fd(), writable, path == setup.workspace)?;
    }
    Ok(tree)
}

/// A mount of its own of what stands at a path, with what is mounted below it.
fn tree(path: &Path) -> Result<OwnedFd, Errno> {
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
    let change = libc::mount_attr {
        attr_set: attributes | users.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.map_or(0, |users| users.as_raw_fd() as u64),
    };
    // SAFETY: the path is empty and NUL-terminated, the structure lives through the call and its size is given.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &change,
            size_of_val(&change),
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

/// The new root while it is being built.
struct Builder {
    root: OwnedFd,
    /// The device number of its own file system: only there are directories made.
    device: u64,
}

impl Builder {
    /// Opens a directory inside, and makes what is missing of it as long as that lies in the new root's own file system.
    fn directory(&self, path: &Path) -> Result<OwnedFd, Failure> {
        let mut at = rustix::io::fcntl_dupfd_cloexec(&self.root, 3).map_err(mounts)?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            if self.owns(&at)? {
                match rustix::fs::mkdirat(&at, name, Mode::from(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(mounts(errno)),
                }
            }
            at = rustix::fs::openat(&at, name, DIRECTORY, Mode::empty()).map_err(mounts)?;
        }
        Ok(at)
    }

    fn owns(&self, at: &OwnedFd) -> Result<bool, Failure> {
        Ok(rustix::fs::fstat(at).map_err(mounts)?.st_dev == self.device)
    }

    /// The directory of a path, open, and its last name.
    fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), Failure> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err((Step::Mounts, libc::EINVAL));
        };
        Ok((self.directory(above)?, name))
    }

    /// Moves a mount to its place.
    fn attach(&self, path: &Path, source: OwnedFd) -> Result<(), Failure> {
        let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&source).map_err(mounts)?.st_mode)
            == FileType::Directory;
        let target = if is_directory {
            self.directory(path)?
        } else {
            let (above, name) = self.parent(path)?;
            if self.owns(&above)? {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                drop(rustix::fs::openat(&above, name, flags, Mode::from(0o644)).map_err(mounts)?);
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            rustix::fs::openat(&above, name, flags, Mode::empty()).map_err(mounts)?
        };
        move_onto(&source, &target).map_err(mounts)
    }

    fn link(&self, path: &Path, target: &Path) -> Result<(), Failure> {
        let (above, name) = self.parent(path)?;
        if !self.owns(&above)? {
            return Ok(());
        }
        match rustix::fs::symlinkat(target, &above, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(mounts(errno)),
        }
    }

    fn file(&self, path: &Path, content: &[u8]) -> Result<(), Failure> {
        let (above, name) = self.parent(path)?;
        if !self.owns(&above)? {
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&above, name, flags, Mode::from(0o644)).map_err(mounts)?;
        File::from(file).write_all(content).map_err(other)
    }

    fn devices(&self, path: &Path, devices: &[OwnedFd]) -> Result<(), Failure> {
        let folder = self.directory(path)?;
        for (name, device) in DEVICES.iter().zip(devices) {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            drop(rustix::fs::openat(&folder, *name, flags, Mode::from(0o666)).map_err(mounts)?);
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let target = rustix::fs::openat(&folder, *name, flags, Mode::empty()).map_err(mounts)?;
            move_onto(device, &target).map_err(mounts)?;
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
            ("shm", "/tmp"),
        ] {
            rustix::fs::symlinkat(target, &folder, name).map_err(mounts)?;
        }
        rustix::fs::mkdirat(&folder, "pts", Mode::from(0o755)).map_err(mounts)
    }

    /// Makes the tree the root of this process, lets go of the old one, and seals the new.
    fn become_root(self) -> Result<(), Failure> {
        rustix::process::fchdir(&self.root).map_err(mounts)?;
        rustix::process::pivot_root(".", ".").map_err(mounts)?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(mounts)?;
        rustix::process::chdir("/").map_err(mounts)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount_remount("/", flags, c"").map_err(mounts)
    }
}

fn move_onto(mount: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", target, "", flags)
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

/// What guards paths of the workspace, as mounts on top of it.
#[derive(Default)]
pub(super) struct Guards(Vec<OwnedFd>);

/// What stands for a hidden file and a hidden directory, in the template itself: a mount that is attached nowhere could be
/// copied by new kernels only.
const EMPTY_FILE: &str = "/.helve/file";
const EMPTY_DIRECTORY: &str = "/.helve/directory";

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

/// Whose a tree is: user and group.
pub(super) fn owner(tree: BorrowedFd<'_>) -> Result<(u32, u32), Errno> {
    let stat = rustix::fs::statat(tree, "", AtFlags::EMPTY_PATH)?;
    Ok((stat.st_uid, stat.st_gid))
}
