//! Files in memory, with the same behaviour as the workspace on disk: for tests of tools, and for tools that need no disk.
//!
//! In comes a map of paths and bytes; out goes a bridge. What a commit does is planned by the same planner, and what must
//! not be read or written is judged by the same rules. There are no links and no owners.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use helve_core::files::{
    Attributes, Change, Changed, ContentId, FileContent, FileEntry, FileKind, FileStat, Files, FilesBridge,
    FilesPlace, FilesScope, ListRequest, Listed, Page, PageRequest, PathRules, SearchRequest, Searched, Seen,
    WalkRequest, Walked, Was,
};
use helve_core::{BoxFuture, ToolError};

use crate::commit::{self, Content, Judge, Key, Now, Original, Plan, There, World};
use crate::rules::Rules;
use crate::seek::{self, Ignores, MemoryEntry, MemoryTree};
use crate::{names, page, refuse};

/// The mode of a new file.
const FILE_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

/// A bridge to these files. Their paths are relative; directories above them are there too.
pub fn memory(files: BTreeMap<String, Vec<u8>>, rules: PathRules) -> Result<Arc<dyn FilesBridge>, ToolError> {
    let mut tree = BTreeMap::new();
    tree.insert(String::new(), Node::Directory);
    for (path, bytes) in files {
        let key = match (path.starts_with('/'), names::parts(&path)) {
            (false, Some(parts)) => Key::new(0, &parts),
            _ => return Err(refuse::outside(&path)),
        };
        let mut above = key.parent();
        while let Some(dir) = above {
            above = dir.parent();
            tree.insert(dir.path, Node::Directory);
        }
        let file = Node::File { bytes: Arc::new(bytes), mode: FILE_MODE, modified: SystemTime::now() };
        tree.insert(key.path, file);
    }
    let memory = Memory { tree: Mutex::new(tree), rules: Rules::new(rules)? };
    Ok(Arc::new(Bridge(Arc::new(memory))))
}

struct Bridge(Arc<Memory>);

struct Memory {
    tree: Mutex<Tree>,
    rules: Rules,
}

type Tree = BTreeMap<String, Node>;

#[derive(Clone)]
enum Node {
    Directory,
    File { bytes: Arc<Vec<u8>>, mode: u32, modified: SystemTime },
}

impl FilesBridge for Bridge {
    fn place(&self) -> FilesPlace {
        FilesPlace::Memory
    }

    fn scoped(&self, scope: FilesScope) -> Arc<dyn Files> {
        Arc::new(Handle { memory: Arc::clone(&self.0), scope })
    }
}

struct Handle {
    memory: Arc<Memory>,
    scope: FilesScope,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Handle {
    /// What is at a path; none if nothing is.
    fn find(&self, path: &str) -> Result<Option<(String, Node)>, ToolError> {
        let (_, relative) = self.locate(path)?;
        let parts = names::parts(&relative).ok_or_else(|| refuse::outside(path))?;
        let key = Key::new(0, &parts);
        self.memory.rules.check_read(&key.path, &key.path, false)?;
        let tree = self.memory.lock();
        if !is_way(&tree, &relative) {
            return Ok(None);
        }
        let Some(node) = tree.get(&key.path).cloned() else { return Ok(None) };
        self.memory.rules.check_read(&key.path, &key.path, matches!(node, Node::Directory))?;
        Ok(Some((key.path, node)))
    }

    fn read_now(&self, path: &str, max: u64) -> Result<FileContent, ToolError> {
        let (found, node) = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let stat = node.stat();
        let Node::File { bytes, .. } = node else { return Err(refuse::directory(path)) };
        if stat.len > max {
            return Err(refuse::too_large(path, stat.len, max));
        }
        let id = commit::id_of(&bytes);
        if let Some(seen) = &self.scope.seen {
            seen.saw(&found, Some(&id), Some(&bytes));
        }
        Ok(FileContent { bytes: bytes.to_vec(), id, stat, path: found })
    }

    fn list_now(&self, request: &ListRequest) -> Result<Listed, ToolError> {
        let ListRequest { path, after, limit, hidden, obey_ignore } = request;
        let (found, node) = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        if !matches!(node, Node::Directory) {
            return Err(refuse::not_directory(path));
        }
        let tree = self.memory.lock();
        let ignores = match obey_ignore {
            true => Ignores::of_memory(&MemoryTree::new(entries(&tree), &found))?,
            false => Ignores::default(),
        };
        let dir = Key { root: 0, path: found };
        let (mut entries, mut ignored) = (Vec::new(), 0);
        for (name, node) in children(&tree, &dir.path) {
            let (path, is_dir) = (dir.child(name).path.into_bytes(), matches!(node, Node::Directory));
            let before = after.as_ref().is_some_and(|after| name <= after.as_str());
            let passed_over = !hidden && name.starts_with('.');
            if before || passed_over || self.memory.rules.denies_entry(&path, is_dir) {
                continue;
            }
            if ignores.leave_out(&path, is_dir) {
                ignored += 1;
                continue;
            }
            let stat = node.stat();
            entries.push(FileEntry { path: name.to_owned(), kind: stat.kind, stat: Some(stat) });
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let more = entries.len() > *limit;
        entries.truncate(*limit);
        Ok(Listed { entries, more, ignored: if more { 0 } else { ignored } })
    }

    fn page_now(&self, request: &PageRequest) -> Result<Page, ToolError> {
        let path = &request.path;
        let (found, node) = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let stat = node.stat();
        let Node::File { bytes, .. } = node else { return Err(refuse::directory(path)) };
        let page = page::page(&bytes.as_slice(), found.clone(), stat, request)?;
        if let (true, Some(id), Some(seen)) = (page::shows_all(&page, request), &page.id, &self.scope.seen) {
            seen.saw(&found, Some(id), Some(&bytes));
        }
        Ok(page)
    }

    fn walk_now(&self, request: &WalkRequest) -> Result<Walked, ToolError> {
        let (found, node) = self.find(&request.path)?.ok_or_else(|| refuse::missing(&request.path))?;
        if !matches!(node, Node::Directory) {
            return Err(refuse::not_directory(&request.path));
        }
        let tree = self.memory.lock();
        let tree = MemoryTree::new(entries(&tree), &found);
        let rules = self.memory.rules.leaving_out(&self.scope.left_out, &found)?;
        seek::walk_memory(&tree, &rules, request, &self.scope.cancel)
    }

    fn search_now(&self, request: &SearchRequest) -> Result<Searched, ToolError> {
        let (found, node) = self.find(&request.path)?.ok_or_else(|| refuse::missing(&request.path))?;
        if let Node::File { bytes, .. } = node {
            return seek::search_bytes(&bytes, found, request, &self.scope.cancel);
        }
        let tree = self.memory.lock();
        let tree = MemoryTree::new(entries(&tree), &found);
        let rules = self.memory.rules.leaving_out(&self.scope.left_out, &found)?;
        seek::search_memory(&tree, &rules, request, &self.scope.cancel)
    }

    fn commit_now(&self, changes: Vec<Change>, rehearse: bool) -> Result<Vec<Changed>, ToolError> {
        if self.scope.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let mut tree = self.memory.lock();
        let plan = commit::plan(changes, &mut Present(&tree), self)?;
        if rehearse {
            return Ok(plan.changed());
        }
        if plan.differing().next().is_some() {
            let kept = self.keep(&plan, &tree);
            if let Some(undo) = &self.scope.undo {
                undo.done(kept.is_ok());
            }
            kept?;
            *tree = changed(&plan, &tree);
        }
        drop(tree);
        if let Some(seen) = &self.scope.seen {
            plan.tell(&**seen, self);
        }
        Ok(plan.changed())
    }

    fn keep(&self, plan: &Plan, tree: &Tree) -> Result<(), ToolError> {
        let Some(undo) = &self.scope.undo else { return Ok(()) };
        for (key, entry) in plan.differing() {
            let mode = match &entry.now {
                Now::File(content) => Some(mode_of(tree, content)),
                Now::Absent | Now::Directory => None,
            };
            let will_be = entry.will_be(mode);
            match tree.get(&key.path) {
                None => undo.before(&key.path, Was::Absent, &will_be)?,
                Some(Node::Directory) => undo.before(&key.path, Was::Directory, &will_be)?,
                Some(Node::File { bytes, mode, .. }) => {
                    let (len, content) = (bytes.len() as u64, &mut bytes.as_slice());
                    let id = &commit::id_of(bytes);
                    undo.before(
                        &key.path,
                        Was::File { id, content, len, mode: *mode, attributes: Attributes::NONE },
                        &will_be,
                    )?;
                }
            }
        }
        undo.ready()
    }
}

/// The tree after a plan.
fn changed(plan: &Plan, tree: &Tree) -> Tree {
    let mut new = tree.clone();
    for (key, entry) in plan.differing() {
        match &entry.now {
            Now::Absent => {
                new.remove(&key.path);
            }
            Now::Directory => {
                new.insert(key.path.clone(), Node::Directory);
            }
            Now::File(content) => {
                let mut bytes = match content.base.as_ref().and_then(|base| tree.get(&base.path)) {
                    Some(Node::File { bytes, .. }) => bytes.to_vec(),
                    _ => Vec::new(),
                };
                for part in &content.tail {
                    bytes.extend_from_slice(part);
                }
                let file = Node::File {
                    bytes: Arc::new(bytes),
                    mode: mode_of(tree, content),
                    modified: SystemTime::now(),
                };
                new.insert(key.path.clone(), file);
            }
        }
    }
    new
}

fn mode_of(tree: &Tree, content: &Content) -> u32 {
    if let Some(mode) = content.mode {
        return mode & 0o1777;
    }
    match content.like.as_ref().and_then(|like| tree.get(&like.path)) {
        Some(Node::File { mode, .. }) => *mode,
        _ => FILE_MODE,
    }
}

/// The tree as walks see it; the root itself is no entry.
fn entries(tree: &Tree) -> BTreeMap<&str, MemoryEntry<'_>> {
    let named = tree.iter().filter(|(path, _)| !path.is_empty());
    named.map(|(path, node)| (path.as_str(), node.entry())).collect()
}

/// Whether every part of a path but its last is a directory, also those that a `..` leaves again.
fn is_way(tree: &Tree, relative: &str) -> bool {
    let mut at = Key::new(0, &[""; 0]);
    let mut parts = relative.split('/').peekable();
    while let Some(part) = parts.next() {
        match part {
            "" | "." => {}
            ".." => match at.parent() {
                Some(parent) => at = parent,
                None => return false,
            },
            part => at = at.child(part),
        }
        if parts.peek().is_some() && !matches!(tree.get(&at.path), Some(Node::Directory)) {
            return false;
        }
    }
    true
}

/// The names in a directory.
fn children<'a>(tree: &'a Tree, dir: &str) -> impl Iterator<Item = (&'a str, &'a Node)> {
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let from = (Bound::Excluded(prefix.clone()), Bound::Unbounded);
    let own = prefix.clone();
    tree.range(from)
        .take_while(move |(path, _)| path.starts_with(&prefix))
        .map(move |(path, node)| (&path[own.len()..], node))
        .filter(|(name, _)| !name.contains('/'))
}

/// What is there, for the planner.
struct Present<'a>(&'a Tree);

impl World for Present<'_> {
    fn look(&mut self, key: &Key) -> Result<There, ToolError> {
        Ok(match self.0.get(&key.path) {
            None => There::Absent,
            Some(Node::Directory) => There::Directory,
            Some(Node::File { bytes, .. }) => There::File(Original::of(bytes)),
        })
    }

    fn is_there(&mut self, key: &Key) -> bool {
        self.0.contains_key(&key.path)
    }

    fn entry_besides(&mut self, key: &Key, gone: &dyn Fn(&str) -> bool) -> Result<Option<String>, ToolError> {
        let mut names = children(self.0, &key.path);
        Ok(names.find(|(name, _)| !gone(name)).map(|(name, _)| name.to_owned()))
    }
}

impl Judge for Handle {
    fn locate(&self, path: &str) -> Result<(usize, String), ToolError> {
        match names::asked(path)? {
            names::Asked::Relative(relative) if names::parts(relative).is_some() => {
                Ok((0, relative.to_owned()))
            }
            _ => Err(refuse::outside(path)),
        }
    }

    fn shown(&self, key: &Key) -> String {
        key.path.clone()
    }

    fn check_write(&self, key: &Key) -> Result<(), ToolError> {
        self.memory.rules.check_write(&key.path, &key.path, &self.scope.agreed)
    }

    fn may_name(&self, key: &Key) -> bool {
        let open = |is_dir| self.memory.rules.check_read(&key.path, &key.path, is_dir).is_ok();
        open(false) && open(true)
    }

    fn may_change_git(&self, key: &Key) -> bool {
        self.memory.rules.may_change_git(&key.path, &self.scope.agreed)
    }

    fn last_seen(&self, shown: &str) -> Option<ContentId> {
        Some(self.scope.seen.as_ref()?.last(shown)?.id)
    }
}

impl Node {
    fn entry(&self) -> MemoryEntry<'_> {
        match self {
            Node::Directory => MemoryEntry::Directory,
            Node::File { bytes, .. } => MemoryEntry::File { bytes: bytes.as_slice(), stat: self.stat() },
        }
    }

    fn stat(&self) -> FileStat {
        match self {
            Node::Directory => FileStat { kind: FileKind::Directory, len: 0, modified: None, mode: DIR_MODE },
            Node::File { bytes, mode, modified } => FileStat {
                kind: FileKind::File,
                len: bytes.len() as u64,
                modified: Some(*modified),
                mode: *mode,
            },
        }
    }
}

impl Files for Handle {
    fn place(&self) -> FilesPlace {
        FilesPlace::Memory
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        Box::pin(async move { Ok(self.find(path)?.map(|(_, node)| node.stat())) })
    }

    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        Box::pin(async move { self.read_now(path, max) })
    }

    fn page<'a>(&'a self, request: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        Box::pin(async move { self.page_now(request) })
    }

    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        Box::pin(async move { self.list_now(request) })
    }

    fn walk<'a>(&'a self, request: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        Box::pin(async move { self.walk_now(request) })
    }

    fn search<'a>(&'a self, request: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        Box::pin(async move { self.search_now(request) })
    }

    fn commit(&self, changes: Vec<Change>, rehearse: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        Box::pin(async move { self.commit_now(changes, rehearse) })
    }

    fn last_seen(&self, path: &str) -> Option<Seen> {
        let (_, relative) = self.locate(path).ok()?;
        let key = Key::new(0, &names::parts(&relative)?);
        self.scope.seen.as_ref()?.last(&key.path)
    }
}
