//! What `files.deny_read` closes, said of the paths that a call names without opening anything.

use std::path::Path;

use helve_core::{Decision, DenyRead};
use helve_shell::normal;

use super::{PathAct, PathUse, places, plain, shown};
use crate::config::keys;
use crate::guard;
use crate::policy::{Policy, list, paths};

impl Policy {
    /// The refusal that a bridge in `workspace`, an absolute path, has for a call of a file tool that names these paths, if it
    /// has one: the first path that `files.deny_read` closes, as decisions name it, and the decision.
    pub fn closed(&self, uses: &[PathUse<'_>], workspace: &Path) -> Option<(String, Decision)> {
        let workspace = normal(workspace);
        let closed = uses.iter().find(|one| self.is_closed(one, &workspace))?;
        let path = plain(&shown(closed.path, &workspace));
        let decision = Decision::deny(keys::FILES_DENY_READ, format!("{path} is closed to tools"));
        Some((path, decision))
    }

    fn is_closed(&self, one: &PathUse<'_>, workspace: &Path) -> bool {
        let settings = &self.inner.settings;
        let extra = [keys::FILES_READ_ONLY, keys::FILES_READ_WRITE].map(|key| paths(settings, key));
        let roots = std::iter::once(workspace.to_owned()).chain(extra.into_iter().flatten());
        // A path is told from a root by its name and by where that really is.
        let roots: Vec<_> = roots.flat_map(|root| [guard::resolve(&root), Some(root)]).flatten().collect();
        places(one, workspace).iter().any(|place| {
            let below = roots.iter().filter_map(|root| place.strip_prefix(root).ok());
            // The deepest of the roots leaves the shortest path.
            let Some(below) = below.min_by_key(|below| below.components().count()) else { return false };
            let is_dir = one.act == PathAct::Read && place.is_dir();
            // Where it cannot be told what is denied, everything is.
            !below.as_os_str().is_empty()
                && self.deny_read().is_none_or(|denied| denied.denies(below, is_dir))
        })
    }

    fn deny_read(&self) -> Option<&DenyRead> {
        let read = || DenyRead::new(list(&self.inner.settings, keys::FILES_DENY_READ)).ok();
        self.inner.deny_read.get_or_init(read).as_ref()
    }
}
