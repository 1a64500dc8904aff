//! Those who answer for the owner: a hook program, good and hostile, and a channel to another part of the program.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{builder, shell_tool};
use helve_core::{BoxFuture, Call, CallResult, ErrorKind};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver, RuntimeBuilder, channel};
use helve_store::{Approvals, Home};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        Place { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn builder(&self, policy: &str) -> RuntimeBuilder {
        let bare = common::Printer { contained: false, pieces: vec![], runs: Arc::default() };
        builder(self.dir.path(), policy)
            .workspace(self.path("w"))
            .register(shell_tool())
            .shell(Arc::new(bare))
    }

    /// The policy with a hook that is a script of this text. A shell reads it: a file that was just written cannot always
    /// be executed, because another test may be starting a program meanwhile that still holds it open.
    fn hook(&self, text: &str) -> String {
        let file = self.path("hook.sh");
        std::fs::write(&file, text).unwrap();
        format!(
            "[approval]\nhook = [\"/bin/sh\", \"{}\", \"{}\"]\nhook_timeout = 60\n",
            file.display(),
            self.dir.path().display()
        )
    }

    async fn asked(&self, hook: &str) -> CallResult {
        self.builder(&self.hook(hook)).build().unwrap().call(call("cargo build")).await
    }

    /// The same with little patience.
    async fn asked_shortly(&self, hook: &str) -> CallResult {
        let policy = self.hook(hook).replace("hook_timeout = 60", "hook_timeout = 2");
        self.builder(&policy).build().unwrap().call(call("cargo build")).await
    }
}

fn call(command: &str) -> Call {
    Call::new("sh", json!({"command": command}))
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

#[tokio::test]
async fn a_hook_gets_the_whole_question_in_a_clean_place() {
    let place = Place::new();
    let result = place
        .asked("cat > \"$1/question\"; pwd > \"$1/where\"; env > \"$1/env\"; echo '{\"answer\": \"once\"}'")
        .await;
    assert!(result.ok, "{}", result.text());
    let question = std::fs::read_to_string(place.path("question")).unwrap();
    assert_eq!(question.matches('\n').count(), 1);
    let question: Value = serde_json::from_str(&question).unwrap();
    assert_eq!((&question["command"], &question["tool"]), (&json!("cargo build"), &json!("sh")));
    assert_eq!(question["parts"][0]["offer"], "cargo build");
    assert_eq!((&question["longest"], &question["session"]), (&json!("always"), &json!("test")));
    assert_eq!(std::fs::read_to_string(place.path("where")).unwrap(), "/\n");
    let env = std::fs::read_to_string(place.path("env")).unwrap();
    assert!(env.contains("PATH=/usr/local/bin:/usr/bin:/bin"), "{env}");
    assert!(!env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn a_hook_can_say_no_and_yes_for_longer() {
    let place = Place::new();
    let denied = place.asked("echo '{\"answer\": \"deny\", \"reason\": \"not at night\"}'").await;
    assert_eq!(kind(&denied), Some(ErrorKind::ApprovalDenied));
    assert!(denied.text().contains("not at night"));

    assert!(place.asked("echo '{\"answer\": \"always\"}'").await.ok);
    assert!(place.asked("exit 1").await.ok, "granted before, so not asked");
    let approvals = Approvals::open(&Home::open(&place.path("state")).unwrap()).unwrap();
    let rows = approvals.list(false).unwrap();
    assert_eq!(
        (rows.len(), rows[0].granted.pattern.as_str(), rows[0].granted.created_by.as_str()),
        (1, "cargo build", "hook")
    );

    let grants = "[{\"part\": 0, \"pattern\": \"cargo doc *\", \"scope\": \"user\", \"expires_in\": 60}]";
    let policy = place.hook(&format!("echo '{{\"answer\": \"always\", \"grants\": {grants}}}'"));
    assert!(place.builder(&policy).build().unwrap().call(call("cargo doc --open")).await.ok);
    let rows = approvals.list(false).unwrap();
    let row = rows.iter().find(|row| row.granted.pattern == "cargo doc *").unwrap();
    assert_eq!(row.granted.scope.to_string(), "user");
    assert!(row.granted.expires_at_us.is_some());
}

#[tokio::test]
async fn a_hook_that_does_not_answer_as_agreed_answers_nothing() {
    let place = Place::new();
    for bad in [
        "exit 0",
        "exit 1",
        "echo '{\"answer\": \"once\"}'; exit 1",
        "echo '{\"answer\": \"once\"}'; kill -9 $$",
        "echo yes",
        "echo '{\"answer\": \"yes\"}'",
        "echo '{\"answer\": \"once\", \"sure\": true}'",
        "echo '[\"once\"]'",
        "echo '{\"answer\": \"once\"}'; echo '{\"answer\": \"once\"}'",
        "echo '{\"answer\": \"nobody\"}'",
        "echo '{\"answer\": \"always\", \"grants\": [{\"part\": 0, \"pattern\": \"cargo build\", \
         \"expires_in\": 18446744073709551615}]}'",
        "head -c 300000 /dev/zero | tr '\\0' x",
        "yes | tr -d '\\n'",
    ] {
        let started = Instant::now();
        let result = place.asked(bad).await;
        assert_eq!(kind(&result), Some(ErrorKind::ApprovalRequired), "{bad}");
        assert!(started.elapsed() < Duration::from_secs(30), "{bad}");
    }
    assert!(!place.path("state/approvals.sqlite").exists());
    let missing = "approval.hook = ['/nowhere/at/all']";
    let result = place.builder(missing).build().unwrap().call(call("cargo build")).await;
    assert_eq!(kind(&result), Some(ErrorKind::ApprovalRequired));
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_all_that_it_started() {
    let place = Place::new();
    for hangs in [
        "sleep 60",
        "exec > /dev/null; echo $$ > \"$1/pid\"; sleep 60 & echo $! >> \"$1/pid\"; wait",
        "echo '{\"answer\": \"once\"}'; sleep 60",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
    ] {
        let started = Instant::now();
        let result = place.asked_shortly(hangs).await;
        assert_eq!(kind(&result), Some(ErrorKind::ApprovalRequired), "{hangs}");
        assert!(started.elapsed() < Duration::from_secs(30), "{hangs}");
    }
    for pid in std::fs::read_to_string(place.path("pid")).unwrap().lines() {
        let gone = || !Path::new("/proc").join(pid).exists() || is_zombie(pid);
        let until = Instant::now() + Duration::from_secs(5);
        while !gone() {
            assert!(Instant::now() < until, "{pid} is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Ended, and waiting for whoever inherited it.
fn is_zombie(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_hook_that_stops_reading_is_still_heard() {
    let place = Place::new();
    let policy = place.hook("exec < /dev/null; echo '{\"answer\": \"once\"}'");
    let long = format!("cargo build {}", "x".repeat(60_000));
    let policy = format!("{policy}\n[limits]\ncommand_bytes = 100000\n");
    assert!(place.builder(&policy).build().unwrap().call(call(&long)).await.ok);
}

#[test]
fn a_hook_that_commands_could_change_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("w/hook.sh"), "").unwrap();
    std::os::unix::fs::symlink(place.path("w/hook.sh"), place.path("link.sh")).unwrap();
    for words in [
        format!("['{}']", place.path("w/hook.sh").display()),
        format!("['{}']", place.path("link.sh").display()),
        format!("['/bin/sh', '{}']", place.path("w/hook.sh").display()),
    ] {
        let built = place.builder(&format!("approval.hook = {words}")).build();
        let error = built.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("lies in the workspace"), "{words}: {error}");
    }
}

/// Somebody at a terminal, or nobody.
struct Terminal(Approval);

impl Approver for Terminal {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::new("terminal", self.0.clone()) })
    }
}

#[tokio::test]
async fn the_hook_is_asked_only_where_nobody_else_is_there() {
    let place = Place::new();
    let policy = place.hook("echo asked >> \"$1/log\"; echo '{\"answer\": \"once\"}'");
    let with =
        |approval: Approval| place.builder(&policy).approver(Arc::new(Terminal(approval))).build().unwrap();
    let denied = with(Approval::Denied { reason: "no".into() }).call(call("cargo build")).await;
    assert_eq!(kind(&denied), Some(ErrorKind::ApprovalDenied));
    assert!(with(Approval::Once).call(call("cargo build")).await.ok);
    assert!(!place.path("log").exists());
    assert!(with(Approval::Nobody).call(call("cargo build")).await.ok);
    assert!(place.path("log").exists());
}

#[tokio::test]
async fn a_channel_carries_questions_out_and_answers_in() {
    let place = Place::new();
    let (asks, mut questions) = channel("page", Duration::from_secs(10));
    let runtime = place.builder("").approver(Arc::new(asks)).build().unwrap();
    let batch = vec![call("cargo build"), call("cargo test"), call("cargo doc")];
    let work = tokio::spawn(async move { runtime.batch(batch).await });
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(questions.next().await.unwrap());
    }
    // Answered in another order than asked; an answer counts once, and only for its own call.
    for (request, approval) in
        open.iter().rev().zip([Approval::Once, Approval::Denied { reason: "no".into() }, Approval::Once])
    {
        assert!(questions.answer(&request.call, approval));
        assert!(!questions.answer(&request.call, Approval::Once));
    }
    let kinds: Vec<_> = work.await.unwrap().iter().map(kind).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::ApprovalDenied), None]);
}

#[tokio::test]
async fn a_channel_without_anybody_behind_it_is_nobody_and_one_without_an_answer_times_out() {
    let place = Place::new();
    let (asks, questions) = channel("page", Duration::from_millis(30));
    let runtime = place.builder("").approver(Arc::new(asks)).build().unwrap();
    let late = runtime.call(call("cargo build")).await;
    assert_eq!(kind(&late), Some(ErrorKind::ApprovalRequired));
    assert!(late.text().contains("in time"), "{}", late.text());
    assert!(!questions.answer(&late.call, Approval::Once), "it no longer waits");
    drop(questions);
    let alone = runtime.call(call("cargo build")).await;
    assert!(alone.text().contains("Nobody is there"), "{}", alone.text());
}
