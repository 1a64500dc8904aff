//! One call, the same way for every sandbox: make the order, run it under its deadline, say what the ending means.
//!
//! In: what one [`Sandbox`] has of its own. Out: a [`ShellBackend`]. Deliberately not here: anything that only one of
//! them does.

use std::ffi::OsString;
use std::time::Duration;

use helve_core::{
    Attach, BoxFuture, Cancel, Ended, ErrorKind, Exit, LimitHit, OutputSink, SandboxReport, ShellBackend,
    ShellJob, Stream, ToolError,
};

use crate::drain::{self, Drained, Given, Order};
use crate::native::wire::Bound;
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

    /// Whether what it needs is installed.
    fn ready(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// What to start.
    fn order(&self, job: &ShellJob) -> Result<Order, ToolError>;

    /// What to start for a program on its caller's own streams.
    fn order_attached(&self, _program: &Attached<'_>) -> Result<Order, ToolError> {
        let message = format!("The sandbox {} runs no program on its caller's own streams.", Self::NAME);
        Err(ToolError::new(ErrorKind::SandboxUnavailable, message).hint("Choose another sandbox."))
    }

    /// What an ending by itself means.
    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError>;

    /// The same for a program on its caller's own streams.
    fn exit_attached(&self, drained: &Drained, _program: &Attached<'_>) -> Result<Exit, ToolError> {
        self.exit(drained)
    }

    /// The bound that such an ending shows. None where it sets none.
    fn limit(&self, _bound: Option<Bound>, _exit: Exit) -> Option<LimitHit> {
        None
    }
}

/// A program on its caller's own streams, without them.
pub(crate) struct Attached<'a> {
    /// The program and its arguments.
    pub(crate) words: &'a [OsString],
    /// Where it starts.
    pub(crate) working_dir: Option<&'a str>,
    /// Whether it gets a controlling terminal.
    pub(crate) terminal: bool,
}

/// Longer than any machine runs.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// For streams that are not Helve's to read.
struct NoSink;

impl OutputSink for NoSink {
    fn chunk(&mut self, _stream: Stream, _bytes: &[u8]) {}
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

    fn ready(&self) -> Result<(), ToolError> {
        self.0.ready()
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
                let stdin = drain::memory_file("stdin", &job.stdin).map_err(spawn::no_process)?;
                order.streams = Given::Input(stdin);
            }
            let (outcome, removed) = spawn::run(order, job.timeout, sink, None, &cancel).await?;
            let (exit, bound, left_running) = match outcome {
                Outcome::TimedOut => (Exit::TimedOut, None, 0),
                Outcome::Cancelled => (Exit::Cancelled, None, 0),
                Outcome::Ended(drained) => (self.0.exit(&drained)?, drained.bound, drained.left_running),
            };
            let limit = self.0.limit(bound, exit);
            Ok(Ended { exit, limit, left_running, removed, denied: Vec::new(), sandbox: self.report() })
        })
    }

    fn attach<'a>(&'a self, program: Attach, cancel: Cancel) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            let Attach { words, working_dir, streams, terminal, timeout, signals } = program;
            let attached = Attached { words: &words, working_dir: working_dir.as_deref(), terminal };
            let mut order = self.0.order_attached(&attached)?;
            order.streams = Given::All { streams, terminal };
            let timeout = timeout.unwrap_or(FOR_EVER);
            let run = spawn::run(order, timeout, Box::new(NoSink), Some(signals), &cancel);
            let (outcome, removed) = run.await?;
            let (exit, bound, left_running) = match outcome {
                Outcome::TimedOut => (Exit::TimedOut, None, 0),
                Outcome::Cancelled => (Exit::Cancelled, None, 0),
                Outcome::Ended(drained) => {
                    (self.0.exit_attached(&drained, &attached)?, drained.bound, drained.left_running)
                }
            };
            let limit = self.0.limit(bound, exit);
            Ok(Ended { exit, limit, left_running, removed, denied: Vec::new(), sandbox: self.report() })
        })
    }
}
