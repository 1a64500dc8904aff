//! The beginning of a call: the best member that there is, or a new one, gets its order.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use helve_core::OutputSink;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::sync::oneshot;

use super::engine::{EVENT_BITS, Engine, PROCESS, TALK};
use super::member::{Finish, Member, Readiness};
use super::order::Order;
use super::reopen;
use super::socket;
use super::stock::Stock;
use super::wire::Kind;
use super::zygote::Zygote;

/// A call that has begun.
pub(super) struct Begun {
    pub(super) member: Arc<Member>,
    pub(super) finish: oneshot::Receiver<Finish>,
}

/// Why a call could not begin; its sink comes back.
pub(super) struct NotBegun {
    pub(super) errno: Errno,
    pub(super) sink: Option<Box<dyn OutputSink>>,
}

impl Engine {
    /// Sends the order to a member of the best lane; to one that is made for it, if none of the pool is wanted.
    pub(super) fn begin(
        &self,
        zygote: &Arc<Zygote>,
        order: &Order,
        pooled: bool,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Result<Begun, NotBegun> {
        let (answer, finish) = oneshot::channel();
        let now = Instant::now();
        let taken = pooled.then(|| self.take(zygote, order, now)).flatten();
        self.stock().sizing.began(now);
        if let Some(member) = taken {
            member.occupy(now, sink, answer);
            // The reactor may have forgotten it in the moment between.
            self.members().insert(member.id, Arc::clone(&member));
            // The call hears it from now on.
            self.unwatch_idle(&member);
            let sent = order.send_to(&member);
            return self.begun(member, finish, sent);
        }
        if order.fits_warm() {
            zygote.starts_shell();
        }
        let streams = order.streams();
        let wires = if streams.is_none() { self.piped_wires() } else { Wires::new(false) };
        let (member, ends) = match wires {
            Ok(wires) => self.new_member(zygote, Kind::Direct, wires),
            Err(errno) => return Err(NotBegun { errno, sink }),
        };
        member.occupy(now, sink, answer);
        let outputs = ends.outputs.as_deref().map(|[stdout, stderr]| [stdout.as_fd(), stderr.as_fd()]);
        let outputs = outputs.or(streams.map(|[_, stdout, stderr]| [stdout, stderr]));
        let sent = outputs
            .ok_or(Errno::BADF)
            .and_then(|[stdout, stderr]| order.send_with_make(&member, [ends.talk.as_fd(), stdout, stderr]));
        self.begun(member, finish, sent)
    }

    fn begun(
        &self,
        member: Arc<Member>,
        finish: oneshot::Receiver<Finish>,
        sent: Result<(), Errno>,
    ) -> Result<Begun, NotBegun> {
        match sent {
            Ok(()) => Ok(Begun { member, finish }),
            Err(errno) => {
                self.forget(member.id);
                Err(NotBegun { errno, sink: member.vacate() })
            }
        }
    }

    /// Takes a member that stands ready for such an order, or will soon.
    fn take(&self, zygote: &Zygote, order: &Order, now: Instant) -> Option<Arc<Member>> {
        let mut stock = self.stock();
        let Stock { warm, parked, sizing, .. } = &mut *stock;
        let mut dead = Vec::new();
        let mut find = |queue: &mut VecDeque<Arc<Member>>, wanted: Readiness| {
            let mut index = 0;
            while let Some(member) = queue.get(index) {
                match member.readiness() {
                    // Of another zygote: that one has not been told yet what is guarded in this call.
                    _ if member.zygote.id != zygote.id => index += 1,
                    Readiness::Dead => dead.extend(queue.remove(index)),
                    readiness if readiness == wanted => return queue.remove(index),
                    _ => index += 1,
                }
            }
            None
        };
        let (mut taken, mut crowd) = (None, false);
        if order.fits_warm() && zygote.keeps_warm() {
            taken = find(warm, Readiness::Ready);
            if taken.is_none() {
                sizing.missed_warm();
                crowd = sizing.found_nothing(now);
            }
        }
        // In a crowd a shell is copied for the call; what is parked would have to execute it.
        let copied = order.fits_warm() && zygote.copies() && sizing.is_crowded(now);
        if taken.is_none() && order.fits_parked() && !copied {
            taken = find(parked, Readiness::Ready);
            if taken.is_none() {
                sizing.missed_parked();
                crowd |= sizing.found_nothing(now);
                let warm = order.fits_warm().then(|| find(warm, Readiness::Preparing)).flatten();
                taken = warm.or_else(|| find(parked, Readiness::Preparing));
            }
        }
        drop(stock);
        if crowd {
            // The pool is tended when it is over.
            self.wake();
        }
        for member in dead {
            member.failed_idle();
            self.forget(member.id);
        }
        taken
    }

    /// Lets what the member says and writes wake the reactor.
    pub(super) fn follow(&self, member: &Member) -> Result<(), Errno> {
        member.with_descriptors(|what, fd| self.add(member, what, fd))
    }

    /// Lets the end of a member wake the reactor that stands ready; its output does not, because a shell may write before
    /// it has its text.
    pub(super) fn watch_idle(&self, member: &Member) {
        if let Some(talk) = member.talk().filter(|_| member.set_watched(true)) {
            // Without this its end shows when a call is sent to it.
            let _ = self.add(member, TALK, talk.as_fd());
        }
    }

    fn unwatch_idle(&self, member: &Member) {
        if let Some(talk) = member.talk().filter(|_| member.set_watched(false)) {
            let _ = epoll::delete(self.epoll(), talk.as_fd());
        }
    }

    fn add(&self, member: &Member, what: u64, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let data = EventData::new_u64(member.id << EVENT_BITS | what);
        epoll::add(self.epoll(), fd, data, EventFlags::IN)
    }

    /// Lets the end of the member's process wake the reactor.
    pub(super) fn watch(&self, member: &Member) {
        member.watch(|fd| self.add(member, PROCESS, fd));
    }

    /// Ends everything in a member.
    pub(super) fn kill(&self, member: &Member) {
        if member.kill() {
            // The zygote's word brings what it takes to end it.
            let _ = self.listen(&member.zygote, true);
        }
    }

    /// Wires with pipes for the outputs: those that lie ready, or new ones.
    fn piped_wires(&self) -> Result<Wires, Errno> {
        let spare = self.stock().spare.take();
        spare.map_or_else(|| Wires::new(true), Ok)
    }

    /// A member's record and the ends that it gets.
    pub(super) fn new_member(&self, zygote: &Arc<Zygote>, kind: Kind, wires: Wires) -> (Arc<Member>, Ends) {
        let Wires { talk, readers, ends } = wires;
        let held = ends.outputs.clone();
        let wall = zygote.wall();
        let member = Arc::new(Member::new(self.id(), kind, Arc::clone(zygote), wall, talk, readers, held));
        self.members().insert(member.id, Arc::clone(&member));
        (member, ends)
    }
}

/// The sockets and pipes of one member.
pub(super) struct Wires {
    talk: OwnedFd,
    readers: [Option<OwnedFd>; 2],
    ends: Ends,
}

impl Wires {
    /// New ones; with pipes for the outputs if it is `piped`.
    pub(super) fn new(piped: bool) -> Result<Wires, Errno> {
        let (talk, theirs) = socket::pair()?;
        let (readers, outputs) = if piped {
            let ((stdout, to_stdout), (stderr, to_stderr)) = (output_pipe()?, output_pipe()?);
            ([Some(stdout), Some(stderr)], Some(Arc::new([to_stdout, to_stderr])))
        } else {
            ([None, None], None)
        };
        Ok(Wires { talk, readers, ends: Ends { talk: theirs, outputs } })
    }
}

/// The ends of a member's sockets and pipes that it gets itself.
pub(super) struct Ends {
    pub(super) talk: OwnedFd,
    pub(super) outputs: Option<Arc<[OwnedFd; 2]>>,
}

/// A pipe for an output: only its reading end, which stays here, never blocks.
fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    reopen::allow(&writer);
    Ok((reader, writer))
}
