//! `echo`: gives a text back. It proves that the whole way from call to result works.

use helve_core::typed::schema_of;
use helve_core::{Output, ToolError, ToolSpec, TypedInstantTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) struct Echo;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The text to give back.
    #[schemars(extend("x-aliases" = ["text"]))]
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// Characters of the text.
    chars: u64,
}

impl TypedInstantTool for Echo {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "echo",
            "Returns the given text unchanged. Use it to check that tool calls work.",
            parameters,
        )
        .title("Echo")
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn answer(&self, args: Args) -> Result<Output, ToolError> {
        let facts = Facts { chars: args.message.chars().count() as u64 };
        Ok(Output::text(args.message).with_details(crate::details(&facts)))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Fake, run};
    use serde_json::json;

    #[tokio::test]
    async fn gives_the_text_back() {
        let output = run("echo", json!({"message": "grüße\n"}), Fake::default()).await.unwrap();
        assert_eq!(output.joined_text(), "grüße\n");
        assert_eq!(output.details, json!({"chars": 6}));
    }
}
