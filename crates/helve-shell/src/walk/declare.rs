//! `declare`, `export`, `local`, `readonly` and `typeset`: options, names and values. What they are given as one quoted
//! text may be an array whose elements the shell expands.

use crate::Span;
use crate::analysis::{Arg, ArgPart, OpaqueReason};
use crate::expand::{Text, is_name};
use crate::tree::Assignment;

use super::environment::{Value, Variable};
use super::inner::HOLE;
use super::{Walker, names, variables};

/// What the options of a declaration say.
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    exported: bool,
    integer: bool,
    array: bool,
    reference: bool,
    functions: bool,
    prints: bool,
    fixed: bool,
    cased: bool,
    global: bool,
}

impl Attributes {
    /// Reads the options, which stand before all names; gives how many words they are.
    fn of(builtin: &str, args: &[Arg]) -> (Self, usize) {
        let mut made = Attributes {
            exported: builtin == "export",
            fixed: builtin == "readonly",
            ..Attributes::default()
        };
        for (index, arg) in args.iter().enumerate() {
            let Some(letters) = arg.prefix().strip_prefix(['-', '+']) else { return (made, index) };
            if arg.text() == Some("--") {
                return (made, index + 1);
            }
            made.read(builtin, letters, arg.prefix().starts_with('-'));
            if arg.text().is_none() {
                made.integer = true;
                made.array = true;
            }
        }
        (made, args.len())
    }

    fn read(&mut self, builtin: &str, letters: &str, on: bool) {
        for letter in letters.chars() {
            match letter {
                'x' => self.exported = on,
                'i' => self.integer = on,
                'a' | 'A' => self.array |= on,
                'n' if builtin != "export" => self.reference = on,
                'r' => self.fixed |= on,
                'l' | 'u' | 'c' => self.cased = true,
                'f' => self.functions = true,
                'g' => self.global = true,
                'p' | 'F' => self.prints = true,
                _ => {}
            }
        }
    }

    /// A variable with these attributes.
    fn variable(self, value: Value) -> Variable {
        Variable {
            exported: self.exported,
            integer: self.integer,
            fixed: self.fixed,
            cased: self.cased,
            array: self.array,
            ..Variable::new(value)
        }
    }

    /// Adds them to a variable that keeps its value.
    fn add_to(self, variable: &mut Variable) {
        variable.exported |= self.exported;
        variable.integer |= self.integer;
        variable.fixed |= self.fixed;
        variable.array |= self.array;
        if self.cased {
            variable.cased = true;
            variable.forget();
        }
    }
}

/// `name`, `name=value`, `name+=value`.
struct Declared {
    name: String,
    appends: bool,
    value: Option<Text>,
}

impl Declared {
    /// None if it is not known where the name ends.
    fn of(text: &Text) -> Option<Self> {
        let Some(ArgPart::Known(known)) = text.parts().first() else { return None };
        // A subscript may hold anything, a `=` too.
        let end = match known.find(['=', '[']) {
            Some(at) if known[at..].starts_with('=') => Some(at),
            Some(_) => {
                let closes = |part: &ArgPart| matches!(part, ArgPart::Known(known) if known.contains("]=") || known.contains("]+="));
                let open = text.parts()[1..].iter().any(closes);
                known.rfind("]=").max(known.rfind("]+=")).filter(|_| !open).map(|at| at + 1)
            }
            None => None,
        };
        let end = match end {
            Some(end) => end + usize::from(known[end..].starts_with('+')),
            None if text.whole().is_some() => {
                return Some(Declared { name: known.clone(), appends: false, value: None });
            }
            None => return None,
        };
        let mut value = Text::known(&known[end + 1..]);
        text.parts()[1..].iter().for_each(|part| value.push_part(part));
        let name = &known[..end];
        let appends = name.ends_with('+');
        let name = name.strip_suffix('+').unwrap_or(name).to_owned();
        Some(Declared { name, appends, value: Some(value) })
    }
}

impl Walker<'_> {
    /// `export`, `declare`, `local`, `readonly`, `typeset`: options, names and values.
    pub(super) fn declare(&mut self, builtin: &str, args: &[Arg]) {
        let (attributes, first) = Attributes::of(builtin, args);
        for arg in &args[first..] {
            let text = Text::literally(arg);
            let Some(declared) = Declared::of(&text) else {
                if text.whole().is_none() {
                    // Which variable is set is not known.
                    self.subscripted_text(&text);
                    self.forget_variables();
                }
                continue;
            };
            if attributes.functions || attributes.prints {
                if attributes.functions && attributes.exported && self.is_function(&declared.name) {
                    self.opaque(OpaqueReason::Redefinition);
                    self.environment.export_function(&declared.name);
                }
                if attributes.functions && attributes.fixed && self.is_function(&declared.name) {
                    self.opaque(OpaqueReason::Redefinition);
                    self.environment.fix_function(&declared.name);
                }
            } else if declared.name.contains('[') {
                self.subscripted_name(&declared.name);
                let value = declared.value.map_or(Value::Unknown, Value::Text);
                let name = &declared.name;
                self.assign_at(name, attributes.variable(value), arg.span);
            } else if is_name(&declared.name) {
                self.make_local(builtin, attributes, &declared.name);
                self.declare_one(builtin, attributes, declared, arg.span);
            }
        }
    }

    /// `declare a=(…)`.
    pub(super) fn declare_array(&mut self, assignment: &Assignment, argv: &[Arg], span: Span) {
        let builtin = argv.first().and_then(Arg::text).unwrap_or_default();
        let (attributes, _) = Attributes::of(builtin, argv.get(1..).unwrap_or_default());
        let assigned = self.assigned(assignment, attributes.integer);
        self.make_local(builtin, attributes, &assignment.name);
        let mut variable = assigned;
        attributes.add_to(&mut variable);
        self.assign_at(&assignment.name, variable, span);
    }

    /// What a variable held is there again when the function ends that makes it its own.
    fn make_local(&mut self, builtin: &str, attributes: Attributes, name: &str) {
        if attributes.global || !names::is_local(builtin) {
            return;
        }
        let before = self.environment.own_variable(name).cloned();
        if let Some(call) = self.calls.last_mut() {
            call.locals.push((name.to_owned(), before));
        }
    }

    fn declare_one(&mut self, builtin: &str, attributes: Attributes, declared: Declared, span: Span) {
        let Declared { name, appends, value } = declared;
        if attributes.reference {
            self.refer(&name, value.as_ref(), span);
            return;
        }
        let Some(value) = value else {
            self.declare_name(builtin, attributes, &name, span);
            return;
        };
        let before = self.environment.variable(&name).cloned();
        if self.is_compound(attributes, &name, before.as_ref(), &value) {
            let mut variable = before.unwrap_or_else(|| Variable::new(Value::Unset));
            attributes.add_to(&mut variable);
            let target = self.environment.referred(&name).to_owned();
            self.environment.set(&target, Variable { fixed: false, ..variable });
            self.elements(&name, appends, &value, span);
            return;
        }
        let integer = attributes.integer || before.as_ref().is_some_and(|variable| variable.integer);
        let value = if appends {
            self.wild |= before.as_ref().is_some_and(|variable| variable.wild);
            let text = if integer { self.evaluated(&value) } else { value };
            self.appended(before.as_ref(), &text, integer)
        } else {
            Value::Text(value)
        };
        self.assign_at(&name, attributes.variable(value), span);
    }

    /// A name without a value: it keeps the one that it has.
    fn declare_name(&mut self, builtin: &str, attributes: Attributes, name: &str, span: Span) {
        let Some(mut kept) = self.environment.variable(name).cloned() else {
            let new = names::is_local(builtin) && !self.calls.is_empty();
            let value = if new { Value::Unset } else { Value::Unknown };
            self.assign_at(name, attributes.variable(value), span);
            return;
        };
        attributes.add_to(&mut kept);
        let value = kept.values.first().cloned().unwrap_or(Value::Unknown);
        self.check_assigned(name, &value, span);
        let name = self.environment.referred(name).to_owned();
        self.environment.set(&name, kept);
    }

    /// `declare -n name=target`.
    fn refer(&mut self, name: &str, target: Option<&Text>, span: Span) {
        let made = match target.map(|target| target.whole().filter(|target| *target != name)) {
            Some(Some(target)) => {
                self.subscripted_name(target);
                Variable::new(Value::Reference(target.to_owned()))
            }
            Some(None) => {
                self.opaque_at(OpaqueReason::Arithmetic, span);
                Variable { unbound: true, wild: true, ..Variable::new(Value::Unknown) }
            }
            None => Variable { unbound: true, ..Variable::new(Value::Unknown) },
        };
        self.environment.set(name, made);
    }

    /// Whether a value may be read as the elements of an array: it stands in parentheses, or nobody knows how it starts.
    fn is_compound(
        &self,
        attributes: Attributes,
        name: &str,
        before: Option<&Variable>,
        value: &Text,
    ) -> bool {
        let array = attributes.array
            || before.is_some_and(Variable::may_be_array)
            || variables::is_shells_own(self.environment.referred(name));
        let opens = match value.parts().first() {
            Some(ArgPart::Known(text)) => text.starts_with('('),
            Some(ArgPart::Glob(_) | ArgPart::Unknown) => self.wild,
            None => false,
        };
        let closes = match value.parts().last() {
            Some(ArgPart::Known(text)) => text.ends_with(')'),
            Some(ArgPart::Glob(_) | ArgPart::Unknown) => true,
            None => false,
        };
        array && opens && closes
    }

    /// Follows a text in parentheses as the shell does that reads it as the elements of an array.
    fn elements(&mut self, name: &str, appends: bool, value: &Text, span: Span) {
        let mut written = format!("{name}{}=", if appends { "+" } else { "" });
        let start = written.len();
        for part in value.parts() {
            match part {
                ArgPart::Known(text) => written.push_str(text),
                // A number stays one.
                ArgPart::Unknown if !self.wild => written.push('0'),
                ArgPart::Glob(_) | ArgPart::Unknown => {
                    self.opaque_at(OpaqueReason::UnknownText, span);
                    written.push_str(HOLE);
                }
            }
        }
        if written[start..].starts_with('(') {
            self.shell_text(&Arg::known(written, span));
        }
        if value.whole().is_none() {
            let variable = Variable { wild: self.wild, array: true, ..Variable::new(Value::Unknown) };
            self.assign_at(name, variable, span);
        }
    }
}
