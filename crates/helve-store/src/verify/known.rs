//! Does the chain fit what is known of it from outside: the head beside it, and the witness?

use super::{Finding, FindingKind, Found, outside};
use crate::chain::of_call;
use crate::head::Head;

/// Compares the chain with the head beside it.
pub(super) fn check_head(
    problems: &mut Vec<Finding>,
    notes: &mut Vec<String>,
    head: &Head,
    found: Option<&Found>,
    last_seq: u64,
    entries: u64,
    torn_bytes: u64,
) {
    if head.count > last_seq {
        let through = if torn_bytes > 0 { ", the first of them in part" } else { "" };
        let message = format!(
            "the last {} entries are gone{through}: the head counts {}, the journal ends after {last_seq}. \
             The tail was cut off, or an older copy of the journal was put back",
            head.count - last_seq,
            head.count
        );
        problems.push(Finding {
            line: Some(entries + 1),
            seq: Some(last_seq + 1),
            kind: FindingKind::CutTail,
            message,
        });
        return;
    }
    let known_to_be_bad = problems.iter().any(|problem| problem.seq == Some(head.count));
    if !found.is_some_and(|found| found.hash == head.hash) && !known_to_be_bad {
        let message = format!(
            "entry {} was replaced together with its hash: the head names another{}",
            head.count,
            of_call(found.and_then(|found| found.call.as_deref()))
        );
        problems.push(outside(FindingKind::Changed, Some(head.count), message));
    } else if head.count < last_seq && problems.is_empty() {
        let lag = last_seq - head.count;
        notes.push(format!(
            "the head lags by {lag} entries after an interrupted write; the next append adopts them"
        ));
    }
}

/// Compares the chain with what the witness has seen.
pub(super) fn check_witness(
    problems: &mut Vec<Finding>,
    witness: &Head,
    found: Option<&Found>,
    last_seq: u64,
    counted: u64,
) {
    let already_named = problems
        .iter()
        .any(|problem| problem.seq == Some(witness.count) || problem.kind == FindingKind::OtherSession)
        || (witness.count > last_seq && witness.count <= counted);
    if found.is_some_and(|found| found.hash == witness.hash) || already_named {
        return;
    }
    let message = if witness.count > last_seq {
        format!(
            "{} entries were seen earlier, journal and head now end after {last_seq}: an older copy of both was put back",
            witness.count
        )
    } else {
        format!(
            "entry {} is not the one that was seen earlier: an older copy was put back and continued, \
             or the journal was rewritten{}",
            witness.count,
            of_call(found.and_then(|found| found.call.as_deref()))
        )
    };
    problems.push(outside(FindingKind::OlderCopy, Some(witness.count), message));
}

/// Compares where a known entry ends with where it should. Who appends goes on from there.
pub(super) fn wrong_end(who: &str, head: Option<Head>, found: Option<&Found>) -> Option<Finding> {
    let (head, found) = (head?, found?);
    if found.hash != head.hash || found.end == head.bytes {
        return None;
    }
    let message = format!(
        "{who} was changed: it says that entry {} ends at byte {}, and it ends at byte {}",
        head.count, head.bytes, found.end
    );
    Some(outside(FindingKind::HeadDamaged, Some(head.count), message))
}
