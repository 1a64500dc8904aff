//! A member: the init of a fresh pid namespace and the command that it looks after.
//!
//! ```text
//! zygote ── clone3(mount, pid, ipc) ──► init (pid 1) ── clone ──► command
//!   private /proc, /tmp, …               waits, reaps, looks,       limits, Landlock, capabilities, filter,
//!                                        reports, ends all          then its program
//! ```
//!
//! Both run in the zygote's memory until the command executes its program: raw system calls only, no allocation, no `errno`,
//! and nothing is written outside their slot. The init has no capability any more when the command starts, and it cannot be
//! traced or read: the memory is marked as not to be looked at. When it ends, for whatever reason, the kernel ends everything
//! in its namespace. It ends when its command does, when Helve closes its socket, and when the zygote dies.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, IntoRawFd};

use libc::{c_char, c_int, c_ulong, pid_t};

use super::raw::{CloneArgs, clone3, syscall};
use super::slot::{PATH_BYTES, Slot};
use super::template::MOST_NESTED;
use super::warm;
use super::watch::Watch;
use super::world::World;
use crate::confine::landlock::Access;
use crate::native::wire::{Bound, Kind, Report, Request, Signal, Step};
use crate::sys::confine;

/// What could not be done, and the `errno`.
type Failure = (Step, c_int);

trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, c_int> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| (step, errno))
    }
}

impl<T> At<T> for Result<T, rustix::io::Errno> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| (step, errno.raw_os_error()))
    }
}

/// No descriptor.
const NONE: c_int = -1;

/// Every process of the pid namespace but the init, or every child.
const ALL: c_int = -1;

/// How long processes that outlive their command may take to end by themselves: `>(…)` writes its last line then.
const GRACE_MS: c_int = 50;

/// The life of an init. `slot` is the address of a [`Slot`].
pub(super) extern "C" fn init(slot: usize) -> c_int {
    let slot = slot as *mut Slot;
    // SAFETY: the zygote hands over the address of a slot that is this member's alone, and the world is never changed.
    let (member, world) = unsafe { (&mut *slot, &*(*slot).world) };
    let report = match live(member, world) {
        Ok(report) => report,
        Err((step, errno)) => not_started(step, errno),
    };
    tell(member.talk, &report);
    0
}

fn live(member: &mut Slot, world: &World) -> Result<Report, Failure> {
    // SAFETY: plain numbers, and a name that ends with NUL.
    unsafe {
        syscall!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL).at(Step::Process)?;
        let _ = syscall!(libc::SYS_prctl, libc::PR_SET_NAME, c"helve-init".as_ptr());
        syscall!(libc::SYS_setsid).at(Step::Process)?;
    }
    keep_only(&member.keep)?;
    let private = mount_private(world)?;
    // SAFETY: plain numbers; the path ends with NUL.
    unsafe { syscall!(libc::SYS_chdir, world.template.workspace_path.as_ptr()) }.at(Step::Directory)?;
    member.ruleset = ruleset(world, terminal(member))?;
    // SAFETY: plain numbers.
    member.clock = unsafe {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        syscall!(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags).at(Step::Process)? as c_int
    };
    confine::drop_capabilities().at(Step::Capabilities)?;
    let children = child_signals()?;
    let mut init = Init { talk: member.talk, clock: member.clock, children, private, command: 0 };
    init.command = start(member)?;
    if member.kind == Kind::Warm as u32 {
        let stop = member.stop.ok_or((Step::Process, libc::ENOSYS))?;
        let standing = warm::run_to_stop(init.command, &stop).at(Step::Process)?;
        close_streams(member);
        tell_ready(member.talk);
        let text = init.wait_for_text(member)?;
        let Some(length) = text else { return Ok(abandoned()) };
        let text =
            member.request.get(size_of::<Request>()..size_of::<Request>() + length).unwrap_or_default();
        wind_up(member.clock);
        warm::release(init.command, &standing, text).at(Step::Program)?;
    } else {
        close_streams(member);
        if member.kind == Kind::Parked as u32 {
            tell_ready(member.talk);
        }
    }
    Ok(init.look_after(member, world))
}

fn not_started(step: Step, errno: c_int) -> Report {
    Report { tag: Report::NOT_STARTED, status: errno, step: step as u32, bound: 0, left_running: 0 }
}

/// What is reported to nobody: Helve let the member go.
fn abandoned() -> Report {
    Report { tag: Report::ENDED, status: libc::SIGKILL, step: 0, bound: 0, left_running: 0 }
}

/// Closes everything that is not in the sorted list.
fn keep_only(keep: &[c_int]) -> Result<(), Failure> {
    let mut first = 3;
    for fd in keep.iter().take_while(|fd| **fd != -1) {
        if first < *fd {
            close_range(first, *fd - 1)?;
        }
        first = fd.saturating_add(1);
    }
    close_range(first, c_int::MAX)
}

fn close_range(first: c_int, last: c_int) -> Result<(), Failure> {
    // SAFETY: descriptors of this process, whose table is its own, that nothing in it uses.
    unsafe { syscall!(libc::SYS_close_range, first, last, 0) }.at(Step::Streams).map(drop)
}

/// Mounts this member's own `/proc`, private directories and terminals. A descriptor on the private file system.
fn mount_private(world: &World) -> Result<c_int, Failure> {
    let template = &world.template;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount(c"proc", c"/proc", c"proc", flags | libc::MS_NOEXEC, c"").at(Step::Proc)?;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount(c"devpts", c"/dev/pts", c"devpts", libc::MS_NOSUID | libc::MS_NOEXEC, options).at(Step::Private)?;
    let Some(first) = template.private.first() else { return Ok(-1) };
    // What lies below a private directory is taken up before that covers it, and put back on top.
    let mut nested = [-1; MOST_NESTED];
    for ((place, _, _), fd) in template.nested.iter().zip(&mut nested) {
        *fd = open_tree(libc::AT_FDCWD, place, libc::AT_RECURSIVE).at(Step::Private)?;
    }
    mount(c"tmpfs", &first.place, c"tmpfs", flags, &world.private_options).at(Step::Private)?;
    let root = open_path(&first.place).at(Step::Private)?;
    for private in &template.private {
        let mode = if private.open { 0o1777 } else { 0o700 };
        make_directory(root, &private.name, mode).at(Step::Private)?;
    }
    for inner in &template.inner {
        make_directory(root, inner, 0o700).at(Step::Private)?;
    }
    for (_, inside, is_directory) in &template.nested {
        let made = if *is_directory { make_directory(root, inside, 0o755) } else { make_file(root, inside) };
        made.at(Step::Private)?;
    }
    for private in &template.private {
        let tree = open_tree(root, &private.name, 0).at(Step::Private)?;
        move_mount(tree, &private.place).at(Step::Private)?;
        close(tree);
    }
    for ((place, _, _), fd) in template.nested.iter().zip(nested) {
        move_mount(fd, place).at(Step::Private)?;
        close(fd);
    }
    Ok(root)
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: c_ulong, options: &CStr) -> Result<usize, c_int> {
    // SAFETY: all texts end with NUL and live through the call.
    unsafe {
        syscall!(libc::SYS_mount, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr())
    }
}

fn open_tree(at: c_int, path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    const CLONE: c_int = 1;
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe { syscall!(libc::SYS_open_tree, at, path.as_ptr(), CLONE | libc::O_CLOEXEC | flags) };
    fd.map(|fd| fd as c_int)
}

fn move_mount(tree: c_int, target: &CStr) -> Result<usize, c_int> {
    const FROM_EMPTY_PATH: c_int = 4;
    // SAFETY: both texts end with NUL and live through the call.
    unsafe {
        let (empty, at) = (c"".as_ptr(), libc::AT_FDCWD);
        syscall!(libc::SYS_move_mount, tree, empty, at, target.as_ptr(), FROM_EMPTY_PATH)
    }
}

fn open_path(path: &CStr) -> Result<c_int, c_int> {
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe {
        syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC, 0)
    };
    fd.map(|fd| fd as c_int)
}

fn make_directory(at: c_int, path: &CStr, mode: c_int) -> Result<(), c_int> {
    // SAFETY: the path ends with NUL and lives through the call.
    match unsafe { syscall!(libc::SYS_mkdirat, at, path.as_ptr(), mode) } {
        Ok(_) | Err(libc::EEXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn make_file(at: c_int, path: &CStr) -> Result<(), c_int> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe { syscall!(libc::SYS_openat, at, path.as_ptr(), flags, 0o644) }?;
    close(fd as c_int);
    Ok(())
}

fn close(fd: c_int) {
    // SAFETY: a descriptor of this process that is not used afterwards.
    let _ = unsafe { syscall!(libc::SYS_close, fd) };
}

/// The terminal that a command gets, if that is known before it starts.
fn terminal(member: &Slot) -> Option<c_int> {
    if member.kind != Kind::Direct as u32 {
        return None;
    }
    // SAFETY: the zygote put a whole request there.
    let request = unsafe { member.request.as_ptr().cast::<Request>().read_unaligned() };
    (request.terminal == 1).then_some(member.streams[0])
}

/// Everything may be read and executed; the workspace and private directories may be written; so may the terminal, also
/// when it is opened by a name such as `/dev/stderr`.
fn ruleset(world: &World, terminal: Option<c_int>) -> Result<c_int, Failure> {
    let (template, handled) = (&world.template, &world.handled);
    let ruleset = confine::Ruleset::new(*handled).at(Step::Landlock)?;
    let grant = |place: c_int, access: Access, is_directory: bool| {
        ruleset.grant(place, handled.rights(access, is_directory)).at(Step::Landlock)
    };
    grant(template.root.as_raw_fd(), Access::Use, true)?;
    grant(template.devices.as_raw_fd(), Access::Device, true)?;
    if let Some(terminal) = terminal {
        grant(terminal, Access::Device, false)?;
    }
    for (place, is_directory) in &template.writable {
        grant(place.as_raw_fd(), Access::Change, *is_directory)?;
    }
    for private in &template.private {
        let place = open_path(&private.place).at(Step::Landlock)?;
        grant(place, Access::Change, true)?;
        close(place);
    }
    Ok(ruleset.into_fd().into_raw_fd())
}

/// A descriptor that can be read when a child has changed; the signal is blocked, as all are since the zygote's start.
fn child_signals() -> Result<c_int, Failure> {
    let set: u64 = 1 << (libc::SIGCHLD - 1);
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the kernel's signal set has eight bytes, which live through the call.
    let fd = unsafe { syscall!(libc::SYS_signalfd4, NONE, &raw const set, size_of_val(&set), flags) };
    fd.map(|fd| fd as c_int).at(Step::Process)
}

/// Starts the command's process.
fn start(member: &mut Slot) -> Result<pid_t, Failure> {
    let slot = &raw mut *member;
    let (stack, stack_size) = Slot::child_stack(slot);
    let arguments = CloneArgs {
        flags: libc::CLONE_VM as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack,
        stack_size,
        ..CloneArgs::default()
    };
    // SAFETY: the stack belongs to the slot and to nobody else; `command` keeps to its slot.
    unsafe { clone3(&arguments, command, slot as usize) }.at(Step::Process)
}

/// The init has no use for the command's streams, and their end shows only when nobody holds them. The slot still names
/// them for the command, whose descriptors are its own.
fn close_streams(member: &Slot) {
    for stream in member.streams.iter().filter(|stream| **stream != -1) {
        close(*stream);
    }
    close(member.ruleset);
}

struct Init {
    talk: c_int,
    clock: c_int,
    children: c_int,
    private: c_int,
    command: pid_t,
}

impl Init {
    /// Waits for the text of a warm shell: its length in the slot's request. None if Helve let the member go, or the shell
    /// has died.
    fn wait_for_text(&self, member: &mut Slot) -> Result<Option<usize>, Failure> {
        let mut watched = [
            libc::pollfd { fd: self.talk, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 },
        ];
        // The stops on the way here were told as signals too.
        drain(self.children);
        poll(&mut watched, -1);
        if watched[1].revents != 0 {
            return Err((Step::Process, libc::ECHILD));
        }
        receive(self.talk, &mut member.request, &mut [-1; 3])
            .map(|request| request.map(|request| (request.length as usize).saturating_sub(1)))
    }

    /// Waits for the command's end, and looks at what it takes meanwhile.
    fn look_after(&self, member: &Slot, world: &World) -> Report {
        let mut watch: Option<Watch> = None;
        let mut bound = 0;
        let mut watched = [
            // Only its closing counts as long as what comes in is for the command itself.
            libc::pollfd { fd: self.talk, events: 0, revents: 0 },
            libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: self.clock, events: libc::POLLIN, revents: 0 },
        ];
        let status = loop {
            let pause = watch.as_ref().map_or(-1, Watch::next_ms);
            poll(&mut watched, pause);
            if watched[0].revents != 0 && !self.pass_signal_on() {
                return abandoned();
            }
            if watched[1].revents != 0 {
                drain(self.children);
                if let Some(status) = self.reap() {
                    break status;
                }
            }
            if watched[2].revents != 0 && watch.is_none() {
                // From here on the pauses are the watch's own.
                watched[2].fd = -1;
                // The command has its request.
                watched[0].events = libc::POLLIN;
                let workspace = world.template.workspace.as_raw_fd();
                watch = match Watch::new(&world.bounds, workspace, self.private) {
                    Ok(watch) => Some(watch),
                    // A command that cannot be looked after does not go on; it ends with this process.
                    Err(errno) => return not_started(Step::Limits, errno),
                };
            }
            // Whatever it was that woke this process: a command could wake it all the time.
            if let Some(hit) = watch.as_mut().and_then(Watch::tick) {
                bound = hit as u32;
                // SAFETY: plain numbers: everything in this pid namespace but this process itself.
                let _ = unsafe { syscall!(libc::SYS_kill, ALL, libc::SIGKILL) };
                watch = None;
            }
        };
        if bound == 0 && libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGXCPU {
            bound = Bound::Cpu as u32;
        }
        let left_running = if bound == 0 { self.end_rest() } else { 0 };
        let (step, failure) = member.failure;
        if step != 0 {
            return Report { tag: Report::NOT_STARTED, status: failure, step, bound: 0, left_running: 0 };
        }
        Report { tag: Report::ENDED, status, step: 0, bound, left_running }
    }

    /// Takes one signal from the socket and sends it to the command. Whether Helve still holds the other end.
    fn pass_signal_on(&self) -> bool {
        let mut record = Signal { tag: 0, number: 0 };
        let size = size_of::<Signal>();
        // SAFETY: the record lives through the call and its size is given; any bytes are a value of it.
        let count = unsafe {
            let flags = libc::MSG_DONTWAIT;
            syscall!(libc::SYS_recvfrom, self.talk, &raw mut record, size, flags, 0, 0)
        };
        match count {
            Ok(count) if count == size && record.tag == Signal::TAG => {
                // What a terminal sends reaches every process in the foreground.
                let group = matches!(record.number, libc::SIGINT | libc::SIGQUIT | libc::SIGHUP);
                let target = if group { -self.command } else { self.command };
                // SAFETY: plain numbers. The command is not reaped yet, so its number is still its own.
                let _ = unsafe { syscall!(libc::SYS_kill, target, record.number) };
                true
            }
            Ok(0) => false,
            Ok(_) | Err(libc::EAGAIN | libc::EINTR) => true,
            Err(_) => false,
        }
    }

    /// Reaps what has ended. The command's status, if it is among that.
    fn reap(&self) -> Option<c_int> {
        let mut found = None;
        while let Some((pid, status)) = wait(libc::WNOHANG) {
            if pid == self.command {
                found = Some(status);
            }
        }
        found
    }

    /// Ends what is still running. How many processes that were.
    fn end_rest(&self) -> u64 {
        // SAFETY: plain numbers: signal 0 only asks whether there is another process.
        if unsafe { syscall!(libc::SYS_kill, ALL, 0) }.is_err() {
            return 0;
        }
        let mut left = GRACE_MS;
        while left > 0 {
            let mut watched = [libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 }];
            let step = 5;
            poll(&mut watched, step);
            drain(self.children);
            self.reap();
            // SAFETY: as above.
            if unsafe { syscall!(libc::SYS_kill, ALL, 0) }.is_err() {
                return 0;
            }
            left -= step;
        }
        // SAFETY: plain numbers: everything in this pid namespace but this process itself.
        let _ = unsafe { syscall!(libc::SYS_kill, ALL, libc::SIGKILL) };
        let mut ended = 0;
        while wait(0).is_some() {
            ended += 1;
        }
        ended
    }
}

fn poll(watched: &mut [libc::pollfd], timeout_ms: c_int) {
    let seconds = i64::from(timeout_ms / 1000);
    let timeout = libc::timespec { tv_sec: seconds, tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000 };
    let timeout = if timeout_ms < 0 { std::ptr::null() } else { &raw const timeout };
    for entry in &mut *watched {
        entry.revents = 0;
    }
    // SAFETY: the list and the time live through the call and the list's length is given.
    let _ = unsafe { syscall!(libc::SYS_ppoll, watched.as_mut_ptr(), watched.len(), timeout, 0, 8) };
}

fn drain(signals: c_int) {
    let mut buffer = [0_u8; 512];
    // SAFETY: the buffer lives through the call and its length is given; the descriptor never blocks.
    while unsafe { syscall!(libc::SYS_read, signals, buffer.as_mut_ptr(), buffer.len()) }.is_ok_and(|n| n > 0)
    {
    }
}

/// A child that has ended, and its status.
fn wait(flags: c_int) -> Option<(pid_t, c_int)> {
    let mut status: c_int = 0;
    loop {
        // SAFETY: `status` lives through the call.
        let answer = unsafe { syscall!(libc::SYS_wait4, ALL, &raw mut status, flags | libc::__WALL, 0) };
        match answer {
            Ok(0) => return None,
            Ok(pid) => return Some((pid as pid_t, status)),
            Err(libc::EINTR) => {}
            Err(_) => return None,
        }
    }
}

fn tell_ready(talk: c_int) {
    tell(talk, &Report { tag: Report::READY, status: 0, step: 0, bound: 0, left_running: 0 });
}

fn tell(talk: c_int, report: &Report) {
    // SAFETY: the record lives through the call and its size is given. If nobody listens there is nobody to tell.
    let _ = unsafe {
        let flags = libc::MSG_NOSIGNAL;
        syscall!(libc::SYS_sendto, talk, &raw const *report, size_of::<Report>(), flags, 0, 0)
    };
}

/// Has the clock wake the init, which then looks after the command.
fn wind_up(clock: c_int) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let setting = libc::itimerspec { it_interval: none, it_value: pause };
    // SAFETY: the setting lives through the call.
    let _ = unsafe { syscall!(libc::SYS_timerfd_settime, clock, 0, &raw const setting, 0) };
}

/// Receives a request into `buffer` and its descriptors into `streams`. None if the other side is gone.
fn receive(talk: c_int, buffer: &mut [u8], streams: &mut [c_int; 3]) -> Result<Option<Request>, Failure> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; 8];
    // SAFETY: all zero is a valid empty message header; the pointers are set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let count = loop {
        // SAFETY: header, piece, buffer and control space live through the call.
        match unsafe { syscall!(libc::SYS_recvmsg, talk, &raw mut message, libc::MSG_CMSG_CLOEXEC) } {
            Err(libc::EINTR) => {}
            answer => break answer.at(Step::Order)?,
        }
    };
    if count == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel filled the control space with whole records, which the macros walk; what they yield lies inside.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&message);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(first).cast::<c_int>();
            for (index, stream) in streams.iter_mut().enumerate().take(bytes / size_of::<c_int>()) {
                *stream = data.add(index).read_unaligned();
            }
        }
    }
    if count < size_of::<Request>() {
        return Err((Step::Order, libc::EBADMSG));
    }
    // SAFETY: the buffer holds at least a whole record of plain numbers.
    let request = unsafe { buffer.as_ptr().cast::<Request>().read_unaligned() };
    let whole = request.length as usize == count - size_of::<Request>();
    if request.tag != Request::TAG || request.in_file != 0 || !whole {
        return Err((Step::Order, libc::EBADMSG));
    }
    Ok(Some(request))
}

/// The command's process until it executes its program. `slot` is the address of a [`Slot`].
pub(super) extern "C" fn command(slot: usize) -> c_int {
    let slot = slot as *mut Slot;
    // SAFETY: the init has made this process for its slot, and does not touch the fields used here while it lives.
    let (member, world) = unsafe { (&mut *slot, &*(*slot).world) };
    let (step, errno) = become_program(member, world);
    member.failure = (step as u32, errno);
    127
}

/// Becomes the program. Returns only what failed.
fn become_program(member: &mut Slot, world: &World) -> Failure {
    match try_to_become_program(member, world) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

enum Never {}

fn try_to_become_program(member: &mut Slot, world: &World) -> Result<Never, Failure> {
    let warm = member.kind == Kind::Warm as u32;
    // SAFETY: plain numbers. The init is the parent: when it dies the kernel ends this process anyway.
    unsafe {
        syscall!(libc::SYS_setsid).at(Step::Process)?;
        let _ = syscall!(libc::SYS_umask, world.umask);
    }
    if warm {
        warm::ask().at(Step::Process)?;
    }
    for (resource, limit) in &world.limits {
        // SAFETY: the limit lives through the call.
        unsafe { syscall!(libc::SYS_prlimit64, 0, *resource, &raw const *limit, 0) }.at(Step::Limits)?;
    }
    // SAFETY: plain numbers; the ruleset was made by the init for this member.
    unsafe { syscall!(libc::SYS_landlock_restrict_self, member.ruleset, 0) }.at(Step::Landlock)?;
    confine::install(&world.filter).at(Step::Seccomp)?;
    if warm {
        connect(member, world, false)?;
        close_range(3, c_int::MAX)?;
        unblock_signals();
        return Err(execute(&world.shell, world.shell_arguments.as_ptr(), world));
    }
    let request = if member.kind == Kind::Parked as u32 {
        let mut streams = [-1; 3];
        let Some(request) = receive(member.talk, &mut member.request, &mut streams)? else {
            return Err((Step::Order, libc::EPIPE));
        };
        for (to, from) in member.streams.iter_mut().zip(streams) {
            if from != -1 {
                *to = from;
            }
        }
        request
    } else {
        // SAFETY: the zygote put a whole request there.
        unsafe { member.request.as_ptr().cast::<Request>().read_unaligned() }
    };
    wind_up(member.clock);
    connect(member, world, request.terminal == 1)?;
    let (bytes, arguments) = match member.long {
        // SAFETY: the zygote mapped so many bytes, and room for all pointers.
        Some(long) => unsafe {
            let bytes = std::slice::from_raw_parts(long.bytes, long.length);
            (bytes, std::slice::from_raw_parts_mut(long.arguments, request.texts as usize + 1))
        },
        None => {
            let end = size_of::<Request>() + request.length as usize;
            let bytes = member.request.get(size_of::<Request>()..end).ok_or((Step::Order, libc::EBADMSG))?;
            (bytes, member.arguments.as_mut_slice())
        }
    };
    let (directory, program) = split(bytes, arguments).ok_or((Step::Order, libc::EBADMSG))?;
    if !directory.is_empty() {
        // SAFETY: the path ends with NUL and lives through the call.
        unsafe { syscall!(libc::SYS_chdir, directory.as_ptr()) }.at(Step::Directory)?;
    }
    let arguments = arguments.as_ptr();
    close_range(3, c_int::MAX)?;
    unblock_signals();
    if program.to_bytes().contains(&b'/') {
        return Err(execute(program, arguments, world));
    }
    Err(look_up(program, arguments, &mut member.candidate, world))
}

/// Reads the directory and the program, and points at the arguments.
fn split<'a>(bytes: &'a [u8], arguments: &mut [*const c_char]) -> Option<(&'a CStr, &'a CStr)> {
    let (directory, rest) = text(bytes)?;
    let (program, mut rest) = text(rest)?;
    let mut slots = arguments.iter_mut();
    while !rest.is_empty() {
        let (argument, after) = text(rest)?;
        *slots.next()? = argument.as_ptr();
        rest = after;
    }
    *slots.next()? = std::ptr::null();
    Some((directory, program))
}

fn text(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?;
    Some((text, bytes.get(text.count_bytes() + 1..)?))
}

/// Puts the streams in their places.
fn connect(member: &Slot, world: &World, terminal: bool) -> Result<(), Failure> {
    for (target, source) in member.streams.iter().enumerate() {
        let source = if *source == -1 { world.null.as_raw_fd() } else { *source };
        // SAFETY: plain numbers; what stood at the standard streams is not used.
        unsafe { syscall!(libc::SYS_dup3, source, target, 0) }.at(Step::Streams)?;
    }
    if terminal {
        // SAFETY: plain numbers; this process leads a session without a terminal.
        unsafe { syscall!(libc::SYS_ioctl, 0, libc::TIOCSCTTY, 0) }.at(Step::Streams)?;
    }
    Ok(())
}

fn unblock_signals() {
    let none: u64 = 0;
    // SAFETY: the kernel's signal set has eight bytes, which live through the call.
    let _ = unsafe {
        syscall!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const none, 0, size_of_val(&none))
    };
}

/// Executes a program. Returns only the failure.
fn execute(program: &CStr, arguments: *const *const c_char, world: &World) -> Failure {
    // SAFETY: the texts end with NUL, the lists with a null pointer, and all live until the call has succeeded.
    let answer =
        unsafe { syscall!(libc::SYS_execve, program.as_ptr(), arguments, world.environment.as_ptr()) };
    (Step::Program, answer.err().unwrap_or(libc::EIO))
}

/// Executes the first program of that name in the path. Returns only the failure.
fn look_up(
    name: &CStr,
    arguments: *const *const c_char,
    candidate: &mut [u8; PATH_BYTES],
    world: &World,
) -> Failure {
    let mut failure = (Step::Program, libc::ENOENT);
    for folder in world.path.to_bytes().split(|byte| *byte == b':') {
        let name = name.to_bytes_with_nul();
        let length = folder.len() + 1 + name.len();
        if !folder.starts_with(b"/") || length > candidate.len() {
            continue;
        }
        let parts = folder.iter().chain(b"/").chain(name);
        for (to, from) in candidate.iter_mut().zip(parts) {
            *to = *from;
        }
        let Ok(path) = CStr::from_bytes_until_nul(candidate) else { continue };
        match execute(path, arguments, world) {
            (_, libc::ENOENT | libc::ENOTDIR) => {}
            (step, libc::EACCES) => failure = (step, libc::EACCES),
            found => return found,
        }
    }
    failure
}
