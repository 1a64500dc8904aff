//! Finds the other names of files in a workspace: one walk through it, within a bound, on its own file system.
//!
//! A directory tells the number of each file in it, so only what may be a name of a wanted one is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use helve_core::files::PathRules;
use helve_core::{Cancel, ToolError};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

use super::{Below, Inode, Place, inode};
use crate::layer::join;
use crate::names::show;
use crate::refuse;
use crate::rules::Rules;

/// A directory that is still to be looked through.
struct Ahead {
    path: Vec<u8>,
    /// Whether it is git's, whatever its name.
    git: bool,
}

/// Adds to each file the names that the command did not use. What is `left_out` stays as it is.
pub(super) fn find_others(
    files: &mut BTreeMap<Inode, Below>,
    place: &Place<'_>,
    left_out: &BTreeSet<&str>,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let missing = |below: &Below| below.names.saturating_sub(below.used.len() as u64);
    let mut wanted: u64 = files.values().map(missing).sum();
    if wanted == 0 {
        return Ok(());
    }
    let numbers: BTreeSet<u64> =
        files.iter().filter(|(_, below)| missing(below) > 0).map(|(inode, _)| inode.1).collect();
    let rules = Rules::new(PathRules {
        protected: place.links.protected.clone(),
        deny_read: place.links.deny_read.clone(),
        ..PathRules::default()
    })?;
    let is_closed = |path: &str| {
        rules.check_write(path, path, &[]).is_err()
            || place.links.closed.iter().any(|closed| Path::new(path).starts_with(closed))
            || left_out.contains(show(path).as_str())
    };
    let mut room = place.entries;
    let mut open = vec![Ahead { path: Vec::new(), git: false }];
    while let Some(ahead) = open.pop() {
        if cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let Some(dir) = open_dir(place, &ahead.path) else { continue };
        let Some(seen) = look(&dir, &numbers, &mut room) else { return Ok(()) };
        let git = ahead.git || (seen.is_git() && !rules.may_change_git("", &[]));
        for name in seen.files {
            let Ok(stat) = rustix::fs::statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let Some(below) = files.get_mut(&inode(&stat)) else { continue };
            // A name that is not UTF-8 is never changed.
            let (path, is_text) = match String::from_utf8(join(&ahead.path, &name)) {
                Ok(path) => (path, true),
                Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || below.used.contains(&path) {
                continue;
            }
            if git || !is_text || is_closed(&path) {
                below.closed.insert(path.clone());
            }
            below.others.push(path);
            wanted -= 1;
            if wanted == 0 {
                return Ok(());
            }
        }
        open.extend(seen.dirs.iter().map(|name| Ahead { path: join(&ahead.path, name), git }));
    }
    Ok(())
}

/// Opens a directory of the workspace, on its own mount.
fn open_dir(place: &Place<'_>, path: &[u8]) -> Option<File> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(place.root, path, flags, Mode::empty(), resolve).ok().map(File::from)
}

/// What is in a directory, as far as it matters.
#[derive(Default)]
struct Seen {
    dirs: Vec<Box<CStr>>,
    /// What may be a name of a wanted file.
    files: Vec<Box<CStr>>,
    head: bool,
    common: bool,
    objects: bool,
    refs: bool,
}

impl Seen {
    /// Whether git takes the directory for one of its own.
    fn is_git(&self) -> bool {
        self.head && (self.common || (self.objects && self.refs))
    }
}

/// None where there is no room for more.
fn look(dir: &File, numbers: &BTreeSet<u64>, room: &mut usize) -> Option<Seen> {
    let mut seen = Seen::default();
    let Ok(entries) = Dir::read_from(dir) else { return Some(seen) };
    for entry in entries {
        let Ok(entry) = entry else { break };
        let name = entry.file_name();
        let bytes = name.to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let is = |other: &str| bytes.eq_ignore_ascii_case(other.as_bytes());
        seen.head |= is("HEAD");
        seen.common |= is("commondir");
        seen.objects |= is("objects");
        seen.refs |= is("refs");
        *room = room.checked_sub(1)?;
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        match kind {
            FileType::Directory => seen.dirs.push(name.into()),
            FileType::RegularFile if numbers.contains(&entry.ino()) => seen.files.push(name.into()),
            _ => {}
        }
    }
    Some(seen)
}
