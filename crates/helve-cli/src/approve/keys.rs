//! Bytes from a terminal in raw mode to keys and pasted text.
//!
//! Pasted text comes between markers that the terminal was told to send, and is never a key. A sequence of bytes that is
//! not known is one key that means nothing. Memory is bounded whatever comes in.

/// The longest paste that is kept; the rest of it is dropped.
const LONGEST_PASTE: usize = 64 * 1024;

/// An escape sequence that is longer than this is none.
const LONGEST_SEQUENCE: usize = 32;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(Key),
    Paste(String),
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-U: everything before the cursor.
    Rubout,
    /// Ctrl-L.
    Redraw,
    /// Anything else.
    Unknown,
}

/// Turns the bytes of one terminal into events, over the borders of reads.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Bytes that may go on: an escape sequence or a character.
    pending: Vec<u8>,
    /// The text of a paste that has not ended, and how much of its end marker has come.
    paste: Option<Paste>,
}

#[derive(Debug, Default)]
struct Paste {
    bytes: Vec<u8>,
    matched: usize,
}

impl Decoder {
    /// Takes what one read gave.
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        for byte in bytes {
            self.byte(*byte, events);
        }
    }

    /// Nothing more comes at once: an escape that stands alone is the key.
    pub(super) fn settle(&mut self, events: &mut Vec<Event>) {
        match std::mem::take(&mut self.pending).as_slice() {
            [] => {}
            [0x1b] => events.push(Event::Key(Key::Escape)),
            _ => events.push(Event::Key(Key::Unknown)),
        }
    }

    fn byte(&mut self, byte: u8, events: &mut Vec<Event>) {
        if let Some(paste) = &mut self.paste {
            if paste.takes(byte) {
                let text = String::from_utf8_lossy(&paste.bytes).into_owned();
                self.paste = None;
                events.push(Event::Paste(text));
            }
            return;
        }
        self.pending.push(byte);
        match self.key() {
            Progress::More => {}
            Progress::Paste => {
                self.pending.clear();
                self.paste = Some(Paste::default());
            }
            Progress::Key(key) => {
                self.pending.clear();
                events.push(Event::Key(key));
            }
            Progress::AfterEscape => {
                // What follows a lone escape is a key of its own.
                self.pending.clear();
                events.push(Event::Key(Key::Escape));
                self.byte(byte, events);
            }
        }
    }

    /// What the pending bytes are.
    fn key(&self) -> Progress {
        match self.pending.as_slice() {
            [0x1b] => Progress::More,
            [0x1b, b'[' | b'O'] => Progress::More,
            [0x1b, b'[' | b'O', rest @ ..] => sequence(&self.pending, rest),
            [0x1b, ..] => Progress::AfterEscape,
            bytes => character(bytes),
        }
    }
}

impl Paste {
    /// Takes a byte; whether it was the last of the end marker.
    fn takes(&mut self, byte: u8) -> bool {
        if PASTE_END.get(self.matched) == Some(&byte) {
            self.matched += 1;
            return self.matched == PASTE_END.len();
        }
        // The marker starts with an escape and has no other, so a new start is the only way to be inside it again.
        let broken = PASTE_END.get(..self.matched).unwrap_or_default();
        for kept in broken {
            self.keep(*kept);
        }
        self.matched = usize::from(byte == 0x1b);
        if self.matched == 0 {
            self.keep(byte);
        }
        false
    }

    fn keep(&mut self, byte: u8) {
        if self.bytes.len() < LONGEST_PASTE {
            self.bytes.push(byte);
        }
    }
}

enum Progress {
    More,
    Key(Key),
    Paste,
    AfterEscape,
}

/// `ESC [ … letter` or `ESC O letter`.
fn sequence(whole: &[u8], rest: &[u8]) -> Progress {
    let ended = rest.last().is_some_and(|byte| (0x40..=0x7e).contains(byte));
    if !ended {
        return if whole.len() < LONGEST_SEQUENCE { Progress::More } else { Progress::Key(Key::Unknown) };
    }
    if whole == PASTE_START {
        return Progress::Paste;
    }
    Progress::Key(match rest {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"3~" => Key::Delete,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => Key::Unknown,
    })
}

/// A control byte or a character of UTF-8.
fn character(bytes: &[u8]) -> Progress {
    let known = match bytes {
        [b'\r' | b'\n'] => Some(Key::Enter),
        [b'\t'] => Some(Key::Tab),
        [0x7f | 0x08] => Some(Key::Backspace),
        [0x01] => Some(Key::Home),
        [0x05] => Some(Key::End),
        [0x02] => Some(Key::Left),
        [0x06] => Some(Key::Right),
        [0x04] => Some(Key::Delete),
        [0x03] => Some(Key::Interrupt),
        [0x1a] => Some(Key::Suspend),
        [0x15] => Some(Key::Rubout),
        [0x0c] => Some(Key::Redraw),
        [0..0x20] => Some(Key::Unknown),
        _ => None,
    };
    if let Some(key) = known {
        return Progress::Key(key);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Progress::Key(text.chars().next().map_or(Key::Unknown, Key::Char)),
        Err(error) if error.error_len().is_none() => Progress::More,
        Err(_) => Progress::Key(Key::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut decoder = Decoder::default();
        decoder.push(bytes, &mut events);
        decoder.settle(&mut events);
        events
    }

    #[test]
    fn keys_are_read() {
        let cases: &[(&[u8], &[Key])] = &[
            (b"o", &[Key::Char('o')]),
            ("ü€😀".as_bytes(), &[Key::Char('ü'), Key::Char('€'), Key::Char('😀')]),
            (b"\r\n", &[Key::Enter, Key::Enter]),
            (b"\x1b", &[Key::Escape]),
            (b"\x1bo", &[Key::Escape, Key::Char('o')]),
            (b"\x1b\x1b[A", &[Key::Escape, Key::Up]),
            (b"\x1b[A\x1bOB\x1b[C\x1b[D", &[Key::Up, Key::Down, Key::Right, Key::Left]),
            (
                b"\x1b[H\x1b[4~\x1b[3~\x1b[5~\x1b[6~",
                &[Key::Home, Key::End, Key::Delete, Key::PageUp, Key::PageDown],
            ),
            (b"\x03\x1a\x15\x7f", &[Key::Interrupt, Key::Suspend, Key::Rubout, Key::Backspace]),
            (b"\x1b[1;5C\x00\xff", &[Key::Unknown, Key::Unknown, Key::Unknown]),
            (b"\x1b[12", &[Key::Unknown]),
        ];
        for (bytes, keys) in cases {
            let expected: Vec<Event> = keys.iter().copied().map(Event::Key).collect();
            assert_eq!(events(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn pasted_text_is_never_a_key() {
        assert_eq!(events(b"\x1b[200~y\ny\n\x03\x1b[201~"), [Event::Paste("y\ny\n\u{3}".into())]);
        assert_eq!(
            events(b"\x1b[200~a\x1b\x1b[20\x1b[201~n"),
            [Event::Paste("a\x1b\x1b[20".into()), Event::Key(Key::Char('n'))]
        );
        assert_eq!(events(b"\x1b[200~y\n"), [], "a paste that has not ended");
    }

    #[test]
    fn memory_is_bounded() {
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        decoder.push(b"\x1b[200~", &mut seen);
        decoder.push(&vec![b'x'; 3 * LONGEST_PASTE], &mut seen);
        decoder.push(b"\x1b[201~", &mut seen);
        assert_eq!(seen, [Event::Paste("x".repeat(LONGEST_PASTE))]);
        decoder.push(b"\x1b[", &mut seen);
        decoder.push(&vec![b'1'; 1000], &mut seen);
        assert!(decoder.pending.len() < LONGEST_SEQUENCE);
    }

    proptest! {
        #[test]
        fn borders_of_reads_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..80) {
            let cut = cut.min(bytes.len());
            let mut parts = Vec::new();
            let mut decoder = Decoder::default();
            decoder.push(&bytes[..cut], &mut parts);
            decoder.push(&bytes[cut..], &mut parts);
            decoder.settle(&mut parts);
            prop_assert_eq!(parts, events(&bytes));
        }
    }
}
