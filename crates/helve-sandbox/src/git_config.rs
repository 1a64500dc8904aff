//! A reader of git's configuration format, which is strict where programs disagree.
//!
//! In: the bytes of a `config` file. Out: its entries in order, keys in lower case as git compares them, or the line at
//! which it cannot be read. Git itself, libgit2 and others read corner cases differently, so control characters and
//! carriage returns inside a line are faults here: whoever wrote them wants one reader to see what another does not.
//! Deliberately not here: which entries are harmless, and following `include.path`.

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// In lower case.
    pub section: String,
    /// As it is written in quotes; in lower case where it is written with a dot.
    pub subsection: Option<Vec<u8>>,
    /// In lower case.
    pub name: String,
    /// `None` for a name that stands alone, which means true.
    pub value: Option<Vec<u8>>,
}

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which line, from 1.
    pub line: usize,
}

/// The largest file that is read.
pub const MOST_BYTES: usize = 1024 * 1024;

/// Reads a whole file.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry>, Fault> {
    let mut reader = Reader { rest: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), line: 1 };
    if bytes.len() > MOST_BYTES {
        return Err(Fault { line: 1 });
    }
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<Vec<u8>>)> = None;
    while let Some(byte) = reader.next()? {
        match byte {
            b' ' | b'\t' | b'\n' => {}
            b'#' | b';' => reader.skip_line()?,
            b'[' => section = Some(reader.section()?),
            first if first.is_ascii_alphabetic() => {
                let Some((section, subsection)) = &section else { return reader.fault() };
                let (name, value) = reader.variable(first)?;
                entries.push(Entry { section: section.clone(), subsection: subsection.clone(), name, value });
            }
            _ => return reader.fault(),
        }
    }
    Ok(entries)
}

struct Reader<'a> {
    rest: &'a [u8],
    line: usize,
}

impl Reader<'_> {
    fn fault<T>(&self) -> Result<T, Fault> {
        Err(Fault { line: self.line })
    }

    /// The next byte; a line's end is `\n`, however it is written.
    fn next(&mut self) -> Result<Option<u8>, Fault> {
        let Some((&first, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let byte = match (first, rest) {
            (b'\r', [b'\n', after @ ..]) => {
                self.rest = after;
                b'\n'
            }
            (b'\t' | b'\n', _) => first,
            (control, _) if control.is_ascii_control() => return self.fault(),
            _ => first,
        };
        self.line += usize::from(byte == b'\n');
        Ok(Some(byte))
    }

    /// The next byte, where the end of the file ends a line.
    fn in_line(&mut self) -> Result<u8, Fault> {
        Ok(self.next()?.unwrap_or(b'\n'))
    }

    fn skip_line(&mut self) -> Result<(), Fault> {
        while self.in_line()? != b'\n' {}
        Ok(())
    }

    /// What follows `[`: `name]`, `name.subsection]` or `name "subsection"]`.
    fn section(&mut self) -> Result<(String, Option<Vec<u8>>), Fault> {
        let mut name = Vec::new();
        let quoted = loop {
            match self.in_line()? {
                b']' => break None,
                b' ' | b'\t' => break Some(self.quoted_subsection()?),
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(byte.to_ascii_lowercase());
                }
                _ => return self.fault(),
            }
        };
        let name = String::from_utf8(name).map_err(|_| Fault { line: self.line })?;
        let (section, dotted) = match name.split_once('.') {
            Some((section, dotted)) => (section.to_owned(), Some(dotted.as_bytes().to_vec())),
            None => (name, None),
        };
        if section.is_empty() {
            return self.fault();
        }
        let subsection = match (dotted, quoted) {
            (Some(mut dotted), Some(quoted)) => {
                dotted.push(b'.');
                dotted.extend_from_slice(&quoted);
                Some(dotted)
            }
            (dotted, quoted) => dotted.or(quoted),
        };
        Ok((section, subsection))
    }

    fn quoted_subsection(&mut self) -> Result<Vec<u8>, Fault> {
        loop {
            match self.in_line()? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return self.fault(),
            }
        }
        let mut subsection = Vec::new();
        loop {
            match self.in_line()? {
                b'\n' => return self.fault(),
                b'"' => break,
                b'\\' => match self.in_line()? {
                    b'\n' => return self.fault(),
                    byte => subsection.push(byte),
                },
                byte => subsection.push(byte),
            }
        }
        match self.in_line()? {
            b']' => Ok(subsection),
            _ => self.fault(),
        }
    }

    fn variable(&mut self, first: u8) -> Result<(String, Option<Vec<u8>>), Fault> {
        let mut name = String::from(char::from(first.to_ascii_lowercase()));
        let mut after = loop {
            match self.in_line()? {
                byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                byte => break byte,
            }
        };
        while matches!(after, b' ' | b'\t') {
            after = self.in_line()?;
        }
        match after {
            b'\n' => Ok((name, None)),
            b'=' => Ok((name, Some(self.value()?))),
            _ => self.fault(),
        }
    }

    /// What follows `=`, over continued lines, without blanks around it and comments after it.
    fn value(&mut self) -> Result<Vec<u8>, Fault> {
        let mut value = Vec::new();
        // How long the value is without the blanks at its end.
        let mut length = 0;
        let mut quoted = false;
        loop {
            match self.in_line()? {
                b'\n' if quoted => return self.fault(),
                b'\n' => break,
                blank @ (b' ' | b'\t') if !quoted => {
                    if !value.is_empty() {
                        value.push(blank);
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    self.skip_line()?;
                    break;
                }
                b'"' => quoted = !quoted,
                b'\\' => match self.in_line()? {
                    b'\n' if self.rest.is_empty() => return self.fault(),
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return self.fault(),
                },
                byte => value.push(byte),
            }
            length = value.len();
        }
        value.truncate(length);
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
