//! Server-sent events from bytes that come in any pieces. No event is longer than the bound, whatever is sent.
//!
//! Only the data matters here: the four wire formats say inside of it what kind of event it is.

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The line that is not ended yet.
    line: Vec<u8>,
    /// The data of the event that is not ended yet, each line with its newline.
    data: Vec<u8>,
    /// The last byte was a carriage return: a newline after it belongs to it.
    after_cr: bool,
    /// Something has been read: a byte order mark can only be the very first.
    begun: bool,
    bound: usize,
}

/// An event is longer than the bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    pub(super) fn new(bound: usize) -> Events {
        Events { bound, ..Events::default() }
    }

    /// Takes more bytes and gives the events that end in them to `take`, as long as it wants them.
    pub(super) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.data.len() + part.len() > self.bound {
                return Err(TooLong.into());
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(take)?;
        }
        Ok(())
    }

    /// The event whose last line or whose end is missing, if there is one.
    pub(super) fn rest(&mut self) -> Option<String> {
        let mut rest = None;
        let mut keep = |data: &str| {
            rest = Some(data.to_owned());
            Ok::<(), TooLong>(())
        };
        if !self.line.is_empty() {
            self.end_line(&mut keep).ok()?;
        }
        self.end_event(&mut keep).ok()?;
        rest
    }

    fn end_line<E>(&mut self, take: &mut dyn FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        let ended = if text.is_empty() { self.end_event(take) } else { Ok(()) };
        if let Some(value) = text.strip_prefix(b"data") {
            match value.strip_prefix(b":") {
                Some(value) => self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value)),
                // A field of another name that begins like this one, unless there is nothing more of it.
                None if !value.is_empty() => return ended,
                None => {}
            }
            self.data.push(b'\n');
        }
        // The room is used again for the next line.
        self.line = line;
        self.line.clear();
        ended
    }

    fn end_event<E>(&mut self, take: &mut dyn FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        if self.data.pop().is_none() {
            return Ok(());
        }
        let data = std::mem::take(&mut self.data);
        take(&String::from_utf8_lossy(&data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]], bound: usize) -> (Vec<String>, Option<String>, bool) {
        let mut events = Events::new(bound);
        let mut seen = Vec::new();
        for piece in pieces {
            let mut take = |data: &str| {
                seen.push(data.to_owned());
                Ok(())
            };
            if events.push::<TooLong>(piece, &mut take).is_err() {
                return (seen, None, true);
            }
        }
        let rest = events.rest();
        (seen, rest, false)
    }

    #[test]
    fn lines_end_in_three_ways() {
        for (text, events, rest) in [
            ("data: a\n\ndata:b\r\n\r\ndata:  c\r\rdata\n\n", vec!["a", "b", " c", ""], None),
            ("data: a\ndata: b\nid: 7\nretry: 1\nevent: x\n\n", vec!["a\nb"], None),
            (": comment\n\n\n\ndatabase: x\n\n", vec![], None),
            ("\u{feff}data: a\n\n", vec!["a"], None),
            ("data: a", vec![], Some("a")),
            ("data: a\n", vec![], Some("a")),
            ("data: a\n\nevent: x", vec!["a"], None),
        ] {
            let (seen, left, too_long) = read(&[text.as_bytes()], 1000);
            assert_eq!(
                (seen, left, too_long),
                (events.iter().map(|e| (*e).to_owned()).collect(), rest.map(str::to_owned), false),
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_event_is_bounded_and_many_are_not() {
        let many = "data: 0123456789\n\n".repeat(100);
        assert_eq!(read(&[many.as_bytes()], 20).0.len(), 100);
        assert!(read(&[b"data: 0123", b"456789012345"], 20).2, "a line");
        assert!(read(&[b"data: 0123\n".as_slice(); 4], 20).2, "many lines");
        assert!(read(&[&[b':'; 21]], 20).2, "a comment");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "(data: ?|[a-zä:]|\r|\n|\r\n){0,40}", cuts in proptest::collection::vec(0usize..100, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces, 64), read(&[bytes], 64));
        }
    }
}
