//! Which of a server's tools the owner offers: lists of patterns of the server's own names.

use globset::{Glob, GlobSet, GlobSetBuilder};
use helve_core::ServerSpec;

/// The owner's lists of tools.
pub(crate) struct Offered {
    allow: Option<GlobSet>,
    deny: GlobSet,
}

impl Offered {
    pub(crate) fn new(spec: &ServerSpec) -> Offered {
        // A pattern that is none allows nothing, and denies everything: the policy has refused it before this.
        let set = |patterns: &[String]| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                set.add(Glob::new(pattern).ok()?);
            }
            set.build().ok()
        };
        let allow = (!spec.allow.is_empty()).then(|| set(&spec.allow).unwrap_or_default());
        let everything = || set(&["*".to_owned()]).unwrap_or_default();
        Offered { allow, deny: set(&spec.deny).unwrap_or_else(everything) }
    }

    pub(crate) fn offers(&self, tool: &str) -> bool {
        !self.deny.is_match(tool) && self.allow.as_ref().is_none_or(|allow| allow.is_match(tool))
    }
}
