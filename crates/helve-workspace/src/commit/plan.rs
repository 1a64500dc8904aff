//! From changes to a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::files::{Act, Change, ContentId, Expect};
use helve_core::limits::fixed::CHANGES;
use helve_core::{ErrorKind, ToolError};

use super::{Content, Digest, Entry, Key, Now, Outcome, Plan, Rest, There, World};
use crate::names::{has_control, show};
use crate::refuse;

/// What a plan needs to know besides what is there.
pub(crate) trait Judge {
    /// Where the text of a path leads, with its `..` still in it: a root and what is below it.
    fn locate(&self, path: &str) -> Result<(usize, String), ToolError>;
    /// A path for people and for the record.
    fn shown(&self, key: &Key) -> String;
    /// Refuses a path that must not be changed.
    fn check_write(&self, key: &Key) -> Result<(), ToolError>;
    /// Whether a path is not closed to tools, so that it may be named.
    fn may_name(&self, key: &Key) -> bool;
    /// Whether what git obeys may be changed at a path.
    fn may_change_git(&self, key: &Key) -> bool;
    /// What the session last saw of a path.
    fn last_seen(&self, shown: &str) -> Option<ContentId>;
}

/// Works out what the changes will do. Nothing is changed.
pub(crate) fn plan(
    changes: Vec<Change>,
    world: &mut dyn World,
    judge: &dyn Judge,
) -> Result<Plan, ToolError> {
    if changes.len() > CHANGES {
        let message =
            format!("{} changes at once are too many; at most {CHANGES} are possible.", changes.len());
        return Err(ToolError::new(ErrorKind::TooLarge, message).hint("Split them into several calls."));
    }
    let mut planner = Planner { world: &mut *world, judge, entries: BTreeMap::new() };
    let mut outcomes = Vec::with_capacity(changes.len());
    for change in changes {
        outcomes.push(planner.take(change)?);
    }
    let plan = Plan { entries: planner.entries, outcomes };
    super::git::check(&plan, world, judge)?;
    Ok(plan)
}

struct Planner<'a> {
    world: &'a mut dyn World,
    judge: &'a dyn Judge,
    entries: BTreeMap<Key, Entry>,
}

impl Planner<'_> {
    fn take(&mut self, change: Change) -> Result<Outcome, ToolError> {
        let is_dir = matches!(change.act, Act::Mkdirp | Act::Remove);
        let key = self.resolve(&change.path, is_dir)?;
        let shown = self.judge.shown(&key);
        if key.path.is_empty() && !matches!(change.act, Act::Mkdirp) {
            return Err(refuse::directory(&shown));
        }
        if !key.path.is_empty() {
            self.judge.check_write(&key)?;
        }
        self.check_expect(&key, &shown, &change.expect)?;
        let before = match &self.entry(&key)?.now {
            Now::File(content) => Some(Arc::clone(&content.digest)),
            Now::Absent | Now::Directory => None,
        };
        let target = match change.act {
            Act::Put(bytes) => {
                let like = self.take_file(&key)?.and_then(|old| old.like);
                self.put(&key, Content::of(bytes, like))?;
                key
            }
            Act::Restore { content, mode, attributes, owner } => {
                let like = self.take_file(&key)?.and_then(|old| old.like);
                let content = Content::of(Arc::new(content), like);
                self.put(&key, Content { mode: Some(mode), had: Rest { attributes, owner }, ..content })?;
                key
            }
            Act::Append(bytes) => {
                let content = match self.take_file(&key)? {
                    Some(old) => old.followed_by(bytes),
                    None => Content::of(Arc::new(bytes), None),
                };
                self.put(&key, content)?;
                key
            }
            Act::Remove => {
                self.remove(&key, &shown)?;
                key
            }
            Act::Move { to, content } => self.relocate(&key, &shown, &to, content)?,
            Act::Mkdirp => {
                self.make_directories(&key)?;
                key
            }
        };
        let (after, len) = match &self.entry(&target)?.now {
            Now::File(content) => (Some(Arc::clone(&content.digest)), content.len),
            Now::Absent | Now::Directory => (None, 0),
        };
        Ok(Outcome { path: self.judge.shown(&target), before, after, len })
    }

    /// The resolved path of a text. A `..` in it must leave a directory that is there.
    fn resolve(&mut self, path: &str, may_be_dir: bool) -> Result<Key, ToolError> {
        let (root, relative) = self.judge.locate(path)?;
        let mut parts: Vec<&str> = Vec::new();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    let key = Key::new(root, &parts);
                    match self.world.look(&key)? {
                        There::Directory => {}
                        There::File(_) => return Err(refuse::not_directory(&self.judge.shown(&key))),
                        There::Absent => return Err(refuse::missing(&self.judge.shown(&key))),
                    }
                    if parts.pop().is_none() {
                        return Err(refuse::outside(path));
                    }
                }
                part => parts.push(part),
            }
        }
        if !may_be_dir && (relative.ends_with('/') || relative.ends_with("/.")) {
            let message =
                format!("The path '{}' ends as one of a directory does; a file's was expected.", show(path));
            return Err(ToolError::new(ErrorKind::InvalidParams, message).hint("Add the name of the file."));
        }
        Ok(Key::new(root, &parts))
    }

    /// What is known of a path, looked up when it is first asked for.
    fn entry(&mut self, key: &Key) -> Result<&mut Entry, ToolError> {
        if !self.entries.contains_key(key) {
            let was = self.world.look(key)?;
            let now = match &was {
                There::Absent => Now::Absent,
                There::Directory => Now::Directory,
                There::File(file) => Now::File(Content {
                    digest: Arc::new(Digest::known(file)),
                    len: file.len,
                    base: Some(key.clone()),
                    tail: Vec::new(),
                    like: Some(key.clone()),
                    mode: None,
                    had: Rest::default(),
                }),
            };
            self.entries.insert(key.clone(), Entry { was, now });
        }
        self.entries.get_mut(key).ok_or_else(|| ToolError::internal("A path of a commit was lost."))
    }

    /// Takes away the file at a path, if something is there; an error if that is a directory.
    fn take_file(&mut self, key: &Key) -> Result<Option<Content>, ToolError> {
        let entry = self.entry(key)?;
        if matches!(entry.now, Now::Directory) {
            return Err(refuse::directory(&self.judge.shown(key)));
        }
        match std::mem::replace(&mut entry.now, Now::Absent) {
            Now::File(content) => Ok(Some(content)),
            Now::Absent | Now::Directory => Ok(None),
        }
    }

    fn put(&mut self, key: &Key, content: Content) -> Result<(), ToolError> {
        if let Some(parent) = key.parent() {
            self.make_directories(&parent)?;
        }
        let shown = self.judge.shown(key);
        let entry = self.entry(key)?;
        match (&entry.was, &entry.now) {
            (There::Directory, Now::Absent) => return Err(other_kind(&shown)),
            (There::Absent, Now::Absent) if has_control(key.leaf()) => return Err(control(&shown)),
            _ => {}
        }
        entry.now = Now::File(content);
        Ok(())
    }

    /// The directory and those above it exist then.
    fn make_directories(&mut self, key: &Key) -> Result<(), ToolError> {
        // Upwards to the first that is there.
        let mut missing = Vec::new();
        let mut at = Some(key.clone());
        while let Some(key) = at {
            let entry = self.entry(&key)?;
            match (&entry.was, &entry.now) {
                (_, Now::Directory) => break,
                (_, Now::File(_)) => return Err(refuse::not_directory(&self.judge.shown(&key))),
                (There::File(_), Now::Absent) => return Err(other_kind(&self.judge.shown(&key))),
                (_, Now::Absent) => {}
            }
            at = key.parent();
            missing.push(key);
        }
        for key in missing {
            if has_control(key.leaf()) {
                return Err(control(&self.judge.shown(&key)));
            }
            self.entry(&key)?.now = Now::Directory;
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key, shown: &str) -> Result<(), ToolError> {
        match self.entry(key)?.now {
            Now::Absent => return Err(refuse::missing(shown)),
            Now::File(_) => {}
            Now::Directory => self.check_empty(key, shown)?,
        }
        self.entry(key)?.now = Now::Absent;
        Ok(())
    }

    fn check_empty(&mut self, key: &Key, shown: &str) -> Result<(), ToolError> {
        let entries = &self.entries;
        let is_gone =
            |name: &str| entries.get(&key.child(name)).is_some_and(|one| matches!(one.now, Now::Absent));
        let mut left = match self.entries.get(key).map(|entry| &entry.was) {
            Some(There::Directory) => self.world.entry_besides(key, &is_gone)?,
            _ => None,
        };
        if left.is_none() {
            let first = key.child("");
            let below = entries
                .range(first.clone()..)
                .take_while(|(one, _)| one.root == first.root && one.path.starts_with(&first.path));
            let new = below.into_iter().find(|(_, entry)| !matches!(entry.now, Now::Absent));
            left = new.map(|(one, _)| one.path[first.path.len()..].to_owned());
        }
        match left {
            None => Ok(()),
            Some(name) if self.judge.may_name(&key.child(&name)) => Err(ToolError::failed(format!(
                "The directory '{}' is not empty: '{}' is in it.",
                show(shown),
                show(&name)
            ))
            .hint("Remove what is in it first.")),
            Some(_) => Err(ToolError::failed(format!(
                "The directory '{}' is not empty: something is in it that is closed to tools.",
                show(shown)
            ))),
        }
    }

    fn relocate(
        &mut self,
        from: &Key,
        shown: &str,
        to: &str,
        content: Option<Vec<u8>>,
    ) -> Result<Key, ToolError> {
        let Some(old) = self.take_file(from)? else { return Err(refuse::missing(shown)) };
        let target = self.resolve(to, false)?;
        let target_shown = self.judge.shown(&target);
        if target.path.is_empty() {
            return Err(refuse::directory(&target_shown));
        }
        self.judge.check_write(&target)?;
        let moved = match content {
            Some(bytes) => Content::of(Arc::new(bytes), old.like),
            None => old,
        };
        if !matches!(self.entry(&target)?.now, Now::Absent) {
            return Err(taken(&target_shown));
        }
        self.put(&target, moved)?;
        Ok(target)
    }

    fn check_expect(&mut self, key: &Key, shown: &str, expect: &Expect) -> Result<(), ToolError> {
        let now = match expect {
            Expect::Any => return Ok(()),
            _ => &self.entry(key)?.now,
        };
        let present = match now {
            Now::Absent => None,
            Now::Directory => Some(None),
            Now::File(content) => Some(Some(content.digest.id().clone())),
        };
        match (expect, present) {
            (Expect::Any, _) | (Expect::Absent | Expect::AsSeen, None) => Ok(()),
            (Expect::Absent, Some(_)) => Err(taken(shown)),
            (Expect::Content(_), None) => Err(stale(shown, "is no longer there")),
            (Expect::Content(wanted), Some(id)) if id.as_ref() == Some(wanted) => Ok(()),
            (Expect::Content(_), Some(_)) => Err(stale(shown, "has changed since it was read")),
            (Expect::AsSeen, Some(id)) => match self.judge.last_seen(shown) {
                Some(seen) if id.as_ref() != Some(&seen) => {
                    Err(stale(shown, "has changed since you last read or wrote it"))
                }
                _ => Ok(()),
            },
        }
    }
}

impl Content {
    fn of(bytes: Arc<Vec<u8>>, like: Option<Key>) -> Content {
        let len = bytes.len() as u64;
        let digest = Arc::new(Digest::of(Arc::clone(&bytes)));
        Content { digest, len, base: None, tail: vec![bytes], like, mode: None, had: Rest::default() }
    }

    fn followed_by(mut self, bytes: Vec<u8>) -> Content {
        self.digest = Arc::new(self.digest.followed_by(&bytes));
        self.len += bytes.len() as u64;
        self.tail.push(Arc::new(bytes));
        self
    }
}

fn taken(shown: &str) -> ToolError {
    let message = format!("'{}' is already there. Nothing was changed.", show(shown));
    ToolError::new(ErrorKind::Conflict, message).hint("Use another path, or change the file that is there.")
}

fn stale(shown: &str, what: &str) -> ToolError {
    let message = format!("'{}' {what}. Nothing was changed.", show(shown));
    ToolError::new(ErrorKind::Conflict, message)
        .hint("Read it again, then make the change to what is there now.")
}

fn other_kind(shown: &str) -> ToolError {
    let message =
        format!("'{}' cannot turn from a file into a directory, or back, in one step.", show(shown));
    ToolError::failed(message).hint("Remove it in one call and make the new one in the next.")
}

fn control(shown: &str) -> ToolError {
    let message =
        format!("The name '{}' contains a control character, and no file is made with one.", show(shown));
    ToolError::new(ErrorKind::InvalidParams, message).hint("Use letters, digits, '-', '_' and '.' in names.")
}
