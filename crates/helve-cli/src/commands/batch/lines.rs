//! Cuts the input into lines, on a thread of its own, in bounded memory: a line over the limit is counted and dropped
//! while it is read. What one read of the input brings goes on together, and at once: a line never waits for the next.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use tokio::sync::mpsc;

use crate::failure::Failure;

/// One read of the input.
const READ_BYTES: usize = 64 * 1024;
/// Blocks that wait to be taken; each holds one read, and at most one long line.
const BLOCKS_WAITING: usize = 2;

/// What came of one read of the input.
#[derive(Debug, PartialEq)]
pub(super) enum Block {
    /// The lines that it finished.
    Lines(Vec<Line>),
    /// It failed: the message says why. Nothing follows.
    Unreadable(String),
}

/// One line that is not blank.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) content: Content,
}

#[derive(Debug, PartialEq)]
pub(super) enum Content {
    /// The line without its end.
    Text(String),
    /// It is longer than it may be.
    TooLong {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// It is not UTF-8.
    NotText,
}

/// Starts reading the file, or standard input.
pub(super) fn read(file: Option<&Path>, limit: u64) -> Result<mpsc::Receiver<Block>, Failure> {
    let input = match file {
        Some(path) if path != Path::new("-") => {
            let name = path.display();
            let file = File::open(path)
                .map_err(|error| Failure::usage(format!("the file {name} cannot be read: {error}")))?;
            Some(BufReader::with_capacity(READ_BYTES, file))
        }
        _ => None,
    };
    let (blocks, taken) = mpsc::channel(BLOCKS_WAITING);
    let send = move |block| blocks.blocking_send(block).is_ok();
    let cut = move || match input {
        Some(mut file) => cut_lines(&mut file, limit, send),
        None => cut_lines(&mut BufReader::with_capacity(READ_BYTES, io::stdin().lock()), limit, send),
    };
    let started = std::thread::Builder::new().name("lines".to_owned()).spawn(cut);
    started.map_err(|error| Failure::internal(format!("a thread cannot start: {error}")))?;
    Ok(taken)
}

/// Reads to the end of the input, or until nobody takes any more.
fn cut_lines(input: &mut impl BufRead, limit: u64, send: impl Fn(Block) -> bool) {
    let mut part = Part { number: 0, kept: Vec::new(), bytes: 0, limit };
    loop {
        let mut lines = Vec::new();
        let used = match input.fill_buf() {
            Ok(bytes) => {
                part.take(bytes, &mut lines);
                bytes.len()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                send(Block::Unreadable(format!("the input cannot be read: {error}")));
                return;
            }
        };
        input.consume(used);
        if used == 0 {
            part.finish(&mut lines);
        }
        let wanted = lines.is_empty() || send(Block::Lines(lines));
        if used == 0 || !wanted {
            return;
        }
    }
}

/// A line of which the end has not come yet.
struct Part {
    number: u64,
    kept: Vec<u8>,
    bytes: u64,
    limit: u64,
}

impl Part {
    /// Takes bytes in and gives the lines that they finish.
    fn take(&mut self, bytes: &[u8], lines: &mut Vec<Line>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (piece, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            self.bytes += piece.len() as u64;
            if self.bytes <= self.limit {
                self.kept.extend_from_slice(piece);
            } else {
                self.kept = Vec::new();
            }
            if ended {
                self.finish(lines);
            }
        }
    }

    /// The line has ended.
    fn finish(&mut self, lines: &mut Vec<Line>) {
        self.number += 1;
        let (kept, bytes) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.bytes));
        let content = if bytes > self.limit {
            Content::TooLong { bytes, limit: self.limit }
        } else if kept.trim_ascii().is_empty() {
            return;
        } else {
            String::from_utf8(kept).map_or(Content::NotText, Content::Text)
        };
        lines.push(Line { number: self.number, content });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use std::cell::RefCell;

    fn cut(input: &[u8], capacity: usize, limit: u64) -> Vec<Line> {
        let lines = RefCell::new(Vec::new());
        cut_lines(&mut BufReader::with_capacity(capacity, input), limit, |block| match block {
            Block::Lines(more) => {
                lines.borrow_mut().extend(more);
                true
            }
            Block::Unreadable(message) => panic!("{message}"),
        });
        lines.into_inner()
    }

    fn text(number: u64, text: &str) -> Line {
        Line { number, content: Content::Text(text.to_owned()) }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let input = b"one\n\n  \r\ntwo\r\nabcdef\nabcdefg\n\xff\nlast";
        let expected = vec![
            text(1, "one"),
            text(4, "two\r"),
            text(5, "abcdef"),
            Line { number: 6, content: Content::TooLong { bytes: 7, limit: 6 } },
            Line { number: 7, content: Content::NotText },
            text(8, "last"),
        ];
        for capacity in 1..40 {
            assert_eq!(cut(input, capacity, 6), expected, "read {capacity} bytes at a time");
        }
    }

    proptest! {
        #[test]
        fn cutting_while_reading_equals_cutting_the_whole(
            pieces in prop::collection::vec("[a-c \n\r]{0,9}", 0..12),
            capacity in 1usize..20,
            limit in 1u64..9,
        ) {
            let input = pieces.concat();
            let mut expected = Vec::new();
            for (at, line) in input.split('\n').enumerate() {
                let (number, bytes) = (at as u64 + 1, line.len() as u64);
                if bytes > limit {
                    expected.push(Line { number, content: Content::TooLong { bytes, limit } });
                } else if !line.trim().is_empty() {
                    expected.push(text(number, line));
                }
            }
            prop_assert_eq!(cut(input.as_bytes(), capacity, limit), expected);
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut part = Part { number: 0, kept: Vec::new(), bytes: 0, limit: 1000 };
        let mut lines = Vec::new();
        for _ in 0..1000 {
            part.take(&[b'x'; 4096], &mut lines);
        }
        assert_eq!((part.kept.capacity(), part.bytes), (0, 4_096_000));
    }

    #[test]
    fn a_reader_that_fails_is_reported_behind_what_it_gave() {
        struct Failing(bool);
        impl io::Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(io::Error::other("gone"));
                }
                buffer[..2].copy_from_slice(b"x\n");
                Ok(2)
            }
        }
        let blocks = RefCell::new(Vec::new());
        cut_lines(&mut BufReader::new(Failing(false)), 10, |block| {
            blocks.borrow_mut().push(block);
            true
        });
        let expected = vec![
            Block::Lines(vec![text(1, "x")]),
            Block::Unreadable("the input cannot be read: gone".into()),
        ];
        assert_eq!(blocks.into_inner(), expected);
    }
}
