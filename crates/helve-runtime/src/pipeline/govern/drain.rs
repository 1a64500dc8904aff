//! What happens to a command's output while it streams: redacted, kept, made harmless, counted, and passed on to whoever
//! listens — in that order.

use std::sync::{Arc, Mutex, PoisonError};

use helve_core::harmless::Harmless;
use helve_core::{BlobRef, Capture, OutputSink, Progress, Stream};
use helve_store::{BlobWriter, Blobs};

use super::redact::{Secrets, StreamRedactor};

/// The seed's frame around the two streams (`STDERR:`, `Exit code: N`) is at most this long.
const FRAME_CHARS: u64 = 64;
/// So much of one stream is passed on while the command runs, and so much of it at once.
const LIVE_BYTES: usize = 1 << 20;
const LIVE_PIECE: usize = 16 << 10;

/// The two bounded texts and the kept whole of one command.
pub(crate) struct Drain {
    stdout: Lane,
    stderr: Lane,
    keep: Keep,
}

/// Where a stream is passed on to while the command runs.
struct Live {
    to: Progress,
    stream: Stream,
    /// How many bytes may still be passed on.
    left: usize,
}

struct Lane {
    redactor: Option<StreamRedactor>,
    harmless: Harmless,
    capture: Capture,
    live: Option<Live>,
}

/// What a finished drain gives.
pub(crate) struct Drained {
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    pub(crate) blob: Option<BlobRef>,
    /// Why the whole could not be kept.
    pub(crate) lost: Option<String>,
}

/// Holds the beginning in memory and goes to a blob when a result could not show it all.
struct Keep {
    memory: Vec<u8>,
    memory_limit: usize,
    blobs: Arc<Blobs>,
    writer: Option<BlobWriter>,
    lost: Option<String>,
}

impl Drain {
    pub(crate) fn new(secrets: Option<&Arc<Secrets>>, budget: usize, blobs: Arc<Blobs>) -> Self {
        let lane = || Lane {
            redactor: secrets.map(|s| StreamRedactor::new(Arc::clone(s))),
            harmless: Harmless::default(),
            capture: Capture::new(budget),
            live: None,
        };
        let keep = Keep {
            memory: Vec::new(),
            memory_limit: budget.saturating_mul(4),
            blobs,
            writer: None,
            lost: None,
        };
        Drain { stdout: lane(), stderr: lane(), keep }
    }

    /// The same, with what comes out passed on to `listener` as it comes.
    pub(crate) fn live(mut self, listener: Option<Progress>) -> Self {
        let live = |stream| listener.clone().map(|to| Live { to, stream, left: LIVE_BYTES });
        self.stdout.live = live(Stream::Stdout);
        self.stderr.live = live(Stream::Stderr);
        self
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let lane = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        match &mut lane.redactor {
            None => {
                self.keep.push(bytes);
                lane.text(bytes);
            }
            Some(redactor) => {
                let clean = redactor.push(bytes);
                self.keep.push(&clean);
                lane.text(&clean);
            }
        }
    }

    pub(crate) fn finish(mut self, budget: u64) -> Drained {
        for lane in [&mut self.stdout, &mut self.stderr] {
            let rest = lane.redactor.as_mut().map(StreamRedactor::finish).unwrap_or_default();
            self.keep.push(&rest);
            lane.text(&rest);
            let capture = &mut lane.capture;
            lane.harmless.finish(&mut |part| capture.push(part));
        }
        let (stdout, stderr) = (self.stdout.capture, self.stderr.capture);
        let needed = stdout.chars() + stderr.chars() + FRAME_CHARS > budget;
        let (blob, lost) = if needed { self.keep.finish() } else { (None, None) };
        Drained { stdout, stderr, blob, lost }
    }
}

impl Lane {
    fn text(&mut self, bytes: &[u8]) {
        let capture = &mut self.capture;
        let Some(live) = &mut self.live else {
            return self.harmless.push(bytes, &mut |part| capture.push(part));
        };
        let mut shown = String::new();
        self.harmless.push(bytes, &mut |part| {
            capture.push(part);
            if shown.len() < LIVE_PIECE {
                shown.push_str(part);
            }
        });
        live.pass(shown);
    }
}

impl Live {
    /// Passes a piece on. A listener that does not keep up misses some, and nobody is sent more than the bound.
    fn pass(&mut self, mut piece: String) {
        let most = self.left.min(LIVE_PIECE);
        piece.truncate(piece.floor_char_boundary(most));
        if piece.is_empty() {
            return;
        }
        self.left -= piece.len();
        self.to.output(self.stream, piece);
    }
}

impl Keep {
    fn push(&mut self, bytes: &[u8]) {
        if self.lost.is_some() {
            return;
        }
        if self.writer.is_none() && self.memory.len() + bytes.len() <= self.memory_limit {
            self.memory.extend_from_slice(bytes);
            return;
        }
        self.write(bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        let memory = std::mem::take(&mut self.memory);
        let writer = self.writer.get_or_insert_with(|| self.blobs.writer());
        let written = writer.write(&memory).and_then(|()| writer.write(bytes));
        if let Err(error) = written {
            self.lost = Some(error.to_string());
            self.writer = None;
        }
    }

    fn finish(mut self) -> (Option<BlobRef>, Option<String>) {
        if self.writer.is_none() && self.lost.is_none() {
            self.write(&[]);
        }
        let Some(writer) = self.writer else { return (None, self.lost) };
        match writer.finish() {
            Ok(blob) => (Some(BlobRef { id: blob.id, bytes: blob.bytes, dropped: blob.dropped }), None),
            Err(error) => (None, Some(error.to_string())),
        }
    }
}

/// Keeps some bytes as a blob, without secrets.
pub(crate) fn keep(secrets: Option<&Arc<Secrets>>, blobs: &Blobs, bytes: &[u8]) -> Result<BlobRef, String> {
    let mut writer = blobs.writer();
    let written = match secrets {
        None => writer.write(bytes),
        Some(secrets) => {
            let mut redactor = StreamRedactor::new(Arc::clone(secrets));
            let clean = redactor.push(bytes);
            writer.write(&clean).and_then(|()| writer.write(&redactor.finish()))
        }
    };
    let blob = written.and_then(|()| writer.finish()).map_err(|error| error.to_string())?;
    Ok(BlobRef { id: blob.id, bytes: blob.bytes, dropped: blob.dropped })
}

/// A sink whose drain can be taken back when the command has ended.
#[derive(Clone)]
pub(crate) struct SharedDrain(Arc<Mutex<Option<Drain>>>);

impl SharedDrain {
    pub(crate) fn new(drain: Drain) -> Self {
        SharedDrain(Arc::new(Mutex::new(Some(drain))))
    }

    /// Takes the drain out; what comes later is dropped.
    pub(crate) fn take(&self) -> Option<Drain> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OutputSink for SharedDrain {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(drain) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            drain.push(stream, bytes);
        }
    }
}
