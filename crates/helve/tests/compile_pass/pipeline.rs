//! The same tool as in `compile_fail/tool.rs`, run by the pipeline.
use helve::{BoxFuture, Call, Context, Output, Runtime, Tool, ToolError, ToolSpec};

struct Mine(ToolSpec);

impl Tool for Mine {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async { Ok(Output::text("")) })
    }
}

async fn run() -> Result<(), helve::BuildError> {
    let tool = Mine(ToolSpec::new("mine", "", serde_json::json!({})));
    let runtime = Runtime::builder().register(tool).build()?;
    let _ = runtime.call(Call::new("mine", serde_json::json!({}))).await;
    Ok(())
}

fn main() {
    let _ = run;
}
