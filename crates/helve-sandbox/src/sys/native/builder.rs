//! The new root of a template: a file system in memory that is filled, attached, and then made the root.
//!
//! ```text
//! with_usual   before the view is known: the small files that nearly every plan has; attached nowhere
//!   for_plan   the same if the plan has all of it, else an empty one
//!   cover_outside, attach …   what the plan says
//!   become_root
//! ```

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags};

use super::failure::Failure;
use crate::native::setup::Place;
use crate::native::wire::Step;
use crate::plan;

/// How many directories are kept open at most while others are looked up.
const MOST_KNOWN: usize = 64;

/// What is read of a file that is copied; the plan copies none that is larger.
const COPY_BYTES: u64 = 1 << 20;

/// The new root while it is being built.
pub(super) struct Builder {
    root: OwnedFd,
    /// The device number of its own file system: only there are directories made.
    device: u64,
    /// Directories that were looked up and that no mount covers: most places are beside the one before.
    known: HashMap<PathBuf, Rc<Folder>>,
    /// What stood before the plan was known.
    stands: HashMap<PathBuf, Place>,
}

/// A directory of the new root.
struct Folder {
    fd: OwnedFd,
    /// Whether it lies in the new root's own file system.
    own: bool,
}

fn mounts(errno: Errno) -> Failure {
    (Step::Mounts, errno.raw_os_error())
}

fn other(error: io::Error) -> Failure {
    (Step::Mounts, error.raw_os_error().unwrap_or(libc::EIO))
}

impl Builder {
    /// An empty one, attached nowhere.
    fn new() -> Result<Builder, Failure> {
        let system = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(mounts)?;
        for (key, value) in [("source", "helve"), ("mode", "755"), ("size", "32m")] {
            rustix::mount::fsconfig_set_string(system.as_fd(), key, value).map_err(mounts)?;
        }
        rustix::mount::fsconfig_create(system.as_fd()).map_err(mounts)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let root = rustix::mount::fsmount(system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes);
        let root = root.map_err(mounts)?;
        let device = rustix::fs::fstat(&root).map_err(mounts)?.st_dev;
        Ok(Builder { root, device, known: HashMap::new(), stands: HashMap::new() })
    }

    /// One that has what nearly every plan has, as it is outside now.
    pub(super) fn with_usual() -> Result<Builder, Failure> {
        let mut builder = Builder::new()?;
        let mut content = Vec::new();
        for (path, mount) in plan::usual() {
            let place = Place::from(&mount);
            let stands = match &place {
                Place::File(content) => builder.file(&path, content)?,
                Place::Copy => {
                    let read =
                        File::open(&path).and_then(|file| read_copy(file, plan::COPY_BYTES, &mut content));
                    // What cannot be read now is looked at again when it is planned.
                    read.unwrap_or(false) && builder.file(&path, &content)?
                }
                _ => false,
            };
            if stands {
                builder.stands.insert(path, place);
            }
        }
        Ok(builder)
    }

    /// The same for a plan; an empty one where this one has something that the plan has not.
    pub(super) fn for_plan(self, plan: &[(PathBuf, Place)]) -> Result<Builder, Failure> {
        let planned = plan.iter().filter(|(path, place)| self.stands.get(path) == Some(place)).count();
        if planned == self.stands.len() { Ok(self) } else { Builder::new() }
    }

    /// Attaches it, so that mounts can be put into it. It covers a directory of the outside, from which nothing can be
    /// opened any more.
    pub(super) fn cover_outside(&self) -> Result<(), Failure> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&self.root, "", CWD, "/usr", flags).map_err(mounts)
    }

    /// Whether that stands there already.
    pub(super) fn stands(&self, path: &Path) -> bool {
        self.stands.contains_key(path)
    }

    /// Opens a directory inside, and makes what is missing of it as long as that lies in the new root's own file system.
    pub(super) fn directory(&mut self, path: &Path) -> Result<(), Failure> {
        self.folder(path).map(drop)
    }

    fn folder(&mut self, path: &Path) -> Result<Rc<Folder>, Failure> {
        if let Some(folder) = self.known.get(path) {
            return Ok(Rc::clone(folder));
        }
        let folder = match path.parent() {
            None => {
                let root = rustix::io::fcntl_dupfd_cloexec(&self.root, 3).map_err(mounts)?;
                Folder { fd: root, own: true }
            }
            Some(_) => {
                let (above, name) = self.parent(path)?;
                let made = above.own && make_directory(&above.fd, name)?;
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let fd = rustix::fs::openat(&above.fd, name, flags, Mode::empty()).map_err(mounts)?;
                let own = made || rustix::fs::fstat(&fd).map_err(mounts)?.st_dev == self.device;
                Folder { fd, own }
            }
        };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let folder = Rc::new(folder);
        self.known.insert(path.to_owned(), Rc::clone(&folder));
        Ok(folder)
    }

    /// The directory of a path, and its last name.
    fn parent<'a>(&mut self, path: &'a Path) -> Result<(Rc<Folder>, &'a OsStr), Failure> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err((Step::Mounts, libc::EINVAL));
        };
        Ok((self.folder(above)?, name))
    }

    /// Moves a mount to its place.
    pub(super) fn attach(&mut self, path: &Path, source: OwnedFd) -> Result<(), Failure> {
        let (above, name) = self.parent(path)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&source).map_err(mounts)?.st_mode);
        if kind == FileType::Directory {
            if above.own {
                make_directory(&above.fd, name)?;
            }
            // The last name is not followed if it is a link.
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(&source, "", &above.fd, name, flags).map_err(mounts)?;
            self.forget(path);
            return Ok(());
        }
        if above.own {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            drop(rustix::fs::openat(&above.fd, name, flags, Mode::from(0o644)).map_err(mounts)?);
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let target = rustix::fs::openat(&above.fd, name, flags, Mode::empty()).map_err(mounts)?;
        move_onto(&source, &target).map_err(mounts)
    }

    /// Something was mounted on a path: what is opened there from now on is that.
    pub(super) fn forget(&mut self, path: &Path) {
        self.known.retain(|known, _| !known.starts_with(path));
    }

    /// Makes a link, where the new root's own file system is.
    pub(super) fn link(&mut self, path: &Path, target: &Path) -> Result<(), Failure> {
        let (above, name) = self.parent(path)?;
        if !above.own {
            return Ok(());
        }
        match rustix::fs::symlinkat(target, &above.fd, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(mounts(errno)),
        }
    }

    /// Makes a file, where the new root's own file system is. Whether it is.
    pub(super) fn file(&mut self, path: &Path, content: &[u8]) -> Result<bool, Failure> {
        let (above, name) = self.parent(path)?;
        if above.own {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::openat(&above.fd, name, flags, Mode::from(0o644)).map_err(mounts)?;
            File::from(file).write_all(content).map_err(other)?;
        }
        Ok(above.own)
    }

    /// Makes a file with the content of another.
    pub(super) fn copy(&mut self, path: &Path, source: OwnedFd) -> Result<(), Failure> {
        let mut content = Vec::new();
        read_copy(File::from(source), COPY_BYTES, &mut content).map_err(other)?;
        self.file(path, &content).map(drop)
    }

    /// Attaches devices, and makes the links that belong to them.
    pub(super) fn devices(&mut self, path: &Path, devices: &[(&str, OwnedFd)]) -> Result<(), Failure> {
        let folder = &self.folder(path)?.fd;
        for (name, device) in devices {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // A mount can be put on a file that is open for whatever reason.
            let target = rustix::fs::openat(folder, *name, flags, Mode::from(0o666)).map_err(mounts)?;
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
            rustix::fs::symlinkat(target, folder, name).map_err(mounts)?;
        }
        rustix::fs::mkdirat(folder, "pts", Mode::from(0o755)).map_err(mounts)
    }

    /// Makes the tree the root of this process, lets go of the old one, and seals the new.
    pub(super) fn become_root(self) -> Result<(), Failure> {
        rustix::process::fchdir(&self.root).map_err(mounts)?;
        rustix::process::pivot_root(".", ".").map_err(mounts)?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(mounts)?;
        rustix::process::chdir("/").map_err(mounts)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount_remount("/", flags, c"").map_err(mounts)
    }
}

/// Makes a directory. Whether it was not there.
fn make_directory(above: &OwnedFd, name: &OsStr) -> Result<bool, Failure> {
    match rustix::fs::mkdirat(above, name, Mode::from(0o755)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(mounts(errno)),
    }
}

/// Reads a file that is copied. Room is made for its size at once: to grow towards it takes many reads. False if it is no
/// regular file, or larger than `most`.
fn read_copy(source: File, most: u64, content: &mut Vec<u8>) -> io::Result<bool> {
    let file = source.metadata()?;
    if !file.is_file() || file.len() > most {
        return Ok(false);
    }
    content.clear();
    content.reserve(usize::try_from(file.len()).unwrap_or_default().saturating_add(1));
    source.take(most).read_to_end(content)?;
    Ok(true)
}

/// Puts a mount on what is open.
pub(super) fn move_onto(mount: &OwnedFd, target: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", target, "", flags)
}
