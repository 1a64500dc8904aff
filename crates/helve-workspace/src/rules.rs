//! What the policy says about paths, compiled: which must not be read, and which are protected from writing.

use std::path::Path;

use helve_core::files::PathRules;
use helve_core::{DenyRead, ToolError, protected};

/// The rules of one workspace, compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    given: PathRules,
    deny_read: DenyRead,
}

impl Rules {
    /// Compiles them; a pattern that is none is an error.
    pub(crate) fn new(given: PathRules) -> Result<Rules, ToolError> {
        let deny_read = DenyRead::new(&given.deny_read)?;
        Ok(Rules { given, deny_read })
    }

    /// What they were made from.
    pub(crate) fn given(&self) -> &PathRules {
        &self.given
    }

    /// Whether nothing of a path may be read, for the path itself; what lies in a denied directory is asked for by its
    /// own path or is not reached at all. The path is relative to its root.
    pub(crate) fn denies_entry(&self, path: &Path, is_dir: bool) -> bool {
        self.deny_read.denies_entry(path, is_dir)
    }

    /// The same for a path and everything above it.
    pub(crate) fn denies(&self, path: &Path, is_dir: bool) -> bool {
        self.deny_read.denies(path, is_dir)
    }

    /// Whether one of a path's names is protected from writing.
    pub(crate) fn protects_name(&self, name: &[u8]) -> bool {
        protected::is_among(&self.given.protected, name)
    }
}
