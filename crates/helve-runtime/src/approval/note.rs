//! What the journal keeps of a question: who answered it, what, and what was shown. Enough to explain the decision later.

use serde::Serialize;

use super::{Answer, Approval, ApprovalRequest, short};

/// So many parts are kept.
const MOST: usize = 32;
/// So much of each text is kept.
const MAX_CHARS: usize = 300;

/// The answer to a question. The members stand in the order of canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ApprovalNote {
    /// `once`, `session`, `always`, `denied`, `nobody`, `cancelled`, `timed_out`; `stored` where an earlier answer
    /// covered the call; `stopped` where nobody was asked because of too many questions or denials.
    pub(crate) answer: &'static str,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The approvals that the call goes ahead on, or that the answer made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ids: Vec<String>,
    /// The parts that needed an answer.
    pub(crate) parts: Vec<PartNote>,
    /// What the owner said with a no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The rule that wanted it asked.
    pub(crate) rule: String,
    /// The hash of what was shown.
    pub(crate) shown: String,
}

/// A part that needed an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PartNote {
    pub(crate) reason: String,
    pub(crate) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) span: Option<(usize, usize)>,
    pub(crate) text: String,
}

impl ApprovalNote {
    /// The note on a question, before its answer is known.
    pub(crate) fn of(request: &ApprovalRequest) -> Self {
        let parts = request.parts.iter().take(MOST).map(|part| PartNote {
            reason: short(&part.reason, MAX_CHARS),
            rule: part.rule.clone(),
            span: part.span,
            text: short(&part.text, MAX_CHARS),
        });
        ApprovalNote {
            answer: "stopped",
            by: None,
            ids: Vec::new(),
            parts: parts.collect(),
            reason: None,
            rule: request.decision.rule.clone(),
            shown: request.shown.clone(),
        }
    }

    /// The same with its answer.
    pub(crate) fn answered(mut self, answer: &Answer) -> Self {
        self.by = Some(answer.by.clone());
        self.answer = match &answer.approval {
            Approval::Once => "once",
            Approval::Session { .. } => "session",
            Approval::Always { .. } => "always",
            Approval::Denied { reason } => {
                self.reason = Some(short(reason, MAX_CHARS));
                "denied"
            }
            Approval::Nobody => "nobody",
            Approval::Cancelled => "cancelled",
            Approval::TimedOut => "timed_out",
        };
        self
    }
}
