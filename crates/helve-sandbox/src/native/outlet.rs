//! Where a call's output comes out: two pipes, and the sink that takes their bytes.
//!
//! The few bytes of most calls are moved by their own tasks when they have ended. The reactor moves those of a call that
//! runs on. One that writes much, or whose sink is slow, gets a thread of its own, so that no other call waits for its
//! sink; that thread then answers it too, when the reactor rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{OutputSink, Stream};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;

use super::engine::Engine;
use super::member::Member;

/// What one read takes at most.
pub(super) const BUFFER_BYTES: usize = 128 * 1024;
/// What a call's own task takes of an output at most: a sink is quick with it.
const LITTLE_BYTES: usize = 16 * 1024;
/// What a pipe holds from the start.
const SMALL_PIPE: usize = 64 * 1024;
/// What a pipe holds that was found full, where the system allows so much: fewer switches between writer and reader.
const LARGE_PIPE: usize = 1024 * 1024;
/// A sink that takes longer over some bytes would hold up others.
const SLOW: Duration = Duration::from_millis(1);

/// The outputs of one member.
#[derive(Default)]
pub(super) struct Outlet {
    pipes: [Option<OwnedFd>; 2],
    sink: Option<Box<dyn OutputSink>>,
    large: bool,
    bytes: usize,
    slow: bool,
    failed: bool,
}

impl Outlet {
    pub(super) fn new(pipes: [Option<OwnedFd>; 2]) -> Outlet {
        Outlet { pipes, ..Outlet::default() }
    }

    /// Names who takes the bytes.
    pub(super) fn set_sink(&mut self, sink: Option<Box<dyn OutputSink>>) {
        self.sink = sink;
    }

    /// Takes the sink back.
    pub(super) fn take_sink(&mut self) -> Option<Box<dyn OutputSink>> {
        self.sink.take()
    }

    /// The pipes that are open, by number.
    pub(super) fn pipes(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.pipes.iter().enumerate().filter_map(|(index, pipe)| Some((index, pipe.as_ref()?.as_fd())))
    }

    /// Whether somebody else than the reactor should see to it.
    pub(super) fn is_slow(&self) -> bool {
        self.slow || self.bytes > BUFFER_BYTES
    }

    /// Whether the sink has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Moves one read of one output into the sink. How many bytes.
    pub(super) fn pump(&mut self, index: usize, buffer: &mut [u8]) -> usize {
        let Some(slot) = self.pipes.get_mut(index) else { return 0 };
        let Some(pipe) = slot else { return 0 };
        let count = match rustix::io::read(&*pipe, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return 0,
            Ok(0) | Err(_) => {
                *slot = None;
                return 0;
            }
            Ok(count) => count,
        };
        if count >= SMALL_PIPE && !self.large {
            // A user who has many pipes is refused a large one; the small one works too.
            let _ = rustix::pipe::fcntl_setpipe_size(&*pipe, LARGE_PIPE);
            self.large = true;
        }
        let stream = if index == 0 { Stream::Stdout } else { Stream::Stderr };
        let bytes = buffer.get(..count).unwrap_or_default();
        let Some(sink) = &mut self.sink else { return count };
        let start = Instant::now();
        // A sink is the caller's code; its panic ends its own call, not the thread that serves all of them.
        if catch_unwind(AssertUnwindSafe(|| sink.chunk(stream, bytes))).is_err() {
            self.failed = true;
            drop_sink(self.sink.take());
            // Bytes that nobody takes would wake the reactor for ever.
            self.pipes = [None, None];
            return 0;
        }
        self.bytes = self.bytes.saturating_add(count);
        self.slow |= start.elapsed() > SLOW;
        count
    }

    /// Takes what is left in the pipes, as [`Outlet::drain`], if that is little: whether it was.
    pub(super) fn drain_little(&mut self) -> bool {
        let mut buffer = [0; LITTLE_BYTES];
        (0..2).all(|index| self.pump(index, &mut buffer) < LITTLE_BYTES)
    }

    /// Takes what is left in the pipes. Everything that wrote to them is gone, so that is no more than they hold; if a
    /// stranger was handed a writing end, it is not waited for.
    pub(super) fn drain(&mut self, buffer: &mut [u8]) {
        for index in 0..2 {
            let mut left = LARGE_PIPE;
            while left > 0 {
                match self.pump(index, buffer) {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
        }
    }
}

/// Drops a sink; its panic stays its own.
pub(super) fn drop_sink(sink: Option<Box<dyn OutputSink>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
}

/// Tells the thread of an outlet that its call has ended.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> Result<Bell, Errno> {
        Ok(Bell(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings. Once is enough.
    pub(super) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Serves a member's outlet from a thread of its own until the bell rings, and then answers its call.
pub(super) fn serve_apart(engine: &Engine, member: &Arc<Member>, bell: &Bell) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut outlet = member.outlet();
    let mut failed = false;
    while !wait(&mut outlet, bell, &mut buffer) {
        if outlet.has_failed() && !failed {
            failed = true;
            engine.kill(member);
        }
    }
    outlet.drain(&mut buffer);
    drop(outlet);
    engine.finish(member);
    engine.wake();
}

/// Waits for bytes and moves them. Whether the bell rings.
fn wait(outlet: &mut Outlet, bell: &Bell, buffer: &mut [u8]) -> bool {
    let mut watched = vec![PollFd::new(&bell.0, PollFlags::IN)];
    let mut indices = Vec::new();
    for (index, pipe) in outlet.pipes() {
        indices.push(index);
        watched.push(PollFd::from_borrowed_fd(pipe, PollFlags::IN));
    }
    // An error can only be an interruption; then nothing is ready.
    let _ = rustix::event::poll(&mut watched, None);
    let mut ready = watched.iter().map(|one| !one.revents().is_empty());
    let rung = ready.next().unwrap_or(false);
    let pipes: Vec<usize> =
        indices.iter().zip(ready).filter(|(_, ready)| *ready).map(|(index, _)| *index).collect();
    for index in pipes {
        outlet.pump(index, buffer);
    }
    rung
}
