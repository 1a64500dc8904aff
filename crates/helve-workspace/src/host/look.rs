//! Pages, walks and searches: a path becomes what `page` and `seek` work on.

use helve_core::files::{Page, PageRequest, SearchRequest, Searched, WalkRequest, Walked};
use helve_core::{Cancel, ToolError};

use super::{Handle, Host};

impl Handle {
    pub(super) fn read_page(&self, request: &PageRequest) -> Result<Page, ToolError> {
        let _ = request;
        Err(ToolError::internal("Pages are not there."))
    }
}

impl Host {
    pub(super) fn walk(&self, request: &WalkRequest, cancel: &Cancel) -> Result<Walked, ToolError> {
        let _ = (request, cancel);
        Err(ToolError::internal("Walks are not there."))
    }

    pub(super) fn search(&self, request: &SearchRequest, cancel: &Cancel) -> Result<Searched, ToolError> {
        let _ = (request, cancel);
        Err(ToolError::internal("Searches are not there."))
    }
}
