//! Calls in dialects: each becomes a call of ours, takes the same way, and is told its mistakes in its own names.
//!
//! `cases/dialects.jsonl` has a call a line: `dialect`, `name`, `args`, and ours: `tool` with what must be in `ours`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set up must fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use helve::export::{Format, export};
use helve::{Args, Call, Policy, Runtime};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn runtime(dir: &Path, dialect: &str) -> Runtime {
    let workspace = dir.join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    let builder = Runtime::builder().policy(Policy::builtin()).workspace(workspace).home(dir.join("home"));
    let builder = helve::register_file_tools(helve::register_builtin_tools(builder));
    let builder = helve::register_container_tools(builder).session("dialects");
    match helve::dialect(dialect) {
        Some(dialect) => builder.dialect(dialect).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn cases() -> Vec<Value> {
    let text = include_str!("cases/dialects.jsonl");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn every_tool_of_every_dialect_becomes_ours() {
    let dir = tempfile::tempdir().unwrap();
    for name in helve::DIALECTS {
        let runtime = runtime(dir.path(), name);
        let mut tried = BTreeSet::new();
        for case in cases().iter().filter(|case| case["dialect"] == name) {
            let tool = case["name"].as_str().unwrap();
            let ours = runtime.arguments(tool, Args::Value(case["args"].clone()));
            let ours = ours.unwrap_or_else(|error| panic!("{case}: {error}"));
            for (key, value) in case["ours"].as_object().unwrap() {
                assert_eq!(ours.get(key), Some(value), "{case}");
            }
            tried.insert(tool.to_owned());
        }
        for tool in helve::dialect(name).into_iter().flat_map(|dialect| dialect.tools) {
            assert!(tried.contains(tool.name), "{name}: no case calls {}", tool.name);
        }
    }
}

#[test]
fn a_dialect_declares_what_it_has_and_leaves_the_rest_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let own = runtime(dir.path(), "helve");
    for name in helve::DIALECTS {
        let Some(table) = helve::dialect(name) else { continue };
        let runtime = runtime(dir.path(), name);
        let specs: Vec<_> = runtime.specs().collect();
        for tool in &table.tools {
            let ours = own.specs().find(|spec| spec.name == tool.tool);
            let ours = ours.unwrap_or_else(|| panic!("{name}: there is no {}", tool.tool));
            let spec = specs.iter().find(|spec| spec.name == tool.name).unwrap();
            for parameter in &tool.parameters {
                if let Some(our_name) = parameter.ours {
                    let known = ours.parameters["properties"].get(our_name).is_some();
                    assert!(known, "{name}: {} has no parameter {our_name}", tool.tool);
                }
                let property = &spec.parameters["properties"][parameter.name];
                assert!(property["description"].is_string(), "{name}: {}.{}", tool.name, parameter.name);
            }
            for format in [Format::OpenAi, Format::Anthropic, Format::Gemini, Format::Mcp] {
                let declared = export(spec, format).to_string();
                assert!(declared.contains(tool.name) && !declared.contains("x-aliases"), "{declared}");
            }
        }
        let names: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names.len(), specs.len(), "{name}: a name twice");
        assert!(names.contains("echo"), "{name}: what it does not have stays");
        let hidden = table
            .tools
            .iter()
            .map(|tool| tool.tool)
            .filter(|ours| !table.tools.iter().any(|t| t.name == *ours));
        for ours in hidden {
            assert!(!names.contains(ours), "{name}: {ours} is shown twice");
        }
    }
}

/// Every description in a schema.
fn descriptions<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(members) => {
            found.extend(members.get("description").and_then(Value::as_str));
            members.values().for_each(|value| descriptions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| descriptions(value, found)),
        _ => {}
    }
}

#[test]
fn no_description_names_a_parameter_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let own = runtime(dir.path(), "helve");
    for name in helve::DIALECTS {
        let Some(table) = helve::dialect(name) else { continue };
        let runtime = runtime(dir.path(), name);
        for tool in &table.tools {
            let ours = own.specs().find(|spec| spec.name == tool.tool).unwrap();
            let spec = runtime.specs().find(|spec| spec.name == tool.name).unwrap();
            let mut said = vec![spec.description.as_str()];
            descriptions(&spec.parameters, &mut said);
            let absent = ours.parameters["properties"].as_object().unwrap().keys();
            for absent in absent.filter(|ours| tool.parameters.iter().all(|one| one.name != **ours)) {
                let is_code = absent.contains(|letter: char| letter.is_uppercase() || letter == '_');
                let names = |text: &&&str| {
                    let text = text.to_lowercase();
                    let absent = absent.to_lowercase();
                    let phrases =
                        ["with {}", "instead of {}", "as {} says"].map(|one| one.replace("{}", &absent));
                    (is_code && text.contains(&absent)) || phrases.iter().any(|one| text.contains(one))
                };
                assert_eq!(said.iter().find(names), None, "{name}: {} has no {absent}", tool.name);
            }
        }
    }
}

#[test]
fn mistakes_are_told_in_the_names_of_the_dialect() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(dir.path(), "claude");
    let error = runtime.arguments("Edit", json!({"where": "x", "old_string": "a"}).into()).unwrap_err();
    let told: Vec<(&str, &str)> =
        error.problems.iter().map(|problem| (&*problem.pointer, &*problem.expected)).collect();
    assert_eq!(told[0].0, "/where", "{error}");
    assert!(told[0].1.contains("file_path, old_string, new_string, replace_all"), "{error}");
    assert!(told.iter().any(|(pointer, _)| *pointer == "/file_path"), "{error}");
    assert!(told.iter().any(|(pointer, _)| *pointer == "/new_string"), "{error}");
    assert!(error.message.starts_with("Invalid parameters for tool 'Edit':"), "{error}");
    let error = runtime.arguments("bash", json!({}).into()).unwrap_err();
    assert_eq!(
        error.message,
        "Invalid parameters for tool 'exec':\n- /command: expected a value (required), received nothing"
    );
    let error = runtime.arguments("Bsh", json!({}).into()).unwrap_err();
    assert!(error.message.contains("Did you mean 'Bash'?"), "{error}");
    assert!(error.hint.unwrap().contains("MultiEdit"));
}

#[tokio::test]
async fn a_call_in_a_dialect_takes_the_same_way_and_the_journal_has_both_names() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(dir.path(), "claude");
    let call = Call::new("Write", json!({"file_path": "a.txt", "content": "x"}));
    let result = runtime.call(call).await;
    assert_eq!((result.ok, result.tool.as_str()), (true, "write_file"), "{}", result.text());
    assert_eq!(fs::read_to_string(dir.path().join("workspace/a.txt")).unwrap(), "x");
    let escape = runtime.call(Call::new("Write", json!({"file_path": "../b.txt", "content": "x"}))).await;
    assert_eq!(escape.error.unwrap().kind.name(), "blocked");
    let home = helve::store::Home::open(&dir.path().join("home")).unwrap();
    let text = journal(home.path());
    assert!(text.contains(r#""called":"Write""#) && text.contains(r#""tool":"write_file""#), "{text}");
    assert!(text.contains(r#""path":"a.txt""#) && !text.contains("file_path"), "{text}");
}

#[test]
fn what_the_policy_turns_off_is_off_in_every_dialect() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::from_toml("[tools.write_file]\nenabled = false\n").unwrap();
    let builder = Runtime::builder().policy(policy).workspace(dir.path()).home(dir.path().join("home"));
    let builder = helve::register_file_tools(builder);
    let runtime = builder.dialect(helve::dialect("claude").unwrap()).build().unwrap();
    assert!(runtime.specs().all(|spec| spec.name != "Write"));
    assert!(runtime.specs().any(|spec| spec.name == "Edit"));
}

/// Everything below a directory that is text.
fn journal(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&journal(&path));
        } else {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
    text
}
