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
                let decision = Decision::ask(name(), reason).grant(self.grant(spec, by_policy));
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

    /// The line that spares the question and opens nothing else. For a tool of a server it is about the server, whose owner would
    /// else write one for each tool, unless something nearer to the tool is written already.
    fn grant(&self, spec: &ToolSpec, by_policy: Option<ApprovalNeed>) -> String {
        let server = spec.origin.as_ref().filter(|origin| {
            by_policy.is_none() && self.policy.server_approval(&origin.server, &origin.tool).is_none()
        });
        match server {
            Some(origin) => format!("mcp.servers.{}.approval = \"never\"", origin.server),
            None => format!("tools.{}.approval = \"never\"", spec.name),
        }
    }
}
