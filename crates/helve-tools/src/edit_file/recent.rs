//! The edits that this process made last.
//!
//! A caller that did not get the answer sends the same edit again. It is known by its bytes: the file is exactly what
//! this edit has made of it.

use std::collections::VecDeque;
use std::sync::Mutex;

use helve_core::files::ContentId;

use crate::edit::Edit;

/// So many are kept.
const KEPT: usize = 64;
/// Edits with more text are not kept.
const MAX_BYTES: usize = 64 << 10;

/// The file afterwards, and the edits.
type Made = (String, ContentId, Vec<Edit>);

#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<Made>>);

impl Recent {
    /// These edits have made the file what it is now.
    pub(super) fn add(&self, path: &str, after: &ContentId, edits: &[Edit]) {
        if edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum::<usize>() > MAX_BYTES {
            return;
        }
        let mut made = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if made.len() == KEPT {
            made.pop_front();
        }
        made.push_back((path.to_owned(), after.clone(), edits.to_vec()));
    }

    /// Whether the file is exactly what these edits have made of it.
    pub(super) fn made(&self, path: &str, now: &ContentId, edits: &[Edit]) -> bool {
        let made = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.iter().any(|(one, after, with)| one == path && after == now && with == edits)
    }
}
