//! What a shell remembers while a script runs: variables, functions, aliases, the directory, its parameters.
//!
//! Branches are followed one after the other on the same data. A log of changes lets a branch be taken back, and lets
//! several outcomes be joined: a variable then holds up to [`MAX_VALUES`] possible values, more count as unknown. All
//! costs follow the number of changes, never the number of variables.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::expand::{Text, is_name};
use crate::tree;

use super::directory::Directory;
use super::spans::Origin;

/// So many possible values of one variable are told apart.
pub(super) const MAX_VALUES: usize = 4;

/// So many exported variables are listed with each run.
const MAX_EXPORTED: usize = 64;

/// One possible value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Not set, or not known whether it is set: nothing is known.
    Unknown,
    /// Certainly not set.
    Unset,
    /// Text.
    Text(Text),
    /// An array.
    List(Vec<Text>),
    /// Another name for the variable of this name.
    Reference(String),
}

impl Value {
    /// Whether evaluating it can do no harm as far as it is known.
    pub(crate) fn is_tame(&self) -> bool {
        match self {
            Value::Unknown | Value::Unset => true,
            Value::Text(text) => text.is_tame(),
            Value::List(texts) => texts.iter().all(Text::is_tame),
            Value::Reference(_) => false,
        }
    }
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// What it may hold; at least one.
    pub(crate) values: Vec<Value>,
    /// Whether it reaches the programs that are started.
    pub(crate) exported: bool,
    /// Whether assigned text is evaluated as arithmetic.
    pub(crate) integer: bool,
    /// Whether the value came from a network.
    pub(crate) download: bool,
    /// Whether what is not known of the value may be anything, rather than digits or what the shell was started with.
    pub(crate) wild: bool,
    /// Whether it keeps its value: `readonly`.
    pub(crate) fixed: bool,
    /// Whether assigned text is changed to other letters: `declare -u`.
    pub(crate) cased: bool,
    /// Whether it was declared as another name, and it is not known or not yet said for what.
    pub(crate) unbound: bool,
    /// Whether it was made an array.
    pub(crate) array: bool,
}

impl Variable {
    pub(crate) fn new(value: Value) -> Self {
        Variable {
            values: vec![value],
            exported: false,
            integer: false,
            download: false,
            wild: false,
            fixed: false,
            cased: false,
            unbound: false,
            array: false,
        }
    }

    /// Whether evaluating what is known of it can do no harm.
    pub(crate) fn is_tame(&self) -> bool {
        self.values.iter().all(Value::is_tame)
    }

    /// Whether text in parentheses that is assigned to it may be read as the elements of an array.
    pub(super) fn may_be_array(&self) -> bool {
        let list = |value: &Value| matches!(value, Value::List(_));
        let anything = self.wild && self.values.contains(&Value::Unknown);
        self.array || anything || self.values.iter().any(list)
    }

    /// Nothing is known of its value any more; what it held may still be in it.
    pub(super) fn forget(&mut self) {
        self.wild |= !self.is_tame();
        self.values = vec![Value::Unknown];
    }

    /// Whether it says something of the variable that another does not.
    pub(super) fn adds_to(&self, other: &Variable) -> bool {
        let flags = |variable: &Variable| {
            [
                variable.exported,
                variable.integer,
                variable.download,
                variable.wild,
                variable.fixed,
                variable.cased,
                variable.unbound,
                variable.array,
            ]
        };
        let more = flags(self).into_iter().zip(flags(other)).any(|(here, there)| here && !there);
        more || !self.values.iter().all(|value| other.values.contains(value))
    }

    /// Whether following it follows the other one, too.
    pub(super) fn covers(&self, other: &Variable) -> bool {
        let anything = self.values.contains(&Value::Unknown) && (self.wild || other.is_tame());
        let also =
            Variable { values: if anything { Vec::new() } else { other.values.clone() }, ..other.clone() };
        !also.adds_to(self)
    }

    pub(super) fn join(&mut self, other: &Variable) {
        for value in &other.values {
            if !self.values.contains(value) {
                self.values.push(value.clone());
            }
        }
        if self.values.len() > MAX_VALUES {
            self.forget();
        }
        self.exported |= other.exported;
        self.integer |= other.integer;
        self.download |= other.download;
        self.wild |= other.wild;
        self.fixed |= other.fixed;
        self.cased |= other.cased;
        self.unbound |= other.unbound;
        self.array |= other.array;
    }
}

/// A function of the script.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) body: tree::Command,
    pub(crate) origin: Origin,
    pub(crate) span: crate::Span,
}

/// What a name may stand for: several after a branch, none for "not defined".
pub(crate) type Meanings<T> = Vec<Option<T>>;

/// Name and positional parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// `$0`.
    pub(crate) zero: Text,
    /// `$1` and so on; none if they are unknown.
    pub(crate) rest: Option<Vec<Text>>,
    /// Whether what is not known of them may be anything.
    pub(crate) wild: bool,
}

impl Parameters {
    /// Whether evaluating any of them can do no harm.
    pub(super) fn is_tame(&self) -> bool {
        !self.wild && self.rest.iter().flatten().all(Text::is_tame)
    }
}

/// One change, with what was there before.
pub(super) enum Change {
    Variable(String, Option<Variable>),
    Function(String, Option<Meanings<Rc<Function>>>),
    Alias(String, Option<Meanings<Text>>),
    Directory(Directory),
    Parameters(Rc<Parameters>),
}

/// A place in the log of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(pub(super) usize);

/// What a branch changed.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(super) variables: HashMap<String, Option<Variable>>,
    pub(super) functions: HashMap<String, Option<Meanings<Rc<Function>>>>,
    pub(super) aliases: HashMap<String, Option<Meanings<Text>>>,
    pub(super) directory: Option<Directory>,
    pub(super) parameters: Option<Rc<Parameters>>,
}

impl Outcome {
    pub(crate) fn is_empty(&self) -> bool {
        self.variables.is_empty()
            && self.functions.is_empty()
            && self.aliases.is_empty()
            && self.directory.is_none()
            && self.parameters.is_none()
    }
}

/// What a shell remembers.
pub(crate) struct Environment {
    pub(super) variables: HashMap<String, Variable>,
    pub(super) functions: HashMap<String, Meanings<Rc<Function>>>,
    pub(super) aliases: HashMap<String, Meanings<Text>>,
    pub(super) directory: Directory,
    pub(super) parameters: Rc<Parameters>,
    /// Names of variables that were exported at some time.
    exported: Vec<String>,
    /// Whether there were more than are kept.
    exports_more: bool,
    /// Names of functions that other shells inherit.
    exported_functions: HashSet<String>,
    /// Names of functions that may be read-only.
    fixed_functions: HashSet<String>,
    pub(super) log: Vec<Change>,
}

impl Environment {
    pub(crate) fn new(directory: Directory, parameters: Parameters) -> Self {
        Environment {
            variables: HashMap::new(),
            functions: HashMap::new(),
            aliases: HashMap::new(),
            directory,
            parameters: Rc::new(parameters),
            exported: Vec::new(),
            exports_more: false,
            exported_functions: HashSet::new(),
            fixed_functions: HashSet::new(),
            log: Vec::new(),
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Variable> {
        let mut found = self.variables.get(name)?;
        for _ in 0..8 {
            match found.values.as_slice() {
                [Value::Reference(target)] => found = self.variables.get(target)?,
                _ => break,
            }
        }
        Some(found)
    }

    /// The name behind references.
    pub(crate) fn referred<'n>(&'n self, name: &'n str) -> &'n str {
        let mut name = name;
        for _ in 0..8 {
            match self.variables.get(name).map(|variable| variable.values.as_slice()) {
                Some([Value::Reference(target)]) => name = target,
                _ => break,
            }
        }
        name
    }

    /// The element of an array that a name stands for: its subscript is evaluated whenever the name is used.
    pub(crate) fn referred_element(&self, name: &str) -> Option<String> {
        let target = self.referred(name);
        (target != name && target.contains('[')).then(|| target.to_owned())
    }

    /// The variables that reach programs. One that was exported in a branch only is among them, too.
    pub(crate) fn exported(&self) -> &[String] {
        &self.exported
    }

    /// Whether more variables reach programs than those that are kept.
    pub(crate) fn exports_more(&self) -> bool {
        self.exports_more
    }

    /// Whether other shells inherit a function.
    pub(crate) fn exports_functions(&self) -> bool {
        !self.exported_functions.is_empty()
    }

    pub(crate) fn export_function(&mut self, name: &str) {
        self.exported_functions.insert(name.to_owned());
    }

    pub(crate) fn set(&mut self, name: &str, variable: Variable) {
        if variable.exported && !self.exported.iter().any(|other| other == name) {
            if self.exported.len() < MAX_EXPORTED {
                self.exported.push(name.to_owned());
            } else {
                self.exports_more = true;
            }
        }
        let before = self.variables.insert(name.to_owned(), variable);
        self.log.push(Change::Variable(name.to_owned(), before));
    }

    pub(crate) fn restore(&mut self, name: &str, variable: Option<Variable>) {
        let before = match variable {
            Some(variable) => self.variables.insert(name.to_owned(), variable),
            None => self.variables.remove(name),
        };
        self.log.push(Change::Variable(name.to_owned(), before));
    }

    pub(crate) fn own_variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// How many variables there are.
    pub(crate) fn size(&self) -> usize {
        self.variables.len()
    }

    /// Nothing is known of any variable any more.
    pub(crate) fn forget_all(&mut self) {
        let names: Vec<String> = self.variables.keys().cloned().collect();
        for name in names {
            self.set(&name, Variable { wild: true, ..Variable::new(Value::Unknown) });
        }
    }

    /// The variables that may not be there in another process.
    pub(crate) fn left_behind(&self, all: bool) -> Vec<String> {
        let gone = |value: &Value| matches!(value, Value::Unknown | Value::Unset);
        let stays = |variable: &Variable| variable.values.iter().any(gone) || variable.exported && !all;
        let left =
            |(name, variable): &(&String, &Variable)| is_name(name) && (*name == "IFS" || !stays(variable));
        self.variables.iter().filter(left).map(|(name, _)| name.clone()).collect()
    }

    /// A variable may not be there in another process.
    pub(crate) fn leave(&mut self, name: &str) {
        let Some(before) = self.variables.get(name) else { return };
        let refers = before.values.iter().any(|value| matches!(value, Value::Reference(_)));
        let mut variable = match name {
            // Every shell sets it anew.
            "IFS" => Variable::new(Value::Text(Text::known(" \t\n"))),
            _ if refers => Variable::new(Value::Unset),
            _ => before.clone(),
        };
        if name != "IFS" && !refers {
            variable.join(&Variable::new(Value::Unset));
        }
        self.set(name, variable);
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Meanings<Rc<Function>>> {
        self.functions.get(name)
    }

    /// A function keeps its meaning, unless the shell that says so is another one or did not come to it.
    pub(crate) fn fix_function(&mut self, name: &str) {
        self.fixed_functions.insert(name.to_owned());
    }

    pub(crate) fn define_function(&mut self, name: &str, function: Option<Rc<Function>>) {
        let fixed = self.functions.get(name).filter(|_| self.fixed_functions.contains(name));
        let mut meanings = fixed.cloned().unwrap_or_default();
        if meanings.len() < 2 * MAX_VALUES {
            meanings.push(function);
        }
        let before = self.functions.insert(name.to_owned(), meanings);
        self.log.push(Change::Function(name.to_owned(), before));
    }

    pub(crate) fn alias(&self, name: &str) -> Option<&Meanings<Text>> {
        self.aliases.get(name)
    }

    pub(crate) fn define_alias(&mut self, name: &str, text: Option<Text>) {
        let before = self.aliases.insert(name.to_owned(), vec![text]);
        self.log.push(Change::Alias(name.to_owned(), before));
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn change_directory(&mut self, directory: Directory) {
        let before = std::mem::replace(&mut self.directory, directory);
        self.log.push(Change::Directory(before));
    }

    pub(crate) fn parameters(&self) -> &Rc<Parameters> {
        &self.parameters
    }

    pub(crate) fn set_parameters(&mut self, parameters: Parameters) {
        let before = std::mem::replace(&mut self.parameters, Rc::new(parameters));
        self.log.push(Change::Parameters(before));
    }

    /// Takes away what another shell process does not inherit, and gives it back so that it can be put in place again.
    pub(crate) fn take_names(&mut self) -> Names {
        let functions = std::mem::take(&mut self.functions);
        // Almost no script exports a function; then nothing is looked through.
        let some = if self.exported_functions.is_empty() { 0 } else { usize::MAX };
        let inherited =
            functions.iter().take(some).filter(|(name, _)| self.exported_functions.contains(*name));
        self.functions = inherited.map(|(name, meanings)| (name.clone(), meanings.clone())).collect();
        Names { functions, aliases: std::mem::take(&mut self.aliases) }
    }

    /// Puts functions and aliases in place again. Changes since they were taken must have been taken back.
    pub(crate) fn put_names(&mut self, names: Names) {
        self.functions = names.functions;
        self.aliases = names.aliases;
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// How many changes were made since.
    pub(crate) fn changes_since(&self, mark: Mark) -> usize {
        self.log.len().saturating_sub(mark.0)
    }

    /// Takes all changes since the mark back and says what they came to.
    pub(crate) fn take_back(&mut self, mark: Mark) -> Outcome {
        let mut outcome = Outcome::default();
        while self.log.len() > mark.0 {
            let Some(change) = self.log.pop() else { break };
            match change {
                Change::Variable(name, before) => {
                    let now = put(&mut self.variables, &name, before);
                    outcome.variables.entry(name).or_insert(now);
                }
                Change::Function(name, before) => {
                    let now = put(&mut self.functions, &name, before);
                    outcome.functions.entry(name).or_insert(now);
                }
                Change::Alias(name, before) => {
                    let now = put(&mut self.aliases, &name, before);
                    outcome.aliases.entry(name).or_insert(now);
                }
                Change::Directory(before) => {
                    let now = std::mem::replace(&mut self.directory, before);
                    outcome.directory.get_or_insert(now);
                }
                Change::Parameters(before) => {
                    let now = std::mem::replace(&mut self.parameters, before);
                    outcome.parameters.get_or_insert(now);
                }
            }
        }
        outcome
    }

    /// What the changes since the mark came to so far, without taking them back.
    pub(crate) fn look_back(&self, mark: Mark) -> Outcome {
        let mut outcome = Outcome::default();
        for change in self.log.get(mark.0..).unwrap_or_default() {
            match change {
                Change::Variable(name, _) => {
                    outcome.variables.insert(name.clone(), self.variables.get(name).cloned());
                }
                Change::Function(name, _) => {
                    outcome.functions.insert(name.clone(), self.functions.get(name).cloned());
                }
                Change::Alias(name, _) => {
                    outcome.aliases.insert(name.clone(), self.aliases.get(name).cloned());
                }
                Change::Directory(_) => outcome.directory = Some(self.directory.clone()),
                Change::Parameters(_) => outcome.parameters = Some(Rc::clone(&self.parameters)),
            }
        }
        outcome
    }
}

/// Functions and aliases, set aside while another shell is followed.
pub(crate) struct Names {
    functions: HashMap<String, Meanings<Rc<Function>>>,
    aliases: HashMap<String, Meanings<Text>>,
}

fn put<T>(map: &mut HashMap<String, T>, name: &str, value: Option<T>) -> Option<T> {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    }
}
