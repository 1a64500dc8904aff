//! The command's process, from its clone to its program.
//!
//! It runs in the zygote's memory: raw system calls only, no allocation. In this order: its session, limits, the
//! filter; when the private directories stand, the workspace, no more capabilities, Landlock; then the request, the
//! streams, the directory; then every other descriptor is closed, and when everything stands the program takes over.

use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use libc::{c_char, c_int};

use super::descriptors::{close, close_range, open_path};
use super::failure::{At, Failure};
use super::raw::syscall;
use super::slot::{Given, NO_LISTENER, Own, PATH_BYTES, Slot, Stage};
use super::talk::{receive, wind_up};
use super::warm;
use super::world::World;
use crate::confine::landlock::{Access, Handled};
use crate::native::wire::{Kind, Request, Step};
use crate::sys::confine::{self, Ruleset};

/// The command's process until it executes its program. `slot` is the address of a [`Slot`].
pub(super) extern "C" fn command(slot: usize) -> c_int {
    let slot = slot as *const Slot;
    let (step, errno) = become_program(slot);
    // Its init may still wait for it.
    Slot::hand(slot, NO_LISTENER);
    // SAFETY: the slot outlives its processes, and both are atomic.
    unsafe {
        (*slot).failed_errno.store(errno, Ordering::Relaxed);
        (*slot).failed_step.store(step as u32, Ordering::Release);
    }
    127
}

/// Becomes the program. Returns only what failed.
fn become_program(slot: *const Slot) -> Failure {
    match try_to_become_program(slot) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

enum Never {}

fn try_to_become_program(slot: *const Slot) -> Result<Never, Failure> {
    // SAFETY: the init has made this process for its slot, and does not touch its working memory unless the shell stands
    // still, for which this process does not touch it. The world is never changed.
    let (member, world, own) = unsafe {
        let given = Slot::given(slot);
        (given, &*given.world, Slot::own(slot))
    };
    // SAFETY: the slot outlives its processes, and it is atomic; the init set it before it made this process.
    let clock = unsafe { (*slot).clock.load(Ordering::Acquire) };
    let mut streams = member.streams;
    let warm = member.kind == Kind::Warm as u32;
    let on_streams = streams_of_caller(own, member);
    stand_apart(world, on_streams)?;
    // SAFETY: plain numbers. The init is the parent: when it dies the kernel ends this process anyway.
    unsafe {
        let _ = syscall!(libc::SYS_umask, world.origin.umask);
    }
    if warm {
        warm::ask().at(Step::Process)?;
    }
    for (resource, limit) in &world.limits {
        // SAFETY: the limit lives through the call.
        unsafe { syscall!(libc::SYS_prlimit64, 0, *resource, &raw const *limit, 0) }.at(Step::Limits)?;
    }
    match &world.witness {
        None => confine::install(&world.filter).at(Step::Seccomp)?,
        Some(witness) => {
            // The init's table is this process's too until here, so both have the descriptor.
            let listener = witness.install(&world.filter).at(Step::Seccomp)?;
            // SAFETY: plain numbers.
            unsafe { syscall!(libc::SYS_unshare, libc::CLONE_FILES) }.at(Step::Process)?;
            Slot::hand(slot, listener);
        }
    }
    Slot::wait_for(slot, Stage::Private);
    // SAFETY: the path ends with NUL.
    unsafe { syscall!(libc::SYS_chdir, world.template.workspace_path.as_ptr()) }.at(Step::Directory)?;
    match (member.kit, on_streams) {
        (Some(kit), None) => {
            confine::drop_capabilities().at(Step::Capabilities)?;
            confine::restrict_self(kit.rules).at(Step::Landlock)?;
        }
        (_, streams) => {
            let rules = ruleset(world, streams)?;
            confine::drop_capabilities().at(Step::Capabilities)?;
            rules.restrict_self().at(Step::Landlock)?;
        }
    }
    if warm {
        connect(streams, world, false)?;
        close_range(3, c_int::MAX)?;
        Slot::wait_for(slot, Stage::All);
        unblock_signals();
        return Err(execute(&world.shell, world.shell_arguments.as_ptr(), world));
    }
    let request = if member.kind == Kind::Parked as u32 {
        let mut sent = [-1; 3];
        let Some(request) = receive(member.talk, &mut own.request, &mut sent)? else {
            return Err((Step::Order, libc::EPIPE));
        };
        for (to, from) in streams.iter_mut().zip(sent) {
            if from != -1 {
                *to = from;
            }
        }
        request
    } else {
        // SAFETY: the zygote put a whole request there.
        unsafe { own.request.as_ptr().cast::<Request>().read_unaligned() }
    };
    wind_up(clock);
    connect(streams, world, request.terminal == 1)?;
    let (bytes, arguments) = match member.long {
        // SAFETY: the zygote mapped so many bytes, and room for all pointers.
        Some(long) => unsafe {
            let bytes = std::slice::from_raw_parts(long.bytes, long.length);
            (bytes, std::slice::from_raw_parts_mut(long.arguments, request.texts as usize + 1))
        },
        None => {
            let end = size_of::<Request>() + request.length as usize;
            let bytes = own.request.get(size_of::<Request>()..end).ok_or((Step::Order, libc::EBADMSG))?;
            (bytes, own.arguments.as_mut_slice())
        }
    };
    let (directory, program) = split(bytes, arguments).ok_or((Step::Order, libc::EBADMSG))?;
    if !directory.is_empty() {
        // SAFETY: the path ends with NUL and lives through the call.
        unsafe { syscall!(libc::SYS_chdir, directory.as_ptr()) }.at(Step::Directory)?;
    }
    let arguments = arguments.as_ptr();
    close_range(3, c_int::MAX)?;
    Slot::wait_for(slot, Stage::All);
    unblock_signals();
    if program.to_bytes().contains(&b'/') {
        return Err(execute(program, arguments, world));
    }
    Err(look_up(program, arguments, &mut own.candidate, world))
}

/// The streams of whoever called, on which a command runs.
#[derive(Clone, Copy)]
pub(super) struct Streams {
    /// The one that is a terminal.
    terminal: Option<c_int>,
}

/// The streams of whoever called, if the command gets them. That is known before it starts.
fn streams_of_caller(own: &Own, member: &Given) -> Option<Streams> {
    if member.kind != Kind::Direct as u32 {
        return None;
    }
    // SAFETY: the zygote put a whole request there.
    let request = unsafe { own.request.as_ptr().cast::<Request>().read_unaligned() };
    let terminal = (request.terminal == 1).then_some(member.streams[0]);
    (request.streams == 3).then_some(Streams { terminal })
}

/// Takes a session of its own, or a process group alone.
///
/// Linux shares processors out among sessions first. Whoever talks with a program on its streams wakes it with each message and
/// waits for the answer, so the two want to be weighed as one: with a session of its own a server that has just begun takes half
/// as long again for a call. A process that is in a session and does not lead it can never get a terminal by it, nor reach
/// anybody, so where there is none to begin with, it can do no more than before. That sessions are weighed apart protects from no
/// program that wants more: it can begin as many sessions as it likes.
fn stand_apart(world: &World, on_streams: Option<Streams>) -> Result<(), Failure> {
    let stays = world.origin.session && on_streams.is_some_and(|streams| streams.terminal.is_none());
    // SAFETY: plain numbers.
    unsafe { if stays { syscall!(libc::SYS_setpgid, 0, 0) } else { syscall!(libc::SYS_setsid) } }
        .at(Step::Process)?;
    Ok(())
}

/// What the command may do with files, whose private directories stand.
pub(super) fn ruleset(world: &World, streams: Option<Streams>) -> Result<Ruleset, Failure> {
    let handled = if streams.is_some() { &world.handled_on_streams } else { &world.handled };
    let ruleset = Ruleset::new(*handled).at(Step::Landlock)?;
    grant_rights(&ruleset, handled, world)?;
    if let Some(terminal) = streams.and_then(|streams| streams.terminal) {
        // Also when it is opened by a name such as `/dev/stderr`.
        ruleset.grant(terminal, handled.rights(Access::Device, false)).at(Step::Landlock)?;
    }
    for private in &world.template.private {
        let place = open_path(&private.place).at(Step::Landlock)?;
        grant_change(&ruleset, handled, place)?;
        close(place);
    }
    Ok(ruleset)
}

/// Everything may be read and executed; devices and the workspace may be written.
pub(super) fn grant_rights(ruleset: &Ruleset, handled: &Handled, world: &World) -> Result<(), Failure> {
    let template = &world.template;
    let grant = |place: c_int, access: Access, is_directory: bool| {
        ruleset.grant(place, handled.rights(access, is_directory)).at(Step::Landlock)
    };
    grant(template.root.as_raw_fd(), Access::Use, true)?;
    grant(template.devices.as_raw_fd(), Access::Device, true)?;
    for (place, is_directory) in &template.writable {
        grant(place.as_raw_fd(), Access::Change, *is_directory)?;
    }
    Ok(())
}

/// A private directory may be written.
pub(super) fn grant_change(ruleset: &Ruleset, handled: &Handled, place: c_int) -> Result<(), Failure> {
    ruleset.grant(place, handled.rights(Access::Change, true)).at(Step::Landlock)
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

/// The first of some texts, and the rest.
pub(super) fn text(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?;
    Some((text, bytes.get(text.count_bytes() + 1..)?))
}

/// Puts the streams in their places.
fn connect(streams: [c_int; 3], world: &World, terminal: bool) -> Result<(), Failure> {
    for (target, source) in streams.iter().enumerate() {
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
