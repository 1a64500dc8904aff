//! Helve's record of one member: its sockets and pipes, the call that runs in it, and what is known of its end.
//!
//! Locks are taken one at a time. `doors` is how it is reached, `flow` is what is known of a call's end, and `abandoned` is
//! what a call leaves behind that nobody waits for any more; none is held for long.
//! `outlet` is held while a sink takes bytes: by the call's task, the reactor, or the thread that a slow sink has.

mod states;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

use helve_core::OutputSink;
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::Signal;
use tokio::sync::oneshot;

use super::engine::{STDERR, STDOUT, TALK};
use super::notes::{self, Notes};
use super::outlet::{Bell, Outlet, drop_sink};
use super::records::RECORD_BYTES;
use super::socket;
use super::turn::Underway;
use super::wire::{self, Kind, Report, Step};
use super::zygote::{Wall, Zygote};

pub(super) use states::{Finish, Missing, Readiness};

/// One member.
pub(super) struct Member {
    /// Told from others by this.
    pub(super) id: u64,
    /// What it was made for.
    pub(super) kind: Kind,
    /// The control groups around it. Let go before the zygote, in whose groups they are.
    pub(super) wall: Wall,
    /// Who made it. It lives as long as the zygote's record.
    pub(super) zygote: Arc<Zygote>,
    /// When it was ordered.
    pub(super) since: Instant,
    doors: Mutex<Doors>,
    flow: Mutex<Flow>,
    outlet: Mutex<Outlet>,
    /// The command's ends of its pipes, held so that their closing wakes nobody: its end is told by its init, and what it
    /// wrote is in the pipes by then.
    _writers: Option<Arc<[OwnedFd; 2]>>,
    /// Of the thread that serves the outlet, if there is one.
    bell: OnceLock<Arc<Bell>>,
    /// The mark of a call whose caller is gone; the reactor tidies up after it.
    abandoned: Mutex<Option<Underway>>,
    /// Its end wakes the reactor although it has no call.
    watched: AtomicBool,
}

#[derive(Default)]
struct Doors {
    talk: Option<Arc<OwnedFd>>,
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
    answer: Option<oneshot::Sender<Finish>>,
    /// When its call began.
    began: Option<Instant>,
    report: Option<Report>,
    refused: Option<(u32, i32)>,
    /// What was refused to its command.
    notes: Notes,
    /// `talk` was closed by the other side.
    silent: bool,
    /// It ended with its request unread.
    unread: bool,
    /// Its process has ended, and every other in it.
    gone: bool,
}

impl Member {
    pub(super) fn new(
        id: u64,
        kind: Kind,
        zygote: Arc<Zygote>,
        wall: Wall,
        talk: OwnedFd,
        pipes: [Option<OwnedFd>; 2],
        writers: Option<Arc<[OwnedFd; 2]>>,
    ) -> Member {
        Member {
            id,
            kind,
            wall,
            zygote,
            since: Instant::now(),
            doors: Mutex::new(Doors { talk: Some(Arc::new(talk)), ..Doors::default() }),
            flow: Mutex::default(),
            outlet: Mutex::new(Outlet::new(pipes)),
            _writers: writers,
            bell: OnceLock::new(),
            abandoned: Mutex::new(None),
            watched: AtomicBool::new(false),
        }
    }

    /// Whether it was made behind a wall of control groups.
    pub(super) fn is_fenced(&self) -> bool {
        !matches!(self.wall, Wall::None)
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its outputs.
    pub(super) fn outlet(&self) -> MutexGuard<'_, Outlet> {
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its outputs, if nobody is at them.
    pub(super) fn try_outlet(&self) -> Option<MutexGuard<'_, Outlet>> {
        match self.outlet.try_lock() {
            Ok(outlet) => Some(outlet),
            Err(TryLockError::Poisoned(outlet)) => Some(outlet.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Its outputs are served by another thread from now on, which the bell calls.
    pub(super) fn set_apart(&self, bell: Arc<Bell>) {
        let _ = self.bell.set(bell);
    }

    /// Whether its outputs are served by another thread.
    pub(super) fn is_apart(&self) -> bool {
        self.bell.get().is_some()
    }

    /// Tells the thread that serves its outputs to answer its call. Whether there is one.
    pub(super) fn ring(&self) -> bool {
        self.bell.get().map(|bell| bell.ring()).is_some()
    }

    /// Gives it a call: where its output goes, and who waits for its end. Before its request is sent.
    pub(super) fn occupy(
        &self,
        began: Instant,
        sink: Option<Box<dyn OutputSink>>,
        answer: oneshot::Sender<Finish>,
    ) {
        self.outlet().set_sink(sink);
        let mut flow = self.flow();
        flow.began = Some(began);
        flow.answer = Some(answer);
    }

    /// When its call began, if it has had one.
    pub(super) fn began(&self) -> Option<Instant> {
        self.flow().began
    }

    /// Takes the sink back from a call that did not begin.
    pub(super) fn vacate(&self) -> Option<Box<dyn OutputSink>> {
        self.flow().answer = None;
        self.outlet().take_sink()
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
                self.stands();
                Readiness::Ready
            }
            Ok((count, _)) => {
                self.learn(bytes.get(..count).and_then(Report::from_bytes));
                Readiness::Dead
            }
            Err(_) => Readiness::Dead,
        }
    }

    /// Where one control group cannot be entered none can: the zygote's next members do without.
    fn learn(&self, report: Option<Report>) {
        if report.is_some_and(|said| lacks_group(&said)) {
            self.zygote.open_wall();
        }
    }

    fn stands(&self) {
        if self.is_warm() {
            self.zygote.warm_stands();
        }
    }

    /// It ended without a call. What that says of others like it is remembered.
    pub(super) fn failed_idle(&self) {
        // That its control group could not be entered says nothing of the shell.
        let without_wall = self.wall.room().is_some() && !self.zygote.is_fenced();
        if self.is_warm() && !without_wall && !self.doors().ready {
            self.zygote.warm_failed();
        }
    }

    /// It was given a call and ended before it came to it.
    pub(super) fn failed_pooled(&self) {
        if self.is_warm() && !self.zygote.is_given_up() {
            self.zygote.warm_failed();
        }
    }

    /// Does something with each descriptor whose events are its own.
    pub(super) fn with_descriptors(
        &self,
        mut each: impl FnMut(u64, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        for (index, pipe) in self.outlet().pipes() {
            each(if index == 0 { STDOUT } else { STDERR }, pipe)?;
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
        if let Some(room) = self.wall.room() {
            room.kill();
        }
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

    /// The socket on which it says its last word; none if it has, or cannot any more.
    pub(super) fn talk(&self) -> Option<Arc<OwnedFd>> {
        self.doors().talk.clone()
    }

    /// Takes what it has said. Whether that was its last word, or there will be none.
    pub(super) fn listen(&self) -> bool {
        let mut bytes = [0; notes::MESSAGE_BYTES];
        let mut doors = self.doors();
        let Some(talk) = doors.talk.clone() else { return true };
        let mut unread = false;
        let report = loop {
            match socket::receive(talk.as_fd(), &mut bytes) {
                Err(Errno::AGAIN) => return false,
                // It ended and had not read its request. What it said before comes after this.
                Err(Errno::CONNRESET) => unread = true,
                Ok((count @ 1.., _)) if is_ready(bytes.get(..count)) => {
                    doors.ready = true;
                    self.stands();
                }
                Ok((count @ 1.., _)) if self.take_note(bytes.get(..count)) => {}
                Ok((count @ 1.., _)) => break bytes.get(..count).and_then(Report::from_bytes),
                Ok(_) | Err(_) => break None,
            }
        };
        // When nobody else hears with it, this closes the socket, and takes it from the reactor.
        doors.talk = None;
        drop(doors);
        self.learn(report);
        let mut flow = self.flow();
        flow.silent = true;
        flow.unread = unread;
        flow.report = report;
        true
    }

    /// Keeps what a message says to be refused: whether it is one that says so.
    fn take_note(&self, message: Option<&[u8]>) -> bool {
        self.flow().notes.take(message.unwrap_or_default())
    }

    /// What was refused to its command, once.
    pub(super) fn take_notes(&self) -> Notes {
        std::mem::take(&mut self.flow().notes)
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

    /// Whether its end wakes the reactor although it has no call.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Its end is to wake the reactor although it has no call, or not. Whether that is a change.
    pub(super) fn set_watched(&self, watched: bool) -> bool {
        self.watched.swap(watched, Ordering::Relaxed) != watched
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
        match (flow.refused, flow.report) {
            (Some(_), _) => Missing::Nothing,
            // It has seen all of it end. Otherwise the rest is dying when it says so.
            (None, Some(report)) if report.tag == Report::ENDED && report.bound == 0 => Missing::Nothing,
            _ if flow.gone => Missing::Nothing,
            (None, None) if !flow.silent => Missing::End,
            _ if has_process => Missing::Death,
            // A dead zygote says no more, and the kernel has killed its members.
            _ if self.zygote.has_ended() => Missing::Nothing,
            // The descriptor of its process was lost on its way here.
            _ if made => Missing::ZygotesDeath,
            _ => Missing::Word,
        }
    }

    /// Answers its call. False if nobody waits for it.
    pub(super) fn answer(&self) -> bool {
        let (made, ready) = {
            let doors = self.doors();
            (doors.made, doors.ready)
        };
        let (mut sink, sink_failed) = {
            let mut outlet = self.outlet();
            (outlet.take_sink(), outlet.has_failed())
        };
        let mut flow = self.flow();
        let Some(answer) = flow.answer.take() else { return false };
        let delivered = match self.kind {
            // The zygote speaks of a member right after it has made it.
            Kind::Direct => made,
            // One that waited for a request may have begun with it.
            Kind::Warm | Kind::Parked => {
                ready && !flow.unread && !flow.report.is_some_and(|said| self.failed(&said))
            }
        };
        let broken = self.zygote.failure().filter(|_| !delivered);
        // What cannot be made for the pool may well be made for the call.
        let refused =
            flow.refused.filter(|(step, _)| self.kind == Kind::Direct || *step == Step::Guard as u32);
        let finish = match (sink_failed, broken.or(refused), flow.report) {
            (true, ..) => Finish::SinkFailed,
            (false, Some((step, errno)), _) => Finish::Refused(step, errno, sink.take()),
            (false, None, Some(report)) if lacks_group(&report) => {
                Finish::Refused(report.step, report.status, sink.take())
            }
            (false, None, Some(report)) if delivered || self.kind == Kind::Direct => Finish::Reported(report),
            (false, None, None) if delivered && flow.refused.is_none() => Finish::Lost,
            (false, None, _) => Finish::NotDelivered(sink.take()),
        };
        drop(flow);
        // A sink may write its last words when it goes, and the caller reads them after the answer.
        drop_sink(sink);
        answer.send(finish).is_ok()
    }

    /// Whether a report of a member of the pool says that it failed before it came to its request.
    fn failed(&self, said: &Report) -> bool {
        // A shell whose text was written does not fail any more, except that it may not be watched.
        said.tag == Report::NOT_STARTED && self.is_warm() && said.step != Step::Limits as u32
    }
}

/// Whether a member failed because its command could not be born in its control group.
fn lacks_group(report: &Report) -> bool {
    report.tag == Report::NOT_STARTED && report.step == Step::Group as u32
}

fn is_ready(bytes: Option<&[u8]>) -> bool {
    bytes.and_then(Report::from_bytes).is_some_and(|report| report.tag == Report::READY)
}

#[cfg(test)]
mod tests;
