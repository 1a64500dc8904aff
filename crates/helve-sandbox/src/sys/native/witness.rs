//! The witness: a member's init sees what is refused to its command, and notes it for people.
//!
//! ```text
//! command ── a call that the filter refuses, or one of a few others ──► init: asks the plain filter, looks, notes
//!    ▲ the same error as without a witness, or the call itself ◄──────────┘          └─ notes ──► Helve
//! ```
//!
//! The answer to a call is the plain filter's own (`Filter::answer`), made from the numbers that the kernel has copied:
//! nothing that the command can change afterwards decides, and no refused call is ever let pass. What the init reads of the
//! command's memory only becomes words. Without a listener (the kernel allows one for a process, so there may be another
//! already) the plain filter is installed, and nothing is seen.
//!
//! | module | what it does |
//! |---|---|
//! | `memory` | reads texts and addresses of another process |
//! | `look` | whether a path that a call names is refused, seen from inside |
//! | `text` | a bounded text on the stack |
//! | `log` | what was noted, each thing once |

mod log;
mod look;
mod memory;
mod text;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use helve_core::{CallGroup, Explain};
use libc::{c_int, c_short, pid_t};

use super::guards::{EMPTY_DIRECTORY, EMPTY_FILE};
use super::raw::syscall;
use super::slot::{NO_LISTENER, Slot};
use super::template::Template;
use super::world::World;
use crate::confine::seccomp::{self, Answer, Data, Filter, Shape, Watching};
use crate::native::notes::{Act, NAMES_PORT};
use crate::native::setup::{Place, Setup};
use crate::sys::confine::{self, Asking};
use log::{Body, Log};
use look::Sight;

/// What all members of one zygote need to be seen.
pub(super) struct Witness {
    filter: Filter,
    asking: Asking,
    /// What that filter is made from.
    explain: Explain,
    granted: Vec<CallGroup>,
    /// Whether commands ask so often that they and their init are best on one processor.
    asks_often: bool,
    /// Whether the network is one of its own, in which nobody is reached.
    own_network: bool,
    /// The device of the template's root, in which nothing of the outside lies.
    root: u64,
    /// The devices of hidden places.
    hidden: Vec<u64>,
    /// What covers hidden paths of the workspace: device and number.
    covers: Vec<(u64, u64)>,
}

impl Witness {
    /// For a setup whose template stands, and the environment with which commands start. None if nobody is to be seen, or
    /// the kernel does not let him.
    pub(super) fn new(setup: &Setup, template: &Template, environment: u64) -> Option<Witness> {
        let explain = setup.explain?;
        let asking = Asking::find(size_of::<Notice>(), size_of::<Response>())?;
        let place = |path: &Path| rustix::fs::lstat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
        let is_hidden = |place: &Place| matches!(place, Place::HiddenDirectory | Place::HiddenFile);
        let hidden = setup.mounts.iter().filter(|(_, kind)| is_hidden(kind));
        Some(Witness {
            filter: seccomp::watching(&setup.system_calls, Watching { explain, environment }),
            asking,
            explain,
            granted: setup.system_calls.clone(),
            asks_often: explain == Explain::Full,
            own_network: setup.own_network,
            root: rustix::fs::fstat(&template.root).ok()?.st_dev,
            hidden: hidden.filter_map(|(path, _)| Some(place(path)?.0)).collect(),
            covers: [EMPTY_FILE, EMPTY_DIRECTORY]
                .into_iter()
                .filter_map(|path| place(Path::new(path)))
                .collect(),
        })
    }

    /// The filter that asks, for a copy of a shell, and the flags with which it is installed. A copy executes nothing of its
    /// own, and its memory is not to hold an address of this process.
    pub(super) fn filter_for_copies(&self) -> (Filter, u64) {
        // Nobody's environment lies there.
        let watching = Watching { explain: self.explain, environment: u64::MAX };
        (seccomp::watching(&self.granted, watching), self.asking.flags())
    }

    /// Installs, in the command's process, the filter that asks, and gives its descriptor; the plain one, and gives
    /// [`NO_LISTENER`], where nobody can be asked.
    pub(super) fn install(&self, plain: &Filter) -> Result<c_int, c_int> {
        match self.asking.install(&self.filter) {
            Ok(listener) => Ok(listener),
            Err(_) => confine::install(plain).map(|()| NO_LISTENER),
        }
    }
}

/// A question of the kernel's, as it writes it: `struct seccomp_notif`, and room for more.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    data: Data,
    room: [u64; 8],
}

/// The answer: `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const SET_FLAGS: u64 = 0x4008_2104;
/// Who asks and who answers take turns on one processor.
const SYNC_WAKE_UP: u64 = 1;
/// The call is made as if nobody had been asked.
const CONTINUE: u32 = 1;

/// The init's end.
pub(super) struct Ear<'a> {
    world: &'a World,
    listener: c_int,
    talk: c_int,
    takes_turns: bool,
    sight: Sight<'a>,
    log: Log<'a>,
}

impl<'a> Ear<'a> {
    /// For the command of a slot, once its process has said where it is asked about. `private` is open on the member's own
    /// file system.
    pub(super) fn new(
        slot: *const Slot,
        world: &'a World,
        (command, talk): (pid_t, c_int),
        private: c_int,
    ) -> Option<Ear<'a>> {
        let witness = world.witness.as_ref()?;
        let listener = Slot::listener(slot, command);
        if listener == NO_LISTENER {
            return None;
        }
        // SAFETY: this is the init, and it asks here alone.
        let memory = unsafe { Slot::log(slot) };
        let sight = Sight { witness, private };
        let mut ear = Ear { world, listener, talk, takes_turns: false, sight, log: Log::new(memory) };
        ear.take_turns(true);
        Some(ear)
    }

    /// Who asks and this process are to take turns on one processor, or not. Most commands ask once, when they start the
    /// one program that they are about, and that stays where it is then; for one that starts program after program it is
    /// better that this process stays where it is.
    fn take_turns(&mut self, wanted: bool) {
        if self.takes_turns != wanted {
            let flags = if wanted { SYNC_WAKE_UP } else { 0 };
            // SAFETY: plain numbers. A kernel that does not know this answers all the same.
            let _ = unsafe { syscall!(libc::SYS_ioctl, self.listener, SET_FLAGS, flags) };
            self.takes_turns = wanted;
        }
    }

    /// What is polled for: a descriptor, or -1 when there is nobody left who could ask.
    pub(super) fn descriptor(&self) -> c_int {
        self.listener
    }

    /// Forgets what was noted: it was no call's.
    pub(super) fn forget(&mut self) {
        self.log.forget();
    }

    /// Tells Helve what it does not know yet.
    pub(super) fn tell_new(&mut self) {
        self.log.tell_new(self.talk);
    }

    /// Tells Helve everything, at the end.
    pub(super) fn tell_all(&mut self) {
        self.log.tell_all(self.talk);
    }

    /// Answers one question, if there is one.
    pub(super) fn serve(&mut self, events: c_short) {
        if events == 0 {
            return;
        }
        if events & libc::POLLIN == 0 {
            // The last process that could ask has gone, and would be told of for ever.
            self.listener = NO_LISTENER;
            return;
        }
        let mut notice = Notice::default();
        // SAFETY: the structure is as large as the kernel's or larger, all zero as it demands, and lives through the call.
        if unsafe { syscall!(libc::SYS_ioctl, self.listener, RECEIVE, &raw mut notice) }.is_err() {
            // Whoever asked has been killed meanwhile.
            return;
        }
        let answer = self.world.filter.answer(&notice.data);
        let found = self.find(&notice, answer);
        let (error, flags) = match answer {
            Answer::Allowed => (0, CONTINUE),
            Answer::Refused(errno) => (-errno, 0),
        };
        let response = Response { id: notice.id, value: 0, error, flags };
        // SAFETY: the structure has the kernel's layout and lives through the call.
        let sent = unsafe { syscall!(libc::SYS_ioctl, self.listener, SEND, &raw const response) };
        self.take_turns(self.sight.witness.asks_often);
        // Where the call was still there to be answered, so was its process: what was read is its own.
        if let (Ok(_), Some(body)) = (sent, found) {
            self.log.add(&body);
        }
    }

    /// What a call shows to be refused.
    fn find(&self, notice: &Notice, answer: Answer) -> Option<Body> {
        let (pid, data) = (notice.pid as pid_t, &notice.data);
        let of = |index: usize| data.arguments.get(index).copied().unwrap_or_default();
        let shape = match answer {
            Answer::Allowed => seccomp::look(data.number),
            Answer::Refused(_) => None,
        };
        match shape {
            None => {
                let told = seccomp::telling(data.number, &data.arguments);
                Some(Body::call(data.number, told, answer != Answer::Allowed))
            }
            Some(Shape::Address(at, length, datagram)) => self.address(pid, of(at), of(length), datagram),
            Some(Shape::One(named)) => self.sight.path(pid, &data.arguments, named),
            Some(Shape::Two(first, second)) => {
                let first = self.sight.path(pid, &data.arguments, first);
                first.or_else(|| self.sight.path(pid, &data.arguments, second))
            }
        }
    }

    /// What an address shows to be refused: one of a network that is not there, or a socket that is not shown.
    fn address(&self, pid: pid_t, at: u64, length: u64, datagram: bool) -> Option<Body> {
        let (bytes, length) = memory::address(pid, at, length)?;
        let bytes = bytes.get(..length)?;
        let (family, rest) = bytes.split_first_chunk()?;
        let (address, port) = match c_int::from(u16::from_ne_bytes(*family)) {
            libc::AF_UNIX => return self.sight.named(pid, rest, Act::Unix),
            libc::AF_INET => {
                let (port, rest) = rest.split_first_chunk()?;
                let (address, _) = rest.split_first_chunk::<4>()?;
                (IpAddr::V4(Ipv4Addr::from(*address)), u16::from_be_bytes(*port))
            }
            libc::AF_INET6 => {
                let (port, rest) = rest.split_first_chunk()?;
                let (_flow, rest) = rest.split_first_chunk::<4>()?;
                let (address, _) = rest.split_first_chunk::<16>()?;
                (IpAddr::V6(Ipv6Addr::from(*address)), u16::from_be_bytes(*port))
            }
            _ => return None,
        };
        let inside = address.to_canonical();
        let inside = inside.is_loopback() || inside.is_unspecified();
        // A name is looked up at the own machine where no other is known.
        let names = port == NAMES_PORT;
        if !self.sight.witness.own_network || port == 0 || inside && !names {
            return None;
        }
        Some(Body::address(address, port, datagram || names))
    }
}
