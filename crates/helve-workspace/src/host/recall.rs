//! What a call has read, so that its commit need not read it again before it can be planned.
//!
//! A file that looks as it did when it was read is taken for unchanged. That is good enough for a plan and not for a
//! change: a commit reads it once more before the first step (`HostWorld::confirm`), while the disk is busy with the
//! new content.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::world::Identity;
use crate::commit::{Key, Original};

/// So many files are remembered for a call.
const MOST_FILES: usize = 256;

/// The files that a call has read.
#[derive(Default)]
pub(super) struct Recall(Mutex<BTreeMap<Key, (Identity, Original)>>);

impl Recall {
    /// A file was read to its end, and was this.
    pub(super) fn note(&self, key: &Key, identity: Identity, original: Original) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() < MOST_FILES || files.contains_key(key) {
            files.insert(key.clone(), (identity, original));
        }
    }

    /// What was read of a file, if that looked as it does now.
    pub(super) fn of(&self, key: &Key, identity: Identity) -> Option<Original> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(key).filter(|(known, _)| *known == identity).map(|(_, original)| original.clone())
    }
}
