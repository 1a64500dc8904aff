//! `$x` and `${x…}`: values, and what is done with them.

use crate::analysis::OpaqueReason;
use crate::tree::{Operation, Parameter, Word};
use crate::walk::{Value, Variable, Walker};

use super::fields::{Fields, Mode};
use super::operation::{change_case, each, remove, replace, substring};
use super::pattern::Pattern;
use super::text::Text;

/// What a parameter stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Not set.
    Nothing,
    /// Nothing is known, not even whether it is set.
    Unknown,
    One(Text),
    /// `$@`, `$*`, `${a[@]}`, `${a[*]}`; whether it becomes one field between quotes.
    Many(Vec<Text>, bool),
}

impl Walker<'_> {
    /// The separators at which unquoted expansions are split.
    pub(super) fn separators(&self) -> String {
        match self.environment().variable("IFS").map(|variable| variable.values.as_slice()) {
            Some([Value::Text(text)]) => text.whole().unwrap_or(" \t\n").to_owned(),
            _ => " \t\n".to_owned(),
        }
    }

    /// The value of a plain variable as text.
    pub(super) fn variable_text(&mut self, name: &str) -> Text {
        match self.value_of(name) {
            Found::One(text) => text,
            Found::Many(texts, _) => texts.into_iter().next().unwrap_or_default(),
            Found::Nothing => Text::default(),
            Found::Unknown => Text::unknown(),
        }
    }

    pub(super) fn parameter(&mut self, parameter: &Parameter, quoted: bool, fields: &mut Fields<'_>) {
        let wild = self.is_wild();
        let found = self.find(parameter);
        if parameter.operation == Operation::Length {
            self.replace_wild(wild);
        }
        let found = self.operate(parameter, found, quoted);
        let separators = self.separators();
        let size = match &found {
            Found::One(text) => text.len(),
            Found::Many(texts, _) => texts.iter().map(|text| 16 + text.len()).sum(),
            Found::Nothing | Found::Unknown => 0,
        };
        let found = if self.step(size / 2) { found } else { Found::Unknown };
        match found {
            Found::Nothing => {
                if quoted {
                    fields.quoted("");
                }
            }
            Found::Unknown => {
                if matches!(parameter.name.as_str(), "@") || self.is_all_elements(parameter) {
                    fields.unknown_fields();
                } else {
                    fields.unknown(quoted);
                }
            }
            Found::One(text) => fields.value(&text, quoted, &separators),
            Found::Many(texts, joined) if joined && (quoted || fields.mode() != Mode::Fields) => {
                let separator = separators.chars().next().map(String::from).unwrap_or_default();
                let mut whole = Text::default();
                for (index, text) in texts.iter().enumerate() {
                    if index > 0 {
                        whole.push(&separator);
                    }
                    whole.append(text);
                }
                fields.value(&whole, true, "");
            }
            Found::Many(texts, _) => {
                for (index, text) in texts.iter().enumerate() {
                    if index > 0 {
                        fields.next();
                    }
                    fields.value(text, quoted, &separators);
                }
            }
        }
    }

    fn is_all_elements(&self, parameter: &Parameter) -> bool {
        parameter.subscript.as_ref().and_then(literal).is_some_and(|text| text == "@")
    }

    /// Finds what the name, the subscript and a `!` stand for.
    fn find(&mut self, parameter: &Parameter) -> Found {
        if parameter.operation == Operation::Names {
            return Found::Unknown;
        }
        let found = match &parameter.subscript {
            None => self.value_of(&parameter.name),
            Some(subscript) => self.element_of(&parameter.name, subscript),
        };
        if !parameter.indirect {
            return found;
        }
        match found {
            Found::One(text) => match text.whole() {
                Some(name) if is_name(name) => {
                    let name = name.to_owned();
                    self.value_of(&name)
                }
                Some(other) => {
                    let other = other.to_owned();
                    self.subscripted_name(&other);
                    Found::Unknown
                }
                None => {
                    if self.is_wild() {
                        self.opaque(OpaqueReason::Arithmetic);
                    }
                    Found::Unknown
                }
            },
            _ => {
                if self.is_wild() {
                    self.opaque(OpaqueReason::Arithmetic);
                }
                Found::Unknown
            }
        }
    }

    /// The value of a name without a subscript.
    fn value_of(&mut self, name: &str) -> Found {
        match name {
            "@" | "*" => {
                self.note_use();
                if self.environment().parameters().wild {
                    self.note_wild();
                }
                return match &self.environment().parameters().rest {
                    Some(texts) => Found::Many(texts.clone(), name == "*"),
                    None => Found::Unknown,
                };
            }
            "#" => {
                self.note_use();
                return match &self.environment().parameters().rest {
                    Some(texts) => Found::One(Text::known(texts.len().to_string())),
                    None => Found::One(Text::unknown()),
                };
            }
            "0" => {
                let zero = self.environment().parameters().zero.clone();
                if zero.whole().is_none() {
                    self.note_wild();
                }
                return Found::One(zero);
            }
            "?" | "-" | "$" | "!" => return Found::One(Text::unknown()),
            "_" => {
                self.note_wild();
                return Found::Unknown;
            }
            "PWD" if self.environment().own_variable(name).is_none() => return self.working_directory(),
            "OLDPWD" if self.environment().own_variable(name).is_none() => return self.place_before(),
            "FUNCNAME" => {
                if let Some(name) = self.function_name() {
                    return Found::One(Text::known(name));
                }
            }
            _ => {}
        }
        if let Ok(index) = name.parse::<usize>() {
            self.note_use();
            if self.environment().parameters().wild {
                self.note_wild();
            }
            return match &self.environment().parameters().rest {
                Some(texts) => texts.get(index.wrapping_sub(1)).cloned().map_or(Found::Nothing, Found::One),
                None => Found::Unknown,
            };
        }
        if self.holds_anything(name) {
            self.note_wild();
        }
        self.evaluate_element(name);
        if let Some(variable) = self.environment().variable(name) {
            let download = variable.download;
            let tame = variable.is_tame();
            if variable.wild {
                self.note_wild();
            }
            self.note_use();
            let Some(variable) = self.environment().variable(name) else { return Found::Unknown };
            let count = variable.values.len();
            let chosen = if count > 1 { self.choose(count) } else { Some(0) };
            if chosen.is_none() && !tame {
                self.note_wild();
            }
            if download {
                self.note_download();
            }
            let value = chosen.and_then(|index| {
                self.environment().variable(name).and_then(|variable| variable.values.get(index).cloned())
            });
            return match value {
                Some(Value::Text(text)) => Found::One(text),
                Some(Value::List(texts)) => texts.into_iter().next().map_or(Found::Nothing, Found::One),
                Some(Value::Unset) => Found::Nothing,
                Some(Value::Unknown | Value::Reference(_)) | None => self.inherited(name),
            };
        }
        self.inherited(name)
    }

    /// Where the shell is: each place in its turn where a `cd` may have failed.
    fn working_directory(&mut self) -> Found {
        let directory = self.environment().directory();
        let places: Vec<Option<Text>> =
            directory.possible().map(|place| place.to_str().map(Text::known)).collect();
        let chosen = match places.len() {
            _ if directory.is_unknown() => None,
            0 | 1 => Some(0),
            count => self.choose(count),
        };
        let place = chosen.and_then(|at| places.into_iter().nth(at)).flatten();
        Found::One(place.unwrap_or_else(Text::unknown))
    }

    /// Where the shell was before. If the last `cd` failed, the variable holds what it held before that, which may be nothing.
    fn place_before(&mut self) -> Found {
        let directory = self.environment().directory();
        let certain = directory.certainly_moved();
        let before = directory.previous().and_then(std::path::Path::to_str).map(Text::known);
        match before {
            Some(before) if certain || self.choose(2) != Some(1) => Found::One(before),
            _ => Found::One(Text::unknown()),
        }
    }

    /// What a variable holds that the script did not set.
    fn inherited(&self, name: &str) -> Found {
        if self.environment().own_variable(name).is_some() {
            return Found::Unknown;
        }
        let path = |path: Option<&std::path::Path>| match path.and_then(std::path::Path::to_str) {
            Some(path) => Found::One(Text::known(path)),
            None => Found::One(Text::unknown()),
        };
        match name {
            "HOME" => path(self.setting().home),
            "IFS" => Found::One(Text::known(" \t\n")),
            "BASH" => Found::One(Text::known("/bin/bash")),
            "SHELL" | "BASH_ARGV0" => {
                let mut text = Text::unknown();
                text.push("/bash");
                Found::One(text)
            }
            // Every search path starts with a slash, and people take that slash out of it.
            "PATH" => {
                let mut text = Text::known("/");
                text.push_unknown();
                Found::One(text)
            }
            _ => Found::Unknown,
        }
    }

    fn element_of(&mut self, name: &str, subscript: &Word) -> Found {
        let all = literal(subscript);
        let all = match all.as_deref() {
            Some("@") => Some(false),
            Some("*") => Some(true),
            _ => None,
        };
        if name == "FUNCNAME" && literal(subscript).as_deref() == Some("0") {
            return self.value_of(name);
        }
        let values = self.environment().variable(name).map(|variable| variable.values.clone());
        if self.environment().variable(name).is_some_and(|variable| variable.download) {
            self.note_download();
        }
        let variable = self.environment().variable(name);
        let told = variable.is_none_or(|variable| variable.values.len() == 1 || variable.is_tame());
        if self.holds_anything(name) || !told || variable.is_some_and(|variable| variable.wild) {
            self.note_wild();
        }
        let texts = match values.as_deref() {
            Some([Value::List(texts)]) => Some(texts.clone()),
            Some([Value::Text(text)]) => Some(vec![text.clone()]),
            Some([Value::Unset]) => Some(Vec::new()),
            _ => None,
        };
        match all {
            Some(joined) => texts.map_or(Found::Unknown, |texts| Found::Many(texts, joined)),
            None => {
                let index = self.subscript(subscript);
                match (texts, index) {
                    (Some(texts), Some(index)) => {
                        let index = if index < 0 { index + texts.len() as i64 } else { index };
                        let found = usize::try_from(index).ok().and_then(|index| texts.get(index).cloned());
                        found.map_or(Found::Nothing, Found::One)
                    }
                    _ => Found::Unknown,
                }
            }
        }
    }

    fn operate(&mut self, parameter: &Parameter, found: Found, quoted: bool) -> Found {
        match &parameter.operation {
            Operation::Value | Operation::Names => found,
            Operation::Length => match found {
                Found::One(text) => match text.whole() {
                    Some(text) => Found::One(Text::known(text.chars().count().to_string())),
                    None => Found::One(Text::unknown()),
                },
                Found::Many(texts, _) => Found::One(Text::known(texts.len().to_string())),
                Found::Nothing => Found::One(Text::known("0")),
                Found::Unknown => Found::One(Text::unknown()),
            },
            Operation::Default { colon, word } | Operation::Assign { colon, word } => {
                let assigns = matches!(parameter.operation, Operation::Assign { .. });
                match is_set(&found, *colon) {
                    Some(true) => found,
                    Some(false) => self.stand_in(parameter, word, assigns, quoted),
                    None => {
                        let other = self.stand_in(parameter, word, assigns, quoted);
                        if self.choose(2) == Some(0) { other } else { found }
                    }
                }
            }
            Operation::Alternative { colon, word } => match is_set(&found, *colon) {
                Some(true) => self.word_value(word, quoted),
                Some(false) => Found::Nothing,
                None => {
                    let other = self.word_value(word, quoted);
                    if self.choose(2) == Some(0) { other } else { Found::Nothing }
                }
            },
            Operation::Error { word, .. } => {
                self.expand_text(word);
                found
            }
            Operation::RemovePrefix { longest, pattern } => {
                let pattern = self.pattern(pattern);
                each(found, |text| remove(text, pattern.as_ref(), *longest, true))
            }
            Operation::RemoveSuffix { longest, pattern } => {
                let pattern = self.pattern(pattern);
                each(found, |text| remove(text, pattern.as_ref(), *longest, false))
            }
            Operation::Replace { which, pattern, with } => {
                let pattern = self.pattern(pattern);
                let with = self.expand_text(with);
                each(found, |text| replace(text, pattern.as_ref(), *which, &with))
            }
            Operation::Substring { offset, length } => {
                let offset = self.number(offset);
                let length = length.as_ref().map(|length| self.number(length));
                substring(found, offset, length, parameter.subscript.is_none())
            }
            Operation::ChangeCase { to, all, pattern } => {
                let any = pattern.pieces.is_empty();
                let pattern = self.pattern(pattern);
                each(found, |text| change_case(text, *to, *all, pattern.as_ref().filter(|_| !any)))
            }
            Operation::Transform(letter) => match letter {
                'U' => each(found, |text| change_case(text, '^', true, None)),
                'L' => each(found, |text| change_case(text, ',', true, None)),
                'u' => each(found, |text| change_case(text, '^', false, None)),
                'P' => {
                    // The value is expanded like a prompt, with the substitutions in it.
                    self.opaque(OpaqueReason::UnknownText);
                    if let Found::One(text) = &found
                        && let Some(text) = text.whole().filter(|text| text.contains(['$', '`']))
                    {
                        self.double_quoted(text);
                    }
                    Found::One(Text::unknown())
                }
                _ => each(found, |_| Text::unknown()),
            },
        }
    }

    /// What stands in the place of a variable that is not set.
    fn stand_in(&mut self, parameter: &Parameter, word: &Word, assigns: bool, quoted: bool) -> Found {
        let value = self.word_value(word, quoted);
        if assigns && is_name(&parameter.name) && parameter.subscript.is_none() {
            self.assign(&parameter.name, Variable::new(assigned(&value)));
        } else if assigns && parameter.subscript.is_some() {
            self.assign(&format!("{}[", parameter.name), Variable::new(assigned(&value)));
        }
        value
    }

    fn word_value(&mut self, word: &Word, quoted: bool) -> Found {
        let text = if quoted { self.expand_quoted(word) } else { self.expand_text(word) };
        Found::One(text)
    }

    pub(crate) fn pattern(&mut self, word: &Word) -> Option<Pattern> {
        Pattern::of(&self.expand_one(word, Mode::Pattern))
    }
}

/// What a variable holds that is assigned what was found.
fn assigned(found: &Found) -> Value {
    match found {
        Found::One(text) => Value::Text(text.clone()),
        _ => Value::Unknown,
    }
}

/// Whether a value counts as set; none if that is not known.
fn is_set(found: &Found, colon: bool) -> Option<bool> {
    match found {
        Found::Nothing => Some(false),
        Found::Unknown => None,
        Found::One(text) if !colon => Some(!text.is_empty() || text.whole().is_some()),
        Found::One(text) if text.is_empty() => Some(false),
        Found::One(text) => text.is_certainly_something().then_some(true),
        Found::Many(texts, _) => Some(!texts.is_empty()),
    }
}

/// The text of a word without any expansion.
pub(super) fn literal(word: &Word) -> Option<String> {
    match word.pieces.as_slice() {
        [crate::tree::Piece { kind: crate::tree::PieceKind::Text(text), .. }] => Some(text.clone()),
        _ => None,
    }
}

/// Whether text is the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}
