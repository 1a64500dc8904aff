//! What stands in a text and is not seen: escape sequences of terminals, control characters and invisible ones.
//!
//! In come bytes, one by one, because a text comes in pieces; out goes whether each belongs to such a thing. A sequence that
//! is none after all costs nothing: what was read of it is text again, or was never more than its first character.

use helve_core::harmless::is_harmless;

/// How far an escape sequence is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sequence {
    /// There is none.
    #[default]
    No,
    /// ESC.
    Begun,
    /// ESC and what chooses a set of characters: one more byte.
    Chooses,
    /// ESC `[` and parameters, as for a colour.
    Parameters,
    /// ESC `]` and a text, as for a link.
    Text,
    /// An ESC that may end the text.
    TextEnd,
}

impl Sequence {
    /// What follows if the byte belongs to it; none if it does not.
    pub(super) fn step(self, byte: u8) -> Option<Sequence> {
        use Sequence::*;
        let next = match (self, byte) {
            (No | Begun | Chooses | Parameters, 0x1b) => Begun,
            (Begun, b'[') => Parameters,
            (Begun, b']' | b'P' | b'X' | b'^' | b'_') => Text,
            (Begun, b'(' | b')' | b'*' | b'+' | b'#' | b'%') => Chooses,
            (Chooses, 0x30..=0x7e) | (Parameters, 0x40..=0x7e) => No,
            (Parameters, 0x20..=0x3f) => Parameters,
            (Text, 0x07) | (TextEnd, b'\\') => No,
            (Text, 0x1b) => TextEnd,
            (Text, 0x20..) => Text,
            // Any other control character stands for itself.
            (No, 0..=0x08 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f) => No,
            _ => return None,
        };
        Some(next)
    }
}

/// The first bytes of a character that is not ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    bytes: [u8; 4],
    len: usize,
}

/// What is known of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its end has not come yet.
    Open,
    /// It is one that is not seen.
    Unseen,
    /// It is any other, or none.
    Other,
}

impl Letter {
    /// The character that begins with this byte.
    pub(super) fn begin(byte: u8) -> Option<Letter> {
        matches!(byte, 0xc2..=0xf4).then_some(Letter { bytes: [byte, 0, 0, 0], len: 1 })
    }

    pub(super) fn push(&mut self, byte: u8) -> Known {
        let Some(place) = self.bytes.get_mut(self.len) else { return Known::Other };
        *place = byte;
        self.len += 1;
        match std::str::from_utf8(&self.bytes[..self.len]) {
            Ok(text) if text.chars().all(is_unseen) => Known::Unseen,
            Ok(_) => Known::Other,
            Err(error) if error.error_len().is_none() => Known::Open,
            Err(_) => Known::Other,
        }
    }
}

/// Besides what does harm: what joins letters or chooses among their shapes.
fn is_unseen(letter: char) -> bool {
    !is_harmless(letter)
        || matches!(letter, '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    /// The text without what is not seen in it.
    fn seen(text: &str) -> String {
        let mut sequence = Sequence::No;
        let mut seen = Vec::new();
        for byte in text.bytes() {
            match sequence.step(byte).or_else(|| Sequence::No.step(byte)) {
                Some(next) => sequence = next,
                None => {
                    sequence = Sequence::No;
                    seen.push(byte);
                }
            }
        }
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn sequences_end_where_terminals_end_them() {
        for (text, expected) in [
            ("\u{1b}[1mbold\u{1b}[0m", "bold"),
            ("\u{1b}[38;5;196mred\u{1b}(B\u{1b}[m!", "red!"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}!", "link!"),
            ("a\u{1b}b\u{8}c\u{0}\td\n", "abc\td\n"),
            ("\u{1b}[1\u{1b}[2mx", "x"),
        ] {
            assert_eq!(seen(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_character_is_known_at_its_end() {
        for (text, expected) in [
            ("\u{200b}", Known::Unseen),
            ("\u{ad}", Known::Unseen),
            ("\u{200d}", Known::Unseen),
            ("\u{e0041}", Known::Unseen),
            ("\u{e9}", Known::Other),
            ("\u{201c}", Known::Other),
        ] {
            let (first, rest) = text.as_bytes().split_first().unwrap();
            let mut letter = Letter::begin(*first).unwrap();
            let known: Vec<Known> = rest.iter().map(|byte| letter.push(*byte)).collect();
            assert_eq!(known.last(), Some(&expected), "{text:?}");
            assert!(known[..known.len() - 1].iter().all(|known| *known == Known::Open), "{text:?}");
        }
    }
}
