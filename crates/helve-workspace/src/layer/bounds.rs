//! What a layer may come to: refusals where it is more.

use helve_core::limits::fixed::CHANGED_FILE;
use helve_core::{ErrorKind, ToolError};

use super::entry::Entry;
use crate::names::show;

/// Whether all of a file can be read in reasonable time. A sparse one may claim any length.
pub(super) fn check_length(entry: &Entry, path: &[u8]) -> Result<(), ToolError> {
    let bytes = u64::try_from(entry.stat.st_size).unwrap_or_default();
    if bytes <= CHANGED_FILE as u64 {
        return Ok(());
    }
    let path = show(&String::from_utf8_lossy(path));
    let message = format!(
        "'{path}', which the command changed or removed, has {bytes} bytes; over a layer files of at most {CHANGED_FILE} \
         can be. Nothing was changed."
    );
    Err(ToolError::new(ErrorKind::TooLarge, message).hint(
        "Leave the file as it is, or write tools.exec.mode = \"direct\" and tools.exec.checkpoint = false.",
    ))
}

/// More than a layer takes.
pub(super) fn too_many(most: usize, what: &str) -> ToolError {
    let message = format!("The command changed more than {most} {what}, which is too many for a layer.");
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("Let it change less at once, or write tools.exec.mode = \"direct\" and tools.exec.checkpoint = false.")
}
