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
//! Long file: looking, keeping and staging go by the same record of one path, which nobody else needs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, FileTimes};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use helve_core::files::{Attributes, ContentId, Is, Turn, Turned, Turns, Was};
use helve_core::limits::fixed::LAYER_CHANGES;
use helve_core::{Cancel, ErrorKind, ToolError};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::resolve::{cannot_open, open_place, special_kind};
use super::stage::{MOST_UNFLUSHED, Spot, Staging, Step};
use super::world::{HostWorld, Identity};
use super::{Handle, Host, apply, attributes, links};
use crate::attributes::read;
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
        let staged = kept.and_then(|()| stage(&mut staging, &due, turns));
        let outcome = staged.and_then(|()| match self.scope.cancel.is_cancelled() {
            true => Err(refuse::cancelled()),
            false => apply::apply(&mut staging),
        });
        if let Some(undo) = &self.scope.undo
            && !staging.stuck
        {
            undo.done(outcome.is_ok());
        }
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
        let attributes = || {
            read(place, None).map_err(|unread| {
                let message = format!("The extended attributes of '{}': {}.", show(&shown), unread.why());
                ToolError::failed(message)
            })
        };
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

/// Stages everything, and says the steps.
fn stage(staging: &mut Staging<'_>, due: &[Due<'_>], turns: &Turns) -> Result<(), ToolError> {
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
            bits.push((one.key.clone(), *mode, attributes));
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
    for (key, mode, attributes) in bits.iter().rev() {
        staging.finish_directory(key, *mode, attributes)?;
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
                match (&one.now, owner) {
                    (Is::File { .. }, _) => {
                        let (old, _) = host.open_due(one)?;
                        attributes::copy_rest(sys, &old, &file).map_err(cannot)?;
                    }
                    (_, Some((user, group))) => {
                        sys.call("chown", || rustix::fs::fchown(&file, Some(user), Some(group)))
                            .map_err(cannot)?;
                    }
                    _ => {}
                }
                self.give(key, &file, *mode & BITS, attributes)?;
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
                Err(error) => return Err(self.cannot("read the kept content of", key, super::errno(&error))),
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
    fn finish_directory(&self, key: &Key, mode: u32, attributes: &Attributes) -> Result<(), ToolError> {
        let Some(dir) = self.new_dirs.get(key) else { return Ok(()) };
        let cannot = |error: Errno| self.cannot("make", key, error);
        let dir: &OwnedFd = dir;
        if let Some((user, group)) = self.host.owner(key) {
            self.host
                .sys
                .call("chown", || rustix::fs::fchown(dir.as_fd(), Some(user), Some(group)))
                .map_err(cannot)?;
        }
        self.give(key, dir, mode & FOLDER_BITS, attributes)
    }
}
