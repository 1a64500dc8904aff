//! Who is asked when a person has to agree. No argument of any call can carry an approval: it comes from here only.

use helve_core::{BoxFuture, CallId, Decision};
use serde_json::Value;

/// What a person is asked about: the whole call, not a summary of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// The normalized arguments, without known secrets.
    pub args: Value,
    /// Which rule wants it asked, and why.
    pub decision: Decision,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Yes, this once.
    Granted,
    /// No.
    Denied {
        /// Why, for the model.
        reason: String,
    },
    /// There is nobody to ask.
    Nobody,
    /// The call was taken back before there was an answer.
    Cancelled,
}

/// Asks a person.
pub trait Approver: Send + Sync {
    /// Waits for an answer.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval>;
}

/// Nobody is there.
pub(crate) struct Headless;

impl Approver for Headless {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        Box::pin(async { Approval::Nobody })
    }
}
