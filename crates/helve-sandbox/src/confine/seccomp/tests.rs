//! The filter is run by a small interpreter, against a plain reading of the table and against cases that are data.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;

const AROUND: [Around; 3] =
    [Around::Namespaces, Around::Nothing(Network::Off), Around::Nothing(Network::Host)];
const MACHINES: [Machine; 2] = [Machine::X86, Machine::Arm];
const ALL: &[Part] = &[Outer, Inner, Shared];

/// A filter without anybody who listens.
fn compile(machine: Machine, around: Around, parts: &[Part]) -> Vec<sock_filter> {
    super::compile(machine, &Wanted::new(around, parts))
}

/// What a program answers to one call, and after how many instructions.
fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 4]) -> (u32, usize) {
    let (mut value, mut at, mut steps) = (0, 0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        steps += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match (code, k) {
            (0x20, 0) => value = number,
            (0x20, 4) => value = architecture,
            (0x20, offset) if offset % 8 == 4 => value = 0,
            (0x20, offset) => {
                value = arguments.get((offset as usize - 16) / 8).copied().unwrap_or_default();
            }
            (0x05, offset) => at += offset as usize,
            (0x15, _) => at += jump(value == k),
            (0x35, _) => at += jump(value >= k),
            (0x45, _) => at += jump(value & k != 0),
            (0x06, _) => return (k, steps),
            other => panic!("{other:?}"),
        }
    }
}

/// What the table says, read without a tree.
fn expected(
    machine: Machine,
    around: Around,
    parts: &[Part],
    number: u32,
    arguments: [u32; 4],
) -> Result<(), i32> {
    if number >= UNKNOWN_FROM {
        return Err(libc::ENOSYS);
    }
    let call = CALLS.iter().find(|call| machine.number(call) == Some(number) && parts.contains(&call.part));
    let Some(call) = call else { return Ok(()) };
    let refuse = |holds: bool, errno: i32| if holds { Err(errno) } else { Ok(()) };
    let setuid = |index: u32| arguments[index as usize] & 0o6000 != 0;
    match call.rule {
        Forbidden => Err(libc::EPERM),
        Missing | Absent => Err(libc::ENOSYS),
        Namespaces => refuse(arguments[0] & 0x7e02_0080 != 0, libc::EPERM),
        Mode(index) => refuse(setuid(index), libc::EPERM),
        Node(index) => {
            let device = [0o020_000, 0o060_000].contains(&(arguments[index as usize] & 0o170_000));
            let link = arguments[index as usize] & 0o170_000 == 0o120_000;
            refuse(setuid(index) || device || link, libc::EPERM)
        }
        Open(index) => {
            refuse(arguments[index as usize] & 0o20_000_100 != 0 && setuid(index + 1), libc::EPERM)
        }
        Pair => refuse(arguments[0] != 1, libc::EAFNOSUPPORT),
        Order => refuse([0x5412, 0x541c, 0x5423].contains(&arguments[1]), libc::EPERM),
        Personality => refuse(arguments[0] != u32::MAX && arguments[0] & !0x0006_0008 != 0, libc::EPERM),
        Own(index) => match around {
            Around::Namespaces => refuse(arguments[index as usize] == 1, libc::EPERM),
            Around::Nothing(_) => refuse(arguments[index as usize] != 0, libc::EPERM),
        },
        Weight(process) => match around {
            Around::Namespaces => {
                refuse(![process, process + 1].contains(&arguments[0]) || arguments[1] == 1, libc::EPERM)
            }
            Around::Nothing(_) => refuse(arguments[0] != process || arguments[1] != 0, libc::EPERM),
        },
        Socket => match (around, arguments[0]) {
            (Around::Namespaces, 1) => Ok(()),
            (Around::Namespaces | Around::Nothing(Network::Host), 2 | 10) => {
                refuse(![0, 1, 6, 17, 58].contains(&arguments[2]), libc::EPROTONOSUPPORT)
            }
            (Around::Namespaces | Around::Nothing(Network::Host), 16) => {
                refuse(arguments[2] != 0, libc::EPROTONOSUPPORT)
            }
            _ => Err(libc::EAFNOSUPPORT),
        },
    }
}

fn answer(expected: Result<(), i32>) -> u32 {
    expected.map_or_else(fail, |()| ALLOW)
}

#[test]
fn the_tree_answers_every_number_as_the_table_does() {
    let values: Vec<u32> =
        [0, 1, 2, 3, 6, 10, 16, 17, 38, 40, 58, 262, 0o100, 0o4755, 0o2755, 0x5401, 0x5412]
            .into_iter()
            .chain([
                0x541c,
                0x5423,
                0x80,
                0x11,
                0x0002_0000,
                0x0004_0000,
                0x0040_0000,
                0o20_200_000,
                u32::MAX,
            ])
            .chain([libc::CLONE_NEWUSER as u32, libc::CLONE_NEWNET as u32, 0x003d_0f00])
            .collect();
    for machine in MACHINES {
        for around in AROUND {
            for parts in [&[Outer][..], &[Inner], &[Outer, Inner], ALL] {
                let program = compile(machine, around, parts);
                let ask = |number, arguments| run(&program, machine.architecture(), number, arguments).0;
                for number in (0..600).chain([0x4000_0000, 0x4000_0029, u32::MAX]) {
                    for value in &values {
                        // Each value at each place, once with nothing and once with everything around it.
                        for (place, rest) in (0..4).flat_map(|place| [(place, 0), (place, u32::MAX)]) {
                            let mut arguments = [rest; 4];
                            arguments[place] = *value;
                            let expected = answer(expected(machine, around, parts, number, arguments));
                            let got = ask(number, arguments);
                            assert_eq!(got, expected, "{machine:?} {around:?} {number} {arguments:x?}");
                        }
                    }
                }
                for foreign in [0x4000_0003, 0x4000_0028, 0, u32::MAX] {
                    assert_eq!(run(&program, foreign, 1, [0; 4]).0, KILL, "{foreign:x}");
                }
            }
        }
    }
}

/// One case: a call by name or number, its arguments, the answer, and where it holds.
#[test]
fn cases_get_the_answers_that_they_name() {
    let cases = include_str!("../../../tests/cases/seccomp.jsonl");
    let mut count = 0;
    for line in cases.lines().filter(|line| !line.is_empty()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let number = |machine: Machine| match &case["call"] {
            Value::String(name) => {
                let call = CALLS.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{line}"));
                machine.number(call)
            }
            number => {
                number[if machine == Machine::X86 { 0 } else { 1 }].as_u64().map(|number| number as u32)
            }
        };
        let mut arguments = [0; 4];
        for (place, value) in arguments.iter_mut().zip(case["arguments"].as_array().into_iter().flatten()) {
            *place = value.as_u64().unwrap() as u32;
        }
        for (around, name) in AROUND.into_iter().zip(["namespaces", "off", "host"]) {
            let Some(expected) = case["answer"][name].as_str().or(case["answer"].as_str()) else { continue };
            for machine in MACHINES {
                let Some(number) = number(machine) else { continue };
                let parts = if around == Around::Namespaces { &[Outer, Inner] } else { ALL };
                let program = compile(machine, around, parts);
                let got = match run(&program, machine.architecture(), number, arguments).0 {
                    ALLOW => "allow",
                    other => ["EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT"]
                        .into_iter()
                        .zip([libc::EPERM, libc::ENOSYS, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT])
                        .find(|(_, errno)| fail(*errno) == other)
                        .map_or("?", |(name, _)| name),
                };
                assert_eq!(got, expected, "{machine:?} {name}: {line}");
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn the_two_parts_together_are_the_whole() {
    let machine = Machine::X86;
    let outer = compile(machine, Around::Namespaces, &[Outer]);
    let inner = compile(machine, Around::Namespaces, &[Inner]);
    let whole = compile(machine, Around::Namespaces, &[Outer, Inner]);
    for number in 0..600 {
        for arguments in [[0; 4], [u32::MAX; 4], [1; 4]] {
            let ask = |program: &[sock_filter]| run(program, machine.architecture(), number, arguments).0;
            // The kernel takes the answer that is the smaller number; for two errors the later filter's.
            assert_eq!(ask(&outer).min(ask(&inner)), ask(&whole), "{number}");
        }
    }
}

#[test]
fn a_filter_is_small_and_every_path_through_it_short() {
    for machine in MACHINES {
        for (parts, most) in [(&[Inner][..], 60), (&[Outer], 130), (&[Outer, Inner], 180), (ALL, 230)] {
            let program = compile(machine, Around::Namespaces, parts);
            assert!(program.len() <= most, "{machine:?} {parts:?}: {}", program.len());
            let longest =
                (0..600).map(|number| run(&program, machine.architecture(), number, [0; 4]).1).max();
            assert!(longest <= Some(20), "{machine:?} {parts:?}: {longest:?}");
        }
    }
}

const RARE: Watching = Watching { explain: Explain::Rare, environment: 0x7f12_3456_789a };
const FULL: Watching = Watching { explain: Explain::Full, ..RARE };

/// Who listens is asked wherever the plain filter refuses, except where programs try all the time, and answers what that
/// one says.
#[test]
fn the_filter_that_asks_refuses_nothing_that_the_plain_one_allows_and_lets_nothing_pass_that_it_refuses() {
    let quiet = |number: u32, machine: Machine| {
        let call = CALLS.iter().find(|call| machine.number(call) == Some(number));
        number >= UNKNOWN_FROM || call.is_some_and(|call| call.rule == Missing)
    };
    for machine in MACHINES {
        for watching in [RARE, FULL] {
            let plain = Filter(compile(machine, Around::Namespaces, &[Inner]));
            let wanted = Wanted::new(Around::Namespaces, &[Inner]);
            let asks = super::compile(machine, &Wanted { watching: Some(watching), ..wanted });
            for number in (0..600).chain([0x4000_0029, u32::MAX]) {
                for value in [0, 1, 2, 3, 10, 16, 17, 0o4755, 0x5412, 0x1000_0000, 0x80, u32::MAX] {
                    for (place, rest) in (0..4).flat_map(|place| [(place, 0), (place, 2), (place, u32::MAX)])
                    {
                        let mut arguments = [rest; 4];
                        arguments[place] = value;
                        let mut data =
                            Data { number, architecture: machine.architecture(), ..Data::default() };
                        data.arguments.iter_mut().zip(arguments).for_each(|(to, from)| *to = from.into());
                        let (asked, _) = run(&asks, machine.architecture(), number, arguments);
                        match plain.answer(&data) {
                            Answer::Refused(errno) if quiet(number, machine) => {
                                assert_eq!(asked, fail(errno))
                            }
                            Answer::Refused(_) => {
                                assert_eq!(asked, ASK, "{machine:?} {number} {arguments:x?}")
                            }
                            Answer::Allowed => assert!([ALLOW, ASK].contains(&asked), "{number}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn who_listens_is_asked_about_few_calls_that_are_allowed() {
    let machine = Machine::X86;
    let asks = |watching: Watching| {
        let wanted = Wanted::new(Around::Namespaces, &[Inner]);
        super::compile(machine, &Wanted { watching: Some(watching), ..wanted })
    };
    let asked = |program: &[sock_filter], name: &str, arguments: [u64; 6]| {
        let known = watched::tests::numbers().find(|(known, ..)| *known == name).and_then(|(_, x86, _)| x86);
        let call = CALLS.iter().find(|call| call.name == name).and_then(|call| call.x86);
        let number = known.or(call).unwrap();
        let data = Data { number, architecture: machine.architecture(), instruction: 0, arguments };
        program::run(program, &data) == ASK
    };
    let (rare, full) = (asks(RARE), asks(FULL));
    let own = RARE.environment;
    for (name, arguments, in_rare, in_full) in [
        ("connect", [0; 6], true, true),
        ("sendto", [0; 6], false, false),
        ("sendto", [0, 0, 0, 0, 0x7ff0, 0], true, true),
        ("execve", [1, 2, own, 0, 0, 0], false, false),
        ("execve", [1, 2, own + 1, 0, 0, 0], true, true),
        ("execve", [1, 2, own + (1 << 32), 0, 0, 0], true, true),
        ("execve", [1, 2, 0, 0, 0, 0], true, true),
        ("execveat", [0; 6], true, true),
        ("socket", [2, 1, 0, 0, 0, 0], false, false),
        ("socket", [2, 3, 1, 0, 0, 0], true, true),
        ("socket", [10, 3 | 0o2_000_000, 58, 0, 0, 0], true, true),
        ("socket", [16, 3, 0, 0, 0, 0], false, false),
        ("openat", [0; 6], false, true),
        ("unlinkat", [0; 6], false, true),
        ("chmod", [0, 0o755, 0, 0, 0, 0], false, true),
        ("chmod", [0, 0o4755, 0, 0, 0, 0], false, true),
        ("add_key", [0; 6], true, true),
        ("ioctl", [0, 0x5412, 0, 0, 0, 0], false, false),
        ("clone3", [0; 6], false, false),
        ("openat2", [0; 6], false, false),
    ] {
        assert_eq!(asked(&rare, name, arguments), in_rare, "{name} {arguments:x?}");
        assert_eq!(asked(&full, name, arguments), in_full, "{name} {arguments:x?}");
    }
}

#[test]
fn a_granted_group_is_allowed_and_no_other() {
    let machine = Machine::X86;
    for granted in CallGroup::ALL {
        let wanted = Wanted::new(Around::Namespaces, &[Outer, Inner]);
        let program = super::compile(machine, &Wanted { granted: &[granted], ..wanted });
        for call in CALLS.iter().filter(|call| call.group().is_some()) {
            let answer = run(&program, machine.architecture(), call.x86.unwrap(), [0; 4]).0;
            assert_eq!(answer == ALLOW, call.group() == Some(granted), "{} {granted:?}", call.name);
        }
        assert!(CALLS.iter().any(|call| call.group() == Some(granted)));
    }
}

#[test]
fn the_filter_that_asks_is_small_too() {
    for machine in MACHINES {
        for (watching, most) in [(RARE, 80), (FULL, 110)] {
            let wanted = Wanted::new(Around::Namespaces, &[Inner]);
            let program = super::compile(machine, &Wanted { watching: Some(watching), ..wanted });
            assert!(program.len() <= most, "{machine:?} {watching:?}: {}", program.len());
        }
    }
}

#[test]
fn no_call_is_named_twice() {
    for machine in MACHINES {
        let mut numbers: Vec<_> =
            watched::tests::numbers().filter_map(|(_, x86, arm)| machine.one_of(x86, arm)).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        let mut numbers: Vec<_> = CALLS.iter().filter_map(|call| machine.number(call)).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        assert!(numbers.iter().all(|number| *number < UNKNOWN_FROM));
    }
}

/// The numbers of this machine, where the C library names them too.
#[test]
fn numbers_are_those_of_the_c_library() {
    let machine = Machine::this().unwrap();
    let known = [
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("unshare", libc::SYS_unshare),
        ("setns", libc::SYS_setns),
        ("chroot", libc::SYS_chroot),
        ("pivot_root", libc::SYS_pivot_root),
        ("mount", libc::SYS_mount),
        ("umount2", libc::SYS_umount2),
        ("open_tree", libc::SYS_open_tree),
        ("move_mount", libc::SYS_move_mount),
        ("fsopen", libc::SYS_fsopen),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("fspick", libc::SYS_fspick),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("kcmp", libc::SYS_kcmp),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("openat2", libc::SYS_openat2),
        ("openat", libc::SYS_openat),
        ("fchmod", libc::SYS_fchmod),
        ("mknodat", libc::SYS_mknodat),
        ("fchmodat", libc::SYS_fchmodat),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("fanotify_mark", libc::SYS_fanotify_mark),
        ("lookup_dcookie", libc::SYS_lookup_dcookie),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("keyctl", libc::SYS_keyctl),
        ("socket", libc::SYS_socket),
        ("socketpair", libc::SYS_socketpair),
        ("ioctl", libc::SYS_ioctl),
        ("bpf", libc::SYS_bpf),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("memfd_secret", libc::SYS_memfd_secret),
        ("personality", libc::SYS_personality),
        ("nfsservctl", libc::SYS_nfsservctl),
        ("settimeofday", libc::SYS_settimeofday),
        ("clock_settime", libc::SYS_clock_settime),
        ("adjtimex", libc::SYS_adjtimex),
        ("clock_adjtime", libc::SYS_clock_adjtime),
        ("sethostname", libc::SYS_sethostname),
        ("setdomainname", libc::SYS_setdomainname),
        ("syslog", libc::SYS_syslog),
        ("acct", libc::SYS_acct),
        ("vhangup", libc::SYS_vhangup),
        ("reboot", libc::SYS_reboot),
        ("kexec_load", libc::SYS_kexec_load),
        ("kexec_file_load", libc::SYS_kexec_file_load),
        ("init_module", libc::SYS_init_module),
        ("finit_module", libc::SYS_finit_module),
        ("delete_module", libc::SYS_delete_module),
        ("swapon", libc::SYS_swapon),
        ("swapoff", libc::SYS_swapoff),
        ("quotactl", libc::SYS_quotactl),
        ("quotactl_fd", libc::SYS_quotactl_fd),
        ("shmget", libc::SYS_shmget),
        ("shmat", libc::SYS_shmat),
        ("shmctl", libc::SYS_shmctl),
        ("semget", libc::SYS_semget),
        ("semop", libc::SYS_semop),
        ("semctl", libc::SYS_semctl),
        ("semtimedop", libc::SYS_semtimedop),
        ("msgget", libc::SYS_msgget),
        ("msgsnd", libc::SYS_msgsnd),
        ("msgrcv", libc::SYS_msgrcv),
        ("msgctl", libc::SYS_msgctl),
        ("mq_open", libc::SYS_mq_open),
        ("mq_unlink", libc::SYS_mq_unlink),
        ("prlimit64", libc::SYS_prlimit64),
        ("setpriority", libc::SYS_setpriority),
        ("ioprio_set", libc::SYS_ioprio_set),
        ("sched_setparam", libc::SYS_sched_setparam),
        ("sched_setscheduler", libc::SYS_sched_setscheduler),
        ("sched_setaffinity", libc::SYS_sched_setaffinity),
        ("sched_setattr", libc::SYS_sched_setattr),
    ];
    for (name, number) in known {
        let call = CALLS.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(machine.number(call).map(i64::from), Some(number), "{name}");
    }
    for (name, number) in [
        ("connect", libc::SYS_connect),
        ("sendto", libc::SYS_sendto),
        ("execve", libc::SYS_execve),
        ("execveat", libc::SYS_execveat),
        ("openat", libc::SYS_openat),
        ("truncate", libc::SYS_truncate),
        ("faccessat", libc::SYS_faccessat),
        ("faccessat2", libc::SYS_faccessat2),
        ("chdir", libc::SYS_chdir),
        ("mkdirat", libc::SYS_mkdirat),
        ("mknodat", libc::SYS_mknodat),
        ("unlinkat", libc::SYS_unlinkat),
        ("symlinkat", libc::SYS_symlinkat),
        ("linkat", libc::SYS_linkat),
        ("renameat", libc::SYS_renameat),
        ("renameat2", libc::SYS_renameat2),
        ("fchmodat", libc::SYS_fchmodat),
        ("fchownat", libc::SYS_fchownat),
        ("utimensat", libc::SYS_utimensat),
    ] {
        let (_, x86, arm) = watched::tests::numbers().find(|(known, ..)| *known == name).unwrap();
        assert_eq!(machine.one_of(x86, arm).map(i64::from), Some(number), "{name}");
    }
    #[cfg(target_arch = "x86_64")]
    for (name, number) in [
        ("access", libc::SYS_access),
        ("mkdir", libc::SYS_mkdir),
        ("rmdir", libc::SYS_rmdir),
        ("unlink", libc::SYS_unlink),
        ("symlink", libc::SYS_symlink),
        ("link", libc::SYS_link),
        ("rename", libc::SYS_rename),
        ("chown", libc::SYS_chown),
        ("lchown", libc::SYS_lchown),
    ] {
        let (_, x86, _) = watched::tests::numbers().find(|(known, ..)| *known == name).unwrap();
        assert_eq!(x86.map(i64::from), Some(number), "{name}");
    }
    #[cfg(target_arch = "x86_64")]
    for (name, number) in [
        ("open", libc::SYS_open),
        ("creat", libc::SYS_creat),
        ("chmod", libc::SYS_chmod),
        ("mknod", libc::SYS_mknod),
        ("modify_ldt", libc::SYS_modify_ldt),
        ("uselib", libc::SYS_uselib),
        ("ustat", libc::SYS_ustat),
        ("sysfs", libc::SYS_sysfs),
        ("_sysctl", libc::SYS__sysctl),
        ("iopl", libc::SYS_iopl),
        ("ioperm", libc::SYS_ioperm),
        ("fchmodat2", libc::SYS_fchmodat2),
    ] {
        let call = CALLS.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(call.x86.map(i64::from), Some(number), "{name}");
    }
}
