//! The choice `auto`: the best of Helve's own sandboxes that this machine gives, and never anything else.
//!
//! In: a view. Out: a backend that asks the probe at its first use, or remembers its answer, and then *is* that rung:
//! results name it and its layers. A lesser rung than the best is asked for anew after some minutes, and taken only where
//! what the better one lacks lasts: a machine that is short of something fails one call. Where no rung holds, every call is refused with what each lacks and what mends it.
//! Deliberately not here: bwrap, wrapper and bare runs, which only the owner can choose.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use helve_core::{
    Attach, BoxFuture, Cancel, Ended, ErrorKind, Layer, OutputSink, ProcessLimits, SandboxReport,
    ShellBackend, ShellJob, ToolError, View,
};

use crate::probe::answer::{LESSER, Memory, Rung};
use crate::probe::passing::passes;
use crate::probe::{self, Climbed, SandboxFinding};

/// The ladder, bound to a view.
pub(crate) struct Ladder(Arc<Steps>);

struct Steps {
    view: View,
    limits: ProcessLimits,
    /// Where the probe's answer is kept over processes.
    remember_in: Option<PathBuf>,
    /// How the best rung is looked for.
    climb: Climb,
    /// The best rung as it was made to see whether it could keep the view, until it is taken.
    best: Mutex<Option<Arc<dyn ShellBackend>>>,
    /// The rung in use. Only success stays, so that a call works again when its cause is gone.
    taken: Mutex<Option<Taken>>,
}

type Climb = Box<dyn Fn() -> Result<Climbed, ToolError> + Send + Sync>;

/// A rung in use.
struct Taken {
    rung: Rung,
    backend: Arc<dyn ShellBackend>,
    since: Instant,
    /// What better ones lack, where that was looked for.
    better: Vec<SandboxFinding>,
}

impl Taken {
    /// Whether it need not be asked for anew.
    fn is_fresh(&self) -> bool {
        self.rung == Rung::ALL[0] || self.since.elapsed() < LESSER
    }
}

impl Ladder {
    /// Starts no process. A view that the best rung could not keep is refused here.
    pub(crate) fn new(
        view: View,
        limits: ProcessLimits,
        remember_in: Option<PathBuf>,
    ) -> Result<Ladder, ToolError> {
        let best = Mutex::new(Some(crate::backend(&probe::choice(Rung::ALL[0]), view.clone(), limits)?));
        let climb = Box::new(probe::climb);
        Ok(Ladder(Arc::new(Steps { view, limits, remember_in, climb, best, taken: Mutex::new(None) })))
    }
}

impl Steps {
    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None while another thread looks for the rung.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Taken>>> {
        match self.taken.try_lock() {
            Ok(taken) => Some(taken),
            Err(TryLockError::Poisoned(taken)) => Some(taken.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn memory(&self) -> Option<Memory> {
        self.remember_in.as_deref().and_then(Memory::of)
    }

    fn step_on(&self, rung: Rung) -> Result<Taken, ToolError> {
        let made = || self.best.lock().unwrap_or_else(PoisonError::into_inner).take();
        let backend = match (rung == Rung::ALL[0]).then(made).flatten() {
            Some(backend) => backend,
            None => crate::backend(&probe::choice(rung), self.view.clone(), self.limits)?,
        };
        Ok(Taken { rung, backend, since: Instant::now(), better: Vec::new() })
    }

    /// The rung in use, or the one that is remembered. Starts no process and waits for none: none while it is looked for.
    fn in_use(&self, counts: fn(&Taken) -> bool) -> Option<Arc<dyn ShellBackend>> {
        let mut taken = self.try_lock()?;
        if taken.is_none() {
            let rung = self.memory().as_ref().and_then(Memory::recall)?;
            *taken = Some(self.step_on(rung).ok()?);
        }
        taken.as_ref().filter(|taken| counts(taken)).map(|taken| Arc::clone(&taken.backend))
    }

    /// The rung that a call can take without looking for one.
    fn known(&self) -> Option<Arc<dyn ShellBackend>> {
        self.in_use(Taken::is_fresh)
    }

    /// The rung in use; where none is known it is looked for, which takes a while.
    fn take(&self) -> Result<Arc<dyn ShellBackend>, ToolError> {
        if let Some(backend) = self.known() {
            return Ok(backend);
        }
        // The lock is held meanwhile: calls that start together wait for one answer.
        let mut taken = self.lock();
        if let Some(taken) = taken.as_ref().filter(|taken| taken.is_fresh()) {
            return Ok(Arc::clone(&taken.backend));
        }
        let (rung, better) = match (self.climb)()? {
            Climbed::Holds(rung, better) => (rung, better),
            Climbed::Unclear(found) => return Err(not_now(&found)),
            Climbed::Nothing(refused) => return Err(none_holds(&refused)),
        };
        if let Some(memory) = self.memory() {
            memory.keep(rung);
        }
        let same = taken.take().filter(|taken| taken.rung == rung);
        let next = match same {
            Some(same) => Taken { since: Instant::now(), better, ..same },
            None => match self.step_on(rung) {
                Ok(taken) => Taken { better, ..taken },
                Err(error) => return Err(and_better(error, &better)),
            },
        };
        Ok(Arc::clone(&taken.insert(next).backend))
    }

    /// A rung that cannot be had after all is asked for anew at the next call. One that only could not be had now stays.
    fn watch(&self, ended: Result<Ended, ToolError>) -> Result<Ended, ToolError> {
        let lasts = |error: &ToolError| error.kind == ErrorKind::SandboxUnavailable && !passes(error);
        if ended.as_ref().is_err_and(lasts) {
            // Where it is looked for already, nothing is to be forgotten; and an event loop must not wait for that.
            if let Some(mut taken) = self.try_lock() {
                let better = taken.take().map(|taken| taken.better).unwrap_or_default();
                if let Some(memory) = self.memory() {
                    memory.forget();
                }
                return ended.map_err(|error| and_better(error, &better));
            }
        }
        ended
    }
}

impl Ladder {
    /// The rung in use, without holding up the event loop while it is looked for.
    async fn rung(&self) -> Result<Arc<dyn ShellBackend>, ToolError> {
        if let Some(backend) = self.0.known() {
            return Ok(backend);
        }
        let steps = Arc::clone(&self.0);
        let taken = tokio::task::spawn_blocking(move || steps.take()).await;
        taken.unwrap_or_else(|_| Err(ToolError::internal("Choosing a sandbox crashed.")))
    }
}

impl ShellBackend for Ladder {
    /// Of the rung, once that is known; before, nothing can be promised.
    fn report(&self) -> SandboxReport {
        let unknown = || SandboxReport { backend: "auto".to_owned(), layers: Vec::new() };
        self.0.in_use(|_| true).map_or_else(unknown, |rung| rung.report())
    }

    /// Only a rung that holds is taken.
    fn contains(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.0.take().and_then(|rung| rung.ready())
    }

    /// Only where the rung is known: to look for it takes a while.
    fn prepare(&self) {
        if let Some(rung) = self.0.known() {
            rung.prepare();
        }
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move { self.0.watch(self.rung().await?.run(job, sink, cancel).await) })
    }

    fn attach<'a>(&'a self, program: Attach, cancel: Cancel) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move { self.0.watch(self.rung().await?.attach(program, cancel).await) })
    }

    fn prepare_layer(&self, bytes: u64) {
        if let Some(rung) = self.0.known() {
            rung.prepare_layer(bytes);
        }
    }

    fn run_layered<'a>(
        &'a self,
        job: ShellJob,
        bytes: u64,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        Box::pin(async move { self.rung().await?.run_layered(job, bytes, sink, cancel).await })
    }

    fn attach_layered<'a>(
        &'a self,
        program: Attach,
        bytes: u64,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        Box::pin(async move { self.rung().await?.attach_layered(program, bytes, cancel).await })
    }
}

/// A refusal of a lesser rung, with what the better ones lack: to mend that is better than to follow the lesser one.
fn and_better(mut error: ToolError, better: &[SandboxFinding]) -> ToolError {
    for finding in better.iter().rev() {
        let Some(lack) = &finding.lack else { continue };
        error.message.push_str(&format!(" The better sandbox {} was not taken: {}", finding.name, lack.why));
        let rest = error.hint.map(|hint| format!("\nOr else: {hint}")).unwrap_or_default();
        error.hint = Some(format!("{}{rest}", lack.mend));
    }
    error
}

/// It cannot be told now whether a rung holds.
fn not_now(found: &SandboxFinding) -> ToolError {
    let why = found.lack.as_ref().map_or("", |lack| &lack.why);
    let name = found.name;
    let message =
        format!("The sandbox {name} could not be tried now, and no lesser one is taken for that. {why}");
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint(probe::SHORT)
}

/// What each rung lacks.
fn none_holds(refused: &[SandboxFinding]) -> ToolError {
    let mut message = "None of Helve's own sandboxes can be had on this machine.".to_owned();
    let mut mend = Vec::new();
    for finding in refused {
        let Some(lack) = &finding.lack else { continue };
        message.push_str(&format!(" {}: {}", finding.name, lack.why));
        if !mend.contains(&lack.mend) {
            mend.push(lack.mend.clone());
        }
    }
    let mend = mend.join("\n");
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint(format!(
        "{mend}\n`helve doctor` shows every layer. Where this cannot be mended, the owner may choose sandbox = \"bwrap\"."
    ))
}

#[cfg(test)]
mod tests;
