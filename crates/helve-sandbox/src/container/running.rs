//! One running container: the stream to its helper, the requests that wait on it, and how it is known that it ended.
//!
//! ```text
//! Helve ──frames──► helper (first process of the container)     whoever closes the stream ends the container
//!   └──"wait"─────► engine                                       answers when the container ends; ends with the engine
//! ```
//!
//! One thread reads the stream, one the engine. Nothing here waits for an engine longer than it may take: what was asked of
//! a container that is gone is answered with why. A command keeps its place until the helper says that nothing of it is
//! left, also where nobody waits for its answer any more.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::{OutputSink, Removed, Stream, ToolError};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::engine::Engine;
use super::http;
use super::wire::{self, Done, Frame, Kind};
use crate::native::wire::Guarded;
use crate::protect::Turn;
use crate::spawn;

/// How long a frame may take to be written.
const WRITING: Duration = Duration::from_secs(30);
/// How long a container may take to end after its stream was closed.
const ENDING: Duration = Duration::from_secs(5);

/// How a command ended, and what was taken away of what it left at protected places.
pub(super) type CommandAnswer = Result<(Done, Vec<Removed>), ToolError>;

/// What waits for the helper.
enum Waiting {
    Command {
        sink: Arc<Mutex<Box<dyn OutputSink>>>,
        /// Ended when nothing of the command is left.
        turn: Option<Turn>,
        answer: oneshot::Sender<CommandAnswer>,
        /// The only place for a command.
        _place: OwnedMutexGuard<()>,
    },
    Files(oneshot::Sender<Result<Vec<u8>, ToolError>>),
}

/// Why a container is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// It ended with this code.
    Ended(i64),
    /// The engine went away.
    EngineGone,
}

#[derive(Default)]
struct State {
    next: u32,
    waiting: HashMap<u32, Waiting>,
    /// Whether the stream has ended.
    closed: bool,
    /// Whether Helve closed it.
    let_go: bool,
    cause: Option<Cause>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is known why the container is gone, but not for long.
    fn cause(&self, within: Duration) -> Option<Cause> {
        let until = Instant::now() + within;
        let mut state = self.state();
        while state.cause.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.cause.clone()
    }
}

/// A running container.
pub(super) struct Running {
    id: String,
    engine: Engine,
    /// What is mounted on protected and denied paths in it.
    pub(super) guarded: Vec<Guarded>,
    link: Mutex<UnixStream>,
    shared: Arc<Shared>,
    watch: UnixStream,
}

impl Running {
    /// Takes over a container whose helper is ready.
    pub(super) fn new(
        engine: Engine,
        id: String,
        guarded: Vec<Guarded>,
        link: UnixStream,
        watch: UnixStream,
    ) -> io::Result<Running> {
        link.set_read_timeout(None)?;
        link.set_write_timeout(Some(WRITING))?;
        watch.set_read_timeout(None)?;
        let shared = Arc::new(Shared::default());
        let (input, told, closing) = (link.try_clone()?, Arc::clone(&shared), link.try_clone()?);
        thread("helve-container", move || read(input, &told))?;
        let (mut asked, told) = (watch.try_clone()?, Arc::clone(&shared));
        thread("helve-container-wait", move || {
            let cause = match http::receive(&mut asked, None) {
                Ok(answer) => {
                    let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                    Cause::Ended(said["StatusCode"].as_i64().unwrap_or(-1))
                }
                Err(_) => Cause::EngineGone,
            };
            told.state().cause.get_or_insert(cause);
            told.changed.notify_all();
            // Without its engine nobody looks after the container: its first process is told to end it.
            let _ = closing.shutdown(Shutdown::Write);
        })?;
        Ok(Running { id, engine, guarded, link: Mutex::new(link), shared, watch })
    }

    /// Whether requests can still be made.
    pub(super) fn is_open(&self) -> bool {
        let state = self.shared.state();
        !state.closed && !state.let_go && state.cause.is_none()
    }

    /// Asks for a command.
    pub(super) fn command(
        &self,
        job: &[u8],
        sink: Box<dyn OutputSink>,
        turn: Option<Turn>,
        place: OwnedMutexGuard<()>,
    ) -> (u32, oneshot::Receiver<CommandAnswer>) {
        let (answer, told) = oneshot::channel();
        let sink = Arc::new(Mutex::new(sink));
        let id = self.ask(Kind::Run, job, Waiting::Command { sink, turn, answer, _place: place });
        (id, told)
    }

    /// Asks something about files.
    pub(super) fn files(&self, request: &[u8]) -> (u32, oneshot::Receiver<Result<Vec<u8>, ToolError>>) {
        let (answer, told) = oneshot::channel();
        (self.ask(Kind::Files, request, Waiting::Files(answer)), told)
    }

    fn ask(&self, kind: Kind, bytes: &[u8], waiting: Waiting) -> u32 {
        let mut state = self.shared.state();
        state.next = state.next.wrapping_add(1);
        let id = state.next;
        if state.closed {
            drop(state);
            finish(waiting, &gone(&self.shared));
            return id;
        }
        state.waiting.insert(id, waiting);
        drop(state);
        if self.say(kind, id, bytes).is_err() {
            // The reader finds the end of the stream and tells everybody why.
            self.let_go();
        }
        id
    }

    /// Takes a request back.
    pub(super) fn cancel(&self, id: u32) {
        if self.say(Kind::Cancel, id, b"").is_err() {
            self.let_go();
        }
    }

    /// Whether a request still waits.
    fn waits(&self, id: u32) -> bool {
        self.shared.state().waiting.contains_key(&id)
    }

    /// Takes a command back whose caller is gone, and ends the container if that does not end it.
    pub(super) fn abandon(self: &Arc<Self>, id: u32) {
        if !self.waits(id) {
            return;
        }
        let running = Arc::clone(self);
        let end = move || {
            running.cancel(id);
            let start = Instant::now();
            while running.waits(id) && start.elapsed() < ENDING {
                std::thread::sleep(Duration::from_millis(10));
            }
            if running.waits(id) {
                running.end();
            }
        };
        if thread("helve-container-end", end).is_err() {
            self.let_go();
        }
    }

    fn say(&self, kind: Kind, id: u32, bytes: &[u8]) -> io::Result<()> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&mut *link, kind, id, bytes)
    }

    /// Closes the stream, which ends the container.
    fn let_go(&self) {
        self.shared.state().let_go = true;
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = link.shutdown(Shutdown::Write);
    }

    /// Ends the container, whatever its helper does. Blocks as long as the engine takes.
    pub(super) fn end(&self) {
        self.let_go();
        let _ = self.engine.remove(&self.id);
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = link.shutdown(Shutdown::Both);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The helper ends, the engine removes what it was; the thread that waits for that is not waited for.
        self.let_go();
        let watch = self.watch.try_clone();
        let (shared, engine, id) = (Arc::clone(&self.shared), self.engine.clone(), self.id.clone());
        let _ = thread("helve-container-end", move || {
            if shared.cause(ENDING).is_none() {
                let _ = engine.remove(&id);
            }
            drop(watch.map(|watch| watch.shutdown(Shutdown::Both)));
        });
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Reads what the helper says until the stream ends, and then tells everybody who still waits.
fn read(input: UnixStream, shared: &Shared) {
    let mut input = BufReader::with_capacity(1 << 16, input);
    while let Ok(Some(frame)) = wire::receive(&mut input) {
        take(frame, shared);
    }
    // What it ran is gone when the container is; only then is the workspace looked at.
    let cause = shared.cause(ENDING);
    let left: Vec<Waiting> = {
        let mut state = shared.state();
        state.closed = true;
        state.waiting.drain().map(|(_, waiting)| waiting).collect()
    };
    let error = told(cause.as_ref());
    left.into_iter().for_each(|waiting| finish(waiting, &error));
}

fn take(frame: Frame, shared: &Shared) {
    let Frame { kind, id, bytes } = frame;
    match kind {
        Kind::Stdout | Kind::Stderr => {
            let sink = match shared.state().waiting.get(&id) {
                Some(Waiting::Command { sink, .. }) => Arc::clone(sink),
                _ => return,
            };
            let stream = if kind == Kind::Stdout { Stream::Stdout } else { Stream::Stderr };
            sink.lock().unwrap_or_else(PoisonError::into_inner).chunk(stream, &bytes);
        }
        Kind::Done => {
            let waiting = shared.state().waiting.remove(&id);
            if let Some(Waiting::Command { sink, turn, answer, _place }) = waiting {
                drop(sink);
                let removed = turn.map_or(Ok(Vec::new()), Turn::end).map_err(spawn::not_swept);
                let done = Done::decode(&bytes).and_then(|done| Ok((done, removed?)));
                // The place is free before anybody can ask for it.
                drop(_place);
                let _ = answer.send(done);
            }
        }
        Kind::Answer | Kind::NoAnswer => {
            if let Some(Waiting::Files(answer)) = shared.state().waiting.remove(&id) {
                let _ = answer.send(if kind == Kind::Answer { Ok(bytes) } else { Err(no_answer(&bytes)) });
            }
        }
        // Nothing else is said by a helper.
        _ => {}
    }
}

fn finish(waiting: Waiting, error: &ToolError) {
    match waiting {
        Waiting::Command { turn, answer, .. } => {
            // What was taken away cannot be told beside an error; it is gone all the same.
            drop(turn);
            let _ = answer.send(Err(error.clone()));
        }
        Waiting::Files(answer) => drop(answer.send(Err(error.clone()))),
    }
}

fn gone(shared: &Shared) -> ToolError {
    told(shared.cause(Duration::ZERO).as_ref())
}

/// The error for what was asked of a container that is gone.
fn told(cause: Option<&Cause>) -> ToolError {
    match cause {
        Some(Cause::EngineGone) => ToolError::failed(
            "The engine that runs the container went away; how far the call came is not known.",
        )
        .hint("Start the engine again; what it left of the container is removed with the next call."),
        Some(Cause::Ended(code)) => ToolError::failed(format!(
            "The container ended under the call (exit code {code}); how far it came is not known."
        ))
        .hint("Look whether somebody removed it, or whether it ran out of memory (limits.exec_memory_bytes). The next call gets another."),
        None => ToolError::failed("The container does not answer any more; how far the call came is not known.")
            .hint("The next call gets another container."),
    }
}

fn no_answer(why: &[u8]) -> ToolError {
    let why = String::from_utf8_lossy(why);
    let why = helve_core::harmless::harmless(why.trim());
    ToolError::internal(format!("The helper inside the container gave no answer: {why}"))
        .hint("Its main has to begin with helve::serve_files_if_asked().")
}
