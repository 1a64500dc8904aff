//! The closed set of ways in which a call can fail, each with a message for the model and a hint at the remedy.

use serde::{Deserialize, Serialize};

use crate::output::Output;

/// Why a call did not give an ordinary result. The set is closed: programs may match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The tool ran and failed.
    ToolFailed,
    /// Something that the arguments name does not exist.
    NotFound,
    /// The world changed since the model last looked.
    Conflict,
    /// A limit on size was hit before anything happened.
    TooLarge,
    /// No tool has this name.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    InvalidParams,
    /// The owner's policy refuses the call.
    Blocked,
    /// A person was asked and said no.
    ApprovalDenied,
    /// A person has to be asked and nobody is there.
    ApprovalRequired,
    /// The sandbox that the policy asks for cannot be had.
    SandboxUnavailable,
    /// The caller used up its calls for now.
    RateLimited,
    /// Helve itself failed.
    Internal,
    /// The deadline passed.
    Timeout,
    /// The caller took the call back.
    Cancelled,
}

impl ErrorKind {
    /// Every kind, in the order of the exit codes.
    pub const ALL: [ErrorKind; 14] = [
        ErrorKind::ToolFailed,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::TooLarge,
        ErrorKind::UnknownTool,
        ErrorKind::InvalidParams,
        ErrorKind::Blocked,
        ErrorKind::ApprovalDenied,
        ErrorKind::ApprovalRequired,
        ErrorKind::SandboxUnavailable,
        ErrorKind::RateLimited,
        ErrorKind::Internal,
        ErrorKind::Timeout,
        ErrorKind::Cancelled,
    ];

    /// The exit code of `helve call` for this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::ToolFailed | ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::TooLarge => 1,
            ErrorKind::UnknownTool | ErrorKind::InvalidParams => 2,
            ErrorKind::Blocked | ErrorKind::ApprovalDenied => 3,
            ErrorKind::ApprovalRequired => 4,
            ErrorKind::SandboxUnavailable => 5,
            ErrorKind::RateLimited => 6,
            ErrorKind::Internal => 70,
            ErrorKind::Timeout => 124,
            ErrorKind::Cancelled => 130,
        }
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::ToolFailed => "tool_failed",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::UnknownTool => "unknown_tool",
            ErrorKind::InvalidParams => "invalid_params",
            ErrorKind::Blocked => "blocked",
            ErrorKind::ApprovalDenied => "approval_denied",
            ErrorKind::ApprovalRequired => "approval_required",
            ErrorKind::SandboxUnavailable => "sandbox_unavailable",
            ErrorKind::RateLimited => "rate_limited",
            ErrorKind::Internal => "internal",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Cancelled => "cancelled",
        }
    }
}

/// One thing that is wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// JSON pointer to the place in the arguments; empty for the arguments as a whole.
    pub pointer: String,
    /// What the schema wants there.
    pub expected: String,
    /// What came.
    pub received: String,
}

impl Problem {
    /// A problem at `pointer`.
    pub fn new(pointer: impl Into<String>, expected: impl Into<String>, received: impl Into<String>) -> Self {
        Problem { pointer: pointer.into(), expected: expected.into(), received: received.into() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.pointer.is_empty() { "arguments" } else { &self.pointer };
        write!(f, "{place}: expected {}, received {}", self.expected, self.received)
    }
}

/// What a tool, or a stage of the pipeline, returns instead of an output.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// Which of the closed set.
    pub kind: ErrorKind,
    /// What happened, for the model.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// For `invalid_params`: every problem.
    pub problems: Vec<Problem>,
    /// What was there before it failed: the output of a command that timed out, for example.
    pub output: Option<Box<Output>>,
}

impl ToolError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ToolError { kind, message: message.into(), hint: None, problems: Vec::new(), output: None }
    }

    /// The tool ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ToolFailed, message)
    }

    /// Something named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// A fault of Helve's own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The arguments are wrong in these ways.
    pub fn invalid(tool: &str, problems: Vec<Problem>) -> Self {
        let mut message = format!("Invalid parameters for tool '{tool}':");
        for problem in &problems {
            message.push_str("\n- ");
            message.push_str(&problem.to_string());
        }
        ToolError { problems, ..Self::new(ErrorKind::InvalidParams, message) }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what was there before it failed. The model reads the output's text instead of the message, so the text has
    /// to say what went wrong.
    #[must_use]
    pub fn with_output(mut self, output: Output) -> Self {
        self.output = Some(Box::new(output));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_wire_are_the_serde_names() {
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
