//! Dialects: the tools under the names and parameters that a model learned elsewhere.
//!
//! A dialect is a table. For each of its tools it names ours, and for each parameter ours and, where the shape or the unit
//! differs, a schema of its own. What it does not say comes from our declaration, so that the limits of the two
//! cannot differ. The pipeline checks a call against the dialect's declaration, translates it, and goes on with it as with
//! any other call.

use serde_json::{Map, Value, json};

use crate::error::{Problem, ToolError};
use crate::schema::ALIASES;
use crate::spec::ToolSpec;

/// The tools as another agent has them.
#[derive(Clone)]
pub struct Dialect {
    /// Its name, such as `claude`.
    pub name: &'static str,
    /// Its tools, those of them that ours can stand for.
    pub tools: Vec<DialectTool>,
}

/// One tool of a dialect.
#[derive(Clone)]
pub struct DialectTool {
    /// Its name there.
    pub name: &'static str,
    /// Our tool that does the work.
    pub tool: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Brings units and shapes into ours, after the parameters have our names.
    pub adapt: fn(&mut Map<String, Value>),
}

/// One parameter of a tool of a dialect.
#[derive(Clone)]
pub struct Parameter {
    /// Its name there.
    pub name: &'static str,
    /// Our name; none for one that only [`DialectTool::adapt`] knows, under its own name.
    pub ours: Option<&'static str>,
    /// Its schema; none where it is ours.
    pub schema: Option<Value>,
    /// What is said of it where the schema is ours; none where ours says it.
    pub said: Option<&'static str>,
    /// Whether it must be there.
    pub required: bool,
}

impl Parameter {
    /// A parameter that is ours under another name.
    pub fn ours(name: &'static str, ours: &'static str) -> Self {
        Parameter { name, ours: Some(ours), schema: None, said: None, required: false }
    }

    /// A parameter that has our name.
    pub fn same(name: &'static str) -> Self {
        Parameter::ours(name, name)
    }

    /// A parameter of the dialect's own, which `adapt` makes ours from.
    pub fn own(name: &'static str, schema: Value) -> Self {
        Parameter { name, ours: None, schema: Some(schema), said: None, required: false }
    }

    /// It must be there.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Is described in the dialect's own words: ours may speak of parameters that it does not have.
    #[must_use]
    pub fn said(mut self, description: &'static str) -> Self {
        self.said = Some(description);
        self
    }

    /// Has another schema than ours.
    #[must_use]
    pub fn shaped(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }
}

impl DialectTool {
    /// The declaration in the dialect: ours with the dialect's name, description and parameters.
    pub fn spec(&self, ours: &ToolSpec) -> ToolSpec {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for parameter in &self.parameters {
            let Some(schema) = parameter.schema.clone().or_else(|| self.as_ours(parameter, ours)) else {
                continue;
            };
            properties.insert(parameter.name.to_owned(), schema);
            if parameter.required {
                required.push(Value::from(parameter.name));
            }
        }
        let mut parameters =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            parameters["required"] = Value::Array(required);
        }
        ToolSpec {
            name: self.name.to_owned(),
            aliases: Vec::new(),
            description: self.description.to_owned(),
            parameters,
            ..ours.clone()
        }
    }

    /// The schema of a parameter that is ours. Our name and our aliases of it are aliases there, unless they are names of the
    /// dialect's own. One whose schema differs has none: what ours means may be of another unit.
    fn as_ours(&self, parameter: &Parameter, ours: &ToolSpec) -> Option<Value> {
        let our_name = parameter.ours?;
        let mut schema = ours.parameters["properties"].get(our_name)?.clone();
        let members = schema.as_object_mut()?;
        let aliases = members.remove(ALIASES);
        let aliases = aliases.iter().flat_map(|all| all.as_array().into_iter().flatten());
        let is_free = |name: &&str| self.parameters.iter().all(|one| one.name != *name);
        let aliases: Vec<&str> =
            [our_name].into_iter().chain(aliases.filter_map(Value::as_str)).filter(is_free).collect();
        if !aliases.is_empty() {
            members.insert(ALIASES.to_owned(), json!(aliases));
        }
        if let Some(said) = parameter.said {
            members.insert("description".to_owned(), said.into());
        }
        Some(schema)
    }

    /// Our arguments for valid arguments of the dialect.
    pub fn translate(&self, args: Value) -> Value {
        let Value::Object(theirs) = args else { return args };
        let mut ours = Map::new();
        for (key, value) in theirs {
            let parameter = self.parameters.iter().find(|parameter| parameter.name == key);
            let name = parameter.and_then(|parameter| parameter.ours).unwrap_or(&key);
            ours.insert(name.to_owned(), value);
        }
        (self.adapt)(&mut ours);
        Value::Object(ours)
    }

    /// Problems with our arguments in the dialect's names.
    pub fn retell(&self, error: ToolError) -> ToolError {
        if error.problems.is_empty() {
            return error;
        }
        let problems = error.problems.into_iter().map(|problem| {
            let mut steps = problem.pointer.splitn(3, '/');
            let (Some(""), Some(first), rest) = (steps.next(), steps.next(), steps.next()) else {
                return problem;
            };
            let theirs = self.parameters.iter().find(|parameter| parameter.ours == Some(first));
            let first = theirs.map_or(first, |parameter| parameter.name);
            let pointer = rest.map_or_else(|| format!("/{first}"), |rest| format!("/{first}/{rest}"));
            Problem { pointer, ..problem }
        });
        let told = ToolError::invalid(self.name, problems.collect());
        ToolError { hint: error.hint, output: error.output, ..told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn tool() -> DialectTool {
        DialectTool {
            name: "Bash",
            tool: "exec",
            description: "Runs it.",
            parameters: vec![
                Parameter::ours("cmd", "command").required().said("What to run."),
                Parameter::ours("ms", "timeout").shaped(json!({"type": "integer"})),
                Parameter::same("unknown_to_us"),
            ],
            adapt: |args| {
                if let Some(ms) = args.get("timeout").and_then(Value::as_u64) {
                    args.insert("timeout".into(), json!(ms.div_ceil(1000)));
                }
            },
        }
    }

    #[test]
    fn what_the_dialect_does_not_say_is_ours() {
        let ours = ToolSpec::new(
            "exec",
            "",
            json!({"properties": {
                "command": {"type": "string", "minLength": 1, "description": "With x.", "x-aliases": ["sh", "ms"]},
                "timeout": {"type": "integer", "maximum": 600},
            }}),
        );
        let spec = tool().spec(&ours.aliases(&["shell"]));
        assert_eq!((spec.name.as_str(), spec.aliases.len()), ("Bash", 0));
        assert_eq!(
            spec.parameters,
            json!({
                "type": "object",
                "properties": {
                    "cmd": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What to run.",
                        "x-aliases": ["command", "sh"],
                    },
                    "ms": {"type": "integer"},
                },
                "additionalProperties": false,
                "required": ["cmd"],
            })
        );
    }

    #[test]
    fn a_call_becomes_ours_and_its_problems_theirs() {
        assert_eq!(
            tool().translate(json!({"cmd": "ls", "ms": 1500})),
            json!({"command": "ls", "timeout": 2})
        );
        let problems = vec![Problem::new("/timeout", "a", "b"), Problem::new("", "c", "d")];
        let error = tool().retell(ToolError::invalid("exec", problems));
        assert_eq!(
            error.message,
            "Invalid parameters for tool 'Bash':\n- /ms: expected a, received b\n- arguments: expected c, received d"
        );
    }
}
