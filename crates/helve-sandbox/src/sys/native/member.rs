//! A member: the init of a fresh pid namespace and the command that it looks after.
//!
//! ```text
//! zygote ── clone3(mount, pid) ──► init (pid 1) ── clone3(control group) ──► command
//!                                        private /tmp, …            session, limits, filter      (at the same time)
//!                                        own /proc, terminals       workspace, Landlock, streams (at the same time)
//!                                        waits, reaps, looks,       its program
//!                                        reports, ends all
//! ```
//!
//! Both run in the zygote's memory until the command executes its program: raw system calls only, no allocation, no `errno`,
//! and nothing is written outside their slot. Where the shell is loaded, the command is a copy of that instead (`mould`), and
//! never in this memory. The init has no capability any more when the command starts, and it cannot be
//! traced or read: the memory is marked as not to be looked at. When it ends, for whatever reason, the kernel ends everything
//! in its namespace. It ends when its command does, when Helve closes its socket, and when the zygote dies.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use libc::{c_int, pid_t};

use super::command::{command, ruleset, text};
use super::descriptors::{close, keep_only};
use super::failure::{At, Failure};
use super::mould;
use super::private::{mount_private, mount_system};
use super::raw::{CLONE_INTO_CGROUP, CloneArgs, clone3, syscall};
use super::slot::{Given, Own, Slot, Stage};
use super::talk::{receive, tell, tell_ready, wind_up};
use super::warm;
use super::watch::Watch;
use super::witness::Ear;
use super::world::World;
use crate::native::wire::{Bound, Kind, Report, Request, Signal, Step};
use crate::sys::confine;

/// No descriptor.
const NONE: c_int = -1;

/// Every process of the pid namespace but the init, or every child.
const ALL: c_int = -1;

/// How long processes that outlive their command may take to end by themselves: `>(…)` writes its last line then.
const GRACE_MS: c_int = 50;

/// The life of an init. `slot` is the address of a [`Slot`].
pub(super) extern "C" fn init(slot: usize) -> c_int {
    let slot = slot as *mut Slot;
    // SAFETY: the zygote hands over the address of a slot that it has given to this member, and the world is never changed.
    let (member, world) = unsafe {
        let given = Slot::given(slot);
        (given, &*given.world)
    };
    let report = match live(slot, member, world) {
        Ok(report) => report,
        Err((step, errno)) => not_started(step, errno),
    };
    tell(member.talk, &report);
    0
}

fn live(slot: *mut Slot, member: &Given, world: &World) -> Result<Report, Failure> {
    // SAFETY: plain numbers, and a name that ends with NUL.
    unsafe {
        syscall!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL).at(Step::Process)?;
        let _ = syscall!(libc::SYS_prctl, libc::PR_SET_NAME, c"helve-init".as_ptr());
    }
    keep_only(&member.keep)?;
    // SAFETY: plain numbers.
    let clock = unsafe {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        syscall!(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags).at(Step::Process)? as c_int
    };
    // SAFETY: the slot outlives its processes, and the number is atomic.
    unsafe { (*slot).clock.store(clock, Ordering::Release) };
    let warm = member.kind == Kind::Warm as u32;
    // Its process gets itself ready while this one mounts: both take about as long. A shell to be kept warm is not waited
    // for, and it may ask only a parent to follow it that has no fewer capabilities.
    // Nor is one that is loaded and only has to be copied: that takes less time than this.
    let copied = member.mould.and_then(|mould| Some((mould, text_for_copy(slot)?)));
    let early = if warm || copied.is_some() { None } else { Some(start(slot, member)?) };
    let private = mount_private(world, member.kit)?;
    Slot::reach(slot, Stage::Private);
    mount_system(member.kit)?;
    confine::drop_capabilities().at(Step::Capabilities)?;
    Slot::reach(slot, Stage::All);
    let copy = match copied {
        Some(copied) => start_copy(slot, member, world, copied)?,
        None => None,
    };
    if copy.is_some() {
        wind_up(clock);
    }
    let command = early.or(copy).map_or_else(|| start(slot, member), Ok)?;
    // The rest is done while the command's process becomes its program. What fails here ends it.
    let children = child_signals()?;
    let workspace = world.template.workspace.as_raw_fd();
    let mut watch = Watch::new(&world.bounds, workspace, private, member.processor).at(Step::Limits)?;
    // Nothing is closed before this: until the command says where it is asked about, its descriptors are these.
    let ear = Ear::new(slot, world, (command, member.talk), private);
    let mut init = Init { talk: member.talk, clock, children, command, ear };
    if warm {
        let stop = member.stop.ok_or((Step::Process, libc::ENOSYS))?;
        let command = init.command;
        let standing = warm::run_to_stop(command, &stop, &mut || init.idle()).at(Step::Process)?;
        close_streams(member);
        tell_ready(member.talk);
        // SAFETY: the command has executed its shell, so the working memory is this process's.
        let own = unsafe { Slot::own(slot) };
        let Some(length) = init.wait_for_text(&mut own.request)? else { return Ok(abandoned()) };
        let text = own.request.get(size_of::<Request>()..size_of::<Request>() + length).unwrap_or_default();
        if let Some(ear) = &mut init.ear {
            // How the shell started is not the call's.
            ear.forget();
        }
        wind_up(clock);
        warm::release(init.command, &standing, text).at(Step::Program)?;
    } else {
        close_streams(member);
        if member.kind == Kind::Parked as u32 {
            tell_ready(member.talk);
        }
    }
    let report = init.look_after(slot, &mut watch);
    // The kernel closes it when the report is on its way.
    std::mem::forget(watch);
    Ok(report)
}

/// The text that a copy of the loaded shell is to run.
fn text_for_copy<'a>(slot: *const Slot) -> Option<&'a [u8]> {
    // SAFETY: there is no command's process yet, so the working memory is this process's. The zygote put a whole request
    // there, and nobody changes it.
    let own: &'a Own = unsafe { Slot::own(slot) };
    let mut rest = own.request.get(size_of::<Request>()..)?;
    // Directory, program, its name, and what says that a text follows.
    for _ in 0..4 {
        (_, rest) = text(rest)?;
    }
    text(rest).map(|(text, _)| text.to_bytes())
}

/// Gets a copy of the loaded shell as the command, once everything stands. None if there is none.
fn start_copy(
    slot: *const Slot,
    member: &Given,
    world: &World,
    (mould, text): (mould::Given, &[u8]),
) -> Result<Option<pid_t>, Failure> {
    let null = world.null.as_raw_fd();
    let listener = match member.kit {
        Some(kit) => mould.copy(member, text, kit.rules, null),
        None => mould.copy(member, text, ruleset(world, None)?.as_raw_fd(), null),
    }
    .at(Step::Process)?;
    let Some(listener) = listener else {
        Slot::got_no_copy(slot);
        return Ok(None);
    };
    if member.group != NONE {
        close(member.group);
    }
    Slot::hand(slot, listener);
    Ok(Some(mould::COPY))
}

fn not_started(step: Step, errno: c_int) -> Report {
    Report { tag: Report::NOT_STARTED, status: errno, step: step as u32, bound: 0, left_running: 0 }
}

/// What is reported to nobody: Helve let the member go.
fn abandoned() -> Report {
    Report { tag: Report::ENDED, status: libc::SIGKILL, step: 0, bound: 0, left_running: 0 }
}

/// A descriptor that can be read when a child has changed; the signal is blocked, as all are since the zygote's start.
fn child_signals() -> Result<c_int, Failure> {
    let set: u64 = 1 << (libc::SIGCHLD - 1);
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the kernel's signal set has eight bytes, which live through the call.
    let fd = unsafe { syscall!(libc::SYS_signalfd4, NONE, &raw const set, size_of_val(&set), flags) };
    fd.map(|fd| fd as c_int).at(Step::Process)
}

/// Starts the command's process, in its control group if it has one.
fn start(slot: *mut Slot, member: &Given) -> Result<pid_t, Failure> {
    let (stack, stack_size) = Slot::child_stack(slot);
    let born_elsewhere = member.group != NONE;
    let group = if born_elsewhere { CLONE_INTO_CGROUP } else { 0 };
    // Where the command is seen, both have one table of files until it has said how.
    // SAFETY: the world is never changed.
    let seen = unsafe { &*member.world }.witness.is_some();
    let files = if seen { libc::CLONE_FILES } else { 0 };
    let arguments = CloneArgs {
        flags: (libc::CLONE_VM | files) as u64 | group,
        cgroup: if born_elsewhere { member.group as u64 } else { 0 },
        exit_signal: libc::SIGCHLD as u64,
        stack,
        stack_size,
        ..CloneArgs::default()
    };
    // SAFETY: the stack belongs to the slot and to nobody else; `command` keeps to its slot.
    let command = unsafe { clone3(&arguments, command, slot as usize) };
    if born_elsewhere {
        close(member.group);
    }
    command.map_err(|errno| match errno {
        // There is no room for another process, whatever group it is in.
        libc::EAGAIN | libc::ENOMEM => (Step::Process, errno),
        _ if born_elsewhere => (Step::Group, errno),
        _ => (Step::Process, errno),
    })
}

/// The init has no use for the command's streams, and their end shows only when nobody holds them. The slot still names
/// them for the command, whose descriptors are its own.
fn close_streams(member: &Given) {
    for stream in member.streams.iter().filter(|stream| **stream != -1) {
        close(*stream);
    }
}

struct Init<'a> {
    talk: c_int,
    clock: c_int,
    children: c_int,
    command: pid_t,
    /// Where it is asked about the command's calls.
    ear: Option<Ear<'a>>,
}

impl Init<'_> {
    /// What is polled for questions about the command's calls.
    fn questions(&self) -> libc::pollfd {
        let fd = self.ear.as_ref().map_or(NONE, Ear::descriptor);
        libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
    }

    /// Answers a question, if that descriptor says that there is one, and polls for the next.
    fn answer(&mut self, questions: &mut libc::pollfd) {
        if let Some(ear) = self.ear.as_mut().filter(|_| questions.revents != 0) {
            ear.serve(questions.revents);
            questions.fd = ear.descriptor();
        }
    }

    /// Waits until something may have happened to a child, and answers its questions meanwhile. False if it has none.
    fn idle(&mut self) -> bool {
        let mut watched =
            [self.questions(), libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 }];
        if watched[0].fd == NONE || poll(&mut watched, -1).is_err() {
            return false;
        }
        self.answer(&mut watched[0]);
        if watched[1].revents != 0 {
            drain(self.children);
        }
        true
    }

    /// Waits for the text of a warm shell: its length in the slot's request. None if Helve let the member go, or the shell
    /// has died.
    fn wait_for_text(&mut self, request: &mut [u8]) -> Result<Option<usize>, Failure> {
        let mut watched = [
            libc::pollfd { fd: self.talk, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 },
            // The shell stands still, but it may have started something.
            self.questions(),
        ];
        // The stops on the way here were told as signals too.
        drain(self.children);
        while watched[0].revents == 0 {
            poll(&mut watched, -1).at(Step::Process)?;
            if watched[1].revents != 0 {
                return Err((Step::Process, libc::ECHILD));
            }
            self.answer(&mut watched[2]);
        }
        receive(self.talk, request, &mut [-1; 3])
            .map(|request| request.map(|request| (request.length as usize).saturating_sub(1)))
    }

    /// Waits for the command's end, and looks at what it takes meanwhile.
    fn look_after(&mut self, slot: *const Slot, watch: &mut Watch) -> Report {
        let mut looks = false;
        let mut bound = 0;
        let mut watched = [
            // Only its closing counts as long as what comes in is for the command itself.
            libc::pollfd { fd: self.talk, events: 0, revents: 0 },
            libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: self.clock, events: libc::POLLIN, revents: 0 },
            self.questions(),
        ];
        let (status, alone) = loop {
            let pause = if looks { watch.next_ms() } else { -1 };
            if let Err(errno) = poll(&mut watched, pause) {
                self.end_all();
                return not_started(Step::Process, errno);
            }
            if watched[0].revents != 0 && !self.pass_signal_on() {
                return abandoned();
            }
            self.answer(&mut watched[3]);
            if let Some(ear) = self.ear.as_mut().filter(|_| looks) {
                // It runs long enough to be ended from outside, and then nothing more is said.
                ear.tell_new();
            }
            if watched[1].revents != 0 {
                if let (Some(status), alone) = self.reap() {
                    break (status, alone);
                }
                // Whoever ended before this is told again; whoever ended since is found now.
                drain(self.children);
                if let (Some(status), alone) = self.reap() {
                    break (status, alone);
                }
            }
            if watched[2].revents != 0 {
                // From here on the pauses are the watch's own.
                watched[2].fd = -1;
                // The command has its request.
                watched[0].events = libc::POLLIN;
                watch.start();
                looks = true;
            }
            // Whatever it was that woke this process: a command could wake it all the time.
            if let Some(hit) = looks.then(|| watch.tick()).flatten() {
                bound = hit as u32;
                // SAFETY: plain numbers: everything in this pid namespace but this process itself.
                let _ = unsafe { syscall!(libc::SYS_kill, ALL, libc::SIGKILL) };
                looks = false;
            }
        };
        if bound == 0 && libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGXCPU {
            bound = Bound::Cpu as u32;
        }
        let left_running = if bound == 0 && !alone { self.end_rest() } else { 0 };
        // SAFETY: the slot outlives its processes, and both are atomic.
        let (step, errno) = unsafe {
            ((*slot).failed_step.load(Ordering::Acquire), (*slot).failed_errno.load(Ordering::Acquire))
        };
        if let Some(ear) = &mut self.ear {
            ear.tell_all();
        }
        if step != 0 {
            return Report { tag: Report::NOT_STARTED, status: errno, step, bound: 0, left_running: 0 };
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

    /// Reaps what has ended: the command's status, if it is among that, and whether nobody is left. Every process of the
    /// namespace is a child of this one, or of one that is.
    fn reap(&self) -> (Option<c_int>, bool) {
        let mut found = None;
        loop {
            match wait(libc::WNOHANG) {
                Some(Waited::Ended(pid, status)) if pid == self.command => found = Some(status),
                Some(Waited::Ended(..)) => {}
                Some(Waited::Nobody) => return (found, true),
                None => return (found, false),
            }
        }
    }

    /// Ends what is still running. How many processes that were.
    fn end_rest(&mut self) -> u64 {
        // SAFETY: plain numbers: signal 0 only asks whether there is another process.
        if unsafe { syscall!(libc::SYS_kill, ALL, 0) }.is_err() {
            return 0;
        }
        let mut left = GRACE_MS;
        while left > 0 {
            let mut watched =
                [libc::pollfd { fd: self.children, events: libc::POLLIN, revents: 0 }, self.questions()];
            let step = 5;
            let _ = poll(&mut watched, step);
            self.answer(&mut watched[1]);
            drain(self.children);
            self.reap();
            // SAFETY: as above.
            if unsafe { syscall!(libc::SYS_kill, ALL, 0) }.is_err() {
                return 0;
            }
            left -= step;
        }
        self.end_all()
    }

    /// Ends everything at once, and waits for it. How many processes that were.
    fn end_all(&self) -> u64 {
        // SAFETY: plain numbers: everything in this pid namespace but this process itself.
        let _ = unsafe { syscall!(libc::SYS_kill, ALL, libc::SIGKILL) };
        let mut ended = 0;
        while let Some(Waited::Ended(..)) = wait(0) {
            ended += 1;
        }
        ended
    }
}

/// Waits for one of the descriptors, or until the time is over. A signal is no error.
fn poll(watched: &mut [libc::pollfd], timeout_ms: c_int) -> Result<(), c_int> {
    let seconds = i64::from(timeout_ms / 1000);
    let timeout = libc::timespec { tv_sec: seconds, tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000 };
    let timeout = if timeout_ms < 0 { std::ptr::null() } else { &raw const timeout };
    for entry in &mut *watched {
        entry.revents = 0;
    }
    // SAFETY: the list and the time live through the call and the list's length is given.
    match unsafe { syscall!(libc::SYS_ppoll, watched.as_mut_ptr(), watched.len(), timeout, 0, 8) } {
        Ok(_) | Err(libc::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn drain(signals: c_int) {
    let mut buffer = [0_u8; 512];
    // SAFETY: the buffer lives through the call and its length is given; the descriptor never blocks.
    while unsafe { syscall!(libc::SYS_read, signals, buffer.as_mut_ptr(), buffer.len()) }.is_ok_and(|n| n > 0)
    {
    }
}

/// What a look at the children shows.
enum Waited {
    /// One has ended, with a status.
    Ended(pid_t, c_int),
    /// There are none.
    Nobody,
}

/// Looks at the children. None if all of them run.
fn wait(flags: c_int) -> Option<Waited> {
    let mut status: c_int = 0;
    loop {
        // SAFETY: `status` lives through the call.
        let answer = unsafe { syscall!(libc::SYS_wait4, ALL, &raw mut status, flags | libc::__WALL, 0) };
        match answer {
            Ok(0) => return None,
            Ok(pid) => return Some(Waited::Ended(pid as pid_t, status)),
            Err(libc::EINTR) => {}
            Err(_) => return Some(Waited::Nobody),
        }
    }
}
