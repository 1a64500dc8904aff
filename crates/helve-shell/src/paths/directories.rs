//! Following a literal `cd` through a command.
//!
//! Each scope (the command itself, a `( … )`, a substitution) has the set of directories in which its next segment may
//! run. A `cd` counts for sure only along its `&&` chain: behind `;` it may have failed, so both directories remain.
//! Where that cannot be followed (loops, functions, `eval`, `cd $x`) the directory is unknown.

use std::sync::Arc;

use super::Directory;
use crate::command::{Command, Entry, Joint, PartKind, Position, Scope, Segment, Word};

/// More possible directories than this are not told apart.
const MAX_DIRECTORIES: usize = 4;

/// Longer than any path that a system call takes.
const MAX_DIRECTORY_LENGTH: usize = 4096;

/// The possible directories of one scope.
struct State {
    /// Where the present `&&` chain may have stopped.
    stopped: Vec<Directory>,
    /// Where the next segment of the chain runs.
    current: Vec<Directory>,
    /// Where the present segment runs, and with it the substitutions in its words.
    running: Vec<Directory>,
}

impl State {
    fn new(current: Vec<Directory>) -> Self {
        State { stopped: Vec::new(), running: current.clone(), current }
    }
}

pub(super) struct Directories<'c> {
    scopes: &'c [Scope],
    states: Vec<State>,
    /// For each segment, whether its output goes into a pipe of the same scope.
    piped: Vec<bool>,
    /// Where a here-document's substitutions run.
    here_document: Vec<Directory>,
}

impl<'c> Directories<'c> {
    pub(super) fn new(command: &'c Command, starts: &[Directory]) -> Self {
        let current = if can_be_followed(command) { starts.to_vec() } else { vec![Directory::Unknown] };
        let here_document =
            if changes_directory(command) { vec![Directory::Unknown] } else { current.clone() };
        Directories {
            scopes: &command.scopes,
            states: vec![State::new(current)],
            piped: piped(command),
            here_document,
        }
    }

    /// The directories in which the segment may run.
    pub(super) fn enter(&mut self, segment: &Segment) -> Vec<Directory> {
        while self.states.len() <= segment.scope {
            let Some(scope) = self.scopes.get(self.states.len()) else { break };
            let current = match scope.entry {
                Entry::Subshell(joint) => {
                    self.join(scope.parent, joint);
                    self.directories(scope.parent, |state| &state.current)
                }
                Entry::Substitution => self.directories(scope.parent, |state| &state.running),
                Entry::HereDocument => self.here_document.clone(),
            };
            self.states.push(State::new(current));
        }
        self.join(segment.scope, segment.joint);
        let current = self.directories(segment.scope, |state| &state.current);
        if let Some(state) = self.states.get_mut(segment.scope) {
            state.running.clone_from(&current);
        }
        current
    }

    /// Applies what the segment does to its scope. Gives the word of a `cd` that goes home without saying so.
    pub(super) fn leave<'s>(&mut self, index: usize, segment: &'s Segment) -> Option<&'s Word> {
        let step = Step::of(segment);
        let maybe = self.piped.get(index).copied().unwrap_or_default()
            || segment.joint == Joint::Pipe
            || segment.words.iter().any(|word| word.position == Position::Keyword && word.text == "!");
        let state = self.states.get_mut(segment.scope)?;
        let (next, home) = match step {
            Step::Stay => return None,
            Step::Lost => (vec![Directory::Unknown], None),
            Step::Home(word) => (vec![Directory::Under("~".into())], Some(word)),
            Step::To(path) => (state.current.iter().map(|directory| join(directory, &path)).collect(), None),
        };
        state.stopped = union(&state.stopped, &state.current);
        state.current = if maybe { union(&state.current, &next) } else { union(&next, &[]) };
        home
    }

    fn directories(&self, scope: usize, which: fn(&State) -> &Vec<Directory>) -> Vec<Directory> {
        self.states.get(scope).map_or_else(|| vec![Directory::Unknown], |state| which(state).clone())
    }

    fn join(&mut self, scope: usize, joint: Joint) {
        let Some(state) = self.states.get_mut(scope) else { return };
        match joint {
            Joint::First | Joint::And | Joint::Pipe => {}
            Joint::Sequence | Joint::Background | Joint::Or => {
                if !state.stopped.is_empty() {
                    state.current = union(&state.stopped, &state.current);
                    state.stopped.clear();
                }
            }
        }
    }
}

/// True if some segment or subshell reads from a pipe.
pub(super) fn has_pipe(command: &Command) -> bool {
    command.segments.iter().any(|segment| segment.joint == Joint::Pipe) || has_piped_subshell(command)
}

fn piped(command: &Command) -> Vec<bool> {
    let mut next = vec![false; command.scopes.len()];
    let mut piped = vec![false; command.segments.len()];
    for (index, segment) in command.segments.iter().enumerate().rev() {
        if let (Some(next), Some(piped)) = (next.get_mut(segment.scope), piped.get_mut(index)) {
            *piped = *next;
            *next = segment.joint == Joint::Pipe;
        }
    }
    piped
}

fn has_piped_subshell(command: &Command) -> bool {
    command.scopes.iter().any(|scope| scope.entry == Entry::Subshell(Joint::Pipe))
}

fn changes_directory(command: &Command) -> bool {
    command.words().any(|word| matches!(word.text.as_str(), "cd" | "chdir" | "pushd" | "popd"))
}

/// False where the order in which segments run is not the order in which they stand, or `cd` may mean something else.
fn can_be_followed(command: &Command) -> bool {
    if !changes_directory(command) {
        return true;
    }
    let unusual = command.words().any(|word| match word.position {
        Position::Keyword => matches!(word.text.as_str(), "for" | "while" | "until" | "select"),
        Position::Name => matches!(word.text.as_str(), "alias" | "trap"),
        Position::Assignment | Position::Argument => word.text.starts_with("CDPATH"),
        _ => false,
    });
    !command.defines_functions && !has_piped_subshell(command) && !unusual
}

fn union(left: &[Directory], right: &[Directory]) -> Vec<Directory> {
    let mut all = left.to_vec();
    for directory in right {
        if !all.contains(directory) {
            all.push(directory.clone());
        }
    }
    if all.len() > MAX_DIRECTORIES { vec![Directory::Unknown] } else { all }
}

fn join(directory: &Directory, path: &str) -> Directory {
    if path.starts_with(['/', '~']) {
        return Directory::Under(path.into());
    }
    match directory {
        Directory::Unknown => Directory::Unknown,
        Directory::Start => Directory::Under(path.into()),
        Directory::Under(base) if base.len() + path.len() < MAX_DIRECTORY_LENGTH => {
            Directory::Under(Arc::from(format!("{}/{path}", base.trim_end_matches('/'))))
        }
        Directory::Under(_) => Directory::Unknown,
    }
}

/// What a segment does to the directory of its shell.
enum Step<'s> {
    Stay,
    To(String),
    Home(&'s Word),
    Lost,
}

impl<'s> Step<'s> {
    fn of(segment: &'s Segment) -> Step<'s> {
        let is_command = |word: &&Word| matches!(word.position, Position::Name | Position::Argument);
        let mut words = segment.words.iter().filter(is_command).peekable();
        while words.next_if(|word| matches!(word.text.as_str(), "command" | "builtin")).is_some() {}
        let Some(name) = words.next() else { return Step::Stay };
        if !name.known || name.glob {
            return Step::Lost;
        }
        match name.text.as_str() {
            "cd" | "chdir" | "pushd" => {}
            "popd" | "eval" | "source" | "." => return Step::Lost,
            _ => return Step::Stay,
        }
        let is_option = |word: &&Word| word.text.starts_with('-') && word.text.len() > 1;
        match words.find(|word| !is_option(word)) {
            None if name.text == "pushd" => Step::Lost,
            None => Step::Home(name),
            Some(target) => Step::to(target),
        }
    }

    fn to(target: &'s Word) -> Step<'s> {
        let uncertain = !target.known || target.glob || target.text.len() >= MAX_DIRECTORY_LENGTH;
        if uncertain || matches!(target.text.as_str(), "" | "-") || target.text.starts_with('+') {
            return Step::Lost;
        }
        let bare_tilde = target.parts.first().is_some_and(|part| part.kind == PartKind::Bare);
        if target.text.starts_with('~') && !bare_tilde {
            return Step::To(format!("./{}", target.text));
        }
        Step::To(target.text.clone())
    }
}
