//! Whether the index of a repository has an entry for another repository.
//!
//! Git works in one, by its settings, as soon as the index has it, itself or in a directory that it has as a whole. The
//! entries are read in versions 2 to 4, from the first one on. Git may begin at others as well, in blocks that the index
//! lists: each must start at an entry with its whole name, so that git reads the same ones. An index that does not fit counts
//! as one that has such an entry, and so does one that has a part in another file.

use std::path::Path;

use super::{Content, read};

/// The largest index that is read, in bytes.
const MAX_INDEX: u64 = 8 << 20;

/// How many bytes an entry has in front of its name, and how many the hash at the end of all has.
const FIXED: usize = 62;
const HASH: usize = 20;

/// Where the mode and the flags of an entry are.
const MODE: usize = 24;
const FLAGS: usize = 60;

/// The flag of an entry that has two bytes more, and the part that is the length of its name.
const EXTENDED: usize = 0x4000;
const LENGTH: usize = 0xfff;

/// The part of a mode that says what an entry is, and what it is for a file and for a link. Any other stands for another
/// repository, or for a directory whose entries are elsewhere.
const KIND: usize = 0xf000;
const FILE: usize = 0x8000;
const LINK: usize = 0xa000;

/// Whether the index in a git directory may hold another repository.
pub(super) fn holds_repositories(git: &Path) -> bool {
    match read(&git.join("index"), MAX_INDEX) {
        Content::Nothing => false,
        Content::Bytes(index) => is_plain(&index).is_none(),
        Content::TooMuch => true,
    }
}

/// Says that an index has entries for files and links only, all in this one file.
fn is_plain(index: &[u8]) -> Option<()> {
    let version = number(index, 4, 4)?;
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut starts = Vec::new();
    let mut at = 12;
    let mut name = 0;
    for _ in 0..number(index, 8, 4)? {
        let entry = index.get(at..)?;
        if !matches!(number(entry, MODE, 4)? & KIND, FILE | LINK) {
            return None;
        }
        let measured = measure(entry, version, name)?;
        starts.push((measured.shared == 0).then_some(at));
        name = measured.name;
        at = at.checked_add(measured.size)?;
    }
    are_extensions_plain(index, at, &starts)
}

/// How long an entry is.
struct Measured {
    size: usize,
    /// How long its name is.
    name: usize,
    /// How much of the name is the beginning of the one before.
    shared: usize,
}

/// Measures an entry behind one with a name of so many bytes. In version 4 a name begins with a part of that.
fn measure(entry: &[u8], version: usize, before: usize) -> Option<Measured> {
    let flags = number(entry, FLAGS, 2)?;
    let mut at = if flags & EXTENDED == 0 { FIXED } else { FIXED + 2 };
    let mut shared = 0;
    if version == 4 {
        let (left_out, size) = variable(entry.get(at..)?)?;
        at += size;
        shared = before.checked_sub(left_out)?;
    }
    let own = entry.get(at..)?.iter().position(|byte| *byte == 0)?;
    let name = shared + own;
    if flags & LENGTH != name.min(LENGTH) {
        return None;
    }
    // Without a shared part an entry ends with one to eight zeros, at a multiple of eight.
    let size = if version == 4 { at + own + 1 } else { (at + own + 8) & !7 };
    Some(Measured { size, name, shared })
}

/// Says that what follows the entries names no other file, and leads git to no other entries: where they are large, git
/// may read them from several places at once, which stand there.
fn are_extensions_plain(index: &[u8], first: usize, starts: &[Option<usize>]) -> Option<()> {
    let end = index.len().checked_sub(HASH)?;
    // Git looks for where the entries end at a fixed place.
    let told = index.get(end.saturating_sub(32)..end)?;
    if told.starts_with(b"EOIE") && number(told, 8, 4)? != first {
        return None;
    }
    let mut at = first;
    while at + 8 <= end {
        let size = number(index, at + 4, 4)?;
        let content = index.get(at + 8..end)?.get(..size)?;
        match index.get(at..at + 4)? {
            b"link" => return None,
            b"IEOT" => are_starts(content, starts)?,
            _ => {}
        }
        at += 8 + size;
    }
    (first <= end).then_some(())
}

/// Says that the places from which git may read entries are those where they start, with a name that is whole there: git
/// does not look at the entry before.
fn are_starts(content: &[u8], starts: &[Option<usize>]) -> Option<()> {
    let mut next = 0;
    for place in content.get(4..)?.chunks(8) {
        if Some(number(place, 0, 4)?) != *starts.get(next)? {
            return None;
        }
        next = next.checked_add(number(place, 4, 4)?)?;
    }
    (next == starts.len()).then_some(())
}

/// A number of so many bytes, the highest first.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.get(..size)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// A number of as many bytes as it needs, and how many these are.
fn variable(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0_usize;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        number = number << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
        number += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of version 2 with a mode, a hash that begins with a byte, and a name.
    fn entry(mode: u32, hash: u8, name: &str) -> Vec<u8> {
        let mut entry = vec![0; FIXED];
        entry[MODE..MODE + 4].copy_from_slice(&mode.to_be_bytes());
        entry[40] = hash;
        entry[FLAGS..].copy_from_slice(&u16::try_from(name.len()).unwrap().to_be_bytes());
        entry.extend(name.bytes());
        entry.resize((entry.len() + 8) & !7, 0);
        entry
    }

    fn index(entries: &[Vec<u8>], more: &[u8]) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap().to_be_bytes();
        [b"DIRC\0\0\0\x02".as_slice(), &count, &entries.concat(), more, &[0; HASH]].concat()
    }

    fn extension(name: &[u8; 4], content: &[u32]) -> Vec<u8> {
        let content: Vec<u8> = content.iter().flat_map(|number| number.to_be_bytes()).collect();
        [name.as_slice(), &u32::try_from(content.len()).unwrap().to_be_bytes(), &content].concat()
    }

    #[test]
    fn an_entry_counts_by_its_mode_and_by_nothing_else() {
        let file = entry(0o100_644, 0xe0, "a");
        let mut sized = entry(0o100_644, 0, "some/longer/name");
        sized[36..40].copy_from_slice(&0xe0_u32.to_be_bytes());
        let mut large = entry(0o120_000, 0, "b");
        large[36..40].copy_from_slice(&0xe000_u32.to_be_bytes());
        let plain = [file.clone(), sized, large];
        assert!(is_plain(&index(&plain, b"")).is_some() && is_plain(&index(&[], b"")).is_some());
        for mode in [0o160_000, 0o160_644, 0x1_e000, 0o040_000, 0o060_000, 0] {
            let inside = index(&[file.clone(), entry(mode, 1, "n"), file.clone()], b"");
            assert!(is_plain(&inside).is_none(), "{mode:o}");
        }
        let whole = index(&plain, b"");
        for cut in 0..whole.len() {
            assert!(is_plain(&whole[..cut]).is_none(), "{cut}");
        }
        let mut other = whole.clone();
        other[7] = 5;
        assert!(is_plain(&other).is_none());
        let mut other = whole;
        other[12 + FLAGS + 1] = 2;
        assert!(is_plain(&other).is_none());
    }

    #[test]
    fn what_leads_git_to_other_entries_counts() {
        let entries = [entry(0o100_644, 0, "a"), entry(0o100_644, 0, "b")];
        let is_plain = |more: &[u8]| is_plain(&index(&entries, more)).is_some();
        assert!(is_plain(&extension(b"TREE", &[1, 2])));
        assert!(!is_plain(&[extension(b"TREE", &[1, 2]), extension(b"link", &[])].concat()));
        assert!(!is_plain(b"TREE\0\0\0\x09\0\0\0\0"));
        for (places, plain) in [
            (&[1, 12, 1, 76, 1][..], true),
            (&[1, 12, 2], true),
            (&[1, 12, 1], false),
            (&[1, 12, 1, 80, 1], false),
            (&[1, 76, 1, 12, 1], false),
            (&[1, 12, 2, 76, 0], false),
            (&[1, 12, 1, 76], false),
        ] {
            assert_eq!(is_plain(&extension(b"IEOT", places)), plain, "{places:?}");
        }
        assert!(is_plain(&extension(b"EOIE", &[140, 0, 0, 0, 0, 0])));
        assert!(!is_plain(&extension(b"EOIE", &[76, 0, 0, 0, 0, 0])));
    }

    /// In version 4, git reads no part of the name before where a block starts.
    #[test]
    fn a_block_starts_with_a_whole_name() {
        let entry = |left_out: u8, own: &str, name: usize| {
            let mut entry = entry(0o100_644, 0, "");
            entry.truncate(FIXED);
            entry[FLAGS..].copy_from_slice(&u16::try_from(name).unwrap().to_be_bytes());
            [entry.as_slice(), &[left_out], own.as_bytes(), b"\0"].concat()
        };
        let is_plain = |entries: &[Vec<u8>], places: &[u32]| {
            let mut index = index(entries, &extension(b"IEOT", places));
            index[7] = 4;
            is_plain(&index).is_some()
        };
        let whole = [entry(0, "aa", 2), entry(2, "ab", 2)];
        assert!(is_plain(&whole, &[1, 12, 1, 78, 1]) && is_plain(&whole, &[1, 12, 2]));
        let shared = [entry(0, "aa", 2), entry(1, "b", 2)];
        assert!(!is_plain(&shared, &[1, 12, 1, 78, 1]) && is_plain(&shared, &[1, 12, 2]));
    }
}
