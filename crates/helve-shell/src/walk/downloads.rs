//! Interpreters that run what came from a network: from a pipe, a substitution, or a file that was fetched before.

use std::path::{Path, PathBuf};

use crate::Span;
use crate::analysis::{Arg, ArgPart, EffectKind, More, Target};

use super::runs::Start;
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

/// An interpreter by its name; `python3.12` is python, too.
fn interpreter(program: &str) -> Option<&'static Interpreter> {
    let plain = program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&plain))
}

/// Whether a program with these arguments takes what it runs from standard input.
pub(super) fn reads_code(program: &str, args: &[Arg]) -> bool {
    let (code, values, long): (&str, &str, &[&str]) = if names::is_shell(program) {
        ("c", "oO", &[])
    } else {
        match interpreter(program) {
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

/// Whether a program with these arguments prints or writes what it gets from a network.
pub(super) fn fetches(program: &str, args: &[Arg]) -> bool {
    let has = |words: &[&str]| args.iter().filter_map(Arg::text).any(|text| words.contains(&text));
    match program {
        "ssh" | "sftp" | "dig" | "drill" | "kdig" | "host" => !args.is_empty(),
        "scp" | "rsync" => args.iter().any(|arg| is_remote(arg.prefix())),
        "aws" => has(&["s3", "s3api"]),
        "gsutil" => has(&["cat", "cp", "rsync", "mv"]),
        "gcloud" | "az" => has(&["storage"]),
        "rclone" | "mc" => has(&["cat", "copy", "copyto", "cp", "sync", "get"]),
        "gh" | "glab" => has(&["api", "download", "gist"]),
        "openssl" => has(&["s_client"]),
        _ => names::is_downloader(program),
    }
}

/// `host:path` or a URL.
fn is_remote(operand: &str) -> bool {
    let before = operand.split('/').next().unwrap_or_default();
    !operand.starts_with(['-', '/', '.']) && before.contains(':')
}

/// Programs that unpack what somebody else packed.
fn unpacks(program: &str) -> bool {
    matches!(program, "tar" | "gtar" | "bsdtar" | "unzip" | "7z" | "7za" | "cpio" | "unrar")
}

/// Programs that put what they read into the commands that they start.
pub(super) fn repeats(program: &str) -> bool {
    matches!(program, "xargs" | "gxargs" | "parallel")
}

fn is_input(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Whether a program runs the lines that it reads as commands, or takes a script from standard input that can.
fn runs_input(program: &str, args: &[Arg], more: More) -> bool {
    let texts: Vec<&str> = args.iter().filter_map(Arg::text).collect();
    let option = |letters: &[char]| {
        texts.iter().any(|text| text.len() > 1 && text.starts_with('-') && text.contains(letters))
    };
    match program.to_ascii_lowercase().as_str() {
        "iex" | "invoke-expression" => true,
        "at" | "batch" => !option(&['f', 'l', 'd', 'r', 'c', 'V']),
        "crontab" => !option(&['l', 'e', 'r']) && texts.last().is_none_or(|last| is_input(last)),
        "awk" | "gawk" | "mawk" | "nawk" if texts.iter().any(|text| text.contains("system($")) => true,
        "make" | "gmake" | "awk" | "gawk" | "mawk" | "nawk" | "sed" | "gsed" => {
            script_options(&texts).into_iter().any(is_input)
        }
        "parallel" => {
            let mut takes = false;
            texts.iter().all(|text| {
                let is_value = std::mem::replace(
                    &mut takes,
                    matches!(
                        *text,
                        "-j" | "-P" | "-n" | "-N" | "-L" | "-S" | "--jobs" | "--delay" | "--timeout"
                    ),
                );
                is_value || text.starts_with('-')
            })
        }
        // The text behind the option is what is read.
        _ if more != More::Nothing => {
            let code = if names::is_shell(program) {
                "c"
            } else {
                interpreter(program).map_or("", |known| known.program)
            };
            let last = texts.last().and_then(|last| last.strip_prefix('-')).unwrap_or_default();
            texts.len() == args.len() && last.chars().last().is_some_and(|letter| code.contains(letter))
        }
        _ => false,
    }
}

/// The values of `-f`, `--file` and `--makefile`.
fn script_options<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let next = || texts.get(index + 1).copied();
        let value = match text.strip_prefix("--") {
            Some("file" | "makefile") => next(),
            Some(long) => long.strip_prefix("file=").or_else(|| long.strip_prefix("makefile=")),
            None => match text.strip_prefix('-').and_then(|letters| letters.split_once('f')) {
                Some((_, "")) => next(),
                Some((_, attached)) => Some(attached),
                None => None,
            },
        };
        values.extend(value);
    }
    values
}

/// The files from which a program that is no interpreter takes what it runs.
fn script_files<'a>(program: &str, args: &'a [Arg]) -> Vec<&'a str> {
    let texts = || args.iter().filter_map(Arg::text).collect::<Vec<&str>>();
    match program {
        "make" | "gmake" => {
            let named = script_options(&texts());
            if named.is_empty() { vec!["GNUmakefile", "makefile", "Makefile"] } else { named }
        }
        "awk" | "gawk" | "mawk" | "nawk" | "sed" | "gsed" | "at" | "batch" => script_options(&texts()),
        "crontab" => texts().last().copied().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Whether a runtime is given an address to run.
fn runs_address(program: &str, args: &[Arg]) -> bool {
    let operands = args.iter().map(Arg::prefix).filter(|text| !text.starts_with('-'));
    let verb = |word: &&str| !matches!(*word, "run" | "serve" | "test" | "bench" | "watch");
    program == "deno"
        && operands
            .into_iter()
            .find(verb)
            .is_some_and(|first| first.starts_with("http://") || first.starts_with("https://"))
}

impl Walker<'_> {
    /// Says that the current command runs what came from a network.
    pub(super) fn runs_download(&mut self, run: Option<usize>) {
        self.effect(EffectKind::RunsDownload, Target::Machine, self.current, run);
    }

    /// Remembers where a program put what it fetched: a file, or a directory in which it has the name that it has on the
    /// other side. Whoever unpacks puts files of any names there.
    pub(super) fn fetched_to(&mut self, program: &str, args: &[Arg], path: &Path) {
        let is_here = self.environment.directory().possible().any(|here| here.starts_with(path));
        if !is_here {
            self.downloaded_to(&[path.to_path_buf()]);
            return;
        }
        if unpacks(program) {
            if self.unpacked.len() < 64 {
                self.unpacked.insert(path.to_path_buf());
            }
            return;
        }
        let remote = args.iter().map(Arg::prefix).filter(|text| is_remote(text));
        let names: Vec<PathBuf> = remote
            .filter_map(|text| text.rsplit(['/', ':']).next())
            .filter(|name| !name.is_empty())
            .take(64)
            .map(|name| path.join(name))
            .collect();
        self.downloaded_to(&names);
    }

    /// Whether a file lies below a directory into which something was unpacked that came from a network.
    pub(super) fn is_unpacked(&self, target: &Target) -> bool {
        match target {
            Target::Path { path, .. } => self.unpacked.iter().any(|directory| path.starts_with(directory)),
            _ => false,
        }
    }

    /// A name that an expansion took from a network, or a variable that names what was fetched.
    pub(super) fn named_by_download(&mut self, name: &Arg, run: Option<usize>) {
        let within = |outer: &Span| outer.start <= name.span.start && name.span.end <= outer.end;
        let has_directory =
            name.parts.iter().any(|part| matches!(part, ArgPart::Known(text) if text.contains('/')));
        let printed = matches!(name.parts.first(), Some(ArgPart::Unknown))
            && !has_directory
            && self.tainted.iter().any(within);
        if printed || self.names_download(name) {
            self.runs_download(run);
        }
    }

    /// A program that is no interpreter and runs what came from a network all the same.
    pub(super) fn downloaded_code(&mut self, program: &str, start: &Start, run: Option<usize>) {
        let args = start.argv.get(1..).unwrap_or_default();
        if runs_address(program, args) || start.feed.flow.download && runs_input(program, args, start.more) {
            self.runs_download(run);
        }
        for file in script_files(program, args) {
            let process = self.process_of(&Arg::known(file, self.current));
            let came = process.is_some_and(|flow| flow.download)
                || self
                    .written_targets(file, None, false)
                    .iter()
                    .any(|target| self.is_downloaded(target, self.current));
            if came {
                self.runs_download(run);
            }
        }
        // No table says which files these write.
        if matches!(program, "aws" | "gsutil" | "gcloud" | "rclone" | "mc") && fetches(program, args) {
            let operands: Vec<&Arg> = args.iter().filter(|arg| !arg.prefix().starts_with('-')).collect();
            if let Some((target, before)) = operands.split_last()
                && before.iter().any(|arg| is_remote(arg.prefix()))
                && !is_remote(target.prefix())
            {
                for target in self.targets(target, 0, true) {
                    if let Target::Path { path, .. } = target {
                        self.fetched_to(program, args, &path);
                    }
                }
            }
        }
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
            | "sponge"
            | "gtar"
            | "bsdtar"
            | "cpio"
            | "7z"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
