//! Which way a job takes: whether a shell that has already started may read its text.
//!
//! A warm shell is `bash -c TEXT` in all but its age: it started before the call. So a text goes to a fresh shell where
//! it could see that age, or where the text came from.

/// The longest text that a warm shell is given.
const WARM_BYTES: usize = 4000;

/// Variables and places that show how old a shell is, or what it was started with.
const TELLING_PARTS: [&str; 6] = ["SECONDS", "BASH_EXECUTION_STRING", "BASH_ARGV", "/proc", "cmdline", "${!"];

/// What lists processes with their age or words, or says how much time the shell itself took.
const TELLING_WORDS: [&str; 7] = ["ps", "pgrep", "pkill", "pidof", "top", "htop", "times"];

/// Builtins that list every variable or option of the shell when they are given nothing to do.
const LISTING_WORDS: [&str; 9] =
    ["set", "declare", "typeset", "local", "readonly", "export", "compgen", "enable", "shopt"];

/// Whether a warm shell that reads `text` cannot be told from one that is started with it.
pub(super) fn fits_warm(text: &str) -> bool {
    if text.len() > WARM_BYTES || text.contains('\0') {
        return false;
    }
    !TELLING_PARTS.iter().any(|part| text.contains(part)) && !tells_by_word(text)
}

/// Looks at words only, wherever they stand: a word inside quotes may still be run by `eval`.
fn tells_by_word(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+');
    let mut rest = text.as_bytes();
    while let Some(start) = rest.iter().position(|byte| is_word(*byte)) {
        let (_, from) = rest.split_at(start);
        let length = from.iter().position(|byte| !is_word(*byte)).unwrap_or(from.len());
        let (word, after) = from.split_at(length);
        let is = |name: &&str| name.as_bytes() == word;
        if TELLING_WORDS.iter().any(is) {
            return true;
        }
        if LISTING_WORDS.iter().any(is) && lists(after) {
            return true;
        }
        rest = after;
    }
    false
}

/// Whether what follows a listing builtin lets it list: nothing at all, or options without a name that it would set.
fn lists(after: &[u8]) -> bool {
    let line = after.split(|byte| matches!(byte, b'\n' | b';' | b'|' | b'&' | b')' | b'`' | b'}')).next();
    let mut words = line.unwrap_or_default().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return true };
    // `set -e`, `set -- a b`, `export A=1` and `shopt -s x` do something; `declare -p`, `set -o` and `shopt -p` list.
    let does = match first {
        b"-o" | b"+o" => words.next().is_some_and(|word| word.is_ascii() && !word.starts_with(b">")),
        [b'>' | b'<' | b'"' | b'\'', ..] => false,
        [b'-', b'p' | b'f' | b'F' | b'b' | b'c' | b'v' | b'A' | b'a', ..] => {
            words.next().is_some_and(|word| word.contains(&b'='))
        }
        _ => true,
    };
    !does
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_texts_fit() {
        for text in [
            "",
            "true",
            "echo 'Hello' && ls -la | grep -v total",
            "set -e\ncargo build --offline 2>&1 | tail -5",
            "set -euo pipefail; make -j2",
            "set -o pipefail; a | b",
            "set -- a b c; echo $#",
            "export PATH=$PATH:/x; run",
            "export FOO=1",
            "declare -a list=(1 2)",
            "declare x=1; echo $x",
            "readonly y=2",
            "shopt -s globstar; ls **/*.rs",
            "for f in *.txt; do wc -l \"$f\"; done",
            "cat <<'EOF'\nsome text\nEOF",
            "git log --oneline | head -3",
            "echo stops; echo caps; tops",
            "python3 -c 'import os; print(os.getpid())'",
            "ls settings.json; cat preset.txt",
            "echo sometimes $RANDOM",
        ] {
            assert!(fits_warm(text), "{text}");
        }
    }

    #[test]
    fn texts_that_could_see_the_shells_age_do_not() {
        for text in [
            "echo $SECONDS",
            "echo ${BASH_EXECUTION_STRING}",
            "echo $BASH_ARGV0",
            "ps",
            "ps aux | head",
            "kill $(pgrep sleep)",
            "(ps)",
            "x=`ps`",
            "/bin/ps",
            "top -b -n1",
            "times",
            "cat /proc/self/stat",
            "tr '\\0' ' ' < cmdline",
            "set",
            "set | grep BASH",
            "set;",
            "set > vars",
            "(set)",
            "declare",
            "declare -p",
            "declare -p BASH_VERSION",
            "typeset -F",
            "compgen -v",
            "export -p",
            "export",
            "shopt",
            "set -o",
            "echo ${!BASH*}",
            "eval 'set'",
        ] {
            assert!(!fits_warm(text), "{text}");
        }
        assert!(fits_warm(&"x".repeat(WARM_BYTES)));
        assert!(!fits_warm(&"x".repeat(WARM_BYTES + 1)));
        assert!(!fits_warm("a\0b"));
    }
}
