//! What moves the shell: `cd`, `pushd`, `popd`, and what decides where they lead.

use std::path::Path;

use crate::analysis::{Arg, EffectKind, Target};
use crate::tree::{CommandKind, Joint, Pipeline, Statement};

use super::Walker;
use super::directory::Directory;
use super::environment::Value;
use super::runs::Start;
use super::simple::literal_name;

/// What the arguments of `cd` and `pushd` ask for.
enum Asked<'a> {
    /// No directory.
    Nothing,
    /// The one before: `-`.
    Previous,
    /// This one; links are followed for the last time, as `-P` says, or not.
    Place(&'a Arg, bool),
    /// Something that shows only when it runs, or that shells take differently.
    Unsure(&'a Arg),
}

impl Walker<'_> {
    /// Follows `cd` and `pushd`.
    pub(super) fn changes_directory(&mut self, name: &str, start: &Start, run: Option<usize>) {
        let ends = self.failure_ends();
        let asked = asked(name, &start.argv[1..], self.follows_links);
        let is_set = |walker: &Self, variable: &str| {
            walker.environment.variable(variable).is_some()
                || start.environment.iter().any(|(name, _)| name == variable)
        };
        let searched = match &asked {
            Asked::Place(arg, _) => arg.text().is_some_and(|text| self.is_searched(text, start)),
            _ => false,
        };
        let before = self.environment.directory().clone();
        let mut changed = match &asked {
            Asked::Nothing if name == "pushd" => Directory::unknown(),
            Asked::Nothing => match self.home() {
                Some(home) if !start.environment.iter().any(|(name, _)| name == "HOME") => {
                    before.changed(Path::new(&home), ends)
                }
                _ => Directory::unknown(),
            },
            Asked::Previous if name == "pushd" || is_set(self, "OLDPWD") => Directory::unknown(),
            Asked::Previous => before.returned(ends),
            Asked::Place(arg, physically) => match arg.text() {
                Some(_) if searched => Directory::unknown(),
                // What `cd -` leads to is then where the shell is.
                Some("") => before.without_previous(),
                Some(text) if *physically => before.changed_physically(Path::new(text), ends),
                Some(text) => before.changed(Path::new(text), ends),
                None => Directory::unknown(),
            },
            Asked::Unsure(_) => Directory::unknown(),
        };
        if is_set(self, "OLDPWD") {
            // What is remembered goes to a variable that may be gone again.
            changed = changed.without_previous();
        }
        if name == "pushd" {
            changed = changed.pushed_from(&before);
        }
        match asked {
            Asked::Place(arg, _) if searched => {
                self.effect(EffectKind::Read, Target::Unknown, arg.span, run);
            }
            Asked::Place(arg, _) if arg.text() != Some("") => {
                for target in self.targets(arg, 0, false) {
                    self.effect(EffectKind::Read, target, arg.span, run);
                }
            }
            Asked::Unsure(arg) => self.effect(EffectKind::Read, Target::Unknown, arg.span, run),
            _ => {}
        }
        self.environment.change_directory(changed);
    }

    /// Whether the shell ends where a command fails.
    fn failure_ends(&self) -> bool {
        self.errors_end && self.excused == 0
    }

    /// Whether a pipeline does nothing but move the shell, so that it has moved if the pipeline succeeds.
    pub(super) fn only_moves(&self, pipeline: &Pipeline) -> bool {
        matches!(self.own_command(pipeline), Some("cd" | "chdir" | "pushd" | "popd"))
    }

    /// Where the shell is if every pipeline of a statement ran and succeeded, as it is where they are joined by `&&` and the
    /// statement holds. To be asked before it is considered that some may not have run.
    pub(super) fn place_if_all_held(&self, statement: &Statement) -> Option<Directory> {
        let (_, last) = statement.pipelines.last()?;
        let all = statement.pipelines.iter().all(|(joint, _)| *joint != Joint::Or);
        let directory = self.environment.directory();
        all.then(|| match self.only_moves(last) {
            true => directory.after_success().0,
            false => directory.clone(),
        })
    }

    /// Moves to where the shell is if a condition that was just followed holds.
    pub(super) fn moves_where_held(&mut self, condition: &[Statement]) {
        let is_chain = condition.last().is_some_and(|last| last.pipelines.len() > 1 && !last.background);
        let held = self.held.take().filter(|_| is_chain);
        let (narrowed, stayed) = self.environment.directory().after_success();
        match held {
            Some(held) if held != *self.environment.directory() => self.environment.change_directory(held),
            None if !stayed.is_empty() && self.moved_if_held(condition) => {
                self.environment.change_directory(narrowed);
            }
            _ => {}
        }
    }

    /// Whether the last move in a condition worked if the condition holds.
    fn moved_if_held(&self, condition: &[Statement]) -> bool {
        let Some(last) = condition.last().filter(|last| !last.background) else { return false };
        for (joint, pipeline) in last.pipelines.iter().rev() {
            if self.only_moves(pipeline) {
                // Behind `a || cd b` it may not have moved at all.
                return *joint != Joint::Or;
            }
            let may_move = matches!(
                self.own_command(pipeline),
                None | Some("eval" | "." | "source" | "builtin" | "command")
            );
            if may_move || *joint != Joint::And {
                return false;
            }
        }
        false
    }

    /// Whether a pipeline certainly ends the shell, the function or the round of a loop.
    pub(super) fn leaves(&self, pipeline: &Pipeline) -> bool {
        let [command] = pipeline.commands.as_slice() else { return false };
        match &command.kind {
            CommandKind::Simple(_) => match self.own_command(pipeline) {
                Some("exit") => true,
                // Elsewhere the shell complains and goes on.
                Some("return") => !self.calls.is_empty(),
                Some("break" | "continue") => !self.rounds.is_empty(),
                _ => false,
            },
            CommandKind::Group(statements) => statements
                .last()
                .is_some_and(|last| matches!(last.pipelines.as_slice(), [(_, only)] if self.leaves(only))),
            _ => false,
        }
    }

    /// The name of the one command of a pipeline that is written out and no function or alias.
    fn own_command<'p>(&self, pipeline: &'p Pipeline) -> Option<&'p str> {
        let [command] = pipeline.commands.as_slice() else { return None };
        let CommandKind::Simple(simple) = &command.kind else { return None };
        let name = simple.words.first().and_then(literal_name)?;
        let other = self.environment.function(name).is_some() || self.environment.alias(name).is_some();
        (!pipeline.negated && !other).then_some(name)
    }

    /// Whether a directory may be found elsewhere than the text says: below those of `CDPATH`, or in the variable of
    /// this name.
    fn is_searched(&self, text: &str, start: &Start) -> bool {
        let plain = text.starts_with('/')
            || matches!(text, "." | "..")
            || text.starts_with("./")
            || text.starts_with("../");
        let given = start.environment.iter().rev().find(|(name, _)| name == "CDPATH");
        let path = match (given, self.environment.variable("CDPATH")) {
            (Some((_, value)), _) => value.text() != Some(""),
            (None, Some(variable)) => variable.values.iter().any(|value| match value {
                Value::Text(text) => text.whole() != Some(""),
                Value::Unset => false,
                _ => true,
            }),
            (None, None) => false,
        };
        !plain && (path || self.variables_are_directories)
    }

    /// Follows `popd` and `dirs`.
    pub(super) fn changes_stack(&mut self, name: &str, args: &[Arg]) {
        let plain = match args {
            [] => true,
            [only] => only.text() == Some("--"),
            _ => false,
        };
        let directory = self.environment.directory();
        let changed = match name {
            "dirs" if plain => return,
            "dirs" => directory.without_stack(),
            _ if !plain || self.environment.variable("DIRSTACK").is_some() => Directory::unknown(),
            _ => directory.popped(self.failure_ends()),
        };
        let changed = match self.environment.variable("OLDPWD") {
            Some(_) => changed.without_previous(),
            None => changed,
        };
        self.environment.change_directory(changed);
    }

    /// `shopt`: with `cdable_vars`, the value of a variable is a directory that its name leads to.
    pub(super) fn sets_shell_options(&mut self, args: &[Arg]) {
        let named = |arg: &Arg| match arg.text() {
            Some(text) => text == "cdable_vars",
            None => true,
        };
        let physical = |arg: &Arg| arg.text().is_none_or(|text| text == "physical");
        self.variables_are_directories |= args.iter().any(named);
        self.unset_ends |= args.iter().any(|arg| arg.text().is_none_or(|text| text == "nounset"));
        self.follows_links |= args.iter().any(physical);
    }

    /// What `~` stands for.
    fn home(&self) -> Option<String> {
        match self.environment.variable("HOME") {
            Some(variable) => match variable.values.as_slice() {
                [Value::Text(text)] => text.whole().map(str::to_owned),
                _ => None,
            },
            None => self.setting.home.and_then(Path::to_str).map(str::to_owned),
        }
    }
}

/// Reads the options and the directory.
fn asked<'a>(name: &str, args: &'a [Arg], follows_links: bool) -> Asked<'a> {
    let mut physically = follows_links;
    let mut rest = args;
    while let Some((first, behind)) = rest.split_first() {
        match first.text() {
            Some("--") => {
                rest = behind;
                break;
            }
            Some("-") => break,
            Some(option) if option.starts_with('-') => {
                let known = name != "pushd" && option[1..].bytes().all(|byte| b"LPe@".contains(&byte));
                if !known {
                    return Asked::Unsure(first);
                }
                if let Some(last) = option.rfind(['L', 'P']) {
                    physically = option.as_bytes().get(last) == Some(&b'P');
                }
                rest = behind;
            }
            Some(text) if text.starts_with('+') && name == "pushd" => return Asked::Unsure(first),
            _ => break,
        }
    }
    match rest {
        [] => Asked::Nothing,
        [first, others @ ..]
            if others.iter().any(|other| !other.splits_unknown()) && first.text().is_some() =>
        {
            // Some shells refuse a second directory, others put it in place of the first.
            Asked::Unsure(first)
        }
        [first, ..] if first.text() == Some("-") => Asked::Previous,
        [first, ..] => Asked::Place(first, physically),
    }
}
