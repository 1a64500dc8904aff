//! Looks at what calls changed: the records, and the contents behind them.

use helve_core::files::{Attributes, FileKind, Files};
use helve_core::harmless::shown;
use helve_core::{ErrorKind, ToolError};
use helve_store::{FileState, StoreError, Undo, UndoChange, UndoRecord, UndoStage, taken_back};
use serde::Serialize;

use super::undo::state_of;

/// A call that changed files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoEntry {
    /// What it did.
    #[serde(flatten)]
    pub record: UndoRecord,
    /// How far it came.
    pub stage: UndoStage,
    /// Whether it was taken back since.
    pub undone: bool,
}

/// The versions of one file around a call; none where no file is, or where its content is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Before the call.
    pub before: Option<Vec<u8>>,
    /// After it.
    pub after: Option<Vec<u8>>,
    /// Now.
    pub now: Option<Vec<u8>>,
    /// Whether what is there now is what the call left.
    pub untouched: bool,
    /// Whether it is what was there before the call.
    pub as_before: bool,
}

/// The calls that changed files of a workspace, the newest first.
pub(crate) fn entries(undo: &Undo, workspace: &str) -> Result<Vec<UndoEntry>, ToolError> {
    let mut found = Vec::new();
    for call in undo.calls().map_err(|error| unread(&error))? {
        // One that cannot be read is passed over: naming it says why.
        let Ok(Some((record, stage))) = undo.get(&call) else { continue };
        if record.workspace == workspace {
            found.push(UndoEntry { record, stage, undone: false });
        }
    }
    let undone = taken_back(found.iter().map(|entry| &entry.record));
    found.iter_mut().for_each(|entry| entry.undone = undone.contains(&entry.record.call));
    Ok(found)
}

/// The record of one call.
pub(crate) fn entry(undo: &Undo, call: &str, workspace: &str) -> Result<UndoEntry, ToolError> {
    let found = undo.get(call).map_err(|error| unread(&error))?;
    let Some((record, stage)) = found else {
        return Err(ToolError::not_found(format!(
            "The call {call} changed no files, or that is not kept any more."
        ))
        .hint("`helve undo --list` shows the calls that can be undone here."));
    };
    if record.workspace != workspace {
        let message = format!("The call {call} changed files of {}, not of {workspace}.", record.workspace);
        let hint = format!("Name that workspace: --workspace {}", record.workspace);
        return Err(ToolError::new(ErrorKind::NotFound, message).hint(hint));
    }
    if stage == UndoStage::Pending {
        undo.unfold(call).map_err(|error| unread(&error))?;
    }
    let undone = entries(undo, workspace)?.into_iter().any(|one| one.record.call == call && one.undone);
    Ok(UndoEntry { record, stage, undone })
}

/// What is at a path now, and its bytes if it is a file.
pub(crate) async fn present(
    files: &dyn Files,
    path: &str,
    max: u64,
) -> Result<(FileState, Option<Vec<u8>>), ToolError> {
    let Some(stat) = files.stat(path).await? else { return Ok((FileState::Absent, None)) };
    match stat.kind {
        FileKind::Directory => Ok((FileState::Directory, None)),
        _ => {
            let content = files.read(path, max).await?;
            let state = FileState::File {
                id: content.id.0,
                mode: content.stat.mode,
                dropped: false,
                attributes: Attributes::NONE,
            };
            Ok((state, Some(content.bytes)))
        }
    }
}

/// Whether both are the same file, whether its content is kept or not.
pub(crate) fn is_same(a: &FileState, b: &FileState) -> bool {
    let is_dir = |state: &FileState| matches!(state, FileState::Directory | FileState::Folder { .. });
    match (a, b) {
        // A directory whose bits do not count is any directory.
        (FileState::Directory, other) | (other, FileState::Directory) => is_dir(other),
        (FileState::File { id, mode, .. }, FileState::File { id: other_id, mode: other_mode, .. }) => {
            id == other_id && mode == other_mode
        }
        (a, b) => a == b,
    }
}

/// The versions of one file around a call.
pub(crate) async fn contents(
    files: &dyn Files,
    undo: &Undo,
    change: &UndoChange,
    max: u64,
) -> Result<Contents, ToolError> {
    // A link is not looked through.
    let is_link = is_link(&change.was) || is_link(&change.is);
    let (state, now) = match is_link.then(|| files.now(&change.path)) {
        Some(now) => (state_of(&now.await?), None),
        None => present(files, &change.path, max).await?,
    };
    // Attributes are looked at where the call changed some, and the bridge can.
    let marked = change.was.attributes() != change.is.attributes();
    let marks = match marked.then(|| files.now(&change.path)) {
        Some(now) => now.await.ok().map(|now| now.attributes().clone()),
        None => None,
    };
    let is_as = |wanted: &FileState| {
        is_same(&state, wanted) && marks.as_ref().is_none_or(|marks| marks == wanted.attributes())
    };
    let version = |wanted: &FileState| {
        let FileState::File { id, .. } = wanted else { return None };
        if let FileState::File { id: of_now, .. } = &state
            && of_now == id
        {
            return now.clone();
        }
        kept(undo, id, max)
    };
    let (before, after) = (version(&change.was), version(&change.is));
    let (as_before, untouched) = (is_as(&change.was), is_as(&change.is));
    Ok(Contents { before, after, untouched, as_before, now })
}

fn is_link(state: &FileState) -> bool {
    matches!(state, FileState::Link { .. })
}

/// A content from the store, if it is there, sound and no larger.
pub(crate) fn kept(undo: &Undo, id: &str, max: u64) -> Option<Vec<u8>> {
    kept_sound(undo, id, max).ok().flatten()
}

/// The same, with an error if it is not what was kept.
pub(crate) fn kept_sound(undo: &Undo, id: &str, max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let len = undo.contents().len(id).ok().filter(|len| *len <= max);
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else { return Ok(None) };
    match undo.contents().read_range(id, 0, len) {
        Err(StoreError::NoSuchBlob(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// Paths in one line of text.
pub(super) fn listed(paths: &[impl AsRef<str>]) -> String {
    paths.iter().map(|path| shown(path.as_ref())).collect::<Vec<_>>().join(", ")
}

pub(crate) fn unread(error: &StoreError) -> ToolError {
    ToolError::internal(format!("The undo records cannot be read: {error}"))
}
