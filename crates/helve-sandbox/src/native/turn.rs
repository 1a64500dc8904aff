//! A call's turn with the workspace: what is protected is guarded before its command begins, and swept after it has ended.
//!
//! A look at a workspace that is small, or in which nothing has changed, takes microseconds and is done at once; any other is done on a thread
//! where it may block.

use std::io;
use std::sync::{Arc, PoisonError};

use helve_core::{Removed, ToolError};
use rustix::io::Errno;

use super::engine::Engine;
use super::zygote::Zygote;
use crate::protect::Keeper;
use crate::spawn;

/// The mark of a call that is under way. Dropping it sweeps the workspace, so it must live as long as any process of
/// the call.
pub(super) struct Underway {
    engine: Arc<Engine>,
    keeper: Option<Arc<Keeper>>,
}

impl Underway {
    fn new(engine: &Arc<Engine>) -> Underway {
        engine.count_in();
        Underway { engine: Arc::clone(engine), keeper: None }
    }

    /// Ends the turn, when all processes of the call are gone: what was taken away.
    pub(super) async fn end(mut self) -> Result<Vec<Removed>, ToolError> {
        if self.keeper.as_ref().is_none_or(|keeper| keeper.is_short()) {
            return self.look().map_err(spawn::not_swept);
        }
        // Moved along with the look, so that the call counts as under way until it is done, and the look is made also if
        // the runtime ends before.
        let removed = tokio::task::spawn_blocking(move || self.look()).await;
        removed.map_err(|_| look_failed())?.map_err(spawn::not_swept)
    }

    fn look(&mut self) -> io::Result<Vec<Removed>> {
        self.keeper.take().map_or_else(|| Ok(Vec::new()), |keeper| keeper.after())
    }
}

impl Drop for Underway {
    /// Nobody is left who could be told. Whoever drops it does not wait: it may be the reactor, or an event loop.
    fn drop(&mut self) {
        let mut rest = Rest { engine: Arc::clone(&self.engine), keeper: self.keeper.take() };
        if rest.keeper.as_ref().is_none_or(|keeper| keeper.is_short()) {
            return rest.sweep();
        }
        let (engine, keeper) = (Arc::clone(&rest.engine), rest.keeper.clone());
        let sweep = move || rest.sweep();
        if std::thread::Builder::new().name("helve-sweep".to_owned()).spawn(sweep).is_err() {
            Rest { engine, keeper }.sweep();
        }
    }
}

/// What is left to do for a call that nobody waits for.
struct Rest {
    engine: Arc<Engine>,
    keeper: Option<Arc<Keeper>>,
}

impl Rest {
    fn sweep(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.after();
        }
        self.engine.count_out();
    }
}

/// Why a call could not begin.
pub(super) enum NotEntered {
    /// Something that may pass, or be mended by another zygote.
    Errno(Errno),
    /// Something else.
    Error(ToolError),
}

impl Engine {
    /// Begins a call's turn: the zygote guards what is protected now.
    pub(super) async fn enter(self: &Arc<Self>, zygote: &Arc<Zygote>) -> Result<Underway, NotEntered> {
        let Some(keeper) = zygote.keeper() else { return Ok(Underway::new(self)) };
        if keeper.is_short() && zygote.guarding().try_lock().is_ok() {
            return self.enter_now(zygote);
        }
        let (engine, zygote) = (Arc::clone(self), Arc::clone(zygote));
        let entered = tokio::task::spawn_blocking(move || engine.enter_now(&zygote)).await;
        entered.map_err(|_| NotEntered::Error(look_failed()))?
    }

    fn enter_now(self: &Arc<Self>, zygote: &Zygote) -> Result<Underway, NotEntered> {
        let mut underway = Underway::new(self);
        let Some(keeper) = zygote.keeper() else { return Ok(underway) };
        // Held until the zygote has the order, so that no other call begins under the guard before.
        let mut guarding = zygote.guarding().lock().unwrap_or_else(PoisonError::into_inner);
        let changed = keeper.before().map_err(|error| NotEntered::Error(spawn::not_protected(error)))?;
        underway.keeper = Some(Arc::clone(keeper));
        if changed.is_none() && guarding.set {
            return Ok(underway);
        }
        let list = changed.unwrap_or_else(|| keeper.guarded());
        if !list.is_empty() || guarding.set {
            guarding.set = false;
            zygote.guard(&list).map_err(NotEntered::Errno)?;
            self.drop_idle(zygote);
            let _ = self.listen(zygote, true);
        }
        guarding.set = true;
        Ok(underway)
    }
}

fn look_failed() -> ToolError {
    ToolError::internal("The thread that looks after the workspace's protected paths failed.")
}
