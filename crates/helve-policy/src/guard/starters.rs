//! Programs that start the one named in their arguments, and how to find it there.
//!
//! In come the arguments of such a program, out go the words from the started program on, or a command line. Not here:
//! what is done with them.

use helve_shell::{Position, Span, Word};

use super::invoke::joined;

/// A program that starts the one named in its arguments.
pub(super) struct Starter {
    pub(super) name: &'static str,
    /// Options whose value is the next argument.
    valued: &'static [&'static str],
    /// Arguments that stand between the options and the program.
    operands: usize,
    /// Options with which it starts nothing.
    stops: &'static [&'static str],
}

const fn starter(name: &'static str, valued: &'static [&'static str], operands: usize) -> Starter {
    Starter { name, valued, operands, stops: &[] }
}

pub(super) const STARTERS: &[Starter] = &[
    starter(
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group"],
        0,
    ),
    starter("doas", &["-u", "-C"], 0),
    starter("env", &["-u", "-C", "--unset", "--chdir"], 0),
    Starter { stops: &["-v", "-V"], ..starter("command", &[], 0) },
    starter("builtin", &[], 0),
    starter("exec", &["-a"], 0),
    starter("nohup", &[], 0),
    starter("setsid", &[], 0),
    starter("nice", &["-n", "--adjustment"], 0),
    starter("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    starter("chrt", &[], 1),
    starter("taskset", &[], 1),
    starter("time", &["-f", "-o", "--format", "--output"], 0),
    starter("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    starter("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    starter("flock", &["-w", "-E", "--timeout"], 1),
    starter("chroot", &[], 1),
    starter("unshare", &[], 0),
    starter("strace", &["-e", "-o", "-p", "-s", "-u", "-E"], 0),
    starter("busybox", &[], 0),
    starter("toybox", &[], 0),
    starter("parallel", &["-j", "--jobs", "-n", "-N"], 0),
    starter(
        "xargs",
        &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
        ],
        0,
    ),
];

/// What a starter starts.
pub(super) enum Next<'w, 'a> {
    /// The words from the program on; none if it starts nothing.
    Words(&'w [&'a Word]),
    /// A command line, and the word in which it stands.
    Text(String, Span),
}

/// What `ssh` takes before the words of the command, its host apart.
pub(super) const SSH: Starter = starter(
    "ssh",
    &[
        "-B", "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q",
        "-R", "-S", "-W", "-w",
    ],
    0,
);

impl Starter {
    /// The words behind a host, which options may stand before and behind.
    pub(super) fn remote<'w, 'a>(&self, args: &'w [&'a Word]) -> &'w [&'a Word] {
        let words = |args| match self.next(args) {
            Next::Words(words) => words,
            Next::Text(..) => &[],
        };
        words(words(args).get(1..).unwrap_or_default())
    }

    /// What is started with these arguments.
    pub(super) fn next<'w, 'a>(&self, args: &'w [&'a Word]) -> Next<'w, 'a> {
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let text = word.text.as_str();
            if self.stops.contains(&text) {
                return Next::Words(&[]);
            }
            at += 1;
            if let Some(attached) = split_string(text).filter(|_| self.name == "env") {
                let rest = joined(args.get(at..).unwrap_or_default());
                return Next::Text(format!("{attached} {rest}"), word.span);
            }
            match text {
                "--" => break,
                text if self.valued.contains(&text) => at += 1,
                // An option, or `NAME=value` as `env` and `sudo` take it.
                text if text.len() > 1 && text.starts_with('-') => {}
                text if text.contains('=') && word.position == Position::Argument => {}
                _ => {
                    at -= 1;
                    break;
                }
            }
        }
        Next::Words(args.get(at + self.operands..).unwrap_or_default())
    }
}

/// What is attached to the option of `env -S 'command line'`, which splits a text into words.
fn split_string(option: &str) -> Option<&str> {
    if let Some(rest) = option.strip_prefix("--split-string") {
        return Some(rest.strip_prefix('=').unwrap_or(rest));
    }
    option.strip_prefix('-')?.trim_start_matches(['i', 'v', '0']).strip_prefix('S')
}
