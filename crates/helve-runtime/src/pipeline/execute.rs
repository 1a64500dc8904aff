//! Execute: a permit in, raw output out. Builds the handles that the permit's lane carries and runs the tool under its
//! deadline, so that a panic, a hang or a cancellation of one call touches no other.

mod explain;
mod remote;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Poller, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helve_core::context::{Parts, assemble};
use helve_core::files::{SeenFiles, UndoSink};
use helve_core::{
    BoxFuture, CallId, Cancel, CancelHandle, CommandUse, Context, ErrorKind, Files, FilesScope, Lane, Output,
    Peer, Progress, Removed, SentCall, ServerCall, Servers, SharedReport, Shell, ShellBackend, ShellJob,
    ShellOutput, ShellRequest, TakenOut, ToolError, ToolOrigin, ToolSpec, Work,
};
use helve_policy::ExecMode;
use helve_store::Blobs;

use super::authorize::{OwnAct, Permit};
use super::govern::Governor;
use super::govern::drain::{self, Drain, SharedDrain};
use crate::files::{CallUndo, FileChanged, OfCall, Over};
use crate::lanes::Lanes;
use crate::off_async;
use crate::side::Side;
use remote::{GovernedPeer, OneTool};

/// How long a cancelled tool may take to end by itself and give what it has.
const GRACE: Duration = Duration::from_secs(2);
/// So much of one note of a tool is passed on.
const MAX_NOTE_CHARS: usize = 2_000;
/// A shell tool keeps its own deadline; this is for a sandbox that does not answer.
const SHELL_SLACK: Duration = Duration::from_secs(30);

/// What a handle has to say to the reader of the result.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Told>>);

/// What was said.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) notes: Vec<String>,
    /// The sandbox that the last command, or the server that answered, really ran in.
    pub(crate) sandbox: Option<SharedReport>,
    /// What changed in files.
    pub(crate) changed: Vec<FileChanged>,
    /// What took the changes into the store.
    undo: Option<Arc<CallUndo>>,
}

impl Notes {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, note: String) {
        self.told().notes.push(note);
    }

    pub(crate) fn ran_in(&self, sandbox: SharedReport) {
        self.told().sandbox = Some(sandbox);
    }

    /// The call took another one back, if there was anything to change for that or not.
    fn took_back(&self) {
        if let Some(undo) = &self.told().undo {
            undo.record_all_the_same();
        }
    }

    pub(crate) fn take(&self) -> Told {
        let mut told = std::mem::take(&mut *self.told());
        if let Some(undo) = told.undo.take() {
            told.changed = undo.changed();
            told.notes.extend(undo.notes());
        }
        told
    }
}

/// What execute needs beside the permit.
pub(crate) struct Executor {
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) governor: Arc<Governor>,
    /// The handle on outputs of earlier calls, which all calls share.
    pub(crate) outputs: Arc<dyn helve_core::Blobs>,
}

impl Executor {
    /// The stage.
    pub(crate) async fn execute(
        &self,
        call: &CallId,
        side: &Side,
        permit: Box<Permit>,
        notes: &Notes,
    ) -> Result<Output, ToolError> {
        if side.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let entry = Arc::clone(permit.entry());
        let spec = entry.spec();
        if spec.lane == Lane::Files {
            for note in Box::pin(self.lanes.cut_calls()).await? {
                notes.add(note);
            }
        }
        let (give_up, own) = Cancel::pair();
        let cancel = side.cancel.clone().or(&own);
        let ctx = self.context(call, side, &cancel, &permit, notes)?;
        let deadline = self.deadline(spec);
        let takes_back = matches!(permit.own(), Some(OwnAct::Undo { is_undone: false, .. }));
        let args = permit.enter();
        let start = std::panic::catch_unwind(AssertUnwindSafe(|| entry.tool.run(args, &ctx)));
        let mut work = Unwinding(start.map_err(|_panic| panicked(&spec.name))?);
        // Most tools are done at the first look: no timer is set and nobody listens for a cancellation then.
        let first = std::future::poll_fn(|poller| Poll::Ready(Pin::new(&mut work).poll(poller))).await;
        let done = match first {
            Poll::Ready(done) => done.unwrap_or_else(|| Err(panicked(&spec.name))),
            Poll::Pending => Box::pin(within(spec, deadline, work, &side.cancel, give_up)).await,
        };
        if takes_back && done.is_ok() {
            notes.took_back();
        }
        done
    }

    /// The stage, for a tool that is done at once.
    pub(crate) fn execute_now(&self, side: &Side, permit: Box<Permit>) -> Result<Output, ToolError> {
        if side.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let entry = Arc::clone(permit.entry());
        let Some(instant) = entry.tool.instant() else {
            return Err(ToolError::internal("The tool is not done at once."));
        };
        let args = permit.enter();
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| instant.now(args)));
        done.unwrap_or_else(|_panic| Err(panicked(&entry.spec().name)))
    }

    /// The first half of the stage, for a tool that hands its arguments to a server: they are on their way, and nobody waits.
    pub(crate) fn send(
        &self,
        call: &CallId,
        side: &Side,
        peer: Option<Arc<dyn Peer>>,
        permit: Box<Permit>,
    ) -> Result<Box<dyn SentCall>, ToolError> {
        if side.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let entry = Arc::clone(permit.entry());
        let (Some(origin), Some(servers)) = (entry.spec().origin.clone(), self.lanes.servers()) else {
            return Err(ToolError::internal("The tool names no server, or there are none."));
        };
        let ToolOrigin { server, tool, act } = origin;
        let (args, cancel) = (permit.enter(), side.cancel.clone());
        let call = ServerCall { server, act, tool, args, progress: self.progress(call, side), cancel, peer };
        std::panic::catch_unwind(AssertUnwindSafe(|| servers.send(call)))
            .map_err(|_panic| panicked(&entry.spec().name))
    }

    /// The other end as tools see it.
    pub(crate) fn governed(&self, peer: &Arc<dyn Peer>) -> Arc<dyn Peer> {
        let (peer, governor) = (Arc::clone(peer), Arc::clone(&self.governor));
        Arc::new(GovernedPeer { peer, governor })
    }

    /// Where a tool's progress goes, without secrets.
    fn progress(&self, call: &CallId, side: &Side) -> Progress {
        let progress = Progress::new(call.clone(), side.progress.clone());
        if side.progress.is_none() {
            return progress;
        }
        let governor = Arc::clone(&self.governor);
        progress.cleaned_by(Arc::new(move |text| governor.clean_short(text, MAX_NOTE_CHARS)))
    }

    /// How long a tool may take.
    pub(crate) fn deadline(&self, spec: &ToolSpec) -> Duration {
        let limits = &self.governor.limits;
        match (spec.timeout, spec.lane) {
            (Some(own), _) => own,
            (None, Lane::Sandbox) => Duration::from_secs(limits.exec_timeout_max) + SHELL_SLACK,
            (None, _) => Duration::from_secs(limits.tool_timeout),
        }
    }

    fn context(
        &self,
        call: &CallId,
        side: &Side,
        cancel: &Cancel,
        permit: &Permit,
        notes: &Notes,
    ) -> Result<Context, ToolError> {
        let spec = permit.entry().spec();
        let progress = Progress::new(call.clone(), side.progress.clone());
        let shell: Option<Box<dyn Shell>> = match spec.lane {
            Lane::Sandbox => Some(Box::new(GovernedShell {
                backend: self.lanes.shell()?,
                blobs: self.lanes.blobs()?,
                lanes: Arc::clone(&self.lanes),
                governor: Arc::clone(&self.governor),
                cancel: cancel.clone(),
                live: Some(&progress).filter(|progress| side.live && progress.is_heard()).cloned(),
                permitted: permit.access().commands.clone(),
                notes: notes.clone(),
                over: self.over(call, permit, notes)?,
            })),
            _ => None,
        };
        Ok(assemble(Parts {
            call: call.clone(),
            caller: side.caller.name().to_owned(),
            limits: Arc::clone(&self.governor.limits),
            shell,
            files: if spec.lane == Lane::Files {
                Some(self.files(call, cancel, permit, notes)?)
            } else {
                None
            },
            net: matches!(spec.lane, Lane::Files | Lane::Wasm | Lane::Mcp)
                .then(|| self.lanes.net())
                .flatten(),
            blobs: Some(Arc::clone(&self.outputs)),
            servers: self.servers(spec, cancel, notes),
            peer: side.peer.as_ref().map(|peer| self.governed(peer)),
            progress: self.progress(call, side),
            cancel: cancel.clone(),
        }))
    }

    /// The one tool of a server that a tool of the lane `mcp` stands for.
    fn servers(&self, spec: &ToolSpec, cancel: &Cancel, notes: &Notes) -> Option<Arc<dyn Servers>> {
        let origin = spec.origin.clone().filter(|_| spec.lane == Lane::Mcp)?;
        let servers = self.lanes.servers()?;
        Some(Arc::new(OneTool { servers, origin, cancel: cancel.clone(), notes: notes.clone() }))
    }

    /// The call's own handle on the files.
    fn files(
        &self,
        call: &CallId,
        cancel: &Cancel,
        permit: &Permit,
        notes: &Notes,
    ) -> Result<Arc<dyn Files>, ToolError> {
        let (lanes, spec) = (&self.lanes, permit.entry().spec());
        let bridge = lanes.files()?;
        let undo = if spec.read_only { None } else { Some(Arc::new(self.call_undo(call, permit)?)) };
        notes.told().undo.clone_from(&undo);
        // What the owner does by hand no session has seen.
        let seen = match permit.own() {
            Some(_) => None,
            None => Some(lanes.seen()? as Arc<dyn SeenFiles>),
        };
        Ok(bridge.scoped(FilesScope {
            agreed: permit.agreed().to_vec(),
            left_out: if permit.own().is_some() { Vec::new() } else { lanes.left_out(&spec.name) },
            undo: undo.map(|undo| undo as Arc<dyn UndoSink>),
            seen,
            cancel: cancel.clone(),
            whole: permit.own().is_some(),
        }))
    }

    /// What a command needs that runs over a layer.
    fn over(&self, call: &CallId, permit: &Permit, notes: &Notes) -> Result<Option<Over>, ToolError> {
        let mode = self.lanes.policy.exec_mode();
        if mode == ExecMode::Direct {
            return Ok(None);
        }
        let of = self.of_call(call, permit);
        let undo = Arc::new(self.call_undo(call, permit)?);
        notes.told().undo = Some(Arc::clone(&undo));
        Over::new(&self.lanes, mode, of, undo).map(Some)
    }

    /// What takes the call's changes into the store.
    fn call_undo(&self, call: &CallId, permit: &Permit) -> Result<CallUndo, ToolError> {
        let (lanes, limits) = (&self.lanes, &self.governor.limits);
        let store = match limits.undo_store_bytes.min(limits.undo_bytes) {
            0 => None,
            _ => Some(lanes.undo()?),
        };
        let of = self.of_call(call, permit);
        Ok(CallUndo::new(of, store, limits.undo_bytes, lanes.policy.fsync()))
    }

    /// Which call it is, for records.
    fn of_call(&self, call: &CallId, permit: &Permit) -> OfCall {
        let lanes = &self.lanes;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (undoes, commits, layered) = match permit.own() {
            Some(OwnAct::Undo { call, layered, .. }) => (Some(call.clone()), None, *layered),
            Some(OwnAct::Commit { call }) => (None, Some(call.clone()), true),
            Some(OwnAct::Discard { .. }) => (None, None, false),
            None => (None, None, permit.entry().spec().lane == Lane::Sandbox),
        };
        OfCall {
            call: call.to_string(),
            tool: permit.entry().spec().name.clone(),
            session: lanes.session.clone(),
            workspace: lanes.workspace_name(),
            at_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
            undoes,
            commits,
            layered,
        }
    }
}

/// Waits for work that goes on, to its deadline.
async fn within(
    spec: &ToolSpec,
    deadline: Duration,
    mut work: Unwinding<'_, Result<Output, ToolError>>,
    cancel: &Cancel,
    give_up: CancelHandle,
) -> Result<Output, ToolError> {
    tokio::select! {
        biased;
        done = &mut work => return done.unwrap_or_else(|| Err(panicked(&spec.name))),
        () = tokio::time::sleep(deadline) => {}
        () = given_up(cancel) => return Err(cancelled()),
    }
    // What works on in another thread is told too. What it had changed by then it says.
    give_up.cancel();
    if spec.lane == Lane::Files
        && let Ok(Some(Ok(output))) = tokio::time::timeout(GRACE, work).await
    {
        return Ok(output);
    }
    Err(timed_out(&spec.name, deadline))
}

async fn given_up(cancel: &Cancel) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

pub(super) fn panicked(tool: &str) -> ToolError {
    ToolError::internal(format!("Tool '{tool}' crashed. Other calls are not affected."))
        .hint("This is a fault in the tool, not in the arguments; try another way.")
}

pub(super) fn timed_out(tool: &str, deadline: Duration) -> ToolError {
    ToolError::new(
        ErrorKind::Timeout,
        format!("Tool '{tool}' timed out after {} seconds", deadline.as_secs()),
    )
    .hint("Ask for less in one call.")
}

pub(super) fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "The call was cancelled.")
}

/// A future that gives none instead of panicking.
struct Unwinding<'a, T>(BoxFuture<'a, T>);

impl<T> Future for Unwinding<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Option<T>> {
        match std::panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(poller))) {
            Ok(poll) => poll.map(Some),
            Err(_panic) => Poll::Ready(None),
        }
    }
}

/// The shell that a tool sees: what comes out of it is already governed.
struct GovernedShell {
    backend: Arc<dyn ShellBackend>,
    blobs: Arc<Blobs>,
    lanes: Arc<Lanes>,
    governor: Arc<Governor>,
    cancel: Cancel,
    /// Who wants the output while it streams.
    live: Option<Progress>,
    /// What the guard has seen; nothing else is run.
    permitted: Vec<CommandUse>,
    notes: Notes,
    /// Where what it changes in the workspace goes to a layer first.
    over: Option<Over>,
}

impl GovernedShell {
    fn permits(&self, request: &ShellRequest) -> Result<(), ToolError> {
        let asked =
            |seen: &CommandUse| seen.command == request.command && seen.working_dir == request.working_dir;
        if self.permitted.iter().any(asked) {
            return Ok(());
        }
        Err(ToolError::new(
            ErrorKind::Blocked,
            "The tool tried to run another command than the one it was permitted.",
        )
        .hint("This is a fault in the tool: access() must name each command as it is run."))
    }
}

impl GovernedShell {
    /// Keeps what was taken away from protected places of the workspace.
    fn keep(&self, removed: Vec<Removed>) -> Vec<TakenOut> {
        let keep = |content: &[u8]| {
            let kept = off_async(|| drain::keep(self.governor.secrets.as_ref(), &self.blobs, content));
            match kept {
                Ok(blob) => {
                    self.lanes.blob_kept();
                    Some(blob)
                }
                Err(reason) => {
                    self.notes.add(format!("what was taken out could not be kept: {reason}"));
                    None
                }
            }
        };
        let one = |removed: Removed| TakenOut {
            path: self.governor.clean(&removed.path),
            why: removed.why,
            blob: if removed.content.is_empty() { None } else { keep(&removed.content) },
        };
        removed.into_iter().map(one).collect()
    }
}

impl Shell for GovernedShell {
    fn run(&self, request: ShellRequest) -> BoxFuture<'_, Result<ShellOutput, ToolError>> {
        Box::pin(async move {
            self.permits(&request)?;
            let budget = self.governor.limits.output_chars;
            let keep = usize::try_from(budget).unwrap_or(usize::MAX);
            let drain = Drain::new(self.governor.secrets.as_ref(), keep, Arc::clone(&self.blobs));
            let drain = drain.live(self.live.clone());
            let sink = SharedDrain::new(drain);
            let timeout = request.timeout.min(Duration::from_secs(self.governor.limits.exec_timeout_max));
            let job = ShellJob {
                work: Work::Shell(request.command),
                stdin: Vec::new(),
                working_dir: request.working_dir,
                timeout,
            };
            let (mut ended, layer) = match &self.over {
                None => (self.backend.run(job, Box::new(sink.clone()), self.cancel.clone()).await?, None),
                Some(over) => {
                    let (sink, cancel) = (Box::new(sink.clone()), self.cancel.clone());
                    let (ended, layer) = self.backend.run_layered(job, over.bytes(), sink, cancel).await?;
                    let report = over.take(layer, &ended, self.cancel.clone()).await?;
                    (ended, Some(report))
                }
            };
            self.notes.ran_in(ended.sandbox.clone().into());
            let drain = sink.take().ok_or_else(|| ToolError::internal("The command's output was lost."))?;
            let drained = off_async(|| drain.finish(budget));
            if drained.blob.is_some() {
                self.lanes.blob_kept();
            }
            if let Some(reason) = drained.lost {
                // The command ran, and its head and tail are here: better than nothing, if the reader is told.
                self.notes.add(format!("the whole output could not be kept: {reason}"));
            }
            let refused = self.explained(&ended, timeout);
            let taken_out = self.keep(std::mem::take(&mut ended.removed));
            let (stdout, stderr, blob) = (drained.stdout, drained.stderr, drained.blob);
            Ok(ShellOutput { stdout, stderr, ended, refused, taken_out, blob, layer })
        })
    }
}
