//! The new beside the old: everything that a commit puts in place is first written under temporary names.
//!
//! In comes a plan; out go steps that each take one moment. A new file or a replaced one is a temporary file in the same
//! directory. A new directory is a temporary one with everything that will be in it, so it appears whole. Nothing that
//! is there is touched, and what was staged is removed when [`Staging`] is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use helve_core::{Cancel, ToolError};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::world::{HostWorld, Identity};
use super::{Host, attributes};
use crate::commit::{Content, Entry, Key, Now, Plan, There};
use crate::refuse;

/// So many written files are held open until the disk has them; of more, each is waited for at once.
pub(super) const MOST_UNFLUSHED: usize = 64;

/// A name in an open directory.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) dir: Arc<OwnedFd>,
    /// Where that directory is, or will be when it is used.
    pub(super) of: Key,
    pub(super) name: String,
}

/// One moment of a commit.
#[derive(Debug)]
pub(super) enum Step {
    /// Something staged takes a name at which nothing is.
    Place { key: Key, temp: Spot, to: Spot },
    /// Something staged and the file that it replaces change their names.
    Swap { key: Key, temp: Spot, to: Spot, was: Identity },
    /// A file takes another name.
    Rename { key: Key, from: Spot, to: Spot, was: Identity },
    /// A file that is to go takes a temporary name.
    Hide { key: Key, from: Spot, temp: Spot, was: Identity },
    /// So does an empty directory.
    HideDir { key: Key, from: Spot, temp: Spot },
    /// A file or a directory gets other permission bits.
    Chmod { key: Key, at: Spot, from: u32, to: u32 },
    /// It gets another value of an extended attribute, or loses it.
    Attribute { key: Key, at: Spot, name: String, from: Option<Vec<u8>>, to: Option<Vec<u8>> },
}

/// What is staged for one commit.
pub(super) struct Staging<'a> {
    pub(super) host: &'a Host,
    pub(super) world: &'a HostWorld<'a>,
    pub(super) steps: Vec<Step>,
    /// Whether something could not be put back, so that only the undo record knows what was there.
    pub(super) stuck: bool,
    /// The mode of each file that will be there.
    pub(super) modes: BTreeMap<Key, u32>,
    /// Directories in which names change.
    pub(super) dirs: BTreeMap<Key, Arc<OwnedFd>>,
    /// Directories that are staged, by the path that they will have.
    pub(super) new_dirs: BTreeMap<Key, Arc<OwnedFd>>,
    /// Files that are written and that the disk may not have yet.
    pub(super) unflushed: Vec<(Key, File)>,
    /// What something new could not be given of what it stands for.
    pub(super) lacks: Vec<(Key, String)>,
    /// Every temporary name.
    temps: Vec<Spot>,
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // Where something could not be put back, what it was may be there under a temporary name.
        for temp in self.temps.iter().filter(|_| !self.stuck) {
            self.host.janitor.remove(&self.host.sys, &temp.dir, &temp.name);
        }
    }
}

impl<'a> Staging<'a> {
    /// Stages a plan.
    pub(super) fn of(
        host: &'a Host,
        world: &'a HostWorld<'a>,
        plan: &Plan,
    ) -> Result<Staging<'a>, ToolError> {
        let mut staging = Staging::empty(host, world);
        staging.all(plan)?;
        Ok(staging)
    }

    /// Nothing is staged yet.
    pub(super) fn empty(host: &'a Host, world: &'a HostWorld<'a>) -> Staging<'a> {
        Staging {
            host,
            world,
            steps: Vec::new(),
            stuck: false,
            modes: BTreeMap::new(),
            dirs: BTreeMap::new(),
            new_dirs: BTreeMap::new(),
            unflushed: Vec::new(),
            lacks: Vec::new(),
            temps: Vec::new(),
        }
    }

    fn all(&mut self, plan: &Plan) -> Result<(), ToolError> {
        let changes: Vec<(&Key, &Entry)> = plan.differing().collect();
        // Parents come before what is in them.
        for (key, entry) in &changes {
            if let (There::Absent, Now::Directory) = (&entry.was, &entry.now) {
                self.directory(key)?;
            }
        }
        let moved = moves(plan);
        let mut renamed = BTreeSet::new();
        for (key, entry) in &changes {
            match (&entry.was, &entry.now) {
                (There::Absent, Now::File(content)) => match moved.get(*key) {
                    Some(from) if self.rename(from, key)? => {
                        renamed.insert((*from).clone());
                    }
                    _ => self.file(key, content)?,
                },
                (There::File(_), Now::File(content)) => self.replacement(key, content)?,
                _ => {}
            }
        }
        // What goes, goes last: a file that is written anew elsewhere is never nowhere.
        let gone = |key: &Key| {
            let entry = plan.entries.get(key);
            entry.is_some_and(|entry| matches!((&entry.was, &entry.now), (There::Directory, Now::Absent)))
        };
        for (key, entry) in &changes {
            if let (There::File(_), Now::Absent) = (&entry.was, &entry.now)
                && !renamed.contains(*key)
            {
                let (from, temp) = self.hiding_place(key, &gone)?;
                let was = self.world.identity(key)?;
                self.steps.push(Step::Hide { key: (*key).clone(), from, temp, was });
            }
        }
        for (key, _) in changes.iter().rev().filter(|(key, _)| gone(key)) {
            let (from, temp) = self.hiding_place(key, &gone)?;
            self.steps.push(Step::HideDir { key: (*key).clone(), from, temp });
        }
        Ok(())
    }

    /// Waits until the disk has everything that is staged.
    pub(super) fn flush(&self) -> Result<(), ToolError> {
        for (key, file) in &self.unflushed {
            self.host.sys.sync(file).map_err(|error| self.cannot("write", key, error))?;
        }
        // The directories themselves are synced when they are complete.
        for (key, dir) in &self.new_dirs {
            self.host.sys.sync(dir).map_err(|error| self.cannot("write", key, error))?;
        }
        Ok(())
    }

    pub(super) fn directory(&mut self, key: &Key) -> Result<(), ToolError> {
        let parent = key.parent().ok_or_else(|| ToolError::internal("A root cannot be made."))?;
        let staged = self.new_dirs.get(&parent).cloned();
        let (dir, name) = match staged {
            Some(dir) => (dir, key.leaf().to_owned()),
            None => {
                let temp = self.temp(&parent)?;
                let to = self.spot(key)?;
                self.steps.push(Step::Place { key: key.clone(), temp: temp.clone(), to });
                (temp.dir, temp.name)
            }
        };
        let made = self.host.sys.make_dir(&dir, &name, Host::DIR_MODE);
        let made = made.map_err(|error| self.cannot("make", key, error))?;
        self.new_dirs.insert(key.clone(), Arc::new(made));
        Ok(())
    }

    fn file(&mut self, key: &Key, content: &Content) -> Result<(), ToolError> {
        let parent = key.parent().ok_or_else(|| refuse::directory(&key.path))?;
        if let Some(dir) = self.new_dirs.get(&parent).cloned() {
            return self.write(key, content, &Spot { dir, of: parent, name: key.leaf().to_owned() });
        }
        let temp = self.temp(&parent)?;
        self.write(key, content, &temp)?;
        let to = self.spot(key)?;
        self.steps.push(Step::Place { key: key.clone(), temp, to });
        Ok(())
    }

    fn replacement(&mut self, key: &Key, content: &Content) -> Result<(), ToolError> {
        let parent = key.parent().ok_or_else(|| refuse::directory(&key.path))?;
        let temp = self.temp(&parent)?;
        self.write(key, content, &temp)?;
        let (to, was) = (self.spot(key)?, self.world.identity(key)?);
        self.steps.push(Step::Swap { key: key.clone(), temp, to, was });
        Ok(())
    }

    /// Whether a file can simply take its new name: it must be on the same file system.
    fn rename(&mut self, from: &Key, key: &Key) -> Result<bool, ToolError> {
        let to = self.spot(key)?;
        let stat = rustix::fs::fstat(&*to.dir).map_err(|error| self.cannot("move", key, error))?;
        let was = self.world.identity(from)?;
        if stat.st_dev != was.device() {
            return Ok(false);
        }
        let file = self.world.open_original(from)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| self.cannot("move", key, error))?;
        self.modes.insert(key.clone(), stat.st_mode & 0o7777);
        let from = self.spot(from)?;
        self.steps.push(Step::Rename { key: key.clone(), from, to, was });
        Ok(true)
    }

    /// What is removed waits, until all is done, in the nearest directory that stays.
    pub(super) fn hiding_place(
        &mut self,
        key: &Key,
        gone: &dyn Fn(&Key) -> bool,
    ) -> Result<(Spot, Spot), ToolError> {
        let mut stays = key.parent();
        while let Some(dir) = stays.as_ref().filter(|dir| gone(dir)) {
            stays = dir.parent();
        }
        let stays = stays.ok_or_else(|| ToolError::internal("A root cannot be removed."))?;
        Ok((self.spot(key)?, self.temp(&stays)?))
    }

    /// Writes a file under a new name, with the attributes that it shall have.
    fn write(&mut self, key: &Key, content: &Content, at: &Spot) -> Result<(), ToolError> {
        let sys = &self.host.sys;
        let like = content.like.as_ref().map(|like| self.world.open_original(like)).transpose()?;
        // Nobody else reads it before it has the mode of the old one.
        let mode = if like.is_some() || content.mode.is_some() { 0o600 } else { 0o666 };
        let file = sys.create(&at.dir, &at.name, mode).map_err(|error| self.cannot("write", key, error))?;
        if let Some(base) = &content.base {
            self.copy(base, &file, key)?;
        }
        let write = || match like.as_ref().is_some_and(has_holes) {
            true => {
                content.tail.iter().try_for_each(|part| sys.write_with_holes(&file, part))?;
                sys.end_here(&file)
            }
            false => content.tail.iter().try_for_each(|part| sys.write_all(&file, part)),
        };
        write().map_err(|error| self.cannot("write", key, error))?;
        let is_anew = like.is_none();
        if let Some(like) = like {
            attributes::copy(sys, &like, &file).map_err(|error| match error {
                Errno::PERM => ToolError::failed(format!(
                    "'{}' belongs to another user or group, which a change could not keep. Nothing was changed.",
                    crate::names::show(&self.host.shown(key))
                ))
                .hint("Ask the owner to change it, or write a new file under another name."),
                error => self.cannot("write", key, error),
            })?;
        }
        if let (true, Some(mode)) = (is_anew, content.mode) {
            let given = attributes::bring_back(sys, &file, mode & 0o1777, &content.had);
            let lacks = given.map_err(|error| self.cannot("write", key, error))?;
            self.lacks.extend(lacks.into_iter().map(|what| (key.clone(), what)));
        } else if let Some(mode) = content.mode {
            let set = || rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o1777));
            sys.call("chmod", set).map_err(|error| self.cannot("write", key, error))?;
        }
        let stat = rustix::fs::fstat(&file).map_err(|error| self.cannot("write", key, error))?;
        if stat.st_size.cast_unsigned() != content.len {
            return Err(refuse::raced(&self.host.shown(key)));
        }
        self.modes.insert(key.clone(), stat.st_mode & 0o7777);
        match self.unflushed.len() < MOST_UNFLUSHED {
            true => self.unflushed.push((key.clone(), file)),
            false => sys.sync(&file).map_err(|error| self.cannot("write", key, error))?,
        }
        Ok(())
    }

    /// Copies the content that a file had when it was looked at.
    fn copy(&self, base: &Key, to: &File, key: &Key) -> Result<(), ToolError> {
        let from = self.world.open_original(base)?;
        copy_all(&self.host.sys, &from, to, self.world.cancel).map_err(|error| match error {
            Errno::CANCELED => refuse::cancelled(),
            error => self.cannot("copy", key, error),
        })?;
        self.world.check(base, &from)
    }

    /// A temporary name in a directory that is there.
    pub(super) fn temp(&mut self, dir: &Key) -> Result<Spot, ToolError> {
        let root = self.host.roots.get(dir.root).and_then(|root| root.names.last());
        if let Some(root) = root {
            self.host.janitor.note(root, &dir.path)?;
        }
        let temp = Spot { dir: self.dir(dir)?, of: dir.clone(), name: self.host.janitor.name() };
        self.temps.push(temp.clone());
        Ok(temp)
    }

    /// Another temporary name beside one that is there.
    pub(super) fn another(&mut self, beside: &Spot) -> Spot {
        let (dir, of) = (Arc::clone(&beside.dir), beside.of.clone());
        let temp = Spot { dir, of, name: self.host.janitor.name() };
        self.temps.push(temp.clone());
        temp
    }

    /// The place of a path in its directory, which is there or is staged.
    pub(super) fn spot(&mut self, key: &Key) -> Result<Spot, ToolError> {
        let parent = key.parent().ok_or_else(|| ToolError::internal("A root has no directory."))?;
        let name = key.leaf().to_owned();
        if let Some(dir) = self.new_dirs.get(&parent) {
            return Ok(Spot { dir: Arc::clone(dir), of: parent, name });
        }
        Ok(Spot { dir: self.dir(&parent)?, of: parent, name })
    }

    fn dir(&mut self, key: &Key) -> Result<Arc<OwnedFd>, ToolError> {
        if let Some(dir) = self.dirs.get(key) {
            return Ok(Arc::clone(dir));
        }
        let dir = match self.host.open_dir_at(key) {
            Ok(dir) => Arc::new(dir),
            Err(Errno::LOOP | Errno::XDEV | Errno::NOENT | Errno::NOTDIR) => {
                return Err(refuse::raced(&self.host.shown(key)));
            }
            Err(error) => return Err(self.cannot("open", key, error)),
        };
        self.dirs.insert(key.clone(), Arc::clone(&dir));
        Ok(dir)
    }

    /// What the operating system refused.
    pub(super) fn cannot(&self, doing: &str, key: &Key, error: Errno) -> ToolError {
        let mut said = refuse::system(doing, &self.host.shown(key), error);
        said.message.push_str(" Nothing was changed.");
        said
    }
}

/// Whether a file takes less room than it is long.
fn has_holes(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_blocks * 512 < stat.st_size)
}

/// The files that only get another name: from where, by where to.
fn moves(plan: &Plan) -> BTreeMap<&Key, &Key> {
    let mut uses: BTreeMap<&Key, usize> = BTreeMap::new();
    for entry in plan.entries.values() {
        if let Now::File(Content { base: Some(base), .. }) = &entry.now {
            *uses.entry(base).or_default() += 1;
        }
    }
    let mut moves = BTreeMap::new();
    for (key, entry) in &plan.entries {
        let Now::File(Content { base: Some(base), tail, like, .. }) = &entry.now else { continue };
        let from_gone = plan.entries.get(base).is_some_and(|from| matches!(from.now, Now::Absent));
        let whole = tail.is_empty() && like.as_ref() == Some(base);
        if matches!(entry.was, There::Absent) && from_gone && whole && uses.get(base) == Some(&1) {
            moves.insert(key, base);
        }
    }
    moves
}

/// Copies a file from its start to its end; the file system shares the blocks where it can. A call that is taken back
/// meanwhile is the error `CANCELED`.
pub(super) fn copy_all(sys: &super::sys::Sys, from: &File, to: &File, cancel: &Cancel) -> Result<(), Errno> {
    let go_on = || if cancel.is_cancelled() { Err(Errno::CANCELED) } else { Ok(()) };
    const AT_ONCE: usize = 64 << 20;
    let mut at = 0_u64;
    loop {
        go_on()?;
        match sys.call("copy", || rustix::fs::copy_file_range(from, Some(&mut at), to, None, AT_ONCE)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) if at == 0 => {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut buffer = vec![0; 256 << 10];
    loop {
        go_on()?;
        let count = sys.call("read", || rustix::io::pread(from, &mut buffer[..], at))?;
        if count == 0 {
            return Ok(());
        }
        sys.write_all(to, &buffer[..count])?;
        at += count as u64;
    }
}
