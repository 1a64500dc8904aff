//! Control groups, where the host gives them: each command has a wall of its own, and no group is left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{Exit, LimitHit, ProcessLimits, SandboxChoice, ShellBackend, ShellJob};

use crate::common::{
    Done, LIMITS, User, alone, backend, block_on, is_delegated, play, program, role, run, shell, view, within,
};

const MIB: u64 = 1 << 20;

const BOUNDS: ProcessLimits = ProcessLimits { memory_bytes: 64 * MIB, processes: 40, ..LIMITS };

/// Takes so many MiB that belong to no process, so that only the kernel counts them, and keeps them for a while.
fn take(mib: u64, seconds: f32) -> String {
    let script = "\
import os, time
file = os.memfd_create(\"x\")
for i in range(MIB): os.write(file, bytes(1 << 20))
time.sleep(SECONDS)
";
    let script = script.replace("MIB", &mib.to_string()).replace("SECONDS", &seconds.to_string());
    format!("exec python3 -c '{script}'")
}

/// Has children that nobody waits for take processor time, each a little.
const UNWAITED: &str = "\
exec python3 -c '
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    time.sleep(0.1)
'";

fn enclose(user: User) {
    let _alone = alone();
    if !is_delegated() {
        return println!("skipped: no control group is handed down to the tests (HELVE_TEST_DELEGATED=1)");
    }
    let Some(mut role) = role("groups::role_enclosed", user) else { return };
    play(&mut role);
}

#[test]
fn native_gives_each_command_a_wall() {
    enclose(User::Same);
}

#[test]
fn native_gives_each_command_of_an_ordinary_user_a_wall() {
    enclose(User::Ordinary);
}

/// The groups below the one that was handed down, where this process had to leave it for one of its own.
fn made() -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let given = Path::new("/sys/fs/cgroup").join(own);
    let mut found = Vec::new();
    let mut open = vec![given.parent().unwrap().to_owned()];
    while let Some(group) = open.pop() {
        let entries = group.read_dir().into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path());
        let below: Vec<PathBuf> = below.filter(|path| *path != given).collect();
        found.extend(below.iter().cloned());
        open.extend(below);
    }
    found
}

fn of_commands() -> usize {
    made().iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("command-")).count()
}

/// Waits until that is so; fails if it is not soon.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < within(Duration::from_secs(5)), "{what}: {:?}", made());
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn both(backend: &dyn ShellBackend, one: ShellJob, two: ShellJob) -> (Done, Done) {
    tokio::join!(run(backend, one), run(backend, two))
}

fn how(done: &Done) -> (Exit, Option<LimitHit>, bool) {
    let ended = done.ended.as_ref().unwrap_or_else(|error| panic!("{error:?}"));
    (ended.exit, ended.limit, ended.sandbox.layers.iter().any(|layer| layer == "cgroup"))
}

/// A sandbox whose commands get control groups: they are made while the first calls run.
async fn fenced(workspace: &Path, limits: ProcessLimits) -> Arc<dyn ShellBackend> {
    let backend = backend(&SandboxChoice::Native, view(workspace, Path::new("/home/user")), limits);
    let start = Instant::now();
    while !how(&run(&*backend, shell("true")).await).2 {
        assert!(start.elapsed() < within(Duration::from_secs(20)), "no command gets a control group");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    backend
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_enclosed() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = fenced(folder.path(), BOUNDS).await;
        let (well, memory) = (Exit::Code(0), Some(LimitHit::Memory(64 * MIB)));

        // In every lane: a warm shell, a parked program, and more at a time than stand ready.
        let done = run(&*backend, shell("cat /proc/self/cgroup")).await;
        assert_eq!(how(&done), (well, None, true), "{}", done.text());
        assert!(done.text().starts_with("0::/command-"), "{}", done.text());
        let done = run(&*backend, program(["cat", "/proc/self/cgroup"])).await;
        assert!(done.text().starts_with("0::/command-"), "{}", done.text());
        let mut calls = Vec::new();
        for _ in 0..9 {
            calls.push(run(&*backend, shell("sleep 0.3; cat /proc/self/cgroup")));
        }
        let mut groups = std::collections::BTreeSet::new();
        for done in futures(calls).await {
            assert_eq!(how(&done), (well, None, true), "{}", done.text());
            groups.insert(done.text());
        }
        assert_eq!(groups.len(), 9, "{groups:?}");

        // The kernel's wall is named, and is nobody else's: not of one who runs beside it.
        let (over, beside) = both(&*backend, shell(&take(200, 0.0)), shell(&take(40, 1.5))).await;
        assert_eq!(how(&over), (Exit::Signal(9), memory, true), "{}", over.text());
        assert_eq!(how(&beside), (well, None, true), "{}", beside.text());
        // Two that together take more than the bound of one.
        let (one, two) = both(&*backend, shell(&take(45, 1.0)), shell(&take(45, 1.0))).await;
        assert_eq!((how(&one), how(&two)), ((well, None, true), (well, None, true)));
        // What a command keeps in its private directory counts too.
        let done = run(&*backend, shell("head -c 200M /dev/zero > /tmp/much")).await;
        assert_eq!(how(&done).1, memory, "{done:?}");

        let bomb = "for i in $(seq 100); do sleep 5 & done; wait";
        let (bomb, beside) = both(&*backend, shell(bomb), shell("sleep 1; (true & wait)")).await;
        assert_eq!(how(&bomb).1, Some(LimitHit::Processes(40)), "{bomb:?}");
        assert_eq!(how(&beside), (well, None, true), "{}", beside.text());

        // Processor time that no parent has waited for.
        let busy = fenced(folder.path(), ProcessLimits { cpu_seconds: 2, ..BOUNDS }).await;
        let done = run(&*busy, shell(UNWAITED)).await;
        assert_eq!(how(&done).1, Some(LimitHit::Cpu(2)), "{done:?}");
        drop(busy);

        // Nothing is left of calls and kills but what stands ready.
        let ready = || of_commands() <= 16;
        for _ in 0..30 {
            run(&*backend, shell("sleep 60 & true")).await.ended.unwrap();
            let late = ShellJob {
                timeout: Duration::from_millis(30),
                ..shell("trap '' TERM; setsid -f sleep 60; while :; do :; done")
            };
            assert_eq!(run(&*backend, late).await.ended.unwrap().exit, Exit::TimedOut);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        soon("groups of commands are left", ready);
    });
    soon("groups are left", || made().is_empty());
}

/// Waits for all of them at the same time.
async fn futures<T>(all: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(move |context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() {
            std::task::Poll::Ready(std::mem::take(&mut done))
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}
