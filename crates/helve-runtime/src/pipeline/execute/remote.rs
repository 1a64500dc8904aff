//! The handles of a tool that stands for somebody else: the one tool of a server that its permit names, and the program at the
//! other end of the call.

use std::sync::Arc;

use helve_core::{
    BoxFuture, Cancel, ErrorKind, LogLevel, Peer, QuestionKind, ServerCall, ServerReply, Servers, ToolError,
    ToolOrigin,
};
use serde_json::Value;

use super::Notes;
use crate::pipeline::govern::Governor;

/// What reaches one tool of one server, and ends with the call.
pub(super) struct OneTool {
    pub(super) servers: Arc<dyn Servers>,
    pub(super) origin: ToolOrigin,
    pub(super) cancel: Cancel,
    pub(super) notes: Notes,
}

impl Servers for OneTool {
    fn call(&self, call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>> {
        Box::pin(async move {
            let ToolOrigin { server, tool, act } = &self.origin;
            if call.server != *server || call.tool != *tool || call.act != *act {
                let message = "The tool tried to call another server or tool than the one it was permitted.";
                return Err(ToolError::new(ErrorKind::Blocked, message)
                    .hint("This is a fault in the tool: it may call what its declaration names as origin."));
            }
            let mut reply = self.servers.call(ServerCall { cancel: self.cancel.clone(), ..call }).await?;
            if let Some(sandbox) = reply.sandbox.take() {
                self.notes.ran_in(sandbox);
            }
            Ok(reply)
        })
    }
}

/// The other end of the call, which hears no secrets.
pub(super) struct GovernedPeer {
    pub(super) peer: Arc<dyn Peer>,
    pub(super) governor: Arc<Governor>,
}

impl Peer for GovernedPeer {
    fn takes(&self, kind: QuestionKind) -> bool {
        self.peer.takes(kind)
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        kind: QuestionKind,
        mut params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        self.governor.clean_value(&mut params);
        self.peer.ask(key, kind, params)
    }

    fn has_answer(&self, key: &str) -> bool {
        self.peer.has_answer(key)
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, mut data: Value) {
        self.governor.clean_value(&mut data);
        let logger = logger.map(|logger| self.governor.redact(logger));
        self.peer.log(level, logger.as_deref(), data);
    }
}
