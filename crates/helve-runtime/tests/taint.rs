//! Who else wrote what a call brings, and when that counts. What a command brings, as far as that shows in it, is a line of
//! `cases/taint.jsonl` each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use std::sync::Arc;

use common::asking::{Scripted, once};
use common::{Printer, builder, fake, journal, shell_tool};
use helve_core::{Access, ApprovalNeed, Call, Output, Resource, ToolSpec};
use helve_runtime::{Approver, CallScope, Runtime};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    #[serde(default)]
    policy: String,
    contained: bool,
    brings: Option<String>,
}

#[tokio::test]
async fn a_command_is_labelled_by_what_it_reads_and_whom_it_connects_to() {
    for line in include_str!("cases/taint.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let dir = tempfile::tempdir().unwrap();
        let shell = Printer { contained: case.contained, pieces: vec!["out"], runs: Arc::default() };
        let runtime = builder(dir.path(), &case.policy)
            .register(shell_tool())
            .shell(Arc::new(shell))
            .approver(Scripted::new(once) as Arc<dyn Approver>)
            .build()
            .unwrap();
        let result = runtime.call(Call::new("sh", json!({"command": case.command}))).await;
        assert!(result.ok, "{line}: {}", result.text());
        assert_eq!(result.tainted, case.brings, "{line}");
        if let Some(source) = &case.brings {
            assert!(journal(dir.path()).contains(&format!(r#""tainted":"{source}""#)), "{line}");
        }
    }
}

#[tokio::test]
async fn what_comes_from_a_host_says_from_which() {
    let dir = tempfile::tempdir().unwrap();
    let mut open = ToolSpec::new("open", "", common::open_schema()).read_only();
    open.open_world = Some(true);
    let say = |spec: ToolSpec| fake(spec, |_, _| Box::pin(async { Ok(Output::text("words")) }));
    let named = say(ToolSpec::new("named", "", common::open_schema()).read_only());
    let named = named
        .with_access(|_| Access { reads: vec![Resource::Host("news.example".into())], ..Access::default() });
    let own = say(ToolSpec::new("own", "", common::open_schema()).read_only());
    let runtime = builder(dir.path(), "").register(say(open)).register(named).register(own).build().unwrap();
    for (tool, brings) in [("open", Some("web")), ("named", Some("web:news.example")), ("own", None)] {
        let result = runtime.call(Call::new(tool, json!({}))).await;
        assert_eq!(result.tainted.as_deref(), brings, "{tool}");
    }
}

/// A server's tool that declares that nobody has to be asked.
fn of_server(policy: &str) -> (tempfile::TempDir, Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let spec = ToolSpec::new("mcp__news__post", "", common::open_schema())
        .origin("news", "post")
        .approval(ApprovalNeed::Never);
    let tool = fake(spec, |_, _| Box::pin(async { Ok(Output::text("posted")) }));
    let policy = format!("mcp.servers.news.command = 'x'\n{policy}");
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    (dir, runtime)
}

/// The owner's word for a server counts as the owner's word for its tool does, and the nearer one first. What a tool declares
/// of itself is no word of the owner's.
#[tokio::test]
async fn the_owners_word_for_a_server_is_an_answer_like_that_for_its_tool() {
    let tainted = || CallScope { tainted: Some("web".into()), ..CallScope::default() };
    for (policy, asks) in [
        ("", true),
        ("tools.mcp__news__post.approval = 'never'", false),
        ("mcp.servers.news.approval = 'never'", false),
        ("mcp.servers.news.tools.post.approval = 'never'", false),
        ("mcp.servers.news.approval = 'unless_auto_approved'\nauto_approve = true", true),
        ("mcp.servers.news.approval = 'never'\nmcp.servers.news.tools.post.approval = 'always'", true),
        ("mcp.servers.news.approval = 'never'\ntools.mcp__news__post.approval = 'always'", true),
        ("mcp.servers.other.command = 'x'\nmcp.servers.other.approval = 'never'", true),
    ] {
        let (_dir, runtime) = of_server(policy);
        let call = Call::new("mcp__news__post", json!({}));
        let result = runtime.call_in(call, tainted()).await;
        let asked = result.error.map(|error| error.kind.name());
        assert_eq!(asked, asks.then_some("approval_required"), "{policy}");
    }
}
