//! What a session has seen of files, shared by its calls in this process and in others.

use helve_core::files::{ContentId, Seen, SeenFiles};
use helve_store::{Blobs, SeenLog};

/// Larger contents are not kept: a conflict with them is found, but not shown.
const MAX_KEPT: u64 = 1 << 20;

/// The memory of one session in one workspace. What cannot be remembered is forgotten: then a call may replace a file as
/// if the session had never seen it.
pub(crate) struct SessionSeen {
    pub(crate) log: SeenLog,
    pub(crate) contents: Blobs,
}

impl SessionSeen {
    fn content(&self, id: &str) -> Option<Vec<u8>> {
        let len = self.contents.len(id).ok().filter(|len| *len <= MAX_KEPT)?;
        self.contents.read_range(id, 0, usize::try_from(len).ok()?).ok()
    }
}

impl SeenFiles for SessionSeen {
    fn last(&self, path: &str) -> Option<Seen> {
        let seen = self.log.last(path).ok().flatten()?;
        Some(Seen { content: self.content(&seen.id), id: ContentId(seen.id) })
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        let id = id.map(|id| id.0.as_str());
        if id.is_some() && self.log.last(path).ok().flatten().map(|seen| seen.id).as_deref() == id {
            return;
        }
        if let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 <= MAX_KEPT) {
            let mut writer = self.contents.writer();
            let _ = writer.write(bytes).and_then(|()| writer.finish());
        }
        let _ = self.log.saw(path, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_store::{Home, Undo};
    use pretty_assertions::assert_eq;

    #[test]
    fn small_contents_are_there_again_and_large_ones_by_their_hash_only() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let contents = Undo::open(&home).unwrap().contents().clone();
        let seen = SessionSeen { log: SeenLog::open(&home, "s", "/w").unwrap(), contents };
        let id = |bytes: &[u8]| ContentId(format!("b3:{}", blake3::hash(bytes).to_hex()));
        seen.saw("a", Some(&id(b"text")), Some(b"text"));
        assert_eq!(seen.last("a"), Some(Seen { content: Some(b"text".to_vec()), id: id(b"text") }));
        let large = vec![7; (1 << 20) + 1];
        seen.saw("a", Some(&id(&large)), Some(&large));
        assert_eq!(seen.last("a"), Some(Seen { content: None, id: id(&large) }));
        seen.saw("a", None, None);
        assert_eq!(seen.last("a"), None);
    }
}
