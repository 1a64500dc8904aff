//! What the policy says of the paths that a call names.

use std::collections::HashSet;

use helve_core::{Access, Lane, Resource, ToolSpec, deny_read};
use helve_policy::{PathAct, PathDecision, PathUse, RunBy};

use super::{Authority, Refusal, Shown};

impl Authority {
    /// What the policy says of the paths that a file tool names, and of a tool that runs no command as a whole. Judging a
    /// command includes that.
    pub(super) fn judge_paths(
        &self,
        spec: &ToolSpec,
        access: &Access,
        shown: &Shown<'_>,
    ) -> Vec<PathDecision> {
        if !access.commands.is_empty() {
            return Vec::new();
        }
        let by = RunBy { tool: &spec.name, session: Some(&self.session) };
        let mut said = self.policy.judge_paths(by, &path_uses(spec, access), &self.workspace);
        said.iter_mut().for_each(|one| shown.clean(&mut one.decision, true));
        said
    }

    /// The refusal of a call that names a path which `files.deny_read` closes. The bridge holds that on what it opens; this
    /// says it before a person is asked in vain, and to whoever only wants to know.
    pub(super) fn closed(&self, spec: &ToolSpec, access: &Access, shown: &Shown<'_>) -> Option<Refusal> {
        let (path, mut decision) = self.policy.closed(&path_uses(spec, access), &self.workspace)?;
        shown.clean(&mut decision, true);
        Some(Refusal::new(deny_read::closed(&path), decision))
    }
}

/// The paths that a call of a file tool names, and what it does with them.
fn path_uses<'a>(spec: &ToolSpec, access: &'a Access) -> Vec<PathUse<'a>> {
    if spec.lane != Lane::Files {
        return Vec::new();
    }
    let deletes: HashSet<&Resource> = access.deletes.iter().collect();
    let written = access.writes.iter().map(|one| match deletes.contains(one) {
        true => (one, PathAct::Delete),
        false => (one, PathAct::Write),
    });
    let used = written.chain(access.reads.iter().map(|one| (one, PathAct::Read)));
    let uses = used.filter_map(|(resource, act)| match resource {
        Resource::Path(path) => Some(PathUse { path, act }),
        Resource::Host(_) | Resource::Key(_) => None,
    });
    uses.collect()
}
