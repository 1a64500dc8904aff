//! Interpreters that run what came from a network: from a pipe, a substitution, or a file that was fetched before.

use std::path::PathBuf;

use crate::analysis::{Arg, EffectKind, Target};

use super::{Walker, names};

/// How an interpreter takes its program.
struct Interpreter {
    names: &'static [&'static str],
    /// Letters of options that name or hold the program.
    program: &'static str,
    /// Letters of options with a value.
    values: &'static str,
    /// Long options that name or hold the program.
    long: &'static [&'static str],
}

const INTERPRETERS: [Interpreter; 7] = [
    Interpreter { names: &["python", "pypy"], program: "cm", values: "WXQ", long: &[] },
    Interpreter { names: &["perl"], program: "eE", values: "", long: &[] },
    Interpreter { names: &["ruby"], program: "e", values: "rCIE", long: &[] },
    Interpreter { names: &["node", "nodejs", "bun"], program: "ep", values: "r", long: &["eval", "print"] },
    Interpreter { names: &["php"], program: "rfBRF", values: "dcz", long: &[] },
    Interpreter { names: &["lua", "luajit"], program: "e", values: "l", long: &[] },
    Interpreter {
        names: &["deno", "Rscript", "tclsh", "osascript", "pwsh", "powershell"],
        program: "ecf",
        values: "",
        long: &[],
    },
];

/// Whether a program with these arguments takes what it runs from standard input.
pub(super) fn reads_code(program: &str, args: &[Arg]) -> bool {
    let (code, values, long): (&str, &str, &[&str]) = if names::is_shell(program) {
        ("c", "oO", &[])
    } else {
        // `python3.12` is python, too.
        let plain =
            program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        match INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&plain)) {
            Some(interpreter) => (interpreter.program, interpreter.values, interpreter.long),
            None => return false,
        }
    };
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let Some(text) = arg.text() else { return false };
        if matches!(text, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
            return true;
        }
        if text == "--" {
            return at == args.len() || args.get(at).and_then(Arg::text) == Some("-");
        }
        if let Some(name) = text.strip_prefix("--") {
            if long.iter().any(|option| name.split('=').next() == Some(option)) {
                return false;
            }
            if matches!(name, "rcfile" | "init-file") {
                at += 1;
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-').or_else(|| text.strip_prefix('+')) else { return false };
        if names::is_shell(program) && letters.contains('s') && !letters.contains('c') {
            return true;
        }
        for (index, letter) in letters.char_indices() {
            if code.contains(letter) {
                return false;
            }
            if values.contains(letter) {
                if index + 1 == letters.len() {
                    at += 1;
                }
                break;
            }
        }
    }
    true
}

impl Walker<'_> {
    /// Says that the current command runs what came from a network.
    pub(super) fn runs_download(&mut self, run: Option<usize>) {
        self.effect(EffectKind::RunsDownload, Target::Machine, self.current, run);
    }

    /// Remembers files that were fetched.
    pub(super) fn downloaded_to(&mut self, paths: &[PathBuf]) {
        if self.downloaded.len() < 1024 {
            self.downloaded.extend(paths.iter().cloned());
        }
    }

    /// Whether a path was fetched before in the same script.
    pub(super) fn is_downloaded(&self, target: &Target) -> bool {
        matches!(target, Target::Path { path, .. } if self.downloaded.contains(path))
    }
}

/// Programs that write what they read.
pub(super) fn copies(program: &str) -> bool {
    matches!(
        program,
        "cp" | "mv"
            | "install"
            | "ln"
            | "tee"
            | "dd"
            | "cat"
            | "sed"
            | "gunzip"
            | "unzip"
            | "tar"
            | "xz"
            | "bunzip2"
            | "base64"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    #[test]
    fn programs_from_standard_input_are_recognized() {
        let reads = |line: &str| {
            let mut words = line.split(' ');
            let program = words.next().unwrap_or_default();
            let args: Vec<Arg> = words.map(|word| Arg::known(word, Span { start: 0, end: 0 })).collect();
            reads_code(program, &args)
        };
        for line in [
            "sh",
            "bash -s -- a",
            "bash -e",
            "bash -o pipefail",
            "python3",
            "python3 -u -",
            "python3.12 -",
            "perl",
            "perl -w",
            "node",
            "ruby -",
            "sh /dev/stdin",
            "php",
            "bash --norc",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "sh -c x",
            "bash x.sh",
            "bash -lc x",
            "python3 -c x",
            "python3 -m json.tool",
            "python3 x.py",
            "perl -ne x",
            "perl -pe x",
            "node -e x",
            "ruby -ne x",
            "jq .",
            "php -r x",
            "node --eval x",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
