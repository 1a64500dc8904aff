//! A tool that one owns cannot be run either: nobody outside the pipeline has a context to give it.
use helve::{Context, Output, Tool, ToolError, ToolSpec, TypedTool, typed};

struct Mine;
impl TypedTool for Mine {
    type Args = serde_json::Value;
    fn declare(&self, parameters: serde_json::Value) -> ToolSpec {
        ToolSpec::new("mine", "", parameters)
    }
    async fn run(&self, _args: serde_json::Value, _ctx: &Context) -> Result<Output, ToolError> {
        Ok(Output::text(""))
    }
}

fn main() {
    let tool = typed(Mine);
    let _ = tool.run(serde_json::json!({}), &Context::default());
}
