//! One call, the same way for every sandbox: make the order, run it under its deadline, say what the ending means.
//!
//! In: what one [`Sandbox`] has of its own. Out: a [`ShellBackend`]. Deliberately not here: anything that only one of
//! them does.

use helve_core::{
    BoxFuture, Cancel, Ended, Exit, OutputSink, SandboxReport, ShellBackend, ShellJob, ToolError,
};

use crate::drain::{self, Drained, Order};
use crate::spawn::{self, Outcome};

/// What one sandbox has of its own.
pub(crate) trait Sandbox: Send + Sync {
    /// Its name in results.
    const NAME: &'static str;

    /// The layers that it promises. None where it cannot verify any.
    fn layers(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether what runs in it is kept from the rest of the machine.
    fn contains(&self) -> bool {
        false
    }

    /// What to start.
    fn order(&self, job: &ShellJob) -> Result<Order, ToolError>;

    /// What an ending by itself means.
    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError>;
}

/// A sandbox that takes calls.
pub(crate) struct Backend<S>(pub(crate) S);

impl<S: Sandbox> ShellBackend for Backend<S> {
    fn report(&self) -> SandboxReport {
        let layers = self.0.layers().into_iter().map(str::to_owned).collect();
        SandboxReport { backend: S::NAME.to_owned(), layers }
    }

    fn contains(&self) -> bool {
        self.0.contains()
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            let mut order = self.0.order(&job)?;
            if !job.stdin.is_empty() {
                order.stdin = Some(drain::memory_file("stdin", &job.stdin).map_err(spawn::no_process)?);
            }
            let exit = match spawn::run(order, job.timeout, sink, &cancel).await? {
                Outcome::TimedOut => Exit::TimedOut,
                Outcome::Cancelled => Exit::Cancelled,
                Outcome::Ended(drained) => self.0.exit(&drained)?,
            };
            Ok(Ended::plain(exit, self.report()))
        })
    }
}
