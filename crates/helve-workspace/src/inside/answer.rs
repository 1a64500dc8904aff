//! What comes back from a helper that is a program of its own, bounded.

use std::sync::{Arc, Mutex, PoisonError};

use helve_core::{OutputSink, Stream};

/// How much of what a helper complains about is shown.
const COMPLAINT_BYTES: usize = 2 << 10;

/// What comes back from a helper.
#[derive(Clone)]
pub(super) struct Answer(Arc<Mutex<Got>>);

pub(super) struct Got {
    pub(super) output: Vec<u8>,
    complaint: Vec<u8>,
    most: u64,
    pub(super) too_much: bool,
}

impl Answer {
    pub(super) fn new(most: u64) -> Answer {
        Answer(Arc::new(Mutex::new(Got { output: Vec::new(), complaint: Vec::new(), most, too_much: false })))
    }

    pub(super) fn take(&self) -> Got {
        let mut got = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, too_much) = (got.most, got.too_much);
        let (output, complaint) = (std::mem::take(&mut got.output), std::mem::take(&mut got.complaint));
        Got { output, complaint, most, too_much }
    }
}

impl Got {
    pub(super) fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let text = helve_core::harmless::harmless(text.trim());
        if text.is_empty() { "it ended without a word".to_owned() } else { text }
    }
}

impl OutputSink for Answer {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let mut got = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match stream {
            Stream::Stderr => {
                let room = COMPLAINT_BYTES.saturating_sub(got.complaint.len());
                got.complaint.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            }
            Stream::Stdout if (got.output.len() + bytes.len()) as u64 > got.most => got.too_much = true,
            Stream::Stdout => got.output.extend_from_slice(bytes),
        }
    }
}
