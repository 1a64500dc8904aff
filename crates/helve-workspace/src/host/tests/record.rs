//! An undo record and a session's memory for tests.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use helve_core::files::{ContentId, Is, Seen, SeenFiles, UndoSink, Was};
use helve_core::{ErrorKind, ToolError};

/// Writes down everything that it is told.
#[derive(Default)]
pub(super) struct Record {
    lines: Mutex<Vec<String>>,
    /// What it was given ahead.
    contents: Mutex<BTreeMap<ContentId, Vec<u8>>>,
    pub(super) refuse: AtomicBool,
}

impl Record {
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl UndoSink for Record {
    fn ahead(&self, id: &ContentId, content: &mut dyn Read, len: u64) -> Result<(), ToolError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, len);
        if crate::commit::id_of(&bytes) != *id {
            return Err(ToolError::new(ErrorKind::Conflict, "It was changed meanwhile."));
        }
        self.contents.lock().unwrap().insert(id.clone(), bytes);
        Ok(())
    }

    fn before(&self, path: &str, was: Was<'_>, will_be: &Is) -> Result<(), ToolError> {
        if self.refuse.load(Ordering::Relaxed) {
            return Err(ToolError::failed("The undo record is full."));
        }
        let was = match was {
            Was::Absent => "nothing".to_owned(),
            Was::Directory => "directory".to_owned(),
            Was::Folder { mode, .. } => format!("directory {mode:o}"),
            Was::Link { target } => format!("link {target}"),
            Was::File { id, mode, .. } => {
                let bytes = self.contents.lock().unwrap().remove(id).expect("it was given ahead");
                format!("file {mode:o} '{}'", String::from_utf8_lossy(&bytes).escape_default())
            }
        };
        let is = match will_be {
            Is::Absent => "nothing".to_owned(),
            Is::Directory => "directory".to_owned(),
            Is::Folder { mode, .. } => format!("directory {mode:o}"),
            Is::Link { target } => format!("link {target}"),
            Is::File { id, mode, .. } => format!("file {mode:o} {}", id.0),
        };
        self.lines.lock().unwrap().push(format!("{path}: {was} -> {is}"));
        Ok(())
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.lines.lock().unwrap().push("ready".to_owned());
        Ok(())
    }

    fn done(&self, happened: bool) {
        self.lines.lock().unwrap().push(format!("done {happened}"));
    }
}

/// Has every content already, and reads none.
pub(super) struct Full;

impl UndoSink for Full {
    fn before(&self, _path: &str, _was: Was<'_>, _will_be: &Is) -> Result<(), ToolError> {
        Ok(())
    }

    fn ready(&self) -> Result<(), ToolError> {
        Ok(())
    }

    fn done(&self, _happened: bool) {}
}

/// What a session has seen.
#[derive(Default)]
pub(super) struct Notes(Mutex<BTreeMap<String, Seen>>);

impl SeenFiles for Notes {
    fn last(&self, path: &str) -> Option<Seen> {
        self.0.lock().unwrap().get(path).cloned()
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        let mut notes = self.0.lock().unwrap();
        match id {
            Some(id) => {
                notes.insert(path.to_owned(), Seen { content: bytes.map(<[u8]>::to_vec), id: id.clone() });
            }
            None => {
                notes.remove(path);
            }
        }
    }
}
