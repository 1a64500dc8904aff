//! A journal's record of itself: how many entries, how many bytes, the newest hash.
//!
//! The same small text stands in two places. `sessions/<name>/head` is rewritten by every append, or by whoever stays when it rests, and shows a
//! cut tail. `heads/<name>`, the *witness*, lies outside the session's directory and shows that journal and head were
//! put back or removed together. It is moved forward by whoever appends (at the first entry, now and then, and at the
//! end), by a check and by an index sync, and only while the journal still contains what it has seen before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use blake3::Hash;
use rustix::fs::OFlags;

use crate::line::{ENDING_BYTES, Ending, genesis, hex, parse_hash, parse_u64};
use crate::{Home, StoreError, files};

/// Every head takes exactly this many bytes, so that it is replaced by one write in place.
const HEAD_BYTES: usize = 120;
const EMPTY_TEXT: &[u8; HEAD_BYTES] = b"helve-head 1 00000000000000000000 00000000000000000000 \
    0000000000000000000000000000000000000000000000000000000000000000\n";
/// The largest number that a head may hold.
const MOST: u64 = u64::MAX / 2;
pub(crate) const WITNESSES: &str = "heads";

/// The state of a journal after its newest entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Entries written; also the sequence number of the newest.
    pub(crate) count: u64,
    /// Bytes that they take.
    pub(crate) bytes: u64,
    /// Hash of the newest entry.
    pub(crate) hash: Hash,
}

impl Head {
    /// The head of a session in which nothing has happened.
    pub(crate) fn empty(session: &str) -> Head {
        Head { count: 0, bytes: 0, hash: genesis(session) }
    }

    /// Reads a head; `None` when the file is empty, or holds anything but a head.
    pub(crate) fn read(file: &File) -> io::Result<Option<Head>> {
        // One byte more than a head has, so that a longer file is not taken for one.
        let mut text = [0_u8; HEAD_BYTES + 1];
        loop {
            match file.read_at(&mut text, 0) {
                Ok(count) => return Ok(Head::parse(&text[..count])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.text(), 0)
    }

    /// Whether the journal has this head's newest entry where it stood. Only the end of that line is read; whether
    /// its content is what was written is for a check to say.
    pub(crate) fn is_in(&self, journal: &File, session: &str) -> io::Result<bool> {
        if self.count == 0 {
            return Ok(*self == Head::empty(session));
        }
        let mut ending = [0_u8; ENDING_BYTES];
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX).min(ENDING_BYTES);
        match journal.read_exact_at(&mut ending[..length], self.bytes - length as u64) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let ending = ending[..length].strip_suffix(b"\n").and_then(Ending::parse);
        Ok(ending.is_some_and(|ending| ending.seq == self.count && ending.hash == self.hash))
    }

    /// Written by hand because every append does it.
    fn text(&self) -> [u8; HEAD_BYTES] {
        let mut text = *EMPTY_TEXT;
        write_padded(&mut text[13..33], self.count);
        write_padded(&mut text[34..54], self.bytes);
        text[55..119].copy_from_slice(&hex(&self.hash));
        text
    }

    fn parse(text: &[u8]) -> Option<Head> {
        let mut words = text.strip_suffix(b"\n")?.split(|&byte| byte == b' ');
        if text.len() != HEAD_BYTES || words.next()? != b"helve-head" || words.next()? != b"1" {
            return None;
        }
        let head = Head {
            count: parse_padded(words.next()?)?,
            bytes: parse_padded(words.next()?)?,
            hash: parse_hash(words.next()?)?,
        };
        words.next().is_none().then_some(head)
    }
}

fn write_padded(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Reads a padded number. No journal comes near the limit, so that callers may count on.
fn parse_padded(digits: &[u8]) -> Option<u64> {
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count().min(digits.len().checked_sub(1)?);
    parse_u64(&digits[zeros..]).filter(|&value| value <= MOST)
}

/// What the witness says of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Witness {
    /// There is none, or nothing has been written to it yet.
    Missing,
    /// It holds anything but a head.
    Unreadable,
    /// The newest head that it has seen.
    Saw(Head),
}

impl Witness {
    pub(crate) fn head(self) -> Option<Head> {
        match self {
            Witness::Saw(head) => Some(head),
            Witness::Missing | Witness::Unreadable => None,
        }
    }
}

/// Asks the witness of a session.
pub(crate) fn ask_witness(home: &Home, session: &str) -> Result<Witness, StoreError> {
    let ask = || -> io::Result<Witness> {
        let Some(dir) = files::open_dir(home.dir(), WITNESSES)? else { return Ok(Witness::Missing) };
        let Some(file) = files::open_to_read(&dir, session)? else { return Ok(Witness::Missing) };
        Ok(match Head::read(&file)? {
            Some(head) => Witness::Saw(head),
            None if file.metadata()?.len() == 0 => Witness::Missing,
            None => Witness::Unreadable,
        })
    };
    ask().map_err(|error| StoreError::io("cannot read the witness", session, error))
}

/// The newest head of a session that the witness has seen.
pub(crate) fn read_witness(home: &Home, session: &str) -> Result<Option<Head>, StoreError> {
    ask_witness(home, session).map(Witness::head)
}

/// Remembers a head as seen. Callers make sure that the journal still contains the witness that stood before.
pub(crate) fn write_witness(home: &Home, session: &str, head: &Head) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let dir = files::make_dir(home.dir(), WITNESSES)?;
        let file = files::open_or_make(&dir, session, OFlags::RDWR)?;
        let lock = files::Lock::exclusive(&file)?;
        // Two may write at once; the one that saw less does not set the other back.
        let known = Head::read(&file)?.is_some_and(|old| old.count >= head.count);
        if !known {
            head.write(&file)?;
        }
        drop(lock);
        Ok(())
    };
    write().map_err(|error| StoreError::io("cannot write the witness", session, error))
}

/// Where the witness of a session lies, for messages.
pub(crate) fn witness_path(home: &Home, session: &str) -> String {
    home.path().join(WITNESSES).join(session).display().to_string()
}

/// Forgets a session that is removed on purpose.
pub(crate) fn remove_witness(home: &Home, session: &str) -> Result<(), StoreError> {
    let remove = || match files::open_dir(home.dir(), WITNESSES)? {
        Some(dir) => files::remove_file(&dir, session),
        None => Ok(()),
    };
    remove().map_err(|error| StoreError::io("cannot remove the witness", session, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_back_and_anything_else_is_not() {
        let head = Head { count: MOST, bytes: 1200, hash: genesis("x") };
        let text = String::from_utf8(head.text().to_vec()).unwrap();
        let expected = format!("helve-head 1 0{MOST} 00000000000000001200 {}\n", genesis("x").to_hex());
        assert_eq!(text, expected);
        assert_eq!(Head::parse(text.as_bytes()), Some(head));
        for cut in 0..text.len() {
            assert_eq!(Head::parse(&text.as_bytes()[..cut]), None, "cut at {cut}");
        }
        let too_large = text.replace(&MOST.to_string(), &(MOST + 1).to_string());
        for bad in
            [text.replace("helve-head", "helve_head"), text.to_uppercase(), format!("{text}\n"), too_large]
        {
            assert_eq!(Head::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
