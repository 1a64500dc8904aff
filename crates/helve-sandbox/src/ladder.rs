//! The choice `auto`: the best of Helve's own sandboxes that this machine gives, and never anything else.
//!
//! In: a view. Out: a backend that asks the probe at its first use, or remembers its answer, and then *is* that rung:
//! results name it and its layers. Where no rung holds, every call is refused with what each lacks and what mends it.
//! Deliberately not here: bwrap, wrapper and bare runs, which only the owner can choose.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use helve_core::{
    Attach, BoxFuture, Cancel, Ended, ErrorKind, OutputSink, ProcessLimits, SandboxReport, ShellBackend,
    ShellJob, ToolError, View,
};

use crate::probe::answer::{Memory, Rung};
use crate::probe::{self, SandboxFinding};

/// The ladder, bound to a view.
pub(crate) struct Ladder(Arc<Steps>);

struct Steps {
    view: View,
    limits: ProcessLimits,
    /// Where the probe's answer is kept over processes.
    remember_in: Option<PathBuf>,
    /// The rung in use. Only success stays, so that a call works again when its cause is gone.
    taken: Mutex<Option<Arc<dyn ShellBackend>>>,
}

impl Ladder {
    /// Starts no process. A view that the best rung could not keep is refused here.
    pub(crate) fn new(
        view: View,
        limits: ProcessLimits,
        remember_in: Option<PathBuf>,
    ) -> Result<Ladder, ToolError> {
        crate::backend(&probe::choice(Rung::Native), view.clone(), limits)?;
        Ok(Ladder(Arc::new(Steps { view, limits, remember_in, taken: Mutex::new(None) })))
    }
}

impl Steps {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn ShellBackend>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> Option<Memory> {
        self.remember_in.as_deref().and_then(Memory::of)
    }

    fn step_on(&self, rung: Rung) -> Result<Arc<dyn ShellBackend>, ToolError> {
        crate::backend(&probe::choice(rung), self.view.clone(), self.limits)
    }

    /// The rung in use, or the one that is remembered. Starts no process and waits for none: none while it is looked for.
    fn known(&self) -> Option<Arc<dyn ShellBackend>> {
        let mut taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if taken.is_none() {
            let rung = self.memory().as_ref().and_then(Memory::recall)?;
            *taken = Some(self.step_on(rung).ok()?);
        }
        taken.clone()
    }

    /// The rung in use; where none is known it is looked for, which takes a while.
    fn take(&self) -> Result<Arc<dyn ShellBackend>, ToolError> {
        if let Some(backend) = self.known() {
            return Ok(backend);
        }
        // The lock is held meanwhile: calls that start together wait for one answer.
        let mut taken = self.lock();
        if let Some(backend) = &*taken {
            return Ok(Arc::clone(backend));
        }
        let rung = probe::climb()?.map_err(|refused| none_holds(&refused))?;
        if let Some(memory) = self.memory() {
            memory.keep(rung);
        }
        Ok(Arc::clone(taken.insert(self.step_on(rung)?)))
    }

    /// A rung that cannot be had after all is asked for anew at the next call.
    fn watch(&self, ended: Result<Ended, ToolError>) -> Result<Ended, ToolError> {
        if ended.as_ref().is_err_and(|error| error.kind == ErrorKind::SandboxUnavailable) {
            *self.lock() = None;
            if let Some(memory) = self.memory() {
                memory.forget();
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
        self.0.known().map_or_else(unknown, |rung| rung.report())
    }

    /// Only a rung that holds is taken.
    fn contains(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.0.take().and_then(|rung| rung.ready())
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
mod tests {
    use helve_core::ErrorKind;

    use super::*;
    use crate::probe::Lack;

    #[test]
    fn a_refusal_names_what_each_rung_lacks_and_what_mends_it() {
        let finding = |name, why: &str, mend: &str| SandboxFinding {
            name,
            layers: Vec::new(),
            acts: Vec::new(),
            lack: Some(Lack { why: why.to_owned(), mend: mend.to_owned() }),
        };
        let error = none_holds(&[
            finding("native", "No namespaces.", "do a"),
            finding("landlock", "Too old.", "do b"),
        ]);
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
        assert!(error.message.ends_with("native: No namespaces. landlock: Too old."), "{error:?}");
        let hint = error.hint.unwrap();
        assert!(hint.starts_with("do a\ndo b\n") && hint.contains("helve doctor"), "{hint}");
    }
}
