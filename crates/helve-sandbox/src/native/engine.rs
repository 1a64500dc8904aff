//! What calls and the reactor share: the zygote of the moment, the members that stand ready, those that run.
//!
//! ```text
//! call ── zygote() ──► the one that shows the workspace as it is now; started if there is none
//!      ── begin() ───► a member of the best lane: warm, else parked, else made for this call
//! reactor ── tend() ─► fills and empties the pool, after answers were sent
//! ```
//!
//! Not here: waiting (`call` waits for answers, `reactor` for events), and what a request says (`order`).

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::{OutputSink, ProcessLimits, ToolError, View};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::sync::oneshot;

use super::helper;
use super::member::{Finish, Member, Readiness};
use super::order::Order;
use super::pool::{PoolSize, Sizing, Wanted};
use super::reactor;
use super::reopen;
use super::setup::Setup;
use super::socket;
use super::wire::{Kind, Make};
use super::zygote::{Graveyard, Place, Zygote};
use crate::plan::rules::Rules;
use crate::protect::Keeper;
use crate::{spawn, workdir};

/// What an event's number says besides whose it is.
pub(super) const TALK: u64 = 0;
pub(super) const STDOUT: u64 = 1;
pub(super) const STDERR: u64 = 2;
pub(super) const PROCESS: u64 = 3;
pub(super) const CONTROL: u64 = 4;
pub(super) const WAKE: u64 = 5;
/// How many kinds of events there are, as a power of two.
pub(super) const EVENT_BITS: u32 = 3;

/// How long closing waits for control groups to be removed.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// When members that were just ordered are likely to be ready.
const PREPARED_AFTER: Duration = Duration::from_millis(3);

/// The shared state.
pub(super) struct Engine {
    pub(super) view: View,
    pub(super) limits: ProcessLimits,
    rules: Arc<Rules>,
    epoll: OwnedFd,
    wake: OwnedFd,
    closing: AtomicBool,
    closed: (Mutex<bool>, Condvar),
    next_id: AtomicU64,
    running: AtomicUsize,
    state: Mutex<State>,
    members: Mutex<HashMap<u64, Arc<Member>>>,
    graveyard: Graveyard,
    keeper: Mutex<Option<(Place, Arc<Keeper>)>>,
    /// Held while a zygote is started, so that there is never a second for the same view.
    starting: tokio::sync::Mutex<()>,
}

struct State {
    zygote: Option<Arc<Zygote>>,
    sizing: Sizing,
    warm: VecDeque<Arc<Member>>,
    parked: VecDeque<Arc<Member>>,
    /// The last member that was made for the pool failed.
    ailing: bool,
}

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
    /// Starts the reactor's thread, and nothing else.
    pub(super) fn start(
        view: View,
        rules: Arc<Rules>,
        limits: ProcessLimits,
        pool: PoolSize,
    ) -> std::io::Result<Arc<Engine>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let state = State {
            zygote: None,
            sizing: Sizing::new(pool, Instant::now()),
            warm: VecDeque::new(),
            parked: VecDeque::new(),
            ailing: false,
        };
        let engine = Arc::new(Engine {
            view,
            limits,
            rules,
            epoll,
            wake,
            closing: AtomicBool::new(false),
            closed: (Mutex::new(false), Condvar::new()),
            next_id: AtomicU64::new(1),
            running: AtomicUsize::new(0),
            state: Mutex::new(state),
            members: Mutex::default(),
            graveyard: Graveyard::default(),
            keeper: Mutex::new(None),
            starting: tokio::sync::Mutex::default(),
        });
        let shared = Arc::clone(&engine);
        let run = move || reactor::run(&shared);
        std::thread::Builder::new().name("helve-native".to_owned()).spawn(run)?;
        Ok(engine)
    }

    /// Ends the reactor, the zygote and every member.
    ///
    /// Where there are control groups it waits a moment for that, because who closes the backend is likely to end the
    /// process, and they would be left behind.
    pub(super) fn close(&self) {
        let fenced = self.is_fenced();
        self.closing.store(true, Ordering::Relaxed);
        self.wake();
        if fenced {
            let closed = self.closed.0.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.closed.1.wait_timeout_while(closed, LAST_MOMENT, |closed| !*closed));
        }
    }

    /// The reactor has ended.
    pub(super) fn has_closed(&self) {
        *self.closed.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closed.1.notify_all();
    }

    fn wake(&self) {
        // The counter is never full: it is read before that.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Takes the signal of [`Engine::wake`].
    pub(super) fn woken(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Whether members that are made now are behind a wall of control groups.
    pub(super) fn is_fenced(&self) -> bool {
        self.zygote_in_use().is_some_and(|zygote| zygote.groups().is_some())
    }

    /// Whether a call is under way.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Gives up every member, and then the zygote.
    pub(super) fn clear(&self) {
        let (zygote, idle) = self.state().give_up();
        let members = std::mem::take(&mut *self.members());
        drop((idle, members));
        drop(zygote);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, HashMap<u64, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) fn graveyard(&self) -> &Graveyard {
        &self.graveyard
    }

    pub(super) fn member(&self, id: u64) -> Option<Arc<Member>> {
        self.members().get(&id).cloned()
    }

    /// Forgets a member; what is in it ends when nobody else holds its record.
    pub(super) fn forget(&self, id: u64) {
        let member = self.members().remove(&id);
        drop(member);
    }

    /// Every member of a zygote that runs a call.
    pub(super) fn members_of(&self, zygote: &Zygote) -> Vec<Arc<Member>> {
        self.members().values().filter(|member| member.zygote.id == zygote.id).cloned().collect()
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The zygote that calls go to now.
    pub(super) fn zygote_in_use(&self) -> Option<Arc<Zygote>> {
        self.state().zygote.clone()
    }

    /// The zygote of that number, if it still is the one in use or somebody runs in one of its members.
    pub(super) fn zygote_of(&self, id: u64) -> Option<Arc<Zygote>> {
        let current = self.state().zygote.clone().filter(|zygote| zygote.id == id);
        current.or_else(|| {
            let members = self.members();
            members.values().map(|member| &member.zygote).find(|zygote| zygote.id == id).cloned()
        })
    }

    /// A call is under way.
    pub(super) fn count_in(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A call is over.
    pub(super) fn count_out(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Drops what stands ready: it was made under an older guard.
    pub(super) fn drop_idle(&self, zygote: &Zygote) {
        let mut state = self.state();
        let same = state.zygote.as_ref().is_some_and(|current| current.id == zygote.id);
        let idle = if same { state.idle() } else { Vec::new() };
        drop(state);
        idle.iter().for_each(|member| self.forget(member.id));
    }

    /// A zygote whose template shows the workspace as it is now.
    pub(super) async fn zygote(self: &Arc<Self>) -> Result<Arc<Zygote>, ToolError> {
        if let Some(zygote) = self.current()? {
            return Ok(zygote);
        }
        let _alone = self.starting.lock().await;
        if let Some(zygote) = self.current()? {
            return Ok(zygote);
        }
        let engine = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || engine.start_zygote()).await;
        started.map_err(|_| ToolError::internal("The thread that starts the sandbox's helper failed."))?
    }

    /// The zygote in use, unless it has ended or the workspace's name now means another directory.
    fn current(&self) -> Result<Option<Arc<Zygote>>, ToolError> {
        let place = self.place()?;
        let mut state = self.state();
        match &state.zygote {
            Some(zygote) if zygote.workspace == place && !zygote.is_gone() => Ok(Some(Arc::clone(zygote))),
            Some(_) => {
                let (old, idle) = state.give_up();
                drop(state);
                idle.iter().for_each(|member| self.forget(member.id));
                drop(old);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn place(&self) -> Result<Place, ToolError> {
        Place::of(&self.view.workspace).or_else(|errno| {
            // Says what is wrong with it, in the words that other sandboxes have for it.
            workdir::open(&self.view, None)?;
            Err(spawn::no_process(errno.into()))
        })
    }

    fn start_zygote(&self) -> Result<Arc<Zygote>, ToolError> {
        let place = self.place()?;
        self.rules.check_entries()?;
        let setup = Setup::new(&self.view, &self.rules, self.limits)?;
        let keeper = self.keeper(place)?;
        let started = helper::start(&setup.encode())?;
        let zygote = Zygote::new(self.id(), place, keeper, started, Arc::clone(&self.graveyard));
        let zygote = Arc::new(zygote);
        // Its words are read when somebody needs one, so only its end wakes the reactor.
        self.listen(&zygote, false).map_err(|errno| spawn::no_process(errno.into()))?;
        self.state().zygote = Some(Arc::clone(&zygote));
        Ok(zygote)
    }

    /// What keeps the protected paths of the workspace, the same as long as the workspace is.
    fn keeper(&self, place: Place) -> Result<Option<Arc<Keeper>>, ToolError> {
        if self.view.protected.is_empty() {
            return Ok(None);
        }
        let mut kept = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, keeper)) = kept.as_ref().filter(|(known, _)| *known == place) {
            return Ok(Some(Arc::clone(keeper)));
        }
        let directory = workdir::open(&self.view, None)?.fd;
        if Place::of_open(&directory) != Ok(place) {
            return Err(ToolError::failed("The workspace was replaced while a command was about to begin.")
                .hint("Try again."));
        }
        let keeper = Arc::new(Keeper::new(directory, &self.view.protected, true));
        *kept = Some((place, Arc::clone(&keeper)));
        Ok(Some(keeper))
    }

    /// Nothing of the zygote wakes the reactor any more.
    pub(super) fn deafen(&self, zygote: &Zygote) -> Result<(), Errno> {
        epoll::delete(&self.epoll, zygote.control())
    }

    /// Whether the zygote's words wake the reactor.
    pub(super) fn listen(&self, zygote: &Zygote, words: bool) -> Result<(), Errno> {
        if !zygote.listening(words) {
            return Ok(());
        }
        let data = EventData::new_u64(zygote.id << EVENT_BITS | CONTROL);
        let flags = if words { EventFlags::IN } else { EventFlags::empty() };
        match epoll::modify(&self.epoll, zygote.control(), data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, zygote.control(), data, flags),
            answer => answer,
        }
    }

    /// Gives a zygote up, and what stands ready in it.
    pub(super) fn discard(&self, zygote: &Zygote) {
        zygote.give_up();
        let mut state = self.state();
        let old = match &state.zygote {
            Some(current) if current.id == zygote.id => Some(state.give_up()),
            _ => None,
        };
        drop(state);
        if let Some((_, idle)) = &old {
            idle.iter().for_each(|member| self.forget(member.id));
        }
        drop(old);
    }

    /// Sends the order to a member of the best lane.
    pub(super) fn begin(
        &self,
        zygote: &Arc<Zygote>,
        order: &Order,
        sink: Option<Box<dyn OutputSink>>,
    ) -> Result<Begun, NotBegun> {
        let (answer, finish) = oneshot::channel();
        if let Some(member) = self.take(zygote, order) {
            member.occupy(sink, answer);
            // The reactor may have forgotten it in the moment between.
            self.members().insert(member.id, Arc::clone(&member));
            let sent = self.register(&member).and_then(|()| order.send_to(&member));
            return self.begun(member, finish, sent);
        }
        let streams = order.streams();
        let (member, ends) = match self.new_member(zygote, Kind::Direct, streams.is_none()) {
            Ok(made) => made,
            Err(errno) => return Err(NotBegun { errno, sink }),
        };
        member.occupy(sink, answer);
        let sent = self.register(&member).and_then(|()| {
            let outputs = ends.outputs.as_ref().map(|[stdout, stderr]| [stdout.as_fd(), stderr.as_fd()]);
            let outputs = outputs.or(streams.map(|[_, stdout, stderr]| [stdout, stderr]));
            let [stdout, stderr] = outputs.ok_or(Errno::BADF)?;
            order.send_with_make(&member, [ends.talk.as_fd(), stdout, stderr])
        });
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
    fn take(&self, zygote: &Zygote, order: &Order) -> Option<Arc<Member>> {
        let mut state = self.state();
        let State { warm, parked, sizing, .. } = &mut *state;
        let mut dead = Vec::new();
        let mut find = |queue: &mut VecDeque<Arc<Member>>, wanted: Readiness| {
            let mut index = 0;
            while let Some(member) = queue.get(index) {
                match member.readiness() {
                    Readiness::Dead => dead.extend(queue.remove(index)),
                    readiness if readiness == wanted => return queue.remove(index),
                    _ => index += 1,
                }
            }
            None
        };
        let mut taken = None;
        if order.fits_warm() && zygote.keeps_warm() {
            taken = find(warm, Readiness::Ready);
            if taken.is_none() {
                sizing.missed_warm();
            }
        }
        if taken.is_none() && order.fits_parked() {
            taken = find(parked, Readiness::Ready);
            if taken.is_none() {
                sizing.missed_parked();
                let warm = order.fits_warm().then(|| find(warm, Readiness::Preparing)).flatten();
                taken = warm.or_else(|| find(parked, Readiness::Preparing));
            }
        }
        drop(state);
        dead.iter().for_each(|member| self.forget(member.id));
        taken
    }

    /// Lets the member's events wake the reactor.
    fn register(&self, member: &Member) -> Result<(), Errno> {
        if !member.set_registered() {
            return Ok(());
        }
        member.with_descriptors(|what, fd| {
            let data = EventData::new_u64(member.id << EVENT_BITS | what);
            epoll::add(&self.epoll, fd, data, EventFlags::IN)
        })
    }

    /// Lets the end of the member's process wake the reactor.
    pub(super) fn watch(&self, member: &Member) {
        let data = EventData::new_u64(member.id << EVENT_BITS | PROCESS);
        member.watch(|fd| epoll::add(&self.epoll, fd, data, EventFlags::IN));
    }

    /// Ends everything in a member.
    pub(super) fn kill(&self, member: &Member) {
        if member.kill() {
            // The zygote's word brings what it takes to end it.
            let _ = self.listen(&member.zygote, true);
        }
    }

    /// A member's record and the ends that it gets.
    fn new_member(
        &self,
        zygote: &Arc<Zygote>,
        kind: Kind,
        piped: bool,
    ) -> Result<(Arc<Member>, Ends), Errno> {
        let (talk, theirs) = socket::pair()?;
        let (readers, writers) = if piped {
            let ((stdout, to_stdout), (stderr, to_stderr)) = (output_pipe()?, output_pipe()?);
            ([Some(stdout), Some(stderr)], Some([to_stdout, to_stderr]))
        } else {
            ([None, None], None)
        };
        let member = Arc::new(Member::new(self.id(), kind, Arc::clone(zygote), talk, readers));
        self.members().insert(member.id, Arc::clone(&member));
        Ok((member, Ends { talk: theirs, outputs: writers }))
    }

    /// Orders a member for the pool. With it, under which guard it is made.
    fn order_idle(&self, zygote: &Arc<Zygote>, kind: Kind) -> Result<(Arc<Member>, u64), Errno> {
        let (member, ends) = self.new_member(zygote, kind, true)?;
        let outputs = ends.outputs.iter().flatten().map(AsFd::as_fd);
        let fds: Vec<_> = std::iter::once(ends.talk.as_fd()).chain(outputs).collect();
        let make = Make { tag: Make::TAG, kind: kind as u32, id: member.id };
        let age = zygote.orders();
        match socket::send(zygote.control(), &[&make.to_bytes()], &fds) {
            Ok(()) => Ok((member, *age)),
            Err(errno) => {
                self.forget(member.id);
                Err(errno)
            }
        }
    }

    /// A call has been answered.
    pub(super) fn ended(&self) {
        let mut state = self.state();
        state.ailing = false;
        state.sizing.ended(Instant::now());
    }

    /// A member that stood ready, or was being made, is no more. No other is made before the next call: whatever went
    /// wrong would go wrong again at once.
    pub(super) fn lost_idle(&self, id: u64) {
        let mut state = self.state();
        state.ailing = true;
        state.warm.retain(|member| member.id != id);
        state.parked.retain(|member| member.id != id);
        drop(state);
        self.forget(id);
    }

    /// Fills or empties the pool. When to do so again although nothing has happened.
    pub(super) fn tend(self: &Arc<Self>) -> Option<Instant> {
        let running = self.is_running();
        let mut state = self.state();
        let wanted = state.sizing.wanted(Instant::now(), running);
        let zygote = state.zygote.clone()?;
        if !wanted.zygote {
            drop(state);
            self.discard(&zygote);
            return None;
        }
        let dropped = state.shrink(&wanted, &zygote);
        // What is made before the wall stands would be outside of it.
        let missing = if zygote.is_settled() { state.missing(&wanted, &zygote) } else { Vec::new() };
        drop(state);
        if wanted.more && zygote.begin_fence() {
            self.fence(&zygote);
        }
        dropped.iter().for_each(|member| self.forget(member.id));
        for kind in missing {
            let Ok((member, age)) = self.order_idle(&zygote, kind) else { break };
            let mut state = self.state();
            let current = state.zygote.as_ref().is_some_and(|current| current.id == zygote.id);
            // A guard that is set from here on drops it with the others.
            if current && *zygote.orders() == age {
                state.queue(kind).push_back(member);
            } else {
                drop(state);
                self.forget(member.id);
            }
        }
        let unready = self.prepare_idle().then(|| Instant::now() + PREPARED_AFTER);
        wanted.again.into_iter().chain(unready).min()
    }

    /// Sees which members have become ready and does for them what a call would have to do. Whether some are not ready
    /// yet.
    fn prepare_idle(&self) -> bool {
        let state = self.state();
        let idle = state.warm.iter().chain(&state.parked).filter(|member| !member.is_registered());
        let idle: Vec<_> = idle.cloned().collect();
        drop(state);
        let mut unready = false;
        for member in idle {
            match member.readiness() {
                // One that is taken meanwhile is registered only once: whoever comes second sees that.
                Readiness::Ready if member.is_silent() => drop(self.register(&member)),
                Readiness::Ready => {}
                Readiness::Preparing => unready = true,
                Readiness::Dead => self.lost_idle(member.id),
            }
        }
        unready
    }
}

impl Engine {
    /// Builds the wall around a zygote on a thread of its own, and then has the pool tended.
    fn fence(self: &Arc<Self>, zygote: &Arc<Zygote>) {
        let (engine, fenced) = (Arc::clone(self), Arc::clone(zygote));
        let build = move || {
            fenced.fence(&engine.limits);
            drop(fenced);
            engine.wake();
        };
        if std::thread::Builder::new().name("helve-fence".to_owned()).spawn(build).is_err() {
            zygote.fence(&self.limits);
        }
    }
}

/// The ends of a member's sockets and pipes that it gets itself.
struct Ends {
    talk: OwnedFd,
    outputs: Option<[OwnedFd; 2]>,
}

impl State {
    fn queue(&mut self, kind: Kind) -> &mut VecDeque<Arc<Member>> {
        if kind == Kind::Warm { &mut self.warm } else { &mut self.parked }
    }

    /// Takes the zygote and all that stands ready in it.
    fn give_up(&mut self) -> (Option<Arc<Zygote>>, Vec<Arc<Member>>) {
        let idle = self.idle();
        (self.zygote.take(), idle)
    }

    /// Takes all that stands ready.
    fn idle(&mut self) -> Vec<Arc<Member>> {
        self.warm.drain(..).chain(self.parked.drain(..)).collect()
    }

    /// How many of each kind should stand ready: where no shell can be kept warm, parked members stand in.
    fn targets(wanted: &Wanted, zygote: &Zygote) -> [(Kind, usize); 2] {
        let PoolSize { warm, parked } = wanted.size;
        if zygote.keeps_warm() {
            [(Kind::Warm, warm), (Kind::Parked, parked)]
        } else {
            [(Kind::Warm, 0), (Kind::Parked, warm + parked)]
        }
    }

    fn shrink(&mut self, wanted: &Wanted, zygote: &Zygote) -> Vec<Arc<Member>> {
        let mut dropped = Vec::new();
        for (kind, target) in State::targets(wanted, zygote) {
            let queue = self.queue(kind);
            let extra = queue.len().saturating_sub(target);
            dropped.extend(queue.drain(..extra));
        }
        dropped
    }

    fn missing(&mut self, wanted: &Wanted, zygote: &Zygote) -> Vec<Kind> {
        if self.ailing {
            return Vec::new();
        }
        let mut missing = Vec::new();
        for (kind, target) in State::targets(wanted, zygote) {
            let count = target.saturating_sub(self.queue(kind).len());
            missing.extend(std::iter::repeat_n(kind, count));
        }
        missing
    }
}

/// A pipe for an output: only its reading end, which stays here, never blocks.
fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    reopen::allow(&writer);
    Ok((reader, writer))
}
