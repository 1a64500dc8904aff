//! Many small generated texts: no panic, and spans in the text. `HELVE_TEST_SOAK=1` makes it ten million.

use helve_shell::parse;
use helve_shell::tree::Dialect;

use crate::anything;

/// Pieces of shell text that mean something together.
const TOKENS: [&str; 112] = [
    "a",
    "b",
    "x=1",
    "x=",
    "$x",
    "\"",
    "'",
    "`",
    "$(",
    "(",
    ")",
    "((",
    "))",
    "$((",
    "{",
    "}",
    "${x",
    "${x:-",
    "${",
    "if ",
    "then ",
    "else ",
    "elif ",
    "fi",
    "while ",
    "do ",
    "done",
    "for ",
    "in ",
    "case ",
    "esac",
    ";;",
    ";&",
    ";;&",
    "select ",
    "function ",
    "coproc ",
    "time ",
    "! ",
    "[[ ",
    " ]]",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    ";",
    "\n",
    "\\",
    "\\\n",
    " ",
    "  ",
    "<",
    ">",
    "<<E\n",
    "<<-E\n",
    "\nE\n",
    "<<<",
    ">&",
    "<&",
    "&>",
    "&>>",
    ">|",
    "<(",
    ">(",
    "2>",
    "{fd}>",
    "#",
    "=",
    "==",
    "=~",
    "-f ",
    "a=(",
    "a[",
    "a[1]=",
    "+=",
    "f()",
    "$[",
    "]",
    "$'",
    "$\"",
    "~",
    "*",
    "?",
    "@(",
    "!(",
    "x)",
    "\t",
    "-",
    "\"$x\"",
    "'q'",
    "\\\"",
    "\\'",
    "\\`",
    "#c\n",
    ":",
    "/",
    "%",
    "%%",
    "##",
    "1",
    "declare ",
    "until ",
    "echo ",
    "{ ",
    "; }",
    "\r",
    "@",
    "^",
    "é",
    "\u{202e}",
    "rm -rf /",
];

/// Pseudo-random numbers with a fixed start, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 32).unwrap_or_default() % bound
    }
}

#[test]
fn generated_texts_are_parsed() {
    let soak = std::env::var_os("HELVE_TEST_SOAK").is_some();
    let count = if soak { 10_000_000_u64 } else { 20_000 };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut text = String::new();
    for round in 0..count {
        // Most texts are new, some grow out of the one before.
        if random.below(4) != 0 || text.len() > 200 {
            text.clear();
        }
        for _ in 0..=random.below(9) {
            text.push_str(TOKENS[random.below(TOKENS.len())]);
        }
        // Looking at every span costs more than the parsing.
        if round % 64 == 0 {
            anything::check(&text);
        } else {
            drop(parse(&text, if round % 8 == 1 { Dialect::Posix } else { Dialect::Bash }));
        }
    }
}
