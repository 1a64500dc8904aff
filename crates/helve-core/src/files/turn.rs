//! What is at a path as a whole, with bits and attributes, and paths that become something else.

use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Attributes, ContentId, Owner};
use crate::error::ToolError;

/// What was at a path before a commit.
pub enum Was<'a> {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A directory whose permission bits count.
    Folder {
        /// Its permission bits.
        mode: u32,
        /// Its extended attributes.
        attributes: Attributes,
    },
    /// A symbolic link.
    Link {
        /// What it leads to.
        target: &'a str,
    },
    /// A file.
    File {
        /// The hash of its bytes.
        id: &'a ContentId,
        /// Its bytes, to be read to their end, or not at all by who has the content of this hash already. Who reads them
        /// stops the commit if they have another hash: then the file was changed meanwhile.
        content: &'a mut dyn Read,
        /// How many.
        len: u64,
        /// Its permission bits.
        mode: u32,
        /// Its extended attributes; none where a file tool changes its content, which leaves them as they are.
        attributes: Attributes,
    },
}

/// What is at a path after a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A directory whose permission bits count.
    Folder {
        /// Its permission bits.
        mode: u32,
        /// Its extended attributes.
        #[serde(default, skip_serializing_if = "Attributes::is_none")]
        attributes: Attributes,
    },
    /// A symbolic link.
    Link {
        /// What it leads to.
        target: String,
    },
    /// A file.
    File {
        /// Its content.
        id: ContentId,
        /// Its permission bits.
        mode: u32,
        /// Its extended attributes; none where a file tool says it, which leaves them as they are.
        #[serde(default, skip_serializing_if = "Attributes::is_none")]
        attributes: Attributes,
    },
}

impl Is {
    /// The extended attributes that it says.
    pub fn attributes(&self) -> &Attributes {
        match self {
            Is::Folder { attributes, .. } | Is::File { attributes, .. } => attributes,
            Is::Absent | Is::Directory | Is::Link { .. } => &Attributes::NONE,
        }
    }

    /// Whether both say the same. A directory whose bits do not count is any directory.
    pub fn is_same(&self, other: &Is) -> bool {
        let is_dir = |is: &Is| matches!(is, Is::Directory | Is::Folder { .. });
        match (self, other) {
            (Is::Directory, other) => is_dir(other),
            (this, Is::Directory) => is_dir(this),
            (this, other) => this == other,
        }
    }
}

/// One path that becomes something else as a whole: what a command did to it in a layer, or what takes that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The path relative to the workspace.
    pub path: String,
    /// What has to be there; else it is a conflict, and nothing happens to any path. What is `to` already is no conflict.
    pub from: Is,
    /// What is there afterwards.
    pub to: Is,
    /// The time of its content afterwards, for a file.
    pub modified: Option<SystemTime>,
    /// Whose it is where it is made anew, as far as this process may give it away; the workspace's owner's if none is said.
    pub owner: Option<Owner>,
    /// What is to be said of other names of its file.
    pub names: Names,
}

/// What a file has to do with other paths: names of one file (hard links).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Another path of which this file is a second name afterwards: that of another turn, or one that nothing happens to.
    pub same_as: Option<String>,
    /// The number of the file at that path, where it has to be that one.
    pub inode: Option<u64>,
    /// Another path of which the file that is there is a second name. Where both have turns it is a conflict if it is not, or if
    /// there is a name that has none.
    pub was_same_as: Option<String>,
    /// Whether this is a file of its own afterwards, though it may hold what it held.
    pub apart: bool,
}

/// Where contents come from that [`Is::File`] names.
pub trait Contents: Send + Sync {
    /// Opens a content. What is read is compared with its hash by the reader.
    fn open(&self, id: &ContentId) -> Result<Box<dyn Read + Send>, ToolError>;
}

/// Turns that happen together or not at all.
#[derive(Clone)]
pub struct Turns {
    /// The paths, each once.
    pub turns: Vec<Turn>,
    /// The contents of files.
    pub contents: Arc<dyn Contents>,
    /// Whether a directory that is to go stays where something else is in it; otherwise that is a conflict.
    pub leave_used: bool,
}

/// What turns did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// The paths that are other than before.
    pub changed: Vec<String>,
    /// Directories that stay because something else is in them.
    pub left: Vec<String>,
}
