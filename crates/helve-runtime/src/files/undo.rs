//! What one call changes, taken into the store before it does.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helve_core::ToolError;
use helve_core::files::{Is, UndoSink, Was};
use helve_store::{Begun, FileState, StoreError, Undo, UndoChange, UndoRecord};
use serde::Serialize;

const CHUNK: usize = 64 << 10;

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
    /// Paths whose content was too large to be kept.
    dropped: Vec<String>,
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
            FileState::Absent | FileState::Directory => None,
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
            let paths = state.dropped.join(", ");
            notes
                .push(format!("the former content was too large to be kept and cannot be put back: {paths}"));
        }
        notes.extend(state.trouble.clone());
        notes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a content into the store; its hash, and whether it is there.
    fn keep(&self, content: &mut dyn Read, room: u64) -> Result<(String, u64), ToolError> {
        let mut hasher = blake3::Hasher::new();
        let mut writer = self.store.as_ref().filter(|_| room > 0).map(|undo| undo.contents().writer());
        let mut buffer = vec![0; CHUNK];
        let mut bytes = 0;
        loop {
            let count = content.read(&mut buffer).map_err(|error| {
                ToolError::failed(format!(
                    "What is there now cannot be read, so nothing was changed: {error}"
                ))
            })?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
            hasher.update(part);
            bytes += part.len() as u64;
            match &mut writer {
                Some(_) if bytes > room => writer = None,
                Some(open) => open.write(part).map_err(|error| not_kept(&error))?,
                None => {}
            }
        }
        if let Some(writer) = writer {
            return Ok((writer.finish().map_err(|error| not_kept(&error))?.id, bytes));
        }
        Ok((format!("b3:{}", hasher.finalize().to_hex()), u64::MAX))
    }
}

impl UndoSink for CallUndo {
    fn before(&self, path: &str, was: Was<'_>, will_be: &Is) -> Result<(), ToolError> {
        let mut state = self.state();
        let is = match will_be {
            Is::Absent => FileState::Absent,
            Is::Directory => FileState::Directory,
            Is::File { id, mode } => FileState::File { id: id.0.clone(), mode: *mode, dropped: false },
        };
        // What an earlier commit of the call replaced is what was there before the call.
        let was = match (state.done.get(path), was) {
            (Some(earlier), _) => earlier.was.clone(),
            (None, Was::Absent) => FileState::Absent,
            (None, Was::Directory) => FileState::Directory,
            (None, Was::File { content, len, mode }) => {
                let room = self.budget.saturating_sub(state.kept);
                // An empty content takes no room.
                let room = if len > room { 0 } else { room.max(1) };
                let (id, bytes) = self.keep(content, room)?;
                let dropped = bytes == u64::MAX;
                if dropped {
                    state.dropped.push(path.to_owned());
                } else {
                    state.kept += bytes;
                }
                FileState::File { id, mode, dropped }
            }
        };
        state.coming.insert(path.to_owned(), UndoChange { path: path.to_owned(), was, is });
        Ok(())
    }

    fn ready(&self) -> Result<(), ToolError> {
        let mut state = self.state();
        let Some(store) = &self.store else { return Ok(()) };
        let mut all = state.done.clone();
        all.extend(state.coming.clone());
        let of = &self.of;
        let record = UndoRecord {
            call: of.call.clone(),
            tool: of.tool.clone(),
            session: of.session.clone(),
            workspace: of.workspace.clone(),
            at_us: of.at_us,
            undoes: of.undoes.clone(),
            changes: all.into_values().collect(),
        };
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
