//! What was refused to a command in words for people: what it tried, the rule, and the smallest grant.
//!
//! It is made from [`crate::Denied`] and from bounds that a command passed, by whoever knows the configuration. Like the
//! evidence it is a hint, and nothing is ever decided by it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that was refused, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// What the command tried: `read`, `write`, `execute`, `connect`, `socket` or `system_call`; `limit` if it passed a
    /// bound.
    pub act: String,
    /// What it tried that on: a path, an address, the kind of a socket, the name of a system call; of a bound, what it did.
    pub subject: String,
    /// The rule that refused it: a key of the configuration with its entry or value, or what else did.
    pub rule: String,
    /// The lines of the configuration that would allow this, and as little else as can be; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Why nothing allows it, or what else such lines would open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How often it was tried.
    pub times: u32,
}

impl Explained {
    /// The act of a command that passed a bound.
    pub const LIMIT: &'static str = "limit";

    /// What the command tried, as the end of a sentence: `read /etc/shadow`, `connect to 192.0.2.1 port 443`.
    pub fn what(&self) -> String {
        let verb = match self.act.as_str() {
            "execute" => "run",
            "connect" => "connect to",
            "socket" => "make a socket",
            "system_call" => "call",
            // The subject is a whole phrase: `use more than 64 MiB of memory`.
            Self::LIMIT => return self.subject.clone(),
            other => other,
        };
        format!("{verb} {}", self.subject)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_was_tried_reads_as_a_sentence_goes_on() {
        for (act, subject, what) in [
            ("read", "/a", "read /a"),
            ("write", "/a", "write /a"),
            ("execute", "/a", "run /a"),
            ("connect", "192.0.2.1 port 443", "connect to 192.0.2.1 port 443"),
            ("socket", "AF_PACKET", "make a socket AF_PACKET"),
            ("system_call", "mount", "call mount"),
            (Explained::LIMIT, "use more than 1 GiB of memory", "use more than 1 GiB of memory"),
        ] {
            let explained = Explained {
                act: act.into(),
                subject: subject.into(),
                rule: String::new(),
                grant: None,
                note: None,
                times: 1,
            };
            assert_eq!(explained.what(), what);
        }
    }
}
