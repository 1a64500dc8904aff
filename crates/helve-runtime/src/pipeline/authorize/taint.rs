//! Taint: words that the owner does not vouch for led to the call, and what it would carry out could be what they ask for.
//!
//! A text from a server or a page may tell a model to send a secret away. Nobody can see in a text whether it does; what can be
//! seen is that such a text is in the talk and that the call leaves the machine. The two together are asked about, each time,
//! whatever was granted before. An owner who writes `approval = "never"` for the tool has answered.

use helve_core::{Access, ApprovalNeed, Decision, Lane, Resource, ToolSpec};
use helve_policy::ToolRule;

use super::judge::{Asking, extend};
use super::{Authority, Decided};
use crate::side::Side;

/// The rule that asks.
const TAINT: &str = "taint";

impl Authority {
    /// Makes a question of a call that could carry something out, where the talk is tainted.
    pub(super) fn ask_where_tainted(
        &self,
        side: &Side,
        spec: &ToolSpec,
        rule: &ToolRule,
        access: &Access,
        contained: bool,
        decided: &mut Decided,
    ) {
        let Some(source) = &side.tainted else { return };
        if rule.approval == Some(ApprovalNeed::Never) || !self.carries_out(spec, access, contained) {
            return;
        }
        let reason = format!(
            "text from {source}, which nobody vouches for, is in the talk, and '{}' could carry something out",
            spec.name
        );
        let asks = Decision::ask(TAINT, reason).grant(format!("tools.{}.approval = \"never\"", spec.name));
        extend(&mut decided.asking, vec![Asking::whole(&asks)]);
        decided.decision = decided.decision.clone().stricter(asks);
    }

    /// Whether a call reaches beyond this machine.
    fn carries_out(&self, spec: &ToolSpec, access: &Access, contained: bool) -> bool {
        let hosts = access.reads.iter().chain(&access.writes);
        match spec.lane {
            Lane::Mcp | Lane::Wasm => true,
            // A command that no sandbox contains reaches what the account reaches.
            Lane::Sandbox => !contained || self.policy.commands_reach_network(),
            Lane::Host | Lane::Files => {
                spec.open_world == Some(true)
                    || hosts.into_iter().any(|resource| matches!(resource, Resource::Host(_)))
            }
        }
    }
}
