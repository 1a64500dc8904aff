//! What certainly goes on: a shell that may have ended, or that writes elsewhere by now, prints nothing of what is written
//! behind that.

use crate::tree::{
    AssignedValue, Assignment, Command, CommandKind, Dialect, Operation, Piece, PieceKind, Redirect,
    RedirectTarget, Simple, Statement, Word,
};

use super::simple::literal_name;
use super::{Walker, names};

/// Builtins behind which the shell goes on whatever comes of them.
const GOES_ON: [&str; 12] =
    [":", "[", "cd", "chdir", "echo", "false", "printf", "pwd", "read", "test", "true", "type"];

/// The same in bash, if they have no options.
const GOES_ON_IN_BASH: [&str; 7] = ["declare", "export", "local", "readonly", "shift", "typeset", "unset"];

/// Programs that may end the shell that starts them.
const ENDS_OTHERS: [&str; 4] = ["kill", "killall", "pkill", "skill"];

impl Walker<'_> {
    /// Whether what stands behind a statement certainly runs, and prints where the statement printed.
    pub(super) fn goes_on(&self, statement: &Statement) -> bool {
        let last = |commands: &[Command]| commands.last().is_none_or(|last| self.goes_on_behind(last));
        // All but the last command of a pipeline have a process of their own.
        statement.background
            || !self.unset_ends
                && !self.errors_end
                && statement.pipelines.iter().all(|(_, pipeline)| last(&pipeline.commands))
    }

    fn goes_on_behind(&self, command: &Command) -> bool {
        let redirects = command.redirects.iter().all(is_plain_redirect);
        redirects
            && match &command.kind {
                CommandKind::Simple(simple) => self.goes_on_behind_simple(simple, &command.redirects),
                CommandKind::Subshell(_) | CommandKind::Function { .. } => true,
                CommandKind::Group(statements) => statements.iter().all(|statement| self.goes_on(statement)),
                _ => false,
            }
    }

    fn goes_on_behind_simple(&self, simple: &Simple, redirects: &[Redirect]) -> bool {
        let is_plain = simple.words.iter().all(is_plain)
            && simple.assignments.iter().all(|assignment| self.is_plain_assignment(assignment));
        let Some(first) = simple.words.first() else { return is_plain };
        let Some(name) = literal_name(first) else { return false };
        let is_own = self.environment.function(name).is_some() || self.environment.alias(name).is_some();
        let bash = self.dialect == Dialect::Bash;
        let is_steady = if !names::is_builtin(name, self.dialect) {
            !ENDS_OTHERS.contains(&name.rsplit('/').next().unwrap_or(name))
        } else if GOES_ON.contains(&name) {
            // A POSIX shell ends where a redirection of a special builtin fails.
            bash || redirects.is_empty()
        } else {
            let takes = |word: &Word| declared(word).is_some_and(|name| !self.may_refuse(name));
            let is_known = bash && GOES_ON_IN_BASH.contains(&name);
            (is_known || names::is_local(name) && !self.calls.is_empty())
                && simple.words.iter().skip(1).all(takes)
        };
        is_plain && is_steady && !is_own
    }

    fn is_plain_assignment(&self, assignment: &Assignment) -> bool {
        let plain = match &assignment.value {
            AssignedValue::Word(word) => is_plain(word),
            AssignedValue::Array(words) => words.iter().all(is_plain),
        };
        plain && assignment.subscript.is_none() && !self.may_refuse(&assignment.name)
    }

    /// Whether a variable may not take a value: it keeps the one that it has, or evaluates what it is given.
    fn may_refuse(&self, name: &str) -> bool {
        self.environment.variable(name).is_some_and(|variable| variable.fixed || variable.integer)
    }
}

/// The name that an argument declares; none for an option, and where the name is not written out.
fn declared(word: &Word) -> Option<&str> {
    let Some(Piece { kind: PieceKind::Text(text), .. }) = word.pieces.first() else { return None };
    let name = match text.split_once('=') {
        Some((name, _)) => name,
        None => literal_name(word)?,
    };
    (!name.starts_with('-')).then_some(name)
}

fn is_plain_redirect(redirect: &Redirect) -> bool {
    match &redirect.target {
        RedirectTarget::Word(word) | RedirectTarget::HereDocument { body: word, .. } => is_plain(word),
    }
}

/// Whether a word can be expanded without an error: such an error ends the shell.
fn is_plain(word: &Word) -> bool {
    are_plain(&word.pieces)
}

fn are_plain(pieces: &[Piece]) -> bool {
    pieces.iter().all(|piece| match &piece.kind {
        PieceKind::Double(inner) => are_plain(inner),
        PieceKind::Parameter(parameter) => {
            let operation = match &parameter.operation {
                Operation::Value | Operation::Length => true,
                Operation::Default { word, .. } | Operation::Alternative { word, .. } => is_plain(word),
                _ => false,
            };
            operation && parameter.subscript.is_none() && !parameter.indirect
        }
        PieceKind::Arithmetic(_) => false,
        PieceKind::Text(_)
        | PieceKind::Escaped(_)
        | PieceKind::Single(_)
        | PieceKind::Command(_)
        | PieceKind::ProcessIn(_)
        | PieceKind::ProcessOut(_) => true,
    })
}
