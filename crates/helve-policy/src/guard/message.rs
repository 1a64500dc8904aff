//! A decision in the words that a person or a model reads.

use std::borrow::Cow;

use helve_core::Decision;

use super::outside::is_traversal;
use super::{TOO_COMPLEX, UNREADABLE, WORKING_DIR};
use crate::config::keys::{EXEC_ALLOW, EXEC_DENY, EXEC_RESTRICT, RULES_OTHERWISE};

/// The longest piece of the command that is quoted back, in characters.
const EXCERPT: usize = 120;

/// The longest reason and the longest grant, in characters.
const MAX_TEXT: usize = 2_000;

/// The text for a refused command: the first line says which kind of refusal it is, the next lines which rule
/// refused, why, and what the owner could change.
pub fn blocked_message(decision: &Decision, command: &str) -> String {
    let found = decision.span.and_then(|(start, end)| command.get(start..end));
    let kind = match decision.rule.as_str() {
        EXEC_ALLOW => "not in allowlist",
        EXEC_RESTRICT if found.is_some_and(is_traversal) => "path traversal detected",
        EXEC_RESTRICT => "path outside working dir",
        WORKING_DIR => "working_dir outside the view",
        UNREADABLE | TOO_COMPLEX => "cannot be read",
        rule if rule.starts_with("guard.") || rule.starts_with(EXEC_DENY) => "dangerous pattern detected",
        RULES_OTHERWISE => "allowed by no rule",
        _ => "denied by a rule of the owner",
    };
    let mut text = format!("Error: Command blocked by safety guard ({kind})\nRule {}", decision.rule);
    match &decision.reason {
        Some(reason) => text.push_str(&format!(": {}", sentence(reason))),
        None => text.push('.'),
    }
    if let Some(found) = found.map(excerpt).filter(|found| !found.is_empty()) {
        text.push_str(&format!(" Found: {found}"));
    }
    if let Some(grant) = &decision.grant {
        text.push_str("\nThe owner can allow it in helve.toml: ");
        text.push_str(grant);
    }
    text
}

/// A reason with a full stop behind it, unless it ends as a sentence does.
pub fn sentence(reason: &str) -> Cow<'_, str> {
    let reason = reason.trim_end();
    if reason.ends_with(['.', '!', '?', '…']) { reason.into() } else { format!("{reason}.").into() }
}

/// The decision with texts that a person can read, however long the command and the owner's lists are.
pub(crate) fn short(mut decision: Decision) -> Decision {
    for text in [&mut decision.reason, &mut decision.grant].into_iter().flatten() {
        if let Cow::Owned(cut) = cut(text, MAX_TEXT) {
            *text = cut;
        }
    }
    decision
}

/// The start of a text on one line.
fn excerpt(text: &str) -> String {
    let short = cut(text, EXCERPT);
    short.chars().map(|ch| if ch.is_control() { ' ' } else { ch }).collect::<String>().trim().to_owned()
}

/// The text, or if it is longer than `most` characters its start and a mark.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    let ends_behind = |most: usize| text.char_indices().nth(most).map(|(at, _)| at);
    match (ends_behind(most), most.checked_sub(1).and_then(ends_behind)) {
        (Some(_), Some(end)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        _ => Cow::Borrowed(text),
    }
}
