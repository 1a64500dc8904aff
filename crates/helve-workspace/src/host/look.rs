//! Pages, walks and searches: a path becomes what `page` and `seek` work on.

use std::sync::Arc;

use helve_core::files::{Page, PageRequest, SearchRequest, Searched, WalkRequest, Walked};
use helve_core::{Cancel, ToolError};
use rustix::fs::FileType;

use super::list::open_dir;
use super::resolve::Found;
use super::{Handle, Host};
use crate::refuse;
use crate::seek::{self, SearchStart, Start};

impl Handle {
    pub(super) fn read_page(&self, request: &PageRequest) -> Result<Page, ToolError> {
        let _ = request;
        Err(ToolError::internal("Pages are not there."))
    }
}

impl Host {
    pub(super) fn walk(&self, request: &WalkRequest, cancel: &Cancel) -> Result<Walked, ToolError> {
        let found = self.find(&request.path)?.ok_or_else(|| refuse::missing(&request.path))?;
        seek::walk(self.start(&request.path, found)?, &self.rules, request, cancel)
    }

    pub(super) fn search(&self, request: &SearchRequest, cancel: &Cancel) -> Result<Searched, ToolError> {
        let path = &request.path;
        let found = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let start = match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::Directory => SearchStart::Dir(self.start(path, found)?),
            _ => SearchStart::File { file: self.open_file(path, &found)?, shown: self.shown(&found.key) },
        };
        seek::search(start, &self.rules, request, cancel)
    }

    /// The directory that a path led to, as the start of a walk.
    fn start(&self, path: &str, found: Found) -> Result<Start, ToolError> {
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
        })
    }
}
