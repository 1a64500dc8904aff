//! The fleet as one session of its client sees it.
//!
//! All sessions of a client share its servers, and what a server says without naming a call may be about any of them. So each call
//! comes with the session that it is of, which nothing of the call can choose.

use std::sync::Arc;

use helve_core::{BoxFuture, SentCall, ServerCall, ServerReply, Servers, ToolError};

use super::fleet::Fleet;

/// Tells the sessions of one fleet apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session(pub(super) u64);

/// What reaches the servers on behalf of one session.
pub struct Seat {
    pub(super) fleet: Arc<Fleet>,
    pub(super) session: Session,
}

impl Servers for Seat {
    fn call(&self, call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>> {
        Box::pin(self.fleet.call_of(self.session, call))
    }

    fn send(self: Arc<Self>, call: ServerCall) -> Box<dyn SentCall> {
        Arc::clone(&self.fleet).send_of(self.session, call)
    }

    fn missing(&self, shown: &str) -> Option<ToolError> {
        self.fleet.missing(shown)
    }
}
