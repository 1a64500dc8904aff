//! What changes how the shell and its programs read what follows: options of the shell, `POSIXLY_CORRECT`, and words that
//! may become several.

use crate::analysis::{Arg, OpaqueReason};
use crate::expand::Text;
use crate::programs;
use crate::tree::{Dialect, PieceKind, Word};

use super::Walker;
use super::environment::{Value, Variable};
use super::runs::Start;

/// Makes programs take whatever follows the first operand for operands.
const IN_ORDER: &str = "POSIXLY_CORRECT";

/// Under this name it is remembered whether all variables are exported; no variable can have it.
const EXPORTS_ALL: &str = "set -a";

/// A program whose operands may start in more places than this is not followed.
const MAX_STARTS: usize = 8;

impl Walker<'_> {
    /// `set` and `shopt -o`: options that change what the text behind them means.
    pub(super) fn changes_modes(&mut self, builtin: &str, args: &[Arg]) {
        match builtin {
            "set" => self.sets_modes(args),
            "shopt" => {
                let letter = |letter: char| {
                    let has = |arg: &Arg| arg.prefix().starts_with('-') && arg.prefix().contains(letter);
                    args.iter().any(has)
                };
                let names = args.iter().filter_map(Arg::text).filter(|text| !text.starts_with('-'));
                if letter('o') && (letter('s') || letter('u')) {
                    names.for_each(|name| self.sets_mode(name, letter('s')));
                }
            }
            _ => {}
        }
    }

    fn sets_modes(&mut self, args: &[Arg]) {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            let Some(text) = arg.text() else {
                if arg.may_be_option() && self.wild {
                    self.opaque(OpaqueReason::Redefinition);
                }
                return;
            };
            let on = text.starts_with('-');
            let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !matches!(*letters, "" | "-"))
            else {
                return;
            };
            for letter in letters.chars() {
                if letter == 'o' {
                    match args.get(at).map(Arg::text) {
                        Some(Some(name)) => self.sets_mode(name, on),
                        Some(None) => self.opaque(OpaqueReason::Redefinition),
                        None => {}
                    }
                    at += 1;
                } else if let Some(name) = programs::mode_of(letter) {
                    self.sets_mode(name, on);
                }
            }
        }
    }

    fn sets_mode(&mut self, name: &str, on: bool) {
        // Where links lead is followed in the shell itself.
        if name != "physical" && programs::is_unusual_mode(name, on) {
            self.opaque(OpaqueReason::Redefinition);
        }
        match (name, on) {
            ("allexport", _) => {
                let value = if on { Value::Text(Text::known("on")) } else { Value::Unset };
                self.environment.set(EXPORTS_ALL, Variable::new(value));
            }
            ("posix", true) => self.assign(IN_ORDER, Variable::new(Value::Text(Text::known("y")))),
            _ => {}
        }
    }

    /// Whether every variable that is set may reach programs.
    pub(super) fn exports_all(&self) -> bool {
        let set = |value: &Value| *value != Value::Unset;
        self.environment.own_variable(EXPORTS_ALL).is_some_and(|mode| mode.values.iter().any(set))
    }

    /// Builtins that evaluate a subscript behind an option, which an unquoted word may bring along.
    pub(super) fn loose_words(&mut self, argv: &[Arg], loose: &[usize]) {
        let wrapped = |arg: &&Arg| matches!(arg.text(), Some("command" | "builtin" | "--"));
        let name = argv.iter().take_while(wrapped).count();
        let risky = match argv.get(name).and_then(Arg::text) {
            Some("test" | "[" | "wait") => loose.iter().any(|at| *at > name),
            // The option stands before the format.
            Some("printf") => {
                let quoted = |arg: &Arg| {
                    arg.prefix().is_empty() && arg.text().is_none() && self.wild && argv.len() > name + 2
                };
                loose.contains(&(name + 1)) || argv.get(name + 1).is_some_and(quoted)
            }
            _ => false,
        };
        if risky {
            self.opaque(OpaqueReason::Arithmetic);
        }
    }

    /// What stands in front of some builtins stays where the shell follows POSIX to the letter.
    pub(super) fn keep_assignments(&mut self, environment: Vec<(String, Arg)>, wild: bool) {
        let posix = self.dialect == Dialect::Posix
            || self.environment.variable(IN_ORDER).is_some()
            || self.via.iter().any(|via| matches!(via.as_str(), "sh" | "dash" | "ash"));
        if environment.is_empty() || !posix {
            return;
        }
        let mark = self.environment.mark();
        for (name, value) in environment {
            let variable = Variable { wild, ..Variable::new(Value::Text(Text::of(&value))) };
            self.assign_at(&name, variable, value.span);
        }
        self.environment.blur_since(mark);
    }

    /// Follows a program again as one that takes all that stands behind its first operand for operands.
    pub(super) fn in_order(&mut self, start: &Start, base: &str, run: Option<usize>) {
        if !start.environment.iter().any(|(name, _)| name == IN_ORDER) {
            return;
        }
        let ends = |arg: &Arg| arg.text() == Some("--");
        let args = &start.argv[1..];
        let args = &args[..args.iter().position(ends).unwrap_or(args.len())];
        let option = |arg: &Arg| arg.may_be_option() && arg.text() != Some("-");
        let Some(last) = args.iter().rposition(option) else { return };
        let firsts: Vec<usize> = (0..last).filter(|at| !args[*at].prefix().starts_with('-')).collect();
        if firsts.len() > MAX_STARTS {
            self.opaque(OpaqueReason::TooComplex);
        }
        for first in firsts.into_iter().take(MAX_STARTS) {
            if !self.step(4 + start.argv.len()) {
                return;
            }
            self.repeated = true;
            let mut other = Start { effects: Vec::new(), captures: false, ..start.clone() };
            other.argv.insert(first + 1, Arg::known("--", args[first].span));
            let invocation = self.invocation(base, &other);
            let meaning = programs::understand(&invocation).unwrap_or_default();
            self.meant(&meaning, &other, base, run);
            self.inner_commands(meaning, &other, base, run);
        }
    }
}

/// Whether a part of a word that is not quoted may become several.
pub(super) fn splits(word: &Word) -> bool {
    word.pieces.iter().any(|piece| matches!(piece.kind, PieceKind::Parameter(_) | PieceKind::Command(_)))
}

/// Builtins in front of which assignments may stay.
pub(super) fn keeps_assignments(argv: &[Arg]) -> bool {
    matches!(
        argv.first().and_then(Arg::text),
        Some(
            ":" | "."
                | "break"
                | "continue"
                | "eval"
                | "exec"
                | "exit"
                | "export"
                | "readonly"
                | "return"
                | "set"
                | "shift"
                | "source"
                | "times"
                | "trap"
                | "unset"
        )
    )
}
