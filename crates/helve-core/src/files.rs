//! The bridge to a file system: one trait, so that the same tools work on the host's workspace, inside a sandbox, or in
//! memory.
//!
//! Paths are UTF-8 text as a model writes them: relative to the workspace, or absolute below it or below an extra root. A
//! bridge resolves them by itself, once, and acts on what it has opened. What leads outside is `blocked`, what is not
//! there `not_found`, what is neither a file nor a directory is refused without being opened.
//!
//! Every change goes through [`Files::commit`]: all of its changes happen or none, each file is its old or its new self
//! at any moment, and what was there before is given to the call's [`UndoSink`] first. `write`, `mkdirp`, `remove` and
//! `rename` are short ways to say it.
//!
//! | module | what it holds |
//! |---|---|
//! | `attributes` | extended attributes: [`Attributes`] |
//! | `page` | a window of a file as text: [`PageRequest`], [`Page`] |
//! | `seek` | what is below a directory: [`ListRequest`], [`WalkRequest`], [`SearchRequest`] and their answers |
//! | `turn` | what is at a path as a whole, and what it becomes: [`Is`], [`Was`], [`Turn`] |
//!
//! Deliberately not here: which paths a call may touch (policy), and how anything is shown to a model (tools).

mod attributes;
mod page;
mod seek;
mod turn;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::error::{ErrorKind, ToolError};
use crate::lane::BoxFuture;

pub use attributes::{ACCESS_LIST, Attributes, DEFAULT_LIST, OF_USERS, Owner};
pub use page::{Encoding, Endings, Page, PageEnd, PageRequest, PageStart, Shape};
pub use seek::{
    CaseMode, FileHits, HitLine, Kinds, ListRequest, Listed, SearchMode, SearchRequest, Searched,
    WalkRequest, Walked,
};
pub use turn::{Contents, Is, Names, Turn, Turned, Turns, Was};

/// Where the files of a bridge are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesPlace {
    /// The workspace on this machine, through its handle.
    Host,
    /// Inside a sandbox.
    Sandbox,
    /// In this process's memory.
    Memory,
}

/// What a name in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, where it is not followed.
    Link,
    /// A device, a FIFO or a socket: never opened.
    Other,
}

/// The content of a file by its hash: `b3:` and 64 hexadecimal digits of BLAKE3.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentId(pub String);

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub len: u64,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
    /// The permission bits, such as 0o644.
    pub mode: u32,
}

/// One entry of a directory, or one path that a walk found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The name in [`Files::list`]; the path relative to the workspace in [`Files::walk`].
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// The rest, where it was asked for.
    pub stat: Option<FileStat>,
}

/// The whole content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its hash, for [`Expect::Content`].
    pub id: ContentId,
    /// What is known of it.
    pub stat: FileStat,
    /// Its path relative to the workspace, as the bridge resolved it without following a final link.
    pub path: String,
}

/// What must be so for a change to happen; else the whole commit is a `conflict`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Anything.
    Any,
    /// Nothing is there.
    Absent,
    /// A file with this content is there.
    Content(ContentId),
    /// A file is there that this session has not seen with another content: the one that it last read or wrote, or one
    /// that it never did. What is not there is fine too.
    AsSeen,
}

/// What happens to one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// The file has this content afterwards. Directories above it are made. Mode and owner of a file that is there are
    /// kept. The content is shared, so that a tool that needs it later need not copy it.
    Put(Arc<Vec<u8>>),
    /// The same with these permission bits: what an undo puts back.
    Restore {
        /// The content.
        content: Vec<u8>,
        /// The permission bits; those that let a file act for its owner are left out.
        mode: u32,
        /// The extended attributes that it gets if no file is there.
        attributes: Attributes,
        /// Whose it is then, if it is said.
        owner: Option<Owner>,
    },
    /// The file is longer by these bytes; it is made if it is not there.
    Append(Vec<u8>),
    /// The file, or the empty directory, is gone.
    Remove,
    /// The file has another path, where nothing may be, and this content if some is given.
    Move {
        /// Where to.
        to: String,
        /// The new content.
        content: Option<Vec<u8>>,
    },
    /// The directory and those above it exist.
    Mkdirp,
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: String,
    /// What happens to it.
    pub act: Act,
    /// What must be so.
    pub expect: Expect,
}

/// What a commit did to one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The path relative to the workspace, after a move the new one.
    pub path: String,
    /// The content before; none if it was not there, or was a directory.
    pub before: Option<ContentId>,
    /// The content afterwards; none if it is not there, or is a directory.
    pub after: Option<ContentId>,
    /// Bytes afterwards.
    pub len: u64,
}

/// Why a commit with [`Expect::AsSeen`] or [`Expect::Content`] did not happen, for the tool to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What the session last saw, as far as it is kept.
    pub content: Option<Vec<u8>>,
    /// Its hash.
    pub id: ContentId,
}

/// What one session has seen of files: what it read, and what it wrote. The runtime keeps one for all calls of a session.
pub trait SeenFiles: Send + Sync {
    /// What was last seen of a path, if anything.
    fn last(&self, path: &str) -> Option<Seen>;
    /// The session has now seen this content of the path; none if it saw that nothing is there. `bytes` are given where
    /// they are at hand, so that a later conflict can be shown.
    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>);
    /// What was at a path before the session's last change to it, if that change left the content `now` there, and what
    /// it replaced is kept and has at most `max` bytes.
    fn former(&self, _path: &str, _now: &ContentId, _max: u64) -> Option<Vec<u8>> {
        None
    }
}

/// Takes what is needed to undo a call. The runtime makes one for each call that may change files.
pub trait UndoSink: Send + Sync {
    /// May be given the content of a file before [`UndoSink::before`] tells the same of its path, while the new content
    /// is on its way to the disk. The same holds for it as for [`Was::File`]; who does nothing here reads it there.
    fn ahead(&self, _id: &ContentId, _content: &mut dyn Read, _len: u64) -> Result<(), ToolError> {
        Ok(())
    }
    /// Before anything changes, once for each path of a commit, with what it will be. An error stops the commit.
    fn before(&self, path: &str, was: Was<'_>, will_be: &Is) -> Result<(), ToolError>;
    /// After [`UndoSink::before`]: what is at a path is a second name of the file at another path, which has this number.
    fn second_name(&self, _path: &str, _of: &str, _inode: u64) {}
    /// After [`UndoSink::before`]: what will be at a path is a second name of the file at another path.
    fn will_be_second_name(&self, _path: &str, _of: &str) {}
    /// After [`UndoSink::before`]: whose what is at a path is, where it goes.
    fn owned(&self, _path: &str, _owner: Owner) {}
    /// What was made anew at a path could not be given this of what it stands for. Told before [`UndoSink::done`].
    fn lacks(&self, _path: &str, _what: &str) {}
    /// All paths of this commit were told: make them durable. An error stops the commit.
    fn ready(&self) -> Result<(), ToolError>;
    /// The commit happened, or nothing of it did. Not called where part of it happened and could not be taken back.
    fn done(&self, happened: bool);
}

/// A directory besides the workspace that file tools may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraRoot {
    /// Its absolute path.
    pub path: PathBuf,
    /// Whether files in it may be changed.
    pub write: bool,
}

/// What the policy says about paths, for every file tool and every bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRules {
    /// Directories besides the workspace.
    pub roots: Vec<ExtraRoot>,
    /// Patterns of paths, in the syntax of `.gitignore`, that no tool reads, names, looks into or searches.
    pub deny_read: Vec<String>,
    /// Names that are not written at any depth unless the owner agreed; see [`crate::protected`].
    pub protected: Vec<String>,
    /// Whether nothing at all may be changed.
    pub read_only: bool,
    /// Whether files with more than one name are read and replaced; their other names may lie anywhere.
    pub hard_links: bool,
    /// Bytes that a tool may hold of one file at a time.
    pub max_file_bytes: u64,
}

/// The workspace alone, nothing denied in it but to write the protected names.
impl Default for PathRules {
    fn default() -> Self {
        PathRules {
            roots: Vec::new(),
            deny_read: Vec::new(),
            protected: crate::protected::NAMES.iter().map(|name| (*name).to_owned()).collect(),
            read_only: false,
            hard_links: false,
            max_file_bytes: crate::Limits::default().file_bytes,
        }
    }
}

/// What a bridge is given for one call.
#[derive(Clone, Default)]
pub struct FilesScope {
    /// Protected paths that the owner agreed to let this call write, relative to the workspace.
    pub agreed: Vec<String>,
    /// Patterns of paths, in the syntax of `.gitignore`, that walks and searches leave out, unless they begin in one: what
    /// the owner refuses to this tool, or is asked about where it is named.
    pub left_out: Vec<String>,
    /// Where what is needed to undo the call goes; none where nothing is kept.
    pub undo: Option<Arc<dyn UndoSink>>,
    /// What the session has seen; none where nobody keeps it.
    pub seen: Option<Arc<dyn SeenFiles>>,
    /// Whether the call was taken back. A walk or a search ends early then, a commit does not begin.
    pub cancel: Cancel,
    /// Whether the handle may turn paths as a whole, whatever their names are ([`Files::turn`]): for the owner's own acts,
    /// and for what a sandbox has let a command do. Never for a tool of a model's.
    pub whole: bool,
}

/// A file system of which a handle for each call can be had. What the runtime holds.
pub trait FilesBridge: Send + Sync {
    /// Where the files are.
    fn place(&self) -> FilesPlace;
    /// A handle for one call.
    fn scoped(&self, scope: FilesScope) -> Arc<dyn Files>;
}

/// The handle that a tool uses. All methods do their blocking work off the async threads.
pub trait Files: Send + Sync {
    /// Where the files are.
    fn place(&self) -> FilesPlace;

    /// What is known of `path`, following links inside the workspace; none if it is not there.
    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>>;

    /// The whole content of a file of at most `max` bytes; `too_large` if it has more. The session has seen it then.
    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<FileContent, ToolError>>;

    /// A window of a file as text, read as a stream: the size of the file does not matter. The session has seen the file
    /// if the window shows all of it.
    fn page<'a>(&'a self, request: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>>;

    /// Entries of one directory, whether there are more, and how many ignore files leave out.
    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>>;

    /// What is below a directory.
    fn walk<'a>(&'a self, request: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>>;

    /// Lines below a directory, or in one file, that match.
    fn search<'a>(&'a self, request: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>>;

    /// Makes all the changes or none, in their order. With `rehearse` it says what would happen and changes nothing.
    fn commit(&self, changes: Vec<Change>, rehearse: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>>;

    /// What is at a path now, links not followed. What is neither file, directory nor link is an error. Only where the scope
    /// says `whole`.
    fn now<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, Result<Is, ToolError>> {
        Box::pin(std::future::ready(Err(no_turns(self.place()))))
    }

    /// Makes all paths what they are to be, or none. Links, directories with their modes, and protected names too, so only
    /// where the scope says `whole`.
    fn turn(&self, _turns: Turns) -> BoxFuture<'_, Result<Turned, ToolError>> {
        Box::pin(std::future::ready(Err(no_turns(self.place()))))
    }

    /// What the session last saw of a path.
    fn last_seen(&self, path: &str) -> Option<Seen>;

    /// What a file held when this bridge last had it in its hands, where a look at it would take a journey. It may be
    /// another by now: only a commit that expects this very content ([`Expect::Content`]) may be built on it.
    fn recall(&self, _path: &str) -> Option<FileContent> {
        None
    }

    /// What was at a path before the session's last change to it; see [`SeenFiles::former`].
    fn former<'a>(
        &'a self,
        _path: &'a str,
        _now: &'a ContentId,
        _max: u64,
    ) -> BoxFuture<'a, Option<Vec<u8>>> {
        Box::pin(std::future::ready(None))
    }

    /// The session has seen this of a path and nothing later: what the tool has read since, it could not show.
    fn saw_last(&self, _path: &str, _seen: &Seen) {}

    /// Replaces or makes a file.
    fn write<'a>(&'a self, path: &'a str, bytes: Vec<u8>) -> BoxFuture<'a, Result<Changed, ToolError>> {
        one(self, path, Act::Put(Arc::new(bytes)))
    }

    /// Makes a directory and those above it.
    fn mkdirp<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Changed, ToolError>> {
        one(self, path, Act::Mkdirp)
    }

    /// Removes a file or an empty directory.
    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Changed, ToolError>> {
        one(self, path, Act::Remove)
    }

    /// Moves a file to where nothing is.
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<Changed, ToolError>> {
        one(self, from, Act::Move { to: to.to_owned(), content: None })
    }
}

/// The refusal of a bridge that has no way to turn paths.
fn no_turns(place: FilesPlace) -> ToolError {
    let message =
        format!("What a command changed in a layer cannot be put into files of the place {place:?}.");
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint("Write files.bridge = \"host\".")
}

/// A commit of one change.
fn one<'a, F: Files + ?Sized>(
    files: &'a F,
    path: &str,
    act: Act,
) -> BoxFuture<'a, Result<Changed, ToolError>> {
    let change = Change { path: path.to_owned(), act, expect: Expect::Any };
    let work = files.commit(vec![change], false);
    Box::pin(async move {
        let done = work.await?.into_iter().next();
        done.ok_or_else(|| ToolError::internal("The bridge to the files gave no answer about a change."))
    })
}
