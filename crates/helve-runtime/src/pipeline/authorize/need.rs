//! Whether a person must agree to a call, before the guard has looked at its commands.

use helve_core::{ApprovalNeed, Decision, Lane, ToolSpec};
use helve_policy::ToolRule;

use super::Authority;

/// Whether a person must agree, by which rule and why.
pub(super) enum Need {
    None(String),
    /// The guard asks about what does more than read.
    Guarded,
    /// `every`: about each command that is started; else about the call as a whole.
    Asked {
        decision: Decision,
        every: bool,
    },
}

impl Authority {
    /// Whether a person must agree.
    pub(super) fn need(
        &self,
        spec: &ToolSpec,
        rule: &ToolRule,
        declared: ApprovalNeed,
        contained: bool,
    ) -> Need {
        let by_policy = rule.approval;
        let name = || match by_policy {
            Some(_) => format!("tools.{}.approval", spec.name),
            None => format!("approval.{}", spec.name),
        };
        match by_policy.unwrap_or(declared) {
            ApprovalNeed::Never => Need::None(Decision::DEFAULT.to_owned()),
            ApprovalNeed::UnlessAutoApproved if contained => Need::None("sandbox.contains".to_owned()),
            ApprovalNeed::UnlessAutoApproved if self.policy.auto_approve() => {
                Need::None("auto_approve".to_owned())
            }
            ApprovalNeed::UnlessAutoApproved if spec.lane == Lane::Sandbox && !self.is_wrapped() => {
                Need::Guarded
            }
            ApprovalNeed::UnlessAutoApproved => {
                let reason = match spec.lane {
                    Lane::Sandbox => {
                        "the command would run without a sandbox that Helve vouches for".to_owned()
                    }
                    _ => format!("'{}' asks for approval", spec.name),
                };
                let decision = Decision::ask(name(), reason).grant("auto_approve = true");
                Need::Asked { decision, every: true }
            }
            ApprovalNeed::Always => {
                let grant = format!("tools.{}.approval = \"unless_auto_approved\"", spec.name);
                let decision =
                    Decision::ask(name(), format!("'{}' always asks for approval", spec.name)).grant(grant);
                Need::Asked { decision, every: false }
            }
        }
    }
}
