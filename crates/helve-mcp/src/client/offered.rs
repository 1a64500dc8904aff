//! Which of a server's tools the owner offers: lists of patterns of the server's own names, and single names.

use std::collections::BTreeSet;

use globset::{Glob, GlobSet, GlobSetBuilder};
use helve_core::ServerSpec;

/// The owner's lists of tools.
pub(crate) struct Offered {
    allow: Option<GlobSet>,
    deny: GlobSet,
    off: BTreeSet<String>,
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
        let allow = spec.allow.as_ref().map(|allow| set(allow).unwrap_or_default());
        let everything = || set(&["*".to_owned()]).unwrap_or_default();
        Offered { allow, deny: set(&spec.deny).unwrap_or_else(everything), off: spec.off.clone() }
    }

    pub(crate) fn offers(&self, tool: &str) -> bool {
        !self.off.contains(tool)
            && !self.deny.is_match(tool)
            && self.allow.as_ref().is_none_or(|allow| allow.is_match(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::spec;
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn an_empty_list_offers_nothing_and_none_offers_everything() {
        let offers = |allow: Option<&[&str]>, tool: &str| {
            let allow = allow.map(|list| list.iter().map(|name| (*name).to_owned()).collect());
            Offered::new(&ServerSpec { allow, ..spec("s") }).offers(tool)
        };
        assert_eq!((offers(None, "a"), offers(Some(&[]), "a")), (true, false));
        assert_eq!((offers(Some(&["a*"]), "ab"), offers(Some(&["a*"]), "b")), (true, false));
    }

    #[test]
    fn what_is_switched_off_is_a_name_and_no_pattern() {
        let off = ["x{y}", "a[b]", "c*", "d?"];
        let offered =
            Offered::new(&ServerSpec { off: off.map(str::to_owned).into_iter().collect(), ..spec("s") });
        assert_eq!(off.map(|tool| offered.offers(tool)), [false; 4]);
        assert_eq!(["xy", "ab", "cd", "de"].map(|tool| offered.offers(tool)), [true; 4]);
    }
}
