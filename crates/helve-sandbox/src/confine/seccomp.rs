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
//! the helper that makes sandboxes too, [`inner`] forbids what that helper itself needs. [`whole`] is both.

mod program;

use helve_core::Network;
use libc::sock_filter;

use program::Code;

/// A program for the kernel, empty on a machine whose calls are not in the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter(Vec<sock_filter>);

impl Filter {
    /// Its instructions.
    pub(crate) fn instructions(&self) -> &[sock_filter] {
        &self.0
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
    filter(Around::Namespaces, &[Outer])
}

/// What only the helper needs; for the command's own process.
pub(crate) fn inner() -> Filter {
    filter(Around::Namespaces, &[Inner])
}

/// Everything that a command does without.
pub(crate) fn whole(around: Around) -> Filter {
    match around {
        Around::Namespaces => filter(around, &[Outer, Inner]),
        Around::Nothing(_) => filter(around, &[Outer, Inner, Shared]),
    }
}

fn filter(around: Around, parts: &[Part]) -> Filter {
    Filter(Machine::this().map(|machine| compile(machine, around, parts)).unwrap_or_default())
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
        match self {
            Machine::X86 => call.x86,
            Machine::Arm => call.arm,
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
    /// `ENOSYS`: programs then do it another way.
    Missing,
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
}

/// One call: its name, its number on each machine, which filter forbids it, and the answer.
struct Call {
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the table; tests check it"))]
    name: &'static str,
    x86: Option<u32>,
    arm: Option<u32>,
    part: Part,
    rule: Rule,
}

const fn call(name: &'static str, x86: u32, arm: u32, part: Part, rule: Rule) -> Call {
    Call { name, x86: Some(x86), arm: Some(arm), part, rule }
}

/// A call that only one machine has.
const fn x86(name: &'static str, number: u32, part: Part, rule: Rule) -> Call {
    Call { name, x86: Some(number), arm: None, part, rule }
}

use Part::{Inner, Outer, Shared};
use Rule::{Forbidden, Missing, Mode, Namespaces, Node, Open, Order, Own, Pair, Personality, Socket};

#[rustfmt::skip]
const CALLS: &[Call] = &[
    // Namespaces and mounts.
    call("clone", 56, 220, Inner, Namespaces),
    // Its flags lie in memory, where a filter cannot see them. Without it programs use clone.
    call("clone3", 435, 435, Inner, Missing),
    call("unshare", 272, 97, Inner, Namespaces),
    call("setns", 308, 268, Outer, Forbidden),
    call("chroot", 161, 51, Outer, Forbidden),
    call("pivot_root", 155, 41, Outer, Forbidden),
    call("mount", 165, 40, Inner, Forbidden),
    call("umount2", 166, 39, Inner, Forbidden),
    call("open_tree", 428, 428, Inner, Forbidden),
    call("move_mount", 429, 429, Inner, Forbidden),
    call("fsopen", 430, 430, Inner, Forbidden),
    call("fsconfig", 431, 431, Inner, Forbidden),
    call("fsmount", 432, 432, Inner, Forbidden),
    call("fspick", 433, 433, Outer, Forbidden),
    call("mount_setattr", 442, 442, Inner, Forbidden),
    call("open_tree_attr", 467, 467, Outer, Forbidden),

    // The memory and the descriptors of other processes.
    call("ptrace", 101, 117, Inner, Forbidden),
    call("process_vm_readv", 310, 270, Inner, Forbidden),
    call("process_vm_writev", 311, 271, Inner, Forbidden),
    call("kcmp", 312, 272, Outer, Forbidden),
    call("pidfd_getfd", 438, 438, Outer, Forbidden),

    // Limits and priorities, which a user may set for all of his processes, whoever looks after the command included.
    call("prlimit64", 302, 261, Outer, Own(0)),
    call("setpriority", 141, 140, Outer, Own(1)),
    call("ioprio_set", 251, 30, Outer, Own(1)),
    call("sched_setparam", 142, 118, Outer, Own(0)),
    call("sched_setscheduler", 144, 119, Outer, Own(0)),
    call("sched_setaffinity", 203, 122, Outer, Own(0)),
    call("sched_setattr", 314, 274, Outer, Own(0)),

    // A file that is made setuid or setgid inside is so outside too, with the rights of the user who runs Helve. Two
    // interfaces whose arguments a filter cannot see, openat2 and io_uring, do not exist.
    call("openat2", 437, 437, Inner, Missing),
    x86("open", 2, Outer, Open(1)),
    call("openat", 257, 56, Outer, Open(2)),
    x86("creat", 85, Outer, Mode(1)),
    x86("chmod", 90, Outer, Mode(1)),
    call("fchmod", 91, 52, Outer, Mode(1)),
    x86("mknod", 133, Outer, Node(1)),
    call("mknodat", 259, 33, Outer, Node(2)),
    call("fchmodat", 268, 53, Outer, Mode(2)),
    call("fchmodat2", 452, 452, Outer, Mode(2)),
    call("io_uring_setup", 425, 425, Outer, Missing),
    call("io_uring_enter", 426, 426, Outer, Missing),
    call("io_uring_register", 427, 427, Outer, Missing),

    // Files by number instead of name: past every rule about paths.
    call("open_by_handle_at", 304, 265, Outer, Forbidden),
    call("fanotify_init", 300, 262, Outer, Forbidden),
    call("fanotify_mark", 301, 263, Outer, Forbidden),
    call("lookup_dcookie", 212, 18, Outer, Forbidden),

    // Keys belong to the user, not to a namespace: whoever knows the number of a keyring may link it to his own.
    call("add_key", 248, 217, Outer, Missing),
    call("request_key", 249, 218, Outer, Missing),
    call("keyctl", 250, 219, Outer, Missing),

    // Sockets of other families are not held by a network namespace: AF_VSOCK reaches the hypervisor.
    call("socket", 41, 198, Outer, Socket),
    call("socketpair", 53, 199, Outer, Pair),

    // A terminal takes what is pushed into it as if its owner had typed it.
    call("ioctl", 16, 29, Outer, Order),

    // Large parts of the kernel that commands can spare.
    call("bpf", 321, 280, Outer, Forbidden),
    call("perf_event_open", 298, 241, Outer, Forbidden),
    call("userfaultfd", 323, 282, Outer, Forbidden),
    call("memfd_secret", 447, 447, Outer, Missing),
    call("personality", 135, 92, Outer, Personality),
    x86("modify_ldt", 154, Outer, Forbidden),
    x86("uselib", 134, Outer, Missing),
    x86("ustat", 136, Outer, Missing),
    x86("sysfs", 139, Outer, Missing),
    x86("_sysctl", 156, Outer, Missing),
    call("nfsservctl", 180, 42, Outer, Missing),

    // The whole machine: its clock, its name, its log, its kernel, its disks, its ports.
    call("settimeofday", 164, 170, Outer, Forbidden),
    call("clock_settime", 227, 112, Outer, Forbidden),
    call("adjtimex", 159, 171, Outer, Forbidden),
    call("clock_adjtime", 305, 266, Outer, Forbidden),
    call("sethostname", 170, 161, Outer, Forbidden),
    call("setdomainname", 171, 162, Outer, Forbidden),
    call("syslog", 103, 116, Outer, Forbidden),
    call("acct", 163, 89, Outer, Forbidden),
    call("vhangup", 153, 58, Outer, Forbidden),
    call("reboot", 169, 142, Outer, Forbidden),
    call("kexec_load", 246, 104, Outer, Forbidden),
    call("kexec_file_load", 320, 294, Outer, Forbidden),
    x86("create_module", 174, Outer, Forbidden),
    call("init_module", 175, 105, Outer, Forbidden),
    call("finit_module", 313, 273, Outer, Forbidden),
    call("delete_module", 176, 106, Outer, Forbidden),
    x86("get_kernel_syms", 177, Outer, Forbidden),
    x86("query_module", 178, Outer, Forbidden),
    call("swapon", 167, 224, Outer, Forbidden),
    call("swapoff", 168, 225, Outer, Forbidden),
    call("quotactl", 179, 60, Outer, Forbidden),
    call("quotactl_fd", 443, 443, Outer, Forbidden),
    x86("iopl", 172, Outer, Forbidden),
    x86("ioperm", 173, Outer, Forbidden),

    // Without namespaces: the queues and the memory that processes of one user share by number or by name.
    call("shmget", 29, 194, Shared, Missing),
    call("shmat", 30, 196, Shared, Missing),
    call("shmctl", 31, 195, Shared, Missing),
    call("semget", 64, 190, Shared, Missing),
    call("semop", 65, 193, Shared, Missing),
    call("semctl", 66, 191, Shared, Missing),
    call("semtimedop", 220, 192, Shared, Missing),
    call("msgget", 68, 186, Shared, Missing),
    call("msgsnd", 69, 189, Shared, Missing),
    call("msgrcv", 70, 188, Shared, Missing),
    call("msgctl", 71, 187, Shared, Missing),
    call("mq_open", 240, 180, Shared, Missing),
    call("mq_unlink", 241, 181, Shared, Missing),
];

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

/// The answer that makes a call fail with an `errno`.
const fn fail(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

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

fn compile(machine: Machine, around: Around, parts: &[Part]) -> Vec<sock_filter> {
    let mut named: Vec<(u32, Rule)> = CALLS
        .iter()
        .filter(|call| parts.contains(&call.part))
        .filter_map(|call| Some((machine.number(call)?, call.rule)))
        .collect();
    named.sort_unstable_by_key(|(number, _)| *number);
    let mut code = Code::default();
    let mut judged: Vec<(Rule, program::Place)> = Vec::new();
    let mut spans = vec![(0, code.answer(ALLOW))];
    for (number, rule) in named {
        let known = judged.iter().find(|(other, _)| *other == rule).map(|(_, place)| *place);
        let place = known.unwrap_or_else(|| judge(&mut code, rule, around));
        if known.is_none() {
            judged.push((rule, place));
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

/// The instructions that judge one rule.
fn judge(code: &mut Code, rule: Rule, around: Around) -> program::Place {
    let argument = program::argument;
    let allow = code.answer(ALLOW);
    let forbidden = code.answer(fail(libc::EPERM));
    match rule {
        Forbidden => forbidden,
        Missing => code.answer(fail(libc::ENOSYS)),
        Namespaces => {
            let test = code.any_bit(NAMESPACES, forbidden, allow);
            code.load(argument(0), test)
        }
        Mode(index) => judge_mode(code, index, SETS_ID),
        Node(index) => judge_mode(code, index, SETS_ID | IS_DEVICE),
        Open(index) => {
            let mode = judge_mode(code, index + 1, SETS_ID);
            let test = code.any_bit(CREATES, mode, allow);
            code.load(argument(index), test)
        }
        Socket => judge_socket(code, around),
        Pair => {
            let other = code.answer(fail(libc::EAFNOSUPPORT));
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
        Own(index) => {
            let test = match around {
                Around::Namespaces => code.equal(1, forbidden, allow),
                Around::Nothing(_) => code.equal(0, allow, forbidden),
            };
            code.load(argument(index), test)
        }
    }
}

fn judge_mode(code: &mut Code, index: u32, bits: u32) -> program::Place {
    let (allow, forbidden) = (code.answer(ALLOW), code.answer(fail(libc::EPERM)));
    let test = code.any_bit(bits, forbidden, allow);
    code.load(program::argument(index), test)
}

/// Families whose sockets stay where the sandbox holds them. Among them is the kernel's own for interfaces and routes,
/// without which a program cannot list its addresses.
///
/// Without namespaces there are no sockets with names in the file system: Landlock does not keep a command from
/// connecting to one, and behind them sit services that start programs for whoever asks.
fn judge_socket(code: &mut Code, around: Around) -> program::Place {
    let allow = code.answer(ALLOW);
    let other_family = code.answer(fail(libc::EAFNOSUPPORT));
    if around == Around::Nothing(Network::Off) {
        return other_family;
    }
    let other_protocol = code.answer(fail(libc::EPROTONOSUPPORT));
    let routes = code.equal(libc::NETLINK_ROUTE as u32, allow, other_protocol);
    let routes = code.load(program::argument(2), routes);
    let internet = PROTOCOLS.iter().fold(other_protocol, |next, protocol| code.equal(*protocol, allow, next));
    let internet = code.load(program::argument(2), internet);
    let family = code.equal(libc::AF_NETLINK as u32, routes, other_family);
    let family = code.equal(libc::AF_INET6 as u32, internet, family);
    let family = code.equal(libc::AF_INET as u32, internet, family);
    let family = match around {
        Around::Namespaces => code.equal(libc::AF_UNIX as u32, allow, family),
        Around::Nothing(_) => family,
    };
    code.load(program::argument(0), family)
}

#[cfg(test)]
mod tests;
