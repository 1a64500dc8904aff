//! Files that are not UTF-8: what they are, their text, and text as their bytes.
//!
//! Every tool that changes a file in parts goes this way, so that no file ends up in two encodings. A file whose bytes do not
//! come back from its text as they were is left to be changed as bytes.

use encoding_rs::Encoding;
use helve_core::files::{Endings, Files, PageRequest, PageStart, Shape};
use helve_core::{ErrorKind, ToolError};

/// Whether most of what is not ASCII is UTF-8. A few wrong bytes among it are left as they are.
pub(crate) fn looks_like_utf8(bytes: &[u8]) -> bool {
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
pub(crate) async fn encoding_of(files: &dyn Files, path: &str) -> Option<&'static Encoding> {
    form_of(files, path).await.map(|(encoding, _)| encoding)
}

/// The same, and how the file's first line ends.
pub(crate) async fn form_of(files: &dyn Files, path: &str) -> Option<(&'static Encoding, Endings)> {
    let start = PageStart::Line { line: 1, cursor: 0 };
    let request = PageRequest { path: path.to_owned(), start, max_lines: 1, max_bytes: 1024 };
    let page = files.page(&request).await.ok()?;
    match page.shape {
        Shape::Text(found) => Some((Encoding::for_label(found.name.as_bytes())?, page.endings)),
        Shape::Binary { .. } => None,
    }
}

/// The text, if encoding it gives the same bytes again.
pub(crate) fn decoded(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    if encoding == encoding_rs::UTF_8 {
        return None;
    }
    // The mark at the head is kept as a character, so that it comes back.
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    (encode(encoding, &text).as_deref() == Ok(bytes)).then(|| text.into_owned())
}

/// The bytes of a text, or the error that names a character which the encoding does not have.
pub(crate) fn encoded(encoding: &'static Encoding, text: &str) -> Result<Vec<u8>, ToolError> {
    encode(encoding, text).map_err(|c| {
        let message =
            format!("The file is in the encoding {}, which has no character {c:?}.", encoding.name());
        ToolError::new(ErrorKind::ToolFailed, message)
            .hint("Write it without this character, or convert the file to UTF-8 first.")
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        for (encoding, text) in [
            (encoding_rs::WINDOWS_1252, "h\u{e9}llo\r\n"),
            (encoding_rs::UTF_16LE, "\u{feff}a\u{1f600}\n"),
            (encoding_rs::UTF_16BE, "a\n"),
            (encoding_rs::SHIFT_JIS, "\u{65e5}\u{672c}"),
        ] {
            let bytes = encoded(encoding, text).unwrap();
            assert_eq!(decoded(encoding, &bytes).as_deref(), Some(text), "{}", encoding.name());
        }
        let error = encoded(encoding_rs::WINDOWS_1252, "\u{65e5}").unwrap_err();
        assert!(error.message.contains("windows-1252"), "{}", error.message);
        assert_eq!(decoded(encoding_rs::UTF_16LE, b"abc"), None);
    }
}
