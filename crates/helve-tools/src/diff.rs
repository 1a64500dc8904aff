//! What changed between two versions of a file, as a unified diff.
//!
//! What both versions start and end with is passed over first, so that a small change of a large file is cheap. A
//! difference that is too large to show is left out, never cut.

use std::ops::Range;
use std::time::{Duration, Instant};

use helve_core::limits::fixed::{DIFF_BYTES, DIFF_LINES, DIFF_TEXT};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use crate::edit::lines::ends;
use crate::paths;

/// Bytes that are compared at once.
const BLOCK: usize = 256;
/// Lines of context.
const CONTEXT: usize = 3;
/// After this time the comparison takes what it has.
const PATIENCE: Duration = Duration::from_millis(200);

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// A unified diff; none if it would be too large, or one side is no text.
    pub(crate) unified: Option<String>,
    /// The number of the first changed line, in the new version.
    pub(crate) first_line: usize,
}

/// What changed from one version to the other; none if they are the same.
pub(crate) fn between(path: &str, before: &[u8], after: &[u8]) -> Option<Difference> {
    let head = common_head(before, after);
    if head == before.len() && head == after.len() {
        return None;
    }
    let room = before.len().min(after.len()) - head;
    let tail = common_tail(&before[before.len() - room..], &after[after.len() - room..]);
    let ended = ends(&after[..head]);
    let old = widen(before, head..before.len() - tail);
    let new = widen(after, head..after.len() - tail);
    // Both sides are the same up to there.
    let skipped = ended - ends(&before[old.start..head]);
    let unified = unified(path, &before[old], &after[new], skipped);
    Some(Difference { unified, first_line: ended + 1 })
}

/// How many bytes both start with. Whole blocks are compared first, which is many times faster than byte by byte.
fn common_head(one: &[u8], other: &[u8]) -> usize {
    let same =
        one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count() * BLOCK;
    same + one[same..].iter().zip(&other[same..]).take_while(|(a, b)| a == b).count()
}

/// How many bytes both, which are equally long, end with.
fn common_tail(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.rchunks_exact(BLOCK).zip(other.rchunks_exact(BLOCK));
    let same = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let rest = one.len() - same;
    let pairs = one[..rest].iter().rev().zip(other[..rest].iter().rev());
    same + pairs.take_while(|(a, b)| a == b).count()
}

/// The lines that a range touches and those around them. The same bytes are before and behind on both sides, so both
/// sides are widened alike.
fn widen(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let mut start = range.start;
    for _ in 0..=CONTEXT {
        if start == 0 {
            break;
        }
        start = memchr::memrchr(b'\n', &bytes[..start - 1]).map_or(0, |at| at + 1);
    }
    let mut end = range.end;
    for _ in 0..=CONTEXT {
        end = memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |at| end + at + 1);
    }
    start..end
}

fn unified(path: &str, before: &[u8], after: &[u8], skipped: usize) -> Option<String> {
    if before.len().max(after.len()) > DIFF_BYTES || before.contains(&0) || after.contains(&0) {
        return None;
    }
    let old: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let new: Vec<&[u8]> = after.split_inclusive(|byte| *byte == b'\n').collect();
    if old.len() + new.len() > DIFF_LINES {
        return None;
    }
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE));
    let side = |side: &str| paths::shown(&format!("{side}/{path}"));
    let mut text = format!("--- {}\n+++ {}\n", side("a"), side("b"));
    for group in group_diff_ops(steps, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        text.push_str(&format!("@@ -{} +{} @@\n", shown(&old_range, skipped), shown(&new_range, skipped)));
        for step in &group {
            let (tag, old_lines, new_lines) = step.as_tag_tuple();
            if tag == DiffTag::Equal {
                put(&mut text, ' ', &old[old_lines]);
            } else {
                put(&mut text, '-', &old[old_lines]);
                put(&mut text, '+', &new[new_lines]);
            }
        }
        if text.len() > DIFF_TEXT {
            return None;
        }
    }
    Some(text)
}

/// `12,3` as hunks have it: an empty range names the line before it.
fn shown(range: &Range<usize>, skipped: usize) -> String {
    let start = skipped + range.start + usize::from(!range.is_empty());
    match range.len() {
        1 => start.to_string(),
        length => format!("{start},{length}"),
    }
}

fn put(text: &mut String, sign: char, lines: &[&[u8]]) {
    for line in lines {
        text.push(sign);
        text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        }
        if text.len() > DIFF_TEXT {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn diff(before: &str, after: &str) -> String {
        between("f", before.as_bytes(), after.as_bytes()).unwrap().unified.unwrap()
    }

    #[test]
    fn a_change_in_the_middle_has_its_line_numbers() {
        let before: String = (1..=50).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n30\n", "\nthirty\n");
        assert_eq!(
            diff(&before, &after),
            "--- a/f\n+++ b/f\n@@ -27,7 +27,7 @@\n 27\n 28\n 29\n-30\n+thirty\n 31\n 32\n 33\n"
        );
        assert_eq!(between("f", before.as_bytes(), after.as_bytes()).unwrap().first_line, 30);
        assert_eq!(between("f", b"same", b"same"), None);
    }

    #[test]
    fn ends_without_a_newline_are_told() {
        assert_eq!(diff("a", "a\n"), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        assert_eq!(diff("", "x\n"), "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n");
    }

    #[test]
    fn what_is_too_large_is_left_out() {
        let large = "x\n".repeat(DIFF_BYTES);
        assert_eq!(between("f", b"", large.as_bytes()).unwrap().unified, None);
        assert_eq!(between("f", b"\0", b"a").unwrap().unified, None);
    }

    /// Applies a diff as `patch` would.
    fn patched(before: &str, diff: &str) -> String {
        let mut rest: Vec<&str> = before.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        for line in diff.split_inclusive('\n').skip(2) {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (start, length) = header
                    .split(' ')
                    .next()
                    .unwrap()
                    .split_once(',')
                    .unwrap_or((header.split(' ').next().unwrap(), "1"));
                let start: usize = start.parse().unwrap();
                let from = if length == "0" { start } else { start - 1 };
                out.extend(rest.drain(..from - at));
                at = from;
            } else if line.starts_with('\\') {
                out.pop();
            } else if let Some(line) = line.strip_prefix('+') {
                out.push_str(line);
            } else {
                let old = rest.remove(0);
                at += 1;
                if let Some(line) = line.strip_prefix(' ') {
                    assert_eq!(line.trim_end_matches('\n'), old.trim_end_matches('\n'));
                    out.push_str(line);
                } else if !old.ends_with('\n') {
                    // The mark that follows takes the end off the last line that was written.
                    out.push('\n');
                }
            }
        }
        out.extend(rest);
        out
    }

    proptest! {
        #[test]
        fn heads_and_tails_are_those_that_a_plain_count_finds(
            length in 0..4 * BLOCK, more in 0..2_usize, at in prop::collection::vec(0..4 * BLOCK, 0..3),
        ) {
            let one = vec![b'a'; length];
            let mut other = vec![b'a'; length + more];
            for at in at.into_iter().filter(|at| *at < length) {
                other[at] = b'b';
            }
            let head = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_head(&one, &other), head);
            other.truncate(length);
            let tail = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_tail(&one, &other), tail);
        }

        #[test]
        fn applied_it_gives_the_new_version(before in "([ab]\n){0,20}[ab]?", after in "([ab]\n){0,20}[ab]?") {
            if let Some(found) = between("f", before.as_bytes(), after.as_bytes()) {
                prop_assert_eq!(patched(&before, &found.unified.unwrap()), after);
            }
        }
    }
}
