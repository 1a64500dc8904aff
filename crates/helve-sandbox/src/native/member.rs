//! Helve's record of one member: its sockets and pipes, the call that runs in it, and what is known of its end.
//!
//! Three locks, never two at a time. `doors` is what the call and the reactor both use, and is never held for long.
//! `flow` is the reactor's while a call runs: it is held while a sink takes bytes. `abandoned` is what a call leaves
//! behind that nobody waits for any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::{OutputSink, Stream};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::Signal;
use tokio::sync::oneshot;

use super::engine::{STDERR, STDOUT, TALK};
use super::records::RECORD_BYTES;
use super::socket;
use super::turn::Underway;
use super::wire::{self, Kind, Report};
use super::zygote::Zygote;

/// What one read takes at most.
pub(super) const BUFFER_BYTES: usize = 128 * 1024;
/// What a pipe holds from the start.
const SMALL_PIPE: usize = 64 * 1024;
/// What a pipe holds that was found full, where the system allows so much: fewer switches between writer and reader.
const LARGE_PIPE: usize = 1024 * 1024;

/// How the reactor saw a call end.
pub(super) enum Finish {
    /// The member said how.
    Reported(Report),
    /// Everything in the member is gone, and it said nothing.
    Lost,
    /// The request never reached a living member, so it may be made again; its sink comes back.
    NotDelivered(Option<Box<dyn OutputSink>>),
    /// The member could not be made: a step, an `errno`, and the sink.
    Refused(u32, i32, Option<Box<dyn OutputSink>>),
    /// The sink failed, and the command was ended.
    SinkFailed,
}

/// Whether a member can take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It waits for one.
    Ready,
    /// It is still being made; a request waits with it.
    Preparing,
    /// It has ended.
    Dead,
}

/// One member.
pub(super) struct Member {
    /// Told from others by this.
    pub(super) id: u64,
    /// What it was made for.
    pub(super) kind: Kind,
    /// Who made it. It lives as long as the zygote's record.
    pub(super) zygote: Arc<Zygote>,
    /// Whether it was made behind a wall of control groups.
    pub(super) fenced: bool,
    doors: Mutex<Doors>,
    flow: Mutex<Flow>,
    /// The mark of a call whose caller is gone; the reactor tidies up after it.
    abandoned: Mutex<Option<Underway>>,
    registered: AtomicBool,
}

#[derive(Default)]
struct Doors {
    talk: Option<OwnedFd>,
    pidfd: Option<OwnedFd>,
    /// It has said that it waits.
    ready: bool,
    /// The zygote has said that it was made.
    made: bool,
    /// It was told to end.
    killed: bool,
    /// The end of its process is waited for.
    watched: bool,
}

#[derive(Default)]
struct Flow {
    pipes: [Option<OwnedFd>; 2],
    large: bool,
    sink: Option<Box<dyn OutputSink>>,
    answer: Option<oneshot::Sender<Finish>>,
    report: Option<Report>,
    refused: Option<(u32, i32)>,
    /// `talk` was closed by the other side.
    silent: bool,
    /// It ended with its request unread.
    unread: bool,
    /// Its process has ended, and every other in it.
    gone: bool,
    sink_failed: bool,
}

/// What is needed to know how a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Nothing: it can be answered.
    Nothing,
    /// It still runs.
    End,
    /// What the zygote says of it.
    Word,
    /// The end of its process.
    Death,
}

impl Member {
    pub(super) fn new(
        id: u64,
        kind: Kind,
        zygote: Arc<Zygote>,
        talk: OwnedFd,
        pipes: [Option<OwnedFd>; 2],
    ) -> Member {
        Member {
            id,
            kind,
            fenced: zygote.groups().is_some(),
            zygote,
            doors: Mutex::new(Doors { talk: Some(talk), ..Doors::default() }),
            flow: Mutex::new(Flow { pipes, ..Flow::default() }),
            abandoned: Mutex::new(None),
            registered: AtomicBool::new(false),
        }
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it a call: where its output goes, and who waits for its end. Before its request is sent.
    pub(super) fn occupy(&self, sink: Option<Box<dyn OutputSink>>, answer: oneshot::Sender<Finish>) {
        let mut flow = self.flow();
        flow.sink = sink;
        flow.answer = Some(answer);
    }

    /// Takes the sink back from a call that did not begin.
    pub(super) fn vacate(&self) -> Option<Box<dyn OutputSink>> {
        let mut flow = self.flow();
        flow.answer = None;
        flow.sink.take()
    }

    /// Looks whether it waits for a request. Only for one that has none.
    pub(super) fn readiness(&self) -> Readiness {
        let mut doors = self.doors();
        if doors.ready {
            return Readiness::Ready;
        }
        let Some(talk) = &doors.talk else { return Readiness::Dead };
        let mut bytes = [0; RECORD_BYTES];
        match socket::receive(talk.as_fd(), &mut bytes) {
            Err(Errno::AGAIN) => Readiness::Preparing,
            Ok((count, _)) if is_ready(bytes.get(..count)) => {
                doors.ready = true;
                Readiness::Ready
            }
            _ => Readiness::Dead,
        }
    }

    /// Does something with each descriptor whose events are its own.
    pub(super) fn with_descriptors(
        &self,
        mut each: impl FnMut(u64, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for (what, pipe) in [STDOUT, STDERR].into_iter().zip(&self.flow().pipes) {
            if let Some(pipe) = pipe {
                each(what, pipe.as_fd())?;
            }
        }
        match &self.doors().talk {
            Some(talk) => each(TALK, talk.as_fd()),
            None => Ok(()),
        }
    }

    /// Sends its request.
    pub(super) fn request(&self, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let doors = self.doors();
        let talk = doors.talk.as_ref().ok_or(Errno::PIPE)?;
        socket::send(talk.as_fd(), parts, fds)
    }

    /// Ends everything in it. Whether the zygote's word about it has to be waited for first.
    pub(super) fn kill(&self) -> bool {
        let mut doors = self.doors();
        doors.killed = true;
        if let Some(pidfd) = &doors.pidfd {
            // An error means that it has ended already.
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
            return false;
        }
        if let Some(talk) = &doors.talk {
            // The member, if there is one yet, sees the same as if the socket were closed.
            let _ = rustix::net::shutdown(talk, Shutdown::Both);
        }
        true
    }

    /// Passes a signal on to its command. One for which there is no room, or no command any more, is lost.
    pub(super) fn signal(&self, number: i32) {
        let record = wire::Signal { tag: wire::Signal::TAG, number }.to_bytes();
        if let Some(talk) = &self.doors().talk {
            let _ = socket::send(talk.as_fd(), &[&record], &[]);
        }
    }

    /// The zygote has made it. What was told to end meanwhile ends now.
    pub(super) fn made(&self, pidfd: Option<OwnedFd>) {
        let mut doors = self.doors();
        doors.made = true;
        if let (true, Some(pidfd)) = (doors.killed, &pidfd) {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
        doors.pidfd = pidfd;
    }

    /// The zygote could not make it.
    pub(super) fn refused(&self, step: u32, errno: i32) {
        self.flow().refused = Some((step, errno));
    }

    /// Whether the zygote has said nothing of it although somebody waits for that.
    pub(super) fn wants_word(&self) -> bool {
        self.missing() == Missing::Word || {
            let doors = self.doors();
            doors.killed && !doors.made
        }
    }

    /// Reads one record from `talk`.
    pub(super) fn listen(&self) {
        let mut bytes = [0; RECORD_BYTES];
        let mut doors = self.doors();
        let Some(talk) = &doors.talk else { return };
        let mut unread = false;
        let report = loop {
            match socket::receive(talk.as_fd(), &mut bytes) {
                Err(Errno::AGAIN) => return,
                // It ended and had not read its request. What it said before comes after this.
                Err(Errno::CONNRESET) => unread = true,
                Ok((count @ 1.., _)) => break bytes.get(..count).and_then(Report::from_bytes),
                Ok(_) | Err(_) => break None,
            }
        };
        if report.is_some_and(|report| report.tag == Report::READY) {
            doors.ready = true;
            return;
        }
        // Either it has said its last word, or it never will. Closing the socket takes it from the reactor.
        doors.talk = None;
        drop(doors);
        let mut flow = self.flow();
        flow.silent = true;
        flow.unread = unread;
        flow.report = report;
    }

    /// Its process has ended.
    pub(super) fn died(&self) {
        self.doors().pidfd = None;
        self.flow().gone = true;
    }

    /// Does something with the descriptor of its process, once.
    pub(super) fn watch(&self, add: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>) {
        let mut doors = self.doors();
        let Some(pidfd) = &doors.pidfd else { return };
        if !doors.watched && add(pidfd.as_fd()).is_ok() {
            doors.watched = true;
        }
    }

    /// Whether its events wake the reactor. They do not while it is being made: a shell may write before it has its text.
    pub(super) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed)
    }

    /// Its events are to wake the reactor from now on. Whether they did not before.
    pub(super) fn set_registered(&self) -> bool {
        !self.registered.swap(true, Ordering::Relaxed)
    }

    /// Whether it has written nothing yet.
    pub(super) fn is_silent(&self) -> bool {
        let flow = self.flow();
        let mut pipes = flow.pipes.iter().flatten();
        pipes.all(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0))
    }

    /// Whether it has no call.
    pub(super) fn is_idle(&self) -> bool {
        self.flow().answer.is_none()
    }

    /// Whether it was made as a shell that has already started.
    pub(super) fn is_warm(&self) -> bool {
        self.kind == Kind::Warm
    }

    /// Leaves its call to the reactor.
    pub(super) fn abandon(&self, underway: Option<Underway>) {
        *self.abandoned.lock().unwrap_or_else(PoisonError::into_inner) = underway;
    }

    /// Takes what [`Member::abandon`] left.
    pub(super) fn abandoned(&self) -> Option<Underway> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What has to be known before its call can be answered.
    pub(super) fn missing(&self) -> Missing {
        let (made, has_process) = {
            let doors = self.doors();
            (doors.made, doors.pidfd.is_some())
        };
        let flow = self.flow();
        let zygote_gone = self.zygote.is_gone();
        match (flow.refused, flow.report) {
            (Some(_), _) => Missing::Nothing,
            // Where a bound was hit the rest is dying when the member says so; else it has seen all of it end.
            (None, Some(report)) if report.bound == 0 => Missing::Nothing,
            _ if flow.gone => Missing::Nothing,
            (None, None) if !flow.silent => Missing::End,
            _ if has_process => Missing::Death,
            // A dead zygote says no more, and the kernel has ended its members.
            _ if made || zygote_gone => Missing::Nothing,
            _ => Missing::Word,
        }
    }

    /// Moves one read of one output into the sink. How many bytes; the call is ended if the sink fails.
    pub(super) fn pump(&self, index: usize, buffer: &mut [u8]) -> usize {
        let mut flow = self.flow();
        let flow = &mut *flow;
        let Some(slot) = flow.pipes.get_mut(index) else { return 0 };
        let Some(pipe) = slot else { return 0 };
        let count = match rustix::io::read(&*pipe, &mut *buffer) {
            Ok(0) => {
                *slot = None;
                return 0;
            }
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return 0,
            Err(_) => {
                *slot = None;
                return 0;
            }
        };
        if count >= SMALL_PIPE && !flow.large {
            // A user who has many pipes is refused a large one; the small one works too.
            let _ = rustix::pipe::fcntl_setpipe_size(&*pipe, LARGE_PIPE);
            flow.large = true;
        }
        let stream = if index == 0 { Stream::Stdout } else { Stream::Stderr };
        let bytes = buffer.get(..count).unwrap_or_default();
        let Some(sink) = &mut flow.sink else { return count };
        // A sink is the caller's code; its panic ends its own call, not the thread that serves all of them.
        if catch_unwind(AssertUnwindSafe(|| sink.chunk(stream, bytes))).is_err() {
            flow.sink_failed = true;
            drop_sink(flow.sink.take());
            // Bytes that nobody takes would wake the reactor for ever.
            flow.pipes = [None, None];
            return 0;
        }
        count
    }

    /// Whether the sink has failed.
    pub(super) fn sink_failed(&self) -> bool {
        self.flow().sink_failed
    }

    /// Takes what is left in the pipes. Everything that wrote to them is gone, so that is no more than they hold; if a
    /// stranger was handed a writing end, it is not waited for.
    pub(super) fn drain(&self, buffer: &mut [u8]) {
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

    /// Answers its call. False if nobody waits for it.
    pub(super) fn answer(&self) -> bool {
        let (made, ready) = {
            let doors = self.doors();
            (doors.made, doors.ready)
        };
        let mut flow = self.flow();
        let Some(answer) = flow.answer.take() else { return false };
        let mut sink = flow.sink.take();
        let delivered = match self.kind {
            // The zygote speaks of a member right after it has made it.
            Kind::Direct => made,
            // One that waited for a request may have begun with it.
            Kind::Warm | Kind::Parked => ready && !flow.unread,
        };
        let failure = flow.refused.or(self.zygote.failure().filter(|_| !delivered));
        let finish = match (flow.sink_failed, failure, flow.report) {
            (true, ..) => Finish::SinkFailed,
            (false, None, Some(report)) => Finish::Reported(report),
            (false, Some((step, errno)), _) => Finish::Refused(step, errno, sink.take()),
            (false, None, None) if delivered => Finish::Lost,
            (false, None, None) => Finish::NotDelivered(sink.take()),
        };
        drop(flow);
        // A sink may write its last words when it goes, and the caller reads them after the answer.
        drop_sink(sink);
        answer.send(finish).is_ok()
    }
}

fn drop_sink(sink: Option<Box<dyn OutputSink>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
}

fn is_ready(bytes: Option<&[u8]>) -> bool {
    bytes.and_then(Report::from_bytes).is_some_and(|report| report.tag == Report::READY)
}
