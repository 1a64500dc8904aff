//! What to say when a file is not as the session last saw it.

use helve_core::ToolError;
use helve_core::files::Files;

use super::{MAX_COMPARED, compared};

/// So many characters of a difference are shown.
const SHOWN_CHARS: usize = 6_000;

/// The error with what changed since. The session has then seen the file, if all of the difference could be shown.
pub(crate) async fn explained(error: ToolError, files: &dyn Files, path: &str) -> ToolError {
    let Some(seen) = files.last_seen(path) else { return error };
    let Ok(now) = files.read(path, MAX_COMPARED).await else { return error };
    let Some(old) = seen.content.clone() else {
        files.saw_last(path, &seen);
        return read_again(error);
    };
    let found = compared(&now.path, old, now.bytes.into()).await.and_then(|difference| difference.unified);
    match found {
        Some(diff) if diff.chars().count() <= SHOWN_CHARS => ToolError {
            message: format!(
                "{path} changed since you last saw it, and was not overwritten. What changed:\n{diff}"
            ),
            ..error
        }
        .hint("Take these changes into your text and send it again, or change only a part with edit_file."),
        _ => {
            files.saw_last(path, &seen);
            read_again(error)
        }
    }
}

fn read_again(error: ToolError) -> ToolError {
    error.hint("Read the file again, take its changes into your text, and send it then; or use edit_file.")
}
