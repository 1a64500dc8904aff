//! The form of a file besides its words: encoding, byte order mark, line endings, and whether it may be written. A write
//! that changes it, or passes over it, says so.

use encoding_rs::Encoding;
use helve_core::ToolError;
use helve_core::files::{Endings, Files};

use crate::coding::{decoded, encoded, form_of, looks_like_utf8};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a new content changes of the form that the old one had, as sentences.
pub(crate) fn lost(before: &[u8], after: &[u8]) -> String {
    let mut text = String::new();
    if before.is_empty() || after.is_empty() {
        return text;
    }
    let has_nul = |bytes: &[u8]| memchr::memchr(0, bytes).is_some();
    if has_nul(before) && std::str::from_utf8(before).is_ok() {
        if !has_nul(after) {
            text.push_str("\nThe file held NUL bytes before, as binary files do; now it holds none.");
        }
        return text;
    }
    if !looks_like_utf8(before) {
        text.push_str("\nThe file was not in UTF-8 before; now it is.");
        return text;
    }
    if before.starts_with(BOM) && !after.starts_with(BOM) {
        text.push_str("\nThe file had a byte order mark before; now it has none.");
    }
    match (has_only_crlf(before), has_only_crlf(after)) {
        (Some(true), Some(false)) => {
            text.push_str("\nThe file's lines ended with CRLF before; now they do not.")
        }
        (Some(false), Some(true)) => {
            text.push_str("\nThe file's lines end with CRLF now; before they did not.")
        }
        _ => {}
    }
    text
}

/// Whether all lines end with `\r\n`; none if no line ends, or some do and others do not.
fn has_only_crlf(bytes: &[u8]) -> Option<bool> {
    let (mut crlf, mut lf) = (false, false);
    for at in memchr::memchr_iter(b'\n', bytes) {
        let is_crlf = at > 0 && bytes[at - 1] == b'\r';
        (crlf, lf) = (crlf || is_crlf, lf || !is_crlf);
    }
    (crlf != lf).then_some(crlf)
}

/// What is said where nobody may write a file by its mode, and it was changed all the same.
pub(crate) fn read_only(mode: u32) -> String {
    match mode & 0o222 {
        0 => format!(
            "\nThe file was marked read-only (mode {:04o}, as now); it was changed all the same.",
            mode & 0o7777
        ),
        _ => String::new(),
    }
}

/// The same for a file that is still to be changed. In a sandbox a look would be a journey of its own.
pub(crate) async fn is_read_only(files: &dyn Files, path: &str) -> String {
    match files.place() {
        helve_core::FilesPlace::Sandbox => String::new(),
        _ => files.stat(path).await.ok().flatten().map(|stat| read_only(stat.mode)).unwrap_or_default(),
    }
}

/// A text as bytes that fit behind what is in a file, and as sentences what is to be said of that. `max` is the longest file
/// that is looked at as a whole.
pub(crate) async fn fitting(
    files: &dyn Files,
    path: &str,
    text: String,
    max: u64,
) -> Result<(Vec<u8>, String), ToolError> {
    let seen = files.last_seen(path);
    let form = form_of(files, path).await;
    let encoding = match form.map(|(encoding, _)| encoding).filter(|found| *found != encoding_rs::UTF_8) {
        Some(found) => comes_back(files, path, found, max).await.then_some(found),
        None => None,
    };
    if let Some(seen) = &seen {
        // Looking at the encoding is not seeing the file.
        files.saw_last(path, seen);
    }
    let mixed = form.map(|(_, endings)| mixed(endings, &text)).unwrap_or_default();
    let Some(encoding) = encoding else { return Ok((text.into_bytes(), mixed.to_owned())) };
    let bytes = encoded(encoding, &text)?;
    let notes = match bytes != text.as_bytes() {
        true => format!("\nThe text was written in {}, as the file is.{mixed}", encoding.name()),
        false => mixed.to_owned(),
    };
    Ok((bytes, notes))
}

/// What is said where lines are added that end otherwise than the file's.
fn mixed(endings: Endings, added: &str) -> &'static str {
    match (endings.crlf, endings.lf, has_only_crlf(added.as_bytes())) {
        (true, false, Some(false)) => "\nThe file's lines end with CRLF; those that were added do not.",
        (false, true, Some(true)) => "\nThe lines that were added end with CRLF; the file's do not.",
        _ => "",
    }
}

/// Whether a file is text in an encoding by the test that the editors have, so that all tools write it alike. What is too
/// long for them is taken for what its beginning says.
async fn comes_back(files: &dyn Files, path: &str, encoding: &'static Encoding, max: u64) -> bool {
    let Ok(content) = files.read(path, max).await else { return true };
    let test = move || !looks_like_utf8(&content.bytes) && decoded(encoding, &content.bytes).is_some();
    tokio::task::spawn_blocking(test).await.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_is_told_and_no_other() {
        assert!(read_only(0o100_444).contains("mode 0444"));
        for mode in [0o644, 0o200, 0o464] {
            assert_eq!(read_only(mode), "");
        }
    }

    #[test]
    fn only_what_differs_is_told() {
        for (before, after, told) in [
            (&b"a\nb\n"[..], &b"x\n"[..], ""),
            (b"a\r\nb\r\n", b"a\nb\n", "CRLF before"),
            (b"a\nb\n", b"a\r\n", "CRLF now"),
            (b"a\r\nb\n", b"a\n", ""),
            (b"a\r\n", b"one line", ""),
            (b"\xef\xbb\xbfa\n", b"a\n", "byte order mark"),
            (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n", ""),
            (b"h\xe9llo\r\n", b"hello\n", "not in UTF-8"),
            (b"\xff\xfea\0", b"a", "not in UTF-8"),
            (b"b\0b", b"z", "NUL bytes before"),
            (b"b\0b", b"z\0", ""),
            (b"\xe9\0\n", b"z", "not in UTF-8"),
            (b"h\xe9llo", b"", ""),
            (b"", b"a\r\n", ""),
        ] {
            let text = lost(before, after);
            assert!(if told.is_empty() { text.is_empty() } else { text.contains(told) }, "{before:?} {text}");
        }
    }
}
