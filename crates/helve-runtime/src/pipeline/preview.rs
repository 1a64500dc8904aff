//! What would become of a call, for whoever only wants to know. Nothing is asked, run or recorded.

use std::sync::Arc;

use helve_core::{Args, Call, CommandUse, Decision, ToolError};
use serde_json::Value;

use super::authorize::Shown;
use super::{Pipeline, Story, resolve};
use crate::side::Side;

impl Pipeline {
    /// Resolve to validate, for whoever wants to know what a tool would get.
    pub(crate) fn arguments(&self, tool: &str, args: Args) -> Result<Value, ToolError> {
        let registry = self.registry.now();
        let found = resolve::resolve(&registry, tool)?;
        self.checked(found, &args).map(|normalized| normalized.args)
    }

    /// The decision on a command, as a call of the tool `exec` would get it; the guard's alone where there is no `exec`.
    pub(crate) fn check(&self, command: CommandUse) -> Decision {
        match self.registry.now().get("exec") {
            Some(entry) => self.authority.check(entry, &self.side, command, || self.lanes.shell()),
            None => self.authority.policy.check(&command, &self.authority.workspace),
        }
    }

    /// Resolve to authorize, up to the policy's word. Nothing is asked, run or recorded.
    pub(crate) fn decide(&self, call: Call, side: &Arc<Side>) -> Decision {
        let refused = |error: ToolError| {
            let error = self.clean_error(error);
            Decision::deny(error.kind.name(), error.message)
        };
        let registry = self.registry.now();
        let found = match resolve::resolve(&registry, &call.tool) {
            Ok(found) => found,
            Err(error) => return refused(error),
        };
        let mut story = Story::new(None, call.tool, side);
        let args = match self.valid(found, call.args, &mut story) {
            Ok(args) => args,
            Err(error) => return refused(error),
        };
        let spec = found.entry.spec();
        let shown =
            Shown { args: &|args| self.shown_args(spec, args), text: &|text| self.governor.redact(text) };
        self.authority.preview(found.entry, side, &args, &shown, || self.lanes.shell())
    }
}
