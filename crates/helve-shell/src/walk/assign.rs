//! Assignments, and the variables that they make.

use crate::Span;
use crate::analysis::{Arg, OpaqueReason};
use crate::expand::{Mode, Text};
use crate::tree::{AssignedValue, Assignment, Piece, PieceKind, Simple, Word};

use super::environment::{Value, Variable};
use super::variables::{self, Weight};
use super::{Walker, names};

/// An array of more elements is unknown.
const MAX_ELEMENTS: usize = 1024;

impl Walker<'_> {
    /// An assignment that stands alone.
    pub(super) fn assignment(&mut self, assignment: &Assignment) {
        let span = self.place(assignment.span);
        let taint = std::mem::take(&mut self.taint);
        let value = self.assigned_value(assignment);
        self.check_assigned(&assignment.name, &value, span);
        self.assign(&assignment.name, Variable::new(value));
        self.taint |= taint;
    }

    /// The assignments in front of a command: what the command finds in its environment.
    pub(super) fn prefix_assignments(&mut self, simple: &Simple, declares: bool) -> Vec<(String, Arg)> {
        let mut environment = Vec::with_capacity(simple.assignments.len());
        for assignment in &simple.assignments {
            let span = self.place(assignment.span);
            let value = self.assigned_value(assignment);
            self.check_assigned(&assignment.name, &value, span);
            if declares {
                // `declare -a x=(…)` sets the variable itself.
                self.assign(&assignment.name, Variable::new(value));
                continue;
            }
            let text = match value {
                Value::Text(text) => text,
                _ => Text::unknown(),
            };
            environment.push((assignment.name.clone(), text.into_arg(span)));
        }
        environment
    }

    fn assigned_value(&mut self, assignment: &Assignment) -> Value {
        let name = &assignment.name;
        match &assignment.value {
            AssignedValue::Word(word) => {
                let text = self.expand_text(word);
                if self.environment.variable(name).is_some_and(|variable| variable.integer) {
                    let value = self.evaluate(&text);
                    return value.map_or(Value::Unknown, |value| Value::Text(Text::known(value.to_string())));
                }
                if let Some(subscript) = &assignment.subscript {
                    let subscript = self.expand_quoted(subscript);
                    let index = self.evaluate(&subscript);
                    return self.changed_element(name, index, text);
                }
                if !assignment.append {
                    return Value::Text(text);
                }
                match self.environment.variable(name).map(|variable| variable.values.as_slice()) {
                    Some([Value::Text(before)]) => {
                        let mut whole = before.clone();
                        whole.append(&text);
                        Value::Text(whole)
                    }
                    Some([Value::Unset]) => Value::Text(text),
                    _ => {
                        let mut whole = Text::unknown();
                        whole.append(&text);
                        Value::Text(whole)
                    }
                }
            }
            AssignedValue::Array(words) => {
                let mut elements: Vec<Text> = Vec::new();
                if assignment.append {
                    match self.environment.variable(name).map(|variable| variable.values.as_slice()) {
                        Some([Value::List(before)]) => elements.clone_from(before),
                        Some([Value::Unset]) => {}
                        Some([Value::Text(before)]) => elements.push(before.clone()),
                        _ => elements.push(Text::unknown()),
                    }
                }
                let mut keyed = false;
                for word in words {
                    keyed |= self.keyed_element(word);
                    let mut fields = Vec::new();
                    self.expand_fields(word, &mut fields);
                    elements.extend(fields.iter().map(Text::of));
                    if elements.len() > MAX_ELEMENTS {
                        return Value::Unknown;
                    }
                }
                if keyed { Value::Unknown } else { Value::List(elements) }
            }
        }
    }

    /// `[subscript]=value` inside an array.
    fn keyed_element(&mut self, word: &Word) -> bool {
        let Some(Piece { kind: PieceKind::Text(text), .. }) = word.pieces.first() else { return false };
        if !text.starts_with('[') {
            return false;
        }
        if let Some(end) = text.find("]=") {
            let inside = format!("a[{}]", &text[1..end]);
            self.subscripted_name(&inside);
        }
        true
    }

    fn changed_element(&mut self, name: &str, index: Option<i64>, text: Text) -> Value {
        let mut elements = match self.environment.variable(name).map(|variable| variable.values.as_slice()) {
            Some([Value::List(before)]) => before.clone(),
            Some([Value::Unset]) => Vec::new(),
            // In a new array the first element is certain; more than that would need to know what it held before.
            _ => return if index == Some(0) { Value::List(vec![text]) } else { Value::Unknown },
        };
        match index.and_then(|index| usize::try_from(index).ok()) {
            Some(index) if index < elements.len() => elements[index] = text,
            Some(index) if index == elements.len() && index < MAX_ELEMENTS => elements.push(text),
            _ => return Value::Unknown,
        }
        if self.step(elements.len() / 8) { Value::List(elements) } else { Value::Unknown }
    }

    /// Sets a variable; what it keeps over assignments stays.
    pub(crate) fn assign(&mut self, name: &str, mut variable: Variable) {
        let name = self.environment.referred(name).to_owned();
        if let Some(before) = self.environment.own_variable(&name) {
            variable.exported |= before.exported;
            variable.integer |= before.integer;
        }
        variable.download |= self.taint;
        let size = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::List(texts) => texts.iter().map(|text| 16 + text.len()).sum(),
            _ => 0,
        };
        if !self.step(variable.values.iter().map(size).sum::<usize>() / 16) {
            variable.values = vec![Value::Unknown];
        }
        self.environment.set(&name, variable);
    }

    /// Some variable is set, and it is not known which.
    pub(super) fn forget_variables(&mut self) {
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
        }
    }

    /// `name=value` as an argument of `export` and the like: it is not split.
    pub(super) fn expand_assignment(&mut self, word: &Word) -> Arg {
        self.expand_one(word, Mode::One)
    }

    /// `export`, `declare`, `local`, `readonly`, `typeset`: options, names and values.
    pub(super) fn declare(&mut self, builtin: &str, args: &[Arg]) {
        let mut exported = builtin == "export";
        let (mut integer, mut reference, mut functions, mut prints) = (false, false, false, false);
        let mut global = false;
        for arg in args {
            let text = Text::literally(arg);
            let Some(known) = arg_prefix(&text) else {
                if text.whole().is_none() {
                    // Which variable is set is not known.
                    self.subscripted_text(&text);
                    self.forget_variables();
                }
                continue;
            };
            if let Some(options) = known.strip_prefix(['-', '+']) {
                let on = known.starts_with('-');
                for option in options.chars() {
                    match option {
                        'x' => exported = on,
                        'i' => integer = on,
                        'n' if builtin != "export" => reference = on,
                        'f' => functions = true,
                        'g' => global = true,
                        'p' | 'F' => prints = true,
                        _ => {}
                    }
                }
                continue;
            }
            if functions || prints {
                if functions && exported && self.is_function(known) {
                    self.opaque(OpaqueReason::Redefinition);
                }
                continue;
            }
            let (name, value) = match known.find('=') {
                Some(at) => {
                    let mut value = Text::known(&known[at + 1..]);
                    let mut first = true;
                    for part in text.parts() {
                        match part {
                            crate::analysis::ArgPart::Known(_) if first => {}
                            crate::analysis::ArgPart::Known(more) => value.push(more),
                            _ => value.push_unknown(),
                        }
                        first = false;
                    }
                    (&known[..at], Some(value))
                }
                None => (known, None),
            };
            let name = name.strip_suffix('+').unwrap_or(name).to_owned();
            if name.contains('[') {
                self.subscripted_name(&name);
                continue;
            }
            if !crate::expand::is_name(&name) {
                continue;
            }
            if !global && !self.calls.is_empty() && names::is_local(builtin) {
                let before = self.environment.own_variable(&name).cloned();
                if let Some(call) = self.calls.last_mut() {
                    call.locals.push((name.clone(), before));
                }
            }
            let value = match value {
                Some(value) if reference => match value.whole() {
                    Some(target) if target != name => {
                        let target = target.to_owned();
                        self.subscripted_name(&target);
                        let made = Variable::new(Value::Reference(target));
                        self.environment.set(&name, made);
                        continue;
                    }
                    _ => Value::Unknown,
                },
                Some(value) if integer || self.environment.variable(&name).is_some_and(|old| old.integer) => {
                    match self.evaluate(&value) {
                        Some(number) => Value::Text(Text::known(number.to_string())),
                        None => Value::Unknown,
                    }
                }
                Some(value) => Value::Text(value),
                None => match self.environment.variable(&name) {
                    Some(variable) => {
                        let mut kept = variable.clone();
                        kept.exported |= exported;
                        kept.integer |= integer;
                        let value = kept.values.first().cloned().unwrap_or(Value::Unknown);
                        self.check_assigned(&name, &value, arg.span);
                        self.environment.set(&name, kept);
                        continue;
                    }
                    None if names::is_local(builtin) && !self.calls.is_empty() => Value::Unset,
                    None => Value::Unknown,
                },
            };
            self.check_assigned(&name, &value, arg.span);
            let mut variable = Variable::new(value);
            variable.exported = exported;
            variable.integer = integer;
            self.assign(&name, variable);
        }
    }
}

/// What a text starts with, if that is known and not empty.
fn arg_prefix(text: &Text) -> Option<&str> {
    match text.parts().first() {
        Some(crate::analysis::ArgPart::Known(known)) => {
            // Without the `=` it is not known where the name ends.
            (text.whole().is_some() || known.contains('=') || known.starts_with('-'))
                .then_some(known.as_str())
        }
        _ => None,
    }
}
