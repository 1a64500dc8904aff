//! What the policy says of a call, without making it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Printer, builder, fake, open_schema, shell_tool};
use helve_core::{BoxFuture, Call, Output, ToolSpec, Verdict};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver, CallScope};
use pretty_assertions::assert_eq;
use serde_json::json;

/// Counts what it is asked, and says yes.
struct Counting(Arc<AtomicUsize>);

impl Approver for Counting {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Answer::new("test", Approval::Once) })
    }
}

#[tokio::test]
async fn any_call_is_decided_and_nothing_is_asked_run_or_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (asked, ran, commands) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::default());
    let counter = Arc::clone(&ran);
    let tool = fake(ToolSpec::new("plain", "", open_schema()).read_only(), move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Output::text("ran")) })
    });
    let off = fake(ToolSpec::new("off", "", open_schema()), |_, _| Box::pin(async { Ok(Output::text("")) }));
    let printer = Printer { contained: false, pieces: vec![], runs: Arc::clone(&commands) };
    let runtime = builder(dir.path(), "[tools.off]\nenabled = false\n")
        .register(tool)
        .register(off)
        .register(shell_tool())
        .shell(Arc::new(printer))
        .approver(Arc::new(Counting(Arc::clone(&asked))))
        .build()
        .unwrap();
    let verdict = |tool: &str, args| {
        let decision = runtime.decide(Call::new(tool, args));
        (decision.verdict, decision.rule)
    };
    assert_eq!(verdict("plain", json!({})).0, Verdict::Allow);
    assert_eq!(verdict("off", json!({})), (Verdict::Deny, "tools.off.enabled".to_owned()));
    assert_eq!(verdict("sh", json!({"command": "touch x"})).0, Verdict::Ask);
    assert_eq!(verdict("sh", json!({"command": "rm -rf /"})).0, Verdict::Deny);
    assert_eq!(verdict("sh", json!({})), (Verdict::Deny, "invalid_params".to_owned()));
    assert_eq!(verdict("nobody", json!({})), (Verdict::Deny, "unknown_tool".to_owned()));
    let tainted = CallScope { tainted: Some("mcp:a".into()), ..CallScope::default() };
    let ls = Call::new("sh", json!({"command": "ls"}));
    let (clean, led) = (runtime.decide(ls.clone()), runtime.decide_in(ls, tainted));
    assert_eq!((clean.verdict, led.verdict, led.rule.as_str()), (Verdict::Allow, Verdict::Ask, "taint"));
    let counted = [&asked, &ran, &commands].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counted, [0, 0, 0]);
    assert!(!dir.path().join("state/sessions").exists(), "nothing is recorded");

    // The same counters count where calls are made.
    runtime.call(Call::new("plain", json!({}))).await;
    runtime.call(Call::new("sh", json!({"command": "touch x"}))).await;
    let counted = [&asked, &ran, &commands].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counted, [1, 1, 1]);
}
