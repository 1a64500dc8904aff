//! What a container does from its first command to its end.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use helve_core::{Cancel, ContainerChoice, ErrorKind, Exit, LimitHit, SandboxChoice, ShellJob, Work};
use pretty_assertions::assert_eq;

use crate::common::{LIMITS, alone, backend, block_on, choice, job, run, run_until, view};
use crate::engine::Engine;

/// How many processes with this word in their command line run on this machine.
fn count(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|text| text.contains(word))
        })
        .count()
}

#[test]
fn commands_run_in_one_container_that_shows_the_view_alone() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(folder.path().join("outside"), "secret").unwrap();
    std::fs::write(workspace.join(".env"), "TOKEN=1").unwrap();
    rustix::fs::chown(
        &workspace,
        Some(rustix::process::Uid::from_raw(4321)),
        Some(rustix::process::Gid::from_raw(8765)),
    )
    .unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let backend = backend(&engine, view(&workspace));
    block_on(async {
        let script =
            "echo out; echo err >&2; id -u; id -g; pwd; cat .env; cat ../outside; echo x > new; exit 7";
        let ran = run(&*backend, job(script)).await;
        let ended = ran.ended.clone().unwrap();
        assert_eq!(ended.exit, Exit::Code(7), "{ran:?}");
        assert_eq!(ended.sandbox.backend, "container");
        let out = format!("out\n4321\n8765\n{}\n", workspace.display());
        assert_eq!(String::from_utf8_lossy(&ran.stdout), out);
        assert!(
            ran.text().contains("err") && !ran.text().contains("TOKEN") && !ran.text().contains("secret")
        );
        assert_eq!(workspace.join("new").metadata().unwrap().uid(), 4321);
        // The same container serves the next call, and is the only one.
        let first = engine.containers();
        assert_eq!(first.len(), 1);
        run(&*backend, job("echo kept > /tmp/x")).await.ended.unwrap();
        assert_eq!(run(&*backend, job("cat /tmp/x")).await.text(), "kept\n");
        assert_eq!(engine.containers()[0]["Id"], first[0]["Id"]);
        // Nothing but the workspace and /tmp can be written, no right is left, and there is no network.
        let status =
            "cat /proc/self/status | grep -E 'CapEff|CapBnd|NoNewPrivs|^Seccomp:'; ls /sys/class/net";
        let text = run(&*backend, job(status)).await.text();
        let zero = "0000000000000000";
        let expected = format!("CapEff:\t{zero}\nCapBnd:\t{zero}\nNoNewPrivs:\t1\nSeccomp:\t2\nlo\n");
        assert_eq!(text, expected);
        for refused in [
            "touch /usr/x",
            "touch /x",
            "touch /.helve/x",
            "echo x > /.helve/program",
            "mount -t tmpfs none /tmp",
            "kill -9 1",
            "cat /proc/1/environ",
            "ls /proc/1/fd",
            "echo 1 > /proc/sys/kernel/domainname",
        ] {
            let ran = run(&*backend, job(refused)).await;
            assert!(
                ran.ended.clone().unwrap().exit != Exit::Code(0) || refused == "kill -9 1",
                "{refused}: {ran:?}"
            );
        }
        assert_eq!(run(&*backend, job("echo still here")).await.text(), "still here\n");
    });
    drop(backend);
    engine.is_empty_soon();
}

/// Helve's helper holds much of it once more; here the engine alone is asked, and a command that is root.
#[test]
fn the_engine_itself_holds_what_it_was_asked_to() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    block_on(async {
        let script = "id -u; for at in / /usr /bin; do touch $at/x && echo wrote; done; for name in net ipc; do readlink /proc/self/ns/$name; done";
        let said = run(&*backend, job(script)).await;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let said: Vec<&str> = said.lines().collect();
        let daemon = engine.processes().into_iter().find(|(_, name)| name == "dockerd").unwrap().0;
        let of_engine = |name: &str| {
            let link = std::fs::read_link(format!("/proc/{daemon}/ns/{name}")).unwrap();
            link.display().to_string()
        };
        assert!(matches!(said[..], ["0", _, _]), "{said:?}");
        assert!(said[1] != of_engine("net") && said[2] != of_engine("ipc"), "{said:?}");
    });
    let id = engine.containers()[0]["Id"].as_str().unwrap().to_owned();
    let (_, made) = engine.ask("GET", &format!("/containers/{id}/json"), b"").unwrap();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let host = &made["HostConfig"];
    let memory = LIMITS.memory_bytes..LIMITS.memory_bytes + (256 << 20);
    assert!(memory.contains(&host["Memory"].as_u64().unwrap()), "{host}");
    assert_eq!(host["MemorySwap"], host["Memory"]);
    let processes = LIMITS.processes..LIMITS.processes + 64;
    assert!(processes.contains(&host["PidsLimit"].as_u64().unwrap()), "{host}");
    let keys = ["NetworkMode", "ReadonlyRootfs", "CapAdd", "CapDrop", "SecurityOpt", "Privileged", "PidMode"];
    let held = keys.map(|key| host[key].clone());
    let wanted = serde_json::json!(["none", true, null, ["ALL"], ["no-new-privileges"], false, ""]);
    assert_eq!(serde_json::json!(held), wanted);
}

#[test]
fn input_output_directories_and_programs_are_as_elsewhere() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let backend = backend(&engine, view(folder.path()));
    block_on(async {
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let echoed = run(&*backend, ShellJob { stdin: bytes.clone(), ..job("cat; cat >&2") }).await;
        assert_eq!(echoed.ended.unwrap().exit, Exit::Code(0));
        assert!(echoed.stdout == bytes && echoed.stderr.is_empty());
        let words = ["printf", "%s|", "a b", "$HOME", ""].map(str::to_owned).to_vec();
        let work = Work::Program(words);
        let ran = run(&*backend, ShellJob { work, working_dir: Some("sub".to_owned()), ..job("") }).await;
        assert_eq!(ran.text(), "a b|$HOME||");
        let ran = run(&*backend, ShellJob { working_dir: Some("sub".to_owned()), ..job("pwd") }).await;
        assert!(ran.text().ends_with("/sub\n"), "{ran:?}");
        let ran = run(&*backend, ShellJob { working_dir: Some("..".to_owned()), ..job("pwd") }).await;
        assert_eq!(ran.ended.unwrap_err().kind, ErrorKind::Blocked);
        let missing = ShellJob { work: Work::Program(vec!["nosuchprogram".to_owned()]), ..job("") };
        assert_eq!(run(&*backend, missing).await.ended.unwrap_err().kind, ErrorKind::SandboxUnavailable);
        assert_eq!(run(&*backend, job("kill -TERM $$")).await.ended.unwrap().exit, Exit::Signal(15));
    });
}

#[test]
fn the_whole_tree_of_a_command_ends_with_it() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    // A number that nothing else on the machine sleeps.
    let nap = format!("9{}", std::process::id());
    block_on(async {
        let tree = format!("(setsid sh -c 'sleep {nap} & sleep {nap}' &) ; sleep {nap} & sleep 0.2");
        let ended = run(&*backend, job(&tree)).await.ended.unwrap();
        assert_eq!((ended.exit, count(&nap)), (Exit::Code(0), 0));
        assert!(ended.left_running >= 1, "{ended:?}");
        // A command that kills its own supervisor leaves nobody behind either.
        let murder = format!("(setsid sleep {nap} &); kill -9 $PPID; sleep {nap}");
        let ended = run(&*backend, job(&murder)).await.ended;
        assert!(ended.is_err(), "{ended:?}");
        assert_eq!(count(&nap), 0);
        let start = Instant::now();
        let timed = ShellJob {
            timeout: Duration::from_millis(500),
            ..job(&format!("echo begun; {tree}; sleep {nap}"))
        };
        let ran = run(&*backend, timed).await;
        assert_eq!((ran.ended.clone().unwrap().exit, ran.text().as_str()), (Exit::TimedOut, "begun\n"));
        assert_eq!(count(&nap), 0);
        let (handle, cancel) = Cancel::pair();
        let taken_back = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            handle.cancel();
        };
        let command = job(&format!("{tree}; sleep {nap}"));
        let (ran, ()) = tokio::join!(run_until(&*backend, command, cancel), taken_back);
        assert_eq!((ran.ended.unwrap().exit, count(&nap)), (Exit::Cancelled, 0));
        // A caller who goes away takes the command with it.
        let command = job(&format!("{tree}; sleep {nap}"));
        let dropped = tokio::time::timeout(Duration::from_millis(300), run(&*backend, command)).await;
        assert!(dropped.is_err());
        assert_eq!(run(&*backend, job("echo next")).await.text(), "next\n");
        assert_eq!(count(&nap), 0);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    });
    assert_eq!(engine.containers().len(), 1);
}

#[test]
fn bounds_are_held_and_told() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    block_on(async {
        let eat = "x=$(yes | head -c 400000000); echo ${#x}";
        let ended = run(&*backend, job(eat)).await.ended.unwrap();
        assert_eq!(ended.limit, Some(LimitHit::Memory(LIMITS.memory_bytes)), "{ended:?}");
        let bomb = "b() { b | b & }; b; sleep 5";
        let ended = run(&*backend, job(bomb)).await.ended.unwrap();
        assert_eq!(ended.limit, Some(LimitHit::Processes(LIMITS.processes)), "{ended:?}");
        let big = "dd if=/dev/zero of=/tmp/big bs=1M count=40";
        let ran = run(&*backend, job(big)).await;
        assert!(ran.text().contains("No space left"), "{ran:?}");
        let file = run(&*backend, job("dd if=/dev/zero of=big bs=1M count=100")).await.ended.unwrap();
        assert_eq!(file.limit, Some(LimitHit::File(LIMITS.file_bytes)), "{file:?}");
        // Much output passes through and is not kept.
        let much = run(&*backend, job("rm -f big /tmp/big; yes | head -c 50000000")).await;
        assert_eq!((much.ended.unwrap().exit, much.stdout.len()), (Exit::Code(0), 50_000_000));
    });
}

#[test]
fn protected_paths_stay_and_new_ones_are_taken_away() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let git = folder.path().join(".git");
    std::fs::create_dir_all(git.join("hooks")).unwrap();
    for (name, text) in
        [("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n"), ("hooks/pre-commit", "#!/bin/sh\n")]
    {
        std::fs::write(git.join(name), text).unwrap();
    }
    let backend = backend(&engine, view(folder.path()));
    block_on(async {
        let attack = "echo evil >> .git/config; echo evil >> .git/hooks/pre-commit; mv .git gone; mkdir .agent && echo x > .agent/x";
        let ended = run(&*backend, job(attack)).await.ended.unwrap();
        assert_eq!(std::fs::read_to_string(git.join("config")).unwrap(), "[core]\n");
        assert_eq!(std::fs::read_to_string(git.join("hooks/pre-commit")).unwrap(), "#!/bin/sh\n");
        assert!(!folder.path().join(".agent/x").exists());
        assert!(ended.removed.iter().any(|one| one.path.starts_with(".agent")), "{ended:?}");
        // What the owner makes meanwhile is protected in the next call, by another container.
        let first = engine.containers()[0]["Id"].clone();
        std::fs::create_dir(folder.path().join(".agent")).unwrap();
        std::fs::write(folder.path().join(".agent/own"), "mine").unwrap();
        std::fs::write(folder.path().join(".env"), "TOKEN=1").unwrap();
        let ran = run(&*backend, job("echo evil > .agent/own; cat .env")).await;
        assert!(!ran.text().contains("TOKEN"), "{ran:?}");
        assert_eq!(std::fs::read_to_string(folder.path().join(".agent/own")).unwrap(), "mine");
        let now: Vec<_> = engine.containers().into_iter().filter(|one| one["Id"] != first).collect();
        assert_eq!(now.len(), 1);
    });
    drop(backend);
    engine.is_empty_soon();
}

#[test]
fn what_is_missing_is_told_with_what_to_do() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let refused = |choice: ContainerChoice| {
        let made = helve_sandbox::backend(&SandboxChoice::Container(choice), view(folder.path()), LIMITS);
        let error = made.and_then(|backend| block_on(run(&*backend, job("true"))).ended).unwrap_err();
        (error.kind, error.message, error.hint.unwrap_or_default())
    };
    let (kind, message, hint) = refused(ContainerChoice { image: None, ..choice(&engine) });
    assert_eq!(kind, ErrorKind::SandboxUnavailable);
    assert!(message.contains("names no image") && hint.contains("[container]"), "{message} {hint}");
    let absent = ContainerChoice { image: Some("no/such:image".to_owned()), ..choice(&engine) };
    let (kind, message, hint) = refused(absent);
    assert_eq!(kind, ErrorKind::SandboxUnavailable);
    assert!(
        message.contains("no/such:image") && hint.contains("docker pull no/such:image"),
        "{message} {hint}"
    );
    let nobody = ContainerChoice { socket: Some("/nonexistent/engine.sock".into()), ..choice(&engine) };
    assert_eq!(refused(nobody).0, ErrorKind::SandboxUnavailable);
    let own = ContainerChoice { socket: Some(folder.path().join("engine.sock")), ..choice(&engine) };
    assert_eq!(refused(own).0, ErrorKind::Blocked);
    assert!(engine.containers().is_empty());
}

#[test]
fn an_engine_killed_under_a_call_is_an_error_and_leaves_nothing() {
    let _alone = alone();
    let Some(mut engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    let nap = format!("8{}", std::process::id());
    block_on(async {
        run(&*backend, job("true")).await.ended.unwrap();
        let killed = async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            engine.kill();
            Instant::now()
        };
        let (ran, start) = tokio::join!(run(&*backend, job(&format!("echo begun; sleep {nap}"))), killed);
        let error = ran.ended.clone().unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(error.kind, ErrorKind::ToolFailed, "{error:?}");
        assert!(error.message.contains("engine") && error.message.contains("went away"), "{error:?}");
        assert_eq!(ran.text(), "begun\n");
        let gone = Instant::now();
        while count(&nap) > 0 {
            assert!(gone.elapsed() < Duration::from_secs(5), "the command lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Without an engine the next call is refused at once.
        let error = run(&*backend, job("true")).await.ended.unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{error:?}");
    });
    engine.start_again();
    // The same backend works again, and nothing of before is left.
    let ran = block_on(run(&*backend, job("echo again")));
    assert_eq!(ran.text(), "again\n", "{ran:?}");
    assert_eq!(engine.containers().len(), 1);
    drop(backend);
    engine.is_empty_soon();
}

#[test]
fn a_container_that_somebody_removes_is_told_and_replaced() {
    let _alone = alone();
    let Some(engine) = Engine::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    block_on(async {
        run(&*backend, job("true")).await.ended.unwrap();
        let removed = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let id = engine.containers()[0]["Id"].as_str().unwrap().to_owned();
            engine.ask("DELETE", &format!("/containers/{id}?force=true"), b"").unwrap();
        };
        let (ran, ()) = tokio::join!(run(&*backend, job("sleep 20")), removed);
        let error = ran.ended.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.message.contains("container ended"), "{error:?}");
        assert_eq!(run(&*backend, job("echo again")).await.text(), "again\n");
    });
}

/// Plays Helve: makes a container, says so, and waits to be killed.
#[test]
#[ignore = "played as a process of its own by the test below"]
fn role_killed() {
    let socket = std::env::var_os("ROLE_SOCKET").unwrap();
    let folder = std::path::PathBuf::from(std::env::var_os("ROLE_WORKSPACE").unwrap());
    let choice = ContainerChoice {
        image: Some(crate::engine::TOOLS.to_owned()),
        socket: Some(socket.into()),
        ..ContainerChoice::default()
    };
    let backend = helve_sandbox::backend(&SandboxChoice::Container(choice), view(&folder), LIMITS).unwrap();
    block_on(async {
        run(&*backend, job("echo > begun")).await.ended.unwrap();
        drop(run(&*backend, job("sleep 600")).await);
    });
}

#[test]
fn a_killed_helve_leaves_no_container() {
    let _alone = alone();
    let Some(mut engine) = Engine::start() else { return };
    let play = |folder: &std::path::Path| {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "life::role_killed", "--ignored", "--nocapture"])
            .env("ROLE_SOCKET", engine.socket())
            .env("ROLE_WORKSPACE", folder)
            .spawn()
            .unwrap();
        let start = Instant::now();
        while !folder.join("begun").exists() {
            assert!(start.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    };
    let folder = tempfile::tempdir().unwrap();
    let mut child = play(folder.path());
    assert_eq!(engine.containers().len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    engine.is_empty_soon();
    // One whose engine dies with it, and one that was never started, are found by the next start.
    let folder = tempfile::tempdir().unwrap();
    let mut child = play(folder.path());
    let label = engine.containers()[0]["Labels"]["dev.helve.owner"].as_str().unwrap().to_owned();
    engine.kill();
    child.kill().unwrap();
    child.wait().unwrap();
    engine.start_again();
    make(&engine, Some(&label));
    make(&engine, None);
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&engine, view(folder.path()));
    block_on(run(&*backend, job("true"))).ended.unwrap();
    drop(backend);
    let start = Instant::now();
    // Somebody else's stays.
    while engine.containers().len() > 1 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", engine.containers());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(engine.containers()[0]["Labels"]["dev.helve.owner"].is_null());
}

/// Makes a container that is never started.
fn make(engine: &Engine, label: Option<&str>) {
    let labels = label.map_or(serde_json::json!({}), |label| serde_json::json!({"dev.helve.owner": label}));
    let spec =
        serde_json::json!({"Image": crate::engine::TOOLS, "Cmd": ["true"], "Labels": labels}).to_string();
    let mut connection = std::os::unix::net::UnixStream::connect(engine.socket()).unwrap();
    let head = format!(
        "POST /containers/create HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{spec}",
        spec.len()
    );
    std::io::Write::write_all(&mut connection, head.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut connection, &mut answer).unwrap();
    assert!(answer.contains(" 201 "), "{answer}");
}
