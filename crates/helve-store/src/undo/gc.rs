//! Keeps the undo records and the contents of files within their budget: first go contents that no record needs, the
//! oldest first, then the records of the oldest calls with the contents that only they need.

use std::collections::HashMap;
use std::io;

use serde::Serialize;

use super::{FileState, MAX_RECORD_BYTES, Undo, UndoRecord, UndoStage, cannot_open};
use crate::blobs::id_from_names;
use crate::files::{self, modified};
use crate::gc::{is_young, remove_blob, remove_temporaries, size};
use crate::{Removed, StoreError};

/// More calls than these cannot be undone, however small their records are.
const MAX_RECORDS: usize = 10_000;

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UndoGcReport {
    /// Calls that cannot be undone any more, the oldest first, with the bytes of their records.
    pub calls: Vec<Removed>,
    /// Contents of files.
    pub contents: Vec<Removed>,
    /// Bytes that the rest takes.
    pub bytes_left: u64,
}

/// A kept content.
struct Content {
    modified: std::time::Duration,
    bytes: u64,
    /// How many records need it.
    needed: usize,
}

/// What is taken, and what goes.
#[derive(Default)]
struct Room {
    /// Bytes that count against the budget.
    total: u64,
    /// Contents that no record needs and that are too young to go. They go the next time, so that no record has to make up for them.
    later: u64,
    /// Contents that go now, with their bytes.
    gone: Vec<(String, u64)>,
}

impl Room {
    /// Counts a content that no record needs any more as gone.
    fn free(&mut self, id: &str, content: &Content) {
        self.total -= content.bytes;
        if is_young(content.modified) {
            self.later += content.bytes;
        } else {
            self.gone.push((id.to_owned(), content.bytes));
        }
    }
}

impl Undo {
    /// Removes what the budget leaves no room for. Contents of the last minute stay: a record may be about to name them.
    pub fn gc(&self, budget: u64, dry_run: bool) -> Result<UndoGcReport, StoreError> {
        let temporaries = remove_temporaries(self.contents.dir(), dry_run).map_err(cannot_open)?;
        let mut report = UndoGcReport { contents: temporaries, ..UndoGcReport::default() };
        let mut contents = self.kept().map_err(cannot_open)?;
        // What is under way needs its contents, and is not looked at otherwise.
        for name in self.names(UndoStage::Begun)? {
            let under_way = self.read(UndoStage::Begun, &name).ok().flatten();
            for id in under_way.iter().flat_map(kept_ids) {
                if let Some(content) = contents.get_mut(&id) {
                    content.needed += 1;
                }
            }
        }
        let mut calls: Vec<(String, bool)> = self.calls()?.into_iter().map(|call| (call, false)).collect();
        let pending = self.names(UndoStage::Pending)?;
        calls.extend(pending.iter().filter_map(|name| super::call_of(name)).map(|call| (call, true)));
        let mut records = Vec::new();
        for (call, waits) in calls {
            let stages: &[UndoStage] =
                if waits { &[UndoStage::Pending] } else { &[UndoStage::Done, UndoStage::Cut] };
            let Some((record, stage, bytes)) = self.sized(&call, stages)? else { continue };
            let ids = if waits { waiting_ids(&record) } else { kept_ids(&record) };
            for id in &ids {
                if let Some(content) = contents.get_mut(id) {
                    content.needed += 1;
                }
            }
            records.push((call, stage, bytes, ids));
        }
        for waits in self.small_pending()? {
            let ids = waiting_ids(&waits.record);
            // Of those that were unfolded.
            for id in &ids {
                if let Some(content) = contents.get_mut(id) {
                    content.needed += 1;
                }
            }
            let bytes = waits.bytes();
            records.push((waits.record.call, UndoStage::Pending, bytes, ids));
        }
        // The oldest first.
        records.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let kept: u64 = contents.values().map(|content| content.bytes).sum();
        let recorded: u64 = records.iter().map(|(_, _, bytes, _)| bytes).sum();
        let mut room = Room { total: kept + recorded, ..Room::default() };
        let mut unneeded: Vec<(&String, &Content)> =
            contents.iter().filter(|(_, content)| content.needed == 0).collect();
        unneeded.sort_unstable_by(|a, b| (a.1.modified, a.0).cmp(&(b.1.modified, b.0)));
        for (id, content) in unneeded {
            if room.total > budget || is_young(content.modified) {
                room.free(id, content);
            }
        }
        let mut left = records.len();
        for (call, stage, bytes, ids) in records {
            if room.total <= budget && left <= MAX_RECORDS {
                break;
            }
            let is_young = |id| contents.get(id).is_some_and(|content| is_young(content.modified));
            if budget > 0 && left == 1 && ids.iter().any(is_young) {
                // The newest call's contents would stay for now: nothing is won. Unless there are to be none at all.
                break;
            }
            left -= 1;
            room.total -= bytes;
            for id in ids {
                if let Some(content) = contents.get_mut(&id) {
                    content.needed -= 1;
                    if content.needed == 0 {
                        room.free(&id, content);
                    }
                }
            }
            match (dry_run, stage) {
                (true, _) => {}
                (false, UndoStage::Pending) => drop(self.release(&call)?),
                (false, _) => self.remove(stage, &call).map_err(cannot_open)?,
            }
            report.calls.push(Removed { name: call, bytes });
        }
        for (id, bytes) in room.gone {
            if dry_run || remove_blob(self.contents.dir(), &id).map_err(cannot_open)? {
                report.contents.push(Removed { name: id, bytes });
            }
        }
        report.bytes_left = room.total + room.later;
        Ok(report)
    }

    fn kept(&self) -> io::Result<HashMap<String, Content>> {
        let mut kept = HashMap::new();
        for first in files::names(self.contents.dir())?.into_iter().filter(|name| name.len() == 2) {
            let Some(dir) = files::open_dir(self.contents.dir(), &first)? else { continue };
            for rest in files::names(&dir)? {
                if let (Some(id), Some(stat)) = (id_from_names(&first, &rest), files::stat(&dir, &rest)?) {
                    kept.insert(id, Content { modified: modified(&stat), bytes: size(&stat), needed: 0 });
                }
            }
        }
        Ok(kept)
    }

    /// A record with its stage and the bytes that it takes. One that cannot be read is there with nothing in it, so that
    /// it goes in its turn.
    fn sized(
        &self,
        call: &str,
        stages: &[UndoStage],
    ) -> Result<Option<(UndoRecord, UndoStage, u64)>, StoreError> {
        let name = super::file_name(call)?;
        for stage in stages.iter().copied() {
            let stat = || match files::open_dir(&self.dir, stage.dir())? {
                Some(dir) => files::stat(dir, &name),
                None => Ok(None),
            };
            let Some(stat) = stat().map_err(cannot_open)? else { continue };
            let unreadable = || UndoRecord {
                call: call.to_owned(),
                tool: String::new(),
                session: String::new(),
                workspace: String::new(),
                at_us: 0,
                undoes: None,
                changes: Vec::new(),
                layered: false,
                commits: None,
            };
            let bytes = size(&stat);
            let record = if bytes > MAX_RECORD_BYTES { None } else { self.read(stage, &name).ok().flatten() };
            return Ok(Some((record.unwrap_or_else(unreadable), stage, bytes)));
        }
        Ok(None)
    }

    fn remove(&self, stage: UndoStage, call: &str) -> io::Result<()> {
        match files::open_dir(&self.dir, stage.dir())? {
            Some(dir) => files::remove_file(dir, &format!("{call}.json")),
            None => Ok(()),
        }
    }
}

/// The contents that a record needs to be undone: each once.
fn kept_ids(record: &UndoRecord) -> Vec<String> {
    ids(record.changes.iter().map(|change| &change.was))
}

/// The contents that a record needs to be committed: the new ones, and old ones that are kept to be compared.
fn waiting_ids(record: &UndoRecord) -> Vec<String> {
    let old = record.changes.iter().filter(|change| change.was_kept).map(|change| &change.was);
    ids(record.changes.iter().map(|change| &change.is).chain(old))
}

fn ids<'a>(states: impl Iterator<Item = &'a FileState>) -> Vec<String> {
    let needed = |state: &FileState| match state {
        FileState::File { id, dropped: false, .. } => Some(id.clone()),
        _ => None,
    };
    let mut ids: Vec<String> = states.filter_map(needed).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
