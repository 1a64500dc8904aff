//! Helve's side: everything is prepared before the fork, because after it nothing may be allocated.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::OnceLock;

use helve_core::ProcessLimits;
use libc::{c_char, rlimit};

use super::confine::Confinement;
use super::native::watch::Watch;
use super::supervisor;
use crate::rung::private::Private;

/// A program, its arguments and its whole environment.
pub(crate) struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Text with a NUL byte in it is refused: no process can be given such an argument.
    pub(crate) fn new<'a>(
        path: &OsStr,
        arguments: impl IntoIterator<Item = &'a OsStr>,
        environment: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> io::Result<Program> {
        let c_string = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
        let path = c_string(path)?;
        let arguments = std::iter::once(Ok(path.clone()))
            .chain(arguments.into_iter().map(c_string))
            .collect::<io::Result<_>>()?;
        let pair = |(name, value)| CString::new(format!("{name}={value}")).map_err(io::Error::from);
        let environment = environment.into_iter().map(pair).collect::<io::Result<_>>()?;
        Ok(Program { path, arguments, environment })
    }
}

/// One call, as descriptors and numbers. Every descriptor must be above 2 and close itself at exec.
pub(crate) struct Launch<'a> {
    /// What to execute.
    pub(crate) program: &'a Program,
    /// Where it starts; `/` if absent.
    pub(crate) directory: Option<BorrowedFd<'a>>,
    /// What the supervisor itself has as its standard streams.
    pub(crate) null: BorrowedFd<'a>,
    /// Its standard input.
    pub(crate) stdin: BorrowedFd<'a>,
    /// Its standard output.
    pub(crate) stdout: BorrowedFd<'a>,
    /// Its standard error.
    pub(crate) stderr: BorrowedFd<'a>,
    /// Whether standard input is a terminal that becomes its controlling one.
    pub(crate) terminal: bool,
    /// Descriptors that it gets besides, under the numbers that they have.
    pub(crate) inherited: &'a [BorrowedFd<'a>],
    /// When its other end is closed, the tree ends. A byte in it is the number of a signal for the command.
    pub(crate) lifeline: BorrowedFd<'a>,
    /// Where the ending is told.
    pub(crate) report: BorrowedFd<'a>,
    /// Its limits.
    pub(crate) limits: ProcessLimits,
    /// Whether the supervisor adds up what everything that it starts takes, and ends it at a limit.
    pub(crate) watched: bool,
    /// What it gives up before it becomes the program.
    pub(crate) confinement: Option<&'a Confinement>,
    /// A directory that is removed with everything in it when the tree is gone.
    pub(crate) private: Option<&'a Private>,
}

/// A running supervisor. Dropping it waits until it is gone and takes its process away, so that no path leaves a zombie.
#[derive(Debug)]
pub(crate) struct Supervisor(libc::pid_t);

impl Drop for Supervisor {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: `status` lives through the call. An answer other than EINTR means that it is gone, or that the
        // surrounding program has reaped it already.
        while unsafe { libc::waitpid(self.0, &mut status, 0) } == -1 && super::report::errno() == libc::EINTR
        {
        }
    }
}

/// What the supervisor and the command read after the fork: plain numbers and pointers into memory that outlives it.
pub(super) struct Prepared {
    pub(super) path: *const c_char,
    pub(super) arguments: Vec<*const c_char>,
    pub(super) environment: Vec<*const c_char>,
    pub(super) directory: RawFd,
    pub(super) null: RawFd,
    pub(super) stdin: RawFd,
    pub(super) stdout: RawFd,
    pub(super) stderr: RawFd,
    pub(super) terminal: bool,
    pub(super) inherited: Vec<RawFd>,
    pub(super) lifeline: RawFd,
    pub(super) report: RawFd,
    /// Everything that stays open in the supervisor until the command has been started, sorted.
    pub(super) keep: Vec<RawFd>,
    pub(super) limits: Vec<(Resource, rlimit)>,
    pub(super) confinement: *const Confinement,
    pub(super) private: *const Private,
    pub(super) watch: Option<Watch>,
    pub(super) stack: Vec<u8>,
    /// Where this process keeps the environment that it was started with.
    pub(super) own_environment: Option<(usize, usize)>,
}

#[cfg(target_env = "gnu")]
pub(super) type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(super) type Resource = libc::c_int;

/// The vforked command runs on this until it executes its program.
const STACK_BYTES: usize = 64 * 1024;

/// Starts a supervisor that starts the program.
pub(crate) fn launch(call: &Launch<'_>) -> io::Result<Supervisor> {
    let mut prepared = prepare(call)?;
    let mut every = empty_set();
    let mut before = empty_set();
    // SAFETY: both sets are initialized and live through the calls. With every signal blocked, no handler of the
    // surrounding program runs in the child before it has dropped them.
    unsafe {
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
    }
    // SAFETY: the child only calls `supervisor::run`, which makes async-signal-safe calls on memory prepared above.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        supervisor::run(&mut prepared);
    }
    let failure = (pid == -1).then(io::Error::last_os_error);
    // SAFETY: `before` was filled in by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    failure.map_or(Ok(Supervisor(pid)), Err)
}

fn prepare(call: &Launch<'_>) -> io::Result<Prepared> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let inherited: Vec<RawFd> = call.inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let directory = call.directory.map_or(-1, |fd| fd.as_raw_fd());
    let streams = [call.null, call.stdin, call.stdout, call.stderr, call.lifeline, call.report];
    let streams = streams.map(|fd| fd.as_raw_fd());
    let mut keep: Vec<RawFd> = streams.into_iter().chain(inherited.iter().copied()).collect();
    keep.extend(call.directory.map(|fd| fd.as_raw_fd()));
    keep.extend(call.confinement.map(|confinement| confinement.ruleset.as_raw_fd()));
    keep.extend(call.private.map(AsRawFd::as_raw_fd));
    let watch = call.watched.then(|| Watch::of_tree(&call.limits, directory)).transpose()?;
    keep.extend(watch.as_ref().map(Watch::root));
    keep.sort_unstable();
    if keep.first().is_some_and(|lowest| *lowest < 3) {
        return Err(io::Error::other("a descriptor of the call stands where a standard stream belongs"));
    }
    Ok(Prepared {
        path: call.program.path.as_ptr(),
        arguments: pointers(&call.program.arguments),
        environment: pointers(&call.program.environment),
        directory,
        null: call.null.as_raw_fd(),
        stdin: call.stdin.as_raw_fd(),
        stdout: call.stdout.as_raw_fd(),
        stderr: call.stderr.as_raw_fd(),
        terminal: call.terminal,
        inherited,
        lifeline: call.lifeline.as_raw_fd(),
        report: call.report.as_raw_fd(),
        keep,
        limits: limits(call)?,
        confinement: call.confinement.map_or(ptr::null(), ptr::from_ref),
        private: call.private.map_or(ptr::null(), ptr::from_ref),
        watch,
        stack: vec![0; STACK_BYTES],
        own_environment: own_environment(),
    })
}

fn limits(call: &Launch<'_>) -> io::Result<Vec<(Resource, rlimit)>> {
    let file_bytes = match call.watched {
        true => call.limits.file_bytes.min(call.limits.disk_bytes),
        false => call.limits.file_bytes,
    };
    let mut wanted = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, call.limits.open_files),
        (libc::RLIMIT_FSIZE, file_bytes),
    ];
    if let Some(confinement) = call.confinement {
        wanted.push((libc::RLIMIT_NPROC, confinement.processes));
    }
    let mut limits: Vec<(Resource, rlimit)> = wanted
        .into_iter()
        .map(|(resource, limit)| Ok((resource, at_most(resource, limit)?)))
        .collect::<io::Result<_>>()?;
    if call.confinement.is_some() {
        // The signal at the lower limit has a name; one that is not heeded is followed by death.
        let most = at_most(libc::RLIMIT_CPU, call.limits.cpu_seconds.saturating_add(2))?;
        let soft = most.rlim_cur.min(call.limits.cpu_seconds);
        limits.push((libc::RLIMIT_CPU, rlimit { rlim_cur: soft, rlim_max: most.rlim_max }));
    }
    Ok(limits)
}

/// The wanted limit, or the one in force where that is lower: only a privileged process may raise it.
fn at_most(resource: Resource, wanted: u64) -> io::Result<rlimit> {
    let mut current = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `current` lives through the call.
    if unsafe { libc::getrlimit(resource, &mut current) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let limit = current.rlim_max.min(wanted);
    Ok(rlimit { rlim_cur: limit, rlim_max: limit })
}

pub(super) fn empty_set() -> libc::sigset_t {
    // SAFETY: a signal set is an array of integers, for which zero is a value; `sigemptyset` then makes it empty.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        set
    }
}

/// From where to where the kernel reads this process's environment for `/proc/PID/environ`.
fn own_environment() -> Option<(usize, usize)> {
    static PLACE: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let [_, _, start, end] = own_places()?;
        (start > 0 && start < end).then_some((start, end))
    })
}

/// From where to where this process's arguments and environment stand, one after the other.
pub(super) fn own_texts() -> Option<(usize, usize)> {
    let [arguments, behind, environment, end] = own_places()?;
    // As the kernel lays them out. Where somebody has moved them, it is not known what stands between.
    (0 < arguments && arguments < behind && behind == environment && environment <= end)
        .then_some((arguments, end))
}

/// Where the arguments begin and end, and where the environment does.
fn own_places() -> Option<[usize; 4]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything; what follows it are numbers, the first of them field 3.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(48 - 3);
    let mut next = || fields.next()?.parse::<usize>().ok();
    Some([next()?, next()?, next()?, next()?])
}
