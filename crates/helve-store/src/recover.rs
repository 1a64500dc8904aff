//! Putting right what an interrupted writer left, before the next entry is added.
//!
//! In: journal and head, under the exclusive lock. Out: the true head. Whole lines beyond the head are adopted when
//! they chain; the unfinished last line is taken out and remembered in a `recovered` entry. Anything else is no trace
//! of an interruption, so nothing is touched and the append is refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde_json::json;

use crate::batch::Batch;
use crate::head::Head;
use crate::journal::write_lines;
use crate::line::{Entry, EntryKind, Line};
use crate::reader::{LineReader, Piece};
use crate::{StoreError, files};

/// How much of a torn line is quoted.
const PREVIEW_CHARS: usize = 200;

/// The head to continue from. `length` is the journal's length now; the caller holds the exclusive lock.
pub(crate) fn settle(
    journal: &File,
    head_file: &File,
    length: u64,
    session: &str,
) -> Result<Head, StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot read the journal", session, error);
    let damaged = |reason: String| StoreError::Damaged { session: session.to_owned(), reason };
    let head = match Head::read(head_file).map_err(failed)? {
        Some(head) => head,
        None if length == 0 => {
            // Written before the first entry, so that a journal with entries always has a head.
            let head = Head::empty(session);
            head.write(head_file).map_err(failed)?;
            return Ok(head);
        }
        None => {
            return Err(damaged("its head file is missing or unreadable although it has entries".to_owned()));
        }
    };
    if length == head.bytes {
        return Ok(head);
    }
    if length < head.bytes {
        return Err(damaged(format!("it is {} bytes shorter than its head says", head.bytes - length)));
    }
    let (adopted, torn) = adopt(journal, head, length, session)?;
    let settled = if torn > 0 { take_out(journal, adopted, torn).map_err(failed)? } else { adopted };
    settled.write(head_file).map_err(failed)?;
    Ok(settled)
}

/// Follows the chain from the head to the end of the file. Returns the head after the last whole line, and how many
/// bytes of an unfinished line follow it.
fn adopt(journal: &File, head: Head, length: u64, session: &str) -> Result<(Head, u64), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot read the journal", session, error);
    let mut head = head;
    let file = journal.try_clone().map_err(failed)?;
    let mut reader = LineReader::new(file, head.bytes, length).map_err(failed)?;
    loop {
        let line = match reader.next().map_err(failed)? {
            None => return Ok((head, 0)),
            Some(Piece::Torn) => return Ok((head, length - head.bytes)),
            Some(Piece::TooLong) => None,
            Some(Piece::Line(bytes)) => Line::parse(bytes),
        };
        let next =
            line.filter(|line| line.seq == head.count + 1 && line.prev == head.hash && line.is_intact());
        let Some(line) = next else {
            return Err(StoreError::Damaged {
                session: session.to_owned(),
                reason: format!("what follows entry {} does not continue its chain", head.count),
            });
        };
        let hash = line.hash;
        head = Head { count: head.count + 1, bytes: reader.end(), hash };
    }
}

/// Cuts the unfinished line off and adds an entry that says what it was.
fn take_out(journal: &File, head: Head, torn: u64) -> io::Result<Head> {
    let mut start = vec![0_u8; usize::try_from(torn).unwrap_or(usize::MAX).min(PREVIEW_CHARS * 4)];
    journal.read_exact_at(&mut start, head.bytes)?;
    let preview: String = String::from_utf8_lossy(&start).chars().take(PREVIEW_CHARS).collect();
    let entry = Entry {
        kind: EntryKind::Recovered,
        call: None,
        at_us: files::microseconds(files::now()),
        body: json!({
            "bytes": torn,
            "hash": hash_range(journal, head.bytes, torn)?.to_hex().as_str(),
            "preview": preview,
        }),
    };
    let batch = Batch::of(&entry).map_err(io::Error::other)?;
    let mut line = Vec::new();
    let (count, hash) = batch.seal(head.count, head.hash, &mut line, |_, _| {});
    journal.set_len(head.bytes)?;
    write_lines(journal, &line, head.bytes)?;
    Ok(Head { count, bytes: head.bytes + line.len() as u64, hash })
}

fn hash_range(file: &File, from: u64, bytes: u64) -> io::Result<blake3::Hash> {
    let mut input = file.try_clone()?;
    io::Seek::seek(&mut input, io::SeekFrom::Start(from))?;
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut input.take(bytes), &mut hasher)?;
    Ok(hasher.finalize())
}
