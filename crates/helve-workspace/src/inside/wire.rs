//! What goes to the helper inside a sandbox and what comes back: a length, a header of JSON, and plain bytes after it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use helve_core::WireError;
use helve_core::files::{
    Act, Attributes, Change, Changed, ContentId, Expect, FileStat, Is, ListRequest, Listed, Owner, Page,
    PageRequest, PathRules, SearchRequest, Searched, WalkRequest, Walked,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One request: everything that the helper has to know, because it lives no longer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The workspace's path, which is the same inside.
    pub(super) workspace: PathBuf,
    /// What the policy says about paths.
    pub(super) rules: PathRules,
    /// Protected paths that the owner agreed to.
    pub(super) agreed: Vec<String>,
    /// What walks and searches leave out.
    pub(super) left_out: Vec<String>,
    /// What the session last saw of the paths of this request.
    pub(super) seen: Vec<(String, ContentId)>,
    /// Whether a change waits until the disk has it.
    pub(super) fsync: bool,
    pub(super) ask: Ask,
}

/// What is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    Stat { path: String },
    Read { path: String, max: u64 },
    Page(PageRequest),
    List(ListRequest),
    Walk(WalkRequest),
    Search(SearchRequest),
    Commit { changes: Vec<Planned>, rehearse: bool, keep: Keep },
}

/// What the helper does with what is there before a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Keep {
    /// Nothing.
    Nothing,
    /// It gives it back, and changes nothing.
    Collect,
    /// It goes on only if this is still what is there.
    Same(Vec<(String, Had)>),
    /// It goes on if this is what is there and what will be; else it does as for [`Keep::Collect`].
    Guess(Vec<(String, Had, Is)>),
}

/// What was at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Had {
    Absent,
    Directory,
    File { id: ContentId, len: u64, mode: u32, attributes: Attributes },
}

/// A [`Change`] whose content comes after the header.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Planned {
    path: String,
    act: PlannedAct,
    expect: Expect,
}

#[derive(Debug, Serialize, Deserialize)]
enum PlannedAct {
    Put(usize),
    Restore { content: usize, mode: u32, attributes: Attributes, owner: Option<Owner> },
    Append(usize),
    Remove,
    Move { to: String, content: Option<usize> },
    Mkdirp,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    Failed(WireError),
    Stat(Option<FileStat>),
    /// The content comes after the header.
    Read {
        id: ContentId,
        stat: FileStat,
        path: String,
    },
    /// The whole content comes after the header where it is small and was read.
    Page(Box<Page>),
    List(Listed),
    Walk(Walked),
    Search(Searched),
    /// What was there, and what will be; the contents come after the header in this order.
    Collected(Vec<(String, Had, Is)>),
    Done(Vec<Changed>),
}

impl Planned {
    /// A change as it is written, its content at the end of `bytes`.
    pub(super) fn new(change: &Change, bytes: &mut Vec<u8>) -> Planned {
        let mut put = |content: &[u8]| {
            bytes.extend_from_slice(content);
            content.len()
        };
        let act = match &change.act {
            Act::Put(content) => PlannedAct::Put(put(content)),
            Act::Restore { content, mode, attributes, owner } => PlannedAct::Restore {
                content: put(content),
                mode: *mode,
                attributes: attributes.clone(),
                owner: *owner,
            },
            Act::Append(content) => PlannedAct::Append(put(content)),
            Act::Remove => PlannedAct::Remove,
            Act::Move { to, content } => {
                PlannedAct::Move { to: to.clone(), content: content.as_deref().map(put) }
            }
            Act::Mkdirp => PlannedAct::Mkdirp,
        };
        Planned { path: change.path.clone(), act, expect: change.expect.clone() }
    }

    /// The change again, its content taken from the front of `bytes`.
    pub(super) fn change(self, bytes: &mut &[u8]) -> io::Result<Change> {
        let mut get = |len: usize| take(bytes, len).map(<[u8]>::to_vec);
        let act = match self.act {
            PlannedAct::Put(len) => Act::Put(Arc::new(get(len)?)),
            PlannedAct::Restore { content, mode, attributes, owner } => {
                Act::Restore { content: get(content)?, mode, attributes, owner }
            }
            PlannedAct::Append(len) => Act::Append(get(len)?),
            PlannedAct::Remove => Act::Remove,
            PlannedAct::Move { to, content } => Act::Move { to, content: content.map(get).transpose()? },
            PlannedAct::Mkdirp => Act::Mkdirp,
        };
        Ok(Change { path: self.path, act, expect: self.expect })
    }
}

/// A header and the bytes after it, as one message.
pub(super) fn encode<T: Serialize>(header: &T, content: &[u8]) -> io::Result<Vec<u8>> {
    let header = serde_json::to_vec(header)?;
    let mut message = Vec::with_capacity(8 + header.len() + content.len());
    message.extend_from_slice(&(header.len() as u64).to_le_bytes());
    message.extend_from_slice(&header);
    message.extend_from_slice(content);
    Ok(message)
}

/// The inverse of [`encode`].
pub(super) fn decode<T: DeserializeOwned>(message: &[u8]) -> io::Result<(T, &[u8])> {
    let mut rest = message;
    let mut length = [0; 8];
    length.copy_from_slice(take(&mut rest, 8)?);
    let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| cut_off())?;
    let header = take(&mut rest, length)?;
    Ok((serde_json::from_slice(header)?, rest))
}

/// Takes some bytes from the front.
pub(super) fn take<'a>(bytes: &mut &'a [u8], len: usize) -> io::Result<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(len).ok_or_else(cut_off)?;
    *bytes = rest;
    Ok(first)
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the message is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn act() -> impl Strategy<Value = Act> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            bytes().prop_map(|bytes| Act::Put(Arc::new(bytes))),
            bytes().prop_map(Act::Append),
            (bytes(), any::<u32>()).prop_map(|(content, mode)| Act::Restore {
                content,
                mode,
                attributes: Attributes::NONE,
                owner: None
            }),
            Just(Act::Remove),
            Just(Act::Mkdirp),
            (".*", prop::option::of(bytes())).prop_map(|(to, content)| Act::Move { to, content }),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back_as_they_were(acts in prop::collection::vec((".*", act()), 0..6)) {
            let changes: Vec<Change> =
                acts.into_iter().map(|(path, act)| Change { path, act, expect: Expect::AsSeen }).collect();
            let mut bytes = Vec::new();
            let planned: Vec<Planned> = changes.iter().map(|change| Planned::new(change, &mut bytes)).collect();
            let message = encode(&planned, &bytes).unwrap();
            let (planned, mut rest): (Vec<Planned>, &[u8]) = decode(&message).unwrap();
            let back: io::Result<Vec<Change>> = planned.into_iter().map(|one| one.change(&mut rest)).collect();
            assert_eq!(back.unwrap(), changes);
            assert_eq!(rest, b"");
            for cut in 0..8 {
                prop_assert!(decode::<Vec<Planned>>(&message[..cut]).is_err());
            }
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<Asked>(&bytes);
            let _ = decode::<Told>(&bytes);
        }
    }
}
