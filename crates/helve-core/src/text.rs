//! Bounded text: the head and the tail of a stream, and an exact count of everything.
//!
//! A [`Capture`] holds at most its head and its tail however much is pushed. [`compose`] joins captures and literal
//! text to one text under a budget of characters, and says exactly what it left out. [`omission`] is the mark that
//! stands there for a model to read.

use std::collections::VecDeque;

use crate::CallId;

/// The head and tail of a text that may be of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    keep: usize,
    head: String,
    head_chars: usize,
    tail: VecDeque<u8>,
    tail_chars: usize,
    chars: u64,
    bytes: u64,
}

impl Capture {
    /// One that keeps the first and the last `keep` characters.
    pub fn new(keep: usize) -> Self {
        Capture {
            keep,
            head: String::new(),
            head_chars: 0,
            tail: VecDeque::new(),
            tail_chars: 0,
            chars: 0,
            bytes: 0,
        }
    }

    /// A capture that holds `text` whole.
    pub fn whole(text: &str) -> Self {
        let mut capture = Capture::new(text.chars().count());
        capture.push(text);
        capture
    }

    /// Adds text at the end.
    pub fn push(&mut self, text: &str) {
        let chars = text.chars().count();
        self.chars += chars as u64;
        self.bytes += text.len() as u64;
        let room = self.keep - self.head_chars;
        if chars <= room {
            self.head.push_str(text);
            self.head_chars += chars;
            return;
        }
        let (first, rest) = text.split_at(byte_of_char(text, room));
        self.head.push_str(first);
        self.head_chars = self.keep;
        self.push_tail(rest, chars - room);
    }

    fn push_tail(&mut self, text: &str, chars: usize) {
        if chars >= self.keep {
            let cut = byte_of_char(text, chars - self.keep);
            self.tail.clear();
            self.tail.extend(&text.as_bytes()[cut..]);
            self.tail_chars = self.keep;
            return;
        }
        self.tail.extend(text.as_bytes());
        self.tail_chars += chars;
        while self.tail_chars > self.keep {
            self.tail.pop_front();
            while self.tail.front().is_some_and(|byte| is_continuation(*byte)) {
                self.tail.pop_front();
            }
            self.tail_chars -= 1;
        }
    }

    /// Characters pushed in all.
    pub fn chars(&self) -> u64 {
        self.chars
    }

    /// Bytes pushed in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.chars == 0
    }

    /// Whether the last character is a newline.
    pub fn ends_with_newline(&self) -> bool {
        match self.tail.back() {
            Some(byte) => *byte == b'\n',
            None => self.head.ends_with('\n'),
        }
    }

    fn tail_text(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The whole text, if nothing of it is gone.
    pub fn text(&self) -> Option<String> {
        let held = self.head_chars as u64 + self.tail_chars as u64;
        (held == self.chars).then(|| format!("{}{}", self.head, self.tail_text()))
    }

    /// The first `n` characters; fewer if there are fewer. `n` is at most what was kept.
    fn first(&self, n: usize) -> String {
        if n <= self.head_chars {
            return self.head[..byte_of_char(&self.head, n)].to_owned();
        }
        self.text().map_or_else(|| self.head.clone(), |whole| whole[..byte_of_char(&whole, n)].to_owned())
    }

    /// The last `n` characters; fewer if there are fewer. `n` is at most what was kept.
    fn last(&self, n: usize) -> String {
        let held = self.text().unwrap_or_else(|| self.tail_text());
        let chars = held.chars().count();
        held[byte_of_char(&held, chars.saturating_sub(n))..].to_owned()
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The byte at which character `n` starts; the text's length if it has no more than `n`.
fn byte_of_char(text: &str, n: usize) -> usize {
    if n == 0 {
        return 0;
    }
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// A composed text and what was left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// Head, mark and tail; or the whole.
    pub text: String,
    /// Characters left out.
    pub omitted_chars: u64,
    /// Bytes left out.
    pub omitted_bytes: u64,
}

/// Joins `pieces` to a text of at most `budget` characters (the mark not counted), half of it head and half tail.
/// Each piece must have kept at least `budget` characters or be whole. `mark` gets the number of characters left out.
pub fn compose(pieces: &[Capture], budget: usize, mark: impl FnOnce(u64) -> String) -> Composed {
    let total: u64 = pieces.iter().map(Capture::chars).sum();
    let whole: Option<String> = pieces.iter().map(Capture::text).collect();
    if let (true, Some(text)) = (total <= budget as u64, whole) {
        return Composed { text, omitted_chars: 0, omitted_bytes: 0 };
    }
    let mut head = String::new();
    let mut want = budget.div_ceil(2);
    for piece in pieces {
        head.push_str(&piece.first(want));
        want = want.saturating_sub(usize::try_from(piece.chars()).unwrap_or(usize::MAX));
        if want == 0 {
            break;
        }
    }
    let mut tails = Vec::new();
    let mut want = budget / 2;
    for piece in pieces.iter().rev() {
        if want == 0 {
            break;
        }
        tails.push(piece.last(want));
        want = want.saturating_sub(usize::try_from(piece.chars()).unwrap_or(usize::MAX));
    }
    tails.reverse();
    let tail = tails.concat();
    let omitted_chars = total - head.chars().count() as u64 - tail.chars().count() as u64;
    let bytes: u64 = pieces.iter().map(Capture::bytes).sum();
    let omitted_bytes = bytes - head.len() as u64 - tail.len() as u64;
    Composed { text: format!("{head}{}{tail}", mark(omitted_chars)), omitted_chars, omitted_bytes }
}

/// The mark that stands for `chars` characters left out. It says how to see them where the output of `call` is kept.
pub fn omission(chars: u64, call: Option<&CallId>) -> String {
    let remedy =
        call.map_or_else(String::new, |call| format!("; call read_output with call \"{call}\" to see them"));
    format!("\n\n... ({chars} characters left out{remedy}) ...\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn capture(keep: usize, parts: &[String]) -> Capture {
        let mut capture = Capture::new(keep);
        for part in parts {
            capture.push(part);
        }
        capture
    }

    #[test]
    fn a_short_text_stays_whole() {
        let composed =
            compose(&[Capture::whole("ab"), capture(10, &["cd".into()])], 10, |n| format!("<{n}>"));
        assert_eq!(composed, Composed { text: "abcd".into(), omitted_chars: 0, omitted_bytes: 0 });
    }

    #[test]
    fn the_mark_names_the_way_to_the_rest_only_where_there_is_one() {
        let call = CallId::from_parts(1, 1);
        assert_eq!(
            omission(7, Some(&call)),
            format!(
                "\n\n... (7 characters left out; call read_output with call \"{call}\" to see them) ...\n\n"
            )
        );
        assert_eq!(omission(7, None), "\n\n... (7 characters left out) ...\n\n");
    }

    proptest! {
        #[test]
        fn compose_equals_cutting_the_whole_text(
            a in prop::collection::vec("[a-zäö€\n]{0,40}", 0..8),
            b in prop::collection::vec("[0-9𝄞]{0,40}", 0..8),
            budget in 1usize..60,
        ) {
            let whole: Vec<char> = (a.concat() + "|" + &b.concat()).chars().collect();
            let pieces = [capture(budget, &a), Capture::whole("|"), capture(budget, &b)];
            let composed = compose(&pieces, budget, |n| format!("<{n}>"));
            let expected: String = if whole.len() <= budget {
                whole.iter().collect()
            } else {
                let head: String = whole[..budget.div_ceil(2)].iter().collect();
                let tail: String = whole[whole.len() - budget / 2..].iter().collect();
                format!("{head}<{}>{tail}", whole.len() - budget)
            };
            prop_assert_eq!(composed.text, expected);
        }
    }
}
