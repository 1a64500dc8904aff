//! Stages what is there after a turn: new files, links and directories beside their places, and the steps that exchange
//! them.
//!
//! What goes takes a temporary name, last, unless its place is needed. A file of which only bits and attributes differ
//! changes in place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, FileTimes};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use helve_core::files::{ACCESS_LIST, Attributes, ContentId, Is, Owner, Turns};
use helve_core::{ErrorKind, ToolError};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::super::stage::{MOST_UNFLUSHED, Spot, Staging, Step};
use super::super::world::Identity;
use super::super::{attributes, errno};
use super::{BITS, CHUNK, Due, FOLDER_BITS, cannot_write, inode, same_content};
use crate::commit::{Key, content_id};
use crate::names::show;
use crate::refuse;

/// Stages everything, and says the steps.
pub(super) fn stage(staging: &mut Staging<'_>, due: &[Due<'_>], turns: &Turns) -> Result<(), ToolError> {
    let is_dir = |is: &Is| matches!(is, Is::Directory | Is::Folder { .. });
    let there = |one: &Due<'_>| !matches!(one.now, Is::Absent);
    let goes = |one: &Due<'_>| {
        there(one) && (matches!(one.turn.to, Is::Absent) || is_dir(&one.now) != is_dir(&one.turn.to))
    };
    let turned = due.iter().any(|one| goes(one) && !matches!(one.turn.to, Is::Absent));
    // What goes, goes last, so that a file that is written anew elsewhere is never nowhere; unless its place is needed.
    if turned {
        hide(staging, due, &goes)?;
    }
    let is_new = |one: &Due<'_>| !there(one) || goes(one);
    let mut bits = Vec::new();
    for one in due.iter().filter(|one| is_new(one) && is_dir(&one.turn.to)) {
        staging.directory(&one.key)?;
        if let Is::Folder { mode, attributes } = &one.turn.to {
            staging.open_directory(&one.key)?;
            bits.push((one.key.clone(), *mode, attributes, one.turn.owner));
        }
    }
    let mut last = Vec::new();
    let mut placed: BTreeMap<&str, Spot> = BTreeMap::new();
    // A second name is made when the first one is there.
    let (seconds, firsts): (Vec<_>, Vec<_>) = due.iter().partition(|one| one.turn.names.same_as.is_some());
    let mut in_place: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for one in firsts.into_iter().chain(seconds) {
        let key = one.key.clone();
        match (&one.now, &one.turn.to) {
            (_, Is::Absent | Is::Directory) => {}
            (_, Is::Folder { .. }) if is_new(one) => {}
            (Is::File { id: was, mode: from, attributes: had }, Is::File { id, mode, attributes })
                if was == id && one.turn.names.same_as.is_none() && !one.turn.names.apart =>
            {
                let at = staging.spot(&key)?;
                in_place.extend(one.stat.as_ref().map(|stat| (one.turn.path.as_str(), inode(stat))));
                last.push(attributes::steps(&key, &at, (*from, had), (*mode & BITS, attributes)));
            }
            (Is::Folder { mode: from, attributes: had }, Is::Folder { mode, attributes }) => {
                let at = staging.spot(&key)?;
                last.push(attributes::steps(&key, &at, (*from, had), (*mode & FOLDER_BITS, attributes)));
            }
            // A name of a file that changes in place changes with it.
            _ if let Some(first) =
                one.turn.names.same_as.as_deref().and_then(|first| in_place.get(first))
                && one.stat.as_ref().is_some_and(|stat| inode(stat) == *first) => {}
            (_, to) if is_new(one) => {
                let at = staging.new_place(&key)?;
                staging.put(one, to, turns, &at, &placed)?;
                placed.insert(&one.turn.path, at);
            }
            (_, to) => {
                let parent = key.parent().ok_or_else(|| refuse::directory(&key.path))?;
                let (temp, spot) = (staging.temp(&parent)?, staging.spot(&key)?);
                staging.put(one, to, turns, &temp, &placed)?;
                placed.insert(&one.turn.path, temp.clone());
                let was = one.stat.as_ref().map(Identity::of);
                let was = was.ok_or_else(|| ToolError::internal("A path of a commit was not looked at."))?;
                staging.steps.push(Step::Swap { key, temp, to: spot, was });
            }
        }
    }
    for (key, mode, attributes, owner) in bits.iter().rev() {
        staging.finish_directory(key, *mode, attributes, *owner)?;
    }
    if !turned {
        hide(staging, due, &goes)?;
    }
    // A directory may not be entered any more afterwards, so the inner ones come first.
    staging.steps.extend(last.into_iter().rev().flatten());
    staging.settle(due)
}

/// What goes takes temporary names: files first, then directories, the inner ones first.
fn hide(
    staging: &mut Staging<'_>,
    due: &[Due<'_>],
    goes: &dyn Fn(&Due<'_>) -> bool,
) -> Result<(), ToolError> {
    let leaves: BTreeSet<&Key> = due.iter().filter(|one| goes(one)).map(|one| &one.key).collect();
    let gone = |key: &Key| leaves.contains(key);
    for one in due.iter().filter(|one| goes(one)) {
        // Out of a directory that its owner may not change nothing goes.
        if let Is::Folder { mode, .. } = one.now
            && mode & 0o300 != 0o300
        {
            let at = staging.spot(&one.key)?;
            staging.steps.push(Step::Chmod { key: one.key.clone(), at, from: mode, to: mode | 0o300 });
        }
    }
    for one in due.iter().filter(|one| goes(one) && !matches!(one.now, Is::Folder { .. })) {
        let (from, temp) = staging.hiding_place(&one.key, &gone)?;
        let was = one.stat.as_ref().map(Identity::of);
        let was = was.ok_or_else(|| ToolError::internal("A path of a commit was not looked at."))?;
        staging.steps.push(Step::Hide { key: one.key.clone(), from, temp, was });
    }
    for one in due.iter().rev().filter(|one| goes(one) && matches!(one.now, Is::Folder { .. })) {
        let (from, temp) = staging.hiding_place(&one.key, &gone)?;
        staging.steps.push(Step::HideDir { key: one.key.clone(), from, temp });
    }
    Ok(())
}

impl Staging<'_> {
    /// Where something new is staged: in a directory that is staged itself, or beside its place.
    fn new_place(&mut self, key: &Key) -> Result<Spot, ToolError> {
        let parent = key.parent().ok_or_else(|| refuse::directory(&key.path))?;
        if self.new_dirs.contains_key(&parent) {
            return self.spot(key);
        }
        let temp = self.temp(&parent)?;
        let to = self.spot(key)?;
        self.steps.push(Step::Place { key: key.clone(), temp: temp.clone(), to });
        Ok(temp)
    }

    /// Waits until the disk has everything that is staged: file by file, or, of many, all of the file system at once.
    fn settle(&self, due: &[Due<'_>]) -> Result<(), ToolError> {
        if self.unflushed.len() < MOST_UNFLUSHED {
            return self.flush();
        }
        for root in due.iter().map(|one| one.key.root).collect::<BTreeSet<_>>() {
            let synced = self.host.root(root).map(|root| self.host.sys.sync_all(root))?;
            synced.map_err(|error| self.cannot("write", &Key { root, path: String::new() }, error))?;
        }
        Ok(())
    }

    /// Opens the file at a path, if a second name of it is what a turn asks for.
    fn file_at(&self, path: &str, one: &Due<'_>) -> Result<Option<OwnedFd>, ToolError> {
        let key = self.host.key_of(path)?;
        let place = match self.host.open_at(&key, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(self.cannot("write", &one.key, error)),
        };
        let (now, stat) = self.host.what_is(&place, &key, self.world.cancel)?;
        let is_it = match one.turn.names.inode {
            Some(inode) => stat.st_ino == inode && now.is_same(&one.turn.to),
            // Its bits may still be those of before; they change for both names.
            None => same_content(&now, &one.turn.to),
        };
        Ok(is_it.then_some(place))
    }

    /// Gives a file that is staged, or is there as it is to be, a second name. Whether it could.
    fn second_name(
        &self,
        one: &Due<'_>,
        at: &Spot,
        placed: &BTreeMap<&str, Spot>,
    ) -> Result<bool, ToolError> {
        let Some(first) = one.turn.names.same_as.as_deref() else { return Ok(false) };
        let sys = &self.host.sys;
        let place = match placed.get(first) {
            Some(first) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                sys.call("open", || rustix::fs::openat(&first.dir, first.name.as_str(), flags, Mode::empty()))
            }
            None => match self.file_at(first, one)? {
                Some(place) => Ok(place),
                None => return Ok(false),
            },
        };
        let place = place.map_err(|error| self.cannot("write", &one.key, error))?;
        // The link stands for the descriptor itself, not for a name.
        let link = format!("/proc/self/fd/{}", place.as_raw_fd());
        let give = || rustix::fs::linkat(CWD, &link, &at.dir, at.name.as_str(), AtFlags::SYMLINK_FOLLOW);
        match sys.call("link", give) {
            Ok(()) => Ok(true),
            // A file system without second names, or one that has too many: a file of its own holds the same.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::XDEV) => Ok(false),
            Err(error) => Err(self.cannot("write", &one.key, error)),
        }
    }

    /// Writes a file or a link under a new name.
    fn put(
        &mut self,
        one: &Due<'_>,
        to: &Is,
        turns: &Turns,
        at: &Spot,
        placed: &BTreeMap<&str, Spot>,
    ) -> Result<(), ToolError> {
        let (host, key) = (self.host, &one.key);
        let sys = &host.sys;
        let cannot = |error: Errno| cannot_write(host, key, error);
        let owner = host.owner(key);
        match to {
            Is::Link { target } => {
                sys.call("symlink", || rustix::fs::symlinkat(target.as_str(), &at.dir, at.name.as_str()))
                    .map_err(cannot)?;
                if let Some((user, group)) = owner {
                    let give = || {
                        rustix::fs::chownat(
                            &at.dir,
                            at.name.as_str(),
                            Some(user),
                            Some(group),
                            AtFlags::SYMLINK_NOFOLLOW,
                        )
                    };
                    sys.call("chown", give).map_err(cannot)?;
                }
            }
            Is::File { id, mode, attributes } => {
                if self.second_name(one, at, placed)? {
                    return Ok(());
                }
                let file = sys.create(&at.dir, &at.name, 0o600).map_err(cannot)?;
                self.write_content(key, id, turns, &file)?;
                let mut gets = (*mode & BITS, attributes.clone());
                match (&one.now, one.turn.owner, owner) {
                    (Is::File { .. }, ..) => {
                        let (old, _) = host.open_due(one)?;
                        attributes::copy_rest(sys, &old, &file).map_err(cannot)?;
                    }
                    (_, Some(owner), _) => gets = self.give_back(key, &file, owner, gets)?,
                    (_, None, Some((user, group))) => {
                        sys.call("chown", || rustix::fs::fchown(&file, Some(user), Some(group)))
                            .map_err(cannot)?;
                    }
                    _ => {}
                }
                self.give(key, &file, gets.0, &gets.1)?;
                if let Some(time) = one.turn.modified {
                    // A time that the file system does not know is no reason to fail.
                    let _ = file.set_times(FileTimes::new().set_modified(time));
                }
                if self.unflushed.len() < MOST_UNFLUSHED {
                    self.unflushed.push((key.clone(), file));
                }
            }
            Is::Absent | Is::Directory | Is::Folder { .. } => {}
        }
        Ok(())
    }

    /// Copies a content, and makes sure that it is that.
    fn write_content(&self, key: &Key, id: &ContentId, turns: &Turns, to: &File) -> Result<(), ToolError> {
        let mut from = turns.contents.open(id)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            if self.world.cancel.is_cancelled() {
                return Err(refuse::cancelled());
            }
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.cannot("read the kept content of", key, errno(&error))),
            };
            let part = buffer.get(..count).unwrap_or_default();
            hasher.update(part);
            self.host.sys.write_all(to, part).map_err(|error| self.cannot("write", key, error))?;
        }
        if content_id(&hasher) == *id {
            return Ok(());
        }
        let message =
            format!("What is kept for '{}' is damaged. Nothing was changed.", show(&self.host.shown(key)));
        Err(ToolError::new(ErrorKind::NotFound, message).hint("Run the command again."))
    }

    /// Gives something new to whom what it stands for belonged. The bits and attributes with which nobody may do more with
    /// it then than before.
    fn give_back(
        &mut self,
        key: &Key,
        to: impl AsFd,
        owner: Owner,
        gets: (u32, Attributes),
    ) -> Result<(u32, Attributes), ToolError> {
        let given = attributes::give_owner(&self.host.sys, to, owner);
        let (lack, has_group) = given.map_err(|error| cannot_write(self.host, key, error))?;
        self.lacks.extend(lack.map(|what| (key.clone(), what.to_owned())));
        let (bits, attributes) = gets;
        match has_group {
            true => Ok((bits, attributes)),
            false => {
                let bits = attributes::narrowed(bits, attributes.get(ACCESS_LIST));
                Ok((bits, attributes.only(|name| name != ACCESS_LIST)))
            }
        }
    }

    /// Gives what is staged its bits and its attributes.
    fn give(&self, key: &Key, to: impl AsFd, bits: u32, attributes: &Attributes) -> Result<(), ToolError> {
        let given = attributes::give(&self.host.sys, to, bits, attributes);
        given.map_err(|(name, error)| match name {
            Some(name) => self.host.cannot_have(key, &name, error),
            None => self.cannot("write", key, error),
        })
    }

    /// A new directory may have bits from a list of the one that it is made in with which nothing can be put into it.
    fn open_directory(&self, key: &Key) -> Result<(), ToolError> {
        let Some(dir) = self.new_dirs.get(key) else { return Ok(()) };
        let cannot = |error| self.cannot("make", key, error);
        let bits = rustix::fs::fstat(dir).map_err(cannot)?.st_mode & 0o7777;
        if bits & 0o700 == 0o700 {
            return Ok(());
        }
        // The bit that says whose group new files get stays.
        let open = || rustix::fs::fchmod(dir, Mode::from_raw_mode(bits | 0o700));
        self.host.sys.call("chmod", open).map_err(cannot)
    }

    /// A new directory has everything in it: it gets its owner, its bits and its attributes.
    fn finish_directory(
        &mut self,
        key: &Key,
        mode: u32,
        attributes: &Attributes,
        owner: Option<Owner>,
    ) -> Result<(), ToolError> {
        let Some(dir) = self.new_dirs.get(key).cloned() else { return Ok(()) };
        let mut gets = (mode & FOLDER_BITS, attributes.clone());
        if let Some(owner) = owner {
            gets = self.give_back(key, &*dir, owner, gets)?;
        } else if let Some((user, group)) = self.host.owner(key) {
            self.host
                .sys
                .call("chown", || rustix::fs::fchown(&*dir, Some(user), Some(group)))
                .map_err(|error| self.cannot("make", key, error))?;
        }
        self.give(key, &*dir, gets.0, &gets.1)
    }
}
