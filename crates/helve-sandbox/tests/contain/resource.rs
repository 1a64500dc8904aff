//! Greedy commands, one line of JSON each: the runtime goes on answering, nothing survives, and the bound is named.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helve_core::{Cancel, Ended, Exit, LimitHit, ProcessLimits, SandboxChoice};
use serde::Deserialize;

use crate::common::{
    Collector, Done, LIMITS, User, alone, backend, block_on, choice_of_role, give_away, is_asked_for, play,
    role, run, shared, shell, token, view, within, works,
};
use crate::survivors::{self, Holdings};
use crate::world::throw_away;

const CASES: &str = include_str!("../cases/resource.jsonl");

/// How long the runtime may be silent.
const SILENCE: Duration = Duration::from_millis(250);

/// How the problem begins that it was silent for longer.
const SILENT: &str = "the runtime was silent for";

/// One greedy command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    why: String,
    /// A text for bash; `@TOKEN@` is a word that nothing else has.
    command: String,
    ends: Ends,
    /// The bound that the result names.
    #[serde(default)]
    limit: Option<String>,
    /// Whether it may also fail by itself, where nobody but its own processes sees the bound: an allocation is refused, a
    /// child of the shell may not write on.
    #[serde(default)]
    may_be_unnamed: bool,
    /// Sandboxes in which the kernel refuses what goes beyond the bound, so that nobody sees it passed.
    #[serde(default)]
    unnamed_in: Vec<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    memory_mib: Option<u64>,
    #[serde(default)]
    processes: Option<u64>,
    #[serde(default)]
    cpu_seconds: Option<u64>,
    #[serde(default)]
    disk_mib: Option<u64>,
    #[serde(default)]
    file_mib: Option<u64>,
    /// At least so many bytes of output.
    #[serde(default)]
    output: Option<u64>,
    /// The result says that processes were left, which were ended.
    #[serde(default)]
    leaves_processes: bool,
    /// Sandboxes that do not hold it, and why.
    #[serde(default)]
    not_held_by: BTreeMap<String, String>,
    /// The shared case that asks the same.
    #[serde(default)]
    shared: Option<String>,
}

/// How a command has to end.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Ends {
    /// With exit code 0.
    Well,
    /// By itself, badly.
    Badly,
    /// At its deadline.
    Late,
    /// By itself, badly, or at its deadline.
    BadlyOrLate,
}

impl Case {
    fn limits(&self) -> ProcessLimits {
        let mib = |value: Option<u64>, otherwise| value.map_or(otherwise, |mib| mib << 20);
        ProcessLimits {
            memory_bytes: mib(self.memory_mib, LIMITS.memory_bytes),
            processes: self.processes.unwrap_or(LIMITS.processes),
            cpu_seconds: self.cpu_seconds.unwrap_or(LIMITS.cpu_seconds),
            disk_bytes: mib(self.disk_mib, LIMITS.disk_bytes),
            file_bytes: mib(self.file_mib, LIMITS.file_bytes),
            ..LIMITS
        }
    }

    fn timeout(&self) -> Duration {
        let timeout = Duration::from_millis(self.timeout_ms.unwrap_or(20_000));
        // What is to be late is late on every machine.
        if self.ends == Ends::Late { timeout } else { within(timeout) }
    }
}

fn cases() -> Vec<Case> {
    let parsed = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    parsed.collect()
}

fn exhaust(sandbox: &str, user: User) {
    let _alone = alone();
    let Some(mut role) = role("resource::role_exhausted", user) else { return };
    play(role.env("ROLE_SANDBOX", sandbox));
}

#[test]
fn native_bounds_greedy_commands() {
    exhaust("native", User::Same);
}

#[test]
fn native_bounds_greedy_commands_of_an_ordinary_user() {
    exhaust("native", User::Ordinary);
}

#[test]
fn landlock_bounds_greedy_commands() {
    exhaust_at_length("landlock");
}

#[test]
fn bwrap_bounds_greedy_commands() {
    exhaust_at_length("bwrap");
}

/// Supervised from outside, a bomb and its supervisor share the host's processors, and what is seen first depends on what
/// else runs there: for the endurance tests, on a machine that does nothing else.
fn exhaust_at_length(sandbox: &str) {
    if std::env::var_os("HELVE_TEST_SOAK").is_some_and(|value| value == "1") {
        exhaust(sandbox, User::Same);
    } else {
        println!("skipped: greedy commands in {sandbox} are an endurance test (HELVE_TEST_SOAK=1)");
    }
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_exhausted() {
    let (name, choice) = choice_of_role();
    if !works(&choice) {
        return;
    }
    let commands = shared_commands();
    let mut wrong = Vec::new();
    for case in cases() {
        if !is_asked_for(&case.id) {
            continue;
        }
        let mut texts = vec![case.command.clone()];
        texts.extend(
            commands.iter().filter(|(id, _)| Some(id) == case.shared.as_ref()).map(|(_, text)| text.clone()),
        );
        for text in texts {
            let mut problems = try_case(&case, &text, &choice);
            // Another program may have kept this one from its processor.
            if !problems.is_empty() && problems.iter().all(|problem| problem.starts_with(SILENT)) {
                problems = try_case(&case, &text, &choice);
            }
            if let Some(reason) = case.not_held_by.get(&name) {
                let held = format!("it is held, although {reason}");
                problems = if problems.is_empty() { vec![held] } else { Vec::new() };
            }
            wrong
                .extend(problems.into_iter().map(|problem| format!("{} ({}): {problem}", case.id, case.why)));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

fn shared_commands() -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct Line {
        id: String,
        input: String,
    }
    let Some(path) = shared("HELVE_SHARED_CASES", "resource.jsonl") else { return Vec::new() };
    let lines = std::fs::read_to_string(path).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Line>(line).unwrap());
    lines.map(|line| (line.id, line.input)).collect()
}

/// Runs one greedy command; what is wrong about it.
fn try_case(case: &Case, text: &str, choice: &SandboxChoice) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    give_away(folder.path(), choice);
    let token = token();
    let mut view = view(folder.path(), Path::new("/home/user"));
    view.env.insert("CALL_TOKEN".to_owned(), token.clone());
    let backend = backend(choice, view, case.limits());
    let mut job = shell(&text.replace("@TOKEN@", &token));
    job.timeout = case.timeout();
    let free = free_bytes(folder.path());
    let memory = Holdings::now().memory;
    let start = Instant::now();
    let (done, silence) = block_on(with_ping(run(&*backend, job)));
    let took = start.elapsed();
    let mut wrong = problems(case, &done);
    if took > case.timeout() + within(Duration::from_secs(1)) {
        wrong.push(format!("it took {took:?}"));
    }
    // A backend may keep processes that wait for the next call; they carry the token as well.
    drop(backend);
    let left = survivors::after(Duration::from_secs(1), &token);
    if !left.is_empty() {
        wrong.push(format!("survivors: {left:?}"));
    }
    if silence > within(SILENCE) {
        wrong.push(format!("{SILENT} {silence:?}"));
    }
    let grown = Holdings::now().memory.saturating_sub(memory) / 1024;
    if grown > 64 {
        wrong.push(format!("this process grew by {grown} MiB"));
    }
    let filled = free.saturating_sub(free_bytes(folder.path())) >> 20;
    if case.disk_mib.is_some_and(|most| filled > most + 512) {
        wrong.push(format!("the disk lost {filled} MiB"));
    }
    wrong
}

/// What is wrong about an ending.
fn problems(case: &Case, done: &Done) -> Vec<String> {
    let ended = match &done.ended {
        Ok(ended) => ended,
        Err(error) => return vec![format!("{error:?}")],
    };
    // Where the kernel refuses further processes a bomb goes on until its time is over.
    let refused = case.unnamed_in.contains(&ended.sandbox.backend);
    let badly = matches!(ended.exit, Exit::Signal(_)) || matches!(ended.exit, Exit::Code(code) if code != 0);
    let as_wanted = match case.ends {
        Ends::Well => ended.exit == Exit::Code(0),
        Ends::Badly => badly || refused && ended.exit == Exit::TimedOut,
        Ends::Late => ended.exit == Exit::TimedOut,
        Ends::BadlyOrLate => badly || ended.exit == Exit::TimedOut,
    };
    let mut wrong = Vec::new();
    if !as_wanted {
        let said: String = done.text().chars().take(300).collect();
        wrong.push(format!("it ended with {:?}, not {:?}: {said}", ended.exit, case.ends));
    }
    let unnamed = ended.limit.is_none() && (case.may_be_unnamed || refused);
    if limit_name(ended) != case.limit.as_deref() && !unnamed {
        wrong.push(format!("the limit was {:?}, not {:?} (exit {:?})", ended.limit, case.limit, ended.exit));
    }
    if case.leaves_processes != (ended.left_running > 0) {
        wrong.push(format!("{} processes were left", ended.left_running));
    }
    if case.output.is_some_and(|least| done.bytes < least) {
        wrong.push(format!("only {} bytes of output", done.bytes));
    }
    wrong
}

fn limit_name(ended: &Ended) -> Option<&'static str> {
    ended.limit.map(|limit| match limit {
        LimitHit::Memory(_) => "memory",
        LimitHit::Processes(_) => "processes",
        LimitHit::Cpu(_) => "cpu",
        LimitHit::Disk(_) => "disk",
        LimitHit::File(_) => "file",
        LimitHit::Layer(_) => "layer",
        LimitHit::SystemCall => "system_call",
    })
}

/// Runs something and, on the same thread, a clock; the longest time that the clock was not heard.
async fn with_ping<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let pause = Duration::from_millis(5);
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {
                longest = longest.max(last.elapsed().saturating_sub(pause));
                last = Instant::now();
            }
            done = &mut work => return (done, longest.max(last.elapsed())),
        }
    }
}

fn free_bytes(path: &Path) -> u64 {
    let found = rustix::fs::statvfs(path).unwrap();
    found.f_bavail * found.f_frsize
}

/// What is said to leave processes behind does so where nothing ends them.
#[test]
fn processes_survive_without_a_sandbox() {
    let _alone = alone();
    if !works(&SandboxChoice::Bwrap) {
        return;
    }
    let mut number = 0;
    for case in cases().into_iter().filter(|case| case.leaves_processes) {
        let scratch = tempfile::tempdir().unwrap();
        let mut world = throw_away(scratch.path(), false, "resource::role_survives");
        play(world.env("ROLE_CASE", &case.id));
        number += 1;
    }
    assert!(number > 0);
}

#[test]
#[ignore = "played in a world of its own by the test above"]
fn role_survives() {
    let id = std::env::var("ROLE_CASE").unwrap();
    let case = cases().into_iter().find(|case| case.id == id).unwrap();
    let token = token();
    let text = case.command.replace("@TOKEN@", &token);
    let mut bash = Command::new("bash");
    bash.args(["-c", &text]).env("CALL_TOKEN", &token).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(bash.status().unwrap().success());
    // What was started last may not have got its program yet.
    let deadline = Instant::now() + Duration::from_secs(10);
    while survivors::carrying(&token).is_empty() {
        assert!(Instant::now() < deadline, "{id}: nothing was left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn take_back(sandbox: &str, user: User) {
    let _alone = alone();
    let Some(mut role) = role("resource::role_takes_back", user) else { return };
    play(role.env("ROLE_SANDBOX", sandbox));
}

#[test]
fn native_ends_many_calls_at_once() {
    take_back("native", User::Same);
}

#[test]
fn native_ends_many_calls_at_once_of_an_ordinary_user() {
    take_back("native", User::Ordinary);
}

#[test]
fn bwrap_ends_many_calls_at_once() {
    take_back("bwrap", User::Same);
}

/// Many calls in flight, then all are cancelled: all end soon, and nothing is left of them.
#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_takes_back() {
    let (name, choice) = choice_of_role();
    if !works(&choice) {
        return;
    }
    let number = if name == "native" { 200 } else { 40 };
    let folder = tempfile::tempdir().unwrap();
    let token = token();
    let mut view = view(folder.path(), Path::new("/home/user"));
    view.env.insert("CALL_TOKEN".to_owned(), token.clone());
    let backend = backend(&choice, view, LIMITS);
    block_on(run(&*backend, shell("true"))).ended.unwrap();
    let before = Holdings::now();
    let (cancels, ended) = block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        let mut handles = Vec::new();
        for _ in 0..number {
            let (handle, cancel) = Cancel::pair();
            handles.push(handle);
            let backend = backend.clone();
            tasks.spawn(async move {
                let ended = backend.run(shell("sleep 600"), Box::new(Collector::default()), cancel).await;
                ended.unwrap().exit
            });
        }
        tokio::time::sleep(within(Duration::from_secs(2))).await;
        let start = Instant::now();
        for handle in &handles {
            handle.cancel();
        }
        let exits = tasks.join_all().await;
        (exits, start.elapsed())
    });
    assert!(cancels.iter().all(|exit| *exit == Exit::Cancelled), "{cancels:?}");
    assert!(ended < within(Duration::from_secs(5)), "they took {ended:?} to end");
    block_on(run(&*backend, shell("true"))).ended.unwrap();
    let start = Instant::now();
    let settled = |now: Holdings| {
        let few = now.descriptors <= before.descriptors + 40 && now.processes <= before.processes + 12;
        few && now.zombies == 0
    };
    let mut after = Holdings::now();
    while !settled(after) && start.elapsed() < within(Duration::from_secs(8)) {
        std::thread::sleep(Duration::from_millis(50));
        after = Holdings::now();
    }
    assert!(settled(after), "before {before:?}\nafter {after:?}");
    drop(backend);
    assert_eq!(survivors::after(Duration::from_secs(1), &token), Vec::<String>::new());
}
