//! What the bytes of a file say that it is: text in which encoding, or something else.
//!
//! The answer depends on the file alone, never on the window that is asked for: a byte order mark; then the head, and
//! where a large file has nothing but ASCII there, samples from the rest of it. UTF-8 that is valid is UTF-8, and so is what is
//! damaged in a few places; what is not is left to statistics.

use std::collections::BTreeSet;
use std::io;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;
use helve_core::files::{self, Shape};
use memchr::memchr;

use super::coding::{Coding, Then};
use super::read_full;
use crate::source::Source;

/// A file up to this size is looked at as a whole.
pub(super) const WHOLE: u64 = 1 << 20;
/// So much of a larger one.
const HEAD: usize = 64 << 10;
/// So many samples of a larger one whose head says nothing.
const SAMPLES: u64 = 8;
const SAMPLE: usize = 8 << 10;
/// What is not UTF-8 is looked at by statistics up to so many bytes.
const GUESS: usize = 256 << 10;
/// How many bytes of a file that is no text are given.
const SHOWN: usize = 256;

/// A file that is text: how to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Text {
    pub(super) coding: Coding,
    /// Bytes of the byte order mark.
    pub(super) mark: u64,
}

impl Text {
    pub(super) fn shape(self) -> Shape {
        Shape::Text(files::Encoding { name: self.coding.name().to_owned(), bom: self.mark > 0 })
    }
}

/// What a file is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Text(Text),
    Binary { media_type: &'static str, head: Vec<u8> },
}

/// Looks at the file.
pub(super) fn detect(source: &dyn Source) -> io::Result<Found> {
    let whole = source.len() <= WHOLE;
    let mut head = vec![0; if whole { source.len() as usize } else { HEAD }];
    let count = read_full(source, &mut head, 0)?;
    head.truncate(count);
    if let Some(text) = by_mark(&head) {
        return Ok(Found::Text(text));
    }
    let front = &head[..head.len().min(HEAD)];
    if memchr(0, front).is_some() {
        return Ok(match zero_pattern(front) {
            Some(big) => Found::Text(Text { coding: Coding::Utf16 { big }, mark: 0 }),
            None => binary(&head),
        });
    }
    if head.starts_with(b"%PDF-") {
        return Ok(binary(&head));
    }
    let mut detector = Guess::default();
    detector.look(&head, !whole);
    if !whole && detector.ascii {
        let mut sample = vec![0; SAMPLE];
        for number in 1..=SAMPLES {
            let room = source.len().saturating_sub(SAMPLE as u64);
            let at = (room / SAMPLES * number).max(HEAD as u64).min(room);
            let count = read_full(source, &mut sample, at)?;
            // The sample may begin inside a character.
            let begin = sample[..count].iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            detector.look(&sample[begin..count], true);
        }
    }
    // A few control characters are found in logs; among bytes that are not even UTF-8 they mean something else.
    let most = if detector.is_utf8() { front.len() / 10 } else { front.len() / 50 };
    if controls(front) > most {
        return Ok(binary(&head));
    }
    Ok(Found::Text(Text { coding: detector.answer(), mark: 0 }))
}

fn by_mark(head: &[u8]) -> Option<Text> {
    let text = |coding, mark| Some(Text { coding, mark });
    match head {
        [0xef, 0xbb, 0xbf, ..] => text(Coding::Utf8, 3),
        // UTF-32, which nobody writes into files.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => text(Coding::Utf16 { big: false }, 2),
        [0xfe, 0xff, ..] => text(Coding::Utf16 { big: true }, 2),
        _ => None,
    }
}

/// Whether the zero bytes are those of UTF-16: many, all of one parity, and the characters are plausible. Says whether
/// the high byte comes first.
fn zero_pattern(head: &[u8]) -> Option<bool> {
    if head.len() < 4 || !head.len().is_multiple_of(2) {
        return None;
    }
    let mut zeros = [0usize; 2];
    for (at, byte) in head.iter().enumerate() {
        zeros[at % 2] += usize::from(*byte == 0);
    }
    let big = match zeros {
        [0, _] => false,
        [_, 0] => true,
        _ => return None,
    };
    // Latin text has hardly anything but zeros there, other alphabets a few values; pairs of letters have many.
    let units = head.len() / 2;
    let highs: BTreeSet<u8> = head.chunks_exact(2).map(|unit| unit[usize::from(!big)]).collect();
    if zeros[usize::from(!big)] * 10 < units * 7 && (units < 16 || highs.len() > 4) {
        return None;
    }
    let mut text = String::new();
    Coding::Utf16 { big }.decode(head, Then::More, &mut text);
    let strange = |c: char| c == '\u{fffd}' || (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}'));
    (!text.chars().any(strange)).then_some(big)
}

/// Control characters that text does not use. Escape and backspace are those of terminals.
fn controls(bytes: &[u8]) -> usize {
    let odd = |byte: &&u8| matches!(byte, 0..=7 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    bytes.iter().filter(odd).count()
}

fn binary(head: &[u8]) -> Found {
    let media_type = infer::get(head).map_or("application/octet-stream", |kind| kind.mime_type());
    Found::Binary { media_type, head: head[..head.len().min(SHOWN)].to_vec() }
}

/// Whether text in an encoding has many places that are valid UTF-8 by chance: where characters have several bytes, and in
/// Thai, whose vowels and consonants follow each other as the bytes of UTF-8 do.
fn is_like_utf8(encoding: &'static Encoding) -> bool {
    !encoding.is_single_byte() || encoding == encoding_rs::WINDOWS_874
}

/// Collects what parts of a file say about its encoding.
struct Guess {
    ascii: bool,
    /// Characters beyond ASCII that are valid UTF-8, and places that are not.
    valid: usize,
    wrong: usize,
    detector: EncodingDetector,
    room: usize,
}

impl Default for Guess {
    fn default() -> Self {
        // An encoding with a state cannot be entered in its middle.
        let detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        Guess { ascii: true, valid: 0, wrong: 0, detector, room: GUESS }
    }
}

impl Guess {
    /// Looks at a part; with `cut` the file goes on after it.
    fn look(&mut self, bytes: &[u8], cut: bool) {
        let Some(start) = bytes.iter().position(|byte| !byte.is_ascii()) else { return };
        self.ascii = false;
        if let Err(error) = std::str::from_utf8(bytes)
            && !(cut && error.error_len().is_none())
        {
            for chunk in bytes.utf8_chunks() {
                self.valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
                self.wrong += usize::from(!chunk.invalid().is_empty());
            }
            // It is slower than anything else here, and needs to see no more than this.
            let part = &bytes[start..(start + self.room).min(bytes.len())];
            self.room -= part.len();
            self.detector.feed(part, false);
        }
    }

    /// Whether it is UTF-8, if a damaged one: other encodings are hardly ever valid by chance.
    fn is_utf8(&self) -> bool {
        self.wrong * 8 <= self.valid
    }

    fn answer(&self) -> Coding {
        if self.is_utf8() {
            return Coding::Utf8;
        }
        match self.detector.guess(None, Utf8Detection::Deny) {
            encoding if encoding == encoding_rs::UTF_8 => Coding::Utf8,
            encoding if self.wrong <= self.valid && !is_like_utf8(encoding) => Coding::Utf8,
            encoding => Coding::Other(encoding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn name(bytes: &[u8]) -> &'static str {
        match detect(&bytes).unwrap() {
            Found::Text(text) => text.coding.name(),
            Found::Binary { media_type, .. } => media_type,
        }
    }

    #[test]
    fn a_little_damage_makes_no_other_encoding() {
        for bytes in [
            &b"M\xc3\xbcller, caf\xff\n"[..],
            b"M\xc3\xbcller \xe2\x80\x94 caf\xe9\n",
            b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xff\n",
            // Cut inside a character, as by `head -c`.
            "Grüße aus Köln, schön".as_bytes().get(..21).unwrap(),
        ] {
            assert_eq!(name(bytes), "UTF-8", "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn other_encodings_stay_what_they_are() {
        for (label, text) in [
            ("windows-1252", "Für alle Fälle: schöne Grüße aus Köln."),
            ("windows-1251", "Съешь же ещё этих мягких французских булок"),
            ("KOI8-U", "Съешь ещё этих мягких французских булок, да выпей чаю"),
            ("windows-1253", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία"),
            ("windows-874", "สวัสดีครับ ยินดีต้อนรับ"),
            ("GBK", "中文文本,用于测试编码的检测。"),
            ("Shift_JIS", "日本語のテキストです。"),
            ("Big5", "中文文字,用於測試編碼的偵測。"),
            ("EUC-KR", "한국어 텍스트입니다."),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            assert_eq!(name(&encoding.encode(text).0), label);
        }
    }
}
