//! What a command does, as far as reading can tell: plain data, made by `analyze` and read by whoever
//! judges, explains or schedules.
//!
//! Reading proves nothing: a program can do more than its arguments say. What is listed here is what the text says;
//! what the text hides is listed as [`Opaque`].

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Span;
use crate::tree::{Dialect, FaultReason};

/// Where a command would run.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The shell that reads it.
    pub dialect: Dialect,
    /// The directory in which it starts, absolute and in its normal form.
    pub directory: &'a Path,
    /// The workspace, absolute and in its normal form.
    pub workspace: &'a Path,
    /// What `~` and `$HOME` stand for, if that is known.
    pub home: Option<&'a Path>,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Analysis {
    /// Every command that may be started, in the order in which their texts start: programs, builtins and functions,
    /// also those inside substitutions, functions, wrappers and the text given to a shell.
    pub runs: Vec<Run>,
    /// What they do to files, hosts and the machine.
    pub effects: Vec<Effect>,
    /// What programs may read besides: files that arguments name of which no table says what they are.
    pub possible: Vec<PossibleRead>,
    /// The parts of which reading cannot tell what they do.
    pub opaque: Vec<Opaque>,
}

/// One command that may be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The name without its directory; none if it is not known before it runs.
    pub program: Option<String>,
    /// The name and the arguments as the program gets them. Fields of a word that splits are separate.
    pub argv: Vec<Arg>,
    /// What the name means to the shell.
    pub kind: RunKind,
    /// The stretch of the source that it is about: its simple command.
    pub span: Span,
    /// The wrappers around it, outermost first: `sudo`, `sh`, `xargs`.
    pub via: Vec<String>,
    /// The variables that the command sets for it or that reach it by `export`, `env` and the like.
    pub environment: Vec<(String, Arg)>,
    /// Where its standard input comes from.
    pub input: Input,
    /// Where it leaves the ordinary behaviour of its program, so that vouching for the program is not enough.
    pub departures: Vec<Departure>,
    /// Whether more arguments than those in `argv` are added when it runs (`xargs`, `find -exec … +`).
    pub more: More,
    /// The directory in which it runs, absolute and in its normal form; none if that is not known, or if it runs
    /// elsewhere: on another host, in a container, under another root.
    pub directory: Option<PathBuf>,
    /// Whether a table knows the program, so that its effects say which of its arguments are paths. Builtins that take
    /// no paths count as known.
    pub understood: bool,
}

/// What the name of a run means to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A file that is executed.
    Program,
    /// A command of the shell itself.
    Builtin,
    /// A function of the script; what its body runs is listed by itself.
    Function,
}

/// Where a run's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// As the shell got it.
    Inherited,
    /// Output of the run with this index, or of something that cannot be told.
    Pipe(Option<usize>),
    /// A here-document, a here-string, or a pipe whose text is known.
    Text(Arg),
    /// A file.
    File(Arg),
}

/// Arguments that are added when a run is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum More {
    /// None.
    Nothing,
    /// Paths that cannot be taken for options, such as those that `find .` prints.
    Paths,
    /// Anything, options too.
    Anything,
}

/// One argument as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arg {
    /// The parts in order.
    pub parts: Vec<ArgPart>,
    /// Where it stands in the source; inside a wrapper's quoted text the stretch that it was read from.
    pub span: Span,
    /// Whether it may become several arguments, or none.
    pub splits: bool,
}

/// A part of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgPart {
    /// Text that is certain.
    Known(String),
    /// An active pattern, as it is written: `*.rs`, `[a-c]`, `?`.
    Glob(String),
    /// Text that cannot be known before it runs.
    Unknown,
}

/// A part of which reading cannot tell what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opaque {
    /// Why.
    pub reason: OpaqueReason,
    /// Where.
    pub span: Span,
}

/// Why a part is opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpaqueReason {
    /// The text cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(FaultReason),
    /// The name of a command is not known before it runs.
    #[error("which program runs here shows only when it runs")]
    UnknownProgram,
    /// A shell is given text that is not known before it runs.
    #[error("a shell runs text that shows only when it runs")]
    UnknownText,
    /// Code in another language.
    #[error("it runs code in another language")]
    Code,
    /// A script or program file whose content is not part of the command.
    #[error("it runs a file of the workspace, whose content was not read")]
    Script,
    /// The meaning of names was changed: aliases, `enable`, `hash`, a function under the name of a program, PATH.
    #[error("the command changes what its own names mean")]
    Redefinition,
    /// A variable that changes how programs behave: `LD_PRELOAD`, `BASH_ENV`, `GIT_SSH_COMMAND`.
    #[error("a variable changes which code a program runs")]
    Environment,
    /// An evaluated arithmetic or subscript text that may run commands.
    #[error("an arithmetic expression or a subscript may run commands")]
    Arithmetic,
    /// Commands inside commands are nested too deep or too often to be followed, or braces make too many words.
    #[error(
        "commands inside commands are nested too deep or too often to be followed, or braces make too many words"
    )]
    TooComplex,
}

/// Where a run leaves the ordinary behaviour of its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// What it does instead.
    pub kind: DepartureKind,
    /// Where that stands in the source.
    pub span: Span,
}

/// How a run leaves the ordinary behaviour of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureKind {
    /// An option names another program.
    #[error("an option names a program to run")]
    Program,
    /// An option or a script holds code that runs programs.
    #[error("an argument holds code that can run programs")]
    Code,
    /// An option, a script or a redirection names a file to write.
    #[error("an option, a script or a redirection names a file to write")]
    Output,
    /// An option or a subcommand changes or deletes what the program usually reads.
    #[error("an argument makes it change or delete what it usually reads")]
    Change,
    /// An option changes configuration that can name programs.
    #[error("an option changes configuration that can name programs")]
    Configuration,
    /// An option that the grammar of the program does not know.
    #[error("an option is not one whose effect is known")]
    UnknownOption,
    /// An argument that may turn out to be an option.
    #[error("an argument may turn out to be an option")]
    PossibleOption,
    /// A variable in front of the program that may change what it does.
    #[error("a variable may change what the program does")]
    Environment,
    /// It opens a connection.
    #[error("it opens a network connection")]
    Network,
}

/// What a run does to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// What is done.
    pub kind: EffectKind,
    /// To what.
    pub target: Target,
    /// Where that stands in the source.
    pub span: Span,
    /// The run that does it, an index into [`Analysis::runs`]; none for a redirection without a command.
    pub run: Option<usize>,
}

/// A file that a run may read, since one of its arguments names it. It speaks for rules that ask or deny alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PossibleRead {
    /// The reading.
    pub effect: Effect,
    /// Whether it is written as a plain word, so that it is a file only if one of that name is there.
    pub word: bool,
}

/// What an effect does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Reads a file or lists a directory.
    Read,
    /// Creates or changes a file or directory, its content or its mode.
    Write,
    /// Deletes one file, or directories that are empty.
    Delete,
    /// Deletes a directory with all that is in it.
    DeleteTree,
    /// Executes a file by path.
    Execute,
    /// Connects to a host.
    Connect,
    /// Gains or gives privileges: `sudo`, `su`, setuid bits, capabilities.
    Privilege,
    /// Leaves something that runs later by itself: cron, start files, hooks, services.
    Persist,
    /// Reads what usually holds credentials.
    Secret,
    /// Formats or repartitions a disk, or writes to a raw device.
    Device,
    /// Stops or restarts the machine.
    Power,
    /// Ends processes.
    Kill,
    /// Starts processes without end.
    ForkBomb,
    /// Runs what it got from a network.
    RunsDownload,
}

impl EffectKind {
    /// Whether it is done to a file or a directory.
    pub fn is_on_path(self) -> bool {
        use EffectKind as Kind;
        matches!(self, Kind::Read | Kind::Write | Kind::Delete | Kind::DeleteTree | Kind::Execute)
    }
}

/// What an effect is done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A path that is written out, absolute and in its normal form by its text alone, and whether it lies inside the
    /// workspace.
    Path {
        /// The path.
        path: PathBuf,
        /// Whether it lies inside the workspace (or is it).
        inside: bool,
        /// The same as it is written, where links decide what that means: with `..` behind a name, or a slash at its end.
        #[serde(skip_serializing_if = "Option::is_none")]
        written: Option<PathBuf>,
    },
    /// All paths that match: what is certain before the first active character, absolute, and the pattern.
    Glob {
        /// The directory that holds all matches.
        under: PathBuf,
        /// The pattern as it is written.
        pattern: String,
        /// Whether that directory lies inside the workspace.
        inside: bool,
        /// The directory as it is written, with `..` behind a name.
        #[serde(skip_serializing_if = "Option::is_none")]
        written: Option<PathBuf>,
    },
    /// A path that is not known before it runs.
    Unknown,
    /// A host, with a port where one is given.
    Host(String),
    /// The machine as a whole.
    Machine,
}

impl Target {
    /// A path in its normal form.
    pub fn path(path: impl Into<PathBuf>, inside: bool) -> Self {
        Target::Path { path: path.into(), inside, written: None }
    }

    /// The path, or the directory that holds all matches, as it is written: what the kernel goes through.
    pub fn as_written(&self) -> Option<&Path> {
        match self {
            Target::Path { path, written, .. } | Target::Glob { under: path, written, .. } => {
                Some(written.as_deref().unwrap_or(path))
            }
            Target::Unknown | Target::Host(_) | Target::Machine => None,
        }
    }
}

impl Arg {
    /// An argument that is certain.
    pub fn known(text: impl Into<String>, span: Span) -> Self {
        Arg { parts: vec![ArgPart::Known(text.into())], span, splits: false }
    }

    /// An argument of which nothing is known.
    pub fn unknown(span: Span) -> Self {
        Arg { parts: vec![ArgPart::Unknown], span, splits: true }
    }

    /// The whole text, if it is certain.
    pub fn text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [ArgPart::Known(text)] if !self.splits => Some(text),
            _ => None,
        }
    }

    /// Whether something unknown in it splits, so that nothing is known of what it becomes but its start. What a pattern
    /// becomes are names of files.
    pub fn splits_unknown(&self) -> bool {
        self.splits && self.parts.contains(&ArgPart::Unknown)
    }

    /// What it certainly starts with.
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(ArgPart::Known(text)) => text,
            _ => "",
        }
    }

    /// Whether it may turn out to start with `-`.
    pub fn may_be_option(&self) -> bool {
        match self.parts.first() {
            Some(ArgPart::Known(text)) if !text.is_empty() => text.starts_with('-'),
            Some(ArgPart::Glob(pattern)) => pattern.starts_with(['*', '?', '[', '-', '@', '+', '!']),
            Some(_) => true,
            None => false,
        }
    }
}
