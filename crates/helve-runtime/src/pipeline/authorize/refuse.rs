//! What a model reads when a question brought no yes: what happened, and what to do instead.

use helve_core::{Decision, ErrorKind, ToolError};
use helve_policy::sentence;

use crate::approval::Approval;
use crate::approval::breaker::Stop;

/// Why nobody was asked.
pub(super) fn stopped(stop: Stop) -> ToolError {
    match stop {
        Stop::TooMany(wait) => {
            let message = "Too many questions: the owner was asked as often as a minute allows.";
            ToolError::new(ErrorKind::ApprovalRequired, message)
                .hint(format!("Wait {} seconds, or do what needs no approval.", wait.as_secs() + 1))
        }
        Stop::Denied(wait) => {
            let minutes = wait.as_secs() / 60 + 1;
            let message = format!(
                "The owner said no so often that no questions are asked for the next {minutes} minutes."
            );
            let hint = "Stop trying what needs approval; tell the owner what you wanted and why, and do something else.";
            ToolError::new(ErrorKind::ApprovalDenied, message).hint(hint)
        }
    }
}

/// Why a call is not allowed by its answer.
pub(super) fn refused(approval: &Approval, decision: &Decision) -> ToolError {
    let mut way = String::new();
    if let Some(grant) = &decision.grant {
        way = format!(", or allow it with: {grant}");
    }
    match approval {
        Approval::Denied { reason } => {
            ToolError::new(ErrorKind::ApprovalDenied, format!("The owner said no: {reason}"))
                .hint("Do not try the same by other means; choose another way or ask what is wanted.")
        }
        Approval::TimedOut => {
            let message = format!("Approval required by {}, and nobody answered in time.", decision.rule);
            ToolError::new(ErrorKind::ApprovalRequired, message)
                .hint(format!("The owner can answer when the call is made again{way}"))
        }
        Approval::Cancelled => {
            ToolError::new(ErrorKind::Cancelled, "The call was cancelled before the owner answered.")
        }
        _ => {
            let reason = decision.reason.clone().unwrap_or_default();
            ToolError::new(
                ErrorKind::ApprovalRequired,
                format!("Approval required by {}: {}", decision.rule, sentence(&reason)),
            )
            .hint(format!("Nobody is there to ask. The owner can make the call on a terminal{way}"))
        }
    }
}
