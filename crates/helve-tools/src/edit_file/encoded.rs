//! Edits of files that are not UTF-8: they are decoded, edited and encoded back, if that loses nothing.

use std::sync::Arc;

use encoding_rs::Encoding;
use helve_core::files::{Files, PageRequest, PageStart, Shape};
use helve_core::{ErrorKind, ToolError};

use super::{Edit, Edited, Miss};
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

/// Applies edits off the async threads, to a file of at most `most` bytes.
pub(super) async fn apply(
    files: &dyn Files,
    path: &str,
    before: Vec<u8>,
    edits: &[Edit],
    most: u64,
) -> Result<Attempt, ToolError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let before = Arc::new(before);
    let edits: Arc<[Edit]> = edits.into();
    let work = {
        let (before, edits) = (Arc::clone(&before), Arc::clone(&edits));
        move || looks_like_utf8(&before).then(|| attempt(before, None, &edits, most))
    };
    if let Some(attempt) = off_async(work).await? {
        return attempt;
    }
    let encoding = encoding_of(files, path).await;
    off_async(move || attempt(before, encoding, &edits, most)).await?
}

async fn off_async<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    let work = tokio::task::spawn_blocking(work);
    work.await.map_err(|error| ToolError::internal(format!("The edit ended early: {error}")))
}

fn attempt(
    before: Arc<Vec<u8>>,
    encoding: Option<&'static Encoding>,
    edits: &[Edit],
    most: usize,
) -> Result<Attempt, ToolError> {
    let outcome = match encoding.and_then(|encoding| Some((encoding, decoded(encoding, &before)?))) {
        Some((encoding, text)) => reencoded(encoding, &text, edits, most)?,
        None => edit::apply(&before, edits, most),
    };
    let changes = outcome.as_ref().is_ok_and(|edited| edited.bytes != *before);
    Ok(Attempt { before, outcome, changes })
}

/// Whether most of what is not ASCII is UTF-8. A few wrong bytes among it are left as they are.
fn looks_like_utf8(bytes: &[u8]) -> bool {
    // Checking the whole is many times faster than looking at its parts.
    if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
        return memchr::memchr(0, bytes).is_none();
    }
    let (mut right, mut wrong) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        wrong += usize::from(!chunk.invalid().is_empty());
        if chunk.valid().contains('\0') {
            return false;
        }
    }
    wrong == 0 || right > wrong
}

/// The encoding that `read_file` shows the file in, if it is none that ASCII tools understand anyway.
async fn encoding_of(files: &dyn Files, path: &str) -> Option<&'static Encoding> {
    let start = PageStart::Line { line: 1, cursor: 0 };
    let request = PageRequest { path: path.to_owned(), start, max_lines: 1, max_bytes: 1024 };
    match files.page(&request).await.ok()?.shape {
        Shape::Text(found) => Encoding::for_label(found.name.as_bytes()),
        Shape::Binary { .. } => None,
    }
}

/// The text, if encoding it gives the same bytes again.
fn decoded(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    if encoding == encoding_rs::UTF_8 {
        return None;
    }
    // The mark at the head is kept as a character, so that it comes back.
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    (encode(encoding, &text).as_deref() == Ok(bytes)).then(|| text.into_owned())
}

/// The bytes of a text, or a character that the encoding does not have.
fn encode(encoding: &'static Encoding, text: &str) -> Result<Vec<u8>, char> {
    if encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE {
        let little = encoding == encoding_rs::UTF_16LE;
        let bytes =
            text.encode_utf16().flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
        return Ok(bytes.collect());
    }
    let mut encoder = encoding.new_encoder();
    let length = encoder.max_buffer_length_from_utf8_without_replacement(text.len()).unwrap_or(text.len());
    let mut bytes = Vec::with_capacity(length);
    match encoder.encode_from_utf8_to_vec_without_replacement(text, &mut bytes, true).0 {
        encoding_rs::EncoderResult::Unmappable(c) => Err(c),
        encoding_rs::EncoderResult::InputEmpty | encoding_rs::EncoderResult::OutputFull => Ok(bytes),
    }
}

fn reencoded(
    encoding: &'static Encoding,
    text: &str,
    edits: &[Edit],
    most: usize,
) -> Result<Outcome, ToolError> {
    let edited = match edit::apply(text.as_bytes(), edits, most) {
        Ok(edited) => edited,
        Err(misses) => return Ok(Err(misses)),
    };
    let after = String::from_utf8_lossy(&edited.bytes);
    match encode(encoding, &after) {
        Ok(bytes) => Ok(Ok(Edited { bytes, ..edited })),
        Err(c) => Err(ToolError::new(
            ErrorKind::ToolFailed,
            format!("The file is in the encoding {}, which has no character {c:?}.", encoding.name()),
        )
        .hint("Write it without this character, or convert the file to UTF-8 first.")),
    }
}
