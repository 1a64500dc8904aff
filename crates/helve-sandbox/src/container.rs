//! The backend `container`: one container of Docker or Podman for all calls of a session, made at the first of them.
//!
//! ```text
//! container           what a call needs: the container, a place in it, its deadline
//!   ├ start           a new container: orphans out, mounts, image, the helper's first word
//!   │   ├ spec        what is asked of the engine      ├ own    this program, for any image
//!   │   └ owner       whose a container is
//!   ├ running         the stream to the helper, and what waits on it
//!   │   └ wire        the frames
//!   └ engine ── http  the engine's socket
//! inside              the helper: the container's first process
//! ```
//!
//! In: a view, limits, the owner's choice. Out: a [`ShellBackend`]. The helper is this program again, mounted into whatever
//! image the owner names. It runs one command at a time and, for the bridge to the files, whole requests beside it, each in
//! one frame. The engine is asked only while a container is made or ended.
//!
//! Protected paths are mounts; where other paths are protected than when the container was made, another takes its place.
//! Deliberately not here: pulling or building images, and programs on their caller's own streams.

mod engine;
mod http;
mod inside;
mod own;
mod owner;
mod running;
mod spec;
mod start;
mod wire;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::{
    BoxFuture, Cancel, ContainerChoice, Ended, ErrorKind, Exit, FilesHelper, Network, OutputSink,
    ProcessLimits, SandboxReport, ShellBackend, ShellJob, ToolError, View,
};
use tokio::sync::{Mutex, oneshot};

use crate::confine::seccomp;
use crate::native::wire::Guarded;
use crate::plan;
use crate::plan::rules::Rules;
use crate::protect::{Protection, Turn};
use crate::spawn;
use crate::workdir;
use engine::Engine;
use running::Running;
use start::Ground;

/// Answers one request about files: the bytes that the bridge wrote, and what it reads.
pub type FilesAnswer = fn(&[u8], Cancel) -> io::Result<Vec<u8>>;

/// The function of this program that answers requests about files.
static FILES: OnceLock<FilesAnswer> = OnceLock::new();

/// How much longer than its deadline a command is waited for, before the container is ended instead.
const GRACE: Duration = Duration::from_secs(5);

/// Becomes the helper inside a container, and then never returns, if this process was started to be it. `files` answers the
/// requests of the bridge to the files there.
///
/// Call it first in `main`. Where it is not called, containers run commands all the same, but file tools do not work in
/// them.
pub fn run_container_helper_if_asked(files: FilesAnswer) {
    let files = *FILES.get_or_init(|| files);
    serve_if_asked(spec::FILES_HELPER_WORD, Some(files));
}

/// The same before `main`, for commands alone.
pub(crate) fn run_bare_helper_if_asked() {
    serve_if_asked(spec::HELPER_WORD, None);
}

fn serve_if_asked(word: &str, files: Option<FilesAnswer>) {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|found| found == word)
        && let Some(link) = words.next()
        && std::process::id() == 1
    {
        inside::serve(Path::new(&link), files);
    }
}

/// Runs commands inside a container.
pub(crate) struct Container {
    view: View,
    protection: Protection,
    ground: Arc<Ground>,
    current: Mutex<Option<Arc<Running>>>,
    /// The place for a command.
    place: Arc<Mutex<()>>,
}

impl Container {
    pub(crate) fn new(choice: ContainerChoice, view: View, limits: ProcessLimits) -> Result<Self, ToolError> {
        let rules = plan::rules::resolve(&view)?;
        check_socket(&choice, &rules)?;
        let protection =
            Protection::new(rules.workspace.real.clone(), view.protected.clone(), rules.denied.clone(), true);
        let ground =
            Arc::new(Ground { choice, rules, view: view.clone(), limits, files: FILES.get().is_some() });
        Ok(Container { view, protection, ground, current: Mutex::new(None), place: Arc::new(Mutex::new(())) })
    }

    /// The container for a call that needs these mounts, or any if it does not care.
    async fn running(&self, guarded: Option<&[Guarded]>) -> Result<Arc<Running>, ToolError> {
        let mut current = self.current.lock().await;
        if let Some(running) = &*current
            && running.is_open()
            && guarded.is_none_or(|guarded| running.guarded == guarded)
        {
            return Ok(Arc::clone(running));
        }
        // Whoever still uses the one before keeps it until then.
        *current = None;
        let (ground, guarded) = (Arc::clone(&self.ground), guarded.map(<[Guarded]>::to_vec));
        let guarded = match guarded {
            Some(guarded) => guarded,
            None => self.begin()?.as_ref().map(Turn::guarded).unwrap_or_default(),
        };
        let running = off_thread(move || ground.start(guarded)).await??;
        Ok(Arc::clone(current.insert(Arc::new(running))))
    }

    fn begin(&self) -> Result<Option<Turn>, ToolError> {
        self.protection.begin().map_err(spawn::not_protected)
    }
}

/// A socket that commands can replace would give Helve's requests to them.
fn check_socket(choice: &ContainerChoice, rules: &Rules) -> Result<(), ToolError> {
    let Some(socket) = &choice.socket else { return Ok(()) };
    let real = socket.canonicalize().unwrap_or_else(|_| socket.clone());
    if socket.is_absolute() && !rules.in_writable(socket) && !rules.in_writable(&real) {
        return Ok(());
    }
    let message = format!("The engine's socket {} lies where commands can write.", socket.display());
    Err(ToolError::new(ErrorKind::Blocked, message)
        .hint("Name an absolute path outside the workspace with container.socket."))
}

/// Does what blocks on a thread of its own; the runtime's would be waited for when it ends.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let (answer, told) = oneshot::channel();
    let work = move || drop(answer.send(work()));
    std::thread::Builder::new().name("helve-engine".to_owned()).spawn(work).map_err(spawn::no_process)?;
    told.await.map_err(|_| ToolError::internal("The thread that asks the engine failed."))
}

/// Takes a command back whose caller is gone.
struct Abandon<'a>(&'a Arc<Running>, u32);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon(self.1);
    }
}

impl ShellBackend for Container {
    fn report(&self) -> SandboxReport {
        let mut layers = vec!["mountns", "pidns", "ipcns", "utsns", "cgroupns"];
        if self.view.network == Network::Off {
            layers.push("netns");
        }
        layers.extend(["no_new_privs", "caps"]);
        if seccomp::exists() {
            layers.push("seccomp");
        }
        layers.extend(["cgroup", "supervised"]);
        SandboxReport {
            backend: "container".to_owned(),
            layers: layers.into_iter().map(str::to_owned).collect(),
        }
    }

    fn contains(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.ground.image_name()?;
        Engine::find(&self.ground.choice).map(drop)
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            let plain = |exit| Ended::plain(exit, self.report());
            let place = tokio::select! {
                place = Arc::clone(&self.place).lock_owned() => place,
                () = cancel.cancelled() => return Ok(plain(Exit::Cancelled)),
            };
            self.ground.rules.check_entries()?;
            let directory = workdir::open(&self.view, job.working_dir.as_deref())?.path;
            let directory = directory.to_str().ok_or_else(|| {
                ToolError::failed("A container cannot be given a directory whose name is not UTF-8.")
                    .hint("Rename the directory, or choose another working_dir.")
            })?;
            let turn = self.begin()?;
            let guarded = turn.as_ref().map(Turn::guarded).unwrap_or_default();
            let running = tokio::select! {
                running = self.running(Some(&guarded)) => running?,
                () = cancel.cancelled() => return Ok(plain(Exit::Cancelled)),
            };
            let request = wire::encode_job(&job, directory);
            let (id, mut told) = running.command(&request, sink, turn, place);
            let abandon = Abandon(&running, id);
            let stopped = tokio::select! {
                biased;
                answer = &mut told => return self.ended(answer),
                () = cancel.cancelled() => Exit::Cancelled,
                () = tokio::time::sleep(job.timeout.saturating_add(GRACE)) => Exit::TimedOut,
            };
            running.cancel(id);
            match tokio::time::timeout(GRACE, &mut told).await {
                // The helper's word, where it had ended by itself meanwhile.
                Ok(answer) => {
                    let ended = self.ended(answer)?;
                    Ok(Ended { exit: stopped, ..ended })
                }
                Err(_) => {
                    // It is ended with all that is in it.
                    let running = Arc::clone(abandon.0);
                    off_thread(move || running.end()).await?;
                    Ok(plain(stopped))
                }
            }
        })
    }

    fn files_helper(&self) -> Option<&dyn FilesHelper> {
        self.ground.files.then_some(self)
    }
}

impl Container {
    fn ended(
        &self,
        answer: Result<running::CommandAnswer, oneshot::error::RecvError>,
    ) -> Result<Ended, ToolError> {
        let lost = |_| ToolError::internal("The thread that reads from the container failed.");
        let (done, removed) = answer.map_err(lost)??;
        let wire::Done { exit, limit, left_running } = done;
        Ok(Ended { exit, limit, left_running, removed, denied: Vec::new(), sandbox: self.report() })
    }
}

impl FilesHelper for Container {
    fn ask(
        &self,
        request: Vec<u8>,
        most: u64,
        timeout: Duration,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<u8>, ToolError>> {
        Box::pin(async move {
            let cancelled = || ToolError::new(ErrorKind::Cancelled, "The call was taken back.");
            if request.len() > wire::MOST_BYTES {
                return Err(ToolError::new(
                    ErrorKind::TooLarge,
                    "The request is too large for the container.",
                )
                .hint("Change fewer or smaller files at once."));
            }
            let running = tokio::select! {
                running = self.running(None) => running?,
                () = cancel.cancelled() => return Err(cancelled()),
            };
            let (id, told) = running.files(&request);
            let answer = tokio::select! {
                biased;
                answer = told => answer,
                () = cancel.cancelled() => {
                    running.cancel(id);
                    return Err(cancelled());
                }
                () = tokio::time::sleep(timeout) => {
                    running.cancel(id);
                    let message = format!("The files did not answer within {} seconds.", timeout.as_secs());
                    return Err(ToolError::new(ErrorKind::Timeout, message).hint("Ask for less at once."));
                }
            };
            let lost = |_| ToolError::internal("The thread that reads from the container failed.");
            let answer = answer.map_err(lost)??;
            if answer.len() as u64 > most {
                return Err(ToolError::new(ErrorKind::TooLarge, "The answer is too large.")
                    .hint("Ask for less at once."));
            }
            Ok(answer)
        })
    }
}
