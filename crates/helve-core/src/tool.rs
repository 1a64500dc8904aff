//! The one trait that every kind of tool implements.

use serde_json::Value;

use crate::access::Access;
use crate::context::Context;
use crate::error::ToolError;
use crate::lane::BoxFuture;
use crate::output::Output;
use crate::servers::ServerReply;
use crate::spec::{ApprovalNeed, ToolSpec};

/// A tool. Only the pipeline can run one: a [`Context`] cannot be made elsewhere.
///
/// Most authors implement [`crate::TypedTool`] instead and let it derive the schema.
pub trait Tool: Send + Sync {
    /// The declaration.
    fn spec(&self) -> &ToolSpec;

    /// When a person has to agree, given these valid arguments.
    fn approval(&self, _args: &Value) -> ApprovalNeed {
        self.spec().approval
    }

    /// What the call touches, given these valid arguments.
    fn access(&self, _args: &Value) -> Access {
        Access::default()
    }

    /// Both at once, for a tool that has to read the arguments for either.
    fn plans(&self, args: &Value) -> (Access, ApprovalNeed) {
        (self.access(args), self.approval(args))
    }

    /// The work of a tool that is done at once; none for every other tool.
    fn instant(&self) -> Option<&dyn InstantTool> {
        None
    }

    /// What becomes of a server's answer, for a tool whose whole work is to ask the one that its origin names; none for every
    /// other tool.
    fn relay(&self) -> Option<&dyn RelayTool> {
        None
    }

    /// Does the work. `args` are normalized and valid.
    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>;
}

/// A tool whose work is a short computation: it waits for nobody and needs no handle on anything, so that calls of it can be
/// taken through the pipeline several at a time.
pub trait InstantTool: Send + Sync {
    /// What [`Tool::run`] does.
    fn now(&self, args: Value) -> Result<Output, ToolError>;
}

/// A tool that hands its arguments to a server and its answer on, so that calls of it can be sent together and need nobody who
/// waits for each.
pub trait RelayTool: Send + Sync {
    /// What [`Tool::run`] makes of the answer.
    fn told(&self, reply: ServerReply) -> Result<Output, ToolError>;
}
