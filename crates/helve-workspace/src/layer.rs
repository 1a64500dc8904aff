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
//! A file below that has several names and was edited in place is edited for all of them, where they can be found (`links`).

mod bounds;
mod entry;
mod kept;
mod links;

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use helve_core::files::{ContentId, Is};
use helve_core::limits::fixed::{LAYER_ATTRIBUTE_BYTES, LAYER_CHANGES, LINK_ENTRIES};
use helve_core::{Cancel, Layer, ToolError};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use self::bounds::{check_length, too_many};
use self::entry::{Entry, is_opaque, names, open_dir};
use self::kept::Part;
use self::links::{BeganAs, Links, Place};
use crate::beneath;
use crate::commit::content_id;
use crate::names::show;
use crate::refuse;
use crate::source::Watched;

/// Why something stays that a command removed or changed.
const UNREAD: &str = "what was there cannot be read, so it could not be put back";
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
    /// Another path of which the file that was there was a second name.
    pub was_same_as: Option<String>,
    /// Whether it is a file of its own, though it may hold what it held.
    pub apart: bool,
    /// Whether somebody else changed it below while the command ran.
    pub disturbed: bool,
    /// Whether the content that was there was given to the keeper too.
    pub was_kept: bool,
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

    /// Whether it wants what was in a file of so many bytes too.
    fn wants_old(&self, _path: &str, _bytes: u64) -> bool {
        false
    }

    /// Whether what was in a file of so many bytes is to be shown beside what is in it now.
    fn compares(&self, _bytes: u64) -> bool {
        false
    }

    /// What was in a file that the command changed.
    fn compare(&mut self, _id: &ContentId, _content: Vec<u8>) {}
}

/// What was at a path.
struct Was {
    is: Is,
    /// What was in a file, where that is to be shown.
    content: Option<Vec<u8>>,
}

impl From<Is> for Was {
    fn from(is: Is) -> Was {
        Was { is, content: None }
    }
}

/// Reads a layer over a workspace. A file in either that is longer than one that a call may change is refused: all of it would
/// have to be read.
pub fn read_layer(
    workspace: &Path,
    layer: &Layer,
    keep: &mut dyn KeepContent,
    cancel: &Cancel,
) -> Result<LayerRead, ToolError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(workspace, flags, Mode::empty())
        .map_err(|error| refuse::system("open", &workspace.to_string_lossy(), error))?;
    let seen = layer.links.seen.as_ref().filter(|_| layer.parts.len() == 1);
    let ask = |path: &str| seen.and_then(|seen| links::began_as(seen.as_fd(), path));
    let began_as: Option<BeganAs<'_>> = if seen.is_some() { Some(&ask) } else { None };
    let place = Place { root: root.as_fd(), links: &layer.links, began_as, entries: LINK_ENTRIES };
    // What was being read when the call was taken back says only that it could not be.
    read_from(&place, layer, keep, cancel)
        .map_err(|error| if cancel.is_cancelled() { refuse::cancelled() } else { error })
}

/// The same of an open workspace.
fn read_from(
    below: &Place<'_>,
    layer: &Layer,
    keep: &mut dyn KeepContent,
    cancel: &Cancel,
) -> Result<LayerRead, ToolError> {
    let mut reader = Reader {
        keep,
        cancel,
        since: layer.since,
        read: LayerRead::default(),
        links: Links::default(),
        part: None,
        attribute_bytes: 0,
    };
    for part in &layer.parts {
        let path = part.path.as_os_str().as_bytes();
        let shown = part.path.to_string_lossy();
        let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let below =
            beneath::open(below.root, path, place).map_err(|error| refuse::system("open", &shown, error))?;
        reader.part = Some(
            Part::of(part.upper.as_fd(), below.as_fd())
                .map_err(|error| refuse::system("open", &shown, error))?,
        );
        reader.directory(part.upper.as_fd(), Some(below.as_fd()), path, false, 0)?;
    }
    let Reader { mut read, links, .. } = reader;
    links.settle(&mut read, below, cancel)?;
    if read.changes.len() > LAYER_CHANGES {
        return Err(too_many(LAYER_CHANGES, "paths"));
    }
    read.changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    read.linked.sort_unstable();
    Ok(read)
}

struct Reader<'a> {
    keep: &'a mut dyn KeepContent,
    cancel: &'a Cancel,
    since: SystemTime,
    read: LayerRead,
    /// Files with several names.
    links: Links,
    /// The part that is read.
    part: Option<Part>,
    /// How many bytes of attributes are among the changes.
    attribute_bytes: usize,
}

fn join(path: &[u8], name: &CStr) -> Vec<u8> {
    if path.is_empty() { name.to_bytes().to_vec() } else { [path, name.to_bytes()].join(&b'/') }
}

fn failed(path: &[u8]) -> impl Fn(Errno) -> ToolError {
    let path = String::from_utf8_lossy(path).into_owned();
    move |error| refuse::system("read", &path, error)
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
            if !self.gone_inside(lower, &path, name, depth)? {
                return Ok(());
            }
        }
        let was = match &below {
            Some(below) => self.below(below, &path)?,
            None => Some(Is::Absent.into()),
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
                let attributes = self.attributes_above(&entry, &was.is, &path);
                let is = Is::Folder { mode: entry.mode(), attributes };
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
                check_length(&entry, &path)?;
                let attributes = self.attributes_above(&entry, &was.is, &path);
                let mut file = Watched { reader: &entry.open(true).map_err(&failed)?, cancel: self.cancel };
                let is = Is::File { id: self.keep.keep(&mut file)?, mode: entry.mode(), attributes };
                self.change(&path, was, is, &entry, below.as_ref());
            }
            _ => self.leave_out(&path, "neither a file, a directory nor a link"),
        }
        self.check_bounds()
    }

    /// What is at a path below; none where that cannot be said, and the path is left out.
    fn below(&mut self, below: &Entry, path: &[u8]) -> Result<Option<Was>, ToolError> {
        let failed = failed(path);
        Ok(Some(match below.kind() {
            FileType::Directory => match self.attributes_below(below, path) {
                Some(attributes) => Is::Folder { mode: below.mode(), attributes }.into(),
                None => return Ok(None),
            },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&below.place, "", Vec::new()).map_err(&failed)?;
                match target.into_string() {
                    Ok(target) => Is::Link { target }.into(),
                    Err(_) => {
                        self.leave_out(path, "it was a link to a name that is not UTF-8");
                        return Ok(None);
                    }
                }
            }
            FileType::RegularFile => {
                check_length(below, path)?;
                let file = match below.open(false) {
                    Ok(file) => file,
                    Err(Errno::ACCESS) => {
                        self.leave_out(path, UNREAD);
                        return Ok(None);
                    }
                    Err(error) => return Err(failed(error)),
                };
                let old = self.old(below, &file);
                let (id, content) =
                    old.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                let Some(attributes) = self.attributes_below(below, path) else { return Ok(None) };
                Was { is: Is::File { id, mode: below.mode(), attributes }, content }
            }
            _ => {
                self.leave_out(path, "it was neither a file, a directory nor a link");
                return Ok(None);
            }
        }))
    }

    /// The name of what is in a file below, and that itself where it is to be shown.
    fn old(&self, below: &Entry, file: &File) -> std::io::Result<(ContentId, Option<Vec<u8>>)> {
        let mut reader = Watched { reader: file, cancel: self.cancel };
        let mut hasher = blake3::Hasher::new();
        let bytes = u64::try_from(below.stat.st_size).unwrap_or(u64::MAX);
        let mut content = None;
        if self.keep.compares(bytes) {
            let mut first = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default().saturating_add(1));
            reader.by_ref().take(bytes.saturating_add(1)).read_to_end(&mut first)?;
            hasher.update(&first);
            // One that has grown meanwhile is not what was there.
            content = Some(first).filter(|first| first.len() as u64 <= bytes);
        }
        if content.is_none() {
            hasher.update_reader(&mut reader)?;
        }
        Ok((content_id(&hasher), content))
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
        if below.kind() == FileType::Directory && !self.gone_inside(lower, &path, name, depth)? {
            return Ok(());
        }
        if let Some(was) = self.below(&below, &path)? {
            self.change(&path, was, Is::Absent, &below, Some(&below));
        }
        self.check_bounds()
    }

    /// Everything in a directory below is gone. False where something stays that is left out, and the directory with it.
    fn gone_inside(
        &mut self,
        lower: BorrowedFd<'_>,
        path: &[u8],
        name: &CStr,
        depth: usize,
    ) -> Result<bool, ToolError> {
        let failed = failed(path);
        if self.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        if depth > MAX_DEPTH {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::openat(lower, name, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(Errno::ACCESS) => {
                self.leave_out(path, UNREAD);
                return Ok(false);
            }
            Err(error) => return Err(failed(error)),
        };
        let before = self.read.left_out.len();
        for inner in names(&dir).map_err(&failed)? {
            self.gone(dir.as_fd(), path, &inner, depth + 1)?;
        }
        let all = self.read.left_out.len() == before;
        if !all {
            self.leave_out(path, "something in it stays");
        }
        Ok(all)
    }

    fn check_bounds(&self) -> Result<(), ToolError> {
        if self.read.changes.len() + self.links.len() > LAYER_CHANGES {
            return Err(too_many(LAYER_CHANGES, "paths"));
        }
        if self.attribute_bytes > LAYER_ATTRIBUTE_BYTES {
            return Err(too_many(LAYER_ATTRIBUTE_BYTES, "bytes of extended attributes"));
        }
        Ok(())
    }

    /// Notes a change, unless it is none.
    fn change(&mut self, path: &[u8], was: Was, is: Is, entry: &Entry, below: Option<&Entry>) {
        let Was { is: was, content } = was;
        let Ok(path) = String::from_utf8(path.to_vec()) else {
            if was != is {
                self.leave_out(path, "its name is not UTF-8");
            }
            return;
        };
        let is_file = matches!(is, Is::File { .. });
        let old = below.map(|below| &below.stat).filter(|_| matches!(was, Is::File { .. }));
        let linked = (is_file && several(&entry.stat)) || old.is_some_and(several);
        if was == is && !linked {
            return;
        }
        let modified = is_file
            .then(|| time(entry.stat.st_mtime, i64::try_from(entry.stat.st_mtime_nsec).unwrap_or_default()))
            .flatten();
        let disturbed = below.is_some_and(|below| {
            let changed =
                time(below.stat.st_ctime, i64::try_from(below.stat.st_ctime_nsec).unwrap_or_default());
            changed.is_some_and(|changed| changed > self.since) && !matches!(was, Is::Folder { .. })
        });
        if let (Is::File { id, .. }, Some(content)) = (&was, content) {
            self.keep.compare(id, content);
        }
        self.attribute_bytes += was.attributes().bytes() + is.attributes().bytes();
        let (same_as, was_same_as) = (None, None);
        let (apart, was_kept) = (false, false);
        let mut change =
            LayerChange { path, was, is, modified, same_as, was_same_as, apart, disturbed, was_kept };
        match old.filter(|old| several(old)) {
            _ if is_file && linked => return self.links.file(change, &entry.stat, old),
            Some(old) => self.links.gone(&change, old),
            None => {}
        }
        change.was_kept = below.is_some_and(|below| self.keep_old(&change, below));
        self.read.changes.push(change);
    }

    /// Keeps what was in a file, if it is wanted. Whether it is kept; if not, nobody can look at it again.
    fn keep_old(&mut self, change: &LayerChange, below: &Entry) -> bool {
        let Is::File { id, .. } = &change.was else { return false };
        let bytes = u64::try_from(below.stat.st_size).unwrap_or(u64::MAX);
        if !self.keep.wants_old(&change.path, bytes) {
            return false;
        }
        let Ok(file) = below.open(false) else { return false };
        let mut old = Watched { reader: &file, cancel: self.cancel }.take(bytes);
        // What somebody writes meanwhile is not what was there.
        self.keep.keep(&mut old).is_ok_and(|kept| kept == *id)
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        self.read.left_out.push((show(&String::from_utf8_lossy(path)), why.to_owned()));
    }
}

/// How many names a file has.
#[allow(clippy::useless_conversion, reason = "the number is narrower on some machines")]
fn links(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}

/// Whether a file has more than one name.
pub(crate) fn several(stat: &Stat) -> bool {
    links(stat) > 1
}

fn time(seconds: i64, nanos: i64) -> Option<SystemTime> {
    let nanos = u32::try_from(nanos).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

#[cfg(test)]
mod tests;
