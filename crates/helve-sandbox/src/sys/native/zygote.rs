//! The zygote: a process of Helve's own program that holds the namespaces and the mounts of one view, and makes members.
//!
//! ```text
//! Helve ── spawn ──► zygote ── namespaces ── setup ── template ── then, for each order: clone3 ──► member
//!   ▲ control socket ──┘ ends when the socket is closed
//! ```
//!
//! It has one thread and ordinary memory, so everything that allocates happens here, before a member is made. It is Helve's
//! program started again, or a fork from its very beginning, where a command is certain to come; what every view needs is
//! made while Helve finds out which view it is (`enter`).

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering;

use libc::c_int;
use rustix::process::Pid;

use super::control::{child_signals, ended_child, receive, tell};
use super::enter::{Ahead, unshare};
use super::failure::Failure;
use super::guards::Guards;
use super::holder::Ids;
use super::kit::{self, Kit};
use super::member;
use super::mould::{self, Mould};
use super::origin::Origin;
use super::processors::Processors;
use super::raw::{CloneArgs, clone3};
use super::slot::{Given, KEEP, Long, Slot};
use super::warm;
use super::world::World;
use crate::native::setup::Setup;
use crate::native::wire::{
    CONTROL, ENCLOSE, Guard, HELPER_NAME, INLINE_BYTES, Kind, LOAD, MOST_TEXTS, Make, Request, SETUP, Step,
    Told, decode_guarded,
};
use crate::sys::launch;
use crate::sys::report::errno;

/// The life of a helper that was started as a program of its own. Never returns.
pub(crate) fn zygote_main() -> ! {
    // SAFETY: Helve's side put it there for this process, which has just begun and uses no other.
    let control = unsafe { OwnedFd::from_raw_fd(CONTROL) };
    end(live(control, None, None))
}

/// Forks a helper that learns later which view it is for. None if this process has other threads: what they held would be
/// held in the child for ever.
///
/// The child is a copy of a process that has read its arguments and nothing else. It forgets them and its environment, keeps
/// no descriptor but `control`, and then is what a helper is that was started as a program.
pub(crate) fn fork_zygote(control: OwnedFd) -> io::Result<Option<Pid>> {
    if rustix::fs::stat("/proc/self/task")?.st_nlink != TASKS_OF_ONE_THREAD {
        return Ok(None);
    }
    let busy = rustix::thread::sched_getcpu();
    // SAFETY: this process has one thread, so its child may do whatever it may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let processors = Processors::without(busy);
            let owner = rustix::fs::stat(".").ok().map(|stat| (stat.st_uid, stat.st_gid));
            let _ = rustix::process::chdir("/");
            end(forget().and_then(|()| live(control, owner, processors)))
        }
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// The links of a directory of tasks: two, as of every directory, and one for each thread.
const TASKS_OF_ONE_THREAD: u64 = 3;

fn end(_lived: io::Result<()>) -> ! {
    // SAFETY: leaves at once; the kernel gives everything back.
    unsafe { libc::_exit(0) }
}

/// Overwrites the arguments and the environment of the process that this one is a copy of.
fn forget() -> io::Result<()> {
    let (start, end) = launch::own_texts()
        .ok_or_else(|| io::Error::other("the kernel does not tell where arguments and environment stand"))?;
    // SAFETY: the kernel named this range of the process's first stack, which is mapped and writable. It is this process's
    // own copy, and nothing in it reads arguments or environment any more.
    unsafe {
        ptr::write_bytes(start as *mut u8, 0, end - start);
        let name = HELPER_NAME.as_bytes();
        ptr::copy_nonoverlapping(name.as_ptr(), start as *mut u8, name.len().min(end - start - 1));
        libc::clearenv();
    }
    Ok(())
}

fn live(control: OwnedFd, owner: Option<Ids>, processors: Option<Processors>) -> io::Result<()> {
    let own = rustix::io::fcntl_dupfd_cloexec(&control, 10)?;
    // Closed or replaced there, with everything else that is open.
    let _ = control.into_raw_fd();
    let control = own;
    let origin = Origin::begin(&control)?;
    let ahead = Ahead::make(owner);
    let Some(setup) = hear_setup(&control)? else { return Ok(()) };
    let entered = ahead.and_then(|ahead| ahead.enter(setup, origin));
    if let Some(processors) = processors {
        processors.restore()?;
    }
    let (world, laid) = match entered {
        Ok(entered) => entered,
        Err((step, errno)) => {
            return tell(
                &control,
                Told { tag: Told::BROKEN, step: step as u32, errno, warm: 0, id: 0 },
                None,
            );
        }
    };
    let say = |tag: u32, descriptor: Option<BorrowedFd<'_>>| {
        tell(&control, Told { tag, step: 0, errno: 0, warm: 0, id: 0 }, descriptor)
    };
    if let Some(laid) = laid {
        // Nothing of it stays open here: a layer goes when Helve lets go of it, and its members do.
        for upper in &laid.uppers {
            say(Told::UPPER, Some(upper.as_fd()))?;
        }
        say(Told::MERGED, Some(laid.merged.as_fd()))?;
    }
    say(Told::READY, None)?;
    Zygote {
        control,
        world: Box::leak(Box::new(world)),
        slots: Vec::new(),
        guards: Guards::default(),
        unguarded: None,
        stop: None,
        fresh_ipc: true,
        made: 0,
        kit: None,
        wants_kit: true,
        mould: None,
        wants_mould: false,
        uncopied: 0,
    }
    .serve()
}

/// Waits for the setup; none if Helve has gone.
fn hear_setup(control: &OwnedFd) -> io::Result<Option<Setup>> {
    let mut tag = [0; size_of::<u32>()];
    let (count, descriptors) = receive(control.as_fd(), &mut tag)?;
    if count == 0 {
        return Ok(None);
    }
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let file = descriptors.into_iter().next().filter(|_| u32::from_ne_bytes(tag) == SETUP);
    let mut file = File::from(file.ok_or_else(broken)?);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Setup::decode(&bytes).map(Some)
}

struct Zygote {
    control: OwnedFd,
    world: &'static World,
    /// All slots that were ever made.
    slots: Vec<*mut Slot>,
    guards: Guards,
    /// Why the last guard could not be set; then nothing may run.
    unguarded: Option<Failure>,
    /// Where the view's shell can be stopped, once that was looked for.
    stop: Option<Option<warm::Stop>>,
    /// No member was ever made in the ipc namespace that this process is in now.
    fresh_ipc: bool,
    /// How many members were made.
    made: u64,
    /// For the next member.
    kit: Option<Kit>,
    /// Whether a kit is to be made when there is time: at first, and whenever a member has gone. Not while one starts, in
    /// whose way it would be.
    wants_kit: bool,
    /// The shell that is copied, if it was loaded.
    mould: Option<Mould>,
    /// Whether it is to be loaded when there is time; once.
    wants_mould: bool,
    /// How many members in a row asked for a copy and got none.
    uncopied: u32,
}

/// After so many members in a row that got no copy, none asks for one any more.
const MOST_UNCOPIED: u32 = 2;

/// The longest message: an order with a request inside.
const MESSAGE_BYTES: usize = size_of::<Make>() + size_of::<Request>() + INLINE_BYTES;

impl Zygote {
    /// Takes orders until Helve is gone.
    fn serve(&mut self) -> io::Result<()> {
        let ended = child_signals()?;
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            let mut watched = [
                libc::pollfd { fd: self.control.as_raw_fd(), events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: ended.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            ];
            let timeout = if self.wants_kit || self.wants_mould { 0 } else { -1 };
            // SAFETY: the list lives through the call and its length is given.
            match unsafe { libc::poll(watched.as_mut_ptr(), 2, timeout) } {
                -1 if errno() != libc::EINTR => return Err(io::Error::last_os_error()),
                0 if self.wants_mould => {
                    self.wants_mould = false;
                    self.set_mould(Mould::make(self.world).ok())?;
                }
                0 => {
                    self.kit = Kit::make(self.world).ok();
                    self.wants_kit = false;
                }
                _ => {}
            }
            if watched[0].revents != 0 {
                let (count, descriptors) = receive(self.control.as_fd(), &mut buffer)?;
                if count == 0 {
                    return Ok(());
                }
                self.obey(buffer.get(..count).unwrap_or_default(), descriptors)?;
            }
            if watched[1].revents != 0 {
                let mut signals = [0_u8; 512];
                while rustix::io::read(&ended, &mut signals).is_ok_and(|count| count > 0) {}
                self.reap()?;
            }
        }
    }

    fn obey(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message.first_chunk().map(|tag| u32::from_ne_bytes(*tag)) {
            Some(Make::TAG) => {
                let Some((order, request)) = message.split_at_checked(size_of::<Make>()) else {
                    return Ok(());
                };
                // SAFETY: the bytes are a whole record of plain numbers.
                let order = unsafe { order.as_ptr().cast::<Make>().read_unaligned() };
                self.calibrate(order.kind)?;
                match self.make(order, request, descriptors) {
                    Ok(pidfd) => {
                        let told = Told { tag: Told::MADE, step: 0, errno: 0, warm: 0, id: order.id };
                        tell(&self.control, told, Some(pidfd.as_fd()))?;
                        if self.made > 1 {
                            // Who has asked twice asks again. What fails here is tried again, and told, with the next one.
                            let _ = self.freshen_ipc();
                        }
                        Ok(())
                    }
                    Err((step, errno)) => {
                        let told =
                            Told { tag: Told::FAILED, step: step as u32, errno, warm: 0, id: order.id };
                        tell(&self.control, told, None)
                    }
                }
            }
            Some(Guard::TAG) => {
                let guarded = self.guard(message, descriptors);
                self.unguarded = guarded.err();
                let told = match guarded {
                    Ok(()) => Told { tag: Told::GUARDED, step: 0, errno: 0, warm: 0, id: 0 },
                    Err((step, errno)) => {
                        Told { tag: Told::FAILED, step: step as u32, errno, warm: 0, id: 0 }
                    }
                };
                tell(&self.control, told, None)
            }
            Some(LOAD) => {
                self.wants_mould = self.world.copied && self.mould.is_none();
                Ok(())
            }
            Some(ENCLOSE) => {
                let made = unshare(libc::CLONE_NEWCGROUP);
                if let (Ok(()), Some(says)) = (made, descriptors.first()) {
                    let _ = rustix::io::write(says, b"d");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds out, when a warm shell is first asked for, where the view's shell can be stopped.
    fn calibrate(&mut self, kind: u32) -> io::Result<()> {
        if kind != Kind::Warm as u32 || self.stop.is_some() {
            return Ok(());
        }
        let stop = warm::calibrate(&self.world.shell, &self.world.environment);
        let warm = u32::from(stop.is_some());
        self.stop = Some(stop);
        tell(&self.control, Told { tag: Told::CALIBRATED, step: 0, errno: 0, warm, id: 0 }, None)
    }

    fn guard(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> Result<(), Failure> {
        let broken = |error: io::Error| (Step::Guard, error.raw_os_error().unwrap_or(libc::EBADMSG));
        let list = match descriptors.into_iter().next() {
            Some(file) => {
                let mut bytes = Vec::new();
                let mut file = File::from(file);
                file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(broken)?;
                bytes
            }
            None => message.get(size_of::<Guard>()..).unwrap_or_default().to_vec(),
        };
        let entries = decode_guarded(&list).map_err(broken)?;
        self.guards.set(&self.world.template.workspace, &entries)
    }

    /// Moves to an ipc namespace of which the next member is to be the only user. Every member stays in the one that it was
    /// made in, so this is done while it sets itself up instead of before.
    fn freshen_ipc(&mut self) -> Result<(), Failure> {
        if !self.fresh_ipc {
            unshare(libc::CLONE_NEWIPC).map_err(|errno| (Step::Namespaces, errno))?;
            self.fresh_ipc = true;
        }
        Ok(())
    }

    /// Makes a member. The pidfd of its init.
    fn make(&mut self, order: Make, request: &[u8], descriptors: Vec<OwnedFd>) -> Result<OwnedFd, Failure> {
        let broken = (Step::Order, libc::EBADMSG);
        if let Some(failure) = self.unguarded {
            return Err(failure);
        }
        self.freshen_ipc()?;
        let stop = self.stop.flatten();
        if order.kind == Kind::Warm as u32 && stop.is_none() {
            return Err((Step::Program, libc::ENOSYS));
        }
        let slot = self.free_slot().ok_or((Step::Process, libc::ENOMEM))?;
        let mut given = descriptors.iter().map(AsRawFd::as_raw_fd);
        let (Some(talk), Some(output), Some(error)) = (given.next(), given.next(), given.next()) else {
            return Err(broken);
        };
        let mut member = Given {
            world: &raw const *self.world,
            long: None,
            kind: order.kind,
            talk,
            streams: [-1, output, error],
            stop,
            kit: None,
            mould: None,
            group: -1,
            processor: -1,
            keep: [-1; KEEP],
        };
        // SAFETY: the slot is free, so nobody else uses it.
        let own = unsafe { Slot::own(slot) };
        if order.kind == Kind::Direct as u32 {
            if request.len() < size_of::<Request>() || request.len() > own.request.len() {
                return Err(broken);
            }
            for (to, from) in own.request.iter_mut().zip(request) {
                *to = *from;
            }
            // SAFETY: the bytes are at least a whole record of plain numbers.
            let head = unsafe { request.as_ptr().cast::<Request>().read_unaligned() };
            for (stream, fd) in member.streams.iter_mut().zip(given.by_ref().take(head.streams as usize)) {
                *stream = fd;
            }
            if head.copied == 1 {
                member.mould = self.mould.as_ref().map(Mould::given);
            }
            if head.in_file == 1 {
                let file = given.next().ok_or(broken)?;
                member.long = Some(Long::map(file, &head).map_err(|errno| (Step::Order, errno))?);
            } else if head.texts > MOST_TEXTS || head.length as usize != request.len() - size_of::<Request>()
            {
                return Err(broken);
            }
        }
        member.group = given.next().unwrap_or(-1);
        member.processor = given.next().unwrap_or(-1);
        // For who is waited for; what stands ready is made in good time without. Its own from here on, whatever becomes of it.
        let kit = if order.kind == Kind::Direct as u32 { self.kit.take() } else { None };
        self.wants_kit = false;
        member.kit = kit.as_ref().map(Kit::given);
        let own =
            [talk, member.group, member.processor].into_iter().chain(member.streams).filter(|fd| *fd != -1);
        let own = own.chain(member.kit.into_iter().flat_map(kit::Given::descriptors));
        let own = own.chain(member.mould.map(mould::Given::descriptor));
        let mut keep: Vec<c_int> = own.chain(self.world.descriptors()).collect();
        keep.sort_unstable();
        keep.dedup();
        if keep.len() >= KEEP {
            return Err((Step::Order, libc::E2BIG));
        }
        keep.push(-1);
        for (to, from) in member.keep.iter_mut().zip(keep) {
            *to = from;
        }
        Slot::give(slot, member);
        let mut pidfd: c_int = -1;
        let (stack, stack_size) = Slot::init_stack(slot);
        let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
        let arguments = CloneArgs {
            flags: (libc::CLONE_VM | libc::CLONE_PIDFD | namespaces) as u64,
            pidfd: &raw mut pidfd as u64,
            exit_signal: libc::SIGCHLD as u64,
            stack,
            stack_size,
            ..CloneArgs::default()
        };
        // SAFETY: the stack and everything that the member writes are in its slot, which stays its own until it is reaped.
        let pid = unsafe { clone3(&arguments, member::init, slot as usize) };
        match pid {
            Ok(pid) => {
                self.fresh_ipc = false;
                self.made += 1;
                // SAFETY: slots are never given back, and the number is atomic.
                unsafe { &(*slot).pid }.store(pid, Ordering::Relaxed);
                // SAFETY: the kernel has just opened it for this process.
                Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
            }
            Err(errno) => {
                member.long.inspect(Long::unmap);
                Err((Step::Process, errno))
            }
        }
    }

    fn free_slot(&mut self) -> Option<*mut Slot> {
        let free = self.slots.iter().find(|slot| Slot::is_free(**slot));
        if let Some(slot) = free {
            return Some(*slot);
        }
        let slot = Slot::new()?;
        self.slots.push(slot);
        Some(slot)
    }

    /// Says whether there is a shell that is copied, if that changes.
    fn set_mould(&mut self, mould: Option<Mould>) -> io::Result<()> {
        let (was, is) = (self.mould.is_some(), mould.is_some());
        self.mould = mould;
        if was == is {
            return Ok(());
        }
        tell(&self.control, Told { tag: Told::COPIES, step: 0, errno: 0, warm: u32::from(is), id: 0 }, None)
    }

    /// Takes ended members away, and their memory back.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(pid) = ended_child() {
            if self.mould.as_ref().is_some_and(|mould| mould.pid() == pid) {
                self.set_mould(None)?;
            }
            let slot = self.slots.iter().find(|slot| Slot::pid(**slot) == pid);
            if let Some(slot) = slot {
                // SAFETY: its init is gone, and with it everything in its pid namespace: nobody uses the slot.
                let given = unsafe { Slot::given(*slot) };
                given.long.inspect(Long::unmap);
                let uncopied = Slot::is_uncopied(*slot);
                if given.mould.is_some() {
                    self.uncopied = if uncopied { self.uncopied + 1 } else { 0 };
                }
                Slot::release(*slot);
                self.wants_kit = self.kit.is_none();
            }
            if self.uncopied >= MOST_UNCOPIED {
                self.set_mould(None)?;
            }
        }
        Ok(())
    }
}
