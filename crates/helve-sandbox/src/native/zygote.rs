//! Helve's record of one zygote: its process, its control socket, the workspace that its template shows, and what it has
//! said. Dropping it ends the process, and with it every member.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use helve_core::{ProcessLimits, Removed};
use rustix::io::Errno;

use super::helper::Started;
use super::records::RECORD_BYTES;
use super::socket;
use super::wire::Told;
use crate::cgroup::Groups;

/// Processes that were ended and wait to be reaped.
pub(super) type Graveyard = Arc<Mutex<Vec<Child>>>;

/// How long a zygote and its members take to die, as a rule.
const DYING: Duration = Duration::from_millis(5);

/// Which directory a path names, so that one that was removed and made again is seen to be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// What the path names now.
    pub(super) fn of(path: &Path) -> Result<Place, Errno> {
        let stat = rustix::fs::stat(path)?;
        Ok(Place { device: stat.st_dev, inode: stat.st_ino })
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

/// A zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    /// Told from others by this.
    pub(super) id: u64,
    /// The workspace that its template shows.
    pub(super) workspace: Place,
    control: OwnedFd,
    child: Option<Child>,
    graveyard: Graveyard,
    /// The control groups around it, once that was tried.
    groups: OnceLock<Option<Groups>>,
    fencing: AtomicBool,
    /// A [`Warm`].
    warm: AtomicU8,
    gone: AtomicBool,
    listening: AtomicBool,
    broken: Mutex<Option<(u32, i32)>>,
}

impl Zygote {
    pub(super) fn new(id: u64, workspace: Place, started: Started, graveyard: Graveyard) -> Zygote {
        Zygote {
            id,
            workspace,
            control: started.control,
            child: Some(started.child),
            graveyard,
            groups: OnceLock::new(),
            fencing: AtomicBool::new(false),
            warm: AtomicU8::new(Warm::Unknown as u8),
            gone: AtomicBool::new(false),
            // Neither way yet, so the first wish is a change.
            listening: AtomicBool::new(true),
            broken: Mutex::new(None),
        }
    }

    /// The socket that orders go through.
    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Whether the view's shell may be kept warm: it is not known that it cannot.
    pub(super) fn keeps_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed) != Warm::No as u8
    }

    /// Puts it, and with it all members that it makes from now on, behind a wall of control groups, where the host gives
    /// any. The kernel takes some milliseconds for that.
    pub(super) fn fence(&self, limits: &ProcessLimits) {
        let pid = self.child.as_ref().map(Child::id);
        let groups = pid.and_then(|pid| Groups::for_view(limits).filter(|groups| groups.enter(pid).is_ok()));
        let _ = self.groups.set(groups);
    }

    /// Whether [`Zygote::fence`] is still to be begun; true once.
    pub(super) fn begin_fence(&self) -> bool {
        !self.fencing.swap(true, Ordering::Relaxed)
    }

    /// Whether [`Zygote::fence`] has been done, with or without success.
    pub(super) fn is_settled(&self) -> bool {
        self.groups.get().is_some()
    }

    /// The wall around members that are made now, if there is one.
    pub(super) fn groups(&self) -> Option<&Groups> {
        self.groups.get()?.as_ref()
    }

    /// Whether its process has ended, or must not be used any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Nothing more is to be had from it.
    pub(super) fn give_up(&self) {
        self.gone.store(true, Ordering::Relaxed);
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
                    self.give_up();
                    return None;
                }
                Ok((count, fd)) => {
                    // A record of another length is no record; the next one may be.
                    if let Some(told) = bytes.get(..count).and_then(Told::from_bytes) {
                        return Some((told, fd));
                    }
                }
                Err(Errno::AGAIN) => return None,
                Err(_) => {
                    self.give_up();
                    return None;
                }
            }
        }
    }

    /// Whether that changes if its words wake the reactor.
    pub(super) fn listening(&self, words: bool) -> bool {
        self.listening.swap(words, Ordering::Relaxed) != words
    }

    /// Takes away what a command left at protected places, and says what.
    pub(super) fn sweep(&self) -> Vec<Removed> {
        Vec::new()
    }

    /// Something was said that makes it useless.
    pub(super) fn fail(&self, told: &Told) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some((told.step, told.errno));
        self.give_up();
    }

    /// Keeps what was said about the zygote itself.
    pub(super) fn learn(&self, told: &Told) {
        match told.tag {
            Told::CALIBRATED => {
                let warm = if told.warm == 1 { Warm::Yes } else { Warm::No };
                self.warm.store(warm as u8, Ordering::Relaxed);
            }
            Told::BROKEN => self.fail(told),
            _ => {}
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that it has ended already.
            let _ = child.kill();
            if self.groups().is_some() {
                // Its members die with it; then the groups, which go next, can be removed.
                std::thread::sleep(DYING);
            }
            self.graveyard.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
    }
}

/// Takes ended processes away. Whether some are still dying.
pub(super) fn reap(graveyard: &Graveyard) -> bool {
    let mut dying = graveyard.lock().unwrap_or_else(PoisonError::into_inner);
    dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    !dying.is_empty()
}
