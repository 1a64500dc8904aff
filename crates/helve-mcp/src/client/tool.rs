//! A server's tool as the pipeline sees it: a declaration, and a call that goes through the handle of its permit.

use helve_core::access::Resource;
use helve_core::output::join_text;
use helve_core::{
    Access, BoxFuture, Content, Context, Output, RelayTool, ServerCall, ServerReply, Tool, ToolError,
    ToolSpec,
};
use serde_json::Value;

/// A tool of an MCP server.
pub struct RemoteTool {
    spec: ToolSpec,
}

impl RemoteTool {
    /// A tool of the server that the spec's origin names.
    pub fn new(spec: ToolSpec) -> RemoteTool {
        RemoteTool { spec }
    }
}

impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What a server touches cannot be known from here: calls of one server that may change something keep their order, unless
    /// the owner says that they need not.
    fn access(&self, _args: &Value) -> Access {
        let mut access = Access::default();
        if let Some(origin) = &self.spec.origin {
            let key = Resource::Key(["mcp:", &origin.server].concat());
            let beside = self.spec.is_concurrency_safe();
            *if beside { &mut access.reads } else { &mut access.writes } = vec![key];
        }
        access
    }

    fn relay(&self) -> Option<&dyn RelayTool> {
        Some(self)
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let origin = self.spec.origin.as_ref();
            let origin =
                origin.ok_or_else(|| ToolError::internal("A tool of the lane mcp names no server."))?;
            let call = ServerCall {
                server: origin.server.clone(),
                act: origin.act,
                tool: origin.tool.clone(),
                args,
                progress: ctx.progress().clone(),
                cancel: ctx.cancelled().clone(),
                peer: ctx.peer().cloned(),
            };
            self.told(ctx.servers()?.call(call).await?)
        })
    }
}

impl RelayTool for RemoteTool {
    fn told(&self, reply: ServerReply) -> Result<Output, ToolError> {
        let output = Output {
            content: shown(reply.content, reply.structured.as_ref()),
            details: reply.structured.unwrap_or(Value::Null),
            ..Output::default()
        };
        if !reply.is_error {
            return Ok(output);
        }
        let said = join_text(&output.content);
        let message = match (said.is_empty(), &self.spec.origin) {
            (true, Some(origin)) => {
                format!("The MCP server '{}' says that the call failed.", origin.server)
            }
            _ => said,
        };
        // Details of a failure need not fit the schema of a success.
        Err(ToolError::failed(message).with_output(Output { details: Value::Null, ..output }))
    }
}

/// A tool that could not be made known. No server is asked: nothing is known of what that would do.
pub(super) struct StandIn {
    pub(super) spec: ToolSpec,
    pub(super) why: ToolError,
}

impl Tool for StandIn {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { Err(self.why.clone()) })
    }
}

/// The blocks, or where there are none the structured answer as text: the model must see something of it.
fn shown(content: Vec<Content>, structured: Option<&Value>) -> Vec<Content> {
    match structured {
        Some(structured) if content.is_empty() => vec![Content::text(structured.to_string())],
        _ => content,
    }
}
