//! What one call changes, taken into the store before it does.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helve_core::files::{ContentId, Is, Owner, UndoSink, Was};
use helve_core::harmless::shown;
use helve_core::{ErrorKind, ToolError};
use helve_store::{Begun, FileState, StoreError, Undo, UndoChange, UndoRecord};
use serde::Serialize;

use super::records::listed;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// What a call did to one path, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FileChanged {
    /// The content afterwards; none if no file is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
    /// The content before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    pub(crate) path: String,
}

/// Which call it is.
pub(crate) struct OfCall {
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) session: String,
    pub(crate) workspace: String,
    pub(crate) at_us: u64,
    /// The call that it takes back.
    pub(crate) undoes: Option<String>,
    /// The call whose changes it commits.
    pub(crate) commits: Option<String>,
    /// Whether a command made the changes in a layer, or they are such ones taken back.
    pub(crate) layered: bool,
}

impl OfCall {
    /// A record of changes.
    pub(crate) fn record(&self, changes: Vec<UndoChange>) -> UndoRecord {
        UndoRecord {
            call: self.call.clone(),
            tool: self.tool.clone(),
            session: self.session.clone(),
            workspace: self.workspace.clone(),
            at_us: self.at_us,
            undoes: self.undoes.clone(),
            changes,
            layered: self.layered,
            commits: self.commits.clone(),
        }
    }
}

/// What the store calls what the bridge to the files says.
pub(crate) fn state_of(is: &Is) -> FileState {
    match is {
        Is::Absent => FileState::Absent,
        Is::Directory => FileState::Directory,
        Is::Folder { mode, attributes } => FileState::Folder { mode: *mode, attributes: attributes.clone() },
        Is::Link { target } => FileState::Link { target: target.clone() },
        Is::File { id, mode, attributes } => {
            FileState::File { id: id.0.clone(), mode: *mode, dropped: false, attributes: attributes.clone() }
        }
    }
}

/// The other way round.
pub(crate) fn is_of(state: &FileState) -> Is {
    match state {
        FileState::Absent => Is::Absent,
        FileState::Directory => Is::Directory,
        FileState::Folder { mode, attributes } => Is::Folder { mode: *mode, attributes: attributes.clone() },
        FileState::Link { target } => Is::Link { target: target.clone() },
        FileState::File { id, mode, attributes, .. } => {
            Is::File { id: ContentId(id.clone()), mode: *mode, attributes: attributes.clone() }
        }
    }
}

/// The undo record of one call. A call may make several commits; together they are undone as one.
pub(crate) struct CallUndo {
    of: OfCall,
    /// None where the owner wants nothing kept.
    store: Option<Undo>,
    /// How much is kept of this call.
    budget: u64,
    /// Whether each record survives a loss of power.
    durable: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What happened.
    done: BTreeMap<String, UndoChange>,
    /// What is about to.
    coming: BTreeMap<String, UndoChange>,
    begun: Option<Begun>,
    kept: u64,
    /// Contents of which it was found out ahead whether they are kept.
    ahead: BTreeMap<String, bool>,
    /// Paths whose content was too large to be kept.
    dropped: Vec<String>,
    /// Paths that were put back without something that they had, and without what.
    lacking: Vec<(String, String)>,
    /// How much was kept, and how many paths were dropped, of changes that happened.
    settled: (u64, usize),
    /// What went wrong after the changes were made.
    trouble: Option<String>,
}

impl CallUndo {
    pub(crate) fn new(of: OfCall, store: Option<Undo>, budget: u64, durable: bool) -> Self {
        CallUndo { of, store, budget, durable, state: Mutex::default() }
    }

    /// What the call changed.
    pub(crate) fn changed(&self) -> Vec<FileChanged> {
        let content = |state: &FileState| match state {
            FileState::File { id, .. } => Some(id.clone()),
            _ => None,
        };
        let one = |change: &UndoChange| FileChanged {
            path: change.path.clone(),
            before: content(&change.was),
            after: content(&change.is),
        };
        self.state().done.values().map(one).collect()
    }

    /// What the reader of the result should know.
    pub(crate) fn notes(&self) -> Vec<String> {
        let state = self.state();
        let mut notes = Vec::new();
        if self.store.is_some() && !state.dropped.is_empty() {
            let paths = listed(&state.dropped);
            notes
                .push(format!("the former content was too large to be kept and cannot be put back: {paths}"));
        }
        if !state.lacking.is_empty() {
            let all: Vec<String> =
                state.lacking.iter().map(|(path, what)| format!("{} ({what})", shown(path))).collect();
            notes.push(format!(
                "not all that files had could be given back, so access to them may be narrower: {}",
                all.join(", ")
            ));
        }
        notes.extend(state.trouble.clone());
        notes
    }

    /// Makes a record also where nothing was changed: one that takes a call back says so, whatever it found.
    pub(crate) fn record_all_the_same(&self) {
        let mut state = self.state();
        let Some(store) = self.store.as_ref().filter(|_| state.done.is_empty()) else { return };
        let recorded = store.begin(&self.of.record(Vec::new()), self.durable).and_then(Begun::finish);
        if let Err(error) = recorded {
            state.trouble = Some(format!("it could not be noted that the call is undone: {error}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a content into the store, unless it is there; false if there is no room for it.
    fn keep(&self, id: &str, len: u64, room: u64, content: &mut dyn Read) -> Result<bool, ToolError> {
        let Some(contents) = self.store.as_ref().map(Undo::contents).filter(|_| len <= room) else {
            return Ok(false);
        };
        if contents.renew(id, len).map_err(|error| not_kept(&error))? {
            return Ok(true);
        }
        let mut writer = contents.writer();
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = content.read(&mut buffer).map_err(|error| {
                ToolError::failed(format!(
                    "What is there now cannot be read, so nothing was changed: {error}"
                ))
            })?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
            writer.write(part).map_err(|error| not_kept(&error))?;
        }
        let kept = writer.finish().map_err(|error| not_kept(&error))?;
        if kept.id != id {
            let message = "The file was changed while it was read for an undo. Nothing was changed.";
            return Err(ToolError::new(ErrorKind::Conflict, message)
                .hint("Read it again, then make the change to what is there now."));
        }
        Ok(true)
    }
}

impl UndoSink for CallUndo {
    fn ahead(&self, id: &ContentId, content: &mut dyn Read, len: u64) -> Result<(), ToolError> {
        let mut state = self.state();
        let room = self.budget.saturating_sub(state.kept);
        let kept = self.keep(&id.0, len, room, content)?;
        state.ahead.insert(id.0.clone(), kept);
        Ok(())
    }

    fn before(&self, path: &str, was: Was<'_>, will_be: &Is) -> Result<(), ToolError> {
        let mut state = self.state();
        let is = state_of(will_be);
        // What an earlier commit of the call replaced is what was there before the call.
        let was = match (state.done.get(path), was) {
            (Some(earlier), _) => earlier.was.clone(),
            (None, Was::Absent) => FileState::Absent,
            (None, Was::Directory) => FileState::Directory,
            (None, Was::Folder { mode, attributes }) => FileState::Folder { mode, attributes },
            (None, Was::Link { target }) => FileState::Link { target: target.to_owned() },
            (None, Was::File { id, content, len, mode, attributes }) => {
                let room = self.budget.saturating_sub(state.kept);
                let kept = match state.ahead.remove(&id.0) {
                    Some(kept) if len <= room => kept,
                    _ => self.keep(&id.0, len, room, content)?,
                };
                match kept {
                    true => state.kept += len,
                    false => state.dropped.push(path.to_owned()),
                }
                FileState::File { id: id.0.clone(), mode, dropped: !kept, attributes }
            }
        };
        state.coming.insert(path.to_owned(), UndoChange::new(path.to_owned(), was, is));
        Ok(())
    }

    fn second_name(&self, path: &str, of: &str, inode: u64) {
        let mut state = self.state();
        // What an earlier commit of the call found is what was there.
        if !state.done.contains_key(path)
            && let Some(change) = state.coming.get_mut(path)
        {
            change.was_same_as = Some(of.to_owned());
            change.was_inode = Some(inode);
        }
    }

    fn owned(&self, path: &str, owner: Owner) {
        let mut state = self.state();
        if !state.done.contains_key(path)
            && let Some(change) = state.coming.get_mut(path)
        {
            change.was_owner = Some(owner);
        }
    }

    fn lacks(&self, path: &str, what: &str) {
        self.state().lacking.push((path.to_owned(), what.to_owned()));
    }

    fn will_be_second_name(&self, path: &str, of: &str) {
        if let Some(change) = self.state().coming.get_mut(path) {
            change.same_as = Some(of.to_owned());
        }
    }

    fn ready(&self) -> Result<(), ToolError> {
        let mut state = self.state();
        let Some(store) = &self.store else { return Ok(()) };
        let mut all = state.done.clone();
        all.extend(state.coming.clone());
        let record = self.of.record(all.into_values().collect());
        // One file is old or new after a loss of power, whatever is noted; of several some may be new.
        let durable = self.durable || record.changes.len() > 1;
        state.begun = Some(store.begin(&record, durable).map_err(|error| not_kept(&error))?);
        Ok(())
    }

    fn done(&self, happened: bool) {
        let mut state = self.state();
        let coming = std::mem::take(&mut state.coming);
        let begun = state.begun.take();
        if happened {
            state.done.extend(coming);
            state.settled = (state.kept, state.dropped.len());
        } else {
            // A change that is tried again and again takes its part of the budget once.
            let (kept, dropped) = state.settled;
            state.kept = kept;
            state.dropped.truncate(dropped);
        }
        let told = begun.map_or(Ok(()), |begun| if happened { begun.finish() } else { begun.void() });
        if let Err(error) = told {
            state.trouble = Some(format!("the changes were made, and cannot be undone: {error}"));
        }
    }
}

fn not_kept(error: &StoreError) -> ToolError {
    ToolError::failed(format!(
        "What is there now cannot be kept for an undo, so nothing was changed: {error}"
    ))
    .hint("Free the disk or correct the permissions of $HELVE_HOME, then call again.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::files::Attributes;
    use helve_store::Home;
    use pretty_assertions::assert_eq;

    fn call(store: Undo, budget: u64) -> CallUndo {
        let of = OfCall {
            call: "c_1".to_owned(),
            tool: "t".to_owned(),
            session: "s".to_owned(),
            workspace: "/w".to_owned(),
            at_us: 1,
            undoes: None,
            commits: None,
            layered: false,
        };
        CallUndo::new(of, Some(store), budget, false)
    }

    /// Something that must not be read.
    struct Unread;

    impl Read for Unread {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("it was read"))
        }
    }

    #[test]
    fn a_content_is_read_once_and_must_have_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let store = Undo::open(&Home::open(&dir.path().join("home")).unwrap()).unwrap();
        let undo = call(store.clone(), 10);
        let id = ContentId(format!("b3:{}", blake3::hash(b"text").to_hex()));
        let tell = |path: &str, len: u64, content: &mut dyn Read| {
            let was = Was::File { id: &id, content, len, mode: 0o644, attributes: Attributes::NONE };
            undo.before(path, was, &Is::Absent).map_err(|error| error.kind)
        };
        assert_eq!(tell("a", 4, &mut Unread), Err(ErrorKind::ToolFailed));
        assert_eq!(tell("a", 4, &mut &b"tEXt"[..]), Err(ErrorKind::Conflict));
        assert_eq!(tell("a", 4, &mut &b"text"[..]), Ok(()));
        assert_eq!(tell("b", 4, &mut Unread), Ok(()));
        assert_eq!(store.contents().read_range(&id.0, 0, 9).unwrap(), b"text");
        // Eight of ten bytes are taken.
        assert_eq!(tell("c", 4, &mut Unread), Ok(()));
        assert_eq!(undo.state().dropped, ["c"]);
    }

    #[test]
    fn what_did_not_happen_takes_nothing_of_the_budget() {
        let dir = tempfile::tempdir().unwrap();
        let undo = call(Undo::open(&Home::open(&dir.path().join("home")).unwrap()).unwrap(), 10);
        let commit = |path: &str, text: &str, happened: bool| {
            let id = ContentId(format!("b3:{}", blake3::hash(text.as_bytes()).to_hex()));
            let (mut content, len) = (text.as_bytes(), text.len() as u64);
            let was =
                Was::File { id: &id, content: &mut content, len, mode: 0o644, attributes: Attributes::NONE };
            undo.before(path, was, &Is::Absent).unwrap();
            undo.ready().unwrap();
            undo.done(happened);
        };
        commit("a", "before", true);
        commit("b", "four", false);
        commit("b", "fourfour", false);
        assert!(undo.notes().is_empty());
        commit("b", "more", true);
        assert!(undo.notes().is_empty());
        assert_eq!(undo.state().kept, 10);
        // What did happen stays taken, and stays told.
        commit("c", "x", true);
        commit("d", "x", false);
        assert_eq!(undo.state().dropped, ["c"]);
    }
}
