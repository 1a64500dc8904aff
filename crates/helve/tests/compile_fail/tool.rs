// errors: E0599
//! A tool that one owns cannot be run either: nobody outside the pipeline has a context to give it.
use helve::{BoxFuture, Context, Output, Tool, ToolError, ToolSpec};

struct Mine(ToolSpec);

impl Tool for Mine {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async { Ok(Output::text("")) })
    }
}

fn main() {
    let tool = Mine(ToolSpec::new("mine", "", serde_json::json!({})));
    let _ = tool.run(serde_json::json!({}), &Context::new());
}
