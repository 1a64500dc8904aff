//! What a path that is not there may mean: the same name spelled otherwise, or a similar one.
//!
//! The same means: composed or decomposed letters, any kind of space, straight or curly quotes. Nothing that could turn
//! a name into another path is folded.

use helve_core::files::{FileKind, Files, ListRequest};
use helve_core::limits::fixed::NEAR_NAMES;
use unicode_normalization::UnicodeNormalization;

/// How many pairs of characters are compared to find similar names.
const PAIRS: usize = 4_000_000;
/// How many similar ones are told.
const TOLD: usize = 3;
/// How many directories upwards are looked at.
const UPWARDS: usize = 8;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Near {
    /// Paths that spell the same.
    pub(super) same: Vec<String>,
    /// Similar paths.
    pub(super) like: Vec<String>,
    /// A directory of the path that does not exist.
    pub(super) missing_directory: Option<String>,
}

/// Looks around a path that is not there.
pub(super) async fn look(files: &dyn Files, path: &str) -> Near {
    let mut near = Near::default();
    let mut missing = path.trim_end_matches('/');
    for step in 0..UPWARDS {
        let (parent, name) = match missing.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((parent, name)) => (parent, name),
            None => (".", missing),
        };
        if matches!(name, "" | "." | "..") {
            return near;
        }
        let Ok(listed) = files.list(&ListRequest::all(parent, NEAR_NAMES)).await else {
            near.missing_directory = Some(parent.to_owned());
            if parent == "." || parent == "/" {
                return Near::default();
            }
            missing = parent;
            continue;
        };
        let is_last = step == 0;
        let wanted = listed.entries.into_iter().filter(|entry| match entry.kind {
            FileKind::File | FileKind::Link => is_last,
            FileKind::Directory => !is_last,
            FileKind::Other => false,
        });
        let names: Vec<String> = wanted.map(|entry| entry.path).collect();
        let full = |other: &str| match missing.rsplit_once('/') {
            Some((parent, _)) => format!("{parent}/{other}"),
            None => other.to_owned(),
        };
        if is_last {
            near.same = spelled_the_same(name, &names).into_iter().map(full).collect();
        } else {
            near.missing_directory = Some(missing.to_owned());
        }
        near.like = similar(name, &names).into_iter().map(full).collect();
        return near;
    }
    near
}

fn spelled_the_same<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let wanted = fold(name);
    let without_mark = name.strip_prefix('@').map(fold);
    let same = |other: &&String| {
        let other = fold(other);
        other == wanted || Some(&other) == without_mark.as_ref()
    };
    names.iter().filter(same).map(String::as_str).collect()
}

fn fold(name: &str) -> String {
    name.nfc()
        .map(|c| match c {
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            '\u{2018}'..='\u{201b}' | '\u{2bc}' => '\'',
            '\u{201c}'..='\u{201f}' => '"',
            c => c,
        })
        .collect()
}

/// Names that differ in at most two fifths of their characters, two swapped ones counting once; the nearest first.
fn similar<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut pairs = PAIRS;
    for other in names {
        let lower = other.to_lowercase();
        let count = lower.chars().count();
        if count.abs_diff(length) * 5 > length * 2 {
            continue;
        }
        // Many long names are more than a hint is worth.
        let Some(left) = pairs.checked_sub(count * length) else { break };
        pairs = left;
        let distance = strsim::osa_distance(&wanted, &lower);
        if distance * 5 <= length * 2 {
            found.push((distance, other));
        }
    }
    found.sort();
    found.into_iter().take(TOLD).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn names_are_similar_by_few_letters_and_very_many_long_ones_are_not_compared() {
        let names = ["main.rs", "mian.rs", "other.rs"].map(str::to_owned);
        assert_eq!(similar("Main.rs", &names), ["main.rs", "mian.rs"]);
        let long = |n: usize| format!("{n:0250}");
        let mut many: Vec<String> = (0..5_000).map(long).collect();
        assert_eq!(similar(&long(7), &many)[0], long(7));
        many.rotate_left(8);
        assert!(!similar(&long(7), &many).contains(&long(7).as_str()));
    }
}
