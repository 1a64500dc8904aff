//! What the line numbers of a diff are worth.
//!
//! A number says where a hunk was in another version of the file. Where lines were added or removed since, text that
//! repeats puts the hunk's like at the old number. So a number counts together with how far the hunks around it are from
//! theirs, and where that leaves more than one place, the hunk is told as ambiguous.

use super::Hunk;
use super::locate::{Hits, Remark, Trouble};

/// What was found of each hunk so far.
pub(super) type Found = [Option<Result<Hits, Trouble>>];

/// Whether some hunk has one place only, and that is not where its number says.
pub(super) fn are_off(hunks: &[Hunk<'_>], found: &Found) -> bool {
    hunks.iter().zip(found).any(|(hunk, found)| offset(hunk, found).is_some_and(|offset| offset != 0))
}

/// Whether a hunk has nothing but a number to say where it belongs.
pub(super) fn is_all(hunk: &Hunk<'_>) -> bool {
    hunk.at.is_some() && hunk.headers.is_empty() && hunk.old().next().is_none()
}

/// Leaves of each hunk's places those that the numbers allow, and places those that have nothing but a number.
pub(super) fn choose(hunks: &[Hunk<'_>], found: &mut Found, lines: usize) {
    let sure: Vec<Option<isize>> =
        hunks.iter().zip(&*found).map(|(hunk, found)| offset(hunk, found)).collect();
    for ((hunk, found), (before, behind)) in hunks.iter().zip(found).zip(around(&sure)) {
        let Some(at) = hunk.at else { continue };
        if is_all(hunk) {
            *found = Some(added(at, before, behind, lines));
        } else if let Some(Ok(hits)) = found
            && hits.starts.len() > 1
        {
            narrow(hits, at, before, behind);
        }
    }
}

/// How far a hunk that has one place is from its number.
fn offset(hunk: &Hunk<'_>, found: &Option<Result<Hits, Trouble>>) -> Option<isize> {
    match (hunk.at, found) {
        (Some(at), Some(Ok(hits))) => match hits.starts[..] {
            [start] => Some(start.cast_signed() - at.cast_signed()),
            _ => None,
        },
        _ => None,
    }
}

/// For each hunk how far the nearest sure ones before and behind it are from their numbers. The start of a file is
/// always where it was.
fn around(sure: &[Option<isize>]) -> Vec<(isize, Option<isize>)> {
    let mut last = 0;
    let mut all: Vec<(isize, Option<isize>)> = Vec::with_capacity(sure.len());
    for offset in sure {
        all.push((last, None));
        last = offset.unwrap_or(last);
    }
    let mut next = None;
    for (one, offset) in all.iter_mut().zip(sure).rev() {
        one.1 = next;
        next = offset.or(next);
    }
    all
}

/// Keeps the places that are as far away as the hunks around say, or at the number itself unless those agree.
fn narrow(hits: &mut Hits, at: usize, before: isize, behind: Option<isize>) {
    let offsets: &[isize] = match behind {
        Some(behind) if behind == before => &[before],
        Some(behind) => &[before, behind, 0],
        None => &[before, 0],
    };
    let said = |start: &usize| offsets.iter().any(|offset| at.checked_add_signed(*offset) == Some(*start));
    let kept: Vec<usize> = hits.starts.iter().copied().filter(said).collect();
    if let [only] = kept[..]
        && only != at
    {
        hits.remarks.push(Remark::Number);
    }
    if !kept.is_empty() {
        hits.starts = kept;
    }
}

/// The place of lines that are added after a line of which only the number is known.
fn added(at: usize, before: isize, behind: Option<isize>, lines: usize) -> Result<Hits, Trouble> {
    if let Some(behind) = behind.filter(|behind| *behind != before) {
        return Err(Trouble::Adrift { line: at, before, behind });
    }
    let start = at.saturating_add_signed(before);
    // A new file's hunk starts at line 0, and so may one for a file that is empty.
    if start > lines {
        return Err(Trouble::Beyond { line: at, lines });
    }
    let remarks = if before == 0 { Vec::new() } else { vec![Remark::Number] };
    Ok(Hits { starts: vec![start], remarks, ..Hits::default() })
}
