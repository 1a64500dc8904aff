//! Helve's record of one zygote: its process, its control socket, the workspace that its template shows, and what it has
//! said. Dropping it ends the process, and with it every member.
//!
//! Three things are told apart: that it is given up (no more calls for it), that it is mute (it says no more), and that its
//! process has ended. Only the last means that members whose own end cannot be seen are dead.

mod wall;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::entries::Entries;
use super::graveyard::Graveyard;
use super::helper::{Process, Started};
use super::records::RECORD_BYTES;
use super::socket;
use super::wire::{Guard, Guarded, INLINE_BYTES, LOAD, Told, encode_guarded};
use crate::cgroup::Groups;
use crate::drain::memory_file;
use crate::protect::Keeper;

pub(super) use wall::Wall;

/// After so many warm shells in a row that failed, no more are made.
const MOST_FAILURES: u8 = 2;

/// After so many shells that were started for a call, one is loaded and copied: the first call of all finds nothing ready.
const LOADED_AFTER: u8 = 2;

/// Which directory a path names, so that one that was removed and made again is seen to be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// What the path names now.
    pub(super) fn of(path: &Path) -> Result<Place, Errno> {
        Ok(Place::from(rustix::fs::stat(path)?))
    }

    /// What was opened.
    pub(super) fn of_open(directory: &OwnedFd) -> Result<Place, Errno> {
        Ok(Place::from(rustix::fs::fstat(directory)?))
    }

    /// Its device, and its number there.
    pub(super) fn numbers(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl From<Stat> for Place {
    fn from(stat: Stat) -> Place {
        Place { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Whether a shell can be kept warm; found out when the first is asked for.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Warm {
    Unknown,
    Yes,
    No,
}

/// What a zygote was told to guard.
#[derive(Debug)]
pub(super) struct Guarding {
    /// Whether it was told what is to be guarded now.
    pub(super) set: bool,
}

/// A zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    /// Told from others by this.
    pub(super) id: u64,
    /// The workspace that its template shows.
    workspace: Place,
    /// What the view's rules named when its template was planned.
    entries: Entries,
    control: OwnedFd,
    /// Its process.
    process: Process,
    graveyard: Arc<Graveyard>,
    /// The control groups around it, once that was tried.
    groups: OnceLock<Option<Groups>>,
    fencing: AtomicBool,
    /// How many shells were started for a call, up to those after which it pays to load one.
    started: AtomicU8,
    /// Whether it was told to load its shell.
    loading: AtomicBool,
    /// Whether it has said that it has, and members get copies.
    copies: AtomicBool,
    ready: AtomicBool,
    /// A [`Warm`].
    warm: AtomicU8,
    /// Warm shells in a row that failed.
    failures: AtomicU8,
    given_up: AtomicBool,
    mute: AtomicBool,
    ended: AtomicBool,
    listening: AtomicBool,
    keeper: Option<Arc<Keeper>>,
    guarding: Mutex<Guarding>,
    /// How often the guard has changed.
    age: Mutex<u64>,
    /// Guards that the zygote has not yet answered.
    unanswered: AtomicUsize,
    broken: Mutex<Option<(u32, i32)>>,
}

impl Zygote {
    pub(super) fn new(
        id: u64,
        workspace: Place,
        entries: Entries,
        keeper: Option<Arc<Keeper>>,
        started: Started,
        graveyard: Arc<Graveyard>,
    ) -> Zygote {
        Zygote {
            id,
            workspace,
            entries,
            control: started.control,
            process: started.process,
            graveyard,
            groups: OnceLock::new(),
            fencing: AtomicBool::new(false),
            started: AtomicU8::new(0),
            loading: AtomicBool::new(false),
            copies: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            warm: AtomicU8::new(Warm::Unknown as u8),
            failures: AtomicU8::new(0),
            given_up: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            // Neither way yet, so the first wish is a change.
            listening: AtomicBool::new(true),
            keeper,
            guarding: Mutex::new(Guarding { set: false }),
            age: Mutex::new(0),
            unanswered: AtomicUsize::new(0),
            broken: Mutex::new(None),
        }
    }

    /// Whether its template still shows this workspace, and what the view's rules mean in it.
    pub(super) fn shows(&self, workspace: Place) -> bool {
        self.workspace == workspace && self.entries.are_same()
    }

    /// The socket that orders go through.
    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Whether the view's shell may be kept warm: it is not known that it cannot.
    pub(super) fn keeps_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed) != Warm::No as u8
    }

    /// Whether it has said that its template stands.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether [`Zygote::fence`] is still to be begun; true once.
    pub(super) fn begin_fence(&self) -> bool {
        !self.fencing.swap(true, Ordering::Relaxed)
    }

    /// Whether [`Zygote::fence`] has been done, with or without success.
    pub(super) fn is_settled(&self) -> bool {
        self.groups.get().is_some()
    }

    /// A shell is started for a call, because none stood ready.
    pub(super) fn starts_shell(&self) {
        let more = |count: u8| (count < LOADED_AFTER).then_some(count + 1);
        let _ = self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Whether shells are started so often that it pays to load one.
    pub(super) fn starts_many(&self) -> bool {
        self.started.load(Ordering::Relaxed) >= LOADED_AFTER
    }

    /// Whether a shell that is started for a call is a copy.
    pub(super) fn copies(&self) -> bool {
        self.copies.load(Ordering::Relaxed)
    }

    /// Has it load its shell, so that members can be given copies. Said once.
    pub(super) fn load(&self) {
        if !self.loading.swap(true, Ordering::Relaxed) {
            // Without this, shells are executed.
            let _ = socket::send(self.control(), &[&LOAD.to_ne_bytes()], &[]);
        }
    }

    /// Its process: it can be read once that has ended.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.handle()
    }

    /// A warm shell did not stand, or could not be let go.
    pub(super) fn warm_failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_FAILURES {
            self.warm.store(Warm::No as u8, Ordering::Relaxed);
        }
    }

    /// A warm shell stands.
    pub(super) fn warm_stands(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Whether no call may use it any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// No call is to use it any more. It lives as long as one that does.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it says no more.
    pub(super) fn is_mute(&self) -> bool {
        self.mute.load(Ordering::Relaxed)
    }

    fn fall_silent(&self) {
        self.mute.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Ends its process, and with it every member.
    pub(super) fn kill(&self) {
        self.give_up();
        self.process.kill();
    }

    /// Whether its process has ended. The kernel has killed its members then.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Its process has ended.
    pub(super) fn died(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// The step at which it could not go on, and the error.
    pub(super) fn failure(&self) -> Option<(u32, i32)> {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing that it has said, with a descriptor; none if there is nothing more now. Only the reactor asks.
    pub(super) fn hear(&self) -> Option<(Told, Option<OwnedFd>)> {
        let mut bytes = [0; RECORD_BYTES];
        loop {
            match socket::receive(self.control(), &mut bytes) {
                Ok((0, _)) => {
                    self.fall_silent();
                    return None;
                }
                Ok((count, fd)) => {
                    // A record of another length is no record; the next one may be.
                    if let Some(told) = bytes.get(..count).and_then(Told::from_bytes) {
                        return Some((told, fd));
                    }
                }
                Err(Errno::AGAIN) => return None,
                // It ended with orders unread. What it said before comes after this.
                Err(Errno::CONNRESET) => {}
                Err(_) => {
                    self.fall_silent();
                    return None;
                }
            }
        }
    }

    /// Whether that changes if its words wake the reactor.
    pub(super) fn listening(&self, words: bool) -> bool {
        self.listening.swap(words, Ordering::Relaxed) != words
    }

    /// What keeps the workspace's protected paths, if there are any.
    pub(super) fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.as_ref()
    }

    /// The right to say what is guarded; one call at a time has it.
    pub(super) fn guarding(&self) -> &Mutex<Guarding> {
        &self.guarding
    }

    /// Has these paths guarded in members that are ordered from now on.
    pub(super) fn guard(&self, entries: &[Guarded]) -> Result<(), Errno> {
        let list = encode_guarded(entries);
        let mut age = self.orders();
        let in_file = list.len() > INLINE_BYTES / 2;
        let head = Guard { tag: Guard::TAG, in_file: u32::from(in_file) }.to_bytes();
        if in_file {
            let file = memory_file("guard", &list).map_err(|_| Errno::NOMEM)?;
            socket::send(self.control(), &[&head], &[file.as_fd()])?;
        } else {
            socket::send(self.control(), &[&head, &list], &[])?;
        }
        *age += 1;
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How often the guard has changed. While it is held, it does not change.
    pub(super) fn orders(&self) -> MutexGuard<'_, u64> {
        self.age.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a guard is still to be answered.
    pub(super) fn awaits_guard(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) > 0
    }

    /// Something was said that makes it useless.
    pub(super) fn fail(&self, told: &Told) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some((told.step, told.errno));
        self.give_up();
    }

    /// Keeps what was said about the zygote itself.
    pub(super) fn learn(&self, told: &Told) {
        match told.tag {
            Told::READY => self.ready.store(true, Ordering::Relaxed),
            Told::CALIBRATED => {
                let warm = if told.warm == 1 { Warm::Yes } else { Warm::No };
                self.warm.store(warm as u8, Ordering::Relaxed);
            }
            Told::COPIES => self.copies.store(told.warm == 1, Ordering::Relaxed),
            Told::BROKEN => self.fail(told),
            Told::GUARDED => drop(self.unanswered.fetch_sub(1, Ordering::Relaxed)),
            // Without its guard nothing may run in it.
            Told::FAILED if told.id == 0 => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
                self.fail(told);
            }
            _ => {}
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.process.kill();
        self.graveyard.bury(self.process.clone(), self.groups.take().flatten());
    }
}
