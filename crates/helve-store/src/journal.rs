//! Appending to a session's journal.
//!
//! In: entries. Out: their place in the chain. Several processes may append to one session: each append takes the
//! file lock, finds the head, writes the line with one `write(2)`, then rewrites the head in place. The line always
//! comes first, so after a `kill -9` the head may lag behind whole lines or the file may end in part of one; the next
//! append puts that right (`recover`). An append never overwrites and never follows a symbolic link.
//!
//! Who appends again in a moment may [stay](After::Stay): the lock is kept, so that nobody has to be looked for before the next
//! append, and the head is written when the lock is given back ([`Journal::rest`]).
//!
//! A journal that no longer contains what was seen in it was tampered with, and nothing is added to it. What was seen
//! is what this handle wrote last or, at its first append, what the witness says; the witness is moved forward at the
//! first append, after every [`WITNESS_EVERY`] entries, at the first append [`WITNESS_AFTER`] the last time, and when the handle
//! is dropped, so that most appends do not pay for it.
//!
//! While a [`Journal`] is open it also holds a shared lock on the head file. That is how readers tell a call that is
//! still running from one that was cut, and how gc knows to keep its hands off.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use serde::Serialize;

use crate::batch::Batch;
use crate::files::{self, Lock};
use crate::head::{Head, read_witness, witness_path, write_witness};
use crate::home::check_session;
use crate::line::Entry;
use crate::{Home, StoreError, recover};

pub(crate) const JOURNAL: &str = "journal.jsonl";
pub(crate) const HEAD: &str = "head";

/// How often an append starts over when the session is removed under its hands.
const REOPENINGS: usize = 8;

/// Entries that a handle writes before it moves the witness forward again.
const WITNESS_EVERY: u64 = 1024;
/// How long after that it moves it with the next entry in any case: what a killed process wrote before that is not forgotten.
const WITNESS_AFTER: Duration = Duration::from_millis(100);

/// So much room for lines is kept between appends.
const MOST_KEPT: usize = 256 << 10;

/// How a journal is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct JournalOptions {
    /// Wait for the disk at every append, so that entries survive power loss and not only the death of a process.
    pub fsync: bool,
}

/// What becomes of the lock after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is given back.
    Rest,
    /// It is kept until [`Journal::rest`]. Every other process that wants to append waits at least that long, and so does every
    /// other handle of this one: whoever stays does nothing else meanwhile that could take long or want the journal, and does not
    /// stay all the time, because a lock that is free for an instant is seldom got by who waits for it.
    Stay,
}

/// Where an appended entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Position in the session, counted from 1.
    pub seq: u64,
    /// Hash of the entry, 64 hexadecimal digits.
    pub hash: String,
}

/// A session's journal, open for appending. Threads may share it.
#[derive(Debug)]
pub struct Journal {
    home: Home,
    session: String,
    options: JournalOptions,
    open: Mutex<Open>,
}

impl Journal {
    /// Opens a session's journal, making it when there is none. Fails when there was one before and it is gone.
    pub fn open(home: &Home, session: &str, options: JournalOptions) -> Result<Journal, StoreError> {
        check_session(session)?;
        let open = Mutex::new(Open::new(home, session, options)?);
        Ok(Journal { home: home.clone(), session: session.to_owned(), options, open })
    }

    /// Appends one entry. When this returns, the entry survives the death of the process.
    pub fn append<B: Serialize>(&self, entry: &Entry<B>) -> Result<Appended, StoreError> {
        let (seq, hash) = self.append_batch(&Batch::of(entry)?, After::Rest, |_, _| {})?;
        Ok(Appended { seq, hash: hash.to_hex().to_string() })
    }

    /// Appends entries next to each other, with one lock and one write. When it fails none of them gets a place; a
    /// process that is killed in the middle may leave the first few.
    pub fn append_all<B: Serialize>(&self, entries: &[Entry<B>]) -> Result<Vec<Appended>, StoreError> {
        let mut places = Vec::with_capacity(entries.len());
        if !entries.is_empty() {
            let placed = |seq, hash: blake3::Hash| {
                places.push(Appended { seq, hash: hash.to_hex().to_string() });
            };
            self.append_batch(&Batch::all(entries)?, After::Rest, placed)?;
        }
        Ok(places)
    }

    /// The same for whoever does not ask where the entries stand.
    pub fn record<B: Serialize>(&self, entries: &[Entry<B>]) -> Result<(), StoreError> {
        self.record_batch(&Batch::all(entries)?, After::Rest)
    }

    /// The same for whoever has made the entries ready.
    pub fn record_batch(&self, entries: &Batch, after: After) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.append_batch(entries, after, |_, _| {}).map(|_| ())
    }

    /// Gives back the lock that was kept.
    pub fn rest(&self) -> Result<(), StoreError> {
        self.let_go(&mut self.files())
    }

    /// The session this journal belongs to.
    pub fn session(&self) -> &str {
        &self.session
    }

    fn files(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_batch(
        &self,
        entries: &Batch,
        after: After,
        mut placed: impl FnMut(u64, blake3::Hash),
    ) -> Result<(u64, blake3::Hash), StoreError> {
        let mut open = self.files();
        let before = self.take_hold(&mut open)?;
        let mut lines = std::mem::take(&mut open.lines);
        lines.clear();
        let (count, hash) = entries.seal(before.count, before.hash, &mut lines, &mut placed);
        let head = Head { count, bytes: before.bytes + lines.len() as u64, hash };
        let written =
            write_lines(&open.journal, &lines, before.bytes).and_then(|()| match self.options.fsync {
                true => open.journal.sync_data(),
                false => Ok(()),
            });
        if lines.capacity() <= MOST_KEPT {
            open.lines = lines;
        }
        if let Err(error) = written {
            // What was written before stands; of this nothing does, or a part that the next append puts right.
            let _ = self.let_go(&mut open);
            return Err(self.failed(error));
        }
        open.last = Some(head);
        open.head_lags = true;
        let is_due = open.witnessed.is_none_or(|witnessed| witnessed.is_old(head.count));
        if after == After::Rest || is_due {
            self.let_go(&mut open)?;
        }
        if is_due {
            self.bear_witness(&mut open);
        }
        Ok((head.count, head.hash))
    }

    /// Takes the lock, unless it was kept; what the journal holds then.
    fn take_hold(&self, open: &mut Open) -> Result<Head, StoreError> {
        if let (true, Some(last)) = (open.is_held, open.last) {
            return Ok(last);
        }
        for _ in 0..REOPENINGS {
            let lock = Lock::exclusive(&open.journal).map_err(|error| self.failed(error))?;
            let stat = rustix::fs::fstat(&open.journal).map_err(|error| self.failed(error.into()))?;
            if stat.st_nlink == 0 {
                // The session was removed or replaced since it was opened: go on with what has its name now, if that
                // may be.
                drop(lock);
                self.bear_witness(open);
                *open = Open::new(&self.home, &self.session, self.options)?;
                continue;
            }
            let length = u64::try_from(stat.st_size).unwrap_or(0);
            // A journal only ever grows, so one that is as long as this handle left it is as it left it.
            let before = match open.last {
                Some(last) if last.bytes == length && !open.head_lags => last,
                last => {
                    self.check_past(&open.journal, last)?;
                    recover::settle(&open.journal, &open.head, length, &self.session)?
                }
            };
            lock.keep();
            (open.is_held, open.head_lags, open.last) = (true, false, Some(before));
            return Ok(before);
        }
        let error = io::Error::other("the session is being removed over and over while it is in use");
        Err(self.failed(error))
    }

    /// Writes the head, if it is behind, and gives the lock back. A head that could not be written is put right by the next append.
    fn let_go(&self, open: &mut Open) -> Result<(), StoreError> {
        if !std::mem::take(&mut open.is_held) {
            return Ok(());
        }
        let written = match open.last.filter(|_| open.head_lags) {
            Some(last) => last.write(&open.head),
            None => Ok(()),
        };
        open.head_lags &= written.is_err();
        Lock::give_back(&open.journal);
        written.map_err(|error| self.failed(error))
    }

    /// Refuses a journal that does not contain what was seen in it before.
    fn check_past(&self, journal: &File, last: Option<Head>) -> Result<(), StoreError> {
        let seen = match last {
            Some(last) => Some(last),
            None => read_witness(&self.home, &self.session)?,
        };
        let Some(seen) = seen else { return Ok(()) };
        if seen.is_in(journal, &self.session).map_err(|error| self.failed(error))? {
            return Ok(());
        }
        let reason = format!("entry {} was written to it and is not in it any more", seen.count);
        Err(StoreError::Damaged { session: self.session.clone(), reason })
    }

    /// Moves the witness to what this handle wrote last.
    fn bear_witness(&self, open: &mut Open) {
        let Some(last) =
            open.last.filter(|last| open.witnessed.is_none_or(|known| known.count != last.count))
        else {
            return;
        };
        open.witnessed = Some(Witnessed { count: last.count, at: Instant::now() });
        let removed = rustix::fs::fstat(&open.journal).is_ok_and(|stat| stat.st_nlink == 0);
        if removed && matches!(read_witness(&self.home, &self.session), Ok(None)) {
            // The session was removed together with its witness, so on purpose.
            return;
        }
        // The entries are safe in the journal; a witness that cannot be written now is written the next time.
        let _ = write_witness(&self.home, &self.session, &last);
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io("cannot append to the journal", self.session.as_str(), error)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let mut open = self.files();
        // What the head does not say the next append finds out.
        let _ = self.let_go(&mut open);
        self.bear_witness(&mut open);
    }
}

/// Writes whole lines at the end of the journal, or nothing: when the disk is full, the part that went through is
/// taken back.
pub(crate) fn write_lines(mut journal: &File, lines: &[u8], length_before: u64) -> io::Result<()> {
    journal.write_all(lines).inspect_err(|_| {
        // If this fails too, the part that stays is a torn line and the next append takes it out.
        let _ = journal.set_len(length_before);
    })
}

/// How many entries the witness was told of, and when.
#[derive(Clone, Copy, Debug)]
struct Witnessed {
    count: u64,
    at: Instant,
}

impl Witnessed {
    /// Whether it is to be told again, at an append behind which so many entries stand.
    fn is_old(self, count: u64) -> bool {
        count.saturating_sub(self.count) >= WITNESS_EVERY || self.at.elapsed() >= WITNESS_AFTER
    }
}

/// The two open files of a session.
#[derive(Debug)]
struct Open {
    journal: File,
    head: File,
    /// What this handle wrote last.
    last: Option<Head>,
    /// Whether the lock on the journal is held.
    is_held: bool,
    /// Whether the head does not say yet what was written last.
    head_lags: bool,
    /// What the witness knows from this handle.
    witnessed: Option<Witnessed>,
    /// Room for the lines of the next append, so that not each of them has to ask for it.
    lines: Vec<u8>,
}

impl Open {
    fn new(home: &Home, session: &str, options: JournalOptions) -> Result<Open, StoreError> {
        refuse_if_gone(home, session)?;
        let open = || {
            let sessions = home.make_sessions_dir()?;
            let mut attempts = 0;
            loop {
                attempts += 1;
                let dir = files::make_dir(&sessions, session)?;
                let made = options.fsync && files::stat(&dir, HEAD)?.is_none();
                let journal = files::open_or_make(&dir, JOURNAL, OFlags::RDWR | OFlags::APPEND);
                let head = files::open_or_make(&dir, HEAD, OFlags::RDWR);
                let (journal, head) = match (journal, head) {
                    (Ok(journal), Ok(head)) => (journal, head),
                    // The directory was removed between making it and using it.
                    (Err(error), _) | (_, Err(error)) => {
                        if error.kind() == io::ErrorKind::NotFound && attempts < REOPENINGS {
                            continue;
                        }
                        return Err(error);
                    }
                };
                rustix::io::retry_on_intr(|| rustix::fs::flock(&head, FlockOperation::LockShared))?;
                if made {
                    rustix::fs::fsync(&dir)?;
                    rustix::fs::fsync(&sessions)?;
                    rustix::fs::fsync(home.dir())?;
                }
                let (is_held, head_lags, lines) = (false, false, Vec::new());
                return Ok(Open { journal, head, last: None, is_held, head_lags, witnessed: None, lines });
            }
        };
        open().map_err(|error: io::Error| StoreError::io("cannot open the journal", session, error))
    }
}

/// Refuses to start a session anew whose journal is gone but not forgotten.
fn refuse_if_gone(home: &Home, session: &str) -> Result<(), StoreError> {
    let exists = || -> Result<bool, StoreError> {
        let Some(dir) = home.session_dir(session)? else { return Ok(false) };
        let stat = files::stat(&dir, JOURNAL);
        Ok(stat.map_err(|error| StoreError::io("cannot open the journal", session, error))?.is_some())
    };
    if exists()? {
        return Ok(());
    }
    let seen = read_witness(home, session)?.filter(|seen| seen.count > 0);
    match seen {
        // Asked again: another process may just have begun the session.
        Some(seen) if !exists()? => Err(StoreError::Gone {
            session: session.to_owned(),
            entries: seen.count,
            witness: witness_path(home, session),
        }),
        _ => Ok(()),
    }
}

/// Whether some process has this session's journal open for appending.
pub(crate) fn is_in_use(home: &Home, session: &str) -> Result<bool, StoreError> {
    let Some(dir) = home.session_dir(session)? else { return Ok(false) };
    let probe = || -> io::Result<bool> {
        let Some(head) = files::open_to_read(&dir, HEAD)? else { return Ok(false) };
        // Another reader may be asking the same question in this very moment; an appender stays longer.
        for _ in 0..3 {
            if Lock::try_exclusive(&head)?.is_some() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    };
    probe().map_err(|error| StoreError::io("cannot look at the session", session, error))
}

#[cfg(test)]
mod tests;
