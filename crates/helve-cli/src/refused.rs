//! What a sandbox refused to a command, as people read it: what, by which rule, and what would allow it.
//!
//! The words come from the policy and from the process itself; they are made harmless here once more, because some come
//! from a journal.

use std::fmt::Write as _;

use helve::sandbox::Explained;
use serde::Deserialize;
use serde_json::Value;

use crate::harmless::{harmless, one_line};
use crate::ui;

/// How much of one path or address is shown.
const WHAT_CHARS: usize = 300;
/// How many are shown.
const MOST: usize = 20;

/// What the details of a result name, and how many more there were.
pub(crate) fn of_details(details: &Value) -> (Vec<Explained>, u64) {
    let all = details["denied"].as_array().into_iter().flatten();
    let all = all.filter_map(|one| Explained::deserialize(one).ok()).collect();
    (all, details["denied_more"].as_u64().unwrap_or(0))
}

/// Each in two or three lines.
pub(crate) fn told(all: &[Explained], more: u64) -> String {
    let mut text = String::new();
    for one in all.iter().take(MOST) {
        let times = if one.times > 1 { format!(" ({} times)", one.times) } else { String::new() };
        let what = one_line(&one.what(), WHAT_CHARS);
        let _ = writeln!(text, "{}: {what}{times}", ui::styled(ui::BAD, "refused"));
        let mut line = |name: &str, value: &str| {
            for (number, part) in value.lines().enumerate() {
                let name = if number == 0 { name } else { "" };
                let _ =
                    writeln!(text, "  {} {}", ui::styled(ui::FAINT, &format!("{name:6}")), harmless(part));
            }
        };
        line("rule", &one.rule);
        match &one.grant {
            Some(grant) => line("grant", grant),
            None => line("grant", "none"),
        }
        if let Some(note) = &one.note {
            line("note", note);
        }
    }
    let more = more + all.len().saturating_sub(MOST) as u64;
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

/// Says it beside the result, where a person sees it.
pub(crate) fn tell(all: &[Explained], more: u64) {
    if !all.is_empty() && ui::stderr_is_terminal() {
        ui::tell(&told(all, more));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_process_chose_as_a_name_does_nothing_to_a_terminal() {
        let details = json!({"denied": [
            {"act": "read", "subject": "/a\u{1b}[31m\nb", "rule": "r", "grant": "a = 1\nb = 2", "times": 2},
            {"act": "system_call", "subject": "mount", "rule": "f", "note": "n", "times": 1},
            {"act": "of another time"},
        ], "denied_more": 4});
        let (all, more) = of_details(&details);
        let text = anstream::adapter::strip_str(&told(&all, more)).to_string();
        let expected = "refused: read /a\\x1b[31m b (2 times)\n  rule   r\n  grant  a = 1\n         b = 2\n\
                        refused: call mount\n  rule   f\n  grant  none\n  note   n\nand 4 more\n";
        assert_eq!(text, expected);
    }
}
