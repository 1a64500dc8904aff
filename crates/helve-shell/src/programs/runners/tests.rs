use proptest::prelude::*;

use crate::programs::cases::{any_args, check, understands};

#[test]
fn runners_do_what_their_cases_say() {
    check("runners.jsonl");
}

const PROGRAMS: &[&str] = &[
    "at",
    "bash",
    "bun",
    "busybox",
    "capsh",
    "chroot",
    "cmd",
    "deno",
    "docker",
    "emacs",
    "entr",
    "env",
    "fish",
    "flock",
    "gdb",
    "hyperfine",
    "kubectl",
    "ld-linux-x86-64.so.2",
    "nice",
    "node",
    "npm",
    "npx",
    "nsenter",
    "parallel",
    "perf",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "python3",
    "ruby",
    "runuser",
    "screen",
    "script",
    "ssh",
    "sshpass",
    "strace",
    "su",
    "sudo",
    "timeout",
    "tmux",
    "unshare",
    "uv",
    "vim",
    "watch",
    "xargs",
];

proptest! {
    #[test]
    fn any_arguments_of_runners_are_understood(program in proptest::sample::select(PROGRAMS), args in any_args()) {
        understands(program, &args)?;
    }
}
