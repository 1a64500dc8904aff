//! The death of the helper: it is replaced, and whoever waited for it is told.

use pretty_assertions::assert_eq;

use super::*;

/// The processes that this one has started.
fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn kill_children() {
    for pid in children() {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

#[test]
fn a_dead_helper_is_replaced_and_its_calls_are_told() {
    if !native_works() {
        return;
    }
    let seconds = unique_seconds();
    let output = role("native::deaths::role_dead_helper").env("ROLE_SECONDS", &seconds).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(wait_for(SOON, || count_running(&seconds) == 0));
}

/// Alone in its process, so that its only child is the helper.
#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_dead_helper() {
    let seconds = std::env::var("ROLE_SECONDS").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        for round in 0..6 {
            assert_eq!(output(&*backend, job("echo before")).await, "before\n");
            pause().await;
            kill_children();
            let noticed = round % 2 == 0;
            if noticed {
                pause().await;
            }
            let (ended, collected) = run(&*backend, job("echo after")).await;
            match ended {
                Ok(ended) => {
                    assert_eq!((ended.exit, collected.stdout.as_slice()), (Exit::Code(0), &b"after\n"[..]))
                }
                // One that dies with the helper may have begun, and is not run a second time.
                Err(error) => assert_eq!((noticed, error.kind), (false, ErrorKind::ToolFailed)),
            }
            pause().await;
        }
        let running = Arc::clone(&backend);
        let command = job(&format!("echo begun; sleep {seconds}"));
        let call = tokio::spawn(async move { run(&*running, command).await });
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if count_running(&seconds) > 0 {
                break;
            }
        }
        kill_children();
        let (ended, collected) = call.await.unwrap();
        assert_eq!(ended.unwrap_err().kind, ErrorKind::ToolFailed);
        assert_eq!(collected.stdout, b"begun\n");
        assert_eq!(count_running(&seconds), 0);
        assert_eq!(output(&*backend, job("echo again")).await, "again\n");
    });
    drop(backend);
    assert!(wait_for(SOON, || children().is_empty()), "{:?}", children());
}
