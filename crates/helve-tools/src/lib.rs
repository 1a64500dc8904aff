//! The built-in tools, one file each, and the list of them.
//!
//! A tool is a struct of typed arguments and a `run`; schema, aliases, defaults and clamping follow from the struct.
//! In come normalized and valid arguments and a [`helve_core::Context`]; out goes text for the model and details for
//! programs, whose shape each tool declares. A new tool is one new file and one line in a list below.
//!
//! | tool | what it does |
//! |---|---|
//! | `echo` | gives a text back |
//! | `time` | the clock, and arithmetic on points in time |
//! | `json` | reads, queries, writes and checks JSON |
//! | `read_output` | pages through or searches the kept output of an earlier call |
//! | `read_file` | shows a file page by page, whatever it is |
//! | `exec` | runs a shell command through the shell lane |
//! | `write_file`, `edit_file` | a file's whole content, or texts in it |
//! | `apply_patch` | changes any number of files with one patch, all of it or nothing |
//! | `list_dir`, `glob`, `grep` | what is in a directory, files by name, lines by content |
//!
//! Making the lists is cheap, because every start of the program does it: no time zone is loaded and no pattern
//! compiled before a call needs it.
//!
//! Deliberately not here: permission, limits on the result's size in general, redaction and recording. Those are
//! stages of the pipeline. No tool opens a file, a socket or a process by itself.

mod apply_patch;
mod coding;
mod dialect;
mod diff;
mod echo;
pub mod edit;
mod edit_file;
mod exec;
mod glob;
mod grep;
mod json;
mod list_dir;
mod patch;
mod paths;
mod read_file;
mod read_output;
mod time;
mod write_file;

#[cfg(test)]
mod testing;

use helve_core::{Tool, instant, typed};
use serde::Serialize;
use serde_json::Value;

pub use dialect::{DIALECTS, dialect};
pub use exec::{LayerChanged, ShellDefaults, changed as layer_changes};
#[doc(hidden)]
pub use patch::try_patch;

/// The names of [`builtin_tools`].
pub const BUILTIN: &[&str] = &["echo", "time", "json", "read_output"];

/// The names of [`container_tools`].
pub const CONTAINER: &[&str] = &["exec"];

/// The names of [`file_tools`].
pub const FILES: &[&str] =
    &["read_file", "write_file", "edit_file", "apply_patch", "list_dir", "glob", "grep"];

/// The tools that run in this process and change nothing.
pub fn builtin_tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(instant(echo::Echo)),
        Box::new(instant(time::Time)),
        Box::new(instant(json::Json)),
        Box::new(typed(read_output::ReadOutput)),
    ]
}

/// The tools whose work happens in a sandboxed child process. The defaults show in their schemas.
pub fn container_tools(defaults: &ShellDefaults) -> Vec<Box<dyn Tool>> {
    vec![Box::new(typed(exec::Exec::new(defaults)))]
}

/// What the policy says about file tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDefaults {
    /// How many tokens the model's context window holds, where the owner said so: `read_file` gives more or less by it.
    pub model_context_window_tokens: Option<u64>,
}

/// The tools that read and change files through the files lane.
pub fn file_tools(defaults: &FileDefaults) -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(typed(read_file::ReadFile::new(defaults))),
        Box::new(typed(write_file::WriteFile)),
        Box::new(typed(edit_file::EditFile::default())),
        Box::new(typed(apply_patch::ApplyPatch)),
        Box::new(typed(list_dir::ListDir)),
        Box::new(typed(glob::Glob)),
        Box::new(typed(grep::Grep)),
    ]
}

/// What changed from one version of a file to another, as a unified diff; none if nothing did, if one of them is no text, or
/// if it would be too long.
pub fn unified_diff(path: &str, before: &[u8], after: &[u8]) -> Option<String> {
    diff::between(path, before, after)?.unified
}

/// A tool's facts as the `details` of its output.
fn details<T: Serialize>(facts: &T) -> Value {
    serde_json::to_value(facts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn all() -> Vec<Box<dyn Tool>> {
        let mut tools = builtin_tools();
        tools.extend(container_tools(&ShellDefaults::from(&helve_core::Limits::default())));
        tools.extend(file_tools(&FileDefaults::default()));
        tools
    }

    #[test]
    fn the_names_are_those_of_the_tools() {
        let names: Vec<String> = all().iter().map(|tool| tool.spec().name.clone()).collect();
        assert_eq!(names, [BUILTIN, CONTAINER, FILES].concat());
    }

    #[test]
    fn every_parameter_and_every_tool_is_described() {
        for tool in all() {
            let spec = tool.spec();
            assert!(spec.title.is_some(), "{}", spec.name);
            assert!(spec.description.len() > 20, "{}", spec.name);
            assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
            for (name, property) in spec.parameters["properties"].as_object().unwrap() {
                let words = property["description"].as_str().unwrap_or_default();
                assert!(!words.is_empty() && !words.contains('\n'), "{}.{name}: {words:?}", spec.name);
            }
        }
    }

    #[test]
    fn every_tool_declares_its_details() {
        for tool in all() {
            let schema = tool.spec().output_schema.as_ref().unwrap();
            assert!(!schema["properties"].as_object().unwrap().is_empty(), "{}", tool.spec().name);
        }
    }

    #[test]
    fn read_only_tools_have_no_rate_limit_and_exec_has_the_default_one() {
        for tool in all() {
            let spec = tool.spec();
            let changes = ["exec", "write_file", "edit_file", "apply_patch"].contains(&spec.name.as_str());
            assert_eq!(spec.read_only, !changes, "{}", spec.name);
            assert_eq!(spec.rate_limit.is_none(), spec.read_only);
        }
    }

    #[test]
    fn no_two_parameters_of_a_tool_share_a_name() {
        for tool in all() {
            let properties = tool.spec().parameters["properties"].as_object().unwrap().clone();
            let mut names: Vec<String> = properties.keys().cloned().collect();
            for property in properties.values() {
                names.extend(helve_core::schema::aliases(property).map(str::to_owned));
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", tool.spec().name);
        }
    }
}
