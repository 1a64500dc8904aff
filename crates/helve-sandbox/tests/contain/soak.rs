//! Endurance: many calls, and many that are killed, leave nothing behind.

use std::path::Path;
use std::time::{Duration, Instant};

use helve_core::{Exit, LimitHit, SandboxChoice, ShellBackend, ShellJob};
use helve_sandbox::PoolSize;

use crate::common::{LIMITS, User, alone, block_on, play, role, run, shell, token, view, within, works};
use crate::survivors::{self, Holdings};

/// `many` where endurance is asked for, else `few`.
fn number(many: usize, few: usize) -> usize {
    if std::env::var_os("HELVE_TEST_SOAK").is_some_and(|value| value == "1") { many } else { few }
}

fn endure(test: &str, user: User) {
    let _alone = alone();
    let Some(mut role) = role(test, user) else { return };
    // Only the role's own temporary files are counted.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    play(role.env("TMPDIR", folder.path()));
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
}

#[test]
fn many_calls_leave_nothing() {
    endure("soak::role_calls", User::Same);
}

#[test]
fn many_calls_of_an_ordinary_user_leave_nothing() {
    endure("soak::role_calls", User::Ordinary);
}

#[test]
fn many_killed_commands_leave_nothing() {
    endure("soak::role_kills", User::Same);
}

#[test]
fn many_killed_commands_of_an_ordinary_user_leave_nothing() {
    endure("soak::role_kills", User::Ordinary);
}

/// Starts processes faster than they end.
const STORM: &str = "while :; do /bin/true & done";

/// A sandbox, the token of all its processes, and its workspace.
struct Bench {
    backend: std::sync::Arc<dyn ShellBackend>,
    token: String,
    folder: tempfile::TempDir,
}

/// The pools that are tried: from an ordinary one commands get shells that stand ready, without one copies of a loaded shell.
const POOLS: [PoolSize; 2] = [PoolSize { warm: 2, parked: 1 }, PoolSize::NONE];

fn bench(pool: PoolSize) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let token = token();
    let mut view = view(folder.path(), Path::new("/home/user"));
    view.env.insert("CALL_TOKEN".to_owned(), token.clone());
    Bench { backend: helve_sandbox::native(view, LIMITS, pool).unwrap(), token, folder }
}

/// Waits until the sandbox has nothing more to do, as far as can be seen from outside.
fn settled() -> Holdings {
    let mut last = Holdings::now();
    for _ in 0..50 {
        std::thread::sleep(within(Duration::from_millis(100)));
        let now = Holdings::now();
        let same = now.processes == last.processes && now.descriptors == last.descriptors && now.zombies == 0;
        last = now;
        if same {
            break;
        }
    }
    last
}

/// Fails where something has grown. The pool may hold a few more or fewer members than before.
fn compare(before: Holdings, after: Holdings) {
    let grown = |name: &str, before: usize, after: usize, slack: usize| {
        assert!(after <= before + slack, "{name} grew from {before} to {after}");
    };
    println!("before {before:?}\nafter  {after:?}");
    grown("descriptors", before.descriptors, after.descriptors, 40);
    grown("processes", before.processes, after.processes, 16);
    grown("zombies", before.zombies, after.zombies, 0);
    grown("mounts", before.mounts, after.mounts, 0);
    grown("temporary files", before.temporary, after.temporary, 0);
    let groups = |holdings: Holdings| holdings.groups;
    grown("control groups", groups(before), groups(after), 8);
    assert!(
        after.memory <= before.memory + 8 * 1024,
        "memory grew from {} to {} KiB",
        before.memory,
        after.memory
    );
}

/// The end of a sandbox ends all that it kept.
fn ends(bench: Bench) {
    drop(bench.backend);
    assert_eq!(survivors::after(Duration::from_secs(2), &bench.token), Vec::<String>::new());
    drop(bench.folder);
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_calls() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    POOLS.into_iter().for_each(endure_calls);
}

fn endure_calls(pool: PoolSize) {
    let bench = bench(pool);
    let texts =
        ["true", "echo x", "sleep 600 & echo y", "seq 1000 | tail -n 1", "exit 3", "echo z > f; mktemp"];
    let calls = |number: usize| {
        block_on(async {
            for call in 0..number {
                let done = run(&*bench.backend, shell(texts[call % texts.len()])).await;
                done.ended.unwrap();
            }
        });
    };
    calls(200);
    let before = settled();
    let start = Instant::now();
    let number = number(20_000, 600) / POOLS.len();
    calls(number);
    println!("{number} calls in {:?} with {pool:?}", start.elapsed());
    compare(before, settled());
    ends(bench);
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_kills() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    POOLS.into_iter().for_each(endure_kills);
}

fn endure_kills(pool: PoolSize) {
    let bench = bench(pool);
    let texts = [
        "sleep 600",
        "setsid sleep 600 & setsid -f sleep 600; wait; sleep 600",
        "trap '' TERM INT HUP; while :; do :; done",
        "sleep 600 & kill -STOP 0",
        STORM,
        "yes",
    ];
    let timeout = Duration::from_millis(60);
    let kills = |number: usize| {
        let mut late = Vec::with_capacity(number);
        block_on(async {
            for text in texts.iter().cycle() {
                if late.len() == number {
                    break;
                }
                let start = Instant::now();
                let done = run(&*bench.backend, ShellJob { timeout, ..shell(text) }).await;
                let after = start.elapsed().saturating_sub(timeout);
                let ended = done.ended.unwrap();
                // On a busy machine too many are alive before their time is over, and then that is why they are ended.
                if *text == STORM && matches!(ended.limit, Some(LimitHit::Processes(_))) {
                    continue;
                }
                assert_eq!(ended.exit, Exit::TimedOut, "{text}");
                late.push(after);
            }
        });
        late
    };
    kills(60);
    let before = settled();
    let number = number(10_000, 200) / POOLS.len();
    let mut late = kills(number);
    late.sort_unstable();
    let (median, p99) = (late[late.len() / 2], late[late.len() * 99 / 100]);
    println!(
        "{number} kills with {pool:?}: latency median {median:?}, p99 {p99:?}, most {:?}",
        late[late.len() - 1]
    );
    assert!(p99 <= within(Duration::from_secs(1)), "p99 of the kill latency is {p99:?}");
    compare(before, settled());
    ends(bench);
}
