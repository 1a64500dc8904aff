//! Tools that behave as a test needs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helve::{
    ApprovalNeed, BoxFuture, Content, Context, ErrorKind, Output, RuntimeBuilder, Tool, ToolError, ToolSpec,
};
use serde_json::{Value, json};

use super::SECRET;

type Work = for<'a> fn(Value, &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>;

struct Odd {
    spec: ToolSpec,
    work: Work,
}

impl Tool for Odd {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        (self.work)(args, ctx)
    }
}

fn text(text: impl Into<String>) -> BoxFuture<'static, Result<Output, ToolError>> {
    let text = text.into();
    Box::pin(async move { Ok(Output::text(text)) })
}

/// Adds them.
pub(crate) fn register(builder: RuntimeBuilder) -> RuntimeBuilder {
    let open = || json!({"type": "object", "properties": {}});
    let tools: [(ToolSpec, Work); 8] = [
        (ToolSpec::new("wait", "Ends when it is cancelled.", open()).read_only(), |_, ctx| {
            Box::pin(async move {
                ctx.cancelled().cancelled().await;
                Err(ToolError::new(ErrorKind::Cancelled, "The call was cancelled."))
            })
        }),
        (ToolSpec::new("deaf", "Does not hear that it is cancelled.", open()).read_only(), |_, _| {
            Box::pin(async move {
                std::future::pending::<()>().await;
                Ok(Output::default())
            })
        }),
        (ToolSpec::new("count", "Gives another number each time.", open()).read_only(), |_, _| {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            text(COUNT.fetch_add(1, Ordering::Relaxed).to_string())
        }),
        // Without the message and the backtrace that a panic prints, which take seconds in a large program.
        (ToolSpec::new("boom", "Crashes.", open()).read_only(), |_, _| {
            std::panic::resume_unwind(Box::new("as the test wants"))
        }),
        (ToolSpec::new("leak", "Gives a secret away.", open()).read_only(), |_, _| {
            text(format!("it is {SECRET}"))
        }),
        (ToolSpec::new("nothing", "Gives nothing.", open()).read_only(), |_, _| {
            Box::pin(async { Ok(Output::default()) })
        }),
        (ToolSpec::new("picture", "Gives a picture.", open()).read_only(), |_, _| {
            Box::pin(async {
                Ok(Output { content: vec![Content::image("iVBORw0KGgo=", "image/png")], ..Output::default() })
            })
        }),
        (ToolSpec::new("asks", "Needs a yes.", open()).approval(ApprovalNeed::Always), |_, _| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(Output::text("did it"))
            })
        }),
    ];
    tools.into_iter().fold(builder, |builder, (spec, work)| builder.register(Odd { spec, work }))
}
