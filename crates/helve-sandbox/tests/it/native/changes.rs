//! What must not reach a call of the native sandbox: changes of what its template was made from, and other calls' sinks.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn what_is_hidden_stays_hidden_when_it_is_made_or_replaced_between_calls() {
    if !native_works() {
        return;
    }
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize { warm: 0, parked: 2 }, PoolSize::default()] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            std::fs::create_dir(at("fixed")).unwrap();
            open_to_all(folder.path());
            let mut view = view(folder.path());
            view.hidden = vec![at(".env")];
            view.read_only = vec![at("fixed")];
            let backend = native(view, pool);
            let read = job("cat .env; echo x >> fixed/file; echo $?");
            for _ in 0..3 {
                run(&*backend, read.clone()).await.0.unwrap();
                pause().await;
            }
            for round in 0..4 {
                match round {
                    0 => std::fs::write(at(".env"), "secret").unwrap(),
                    1 => {
                        std::fs::write(at("new"), "secret").unwrap();
                        std::fs::rename(at("new"), at(".env")).unwrap();
                    }
                    2 => {
                        std::fs::remove_file(at(".env")).unwrap();
                        std::fs::write(at(".env"), "secret").unwrap();
                    }
                    _ => {
                        std::fs::rename(at("fixed"), at("moved")).unwrap();
                        std::fs::create_dir(at("fixed")).unwrap();
                    }
                }
                open_to_all(folder.path());
                let (_, collected) = run(&*backend, read.clone()).await;
                assert_eq!(collected.stdout, b"1\n", "{pool:?} {round}");
                pause().await;
            }
            // A link could lead the rule anywhere.
            std::fs::remove_file(at(".env")).unwrap();
            std::os::unix::fs::symlink("moved", at(".env")).unwrap();
            assert_eq!(run(&*backend, read.clone()).await.0.unwrap_err().kind, ErrorKind::Blocked);
        }
    });
}

/// Takes its time over everything.
struct Slow;

impl OutputSink for Slow {
    fn chunk(&mut self, _: Stream, _: &[u8]) {
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn a_slow_sink_holds_up_no_other_call() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        output(&*backend, job("true")).await;
        pause().await;
        let (handle, stop) = Cancel::pair();
        let slow = Arc::clone(&backend);
        let call = tokio::spawn(async move { slow.run(job("yes"), Box::new(Slow), stop).await });
        // Until its first bytes have been slow.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(output(&*backend, job("echo quick")).await, "quick\n");
        }
        assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
        handle.cancel();
        assert_eq!(call.await.unwrap().map(|ended| ended.exit), Ok(Exit::Cancelled));
        assert_eq!(output(&*backend, job("echo after")).await, "after\n");
    });
}

#[test]
fn a_shell_that_is_replaced_still_runs_commands() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shells = folder.path().join("shells");
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&shells).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    std::fs::copy("/bin/bash", shells.join("bash")).unwrap();
    std::fs::copy("/bin/sh", shells.join("new")).unwrap();
    std::fs::set_permissions(&shells, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut view = view(&workspace);
    view.shell = shells.join("bash");
    view.read_only = vec![shells.clone()];
    // Without others to fall back on, a call takes a warm shell that is still starting.
    let backend = native(view, PoolSize { warm: 2, parked: 0 });
    block_on(async {
        for _ in 0..3 {
            assert_eq!(output(&*backend, job("echo before")).await, "before\n");
            pause().await;
        }
        std::fs::rename(shells.join("new"), shells.join("bash")).unwrap();
        for round in 0..20 {
            assert_eq!(output(&*backend, job("echo after")).await, "after\n", "{round}");
            if round % 5 == 4 {
                pause().await;
            }
        }
    });
}

#[test]
fn an_error_says_too_what_was_taken_away() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let mut view = view(folder.path());
    view.protected = vec![".vscode".to_owned()];
    let backend = native(view, PoolSize::default());
    let command = job("mkdir .vscode; echo {} > .vscode/tasks.json; echo written; sleep 30");
    let error = block_on(backend.run(command, Box::new(Broken), Cancel::never())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(error.message.contains("taken away: .vscode/tasks.json."), "{}", error.message);
    assert!(!folder.path().join(".vscode").exists());
}
