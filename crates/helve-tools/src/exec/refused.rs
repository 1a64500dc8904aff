//! What was refused to a command, for the reader of its result.
//!
//! The details name each with its rule and grant. The text names what and the rule, and where the owner finds the grant: what
//! may be opened is the owner's to weigh, and no line in a result is an invitation to ask for it.

use std::fmt::Write as _;

use helve_core::{CallId, Explained};

/// How many refusals the details name.
pub(super) const MOST: usize = 20;
/// How many the text names.
const LINES: usize = 5;

/// A line for each of the first few. A bound that was passed is told at the top of the text already.
pub(super) fn text(refused: &[Explained], call: &CallId) -> Option<String> {
    let refused: Vec<&Explained> = refused.iter().filter(|one| one.act != Explained::LIMIT).collect();
    if refused.is_empty() {
        return None;
    }
    let mut text = String::new();
    for one in refused.iter().take(LINES) {
        let times = if one.times > 1 { format!(", {} times", one.times) } else { String::new() };
        let _ = write!(text, "\nRefused by the sandbox: {} ({}{times})", one.what(), one.rule);
    }
    if let Some(more) = refused.len().checked_sub(LINES).filter(|more| *more > 0) {
        let _ = write!(text, "\nRefused by the sandbox: {more} more");
    }
    let _ = write!(text, "\nOnly the owner can change that; `helve why {call}` tells how.");
    Some(text)
}
