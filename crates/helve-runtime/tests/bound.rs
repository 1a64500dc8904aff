//! What a grant is bound to: where a run works, what its files hold, who calls, which rule asks and what is around it.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use common::Printer;
use common::asking::{Place, Scripted, always, call, kind, offers, once};
use helve_core::{
    BoxFuture, Cancel, Ended, ErrorKind, Exit, OutputSink, SandboxReport, ShellBackend, ShellJob, ToolError,
    Verdict,
};
use helve_runtime::{Approval, Caller, Lasting, RuntimeBuilder, Scope};
use helve_store::ApprovalScope;
use pretty_assertions::assert_eq;

/// A shell whose commands all do the same.
struct Acting(Box<dyn Fn() + Send + Sync>);

impl ShellBackend for Acting {
    fn report(&self) -> SandboxReport {
        SandboxReport { backend: "acting".into(), layers: Vec::new() }
    }

    fn contains(&self) -> bool {
        false
    }

    fn run<'a>(
        &'a self,
        _job: ShellJob,
        _sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            (self.0)();
            Ok(Ended::plain(Exit::Code(0), self.report()))
        })
    }
}

fn contained(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder.shell(Arc::new(Printer { contained: true, pieces: vec![], runs: Arc::new(AtomicUsize::new(0)) }))
}

#[tokio::test]
async fn a_grant_holds_where_the_command_worked_and_nowhere_else() {
    let place = Place::new();
    std::os::unix::fs::symlink("sub", place.path("w/link")).unwrap();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    for command in ["cargo build", "git tag v1"] {
        let before = yes.count();
        assert!(runtime.call(call(command)).await.ok && runtime.call(call(command)).await.ok);
        assert_eq!(yes.count(), before + 1, "{command}");
    }
    let workspace = place.path("w").canonicalize().unwrap();
    assert_eq!(yes.last().parts[0].directory.as_deref(), Some(workspace.as_path()));
    for elsewhere in [
        "cd sub && cargo build",
        "cd /usr && git tag v1",
        "git -C sub tag v1",
        "git -C .. tag v1",
        "cd gone && git tag v1",
        "cd $X && git tag v1",
    ] {
        let before = yes.count();
        assert!(runtime.call(call(elsewhere)).await.ok);
        assert_eq!(yes.count(), before + 1, "{elsewhere}");
    }
    assert_eq!(yes.last().parts.iter().find_map(|part| part.offer.clone()), None, "nobody knows where");
    let before = yes.count();
    assert!(runtime.call(call("cd link && cargo build")).await.ok);
    assert_eq!(yes.count(), before, "the same directory by another name");
    std::fs::remove_file(place.path("w/link")).unwrap();
    std::os::unix::fs::symlink("../w2", place.path("w/link")).unwrap();
    assert!(runtime.call(call("cd link && cargo build")).await.ok);
    assert_eq!(yes.count(), before + 1, "the same name for another directory");
}

#[tokio::test]
async fn what_an_earlier_call_of_the_batch_changes_is_not_run() {
    // A tool that always asks is asked about as a whole.
    let as_a_whole = "tools.sh.approval = 'always'";
    for (policy, answer, stored) in
        [("", once as fn(&_) -> _, false), (as_a_whole, once, false), ("", always, true)]
    {
        let place = Place::new();
        let script = place.path("w/run.sh");
        std::fs::write(&script, "good").unwrap();
        let changed = script.clone();
        let shell = Acting(Box::new(move || std::fs::write(&changed, "evil").unwrap()));
        let yes = Scripted::new(answer);
        let runtime = place.builder(policy).shell(Arc::new(shell)).approver(yes.clone()).build().unwrap();
        let kinds: Vec<_> =
            runtime.batch(["cp a.sh run.sh", "./run.sh"].map(call).into()).await.iter().map(kind).collect();
        assert_eq!(kinds, [None, Some(ErrorKind::Conflict)]);
        let last = common::asking::planned(place.dir.path()).pop().unwrap();
        assert_eq!(last["args"]["command"], "./run.sh", "the journal has the call that was not run");
        if stored {
            // The second time on stored grants.
            std::fs::write(&script, "good").unwrap();
            let before = yes.count();
            let kinds: Vec<_> = runtime
                .batch(["cp a.sh run.sh", "./run.sh"].map(call).into())
                .await
                .iter()
                .map(kind)
                .collect();
            assert_eq!((kinds, yes.count()), (vec![None, Some(ErrorKind::Conflict)], before));
        }
    }
}

#[tokio::test]
async fn a_command_that_changes_its_own_script_is_asked_about_every_time() {
    let place = Place::new();
    std::fs::write(place.path("w/run.sh"), "good").unwrap();
    std::fs::write(place.path("w/a.sh"), "evil").unwrap();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    for part in ["cp a.sh run.sh", "./run.sh"] {
        assert!(runtime.call(call(part)).await.ok && runtime.call(call(part)).await.ok);
    }
    assert_eq!(yes.count(), 2);
    for round in 3..5 {
        assert!(runtime.call(call("cp a.sh run.sh && ./run.sh")).await.ok);
        assert_eq!(yes.count(), round);
        let offers: Vec<bool> = yes.last().parts.iter().map(|part| part.offer.is_some()).collect();
        assert_eq!(offers, [true, false]);
    }
}

#[tokio::test]
async fn a_task_is_bound_to_the_file_that_says_what_it_does() {
    let place = Place::new();
    let file = place.path("w/package.json");
    std::fs::write(&file, "{\"scripts\":{\"build\":\"tsc\"}}").unwrap();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    assert!(runtime.call(call("npm run build")).await.ok && runtime.call(call("npm run build")).await.ok);
    assert_eq!(yes.count(), 1);
    let scripts: Vec<String> = yes.last().parts[0].scripts.iter().map(|one| one.path.clone()).collect();
    assert_eq!(scripts, ["package.json"]);
    std::fs::write(&file, "{\"scripts\":{\"build\":\"evil\"}}").unwrap();
    assert!(runtime.call(call("npm run build")).await.ok);
    assert_eq!(yes.count(), 2, "other content asks again");
    std::fs::remove_file(&file).unwrap();
    assert!(runtime.call(call("npm run build")).await.ok);
    assert_eq!(yes.count(), 3, "so does none");
    assert!(runtime.call(call("npm --prefix sub run build")).await.ok);
    assert_eq!(yes.last().parts[0].offer, None, "what it runs lies elsewhere");
}

#[tokio::test]
async fn a_grant_serves_the_caller_that_it_was_given_for() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let of = |caller: Caller| place.builder("").caller(caller).approver(yes.clone()).build().unwrap();
    for (caller, questions) in [
        (Caller::Owner, 1),
        (Caller::Owner, 1),
        (Caller::Named("mcp".into()), 2),
        (Caller::Named("mcp".into()), 2),
        (Caller::Named("other".into()), 3),
    ] {
        assert!(of(caller.clone()).call(call("cargo build")).await.ok);
        assert_eq!(yes.count(), questions, "{caller:?}");
    }
}

#[tokio::test]
async fn a_grant_does_not_outlive_the_policy_under_which_it_was_given() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let rule = "[[rules]]\nverdict = 'ask'\ncommand = 'cargo publish *'\n";
    let inside = |policy: &str| contained(place.builder(policy)).approver(yes.clone()).build().unwrap();
    let bare = |policy: &str| place.builder(policy).approver(yes.clone()).build().unwrap();
    for _ in 0..2 {
        assert!(inside(rule).call(call("cargo publish")).await.ok);
    }
    assert_eq!(yes.count(), 1);
    assert!(bare(rule).call(call("cargo publish")).await.ok);
    assert_eq!(yes.count(), 2, "nothing is around it any more");

    for _ in 0..2 {
        assert!(bare("").call(call("cargo build")).await.ok);
    }
    assert_eq!(yes.count(), 3);
    let newer = "[[rules]]\nverdict = 'ask'\ncommand = 'cargo build *'\n";
    assert!(bare(newer).call(call("cargo build")).await.ok);
    assert_eq!(yes.count(), 4, "a rule that was not there when it was granted");
    let other = "[[rules]]\nverdict = 'ask'\ncommand = 'cargo *'\nreason = 'think twice'\n";
    assert!(bare(other).call(call("cargo build")).await.ok);
    assert_eq!(yes.count(), 5, "another rule in the same place");
}

#[tokio::test]
async fn a_yes_for_the_session_is_never_widened() {
    let place = Place::new();
    let yes = Scripted::new(|request| Approval::Always { grants: offers(request, Scope::Session) });
    assert!(place.runtime(&yes).call(call("cargo build")).await.ok);
    let row = place.approvals().list(false).unwrap().remove(0);
    assert_eq!(row.granted.scope, ApprovalScope::Session("test".into()));
    assert!(row.granted.expires_at_us.is_some());
    let note = &common::asking::planned(place.dir.path()).pop().unwrap()["approval"];
    assert_eq!(note["answer"], "session");
}

#[tokio::test]
async fn a_question_with_very_many_parts_is_answered_for_once_and_costs_no_more_than_its_length() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    let cost = |count: usize| {
        let command = "touch a; ".repeat(count);
        let runtime = &runtime;
        async move {
            let mut best = std::time::Duration::MAX;
            for _ in 0..3 {
                let start = std::time::Instant::now();
                assert!(runtime.call(call(&command)).await.ok);
                best = best.min(start.elapsed());
            }
            best
        }
    };
    let (short, long) = (cost(400).await, cost(3200).await);
    assert!(long < short * 24, "8 times the length cost {long:?} after {short:?}");
    let request = yes.last();
    assert_eq!((request.parts.len(), request.longest), (3200, Lasting::Once));
    assert!(request.parts.iter().all(|part| part.offer.is_none()));
    assert!(!place.path("state/approvals.sqlite").exists());

    let chain: Vec<String> = (0..40).map(|n| format!("touch {n}{}", "x".repeat(90))).collect();
    let chain = [chain.join("; "), chain.join("; ")].join("; ");
    let few = chain.split("; ").take(60).collect::<Vec<_>>().join("; ");
    assert!(runtime.call(call(&few)).await.ok);
    let before = yes.count();
    let again = runtime.call(call(&few)).await;
    assert_eq!((again.ok, yes.count()), (true, before));
    let decision = again.decision.unwrap();
    let reason = decision.reason.unwrap();
    assert!(reason.len() < 500 && reason.contains("and 37 more"), "{reason}");
    assert!(decision.rule.len() < 100, "{}", decision.rule);
    let ids = common::asking::planned(place.dir.path()).pop().unwrap()["approval"]["ids"].clone();
    assert_eq!(ids.as_array().map(Vec::len), Some(40), "each approval once");
}

#[tokio::test]
async fn a_bare_command_says_which_rule_allowed_it() {
    let place = Place::new();
    let runtime = place
        .builder(
            "rules_otherwise = 'allow'\n[[rules]]\nname = 'dirs'\nverdict = 'allow'\ncommand = 'mkdir *'\n",
        )
        .build()
        .unwrap();
    let decision = |command: &'static str| async {
        let result = runtime.call(call(command)).await;
        let decision = result.decision.unwrap();
        (decision.verdict, decision.rule)
    };
    assert_eq!(decision("mkdir x").await, (Verdict::Allow, "dirs".into()));
    assert_eq!(decision("ls").await, (Verdict::Allow, "guard.bare".into()));
}

#[tokio::test]
async fn rules_about_tools_and_sessions_decide() {
    let place = Place::new();
    let with = |session: &str, policy: &str| {
        let nobody = Scripted::new(|_| Approval::Nobody);
        let builder = contained(place.builder(policy)).session(session).approver(nobody);
        builder.register(common::says("hello", "hello")).build().unwrap()
    };
    let hello = || helve_core::Call::new("hello", serde_json::json!({}));
    for (verdict, wanted) in
        [("deny", Some(ErrorKind::Blocked)), ("ask", Some(ErrorKind::ApprovalRequired)), ("allow", None)]
    {
        let rule = format!("[[rules]]\nname = 'mine'\nverdict = '{verdict}'\ntool = 'hello'\n");
        let result = with("day", &rule).call(hello()).await;
        assert_eq!(kind(&result), wanted, "{verdict}");
        if wanted.is_some() {
            assert_eq!(result.decision.map(|decision| decision.rule), Some("mine".into()));
        }
    }
    for (tool, wanted) in [("sh", Some(ErrorKind::Blocked)), ("exec", None)] {
        let rule = format!("[[rules]]\nverdict = 'deny'\ntool = '{tool}'\ncommand = 'touch *'\n");
        assert_eq!(kind(&with("day", &rule).call(call("touch x")).await), wanted, "{tool}");
    }
    let any = "[[rules]]\nverdict = 'deny'\ncommand = 'touch *'\n";
    assert_eq!(kind(&with("day", any).call(call("touch x")).await), Some(ErrorKind::Blocked));
    let night = "[[rules]]\nverdict = 'deny'\ncommand = 'touch *'\nsession = 'night'\n";
    assert_eq!(kind(&with("night", night).call(call("touch x")).await), Some(ErrorKind::Blocked));
    assert_eq!(kind(&with("day", night).call(call("touch x")).await), None);
    let tools = "[[rules]]\nverdict = 'deny'\ntool = 'hello'\nsession = 'night'\n";
    assert_eq!(kind(&with("night", tools).call(hello()).await), Some(ErrorKind::Blocked));
    assert_eq!(kind(&with("day", tools).call(hello()).await), None);
}

#[tokio::test]
async fn an_allow_rule_answers_for_a_tool_that_asks_by_itself() {
    let place = Place::new();
    let ask = || {
        let spec = helve_core::ToolSpec::new("shy", "Asks.", common::open_schema())
            .approval(helve_core::ApprovalNeed::UnlessAutoApproved);
        common::fake(spec, |_, _| Box::pin(async { Ok(helve_core::Output::text("done")) }))
    };
    let nobody = Scripted::new(|_| Approval::Nobody);
    let with = |policy: &str| place.builder(policy).register(ask()).approver(nobody.clone()).build().unwrap();
    let shy = || helve_core::Call::new("shy", serde_json::json!({}));
    assert_eq!(kind(&with("").call(shy()).await), Some(ErrorKind::ApprovalRequired));
    let rule = "[[rules]]\nname = 'mine'\nverdict = 'allow'\ntool = 'shy'\n";
    let result = with(rule).call(shy()).await;
    assert_eq!((kind(&result), result.decision.unwrap().rule), (None, "mine".into()));
    let always = format!("{rule}[tools.shy]\napproval = 'always'\n");
    assert_eq!(kind(&with(&always).call(shy()).await), Some(ErrorKind::ApprovalRequired));
}
