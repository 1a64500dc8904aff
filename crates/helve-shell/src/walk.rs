//! Follows a script the way a shell would, and writes down what it starts and does.
//!
//! ```text
//! text ─ parse ─ tree ─ statements ─ simple command ─ words expanded ─ builtin, function or program
//!                           ↑                                                   │
//!                           └── texts given to shells, eval, trap … ←───────────┘
//! ```
//!
//! In comes text with the place where it would run, out goes an [`Analysis`]. Both branches of a condition are followed
//! and their outcomes joined; loops are followed until nothing new comes out of them; functions are followed where they
//! are called. All of it has a budget of steps that grows with the length of the text, and a bound on depth: beyond them
//! the analysis says [`OpaqueReason::TooComplex`].
//!
//! | file | what it does |
//! |---|---|
//! | `statements`, `condition` | lists, pipelines, compound commands; `[[ … ]]` |
//! | `simple` | one simple command: assignments, words, redirections |
//! | `assign`, `declare` | assignments, declarations and their variables |
//! | `redirect` | redirections, process substitutions |
//! | `builtins`, `moves`, `reading`, `handlers` | what the shell itself does; `names` has its tables |
//! | `runs` | programs: what they mean, and what they start in turn |
//! | `inner` | texts and argvs inside others |
//! | `downloads`, `fetched` | interpreters that are fed from a network, or with files that came from one |
//! | `files` | files that the script wrote |
//! | `numbers` | which programs print numbers |
//! | `pure` | what `echo`, `base64 -d` and other plain filters print |
//! | `places`, `targets` | which paths matter, and which are meant |
//! | `variables` | which environment variables matter |
//! | `modes` | what changes how the shell and its programs read what follows |
//! | `environment`, `join`, `directory`, `spans` | what is remembered on the way |
//! | `finish` | the runs in the order of their texts, each once |
//!
//! Not here: what is allowed. Nothing is run and no file is looked at.

mod assign;
mod builtins;
mod condition;
mod declare;
mod directory;
mod downloads;
mod environment;
mod fetched;
mod files;
mod finish;
mod flow;
mod handlers;
mod inner;
mod join;
mod modes;
mod moves;
mod names;
mod numbers;
mod places;
mod pure;
mod reading;
mod redirect;
mod runs;
mod simple;
mod spans;
mod statements;
mod steady;
mod targets;
mod variables;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::Span;
use crate::analysis::{
    Analysis, Arg, Effect, EffectKind, Opaque, OpaqueReason, PossibleRead, Run, Setting, Target,
};
use crate::expand::Text;
use crate::tree::{Dialect, Script};

use directory::Directory;
pub use directory::normal;
use environment::{Environment, Mark, Outcome, Parameters};
pub(crate) use environment::{Value, Variable};
pub(crate) use flow::{Feed, Flow};
use spans::Origin;

/// So many steps are taken for any text. A step costs a third of a microsecond or less.
const MIN_STEPS: usize = 1_500;
/// So many steps are taken for each byte of a longer text.
const STEPS_A_BYTE: usize = 1;
/// More runs than this are not listed.
const MAX_RUNS: usize = 1 << 16;
/// So deep may commands be nested in all texts together.
const MAX_LEVELS: usize = 64;
/// So deep may texts, functions and wrappers be nested inside each other.
const MAX_INNER: usize = 8;
/// More texts than this that run at the end are not remembered.
const MAX_TRAPS: usize = 256;

/// What a command does, as far as its text says.
pub fn analyze(text: &str, setting: &Setting<'_>) -> Analysis {
    let mut walker = Walker::new(text, setting);
    let script = crate::parse(text, setting.dialect);
    walker.script(&script, &Feed::inherited(), false);
    walker.deferred();
    walker.finish()
}

/// A function that is being followed.
struct Call {
    name: String,
    /// How many background jobs, pipelines and conditions there were around its call.
    background: usize,
    piped: usize,
    conditional: usize,
    guarded: usize,
    /// Whether it ends early behind a test.
    ends: bool,
    /// Where it calls itself in a pipeline.
    piped_calls: Vec<Span>,
    /// The definition.
    span: Span,
    /// Variables to be restored at its end.
    locals: Vec<(String, Option<Variable>)>,
    /// Where its changes start, and with what it may have returned early.
    mark: Mark,
    returns: Vec<Outcome>,
}

/// A loop that is being followed.
struct Round {
    mark: Mark,
    exits: Vec<Outcome>,
}

/// Alternatives that are tried one after the other for one simple command.
#[derive(Default)]
struct Choices {
    /// Which alternative was taken, out of how many.
    taken: Vec<(usize, usize)>,
    at: usize,
    /// Whether alternatives are told apart at all.
    open: bool,
}

/// Follows one command.
pub(crate) struct Walker<'a> {
    setting: &'a Setting<'a>,
    source: &'a str,
    runs: Vec<Run>,
    effects: Vec<Effect>,
    possible: Vec<PossibleRead>,
    opaque: Vec<Opaque>,
    opaque_seen: HashSet<(std::mem::Discriminant<OpaqueReason>, Span)>,
    environment: Environment,
    origin: Origin,
    dialect: Dialect,
    via: Vec<String>,
    /// Whether what is followed runs on another host, in a container or under another root.
    elsewhere: bool,
    /// The simple command that is being followed, in the command that was given.
    current: Span,
    steps: usize,
    levels: usize,
    inner: usize,
    /// How many background jobs, pipelines, and conditions or loops there are around.
    background: usize,
    piped: usize,
    conditional: usize,
    calls: Vec<Call>,
    rounds: Vec<Round>,
    choices: Choices,
    /// Whether an expansion of the current command holds what came from a network.
    taint: bool,
    /// Whether an expansion of the current command holds something unknown that may be anything.
    wild: bool,
    /// How many tests of parameters or variables there are around.
    guarded: usize,
    /// How many times a parameter or a variable of the script was used.
    uses: usize,
    /// What process substitutions and here-documents give, by the number of their descriptor.
    processes: HashMap<u32, Flow>,
    next_process: u32,
    /// The descriptors of process substitutions that are written to.
    outlets: HashSet<u32>,
    /// The descriptors of those in the words of the commands that are being followed.
    open_processes: Vec<u32>,
    /// Whether the standard output or error stream may be something that was opened for reading.
    turned: bool,
    /// Which words of the current command hold what came from a network.
    tainted: Vec<Span>,
    /// Whether what the current command prints or writes comes from a network.
    outgoing: bool,
    downloaded: HashSet<PathBuf>,
    downloaded_unknown: Vec<fetched::Named>,
    /// Named pipes, and whether a shell runs what comes out of them.
    pipes: HashMap<PathBuf, bool>,
    /// Directories into which something was unpacked that came from a network, with all that they hold.
    unpacked: HashSet<PathBuf>,
    written: HashMap<PathBuf, files::Written>,
    /// Whether a redirection opened a connection.
    connected: bool,
    /// Texts that run at the end: traps.
    traps: Vec<(Arg, Origin)>,
    errors_end: bool,
    /// Whether a variable that is not set ends the shell.
    unset_ends: bool,
    /// Where the shell is if the chain of commands that was followed last ran to its end.
    held: Option<Directory>,
    /// How many conditions there are around, in which a failure ends no shell.
    excused: usize,
    /// Whether `cd` follows links to their end, and whether it takes the name of a variable for what that holds.
    follows_links: bool,
    variables_are_directories: bool,
    repeated: bool,
}

impl<'a> Walker<'a> {
    fn new(source: &'a str, setting: &'a Setting<'a>) -> Self {
        let zero = match setting.dialect {
            Dialect::Bash => "bash",
            Dialect::Posix => "sh",
        };
        let parameters = Parameters { zero: Text::known(zero), rest: Some(Vec::new()), wild: false };
        Walker {
            setting,
            source,
            runs: Vec::new(),
            effects: Vec::new(),
            possible: Vec::new(),
            opaque: Vec::new(),
            opaque_seen: HashSet::new(),
            environment: Environment::new(Directory::at(setting.directory), parameters),
            origin: Origin::Written(Span { start: 0, end: source.len() }),
            dialect: setting.dialect,
            via: Vec::new(),
            elsewhere: false,
            current: Span { start: 0, end: source.len() },
            steps: MIN_STEPS.max(STEPS_A_BYTE * source.len()),
            levels: 0,
            inner: 0,
            background: 0,
            piped: 0,
            conditional: 0,
            calls: Vec::new(),
            rounds: Vec::new(),
            choices: Choices::default(),
            taint: false,
            wild: false,
            guarded: 0,
            uses: 0,
            processes: HashMap::new(),
            outlets: HashSet::new(),
            open_processes: Vec::new(),
            turned: false,
            next_process: *redirect::PROCESSES.end(),
            tainted: Vec::new(),
            outgoing: false,
            downloaded: HashSet::new(),
            downloaded_unknown: Vec::new(),
            pipes: HashMap::new(),
            unpacked: HashSet::new(),
            written: HashMap::new(),
            connected: false,
            traps: Vec::new(),
            errors_end: false,
            unset_ends: false,
            held: None,
            excused: 0,
            follows_links: false,
            variables_are_directories: false,
            repeated: false,
        }
    }

    pub(crate) fn setting(&self) -> &Setting<'a> {
        self.setting
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Where a stretch of the text that is being read stands in the command that was given.
    pub(crate) fn place(&self, span: Span) -> Span {
        self.origin.map(span)
    }

    /// The simple command that is being followed.
    pub(crate) fn whole(&self) -> Span {
        self.current
    }

    /// Takes steps out of the budget; false means that it is used up and nothing more should be followed.
    pub(crate) fn step(&mut self, cost: usize) -> bool {
        if self.steps < cost {
            self.steps = 0;
            let whole = Span { start: 0, end: self.source.len() };
            self.opaque_at(OpaqueReason::TooComplex, whole);
            return false;
        }
        self.steps -= cost;
        true
    }

    /// Says that the current command cannot be told.
    pub(crate) fn opaque(&mut self, reason: OpaqueReason) {
        self.opaque_at(reason, self.current);
    }

    /// Says that what stands there cannot be told.
    pub(crate) fn opaque_at(&mut self, reason: OpaqueReason, span: Span) {
        if self.opaque_seen.insert((std::mem::discriminant(&reason), span)) {
            self.opaque.push(Opaque { reason, span });
        }
    }

    /// Says that an expansion holds what came from a network.
    pub(crate) fn note_download(&mut self) {
        self.taint = true;
    }

    /// Says that an expansion holds something unknown that may be anything.
    pub(crate) fn note_wild(&mut self) {
        self.wild = true;
    }

    /// Says that a parameter or a variable of the script is used.
    pub(crate) fn note_use(&mut self) {
        self.uses += 1;
    }

    /// Whether an expansion of late held something unknown that may be anything.
    pub(crate) fn is_wild(&self) -> bool {
        self.wild
    }

    /// Starts to look for such things anew; gives what was found before.
    pub(crate) fn replace_wild(&mut self, wild: bool) -> bool {
        std::mem::replace(&mut self.wild, wild)
    }

    /// Whether the shell puts text into a variable that the script does not choose.
    pub(crate) fn holds_anything(&self, name: &str) -> bool {
        variables::holds_anything(name)
    }

    /// The function that is being followed.
    pub(crate) fn function_name(&self) -> Option<&str> {
        self.calls.last().map(|call| call.name.as_str())
    }

    /// Which of several possible values to take this time; none where they are not told apart.
    pub(crate) fn choose(&mut self, count: usize) -> Option<usize> {
        if !self.choices.open {
            return None;
        }
        let at = self.choices.at;
        self.choices.at += 1;
        match self.choices.taken.get(at) {
            Some((taken, _)) => Some((*taken).min(count - 1)),
            None => {
                self.choices.taken.push((0, count));
                Some(0)
            }
        }
    }

    /// Follows a script in the current shell.
    fn script(&mut self, script: &Script, feed: &Feed, captures: bool) -> Flow {
        if let Some(fault) = script.fault {
            let span = self.place(fault.span);
            self.opaque_at(OpaqueReason::Unreadable(fault.reason), span);
        }
        self.statements(&script.statements, feed, captures)
    }

    /// Follows a command substitution and says what it prints.
    pub(crate) fn substitute(&mut self, script: &Script) -> Text {
        // The shell waits for it, as for a pipe.
        self.piped += 1;
        let flow = self.in_subshell(|walker| {
            // bash goes on behind a failure there; other shells do not.
            walker.errors_end &= walker.dialect == Dialect::Posix;
            walker.script(script, &Feed::inherited(), true)
        });
        self.piped -= 1;
        self.taint |= flow.download;
        self.wild |= !flow.has_numbers() || (flow.early && !flow.is_number());
        let early = flow.early;
        let mut text = flow.text.unwrap_or_else(Text::unknown);
        text.trim_newlines();
        if early && text.whole().is_some_and(|text| !text.is_empty()) {
            // All of it, nothing, or something between.
            return match self.choose(3) {
                Some(1) => Text::default(),
                Some(2) => Text::unknown(),
                _ => text,
            };
        }
        text
    }

    /// Follows something whose changes stay in a process of its own.
    fn in_subshell<T>(&mut self, follow: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.environment.mark();
        let (current, choices) = (self.current, std::mem::take(&mut self.choices));
        let taint = std::mem::take(&mut self.taint);
        let wild = std::mem::take(&mut self.wild);
        let errors_end = self.errors_end;
        let rounds = std::mem::take(&mut self.rounds);
        let result = follow(self);
        self.rounds = rounds;
        self.errors_end = errors_end;
        self.taint = taint;
        self.wild = wild;
        self.choices = choices;
        self.current = current;
        self.environment.take_back(mark);
        result
    }

    /// Adds an effect. Of what happens somewhere else only connections count, and what destroys a machine: whose paths
    /// they are is not known.
    fn effect(&mut self, kind: EffectKind, target: Target, span: Span, run: Option<usize>) {
        let target = match kind {
            _ if !self.elsewhere => target,
            EffectKind::Connect | EffectKind::Power | EffectKind::ForkBomb | EffectKind::RunsDownload => {
                target
            }
            EffectKind::DeleteTree | EffectKind::Device => Target::Unknown,
            _ => return,
        };
        let once = matches!(kind, EffectKind::ForkBomb | EffectKind::RunsDownload);
        if once && self.effects.iter().rev().take(64).any(|other| other.kind == kind && other.span == span) {
            return;
        }
        self.effects.push(Effect { kind, target, span, run });
    }

    /// Follows what runs at the end.
    fn deferred(&mut self) {
        for (text, origin) in std::mem::take(&mut self.traps) {
            self.repeated = true;
            self.origin = origin;
            self.current = text.span;
            self.shell_text(&text);
        }
    }
}
