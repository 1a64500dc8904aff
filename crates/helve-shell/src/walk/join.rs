//! Joining what different branches leave behind.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::environment::{
    Change, Environment, MAX_VALUES, Mark, Meanings, Outcome, Parameters, Value, Variable,
};

impl Environment {
    /// Makes each changed thing hold every value it had since the mark: any of the changes may not have happened.
    pub(crate) fn blur_since(&mut self, mark: Mark) {
        let mut earlier: Vec<Outcome> = Vec::new();
        for change in self.log.get(mark.0..).unwrap_or_default() {
            let mut outcome = Outcome::default();
            match change {
                Change::Variable(name, before) => {
                    outcome.variables.insert(name.clone(), before.clone());
                }
                Change::Function(name, before) => {
                    outcome.functions.insert(name.clone(), before.clone());
                }
                Change::Alias(name, before) => {
                    outcome.aliases.insert(name.clone(), before.clone());
                }
                Change::Directory(before) => outcome.directory = Some(before.clone()),
                Change::Parameters(before) => outcome.parameters = Some(Rc::clone(before)),
            }
            earlier.push(outcome);
        }
        for outcome in earlier {
            self.join(outcome);
        }
    }

    /// Adds an outcome as a further possibility to what is there now.
    pub(crate) fn join(&mut self, outcome: Outcome) {
        for (name, variable) in outcome.variables {
            let other = variable.unwrap_or_else(|| Variable::new(Value::Unknown));
            let mut joined =
                self.variables.get(&name).cloned().unwrap_or_else(|| Variable::new(Value::Unknown));
            joined.join(&other);
            if self.variables.get(&name) != Some(&joined) {
                self.set(&name, joined);
            }
        }
        for (name, meanings) in outcome.functions {
            let joined = join_meanings(self.functions.get(&name), meanings, Rc::ptr_eq);
            let before = self.functions.insert(name.clone(), joined);
            self.log.push(Change::Function(name, before));
        }
        for (name, meanings) in outcome.aliases {
            let joined = join_meanings(self.aliases.get(&name), meanings, |one, other| one == other);
            let before = self.aliases.insert(name.clone(), joined);
            self.log.push(Change::Alias(name, before));
        }
        if let Some(directory) = outcome.directory {
            let joined = self.directory.joined(&directory);
            if joined != self.directory {
                self.change_directory(joined);
            }
        }
        if let Some(parameters) = outcome.parameters
            && *parameters != *self.parameters
        {
            let wild = !(parameters.is_tame() && self.parameters.is_tame());
            self.set_parameters(Parameters { zero: self.parameters.zero.clone(), rest: None, wild });
        }
    }

    /// Joins outcomes of which exactly one happens.
    pub(crate) fn join_all(&mut self, outcomes: Vec<Outcome>) {
        let total = outcomes.len();
        let mut variables: HashMap<String, (usize, Variable)> = HashMap::new();
        let mut directories = Vec::new();
        for mut outcome in outcomes {
            for (name, variable) in std::mem::take(&mut outcome.variables) {
                let variable = variable.unwrap_or_else(|| Variable::new(Value::Unknown));
                match variables.entry(name) {
                    Entry::Occupied(mut entry) => {
                        entry.get_mut().0 += 1;
                        entry.get_mut().1.join(&variable);
                    }
                    Entry::Vacant(entry) => {
                        entry.insert((1, variable));
                    }
                }
            }
            directories.extend(outcome.directory.take());
            self.join(outcome);
        }
        for (name, (count, mut variable)) in variables {
            if count < total {
                let before = self.variables.get(&name).cloned();
                variable.join(&before.unwrap_or_else(|| Variable::new(Value::Unknown)));
            }
            self.set(&name, variable);
        }
        if directories.len() < total && !directories.is_empty() {
            directories.push(self.directory.clone());
        }
        if let Some(joined) = directories.into_iter().reduce(|one, other| one.joined(&other)) {
            self.change_directory(joined);
        }
    }

    /// Gives up on the variables of an outcome that a further round changed again.
    pub(crate) fn widen(&mut self, outcome: &Outcome) {
        for (name, variable) in &outcome.variables {
            let settled = match (self.variables.get(name), variable) {
                (Some(now), Some(then)) => then.values.iter().all(|value| now.values.contains(value)),
                (None, None) => true,
                _ => false,
            };
            if !settled {
                let mut widened =
                    self.variables.get(name).cloned().unwrap_or_else(|| Variable::new(Value::Unknown));
                widened.forget();
                self.set(name, widened);
            }
        }
    }

    /// Whether an outcome says something of a variable that is not covered by what is known of it.
    pub(crate) fn is_unsettled(&self, outcome: &Outcome) -> bool {
        let unset = Variable::new(Value::Unknown);
        outcome.variables.iter().any(|(name, variable)| match self.variables.get(name) {
            Some(now) => !now.covers(variable.as_ref().unwrap_or(&unset)),
            None => variable.is_some(),
        })
    }

    /// Whether an outcome says something that is not yet among the possibilities.
    pub(crate) fn is_news(&self, outcome: &Outcome) -> bool {
        let variables =
            outcome.variables.iter().any(|(name, variable)| match (self.variables.get(name), variable) {
                (Some(now), Some(then)) => then.adds_to(now),
                (None, None) => false,
                _ => true,
            });
        variables
            || outcome
                .directory
                .as_ref()
                .is_some_and(|directory| self.directory.joined(directory) != self.directory)
            || !outcome.functions.is_empty()
            || !outcome.aliases.is_empty()
            || outcome.parameters.is_some()
    }
}

fn join_meanings<T: Clone>(
    now: Option<&Meanings<T>>,
    other: Option<Meanings<T>>,
    same: impl Fn(&T, &T) -> bool,
) -> Meanings<T> {
    let mut joined = now.cloned().unwrap_or_else(|| vec![None]);
    for meaning in other.unwrap_or_else(|| vec![None]) {
        let there = joined.iter().any(|known| match (known, &meaning) {
            (Some(known), Some(meaning)) => same(known, meaning),
            (None, None) => true,
            _ => false,
        });
        if !there && joined.len() < 2 * MAX_VALUES {
            joined.push(meaning);
        }
    }
    joined
}
