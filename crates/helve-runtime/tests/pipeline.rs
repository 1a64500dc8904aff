//! The pipeline from a call to its recorded result, with tools and a sandbox that can be looked into.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{builder, fake, journal, open_schema, says, shell_tool};
use helve_core::{
    ApprovalNeed, BoxFuture, Call, Cancel, ErrorKind, Lane, Output, RateLimit, SandboxReport, ToolError,
    ToolSpec, Verdict,
};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver, Caller};
use helve_store::{Home, verify};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::Barrier;

fn kind(result: &helve_core::CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

/// A read-only tool that ends only when `count` of it run at once.
fn meets(count: usize) -> common::Fake {
    let barrier = Arc::new(Barrier::new(count));
    let spec = ToolSpec::new("meets", "", open_schema()).read_only().timeout(Duration::from_millis(400));
    fake(spec, move |_, _| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            barrier.wait().await;
            Ok(Output::text("met"))
        })
    })
}

#[tokio::test]
async fn reads_really_overlap_and_serial_really_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let calls = || (0..3).map(|_| Call::new("meets", json!({}))).collect::<Vec<_>>();
    let runtime = builder(dir.path(), "").register(meets(3)).build().unwrap();
    assert!(runtime.batch(calls()).await.iter().all(|result| result.ok));

    let serial = builder(dir.path(), "parallel = false").register(meets(3)).build().unwrap();
    // The first waits for company in vain; a barrier counts it all the same, so the last is let through.
    let kinds: Vec<_> = serial.batch(calls()).await.iter().map(kind).collect();
    assert_eq!(kinds, [Some(ErrorKind::Timeout), Some(ErrorKind::Timeout), None]);
}

/// What a tool does in another thread ends with its deadline too, and says what it had done if it is quick about it.
#[tokio::test]
async fn work_in_another_thread_is_told_that_time_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let spec = |name: &str| ToolSpec::new(name, "", open_schema()).timeout(Duration::from_millis(50));
    let ended = Arc::new(AtomicUsize::new(0));
    let works = |name: &str, lane: Lane, answer: fn() -> Result<Output, ToolError>| {
        let ended = Arc::clone(&ended);
        fake(spec(name).lane(lane), move |_, ctx| {
            let (cancel, ended) = (ctx.cancelled().clone(), Arc::clone(&ended));
            let work = tokio::task::spawn_blocking(move || {
                while !cancel.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                ended.fetch_add(1, Ordering::SeqCst);
                answer()
            });
            Box::pin(async move { work.await.unwrap() })
        })
    };
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let runtime = builder(dir.path(), "")
        .workspace(&workspace)
        .register(works("changes", Lane::Files, || Ok(Output::text("changed"))))
        .register(works("fails", Lane::Files, || Err(ToolError::failed("taken back"))))
        .register(works("elsewhere", Lane::Host, || Ok(Output::text("late"))))
        .build()
        .unwrap();
    let calls = ["changes", "fails", "elsewhere"].map(|name| Call::new(name, json!({})));
    let results = runtime.batch(Vec::from(calls)).await;
    assert_eq!(
        results.iter().map(kind).collect::<Vec<_>>(),
        [None, Some(ErrorKind::Timeout), Some(ErrorKind::Timeout)]
    );
    assert_eq!(results[0].text(), "changed");
    for _ in 0..1_000 {
        if ended.load(Ordering::SeqCst) == 3 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("something works on for ever");
}

#[tokio::test]
async fn an_exclusive_tool_is_never_beside_another_and_results_keep_call_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let tool = |name: &str, alone: bool| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let spec = ToolSpec::new(name, "", open_schema()).read_only();
        let spec = if alone { spec.exclusive() } else { spec };
        fake(spec, move |args, _| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            Box::pin(async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                if alone {
                    most.fetch_max(now, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(Output::text(args["n"].to_string()))
            })
        })
    };
    let runtime = builder(dir.path(), "")
        .register(tool("alone", true))
        .register(tool("beside", false))
        .build()
        .unwrap();
    let calls =
        (0..20).map(|n| Call::new(if n % 3 == 0 { "alone" } else { "beside" }, json!({"n": n}))).collect();
    let texts: Vec<String> = runtime.batch(calls).await.iter().map(|result| result.text()).collect();
    assert_eq!(texts, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn every_call_is_recorded_planned_before_outcome_after_refusals_too() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(says("hi", "hello")).build().unwrap();
    let ok = runtime.call(Call { id: Some(json!("x1")), ..Call::new("hi", json!({})) }).await;
    let refused = runtime.call(Call::new("hello", json!({"a": 1}))).await;
    assert_eq!((ok.ok, kind(&refused)), (true, Some(ErrorKind::UnknownTool)));
    let kinds: Vec<(String, String)> = journal(dir.path())
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|entry| (entry["type"].as_str().unwrap().to_owned(), entry["call"].as_str().unwrap().to_owned()))
        .collect();
    let of = |kind: &str, result: &helve_core::CallResult| (kind.to_owned(), result.call.to_string());
    assert_eq!(
        kinds,
        [of("planned", &ok), of("outcome", &ok), of("planned", &refused), of("outcome", &refused)]
    );
    let report = verify(&Home::open(&dir.path().join("state")).unwrap(), "test", None).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

/// What only waited when Helve was killed was never begun, so it must not look as if it had been cut.
#[tokio::test]
async fn a_call_that_waits_for_a_worker_is_not_planned_yet() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().to_owned();
    let looks = fake(ToolSpec::new("looks", "", open_schema()).read_only(), move |_, _| {
        let state = state.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(Output::text(journal(&state).matches(r#""type":"planned""#).count().to_string()))
        })
    });
    let runtime = builder(dir.path(), "limits.workers = 1").register(looks).build().unwrap();
    let results = runtime.batch((0..3).map(|_| Call::new("looks", json!({}))).collect()).await;
    let planned: Vec<String> = results.iter().map(helve_core::CallResult::text).collect();
    assert_eq!(planned, ["1", "2", "3"]);
}

#[tokio::test]
async fn nothing_runs_unrecorded() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state"), "a file where the state directory should be").unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let tool = fake(ToolSpec::new("t", "", open_schema()), move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Output::text("")) })
    });
    let runtime = builder(dir.path(), "").register(tool).build().unwrap();
    assert_eq!(kind(&runtime.call(Call::new("t", json!({}))).await), Some(ErrorKind::Internal));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_crash_of_one_tool_touches_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let crash = fake(ToolSpec::new("crash", "", open_schema()).read_only(), |_, _| {
        Box::pin(async { panic!("boom") })
    });
    let runtime = builder(dir.path(), "").register(crash).register(says("hi", "hello")).build().unwrap();
    let results = runtime.batch(vec![Call::new("crash", json!({})), Call::new("hi", json!({}))]).await;
    assert_eq!(kind(&results[0]), Some(ErrorKind::Internal));
    assert_eq!(results[1].text(), "hello");
}

#[tokio::test]
async fn cancelling_ends_a_tool_that_does_not_listen() {
    let dir = tempfile::tempdir().unwrap();
    let (handle, cancel) = Cancel::pair();
    let deaf = fake(ToolSpec::new("deaf", "", open_schema()), |_, _| Box::pin(std::future::pending()));
    let runtime = builder(dir.path(), "").register(deaf).cancel(cancel).build().unwrap();
    let call = tokio::spawn(async move { runtime.call(Call::new("deaf", json!({}))).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.cancel();
    let result = tokio::time::timeout(Duration::from_secs(10), call).await.unwrap().unwrap();
    assert_eq!(kind(&result), Some(ErrorKind::Cancelled));
}

struct Answers(Approval, AtomicUsize);

impl Approver for Answers {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Answer::new("test", self.0.clone()) })
    }
}

fn asks(need: ApprovalNeed) -> common::Fake {
    fake(ToolSpec::new("asks", "", open_schema()).approval(need), |_, _| {
        Box::pin(async { Ok(Output::text("done")) })
    })
}

#[tokio::test]
async fn who_must_be_asked_is_asked_and_nobody_there_means_no() {
    let dir = tempfile::tempdir().unwrap();
    let call = || Call::new("asks", json!({"approved": true, "approval": "always"}));
    let headless = builder(dir.path(), "").register(asks(ApprovalNeed::UnlessAutoApproved)).build().unwrap();
    assert_eq!(kind(&headless.call(call()).await), Some(ErrorKind::ApprovalRequired));

    let switched =
        builder(dir.path(), "auto_approve = true").register(asks(ApprovalNeed::UnlessAutoApproved));
    assert!(switched.build().unwrap().call(call()).await.ok);
    let always =
        builder(dir.path(), "auto_approve = true").register(asks(ApprovalNeed::Always)).build().unwrap();
    assert_eq!(kind(&always.call(call()).await), Some(ErrorKind::ApprovalRequired));

    for (answer, wanted) in [
        (Approval::Once, None),
        (Approval::Denied { reason: "not today".into() }, Some(ErrorKind::ApprovalDenied)),
    ] {
        let approver = Arc::new(Answers(answer, AtomicUsize::new(0)));
        let runtime = builder(dir.path(), "").register(asks(ApprovalNeed::Always)).approver(approver.clone());
        assert_eq!(kind(&runtime.build().unwrap().call(call()).await), wanted);
        assert_eq!(approver.1.load(Ordering::SeqCst), 1);
    }
}

/// What a refusal offers the owner spares that question, and no other: the switch for everything is not offered.
#[tokio::test]
async fn a_refusal_offers_the_line_that_is_about_its_tool_or_server_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = |name: &str| format!("mcp.servers.{name}.command = 'x'\n");
    let of_server = "mcp.servers.news.approval = \"never\"";
    let of_tool = "tools.mcp__news__post.approval = \"never\"";
    for (tool, policy, grant) in [
        ("asks", "", "tools.asks.approval = \"never\""),
        ("mcp__news__post", "", of_server),
        ("mcp__news__post", "mcp.servers.other.approval = 'unless_auto_approved'", of_server),
        // What is nearer to the tool would win over a word for the server.
        ("mcp__news__post", "mcp.servers.news.tools.post.approval = 'unless_auto_approved'", of_tool),
        ("mcp__news__post", "tools.mcp__news__post.approval = 'unless_auto_approved'", of_tool),
    ] {
        let spec = ToolSpec::new(tool, "", open_schema());
        let spec = if tool == "asks" { spec } else { spec.origin("news", "post") };
        let asks = fake(spec.approval(ApprovalNeed::UnlessAutoApproved), |_, _| {
            Box::pin(async { Ok(Output::text("done")) })
        });
        let policy = format!("{}{}{policy}", server("news"), server("other"));
        let runtime = builder(dir.path(), &policy).register(asks).build().unwrap();
        let error = runtime.call(Call::new(tool, json!({}))).await.error.unwrap();
        let hint = error.hint.unwrap_or_default();
        assert!(hint.ends_with(&format!("or allow it with: {grant}")), "{policy}: {hint}");
    }
}

#[tokio::test]
async fn a_bare_command_that_does_more_than_read_asks_and_a_contained_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let asks = Some(ErrorKind::ApprovalRequired);
    for (policy, contained, command, wanted) in [
        ("", true, "touch x", None),
        ("", false, "ls", None),
        ("", false, "touch x", asks),
        ("", false, "ls > x", asks),
        ("", false, "ls; ./x", asks),
        ("auto_approve = true", false, "touch x", None),
        ("tools.sh.approval = 'never'", false, "touch x", None),
        ("tools.sh.approval = 'always'", true, "ls", asks),
        // What destroys work asks where nothing contains it, whatever the owner approved in advance.
        ("auto_approve = true", false, "git reset --hard", asks),
        ("", true, "git reset --hard", None),
        ("tools.exec.command_wrapper = 'env {command}'", false, "ls", asks),
        ("auto_approve = true\ntools.exec.command_wrapper = 'env {command}'", false, "touch x", None),
    ] {
        let printer = common::Printer { contained, pieces: vec!["x"], runs: Arc::default() };
        let runtime =
            builder(dir.path(), policy).register(shell_tool()).shell(Arc::new(printer)).build().unwrap();
        let result = runtime.call(Call::new("sh", json!({"command": command}))).await;
        assert_eq!(kind(&result), wanted, "{command} under {policy:?}");
    }
}

#[tokio::test]
async fn a_denied_command_never_reaches_the_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let printer = common::Printer { contained: true, pieces: vec![], runs: Arc::clone(&runs) };
    let runtime = builder(dir.path(), "").register(shell_tool()).shell(Arc::new(printer)).build().unwrap();
    let result = runtime.call(Call::new("sh", json!({"command": "rm -rf /"}))).await;
    assert_eq!(kind(&result), Some(ErrorKind::Blocked));
    let text = result.text();
    let first = text.lines().next().unwrap();
    assert_eq!(first, "Error: Command blocked by safety guard (dangerous pattern detected)");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_result_names_the_sandbox_that_the_command_really_ran_in() {
    let dir = tempfile::tempdir().unwrap();
    let printer = common::Printer { contained: true, pieces: vec![], runs: Arc::default() };
    let runtime = builder(dir.path(), "").register(shell_tool()).shell(Arc::new(printer)).build().unwrap();
    assert_eq!(runtime.sandbox().unwrap().layers, Vec::<String>::new());
    let result = runtime.call(Call::new("sh", json!({"command": "ls"}))).await;
    let really = SandboxReport { backend: "printer".into(), layers: vec!["ink".into()] };
    assert_eq!(result.sandbox, Some(really.into()));
    assert!(journal(dir.path()).contains(r#""layers":["ink"]"#));
}

#[tokio::test]
async fn rate_limits_count_callers_that_are_not_the_owner_and_give_back_what_never_ran() {
    let dir = tempfile::tempdir().unwrap();
    let tool = || {
        let spec =
            ToolSpec::new("t", "", open_schema()).rate_limit(Some(RateLimit { per_minute: 2, per_hour: 9 }));
        fake(spec.approval(ApprovalNeed::Never), |_, _| Box::pin(async { Ok(Output::text("")) }))
    };
    let call = || Call::new("t", json!({}));
    let agent =
        builder(dir.path(), "").register(tool()).caller(Caller::Named("agent".into())).build().unwrap();
    assert!(agent.call(call()).await.ok && agent.call(call()).await.ok);
    assert_eq!(kind(&agent.call(call()).await), Some(ErrorKind::RateLimited));

    let owner = builder(dir.path(), "").register(tool()).caller(Caller::Owner).build().unwrap();
    for _ in 0..5 {
        assert!(owner.call(call()).await.ok);
    }

    let approver = Arc::new(Answers(Approval::Denied { reason: "no".into() }, AtomicUsize::new(0)));
    let policy = "[tools.t]\napproval = \"always\"\n";
    let denied = builder(dir.path(), policy).register(tool()).approver(approver).build().unwrap();
    for _ in 0..5 {
        assert_eq!(kind(&denied.call(call()).await), Some(ErrorKind::ApprovalDenied));
    }
}

#[tokio::test]
async fn a_switched_off_tool_is_refused_by_name_of_the_rule_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let runtime =
        builder(dir.path(), "[tools.hi]\nenabled = false\n").register(says("hi", "hello")).build().unwrap();
    let result = runtime.call(Call::new("hi", json!({}))).await;
    assert_eq!(kind(&result), Some(ErrorKind::Blocked));
    assert_eq!(result.decision.unwrap().rule, "tools.hi.enabled");
    assert_eq!(runtime.specs().count(), 0);
}

#[tokio::test]
async fn a_panicking_or_failing_tool_does_not_keep_the_line_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let alone = |name: &str, fails: bool| {
        fake(ToolSpec::new(name, "", open_schema()).exclusive(), move |_, _| {
            Box::pin(
                async move { if fails { Err(ToolError::failed("no")) } else { Ok(Output::text("yes")) } },
            )
        })
    };
    let runtime =
        builder(dir.path(), "").register(alone("bad", true)).register(alone("good", false)).build().unwrap();
    let calls = ["bad", "good", "bad", "good"].map(|name| Call::new(name, json!({}))).into();
    let oks: Vec<bool> = runtime.batch(calls).await.iter().map(|result| result.ok).collect();
    assert_eq!(oks, [false, true, false, true]);
}

#[tokio::test]
async fn a_shell_tool_runs_only_what_the_guard_has_seen() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let printer = || Arc::new(common::Printer { contained: true, pieces: vec![], runs: Arc::clone(&runs) });
    let other = shell_tool().rewriting(|_| "rm -rf /".to_owned());
    let runtime = builder(dir.path(), "").register(other).shell(printer()).build().unwrap();
    assert_eq!(
        kind(&runtime.call(Call::new("sh", json!({"command": "ls"}))).await),
        Some(ErrorKind::Blocked)
    );

    let silent = shell_tool().without_access();
    let runtime = builder(dir.path(), "").register(silent).shell(printer()).build().unwrap();
    assert_eq!(
        kind(&runtime.call(Call::new("sh", json!({"command": "ls"}))).await),
        Some(ErrorKind::Blocked)
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_batch_has_a_most() {
    let dir = tempfile::tempdir().unwrap();
    let runtime =
        builder(dir.path(), "[limits]\nbatch_calls = 2\n").register(says("hi", "hello")).build().unwrap();
    let kinds: Vec<_> = runtime.batch(vec![Call::new("hi", json!({})); 4]).await.iter().map(kind).collect();
    assert_eq!(kinds, [None, None, Some(ErrorKind::TooLarge), Some(ErrorKind::TooLarge)]);
}

#[tokio::test]
async fn a_failure_is_not_remembered_when_its_cause_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state"), "in the way").unwrap();
    let runtime = builder(dir.path(), "").register(says("hi", "hello")).build().unwrap();
    assert_eq!(kind(&runtime.call(Call::new("hi", json!({}))).await), Some(ErrorKind::Internal));
    std::fs::remove_file(dir.path().join("state")).unwrap();
    assert!(runtime.call(Call::new("hi", json!({}))).await.ok);
}

#[tokio::test]
async fn check_says_what_the_call_would_get() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = |policy: &str, contained: bool| {
        let printer = common::Printer { contained, pieces: vec![], runs: Arc::default() };
        let yes = Arc::new(Answers(Approval::Session { grants: Vec::new() }, AtomicUsize::new(0)));
        let builder = builder(dir.path(), policy).shell(Arc::new(printer)).approver(yes);
        let builder = helve_runtime::register_builtin(builder, &["exec"], |_| {
            vec![Box::new(shell_tool().named("exec")) as Box<dyn helve_core::Tool>]
        });
        builder.build().unwrap()
    };
    let check = |policy: &str, contained: bool, command: &str| {
        let decision = runtime(policy, contained).check(command, None);
        (decision.verdict, decision.rule)
    };
    assert_eq!(check("", true, "touch x"), (Verdict::Allow, "sandbox.contains".into()));
    assert_eq!(check("", false, "touch x"), (Verdict::Ask, "guard.bare".into()));
    assert_eq!(check("", false, "ls"), (Verdict::Allow, "guard.bare".into()));
    assert_eq!(check("auto_approve = true", false, "touch x"), (Verdict::Allow, "auto_approve".into()));
    let off = check("[tools.exec]\nenabled = false", true, "ls");
    assert_eq!(off, (Verdict::Deny, "tools.exec.enabled".into()));

    let home = Home::open(&dir.path().join("state")).unwrap();
    let granted = helve_store::NewApproval {
        pattern: "touch x".into(),
        caller: "library".into(),
        rule: "guard.bare".into(),
        reason: "it runs without a sandbox and may do more than read".into(),
        within: helve_store::Within::Nothing,
        tool: "exec".into(),
        scope: helve_store::ApprovalScope::Session("test".into()),
        cwd: dir.path().canonicalize().unwrap().to_str().unwrap().into(),
        scripts: Vec::new(),
        expires_at_us: None,
        created_by: "test".into(),
        call: "c_1".into(),
        shown: String::new(),
    };
    let kept = helve_store::Approvals::open(&home).unwrap().add(&granted).unwrap();
    assert_eq!(check("", false, "touch x"), (Verdict::Allow, format!("approval {}", kept.id)));
    let uses = helve_store::Approvals::open(&home).unwrap().get(&kept.id).unwrap().unwrap().uses;
    assert_eq!(uses, 0, "a look is no use");
}

#[test]
fn rules_for_tools_that_do_not_exist_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let error = |policy: &str| match builder(dir.path(), policy).register(says("hello", "")).build() {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    assert!(error("[tools.helo]\nenabled = false").contains("did you mean 'hello'?"));
    assert_eq!(
        error("[tools.write_file]\nenabled = false"),
        "",
        "a built-in tool that this program does not have"
    );
    assert_eq!(error("[tools.hello]\nenabled = false"), "");
}

#[tokio::test]
async fn a_crash_before_the_work_begins_is_contained_too() {
    let dir = tempfile::tempdir().unwrap();
    let at_once = fake(ToolSpec::new("at-once", "", open_schema()), |_, _| panic!("boom"));
    let asked = says("asked", "").crashing_when_asked();
    let runtime = builder(dir.path(), "").register(at_once).register(asked).build().unwrap();
    for tool in ["at-once", "asked"] {
        assert_eq!(
            kind(&runtime.call(Call::new(tool, json!({}))).await),
            Some(ErrorKind::Internal),
            "{tool}"
        );
    }
}
