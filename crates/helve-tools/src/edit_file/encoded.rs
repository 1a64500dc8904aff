//! Edits of files that are not UTF-8: they are decoded, edited and encoded back, if that loses nothing.

use std::sync::Arc;

use encoding_rs::Encoding;
use helve_core::files::Files;
use helve_core::{Cancel, ToolError};

use super::{Edit, Edited, Miss};
use crate::coding::{decoded, encoded, encoding_of, looks_like_utf8};
use crate::edit;

/// The edited file, or why not.
pub(super) type Outcome = Result<Edited, Vec<Miss>>;

/// What edits make of a file.
pub(super) struct Attempt {
    /// The file as it was.
    pub(super) before: Arc<Vec<u8>>,
    pub(super) outcome: Outcome,
    /// Whether the new content differs from the old one.
    pub(super) changes: bool,
}

/// Applies edits off the async threads, to a file of at most `most` bytes, until the call is taken back.
pub(super) async fn apply(
    files: &dyn Files,
    path: &str,
    before: Vec<u8>,
    edits: &[Edit],
    (most, cancel): (u64, &Cancel),
) -> Result<Attempt, ToolError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let before = Arc::new(before);
    let edits: Arc<[Edit]> = edits.into();
    let work = {
        let (before, edits, cancel) = (Arc::clone(&before), Arc::clone(&edits), cancel.clone());
        move || looks_like_utf8(&before).then(|| attempt(before, None, &edits, (most, &cancel)))
    };
    if let Some(attempt) = off_async(work).await? {
        return attempt;
    }
    let encoding = encoding_of(files, path).await;
    let cancel = cancel.clone();
    off_async(move || attempt(before, encoding, &edits, (most, &cancel))).await?
}

async fn off_async<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let work = tokio::task::spawn_blocking(work);
    work.await.map_err(|error| ToolError::internal(format!("The edit ended early: {error}")))
}

fn attempt(
    before: Arc<Vec<u8>>,
    encoding: Option<&'static Encoding>,
    edits: &[Edit],
    bounds: (usize, &Cancel),
) -> Result<Attempt, ToolError> {
    let outcome = match encoding.and_then(|encoding| Some((encoding, decoded(encoding, &before)?))) {
        Some((encoding, text)) => reencoded(encoding, &text, edits, bounds)?,
        None => edit::apply_until(&before, edits, bounds.0, bounds.1),
    };
    let changes = outcome.as_ref().is_ok_and(|edited| edited.bytes != *before);
    Ok(Attempt { before, outcome, changes })
}

fn reencoded(
    encoding: &'static Encoding,
    text: &str,
    edits: &[Edit],
    bounds: (usize, &Cancel),
) -> Result<Outcome, ToolError> {
    let edited = match edit::apply_until(text.as_bytes(), edits, bounds.0, bounds.1) {
        Ok(edited) => edited,
        Err(misses) => return Ok(Err(misses)),
    };
    let after = String::from_utf8_lossy(&edited.bytes);
    let bytes = encoded(encoding, &after)?;
    Ok(Ok(Edited { bytes, ..edited }))
}
