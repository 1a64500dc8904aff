//! What would be decided of a call, for whoever only wants to know. Nothing is reserved, asked or noted.

use std::sync::Arc;

use helve_core::{Access, CommandUse, Decision, ShellBackend, ToolError};
use serde_json::Value;

use super::{Authority, Refusal, Shown, contained, contained_call, enabled};
use crate::registry::Entry;
use crate::side::Side;

impl Authority {
    /// The decision on a call of `entry` that runs `command`, as `helve check` shows it.
    pub(crate) fn check(
        &self,
        entry: &Entry,
        side: &Side,
        command: CommandUse,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Decision {
        let (spec, rule) = (entry.spec(), entry.rule(&self.policy));
        let access = Access { commands: vec![command], ..Access::default() };
        let decide = || {
            enabled(spec, rule)?;
            let contained = contained(spec, shell);
            let judged = self.judge(spec, &access, &contained)?;
            let contains = matches!(contained, Ok(true));
            let decided = self.decide(spec, rule, judged, Vec::new(), spec.approval, contains)?;
            contained?;
            Ok(decided)
        };
        match decide() {
            Ok(decided) => {
                self.granted_before(&spec.name, &side.caller, &decided).unwrap_or(decided.decision)
            }
            Err(refusal) => Refusal::into_decision(refusal),
        }
    }

    /// What the policy says of any call, without the answers that the owner gave before.
    pub(crate) fn preview(
        &self,
        entry: &Entry,
        side: &Side,
        args: &Value,
        shown: &Shown<'_>,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Decision {
        let (spec, rule) = (entry.spec(), entry.rule(&self.policy));
        let decide = || {
            enabled(spec, rule)?;
            let (access, declared) =
                contained_call(spec, || (entry.tool.access(args), entry.tool.approval(args)))?;
            let contained = contained(spec, shell);
            let mut judged = self.judge(spec, &access, &contained)?;
            judged.iter_mut().for_each(|one| one.hide_secrets(shown));
            let paths = self.judge_paths(spec, &access, shown);
            let contains = matches!(contained, Ok(true));
            let mut decided = self.decide(spec, rule, judged, paths, declared, contains)?;
            let contained = contained?;
            self.ask_where_tainted(side, spec, rule, &access, contained, &mut decided);
            match self.closed(spec, &access, shown) {
                Some(refusal) => Err(refusal),
                None => Ok(decided.decision),
            }
        };
        decide().unwrap_or_else(|refusal: Refusal| refusal.into_decision())
    }
}
