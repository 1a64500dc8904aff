//! What a commit will do, worked out before anything is done.
//!
//! In come the changes of a call and a [`World`] that says what is there; out goes a [`Plan`]: for every path what it
//! was and what it will be, and for every change what it did. Changes build on each other, so a path may be named more
//! than once; what counts in the end is the difference between before and after.
//!
//! The same planner serves the workspace on disk and the one in memory, so they agree. Deliberately not here: how a plan
//! is carried out (`host`, `memory`).

mod digest;
mod git;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::ToolError;
use helve_core::files::{Attributes, Changed, ContentId, Is, Owner, SeenFiles};

pub(crate) use digest::Digest;
pub(crate) use plan::{Judge, plan};

/// A path that is resolved: its root, and below it a path without `.`, `..`, or links.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Which root; 0 is the workspace.
    pub(crate) root: usize,
    /// The path below it; empty for the root itself.
    pub(crate) path: String,
}

impl Key {
    pub(crate) fn new(root: usize, parts: &[impl AsRef<str>]) -> Key {
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        Key { root, path: parts.join("/") }
    }

    /// The directory that it is in; none for a root.
    pub(crate) fn parent(&self) -> Option<Key> {
        if self.path.is_empty() {
            return None;
        }
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        Some(Key { root: self.root, path })
    }

    /// Its last name; empty for a root.
    pub(crate) fn leaf(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, leaf)| leaf)
    }

    /// A name in it.
    pub(crate) fn child(&self, name: &str) -> Key {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) };
        Key { root: self.root, path }
    }
}

/// What is at a path before a commit.
#[derive(Clone, Debug)]
pub(crate) enum There {
    Absent,
    Directory,
    File(Original),
}

/// A file before a commit.
#[derive(Clone, Debug)]
pub(crate) struct Original {
    pub(crate) id: ContentId,
    pub(crate) len: u64,
    /// Has taken in the whole content, so that it can go on with what is appended.
    pub(crate) hasher: Box<blake3::Hasher>,
}

impl Original {
    /// A file whose content a hasher has taken in.
    pub(crate) fn new(hasher: Box<blake3::Hasher>, len: u64) -> Original {
        Original { id: content_id(&hasher), len, hasher }
    }

    /// A file with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Original {
        let mut hasher = Box::new(blake3::Hasher::new());
        hasher.update(bytes);
        Original::new(hasher, bytes.len() as u64)
    }
}

/// What is there, as far as a plan has to know.
pub(crate) trait World {
    /// What is at a path. Links, devices and the like are errors.
    fn look(&mut self, key: &Key) -> Result<There, ToolError>;
    /// Whether anything at all is at a path.
    fn is_there(&mut self, key: &Key) -> bool;
    /// The first name in a directory that `gone` does not know.
    fn entry_besides(&mut self, key: &Key, gone: &dyn Fn(&str) -> bool) -> Result<Option<String>, ToolError>;
}

/// What is at a path after a commit.
#[derive(Clone, Debug)]
pub(crate) enum Now {
    Absent,
    Directory,
    File(Content),
}

/// A file after a commit: what some file held before, if any, and bytes behind it.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) digest: Arc<Digest>,
    pub(crate) len: u64,
    /// Whose old content comes first.
    pub(crate) base: Option<Key>,
    /// What follows.
    pub(crate) tail: Vec<Arc<Vec<u8>>>,
    /// Whose mode, owner and attributes it takes on.
    pub(crate) like: Option<Key>,
    /// The mode that it has instead.
    pub(crate) mode: Option<u32>,
    /// Of whom nothing is there that it takes on: what it had before it went.
    pub(crate) had: Rest,
}

/// What a file has besides its content and its bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest {
    pub(crate) attributes: Attributes,
    pub(crate) owner: Option<Owner>,
}

/// One path of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) was: There,
    pub(crate) now: Now,
}

/// What a commit will do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Every path that was looked at, whether it changes or not.
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// What each change did, in their order.
    outcomes: Vec<Outcome>,
}

/// What one change of a plan does.
#[derive(Debug)]
struct Outcome {
    path: String,
    before: Option<Arc<Digest>>,
    after: Option<Arc<Digest>>,
    len: u64,
}

impl Plan {
    /// The paths that differ afterwards.
    pub(crate) fn differing(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter().filter(|(key, entry)| entry.differs(key))
    }

    /// What each change did, in their order.
    pub(crate) fn changed(self) -> Vec<Changed> {
        let id = |digest: Option<Arc<Digest>>| digest.map(|digest| digest.id().clone());
        let told = |Outcome { path, before, after, len }| Changed {
            path,
            before: id(before),
            after: id(after),
            len,
        };
        self.outcomes.into_iter().map(told).collect()
    }

    /// The session has seen what it wrote.
    pub(crate) fn tell(&self, seen: &dyn SeenFiles, judge: &dyn Judge) {
        for (key, entry) in &self.entries {
            let shown = judge.shown(key);
            match (&entry.was, &entry.now) {
                (_, Now::File(content)) => {
                    let bytes = match (&content.base, content.tail.as_slice()) {
                        (None, [whole]) => Some(whole.as_slice()),
                        _ => None,
                    };
                    seen.saw(&shown, Some(content.digest.id()), bytes);
                }
                (There::File(_), Now::Absent) => seen.saw(&shown, None, None),
                _ => {}
            }
        }
    }
}

impl Entry {
    /// What the path will be, for the undo record; `mode` is that of a file.
    pub(crate) fn will_be(&self, mode: Option<u32>) -> Is {
        match &self.now {
            Now::Absent => Is::Absent,
            Now::Directory => Is::Directory,
            Now::File(content) => Is::File {
                id: content.digest.id().clone(),
                mode: mode.unwrap_or_default(),
                attributes: Attributes::NONE,
            },
        }
    }

    fn differs(&self, key: &Key) -> bool {
        match (&self.was, &self.now) {
            (There::Absent, Now::Absent) | (There::Directory, Now::Directory) => false,
            (There::File(was), Now::File(now)) => {
                // The lengths first: with another one the hash need not be known yet.
                now.like.as_ref() != Some(key)
                    || now.mode.is_some()
                    || was.len != now.len
                    || was.id != *now.digest.id()
            }
            _ => true,
        }
    }
}

/// The name of a finished hash.
pub(crate) fn content_id(hasher: &blake3::Hasher) -> ContentId {
    ContentId(format!("b3:{}", hasher.finalize().to_hex()))
}

/// The name of some bytes.
pub(crate) fn id_of(bytes: &[u8]) -> ContentId {
    ContentId(format!("b3:{}", blake3::hash(bytes).to_hex()))
}
