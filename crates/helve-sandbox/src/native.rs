//! The backend `native`: Helve's own sandbox, fresh for each command and made before it is needed.
//!
//! ```text
//! call          one command: its deadline, its cancellation, its ending
//!   ├ awake     waiting for a short one without sleeping
//!   ├ order     what is asked, in the shape that each lane takes ── lane: who may use a warm shell
//!   ├ engine    the zygote and what runs ── begin: a member for a call ── zygote, member: Helve's records ── graveyard: their end
//!   │  ├ entries what the view's rules named when the zygote was started
//!   │  └ stock  the members that stand ready ── pool: how many
//!   ├ turn      protected paths: guarded before, swept after
//!   ├ reopen    streams that a command opens by name
//!   └ reactor   one thread: output into sinks, endings to callers, then the pool is filled again
//!      └ outlet a call's output ── a thread of its own for what is much or slow
//! layer         commands whose changes of the workspace are taken by a layer: an engine for each
//! helper        this program started again, which becomes the zygote (sys::native) ── setup: what it is told
//!                makes members, and loads a shell that is copied for those made for a call (sys::native::mould)
//! wire          what they say to each other ── records, socket: how that travels
//!   └ notes     what an init saw being refused ── denied: what that means for the view
//! ```
//!
//! In: a view. Out: a [`ShellBackend`] whose every command has namespaces, a process tree and private directories of its
//! own. Deliberately not here: how a namespace is built (`sys::native`), what a view allows (`plan`), and any fallback.

mod awake;
mod begin;
mod call;
mod denied;
mod engine;
mod entries;
mod failure;
mod graveyard;
pub(crate) mod helper;
mod lane;
mod layer;
mod member;
pub(crate) mod notes;
mod order;
mod outlet;
mod pool;
mod reactor;
mod records;
mod reopen;
pub(crate) mod setup;
mod socket;
mod stock;
mod turn;
pub(crate) mod wire;
mod zygote;

use std::sync::{Arc, Mutex, PoisonError};

use helve_core::{
    Attach, BoxFuture, Cancel, Ended, Explain, Layer, Network, OutputSink, ProcessLimits, SandboxReport,
    ShellBackend, ShellJob, ToolError, View, Work,
};

use crate::plan::rules::{self, Rules};
use crate::spawn;
use call::Call;
use engine::Engine;
use order::Order;

pub use helper::{HelperAhead, helper_ahead, run_helper_if_asked, use_helper};
pub use pool::PoolSize;

/// Runs commands in Helve's own sandbox.
pub(crate) struct Native {
    view: View,
    rules: Arc<Rules>,
    limits: ProcessLimits,
    pool: PoolSize,
    /// Whether its members see what is refused.
    seen: bool,
    /// Started at the first call.
    engine: Mutex<Option<Arc<Engine>>>,
    /// Engines whose commands run over a layer.
    layered: layer::Engines,
}

impl Native {
    /// Starts nothing. A view with a rule that the sandbox could not keep is refused here.
    pub(crate) fn new(view: View, limits: ProcessLimits, pool: PoolSize) -> Result<Native, ToolError> {
        let rules = Arc::new(rules::resolve(&view)?);
        // What a command does is followed from its first file on: a shell that stands ready has read some already.
        let pool = if view.explain == Explain::Full { PoolSize::NONE } else { pool };
        let (engine, layered) = (Mutex::new(None), layer::Engines::default());
        Ok(Native { view, rules, limits, pool, seen: true, engine, layered })
    }

    /// The same, in which nobody sees what is refused.
    pub(crate) fn unseen(mut self) -> Native {
        self.seen = false;
        self
    }

    fn engine(&self) -> Result<Arc<Engine>, ToolError> {
        let mut slot = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*slot {
            return Ok(Arc::clone(engine));
        }
        let rules = Arc::clone(&self.rules);
        let engine = Engine::new(self.view.clone(), rules, self.limits, self.pool, None, self.seen);
        let engine = engine.map_err(spawn::no_process)?;
        *slot = Some(Arc::clone(&engine));
        Ok(engine)
    }

    /// The layers of a call; `fenced` says whether control groups are among them.
    fn layers(&self, fenced: bool) -> SandboxReport {
        let mut layers = vec!["userns", "mountns", "pidns", "ipcns", "utsns", "cgroupns"];
        if self.view.network == Network::Off {
            layers.push("netns");
        }
        layers.extend(["no_new_privs", "caps", "landlock", "seccomp", "rlimits"]);
        layers.push(if fenced { "cgroup" } else { "supervised" });
        let layers = layers.into_iter().map(str::to_owned).collect();
        SandboxReport { backend: "native".to_owned(), layers }
    }

    async fn run_job(
        &self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> Result<Ended, ToolError> {
        let engine = self.engine()?;
        let call = self.job(job, sink)?;
        call::run(&engine, call, &cancel, |fenced| self.layers(fenced)).await
    }

    /// A job as a call.
    fn job(&self, job: ShellJob, sink: Box<dyn OutputSink>) -> Result<Call, ToolError> {
        let (program, is_shell) = match &job.work {
            Work::Shell(_) => (self.view.shell.display().to_string(), true),
            Work::Program(words) => (words.first().cloned().unwrap_or_default(), false),
        };
        let order = Order::of_job(&self.view, &job)?;
        Ok(Call { order, timeout: Some(job.timeout), sink: Some(sink), signals: None, program, is_shell })
    }

    async fn run_attached(&self, attach: Attach, cancel: Cancel) -> Result<Ended, ToolError> {
        let engine = self.engine()?;
        let call = self.attached(attach)?;
        call::run(&engine, call, &cancel, |fenced| self.layers(fenced)).await
    }

    /// A program on its caller's own streams as a call.
    fn attached(&self, attach: Attach) -> Result<Call, ToolError> {
        let program = attach.words.first().map(|word| word.to_string_lossy().into_owned());
        let timeout = attach.timeout;
        attach.streams.iter().for_each(reopen::allow);
        if attach.terminal {
            attach.streams.first().into_iter().for_each(reopen::give);
        }
        let (order, signals) = Order::of_attached(&self.view, attach)?;
        let program = program.unwrap_or_default();
        Ok(Call { order, timeout, sink: None, signals: Some(signals), program, is_shell: false })
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let engine = self.engine.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.take() {
            engine.close();
        }
    }
}

impl ShellBackend for Native {
    fn report(&self) -> SandboxReport {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let fenced = engine.as_ref().is_some_and(|engine| engine.is_fenced());
        self.layers(fenced)
    }

    fn contains(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), ToolError> {
        helper::is_there()
    }

    fn prepare(&self) {
        if let Ok(engine) = self.engine() {
            engine.prepare();
        }
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(self.run_job(job, sink, cancel))
    }

    fn attach<'a>(&'a self, program: Attach, cancel: Cancel) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(self.run_attached(program, cancel))
    }

    fn prepare_layer(&self, bytes: u64) {
        self.make_layer_ready(bytes);
    }

    fn run_layered<'a>(
        &'a self,
        job: ShellJob,
        bytes: u64,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        Box::pin(async move { self.over_layer(self.job(job, sink)?, bytes, &cancel).await })
    }

    fn attach_layered<'a>(
        &'a self,
        program: Attach,
        bytes: u64,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        Box::pin(async move { self.over_layer(self.attached(program)?, bytes, &cancel).await })
    }
}
