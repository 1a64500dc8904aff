//! What a command changed in a layer over the workspace: taken into the store, and committed at once or held for the owner.
//!
//! ```text
//! layer ── read (workspace) ── new contents into the store ─┬─ preview:    a record that waits; nothing has happened
//!                                                           └─ checkpoint: a commit with its undo record
//! ```
//!
//! A command that was taken back, or that passed the bound of the layer, has changed nothing. One that failed, or ran out of
//! time, has changed what it changed, as without a layer.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helve_core::files::{ContentId, Contents, Files, Is, Names, Turn, Turns, UndoSink};
use helve_core::{
    CallId, Cancel, Ended, ErrorKind, Exit, FilesScope, Layer, LayerEntry, LayerOutcome, LayerReport,
    LimitHit, ToolError,
};
use helve_policy::ExecMode;
use helve_store::{Blobs, FileState, SmallContents, StoreError, Undo, UndoChange, UndoRecord};
use helve_workspace::{KeepContent, LayerRead, read_layer};

use super::git_index;
use super::records::{kept, listed};
use super::undo::{CallUndo, OfCall, is_of, state_of};
use crate::call_id;
use crate::lanes::Lanes;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// A content that is no longer goes with the record of what waits, which saves a file.
const SMALL_BYTES: usize = 16 << 10;
/// Room for a first read.
const FIRST_BYTES: usize = 4 << 10;
/// So much goes with one record.
const SMALL_TOGETHER: usize = 32 << 10;
/// A longer file is not compared for a report.
const COMPARED_BYTES: u64 = 256 << 10;
/// So much is held of all files that are compared for one report.
const REPORT_BYTES: u64 = 4 << 20;

/// What a command needs that runs over a layer.
pub(crate) struct Over {
    preview: bool,
    bytes: u64,
    of: OfCall,
    undo: Undo,
    workspace: std::path::PathBuf,
    /// A handle that turns paths as a whole.
    files: Arc<dyn Files>,
}

impl Over {
    pub(crate) fn new(
        lanes: &Lanes,
        mode: ExecMode,
        of: OfCall,
        undo: Arc<CallUndo>,
    ) -> Result<Over, ToolError> {
        let limits = lanes.policy.limits();
        if limits.undo_store_bytes.min(limits.undo_bytes) == 0 {
            let message =
                "What commands change cannot be kept: limits.undo_bytes or limits.undo_store_bytes is 0.";
            return Err(ToolError::new(ErrorKind::SandboxUnavailable, message)
                .hint("Raise it, or write tools.exec.mode = \"direct\" and tools.exec.checkpoint = false."));
        }
        let scope =
            FilesScope { undo: Some(undo as Arc<dyn UndoSink>), whole: true, ..FilesScope::default() };
        Ok(Over {
            preview: mode == ExecMode::Preview,
            bytes: limits.exec_layer_bytes,
            of,
            undo: lanes.undo()?,
            workspace: lanes.workspace.clone(),
            files: lanes.files()?.scoped(scope),
        })
    }

    /// How large the layer may be.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes what a command changed. If the call is taken back meanwhile, nothing has changed.
    pub(crate) async fn take(
        &self,
        layer: Layer,
        ended: &Ended,
        cancel: Cancel,
    ) -> Result<LayerReport, ToolError> {
        if ended.exit == Exit::Cancelled || matches!(ended.limit, Some(LimitHit::Layer(_))) {
            return Ok(LayerReport {
                outcome: LayerOutcome::Dropped,
                changes: Vec::new(),
                left_out: Vec::new(),
                linked: Vec::new(),
            });
        }
        let (mut keep, workspace) = (Keep::new(&self.undo, self.preview), self.workspace.clone());
        let read = tokio::task::spawn_blocking(move || {
            let read = read_layer(&workspace, &layer, &mut keep, &cancel)?;
            Ok((read, keep.small, keep.old))
        });
        let read = read.await.unwrap_or_else(|_| Err(ToolError::internal("Reading a layer crashed.")));
        let (read, small, old) = read?;
        let record = self.of.record(changes(&read));
        let outcome = match self.preview {
            true if record.changes.is_empty() => LayerOutcome::Done,
            true => {
                self.undo.hold(&record, &small).map_err(|error| not_held(&error))?;
                LayerOutcome::Pending
            }
            false => match self.commit(&record).await {
                Ok(()) => LayerOutcome::Done,
                // The command has run: what it did is not thrown away because somebody else was at the same file, or
                // because the disk cannot take it.
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::ToolFailed) => {
                    self.undo.hold(&record, &small).map_err(|error| not_held(&error))?;
                    LayerOutcome::Refused(error.message)
                }
                Err(error) => return Err(error),
            },
        };
        let new = |id: &str| after(&self.undo, &small, id);
        Ok(report(outcome, &record, read, self.preview.then_some(Compared { old, new: &new })))
    }

    async fn commit(&self, record: &UndoRecord) -> Result<(), ToolError> {
        let turns = forwards(record, &self.undo)?;
        if turns.turns.is_empty() {
            return Ok(());
        }
        self.files.turn(turns).await.map(drop)
    }
}

/// Takes what a command of the owner's own changed in a layer, to be committed or discarded under the id that it gives. If it
/// is taken back meanwhile, nothing is held.
pub fn hold_layer(
    undo: &Undo,
    workspace: &Path,
    layer: &Layer,
    cancel: &Cancel,
) -> Result<(CallId, LayerReport), ToolError> {
    let call = call_id::fresh();
    let mut keep = Keep::new(undo, true);
    let read = read_layer(workspace, layer, &mut keep, cancel)?;
    let Keep { small, old, .. } = keep;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let of = OfCall {
        call: call.to_string(),
        tool: "sandbox".to_owned(),
        session: String::new(),
        workspace: workspace.to_string_lossy().into_owned(),
        at_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        undoes: None,
        commits: None,
        layered: true,
    };
    let record = of.record(changes(&read));
    let outcome = if record.changes.is_empty() {
        LayerOutcome::Done
    } else {
        undo.hold(&record, &small).map_err(|error| not_held(&error))?;
        LayerOutcome::Pending
    };
    let new = |id: &str| after(undo, &small, id);
    Ok((call, report(outcome, &record, read, Some(Compared { old, new: &new }))))
}

/// A new content that is not too long to be compared.
fn after(undo: &Undo, small: &SmallContents, id: &str) -> Option<Vec<u8>> {
    small.get(id).cloned().or_else(|| kept(undo, id, COMPARED_BYTES))
}

/// Takes contents: small ones as they are, as long as there are few, and others into the store.
struct Keep {
    undo: Undo,
    /// What may be taken as it is.
    room: usize,
    small: SmallContents,
    /// How much of what was there may be taken to be shown.
    old_room: u64,
    old: SmallContents,
}

impl Keep {
    /// With `waits`, for changes that are held. What is committed at once needs its contents in the store, and nobody
    /// compares it.
    fn new(undo: &Undo, waits: bool) -> Keep {
        let (room, old_room) = if waits { (SMALL_TOGETHER, REPORT_BYTES) } else { (0, 0) };
        let (small, old) = (SmallContents::new(), SmallContents::new());
        Keep { undo: undo.clone(), room, small, old_room, old }
    }
}

impl KeepContent for Keep {
    /// Of git's index counts what it says, which its id does not tell.
    fn wants_old(&self, path: &str, bytes: u64) -> bool {
        git_index::is_index(path) && bytes <= git_index::WAITING_BYTES
    }

    fn compares(&self, bytes: u64) -> bool {
        self.old_room > 0 && bytes <= COMPARED_BYTES.min(self.old_room)
    }

    fn compare(&mut self, id: &ContentId, content: Vec<u8>) {
        self.old_room = self.old_room.saturating_sub(content.len() as u64);
        self.old.insert(id.0.clone(), content);
    }

    fn keep(&mut self, content: &mut dyn Read) -> Result<ContentId, ToolError> {
        let unread = |error| ToolError::failed(format!("What the command wrote cannot be read: {error}"));
        let most = SMALL_BYTES.min(self.room);
        let mut first = Vec::new();
        if most > 0 {
            // Most are shorter than this, and then one read takes them.
            first.reserve_exact(most.min(FIRST_BYTES));
            content.take(most as u64 + 1).read_to_end(&mut first).map_err(unread)?;
            if first.len() <= most {
                self.room -= first.len();
                first.shrink_to_fit();
                let id = Blobs::id_of(&first);
                self.small.insert(id.clone(), first);
                return Ok(ContentId(id));
            }
        }
        let mut writer = self.undo.contents().writer();
        writer.write(&first).map_err(|error| not_held(&error))?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = content.read(&mut buffer).map_err(unread)?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
            writer.write(part).map_err(|error| not_held(&error))?;
        }
        let kept = writer.finish().map_err(|error| not_held(&error))?;
        Ok(ContentId(kept.id))
    }
}

fn not_held(error: &StoreError) -> ToolError {
    ToolError::failed(format!(
        "What the command changed cannot be kept, so the workspace stays as it was: {error}"
    ))
    .hint("Free the disk or correct the permissions of $HELVE_HOME, then call again.")
}

fn changes(read: &LayerRead) -> Vec<UndoChange> {
    let ns = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok()
    };
    let one = |change: &helve_workspace::LayerChange| UndoChange {
        path: change.path.clone(),
        was: state_of(&change.was),
        is: state_of(&change.is),
        modified_ns: change.modified.and_then(ns),
        same_as: change.same_as.clone(),
        was_same_as: change.was_same_as.clone(),
        was_inode: None,
        was_owner: None,
        apart: change.apart,
        disturbed: change.disturbed,
        was_kept: change.was_kept,
    };
    read.changes.iter().map(one).collect()
}

/// The turns that make the workspace what a record says.
pub(super) fn forwards(record: &UndoRecord, undo: &Undo) -> Result<Turns, ToolError> {
    let disturbed: Vec<&str> =
        record.changes.iter().filter(|change| change.disturbed).map(|change| change.path.as_str()).collect();
    if !disturbed.is_empty() {
        let message = format!(
            "Changed by somebody else while the command ran: {}. Nothing was changed.",
            listed(&disturbed)
        );
        return Err(ToolError::new(ErrorKind::Conflict, message));
    }
    let one = |change: &UndoChange| Turn {
        path: change.path.clone(),
        from: is_of(&change.was),
        to: is_of(&change.is),
        modified: change.modified_ns.map(|ns| UNIX_EPOCH + Duration::from_nanos(ns)),
        owner: None,
        names: Names {
            same_as: change.same_as.clone(),
            inode: None,
            was_same_as: change.was_same_as.clone(),
            apart: change.apart,
        },
    };
    let turns = record.changes.iter().map(one).collect();
    Ok(Turns { turns, contents: Arc::new(Store(undo.clone())), leave_used: false })
}

/// Contents from the store.
pub(super) struct Store(pub(super) Undo);

impl Contents for Store {
    fn open(&self, id: &ContentId) -> Result<Box<dyn Read + Send>, ToolError> {
        match self.0.contents().open_blob(&id.0) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                Err(ToolError::not_found(format!("A content is not kept any more, or damaged: {error}"))
                    .hint("Nothing was changed. Run the command again."))
            }
        }
    }
}

/// The contents that are compared in a report, by their ids.
struct Compared<'a> {
    old: SmallContents,
    new: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// What the reader of a result is told.
fn report(
    outcome: LayerOutcome,
    record: &UndoRecord,
    read: LayerRead,
    compared: Option<Compared<'_>>,
) -> LayerReport {
    let mut room = REPORT_BYTES;
    let mut held = |content: Option<Vec<u8>>| {
        let content = content?;
        room = room.checked_sub(content.len() as u64)?;
        Some(content)
    };
    let entry = |change: &UndoChange| {
        let (mut before, mut after) = (None, None);
        if let Some(Compared { old, new }) = &compared {
            if let FileState::File { id, .. } = &change.was {
                before = held(old.get(id).cloned());
            }
            if let FileState::File { id, .. } = &change.is {
                after = held(new(id));
            }
        }
        LayerEntry {
            path: change.path.clone(),
            was: is_of(&change.was),
            is: is_of(&change.is),
            before,
            after,
        }
    };
    let changes = record.changes.iter().map(entry).collect();
    LayerReport { outcome, changes, left_out: read.left_out, linked: read.linked }
}

/// Whether a state is the same as what is at a path.
pub(super) fn is_there(now: &Is, state: &FileState) -> bool {
    now.is_same(&is_of(state))
}
