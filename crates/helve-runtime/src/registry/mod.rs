//! The registry: which tools there are. It checks a tool's schema when it comes in and hands out specs, never a tool.
//!
//! A tool with a broken schema is quarantined with its reasons; the others work. Names of built-in tools cannot be
//! taken by anything that is registered later. Tools of a group can be replaced while calls run ([`Live`]).

mod live;
mod schema_rules;
mod spoken;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use helve_core::{Dialect, Lane, Tool, ToolSpec};
use helve_policy::{Policy, ToolRule};
use serde_json::Value;

use crate::pipeline::validate::Validator;
pub(crate) use live::Live;
pub(crate) use spoken::Spoken;

/// Why a tool was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another tool has this name or alias.
    #[error("the name '{name}' is taken by the tool '{holder}'; choose another")]
    Duplicate {
        /// The name or alias.
        name: String,
        /// Who has it.
        holder: String,
    },
    /// The name belongs to a built-in tool, whether it is registered or not.
    #[error("the name '{0}' is reserved for a built-in tool; choose another")]
    Protected(String),
    /// Models and exports cannot carry this name.
    #[error("the name '{0}' must be 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    BadName(String),
}

/// A tool that is kept out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The tool's name.
    pub name: String,
    /// Each reason with its place in the schema.
    pub reasons: Vec<String>,
}

/// Names that only built-in tools may bear, so that nothing dynamic can step into their place.
const PROTECTED: &[&str] = &[
    "apply_patch",
    "bash",
    "build_software",
    "cancel_job",
    "create_job",
    "echo",
    "edit_file",
    "exec",
    "find_files",
    "glob",
    "grep",
    "http",
    "job_status",
    "json",
    "list_dir",
    "list_jobs",
    "memory_read",
    "memory_search",
    "memory_tree",
    "memory_write",
    "message",
    "read_file",
    "read_output",
    "search",
    "shell",
    "time",
    "tool_auth",
    "tool_install",
    "tool_search",
    "web_fetch",
    "write_file",
];

/// A registered tool, its validators made at the first need.
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) arguments: Validator,
    details: OnceLock<Option<Validator>>,
    rule: OnceLock<ToolRule>,
    shown: OnceLock<Arc<ToolSpec>>,
}

impl Entry {
    pub(crate) fn new(tool: Arc<dyn Tool>) -> Self {
        let arguments = Validator::new(tool.spec().parameters.clone());
        Entry { tool, arguments, details: OnceLock::new(), rule: OnceLock::new(), shown: OnceLock::new() }
    }

    /// The declaration for whoever may keep it longer than the registry keeps the tool.
    fn shown(&self) -> Arc<ToolSpec> {
        Arc::clone(self.shown.get_or_init(|| Arc::new(self.spec().clone())))
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// What the policy says of the tool, looked up once.
    pub(crate) fn rule(&self, policy: &Policy) -> &ToolRule {
        self.rule.get_or_init(|| policy.tool(&self.spec().name))
    }

    /// The validator of `details`, if the tool declares a schema for them.
    pub(crate) fn details(&self) -> Option<&Validator> {
        let make = || self.spec().output_schema.clone().map(Validator::new);
        self.details.get_or_init(make).as_ref()
    }
}

/// The tools, by name.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<String, Arc<Entry>>,
    aliases: BTreeMap<String, String>,
    /// The tools of the dialect that calls come in, by their names there.
    spoken: BTreeMap<String, Arc<Spoken>>,
    quarantined: Vec<Quarantined>,
    /// The tools of each group that can be replaced, by name.
    groups: BTreeMap<String, Vec<String>>,
}

/// What is wrong with the schemas of a tool.
fn faults(
    parameters: &Value,
    output: Option<&Value>,
    check: impl Fn(&Value, bool) -> Vec<String>,
) -> Vec<String> {
    let of_output = output.map(|schema| check(schema, false)).unwrap_or_default();
    let of_output = of_output.into_iter().map(|reason| format!("output schema: {reason}"));
    check(parameters, true).into_iter().chain(of_output).collect()
}

/// Why a tool of an MCP server with these schemas is quarantined; empty if it is not.
pub fn server_schema_faults(parameters: &Value, output: Option<&Value>) -> Vec<String> {
    faults(parameters, output, schema_rules::check_foreign)
}

impl Registry {
    /// Takes a tool that is not one of ours.
    pub(crate) fn register(&mut self, tool: Box<dyn Tool>) -> Result<(), RegisterError> {
        let spec = tool.spec();
        let taken = std::iter::once(&spec.name).chain(&spec.aliases).find(|name| is_protected(name));
        match taken {
            Some(name) => Err(RegisterError::Protected(name.clone())),
            None => self.register_builtin(tool),
        }
    }

    /// Takes a tool that may bear a protected name.
    pub(crate) fn register_builtin(&mut self, tool: Box<dyn Tool>) -> Result<(), RegisterError> {
        let spec = tool.spec();
        for name in std::iter::once(&spec.name).chain(&spec.aliases) {
            if !is_name(name) {
                return Err(RegisterError::BadName(name.clone()));
            }
            if let Some(holder) = self.holder(name) {
                return Err(RegisterError::Duplicate { name: name.clone(), holder });
            }
        }
        let check = match spec.lane {
            Lane::Mcp => schema_rules::check_foreign,
            _ => |schema: &Value, _| schema_rules::check(schema),
        };
        let reasons = faults(&spec.parameters, spec.output_schema.as_ref(), check);
        if !reasons.is_empty() {
            self.quarantined.push(Quarantined { name: spec.name.clone(), reasons });
            return Ok(());
        }
        let (name, aliases) = (spec.name.clone(), spec.aliases.clone());
        for alias in aliases {
            self.aliases.insert(alias, name.clone());
        }
        self.entries.insert(name, Arc::new(Entry::new(Arc::from(tool))));
        Ok(())
    }

    fn holder(&self, name: &str) -> Option<String> {
        let spoken = self.spoken.contains_key(name);
        if spoken || self.entries.contains_key(name) || self.quarantined.iter().any(|q| q.name == name) {
            return Some(name.to_owned());
        }
        self.aliases.get(name).cloned()
    }

    /// The tool of exactly this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name)
    }

    /// The tool that has this alias.
    pub(crate) fn by_alias(&self, alias: &str) -> Option<&Arc<Entry>> {
        self.entries.get(self.aliases.get(alias)?)
    }

    /// Every other name of a tool, with its own.
    pub(crate) fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().map(|(alias, name)| (alias.as_str(), name.as_str()))
    }

    /// Takes calls in a dialect from now on: every tool of it that one of ours stands for.
    pub(crate) fn speak(&mut self, dialect: Dialect) {
        let ours = |name: &str| self.entries.get(name).or_else(|| self.by_alias(name));
        let spoken = dialect.tools.into_iter().filter_map(|tool| {
            let spoken = Spoken::new(tool, ours)?;
            Some((spoken.spec().name.clone(), Arc::new(spoken)))
        });
        self.spoken = spoken.collect();
    }

    /// The tool that the dialect calls so.
    pub(crate) fn spoken(&self, name: &str) -> Option<&Spoken> {
        self.spoken.get(name).map(|spoken| &**spoken)
    }

    /// Every tool that is not in the dialect, and so shown as it is.
    fn unspoken(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|entry| &**entry).filter(|entry| {
            let name = &entry.spec().name;
            let other = || self.spoken.values().any(|one| one.entry().spec().name == *name);
            !(self.spoken.contains_key(name) || other())
        })
    }

    /// The declaration of every enabled tool as a caller sees it: in the dialect where it has a name, else as it is; sorted
    /// by those names, the same in every process, so that prompts stay cacheable.
    pub(crate) fn shown(&self, policy: &Policy) -> Vec<Arc<ToolSpec>> {
        let enabled = |entry: &Entry| entry.rule(policy).enabled;
        let spoken = self.spoken.values().filter(|one| enabled(one.entry())).map(|one| one.shown());
        let rest = self.unspoken().filter(|entry| enabled(entry)).map(Entry::shown);
        let mut all: Vec<_> = spoken.chain(rest).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The names by which a caller knows the tools, sorted.
    pub(crate) fn shown_names(&self) -> Vec<&str> {
        let spoken = self.spoken.keys().map(String::as_str);
        let mut all: Vec<_> = spoken.chain(self.unspoken().map(|entry| entry.spec().name.as_str())).collect();
        all.sort_unstable();
        all
    }

    /// The tools' own names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// What is kept out.
    pub(crate) fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }
}

/// Whether only a built-in tool may bear the name.
pub(crate) fn is_protected(name: &str) -> bool {
    PROTECTED.contains(&name)
}

/// Whether a tool of this name comes and goes while Helve runs: a rule for it is no mistake where there is none.
pub(crate) fn is_dynamic(name: &str) -> bool {
    name.starts_with("mcp_")
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

#[cfg(test)]
mod tests;
