//! Are the blobs that a session's outcomes name still what was kept?
//!
//! In: the intact lines of a journal, then the state directory. Out: a finding for each blob that was changed, and a
//! note on those that are gone, because gc may have removed them. Each blob is read once however often it is named.

use std::collections::HashMap;

use super::{Finding, FindingKind};
use crate::blobs::{self, Blobs};
use crate::body::{Body, parsed};
use crate::line::{EntryKind, Line};
use crate::{Home, StoreError};

/// Blobs that are remembered at once.
const MOST_BLOBS: usize = 100_000;
/// Findings beyond this are counted, not kept.
const MOST_FINDINGS: usize = 1000;

/// The blobs that outcomes name, each with the line and number of the first outcome that does.
#[derive(Default)]
pub(super) struct Outputs {
    named: HashMap<blake3::Hash, (u64, u64)>,
    left_out: bool,
}

impl Outputs {
    /// Takes the next intact entry, which stands on this line.
    pub(super) fn take(&mut self, entry: &Line<'_>, line: u64) {
        if entry.kind != EntryKind::Outcome {
            return;
        }
        let id: Option<&str> = parsed(Body::inside(Body::read(entry.body).truncated).blob);
        let Some(hash) = id.and_then(blobs::hash_from_id) else { return };
        if self.named.len() < MOST_BLOBS {
            self.named.entry(hash).or_insert((line, entry.seq));
        } else if !self.named.contains_key(&hash) {
            self.left_out = true;
        }
    }

    /// Reads every blob that was named.
    pub(super) fn check(self, home: &Home, notes: &mut Vec<String>) -> Vec<Finding> {
        let mut named: Vec<_> = self.named.into_iter().map(|(hash, (line, seq))| (line, seq, hash)).collect();
        named.sort_unstable_by_key(|(line, ..)| *line);
        if named.is_empty() {
            return Vec::new();
        }
        let stored = match Blobs::open_to_read(home) {
            Ok(stored) => stored,
            Err(error) => {
                notes.push(format!("the kept outputs could not be checked: {error}"));
                return Vec::new();
            }
        };
        let (mut findings, mut gone, mut unlisted) = (Vec::new(), 0_u64, 0_u64);
        for (line, seq, hash) in named {
            let id = blobs::id_from_hash(hash);
            let opened = match &stored {
                Some(stored) => stored.open_blob(&id),
                None => Err(StoreError::NoSuchBlob(id)),
            };
            match opened {
                Ok(_) => {}
                Err(StoreError::NoSuchBlob(_)) => gone += 1,
                Err(_) if findings.len() >= MOST_FINDINGS => unlisted += 1,
                Err(error) => findings.push(Finding {
                    line: Some(line),
                    seq: Some(seq),
                    kind: FindingKind::BlobChanged,
                    message: format!("the kept output of entry {seq} cannot be trusted: {error}"),
                }),
            }
        }
        if gone > 0 {
            notes.push(format!("{gone} kept outputs are not stored any more; gc removes the oldest"));
        }
        if unlisted > 0 {
            notes.push(format!("{unlisted} further kept outputs were changed; they are not listed"));
        }
        if self.left_out {
            notes.push(format!("more than {MOST_BLOBS} outputs were kept; not all were checked"));
        }
        findings
    }
}
