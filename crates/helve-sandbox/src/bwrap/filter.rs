//! The system calls that a command in bwrap does without, as a filter for the kernel.
//!
//! Two things get past namespaces and mounts. Keys in the kernel belong to the user, not to a namespace: whoever knows the
//! number of the user's keyring may link it to his own and read it. And a file that is made setuid in the workspace is
//! setuid outside too, where it gives whoever starts it the rights of the user who runs Helve. So there are no keyrings, and
//! no call sets the setuid bit; the two interfaces whose arguments a filter cannot see (`openat2`, `io_uring`) do not exist.
//!
//! Out: a program of the classic BPF machine, as `seccomp(2)` takes it. Not here: any other confinement by system call.

/// One instruction: code, jump if true, jump if false, operand.
type Instruction = (u16, u8, u8, u32);

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const MISSING: u32 = 0x0005_0000 | libc::ENOSYS as u32;
const FORBIDDEN: u32 = 0x0005_0000 | libc::EPERM as u32;

/// Where the kernel puts the number of the call and the machine's architecture.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// The lower half of an argument.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const SETUID: u32 = libc::S_ISUID;
/// `O_CREAT` and the bit that makes `O_TMPFILE`: with one of them there is a mode.
const CREATES: u32 = libc::O_CREAT as u32 | 0o20_000_000;

/// The calls of one architecture, as numbers.
struct Calls {
    architecture: u32,
    /// Numbers from here on are calls of another binary interface.
    foreign_from: Option<u32>,
    missing: [u32; 5],
    /// The calls whose argument of this index is a mode.
    modes: &'static [(u32, u32)],
    /// The calls whose argument of this index is flags, and the next a mode.
    opens: &'static [(u32, u32)],
}

const X86_64: Calls = Calls {
    architecture: 0xc000_003e,
    foreign_from: Some(0x4000_0000),
    missing: [248, 249, 250, 425, 437],
    modes: &[(85, 1), (90, 1), (91, 1), (133, 1), (259, 2), (268, 2), (452, 2)],
    opens: &[(2, 1), (257, 2)],
};

const X86: Calls = Calls {
    architecture: 0x4000_0003,
    foreign_from: None,
    missing: [286, 287, 288, 425, 437],
    modes: &[(8, 1), (14, 1), (15, 1), (94, 1), (297, 2), (306, 2), (452, 2)],
    opens: &[(5, 1), (295, 2)],
};

const ARM_64: Calls = Calls {
    architecture: 0xc000_00b7,
    foreign_from: None,
    missing: [217, 218, 219, 425, 437],
    modes: &[(33, 2), (52, 1), (53, 2), (452, 2)],
    opens: &[(56, 2)],
};

const ARM: Calls = Calls {
    architecture: 0x4000_0028,
    foreign_from: None,
    missing: [309, 310, 311, 425, 437],
    modes: &[(8, 1), (14, 1), (15, 1), (94, 1), (324, 2), (333, 2), (452, 2)],
    opens: &[(5, 1), (322, 2)],
};

/// The filter, where the calls of this machine are known.
pub(super) fn program() -> Option<Vec<u8>> {
    let known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    let bytes = |(code, yes, no, operand): Instruction| {
        let [a, b] = code.to_ne_bytes();
        let [e, f, g, h] = operand.to_ne_bytes();
        [a, b, yes, no, e, f, g, h]
    };
    known.then(|| instructions().into_iter().flat_map(bytes).collect())
}

/// Whether there is a filter on this machine.
pub(super) fn exists() -> bool {
    program().is_some()
}

fn instructions() -> Vec<Instruction> {
    let mut all = vec![(LOAD, 0, 0, ARCHITECTURE)];
    for calls in [X86_64, X86, ARM_64, ARM] {
        let part = part(&calls);
        // The longest part has less than a hundred instructions; a longer one would be cut off from what follows.
        all.push((JUMP_EQUAL, 0, u8::try_from(part.len()).unwrap_or(u8::MAX), calls.architecture));
        all.extend(part);
    }
    all.push((RETURN, 0, 0, MISSING));
    all
}

/// What is done for the calls of one architecture.
fn part(calls: &Calls) -> Vec<Instruction> {
    let mut part = vec![(LOAD, 0, 0, NUMBER)];
    if let Some(first) = calls.foreign_from {
        part.extend([(JUMP_AT_LEAST, 0, 1, first), (RETURN, 0, 0, MISSING)]);
    }
    for number in calls.missing {
        part.extend([(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, MISSING)]);
    }
    for &(number, mode) in calls.modes {
        part.push((JUMP_EQUAL, 0, 4, number));
        part.extend(judge_mode(mode));
    }
    for &(number, flags) in calls.opens {
        part.push((JUMP_EQUAL, 0, 6, number));
        part.extend([(LOAD, 0, 0, argument(flags)), (JUMP_ANY_BIT, 0, 3, CREATES)]);
        part.extend(judge_mode(flags + 1));
    }
    part.push((RETURN, 0, 0, ALLOW));
    part
}

fn judge_mode(index: u32) -> [Instruction; 4] {
    [
        (LOAD, 0, 0, argument(index)),
        (JUMP_ANY_BIT, 0, 1, SETUID),
        (RETURN, 0, 0, FORBIDDEN),
        (RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// What the filter answers to one call.
    fn answer(architecture: u32, number: u32, arguments: [u32; 4]) -> u32 {
        let program = instructions();
        let mut value = 0;
        let mut at = 0;
        loop {
            let (code, yes, no, operand) = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { yes } else { no });
            match (code, operand) {
                (LOAD, NUMBER) => value = number,
                (LOAD, ARCHITECTURE) => value = architecture,
                (LOAD, offset) => value = arguments[(offset as usize - 16) / 8],
                (JUMP_EQUAL, _) => at += jump(value == operand),
                (JUMP_AT_LEAST, _) => at += jump(value >= operand),
                (JUMP_ANY_BIT, _) => at += jump(value & operand != 0),
                (RETURN, _) => return operand,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn every_call_gets_its_answer_on_every_architecture() {
        for calls in [X86_64, X86, ARM_64, ARM] {
            let ask = |number, arguments| answer(calls.architecture, number, arguments);
            for number in calls.missing {
                assert_eq!(ask(number, [0; 4]), MISSING, "{number}");
            }
            for &(number, mode) in calls.modes {
                let mut arguments = [u32::MAX; 4];
                assert_eq!(ask(number, arguments), FORBIDDEN, "{number}");
                arguments[mode as usize] = 0o2777;
                assert_eq!(ask(number, arguments), ALLOW, "{number}");
            }
            for &(number, flags) in calls.opens {
                let with = |flag: i32, mode: u32| {
                    let mut arguments = [u32::MAX; 4];
                    arguments[flags as usize] = u32::try_from(flag).unwrap();
                    arguments[flags as usize + 1] = mode;
                    ask(number, arguments)
                };
                assert_eq!(with(libc::O_CREAT | libc::O_WRONLY, 0o4755), FORBIDDEN, "{number}");
                assert_eq!(with(libc::O_TMPFILE | libc::O_RDWR, 0o4755), FORBIDDEN, "{number}");
                assert_eq!(with(libc::O_CREAT, 0o644), ALLOW, "{number}");
                // Without one of the flags there is no mode, and its place holds anything.
                assert_eq!(with(libc::O_RDONLY | libc::O_DIRECTORY, u32::MAX), ALLOW, "{number}");
            }
            // `exit` or what else bears the number: nothing that the filter names.
            assert_eq!(ask(1, [u32::MAX; 4]), ALLOW);
        }
        assert_eq!(answer(X86_64.architecture, 0x4000_0000 | 90, [0; 4]), MISSING);
        assert_eq!(answer(7, 1, [0; 4]), MISSING);
    }
}
