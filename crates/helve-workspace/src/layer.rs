//! What a command changed in a layer over the workspace: the layer's upper directories, compared with what lies below.
//!
//! In come a [`Layer`] and the workspace; out go paths with what was there and what is there, and the new contents to a
//! keeper. Everything is reached by descriptors, part by part, without following a link; nothing in the layer runs any more,
//! and nothing that it holds leads anywhere. What is the same below is no change, however often it was written.
//!
//! Of extended attributes those of users and access control lists are compared too, within bounds, and where both the layer and
//! the workspace can hold them. What names the command's own user in a list of the layer names the owner of the workspace.
//!
//! Not taken over: owners, other extended attributes, devices, FIFOs and sockets, names and targets of links that are not UTF-8,
//! bits and attributes of the workspace's own directory.
//! Of a file below that has several names only the one that the command used gets another content; the others keep theirs.

mod kept;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use helve_core::files::{ContentId, Is};
use helve_core::limits::fixed::{LAYER_ATTRIBUTE_BYTES, LAYER_CHANGES};
use helve_core::{Cancel, ErrorKind, Layer, ToolError};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use self::kept::Part;
use crate::attributes;
use crate::beneath;
use crate::commit::content_id;
use crate::names::show;
use crate::refuse;
use crate::source::Watched;

/// Marks a directory of which nothing below shows.
const OPAQUE: &CStr = c"user.overlay.opaque";
/// Directories in each other; deeper ones no command makes by a path.
const MAX_DEPTH: usize = 2048;

/// One path that a command changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerChange {
    /// Relative to the workspace.
    pub path: String,
    /// What was there when the command began.
    pub was: Is,
    /// What is there in the layer.
    pub is: Is,
    /// When a file's content was written.
    pub modified: Option<SystemTime>,
    /// Another path of which this file is a second name.
    pub same_as: Option<String>,
    /// Whether somebody else changed it below while the command ran.
    pub disturbed: bool,
}

/// What a command changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerRead {
    /// Sorted by path.
    pub changes: Vec<LayerChange>,
    /// What the command changed and what cannot be taken over, with why.
    pub left_out: Vec<(String, String)>,
    /// Files that had other names too, which keep what they hold.
    pub linked: Vec<String>,
}

/// Takes the new contents of files.
pub trait KeepContent {
    /// Keeps everything that can be read: the name of it.
    fn keep(&mut self, content: &mut dyn Read) -> Result<ContentId, ToolError>;
}

/// Reads a layer over a workspace.
pub fn read_layer(
    workspace: &Path,
    layer: &Layer,
    keep: &mut dyn KeepContent,
    cancel: &Cancel,
) -> Result<LayerRead, ToolError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(workspace, flags, Mode::empty())
        .map_err(|error| refuse::system("open", &workspace.to_string_lossy(), error))?;
    let mut reader = Reader {
        keep,
        cancel,
        since: layer.since,
        read: LayerRead::default(),
        names: BTreeMap::new(),
        part: None,
        attribute_bytes: 0,
    };
    for part in &layer.parts {
        let path = part.path.as_os_str().as_bytes();
        let shown = part.path.to_string_lossy();
        let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let below = beneath::open(root.as_fd(), path, place)
            .map_err(|error| refuse::system("open", &shown, error))?;
        reader.part = Some(
            Part::of(part.upper.as_fd(), below.as_fd())
                .map_err(|error| refuse::system("open", &shown, error))?,
        );
        reader.directory(part.upper.as_fd(), Some(below.as_fd()), path, false, 0)?;
    }
    let Reader { mut read, names, .. } = reader;
    name_firsts(&mut read.changes, names);
    read.changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(read)
}

/// Says of each file with several names which of them the others follow: one that was there before, if there is one.
fn name_firsts(changes: &mut [LayerChange], names: BTreeMap<(u64, u64), Vec<(bool, String)>>) {
    let mut firsts = BTreeMap::new();
    for mut paths in names.into_values() {
        paths.sort_unstable();
        let mut paths = paths.into_iter().map(|(_, path)| path);
        let Some(first) = paths.next() else { continue };
        firsts.extend(paths.map(|path| (path, first.clone())));
    }
    for change in changes {
        change.same_as = firsts.remove(&change.path);
    }
}

struct Reader<'a> {
    keep: &'a mut dyn KeepContent,
    cancel: &'a Cancel,
    since: SystemTime,
    read: LayerRead,
    /// The paths of each file in the layer that has several, and whether they are changes.
    names: BTreeMap<(u64, u64), Vec<(bool, String)>>,
    /// The part that is read.
    part: Option<Part>,
    /// How many bytes of attributes are among the changes.
    attribute_bytes: usize,
}

/// A name in a directory, and what it leads to.
struct Entry {
    place: OwnedFd,
    stat: Stat,
}

impl Entry {
    fn of(dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<Entry>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&place)?;
        Ok(Some(Entry { place, stat }))
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// Stands for what is gone.
    fn is_whiteout(&self) -> bool {
        self.kind() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    /// Gives its owner the right to read it.
    fn widen(&self) -> Result<(), Errno> {
        let extra = if self.kind() == FileType::Directory { 0o700 } else { 0o400 };
        rustix::fs::chmod(attributes::link(&self.place), Mode::from_raw_mode(self.mode() | extra))
    }

    /// Opens what it is for reading. Bits that its owner took from himself do not count.
    fn open(&self, widen: bool) -> Result<File, Errno> {
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

/// The names in a directory, sorted.
fn names(dir: &File) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn join(path: &[u8], name: &CStr) -> Vec<u8> {
    if path.is_empty() { name.to_bytes().to_vec() } else { [path, name.to_bytes()].join(&b'/') }
}

fn failed(path: &[u8]) -> impl Fn(Errno) -> ToolError {
    let path = String::from_utf8_lossy(path).into_owned();
    move |error| refuse::system("read", &path, error)
}

/// Whether a directory of the layer hides everything below.
fn is_opaque(dir: &File) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::fgetxattr(dir, OPAQUE, &mut value[..]).is_ok_and(|len| value.get(..len) == Some(b"y"))
}

impl Reader<'_> {
    /// Compares a directory of the layer with the one below, if there is one. `alone` says that nothing below shows.
    fn directory(
        &mut self,
        upper: BorrowedFd<'_>,
        lower: Option<BorrowedFd<'_>>,
        path: &[u8],
        alone: bool,
        depth: usize,
    ) -> Result<(), ToolError> {
        let failed = failed(path);
        if depth > MAX_DEPTH {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let top = Entry::of(upper, c".").map_err(&failed)?.ok_or_else(|| failed(Errno::NOENT))?;
        let dir = top.open(true).map_err(&failed)?;
        let alone = alone || is_opaque(&dir);
        let above = names(&dir).map_err(&failed)?;
        for name in &above {
            self.entry(dir.as_fd(), lower, path, name, alone, depth)?;
        }
        if let Some(lower) = lower.filter(|_| alone) {
            for name in names(&open_dir(lower).map_err(&failed)?).map_err(&failed)? {
                if above.binary_search(&name).is_err() {
                    self.gone(lower, path, &name, depth)?;
                }
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        upper: BorrowedFd<'_>,
        lower: Option<BorrowedFd<'_>>,
        parent: &[u8],
        name: &CStr,
        alone: bool,
        depth: usize,
    ) -> Result<(), ToolError> {
        let path = join(parent, name);
        let failed = failed(&path);
        if self.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let Some(entry) = Entry::of(upper, name).map_err(&failed)? else { return Ok(()) };
        if entry.is_whiteout() {
            return lower.map_or(Ok(()), |lower| self.gone(lower, parent, name, depth));
        }
        let below = lower.map(|lower| Entry::of(lower, name)).transpose().map_err(&failed)?.flatten();
        let both_dirs = entry.kind() == FileType::Directory
            && below.as_ref().is_some_and(|one| one.kind() == FileType::Directory);
        if let (Some(lower), Some(below), false) = (lower, &below, both_dirs)
            && below.kind() == FileType::Directory
        {
            // What was in it is gone with it.
            self.gone_inside(lower, &path, name, depth)?;
        }
        let was = match &below {
            Some(below) => self.below(below, &path)?,
            None => Some(Is::Absent),
        };
        // Of a directory below of which nothing can be said there may be something to say of what is in it.
        let Some(was) = was else {
            let Some(below) = below.filter(|_| both_dirs) else { return Ok(()) };
            let inner = entry.open(true).map_err(&failed)?;
            return self.directory(inner.as_fd(), Some(below.place.as_fd()), &path, alone, depth + 1);
        };
        match entry.kind() {
            FileType::Directory => {
                // Before it is opened: that may change a list.
                let is =
                    Is::Folder { mode: entry.mode(), attributes: self.attributes_above(&entry, &was, &path) };
                let inner = entry.open(true).map_err(&failed)?;
                self.change(&path, was, is, &entry, below.as_ref());
                self.check_bounds()?;
                let below = below.filter(|_| both_dirs);
                let below = below.as_ref().map(|below| below.place.as_fd());
                return self.directory(inner.as_fd(), below, &path, alone, depth + 1);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&entry.place, "", Vec::new()).map_err(&failed)?;
                match target.into_string() {
                    Ok(target) => self.change(&path, was, Is::Link { target }, &entry, below.as_ref()),
                    Err(_) => self.leave_out(&path, "a link to a name that is not UTF-8"),
                }
            }
            FileType::RegularFile => {
                let attributes = self.attributes_above(&entry, &was, &path);
                let mut file = Watched { reader: &entry.open(true).map_err(&failed)?, cancel: self.cancel };
                let is = Is::File { id: self.keep.keep(&mut file)?, mode: entry.mode(), attributes };
                // Bits and attributes alone change for all names.
                if let (Is::File { id: old, .. }, Is::File { id, .. }, Some(below)) = (&was, &is, &below)
                    && several(&below.stat)
                    && old != id
                {
                    self.read.linked.push(show(&String::from_utf8_lossy(&path)));
                }
                self.change(&path, was, is, &entry, below.as_ref());
            }
            _ => self.leave_out(&path, "neither a file, a directory nor a link"),
        }
        self.check_bounds()
    }

    /// What is at a path below; none where that cannot be said, and the path is left out.
    fn below(&mut self, below: &Entry, path: &[u8]) -> Result<Option<Is>, ToolError> {
        let failed = failed(path);
        Ok(Some(match below.kind() {
            FileType::Directory => match self.attributes_below(below, path) {
                Some(attributes) => Is::Folder { mode: below.mode(), attributes },
                None => return Ok(None),
            },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&below.place, "", Vec::new()).map_err(&failed)?;
                match target.into_string() {
                    Ok(target) => Is::Link { target },
                    Err(_) => {
                        self.leave_out(path, "it was a link to a name that is not UTF-8");
                        return Ok(None);
                    }
                }
            }
            FileType::RegularFile => {
                let file = match below.open(false) {
                    Ok(file) => file,
                    Err(Errno::ACCESS) => {
                        self.leave_out(path, "what was there cannot be read, so it could not be put back");
                        return Ok(None);
                    }
                    Err(error) => return Err(failed(error)),
                };
                let mut hasher = blake3::Hasher::new();
                let mut reader = Watched { reader: &file, cancel: self.cancel };
                let hashed = hasher.update_reader(&mut reader);
                hashed.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                let Some(attributes) = self.attributes_below(below, path) else { return Ok(None) };
                Is::File { id: content_id(&hasher), mode: below.mode(), attributes }
            }
            _ => {
                self.leave_out(path, "it was neither a file, a directory nor a link");
                return Ok(None);
            }
        }))
    }

    /// A path below is gone, with everything in it.
    fn gone(
        &mut self,
        lower: BorrowedFd<'_>,
        parent: &[u8],
        name: &CStr,
        depth: usize,
    ) -> Result<(), ToolError> {
        let path = join(parent, name);
        let Some(below) = Entry::of(lower, name).map_err(failed(&path))? else { return Ok(()) };
        if below.kind() == FileType::Directory {
            self.gone_inside(lower, &path, name, depth)?;
        }
        if let Some(was) = self.below(&below, &path)? {
            self.change(&path, was, Is::Absent, &below, Some(&below));
        }
        self.check_bounds()
    }

    /// Everything in a directory below is gone.
    fn gone_inside(
        &mut self,
        lower: BorrowedFd<'_>,
        path: &[u8],
        name: &CStr,
        depth: usize,
    ) -> Result<(), ToolError> {
        let failed = failed(path);
        if self.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        if depth > MAX_DEPTH {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = File::from(rustix::fs::openat(lower, name, flags, Mode::empty()).map_err(&failed)?);
        for inner in names(&dir).map_err(&failed)? {
            self.gone(dir.as_fd(), path, &inner, depth + 1)?;
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), ToolError> {
        if self.read.changes.len() > LAYER_CHANGES {
            return Err(too_many(LAYER_CHANGES, "paths"));
        }
        if self.attribute_bytes > LAYER_ATTRIBUTE_BYTES {
            return Err(too_many(LAYER_ATTRIBUTE_BYTES, "bytes of extended attributes"));
        }
        Ok(())
    }

    /// Notes a change, unless it is none.
    fn change(&mut self, path: &[u8], was: Is, is: Is, entry: &Entry, below: Option<&Entry>) {
        let Ok(path) = String::from_utf8(path.to_vec()) else {
            if was != is {
                self.leave_out(path, "its name is not UTF-8");
            }
            return;
        };
        if matches!(is, Is::File { .. }) && several(&entry.stat) {
            let identity = (entry.stat.st_dev, entry.stat.st_ino);
            self.names.entry(identity).or_default().push((was != is, path.clone()));
        }
        if was == is {
            return;
        }
        let modified = matches!(is, Is::File { .. })
            .then(|| time(entry.stat.st_mtime, i64::try_from(entry.stat.st_mtime_nsec).unwrap_or_default()))
            .flatten();
        let disturbed = below.is_some_and(|below| {
            let changed =
                time(below.stat.st_ctime, i64::try_from(below.stat.st_ctime_nsec).unwrap_or_default());
            changed.is_some_and(|changed| changed > self.since) && !matches!(was, Is::Folder { .. })
        });
        self.attribute_bytes += was.attributes().bytes() + is.attributes().bytes();
        self.read.changes.push(LayerChange { path, was, is, modified, same_as: None, disturbed });
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        self.read.left_out.push((show(&String::from_utf8_lossy(path)), why.to_owned()));
    }
}

fn open_dir(dir: BorrowedFd<'_>) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, ".", flags, Mode::empty()).map(File::from)
}

/// Whether a file has more than one name.
#[allow(clippy::useless_conversion, reason = "the number is narrower on some machines")]
pub(crate) fn several(stat: &Stat) -> bool {
    u64::from(stat.st_nlink) > 1
}

fn time(seconds: i64, nanos: i64) -> Option<SystemTime> {
    let nanos = u32::try_from(nanos).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

fn too_many(most: usize, what: &str) -> ToolError {
    let message = format!("The command changed more than {most} {what}, which is too many for a layer.");
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("Let it change less at once, or write tools.exec.mode = \"direct\" and tools.exec.checkpoint = false.")
}

#[cfg(test)]
mod tests;
