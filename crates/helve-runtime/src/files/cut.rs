//! Calls whose process died while they changed files: what became of them.
//!
//! Opening the workspace has taken back what was under way, unless somebody has changed it since. So what is there is
//! looked at, path by path, and the record follows it.

use helve_core::ToolError;
use helve_core::files::Files;
use helve_store::{StoreError, Undo};

use super::records::{is_same, present};

/// Looks at what the calls left that died in a workspace, and says it. Each is told once.
pub(crate) async fn settle(
    undo: &Undo,
    files: &dyn Files,
    workspace: &str,
    max: u64,
) -> Result<Vec<String>, ToolError> {
    let failed = |error: StoreError| ToolError::internal(error.to_string());
    let mut told = Vec::new();
    for call in undo.take_cut(workspace).map_err(failed)? {
        let changes = undo.get(&call).ok().flatten().map(|(record, _)| record.changes).unwrap_or_default();
        let (mut old, mut new) = (!changes.is_empty(), !changes.is_empty());
        for change in &changes {
            let now = present(files, &change.path, max).await.ok().map(|(now, _)| now);
            old &= now.as_ref().is_some_and(|now| is_same(now, &change.was));
            new &= now.as_ref().is_some_and(|now| is_same(now, &change.is));
        }
        told.push(if old {
            undo.forget(&call).map_err(failed)?;
            format!("{call} died while it changed files: nothing of it is left, all is as it was before")
        } else if new {
            undo.complete(&call).map_err(failed)?;
            format!("{call} died when it had changed files: all its changes are there, `helve undo {call}` takes them back")
        } else {
            format!("{call} died while it changed files: `helve undo {call}` puts back what was there")
        });
    }
    Ok(told)
}
