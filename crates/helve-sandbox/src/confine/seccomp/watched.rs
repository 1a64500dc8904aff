//! Calls that are not refused by a filter and yet tell what was refused: who listens is asked about them, looks, and lets
//! them pass. And the words for those that are refused.
//!
//! Some are watched always, because programs make few of them; those that name files only where a command is to be
//! explained in full.

use helve_core::{CallGroup, Explain};

use super::calls::CALLS;
use super::program::{self, Code, Place};
use super::{ALLOW, ASK, Machine, Rule, Watching};

/// Which calls of one number are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All.
    Every,
    /// Those whose argument of this index is not null. A pointer whose lower half is 0 counts as null: that is rare.
    Given(u32),
    /// Those whose argument of this index is another address than this one.
    Other(u32, u64),
}

impl Asked {
    /// The instructions that tell them from the others.
    pub(super) fn judge(self, code: &mut Code) -> Place {
        let (allow, ask) = (code.answer(ALLOW), code.answer(ASK));
        match self {
            Asked::Every => ask,
            Asked::Given(index) => {
                let test = code.any_bit(u32::MAX, ask, allow);
                code.load(program::argument(index), test)
            }
            Asked::Other(index, address) => {
                let test = code.equal((address >> 32) as u32, allow, ask);
                let test = code.load(program::upper(index), test);
                let test = code.equal(address as u32, test, ask);
                code.load(program::argument(index), test)
            }
        }
    }
}

/// What a call means for one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is read, listed or entered.
    Read,
    /// It is run.
    Execute,
    /// It is opened, as the argument of this index says.
    Open(usize),
    /// Its content or its attributes change; made if it does not exist.
    Write,
    /// Its content or its attributes change.
    Change,
    /// It is made; what exists is not touched.
    Make,
    /// It is made, or replaced.
    Replace,
    /// It goes.
    Remove,
}

/// A path among the arguments: the index of the directory that it starts from, if there is one, and its own.
pub(crate) type Named = (Option<usize>, usize, Look);

/// Where a call has what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A socket's address at the first index, its length at the second; whether it is one of a single datagram.
    Address(usize, usize, bool),
    /// One path.
    One(Named),
    /// Two paths.
    Two(Named, Named),
}

struct Watched {
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the table; tests check it"))]
    name: &'static str,
    x86: Option<u32>,
    arm: Option<u32>,
    explain: Explain,
    shape: Shape,
}

const fn rare(name: &'static str, x86: u32, arm: u32, shape: Shape) -> Watched {
    Watched { name, x86: Some(x86), arm: Some(arm), explain: Explain::Rare, shape }
}

const fn full(name: &'static str, x86: u32, arm: u32, shape: Shape) -> Watched {
    Watched { name, x86: Some(x86), arm: Some(arm), explain: Explain::Full, shape }
}

/// A call that only one machine has.
const fn old(name: &'static str, x86: u32, shape: Shape) -> Watched {
    Watched { name, x86: Some(x86), arm: None, explain: Explain::Full, shape }
}

use Look::{Change, Execute, Make, Open, Read, Remove, Replace, Write};
use Shape::{Address, One, Two};

#[rustfmt::skip]
const WATCHED: &[Watched] = &[
    rare("connect", 42, 203, Address(1, 2, false)),
    rare("sendto", 44, 206, Address(4, 5, true)),
    rare("execve", 59, 221, One((None, 0, Execute))),
    rare("execveat", 322, 281, One((Some(0), 1, Execute))),

    old("open", 2, One((None, 0, Open(1)))),
    full("openat", 257, 56, One((Some(0), 1, Open(2)))),
    old("creat", 85, One((None, 0, Write))),
    full("truncate", 76, 45, One((None, 0, Change))),
    old("access", 21, One((None, 0, Read))),
    full("faccessat", 269, 48, One((Some(0), 1, Read))),
    full("faccessat2", 439, 439, One((Some(0), 1, Read))),
    full("chdir", 80, 49, One((None, 0, Read))),
    old("mkdir", 83, One((None, 0, Make))),
    full("mkdirat", 258, 34, One((Some(0), 1, Make))),
    old("mknod", 133, One((None, 0, Make))),
    full("mknodat", 259, 33, One((Some(0), 1, Make))),
    old("rmdir", 84, One((None, 0, Remove))),
    old("unlink", 87, One((None, 0, Remove))),
    full("unlinkat", 263, 35, One((Some(0), 1, Remove))),
    old("symlink", 88, One((None, 1, Make))),
    full("symlinkat", 266, 36, One((Some(1), 2, Make))),
    old("link", 86, Two((None, 0, Read), (None, 1, Make))),
    full("linkat", 265, 37, Two((Some(0), 1, Read), (Some(2), 3, Make))),
    old("rename", 82, Two((None, 0, Remove), (None, 1, Replace))),
    full("renameat", 264, 38, Two((Some(0), 1, Remove), (Some(2), 3, Replace))),
    full("renameat2", 316, 276, Two((Some(0), 1, Remove), (Some(2), 3, Replace))),
    old("chmod", 90, One((None, 0, Change))),
    full("fchmodat", 268, 53, One((Some(0), 1, Change))),
    full("fchmodat2", 452, 452, One((Some(0), 1, Change))),
    old("chown", 92, One((None, 0, Change))),
    old("lchown", 94, One((None, 0, Change))),
    full("fchownat", 260, 54, One((Some(0), 1, Change))),
    full("utimensat", 280, 88, One((Some(0), 1, Change))),
];

/// The calls that are asked about, and which of them.
pub(super) fn asked(machine: Machine, watching: Watching) -> impl Iterator<Item = (u32, Asked)> {
    let wanted = move |one: &&Watched| one.explain == Explain::Rare || watching.explain == Explain::Full;
    WATCHED.iter().filter(wanted).filter_map(move |one| {
        let asked = match one.shape {
            Address(at, _, true) => Asked::Given(at as u32),
            One((None, _, Execute)) => Asked::Other(2, watching.environment),
            _ => Asked::Every,
        };
        Some((machine.one_of(one.x86, one.arm)?, asked))
    })
}

/// What a watched call of this machine is about. Allocates nothing.
pub(crate) fn look(number: u32) -> Option<Shape> {
    let machine = Machine::this()?;
    let watched = WATCHED.iter().find(|one| machine.one_of(one.x86, one.arm) == Some(number))?;
    Some(watched.shape)
}

/// The arguments that a refused call of this machine is told by, in their order, and 0 for every other. Allocates nothing.
pub(crate) fn telling(number: u32, arguments: &[u64; 6]) -> [u32; 3] {
    let one = |index: u32| arguments.get(index as usize).map_or(0, |argument| *argument as u32);
    let call = Machine::this()
        .and_then(|machine| CALLS.iter().find(|call| machine.number(call) == Some(number)))
        .map(|call| call.rule);
    match call {
        Some(Rule::Namespaces) => [one(0) & super::NAMESPACES, 0, 0],
        Some(Rule::Socket) => [one(0), one(1), one(2)],
        _ => [0; 3],
    }
}

/// The name of a refused call of this machine, with what [`telling`] kept of its arguments, and the group that grants it.
pub(crate) fn name_and_group(number: u32, told: [u32; 3]) -> Option<(String, Option<CallGroup>)> {
    let machine = Machine::this()?;
    let call = CALLS.iter().find(|call| machine.number(call) == Some(number))?;
    let [first, ..] = told;
    let details = if call.rule == Rule::Namespaces { flags(first, &NAMESPACES) } else { String::new() };
    let name = if details.is_empty() { call.name.to_owned() } else { format!("{} {details}", call.name) };
    Some((name, call.group()))
}

const NAMESPACES: [(u32, &str); 8] = [
    (libc::CLONE_NEWNS as u32, "CLONE_NEWNS"),
    (libc::CLONE_NEWCGROUP as u32, "CLONE_NEWCGROUP"),
    (libc::CLONE_NEWUTS as u32, "CLONE_NEWUTS"),
    (libc::CLONE_NEWIPC as u32, "CLONE_NEWIPC"),
    (libc::CLONE_NEWUSER as u32, "CLONE_NEWUSER"),
    (libc::CLONE_NEWPID as u32, "CLONE_NEWPID"),
    (libc::CLONE_NEWNET as u32, "CLONE_NEWNET"),
    (0x80, "CLONE_NEWTIME"),
];

fn flags(value: u32, names: &[(u32, &str)]) -> String {
    let set: Vec<&str> = names.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect();
    set.join("|")
}

#[cfg(test)]
pub(super) mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The numbers that are watched, by name.
    pub(in super::super) fn numbers() -> impl Iterator<Item = (&'static str, Option<u32>, Option<u32>)> {
        WATCHED.iter().map(|one| (one.name, one.x86, one.arm))
    }

    #[test]
    fn refused_calls_have_words() {
        let number = |name: &str| {
            let call = CALLS.iter().find(|call| call.name == name).unwrap();
            Machine::this().unwrap().number(call).unwrap()
        };
        let words = |name: &str, arguments: [u64; 6]| {
            let number = number(name);
            name_and_group(number, telling(number, &arguments)).unwrap()
        };
        let plain = |words: &str| (words.to_owned(), None);
        assert_eq!(words("mount", [9; 6]), plain("mount"));
        assert_eq!(
            words("unshare", [0x1002_0000, 7, 7, 7, 7, 7]),
            plain("unshare CLONE_NEWNS|CLONE_NEWUSER")
        );
        assert_eq!(words("ptrace", [16, 0, 0, 0, 0, 0]), ("ptrace".to_owned(), Some(CallGroup::Ptrace)));
        assert_eq!(words("io_uring_setup", [0; 6]).1, Some(CallGroup::IoUring));
    }
}
