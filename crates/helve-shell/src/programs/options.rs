//! The grammar of options that programs share: a table goes in with an argv, a list of what each argument is comes out.
//!
//! It follows GNU `getopt_long`: clusters (`-rfv`), attached values (`-n5`, `--file=x`), values in the next argument,
//! unambiguous abbreviations of long options, `--`, and options behind operands unless the table says [`Order::First`].
//! An argument of which only the start is known is read as far as that start reaches; what may or may not be an option is
//! [`Item::Maybe`] or [`Item::Open`]. What options mean is the business of the table's owner.

#[cfg(test)]
mod tests;

use super::On;
use crate::Span;
use crate::analysis::{Arg, ArgPart};

/// The options of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammar {
    /// Short options without a value.
    pub(super) flags: &'static str,
    /// Short options with a value, attached or in the next argument.
    pub(super) values: &'static str,
    /// Short options whose value may be attached and is never the next argument.
    pub(super) optional: &'static str,
    /// Long options as pairs, without their dashes. `--help` and `--version` need no entry.
    pub(super) long: &'static [(&'static str, Takes)],
    /// Long options as text, in lists that programs may share: names divided by blanks, with `=` behind one that
    /// takes a value and `?` behind one that may take one.
    pub(super) names: &'static [&'static str],
    /// Where options may stand.
    pub(super) order: Order,
    /// Whether `-20` is an option; its name is then `#`.
    pub(super) numbers: bool,
    /// Whether long options may have a single dash. They are then not abbreviated.
    pub(super) single_dash: bool,
}

impl Grammar {
    /// A program without options, to be filled with `..Grammar::NONE`.
    pub(super) const NONE: Grammar = Grammar {
        flags: "",
        values: "",
        optional: "",
        long: &[],
        names: &[],
        order: Order::Mixed,
        numbers: false,
        single_dash: false,
    };

    /// All long options.
    fn options(&self) -> impl Iterator<Item = (&'static str, Takes)> + use<> {
        let named = self.names.iter().flat_map(|list| list.split_ascii_whitespace()).map(described);
        self.long.iter().chain(EVERYWHERE).copied().chain(named)
    }
}

/// Whether a long option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// It has none.
    Nothing,
    /// It has one, behind `=` or in the next argument.
    Value,
    /// It may have one behind `=`.
    Optional,
}

/// Where options may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Anywhere before `--`.
    Mixed,
    /// Before the first operand, as for programs that start others.
    First,
}

/// What an argument, or a letter of a cluster, is. Short options are named by their letter, long ones without dashes and
/// unabbreviated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// An option without a value, and the argument in which it stands.
    Flag(&'static str, usize),
    /// An option with a value.
    Value(&'static str, Place),
    /// An operand.
    Operand(usize),
    /// `--`.
    End(usize),
    /// An option that the table does not have.
    Unknown(usize),
    /// An argument that may be an option or an operand: its start is not known. It stands where an operand would.
    Maybe(usize),
    /// An option or a value whose end is not known: further letters or arguments may follow. It is no operand.
    Open(usize),
    /// A value that becomes names of files, where a program or a subcommand stands behind the options: one may be that.
    Stray(usize),
}

/// Where the value of an option stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The argument that holds the option.
    pub(super) option: usize,
    /// The argument that holds the value; past the end if the value is missing.
    pub(super) arg: usize,
    /// How many bytes of that argument stand before the value.
    pub(super) skip: usize,
}

impl Place {
    /// The value's text, if it is certain.
    pub(super) fn text(self, args: &[Arg]) -> Option<&str> {
        args.get(self.arg)?.text()?.get(self.skip..)
    }

    /// What the value certainly starts with.
    pub(super) fn prefix(self, args: &[Arg]) -> &str {
        args.get(self.arg).and_then(|arg| arg.prefix().get(self.skip..)).unwrap_or_default()
    }

    /// The value as an argument of its own; none if it is missing.
    pub(super) fn value(self, args: &[Arg]) -> Option<Arg> {
        args.get(self.arg).map(|arg| tail(arg, self.skip))
    }

    /// The value as the object of a deed.
    pub(super) fn on(self, args: &[Arg]) -> On {
        match (args.get(self.arg), self.skip) {
            (None, _) => On::Unknown(Some(self.option)),
            (Some(_), 0) => On::Arg(self.arg),
            (Some(_), skip) => On::Tail(self.arg, skip),
        }
    }
}

/// The argument without its first `skip` bytes, which must be certain.
pub(super) fn tail(arg: &Arg, skip: usize) -> Arg {
    let mut rest = skip;
    let mut parts = Vec::with_capacity(arg.parts.len());
    for part in &arg.parts {
        let (ArgPart::Known(text) | ArgPart::Glob(text)) = part else {
            parts.push(part.clone());
            continue;
        };
        let cut = rest.min(text.len());
        rest -= cut;
        match (text.get(cut..), part) {
            (Some(""), _) | (None, _) => {}
            (Some(left), ArgPart::Glob(_)) => parts.push(ArgPart::Glob(left.to_owned())),
            (Some(left), _) => parts.push(ArgPart::Known(left.to_owned())),
        }
    }
    // Only where the source holds the text without quotes do its bytes and those of the text count alike.
    let bare = arg.text().is_some_and(|text| text.len() == arg.span.end.saturating_sub(arg.span.start));
    let start = if bare { arg.span.start + skip } else { arg.span.start };
    Arg { parts, span: Span { start, end: arg.span.end }, splits: arg.splits }
}

/// Whether an argument may turn out to hold an option, at its start or behind a blank at which it splits.
pub(super) fn may_hide_option(arg: &Arg) -> bool {
    arg.text().is_none() && (arg.may_be_option() || arg.splits_unknown())
}

/// Whether an argument that stands where a value does may bring options along: the value is the first that it becomes.
pub(super) fn brings_option(arg: &Arg) -> bool {
    arg.splits && may_hide_option(arg)
}

/// What an argument certainly starts with, active characters not counted, and whether that is all of it.
fn start(arg: &Arg) -> (&str, bool) {
    match arg.parts.as_slice() {
        [] => ("", true),
        [ArgPart::Known(text)] => (text, !arg.splits),
        [ArgPart::Known(text), ..] => (text, false),
        [ArgPart::Glob(pattern), ..] => {
            let active = pattern.find(['*', '?', '[', '(']).unwrap_or(pattern.len());
            (&pattern[..active], false)
        }
        [ArgPart::Unknown, ..] => ("", false),
    }
}

/// Says what each argument is.
pub(super) fn read(args: &[Arg], grammar: &Grammar) -> Vec<Item> {
    read_from(args, 0, grammar)
}

/// Says what each argument from one on is, as for a subcommand.
pub(super) fn read_from(args: &[Arg], first: usize, grammar: &Grammar) -> Vec<Item> {
    let items = Vec::with_capacity(args.len());
    let mut reader = Reader { args, grammar, items, next: first, lookups: 0, sorted: None };
    reader.run();
    reader.items
}

/// Long options that nearly every program has.
const EVERYWHERE: &[(&str, Takes)] = &[("help", Takes::Nothing), ("version", Takes::Nothing)];

struct Reader<'a> {
    args: &'a [Arg],
    grammar: &'a Grammar,
    items: Vec<Item>,
    next: usize,
    /// How often a long option was looked for.
    lookups: usize,
    /// All long options by name, once they were looked for often.
    sorted: Option<Vec<(&'static str, Takes)>>,
}

/// How many long options are looked for before it pays to sort them.
const FEW_LOOKUPS: usize = 12;

impl<'a> Reader<'a> {
    fn run(&mut self) {
        while let Some(arg) = self.args.get(self.next) {
            let at = self.next;
            self.next += 1;
            let (text, complete) = start(arg);
            match text.strip_prefix('-') {
                Some("") if complete => self.operand(at),
                Some("-") if complete => {
                    self.items.push(Item::End(at));
                    return self.rest();
                }
                Some(behind) => match behind.strip_prefix('-') {
                    Some(long) => self.long(at, long, 2, complete, true),
                    None if self.grammar.single_dash && self.has_single(behind) => {
                        self.long(at, behind, 1, complete, false);
                    }
                    None => self.cluster(at, text, complete),
                },
                None if !complete && may_hide_option(arg) => {
                    self.items.push(Item::Maybe(at));
                    if self.grammar.order == Order::First {
                        return self.rest();
                    }
                }
                None => self.operand(at),
            }
        }
    }

    fn operand(&mut self, at: usize) {
        self.items.push(Item::Operand(at));
        if self.grammar.order == Order::First {
            self.rest();
        }
    }

    /// All that is left are operands.
    fn rest(&mut self) {
        self.items.extend((self.next..self.args.len()).map(Item::Operand));
        self.next = self.args.len();
    }

    /// Whether a text behind a single dash is a long option, with or without `=value`.
    fn has_single(&mut self, behind: &str) -> bool {
        let name = behind.split('=').next().unwrap_or(behind);
        self.find(name, false).is_some()
    }

    /// `--name`, `--name=value`, `--name value`.
    fn long(&mut self, at: usize, text: &str, dashes: usize, complete: bool, abbreviated: bool) {
        let (name, attached) = match text.split_once('=') {
            Some((name, _)) => (name, Some(dashes + name.len() + 1)),
            None => (text, None),
        };
        if attached.is_none() && !complete {
            self.items.push(Item::Open(at));
            return;
        }
        let item = match (self.find(name, abbreviated), attached) {
            (Some((name, Takes::Value | Takes::Optional)), Some(skip)) => {
                Item::Value(name, Place { option: at, arg: at, skip })
            }
            (Some((name, Takes::Value)), None) => return self.value_behind(name, at),
            (Some((name, Takes::Nothing | Takes::Optional)), None) => Item::Flag(name, at),
            (Some((_, Takes::Nothing)), Some(_)) | (None, _) => Item::Unknown(at),
        };
        self.items.push(item);
        self.hidden(at);
    }

    /// The declared option of that name, or the only one that starts with it.
    fn find(&mut self, name: &str, abbreviated: bool) -> Option<(&'static str, Takes)> {
        self.lookups += 1;
        if self.lookups > FEW_LOOKUPS {
            return self.find_sorted(name, abbreviated);
        }
        let mut short_for = None;
        let mut ambiguous = name.is_empty() || !abbreviated;
        for option in self.grammar.options() {
            if option.0 == name {
                return Some(option);
            }
            if option.0.starts_with(name) {
                // An option that two lists have is one option.
                ambiguous |= short_for.is_some_and(|other| other != option);
                short_for = Some(option);
            }
        }
        short_for.filter(|_| !ambiguous)
    }

    /// The same for an argv with many options, which pays for a sorted list.
    fn find_sorted(&mut self, name: &str, abbreviated: bool) -> Option<(&'static str, Takes)> {
        let grammar = self.grammar;
        let sorted = self.sorted.get_or_insert_with(|| {
            let mut options: Vec<_> = grammar.options().collect();
            options.sort_unstable_by_key(|(name, _)| *name);
            options.dedup();
            options
        });
        let at = sorted.partition_point(|(known, _)| *known < name);
        let found = *sorted.get(at)?;
        let short = abbreviated && !name.is_empty() && found.0.starts_with(name);
        let ambiguous = sorted.get(at + 1).is_some_and(|(other, _)| other.starts_with(name));
        (found.0 == name || (short && !ambiguous)).then_some(found)
    }

    /// `-rfv`, `-n5`, `-n 5`, `-20`; `text` starts with its dash.
    fn cluster(&mut self, at: usize, text: &str, complete: bool) {
        let grammar = self.grammar;
        let first = self.items.len();
        let mut letters = text.char_indices().skip(1).peekable();
        while let Some((offset, letter)) = letters.next() {
            let behind = offset + letter.len_utf8();
            if let Some(name) = letter_of(grammar.flags, letter) {
                // A letter counts once in a cluster, so that a long cluster makes no long list.
                if !self.items[first..].contains(&Item::Flag(name, at)) {
                    self.items.push(Item::Flag(name, at));
                }
            } else if let Some(name) = letter_of(grammar.values, letter) {
                if behind < text.len() || !complete {
                    self.items.push(Item::Value(name, Place { option: at, arg: at, skip: behind }));
                    return self.hidden(at);
                }
                return self.value_behind(name, at);
            } else if let Some(name) = letter_of(grammar.optional, letter) {
                if behind < text.len() || !complete {
                    self.items.push(Item::Value(name, Place { option: at, arg: at, skip: behind }));
                    return self.hidden(at);
                }
                self.items.push(Item::Flag(name, at));
            } else if grammar.numbers && letter.is_ascii_digit() {
                while letters.next_if(|(_, next)| next.is_ascii_digit()).is_some() {}
                if !self.items[first..].contains(&Item::Flag("#", at)) {
                    self.items.push(Item::Flag("#", at));
                }
            } else {
                self.items.push(Item::Unknown(at));
                return;
            }
        }
        if !complete {
            self.items.push(Item::Open(at));
        }
    }

    /// The value is the next argument, whatever that looks like.
    fn value_behind(&mut self, name: &'static str, at: usize) {
        let arg = self.next;
        self.items.push(Item::Value(name, Place { option: at, arg, skip: 0 }));
        if arg < self.args.len() {
            self.next += 1;
            self.brought(arg);
        }
    }

    /// A value that is attached to its option brings further arguments along if something unknown in it splits: all that a
    /// pattern matches starts with the option.
    fn hidden(&mut self, at: usize) {
        if self.args.get(at).is_some_and(Arg::splits_unknown) {
            self.items.push(Item::Open(at));
        }
    }

    /// What a value that is an argument of its own brings along.
    fn brought(&mut self, at: usize) {
        let Some(arg) = self.args.get(at) else { return };
        if brings_option(arg) {
            self.items.push(Item::Open(at));
        }
        let names = arg.splits && matches!(arg.parts.first(), Some(ArgPart::Glob(_)));
        if names && self.grammar.order == Order::First {
            self.items.push(Item::Stray(at));
        }
    }
}

/// An option of a list: `name`, `name=`, `name?`.
fn described(word: &'static str) -> (&'static str, Takes) {
    match (word.strip_suffix('='), word.strip_suffix('?')) {
        (Some(name), _) => (name, Takes::Value),
        (None, Some(name)) => (name, Takes::Optional),
        (None, None) => (word, Takes::Nothing),
    }
}

/// The letter as a part of the table, so that it lives as long.
fn letter_of(letters: &'static str, letter: char) -> Option<&'static str> {
    let start = letters.find(letter)?;
    letters.get(start..start + letter.len_utf8())
}
