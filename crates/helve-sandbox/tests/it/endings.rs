//! However a call ends, nothing of it survives.

use std::process::Stdio;
use std::time::{Duration, Instant};

use helve_core::{Cancel, ErrorKind, Exit, OutputSink, ShellJob, Stream};
use pretty_assertions::assert_eq;

use crate::common::{
    Collector, backend, block_on, choice_of_role, choices, count_running, job, name, output, role, run_job,
    unique_seconds, view, wait_for,
};

/// Long enough for a busy machine, and nothing against how long the commands would take by themselves.
const SOON: Duration = Duration::from_secs(5);

fn tree(seconds: &str) -> String {
    format!("echo begun; sleep {seconds} & setsid sleep {seconds} & sleep {seconds}")
}

/// A grandchild in its own session whose parents are gone and that ignores what can be ignored.
fn stubborn(seconds: &str) -> String {
    format!(
        "(trap '' TERM HUP INT QUIT; (setsid nohup sh -c 'trap \"\" TERM HUP INT; sleep {seconds}; sleep {seconds}' \
         >/dev/null 2>&1 & ) & ); trap '' TERM; sleep 0.2; sleep {seconds}"
    )
}

#[test]
fn timeout_ends_the_whole_tree_and_keeps_what_was_printed() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        for make in [tree, stubborn] {
            let seconds = unique_seconds();
            let job = ShellJob { timeout: Duration::from_secs(1), ..job(&make(&seconds)) };
            let start = Instant::now();
            let done = run_job(&choice, view(workspace.path()), job);
            assert_eq!(done.exit, Ok(Exit::TimedOut), "{choice:?} {}", done.stderr);
            assert!(start.elapsed() < Duration::from_secs(1) + SOON, "{choice:?} took {:?}", start.elapsed());
            assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
            if make(&seconds).starts_with("echo") {
                assert_eq!(done.stdout, "begun\n", "{choice:?}");
            }
        }
    }
}

#[test]
fn end_of_the_main_command_ends_what_it_left_behind() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let seconds = unique_seconds();
        let start = Instant::now();
        let command = format!("sleep {seconds} & setsid nohup sleep {seconds} & echo hi");
        assert_eq!(output(&choice, view(workspace.path()), &command), "hi\n", "{choice:?}");
        assert!(start.elapsed() < SOON, "{choice:?}: waited for a background process");
        assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
    }
}

#[test]
fn background_jobs_run_while_the_command_waits_for_them() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let text = output(&choice, view(workspace.path()), "(sleep 0.3; echo late) & wait; echo done");
        assert_eq!(text, "late\ndone\n", "{choice:?}");
    }
}

#[test]
fn cancellation_ends_the_whole_tree() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let seconds = unique_seconds();
        let backend = backend(&choice, view(workspace.path()));
        let (handle, cancel) = Cancel::pair();
        let collector = Collector::default();
        let (exit, took) = block_on(async {
            let call = backend.run(job(&tree(&seconds)), Box::new(collector.clone()), cancel);
            let after_a_while = async {
                tokio::time::sleep(Duration::from_millis(400)).await;
                handle.cancel();
                Instant::now()
            };
            let (exit, cancelled) = tokio::join!(call, after_a_while);
            (exit, cancelled.elapsed())
        });
        assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Cancelled), "{choice:?}");
        assert!(took < SOON, "{choice:?}: {took:?}");
        assert_eq!(collector.0.lock().unwrap().stdout, b"begun\n", "{choice:?}");
        assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
    }
}

#[test]
fn cancelled_before_it_began_runs_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let (handle, cancel) = Cancel::pair();
        handle.cancel();
        let backend = backend(&choice, view(workspace.path()));
        let exit = block_on(backend.run(job("touch mark"), Box::new(Collector::default()), cancel));
        assert_eq!(exit.map(|ended| ended.exit), Ok(Exit::Cancelled));
        assert!(!workspace.path().join("mark").exists(), "{choice:?}");
    }
}

#[test]
fn dropped_future_ends_the_whole_tree() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let seconds = unique_seconds();
        let backend = backend(&choice, view(workspace.path()));
        block_on(async {
            let call = backend.run(job(&tree(&seconds)), Box::new(Collector::default()), Cancel::never());
            let dropped = tokio::time::timeout(Duration::from_millis(400), call).await;
            assert!(dropped.is_err(), "{choice:?}: ended by itself");
            assert!(wait_for(SOON, || count_running(&seconds) == 0), "{choice:?}: survivors");
        });
    }
}

#[test]
fn death_of_the_calling_process_ends_the_whole_tree() {
    for choice in choices() {
        let workspace = tempfile::tempdir().unwrap();
        let seconds = unique_seconds();
        let mut victim = role("endings::role_victim")
            .env("ROLE_BACKEND", name(&choice))
            .env("ROLE_WORKSPACE", workspace.path())
            .env("ROLE_SECONDS", &seconds)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = wait_for(Duration::from_secs(20), || count_running(&seconds) >= 3);
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(begun, "{choice:?}: the tree never began");
        assert!(wait_for(SOON, || count_running(&seconds) == 0), "{choice:?}: survivors");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_victim() {
    let workspace = std::env::var("ROLE_WORKSPACE").unwrap();
    let command = tree(&std::env::var("ROLE_SECONDS").unwrap());
    run_job(&choice_of_role(), view(workspace.as_ref()), job(&command));
}

#[test]
fn deep_chain_of_forks_is_ended() {
    let workspace = tempfile::tempdir().unwrap();
    for choice in choices() {
        let seconds = unique_seconds();
        // Each level starts the next and waits for it, and none stops by itself before it is a hundred deep.
        let script = format!("[ $1 -gt 100 ] && exec sleep {seconds}; sh deep $(($1 + 1)) {seconds} & wait");
        std::fs::write(workspace.path().join("deep"), script).unwrap();
        let job = ShellJob { timeout: Duration::from_millis(700), ..job(&format!("sh deep 1 {seconds}")) };
        let done = run_job(&choice, view(workspace.path()), job);
        assert_eq!(done.exit, Ok(Exit::TimedOut), "{choice:?}");
        assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
    }
}

/// Fails at the first chunk.
struct Broken;

impl OutputSink for Broken {
    fn chunk(&mut self, _: Stream, _: &[u8]) {
        panic!("this sink is broken");
    }
}

#[test]
fn call_whose_output_cannot_be_taken_is_ended_and_reaped() {
    for choice in choices() {
        let seconds = unique_seconds();
        let output = role("endings::role_broken_sink")
            .env("ROLE_BACKEND", name(&choice))
            .env("ROLE_SECONDS", &seconds)
            .output()
            .unwrap();
        assert!(output.status.success(), "{choice:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_broken_sink() {
    let workspace = tempfile::tempdir().unwrap();
    let command = tree(&std::env::var("ROLE_SECONDS").unwrap());
    let backend = backend(&choice_of_role(), view(workspace.path()));
    let error = block_on(backend.run(job(&command), Box::new(Broken), Cancel::never())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    drop(backend);
    // A zombie is still a child.
    let children = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .collect::<String>()
    };
    assert!(wait_for(SOON, || children().is_empty()), "children: {}", children());
}

#[test]
fn many_calls_at_once_leave_nothing_behind() {
    for choice in choices() {
        let seconds = unique_seconds();
        let output = role("endings::role_many_calls")
            .env("ROLE_BACKEND", name(&choice))
            .env("ROLE_SECONDS", &seconds)
            .output()
            .unwrap();
        assert!(output.status.success(), "{choice:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(count_running(&seconds), 0, "{choice:?}: survivors");
    }
}

/// Alone in its process, so that the descriptors can be counted exactly.
#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_many_calls() {
    const CALLS: usize = 12;
    let workspace = tempfile::tempdir().unwrap();
    let seconds = std::env::var("ROLE_SECONDS").unwrap();
    let backend = backend(&choice_of_role(), view(workspace.path()));
    let (handle, cancel) = Cancel::pair();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    block_on(async {
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let (backend, cancel, command) = (backend.clone(), cancel.clone(), tree(&seconds));
                tokio::spawn(async move {
                    backend.run(job(&command), Box::new(Collector::default()), cancel).await
                })
            })
            .collect();
        let mut begun = false;
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            begun = count_running(&seconds) >= 3 * CALLS;
            if begun {
                break;
            }
        }
        handle.cancel();
        assert!(begun, "the trees never began");
        for call in calls {
            assert_eq!(call.await.unwrap().map(|ended| ended.exit), Ok(Exit::Cancelled));
        }
    });
    assert_eq!(count_running(&seconds), 0, "survivors");
    drop(backend);
    assert!(wait_for(SOON, || descriptors() == before), "descriptors leak: {before}, {}", descriptors());
}
