//! What is particular to one call, and tools that come and go.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Printer, builder, fake, journal, open_schema, says, shell_tool};
use helve_core::{
    ApprovalNeed, BoxFuture, Call, Cancel, Content, ErrorKind, LogLevel, Output, Peer, QuestionKind,
    SandboxReport, ServerCall, ServerReply, Servers, Stream, Tool, ToolError, ToolSpec,
};
use helve_runtime::{
    Answer, Approval, ApprovalRequest, Approver, AskClock, CallScope, Caller, RegisterError,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::mpsc;

const SECRET: &str = "hunter2-correct-horse";

fn with_secret(root: &std::path::Path) -> String {
    let file = root.join("token");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    format!("[[secrets]]\nfile = {:?}\n", file.to_str().unwrap())
}

/// A tool that never ends by itself.
fn endless() -> common::Fake {
    fake(ToolSpec::new("endless", "", open_schema()).read_only(), |_, ctx| {
        Box::pin(async move {
            ctx.cancelled().cancelled().await;
            Err(ToolError::new(ErrorKind::Cancelled, "ended"))
        })
    })
}

fn kind(result: &helve_core::CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

#[tokio::test]
async fn a_call_ends_by_its_own_cancellation_and_by_the_runtimes() {
    let dir = tempfile::tempdir().unwrap();
    let (all, every) = Cancel::pair();
    let runtime = builder(dir.path(), "").register(endless()).cancel(every).build().unwrap();
    let (own, cancel) = Cancel::pair();
    let scope = |cancel| CallScope { cancel: Some(cancel), ..CallScope::default() };
    let one = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call_in(Call::new("endless", json!({})), scope(cancel)).await }
    });
    let other = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call_in(Call::new("endless", json!({})), scope(Cancel::never())).await }
    });
    own.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), one).await.unwrap().unwrap();
    assert_eq!(kind(&ended), Some(ErrorKind::Cancelled));
    assert!(!other.is_finished(), "another call goes on");
    all.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), other).await.unwrap().unwrap();
    assert_eq!(kind(&ended), Some(ErrorKind::Cancelled));
}

#[tokio::test]
async fn what_a_command_puts_out_is_passed_on_clean_to_whoever_listens() {
    let dir = tempfile::tempdir().unwrap();
    let pieces = vec!["first\n", "a hunter2-cor", "rect-horse b \x1b[31m"];
    let printer = Arc::new(Printer { contained: true, pieces, runs: Arc::default() });
    let (everybody, mut every) = mpsc::channel(64);
    let runtime = builder(dir.path(), &with_secret(dir.path()))
        .register(shell_tool())
        .shell(printer)
        .progress(everybody)
        .build()
        .unwrap();
    let (to, mut notes) = mpsc::channel(64);
    let scope = CallScope { progress: Some(to), ..CallScope::default() };
    let call = || Call::new("sh", json!({"command": "print it"}));
    assert!(runtime.call_in(call(), scope).await.ok);
    let mut heard = String::new();
    while let Ok(note) = notes.try_recv() {
        assert_eq!(note.output, Some(Stream::Stdout));
        heard.push_str(&note.message);
    }
    assert_eq!(heard, "first\na [REDACTED:token] b \\x1b[31m");
    assert!(runtime.call(call()).await.ok);
    assert!(every.try_recv().is_err(), "whoever listens to all calls did not ask for their output");
}

#[tokio::test]
async fn a_caller_has_its_name_and_its_own_calls() {
    let dir = tempfile::tempdir().unwrap();
    let policy = "[tools.hi]\nper_minute = 1\n";
    let runtime = builder(dir.path(), policy).register(says("hi", "hello")).build().unwrap();
    let by = |name: &str| CallScope { caller: Some(Caller::Named(name.to_owned())), ..CallScope::default() };
    let call = || Call::new("hi", json!({}));
    assert!(runtime.call_in(call(), by("one")).await.ok);
    assert_eq!(kind(&runtime.call_in(call(), by("one")).await), Some(ErrorKind::RateLimited));
    assert!(runtime.call_in(call(), by("two")).await.ok);
    assert_eq!(kind(&runtime.call_in(call(), by("owner")).await), Some(ErrorKind::Internal));
    assert!(journal(dir.path()).contains(r#""caller":"two""#));
}

#[tokio::test]
async fn tools_of_a_group_come_and_go_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(says("hi", "hello")).build().unwrap();
    let mut version = runtime.tools_version();
    let names = || runtime.specs().map(|spec| spec.name.clone()).collect::<Vec<_>>();
    let boxed = |tool: common::Fake| Box::new(tool) as Box<dyn Tool>;
    let broken = fake(ToolSpec::new("broken", "", json!({"type": "array"})), |_, _| {
        Box::pin(async { Ok(Output::default()) })
    });
    let taken = || Err(RegisterError::Duplicate { name: "hi".into(), holder: "hi".into() });
    let answers = runtime.set_tools(
        "g",
        vec![boxed(says("a", "1")), boxed(says("hi", "x")), boxed(broken), boxed(says("b", "2"))],
    );
    assert_eq!(answers, [Ok(()), taken(), Ok(()), Ok(())]);
    assert!(version.has_changed().unwrap());
    version.mark_unchanged();
    assert_eq!(names(), ["a", "b", "hi"]);
    assert_eq!(runtime.quarantined()[0].name, "broken");
    assert_eq!(runtime.call(Call::new("b", json!({}))).await.text(), "2");

    assert_eq!(runtime.set_tools("g", vec![boxed(says("b", "3"))]), [Ok(())]);
    assert_eq!(names(), ["b", "hi"]);
    assert_eq!(runtime.quarantined(), []);
    assert_eq!(runtime.call(Call::new("b", json!({}))).await.text(), "3");
    assert_eq!(kind(&runtime.call(Call::new("a", json!({}))).await), Some(ErrorKind::UnknownTool));
    let protected = runtime.set_tools("g", vec![boxed(says("exec", "x"))]);
    assert_eq!(protected, [Err(RegisterError::Protected("exec".into()))]);
}

/// Servers that say who was called.
struct Told(ServerReply);

impl Servers for Told {
    fn call(&self, _call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>> {
        let reply = self.0.clone();
        Box::pin(async move { Ok(reply) })
    }
}

/// A tool of the lane `mcp` that calls `server` and `tool`, whatever its declaration says.
fn remote(server: &'static str, tool: &'static str, schema: Option<Value>) -> common::Fake {
    let mut spec = ToolSpec::new("mcp__a__t", "", json!({"type": "object"})).read_only().origin("a", "t");
    spec.output_schema = schema;
    fake(spec, move |args, ctx| {
        Box::pin(async move {
            let call = ServerCall {
                server: server.to_owned(),
                act: helve_core::ServerAct::CallTool,
                tool: tool.to_owned(),
                args,
                progress: ctx.progress().clone(),
                cancel: ctx.cancelled().clone(),
                peer: ctx.peer().cloned(),
            };
            let reply = ctx.servers()?.call(call).await?;
            Ok(Output {
                content: reply.content,
                details: reply.structured.unwrap_or_default(),
                ..Output::default()
            })
        })
    })
}

#[tokio::test]
async fn a_tool_reaches_the_server_that_its_permit_names_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let reply = ServerReply {
        content: vec![Content::text("from \x1b[31mthere"), Content::audio("AAAA", "audio/wav")],
        structured: Some(json!({"n": 1, "s": "a\u{202e}b"})),
        is_error: false,
        sandbox: Some(SandboxReport { backend: "test".to_owned(), ..SandboxReport::default() }.into()),
    };
    let run = async |tool: common::Fake| {
        let servers = Arc::new(Told(reply.clone()));
        let runtime = builder(dir.path(), "").register(tool).servers(servers).build().unwrap();
        runtime.call(Call::new("mcp__a__t", json!({}))).await
    };
    let ok = run(remote("a", "t", None)).await;
    assert_eq!((ok.ok, ok.tainted.as_deref()), (true, Some("mcp:a")));
    assert_eq!(ok.content, [Content::text("from \\x1b[31mthere"), Content::audio("AAAA", "audio/wav")]);
    assert_eq!(ok.details, json!({"n": 1, "s": "a\\u{202e}b"}));
    assert_eq!(ok.sandbox, reply.sandbox);
    assert!(journal(dir.path()).contains(r#""tainted":"mcp:a""#));

    for (server, tool) in [("b", "t"), ("a", "other")] {
        assert_eq!(kind(&run(remote(server, tool, None)).await), Some(ErrorKind::Blocked));
    }
    let fits = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    assert!(run(remote("a", "t", Some(fits))).await.ok);
    let misfit = json!({"type": "object", "properties": {"n": {"type": "string"}}});
    assert_eq!(kind(&run(remote("a", "t", Some(misfit))).await), Some(ErrorKind::ToolFailed));
}

#[tokio::test]
async fn blocks_of_every_kind_are_bounded_and_clean() {
    let dir = tempfile::tempdir().unwrap();
    let spec = ToolSpec::new("blocks", "", open_schema()).read_only();
    let tool = fake(spec, |_, _| {
        Box::pin(async {
            let blocks = json!([
                {"type": "resource", "resource": {"uri": "t://\u{202e}", "text": SECRET}},
                {"type": "resource_link", "uri": "t://x", "name": SECRET, "_meta": {"k": SECRET}},
                {"type": "audio", "data": "A".repeat(200), "mimeType": "audio/wav"},
                {"type": "text", "text": "t", "annotations": {"big": "x".repeat(20 << 10)}},
            ]);
            Ok(Output { content: serde_json::from_value(blocks).unwrap(), ..Output::default() })
        })
    });
    let policy = format!("{}[limits]\nimage_bytes = 100\n", with_secret(dir.path()));
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let result = runtime.call(Call::new("blocks", json!({}))).await;
    let shown = serde_json::to_value(&result.content).unwrap();
    assert_eq!(
        shown,
        json!([
            {"type": "resource", "resource": {"uri": "t://\\u{202e}", "text": "[REDACTED:token]"}},
            {"type": "resource_link", "uri": "t://x", "name": "[REDACTED:token]", "_meta": {"k": "[REDACTED:token]"}},
            {"type": "text", "text": "t"},
        ])
    );
    assert_eq!(result.notes.len(), 2, "{:?}", result.notes);
}

/// A program at the other end that keeps what it is asked and told.
#[derive(Default)]
struct Ear(Mutex<Vec<Value>>);

impl Peer for Ear {
    fn takes(&self, kind: QuestionKind) -> bool {
        kind == QuestionKind::Form
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        _kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        self.0.lock().unwrap().push(json!([key, params]));
        Box::pin(async { Ok(json!({"action": "accept"})) })
    }

    fn log(&self, _level: LogLevel, logger: Option<&str>, data: Value) {
        self.0.lock().unwrap().push(json!([logger, data]));
    }
}

#[tokio::test]
async fn a_tool_talks_to_the_other_end_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let tool = fake(ToolSpec::new("asks", "", open_schema()).read_only(), |_, ctx| {
        Box::pin(async move {
            let peer = ctx.peer().ok_or_else(|| ToolError::failed("alone"))?;
            peer.log(LogLevel::Info, Some(&format!("of {SECRET}")), json!(SECRET));
            let answer = peer.ask("k", QuestionKind::Form, json!({"message": SECRET})).await?;
            Ok(Output::text(answer["action"].as_str().unwrap_or_default()))
        })
    });
    let runtime = builder(dir.path(), &with_secret(dir.path())).register(tool).build().unwrap();
    let call = || Call::new("asks", json!({}));
    assert_eq!(kind(&runtime.call(call()).await), Some(ErrorKind::ToolFailed), "nobody is at the other end");
    let ear = Arc::new(Ear::default());
    let peer: Arc<dyn Peer> = Arc::<Ear>::clone(&ear);
    let scope = CallScope { peer: Some(peer), ..CallScope::default() };
    assert_eq!(runtime.call_in(call(), scope).await.text(), "accept");
    let heard = ear.0.lock().unwrap().clone();
    assert_eq!(
        heard,
        [json!(["of [REDACTED:token]", "[REDACTED:token]"]), json!(["k", {"message": "[REDACTED:token]"}])]
    );
}

#[tokio::test]
async fn what_could_carry_something_out_asks_where_the_talk_is_tainted() {
    let dir = tempfile::tempdir().unwrap();
    let outside = |name: &str| {
        let mut spec = ToolSpec::new(name, "", open_schema());
        spec.open_world = Some(true);
        fake(spec, |_, _| Box::pin(async { Ok(Output::text("sent")) }))
    };
    let runtime = builder(dir.path(), "tools.free.approval = \"never\"")
        .register(outside("send"))
        .register(outside("free"))
        .register(says("hi", "hello"))
        .build()
        .unwrap();
    let by =
        |tainted: Option<&str>| CallScope { tainted: tainted.map(str::to_owned), ..CallScope::default() };
    for (tool, tainted, wanted) in [
        ("send", None, None),
        ("send", Some("mcp:news"), Some(ErrorKind::ApprovalRequired)),
        ("free", Some("mcp:news"), None),
        ("hi", Some("mcp:news"), None),
    ] {
        let result = runtime.call_in(Call::new(tool, json!({})), by(tainted)).await;
        assert_eq!(kind(&result), wanted, "{tool} {tainted:?}");
        if wanted.is_some() {
            let decision = result.decision.unwrap();
            assert_eq!(decision.rule, "taint");
            assert!(decision.reason.unwrap().contains("mcp:news"));
        }
    }
    assert!(journal(dir.path()).contains(r#""tainted":"mcp:news","tool":"send""#), "{}", journal(dir.path()));
}

#[tokio::test]
async fn the_time_in_which_somebody_is_asked_is_counted() {
    struct Slow;
    impl Approver for Slow {
        fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Answer::new("slow", Approval::Once)
            })
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let asks = ToolSpec::new("asks", "", open_schema()).approval(ApprovalNeed::Always);
    let asks = fake(asks, |_, _| Box::pin(async { Ok(Output::text("done")) }));
    let runtime = builder(dir.path(), "").register(asks).register(says("hi", "hello")).build().unwrap();
    let clock = AskClock::default();
    let scope =
        || CallScope { asked: Some(clock.clone()), approver: Some(Arc::new(Slow)), ..CallScope::default() };
    assert!(runtime.call_in(Call::new("hi", json!({})), scope()).await.ok);
    assert_eq!(clock.waited(), Duration::ZERO);
    assert!(runtime.call_in(Call::new("asks", json!({})), scope()).await.ok);
    assert!(clock.waited() >= Duration::from_millis(50));
}
