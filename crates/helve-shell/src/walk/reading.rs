//! Builtins that set variables by name: `read`, `unset`, `printf -v`, `let` and the like. A name may carry a subscript,
//! which the shell evaluates.

use crate::analysis::Arg;
use crate::expand::Text;

use super::environment::{Value, Variable};
use super::{Feed, Walker};

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
                self.environment.set(&name, Variable::new(unset));
            }
        }
    }

    /// `read`, `mapfile`, `getopts`: variables that get what comes in.
    pub(super) fn reads_variables(&mut self, builtin: &str, args: &[Arg], feed: &Feed) {
        let mut names: Vec<&Arg> = Vec::new();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text() {
                Some(option) if option.len() > 1 && option.starts_with('-') => {
                    let takes = match builtin {
                        "read" => "adinNptu",
                        "getopts" => "",
                        _ => "CcdnOsu",
                    };
                    let last = option.chars().last().unwrap_or('-');
                    let value = (takes.contains(last) && option.chars().nth(1) == Some(last)
                        || takes.contains(last))
                    .then(|| args.get(at))
                    .flatten();
                    if last == 'a' && builtin == "read" {
                        names.extend(value);
                    }
                    if last == 'C' && builtin != "read" {
                        // What is called for every line.
                        if let Some(text) = value {
                            self.shell_text(text);
                        }
                    }
                    at += usize::from(value.is_some());
                }
                _ => names.push(arg),
            }
        }
        if builtin == "getopts" {
            names = names.into_iter().skip(1).take(1).collect();
        }
        let whole = feed.flow.text.as_ref().and_then(Text::whole).map(str::to_owned);
        let single = names.len() == 1 && builtin == "read";
        for name in &names {
            let Some(text) = name.text() else {
                let text = Text::literally(name);
                self.subscripted_text(&text);
                self.forget_variables();
                continue;
            };
            self.subscripted_name(text);
            let value = match &whole {
                Some(line) if single => {
                    let line = line.split('\n').next().unwrap_or("").trim_matches([' ', '\t']);
                    Value::Text(Text::known(line))
                }
                _ => Value::Unknown,
            };
            let mut variable = Variable::new(value);
            variable.download = feed.flow.download;
            self.assign(text, variable);
        }
        if names.is_empty() {
            let name = if builtin == "read" { "REPLY" } else { "MAPFILE" };
            self.assign(name, Variable::new(Value::Unknown));
        }
        if builtin == "getopts" {
            self.assign("OPTARG", Variable::new(Value::Unknown));
        }
    }

    /// Builtins that evaluate a subscript in a name that they are given.
    pub(super) fn subscripts(&mut self, builtin: &str, args: &[Arg]) {
        match builtin {
            "printf" if args.first().is_some_and(|arg| arg.prefix().starts_with("-v")) => {
                let attached =
                    args.first().and_then(Arg::text).and_then(|text| text.strip_prefix("-v")).unwrap_or("");
                let name = if attached.is_empty() {
                    args.get(1).map(Text::literally).unwrap_or_default()
                } else {
                    Text::known(attached)
                };
                self.subscripted_text(&name);
                match name.whole() {
                    Some(name) => {
                        let format = if attached.is_empty() { 2 } else { 1 };
                        let value =
                            super::pure::output("printf", args.get(format..).unwrap_or_default(), None, None);
                        let value = value.map_or(Value::Unknown, Value::Text);
                        self.assign(name, Variable::new(value));
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
                if let Some(at) = args.iter().position(|arg| arg.text() == Some("-p"))
                    && let Some(name) = args.get(at + 1)
                {
                    let text = Text::literally(name);
                    self.subscripted_text(&text);
                }
            }
            _ => {}
        }
    }

    /// Variables that an arithmetic text may assign.
    pub(super) fn forget_assigned(&mut self, text: &Text) {
        let Some(text) = text.whole() else { return };
        if !text.contains('=') && !text.contains("++") && !text.contains("--") {
            return;
        }
        let assigned: Vec<String> = text
            .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .filter(|name| self.environment.own_variable(name).is_some())
            .map(str::to_owned)
            .collect();
        for name in assigned {
            self.assign(&name, Variable::new(Value::Unknown));
        }
    }
}
