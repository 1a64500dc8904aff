//! Keeping the state directory within its budget.
//!
//! In: a budget. Out: what was removed. In this order: temporary files that their writers left behind, the oldest blobs
//! until the rest fits, the undo records of the oldest calls until theirs does, only when asked whole sessions in which nothing has happened for long, and approvals that ended
//! long ago. Blobs of the last minute and sessions that a process has open are never touched. A blob that is gone leaves its
//! journal entry intact: only the long form of that output can no longer be read.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::OFlags;
use serde::Serialize;

use crate::blobs::{BLOBS, TEMPORARY, id_from_names};
use crate::files::{self, Lock, microseconds, modified, now};
use crate::head::{Head, Witness, ask_witness, remove_witness};
use crate::journal::{HEAD, JOURNAL};
use crate::seen::PREFIX as SEEN;
use crate::tail::last_line_end;
use crate::undo::UNDO;
use crate::{Approvals, Home, StoreError, Undo, UndoGcReport};

/// Temporary files older than this have no living writer.
const STALE_TEMPORARY: Duration = Duration::from_secs(3600);
/// Blobs younger than this may not be named in a journal yet.
const YOUNG_BLOB: Duration = Duration::from_secs(60);

/// How much to keep.
#[derive(Debug, Clone, Copy)]
pub struct GcOptions {
    /// Blobs may take this many bytes together.
    pub blob_budget_bytes: u64,
    /// Undo records and the contents of files may take this many bytes together.
    pub undo_budget_bytes: u64,
    /// Only say what would be removed.
    pub dry_run: bool,
    /// Also remove sessions whose last entry is older than this.
    pub sessions_older_than: Option<Duration>,
}

/// One thing that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// The blob's id, the session's name, or the temporary file's name.
    pub name: String,
    /// Bytes it took.
    pub bytes: u64,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Temporary files left behind by writers that died.
    pub temporaries: Vec<Removed>,
    /// Blobs, oldest first.
    pub blobs: Vec<Removed>,
    /// Sessions.
    pub sessions: Vec<Removed>,
    /// Calls that cannot be undone any more, and contents of files.
    pub undo: UndoGcReport,
    /// How many approvals that ended long ago were forgotten.
    pub approvals: usize,
    /// Bytes freed in all.
    pub freed_bytes: u64,
    /// Bytes that the remaining blobs take.
    pub blob_bytes_left: u64,
    /// What was passed over, and why.
    pub notes: Vec<String>,
}

/// Removes what the options do not leave room for.
pub fn gc(home: &Home, options: &GcOptions) -> Result<GcReport, StoreError> {
    let mut report = GcReport::default();
    let failed = |error| StoreError::io("cannot clean the blob directory", BLOBS, error);
    if let Some(blobs) = files::open_dir(home.dir(), BLOBS).map_err(failed)? {
        report.temporaries = remove_temporaries(&blobs, options.dry_run).map_err(failed)?;
        remove_blobs(&blobs, options, &mut report).map_err(failed)?;
    }
    if files::open_dir(home.dir(), UNDO).map_err(failed)?.is_some() {
        report.undo = Undo::open(home)?.gc(options.undo_budget_bytes, options.dry_run)?;
    }
    if let Some(age) = options.sessions_older_than {
        for session in home.sessions()? {
            remove_session(home, &session, age, options.dry_run, &mut report)?;
        }
    }
    if let Some(mut approvals) = Approvals::open_existing(home)? {
        report.approvals = approvals.gc(options.dry_run)?;
    }
    let undo = report.undo.calls.iter().chain(&report.undo.contents);
    let removed = report.temporaries.iter().chain(&report.blobs).chain(&report.sessions).chain(undo);
    report.freed_bytes = removed.map(|removed| removed.bytes).sum();
    Ok(report)
}

pub(crate) fn remove_temporaries(blobs: &OwnedFd, dry_run: bool) -> io::Result<Vec<Removed>> {
    let mut removed = Vec::new();
    let Some(dir) = files::open_dir(blobs, TEMPORARY)? else { return Ok(removed) };
    for name in files::names(&dir)? {
        let Some(stat) = files::stat(&dir, &name)? else { continue };
        if now().saturating_sub(modified(&stat)) < STALE_TEMPORARY {
            continue;
        }
        if !dry_run {
            files::remove_file(&dir, &name)?;
        }
        removed.push(Removed { name, bytes: size(&stat) });
    }
    Ok(removed)
}

pub(crate) fn size(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// A blob that may have to go.
struct Candidate {
    modified: Duration,
    id: String,
    bytes: u64,
}

fn remove_blobs(blobs: &OwnedFd, options: &GcOptions, report: &mut GcReport) -> io::Result<()> {
    let mut candidates = Vec::new();
    let mut total = 0;
    for first in files::names(blobs)?.into_iter().filter(|name| name.len() == 2) {
        let Some(dir) = files::open_dir(blobs, &first)? else { continue };
        for rest in files::names(&dir)? {
            let (Some(id), Some(stat)) = (id_from_names(&first, &rest), files::stat(&dir, &rest)?) else {
                continue;
            };
            total += size(&stat);
            candidates.push(Candidate { modified: modified(&stat), id, bytes: size(&stat) });
        }
    }
    candidates.sort_unstable_by(|a, b| (a.modified, &a.id).cmp(&(b.modified, &b.id)));
    for candidate in candidates {
        if total <= options.blob_budget_bytes {
            break;
        }
        if options.dry_run {
            if is_young(candidate.modified) {
                break;
            }
        } else if !remove_blob(blobs, &candidate.id)? {
            continue;
        }
        total -= candidate.bytes;
        report.blobs.push(Removed { name: candidate.id, bytes: candidate.bytes });
    }
    report.blob_bytes_left = total;
    Ok(())
}

pub(crate) fn is_young(modified: Duration) -> bool {
    now().saturating_sub(modified) < YOUNG_BLOB
}

/// Whether a blob stays young for long enough that somebody names it.
pub(crate) fn is_fresh(modified: Duration) -> bool {
    now().saturating_sub(modified) < YOUNG_BLOB / 4
}

/// Removes one blob unless somebody has just kept the same bytes again.
pub(crate) fn remove_blob(blobs: &OwnedFd, id: &str) -> io::Result<bool> {
    let digits = id.split_at(id.len() - 64).1;
    let (first, rest) = digits.split_at(2);
    let Some(dir) = files::open_dir(blobs, first)? else { return Ok(false) };
    let _lock = Lock::exclusive(blobs)?;
    match files::stat(&dir, rest)? {
        Some(stat) if !is_young(modified(&stat)) => files::remove_file(&dir, rest).map(|()| true),
        _ => Ok(false),
    }
}

fn remove_session(
    home: &Home,
    session: &str,
    age: Duration,
    dry_run: bool,
    report: &mut GcReport,
) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot remove the session", session, error);
    let dir = match home.session_dir(session) {
        Ok(Some(dir)) => dir,
        Ok(None) => return Ok(()),
        Err(error) => {
            report.notes.push(format!("session {session:?} was kept: {error}"));
            return Ok(());
        }
    };
    let open = || io::Result::Ok((files::open_to_read(&dir, JOURNAL)?, files::open_to_read(&dir, HEAD)?));
    let (journal, head) = match open() {
        Ok((Some(journal), Some(head))) => (journal, head),
        Ok((None, head)) if is_leftover(home, session, &dir, head.as_ref(), age)? => {
            if !dry_run {
                remove_files(home, session, &dir).map_err(failed)?;
            }
            report.sessions.push(Removed { name: session.to_owned(), bytes: 0 });
            return Ok(());
        }
        Ok(_) => {
            report.notes.push(format!("session {session:?} was kept: it has no journal or no head"));
            return Ok(());
        }
        Err(error) => {
            report.notes.push(format!("session {session:?} was kept: it cannot be read: {error}"));
            return Ok(());
        }
    };
    let metadata = journal.metadata().map_err(failed)?;
    let last = if metadata.len() == 0 {
        metadata
            .modified()
            .map_err(failed)?
            .duration_since(std::time::UNIX_EPOCH)
            .map(microseconds)
            .unwrap_or(0)
    } else {
        match last_entry_at(&journal, metadata.len()).map_err(failed)? {
            Some(at_us) => at_us,
            None => {
                report
                    .notes
                    .push(format!("session {session:?} was kept: its last line is no entry; verify it"));
                return Ok(());
            }
        }
    };
    if microseconds(now()).saturating_sub(last) <= microseconds(age) {
        return Ok(());
    }
    // Held to the end, so that nobody opens the journal for appending between the question and the removal.
    let Some(_unused) = Lock::try_exclusive(&head).map_err(failed)? else {
        report.notes.push(format!("session {session:?} was kept: it is in use"));
        return Ok(());
    };
    if !dry_run {
        let _appending = Lock::exclusive(&journal).map_err(failed)?;
        remove_witness(home, session)?;
        // Before the journal, so that whatever a kill leaves is a whole session, or one in which nothing has happened.
        let forget = || Head::empty(session).write(&files::open_or_make(&dir, HEAD, OFlags::RDWR)?);
        forget().and_then(|()| remove_files(home, session, &dir)).map_err(failed)?;
    }
    report.sessions.push(Removed { name: session.to_owned(), bytes: metadata.len() });
    Ok(())
}

/// Whether a session without a journal is what a removal that was killed left, or an opening.
fn is_leftover(
    home: &Home,
    session: &str,
    dir: &OwnedFd,
    head: Option<&File>,
    age: Duration,
) -> Result<bool, StoreError> {
    let look = || -> io::Result<bool> {
        let is_empty = match head {
            Some(head) if Lock::try_exclusive(head)?.is_none() => false,
            Some(head) => Head::read(head)?.is_none_or(|head| head.count == 0),
            None => true,
        };
        let ours = |name: &String| name == HEAD || name.trim_start_matches('.').starts_with(SEEN);
        let changed = modified(&rustix::fs::fstat(dir)?);
        Ok(is_empty && now().saturating_sub(changed) > age && files::names(dir)?.iter().all(ours))
    };
    let is_leftover = look().map_err(|error| StoreError::io("cannot look at the session", session, error))?;
    Ok(is_leftover && ask_witness(home, session)? == Witness::Missing)
}

fn remove_files(home: &Home, session: &str, dir: &OwnedFd) -> io::Result<()> {
    for seen in files::names(dir)?.iter().filter(|name| name.trim_start_matches('.').starts_with(SEEN)) {
        files::remove_file(dir, seen)?;
    }
    files::remove_file(dir, JOURNAL)?;
    files::remove_file(dir, HEAD)?;
    files::remove_dir(home.make_sessions_dir()?, session)
}

/// When the last finished line was written, by its own account.
fn last_entry_at(journal: &File, length: u64) -> io::Result<Option<u64>> {
    let end = last_line_end(journal, length)?;
    let start = last_line_end(journal, end.saturating_sub(1))?;
    let mut text = [0_u8; 40];
    let count = journal.read_at(&mut text, start)?;
    let digits = text[..count].strip_prefix(b"{\"at_us\":").unwrap_or_default();
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Ok(crate::line::parse_u64(&digits[..length]))
}

#[cfg(test)]
mod tests;
