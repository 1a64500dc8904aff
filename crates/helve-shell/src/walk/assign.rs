//! Assignments, and the variables that they make.

use crate::Span;
use crate::analysis::{Arg, ArgPart, OpaqueReason};
use crate::expand::{Mode, Text};
use crate::tree::{AssignedValue, Assignment, Piece, PieceKind, Simple, Word};

use super::environment::{Parameters, Value, Variable};
use super::variables::{self, Weight};
use super::{MAX_INNER, Walker};

/// An array of more elements is unknown.
const MAX_ELEMENTS: usize = 1024;

impl Walker<'_> {
    /// An assignment that stands alone.
    pub(super) fn assignment(&mut self, assignment: &Assignment) {
        let span = self.place(assignment.span);
        let taint = std::mem::take(&mut self.taint);
        let wild = std::mem::take(&mut self.wild);
        let variable = self.assigned(assignment, false);
        self.assign_at(&assignment.name, variable, span);
        self.taint |= taint;
        self.wild |= wild;
    }

    /// The assignments in front of a command: what the command finds in its environment. Those of a declaration set the
    /// variables themselves, with the options that the declaration has.
    pub(super) fn prefix_assignments(
        &mut self,
        simple: &Simple,
        declares: bool,
        argv: &[Arg],
    ) -> Vec<(String, Arg)> {
        let mut environment = Vec::with_capacity(simple.assignments.len());
        for assignment in &simple.assignments {
            let span = self.place(assignment.span);
            if declares {
                self.declare_array(assignment, argv, span);
                continue;
            }
            let variable = self.assigned(assignment, false);
            let name = self.environment.referred(&assignment.name).to_owned();
            for value in &variable.values {
                self.check_assigned(&name, value, span);
            }
            let text = match variable.values.into_iter().next() {
                Some(Value::Text(text)) => text,
                _ => Text::unknown(),
            };
            environment.push((assignment.name.clone(), text.into_arg(span)));
        }
        environment
    }

    /// The variable that an assignment makes; `integer` says that it is declared as a number in the same breath.
    pub(super) fn assigned(&mut self, assignment: &Assignment, integer: bool) -> Variable {
        let name = &assignment.name;
        let before = self.environment.variable(name).cloned();
        let integer = integer
            || before.as_ref().is_some_and(|variable| variable.integer)
            || variables::is_number(self.environment.referred(name));
        if let Some(before) = before.as_ref().filter(|_| assignment.append || assignment.subscript.is_some())
        {
            // What it held stays in it.
            self.wild |= before.wild;
            self.taint |= before.download;
        }
        let value = match &assignment.value {
            AssignedValue::Word(word) => self.assigned_word(assignment, word, before.as_ref(), integer),
            AssignedValue::Array(words) => self.assigned_array(assignment, words, before.as_ref(), integer),
        };
        let array = assignment.subscript.is_some() || matches!(assignment.value, AssignedValue::Array(_));
        Variable { array, ..Variable::new(value) }
    }

    fn assigned_word(
        &mut self,
        assignment: &Assignment,
        word: &Word,
        before: Option<&Variable>,
        integer: bool,
    ) -> Value {
        let wild = self.wild;
        let mut text = self.expand_text(word);
        if integer {
            text = self.evaluated(&text);
            // Whatever went in, a number comes out.
            self.wild = wild;
        }
        if let Some(subscript) = &assignment.subscript {
            let index = self.number(subscript).filter(|_| !assignment.append);
            return self.changed_element(before, index, text);
        }
        if assignment.append { self.appended(before, &text, integer) } else { Value::Text(text) }
    }

    /// A value with more behind it; a number is added to.
    pub(super) fn appended(&mut self, before: Option<&Variable>, text: &Text, integer: bool) -> Value {
        let values = before.map(|variable| variable.values.as_slice());
        if integer {
            let number = |text: &Text| text.whole().and_then(|text| text.parse::<i64>().ok());
            let sum = match values {
                Some([Value::Text(before)]) => number(before).zip(number(text)),
                _ => None,
            };
            let sum = sum.and_then(|(before, more)| before.checked_add(more));
            return sum.map_or(Value::Unknown, |sum| Value::Text(Text::known(sum.to_string())));
        }
        let mut whole = match values {
            Some([Value::Text(before)]) => before.clone(),
            Some([Value::Unset]) => Text::default(),
            _ => {
                self.wild |= !before.is_none_or(Variable::is_tame);
                Text::unknown()
            }
        };
        whole.append(text);
        Value::Text(whole)
    }

    fn assigned_array(
        &mut self,
        assignment: &Assignment,
        words: &[Word],
        before: Option<&Variable>,
        integer: bool,
    ) -> Value {
        let wild = self.wild;
        let mut elements: Vec<Text> = Vec::new();
        if assignment.append {
            match before.map(|variable| variable.values.as_slice()) {
                Some([Value::List(before)]) => elements.clone_from(before),
                Some([Value::Unset]) => {}
                Some([Value::Text(before)]) => elements.push(before.clone()),
                before => {
                    self.wild |= before.is_some_and(|values| !values.iter().all(Value::is_tame));
                    elements.push(Text::unknown());
                }
            }
        }
        let mut certain = true;
        for word in words {
            if let Some((next, value)) = self.keyed_element(word) {
                certain &= next == Some(elements.len());
                elements.push(value);
            } else {
                let mut fields = Vec::new();
                self.expand_fields(word, &mut fields);
                self.wild |= fields.iter().any(super::statements::holds_pattern);
                elements.extend(fields.iter().map(Text::of));
            }
            if elements.len() > MAX_ELEMENTS {
                certain = false;
                break;
            }
        }
        if integer {
            for element in &mut elements {
                *element = self.evaluated(element);
            }
            self.wild = wild;
        }
        if certain {
            return Value::List(elements);
        }
        self.wild |= !integer && !elements.iter().all(Text::is_tame);
        Value::Unknown
    }

    /// `[subscript]=value` inside an array: the subscript is evaluated. Gives the place, if it is written out, and the value.
    fn keyed_element(&mut self, word: &Word) -> Option<(Option<usize>, Text)> {
        let Some(Piece { kind: PieceKind::Text(first), .. }) = word.pieces.first() else { return None };
        let closes = |piece: &Piece| matches!(&piece.kind, PieceKind::Text(text) if key_end(text).is_some());
        if !first.starts_with('[') || !word.pieces.iter().any(closes) {
            return None;
        }
        let text = self.expand_text(word);
        let (key, value) = split_key(&text);
        self.evaluate(&key);
        Some((key.whole().and_then(|key| key.parse().ok()), value))
    }

    fn changed_element(&mut self, before: Option<&Variable>, index: Option<i64>, text: Text) -> Value {
        let mut elements = match before.map(|variable| variable.values.as_slice()) {
            Some([Value::List(before)]) => before.clone(),
            Some([Value::Unset]) => Vec::new(),
            // In a new array the first element is certain; more than that would need to know what it held before.
            _ if index == Some(0) && before.is_none_or(Variable::is_tame) => return Value::List(vec![text]),
            _ => return self.lost(before, &text),
        };
        match index.and_then(|index| usize::try_from(index).ok()) {
            Some(index) if index < elements.len() => elements[index] = text,
            Some(index) if index == elements.len() && index < MAX_ELEMENTS => elements.push(text),
            _ => return self.lost(before, &text),
        }
        if self.step(elements.len() / 8) { Value::List(elements) } else { Value::Unknown }
    }

    /// Nobody knows which element holds what.
    fn lost(&mut self, before: Option<&Variable>, text: &Text) -> Value {
        self.wild |= !text.is_tame() || !before.is_none_or(Variable::is_tame);
        Value::Unknown
    }

    /// Sets a variable as [`Self::assign_at`] does, for the current command.
    pub(crate) fn assign(&mut self, name: &str, variable: Variable) {
        self.assign_at(name, variable, self.current);
    }

    /// Sets the variable that a name refers to; what it keeps over assignments stays. All that sets variables comes
    /// through here, so that one that matters is noticed whatever sets it.
    pub(super) fn assign_at(&mut self, name: &str, mut variable: Variable, span: Span) {
        self.evaluate_element(name);
        let name = self.environment.referred(name).to_owned();
        let (name, element) = match name.split_once('[') {
            Some((array, _)) => (array.to_owned(), true),
            None => (name, false),
        };
        if let Some(before) = self.environment.own_variable(&name).cloned() {
            let refers = before.values.iter().any(|value| matches!(value, Value::Reference(_)));
            if before.unbound || refers {
                self.bind(&name, &variable, span);
                return;
            }
            variable.exported |= before.exported;
            variable.integer |= before.integer;
            variable.cased |= before.cased;
            variable.array |= before.array;
            if before.fixed || element {
                // The assignment fails, where that ends the shell depends on how it was made; or the rest stays.
                variable.join(&before);
            }
        }
        variable.array |= element;
        if variable.integer || variables::is_number(&name) {
            self.evaluate_values(&mut variable);
        }
        if element || variable.cased || variables::is_shells_own(&name) {
            variable.forget();
        }
        if name == "BASH_ARGV0" {
            let rest = self.environment.parameters().rest.clone();
            let wild = self.environment.parameters().wild;
            self.environment.set_parameters(Parameters { zero: Text::unknown(), rest, wild });
        }
        let known = |value: &Value| match value {
            Value::Text(text) => text.whole().is_some(),
            Value::List(texts) => texts.iter().all(|text| text.whole().is_some()),
            Value::Unset | Value::Reference(_) => true,
            Value::Unknown => false,
        };
        variable.wild =
            (variable.wild || self.wild) && !variable.integer && !variable.values.iter().all(known);
        variable.download |= self.taint;
        variable.exported |= variables::is_usual(&name) || self.exports_all();
        let size = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::List(texts) => texts.iter().map(|text| 16 + text.len()).sum(),
            _ => 0,
        };
        if !self.step(variable.values.iter().map(size).sum::<usize>() / 16) {
            variable.values = vec![Value::Unknown];
        }
        for value in &variable.values {
            self.check_assigned(&name, value, span);
        }
        self.names_another(&name, span);
        self.environment.set(&name, variable);
    }

    /// A name that stands for an element of an array: the subscript is evaluated whenever the name is used, and may use
    /// the name itself.
    pub(crate) fn evaluate_element(&mut self, name: &str) {
        let Some(element) = self.environment.referred_element(name) else { return };
        if self.inner >= MAX_INNER || !self.step(1 + element.len() / 64) {
            self.opaque(OpaqueReason::TooComplex);
            return;
        }
        self.inner += 1;
        self.subscripted_name(&element);
        self.inner -= 1;
    }

    /// The number that a text comes to.
    pub(super) fn evaluated(&mut self, text: &Text) -> Text {
        self.evaluate(text).map_or_else(Text::unknown, |number| Text::known(number.to_string()))
    }

    /// What is assigned to a number is evaluated, whatever assigns it.
    fn evaluate_values(&mut self, variable: &mut Variable) {
        let outer = self.wild;
        self.wild |= variable.wild;
        for value in &mut variable.values {
            match value {
                Value::Text(text) => match self.evaluate(text) {
                    Some(number) => *text = Text::known(number.to_string()),
                    None => *value = Value::Unknown,
                },
                Value::List(texts) => {
                    for text in texts {
                        *text = self.evaluated(text);
                    }
                }
                Value::Unknown if self.wild => self.opaque(OpaqueReason::Arithmetic),
                Value::Unknown | Value::Unset | Value::Reference(_) => {}
            }
        }
        variable.wild = false;
        self.wild = outer;
    }

    /// An assignment to a name that was declared as another name for nobody knows which variable: it says for which, or
    /// it sets that one.
    fn bind(&mut self, name: &str, variable: &Variable, span: Span) {
        match variable.values.as_slice() {
            [Value::Text(target)] if target.whole().is_some_and(|target| target != name) => {
                let target = target.whole().unwrap_or_default().to_owned();
                self.subscripted_name(&target);
                self.environment.set(name, Variable::new(Value::Reference(target)));
            }
            _ => {}
        }
        self.opaque_at(OpaqueReason::Environment, span);
    }

    /// Some variable is set, and it is not known which.
    pub(super) fn forget_variables(&mut self) {
        self.opaque(OpaqueReason::Environment);
        if self.step(4 * self.environment.size()) {
            self.environment.forget_all();
        }
    }

    /// Says so if a variable changes which code programs run.
    pub(super) fn check_assigned(&mut self, name: &str, value: &Value, span: Span) {
        let text = match value {
            Value::Text(text) => text.whole(),
            _ => None,
        };
        if matches!(name, "PATH" | "BASH_CMDS" | "BASH_ALIASES") {
            self.opaque_at(OpaqueReason::Redefinition, span);
        } else if variables::weight(name, text) == Weight::Code {
            self.opaque_at(OpaqueReason::Environment, span);
            let text = text.map(|text| Arg::known(text, span));
            if let Some(text) = text {
                self.shells_text(name, &text);
            }
        }
    }

    /// Text in a variable that the shell itself runs or expands when it shows a prompt or a trace.
    fn shells_text(&mut self, name: &str, text: &Arg) {
        if name == "PROMPT_COMMAND" {
            let mark = self.environment.mark();
            self.shell_text(text);
            self.environment.blur_since(mark);
        } else if let (true, Some(text)) = (variables::is_prompt(name), text.text()) {
            self.double_quoted(text);
        }
    }

    /// `name=value` as an argument of `export` and the like: it is not split.
    pub(super) fn expand_assignment(&mut self, word: &Word) -> Arg {
        self.expand_one(word, Mode::One)
    }
}

/// Where the `]` of a key stands that a value follows; of several the last.
fn key_end(text: &str) -> Option<(usize, usize)> {
    let plain = text.rfind("]=").map(|at| (at, at + 2));
    let more = text.rfind("]+=").map(|at| (at, at + 3));
    plain.max(more)
}

/// The key and the value of `[key]=value`.
fn split_key(text: &Text) -> (Text, Text) {
    let (mut key, mut value) = (Text::default(), Text::default());
    let ends = |part: &ArgPart| matches!(part, ArgPart::Known(known) if key_end(known).is_some());
    let last = text.parts().iter().rposition(ends).unwrap_or(0);
    for (index, part) in text.parts().iter().enumerate() {
        match part {
            ArgPart::Known(known) if index <= last => {
                let known = if index == 0 { known.strip_prefix('[').unwrap_or(known) } else { known };
                let (end, behind) =
                    key_end(known).filter(|_| index == last).unwrap_or((known.len(), known.len()));
                key.push(&known[..end]);
                value.push(&known[behind..]);
            }
            other if index < last => key.push_part(other),
            other => value.push_part(other),
        }
    }
    (key, value)
}
