//! Paths that become something else as a whole: files, links and directories with their modes, in one commit.
//!
//! In come turns: for each path what has to be there and what is there afterwards. Everything is looked at first; whatever is
//! neither is a conflict, and then nothing happens. The rest is a commit like any other: staged beside, kept for an undo,
//! exchanged step by step, and taken back if a step fails.
//!
//! A file that is replaced keeps its owner and the attributes that belong to the system; its mode, its time, its access control
//! list and the extended attributes of users are those of the turn. What is new belongs to the owner of the workspace where
//! Helve may say so. A file of which only bits and attributes differ is not written anew: each of them changes by itself.
//!
//! | module | what it does |
//! |---|---|
//! | `put` | stages what is there afterwards, and says the steps |

mod put;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use helve_core::files::{Is, Turn, Turned, Turns, Was};
use helve_core::limits::fixed::LAYER_CHANGES;
use helve_core::{Cancel, ErrorKind, ToolError};
use rustix::fs::{FileType, Gid, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::attributes::{attributes_of, owner_of};
use super::resolve::{cannot_open, open_place, special_kind};
use super::stage::Staging;
use super::world::{HostWorld, Identity};
use super::{Handle, Host, apply, links};
use crate::commit::{Key, World, content_id};
use crate::layer::several;
use crate::names::{self, show};
use crate::refuse;
use crate::source::Watched;

/// How many conflicts an error names.
const NAMED: usize = 10;
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// The bits that a file gets; those that let it act for its owner are left out.
const BITS: u32 = 0o1777;
/// A directory also has one that says whose group new files in it get.
const FOLDER_BITS: u32 = 0o3777;

/// One path whose turn it is.
struct Due<'a> {
    key: Key,
    turn: &'a Turn,
    /// What is there.
    now: Is,
    stat: Option<Stat>,
}

impl Handle {
    /// What is at a path.
    pub(super) fn now_at(&self, path: &str) -> Result<Is, ToolError> {
        self.check_whole()?;
        Ok(self.host.seen_at(&self.host.key_of(path)?, self)?.0)
    }

    fn check_whole(&self) -> Result<(), ToolError> {
        if self.scope.whole {
            return Ok(());
        }
        let message = "Only the owner, and what a sandbox has let happen, turns files as a whole.";
        Err(ToolError::new(ErrorKind::Blocked, message).hint("Use write_file, edit_file or apply_patch."))
    }

    /// Makes all turns or none.
    pub(super) fn turn_now(&self, turns: &Turns) -> Result<Turned, ToolError> {
        self.check_whole()?;
        if turns.turns.len() > LAYER_CHANGES {
            let message = format!("More than {LAYER_CHANGES} paths at once are too many.");
            return Err(
                ToolError::new(ErrorKind::TooLarge, message).hint("Let the command change less at once.")
            );
        }
        if self.scope.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let host = &*self.host;
        let _one_at_a_time = host.commits.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut world = HostWorld::new(host, &self.recall, &self.scope.cancel);
        let mut due = self.look(turns)?;
        let left = leave_used(host, &mut due, turns.leave_used, &mut world)?;
        let told = Turned { changed: due.iter().map(|one| one.turn.path.clone()).collect(), left };
        if due.is_empty() {
            return Ok(told);
        }
        for one in &due {
            if let Some(stat) = &one.stat {
                world.note(&one.key, Identity::of(stat));
            }
        }
        let mut staging = Staging::empty(host, &world);
        // First what is there is kept: a second name that is staged changes what is known of the first.
        let kept = self.keep_turns(&due);
        let staged = kept.and_then(|()| put::stage(&mut staging, &due, turns));
        let outcome = staged.and_then(|()| match self.scope.cancel.is_cancelled() {
            true => Err(refuse::cancelled()),
            false => apply::apply(&mut staging),
        });
        self.tell(&staging, outcome.is_ok());
        outcome.map(|()| told)
    }

    /// Looks at every path; what is not as it has to be is a conflict.
    fn look<'a>(&self, turns: &'a Turns) -> Result<Vec<Due<'a>>, ToolError> {
        let mut due = Vec::new();
        let mut conflicts = Vec::new();
        let paths: BTreeSet<&str> = turns.turns.iter().map(|turn| turn.path.as_str()).collect();
        for turn in &turns.turns {
            let key = self.host.key_of(&turn.path)?;
            match self.host.seen_at(&key, self) {
                Ok((now, Some(stat)))
                    if now.is_same(&turn.to) && self.host.has_wrong_names(turn, &stat, &paths) =>
                {
                    due.push(Due { key, turn, now, stat: Some(stat) });
                }
                Ok((now, _)) if now.is_same(&turn.to) => {}
                Ok((now, stat)) if now.is_same(&turn.from) => due.push(Due { key, turn, now, stat }),
                Ok(_) => conflicts.push(turn.path.as_str()),
                Err(error) if error.kind == ErrorKind::Cancelled => return Err(error),
                // A link on the way, a device, or what cannot be read.
                Err(_) => conflicts.push(turn.path.as_str()),
            }
        }
        conflicts.extend(strangers(&due));
        match conflicts.as_slice() {
            [] => {
                due.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                Ok(due)
            }
            all => Err(conflict(all)),
        }
    }

    /// Gives what is there to the call's undo record.
    fn keep_turns(&self, due: &[Due<'_>]) -> Result<(), ToolError> {
        let Some(undo) = &self.scope.undo else { return Ok(()) };
        let mut firsts: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let paths: BTreeSet<&str> = due.iter().map(|one| one.turn.path.as_str()).collect();
        for one in due {
            let shown = self.host.shown(&one.key);
            match &one.now {
                Is::Absent => undo.before(&shown, Was::Absent, &one.turn.to)?,
                Is::Directory => undo.before(&shown, Was::Directory, &one.turn.to)?,
                Is::Folder { mode, attributes } => {
                    let was = Was::Folder { mode: *mode, attributes: attributes.clone() };
                    undo.before(&shown, was, &one.turn.to)?;
                }
                Is::Link { target } => undo.before(&shown, Was::Link { target }, &one.turn.to)?,
                Is::File { id, mode, attributes } => {
                    let (file, stat) = self.host.open_due(one)?;
                    let len = stat.st_size.cast_unsigned();
                    let content = &mut Watched { reader: &file, cancel: &self.scope.cancel }.take(len);
                    let attributes = attributes.clone();
                    undo.before(
                        &shown,
                        Was::File { id, content, len, mode: *mode, attributes },
                        &one.turn.to,
                    )?;
                    if !several(&stat) {
                        continue;
                    }
                    // A name that nothing happens to, or the first of those that something does.
                    let stays = one.turn.names.was_same_as.as_deref().filter(|path| !paths.contains(path));
                    if let Some(other) = stays.filter(|other| self.host.inode_at(other) == Some(inode(&stat)))
                    {
                        undo.second_name(&shown, other, stat.st_ino);
                        continue;
                    }
                    match firsts.entry(inode(&stat)) {
                        Entry::Vacant(place) => {
                            place.insert(shown);
                        }
                        Entry::Occupied(first) => undo.second_name(&shown, first.get(), stat.st_ino),
                    }
                }
            }
        }
        for one in due {
            if let (Some(stat), Is::Absent) = (&one.stat, &one.turn.to) {
                undo.owned(&self.host.shown(&one.key), owner_of(stat));
            }
            if let Some(other) = &one.turn.names.same_as {
                undo.will_be_second_name(&self.host.shown(&one.key), other);
            }
        }
        undo.ready()
    }
}

impl Host {
    fn key_of(&self, path: &str) -> Result<Key, ToolError> {
        let (root, relative) = self.locate(path)?;
        let parts = names::parts(&relative).ok_or_else(|| refuse::outside(path))?;
        match Key::new(root, &parts) {
            key if key.path.is_empty() => Err(refuse::directory(path)),
            key => Ok(key),
        }
    }

    /// Which file is at a path, no link followed.
    fn inode_at(&self, path: &str) -> Option<(u64, u64)> {
        let place = self.open_at(&self.key_of(path).ok()?, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        rustix::fs::fstat(&place).ok().map(|stat| inode(&stat))
    }

    /// Whether a file that holds what it is to hold is another one than it is to be: not a name of the one that it shall be
    /// one with, or a name of others too.
    fn has_wrong_names(&self, turn: &Turn, stat: &Stat, paths: &BTreeSet<&str>) -> bool {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return false;
        }
        let Some(first) = turn.names.same_as.as_deref() else { return turn.names.apart && several(stat) };
        match self.inode_at(first) {
            Some(there) if there == inode(stat) => false,
            Some(there) => paths.contains(first) || turn.names.inode == Some(there.1),
            None => paths.contains(first),
        }
    }

    /// What is at a path, no link followed.
    fn seen_at(&self, key: &Key, handle: &Handle) -> Result<(Is, Option<Stat>), ToolError> {
        match self.open_at(key, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(place) => self.what_is(&place, key, &handle.scope.cancel).map(|(is, stat)| (is, Some(stat))),
            // Below a link there is nothing: where the link is to stay, no directory can be opened there later.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok((Is::Absent, None)),
            Err(error) => Err(refuse::system("read", &self.shown(key), error)),
        }
    }

    /// What a place is.
    fn what_is(&self, place: &OwnedFd, key: &Key, cancel: &Cancel) -> Result<(Is, Stat), ToolError> {
        let shown = self.shown(key);
        let failed = |error: Errno| refuse::system("read", &shown, error);
        let stat = rustix::fs::fstat(place).map_err(failed)?;
        let mode = stat.st_mode & 0o7777;
        let attributes = || attributes_of(place, &shown);
        let is = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Is::Folder { mode, attributes: attributes()? },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(place, "", Vec::new()).map_err(failed)?;
                let target = target.into_string().map_err(|_| failed(Errno::ILSEQ))?;
                Is::Link { target }
            }
            FileType::RegularFile => {
                let file = open_place(place).map_err(|error| cannot_open(&shown, error))?;
                let mut hasher = blake3::Hasher::new();
                let mut reader = Watched { reader: &file, cancel };
                hasher.update_reader(&mut reader).map_err(|error| failed(super::errno(&error)))?;
                Is::File { id: content_id(&hasher), mode, attributes: attributes()? }
            }
            _ => return Err(refuse::special(&shown, special_kind(&stat))),
        };
        Ok((is, stat))
    }

    /// Opens a file that was looked at; a conflict if it is another one by now.
    fn open_due(&self, one: &Due<'_>) -> Result<(File, Stat), ToolError> {
        let shown = self.shown(&one.key);
        let place =
            self.open_at(&one.key, OFlags::PATH | OFlags::NOFOLLOW).map_err(|_| refuse::raced(&shown))?;
        let stat = rustix::fs::fstat(&place).map_err(|error| refuse::system("read", &shown, error))?;
        if one.stat.as_ref().map(Identity::of) != Some(Identity::of(&stat)) {
            return Err(refuse::raced(&shown));
        }
        let file = open_place(&place).map_err(|error| cannot_open(&shown, error))?;
        Ok((file, stat))
    }

    /// Whose the workspace is, where this process may give files to others.
    fn owner(&self, key: &Key) -> Option<(Uid, Gid)> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let stat = rustix::fs::fstat(self.root(key.root).ok()?).ok()?;
        Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)))
    }
}

fn inode(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Paths that were to be names of one file and no longer are all its names.
fn strangers<'a>(due: &[Due<'a>]) -> Vec<&'a str> {
    let there: BTreeMap<&str, &Stat> =
        due.iter().filter_map(|one| Some((one.turn.path.as_str(), one.stat.as_ref()?))).collect();
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    let mut found = Vec::new();
    for one in due {
        let Some(first) = one.turn.names.was_same_as.as_deref() else { continue };
        let Some(known) = there.get(first) else { continue };
        match one.stat.as_ref().is_some_and(|stat| inode(stat) == inode(known)) {
            true => *names.entry(first).or_insert(1) += 1,
            false => found.push(one.turn.path.as_str()),
        }
    }
    let more = |one: &&Due<'a>| {
        let count = names.get(one.turn.path.as_str());
        one.stat.as_ref().zip(count).is_some_and(|(stat, count)| links(stat) != *count)
    };
    found.extend(due.iter().filter(more).map(|one| one.turn.path.as_str()));
    found
}

fn same_content(one: &Is, other: &Is) -> bool {
    matches!((one, other), (Is::File { id, .. }, Is::File { id: other, .. }) if id == other)
}

fn cannot_write(host: &Host, key: &Key, error: Errno) -> ToolError {
    let mut said = refuse::system("write", &host.shown(key), error);
    said.message.push_str(" Nothing was changed.");
    said
}

fn conflict(paths: &[&str]) -> ToolError {
    let mut names: Vec<String> = paths.iter().take(NAMED).map(|path| show(path)).collect();
    if let Some(more) = paths.len().checked_sub(NAMED).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    let message = format!("Changed since: {}. Nothing was changed.", names.join(", "));
    ToolError::new(ErrorKind::Conflict, message)
}

/// Takes directories out that are to go and in which something else is. The deepest come first: one that stays keeps those
/// above it.
fn leave_used(
    host: &Host,
    due: &mut Vec<Due<'_>>,
    leave: bool,
    world: &mut HostWorld<'_>,
) -> Result<Vec<String>, ToolError> {
    let goes = |one: &Due<'_>| {
        matches!(one.now, Is::Folder { .. }) && !matches!(one.turn.to, Is::Folder { .. } | Is::Directory)
    };
    let is_gone = |one: &Due<'_>| matches!(one.turn.to, Is::Absent);
    let mut gone: BTreeSet<Key> = due.iter().filter(|one| is_gone(one)).map(|one| one.key.clone()).collect();
    let mut left = Vec::new();
    let mut stays = BTreeSet::new();
    for one in due.iter().rev().filter(|one| goes(one)) {
        let besides = world.entry_besides(&one.key, &|name| gone.contains(&one.key.child(name)))?;
        let Some(name) = besides else { continue };
        if !leave || !is_gone(one) {
            return Err(conflict(&[host.shown(&one.key.child(&name)).as_str()]));
        }
        gone.remove(&one.key);
        stays.insert(one.key.clone());
        left.push(one.turn.path.clone());
    }
    due.retain(|one| !stays.contains(&one.key));
    Ok(left)
}
