//! What a member's init says of refused acts: records of its log, one after another.
//!
//! An entry is the length of its body (two bytes), how often it was seen (four), and the body: a [`Kind`], and what that
//! kind has. The other side is a process of ours whose words come from a hostile one: everything is checked, and what cannot
//! be read ends the list.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The first number of such a message, where a `wire::Report` has another.
pub(crate) const TAG: u32 = 4;
/// The most bytes that one member's log has.
pub(crate) const LOG_BYTES: usize = 8192;
/// The longest such message.
pub(crate) const MESSAGE_BYTES: usize = size_of::<u32>() + LOG_BYTES;
/// What stands before each body.
pub(crate) const HEAD_BYTES: usize = 6;

/// Where names are looked up.
pub(crate) const NAMES_PORT: u16 = 53;

/// What a note is about: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A call: whether the filter refuses it, its number, three numbers of its arguments.
    Call = 1,
    /// An address: whether it is one of a datagram, the port, four or sixteen bytes.
    Address = 2,
    /// A path: an [`Act`], whether something stands there inside, the path.
    Path = 3,
}

/// What was tried with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Act {
    /// To read it.
    Read = 1,
    /// To change it.
    Write = 2,
    /// To run it.
    Execute = 3,
    /// To reach a socket of that name.
    Unix = 4,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// A call.
    Call { number: u32, told: [u32; 3], refused: bool },
    /// An address.
    Address { address: SocketAddr, datagram: bool },
    /// A path.
    Path { act: Act, stands: bool, path: PathBuf },
}

/// The notes of a call, each with how often it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes(pub(super) Vec<(Note, u32)>);

impl Notes {
    /// Takes a message, if it is one of notes: whether it is. A note that is known already counts as often as was said last.
    pub(super) fn take(&mut self, message: &[u8]) -> bool {
        let Some((tag, mut rest)) = message.split_first_chunk() else { return false };
        if u32::from_ne_bytes(*tag) != TAG {
            return false;
        }
        while let Some((note, times, after)) = first(rest) {
            match self.0.iter_mut().find(|(known, _)| *known == note) {
                Some((_, known)) => *known = times,
                None => self.0.push((note, times)),
            }
            rest = after;
        }
        true
    }
}

/// The first entry, and what comes after it.
fn first(entries: &[u8]) -> Option<(Note, u32, &[u8])> {
    let (length, rest) = entries.split_first_chunk()?;
    let (times, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(usize::from(u16::from_ne_bytes(*length)))?;
    Some((note(body)?, u32::from_ne_bytes(*times), rest))
}

fn note(body: &[u8]) -> Option<Note> {
    let (kind, rest) = body.split_first()?;
    let (first, rest) = rest.split_first()?;
    match *kind {
        kind if kind == Kind::Call as u8 => {
            let (number, rest) = rest.split_first_chunk()?;
            let (numbers, rest) = rest.as_chunks::<4>();
            let numbers: &[[u8; 4]; 3] = numbers.try_into().ok()?;
            let (number, told) = (u32::from_ne_bytes(*number), numbers.map(u32::from_ne_bytes));
            rest.is_empty().then_some(Note::Call { number, told, refused: *first == 1 })
        }
        kind if kind == Kind::Address as u8 => {
            let (port, rest) = rest.split_first_chunk()?;
            let address = match (<[u8; 4]>::try_from(rest), <[u8; 16]>::try_from(rest)) {
                (Ok(bytes), _) => IpAddr::V4(Ipv4Addr::from(bytes)),
                (_, Ok(bytes)) => IpAddr::V6(Ipv6Addr::from(bytes)),
                _ => return None,
            };
            let address = SocketAddr::new(address, u16::from_ne_bytes(*port));
            Some(Note::Address { address, datagram: *first == 1 })
        }
        kind if kind == Kind::Path as u8 => {
            let acts = [Act::Read, Act::Write, Act::Execute, Act::Unix];
            let act = acts.into_iter().find(|act| *act as u8 == *first)?;
            let (stands, path) = rest.split_first()?;
            let path = PathBuf::from(OsStr::from_bytes(path));
            path.is_absolute().then_some(Note::Path { act, stands: *stands == 1, path })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn entry(times: u32, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_ne_bytes();
        [&length[..], &times.to_ne_bytes(), body].concat()
    }

    fn message(entries: &[Vec<u8>]) -> Vec<u8> {
        [TAG.to_ne_bytes().to_vec(), entries.concat()].concat()
    }

    #[test]
    fn every_kind_is_read_and_a_repetition_replaces_the_count() {
        let call: Vec<u8> = [&[1, 1][..], &[165_u32, 7, 8, 9].map(u32::to_ne_bytes).concat()].concat();
        let address = [&[2, 0][..], &443_u16.to_ne_bytes(), &[192, 0, 2, 1]].concat();
        let path = [&[3, 2, 1][..], b"/a/b"].concat();
        let mut notes = Notes::default();
        assert!(notes.take(&message(&[entry(1, &call), entry(2, &address)])));
        assert!(notes.take(&message(&[entry(5, &call), entry(2, &path)])));
        let expected = vec![
            (Note::Call { number: 165, told: [7, 8, 9], refused: true }, 5),
            (Note::Address { address: "192.0.2.1:443".parse().unwrap(), datagram: false }, 2),
            (Note::Path { act: Act::Write, stands: true, path: "/a/b".into() }, 2),
        ];
        assert_eq!(notes.0, expected);
    }

    #[test]
    fn what_is_no_note_ends_the_list_and_other_records_are_none() {
        let mut notes = Notes::default();
        let path = [&[3, 1, 0][..], b"/x"].concat();
        for broken in [&b""[..], &[9, 9], &[1, 0, 1], &[2, 0, 0, 0, 1], &[3, 9, 0, b'/'], &[3, 1, 0, b'x']] {
            assert!(notes.take(&message(&[entry(1, broken), entry(1, &path)])));
            assert_eq!(notes, Notes::default());
        }
        let whole = message(&[entry(1, &path)]);
        for length in 4..whole.len() {
            assert!(notes.take(&whole[..length]));
            assert_eq!(notes, Notes::default());
        }
        assert!(!notes.take(&[1, 0, 0, 0]));
        assert!(!notes.take(b""));
    }
}
