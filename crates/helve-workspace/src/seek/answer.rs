//! What a search keeps: the first matches in order, although they are found in any order.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use helve_core::files::{FileHits, HitLine, SearchMode, SearchRequest, Searched};

use super::names::shown;
use super::unread::locked;

/// The path behind which nothing can be part of the answer any more.
#[derive(Default)]
pub(super) struct Cutoff {
    version: AtomicU64,
    last: Mutex<Option<Vec<u8>>>,
}

/// What one thread knows of a [`Cutoff`].
#[derive(Default)]
pub(super) struct Seen {
    version: u64,
    last: Option<Vec<u8>>,
}

impl Cutoff {
    pub(super) fn lower(&self, path: &[u8]) {
        let mut last = locked(&self.last);
        if last.as_deref().is_none_or(|last| path < last) {
            *last = Some(path.to_vec());
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    pub(super) fn is_behind(&self, seen: &mut Seen, path: &[u8]) -> bool {
        let version = self.version.load(Ordering::Acquire);
        if version != seen.version {
            seen.last.clone_from(&locked(&self.last));
            seen.version = version;
        }
        seen.last.as_deref().is_some_and(|last| path > last)
    }
}

/// What one file has.
#[derive(Default)]
pub(super) struct Hits {
    /// Matching lines.
    pub(super) count: u64,
    /// Bytes of the lines that are kept.
    pub(super) bytes: usize,
    pub(super) lines: Vec<HitLine>,
    /// Whether it has more than these.
    pub(super) cut: bool,
}

/// The files with matches that may be part of the answer.
pub(super) struct Store {
    kept: Mutex<Kept>,
    pub(super) cutoff: Cutoff,
    /// Whether matching lines are counted, or files.
    lines: bool,
    /// As many lines or files as the answer needs, and one more to know whether there are more.
    enough: u64,
    enough_bytes: usize,
}

#[derive(Default)]
struct Kept {
    files: BTreeMap<Vec<u8>, Hits>,
    units: u64,
    bytes: usize,
}

impl Store {
    pub(super) fn new(request: &SearchRequest) -> Store {
        Store {
            kept: Mutex::default(),
            cutoff: Cutoff::default(),
            lines: request.mode == SearchMode::Lines,
            enough: enough(request),
            enough_bytes: request.max_bytes.saturating_add(1),
        }
    }

    pub(super) fn add(&self, path: &[u8], hits: Hits) {
        let units = |hits: &Hits| if self.lines { hits.count } else { 1 };
        let mut kept = locked(&self.kept);
        kept.units += units(&hits);
        kept.bytes += hits.bytes;
        kept.files.insert(path.to_vec(), hits);
        let is_enough = |units: u64, bytes: usize| units >= self.enough || bytes >= self.enough_bytes;
        while let Some((_, last)) = kept.files.last_key_value() {
            let (rest, rest_bytes) = (kept.units - units(last), kept.bytes - last.bytes);
            if !is_enough(rest, rest_bytes) {
                break;
            }
            (kept.units, kept.bytes) = (rest, rest_bytes);
            kept.files.pop_last();
        }
        if is_enough(kept.units, kept.bytes)
            && let Some((last, _)) = kept.files.last_key_value()
        {
            self.cutoff.lower(last);
        }
    }

    pub(super) fn files(&self) -> BTreeMap<Vec<u8>, Hits> {
        std::mem::take(&mut locked(&self.kept).files)
    }
}

/// How many matching lines or files have to be found at the most.
pub(super) fn enough(request: &SearchRequest) -> u64 {
    (request.skip as u64).saturating_add(request.limit as u64).saturating_add(1)
}

/// Fills an answer with files in order until one of its bounds is reached.
pub(super) struct Filling<'a> {
    request: &'a SearchRequest,
    prefix: &'a str,
    /// How many lines or files are still passed over.
    skip: u64,
    left: u64,
    bytes: usize,
    pub(super) answer: Searched,
}

impl<'a> Filling<'a> {
    pub(super) fn new(request: &'a SearchRequest, prefix: &'a str, skip: u64) -> Self {
        let left = request.limit as u64;
        Filling { request, prefix, skip, left, bytes: 0, answer: Searched::default() }
    }

    /// Takes the next file; false if nothing more fits.
    pub(super) fn take(&mut self, path: Vec<u8>, hits: Hits) -> bool {
        if self.request.mode != SearchMode::Lines {
            return self.take_file(path, hits.count);
        }
        let mut lines = Vec::new();
        let mut count = 0;
        let mut last: Option<u64> = None;
        // Lines around a match that wait for the next match, to know whether they belong to it.
        let mut around: Vec<HitLine> = Vec::new();
        let (before, after) = (self.request.before as u64, self.request.after as u64);
        let follows = |line: &HitLine, last: Option<u64>| {
            last.is_some_and(|last| line.line <= last.saturating_add(after))
        };
        for line in hits.lines {
            if !line.matched {
                around.push(line);
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                around.clear();
                continue;
            }
            // Each line stands with its path and its number.
            let room = |line: &HitLine| line.text.len() + path.len() + 8;
            let bytes = self.bytes + room(&line);
            if self.left == 0 || (self.bytes > 0 && bytes > self.request.max_bytes) {
                self.answer.more = true;
                self.left = 0;
                break;
            }
            let near = |context: &HitLine| {
                follows(context, last) || context.line.saturating_add(before) >= line.line
            };
            for context in around.drain(..).filter(near) {
                self.bytes += room(&context);
                lines.push(context);
            }
            self.bytes += room(&line);
            self.left -= 1;
            count += 1;
            last = Some(line.line);
            lines.push(line);
        }
        lines.extend(around.into_iter().filter(|context| follows(context, last)));
        self.answer.more |= hits.cut;
        if count > 0 {
            self.answer.files.push(FileHits { path: shown(self.prefix, path), count, lines });
        }
        !self.answer.more
    }

    fn take_file(&mut self, path: Vec<u8>, count: u64) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return true;
        }
        if self.left == 0 || (self.bytes > 0 && self.bytes + path.len() > self.request.max_bytes) {
            self.answer.more = true;
            return false;
        }
        self.left -= 1;
        self.bytes += path.len() + 1;
        self.answer.files.push(FileHits { path: shown(self.prefix, path), count, lines: Vec::new() });
        true
    }
}
