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
        let wild = std::mem::take(&mut self.wild);
        let value = self.assigned_value(assignment);
        self.assign_at(&assignment.name, Variable::new(value), span);
        self.taint |= taint;
        self.wild |= wild;
    }

    /// The assignments in front of a command: what the command finds in its environment.
    pub(super) fn prefix_assignments(&mut self, simple: &Simple, declares: bool) -> Vec<(String, Arg)> {
        let mut environment = Vec::with_capacity(simple.assignments.len());
        for assignment in &simple.assignments {
            let span = self.place(assignment.span);
            let value = self.assigned_value(assignment);
            if declares {
                // `declare -a x=(…)` sets the variable itself.
                self.assign_at(&assignment.name, Variable::new(value), span);
                continue;
            }
            let name = self.environment.referred(&assignment.name).to_owned();
            self.check_assigned(&name, &value, span);
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
                let integer = self.environment.variable(name).is_some_and(|variable| variable.integer);
                if integer || variables::is_number(self.environment.referred(name)) {
                    let value = self.evaluate(&text);
                    return value.map_or(Value::Unknown, |value| Value::Text(Text::known(value.to_string())));
                }
                if let Some(subscript) = &assignment.subscript {
                    let index = self.number(subscript);
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

    /// Sets a variable as [`Self::assign_at`] does, for the current command.
    pub(crate) fn assign(&mut self, name: &str, variable: Variable) {
        self.assign_at(name, variable, self.current);
    }

    /// Sets the variable that a name refers to; what it keeps over assignments stays. All that sets variables comes
    /// through here, so that one that matters is noticed whatever sets it.
    pub(super) fn assign_at(&mut self, name: &str, mut variable: Variable, span: Span) {
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
            if before.fixed {
                // The assignment fails; where that ends the shell depends on how it was made.
                variable.join(&before);
            }
        }
        if element || variable.cased || variables::is_shells_own(&name) {
            variable.values = vec![Value::Unknown];
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
        variable.exported |= variables::is_usual(&name);
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
        self.environment.set(&name, variable);
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

    /// `export`, `declare`, `local`, `readonly`, `typeset`: options, names and values.
    pub(super) fn declare(&mut self, builtin: &str, args: &[Arg]) {
        let mut exported = builtin == "export";
        let (mut integer, mut reference, mut functions, mut prints) = (false, false, false, false);
        let (mut fixed, mut cased) = (builtin == "readonly", false);
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
                        'r' => fixed |= on,
                        'l' | 'u' | 'c' => cased = true,
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
                    self.environment.export_function(known);
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
            let (name, appends) = match name.strip_suffix('+') {
                Some(name) => (name.to_owned(), true),
                None => (name.to_owned(), false),
            };
            if name.contains('[') {
                self.subscripted_name(&name);
                self.assign_at(&name, Variable::new(Value::Unknown), arg.span);
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
                    _ => {
                        self.opaque_at(OpaqueReason::Arithmetic, arg.span);
                        let made = Variable { unbound: true, wild: true, ..Variable::new(Value::Unknown) };
                        self.environment.set(&name, made);
                        continue;
                    }
                },
                None if reference => {
                    let made = Variable { unbound: true, ..Variable::new(Value::Unknown) };
                    self.environment.set(&name, made);
                    continue;
                }
                Some(value) if integer || self.environment.variable(&name).is_some_and(|old| old.integer) => {
                    match self.evaluate(&value) {
                        Some(number) => Value::Text(Text::known(number.to_string())),
                        None => Value::Unknown,
                    }
                }
                Some(value) if appends => {
                    let before = self.environment.variable(&name).map(|variable| variable.values.as_slice());
                    let mut whole = match before {
                        Some([Value::Text(before)]) => before.clone(),
                        _ => Text::unknown(),
                    };
                    whole.append(&value);
                    Value::Text(whole)
                }
                Some(value) => Value::Text(value),
                None => match self.environment.variable(&name) {
                    Some(variable) => {
                        let mut kept = variable.clone();
                        kept.exported |= exported;
                        kept.integer |= integer;
                        kept.fixed |= fixed;
                        if cased {
                            kept.cased = true;
                            kept.values = vec![Value::Unknown];
                        }
                        let value = kept.values.first().cloned().unwrap_or(Value::Unknown);
                        self.check_assigned(&name, &value, arg.span);
                        let name = self.environment.referred(&name).to_owned();
                        self.environment.set(&name, kept);
                        continue;
                    }
                    None if names::is_local(builtin) && !self.calls.is_empty() => Value::Unset,
                    None => Value::Unknown,
                },
            };
            let variable = Variable { exported, integer, fixed, cased, ..Variable::new(value) };
            self.assign_at(&name, variable, arg.span);
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
