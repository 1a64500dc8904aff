//! Cases of the file tools as folders, judged by the state that the files are in afterwards. A new case needs no Rust.
//!
//! `tests/files/TOOL/CASE/` holds:
//!
//! | name | what it is |
//! |---|---|
//! | `input/` | the workspace before; empty if absent |
//! | `call.json` | one step or a list of steps |
//! | `expected/` | the workspace afterwards, byte for byte; as before if absent |
//! | `result.json` | what the calls must answer: one object, or a list with one for each call |
//! | `policy.toml` | the owner's policy; the built-in one if absent |
//!
//! A step is a call `{"tool": …, "args": …}` (`args` may be text, as a model sends it), a list of calls that
//! are one batch, or what somebody else does: `{"outside": {"write": PATH, "content": TEXT}}`, `{"outside": {"remove": PATH}}`,
//! `{"outside": {"readOnly": PATH}}`.
//!
//! A result may say `text`, `notes`, `details` and `error`; all that it says must be there, and text may leave out parts
//! with `…`. A call without `error` must work. `HELVE_CASE=edit_file/crlf` runs the cases whose names contain that text.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set up must fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use helve::{Args, Call, CallResult, Policy, Runtime};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// What a path is, and whether a file may be executed.
#[derive(Debug, PartialEq, Eq)]
enum Node {
    Directory,
    Link(PathBuf),
    File(String, bool),
}

/// Everything below a directory.
fn tree(root: &Path) -> BTreeMap<PathBuf, Node> {
    let mut nodes = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let node = if kind.is_symlink() {
                Node::Link(fs::read_link(&path).unwrap())
            } else if kind.is_dir() {
                open.push(path.clone());
                Node::Directory
            } else {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                Node::File(fs::read(&path).unwrap().escape_ascii().to_string(), executable)
            };
            nodes.insert(path.strip_prefix(root).unwrap().to_path_buf(), node);
        }
    }
    nodes
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// Whether a text is as wanted, where `…` stands for anything.
fn text_fits(wanted: &str, text: &str) -> bool {
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether all that is wanted is there.
fn fits(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::String(wanted), Value::String(found)) => text_fits(wanted, found),
        (Value::Object(wanted), _) => {
            wanted.iter().all(|(key, value)| fits(value, found.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| fits(a, b))
        }
        _ => wanted == found,
    }
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        one => vec![one],
    }
}

fn call(step: &Value) -> Call {
    let args = match &step["args"] {
        Value::String(text) => Args::Text(text.clone()),
        value => Args::Value(value.clone()),
    };
    Call::new(step["tool"].as_str().unwrap(), args)
}

/// What somebody else does to the workspace.
fn outside(workspace: &Path, act: &Value) {
    if let Some(path) = act["write"].as_str() {
        fs::write(workspace.join(path), act["content"].as_str().unwrap()).unwrap();
    } else if let Some(path) = act["readOnly"].as_str() {
        fs::set_permissions(workspace.join(path), fs::Permissions::from_mode(0o444)).unwrap();
    } else {
        fs::remove_file(workspace.join(act["remove"].as_str().unwrap())).unwrap();
    }
}

fn runtime(case: &Path, workspace: &Path, home: &Path) -> Runtime {
    let policy = match fs::read_to_string(case.join("policy.toml")) {
        Ok(text) => Policy::from_toml(&text).unwrap(),
        Err(_) => Policy::builtin(),
    };
    let builder = Runtime::builder().policy(policy).workspace(workspace).home(home).session("case");
    helve::register_file_tools(helve::register_builtin_tools(builder)).build().unwrap()
}

/// Runs one case and says what is wrong with it.
async fn judge(case: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let (workspace, home) = (dir.path().join("workspace"), dir.path().join("home"));
    fs::create_dir(&workspace).unwrap();
    let input = case.join("input");
    if input.exists() {
        copy(&input, &workspace);
    }
    let before = tree(&workspace);
    let runtime = runtime(case, &workspace, &home);
    let mut results: Vec<CallResult> = Vec::new();
    for step in list(read_json(&case.join("call.json"))) {
        match &step {
            Value::Array(batch) => results.extend(runtime.batch(batch.iter().map(call).collect()).await),
            step if step.get("outside").is_some() => outside(&workspace, &step["outside"]),
            step => results.push(runtime.call(call(step)).await),
        }
    }
    let mut faults = String::new();
    let expected = case.join("expected");
    let wanted = if expected.exists() { tree(&expected) } else { before };
    let found = tree(&workspace);
    for path in wanted.keys().chain(found.keys().filter(|path| !wanted.contains_key(*path))) {
        let (wanted, found) = (wanted.get(path), found.get(path));
        if wanted != found {
            faults.push_str(&format!("  {}\n    wanted {wanted:?}\n    found  {found:?}\n", path.display()));
        }
    }
    let wanted = list(read_json(&case.join("result.json")));
    if wanted.len() != results.len() {
        faults.push_str(&format!("  {} results wanted, {} found\n", wanted.len(), results.len()));
    }
    for (wanted, result) in wanted.iter().zip(&results) {
        let mut found = serde_json::to_value(result).unwrap();
        found["text"] = Value::String(result.text());
        let works = result.ok || wanted.get("error").is_some();
        if !works || !fits(wanted, &found) {
            let found = serde_json::to_string_pretty(&found).unwrap();
            faults.push_str(&format!("  wanted {wanted}\n  found {found}\n"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn cases() -> Vec<PathBuf> {
    let only = std::env::var("HELVE_CASE").unwrap_or_default();
    let below = |dir: &Path| {
        let mut names: Vec<PathBuf> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        names.sort();
        names
    };
    let all = below(&folder()).into_iter().flat_map(|tool| below(&tool));
    all.filter(|case| case.to_string_lossy().contains(&only)).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn every_case_ends_as_expected() {
    let cases = cases();
    assert!(!cases.is_empty(), "no case has that name");
    let mut failed = Vec::new();
    for case in &cases {
        if let Err(faults) = judge(case).await {
            failed.push(format!("{}\n{faults}", case.strip_prefix(folder()).unwrap().display()));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn the_runner_itself_tells_right_from_wrong() {
    assert!(text_fits("a…c", "abbc") && text_fits("…", "") && text_fits("a", "a"));
    assert!(!text_fits("a…c", "abcd") && !text_fits("a", "ab") && !text_fits("ab…ba", "aba"));
    let found = serde_json::json!({"a": {"b": [1, "x y"]}, "c": 2});
    assert!(fits(&serde_json::json!({"a": {"b": [1, "x…"]}}), &found));
    assert!(!fits(&serde_json::json!({"a": {"b": [1]}}), &found));
    assert!(!fits(&serde_json::json!({"d": 1}), &found));
}
