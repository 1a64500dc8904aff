//! An argv that was read by a grammar, and the meaning that is made of it.

use super::super::options::{Grammar, Item, Place, read};
use super::{Deed, Invocation, Meaning, On};
use crate::analysis::{Arg, DepartureKind, EffectKind, More};

/// Long options as a table: those without a value by their name alone. `help` and `version` are always there.
macro_rules! long {
    (@takes) => { $crate::programs::options::Takes::Nothing };
    (@takes $takes:ident) => { $crate::programs::options::Takes::$takes };
    [$($name:literal $(= $takes:ident)?),* $(,)?] => {
        &[
            ("help", $crate::programs::options::Takes::Nothing),
            ("version", $crate::programs::options::Takes::Nothing),
            $(($name, long!(@takes $($takes)?))),*
        ]
    };
}
pub(super) use long;

/// An argv and what is found in it.
pub(super) struct Reading<'a> {
    pub(super) args: &'a [Arg],
    pub(super) items: Vec<Item>,
    pub(super) meaning: Meaning,
    more: More,
}

impl<'a> Reading<'a> {
    /// Reads the arguments. Options that the grammar does not have are departures.
    pub(super) fn new(invocation: &Invocation<'a>, grammar: &Grammar) -> Self {
        let items = read(invocation.args, grammar);
        let unknown = items.iter().filter_map(|item| match item {
            Item::Unknown(arg) => Some((DepartureKind::UnknownOption, *arg)),
            _ => None,
        });
        let meaning = Meaning { departures: unknown.collect(), ..Meaning::default() };
        Reading { args: invocation.args, items, meaning, more: invocation.more }
    }

    /// Whether the program only tells about itself.
    pub(super) fn only_informs(&self) -> bool {
        self.has(&["help", "version"])
    }

    /// Whether one of these options is there, with or without a value.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.items.iter().any(|item| match item {
            Item::Flag(name, _) | Item::Value(name, _) => names.contains(name),
            _ => false,
        })
    }

    /// The values of these options.
    pub(super) fn values(&self, names: &[&str]) -> Vec<Place> {
        self.items
            .iter()
            .filter_map(|item| match item {
                Item::Value(name, place) if names.contains(name) => Some(*place),
                _ => None,
            })
            .collect()
    }

    /// The arguments that are operands, also those that may turn out to be options.
    pub(super) fn operands(&self) -> Vec<usize> {
        self.items
            .iter()
            .filter_map(|item| match item {
                Item::Operand(arg) => Some(*arg),
                Item::Maybe(arg) if !self.args[*arg].prefix().starts_with('-') && !self.holds_value(*arg) => {
                    Some(*arg)
                }
                _ => None,
            })
            .collect()
    }

    fn holds_value(&self, arg: usize) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Value(_, place) if place.arg == arg))
    }

    /// Whether operands are added when it runs.
    pub(super) fn has_more(&self) -> bool {
        self.more != More::Nothing
    }

    /// Notes a deed.
    pub(super) fn add(&mut self, kind: EffectKind, on: On) {
        self.meaning.deeds.push(Deed { kind, on });
    }

    /// Notes a deed on each of these arguments, and on those that are added.
    pub(super) fn each(&mut self, kind: EffectKind, args: &[usize]) {
        for arg in args {
            self.add(kind, On::Arg(*arg));
        }
        if self.has_more() {
            self.add(kind, On::Unknown(None));
        }
    }

    /// Notes a deed on the value of each of these options, but for `-`, which is a stream.
    pub(super) fn each_value(&mut self, kind: EffectKind, names: &[&str]) {
        for place in self.values(names) {
            if place.text(self.args) != Some("-") {
                self.add(kind, place.on(self.args));
            }
        }
    }

    /// Notes a departure for each of these options.
    pub(super) fn depart(&mut self, kind: DepartureKind, names: &[&str]) {
        for item in &self.items {
            match item {
                Item::Flag(name, arg) if names.contains(name) => self.meaning.departures.push((kind, *arg)),
                Item::Value(name, place) if names.contains(name) => {
                    self.meaning.departures.push((kind, place.option));
                }
                _ => {}
            }
        }
    }

    /// Notes that what is not certain may be an option, for programs of which one option changes much.
    pub(super) fn doubt(&mut self) {
        for item in &self.items {
            if let Item::Maybe(arg) | Item::Open(arg) = item {
                self.meaning.departures.push((DepartureKind::PossibleOption, *arg));
            }
        }
        if self.more == More::Anything {
            self.meaning.departures.push((DepartureKind::PossibleOption, self.args.len()));
        }
    }

    /// The certain text of an argument.
    pub(super) fn text(&self, arg: usize) -> Option<&'a str> {
        self.args.get(arg).and_then(Arg::text)
    }

    pub(super) fn done(self) -> Option<Meaning> {
        Some(self.meaning)
    }
}

/// The last part of a path, as programs name what they put into a directory.
pub(super) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Whether the arguments only ask the program about itself.
pub(super) fn asks_for_help(args: &[Arg]) -> bool {
    args.iter().any(|arg| matches!(arg.text(), Some("--help" | "--version")))
}

/// Whether one of these texts is among the arguments.
pub(super) fn mentions(args: &[Arg], texts: &[&str]) -> bool {
    args.iter().any(|arg| arg.text().is_some_and(|text| texts.contains(&text)))
}

/// The first argument that is no option, with its text where that is certain.
pub(super) fn first_word(args: &[Arg]) -> Option<(usize, &str)> {
    let is_word = |arg: &Arg| !arg.prefix().starts_with('-') && !arg.prefix().contains('=');
    args.iter().position(is_word).map(|at| (at, args[at].text().unwrap_or("")))
}

/// A meaning with these deeds alone.
pub(super) fn deeds(list: impl IntoIterator<Item = (EffectKind, On)>) -> Meaning {
    let deeds = list.into_iter().map(|(kind, on)| Deed { kind, on });
    Meaning { deeds: deeds.collect(), ..Meaning::default() }
}
