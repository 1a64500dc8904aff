//! What the article on tool calling claims, claim by claim, shown on the program.
//!
//! Where Helve does otherwise on purpose, the test says so:
//! - `exec` takes a third argument, `timeout`;
//! - the sandbox is not an addition that can be left out: it is the default;
//! - lines of a batch are not strictly one after the other: they may overlap where they cannot disturb each other.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use helve::{BoxFuture, Call, Context, Output, Policy, Runtime, Tool, ToolError, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{BARE, Place, sandbox_works, text};

fn exported(place: &Place, format: &str) -> Vec<Value> {
    let ran = place.run(&["tools", "--format", format]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The loop: the model chooses a tool by its name and gives arguments, the application runs it and feeds the result
/// back under the call's own id, in the order of the calls.
#[test]
fn calls_are_dispatched_by_name_and_answered_by_id() {
    let place = Place::new();
    let turn = json!([
        {"id": "call_1", "tool": "echo", "args": {"message": "one"}},
        {"id": "call_2", "tool": "json", "args": {"operation": "query", "data": {"a": [1, 2]}, "path": "/a/1"}},
        {"id": "call_3", "tool": "no_such_tool", "args": {}},
    ]);
    let results = place.batch(&[turn], &[]);
    let told: Vec<_> = results.iter().map(|result| (&result["id"], &result["ok"])).collect();
    let [yes, no] = [json!(true), json!(false)];
    let ids = [json!("call_1"), json!("call_2"), json!("call_3")];
    assert_eq!(told, [(&ids[0], &yes), (&ids[1], &yes), (&ids[2], &no)]);
    assert_eq!((text(&results[0]), text(&results[1])), ("one", "2"));
    assert_eq!(results[2]["error"]["kind"], "unknown_tool");
}

/// Every tool declares a name, a description and parameters whose top level is an object.
#[test]
fn every_tool_declares_name_description_and_parameters() {
    let place = Place::new();
    let ran = place.run(&["tools", "--json"]);
    let listed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in ["echo", "exec", "json", "read_file", "read_output", "time", "write_file"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for tool in tools {
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool:#}");
        assert_eq!(tool["parameters"]["type"], "object", "{tool:#}");
        assert!(tool["parameters"]["properties"].is_object(), "{tool:#}");
    }
}

/// The exported form is exactly the one of function calling: a type, and a function with three members.
#[test]
fn to_schema_gives_the_function_calling_form() {
    let place = Place::new();
    let tools = exported(&place, "openai");
    assert_eq!(tools.len(), 12);
    for tool in &tools {
        let keys: Vec<_> = tool.as_object().unwrap().keys().map(String::as_str).collect();
        let inner: Vec<_> = tool["function"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((keys, inner), (vec!["type", "function"], vec!["name", "description", "parameters"]));
        assert_eq!(tool["type"], "function");
    }
    let echo = tools.iter().find(|tool| tool["function"]["name"] == "echo").unwrap();
    assert_eq!(
        echo["function"]["parameters"],
        json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "The text to give back."}},
            "required": ["message"],
            "additionalProperties": false,
        })
    );
}

/// The surface of `exec` is narrow: the command and where it starts; and here also how long it may take.
#[test]
fn exec_takes_command_and_optional_working_dir() {
    let place = Place::new();
    let tools = exported(&place, "openai");
    let exec = tools.iter().find(|tool| tool["function"]["name"] == "exec").unwrap();
    let parameters = &exec["function"]["parameters"];
    let keys: Vec<_> = parameters["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["command", "working_dir", "timeout"]);
    assert_eq!(parameters["required"], json!(["command"]));
}

/// A tool with every kind of constraint that the article lists, for what the built-in tools do not need.
struct Strict(ToolSpec);

impl Strict {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "level": {"type": "string", "enum": ["low", "high"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 5},
                "share": {"type": "number"},
                "loud": {"type": "boolean"},
                "name": {"type": "string", "minLength": 2, "maxLength": 4},
                "rows": {
                    "type": "array",
                    "items": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"x": {"type": "integer", "maximum": 9}},
                            "required": ["x"],
                        },
                    },
                },
            },
            "required": ["level"],
            "additionalProperties": false,
        });
        Strict(ToolSpec::new("strict", "Takes only what fits.", schema))
    }
}

impl Tool for Strict {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { Ok(Output::text(args.to_string())) })
    }
}

fn runtime(place: &Place, policy: &str, tool: impl Tool + 'static) -> Runtime {
    let policy = Policy::from_toml(policy).unwrap();
    let builder = Runtime::builder().policy(policy).workspace(place.workspace()).home(place.home());
    builder.register(tool).build().unwrap()
}

/// Types, enumerations, ranges, lengths, required members, and arrays all the way down; each with its place.
#[test]
fn parameters_are_validated_before_execution() {
    let place = Place::new();
    let runtime = runtime(&place, "", Strict::new());
    let problem = |args: Value| {
        let error = runtime.arguments("strict", helve::Args::Value(args)).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error:?}");
        let problem = error.problems[0].clone();
        (problem.pointer, problem.expected, problem.received)
    };
    let cases = [
        (json!({}), ("/level", "a value (required)", "nothing")),
        (json!({"level": "mid"}), ("/level", "one of [\"low\",\"high\"]", "string \"mid\"")),
        (json!({"level": "low", "count": 0}), ("/count", "at least 1", "number 0")),
        (json!({"level": "low", "count": 6}), ("/count", "at most 5", "number 6")),
        (json!({"level": "low", "count": 1.5}), ("/count", "integer", "number 1.5")),
        (json!({"level": "low", "share": "half"}), ("/share", "number", "string \"half\"")),
        (json!({"level": "low", "loud": "perhaps"}), ("/loud", "boolean", "string \"perhaps\"")),
        (json!({"level": "low", "name": "x"}), ("/name", "at least 2 characters", "string \"x\"")),
        (json!({"level": "low", "name": "ñandú"}), ("/name", "at most 4 characters", "string \"ñandú\"")),
        (json!({"level": "low", "rows": 5}), ("/rows", "array", "number 5")),
        (
            json!({"level": "low", "rows": [[], [{"x": 1}, {}]]}),
            ("/rows/1/1/x", "a value (required)", "nothing"),
        ),
        (json!({"level": "low", "rows": [[{"x": 10}]]}), ("/rows/0/0/x", "at most 9", "number 10")),
    ];
    for (args, (pointer, expected, received)) in cases {
        let told = problem(args.clone());
        assert_eq!(told, (pointer.to_owned(), expected.to_owned(), received.to_owned()), "{args}");
    }
    let fine = json!({"level": "high", "count": 5, "share": 0.5, "loud": true, "name": "ñand", "rows": [[{"x": 9}]]});
    assert_eq!(runtime.arguments("strict", helve::Args::Value(fine.clone())), Ok(fine));
}

/// What is invalid never reaches the tool: the refusal comes first, with every problem at once.
#[test]
fn invalid_arguments_do_not_reach_the_tool() {
    let place = Place::new();
    let answer = place.call_with("exec", &json!({"command": ["touch", "ran"], "timeout": "soon"}), BARE);
    let problems = answer.result["error"]["problems"].as_array().unwrap();
    let pointers: Vec<_> = problems.iter().filter_map(|problem| problem["pointer"].as_str()).collect();
    assert_eq!((answer.kind(), pointers), (Some("invalid_params"), vec!["/command", "/timeout"]));
    assert!(!place.has("ran"));
}

/// First the guard, then the process: of a refused command nothing runs, not even its harmless beginning.
#[test]
fn security_review_comes_before_execution() {
    let place = Place::new();
    for command in ["touch ran; rm -rf x", "touch ran && dd if=/dev/zero of=x", "touch ran; shutdown now"] {
        place.exec_with(command, BARE).blocked("dangerous pattern detected");
        assert!(!place.has("ran"), "{command}");
    }
    place.exec_with("touch ran; :(){ :|:& };:", BARE).blocked("dangerous pattern detected");
    assert!(!place.has("ran"));
}

/// Bytes that are not UTF-8 are replaced, as in the article's code; escapes for the terminal are made visible.
#[test]
fn output_is_decoded_with_replacement() {
    let place = Place::new();
    let answer = place.exec_with(r"printf 'a\377b\033[31mc'", BARE);
    assert_eq!(answer.good(), "a\u{fffd}b\\x1b[31mc");
}

/// With the restriction, both ways out are refused at once: going up, and naming an absolute path.
#[test]
fn restrict_to_workspace_rejects_traversal_and_absolute_paths() {
    let place = Place::new();
    place.put("inside.txt", "in\n");
    std::fs::create_dir(place.workspace().join("sub")).unwrap();
    place.configure(r#"{"auto_approve": true, "sandbox": "none", "tools": {"restrictToWorkspace": true}}"#);
    for command in ["cat ../secret", "ls ..", "cat sub/../../secret", "cd .. && ls", "cat ./../../etc/passwd"]
    {
        place.exec(command).blocked("path traversal detected");
    }
    for command in
        ["cat /etc/passwd", "ls /", "cp inside.txt /var/tmp/x", "echo x > /var/tmp/x", "cat <~/.netrc"]
    {
        place.exec(command).blocked("path outside working dir");
    }
    assert_eq!(place.exec("cat inside.txt ./inside.txt sub/../inside.txt").good(), "in\nin\nin\n");
    let absolute = format!("cat {}/inside.txt", place.workspace().display());
    assert_eq!(place.exec(&absolute).good(), "in\n");
}

/// The sandbox's world: the system to read, the workspace to write, everything beside and above the workspace gone.
#[test]
fn bubblewrap_shows_a_trimmed_world() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    std::fs::write(place.outside().join("letter"), "secret").unwrap();
    let code = |command: &str| place.exec(command).result["details"]["exit_code"].as_i64();
    assert_eq!(code("ls /usr/bin/env"), Some(0), "the system is there");
    assert_eq!(code("touch /usr/ran"), Some(1), "the system cannot be written");
    assert_eq!(code("touch ran"), Some(0), "the workspace can be written");
    assert!(place.has("ran"));
    let siblings = place.exec(&format!("ls -A {}", place.root().display()));
    assert_eq!(siblings.good(), "ws\n", "only the workspace is left of its parent");
    let letter = place.outside().join("letter");
    assert_eq!(code(&format!("cat {}", letter.display())), Some(1));
    assert_eq!(code(&format!("echo x > {}", letter.display())), Some(1));
    assert_eq!(std::fs::read_to_string(letter).unwrap(), "secret");
    assert_eq!(place.exec("echo private > /tmp/file; cat /tmp/file").good(), "private\n");
    assert_eq!(code("cat /tmp/file"), Some(1), "each call has a temporary directory of its own");
}

/// Configuration and state are not there for commands. A directory that holds the owner's configuration cannot be a
/// workspace at all.
#[test]
fn sensitive_configuration_is_invisible_in_the_sandbox() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    place.configure("parallel = true # canary\n");
    place.exec("true").good();
    let root = place.root();
    for path in ["config/helve/helve.toml", "home", "user"] {
        let answer = place.exec(&format!("ls {}", root.join(path).display()));
        assert!(!answer.result["ok"].as_bool().unwrap(), "{path}: {}", answer.text());
    }
    place.put("owner.toml", "parallel = true # canary\n");
    let ran = place.run(&["--config", "owner.toml", "run", "touch ran; cat owner.toml"]);
    assert_eq!((ran.code, place.has("ran")), (3, false), "{ran:?}");
    assert!(ran.stdout.contains("cannot be a workspace") && !ran.stdout.contains("canary"), "{ran:?}");
}

/// The article's own command runs: a search through the workspace.
#[test]
fn grep_through_the_workspace() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    place.put("a.txt", "nothing\nthe keyword\n");
    assert_eq!(place.exec("grep -R keyword .").good(), "./a.txt:the keyword\n");
}

/// A list of patterns stops what is known; the sandbox stops what hides from it. Both are there.
#[test]
fn what_hides_from_the_guard_is_stopped_by_the_sandbox() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    let victim = place.outside().join("victim");
    std::fs::create_dir(&victim).unwrap();
    place.put("script", &format!("rm -rf {}\n", victim.display()));
    let hidden = "verb=$(head -c 2 script); $verb -r -f $(cut -d ' ' -f 3 script); sh ./script";
    let answer = place.exec(hidden);
    assert_ne!(answer.kind(), Some("blocked"), "this test wants a command that the guard lets pass");
    assert!(victim.exists());
    place.exec_with(hidden, BARE);
    assert!(!victim.exists(), "without the sandbox the command does what it says, so the sandbox stopped it");
}

/// The manual tells a model what the schema does not: time, truncation, the workspace, and how to plan.
#[test]
fn tools_md_states_timeout_truncation_workspace_and_planning() {
    let place = Place::new();
    let ran = place.run(&["tools", "--manual", "TOOLS.md"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let manual = std::fs::read_to_string(place.workspace().join("TOOLS.md")).unwrap();
    for name in ["echo", "exec", "json", "read_output", "time"] {
        assert!(manual.contains(&format!("\n## {name}\n")), "{name}");
    }
    let timeout = manual.lines().find(|line| line.starts_with("| `timeout` |")).unwrap();
    assert!(timeout.contains("| 60 |") && timeout.contains("at most 600"), "{timeout}");
    for part in
        ["at most 10000 characters", "# The workspace", "# How to plan work with these tools", "# Limits"]
    {
        assert!(manual.contains(part), "{part}");
    }
    let lowered = place.run(&["tools", "--manual", "--set", "limits.output_chars=500"]).stdout;
    assert!(lowered.contains("at most 500 characters"), "the manual follows the owner's limits");
}

/// The table of the article, for the tools that are here: reading beside others, `exec` alone.
#[test]
fn parallelism_table_marks_exec_exclusive() {
    let place = Place::new();
    let manual = place.run(&["tools", "--manual"]).stdout;
    let table: Vec<&str> = manual
        .lines()
        .skip_while(|line| !line.starts_with("# What runs at the same time"))
        .filter(|line| line.starts_with("| "))
        .take(13)
        .collect();
    assert_eq!(
        table,
        [
            "| tool | read only | exclusive | beside others |",
            "| apply_patch | no | no | where they touch different things |",
            "| echo | yes | no | yes |",
            "| edit_file | no | no | where they touch different things |",
            "| exec | no | yes | never: it runs alone |",
            "| glob | yes | no | yes |",
            "| grep | yes | no | yes |",
            "| json | yes | no | yes |",
            "| list_dir | yes | no | yes |",
            "| read_file | yes | no | yes |",
            "| read_output | yes | no | yes |",
            "| time | yes | no | yes |",
            "| write_file | no | no | where they touch different things |",
        ]
    );
}

/// Two commands of one turn never run at the same time, and they run in the order of the calls.
#[test]
fn exec_runs_serially_and_exclusively() {
    let place = Place::new();
    let command = |n: u32| format!("mkdir lock || echo overlap; sleep 0.1; echo {n} >> order; rmdir lock");
    let turn: Vec<Value> =
        (0..5).map(|n| json!({"id": n, "tool": "exec", "args": {"command": command(n)}})).collect();
    let mut lines = vec![Value::Array(turn.clone())];
    lines.extend(turn);
    for result in place.batch(&lines, BARE) {
        assert_eq!((&result["ok"], text(&result)), (&json!(true), "(no output)"), "{result:#}");
    }
    let order = std::fs::read_to_string(place.workspace().join("order")).unwrap();
    assert_eq!(order, "0\n1\n2\n3\n4\n".repeat(2));
}

/// A tool that tells whether another call of it ran at the same time.
struct Meeting {
    spec: ToolSpec,
    inside: AtomicU32,
    met: AtomicBool,
}

impl Meeting {
    fn new(spec: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        let parameters = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let spec = spec(ToolSpec::new("meet", "Waits for another call.", parameters));
        Meeting { spec, inside: AtomicU32::new(0), met: AtomicBool::new(false) }
    }
}

impl Tool for Meeting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
                self.met.store(true, Ordering::SeqCst);
            }
            let arrived = Instant::now();
            while !self.met.load(Ordering::SeqCst) && arrived.elapsed() < Duration::from_millis(300) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
            Ok(Output::text(if self.met.load(Ordering::SeqCst) { "met" } else { "alone" }))
        })
    }
}

fn met(policy: &str, tool: Meeting) -> Vec<String> {
    let place = Place::new();
    let runtime = runtime(&place, policy, tool);
    let call = || Call { id: None, tool: "meet".into(), args: helve::Args::Value(json!({})) };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let results = tokio.block_on(runtime.batch(vec![call(), call()]));
    results.iter().map(|result| result.text()).collect()
}

/// Tools that only read run at the same time; tools with effects, exclusive ones, and all of them when the owner
/// wants it so, run one after the other.
#[test]
fn only_read_only_tools_run_in_parallel() {
    assert_eq!(met("", Meeting::new(ToolSpec::read_only)), ["met", "met"]);
    assert_eq!(met("parallel = false", Meeting::new(ToolSpec::read_only)), ["alone", "alone"]);
    assert_eq!(met("", Meeting::new(ToolSpec::exclusive)), ["alone", "alone"]);
    assert_eq!(met("", Meeting::new(|effects| effects)), ["alone", "alone"]);
}

/// What the article calls verifiable, restrictable and replayable: the journal holds what was decided and what came
/// of it, and shows whether it is still what was written.
#[test]
fn every_call_is_verifiable_and_recorded() {
    let place = Place::new();
    place.call("echo", &json!({"message": "hello"})).good();
    place.exec("rm -rf /").blocked("dangerous pattern detected");
    let told: Vec<_> = place
        .journal()
        .iter()
        .map(|entry| (entry["type"].clone(), entry["body"]["decision"]["rule"].clone()))
        .collect();
    let entry = |kind: &str, rule: &str| (json!(kind), json!(rule));
    assert_eq!(
        told,
        [
            entry("planned", "default"),
            entry("outcome", "default"),
            entry("planned", "guard.rm-recursive"),
            entry("outcome", "guard.rm-recursive"),
        ]
    );
    assert_eq!(place.verify().code, 0);
}
