//! What calls and the reactor share: the zygote of the moment, the members that stand ready, those that run.
//!
//! ```text
//! call ── zygote() ──► the one that shows the workspace as it is now; started if there is none
//!      ── begin() ───► a member of the best lane: warm, else parked, else made for this call (`begin`)
//! reactor ── tend() ─► fills and empties the pool, after answers were sent (`stock`)
//! ```
//!
//! Not here: waiting (`call` waits for answers, `reactor` for events), and what a request says (`order`).

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::{LayerLinks, LayerPart, ProcessLimits, ToolError, View};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::awake::Awake;
use super::entries::Entries;
use super::graveyard::Graveyard;
use super::helper;
use super::layer;
use super::member::Member;
use super::pool::{PoolSize, Sizing};
use super::reactor;
use super::setup::{Layer, Setup};
use super::stock::Stock;
use super::wire::Told;
use super::zygote::{Place, Zygote};
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
pub(super) const ENDED: u64 = 6;
/// How many kinds of events there are, as a power of two.
pub(super) const EVENT_BITS: u32 = 3;

/// How long closing waits for control groups to be removed.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// What calls leave to the reactor.
#[derive(Default)]
struct Left {
    /// Those that it has to see to.
    calls: Vec<Arc<Member>>,
    /// Those that were answered. It closes their descriptors, so that this is in nobody's way.
    answered: Vec<Arc<Member>>,
}

/// The shared state.
pub(super) struct Engine {
    pub(super) view: View,
    pub(super) limits: ProcessLimits,
    pub(super) rules: Arc<Rules>,
    epoll: OwnedFd,
    wake: OwnedFd,
    /// Whether the reactor's thread was started.
    serving: AtomicBool,
    closing: AtomicBool,
    closed: (Mutex<bool>, Condvar),
    next_id: AtomicU64,
    running: AtomicUsize,
    stock: Mutex<Stock>,
    members: Mutex<HashMap<u64, Arc<Member>>>,
    left: Mutex<Left>,
    graveyard: Arc<Graveyard>,
    keeper: Mutex<Option<(Place, Arc<Keeper>)>>,
    /// Held while a zygote is started, so that there is never a second for the same view.
    starting: tokio::sync::Mutex<()>,
    /// Where commands run over a layer: how large it is, and what the zygote in use gave of it.
    layer: Option<(u64, Mutex<Given>)>,
    /// Whether members see what is refused.
    seen: bool,
    /// Whether it is worth to wait for a short call awake.
    pub(super) awake: Awake,
}

/// What the zygote in use gave of its layer, and how to see whether something was mounted since.
#[derive(Default)]
struct Given {
    parts: Vec<LayerPart>,
    /// What commands see of the workspace.
    merged: Option<OwnedFd>,
    mounts: Option<layer::Mounts>,
}

impl Engine {
    /// Starts nothing.
    pub(super) fn new(
        view: View,
        rules: Arc<Rules>,
        limits: ProcessLimits,
        pool: PoolSize,
        layer: Option<u64>,
        seen: bool,
    ) -> std::io::Result<Arc<Engine>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let stock = Stock {
            zygote: None,
            sizing: Sizing::new(pool, Instant::now()),
            warm: VecDeque::new(),
            parked: VecDeque::new(),
            ailing: false,
            spare: None,
        };
        Ok(Arc::new(Engine {
            view,
            limits,
            rules,
            epoll,
            wake,
            serving: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            closed: (Mutex::new(false), Condvar::new()),
            next_id: AtomicU64::new(1),
            running: AtomicUsize::new(0),
            stock: Mutex::new(stock),
            members: Mutex::default(),
            left: Mutex::default(),
            graveyard: Arc::default(),
            keeper: Mutex::new(None),
            starting: tokio::sync::Mutex::default(),
            layer: layer.map(|bytes| (bytes, Mutex::default())),
            seen,
            awake: Awake::new(),
        }))
    }

    /// Starts the reactor's thread, once there is something for it to do.
    fn serve(self: &Arc<Self>) -> std::io::Result<()> {
        if self.serving.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let engine = Arc::clone(self);
        let run = move || reactor::run(&engine);
        let started = std::thread::Builder::new().name("helve-native".to_owned()).spawn(run);
        self.serving.store(started.is_ok(), Ordering::Relaxed);
        started.map(drop)
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

    pub(super) fn wake(&self) {
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
        self.zygote_in_use().is_some_and(|zygote| zygote.is_fenced())
    }

    /// Whether a call is under way.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Gives up every member, and then the zygote.
    pub(super) fn clear(&self) {
        let (zygote, idle) = self.stock().give_up();
        let members = std::mem::take(&mut *self.members());
        // Whoever serves one apart lets go of it.
        for member in members.values() {
            member.ring();
        }
        drop((idle, members));
        drop(zygote);
    }

    /// The same at the very end: waits until every zygote that was ended is reaped.
    pub(super) fn clear_for_good(&self) {
        self.graveyard.close();
        self.clear();
        self.graveyard.empty();
    }

    /// Answers a member's call, and forgets the member. Its output is in the sink. Whoever comes first does it. Whether the
    /// pool is to be tended now.
    pub(super) fn finish(&self, member: &Arc<Member>) -> bool {
        if !self.forget(member.id) {
            return false;
        }
        if !member.answer() {
            // Nobody waits, so nobody else looks at what the command left: dropping the mark does.
            drop(member.abandoned());
        }
        self.left().answered.push(Arc::clone(member));
        self.ended(member.began())
    }

    /// Has the reactor see to a call from now on.
    pub(super) fn leave(&self, member: &Arc<Member>) {
        self.left().calls.push(Arc::clone(member));
        self.wake();
    }

    /// The calls that were left to the reactor since it last asked.
    pub(super) fn take_calls(&self) -> Vec<Arc<Member>> {
        std::mem::take(&mut self.left().calls)
    }

    /// The members whose calls were answered since the reactor last asked.
    pub(super) fn take_answered(&self) -> Vec<Arc<Member>> {
        std::mem::take(&mut self.left().answered)
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn members(&self) -> MutexGuard<'_, HashMap<u64, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) fn member(&self, id: u64) -> Option<Arc<Member>> {
        self.members().get(&id).cloned()
    }

    /// Forgets a member; what is in it ends when nobody else holds its record. Whether it was known.
    pub(super) fn forget(&self, id: u64) -> bool {
        let member = self.members().remove(&id);
        member.is_some()
    }

    pub(super) fn forget_all(&self, members: &[Arc<Member>]) {
        for member in members {
            self.forget(member.id);
        }
    }

    /// Every member of a zygote that runs a call.
    pub(super) fn members_of(&self, zygote: &Zygote) -> Vec<Arc<Member>> {
        self.members().values().filter(|member| member.zygote.id == zygote.id).cloned().collect()
    }

    pub(super) fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The zygote that calls go to now.
    pub(super) fn zygote_in_use(&self) -> Option<Arc<Zygote>> {
        self.stock().zygote.clone()
    }

    /// The zygote of that number, if it still is the one in use or somebody runs in one of its members.
    pub(super) fn zygote_of(&self, id: u64) -> Option<Arc<Zygote>> {
        let current = self.stock().zygote.clone().filter(|zygote| zygote.id == id);
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

    /// A zygote whose template shows the workspace, and what the view's rules name in it, as they are now.
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

    /// Starts a zygote if there is none: a call is likely to follow, and then finds it ready or nearly so.
    pub(super) fn prepare(self: &Arc<Self>) {
        let Ok(_alone) = self.starting.try_lock() else { return };
        if self.zygote_in_use().is_none() {
            // An error comes again in the call.
            let _ = self.start_zygote();
        }
    }

    /// The zygote in use, unless it has ended, or the workspace or a rule's path is not what its template shows.
    fn current(&self) -> Result<Option<Arc<Zygote>>, ToolError> {
        let place = self.place()?;
        let mut stock = self.stock();
        match &stock.zygote {
            Some(zygote) if !zygote.is_given_up() && zygote.shows(place) && self.is_whole() => {
                Ok(Some(Arc::clone(zygote)))
            }
            Some(_) => {
                let (old, idle) = stock.give_up();
                drop(stock);
                self.forget_all(&idle);
                drop(old);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Whether the layer, if there is one, lies over every file system that is mounted in the workspace now.
    fn is_whole(&self) -> bool {
        let Some((_, given)) = &self.layer else { return true };
        let given = given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.mounts.as_ref().is_some_and(|mounts| !mounts.changed()) {
            return true;
        }
        let laid = given.parts.iter().map(|part| &part.path).skip(1);
        layer::nested(&self.rules.workspace.real).is_ok_and(|nested| nested.iter().eq(laid))
    }

    /// Which directory the workspace is now. By its real path, which is the one that is shown.
    fn place(&self) -> Result<Place, ToolError> {
        Place::of(&self.rules.workspace.real).or_else(|errno| {
            // Says what is wrong with it, in the words that other sandboxes have for it.
            workdir::open(&self.view, None)?;
            Err(spawn::no_process(errno.into()))
        })
    }

    /// Opens the workspace, for everything that has to be the same directory.
    fn open_workspace(&self) -> Result<OwnedFd, ToolError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, &self.rules.workspace.real, flags, Mode::empty());
        opened.or_else(|errno| {
            workdir::open(&self.view, None)?;
            Err(spawn::no_process(errno.into()))
        })
    }

    fn start_zygote(self: &Arc<Self>) -> Result<Arc<Zygote>, ToolError> {
        let workspace = self.open_workspace()?;
        let place = Place::of_open(&workspace).map_err(|errno| spawn::no_process(errno.into()))?;
        let entries = Entries::look(&self.rules);
        self.rules.check_entries()?;
        let mut setup = Setup::new(&self.view, &self.rules, place.numbers(), self.limits)?;
        if !self.seen {
            setup.explain = None;
        }
        let (mut nested, mut mounts) = (Vec::new(), None);
        if let Some((bytes, _)) = &self.layer {
            // Opened before it is read, so that no change comes between.
            mounts = Some(layer::Mounts::open().map_err(spawn::no_process)?);
            nested = layer::nested(&self.rules.workspace.real).map_err(spawn::no_process)?;
            setup.layer = Some(Layer { bytes: layer::size(*bytes), nested: nested.clone() });
        }
        let entries = entries.shown_by(&setup.mounts);
        let started = helper::start(&setup.encode())?;
        let keeper = match &self.layer {
            None => self.keeper(place, workspace),
            Some((_, held)) => {
                let given = layer::hear(&started, nested)?;
                let merged = rustix::io::fcntl_dupfd_cloexec(&given.merged, 3).ok();
                *held.lock().unwrap_or_else(PoisonError::into_inner) =
                    Given { parts: given.parts, merged, mounts };
                // It guards and sweeps what commands see of the workspace, and not the workspace.
                self.new_keeper(given.merged)
            }
        };
        let zygote = Zygote::new(self.id(), place, entries, keeper, started, Arc::clone(&self.graveyard));
        if self.layer.is_some() {
            zygote.learn(&Told { tag: Told::READY, step: 0, errno: 0, warm: 0, id: 0 });
        }
        let zygote = Arc::new(zygote);
        // Its words are read when somebody needs one, so only its end wakes the reactor.
        self.listen(&zygote, false).map_err(|errno| spawn::no_process(errno.into()))?;
        self.stock().zygote = Some(Arc::clone(&zygote));
        // Its end is told once, so only when the reactor finds it.
        let watched = self.watch_zygote(&zygote).map_err(std::io::Error::from);
        if let Err(error) = watched.and_then(|()| self.serve()) {
            self.discard(&zygote);
            return Err(spawn::no_process(error));
        }
        if self.is_closing() {
            // The reactor may have ended already.
            drop(zygote);
            self.clear();
            return Err(ToolError::internal("The sandbox was closed while a command was about to begin."));
        }
        Ok(zygote)
    }

    /// The layer of the zygote in use, once.
    pub(super) fn take_layer(&self) -> (Vec<LayerPart>, LayerLinks) {
        let Some((_, given)) = &self.layer else { return Default::default() };
        let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, seen) = (std::mem::take(&mut given.parts), given.merged.take());
        (parts, layer::links(&self.view, &self.rules.workspace.real, seen))
    }

    fn new_keeper(&self, workspace: OwnedFd) -> Option<Arc<Keeper>> {
        if self.view.protected.is_empty() && self.rules.denied.is_empty() {
            return None;
        }
        Some(Arc::new(Keeper::new(workspace, &self.view.protected, self.rules.denied.clone(), true)))
    }

    /// What keeps the protected paths of the workspace, the same as long as the workspace is.
    fn keeper(&self, place: Place, workspace: OwnedFd) -> Option<Arc<Keeper>> {
        let mut kept = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, keeper)) = kept.as_ref().filter(|(known, _)| *known == place) {
            return Some(Arc::clone(keeper));
        }
        let keeper = self.new_keeper(workspace)?;
        *kept = Some((place, Arc::clone(&keeper)));
        Some(keeper)
    }

    /// Nothing of the zygote wakes the reactor any more.
    pub(super) fn deafen(&self, zygote: &Zygote) -> Result<(), Errno> {
        epoll::delete(&self.epoll, zygote.control())
    }

    /// Lets the end of the zygote's process wake the reactor, once.
    fn watch_zygote(&self, zygote: &Zygote) -> Result<(), Errno> {
        let data = EventData::new_u64(zygote.id << EVENT_BITS | ENDED);
        epoll::add(&self.epoll, zygote.process(), data, EventFlags::IN | EventFlags::ONESHOT)
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
        let mut stock = self.stock();
        let old = match &stock.zygote {
            Some(current) if current.id == zygote.id => Some(stock.give_up()),
            _ => None,
        };
        drop(stock);
        if let Some((_, idle)) = &old {
            self.forget_all(idle);
        }
        drop(old);
    }
}
