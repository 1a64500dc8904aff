//! What a session has seen of files, shared by its calls in this process and in others.

use helve_core::files::{ContentId, Seen, SeenFiles};
use helve_store::{FileState, SeenLog, Undo};

use super::records::kept;

/// Larger contents are not kept: a conflict with them is found, but not shown.
const MAX_KEPT: u64 = 1 << 20;
/// So many calls that changed files are looked at for the last change of one.
const LOOKED_AT: usize = 256;

/// The memory of one session in one workspace. What cannot be remembered is forgotten: then a call may replace a file as
/// if the session had never seen it.
pub(crate) struct SessionSeen {
    pub(crate) log: SeenLog,
    pub(crate) undo: Undo,
    pub(crate) session: String,
    pub(crate) workspace: String,
}

impl SeenFiles for SessionSeen {
    fn last(&self, path: &str) -> Option<Seen> {
        let seen = self.log.last(path).ok().flatten()?;
        Some(Seen { content: kept(&self.undo, &seen.id, MAX_KEPT), id: ContentId(seen.id) })
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        let id = id.map(|id| id.0.as_str());
        if id.is_some() && self.log.last(path).ok().flatten().map(|seen| seen.id).as_deref() == id {
            return;
        }
        if let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 <= MAX_KEPT) {
            let mut writer = self.undo.contents().writer();
            let _ = writer.write(bytes).and_then(|()| writer.finish());
        }
        let _ = self.log.saw(path, id);
    }

    fn former(&self, path: &str, now: &ContentId, max: u64) -> Option<Vec<u8>> {
        let last = self.undo.calls().ok()?.into_iter().take(LOOKED_AT).find_map(|call| {
            let (record, _) = self.undo.get(&call).ok().flatten()?;
            let ours = record.session == self.session && record.workspace == self.workspace;
            record.changes.into_iter().find(|change| ours && change.path == path)
        })?;
        match (last.is, last.was) {
            (FileState::File { id: after, .. }, FileState::File { id, dropped: false, .. })
                if after == now.0 =>
            {
                kept(&self.undo, &id, max)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_store::Home;
    use pretty_assertions::assert_eq;

    #[test]
    fn small_contents_are_there_again_and_large_ones_by_their_hash_only() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let seen = SessionSeen {
            log: SeenLog::open(&home, "s", "/w").unwrap(),
            undo: Undo::open(&home).unwrap(),
            session: "s".to_owned(),
            workspace: "/w".to_owned(),
        };
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
