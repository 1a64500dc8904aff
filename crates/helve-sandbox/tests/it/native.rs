//! The native sandbox by itself: its lanes, its pool, its helper's death, and a program on its caller's own streams.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{
    Attach, Cancel, Ended, ErrorKind, Exit, LimitHit, OutputSink, ProcessLimits, ShellBackend, ShellJob,
    Stream, ToolError, View, Work,
};
use helve_sandbox::PoolSize;
use pretty_assertions::{assert_eq, assert_ne};

use crate::common::{
    Collected, Collector, LIMITS, block_on, count_running, job, native_works, role, unique_seconds, view,
    wait_for,
};

mod changes;
#[cfg(target_arch = "x86_64")]
mod copies;
mod deaths;
mod landlock;
mod layer;
#[cfg(target_arch = "x86_64")]
mod ready;
mod system;
mod together;

const SOON: Duration = Duration::from_secs(5);

fn native(view: View, pool: PoolSize) -> Arc<dyn ShellBackend> {
    helve_sandbox::native(view, LIMITS, pool).unwrap()
}

async fn run(backend: &dyn ShellBackend, job: ShellJob) -> (Result<Ended, ToolError>, Collected) {
    let collector = Collector::default();
    let ended = backend.run(job, Box::new(collector.clone()), Cancel::never()).await;
    let collected = collector.0.lock().unwrap().clone();
    (ended, collected)
}

/// Runs a command that has to succeed.
async fn output(backend: &dyn ShellBackend, job: ShellJob) -> String {
    let (ended, collected) = run(backend, job.clone()).await;
    let stderr = String::from_utf8_lossy(&collected.stderr).into_owned();
    assert_eq!(ended.map(|ended| ended.exit), Ok(Exit::Code(0)), "{job:?}\n{stderr}");
    String::from_utf8(collected.stdout).unwrap()
}

fn program(words: &[&str]) -> ShellJob {
    ShellJob { work: Work::Program(words.iter().map(|word| (*word).to_owned()).collect()), ..job("") }
}

/// Long enough for the pool to be filled.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

#[test]
fn every_lane_gives_each_command_a_sandbox_of_its_own() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize { warm: 0, parked: 2 }, PoolSize { warm: 2, parked: 1 }] {
            let backend = native(view(folder.path()), pool);
            for round in 0..6 {
                // Only the second can be read by a warm shell: it does not name the place that would keep it out.
                let [fresh, warm] = ["readlink /proc/self/ns/pid", "cd /proc/self/ns && readlink pid"];
                let warm = warm.replace("/proc", "/p*c");
                let look =
                    |text: &str| format!("{text}; [ -e /tmp/mark ] && echo stale; touch /tmp/mark; echo $$");
                let jobs = [job(&look(fresh)), job(&look(&warm)), program(&["sh", "-c", &look(fresh)])];
                let outside = std::fs::read_link("/proc/self/ns/pid").unwrap();
                for job in jobs {
                    let text = output(&*backend, job).await;
                    let (namespace, rest) = text.split_once('\n').unwrap();
                    assert_eq!(rest, "2\n", "{pool:?} {round}");
                    assert_ne!(Path::new(namespace), outside, "{pool:?} {round}");
                }
                pause().await;
            }
        }
    });
}

#[test]
fn exits_and_signals_are_told_apart_in_every_lane() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize { warm: 0, parked: 2 }, PoolSize::default()] {
            let backend = native(view(folder.path()), pool);
            for _ in 0..3 {
                for (text, exit) in [
                    ("exit 3", Exit::Code(3)),
                    ("exit 143", Exit::Code(143)),
                    ("kill -TERM $$", Exit::Signal(15)),
                    ("kill -KILL $$", Exit::Signal(9)),
                ] {
                    let (ended, _) = run(&*backend, job(text)).await;
                    let ended = ended.unwrap();
                    assert_eq!(
                        (ended.exit, ended.limit, ended.left_running),
                        (exit, None, 0),
                        "{pool:?} {text}"
                    );
                }
                pause().await;
            }
        }
    });
}

#[test]
fn many_at_once_and_many_in_a_row_leave_no_descriptor() {
    if !native_works() {
        return;
    }
    let output = role("native::role_many").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_many() {
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    block_on(async {
        let mut counts = Vec::new();
        for _ in 0..3 {
            let calls: Vec<_> = (0..40)
                .map(|number| {
                    let backend = Arc::clone(&backend);
                    tokio::spawn(async move { output(&*backend, job(&format!("echo {number}"))).await })
                })
                .collect();
            for (number, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap(), format!("{number}\n"));
            }
            for number in 0..40 {
                assert_eq!(output(&*backend, job(&format!("echo {number}"))).await, format!("{number}\n"));
            }
            // Until the pool has its ordinary size again.
            tokio::time::sleep(Duration::from_millis(2500)).await;
            counts.push(descriptors());
        }
        // A member that stands ready has its process's descriptor here or, still unread, in the helper's socket.
        let pool = PoolSize::default();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= pool.warm + pool.parked, "{counts:?}");
    });
}

#[test]
fn a_workspace_that_is_made_anew_is_seen() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    let backend = native(view(&workspace), PoolSize::default());
    block_on(async {
        for name in ["first", "second", "third"] {
            std::fs::create_dir(&workspace).unwrap();
            std::fs::set_permissions(&workspace, PermissionsExt::from_mode(0o777)).unwrap();
            std::fs::write(workspace.join(name), "").unwrap();
            for _ in 0..2 {
                assert_eq!(output(&*backend, job("ls")).await, format!("{name}\n"));
                pause().await;
            }
            std::fs::remove_dir_all(&workspace).unwrap();
        }
        let (ended, _) = run(&*backend, job("ls")).await;
        assert_eq!(ended.unwrap_err().kind, ErrorKind::NotFound);
    });
}

#[test]
fn a_dropped_call_ends_its_tree() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        for round in 0..4 {
            let seconds = unique_seconds();
            let command = job(&format!("setsid sleep {seconds} & sleep {seconds}"));
            let call = run(&*backend, command);
            // Sometimes before it has begun, sometimes after.
            let _ = tokio::time::timeout(Duration::from_millis(round * 40), call).await;
            assert!(wait_for(SOON, || count_running(&seconds) == 0), "{round}");
            pause().await;
        }
        assert_eq!(output(&*backend, job("echo alive")).await, "alive\n");
    });
}

#[test]
fn a_timeout_keeps_what_was_written_in_every_lane() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize { warm: 0, parked: 2 }, PoolSize::default()] {
            let backend = native(view(folder.path()), pool);
            for _ in 0..2 {
                output(&*backend, job("true")).await;
                pause().await;
                let seconds = unique_seconds();
                let text = format!("trap '' TERM; echo kept; setsid sleep {seconds} & sleep {seconds}");
                let start = Instant::now();
                // Long enough for a busy machine to come to the words, and ended within a second of its end.
                let timeout = Duration::from_secs(1);
                let (ended, collected) = run(&*backend, ShellJob { timeout, ..job(&text) }).await;
                assert_eq!(ended.map(|ended| ended.exit), Ok(Exit::TimedOut), "{pool:?}");
                assert_eq!(collected.stdout, b"kept\n", "{pool:?}");
                let over = start.elapsed().saturating_sub(timeout);
                assert!(over < Duration::from_secs(1), "{pool:?}: {over:?}");
                assert_eq!(count_running(&seconds), 0, "{pool:?}");
            }
        }
    });
}

/// Counts without keeping.
struct Counter(Arc<std::sync::atomic::AtomicU64>);

impl OutputSink for Counter {
    fn chunk(&mut self, _: Stream, bytes: &[u8]) {
        self.0.fetch_add(bytes.len() as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_output_arrives_whole() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sink = Box::new(Counter(Arc::clone(&count)));
    let command = job("head -c 100000000 /dev/zero; head -c 50000000 /dev/zero >&2");
    let ended = block_on(backend.run(command, sink, Cancel::never())).unwrap();
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 150_000_000);
}

struct Broken;

impl OutputSink for Broken {
    fn chunk(&mut self, _: Stream, _: &[u8]) {
        panic!("this sink is broken");
    }
}

#[test]
fn a_sink_that_fails_ends_its_own_call_only() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        for _ in 0..3 {
            let seconds = unique_seconds();
            let command = job(&format!("yes & sleep {seconds}"));
            let error = backend.run(command, Box::new(Broken), Cancel::never()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Internal);
            assert_eq!(count_running(&seconds), 0);
            assert_eq!(output(&*backend, job("echo fine")).await, "fine\n");
            pause().await;
        }
    });
}

#[test]
fn background_processes_are_ended_and_counted() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    let seconds = unique_seconds();
    let command = job(&format!("sleep {seconds} & setsid sleep {seconds} & echo done"));
    let (ended, collected) = block_on(run(&*backend, command));
    let ended = ended.unwrap();
    assert_eq!((ended.exit, ended.left_running), (Exit::Code(0), 2));
    assert_eq!(collected.stdout, b"done\n");
    assert_eq!(count_running(&seconds), 0);
}

#[test]
fn long_texts_input_and_directories_reach_the_command() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::create_dir(folder.path().join("in side")).unwrap();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize::default()] {
            let backend = native(view(folder.path()), pool);
            for _ in 0..3 {
                for length in [10, 5000, 100_000] {
                    let text = format!("printf %s {} | wc -c", "x".repeat(length));
                    assert_eq!(output(&*backend, job(&text)).await.trim(), length.to_string());
                }
                let words: Vec<String> = (0..6000).map(|number| number.to_string()).collect();
                let words: Vec<&str> = ["sh", "-c", "echo $#", "sh"]
                    .into_iter()
                    .chain(words.iter().map(String::as_str))
                    .collect();
                assert_eq!(output(&*backend, program(&words)).await, "6000\n");
                let input = vec![b'y'; 300_000];
                let job_with_input = ShellJob { stdin: input, ..job("wc -c") };
                assert_eq!(output(&*backend, job_with_input).await.trim(), "300000");
                let there = ShellJob { working_dir: Some("in side".to_owned()), ..job("basename \"$PWD\"") };
                assert_eq!(output(&*backend, there).await, "in side\n");
                assert_eq!(output(&*backend, job("cat; echo $?")).await, "0\n");
                pause().await;
            }
            let too_long = job(&format!(": {}", "x".repeat(300_000)));
            let (ended, _) = run(&*backend, too_long).await;
            assert_eq!(ended.unwrap_err().kind, ErrorKind::TooLarge);
        }
    });
}

#[test]
fn a_file_that_grows_too_large_is_named() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let limits = ProcessLimits { file_bytes: 1 << 20, ..LIMITS };
    let backend = helve_sandbox::native(view(folder.path()), limits, PoolSize::default()).unwrap();
    let (ended, _) = block_on(run(&*backend, job("exec head -c 2000000 /dev/zero > big")));
    let ended = ended.unwrap();
    assert_eq!((ended.exit, ended.limit), (Exit::Signal(25), Some(LimitHit::File(1 << 20))));
}

fn attach(
    backend: &dyn ShellBackend,
    words: &[&str],
    input: &str,
) -> (Result<Ended, ToolError>, String, String) {
    let (stdin, mut to_stdin) = std::io::pipe().unwrap();
    let (mut from_stdout, stdout) = std::io::pipe().unwrap();
    let (mut from_stderr, stderr) = std::io::pipe().unwrap();
    to_stdin.write_all(input.as_bytes()).unwrap();
    drop(to_stdin);
    let attached = Attach {
        words: words.iter().map(Into::into).collect(),
        working_dir: None,
        streams: [stdin.into(), stdout.into(), stderr.into()],
        terminal: false,
        timeout: Some(Duration::from_secs(20)),
        signals: tokio::sync::mpsc::unbounded_channel().1,
    };
    let ended = block_on(backend.attach(attached, Cancel::never()));
    let (mut out, mut err) = (String::new(), String::new());
    from_stdout.read_to_string(&mut out).unwrap();
    from_stderr.read_to_string(&mut err).unwrap();
    (ended, out, err)
}

#[test]
fn a_program_runs_on_its_callers_own_streams() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    let (ended, out, err) = attach(&*backend, &["sh", "-c", "cat; echo no >&2; exit 7"], "in\n");
    assert_eq!((ended.unwrap().exit, out.as_str(), err.as_str()), (Exit::Code(7), "in\n", "no\n"));
    let (ended, ..) = attach(&*backend, &["no-such-program"], "");
    assert_eq!(ended.unwrap_err().kind, ErrorKind::NotFound);
    File::create(folder.path().join("plain")).unwrap();
    let (ended, ..) = attach(&*backend, &["./plain"], "");
    assert_eq!(ended.unwrap_err().kind, ErrorKind::ToolFailed);
}

#[test]
fn protected_paths_are_guarded_and_swept() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path();
    let make = |name: &str, text: &str| {
        let file = workspace.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    make(".git/config", "[core]\n\tbare = false\n");
    make(".git/HEAD", "ref: refs/heads/main\n");
    make(".git/hooks/pre-commit.sample", "");
    open_to_all(workspace);
    let mut view = view(workspace);
    view.protected = vec![".git".to_owned(), ".vscode".to_owned()];
    let backend = native(view, PoolSize::default());
    block_on(async {
        for round in 0..4 {
            let (_, collected) = run(&*backend, job("echo x > .git/config; echo $?; cat .git/config")).await;
            assert_eq!(collected.stdout, b"1\n[core]\n\tbare = false\n", "{round}");
            let (ended, _) =
                run(&*backend, job("mkdir -p sub/.vscode; echo {} > sub/.vscode/tasks.json")).await;
            let removed: Vec<_> = ended.unwrap().removed.into_iter().map(|removed| removed.path).collect();
            assert_eq!(removed, ["sub/.vscode/tasks.json"], "{round}");
            assert!(!workspace.join("sub/.vscode").exists(), "{round}");
            pause().await;
        }
        // What the owner does between calls stays, and is guarded from then on.
        make("own/.vscode/settings.json", "{}");
        open_to_all(workspace);
        let (ended, collected) =
            run(&*backend, job("echo x > own/.vscode/settings.json; cat own/.vscode/settings.json")).await;
        assert_eq!((ended.unwrap().removed, collected.stdout), (Vec::new(), b"{}".to_vec()));
    });
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            open_to_all(&entry.path());
        } else {
            std::fs::set_permissions(entry.path(), PermissionsExt::from_mode(0o666)).unwrap();
        }
    }
}
