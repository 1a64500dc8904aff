//! Programs of the owner's that hear of calls and sessions. Each line of `cases/hooks.jsonl` is one call with the hooks that
//! hear of it and what must come of it; what is more than one call stands here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::asking::{Scripted, once};
use common::{Printer, builder, fake, journal, shell_tool};
use helve_core::{Call, CallResult, Cancel, Output, ToolSpec};
use helve_runtime::{Approver, CallScope, HookSaid, Runtime};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::{Value, json};

/// One call and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    policy: String,
    hooks: Vec<HookOf>,
    /// Whether somebody is there who says yes once.
    #[serde(default)]
    person: bool,
    args: Value,
    ok: bool,
    kind: Option<String>,
    rule: Option<String>,
    /// What the text of the result holds, and what not.
    text: Option<String>,
    not_text: Option<String>,
    /// What one of its notes holds.
    note: Option<String>,
    /// The arguments in the journal.
    #[serde(rename = "final")]
    last: Option<Value>,
    /// Those that the journal keeps beside a change.
    before: Option<Value>,
    /// Who agreed.
    approved_by: Option<String>,
    /// How often the person was asked, and about what last.
    asked: Option<usize>,
    asked_about: Option<String>,
    /// What hooks said before and after, by the journal.
    said: Option<Vec<(String, String)>>,
    after: Option<Vec<(String, String)>>,
    /// Whether a hook left its mark.
    marker: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookOf {
    name: String,
    #[serde(default)]
    script: String,
    program: Option<Vec<String>>,
    on: Option<Value>,
    tools: Option<Vec<String>>,
    timeout: Option<u64>,
}

struct Place {
    dir: tempfile::TempDir,
    ran: Arc<AtomicUsize>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        std::fs::write(dir.path().join("token"), "hunter2-correct-horse").unwrap();
        Place { dir, ran: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The tables of hooks, each a script that a shell reads.
    fn hooks(&self, hooks: &[HookOf]) -> String {
        let mut text = String::new();
        for hook in hooks {
            let file = self.path(&format!("{}.sh", hook.name));
            std::fs::write(&file, &hook.script).unwrap();
            let words = hook.program.clone().unwrap_or_else(|| {
                vec!["/bin/sh".into(), file.display().to_string(), self.dir.path().display().to_string()]
            });
            let on = hook.on.clone().unwrap_or_else(|| json!("before_call"));
            text += &format!("[[hooks]]\nname = {:?}\non = {on}\nprogram = {}\n", hook.name, json!(words));
            if let Some(tools) = &hook.tools {
                text += &format!("tools = {}\n", json!(tools));
            }
            text += &format!("timeout = {}\n", hook.timeout.unwrap_or(60));
        }
        text
    }

    fn hook(&self, on: &str, script: &str) -> String {
        let on = Some(serde_json::from_str(on).unwrap());
        let (name, script) = ("a".to_owned(), script.to_owned());
        self.hooks(&[HookOf { name, script, program: None, on, tools: None, timeout: None }])
    }

    fn runtime(&self, policy: &str, person: Option<&Arc<Scripted>>) -> Runtime {
        let policy = policy.replace("$DIR", &self.dir.path().display().to_string());
        let bare = Printer { contained: false, pieces: vec!["out\n"], runs: Arc::clone(&self.ran) };
        let mut builder = builder(self.dir.path(), &policy)
            .workspace(self.path("w"))
            .register(shell_with_timeout())
            .shell(Arc::new(bare));
        if let Some(person) = person {
            builder = builder.approver(Arc::clone(person) as Arc<dyn Approver>);
        }
        builder.build().unwrap()
    }

    fn entries(&self, kind: &str) -> Vec<Value> {
        let journal = journal(self.dir.path());
        let entries = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["type"] == kind).map(|entry| entry["body"].clone()).collect()
    }
}

/// The tool `sh` with one more parameter, so that there is something to normalize.
fn shell_with_timeout() -> common::Fake {
    shell_tool().with_parameter("timeout", json!({"type": "integer"}))
}

fn sh(command: &str) -> Call {
    Call::new("sh", json!({"command": command}))
}

fn said(body: &Value) -> Vec<(String, String)> {
    let of =
        |one: &Value| (one["hook"].as_str().unwrap().to_owned(), one["said"].as_str().unwrap().to_owned());
    body["hooks"].as_array().into_iter().flatten().map(of).collect()
}

async fn play(case: &Case) {
    let place = Place::new();
    let person = Scripted::new(once);
    let policy = format!("{}{}", case.policy, place.hooks(&case.hooks));
    let runtime = place.runtime(&policy, case.person.then_some(&person));
    let started = Instant::now();
    let result = runtime.call(Call::new("sh", case.args.clone())).await;
    assert!(started.elapsed() < Duration::from_secs(30), "it took {:?}", started.elapsed());
    let name = &case.name;
    let kind = result.error.as_ref().map(|error| error.kind.name().to_owned());
    assert_eq!((result.ok, &kind), (case.ok, &case.kind), "{name}: {}", result.text());
    assert_eq!(place.ran.load(Ordering::SeqCst), usize::from(case.ok), "{name}");
    let [planned] = &place.entries("planned")[..] else { panic!("{name}: not one entry") };
    let [outcome] = &place.entries("outcome")[..] else { panic!("{name}: not one entry") };
    if let Some(rule) = &case.rule {
        assert_eq!(&planned["decision"]["rule"], rule, "{name}");
        assert_eq!(planned["decision"]["verdict"], "deny", "{name}");
    }
    if let Some(text) = &case.text {
        assert!(result.text().contains(text), "{name}: {}", result.text());
    }
    if let Some(text) = &case.not_text {
        let all = format!("{}{}", serde_json::to_string(&result).unwrap(), journal(place.dir.path()));
        assert!(!all.contains(text), "{name}: {all}");
    }
    if let Some(note) = &case.note {
        assert!(result.notes.iter().any(|one| one.contains(note)), "{name}: {:?}", result.notes);
    }
    if let Some(args) = &case.last {
        assert_eq!(&planned["args"], args, "{name}");
    }
    if let Some(args) = &case.before {
        assert_eq!(&planned["hooks"][0]["args"], args, "{name}");
    }
    if let Some(by) = &case.approved_by {
        assert_eq!(planned["approval"]["answer"], "once", "{name}");
        let by = if by == "person" { "test" } else { by };
        assert_eq!(planned["approval"]["by"], by, "{name}");
    }
    if let Some(asked) = case.asked {
        assert_eq!(person.count(), asked, "{name}");
    }
    if let Some(about) = &case.asked_about {
        assert_eq!(person.last().command.as_ref(), Some(about), "{name}");
    }
    if let Some(expected) = &case.said {
        assert_eq!(&said(planned), expected, "{name}");
    }
    assert_eq!(said(outcome), case.after.clone().unwrap_or_default(), "{name}");
    if let Some(marker) = case.marker {
        assert_eq!(place.path("ran").exists(), marker, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases() {
    let lines = include_str!("cases/hooks.jsonl").lines();
    let cases =
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    let cases: Vec<Case> = cases.collect();
    assert!(cases.len() > 40, "{}", cases.len());
    for case in &cases {
        play(case).await;
    }
}

#[tokio::test]
async fn a_hook_gets_the_whole_call_in_a_clean_place() {
    let place = Place::new();
    let script = "cat > \"$1/$$\"; mv \"$1/$$\" \"$1/told-$(grep -o 'event\":\"[a-z]*' \"$1/$$\" | cut -d'\"' -f3)\"; \
                  pwd > \"$1/where\"; env > \"$1/env\"";
    let policy = place.hook(r#"["before_call","after_call"]"#, script);
    let runtime = place.runtime(&policy, Some(&Scripted::new(once)));
    let scope = CallScope { tainted: Some("mcp:a".into()), ..CallScope::default() };
    let call = Call { id: Some(json!("x1")), ..sh("touch x") };
    let result = runtime.call_in(call, scope).await;
    assert!(result.ok, "{}", result.text());
    let told = |event: &str| -> Value {
        let text = std::fs::read_to_string(place.path(&format!("told-{event}"))).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        serde_json::from_str(&text).unwrap()
    };
    let mut before = told("before");
    let effects = before["effects"].take();
    assert_eq!(effects["writes"][0], json!(place.path("w").canonicalize().unwrap().join("x")));
    let decision = before["decision"].take();
    assert_eq!((&decision["verdict"], &decision["rule"]), (&json!("ask"), &json!("guard.bare")));
    let workspace = place.path("w").canonicalize().unwrap();
    let expected = json!({
        "event": "before_call", "hook": "a", "session": "test", "workspace": workspace, "caller": "library",
        "call": result.call, "id": "x1", "tool": "sh", "args": {"command": "touch x"}, "decision": null, "effects": null,
        "tainted": "mcp:a",
    });
    assert_eq!(before, expected);
    let after = told("after");
    assert_eq!((&after["event"], &after["args"]), (&json!("after_call"), &json!({"command": "touch x"})));
    assert_eq!(after["result"]["content"], json!([{"type": "text", "text": "out\n"}]));
    assert_eq!(std::fs::read_to_string(place.path("where")).unwrap(), "/\n");
    let env = std::fs::read_to_string(place.path("env")).unwrap();
    assert!(env.contains("PATH=/usr/local/bin:/usr/bin:/bin") && !env.contains("CARGO"), "{env}");
}

/// The hooks of a batch run at the same time, and each call has its own answers.
#[tokio::test]
async fn the_calls_of_a_batch_are_heard_of_together() {
    let place = Place::new();
    let script = "IFS= read -r line; sleep 1; case $line in *two*) echo '{\"verdict\":\"deny\"}';; esac";
    let runtime = place.runtime(&place.hook(r#""before_call""#, script), None);
    let started = Instant::now();
    let calls = ["ls one", "ls two", "ls three", "rm -rf /"].map(sh).into();
    let results: Vec<CallResult> = runtime.batch(calls).await;
    assert!(started.elapsed() < Duration::from_millis(2_900), "{:?}", started.elapsed());
    assert_eq!(results.iter().map(|result| result.ok).collect::<Vec<_>>(), [true, false, true, false]);
    let rules: Vec<String> = results.iter().map(|result| result.decision.clone().unwrap().rule).collect();
    assert_eq!((rules[1].as_str(), rules[3].as_str()), ("hooks.a", "guard.rm-recursive"));
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_hook() {
    let place = Place::new();
    let runtime = place.runtime(&place.hook(r#""before_call""#, "echo $$ > \"$1/pid\"; sleep 60"), None);
    let (stop, cancel) = Cancel::pair();
    let scope = CallScope { cancel: Some(cancel), ..CallScope::default() };
    let pid = place.path("pid");
    let stopper = async {
        while !std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
    };
    let (result, ()) = tokio::join!(runtime.call_in(sh("ls"), scope), stopper);
    assert_eq!(result.error.unwrap().kind.name(), "cancelled");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let place = Path::new("/proc").join(pid.trim());
    let until = Instant::now() + Duration::from_secs(10);
    while place.exists() {
        assert!(Instant::now() < until, "{} is still there", place.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn sessions_are_told_and_what_is_said_is_recorded() {
    let place = Place::new();
    let script = "cat > \"$1/told\"; if grep -q session_start \"$1/told\"; then echo '{\"note\":\"be kind\"}'; else exit 4; fi";
    let runtime = place.runtime(&place.hook(r#"["session_start","session_end"]"#, script), None);
    let kind = HookSaid { hook: "a".into(), text: "be kind".into(), failed: false };
    assert_eq!(runtime.session_starts(true).await, [kind]);
    let told: Value = serde_json::from_slice(&std::fs::read(place.path("told")).unwrap()).unwrap();
    assert_eq!((&told["event"], &told["resumed"]), (&json!("session_start"), &json!(true)));
    let text = "it ended with exit code 4".to_owned();
    assert_eq!(runtime.session_ends("answered").await, [HookSaid { hook: "a".into(), text, failed: true }]);
    let told: Value = serde_json::from_slice(&std::fs::read(place.path("told")).unwrap()).unwrap();
    assert_eq!((&told["event"], &told["ending"]), (&json!("session_end"), &json!("answered")));
    let notes = place.entries("note");
    let expected = [
        json!({"hooks": {"event": "session_start", "said": [{"hook": "a", "note": "be kind", "said": "nothing"}]}}),
        json!({"hooks": {"event": "session_end", "said": [
            {"hook": "a", "reason": "it ended with exit code 4", "said": "failed"}]}}),
    ];
    assert_eq!(notes, expected);
}

/// What a command could change must not decide about calls.
#[test]
fn a_hook_that_lies_in_the_workspace_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("w/hook.sh"), "").unwrap();
    std::os::unix::fs::symlink(place.path("w/hook.sh"), place.path("link.sh")).unwrap();
    for word in ["w/hook.sh", "link.sh"] {
        let policy = format!(
            "[[hooks]]\nname = 'mine'\non = 'after_call'\nprogram = ['/bin/sh', '{}']",
            place.path(word).display()
        );
        let built = builder(place.dir.path(), &policy).workspace(place.path("w")).build();
        let error = built.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("\"mine\"") && error.contains("lies in the workspace"), "{word}: {error}");
    }
}

/// A hook costs only the tools that it names.
#[tokio::test]
async fn what_no_hook_hears_of_starts_no_program() {
    let place = Place::new();
    let hook = place.hook(r#"["before_call","after_call"]"#, "touch \"$1/ran\"");
    let policy = hook.replace("timeout", "tools = ['mcp__a__other']\ntimeout");
    let plain = fake(ToolSpec::new("plain", "", common::open_schema()).read_only(), |_, _| {
        Box::pin(async { Ok(Output::text("fine")) })
    });
    let runtime =
        builder(place.dir.path(), &policy).workspace(place.path("w")).register(plain).build().unwrap();
    assert!(runtime.call(Call::new("plain", json!({}))).await.ok);
    assert!(!place.path("ran").exists());
}

/// A rule or a hook for a tool that is not there would hold for nothing, and nobody would notice.
#[test]
fn a_rule_or_a_hook_for_no_tool_is_refused() {
    let place = Place::new();
    let error = |policy: &str| {
        let spec = ToolSpec::new("plain", "", common::open_schema()).aliases(&["simple"]);
        let plain = fake(spec, |_, _| Box::pin(async { Ok(Output::text("fine")) }));
        let built = builder(place.dir.path(), policy).workspace(place.path("w")).register(plain).build();
        built.err().map(|error| error.to_string())
    };
    let rule = |tool: &str| format!("[[rules]]\nverdict = 'deny'\ntool = '{tool}'\n");
    let hook =
        |tool: &str| format!("[[hooks]]\non = 'before_call'\nprogram = ['/bin/true']\ntools = ['{tool}']\n");
    for tool in ["plain", "exec", "mcp__a__b"] {
        assert_eq!((error(&rule(tool)), error(&hook(tool))), (None, None), "{tool}");
    }
    for pattern in ["*", "pl*", "mcp__*"] {
        assert_eq!(error(&hook(pattern)), None, "{pattern}");
    }
    for policy in [rule("simple"), hook("simple"), hook("sim*")] {
        assert!(error(&policy).is_some_and(|told| told.contains("write 'plain'")), "{policy}");
    }
    for policy in [rule("plan"), hook("plan"), hook("Plain"), hook("exce*")] {
        assert!(error(&policy).is_some_and(|told| told.contains("there is no tool")), "{policy}");
    }
}
