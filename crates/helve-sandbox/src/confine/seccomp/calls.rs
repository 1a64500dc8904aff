//! The table: every call that a filter says something about, with its numbers, who is held by it, and the answer.
//!
//! [`Part::Outer`] holds for the helper and its members' inits too. In [`Part::Inner`] is what one of them needs, and what
//! people want to be told of when it is refused to a command: a filter that only refuses goes before one that asks
//! somebody, wherever both stand. Those calls the outer filter cannot refuse to the helper. There are few of them, because
//! every command installs the inner filter anew, and that takes the longer the more it tells apart.

use helve_core::CallGroup;

use super::{IOPRIO_WHO_PROCESS, Part, Rule};

/// One call: its name, its number on each machine, which filter forbids it, and the answer.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) x86: Option<u32>,
    pub(super) arm: Option<u32>,
    pub(super) part: Part,
    pub(super) rule: Rule,
}

const fn call(name: &'static str, x86: u32, arm: u32, part: Part, rule: Rule) -> Call {
    Call { name, x86: Some(x86), arm: Some(arm), part, rule }
}

/// A call that only one machine has.
const fn x86(name: &'static str, number: u32, part: Part, rule: Rule) -> Call {
    Call { name, x86: Some(number), arm: None, part, rule }
}

impl Call {
    /// The group with which the owner grants it, if there is one.
    pub(super) fn group(&self) -> Option<CallGroup> {
        match self.name {
            "ptrace" | "process_vm_readv" | "process_vm_writev" => Some(CallGroup::Ptrace),
            "io_uring_setup" | "io_uring_enter" | "io_uring_register" => Some(CallGroup::IoUring),
            "perf_event_open" => Some(CallGroup::Perf),
            "userfaultfd" => Some(CallGroup::Userfaultfd),
            _ => None,
        }
    }
}

use Part::{Inner, Outer, Shared};
use Rule::{
    Absent, Forbidden, Missing, Mode, Namespaces, Node, Open, Order, Own, Pair, Personality, Socket, Weight,
};

#[rustfmt::skip]
pub(super) const CALLS: &[Call] = &[
    // Namespaces and mounts.
    call("clone", 56, 220, Inner, Namespaces),
    // Its flags lie in memory, where a filter cannot see them. Without it programs use clone.
    call("clone3", 435, 435, Inner, Missing),
    call("unshare", 272, 97, Inner, Namespaces),
    call("setns", 308, 268, Inner, Forbidden),
    call("chroot", 161, 51, Inner, Forbidden),
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
    call("setpriority", 141, 140, Outer, Weight(libc::PRIO_PROCESS)),
    call("ioprio_set", 251, 30, Outer, Weight(IOPRIO_WHO_PROCESS)),
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
    call("io_uring_setup", 425, 425, Inner, Absent),
    call("io_uring_enter", 426, 426, Inner, Absent),
    call("io_uring_register", 427, 427, Inner, Absent),

    // Files by number instead of name: past every rule about paths.
    call("open_by_handle_at", 304, 265, Outer, Forbidden),
    call("fanotify_init", 300, 262, Outer, Forbidden),
    call("fanotify_mark", 301, 263, Outer, Forbidden),
    call("lookup_dcookie", 212, 18, Outer, Forbidden),

    // Keys belong to the user, not to a namespace: whoever knows the number of a keyring may link it to his own.
    call("add_key", 248, 217, Inner, Absent),
    call("request_key", 249, 218, Inner, Absent),
    call("keyctl", 250, 219, Inner, Absent),

    // Sockets of other families are not held by a network namespace: AF_VSOCK reaches the hypervisor.
    call("socket", 41, 198, Inner, Socket),
    call("socketpair", 53, 199, Outer, Pair),

    // A terminal takes what is pushed into it as if its owner had typed it.
    call("ioctl", 16, 29, Outer, Order),

    // Large parts of the kernel that commands can spare.
    call("bpf", 321, 280, Inner, Forbidden),
    call("perf_event_open", 298, 241, Inner, Forbidden),
    call("userfaultfd", 323, 282, Inner, Forbidden),
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
