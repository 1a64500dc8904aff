//! A warm shell against the same shell started with the same text: every byte, every ending.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::{assert_eq, assert_ne};

use super::*;

const ENVIRONMENT: [&CStr; 4] =
    [c"PATH=/usr/bin:/bin", c"HOME=/nonexistent", c"LC_ALL=C", c"GREETING=good morning"];

/// What shells are asked. Numbers of processes are taken out of what they print before it is compared.
const TEXTS: &[&[u8]] = &[
    b"true",
    b"false",
    b"exit 42",
    b"return 3",
    b"echo \"$0\" \"$#\" \"$@\" \"$-\"",
    b"echo $LINENO; echo $LINENO\necho $LINENO",
    b"echo one\necho two >&2\nexit 5",
    b"",
    b"   ",
    b"\n\n# nothing\n",
    b"if",
    b"echo 'open",
    b"echo $((1 +))",
    b"echo before\nfi\necho after",
    b"no-such-command --at-all",
    b"cd /no/such/directory || echo \"$?\"",
    b"set -e; false; echo unreachable",
    b"set -u; echo \"$not_set\"",
    b"set -x; a=1; echo $a",
    b"trap 'echo bye $?' EXIT; exit 9",
    b"trap 'echo caught' TERM; kill -TERM $$; echo after",
    b"kill -TERM $$",
    b"kill -9 $$",
    b"sh -c 'kill -9 $$'",
    b"sh -c 'kill -9 $$'; echo \"$?\"",
    b"sh -c 'kill -SEGV $$' | cat",
    b"cat <<END\n$GREETING $((6 * 7))\nEND",
    b"cat <<'END' | tr a-z A-Z\n$GREETING\nEND",
    b"cat; cat /dev/stdin; read line; echo \"$?\"",
    b"f() { return 6; }; f; echo \"$?\"; unset GREETING; echo \"[$GREETING]\"",
    b"for i in 1 2 3; do echo $i; done | sort -r",
    b"echo $(echo nested $(echo deeper)) `echo old`",
    b"(exit 3); echo \"$?\"; ! true; echo \"$?\"",
    b"sleep 0 & wait; echo \"$?\"",
    b"umask; pwd; ulimit -n; type cd; command -v ls",
    b"echo \"$PPID\" \"$$\" | tr 0-9 N | tr -s N",
    b"env | sort",
    b"set | grep -v -e '^_=' -e '^BASHPID=' -e '^RANDOM' -e '^SRANDOM' -e '^EPOCH' -e PID= | sort",
    b"printf '%s\\n' \xff\xfe \xc3\xa9 \xe2\x82; printf '\\0\\1'",
    b"exec cat /proc/self/status | grep -E '^(TracerPid|SigBlk|SigIgn|SigCgt)'",
    b"grep -E '^(TracerPid|SigIgn|SigCgt)' /proc/$$/status",
    b"echo \"$BASH_EXECUTION_STRING|$SECONDS|$BASH_COMMAND\"",
    b"ls /proc/$$/fd",
    b"exec 3>&1; echo out >&3; exec >&2; echo err",
    b"x=$(cat /proc/$$/cmdline | tr '\\0' '\\n' | head -3); echo \"$x\"",
    b"ps -o args= -p $$",
    b"shopt -p 2>/dev/null; set -o; alias; trap",
    b"exec sh -c 'echo $0 $$' | tr 0-9 N | tr -s N",
    b"exec no-such-command; echo unreachable",
    b"[[ a == a ]] && echo yes",
];

fn environment() -> Vec<*const c_char> {
    ENVIRONMENT.iter().map(|variable| variable.as_ptr()).chain([std::ptr::null()]).collect()
}

fn shells() -> Vec<(&'static CStr, Stop)> {
    [c"/bin/sh", c"/bin/bash"]
        .into_iter()
        .filter(|shell| Path::new(OsStr::from_bytes(shell.to_bytes())).exists())
        .filter_map(|shell| match calibrate::find(shell, &environment()) {
            Some(stop) => Some((shell, stop)),
            None if cfg!(target_arch = "x86_64") => panic!("{shell:?} cannot be kept warm"),
            None => None,
        })
        .collect()
}

fn command(shell: &CStr, text: &[u8], directory: &Path) -> Command {
    let mut command = Command::new(OsStr::from_bytes(shell.to_bytes()));
    command.arg("-c").arg(OsStr::from_bytes(text)).current_dir(directory).env_clear();
    for variable in ENVIRONMENT {
        let at = variable.to_bytes().iter().position(|byte| *byte == b'=').unwrap();
        let (name, value) = variable.to_bytes().split_at(at);
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a program that has asked to be followed.
fn follow(mut command: Command) -> Child {
    // SAFETY: makes one system call.
    unsafe { command.pre_exec(|| ask().map_err(io::Error::from_raw_os_error)) };
    command.spawn().unwrap()
}

/// A shell that stands still.
fn warm(shell: &CStr, stop: &Stop, directory: &Path) -> (Child, Standing) {
    let child = follow(command(shell, &PLACEHOLDER[..TEXT_BYTES - 1], directory));
    let standing = run_to_stop(child.id() as pid_t, stop, &mut trace::standstill).unwrap();
    (child, standing)
}

fn run_warm(shell: &CStr, stop: &Stop, text: &[u8], directory: &Path) -> Output {
    let (child, standing) = warm(shell, stop, directory);
    release(child.id() as pid_t, &standing, text).unwrap();
    child.wait_with_output().unwrap()
}

/// How a run ended and what it printed, without the numbers of processes and the blanks that depend on them.
fn essence(output: &Output) -> (Option<i32>, Option<i32>, String, String) {
    let plain = |bytes: &[u8]| {
        let mut plain = String::new();
        for piece in String::from_utf8_lossy(bytes).split_inclusive(|letter: char| !letter.is_ascii_digit()) {
            let digits = piece.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            plain.push_str(if (3..8).contains(&digits.len()) { "N" } else { digits });
            plain.push_str(&piece[digits.len()..]);
        }
        plain.replace("  ", " ")
    };
    (output.status.code(), output.status.signal(), plain(&output.stdout), plain(&output.stderr))
}

/// Compares every text.
fn compare(shell: &CStr, stop: &Stop) {
    let directory = tempfile::tempdir().unwrap();
    for text in TEXTS {
        let mut cold = command(shell, text, directory.path());
        // Makes the library fork, as for a shell to be kept warm: its other way leaves other signals ignored.
        // SAFETY: does nothing.
        unsafe { cold.pre_exec(|| Ok(())) };
        let mut both = || {
            let expected = cold.output().unwrap();
            (essence(&run_warm(shell, stop, text, directory.path())), essence(&expected))
        };
        let (mut found, mut expected) = both();
        // A second may begin while either of them starts.
        for _ in 0..5 {
            if found == expected || !text.windows(7).any(|part| part == b"SECONDS") {
                break;
            }
            (found, expected) = both();
        }
        assert_eq!(found, expected, "{shell:?} {:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_warm_shell_is_the_shell() {
    for (shell, stop) in shells() {
        compare(shell, &stop);
    }
}

#[test]
fn bash_under_the_name_of_sh_is_kept_warm() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("sh");
    std::os::unix::fs::symlink("/bin/bash", &name).unwrap();
    let shell = CString::new(name.into_os_string().into_vec()).unwrap();
    if let Some(stop) = calibrate::find(&shell, &environment()) {
        compare(&shell, &stop);
    } else {
        assert!(shells().iter().all(|(shell, _)| *shell != c"/bin/bash"));
    }
}

#[test]
fn the_longest_text_is_obeyed_and_a_longer_one_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, stop) in shells() {
        let mut text = b"echo ".to_vec();
        text.resize(TEXT_BYTES - 1, b'a');
        let found = run_warm(shell, &stop, &text, directory.path());
        assert_eq!(found.stdout.len(), TEXT_BYTES - 1 - 5 + 1);

        text.push(b'a');
        let (mut child, standing) = warm(shell, &stop, directory.path());
        assert_eq!(release(child.id() as pid_t, &standing, &text), Err(libc::E2BIG));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_signal_sent_to_a_standing_shell_reaches_it() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, stop) in shells() {
        let (child, standing) = warm(shell, &stop, directory.path());
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child.id() as pid_t, libc::SIGTERM) };
        release(child.id() as pid_t, &standing, b"echo unreachable").unwrap();
        let found = child.wait_with_output().unwrap();
        assert_eq!((found.status.signal(), found.stdout.len()), (Some(libc::SIGTERM), 0));
    }
}

#[test]
fn a_signal_sent_to_a_starting_shell_reaches_it() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, stop) in shells() {
        let mut child = follow(command(shell, &PLACEHOLDER[..TEXT_BYTES - 1], directory.path()));
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child.id() as pid_t, libc::SIGTERM) };
        assert!(matches!(run_to_stop(child.id() as pid_t, &stop, &mut trace::standstill), Err(libc::ECHILD)));
        assert!(child.wait().is_err());
    }
}

#[test]
fn seconds_count_from_the_call() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, stop) in shells().into_iter().filter(|(_, stop)| stop.clock.is_some()) {
        let (child, standing) = warm(shell, &stop, directory.path());
        std::thread::sleep(Duration::from_millis(2_100));
        release(child.id() as pid_t, &standing, b"echo $((SECONDS < 2))").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"1\n");
    }
}

#[test]
fn a_standing_shell_goes_on_with_its_own_instruction() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, stop) in shells() {
        let (mut child, _) = warm(shell, &stop, directory.path());
        let address = trace::instruction(child.id() as pid_t).unwrap();
        assert_eq!(trace::peek(child.id() as pid_t, address), Ok(stop.code));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn other_code_or_another_program_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let error = |command: Command, stop: &Stop| {
        let mut child = follow(command);
        let error = run_to_stop(child.id() as pid_t, stop, &mut trace::standstill).err();
        if error == Some(libc::ECHILD) {
            assert!(child.wait().is_err());
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        error
    };
    for (shell, stop) in shells() {
        let other = Stop { code: stop.code ^ 1, ..stop };
        let start = || command(shell, &PLACEHOLDER[..TEXT_BYTES - 1], directory.path());
        assert_eq!(error(start(), &other), Some(libc::ENOEXEC));
        assert_ne!(error(command(c"/bin/cat", b"text", directory.path()), &stop), None);
        assert_eq!(error(command(shell, b"true", directory.path()), &stop), Some(libc::EFAULT));
    }
}

#[test]
fn what_is_no_shell_or_reads_a_file_first_is_not_kept_warm() {
    assert_eq!(calibrate::find(c"/bin/cat", &environment()), None);
    assert_eq!(calibrate::find(c"/no/such/shell", &environment()), None);
    let mut with_file = environment();
    with_file.insert(0, c"BASH_ENV=/dev/null".as_ptr());
    assert_eq!(calibrate::find(c"/bin/bash", &with_file), None);
    assert_eq!(calibrate::find(c"/bin/sh", &[]), None);
}

#[test]
fn a_stop_found_apart_is_proved() {
    for (shell, _) in shells() {
        match calibrate(shell, &environment()) {
            Some(stop) => assert!(calibrate::prove(shell, &environment(), &stop)),
            None => println!("skipped: this user can make no pid namespace here"),
        }
    }
}

#[test]
fn a_stop_that_forgets_what_the_shell_kept_is_not_proved() {
    for (shell, stop) in shells() {
        assert!(calibrate::prove(shell, &environment(), &stop));
        if stop.copy.is_some() {
            assert!(!calibrate::prove(shell, &environment(), &Stop { copy: None, ..stop }));
        }
        if stop.clock.is_some() {
            assert!(!calibrate::prove(shell, &environment(), &Stop { clock: None, ..stop }));
        }
    }
}

/// Says how much sooner a warm shell answers; asserts no time.
#[test]
fn measure() {
    let directory = tempfile::tempdir().unwrap();
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    for (shell, stop) in shells() {
        let (mut cold, mut warmed, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..100 {
            let begin = Instant::now();
            command(shell, b"true", directory.path()).output().unwrap();
            cold.push(begin.elapsed());
            let begin = Instant::now();
            let (mut child, standing) = warm(shell, &stop, directory.path());
            made.push(begin.elapsed());
            let begin = Instant::now();
            release(child.id() as pid_t, &standing, b"true").unwrap();
            child.wait().unwrap();
            warmed.push(begin.elapsed());
        }
        let begin = Instant::now();
        calibrate::find(shell, &environment()).unwrap();
        let found = begin.elapsed();
        let (cold, warmed, made) = (median(cold), median(warmed), median(made));
        let ratio = warmed.as_secs_f64() / cold.as_secs_f64();
        println!(
            "{shell:?}: {cold:?} cold, {warmed:?} warm, {ratio:.2}; {made:?} to make, {found:?} to find"
        );
    }
}
