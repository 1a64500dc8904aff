//! What every command gets, whatever the backend: its streams, its exit, its environment, its limits.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use helve_core::{Cancel, ErrorKind, Exit, OutputSink, ProcessLimits, SandboxChoice, Stream};
use pretty_assertions::assert_eq;

use crate::common::{
    Collector, LIMITS, backend, block_on, choice_of_role, choices, job, name, output, role, run, view,
    wait_for,
};

#[test]
fn exit_codes_are_the_commands_own() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        for (command, code) in
            [("true", 0), ("false", 1), ("exit 42", 42), ("no-such-program-x", 127), ("exit 255", 255)]
        {
            let done = run(&choice, view(workspace.path()), command);
            assert_eq!(done.exit, Ok(Exit::Code(code)), "{choice:?} {command}");
        }
    }
}

#[test]
fn death_by_signal_is_told() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let done = run(&choice, view(workspace.path()), "kill -TERM $$");
        let expected = match choice {
            SandboxChoice::None
            | SandboxChoice::Auto
            | SandboxChoice::Native
            | SandboxChoice::Landlock
            | SandboxChoice::Container(_) => Exit::Signal(15),
            // What stands between passes it on as shells do.
            SandboxChoice::Wrapper { .. } | SandboxChoice::Bwrap => Exit::Code(128 + 15),
        };
        assert_eq!(done.exit, Ok(expected), "{choice:?}");
    }
}

#[test]
fn both_streams_are_byte_exact() {
    let workspace = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(workspace.path().join("data"), &bytes).unwrap();
    for choice in choices() {
        let collector = Collector::default();
        let backend = backend(&choice, view(workspace.path()));
        let command = "cat data; tac -s '' data >/dev/null 2>&1; cat data >&2; printf '\\000\\377'";
        let exit = block_on(backend.run(job(command), Box::new(collector.clone()), Cancel::never()));
        assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Code(0)), "{choice:?}");
        let collected = collector.0.lock().unwrap();
        let expected = [bytes.as_slice(), &[0, 255]].concat();
        assert!(collected.stdout == expected, "{choice:?}: {} bytes on stdout", collected.stdout.len());
        assert!(collected.stderr == bytes, "{choice:?}: {} bytes on stderr", collected.stderr.len());
    }
}

#[test]
fn last_bytes_before_the_exit_are_not_lost() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        for _ in 0..20 {
            let text = output(
                &choice,
                view(workspace.path()),
                "head -c 60000 /dev/zero | tr '\\0' x; echo; echo end",
            );
            assert_eq!((text.len(), text.ends_with("x\nend\n")), (60_005, true), "{choice:?}");
        }
    }
}

#[test]
fn standard_input_is_empty_and_a_broken_pipe_kills() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        assert_eq!(output(&choice, view(workspace.path()), "cat; echo end"), "end\n", "{choice:?}");
        // With SIGPIPE ignored, as Rust programs have it, `yes` would complain on standard error and exit 1.
        let done = run(&choice, view(workspace.path()), "set -o pipefail; yes | head -n 1");
        assert_eq!((done.exit, done.stderr.as_str()), (Ok(Exit::Code(128 + 13)), ""), "{choice:?}");
    }
}

#[test]
fn signal_masks_and_dispositions_are_fresh() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let text = output(&choice, view(workspace.path()), "grep -E '^Sig(Blk|Ign)' /proc/self/status");
        assert_eq!(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", "{choice:?}");
    }
}

#[test]
fn command_leads_a_session_of_its_own() {
    let workspace = tempfile::tempdir().unwrap();
    // The caller's own session may lie outside its pid namespace and have no number; the command's has one.
    let text = output(&SandboxChoice::None, view(workspace.path()), "cut -d' ' -f1,6 /proc/$$/stat");
    let (pid, session) = text.trim().split_once(' ').unwrap();
    assert_eq!(pid, session);
}

#[test]
fn limits_hold() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let limits = ProcessLimits { open_files: 64, file_bytes: 1 << 20, ..LIMITS };
        let backend = helve_sandbox::backend(&choice, view(workspace.path()), limits).unwrap();
        let collector = Collector::default();
        let command = "ulimit -c; ulimit -n; ulimit -Hn; head -c 3M /dev/zero > big; stat -c %s big";
        let run = backend.run(job(command), Box::new(collector.clone()), Cancel::never());
        assert_eq!(block_on(run).map(|ended| ended.exit), Ok(Exit::Code(0)), "{choice:?}");
        let text = String::from_utf8(collector.0.lock().unwrap().stdout.clone()).unwrap();
        assert_eq!(text, "0\n64\n64\n1048576\n", "{choice:?}");
    }
}

#[test]
fn limit_on_files_is_for_the_command_and_not_for_its_setup() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        for file_bytes in [0, 1_000, 1 << 20] {
            let limits = ProcessLimits { open_files: 64, file_bytes, ..LIMITS };
            let backend = helve_sandbox::backend(&choice, view(workspace.path()), limits).unwrap();
            let collector = Collector::default();
            let command =
                "id -un > /dev/null && echo ok; head -c 2M /dev/zero > big; echo $?; stat -c %s big";
            let run = backend.run(job(command), Box::new(collector.clone()), Cancel::never());
            assert_eq!(block_on(run).map(|ended| ended.exit), Ok(Exit::Code(0)), "{choice:?} {file_bytes}");
            let text = String::from_utf8(collector.0.lock().unwrap().stdout.clone()).unwrap();
            let killed = 128 + libc::SIGXFSZ;
            assert_eq!(text, format!("ok\n{killed}\n{file_bytes}\n"), "{choice:?}");
        }
    }
}

#[test]
fn crash_leaves_no_core_file() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        run(&choice, view(workspace.path()), "sh -c 'kill -SEGV $$'; kill -ABRT $$");
        let left = std::fs::read_dir(workspace.path()).unwrap().count();
        assert_eq!(left, 0, "{choice:?}: files in the workspace");
    }
}

#[test]
fn descriptors_of_the_caller_do_not_leak() {
    static LEAK: OnceLock<File> = OnceLock::new();
    let leak = LEAK.get_or_init(|| {
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        file
    });
    assert!(leak.as_raw_fd() > 2);
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let text = output(&choice, view(workspace.path()), "ls /proc/$$/fd; true");
        let numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2], "{choice:?}");
    }
}

#[test]
fn environment_is_the_views_alone() {
    for choice in choices() {
        let output = role("processes::role_environment")
            .env("ROLE_BACKEND", name(&choice))
            .env("SECRET_OF_THE_CALLER", "canary-7d1f")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{choice:?}: {text}");
        assert!(text.contains("LANG=C.UTF-8"), "{choice:?}: {text}");
        assert!(text.contains("looked around"), "{choice:?}: {text}");
        assert!(!text.contains("canary-7d1f"), "{choice:?}: {text}");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_environment() {
    let workspace = tempfile::tempdir().unwrap();
    let look = "env; for p in self 1 $PPID $$; do tr '\\0' '\\n' < /proc/$p/environ; done 2>/dev/null; echo looked around";
    println!("{}", output(&choice_of_role(), view(workspace.path()), look));
}

/// Takes its time over the first chunk.
struct Slow(Collector, bool);

impl OutputSink for Slow {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        self.0.chunk(stream, bytes);
        if !std::mem::replace(&mut self.1, true) {
            std::thread::sleep(Duration::from_millis(400));
        }
    }
}

#[test]
fn full_pipe_is_read_after_the_command_has_ended() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let collector = Collector::default();
        let sink = Box::new(Slow(collector.clone(), false));
        let backend = backend(&choice, view(workspace.path()));
        let run = backend.run(job("echo; sleep 0.1; head -c 900000 /dev/zero"), sink, Cancel::never());
        assert_eq!(block_on(run).map(|ended| ended.exit), Ok(Exit::Code(0)), "{choice:?}");
        assert_eq!(collector.0.lock().unwrap().stdout.len(), 900_001, "{choice:?}");
    }
}

#[test]
fn stranger_who_holds_the_pipe_is_not_waited_for() {
    let workspace = tempfile::tempdir().unwrap();
    let collector = Collector::default();
    let sink = collector.clone();
    let backend = backend(&SandboxChoice::None, view(workspace.path()));
    let (over, held_until) = std::sync::mpsc::channel::<()>();
    let stranger = std::thread::spawn(move || {
        let pid = || String::from_utf8(collector.0.lock().unwrap().stdout.clone()).unwrap();
        assert!(wait_for(Duration::from_secs(10), || pid().ends_with('\n')));
        let pipe = File::options().write(true).open(format!("/proc/{}/fd/1", pid().trim())).unwrap();
        std::fs::write(workspace.path().join("held"), "").unwrap();
        let waited_for = held_until.recv_timeout(Duration::from_secs(20)).is_err();
        drop(pipe);
        waited_for
    });
    let command = "echo $$; until [ -e held ]; do sleep 0.05; done";
    let exit = block_on(backend.run(job(command), Box::new(sink), Cancel::never()));
    assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Code(0)));
    // The stranger may have given up and gone, which its answer tells.
    let _ = over.send(());
    assert!(!stranger.join().unwrap(), "the call waited for the stranger");
}

/// Counts and forgets.
struct Counter(Arc<AtomicU64>);

impl OutputSink for Counter {
    fn chunk(&mut self, _: Stream, bytes: &[u8]) {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

#[test]
fn large_output_takes_little_memory() {
    for choice in choices() {
        let mut role = role("processes::role_flood")
            .env("ROLE_BACKEND", name(&choice))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        role.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(role.wait().unwrap().success(), "{choice:?}: {text}");
        let line =
            text.lines().find_map(|line| line.split_once("measured ")).unwrap_or_else(|| panic!("{text}")).1;
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [bytes, peak_kib, millis] = numbers[..] else { panic!("{line}") };
        assert_eq!(bytes, 150_000_000, "{choice:?}");
        assert!(peak_kib < 40 * 1024, "{choice:?}: {peak_kib} KiB");
        assert!(millis < 15_000, "{choice:?}: {millis} ms");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_flood() {
    let workspace = tempfile::tempdir().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let backend = backend(&choice_of_role(), view(workspace.path()));
    let command = "head -c 100000000 /dev/zero & head -c 50000000 /dev/zero >&2; wait";
    let exit = block_on(backend.run(job(command), Box::new(Counter(count.clone())), Cancel::never()));
    assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Code(0)));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB");
    println!("measured {} {peak} {}", count.load(Ordering::Relaxed), start.elapsed().as_millis());
}

#[test]
fn async_runtime_is_not_blocked() {
    const PRINTED: u64 = 50 << 20;
    let workspace = tempfile::tempdir().unwrap();
    // The command ends well only if the runtime, which has one thread, does something else while the command runs.
    let command = "yes | head -c 50M; for i in $(seq 200); do [ -e go ] && exit; sleep 0.1; done; exit 9";
    for choice in choices() {
        let backend = backend(&choice, view(workspace.path()));
        let count = Arc::new(AtomicU64::new(0));
        let let_it_go = async {
            while count.load(Ordering::Relaxed) < PRINTED {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            std::fs::write(workspace.path().join("go"), "").unwrap();
        };
        let call = backend.run(job(command), Box::new(Counter(count.clone())), Cancel::never());
        let (exit, ()) = block_on(async { tokio::join!(call, let_it_go) });
        assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Code(0)), "{choice:?}");
        std::fs::remove_file(workspace.path().join("go")).unwrap();
    }
}

#[test]
fn what_cannot_be_started_says_so() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let nul = run(&choice, view(workspace.path()), "echo a\0b").exit.unwrap_err();
        assert_eq!(nul.kind, ErrorKind::InvalidParams, "{choice:?}");
        let long =
            run(&choice, view(workspace.path()), &format!(": {}", "x".repeat(300_000))).exit.unwrap_err();
        assert_eq!(long.kind, ErrorKind::TooLarge, "{choice:?}: {long:?}");
    }
    let mut no_shell = view(workspace.path());
    no_shell.shell = "/no/such/shell".into();
    for choice in choices().into_iter().filter(|choice| !matches!(choice, SandboxChoice::Wrapper { .. })) {
        let error = run(&choice, no_shell.clone(), "true").exit.unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{choice:?}");
        assert!(error.message.contains("/no/such/shell") && error.hint.is_some(), "{error:?}");
    }
}
