//! What single programs do with their arguments: option grammars as tables, no policy.
//!
//! In comes an argv as far as it is known, out goes its [`Meaning`]: which files it touches, which commands it starts in
//! turn, and where it leaves the program's ordinary behaviour. The walker of the tree follows the inner commands.
//! A program that no table knows has an empty meaning; that is not a statement that it does nothing.
//!
//! | module | programs |
//! |---|---|
//! | `options` | the grammar that all of them share |
//! | `runners` | those that start others: shells, `env`, `sudo`, `xargs`, `ssh`, interpreters |
//! | `readers` | those that people call read-only: `grep`, `sed`, `sort`, `find`, `git`, `tar`, `make` |
//! | `changers` | those that change files, machines and networks |
//! | `unsaid` | what arguments may be of which no table says what they are |

#[cfg(test)]
mod cases;
mod changers;
mod meaning;
mod options;
mod readers;
mod runners;
mod toolchains;
mod unsaid;

pub(crate) use changers::{code, hosts};
pub use readers::is_plain_setting;
pub(crate) use runners::{is_unusual_mode, mode_of};
pub use unsaid::text_arguments;
pub(crate) use unsaid::unsaid;

use std::path::Path;

use crate::analysis::{Arg, DepartureKind, EffectKind, Input, More, OpaqueReason};

/// What a table is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invocation<'a> {
    /// The name without its directory, lower case where the program does not care.
    pub(crate) program: &'a str,
    /// The arguments after the name.
    pub(crate) args: &'a [Arg],
    /// Where standard input comes from.
    pub(crate) input: &'a Input,
    /// What is added behind the arguments when it runs.
    pub(crate) more: More,
    /// Whether the directory in which it runs lies outside the workspace, or is not known.
    pub(crate) outside: bool,
    /// How many directories below the workspace it runs, where that is known.
    pub(crate) depth: Option<usize>,
    /// The workspace, absolute and in its normal form.
    pub(crate) workspace: &'a Path,
}

/// What a program does with its arguments. Indices point into [`Invocation::args`]; one past their end means the run as a
/// whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meaning {
    /// What it does to the world.
    pub(crate) deeds: Vec<Deed>,
    /// What it starts in turn.
    pub(crate) inner: Vec<Inner>,
    /// Where it leaves its ordinary behaviour, with the argument that says so.
    pub(crate) departures: Vec<(DepartureKind, usize)>,
    /// Of what it cannot be told what it does, with the argument that says so; none for the program as a whole.
    pub(crate) opaque: Vec<(OpaqueReason, Option<usize>)>,
    /// What it may read, where an argument can be a path as well as something else.
    pub(crate) perhaps: Vec<On>,
    /// Arguments that it knows to be no path, but text.
    pub(crate) texts: Vec<usize>,
    /// Whether the table knows what every argument is.
    pub(crate) whole: bool,
}

/// One effect of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) kind: EffectKind,
    pub(crate) on: On,
}

/// What a deed is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum On {
    /// The path that this argument is.
    Arg(usize),
    /// The path that this argument holds behind its first so many bytes, as in `--file=PATH` or `of=PATH`.
    Tail(usize, usize),
    /// A path that the program is known to use, relative to the directory or absolute, and the argument to point at.
    Path(String, Option<usize>),
    /// All paths that a pattern matches: the text before it, seen as such a path, and the pattern in the words of a shell.
    Matching(String, String, Option<usize>),
    /// A host, and the argument to point at.
    Host(String, Option<usize>),
    /// Something unknown, and the argument to point at.
    Unknown(Option<usize>),
    /// The machine.
    Machine,
}

impl On {
    /// The argument that it is, or that names it.
    pub(crate) fn argument(&self) -> Option<usize> {
        match self {
            On::Arg(at)
            | On::Tail(at, _)
            | On::Path(_, Some(at))
            | On::Matching(_, _, Some(at))
            | On::Host(_, Some(at)) => Some(*at),
            On::Path(_, None)
            | On::Matching(_, _, None)
            | On::Host(_, None)
            | On::Unknown(_)
            | On::Machine => None,
        }
    }
}

/// A command that a program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inner {
    /// An argv of its own.
    Argv {
        /// Name and arguments.
        argv: Vec<Arg>,
        /// What is added to it.
        more: More,
        /// Variables that it gets, as for `env A=1`.
        environment: Vec<(String, Arg)>,
        /// Whether its standard input is the outer program's.
        keeps_input: bool,
        /// Another directory in which it runs, as for `env -C DIR`, `git -C DIR`; unknown if the argument is.
        directory: Option<Arg>,
        /// Whether it runs somewhere else: another host, a container, another root. Its paths are then not ours.
        elsewhere: bool,
    },
    /// Text that a shell reads.
    Shell {
        /// The text; with unknown parts it is opaque as far as these reach.
        text: Arg,
        /// The shell's name, from which its dialect follows.
        shell: String,
        /// What `$0` and the positional parameters are.
        parameters: Vec<Arg>,
        /// Whether it runs somewhere else, as above.
        elsewhere: bool,
    },
    /// Code in another language.
    Code {
        /// The language: `python`, `perl`, `ruby`, `node`, `php`, `lua`, `awk`, `powershell`, `cmd` …
        language: &'static str,
        /// The code.
        text: Arg,
    },
}

/// Whether a program is one of those that a table names. Most tables name others, which their first bytes show.
fn is_named(names: &[&str], program: &str) -> bool {
    let first = program.as_bytes().first();
    names.iter().any(|name| name.as_bytes().first() == first && *name == program)
}

/// What an argv means, if a table knows the program.
pub(crate) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let tables = [runners::understand, readers::understand, changers::understand];
    let read = |invocation: &Invocation<'_>| {
        let mut meaning = tables.iter().find_map(|table| table(invocation))?;
        toolchains::note(invocation, &mut meaning);
        Some(meaning)
    };
    let known = read(invocation);
    let name = invocation.program;
    let without = name.len().checked_sub(".exe".len()).filter(|end| name.is_char_boundary(*end));
    match (known, without.map(|end| name.split_at(end))) {
        // Windows names a program by its file.
        (None, Some((name, ending))) if ending.eq_ignore_ascii_case(".exe") && !name.is_empty() => {
            let program = &name.to_ascii_lowercase();
            read(&Invocation { program, ..*invocation })
        }
        (known, _) => known,
    }
}
