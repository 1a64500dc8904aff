//! Programs that a table describes fully: which options there are, which of them name files or programs, and what the
//! operands are.

use crate::analysis::{DepartureKind, More};
use crate::programs::options::{Grammar, Item, Place, read};
use crate::programs::{Invocation, Meaning, On};

/// A program, or several that take the same arguments.
pub(super) struct Table {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// Their options.
    pub(super) grammar: Grammar,
    /// What options with a value do with it; those that are not listed do nothing of note.
    pub(super) values: &'static [(&'static str, Does)],
    /// Options without a value that make the program something else than a reader.
    pub(super) flags: &'static [(&'static str, DepartureKind)],
    /// What the operands are.
    pub(super) operands: Operands,
}

impl Table {
    /// A program without options whose operands are text.
    pub(super) const NONE: Table =
        Table { names: &[], grammar: Grammar::NONE, values: &[], flags: &[], operands: Operands::Text };
}

/// What an option does with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Reads the file.
    Read,
    /// Writes the file.
    Write,
    /// Runs the program.
    Run,
    /// Has a shell run the text.
    Shell,
    /// Takes configuration from it.
    Configure,
}

/// What operands are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operands {
    /// Text, numbers, names.
    Text,
    /// Files to read.
    Paths,
    /// Files to read; without any, the working directory.
    PathsOrHere,
    /// A pattern unless one of these options gives it, then files to read.
    PatternThenPaths(&'static [&'static str]),
    /// A file to read, then one to write.
    InputThenOutput,
    /// A number of files to read, then text.
    SomePaths(usize),
    /// Files to read, except for those that the function takes for something else.
    PathsBut(fn(&str) -> bool),
}

/// What the argv means by the table.
pub(super) fn apply(table: &Table, invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let args = invocation.args;
    let items = read(args, &table.grammar);
    if table.is_dangerous() {
        meaning.notes_doubts(&items, invocation);
    } else {
        meaning.notes_unknown(&items);
    }
    let mut operands = Vec::new();
    let mut pattern_given = false;
    for item in items {
        match item {
            Item::Flag(name, at) => {
                if let Some((_, kind)) = table.flags.iter().find(|(known, _)| *known == name) {
                    meaning.departs(*kind, at);
                }
                pattern_given |= table.gives_pattern(name);
            }
            Item::Value(name, place) => {
                value(&mut meaning, table, invocation, name, place);
                pattern_given |= table.gives_pattern(name);
            }
            Item::Operand(at) | Item::Maybe(at) => operands.push(at),
            Item::End(_) | Item::Unknown(_) | Item::Open(_) | Item::Stray(_) => {}
        }
    }
    note_operands(&mut meaning, table.operands, &operands, pattern_given, invocation);
    meaning
}

impl Table {
    /// Whether an argument that turns out to be an option could do more than read.
    fn is_dangerous(&self) -> bool {
        !self.flags.is_empty() || self.values.iter().any(|(_, does)| *does != Does::Read)
    }

    fn gives_pattern(&self, name: &str) -> bool {
        matches!(self.operands, Operands::PatternThenPaths(options) if options.contains(&name))
    }
}

fn value(
    meaning: &mut Meaning,
    table: &Table,
    invocation: &Invocation<'_>,
    name: &'static str,
    place: Place,
) {
    let args = invocation.args;
    if let Some((_, kind)) = table.flags.iter().find(|(known, _)| *known == name) {
        meaning.departs(*kind, place.option);
    }
    let Some((_, does)) = table.values.iter().find(|(known, _)| *known == name) else { return };
    match does {
        Does::Read => {
            if place.text(args) != Some("-") {
                meaning.reads(place.on(args));
            }
        }
        Does::Write => meaning.writes_option(args, place),
        Does::Run => meaning.runs_program(args, place),
        Does::Shell => meaning.runs_option_text(args, place),
        Does::Configure => meaning.departs(DepartureKind::Configuration, place.option),
    }
}

fn note_operands(
    meaning: &mut Meaning,
    kind: Operands,
    operands: &[usize],
    pattern_given: bool,
    invocation: &Invocation<'_>,
) {
    let path = |meaning: &mut Meaning, at: usize| {
        if invocation.text(at) != Some("-") {
            meaning.reads(On::Arg(at));
        }
    };
    match kind {
        Operands::Text => return,
        Operands::Paths | Operands::PathsOrHere => operands.iter().for_each(|at| path(meaning, *at)),
        Operands::PatternThenPaths(_) => {
            operands.iter().skip(usize::from(!pattern_given)).for_each(|at| path(meaning, *at));
        }
        Operands::SomePaths(count) => operands.iter().take(count).for_each(|at| path(meaning, *at)),
        Operands::PathsBut(exempt) => {
            let paths = operands.iter().filter(|at| !invocation.text(**at).is_some_and(exempt));
            paths.for_each(|at| path(meaning, *at));
        }
        Operands::InputThenOutput => {
            if let Some(input) = operands.first() {
                path(meaning, *input);
            }
            if let Some(output) = operands.get(1).copied()
                && !invocation.text(output).is_some_and(super::is_stream)
            {
                meaning.departs(DepartureKind::Output, output);
                meaning.writes(On::Arg(output));
            }
        }
    }
    if matches!(kind, Operands::PathsOrHere) && operands.is_empty() && invocation.more == More::Nothing {
        meaning.reads(On::Path(".".to_owned(), None));
    }
    if invocation.more != More::Nothing {
        meaning.reads(On::Unknown(None));
    }
    if matches!(kind, Operands::InputThenOutput) && invocation.more != More::Nothing {
        meaning.departs(DepartureKind::Output, invocation.args.len());
    }
}
