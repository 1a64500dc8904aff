//! Bytes to text that can do nothing to a terminal or a reader's eyes.
//!
//! Invalid UTF-8 becomes U+FFFD; control characters other than tab and newline, characters that reorder or hide text,
//! and line separators become visible escapes (`\x1b`, `\u{202e}`); CR LF becomes LF.

/// Turns one stream of bytes into text, keeping state over chunk borders.
#[derive(Clone, Debug, Default)]
pub struct Harmless {
    /// The beginning of a character, at most three bytes.
    partial: Vec<u8>,
    /// A carriage return whose fate depends on the next byte.
    after_cr: bool,
}

impl Harmless {
    /// Gives the text of a chunk to `take`, in order.
    pub fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(&str)) {
        if self.partial.is_empty() && !self.after_cr && is_plain(bytes) {
            // Plain ASCII is valid UTF-8.
            if let Ok(text) = std::str::from_utf8(bytes) {
                take(text);
            }
            return;
        }
        let mut pieces = Pieces { text: String::new(), take };
        if self.partial.is_empty() {
            self.decode(bytes, &mut pieces);
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.decode(&joined, &mut pieces);
        }
        pieces.give();
    }

    /// Gives what was held back.
    pub fn finish(&mut self, take: &mut impl FnMut(&str)) {
        if !std::mem::take(&mut self.partial).is_empty() {
            take("\u{fffd}");
        }
        if std::mem::take(&mut self.after_cr) {
            take("\\r");
        }
    }

    fn decode(&mut self, mut bytes: &[u8], pieces: &mut Pieces<'_, impl FnMut(&str)>) {
        loop {
            match std::str::from_utf8(bytes) {
                Ok(text) => return self.escape(text, pieces),
                Err(error) => {
                    let (good, rest) = bytes.split_at(error.valid_up_to());
                    self.escape(&String::from_utf8_lossy(good), pieces);
                    match error.error_len() {
                        Some(len) => {
                            self.escape("\u{fffd}", pieces);
                            bytes = &rest[len..];
                        }
                        None => {
                            self.partial = rest.to_vec();
                            return;
                        }
                    }
                }
            }
        }
    }

    fn escape(&mut self, text: &str, pieces: &mut Pieces<'_, impl FnMut(&str)>) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.after_cr) && !text.starts_with('\n') {
            pieces.add("\\r");
        }
        let mut from = 0;
        for (at, c) in text.char_indices() {
            if is_harmless(c) {
                continue;
            }
            pieces.add(&text[from..at]);
            from = at + c.len_utf8();
            match c {
                '\r' => match text.as_bytes().get(from) {
                    Some(b'\n') => {}
                    Some(_) => pieces.add("\\r"),
                    None => self.after_cr = true,
                },
                c => pieces.add_escaped(c),
            }
        }
        pieces.add(&text[from..]);
    }
}

/// Text that is given on in pieces of some size: whoever takes it does much for each, and a stream of bytes that are no text
/// would have one for every byte.
struct Pieces<'t, F> {
    text: String,
    take: &'t mut F,
}

/// How large a piece becomes.
const PIECE_BYTES: usize = 32 * 1024;

impl<F: FnMut(&str)> Pieces<'_, F> {
    fn add(&mut self, part: &str) {
        if self.text.len() + part.len() > PIECE_BYTES {
            self.give();
        }
        if part.len() > PIECE_BYTES { (self.take)(part) } else { self.text.push_str(part) }
    }

    fn add_escaped(&mut self, c: char) {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        match c as usize {
            // By far the most, in what is no text.
            code @ ..0x80 if c != '\r' => {
                self.add("\\x");
                self.text.push(DIGITS[code / 16]);
                self.text.push(DIGITS[code % 16]);
            }
            _ => self.add(&escaped(c)),
        }
    }

    fn give(&mut self) {
        if !self.text.is_empty() {
            (self.take)(&self.text);
            self.text.clear();
        }
    }
}

/// Makes a text harmless where it stands. Most is.
pub fn make_harmless(text: &mut String) {
    if !is_plain(text.as_bytes()) {
        *text = harmless(text);
    }
}

/// A whole text, made harmless.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut stream = Harmless::default();
    let mut take = |part: &str| out.push_str(part);
    stream.push(text.as_bytes(), &mut take);
    stream.finish(&mut take);
    out
}

/// Printable ASCII, tab and newline only. Written without branches so that it runs at the speed of memory.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|chunk| {
        chunk.iter().fold(true, |plain, byte| {
            plain & (((*byte >= 0x20) & (*byte < 0x7f)) | (*byte == b'\n') | (*byte == b'\t'))
        })
    })
}

/// A character as a visible escape.
pub fn escaped(c: char) -> String {
    match c {
        '\r' => "\\r".to_owned(),
        c if (c as u32) < 0x80 => format!("\\x{:02x}", c as u32),
        c => format!("\\u{{{:x}}}", c as u32),
    }
}

/// A path, or what a link leads to, as one line: as it is, or in quotation marks with what cannot be seen escaped.
pub fn shown(path: &str) -> String {
    let plain = |c: char| is_harmless(c) && !matches!(c, '\n' | '\t' | '\r' | '"' | '\\');
    if path.chars().all(plain) && path.trim() == path {
        return path.to_owned();
    }
    let mut text = String::from("\"");
    for c in path.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            c if is_harmless(c) && c != '\r' => text.push(c),
            c => text.push_str(&escaped(c)),
        }
    }
    text.push('"');
    text
}

/// Whether a character can stand as it is: it neither moves the cursor nor reorders or hides what stands beside it.
pub fn is_harmless(c: char) -> bool {
    !matches!(c,
        '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn in_chunks(bytes: &[u8], size: usize) -> String {
        let mut out = String::new();
        let mut stream = Harmless::default();
        for chunk in bytes.chunks(size) {
            stream.push(chunk, &mut |part| out.push_str(part));
        }
        stream.finish(&mut |part| out.push_str(part));
        out
    }

    #[test]
    fn what_is_no_text_is_given_on_in_large_pieces() {
        for bytes in [vec![0; 100_000], vec![0xff; 100_000], "\u{200b}\u{1b}".repeat(50_000).into_bytes()] {
            let (mut out, mut pieces) = (String::new(), 0);
            let mut stream = Harmless::default();
            for chunk in bytes.chunks(50_000) {
                stream.push(chunk, &mut |part| {
                    out.push_str(part);
                    pieces += 1;
                });
            }
            let expected: String = String::from_utf8_lossy(&bytes)
                .chars()
                .map(|c| if is_harmless(c) { c.to_string() } else { escaped(c) })
                .collect();
            assert_eq!(out, expected);
            assert!(pieces <= out.len() / (PIECE_BYTES / 2) + 4, "{pieces}");
        }
    }

    #[test]
    fn escapes_become_visible() {
        for (raw, shown) in [
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            ("\x1b[8mhidden\x1b[0m", "\\x1b[8mhidden\\x1b[0m"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("\u{9b}6n", "\\u{9b}6n"),
            ("10%\r20%\r\n", "10%\\r20%\n"),
            ("x\u{200b}\u{e0041}", "x\\u{200b}\\u{e0041}"),
            ("tab\tümlaut 👩‍👩‍👧 ok\n", "tab\tümlaut 👩‍👩‍👧 ok\n"),
        ] {
            assert_eq!(harmless(raw), shown);
        }
    }

    #[test]
    fn a_path_that_could_be_misread_is_quoted() {
        assert_eq!(shown("src/ä b.rs"), "src/ä b.rs");
        assert_eq!(shown("a\nb\u{1b}[2J"), r#""a\nb\x1b[2J""#);
        assert_eq!(shown(" a"), "\" a\"");
        assert_eq!(shown("a\u{202e}b"), r#""a\u{202e}b""#);
    }

    #[test]
    fn invalid_bytes_are_marked() {
        assert_eq!(in_chunks(b"a\xffb\xc3", 2), "a\u{fffd}b\u{fffd}");
        assert_eq!(in_chunks(b"\xed\xa0\x80", 1), "\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(in_chunks("ä€𝄞".as_bytes(), 1), "ä€𝄞");
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..60), size in 1usize..9) {
            let whole = in_chunks(&bytes, 1000);
            prop_assert_eq!(in_chunks(&bytes, size), whole.clone());
            prop_assert!(whole.chars().all(is_harmless));
        }

        #[test]
        fn making_harmless_twice_changes_nothing(text in "\\PC{0,30}") {
            let once = harmless(&text);
            prop_assert_eq!(harmless(&once), once);
        }
    }
}
