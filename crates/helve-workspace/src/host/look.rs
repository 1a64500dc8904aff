//! Pages, walks and searches: a path becomes what `page` and `seek` work on.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use helve_core::ToolError;
use helve_core::files::{FilesScope, Page, PageRequest, SearchRequest, Searched, WalkRequest, Walked};
use rustix::fs::FileType;

use super::list::open_dir;
use super::resolve::Found;
use super::{Handle, Host, stat_of};
use crate::commit;
use crate::page::{FileKey, shows_all};
use crate::refuse;
use crate::seek::{self, SearchStart, Start};
use crate::source::FileSource;

/// Content up to this size is told to the session with its hash, so that a later conflict can be shown.
const TOLD_BYTES: u64 = 1 << 20;

impl Handle {
    /// A window of a file; if it shows the whole file, the session has seen it.
    pub(super) fn read_page(&self, request: &PageRequest) -> Result<Page, ToolError> {
        let path = &request.path;
        let host = &*self.host;
        let found = host.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let file = host.open_file(path, &found)?;
        let key = FileKey::of(&found.stat);
        let stat = stat_of(&found.stat);
        let source = FileSource { file: &file, len: stat.len };
        let named = host.shown(&found.named);
        let page = host.pages.page(key, &source, named, stat, request, &self.scope.cancel)?;
        if let (true, Some(id)) = (shows_all(&page, request), &page.id) {
            let bytes = whole(file).filter(|bytes| commit::id_of(bytes) == *id);
            self.saw(&host.shown(&found.key), Some(id), bytes.as_deref());
        }
        Ok(page)
    }
}

/// A small file's bytes.
fn whole(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(TOLD_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= TOLD_BYTES).then_some(bytes)
}

impl Host {
    pub(super) fn walk(&self, request: &WalkRequest, scope: &FilesScope) -> Result<Walked, ToolError> {
        let found = self.find(&request.path)?.ok_or_else(|| refuse::missing(&request.path))?;
        let rules = self.rules.leaving_out(&scope.left_out, &found.key.path)?;
        seek::walk(self.start(&request.path, found)?, &rules, request, &scope.cancel)
    }

    pub(super) fn search(&self, request: &SearchRequest, scope: &FilesScope) -> Result<Searched, ToolError> {
        let path = &request.path;
        let found = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let rules = self.rules.leaving_out(&scope.left_out, &found.key.path)?;
        let start = match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::Directory => SearchStart::Dir(self.start(path, found)?),
            _ => SearchStart::File { file: self.open_file(path, &found)?, shown: self.shown(&found.key) },
        };
        seek::search(start, &rules, request, &scope.cancel)
    }

    /// The directory that a path led to, as the start of a walk.
    pub(super) fn start(&self, path: &str, found: Found) -> Result<Start, ToolError> {
        let dir = open_dir(path, &found)?;
        self.root(found.key.root)?;
        let root = self.roots.get(found.key.root).and_then(|root| Some((root.dir.as_ref().ok()?, root)));
        let (root_dir, root) = root.ok_or_else(|| ToolError::internal("A root is not there."))?;
        let prefix = root.shown.as_deref().map(|shown| format!("{}/", shown.trim_end_matches('/')));
        Ok(Start {
            root: Arc::clone(root_dir),
            dir,
            shown: found.key.path,
            prefix: prefix.unwrap_or_default(),
            temporary: self.janitor.hidden(),
        })
    }
}
