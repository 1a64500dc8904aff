//! What is printed, on its way to whoever reads it, where that is no terminal: a queue for each reader and a thread that writes.
//! So a reader that does not read holds up nobody but the thread.
//!
//! In: bytes for both streams, from any thread. Out: the same bytes in the same order, and word of how the reader keeps up
//! ([`attend`]): whoever prints much waits at that word, or there would be no bound but [`MOST`]. Where both streams lead to one
//! place they share a queue. Only a command that calls [`open`] prints so; the others write as they go.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::cannot_print;
use crate::failure::Failure;

/// With more than this unwritten a reader is behind, and with half of it no more.
const ENOUGH: usize = 256 << 10;
/// Who leaves more than this unread does not read at all.
const MOST: usize = 256 << 20;
/// What one write takes: a pipe's page, so that it shows how slowly somebody reads.
const PIECE: usize = 4096;
/// How often it is looked whether somebody reads.
const LOOK: Duration = Duration::from_millis(50);

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How the readers keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One is behind.
    Behind,
    /// None is behind any more.
    CaughtUp,
    /// Standard output takes no more.
    Unread,
}

/// The way to one reader.
pub(super) struct Lane {
    /// A stream that leads there.
    of: Stream,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// How many bytes were written.
    written: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Stream, Vec<u8>)>,
    /// How many bytes are not written, with those that are just being written.
    bytes: usize,
    behind: bool,
    /// Nothing is waited for any more.
    given_up: bool,
    /// Why standard output takes no more.
    failed: Option<Failure>,
}

/// Where each stream leads; none to a terminal.
struct Lanes {
    out: Option<Arc<Lane>>,
    err: Option<Arc<Lane>>,
}

static LANES: OnceLock<Lanes> = OnceLock::new();

/// Who wants to know how the readers keep up.
struct Hears {
    /// How many of them are behind.
    behind: usize,
    hear: Option<Box<dyn Fn(Pace) + Send>>,
}

static HEARS: Mutex<Hears> = Mutex::new(Hears { behind: 0, hear: None });

/// From now on nobody waits for a reader who prints. Where there is no thread to be had, all is as without it.
pub(crate) fn open() {
    LANES.get_or_init(|| {
        let lane = |of: Stream, is_terminal: bool| if is_terminal { None } else { Lane::start(of) };
        let out = lane(Stream::Out, io::stdout().is_terminal());
        let err = match &out {
            Some(out) if lead_to_one_place() => Some(Arc::clone(out)),
            _ => lane(Stream::Err, io::stderr().is_terminal()),
        };
        Lanes { out, err }
    });
}

/// The way that a stream goes; none if whoever prints writes.
pub(super) fn of(stream: Stream) -> Option<&'static Lane> {
    let lanes = LANES.get()?;
    match stream {
        Stream::Out => lanes.out.as_deref(),
        Stream::Err => lanes.err.as_deref(),
    }
}

/// Somebody hears how the readers keep up, as long as it lives.
pub(crate) struct Attending(());

/// Tells how the readers keep up from now on, from any thread and with the queue in hand: `hear` prints nothing.
pub(crate) fn attend(hear: impl Fn(Pace) + Send + 'static) -> Attending {
    let mut hears = hears();
    if hears.behind > 0 {
        hear(Pace::Behind);
    }
    hears.hear = Some(Box::new(hear));
    Attending(())
}

impl Drop for Attending {
    fn drop(&mut self) {
        hears().hear = None;
    }
}

/// Waits until everything is written, or no byte of it was read for so long: then the rest is given up. Says what is wrong with
/// standard output.
pub(crate) fn flush(patience: Duration) -> Result<(), Failure> {
    let Some(Lanes { out, err }) = LANES.get() else { return Ok(()) };
    let written = out.as_ref().map_or(Ok(()), |lane| lane.flush(patience));
    if let Some(lane) = err {
        let _ = lane.flush(patience);
    }
    written
}

impl Lane {
    fn start(of: Stream) -> Option<Arc<Lane>> {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let lane = Arc::new(Lane { of, queue, changed, written: AtomicU64::new(0) });
        let own = Arc::clone(&lane);
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(move || own.work());
        thread.ok().map(|_| lane)
    }

    /// Takes more; waits for nothing.
    pub(super) fn put(&self, stream: Stream, bytes: Vec<u8>) -> Result<(), Failure> {
        let mut queue = self.queue();
        if stream == Stream::Out {
            // Who went away is noticed at once, as by a write.
            if queue.failed.is_none() && (queue.bytes > MOST || is_closed(io::stdout().as_fd())) {
                queue.failed = Some(Failure::ReaderGone);
            }
            if let Some(failed) = &queue.failed {
                return Err(failed.clone());
            }
        }
        if queue.given_up || queue.bytes > MOST {
            return Ok(());
        }
        queue.bytes += bytes.len();
        queue.waiting.push_back((stream, bytes));
        queue.look();
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// Writes what comes, to the end of the program.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let (stream, bytes) = loop {
                match queue.waiting.pop_front() {
                    Some(next) => break next,
                    None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            let is_lost = stream == Stream::Out && queue.failed.is_some();
            drop(queue);
            let written = if is_lost { Ok(()) } else { self.write(stream, &bytes) };
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_sub(bytes.len());
            // What cannot be said on standard error can be said nowhere.
            if let (Stream::Out, Err(errno)) = (stream, written) {
                queue.failed.get_or_insert_with(|| cannot_print(errno.into()));
                hears().tell(Pace::Unread);
            }
            queue.look();
            drop(queue);
            self.changed.notify_all();
        }
    }

    fn write(&self, stream: Stream, mut bytes: &[u8]) -> Result<(), Errno> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let to = if stream == Stream::Out { stdout.as_fd() } else { stderr.as_fd() };
        while let Some(piece) = bytes.get(..bytes.len().min(PIECE)).filter(|piece| !piece.is_empty()) {
            match rustix::io::write(to, piece) {
                Ok(count) => {
                    self.written.fetch_add(count as u64, Ordering::Relaxed);
                    bytes = &bytes[count..];
                }
                Err(Errno::INTR) => {}
                // Somebody who shares it made it so.
                Err(Errno::AGAIN) => drop(poll(&mut [PollFd::from_borrowed_fd(to, PollFlags::OUT)], None)),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn flush(&self, patience: Duration) -> Result<(), Failure> {
        let (mut read, mut since) = (self.read(), Instant::now());
        let mut queue = self.queue();
        while queue.bytes > 0 && !queue.given_up {
            let waited = self.changed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            let now = self.read();
            if now != read {
                (read, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                queue.given_up = true;
                queue.waiting.clear();
                queue.failed.get_or_insert(Failure::ReaderGone);
            }
        }
        queue.failed.clone().map_or(Ok(()), Err)
    }

    /// What changes when somebody reads: how much was written, and how much of it lies in the pipe.
    fn read(&self) -> (u64, u64) {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let to = if self.of == Stream::Out { stdout.as_fd() } else { stderr.as_fd() };
        (self.written.load(Ordering::Relaxed), rustix::io::ioctl_fionread(to).unwrap_or(0))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Looks whether the reader is behind, and tells where that changed.
    fn look(&mut self) {
        let most = if self.behind { ENOUGH / 2 } else { ENOUGH };
        let behind = self.bytes > most;
        if std::mem::replace(&mut self.behind, behind) == behind {
            return;
        }
        let mut hears = hears();
        let before = hears.behind;
        hears.behind = if behind { before + 1 } else { before.saturating_sub(1) };
        match (before, hears.behind) {
            (0, _) => hears.tell(Pace::Behind),
            (_, 0) => hears.tell(Pace::CaughtUp),
            _ => {}
        }
    }
}

impl Hears {
    fn tell(&self, pace: Pace) {
        if let Some(hear) = &self.hear {
            hear(pace);
        }
    }
}

fn hears() -> MutexGuard<'static, Hears> {
    HEARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether nobody can read any more what is written there.
fn is_closed(to: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    let closed = PollFlags::ERR | PollFlags::HUP;
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().intersects(closed)
}

/// Whether both streams are the same pipe or file.
fn lead_to_one_place() -> bool {
    let (Ok(out), Ok(err)) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) else {
        return false;
    };
    (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)
}
