//! The language of `sed`: enough of it to find the commands that reach outside.
//!
//! The grammar is GNU's. Where versions differ on whether a delimiter inside `[…]` counts, both readings are taken: a
//! version that refuses the script does no harm.

/// A command that reaches outside of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// `r`, `R`: reads a file.
    Read(String),
    /// `w`, `W`, `s///w`: writes a file.
    Write(String),
    /// `e COMMAND`: has a shell run it.
    Run(String),
    /// `e`, `s///e`: has a shell run what was read.
    RunInput,
}

/// The acts of a script; none if it cannot be read.
pub(super) fn read(script: &str) -> Option<Vec<Act>> {
    let mut reader = Reader { text: script, at: 0, brackets: true, ambiguous: false, acts: Vec::new() };
    let complete = reader.script();
    let mut acts = reader.acts;
    if reader.ambiguous {
        let mut other = Reader { text: script, at: 0, brackets: false, ambiguous: false, acts: Vec::new() };
        // A script that the other reading refuses runs up to nothing: it is read whole before it starts.
        if other.script().is_some() {
            acts.append(&mut other.acts);
        }
    }
    complete.map(|()| acts)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether a delimiter inside `[…]` is an ordinary character.
    brackets: bool,
    /// Whether that made a difference.
    ambiguous: bool,
    acts: Vec<Act>,
}

impl<'a> Reader<'a> {
    /// Reads commands to the end of the text.
    fn script(&mut self) -> Option<()> {
        loop {
            self.skip(|next| next.is_ascii_whitespace() || next == ';');
            if self.peek().is_none() {
                return Some(());
            }
            self.addresses()?;
            self.command()?;
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip(&mut self, while_true: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&while_true) {
            self.take();
        }
    }

    fn blanks(&mut self) {
        self.skip(|next| next == ' ' || next == '\t');
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.take();
        }
        found
    }

    /// `ADDRESS`, `ADDRESS,ADDRESS`, any number of `!`.
    fn addresses(&mut self) -> Option<()> {
        if self.address()? {
            self.blanks();
            if self.eat(',') {
                self.blanks();
                if self.eat('+') || self.eat('~') {
                    self.skip(|next| next.is_ascii_digit());
                } else if !self.address()? {
                    return None;
                }
            }
        }
        self.skip(|next| next == ' ' || next == '\t' || next == '!');
        Some(())
    }

    fn address(&mut self) -> Option<bool> {
        match self.peek() {
            Some('$') => {
                self.take();
            }
            Some(digit) if digit.is_ascii_digit() => {
                self.skip(|next| next.is_ascii_digit());
                self.blanks();
                if self.eat('~') {
                    self.blanks();
                    self.skip(|next| next.is_ascii_digit());
                }
            }
            Some('/') => {
                self.take();
                self.delimited('/', true)?;
                self.skip(|next| next == 'I' || next == 'M');
            }
            Some('\\') => {
                self.take();
                let delimiter = self.take()?;
                self.delimited(delimiter, true)?;
                self.skip(|next| next == 'I' || next == 'M');
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// Text up to an unescaped delimiter, which is taken too.
    fn delimited(&mut self, delimiter: char, is_pattern: bool) -> Option<()> {
        if delimiter == '\n' || delimiter == '\\' {
            return None;
        }
        // Where the text of a bracket expression starts.
        let mut bracket: Option<usize> = None;
        while let Some(next) = self.take() {
            match (next, bracket) {
                ('[', Some(_)) if self.brackets && matches!(self.peek(), Some('.' | ':' | '=')) => {
                    self.class();
                }
                (']', Some(start)) => {
                    let inside = &self.text[start..self.at - 1];
                    let inside = inside.strip_prefix('^').unwrap_or(inside);
                    if !inside.is_empty() {
                        bracket = None;
                    }
                }
                (_, Some(_)) if next == delimiter => self.ambiguous = true,
                ('\n', Some(_)) if is_pattern => return None,
                (_, Some(_)) => {}
                ('\\', None) => {
                    self.take()?;
                }
                (_, None) if next == delimiter => return Some(()),
                ('[', None) if is_pattern && self.brackets => {
                    bracket = Some(self.at);
                }
                _ => {}
            }
        }
        None
    }

    /// `[:alpha:]` inside brackets; `[` is taken.
    fn class(&mut self) {
        let Some(kind) = self.take() else { return };
        let end: &[u8] = match kind {
            ':' => b":]",
            '.' => b".]",
            _ => b"=]",
        };
        // A class has a short name; anything longer is no class.
        let window = &self.text.as_bytes()[self.at..self.text.len().min(self.at + 16)];
        if let Some(found) = window.windows(2).position(|pair| pair == end) {
            self.at += found + 2;
        }
    }

    /// The rest of the line, which is taken too.
    fn line(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find('\n').unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        &rest[..end]
    }

    fn command(&mut self) -> Option<()> {
        self.blanks();
        match self.take()? {
            '{' | ';' | '\n' => return Some(()),
            '#' => {
                self.line();
                return Some(());
            }
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'F' | 'z' => {}
            'l' | 'L' | 'q' | 'Q' => {
                self.blanks();
                self.skip(|next| next.is_ascii_digit());
            }
            ':' | 'b' | 't' | 'T' | 'v' => {
                self.blanks();
                self.skip(|next| !next.is_whitespace() && next != ';' && next != '}');
            }
            'a' | 'i' | 'c' => {
                self.added_text();
                return Some(());
            }
            'r' | 'R' => {
                let path = self.file()?;
                self.acts.push(Act::Read(path));
                return Some(());
            }
            'w' | 'W' => {
                let path = self.file()?;
                self.acts.push(Act::Write(path));
                return Some(());
            }
            'e' => {
                let command = self.line().trim();
                let act = if command.is_empty() { Act::RunInput } else { Act::Run(command.to_owned()) };
                self.acts.push(act);
                return Some(());
            }
            's' => return self.substitution(),
            'y' => {
                let delimiter = self.take()?;
                self.delimited(delimiter, false)?;
                self.delimited(delimiter, false)?;
            }
            _ => return None,
        }
        self.end_of_command()
    }

    /// Behind a command may stand blanks and one of `;`, `}`, `#`, a new line or the end.
    fn end_of_command(&mut self) -> Option<()> {
        self.skip(|next| next == ' ' || next == '\t' || next == '\r');
        match self.peek() {
            None | Some(';' | '\n' | '}' | '#') => Some(()),
            Some(_) => None,
        }
    }

    /// The text of `a`, `i`, `c`: lines, each but the last ending in a backslash.
    fn added_text(&mut self) {
        while let Some(next) = self.take() {
            match next {
                '\\' => {
                    self.take();
                }
                '\n' => return,
                _ => {}
            }
        }
    }

    fn file(&mut self) -> Option<String> {
        self.blanks();
        let path = self.line();
        (!path.is_empty()).then(|| path.to_owned())
    }

    fn substitution(&mut self) -> Option<()> {
        let delimiter = self.take()?;
        self.delimited(delimiter, true)?;
        let start = self.at;
        self.delimited(delimiter, false)?;
        let with = &self.text[start..self.at - delimiter.len_utf8()];
        loop {
            match self.peek() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {
                    self.take();
                }
                Some('e') => {
                    self.take();
                    self.acts.push(Act::RunInput);
                    // What is put in may be all of the line.
                    if !with.contains(['&', '\\']) && !with.trim().is_empty() {
                        self.acts.push(Act::Run(with.to_owned()));
                    }
                }
                Some('w') => {
                    self.take();
                    let path = self.file()?;
                    self.acts.push(Act::Write(path));
                    return Some(());
                }
                _ => return self.end_of_command(),
            }
        }
    }
}
