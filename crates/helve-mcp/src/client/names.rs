//! Names under which a model sees the tools of servers: `mcp__server__tool`, at most 64 bytes of `[A-Za-z0-9_-]`.
//!
//! A name depends on the server and the tool alone, never on what else is listed: it means the same tool for ever, and
//! nothing that a server adds can take another's name. Where letters had to be replaced or left out, a fingerprint of the
//! whole name follows. A server whose name holds `__` or ends with `_` gets one always, because its names could be read as
//! another's; and so does a name that ends as if a fingerprint followed. So a name without one says its server and its tool
//! in one way, and is never one with a fingerprint.

/// The longest name that the model APIs take.
const LONGEST: usize = 64;
/// Digits of a fingerprint.
const SUFFIX: usize = 8;
/// The longest name of a server's that is looked at.
const LONGEST_OWN: usize = 256;

/// Why a name cannot be used; none if it can.
pub(crate) fn fault(tool: &str) -> Option<String> {
    if tool.is_empty() {
        return Some("its name is empty".to_owned());
    }
    if tool.len() > LONGEST_OWN {
        return Some(format!("its name has {} bytes, more than {LONGEST_OWN}", tool.len()));
    }
    let odd = tool.chars().find(|c| !c.is_ascii() || c.is_ascii_control())?;
    let what = if odd.is_control() { "a control character" } else { "a letter that may pass for another" };
    Some(format!("its name holds {what} (U+{:04X})", odd as u32))
}

/// The name of a tool whose own name has no fault.
pub fn shown_name(server: &str, tool: &str) -> String {
    let whole = format!("mcp__{server}__{tool}");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let unique = !server.contains("__") && !server.ends_with('_');
    if unique && whole.len() <= LONGEST && whole.chars().all(plain) && !has_suffix(&whole) {
        return whole;
    }
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let name: String = whole.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    with_suffix(name, &hash)
}

/// A plain name that fits, with a fingerprint where it had to be cut.
pub(crate) fn fitted(name: &str) -> String {
    match name.len() <= LONGEST {
        true => name.to_owned(),
        false => with_suffix(name.to_owned(), &blake3::hash(name.as_bytes()).to_hex()),
    }
}

/// Whether a name ends as one with a fingerprint does.
fn has_suffix(name: &str) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let end = name.as_bytes().last_chunk::<{ SUFFIX + 1 }>();
    end.is_some_and(|end| end.starts_with(b"_") && end.iter().skip(1).all(is_digit))
}

fn with_suffix(mut name: String, hash: &str) -> String {
    let suffix = hash.get(..SUFFIX).unwrap_or_default();
    name.truncate(LONGEST - 1 - suffix.len());
    format!("{name}_{suffix}")
}

/// Whether a tool that is shown under this name could be of that server.
pub(crate) fn could_be_of(shown: &str, server: &str) -> bool {
    let start: String = format!("mcp__{server}__").chars().take(LONGEST - 9).collect();
    shown.starts_with(&start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn plain_names_stay() {
        assert_eq!(shown_name("files", "read_file"), "mcp__files__read_file");
        assert_eq!(shown_name("a", "_b"), "mcp__a___b");
        assert_eq!(shown_name("a", "b__c"), "mcp__a__b__c");
        assert_eq!(shown_name("git", "log_2024_deadbee"), "mcp__git__log_2024_deadbee");
    }

    #[test]
    fn what_would_collide_does_not() {
        let pairs = [
            ("s", "a.b"),
            ("s", "a b"),
            ("s", "a/b"),
            ("s", "a_b"),
            ("a__b", "c"),
            ("a", "b__c"),
            ("a_", "b"),
            ("a", "_b"),
        ];
        let names: BTreeSet<String> = pairs.iter().map(|(server, tool)| shown_name(server, tool)).collect();
        assert_eq!(names.len(), pairs.len());
    }

    #[test]
    fn nobody_takes_a_name_with_a_fingerprint() {
        for (server, tool) in [("a__b", "c"), ("s", "a.b"), ("s_", "t")] {
            let taken = shown_name(server, tool);
            let rest = taken.strip_prefix("mcp__").unwrap();
            for (at, _) in rest.match_indices("__") {
                let (thief, like) = (&rest[..at], &rest[at + 2..]);
                assert_ne!(shown_name(thief, like), taken, "{thief} {like}");
            }
        }
        assert_ne!(shown_name("a", "deadbeef"), "mcp__a__deadbeef");
    }

    #[test]
    fn odd_names_are_refused_with_the_reason() {
        assert_eq!(fault("read_file"), None);
        assert_eq!(
            fault("re\u{0430}d").unwrap(),
            "its name holds a letter that may pass for another (U+0430)"
        );
        assert_eq!(fault("a\u{1b}[2J").unwrap(), "its name holds a control character (U+001B)");
        assert_eq!(fault(&"a".repeat(10_000)).unwrap(), "its name has 10000 bytes, more than 256");
        assert_eq!(fault("").unwrap(), "its name is empty");
    }

    proptest! {
        #[test]
        fn every_name_fits(server in "[A-Za-z0-9_-]{1,80}", tool in "[ -~]{1,120}") {
            let name = shown_name(&server, &tool);
            prop_assert!(name.len() <= LONGEST);
            prop_assert!(could_be_of(&name, &server));
            prop_assert!(name.starts_with("mcp__"));
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        }

        /// Two tools have two names, also where one server chooses a name after it has seen another's.
        #[test]
        fn no_two_tools_have_one_name(
            one in ("[ab_]{1,4}", "[ab_.]{1,5}"),
            other in ("[ab_]{1,4}", "[ab_.]{1,5}"),
            after in prop::sample::select(vec!["", "one", "other"]),
            cut in 0usize..8,
        ) {
            let shown = |pair: &(String, String)| shown_name(&pair.0, &pair.1);
            let seen = match after {
                "one" => shown(&one),
                "other" => shown(&other),
                _ => format!("mcp__{}__{}", other.0, other.1),
            };
            let rest = seen.trim_start_matches("mcp__");
            let cuts: Vec<usize> = rest.match_indices("__").map(|(at, _)| at).filter(|at| *at > 0).collect();
            let chosen = match cuts.get(cut % cuts.len().max(1)) {
                Some(at) if at + 2 < rest.len() => (rest[..*at].to_owned(), rest[at + 2..].to_owned()),
                _ => other.clone(),
            };
            let all: BTreeSet<&(String, String)> = [&one, &other, &chosen].into_iter().collect();
            let names: BTreeSet<String> = all.iter().map(|pair| shown(pair)).collect();
            prop_assert_eq!(names.len(), all.len(), "{:?}", all);
        }
    }
}
