//! The helper: the first process of a container, which runs commands and answers requests about files.
//!
//! In: a socket to Helve outside, and frames on it. Out: frames. It ends, and with it the whole container, when the socket
//! does. As the first process of its pid namespace it can be neither killed nor stopped from inside, nobody can look into
//! it, and when a command is over it kills whatever is left. What commands may not call, it may not call either: the filter
//! of system calls is laid on itself before anything else runs.
//!
//! Deliberately not here: what the frames of the bridge to the files mean; `helve` gives the function that knows.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::{
    Cancel, CancelHandle, ErrorKind, Exit, LimitHit, OutputSink, ProcessLimits, ShellBackend, ShellJob,
    Stream, ToolError, View,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::DumpableBehavior;

use super::FilesAnswer;
use super::wire::{self, Done, Frame, Kind, Ready, Setup};
use crate::bare;
use crate::call::{Backend, Sandbox};
use crate::confine::seccomp::{self, Around};
use crate::drain::{Drained, Order};
use crate::native::wire::Bound;
use crate::program;
use crate::spawn;
use crate::sys::{Program, confine, everything};

/// How long what a command left behind may take to die.
const DYING: Duration = Duration::from_secs(2);

/// Exit codes of the helper, for a person who looks.
const LINK_LOST: i32 = 81;
const LINK_BROKEN: i32 = 82;

/// Serves until the socket ends.
pub(super) fn serve(link: &Path, files: Option<FilesAnswer>) -> ! {
    // Other processes of the same user could look into this one otherwise. It only fails for a value that is none.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let code = match UnixStream::connect(link).and_then(|link| listen(&link, files)) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => LINK_BROKEN,
        Err(_) => LINK_LOST,
    };
    std::process::exit(code)
}

fn listen(link: &UnixStream, files: Option<FilesAnswer>) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, link.try_clone()?);
    let mut output = link.try_clone()?;
    let setup = match wire::receive(&mut input)? {
        Some(Frame { kind: Kind::Setup, bytes, .. }) => Setup::decode(&bytes),
        Some(_) => None,
        None => return Ok(()),
    };
    let setup = setup.ok_or(io::ErrorKind::InvalidData)?;
    let found = settle(&setup);
    let ready = found.is_ok();
    wire::send(&mut output, Kind::Ready, 0, &Ready::encode(&found))?;
    if !ready {
        return Ok(());
    }
    let helper = Arc::new(Helper {
        backend: Backend(Inside { view: setup.view, limits: setup.limits }),
        files,
        output: Mutex::new(output),
        begun: Mutex::default(),
    });
    while let Some(Frame { kind, id, bytes }) = wire::receive(&mut input)? {
        match kind {
            Kind::Run => helper.begin(id, move |helper, cancel| helper.run(id, &bytes, cancel))?,
            Kind::Files => helper.begin(id, move |helper, cancel| helper.answer(id, &bytes, cancel))?,
            Kind::Cancel => {
                if let Some(handle) = helper.begun().get(&id) {
                    handle.cancel();
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

/// Makes this process what it has to be before anything runs.
fn settle(setup: &Setup) -> Result<Ready, ToolError> {
    let lacking = |what: &str, errno: i32| {
        let cause = io::Error::from_raw_os_error(errno);
        ToolError::new(ErrorKind::SandboxUnavailable, format!("Inside the container {what}: {cause}"))
            .hint("Look what the engine's own filter of system calls forbids.")
    };
    confine::no_new_privs().map_err(|errno| lacking("rights can still rise", errno))?;
    if seccomp::exists() {
        let filter = seccomp::whole(Around::Namespaces, &[]);
        confine::install(&filter).map_err(|errno| lacking("no filter of system calls can be set", errno))?;
    }
    let workspace = &setup.view.workspace;
    let found = workspace.metadata().map_err(|error| {
        let message =
            format!("The workspace {} is not there inside the container: {error}", workspace.display());
        ToolError::new(ErrorKind::SandboxUnavailable, message)
            .hint("The engine has to run on this machine and to see its files.")
    })?;
    let writes = rustix::fs::access(workspace, rustix::fs::Access::WRITE_OK).is_ok();
    Ok(Ready { workspace: (found.dev(), found.ino()), writes })
}

struct Helper {
    backend: Backend<Inside>,
    files: Option<FilesAnswer>,
    output: Mutex<UnixStream>,
    /// Requests that are being worked on.
    begun: Mutex<HashMap<u32, CancelHandle>>,
}

impl Helper {
    fn begun(&self) -> MutexGuard<'_, HashMap<u32, CancelHandle>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on a request on a thread of its own.
    fn begin(
        self: &Arc<Self>,
        id: u32,
        work: impl FnOnce(&Arc<Helper>, Cancel) + Send + 'static,
    ) -> io::Result<()> {
        let (handle, cancel) = Cancel::pair();
        self.begun().insert(id, handle);
        let helper = Arc::clone(self);
        let work = move || {
            work(&helper, cancel);
            helper.begun().remove(&id);
        };
        std::thread::Builder::new().name("helve-request".to_owned()).spawn(work).map(drop)
    }

    /// Says something. Where nobody hears it any more, this process is about to end.
    fn say(&self, kind: Kind, id: u32, bytes: &[u8]) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wire::send(&mut *output, kind, id, bytes);
    }

    fn run(self: &Arc<Self>, id: u32, job: &[u8], cancel: Cancel) {
        let done = match wire::decode_job(job) {
            Some(job) => self.run_job(id, job, cancel),
            None => Err(wire::garbled()),
        };
        self.say(Kind::Done, id, &Done::encode(&done));
    }

    fn run_job(self: &Arc<Self>, id: u32, job: ShellJob, cancel: Cancel) -> Result<Done, ToolError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(spawn::no_process)?;
        let killed = kills();
        let sink = Box::new(ToHelve { helper: Arc::clone(self), id });
        let ended = runtime.block_on(self.backend.run(job, sink, cancel));
        // Also a supervisor that the command has killed leaves nobody behind.
        if !everything::end_everything_else(DYING) {
            let message = "Processes of the command could not be ended inside the container.";
            return Err(
                ToolError::failed(message).hint("The container is removed; the next command gets another.")
            );
        }
        let ended = ended?;
        let out_of_memory = kills() > killed && ended.exit != Exit::Code(0);
        let memory = LimitHit::Memory(self.backend.0.limits.memory_bytes);
        let limit = ended.limit.or(out_of_memory.then_some(memory));
        Ok(Done { exit: ended.exit, limit, left_running: ended.left_running })
    }

    fn answer(&self, id: u32, request: &[u8], cancel: Cancel) {
        let answer = match self.files {
            Some(files) => files(request, cancel),
            None => Err(io::Error::other("this program answers no requests about files")),
        };
        match answer {
            Ok(bytes) if bytes.len() <= wire::MOST_BYTES => self.say(Kind::Answer, id, &bytes),
            Ok(_) => self.say(Kind::NoAnswer, id, b"the answer is too large"),
            Err(error) => self.say(Kind::NoAnswer, id, error.to_string().as_bytes()),
        }
    }
}

/// How many processes of this container the kernel has killed for want of memory; 0 where that is not told.
fn kills() -> u64 {
    ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| {
            text.lines().filter_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).collect::<Vec<u64>>()
        })
        .sum()
}

/// Output on its way out.
struct ToHelve {
    helper: Arc<Helper>,
    id: u32,
}

impl OutputSink for ToHelve {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let kind = match stream {
            Stream::Stdout => Kind::Stdout,
            Stream::Stderr => Kind::Stderr,
        };
        self.helper.say(kind, self.id, bytes);
    }
}

/// Opens where a command starts: a path that was resolved outside beneath the view. Nothing else runs here meanwhile, and
/// nothing but the view is here.
fn open_directory(path: Option<&str>) -> Result<OwnedFd, ToolError> {
    let path = path.unwrap_or("/");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
        ToolError::not_found(format!("working_dir is not there inside the container: {path}: {errno}"))
            .hint("Create it first, or leave working_dir out to start in the workspace.")
    })
}

/// A command in the container, as a plain child process whose tree is held to the limits.
#[derive(Debug)]
struct Inside {
    view: View,
    limits: ProcessLimits,
}

impl Sandbox for Inside {
    const NAME: &'static str = "container";

    fn order(&self, job: &ShellJob) -> Result<Order, ToolError> {
        bare::tree_can_be_ended()?;
        let directory = open_directory(job.working_dir.as_deref())?;
        let words = program::words(&self.view, job);
        let (name, arguments) = words.split_first().ok_or_else(program::nothing_to_run)?;
        let path = bare::locate(&self.view, name)?;
        let arguments = arguments.iter().map(OsString::as_os_str);
        let program = Program::new(path.as_os_str(), arguments, &self.view.env).map_err(spawn::bad_text)?;
        Ok(Order { watched: true, ..Order::plain(program, directory, self.limits) })
    }

    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError> {
        spawn::plain_exit(drained.ending, &self.view.shell.display().to_string())
    }

    fn limit(&self, bound: Option<Bound>, exit: Exit) -> Option<LimitHit> {
        spawn::limit_hit(bound, exit, &self.limits)
    }
}
