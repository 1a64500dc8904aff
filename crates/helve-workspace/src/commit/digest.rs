//! The hash of a content that a commit puts in place, worked out when somebody first asks for it.
//!
//! In comes the content, or what is known of it; out goes its [`ContentId`]. Nobody asks for the hash of new content
//! before it is written, so a large one is hashed while the disk is busy with it.

use std::sync::{Arc, OnceLock};

use blake3::Hasher;
use helve_core::files::ContentId;

use super::{Original, content_id};

/// A content and, as soon as it was asked for, its hash.
#[derive(Debug)]
pub(crate) struct Digest {
    /// The content; none where the hash is known from the start.
    content: Option<Arc<Vec<u8>>>,
    /// Has taken in the whole content, so that it can go on with what is appended.
    hasher: OnceLock<Box<Hasher>>,
    id: OnceLock<ContentId>,
}

impl Digest {
    /// That of new content.
    pub(crate) fn of(content: Arc<Vec<u8>>) -> Digest {
        Digest { content: Some(content), hasher: OnceLock::new(), id: OnceLock::new() }
    }

    /// That of a file that was read.
    pub(crate) fn known(file: &Original) -> Digest {
        let (hasher, id) = (file.hasher.clone(), file.id.clone());
        Digest { content: None, hasher: OnceLock::from(hasher), id: OnceLock::from(id) }
    }

    /// That of the same content with more behind it.
    pub(crate) fn followed_by(&self, bytes: &[u8]) -> Digest {
        let mut hasher = Box::new(self.hasher().clone());
        hasher.update(bytes);
        Digest { content: None, hasher: OnceLock::from(hasher), id: OnceLock::new() }
    }

    pub(crate) fn id(&self) -> &ContentId {
        self.id.get_or_init(|| content_id(self.hasher()))
    }

    fn hasher(&self) -> &Hasher {
        self.hasher.get_or_init(|| {
            let mut hasher = Box::new(Hasher::new());
            hasher.update(self.content.as_ref().map_or(&[], |content| content.as_slice()));
            hasher
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::id_of;

    #[test]
    fn a_content_has_the_same_hash_however_it_came_about() {
        let new = Digest::of(Arc::new(b"ab".to_vec()));
        let grown = Digest::of(Arc::new(b"a".to_vec())).followed_by(b"b");
        let read = Digest::known(&Original::of(b"ab"));
        for digest in [&new, &grown, &read] {
            assert_eq!(*digest.id(), id_of(b"ab"));
        }
        assert_eq!(*read.followed_by(b"c").id(), id_of(b"abc"));
        assert_eq!(*grown.followed_by(b"c").id(), id_of(b"abc"));
    }

    #[test]
    fn new_content_is_not_hashed_before_somebody_asks() {
        let new = Digest::of(Arc::new(b"ab".to_vec()));
        assert!(new.hasher.get().is_none());
        new.id();
        assert!(new.hasher.get().is_some());
    }
}
