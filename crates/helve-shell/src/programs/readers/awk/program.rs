//! The language of `awk`: a tokenizer, and enough of the grammar to tell output from comparison and a regular expression
//! from a division.

/// What a program does beyond its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Reads a file by `getline <`.
    Read(String),
    /// Writes a file by `print >`.
    Write(String),
    /// Writes a file whose name is computed.
    WriteSomewhere,
    /// Has a shell run a text.
    Run(String),
    /// Has a shell run a text that is computed, or takes in code.
    RunSomething,
    /// Opens a connection.
    Connect,
    /// The program cannot be read.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Number,
    Text(String),
    Pattern,
    Newline,
    /// An operator or a bracket.
    Mark(&'static str),
    /// `)` that closes the head of an `if`, `while` or `for`.
    HeadEnd,
}

/// The acts of a program.
pub(super) fn read(text: &str) -> Vec<Act> {
    let Some(tokens) = tokens(text) else {
        // Whatever it means, without these marks it does nothing outside.
        return if has_marks(text) { vec![Act::Unreadable] } else { Vec::new() };
    };
    let mut finder =
        Finder { tokens: &tokens, acts: Vec::new(), depth: 0, before: None, printed: 0, print: None };
    for at in 0..tokens.len() {
        finder.token(at);
    }
    finder.acts
}

fn has_marks(text: &str) -> bool {
    text.contains(['|', '>', '<', '@']) || text.contains("system")
}

/// Longest first.
const MARKS: &[&str] = &[
    "**=", "|&", "||", "&&", "==", "!=", "<=", ">=", ">>", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=",
    "**", "!~", "::", "{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", ">", "<",
    "|", "?", ":", "~", "$", "=", "@", "&",
];

/// The tokens; none if the text is not one that every `awk` reads alike.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let mut tokens: Vec<Token<'_>> = Vec::new();
    // For each open parenthesis, whether it is the head of a control statement.
    let mut heads: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b' ' | b'\t' | b'\r' => at += 1,
            b'\n' => {
                tokens.push(Token::Newline);
                at += 1;
            }
            b'\\' => {
                let rest = &text[at + 1..];
                at += 1 + if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
                if !rest.starts_with(['\r', '\n']) {
                    return None;
                }
            }
            b'#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            b'"' => {
                let (string, end) = string(text, at + 1)?;
                tokens.push(Token::Text(string));
                at = end;
            }
            b'/' if wants_operand(tokens.last())? => {
                at = pattern(bytes, at + 1)?;
                tokens.push(Token::Pattern);
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let end = at + run(&bytes[at..], |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
                if matches!(&text[at..end], "switch" | "case" | "default") {
                    // Keywords to some versions, names to others: a `/` behind them is read differently.
                    return None;
                }
                tokens.push(Token::Name(&text[at..end]));
                at = end;
            }
            byte if byte.is_ascii_digit() || byte == b'.' => {
                at += run(&bytes[at..], |byte| byte.is_ascii_alphanumeric() || *byte == b'.');
                tokens.push(Token::Number);
            }
            _ => {
                let mark = MARKS.iter().find(|mark| text[at..].starts_with(**mark))?;
                at += mark.len();
                tokens.push(match *mark {
                    "(" => {
                        heads.push(matches!(tokens.last(), Some(Token::Name("if" | "while" | "for"))));
                        Token::Mark("(")
                    }
                    ")" if heads.pop() == Some(true) => Token::HeadEnd,
                    mark => Token::Mark(mark),
                });
            }
        }
    }
    Some(tokens)
}

fn run(bytes: &[u8], wanted: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().position(|byte| !wanted(byte)).unwrap_or(bytes.len())
}

/// Whether a `/` behind this token starts a regular expression; none where versions of `awk` may differ.
fn wants_operand(last: Option<&Token<'_>>) -> Option<bool> {
    Some(match last {
        None | Some(Token::Newline | Token::HeadEnd) => true,
        Some(Token::Number | Token::Text(_) | Token::Pattern) => false,
        Some(Token::Mark("$")) => return None,
        Some(Token::Mark(mark)) => !matches!(*mark, ")" | "]" | "++" | "--"),
        Some(Token::Name(name)) => match *name {
            "print" | "printf" | "return" | "else" | "do" | "in" | "exit" | "delete" => true,
            "getline" | "length" | "next" | "nextfile" | "break" | "continue" | "BEGIN" | "END" => {
                return None;
            }
            _ => false,
        },
    })
}

/// The end of a regular expression; none if versions of `awk` may differ on it.
fn pattern(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut bracket: Option<usize> = None;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match (byte, bracket) {
            (b'\n', _) => return None,
            (b'\\', _) => at += 1,
            (b'/', None) => return Some(at),
            // gawk reads on, others end the expression here.
            (b'/', Some(_)) => return None,
            (b'[', None) => bracket = Some(at),
            (b']', Some(start)) if at - 1 > start && bytes[start..at - 1] != *b"^" => bracket = None,
            _ => {}
        }
    }
    None
}

/// A string with its escapes decoded, and the offset behind it.
fn string(text: &str, start: usize) -> Option<(String, usize)> {
    let mut decoded = String::new();
    let mut chars = text[start..].char_indices().peekable();
    while let Some((offset, next)) = chars.next() {
        match next {
            '"' => return Some((decoded, start + offset + 1)),
            '\n' => return None,
            '\\' => match chars.next()?.1 {
                'n' => decoded.push('\n'),
                't' => decoded.push('\t'),
                'r' => decoded.push('\r'),
                'a' => decoded.push('\u{7}'),
                'b' => decoded.push('\u{8}'),
                'f' => decoded.push('\u{c}'),
                'v' => decoded.push('\u{b}'),
                '\n' => {}
                first @ '0'..='7' => {
                    let mut code = u32::from(first) - u32::from('0');
                    for _ in 0..2 {
                        let Some((_, digit)) = chars.next_if(|(_, next)| ('0'..='7').contains(next)) else {
                            break;
                        };
                        code = code * 8 + (u32::from(digit) - u32::from('0'));
                    }
                    decoded.push(char::from_u32(code & 0xff).unwrap_or('\u{fffd}'));
                }
                'x' => {
                    let mut code = 0;
                    for _ in 0..2 {
                        let Some((_, digit)) = chars.next_if(|(_, next)| next.is_ascii_hexdigit()) else {
                            break;
                        };
                        code = code * 16 + digit.to_digit(16).unwrap_or_default();
                    }
                    decoded.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                }
                other => decoded.push(other),
            },
            other => decoded.push(other),
        }
    }
    None
}

struct Finder<'t, 'a> {
    tokens: &'t [Token<'a>],
    acts: Vec<Act>,
    /// How many parentheses are open.
    depth: usize,
    /// The last token that is no newline.
    before: Option<usize>,
    /// Where the last `print` stands.
    printed: usize,
    /// How many were open where the `print` started in which we are.
    print: Option<usize>,
}

impl Finder<'_, '_> {
    fn token(&mut self, at: usize) {
        match &self.tokens[at] {
            Token::Name("print" | "printf") => {
                self.print = Some(self.depth);
                self.printed = at;
            }
            Token::Name("system") => self.system(at),
            Token::Name("getline") => self.getline(at),
            Token::Newline => {
                if !self.continues() {
                    self.print = None;
                }
                return;
            }
            Token::Text(text) if text.starts_with("/inet") => self.acts.push(Act::Connect),
            Token::Mark(";" | "{" | "}") => self.print = None,
            Token::Mark("(") => self.depth += 1,
            Token::Mark(")") | Token::HeadEnd => self.depth = self.depth.saturating_sub(1),
            Token::Mark("|" | "|&") => self.pipe(at),
            Token::Mark(">" | ">>") if self.print == Some(self.depth) => self.output(at),
            Token::Mark("@") if self.tokens.get(at + 1) != Some(&Token::Name("namespace")) => {
                self.acts.push(Act::RunSomething);
            }
            _ => {}
        }
        self.before = Some(at);
    }

    /// Whether a statement goes on behind newlines.
    fn continues(&self) -> bool {
        self.before.and_then(|before| self.tokens.get(before)).is_some_and(|token| {
            matches!(token, Token::Mark("," | "&&" | "||" | "?" | ":") | Token::Name("do" | "else"))
        })
    }

    /// The text that is the whole expression behind a token, if it is one.
    fn text_behind(&self, at: usize) -> Option<&str> {
        let Some(Token::Text(text)) = self.tokens.get(at + 1) else { return None };
        let ends = matches!(
            self.tokens.get(at + 2),
            None | Some(Token::Newline | Token::HeadEnd | Token::Mark(";" | "}" | ")"))
        );
        ends.then_some(text)
    }

    fn system(&mut self, at: usize) {
        if self.tokens.get(at + 1) != Some(&Token::Mark("(")) {
            // A function needs its parenthesis; `system` alone is a syntax error.
            return;
        }
        let act = match self.text_behind(at + 1) {
            Some(text) if matches!(self.tokens.get(at + 3), Some(Token::Mark(")"))) => {
                Act::Run(text.to_owned())
            }
            _ => Act::RunSomething,
        };
        self.acts.push(act);
    }

    /// `"command" | getline` or `print … | "command"`.
    fn pipe(&mut self, at: usize) {
        let reads = matches!(self.tokens.get(at + 1), Some(Token::Name("getline")));
        let text = if reads {
            let starts = at.checked_sub(2).and_then(|before| self.tokens.get(before));
            let whole = matches!(
                starts,
                None | Some(
                    Token::Newline | Token::HeadEnd | Token::Mark("{" | "}" | ";" | "(" | "&&" | "||" | "!")
                )
            );
            match at.checked_sub(1).and_then(|before| self.tokens.get(before)) {
                Some(Token::Text(text)) if whole => Some(text.as_str()),
                _ => None,
            }
        } else {
            self.text_behind(at)
        };
        let act = match text {
            Some(text) if text.starts_with("/inet") => Act::Connect,
            Some(text) => Act::Run(text.to_owned()),
            None => Act::RunSomething,
        };
        let is_shell = text.and_then(|text| text.split(' ').next()?.rsplit('/').next()).is_some_and(is_shell);
        if let (true, Some(Token::Text(script)), Some(2)) = (
            is_shell && !reads,
            at.checked_sub(1).and_then(|before| self.tokens.get(before)),
            at.checked_sub(self.printed),
        ) {
            // A shell runs the one text that is printed to it.
            let script = script.clone();
            self.acts.push(Act::Run(script));
        }
        self.acts.push(act);
    }

    fn output(&mut self, at: usize) {
        let act = match self.text_behind(at) {
            Some(text) if text.starts_with("/inet") => Act::Connect,
            Some(text) => Act::Write(text.to_owned()),
            None => Act::WriteSomewhere,
        };
        self.acts.push(act);
    }

    /// `getline < "file"`, `getline name < "file"`.
    fn getline(&mut self, at: usize) {
        let less = (at + 1..self.tokens.len().min(at + 8))
            .take_while(|index| !matches!(self.tokens[*index], Token::Newline | Token::Mark(";" | "}" | ")")))
            .find(|index| self.tokens[*index] == Token::Mark("<"));
        if let Some(Token::Text(path)) = less.and_then(|index| self.tokens.get(index + 1)) {
            let act = if path.starts_with("/inet") { Act::Connect } else { Act::Read(path.clone()) };
            self.acts.push(act);
        }
    }
}

fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash")
}
