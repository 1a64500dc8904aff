//! Protected paths of the workspace: files that run or configure programs of the owner without being asked.
//!
//! ```text
//! before a call   what exists          → mounted read-only, and the directories above it pinned in their place;
//!                 what nobody may read → covered by emptiness
//! after a call    what the command made → judged; what may not stay is taken away and told
//! ```
//!
//! `tree` reaches everything by descriptors beneath the workspace, `places` finds what is protected, `links` follows links
//! to their end, `hidden` finds what nobody may read behind them, `watch` says what changed since the last look, `snapshot`
//! remembers what the owner has, `judge` and `harmless` say what may stay, `take` removes and restores, `others` knows of
//! calls that other keepers make in the same workspace.
//!
//! What changes between calls is the owner's doing and becomes what is protected. What changes during a call is the
//! command's. A repository that a command made and that holds nothing but harmless things stays the command's: it is not
//! mounted in later calls, so that it can be configured and removed like any other directory, and it is judged again
//! whenever it changes.
//!
//! A look that fails stops nothing: the rest is done, what could not be is told first, and no call begins before a look at
//! everything has succeeded, because what a command may have left must not become the owner's.
//!
//! The first call of a process is followed by a second walk instead of watches, because ending them takes longer than a
//! short command. Where watches cannot be had, every look is a walk. Deliberately not here: the mounts themselves, and
//! which names are protected (`helve_core::protected`). Not protected: what lies deeper than a path can be long, on another
//! file system inside the workspace, or beyond the first 200,000 directories of a workspace that had more from the start;
//! names (but not git's structure) inside installed packages. Where nothing is mounted, a file of more than 1 MiB that a
//! command changed is taken away instead of put back, and of a place with more than 2,048 entries nothing is compared.

mod found;
mod harmless;
mod hidden;
mod judge;
mod links;
mod others;
mod places;
mod snapshot;
mod state;
mod take;
mod tree;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::{DenyRead, Removed};
use rustix::fs::{CWD, Mode, OFlags};

use crate::native::wire::Guarded;
use state::State;
use tree::Identity;
pub(crate) use tree::shown;

/// Keeps the protected paths of one workspace.
#[derive(Debug)]
pub(crate) struct Keeper(Mutex<State>);

impl Keeper {
    /// One for the workspace that `workspace` is open on. `denied` is what nobody may read. `mounts` says whether what [`Keeper::before`] lists is mounted:
    /// then commands cannot have changed it, and otherwise what they change is put back.
    pub(crate) fn new(workspace: OwnedFd, names: &[String], denied: DenyRead, mounts: bool) -> Keeper {
        Keeper(Mutex::new(State::new(workspace, names, denied, mounts)))
    }

    /// Before a call: what must be mounted, directories first, if it is not what was said the last time. Unless it
    /// fails it has to be followed by one [`Keeper::after`], also if the command could not be started.
    pub(crate) fn before(&self) -> io::Result<Option<Vec<Guarded>>> {
        self.state().before()
    }

    /// After a call, when all its processes are gone: takes away what it left at protected places. What could not be
    /// taken away or looked into comes first, and says so; an error means that nothing could be looked at.
    pub(crate) fn after(&self) -> io::Result<Vec<Removed>> {
        self.state().after()
    }

    /// What is to be mounted, as it was said the last time.
    pub(crate) fn guarded(&self) -> Vec<Guarded> {
        self.state().guarded()
    }

    /// Whether the next look takes microseconds: nothing has changed, and nobody else is looking.
    #[cfg(test)]
    pub(crate) fn is_quick(&self) -> bool {
        self.0.try_lock().is_ok_and(|state| state.is_quick())
    }

    /// Whether the next look need not be left to another thread: nothing has changed or there is little to look at, and
    /// nobody else is looking.
    pub(crate) fn is_short(&self) -> bool {
        self.0.try_lock().is_ok_and(|state| state.is_quick() || state.tree.is_small())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the protected paths of a workspace that may be deleted and made anew under the same path.
#[derive(Debug)]
pub(crate) struct Protection {
    workspace: PathBuf,
    names: Vec<String>,
    denied: DenyRead,
    mounts: bool,
    current: Mutex<Option<(Identity, Arc<Keeper>)>>,
}

impl Protection {
    /// One for a workspace, by its real path. See [`Keeper::new`].
    pub(crate) fn new(workspace: PathBuf, names: Vec<String>, denied: DenyRead, mounts: bool) -> Protection {
        Protection { workspace, names, denied, mounts, current: Mutex::new(None) }
    }

    /// Begins a call. None if nothing is protected.
    pub(crate) fn begin(&self) -> io::Result<Option<Turn>> {
        if self.names.is_empty() && self.denied.is_empty() {
            return Ok(None);
        }
        let keeper = self.keeper()?;
        keeper.before()?;
        Ok(Some(Turn(Some(keeper))))
    }

    fn keeper(&self) -> io::Result<Arc<Keeper>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, &self.workspace, flags, Mode::empty())?;
        let identity = tree::identity(&rustix::fs::fstat(&opened)?);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, keeper)) = &*current
            && *known == identity
        {
            return Ok(Arc::clone(keeper));
        }
        let opened = crate::drain::above_streams(opened)?;
        let keeper = Arc::new(Keeper::new(opened, &self.names, self.denied.clone(), self.mounts));
        *current = Some((identity, Arc::clone(&keeper)));
        Ok(keeper)
    }
}

/// One call under protection. When it is dropped the workspace is swept, so it must live as long as any process of the
/// call.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Keeper>>);

impl Turn {
    /// What is to be mounted in this call.
    pub(crate) fn guarded(&self) -> Vec<Guarded> {
        self.0.as_ref().map(|keeper| keeper.guarded()).unwrap_or_default()
    }

    /// Ends the call, when all its processes are gone: what was taken away.
    pub(crate) fn end(mut self) -> io::Result<Vec<Removed>> {
        self.0.take().map_or(Ok(Vec::new()), |keeper| keeper.after())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(keeper) = self.0.take() {
            // Nobody is left who could be told.
            let _ = keeper.after();
        }
    }
}

#[cfg(test)]
mod tests;
