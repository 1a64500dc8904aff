//! What authorize decides, in the words that `helve check` prints.

use serde::{Deserialize, Serialize};

/// May it happen?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Yes.
    Allow,
    /// Only if a person agrees.
    Ask,
    /// No.
    Deny,
}

/// A verdict with its reasons. Ordered by strictness through [`Decision::stricter`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// May it happen?
    pub verdict: Verdict,
    /// The rule that decided, by the name an owner can look up.
    pub rule: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which bytes of the command the rule is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(usize, usize)>,
    /// The smallest change of policy that would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

impl Decision {
    /// The rule of what nothing else has to be said about.
    pub const DEFAULT: &str = "default";

    /// Whether nothing but the default rule allows it, and there is no more to tell.
    pub fn is_default(&self) -> bool {
        let Decision { verdict, rule, reason, span, grant } = self;
        *verdict == Verdict::Allow
            && rule == Self::DEFAULT
            && reason.is_none()
            && span.is_none()
            && grant.is_none()
    }

    /// An allowance by `rule`.
    pub fn allow(rule: impl Into<String>) -> Self {
        Decision { verdict: Verdict::Allow, rule: rule.into(), reason: None, span: None, grant: None }
    }

    /// A refusal by `rule`.
    pub fn deny(rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Decision { verdict: Verdict::Deny, reason: Some(reason.into()), ..Self::allow(rule) }
    }

    /// A question that `rule` wants asked.
    pub fn ask(rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Decision { verdict: Verdict::Ask, reason: Some(reason.into()), ..Self::allow(rule) }
    }

    /// Adds the bytes that it is about.
    #[must_use]
    pub fn at(mut self, span: (usize, usize)) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds the smallest change that would allow it.
    #[must_use]
    pub fn grant(mut self, grant: impl Into<String>) -> Self {
        self.grant = Some(grant.into());
        self
    }

    /// The stricter of two; the first of equals.
    #[must_use]
    pub fn stricter(self, other: Decision) -> Decision {
        if other.verdict > self.verdict { other } else { self }
    }
}
