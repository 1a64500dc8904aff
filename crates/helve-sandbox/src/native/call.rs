//! The life of one call: a zygote, a member, a request, and then its end, its deadline or its cancellation.
//!
//! ```text
//! task ── request ──► member ── last word ──► task: a few bytes into the sink, done      most calls: one wake-up
//!   └── still running, or much to say, or no last word ──► reactor ── answer ──► task
//! ```
//!
//! The task that waits for a call hears its member itself, through the runtime's own event loop, because each thread on
//! the way is one more idle processor to be woken; for a moment it does not sleep at all (`awake`). Nothing here blocks the runtime: whatever takes long, or may, is left to
//! the reactor. A call that is ended from outside is killed through its process's descriptor and waited for, so that its
//! last bytes are in the sink; dropping the future kills it too, and the reactor tidies up.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{Cancel, Ended, Exit, OutputSink, Removed, SandboxReport, ToolError};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::begin::{Begun, NotBegun};
use super::engine::Engine;
use super::failure;
use super::member::{Finish, Member, Missing};
use super::order::Order;
use super::turn::{NotEntered, Underway};
use super::wire::{Bound, Kind, Report, Step};
use crate::spawn;
use crate::sys::ear::hear;

/// How long the tree may take to die before the answer is given without waiting for it.
const GRACE: Duration = Duration::from_secs(2);
/// How long a call is heard by its own task. Its output waits in the pipes meanwhile.
const MOMENT: Duration = Duration::from_millis(2);
/// The same for a call whose member is still to be made, and perhaps the template too.
const LONG_MOMENT: Duration = Duration::from_millis(6);
/// How long to wait when the zygote has more to read than its socket holds.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Protected paths may change while they are about to be guarded.
const GUARD: u32 = Step::Guard as u32;

/// What was refused in its control group is tried without one.
const GROUP: u32 = Step::Group as u32;

/// The workspace was replaced while its template was being built; another one shows what is there now.
const REPLACED: i32 = libc::ESTALE;

/// What a call is.
pub(super) struct Call {
    pub(super) order: Order,
    pub(super) timeout: Option<Duration>,
    pub(super) sink: Option<Box<dyn OutputSink>>,
    /// Signals for it, by number.
    pub(super) signals: Option<UnboundedReceiver<i32>>,
    /// The program's name, for messages.
    pub(super) program: String,
    pub(super) is_shell: bool,
}

/// Why a call ends before its command does.
#[derive(Clone, Copy)]
enum Stop {
    Cancelled,
    TimedOut,
}

impl From<Stop> for Exit {
    fn from(stop: Stop) -> Exit {
        match stop {
            Stop::Cancelled => Exit::Cancelled,
            Stop::TimedOut => Exit::TimedOut,
        }
    }
}

/// Runs a call to its end.
pub(super) async fn run(
    engine: &Arc<Engine>,
    mut call: Call,
    cancel: &Cancel,
    report: impl Fn(bool) -> SandboxReport,
) -> Result<Ended, ToolError> {
    if cancel.is_cancelled() {
        return Ok(Ended::plain(Exit::Cancelled, report(false)));
    }
    let mut stop = pin!(stop(cancel, call.timeout));
    let mut retried = false;
    let mut pooled = true;
    loop {
        let zygote = tokio::select! {
            biased;
            zygote = engine.zygote() => zygote?,
            stop = &mut stop => return Ok(Ended::plain(stop.into(), report(false))),
        };
        let entered = tokio::select! {
            biased;
            entered = engine.enter(&zygote) => entered,
            stop = &mut stop => return Ok(Ended::plain(stop.into(), report(false))),
        };
        let begun = match entered {
            Ok(underway) => match engine.begin(&zygote, &call.order, pooled, call.sink.take()) {
                Ok(begun) => Ok(Flight::new(engine, begun, underway)),
                Err(NotBegun { errno, sink }) => {
                    call.sink = sink;
                    // There was no process, so nothing can have been left.
                    let _ = underway.end().await;
                    Err(NotEntered::Errno(errno))
                }
            },
            Err(error) => Err(error),
        };
        let flight = match begun {
            Ok(flight) => {
                retried |= call.order.hand_over();
                flight
            }
            Err(NotEntered::Error(error)) => return Err(error),
            Err(NotEntered::Errno(Errno::AGAIN | Errno::TOOMANYREFS)) => {
                tokio::select! {
                    () = tokio::time::sleep(FULL_PAUSE) => continue,
                    stop = &mut stop => return Ok(Ended::plain(stop.into(), report(false))),
                }
            }
            Err(NotEntered::Errno(Errno::PIPE | Errno::CONNRESET)) => {
                engine.discard(&zygote);
                let lasting = |failure: &(u32, i32)| retried || failure.1 != REPLACED;
                if let Some((step, errno)) = zygote.failure().filter(lasting) {
                    return Err(failure::view_refused(&engine.rules, step, errno));
                }
                if retried {
                    return Err(failure::never_began());
                }
                retried = true;
                continue;
            }
            Err(NotEntered::Errno(errno)) => return Err(spawn::no_process(errno.into())),
        };
        let member = Arc::clone(&flight.member);
        let (finish, removed) = flight.wait(&mut stop, &mut call.signals).await;
        let report = || report(member.is_fenced());
        let ended = match finish {
            // What is wrong with a member of the pool need not be wrong with the zygote.
            Ok(Finish::NotDelivered(sink)) if pooled && member.kind != Kind::Direct => {
                member.failed_pooled();
                pooled = false;
                call.sink = sink;
                continue;
            }
            Ok(
                Finish::NotDelivered(sink)
                | Finish::Refused(GUARD, _, sink)
                | Finish::Refused(_, REPLACED, sink),
            ) if !retried => {
                engine.discard(&zygote);
                retried = true;
                call.sink = sink;
                continue;
            }
            Ok(Finish::Refused(GROUP, _, sink)) if !retried => {
                retried = true;
                call.sink = sink;
                continue;
            }
            Ok(Finish::NotDelivered(_)) => Err(failure::never_began()),
            Ok(Finish::Refused(step, errno, _)) => Err(failure::view_refused(&engine.rules, step, errno)),
            Ok(Finish::SinkFailed) => Err(failure::sink_failed()),
            Ok(Finish::Lost) => Err(spawn::supervisor_lost()),
            Ok(Finish::Reported(said)) => engine.ending(&said, &call, &member, report()),
            Err(stop) => Ok(Ended::plain(stop.into(), report())),
        };
        let removed = removed?;
        return match ended {
            Ok(ended) => {
                let denied = engine.denied(member.take_notes()).await;
                Ok(Ended { removed, denied, ..ended })
            }
            Err(error) => Err(failure::and_removed(error, &removed)),
        };
    }
}

async fn stop(cancel: &Cancel, timeout: Option<Duration>) -> Stop {
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Stop::Cancelled,
        () = deadline => Stop::TimedOut,
    }
}

/// A call that runs. Dropping it ends everything in its member.
struct Flight<'a> {
    engine: &'a Arc<Engine>,
    member: Arc<Member>,
    /// The member's socket, until the call is over or left to the reactor.
    ear: Option<AsyncFd<Arc<OwnedFd>>>,
    answer: oneshot::Receiver<Finish>,
    underway: Option<Underway>,
    /// Until when it is waited for awake.
    awake: Option<Instant>,
}

impl<'a> Flight<'a> {
    fn new(engine: &'a Arc<Engine>, begun: Begun, underway: Underway) -> Flight<'a> {
        let Begun { member, finish: answer } = begun;
        // What makes a member ready has use for every processor.
        let awake = if member.kind == Kind::Direct { None } else { engine.awake.begin() };
        let mut flight = Flight { engine, member, ear: None, answer, underway: Some(underway), awake };
        let ear = flight.member.talk().map(hear);
        match ear {
            Some(Ok(ear)) => flight.ear = Some(ear),
            Some(Err(_)) | None => engine.leave(&flight.member),
        }
        flight
    }

    /// Looks for its end without sleeping, as long as that is worth it.
    async fn look(&mut self) {
        while let Some(until) = self.awake.filter(|_| self.ear.is_some()) {
            if self.member.listen() {
                self.conclude(true);
            } else if !self.engine.awake.again(until).await {
                self.awake = None;
            }
        }
    }

    /// The member has said its last word, or cannot be heard any more.
    fn conclude(&mut self, heard: bool) {
        self.ear = None;
        if !heard || !self.engine.conclude(&self.member) {
            self.engine.leave(&self.member);
        }
    }

    /// Waits for its end.
    async fn finish(&mut self) -> Finish {
        self.look().await;
        let moment = if self.member.kind == Kind::Direct { LONG_MOMENT } else { MOMENT };
        let mut moment = pin!(tokio::time::sleep(moment));
        loop {
            tokio::select! {
                biased;
                answer = &mut self.answer => {
                    // Every call is answered before it is forgotten, unless the reactor has ended.
                    return answer.unwrap_or(Finish::Lost);
                }
                heard = last_word(&self.member, self.ear.as_ref()) => self.conclude(heard),
                () = &mut moment, if self.ear.is_some() => {
                    self.ear = None;
                    self.engine.leave(&self.member);
                }
            }
        }
    }

    /// Waits for its end, or ends it, and takes away what it left at protected places.
    async fn wait(
        mut self,
        stop: &mut (impl Future<Output = Stop> + Unpin),
        signals: &mut Option<UnboundedReceiver<i32>>,
    ) -> (Result<Finish, Stop>, Result<Vec<Removed>, ToolError>) {
        let finish = loop {
            tokio::select! {
                biased;
                finish = self.finish() => break Ok(finish),
                stop = &mut *stop => break Err(stop),
                signal = spawn::next_signal(signals) => self.member.signal(signal.into()),
            }
        };
        if let Err(stop) = finish {
            self.engine.kill(&self.member);
            // Until the tree is dead its last bytes are still on their way into the sink.
            if tokio::time::timeout(GRACE, self.finish()).await.is_err() {
                // The reactor sweeps when it is dead at last.
                return (Err(stop), Ok(Vec::new()));
            }
        }
        if let Some(began) = self.member.began() {
            self.engine.awake.took(began.elapsed());
        }
        let removed = match self.underway.take() {
            Some(underway) => underway.end().await,
            None => Ok(Vec::new()),
        };
        (finish, removed)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(underway) = self.underway.take() else { return };
        // First given away, then said that nobody waits: so one of the two tidies up.
        self.member.abandon(Some(underway));
        self.answer.close();
        if self.answer.try_recv().is_ok() {
            drop(self.member.abandoned());
            return;
        }
        self.engine.kill(&self.member);
        if self.ear.take().is_some() {
            self.engine.leave(&self.member);
        }
    }
}

/// Waits until a member has said its last word, or there will be none. False if that cannot be heard any more.
async fn last_word(member: &Member, ear: Option<&AsyncFd<Arc<OwnedFd>>>) -> bool {
    let Some(ear) = ear else { return std::future::pending().await };
    loop {
        // An error means that the runtime ends.
        let Ok(mut ready) = ear.readable().await else { return false };
        if member.listen() {
            return true;
        }
        ready.clear_ready();
    }
}

impl Engine {
    /// Answers a call whose member has said its last word. False if there is more to wait for, or much to take.
    fn conclude(&self, member: &Arc<Member>) -> bool {
        if member.missing() != Missing::Nothing || member.is_apart() {
            return false;
        }
        let drained = member.try_outlet().is_some_and(|mut outlet| outlet.drain_little());
        if drained && self.finish(member) {
            // The pool is filled again.
            self.wake();
        }
        drained
    }

    /// What a member's report means.
    fn ending(
        &self,
        said: &Report,
        call: &Call,
        member: &Member,
        sandbox: SandboxReport,
    ) -> Result<Ended, ToolError> {
        if said.tag == Report::NOT_STARTED {
            return Err(failure::not_started(said.step, said.status, &call.program, call.is_shell));
        }
        let status = ExitStatus::from_raw(said.status);
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => return Err(spawn::supervisor_lost()),
        };
        let limit = spawn::limit_hit(Bound::from_number(said.bound), exit, &self.limits);
        let limit = limit.or_else(|| member.wall.hit(&member.zygote, exit, &self.limits));
        Ok(Ended {
            exit,
            limit,
            left_running: said.left_running,
            removed: Vec::new(),
            denied: Vec::new(),
            sandbox,
        })
    }
}
