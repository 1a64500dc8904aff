//! Builtins that set variables by name: `read`, `unset`, `printf -v`, `let` and the like. A name may carry a subscript,
//! which the shell evaluates.

use crate::analysis::{Arg, ArgPart, OpaqueReason};
use crate::expand::Text;

use super::Walker;
use super::environment::{MAX_VALUES, Value, Variable};
use super::runs::Start;

impl Walker<'_> {
    pub(super) fn unset(&mut self, args: &[Arg]) {
        for arg in args {
            let Some(name) = arg.text().map(str::to_owned) else {
                let text = Text::literally(arg);
                self.subscripted_text(&text);
                self.forget_variables();
                continue;
            };
            if name.starts_with('-') {
                continue;
            }
            self.subscripted_name(&name);
            if self.is_function(&name) {
                self.environment.define_function(&name, None);
            }
            if crate::expand::is_name(&name) {
                let unset = if name == "IFS" { Value::Text(Text::known(" \t\n")) } else { Value::Unset };
                let name = self.environment.referred(&name).to_owned();
                if matches!(name.as_str(), "PATH" | "BASH_CMDS" | "BASH_ALIASES") {
                    // Without it, programs are looked for in the directory itself.
                    self.opaque(OpaqueReason::Redefinition);
                }
                let fixed = self.environment.own_variable(&name).filter(|variable| variable.fixed).cloned();
                let mut variable = Variable::new(unset);
                if let Some(before) = fixed {
                    variable.join(&before);
                }
                self.environment.set(&name, variable);
            } else if name.contains('[') {
                self.assign(&name, Variable::new(Value::Unknown));
            }
        }
    }

    /// `read`: variables that get the words of a line.
    pub(super) fn reads(&mut self, args: &[Arg], start: &Start) {
        let options = Options::of(args, "adinNptu");
        // Others change where a line ends, or how much of it is read.
        let mut exact = options.given.iter().all(|(letter, _)| "rsepa".contains(*letter));
        let array = options.value('a');
        let texts = start.feed.flow.text.as_ref().and_then(Text::whole).map(str::to_owned);
        let raw = options.has('r');
        exact &= texts.as_ref().is_some_and(|text| raw || !text.contains('\\'));
        let before = start.environment.iter().rev().find(|(name, _)| name == "IFS");
        let separators = match before {
            Some((_, value)) => value.text().map(str::to_owned),
            None => match self.environment.variable("IFS").map(|variable| variable.values.as_slice()) {
                None => Some(BLANKS.to_owned()),
                Some([Value::Text(text)]) => text.whole().map(str::to_owned),
                Some(_) => None,
            },
        };
        let divides = |text: &str| array.is_some() && text.len() == 1 && !BLANKS.contains(text);
        let separators = separators.filter(|text| text.is_empty() || text == BLANKS || divides(text));
        exact &= separators.is_some();
        let separators = separators.unwrap_or_default();
        let reply = Arg::known("REPLY", self.current);
        let names: Vec<&Arg> = match (array, options.names.is_empty()) {
            (Some(array), _) => vec![array],
            (None, true) => vec![&reply],
            (None, false) => options.names.clone(),
        };
        // Each `read` of a loop takes the next line: any of them may be meant.
        let lines: Vec<&str> = texts.as_deref().unwrap_or_default().lines().collect();
        exact &= !lines.is_empty() && lines.len() <= MAX_VALUES;
        for (index, name) in names.iter().enumerate() {
            let values = if exact {
                let value = |line: &&str| {
                    let whole = options.names.is_empty() && array.is_none();
                    let words = if whole { vec![*line] } else { words(line, &separators, names.len()) };
                    match array {
                        Some(_) => {
                            let all = match separators.as_str() {
                                "" => words,
                                BLANKS => fields(line),
                                mark => line.strip_suffix(mark).unwrap_or(line).split(mark).collect(),
                            };
                            Value::List(all.into_iter().map(Text::known).collect())
                        }
                        None => Value::Text(Text::known(words.get(index).copied().unwrap_or_default())),
                    }
                };
                lines.iter().map(value).collect()
            } else {
                vec![Value::Unknown]
            };
            self.got(name, values, array.is_some(), start);
        }
    }

    /// `mapfile`: an array that gets all lines.
    pub(super) fn reads_lines(&mut self, args: &[Arg], start: &Start) {
        let options = Options::of(args, "CcdnOsu");
        if let Some(text) = options.value('C') {
            self.handler(text);
        }
        let exact = options.given.iter().all(|(letter, _)| "tcC".contains(*letter));
        let text = start.feed.flow.text.as_ref().and_then(Text::whole).filter(|_| exact);
        let value = match text {
            Some(text) if text.lines().count() <= 64 => {
                let end = if options.has('t') { "" } else { "\n" };
                Value::List(text.lines().map(|line| Text::known(format!("{line}{end}"))).collect())
            }
            _ => Value::Unknown,
        };
        let default = Arg::known("MAPFILE", self.current);
        let name = options.names.first().copied().unwrap_or(&default);
        self.got(name, vec![value], true, start);
    }

    /// `getopts`: the letter of an option, and its argument.
    pub(super) fn gets_options(&mut self, args: &[Arg]) {
        let given: Vec<Text> = args.iter().skip(2).map(Text::of).collect();
        let parameters = std::rc::Rc::clone(self.environment.parameters());
        let words = if given.is_empty() { parameters.rest.as_deref().unwrap_or_default() } else { &given };
        let seen = self.step(words.len() / 4);
        let plain = seen && words.iter().all(|word| self.is_plain_option(word));
        let wild = parameters.wild || self.wild || !plain;
        if let Some(name) = args.get(1) {
            match name.text() {
                Some(text) => {
                    self.subscripted_name(text);
                    self.assign(text, Variable { wild, ..Variable::new(Value::Unknown) });
                }
                None => {
                    self.subscripted_text(&Text::literally(name));
                    self.forget_variables();
                }
            }
        }
        self.assign("OPTARG", Variable { wild, ..Variable::new(Value::Unknown) });
    }

    /// Whether no end of a word can run anything when it is evaluated: no subscript, no name of a variable.
    fn is_plain_option(&self, word: &Text) -> bool {
        if word.is_tame() {
            return true;
        }
        let Some(text) = word.whole().filter(|text| text.len() <= 64) else { return false };
        // Behind the letter of an option, or in a word of its own.
        let starts = |at: usize| if text.starts_with('-') { at > 1 } else { at == 0 };
        let named = |(at, _): (usize, char)| starts(at) && self.environment.variable(&text[at..]).is_some();
        let other = |character: char| !character.is_ascii_alphanumeric() && !"_-.,:/@".contains(character);
        !text.contains(other) && !text.char_indices().any(named)
    }

    /// A variable gets what came in, one of several values.
    fn got(&mut self, name: &Arg, values: Vec<Value>, array: bool, start: &Start) {
        let Some(text) = name.text() else {
            let text = Text::literally(name);
            self.subscripted_text(&text);
            self.forget_variables();
            return;
        };
        self.subscripted_name(text);
        let mut variable = Variable::new(Value::Unknown);
        variable.values = values;
        variable.array = array;
        variable.download = start.feed.flow.download;
        variable.wild = !start.feed.flow.is_number();
        self.assign(text, variable);
    }

    /// Builtins that evaluate a subscript in a name that they are given.
    pub(super) fn subscripts(&mut self, builtin: &str, args: &[Arg]) {
        match builtin {
            "printf" if args.first().is_some_and(|arg| arg.prefix().starts_with("-v")) => {
                let attached = args.first().map(behind_letter).unwrap_or_default();
                let separate = attached.is_empty();
                let name =
                    if separate { args.get(1).map(Text::literally).unwrap_or_default() } else { attached };
                self.subscripted_text(&name);
                match name.whole() {
                    Some(name) => {
                        let format = if separate { 2 } else { 1 };
                        let value =
                            super::pure::output("printf", args.get(format..).unwrap_or_default(), None, None);
                        let wild = self.wild
                            || value.is_none()
                                && !super::numbers::prints(
                                    "printf",
                                    &args[format.min(args.len())..],
                                    false,
                                    true,
                                );
                        let value = value.map_or(Value::Unknown, Value::Text);
                        self.assign(name, Variable { wild, ..Variable::new(value) });
                    }
                    None => {
                        self.forget_variables();
                    }
                }
            }
            "test" | "[" => {
                for pair in args.windows(2) {
                    if matches!(pair[0].text(), Some("-v" | "-R")) {
                        let text = Text::literally(&pair[1]);
                        self.subscripted_text(&text);
                    }
                }
            }
            "wait" => {
                if let Some(name) = Options::of(args, "p").value('p') {
                    self.subscripted_text(&Text::literally(name));
                    match name.text() {
                        Some(name) => self.assign(name, Variable::new(Value::Unknown)),
                        None => self.forget_variables(),
                    }
                }
            }
            _ => {}
        }
    }
}

/// What unquoted words are split at if nothing else is said.
const BLANKS: &str = " \t\n";

/// The options and the other words of a builtin.
pub(super) struct Options<'a> {
    /// The letters, each with its value if it takes one.
    pub(super) given: Vec<(char, Option<Arg>)>,
    pub(super) names: Vec<&'a Arg>,
}

impl<'a> Options<'a> {
    /// Reads options of one letter; those in `takes` have a value, in the same word or in the next.
    pub(super) fn of(args: &'a [Arg], takes: &str) -> Self {
        let mut made = Options { given: Vec::new(), names: Vec::new() };
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let Some(letters) = arg.prefix().strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                break;
            };
            at += 1;
            if letters == "-" {
                break;
            }
            for (index, letter) in letters.char_indices() {
                if !takes.contains(letter) {
                    made.given.push((letter, None));
                    continue;
                }
                let behind = 1 + index + letter.len_utf8();
                let value = match arg.text().map(|text| &text[behind..]) {
                    Some("") => {
                        at += 1;
                        args.get(at - 1).cloned()
                    }
                    Some(attached) => Some(Arg::known(attached, arg.span)),
                    None => Some(Arg::unknown(arg.span)),
                };
                made.given.push((letter, value));
                break;
            }
        }
        made.names.extend(args.get(at..).unwrap_or_default());
        made
    }

    pub(super) fn has(&self, letter: char) -> bool {
        self.given.iter().any(|(given, _)| *given == letter)
    }

    pub(super) fn value(&self, letter: char) -> Option<&Arg> {
        self.given.iter().rev().find(|(given, _)| *given == letter).and_then(|(_, value)| value.as_ref())
    }
}

/// What is attached to an option of one letter.
fn behind_letter(arg: &Arg) -> Text {
    let mut attached = Text::default();
    for (index, part) in Text::literally(arg).parts().iter().enumerate() {
        match part {
            ArgPart::Known(known) if index == 0 => attached.push(known.get(2..).unwrap_or_default()),
            other => attached.push_part(other),
        }
    }
    attached
}

fn fields(line: &str) -> Vec<&str> {
    line.split([' ', '\t']).filter(|word| !word.is_empty()).collect()
}

/// The words of a line for so many variables; the last gets what is left of it.
fn words<'l>(line: &'l str, separators: &str, count: usize) -> Vec<&'l str> {
    if separators.is_empty() {
        return vec![line];
    }
    let mut words = Vec::new();
    let mut rest = line.trim_matches([' ', '\t']);
    while words.len() + 1 < count {
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            return words;
        }
    }
    words.push(rest);
    words
}
