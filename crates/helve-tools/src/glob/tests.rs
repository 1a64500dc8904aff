//! A walk that takes its time, which no case folder can bring about.

use std::sync::Arc;

use helve_core::context::{Parts, assemble};
use helve_core::files::{
    Change, Changed, FileContent, FileStat, FilesPlace, ListRequest, Listed, Page, PageRequest,
    SearchRequest, Searched, Seen, Walked,
};
use helve_core::{BoxFuture, CallId, Cancel, Files, Limits, Progress, typed};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// Nothing that ignore files leave, and much else.
struct Slow;

fn never<T: Send + 'static>() -> BoxFuture<'static, Result<T, ToolError>> {
    Box::pin(std::future::pending())
}

impl Files for Slow {
    fn place(&self) -> FilesPlace {
        FilesPlace::Memory
    }
    fn stat<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        never()
    }
    fn read<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        never()
    }
    fn page<'a>(&'a self, _: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        never()
    }
    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        never()
    }
    fn walk<'a>(&'a self, request: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        match request.obey_ignore {
            true => Box::pin(std::future::ready(Ok(Walked::default()))),
            false => never(),
        }
    }
    fn search<'a>(&'a self, _: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        never()
    }
    fn commit(&self, _: Vec<Change>, _: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        never()
    }
    fn last_seen(&self, _: &str) -> Option<Seen> {
        None
    }
}

#[test]
fn a_hint_is_not_waited_for() {
    let call = CallId::from_parts(1, 1);
    let context = assemble(Parts {
        call: call.clone(),
        caller: "owner".into(),
        limits: Arc::new(Limits::default()),
        shell: None,
        files: Some(Arc::new(Slow) as Arc<dyn Files>),
        net: None,
        blobs: None,
        servers: None,
        peer: None,
        progress: Progress::new(call, None),
        cancel: Cancel::never(),
    });
    let tool = typed(Glob);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let output =
        runtime.block_on(helve_core::Tool::run(&tool, json!({"pattern": "*.rs"}), &context)).unwrap();
    assert_eq!(output.joined_text(), "No files found matching pattern");
}
