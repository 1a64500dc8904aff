//! What calls replaced in the workspace, so that it can be put back.
//!
//! In: for each call that changes files, the paths with what was there and what is there now. Out: the same again, and the
//! contents under their hashes. A record is written before the first change happens, so that also a call that was killed
//! in the middle can be undone. Which directory a record lies in says how far its call came:
//!
//! ```text
//! undo/begun/<call>.json   its changes are under way; locked as long as its process lives
//! undo/done/<call>.json    its changes happened
//! undo/cut/<call>.json     its process died while its changes were under way
//! undo/pending/<call>.json its changes wait to be committed or discarded: nothing has happened
//! undo/pending/waiting     the same of calls with small changes, with the contents
//! undo/newest              the call of the newest record there ever was: later ids sort behind it
//! undo/blobs/…             contents of files, as in blobs/
//! ```
//!
//! Not here: putting anything back (the runtime, through the workspace), and reading files.

mod gc;
mod newest;
mod taken_back;
mod waiting;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use helve_core::files::{Attributes, Owner};
use serde::{Deserialize, Serialize};

pub use gc::UndoGcReport;
pub use newest::newest_undo;
pub use taken_back::taken_back;
pub use waiting::SmallContents;

use crate::files::{self, Lock};
use crate::{Blobs, Home, StoreError};

pub(crate) const UNDO: &str = "undo";
const BLOBS: &str = "blobs";
/// A larger record is not read.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// What was or is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
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
        /// The hash of its content, `b3:` and 64 hexadecimal digits.
        id: String,
        /// Its permission bits.
        mode: u32,
        /// Whether the content was too large to be kept.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dropped: bool,
        /// Its extended attributes; none where a file tool changed it, which leaves them as they are.
        #[serde(default, skip_serializing_if = "Attributes::is_none")]
        attributes: Attributes,
    },
}

impl FileState {
    /// The extended attributes that it says.
    pub fn attributes(&self) -> &Attributes {
        match self {
            FileState::Folder { attributes, .. } | FileState::File { attributes, .. } => attributes,
            FileState::Absent | FileState::Directory | FileState::Link { .. } => &Attributes::NONE,
        }
    }
}

/// What a call did to one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoChange {
    /// The path as the bridge to the files names it.
    pub path: String,
    /// What was there.
    pub was: FileState,
    /// What is there afterwards.
    pub is: FileState,
    /// When the content was written that is there afterwards, in nanoseconds since 1970, where that is to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
    /// Another path of which this file is a second name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Another path of which the file that was there was a second name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_same_as: Option<String>,
    /// The number of that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_inode: Option<u64>,
    /// Whose what was there was, where it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_owner: Option<Owner>,
    /// Whether it is a file of its own afterwards, though it may hold what it held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Whether somebody else changed it while the call ran, so that what was there is not what the call saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// Whether the content that was there is kept although the change waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_kept: bool,
}

impl UndoChange {
    /// A change of which nothing else is to be said.
    pub fn new(path: String, was: FileState, is: FileState) -> UndoChange {
        UndoChange {
            path,
            was,
            is,
            modified_ns: None,
            same_as: None,
            was_same_as: None,
            was_inode: None,
            was_owner: None,
            apart: false,
            disturbed: false,
            was_kept: false,
        }
    }
}

/// What a call did to files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// The call.
    pub call: String,
    /// Its tool.
    pub tool: String,
    /// Its session.
    pub session: String,
    /// The workspace, an absolute path.
    pub workspace: String,
    /// When, in microseconds since 1970.
    pub at_us: u64,
    /// The call that it takes back, if it does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// The paths, in the order of their bytes.
    pub changes: Vec<UndoChange>,
    /// Whether a command changed them in a layer: then links, directories' modes and protected names are among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub layered: bool,
    /// The call whose changes it committed, if it does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<String>,
}

/// How far a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoStage {
    /// Its changes are under way.
    Begun,
    /// They happened.
    Done,
    /// Its process died while they were under way: some of them may have happened.
    Cut,
    /// They wait to be committed or discarded.
    Pending,
}

impl UndoStage {
    /// A call that goes on changing files has two records; the one under way holds both.
    const ALL: [UndoStage; 4] = [UndoStage::Begun, UndoStage::Cut, UndoStage::Done, UndoStage::Pending];

    fn dir(self) -> &'static str {
        match self {
            UndoStage::Begun => "begun",
            UndoStage::Done => "done",
            UndoStage::Cut => "cut",
            UndoStage::Pending => "pending",
        }
    }
}

/// The undo records of one state directory. Clones share it.
#[derive(Debug, Clone)]
pub struct Undo {
    dir: Arc<OwnedFd>,
    contents: Blobs,
}

impl Undo {
    /// Opens the records of a state directory.
    pub fn open(home: &Home) -> Result<Undo, StoreError> {
        let open = || {
            let dir = files::make_dir(home.dir(), UNDO)?;
            let blobs = files::make_dir(&dir, BLOBS)?;
            io::Result::Ok(Undo { dir: Arc::new(dir), contents: Blobs::within(blobs) })
        };
        open().map_err(cannot_open)
    }

    /// The contents of files.
    pub fn contents(&self) -> &Blobs {
        &self.contents
    }

    /// Notes what a call is about to do. With `durable` that survives a loss of power. A record that the same call left
    /// before is replaced when this one is finished.
    pub fn begin(&self, record: &UndoRecord, durable: bool) -> Result<Begun, StoreError> {
        let name = file_name(&record.call)?;
        let text = serde_json::to_vec(record).map_err(|error| StoreError::NotJson(error.to_string()))?;
        let failed = |error| StoreError::io("cannot note what the call changes", record.call.as_str(), error);
        let place = || {
            newest::note(&self.dir, &record.call)?;
            let dir = files::make_dir(&self.dir, UndoStage::Begun.dir())?;
            let temporary = format!(".{name}");
            files::remove_file(&dir, &temporary)?;
            let mut file = files::make_new(&dir, &temporary)?;
            // Before it has its name, so that nobody takes it for one that a dead process left.
            std::mem::forget(Lock::exclusive(&file)?);
            file.write_all(&text)?;
            if durable {
                file.sync_data()?;
            }
            rustix::fs::renameat(&dir, &temporary, &dir, &name)?;
            if durable {
                rustix::fs::fsync(&dir)?;
            }
            io::Result::Ok((dir, file))
        };
        let (begun, file) = place().map_err(failed)?;
        Ok(Begun { undo: self.clone(), begun, name, _lock: file })
    }

    /// The record of a call, and how far the call came; `None` if there is none, or none any more.
    pub fn get(&self, call: &str) -> Result<Option<(UndoRecord, UndoStage)>, StoreError> {
        let name = file_name(call)?;
        for stage in UndoStage::ALL {
            if let Some(record) = self.read(stage, &name)? {
                return Ok(Some((record, stage)));
            }
        }
        let small = match self.pending_dir()? {
            Some(dir) => waiting::of_call(&dir, call).map_err(cannot_open)?,
            None => None,
        };
        Ok(small.map(|waits| (waits.record, UndoStage::Pending)))
    }

    /// Keeps changes that wait to be committed or discarded, with those of their contents that are not in
    /// [`Undo::contents`].
    pub fn hold(&self, record: &UndoRecord, contents: &SmallContents) -> Result<(), StoreError> {
        let name = file_name(&record.call)?;
        let failed =
            |error| StoreError::io("cannot keep what the call would change", record.call.as_str(), error);
        newest::note(&self.dir, &record.call).map_err(failed)?;
        let dir = files::make_dir(&self.dir, UndoStage::Pending.dir()).map_err(failed)?;
        if waiting::hold(&dir, record, contents).map_err(failed)? {
            return Ok(());
        }
        for content in contents.values() {
            self.keep(content)?;
        }
        let text = serde_json::to_vec(record).map_err(|error| StoreError::NotJson(error.to_string()))?;
        let place = || {
            let temporary = format!(".{name}");
            files::remove_file(&dir, &temporary)?;
            files::make_new(&dir, &temporary)?.write_all(&text)?;
            io::Result::Ok(rustix::fs::renameat(&dir, &temporary, &dir, &name)?)
        };
        place().map_err(failed)
    }

    /// Puts the contents of changes that wait where [`Undo::contents`] finds them.
    pub fn unfold(&self, call: &str) -> Result<(), StoreError> {
        let waits = match self.pending_dir()? {
            Some(dir) => waiting::of_call(&dir, call).map_err(cannot_open)?,
            None => None,
        };
        for content in waits.iter().flat_map(waiting::Waits::contents) {
            self.keep(&content)?;
        }
        Ok(())
    }

    fn keep(&self, content: &[u8]) -> Result<(), StoreError> {
        let mut writer = self.contents.writer();
        writer.write(content)?;
        writer.finish().map(drop)
    }

    fn pending_dir(&self) -> Result<Option<OwnedFd>, StoreError> {
        files::open_dir(&self.dir, UndoStage::Pending.dir()).map_err(cannot_open)
    }

    /// The small changes that wait.
    fn small_pending(&self) -> Result<Vec<waiting::Waits>, StoreError> {
        match self.pending_dir()? {
            Some(dir) => waiting::read(&dir).map_err(cannot_open),
            None => Ok(Vec::new()),
        }
    }

    /// The changes that wait, the newest first.
    pub fn pending(&self) -> Result<Vec<UndoRecord>, StoreError> {
        let names = self.names(UndoStage::Pending)?;
        let read = |name: &String| {
            call_of(name)?;
            self.read(UndoStage::Pending, name).ok().flatten()
        };
        // One that cannot be read cannot be committed either; it goes in its turn.
        let mut records: Vec<UndoRecord> = names.iter().filter_map(read).collect();
        records.extend(self.small_pending()?.into_iter().map(|waits| waits.record));
        records.sort_unstable_by(|a, b| b.call.cmp(&a.call));
        Ok(records)
    }

    /// The changes of a call wait no longer. Whether they did.
    pub fn release(&self, call: &str) -> Result<bool, StoreError> {
        let name = file_name(call)?;
        let Some(dir) = self.pending_dir()? else { return Ok(false) };
        let remove = || {
            let there = files::stat(&dir, &name)?.is_some();
            files::remove_file(&dir, &name)?;
            io::Result::Ok(there | waiting::release(&dir, call)?)
        };
        remove().map_err(cannot_open)
    }

    /// The calls that have a record and are not under way, the newest first.
    pub fn calls(&self) -> Result<Vec<String>, StoreError> {
        let mut calls = Vec::new();
        for stage in [UndoStage::Done, UndoStage::Cut] {
            calls.extend(self.names(stage)?.into_iter().filter_map(|name| call_of(&name)));
        }
        calls.sort_unstable_by(|a, b| b.cmp(a));
        calls.dedup();
        Ok(calls)
    }

    /// The calls from `first` on that can be undone: they have a record and were not taken back since.
    pub fn in_force(&self, first: &str) -> Result<BTreeMap<String, UndoRecord>, StoreError> {
        let calls = self.calls()?.into_iter().take_while(|call| call.as_str() >= first);
        // One that cannot be read cannot be undone either.
        let read = |call: String| Some((call.clone(), self.get(&call).ok()??.0));
        let mut found: BTreeMap<String, UndoRecord> = calls.filter_map(read).collect();
        let undone = taken_back(found.values());
        found.retain(|call, _| !undone.contains(call));
        Ok(found)
    }

    /// The calls whose process died while they changed files of a workspace and that nobody was told about yet. Each is
    /// told once.
    pub fn take_cut(&self, workspace: &str) -> Result<Vec<String>, StoreError> {
        let mut cut = Vec::new();
        for name in self.names(UndoStage::Begun)? {
            let Some(call) = call_of(&name) else { continue };
            let elsewhere = |record: Option<UndoRecord>| record.is_some_and(|one| one.workspace != workspace);
            if self.read(UndoStage::Begun, &name).is_ok_and(elsewhere) {
                continue;
            }
            let take = || {
                let Some(begun) = files::open_dir(&self.dir, UndoStage::Begun.dir())? else {
                    return Ok(false);
                };
                let Some(file) = files::open_to_read(&begun, &name)? else { return Ok(false) };
                let Some(_dead) = Lock::try_exclusive(&file)? else { return Ok(false) };
                let to = files::make_dir(&self.dir, UndoStage::Cut.dir())?;
                rustix::fs::renameat(&begun, &name, &to, &name)?;
                // What an earlier commit of the call left is part of this one.
                if let Some(done) = files::open_dir(&self.dir, UndoStage::Done.dir())? {
                    files::remove_file(done, &name)?;
                }
                io::Result::Ok(true)
            };
            if take().map_err(cannot_open)? {
                cut.push(call);
            }
        }
        cut.sort_unstable();
        Ok(cut)
    }

    /// All that a call which was cut wanted to change is changed: it is one that is done.
    pub fn complete(&self, call: &str) -> Result<(), StoreError> {
        let name = file_name(call)?;
        let place = || {
            let Some(cut) = files::open_dir(&self.dir, UndoStage::Cut.dir())? else { return Ok(()) };
            let done = files::make_dir(&self.dir, UndoStage::Done.dir())?;
            Ok(rustix::fs::renameat(&cut, &name, &done, &name)?)
        };
        place().map_err(cannot_open)
    }

    /// Nothing of what a call which was cut wanted to change is changed: there is nothing to undo.
    pub fn forget(&self, call: &str) -> Result<(), StoreError> {
        let name = file_name(call)?;
        let remove = || match files::open_dir(&self.dir, UndoStage::Cut.dir())? {
            Some(cut) => files::remove_file(cut, &name),
            None => Ok(()),
        };
        remove().map_err(cannot_open)
    }

    fn names(&self, stage: UndoStage) -> Result<Vec<String>, StoreError> {
        let names = || match files::open_dir(&self.dir, stage.dir())? {
            Some(dir) => files::names(dir),
            None => Ok(Vec::new()),
        };
        names().map_err(cannot_open)
    }

    fn read(&self, stage: UndoStage, name: &str) -> Result<Option<UndoRecord>, StoreError> {
        let read = || {
            let Some(dir) = files::open_dir(&self.dir, stage.dir())? else { return Ok(None) };
            let Some(file) = files::open_to_read(dir, name)? else { return Ok(None) };
            let mut text = Vec::new();
            file.take(MAX_RECORD_BYTES).read_to_end(&mut text)?;
            let record = serde_json::from_slice(&text).map_err(io::Error::from)?;
            io::Result::Ok(Some(record))
        };
        read().map_err(|error| StoreError::io("cannot read the undo record", name, error))
    }
}

/// A record of changes that are under way. Dropping it leaves it as one of a call that was cut.
#[derive(Debug)]
pub struct Begun {
    undo: Undo,
    begun: OwnedFd,
    name: String,
    /// Locked, and unlocked by closing it.
    _lock: File,
}

impl Begun {
    /// The changes happened.
    pub fn finish(self) -> Result<(), StoreError> {
        let place = || {
            let done = files::make_dir(&self.undo.dir, UndoStage::Done.dir())?;
            Ok(rustix::fs::renameat(&self.begun, &self.name, &done, &self.name)?)
        };
        place().map_err(cannot_open)
    }

    /// None of them did.
    pub fn void(self) -> Result<(), StoreError> {
        files::remove_file(&self.begun, &self.name).map_err(cannot_open)
    }
}

/// The file of a call's record.
fn file_name(call: &str) -> Result<String, StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=128).contains(&call.len()) && call.bytes().all(plain) {
        Ok(format!("{call}.json"))
    } else {
        Err(StoreError::BadCall(call.chars().take(160).collect()))
    }
}

fn call_of(name: &str) -> Option<String> {
    let call = name.strip_suffix(".json")?;
    file_name(call).is_ok().then(|| call.to_owned())
}

fn cannot_open(error: io::Error) -> StoreError {
    StoreError::io("cannot use the undo records", UNDO, error)
}

#[cfg(test)]
mod tests;
