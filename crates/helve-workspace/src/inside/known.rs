//! Contents of files that the bridge has had in its hands, so that a change of one takes a single round trip.
//!
//! What is known here is only ever a guess: whoever uses it says so in the request, and the helper does nothing where the
//! file is another by now. Bounded; the oldest go first.

use std::collections::VecDeque;
use std::sync::Arc;

use helve_core::files::{Act, Attributes, Change, ContentId, Expect, FileContent, FileStat, Is};

use super::wire::Had;
use crate::commit;

/// The largest content that is kept, and how much of all.
pub(super) const ONE_BYTES: u64 = 1 << 20;
const ALL_BYTES: usize = 16 << 20;

/// The permission bits of a file that a helper makes, as engines start processes.
const NEW_MODE: u32 = 0o644;

/// One content.
#[derive(Clone)]
struct Content {
    path: String,
    bytes: Arc<Vec<u8>>,
    id: ContentId,
    stat: FileStat,
}

/// The contents, the oldest first.
#[derive(Default)]
pub(super) struct Known {
    contents: VecDeque<Content>,
    bytes: usize,
}

/// What is believed of one path before a change, and what will be there.
pub(super) struct Guess {
    pub(super) path: String,
    pub(super) had: Had,
    pub(super) will_be: Is,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Known {
    /// Notes what a path holds.
    pub(super) fn note(&mut self, path: &str, bytes: Arc<Vec<u8>>, id: ContentId, stat: FileStat) {
        self.forget(path);
        if bytes.len() as u64 > ONE_BYTES {
            return;
        }
        self.bytes += bytes.len();
        self.contents.push_back(Content { path: path.to_owned(), bytes, id, stat });
        while self.bytes > ALL_BYTES
            && let Some(oldest) = self.contents.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Forgets a path.
    pub(super) fn forget(&mut self, path: &str) {
        if let Some(at) = self.contents.iter().position(|one| one.path == path)
            && let Some(gone) = self.contents.remove(at)
        {
            self.bytes -= gone.bytes.len();
        }
    }

    fn find(&self, path: &str) -> Option<&Content> {
        self.contents.iter().find(|one| one.path == path)
    }

    /// What a path held when it was last seen.
    pub(super) fn content(&self, path: &str) -> Option<FileContent> {
        let Content { path, bytes, id, stat } = self.find(path)?.clone();
        Some(FileContent { bytes: bytes.to_vec(), id, stat, path })
    }

    /// What is believed of every path of these changes, given by their keys; none if of one nothing is.
    pub(super) fn guess(&self, changes: &[Change], keys: &[String]) -> Option<Vec<Guess>> {
        if changes.len() != keys.len() {
            return None;
        }
        changes.iter().zip(keys).map(|(change, key)| self.guess_one(change, key)).collect()
    }

    fn guess_one(&self, change: &Change, key: &str) -> Option<Guess> {
        let Act::Put(content) = &change.act else { return None };
        let will_be = |mode| Is::File { id: commit::id_of(content), mode, attributes: Attributes::NONE };
        let path = key.to_owned();
        if change.expect == Expect::Absent {
            return Some(Guess { path, had: Had::Absent, will_be: will_be(NEW_MODE), bytes: Arc::default() });
        }
        let known = self.find(key)?;
        let had = Had::File {
            id: known.id.clone(),
            len: known.bytes.len() as u64,
            mode: known.stat.mode,
            attributes: Attributes::NONE,
        };
        Some(Guess { path, had, will_be: will_be(known.stat.mode), bytes: Arc::clone(&known.bytes) })
    }

    /// The changes were made: what is there now.
    pub(super) fn changed(&mut self, changes: &[Change], keys: &[String]) {
        for (change, key) in changes.iter().zip(keys) {
            let before = self.find(key).map(|known| known.stat.clone());
            match (&change.act, before) {
                (Act::Put(content), before) => {
                    let stat = FileStat {
                        kind: helve_core::files::FileKind::File,
                        len: content.len() as u64,
                        modified: None,
                        mode: before.map_or(NEW_MODE, |stat| stat.mode),
                    };
                    self.note(key, Arc::clone(content), commit::id_of(content), stat);
                }
                _ => self.forget(key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(known: &mut Known, path: &str, len: usize) {
        let stat = FileStat { kind: helve_core::files::FileKind::File, len: 0, modified: None, mode: 0o600 };
        known.note(path, Arc::new(vec![0; len]), ContentId(path.to_owned()), stat);
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let mut known = Known::default();
        for number in 0..100 {
            note(&mut known, &number.to_string(), 1 << 20);
            assert!(known.bytes <= ALL_BYTES);
        }
        assert!(known.content("99").is_some() && known.content("0").is_none());
        note(&mut known, "99", (1 << 20) + 1);
        assert!(known.content("99").is_none());
        assert_eq!(known.bytes, known.contents.iter().map(|one| one.bytes.len()).sum::<usize>());
    }

    #[test]
    fn it_guesses_only_where_it_knows_everything() {
        let mut known = Known::default();
        note(&mut known, "a", 3);
        let put = |path: &str, expect| Change {
            path: path.to_owned(),
            act: Act::Put(Arc::new(b"x".to_vec())),
            expect,
        };
        let guess = |changes: &[Change]| {
            let keys: Vec<String> = changes.iter().map(|change| change.path.clone()).collect();
            known.guess(changes, &keys).map(|all| all.into_iter().map(|one| one.had).collect::<Vec<_>>())
        };
        let had =
            Had::File { id: ContentId("a".to_owned()), len: 3, mode: 0o600, attributes: Attributes::NONE };
        assert_eq!(guess(&[put("a", Expect::AsSeen)]), Some(vec![had.clone()]));
        assert_eq!(guess(&[put("a", Expect::Any), put("b", Expect::Absent)]), Some(vec![had, Had::Absent]));
        assert_eq!(guess(&[put("a", Expect::Any), put("b", Expect::Any)]), None);
        let remove = Change { path: "a".to_owned(), act: Act::Remove, expect: Expect::Any };
        assert_eq!(guess(&[remove]), None);
    }
}
