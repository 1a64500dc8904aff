//! The lanes: traits through which a tool reaches the world, and those that a backend implements behind them.
//!
//! A tool sees [`Shell`], [`Files`](crate::Files), [`Egress`] and [`Blobs`]. What a sandbox implements is [`ShellBackend`]: it pushes
//! raw bytes into an [`OutputSink`], and the runtime's sink redacts, counts and keeps them before a tool sees any.

use std::ffi::OsString;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::call::SandboxReport;
use crate::cancel::Cancel;
use crate::denied::Denied;
use crate::error::{ErrorKind, ToolError};
use crate::explained::Explained;
use crate::files::Is;
use crate::text::Capture;

/// A boxed future, so that lanes are object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Which of a process's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a tool asks of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellRequest {
    /// The text for the shell.
    pub command: String,
    /// Where it starts; the workspace if absent.
    pub working_dir: Option<String>,
    /// After how long everything that it started is ended.
    pub timeout: Duration,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The deadline passed and its whole tree was ended.
    TimedOut,
    /// It was taken back and its whole tree was ended.
    Cancelled,
}

/// Which bound ended a command, or made it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// Its processes took more than so many bytes of memory.
    Memory(u64),
    /// It started more than so many processes.
    Processes(u64),
    /// It used more than so many seconds of processor time.
    Cpu(u64),
    /// The free space of the disk fell by more than so many bytes.
    Disk(u64),
    /// A file grew beyond so many bytes.
    File(u64),
    /// What it changed in the workspace took more than so many bytes of the layer over it.
    Layer(u64),
    /// It made a system call that the sandbox answers by ending the process.
    SystemCall,
}

/// A file that a command left at a protected place, and that was taken away before anybody else could read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Its path relative to the workspace.
    pub path: String,
    /// Why it may not stay there, as a phrase: `a hook of git`.
    pub why: String,
    /// What it held, up to a bound of the sandbox.
    pub content: Vec<u8>,
}

/// How a run ended, and what else is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the command ended.
    pub exit: Exit,
    /// The bound that it hit, if one was.
    pub limit: Option<LimitHit>,
    /// How many processes it had left running, which were ended with it.
    pub left_running: u64,
    /// What was taken away.
    pub removed: Vec<Removed>,
    /// What was refused to it, as far as that was seen.
    pub denied: Vec<Denied>,
    /// The sandbox that it really ran in.
    pub sandbox: SandboxReport,
}

impl Ended {
    /// An ending about which nothing else is to be said.
    pub fn plain(exit: Exit, sandbox: SandboxReport) -> Ended {
        Ended { exit, limit: None, left_running: 0, removed: Vec::new(), denied: Vec::new(), sandbox }
    }
}

/// A reference to kept output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRef {
    /// `b3:` and 64 hexadecimal digits.
    pub id: String,
    /// Bytes kept.
    pub bytes: u64,
    /// Bytes that did not fit under the cap.
    pub dropped: u64,
}

/// A file that was taken away from a protected place, and where its content is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOut {
    /// Its path relative to the workspace.
    pub path: String,
    /// Why it may not stay there, as a phrase: `a hook of git`.
    pub why: String,
    /// What it held; absent if that was nothing, or could not be kept.
    pub blob: Option<BlobRef>,
}

/// What a tool gets from the shell.
#[derive(Clone, Debug)]
pub struct ShellOutput {
    /// Standard output, bounded.
    pub stdout: Capture,
    /// Standard error, bounded.
    pub stderr: Capture,
    /// How it ended. What was taken away is in `taken_out`, what was refused in `refused`.
    pub ended: Ended,
    /// What was refused to it, explained, and the bound that it passed: clean and bounded.
    pub refused: Vec<Explained>,
    /// What the command left at protected places of the workspace.
    pub taken_out: Vec<TakenOut>,
    /// Both streams whole, when they are larger than a result may be.
    pub blob: Option<BlobRef>,
    /// What it changed in the workspace, where it ran over a layer.
    pub layer: Option<LayerReport>,
}

/// What a command changed in a layer over the workspace, and what became of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// What became of it.
    pub outcome: LayerOutcome,
    /// The paths, sorted.
    pub changes: Vec<LayerEntry>,
    /// What the command did besides that could not be taken over, with why.
    pub left_out: Vec<(String, String)>,
    /// Files that have other names too, which keep what they held.
    pub linked: Vec<String>,
}

/// What became of the changes in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerOutcome {
    /// They wait to be committed or discarded.
    Pending,
    /// They are in the workspace.
    Done,
    /// They are gone: the command was taken back, or passed the bound of the layer.
    Dropped,
    /// They wait, because they could not be put into the workspace, for this reason.
    Refused(String),
}

/// One path that a command changed in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerEntry {
    /// Relative to the workspace.
    pub path: String,
    /// What was there.
    pub was: Is,
    /// What is there in the layer.
    pub is: Is,
    /// What a file held, where that is to be shown and is not long.
    pub before: Option<Vec<u8>>,
    /// What it holds in the layer.
    pub after: Option<Vec<u8>>,
}

/// Runs commands for a tool.
pub trait Shell: Send + Sync {
    /// Runs one command to its end, its deadline or its cancellation.
    fn run(&self, request: ShellRequest) -> BoxFuture<'_, Result<ShellOutput, ToolError>>;
}

/// Takes raw output while it streams. Called from a thread that drains the pipes, or, with the few last kilobytes of a
/// command, from the task that waits for it.
pub trait OutputSink: Send {
    /// Some bytes of one stream.
    fn chunk(&mut self, stream: Stream, bytes: &[u8]);
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A text for the view's shell.
    Shell(String),
    /// A program, looked up in the view's `PATH` where it is a bare name, and its arguments.
    Program(Vec<String>),
}

/// What a backend runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellJob {
    /// What to run.
    pub work: Work,
    /// What it reads from its standard input; nothing if empty.
    pub stdin: Vec<u8>,
    /// Where it starts, relative to the workspace or absolute inside the view.
    pub working_dir: Option<String>,
    /// After how long everything that it started is ended.
    pub timeout: Duration,
}

/// A program that runs on its caller's own standard streams, as the owner's own command does.
#[derive(Debug)]
pub struct Attach {
    /// The program, looked up in the view's `PATH` where it is a bare name, and its arguments.
    pub words: Vec<OsString>,
    /// Where it starts, relative to the workspace or absolute inside the view; the workspace if absent.
    pub working_dir: Option<String>,
    /// Its standard input, output and error.
    pub streams: [OwnedFd; 3],
    /// Whether standard input is a terminal that becomes its controlling one.
    pub terminal: bool,
    /// After how long everything that it started is ended; never if absent.
    pub timeout: Option<Duration>,
    /// Signals for it, by number, while it runs. SIGINT, SIGQUIT and SIGHUP reach its process group, as a terminal sends
    /// them; others the program alone. A sandbox that passes no signals on ends it instead.
    pub signals: UnboundedReceiver<i32>,
}

/// A process that stays inside a sandbox and answers whole requests about files, so that each is one round trip.
pub trait FilesHelper: Send + Sync {
    /// The answer to one request, of at most `most` bytes. What both hold is between the bridge and the helper.
    fn ask(
        &self,
        request: Vec<u8>,
        most: u64,
        timeout: Duration,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<u8>, ToolError>>;
}

/// What a command changed in the workspace, in place of the workspace: the upper directories of overlay file systems.
/// It goes when this is dropped.
#[derive(Debug)]
pub struct Layer {
    /// The workspace itself first, then other file systems that are mounted in it. None if nothing was started.
    pub parts: Vec<LayerPart>,
    /// When the command began, by the clock that file systems use: a file below that changed later was changed by somebody
    /// else meanwhile.
    pub since: SystemTime,
    /// How files are told that the command edited in place from those that it replaced.
    pub links: LayerLinks,
}

/// What is needed to follow the other names of files (hard links), which an overlay does not know of each other.
#[derive(Debug, Default)]
pub struct LayerLinks {
    /// The workspace as the command saw it, as a mount of its own that is attached nowhere. As long as the kernel remembers a
    /// file there, it tells which file below it began as.
    pub seen: Option<OwnedFd>,
    /// Names that are protected at any depth; no file is changed that has a name there.
    pub protected: Vec<String>,
    /// Patterns of paths of which the same holds.
    pub deny_read: Vec<String>,
    /// Places of which the same holds, relative to the workspace.
    pub closed: Vec<PathBuf>,
}

/// The layer over one file system.
#[derive(Debug)]
pub struct LayerPart {
    /// Where it is mounted, relative to the workspace; empty for the workspace.
    pub path: PathBuf,
    /// The upper directory. What is absent above and there below is unchanged; a character device 0/0 stands for what is
    /// gone, and the attribute `user.overlay.opaque` marks a directory of which nothing below shows.
    pub upper: OwnedFd,
}

/// A sandbox. One value serves many calls and is bound to one [`crate::View`].
pub trait ShellBackend: Send + Sync {
    /// The name and the layers that a call will have.
    fn report(&self) -> SandboxReport;

    /// Whether the command is contained, so that nobody has to be asked about it.
    fn contains(&self) -> bool;

    /// What would make every call fail, as far as that shows without running the caller's command.
    fn ready(&self) -> Result<(), ToolError> {
        Ok(())
    }

    /// Says that a call is likely to follow at once, so that what it needs can be begun. Runs nothing of a caller's, and
    /// what goes wrong shows itself in the call.
    fn prepare(&self) {}

    /// Runs the job and pushes its output into `sink`. Ends the whole process tree when the command ends, at the
    /// deadline, when `cancel` fires, when the future is dropped and when this process dies.
    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>>;

    /// The helper for files that stays inside, if this sandbox keeps one. Elsewhere each request is a program of its own.
    fn files_helper(&self) -> Option<&dyn FilesHelper> {
        None
    }

    /// Runs a program on its caller's own streams, under the same rules. A program that is not there is `not_found`, one
    /// that cannot be executed `tool_failed`. A sandbox that has no way to do so says that.
    fn attach<'a>(&'a self, _program: Attach, _cancel: Cancel) -> BoxFuture<'a, Result<Ended, ToolError>> {
        let backend = self.report().backend;
        Box::pin(async move {
            let message = format!("The sandbox {backend} runs no program on its caller's own streams.");
            Err(ToolError::new(ErrorKind::SandboxUnavailable, message).hint("Choose another sandbox."))
        })
    }

    /// As [`ShellBackend::prepare`], for a call over a layer of so many bytes.
    fn prepare_layer(&self, _bytes: u64) {}

    /// As [`ShellBackend::run`], over a layer of at most so many bytes that takes every change of the workspace; other
    /// places that a command could write are not writable. A sandbox that has no layers refuses and runs nothing.
    fn run_layered<'a>(
        &'a self,
        _job: ShellJob,
        _bytes: u64,
        _sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        let error = no_layers(&self.report().backend);
        Box::pin(async move { Err(error) })
    }

    /// As [`ShellBackend::attach`], over a layer.
    fn attach_layered<'a>(
        &'a self,
        _program: Attach,
        _bytes: u64,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<(Ended, Layer), ToolError>> {
        let error = no_layers(&self.report().backend);
        Box::pin(async move { Err(error) })
    }
}

/// The refusal of a sandbox that has no layers.
fn no_layers(backend: &str) -> ToolError {
    let message = format!(
        "The sandbox {backend} cannot run a command over a layer, so what it would change cannot be shown or taken back. \
         Nothing was run."
    );
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
        "Layers need the sandbox native: user namespaces, and overlayfs in them (Linux 5.11). `helve doctor` says what is \
         missing. Or write tools.exec.mode = \"direct\" and tools.exec.checkpoint = false.",
    )
}

/// A request to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Where to.
    pub url: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressResponse {
    /// The status code.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body, bounded by the lane.
    pub body: Vec<u8>,
}

/// The way out, through the hosts that the policy opens.
pub trait Egress: Send + Sync {
    /// Sends one request.
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, ToolError>>;
}

/// Outputs of earlier calls.
pub trait Blobs: Send + Sync {
    /// The blob of a call, or the id itself if `name` is one; not found if there is none.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<BlobRef, ToolError>>;
    /// At most `len` bytes from `offset`.
    fn read<'a>(&'a self, id: &'a str, offset: u64, len: usize) -> BoxFuture<'a, Result<Vec<u8>, ToolError>>;
}
