//! What the policy says about paths, compiled: which must not be read, and which are protected from writing.

use std::path::Path;

use helve_core::files::PathRules;
use helve_core::{ErrorKind, ToolError, protected};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The rules of one workspace, compiled once.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    given: PathRules,
    deny_read: Gitignore,
}

impl Rules {
    /// Compiles them; a pattern that is none is an error.
    pub(crate) fn new(given: PathRules) -> Result<Rules, ToolError> {
        let mut builder = GitignoreBuilder::new("");
        let wrong = |pattern: &str, error: &dyn std::fmt::Display| {
            ToolError::new(
                ErrorKind::InvalidParams,
                format!("The pattern '{pattern}' of deny_read is wrong: {error}"),
            )
            .hint("Write it as in a .gitignore file: .env, *.pem, secrets/**")
        };
        // A name that a file system without upper and lower case would take for the same is the same.
        builder.case_insensitive(true).map_err(|error| wrong("", &error))?;
        for pattern in &given.deny_read {
            builder.add_line(None, pattern).map_err(|error| wrong(pattern, &error))?;
        }
        let deny_read = builder.build().map_err(|error| wrong("", &error))?;
        Ok(Rules { given, deny_read })
    }

    /// What they were made from.
    pub(crate) fn given(&self) -> &PathRules {
        &self.given
    }

    /// Whether nothing of a path may be read, for the path itself; what lies in a denied directory is asked for by its
    /// own path or is not reached at all. The path is relative to its root.
    pub(crate) fn denies_entry(&self, path: &Path, is_dir: bool) -> bool {
        !self.deny_read.is_empty() && self.deny_read.matched(path, is_dir).is_ignore()
    }

    /// The same for a path and everything above it.
    pub(crate) fn denies(&self, path: &Path, is_dir: bool) -> bool {
        !self.deny_read.is_empty() && self.deny_read.matched_path_or_any_parents(path, is_dir).is_ignore()
    }

    /// Whether one of a path's names is protected from writing.
    pub(crate) fn protects_name(&self, name: &[u8]) -> bool {
        protected::is_among(&self.given.protected, name)
    }
}
