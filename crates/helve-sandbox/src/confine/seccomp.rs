//! The system calls that a command does without, as a filter for the kernel.
//!
//! Everything is allowed that the table does not name: compilers, language runtimes and test runners live on calls that
//! nobody lists. The table names what reaches past namespaces and mounts (kernel keyrings, files that are setuid outside
//! too, sockets that no network namespace holds), what could undo them (mounts, namespaces, handles of files), what acts
//! on the whole machine, and large parts of the kernel that commands can spare. A call newer than the table does not exist.
//!
//! The filter judges the calls of this machine's own architecture. A program of another one (32 bits) is ended at its
//! first call: its calls have other numbers and pass arguments where no filter can see them.
//!
//! Out: [`Filter`], a program of the classic BPF machine. For the native sandbox it comes in two parts: [`outer`] holds for
//! the helper that makes sandboxes too, [`inner`] forbids what that helper itself needs, and what a command is to be told of.
//! [`whole`] is both. [`watching`] is [`inner`] where somebody listens: it asks him wherever that one would refuse, and about
//! some calls more (`watched`). He answers what [`Filter::answer`] of [`inner`] says, so both refuse the same.

mod calls;
mod program;
mod watched;

use helve_core::{CallGroup, Explain, Network};
use libc::sock_filter;

use calls::{CALLS, Call};
use program::Code;

pub(crate) use watched::{Look, Shape, look, name_and_group, telling};

/// A program for the kernel, empty on a machine whose calls are not in the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter(Vec<sock_filter>);

impl Filter {
    /// Its instructions.
    pub(crate) fn instructions(&self) -> &[sock_filter] {
        &self.0
    }

    /// What it answers to a call, as the kernel would have it. Allocates nothing and ends: its jumps lead forward.
    pub(crate) fn answer(&self, data: &Data) -> Answer {
        match program::run(&self.0, data) {
            ALLOW => Answer::Allowed,
            refused if refused & ACTION == fail(0) => Answer::Refused((refused & !ACTION) as i32),
            _ => Answer::Refused(libc::EPERM),
        }
    }

    /// Its instructions as the bytes that the kernel reads.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bytes = |one: &sock_filter| {
            let [a, b] = one.code.to_ne_bytes();
            let [e, f, g, h] = one.k.to_ne_bytes();
            [a, b, one.jt, one.jf, e, f, g, h]
        };
        self.0.iter().flat_map(bytes).collect()
    }
}

/// A call as a filter sees it; the kernel's `struct seccomp_data`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Data {
    /// Its number.
    pub(crate) number: u32,
    /// The machine's architecture.
    pub(crate) architecture: u32,
    /// Where it was made.
    pub(crate) instruction: u64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// What a filter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call is made.
    Allowed,
    /// It fails with this `errno`.
    Refused(i32),
}

/// What somebody who listens is asked about besides refused calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watching {
    /// How much.
    pub(crate) explain: Explain,
    /// Where the environment lies with which a command's own program is executed: that is not asked about.
    pub(crate) environment: u64,
}

/// What holds the command besides the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// Namespaces of its own: it can name no process, no queue and no socket of the machine.
    Namespaces,
    /// None: what it shares with the user's other processes is forbidden by the filter.
    Nothing(Network),
}

/// Whether there is a filter for this machine.
pub(crate) fn exists() -> bool {
    Machine::this().is_some()
}

/// What neither a command nor the helper that makes sandboxes needs.
pub(crate) fn outer() -> Filter {
    filter(&Wanted::new(Around::Namespaces, &[Outer]))
}

/// What only the helper needs; for the command's own process.
pub(crate) fn inner(granted: &[CallGroup]) -> Filter {
    filter(&Wanted { granted, ..Wanted::new(Around::Namespaces, &[Inner]) })
}

/// [`inner`] for a process that is listened to.
pub(crate) fn watching(granted: &[CallGroup], watching: Watching) -> Filter {
    filter(&Wanted { granted, watching: Some(watching), ..Wanted::new(Around::Namespaces, &[Inner]) })
}

/// Everything that a command does without.
pub(crate) fn whole(around: Around, granted: &[CallGroup]) -> Filter {
    let parts: &[Part] = match around {
        Around::Namespaces => &[Outer, Inner],
        Around::Nothing(_) => &[Outer, Inner, Shared],
    };
    filter(&Wanted { granted, ..Wanted::new(around, parts) })
}

fn filter(wanted: &Wanted<'_>) -> Filter {
    Filter(Machine::this().map(|machine| compile(machine, wanted)).unwrap_or_default())
}

/// What a filter is compiled from.
struct Wanted<'a> {
    around: Around,
    parts: &'a [Part],
    granted: &'a [CallGroup],
    watching: Option<Watching>,
}

impl<'a> Wanted<'a> {
    fn new(around: Around, parts: &'a [Part]) -> Wanted<'a> {
        Wanted { around, parts, granted: &[], watching: None }
    }

    /// The answer that refuses with `errno`: somebody's, if there is one who listens.
    fn refuse(&self, code: &mut Code, errno: i32) -> program::Place {
        code.answer(if self.watching.is_some() { ASK } else { fail(errno) })
    }
}

/// An architecture whose calls are in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    X86,
    Arm,
}

impl Machine {
    fn this() -> Option<Machine> {
        if cfg!(target_arch = "x86_64") {
            Some(Machine::X86)
        } else if cfg!(target_arch = "aarch64") {
            Some(Machine::Arm)
        } else {
            None
        }
    }

    /// Its number in the kernel.
    fn architecture(self) -> u32 {
        match self {
            Machine::X86 => 0xc000_003e,
            Machine::Arm => 0xc000_00b7,
        }
    }

    fn number(self, call: &Call) -> Option<u32> {
        self.one_of(call.x86, call.arm)
    }

    fn one_of(self, x86: Option<u32>, arm: Option<u32>) -> Option<u32> {
        match self {
            Machine::X86 => x86,
            Machine::Arm => arm,
        }
    }
}

/// The first number that the table does not know. The calls of the third interface of x86 (x32) are above it.
const UNKNOWN_FROM: u32 = 468;

/// Which filter forbids a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The one that holds for everybody.
    Outer,
    /// The one that holds for the command alone.
    Inner,
    /// The one for a command without namespaces of its own.
    Shared,
}

/// What is answered to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// `EPERM`.
    Forbidden,
    /// `ENOSYS`: programs then do it another way, and try it so often that nobody is told.
    Missing,
    /// `ENOSYS`, and whoever listens is told.
    Absent,
    /// Forbidden if the first argument asks for a new namespace.
    Namespaces,
    /// Forbidden if the argument of this index is a mode with the setuid or the setgid bit.
    Mode(u32),
    /// The same, and if it is the mode of a device. What makes one that needs no privilege is a right of its own only for some
    /// versions of Landlock; others count it among regular files.
    Node(u32),
    /// The same for the argument after this one, if this one has a flag that makes a file.
    Open(u32),
    /// A new socket.
    Socket,
    /// Two sockets that know each other alone.
    Pair,
    /// An order to a device.
    Order,
    /// How the kernel treats old programs.
    Personality,
    /// The argument of this index is a process. With namespaces of its own a command may name any but the first, which
    /// looks after it; without, only itself, which is 0.
    Own(u32),
    /// How much of the machine somebody gets: one process, if the first argument is this number, all of a group if it is one
    /// more, or all of a user. The second argument says which, and a process is as above. Without namespaces a group may
    /// hold others, and with them a user has the init too.
    Weight(u32),
}

use Part::{Inner, Outer, Shared};
use Rule::{
    Absent, Forbidden, Missing, Mode, Namespaces, Node, Open, Order, Own, Pair, Personality, Socket, Weight,
};

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
/// Whoever listens decides.
const ASK: u32 = 0x7fc0_0000;
/// The part of an answer that is no number of its own.
const ACTION: u32 = 0xffff_0000;

/// The answer that makes a call fail with an `errno`.
const fn fail(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

/// What a call is about that sets the weight of a process at a disk.
const IOPRIO_WHO_PROCESS: u32 = 1;

/// `O_CREAT` and the bit that makes `O_TMPFILE`: with one of them there is a mode.
const CREATES: u32 = libc::O_CREAT as u32 | 0o20_000_000;

/// The bits of a mode that lend a program's owner or group to whoever runs it.
const SETS_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// The bit of a mode that devices of both kinds have, and of all that can be made with a mode only they.
const IS_DEVICE: u32 = libc::S_IFCHR;

/// Every flag that makes a namespace. The one for time stands where clone keeps a signal's number, which is never so
/// high.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32
    | 0x80;

/// Orders to a terminal: type a character, do what a console does, and take another way of reading (which loads code
/// into the kernel).
const TERMINAL_ORDERS: [u32; 3] = [0x5412, 0x541c, 0x5423];

/// What a personality may hold: 32 bits, an old version number, addresses that do not change from run to run.
const PERSONALITIES: u32 = 0x0006_0008;
/// The question for the one in force.
const PERSONALITY_QUESTION: u32 = u32::MAX;

/// The protocols of the internet families: the usual one, ICMP, TCP, UDP and ICMP of version 6. Others load code.
const PROTOCOLS: [u32; 5] = [0, 1, 6, 17, 58];

fn compile(machine: Machine, wanted: &Wanted<'_>) -> Vec<sock_filter> {
    let is_granted = |call: &Call| call.group().is_some_and(|group| wanted.granted.contains(&group));
    let mut named: Vec<(u32, Todo)> = CALLS
        .iter()
        .filter(|call| wanted.parts.contains(&call.part) && !is_granted(call))
        .filter_map(|call| Some((machine.number(call)?, Todo::Judge(call.rule))))
        .collect();
    if let Some(watching) = wanted.watching {
        for (number, asked) in watched::asked(machine, watching) {
            // What is always asked about is judged by who is asked.
            named.retain(|(other, _)| *other != number);
            named.push((number, Todo::Ask(asked)));
        }
    }
    named.sort_unstable_by_key(|(number, _)| *number);
    let mut code = Code::default();
    let mut judged: Vec<(Todo, program::Place)> = Vec::new();
    let mut spans = vec![(0, code.answer(ALLOW))];
    for (number, todo) in named {
        let known = judged.iter().find(|(other, _)| *other == todo).map(|(_, place)| *place);
        let place = known.unwrap_or_else(|| match todo {
            Todo::Judge(rule) => judge(&mut code, rule, wanted),
            Todo::Ask(asked) => asked.judge(&mut code),
        });
        if known.is_none() {
            judged.push((todo, place));
        }
        spans.push((number, place));
        spans.push((number + 1, code.answer(ALLOW)));
    }
    // Each part knows the end of the table, so that it holds whichever is installed alone.
    spans.push((UNKNOWN_FROM, code.answer(fail(libc::ENOSYS))));
    let tree = code.tree(&spans);
    let tree = code.load(program::NUMBER, tree);
    let foreign = code.answer(KILL);
    let start = code.equal(machine.architecture(), tree, foreign);
    code.load(program::ARCHITECTURE, start);
    code.finish()
}

/// What is done for a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Todo {
    Judge(Rule),
    Ask(watched::Asked),
}

/// The instructions that judge one rule.
fn judge(code: &mut Code, rule: Rule, wanted: &Wanted<'_>) -> program::Place {
    let argument = program::argument;
    let allow = code.answer(ALLOW);
    let forbidden = wanted.refuse(code, libc::EPERM);
    match rule {
        Forbidden => forbidden,
        Missing => code.answer(fail(libc::ENOSYS)),
        Absent => wanted.refuse(code, libc::ENOSYS),
        Namespaces => {
            let test = code.any_bit(NAMESPACES, forbidden, allow);
            code.load(argument(0), test)
        }
        Mode(index) => judge_mode(code, index, SETS_ID, forbidden),
        Node(index) => judge_mode(code, index, SETS_ID | IS_DEVICE, forbidden),
        Open(index) => {
            let mode = judge_mode(code, index + 1, SETS_ID, forbidden);
            let test = code.any_bit(CREATES, mode, allow);
            code.load(argument(index), test)
        }
        Socket => judge_socket(code, wanted),
        Pair => {
            let other = wanted.refuse(code, libc::EAFNOSUPPORT);
            let test = code.equal(libc::AF_UNIX as u32, allow, other);
            code.load(argument(0), test)
        }
        Order => {
            let test = TERMINAL_ORDERS.iter().fold(allow, |next, order| code.equal(*order, forbidden, next));
            code.load(argument(1), test)
        }
        Personality => {
            let test = code.any_bit(!PERSONALITIES, forbidden, allow);
            let test = code.equal(PERSONALITY_QUESTION, allow, test);
            code.load(argument(0), test)
        }
        Own(index) => judge_own(code, index, wanted, forbidden),
        Weight(process) => {
            let own = judge_own(code, 1, wanted, forbidden);
            let group = match wanted.around {
                Around::Namespaces => own,
                Around::Nothing(_) => forbidden,
            };
            let test = code.equal(process + 1, group, forbidden);
            let test = code.equal(process, own, test);
            code.load(argument(0), test)
        }
    }
}

/// With namespaces everybody but init is the command's own; without them, only who calls.
fn judge_own(code: &mut Code, index: u32, wanted: &Wanted<'_>, forbidden: program::Place) -> program::Place {
    let allow = code.answer(ALLOW);
    let test = match wanted.around {
        Around::Namespaces => code.equal(1, forbidden, allow),
        Around::Nothing(_) => code.equal(0, allow, forbidden),
    };
    code.load(program::argument(index), test)
}

fn judge_mode(code: &mut Code, index: u32, bits: u32, forbidden: program::Place) -> program::Place {
    let allow = code.answer(ALLOW);
    let test = code.any_bit(bits, forbidden, allow);
    code.load(program::argument(index), test)
}

/// Families whose sockets stay where the sandbox holds them. Among them is the kernel's own for interfaces and routes,
/// without which a program cannot list its addresses.
///
/// Without namespaces there are no sockets with names in the file system: Landlock does not keep a command from
/// connecting to one, and behind them sit services that start programs for whoever asks.
///
/// Who listens is asked about raw sockets too, which the kernel refuses.
fn judge_socket(code: &mut Code, wanted: &Wanted<'_>) -> program::Place {
    let allow = code.answer(ALLOW);
    let other_family = wanted.refuse(code, libc::EAFNOSUPPORT);
    if wanted.around == Around::Nothing(Network::Off) {
        return other_family;
    }
    let other_protocol = wanted.refuse(code, libc::EPROTONOSUPPORT);
    let routes = code.equal(libc::NETLINK_ROUTE as u32, allow, other_protocol);
    let routes = code.load(program::argument(2), routes);
    let internet = PROTOCOLS.iter().fold(other_protocol, |next, protocol| code.equal(*protocol, allow, next));
    let mut internet = code.load(program::argument(2), internet);
    if wanted.watching.is_some() {
        let ask = code.answer(ASK);
        let kinds = [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK];
        let raw = kinds.map(|flags| (libc::SOCK_RAW | flags) as u32);
        internet = raw.iter().fold(internet, |next, kind| code.equal(*kind, ask, next));
        internet = code.load(program::argument(1), internet);
    }
    let family = code.equal(libc::AF_NETLINK as u32, routes, other_family);
    let family = code.equal(libc::AF_INET6 as u32, internet, family);
    let family = code.equal(libc::AF_INET as u32, internet, family);
    let family = match wanted.around {
        Around::Namespaces => code.equal(libc::AF_UNIX as u32, allow, family),
        Around::Nothing(_) => family,
    };
    code.load(program::argument(0), family)
}

#[cfg(test)]
mod tests;
