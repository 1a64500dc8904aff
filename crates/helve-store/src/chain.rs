//! Following a journal's chain and naming what does not fit.
//!
//! In: the pieces of a journal in file order. Out: findings. Each intact line says its place (`seq`) and the hash of
//! the line before it, so a break can be told apart: a line whose hash is wrong was changed; a number that never
//! comes was removed; one that comes later was moved; one that comes twice was added; a line that its successor does
//! not recognise was replaced together with its hash.

use blake3::Hash;

use crate::line::{Line, MOST_CALL_BYTES, genesis, is_call_byte};
use crate::reader::Piece;
use crate::verify::{Finding, FindingKind};

/// Findings and gaps beyond this are counted, not kept: a file of garbage has one on every line.
const MOST_FINDINGS: usize = 1000;

/// A run of numbers that has not been seen, and the line before which it is missing.
struct Gap {
    from: u64,
    to: u64,
    line: u64,
}

/// The state of a walk along one journal.
pub(crate) struct Chain {
    /// Whole lines seen.
    pub(crate) lines: u64,
    /// The highest number seen, lines that could not be read counted as the number they stand in for.
    pub(crate) last_seq: u64,
    /// The hash of the entry with that number; unknown when that line was changed.
    last_hash: Option<Hash>,
    last_line: u64,
    /// The call that the line with that number is of; empty if it is of none.
    last_call: String,
    /// The hash of a second line that claims the highest number.
    twin_hash: Option<Hash>,
    gaps: Vec<Gap>,
    findings: Vec<Finding>,
    /// Findings that were not kept.
    pub(crate) left_out: u64,
}

impl Chain {
    pub(crate) fn new(session: &str) -> Chain {
        Chain {
            lines: 0,
            last_seq: 0,
            last_hash: Some(genesis(session)),
            last_line: 0,
            last_call: String::new(),
            twin_hash: None,
            gaps: Vec::new(),
            findings: Vec::new(),
            left_out: 0,
        }
    }

    /// Takes the next whole line; returns it when it has the form of an entry and its own hash is right.
    pub(crate) fn follow<'a>(&mut self, piece: &Piece<'a>) -> Option<Line<'a>> {
        self.lines += 1;
        let line = match piece {
            Piece::Line(bytes) => Line::parse(bytes),
            Piece::TooLong | Piece::Torn => None,
        };
        match line {
            Some(line) if line.is_intact() => {
                self.place(&line);
                Some(line)
            }
            Some(line) => {
                self.unreadable(line.seq, "its content does not have the hash that it carries", line.call);
                None
            }
            None => {
                let call = match piece {
                    Piece::Line(bytes) => call_in(bytes),
                    Piece::TooLong | Piece::Torn => None,
                };
                self.unreadable(self.due(), "the line does not have the form of an entry", call);
                None
            }
        }
    }

    /// Ends the walk: what is still missing is not coming.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        for gap in std::mem::take(&mut self.gaps) {
            let what = if gap.from == gap.to {
                format!("entry {} is", gap.from)
            } else {
                format!("entries {} to {} are", gap.from, gap.to)
            };
            let message = format!("{what} missing before line {}", gap.line);
            self.report(FindingKind::Removed, gap.line, gap.from, message);
        }
        self.findings.sort_by_key(|finding| finding.line);
        self.findings
    }

    /// A changed line stands in for the number that is due, so that what follows is not called removed as well.
    fn unreadable(&mut self, seq: u64, why: &str, call: Option<&str>) {
        let message = format!("entry {seq} was changed: {why}{}", of_call(call));
        self.report(FindingKind::Changed, self.lines, seq, message);
        self.advance(self.due(), None, call);
    }

    fn place(&mut self, line: &Line<'_>) {
        let seq = line.seq;
        if seq == self.due() {
            self.check_link(line);
            self.advance(seq, Some(line.hash), line.call);
        } else if seq > self.last_seq {
            self.add_gap(Gap { from: self.due(), to: seq - 1, line: self.lines });
            self.advance(seq, Some(line.hash), line.call);
        } else if self.fill_gap(seq) {
            let message = format!(
                "entry {seq} was moved: it stands after entry {}{}",
                self.last_seq,
                of_call(line.call)
            );
            self.report(FindingKind::Reordered, self.lines, seq, message);
        } else if seq == self.last_seq && self.last_hash.is_none() {
            // The unreadable line before was an addition; this is the entry that it stood in for.
            self.advance(seq, Some(line.hash), line.call);
        } else {
            let message = format!(
                "entry {seq} was added: that number already stands on an earlier line{}",
                of_call(line.call)
            );
            self.report(FindingKind::Inserted, self.lines, seq, message);
            if seq == self.last_seq {
                self.twin_hash = Some(line.hash);
            }
        }
    }

    fn check_link(&mut self, line: &Line<'_>) {
        let Some(expected) = self.last_hash else { return };
        if line.prev == expected || self.twin_hash == Some(line.prev) {
            return;
        }
        if line.seq == 1 {
            let message =
                "the first entry begins the chain of another session: the journal was copied or renamed";
            self.report(FindingKind::OtherSession, self.lines, 1, message.to_owned());
        } else {
            let seq = line.seq - 1;
            let message = format!(
                "entry {seq} was replaced together with its hash: entry {} names another{}",
                line.seq,
                of_call(Some(&self.last_call).filter(|call| !call.is_empty()))
            );
            self.report(FindingKind::Changed, self.last_line, seq, message);
        }
    }

    fn advance(&mut self, seq: u64, hash: Option<Hash>, call: Option<&str>) {
        self.last_seq = seq;
        self.last_hash = hash;
        self.last_call.clear();
        self.last_call.push_str(call.unwrap_or_default());
        self.last_line = self.lines;
        self.twin_hash = None;
    }

    /// Takes a number out of the gap that it is missing from.
    fn fill_gap(&mut self, seq: u64) -> bool {
        let Some(index) = self.gaps.iter().position(|gap| (gap.from..=gap.to).contains(&seq)) else {
            return false;
        };
        let Gap { from, to, line } = self.gaps.swap_remove(index);
        if from < seq {
            self.add_gap(Gap { from, to: seq - 1, line });
        }
        if seq < to {
            self.add_gap(Gap { from: seq + 1, to, line });
        }
        true
    }

    fn add_gap(&mut self, gap: Gap) {
        if self.gaps.len() < MOST_FINDINGS {
            self.gaps.push(gap);
        } else {
            self.left_out += 1;
        }
    }

    /// The number that comes next. A forged line may carry the last number there is.
    fn due(&self) -> u64 {
        self.last_seq.saturating_add(1)
    }

    fn report(&mut self, kind: FindingKind, line: u64, seq: u64, message: String) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { line: Some(line), seq: Some(seq), kind, message });
        } else {
            self.left_out += 1;
        }
    }
}

/// Which call an entry is of, as the end of a sentence about it; nothing if it is of none.
pub(crate) fn of_call(call: Option<impl std::fmt::Display>) -> String {
    call.map(|call| format!("; it is of call {call}")).unwrap_or_default()
}

/// The call that a line says it is of, though it has lost its form.
fn call_in(line: &[u8]) -> Option<&str> {
    const MEMBER: &[u8] = b"\"call\":";
    let start = line.windows(MEMBER.len()).rposition(|part| part == MEMBER)? + MEMBER.len();
    let rest = line.get(start..)?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().take(MOST_CALL_BYTES + 1).position(|byte| *byte == b'"')?;
    let call =
        rest.get(..end).filter(|call| !call.is_empty() && call.iter().all(|&byte| is_call_byte(byte)))?;
    std::str::from_utf8(call).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_lost_its_form_may_still_name_its_call() {
        let call = |line: &str| call_in(line.as_bytes()).map(str::to_owned);
        let named = Some("c_1".to_owned());
        assert_eq!(call(r#"{"body":{"call":"x"},"call":"c_1","hash":"#), named);
        assert_eq!(call(r#"{"body": {}, "call": "c_1", "hash": ""}"#), named);
        for line in ["", r#""call":"#, r#""call":"""#, r#""call":"a b""#, r#""call":7"#] {
            assert_eq!(call(line), None, "{line}");
        }
        assert_eq!(call(&format!("\"call\":\"{}\"", "c".repeat(129))), None);
    }
}
