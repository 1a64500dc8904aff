//! Paths that lead elsewhere, or seem to: each case is a line of data, run through the binary and judged by what an
//! observer sees: the answer, what it shows of a file outside, and whether anything outside changed.
//!
//! The cases are `cases/paths.jsonl`. More are read from the directory that `HELVE_SHARED_CASES` names, in the words in which
//! they are written there; those that need a race, a full disk or an archive are tested elsewhere and named as skipped.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use support::{Answer, Place, cases, json_lines};

const CANARY: &str = "canary-7316";

/// A workspace with things that lead out of it.
struct Scene {
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let scene = Scene { place: Place::new() };
        let (ws, out) = (scene.ws(), scene.out());
        fs::create_dir_all(out.join("victim")).unwrap();
        fs::write(out.join("secret.txt"), CANARY).unwrap();
        fs::write(scene.place.root().join("user/.bashrc"), "# mine\n").unwrap();
        for dir in ["src", "sub", ".git/hooks"] {
            fs::create_dir_all(ws.join(dir)).unwrap();
        }
        fs::write(ws.join("src/lib.rs"), "pub fn one() {}\n").unwrap();
        fs::write(ws.join("existing.txt"), "old\n").unwrap();
        fs::write(ws.join(".git/config"), "[core]\n").unwrap();
        symlink(&out, ws.join("link")).unwrap();
        symlink("l2", ws.join("l1")).unwrap();
        symlink("../out/secret.txt", ws.join("l2")).unwrap();
        symlink(out.join("mark"), ws.join("dangling")).unwrap();
        symlink("src/lib.rs", ws.join("inside")).unwrap();
        fs::hard_link(out.join("secret.txt"), ws.join("hl")).unwrap();
        rustix::fs::mknodat(CWD, ws.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        scene
    }

    fn ws(&self) -> PathBuf {
        self.place.workspace()
    }

    fn out(&self) -> PathBuf {
        self.place.root().join("out")
    }

    /// Puts the places of this scene into a text.
    fn fill(&self, text: &str) -> String {
        let out = self.out().display().to_string();
        text.replace("@OUT@", &out).replace("@WS@", &self.ws().display().to_string())
    }

    /// All that a call must leave as it is.
    fn surroundings(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for dir in [self.out(), self.place.root().join("user"), self.ws().join(".git")] {
            gather(&dir, &mut found);
        }
        found
    }

    /// Makes one call and says what is wrong with it.
    fn judge(&self, tool: &str, args: &Value, expect: &str) -> Option<String> {
        let before = self.surroundings();
        let start = Instant::now();
        let answer = self.place.call(tool, args);
        let took = start.elapsed();
        let wrong = |what: &str| Some(format!("{tool} {args}: {what}: {:#}", answer.result));
        if self.surroundings() != before {
            return wrong("something outside changed");
        }
        if answer.result.to_string().contains(CANARY) {
            return wrong("the content of a file outside was shown");
        }
        if took > Duration::from_secs(5) {
            return wrong("it took too long");
        }
        if answer.result.to_string().contains('\u{1b}') {
            return wrong("the answer holds a character that acts on a terminal");
        }
        is_as_expected(&answer, expect)
            .then_some(())
            .map_or_else(|| wrong(&format!("expected {expect}")), |()| None)
    }
}

fn gather(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => gather(&entry.path(), found),
            _ => {
                found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
            }
        }
    }
}

fn is_as_expected(answer: &Answer, expect: &str) -> bool {
    let kind = answer.kind();
    match expect {
        "allowed" => answer.code == 0 && kind.is_none(),
        "blocked" => matches!(kind, Some("blocked" | "approval_required")) && matches!(answer.code, 3 | 4),
        "clear_error" => {
            matches!(kind, Some("blocked" | "not_found" | "invalid_params" | "tool_failed" | "conflict"))
        }
        other => panic!("no such expectation: {other}"),
    }
}

#[test]
fn no_path_leads_outside() {
    let scene = Scene::new();
    let mut wrong = Vec::new();
    for case in cases("paths.jsonl") {
        let (tool, expect) = (case["tool"].as_str().unwrap(), case["expect"].as_str().unwrap());
        let args: Value = serde_json::from_str(&scene.fill(&case["args"].to_string())).unwrap();
        wrong.extend(scene.judge(tool, &args, expect).map(|problem| format!("{}: {problem}", case["id"])));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shared_cases_hold_too() {
    let Some(dir) = std::env::var_os("HELVE_SHARED_CASES") else {
        println!("skipped: HELVE_SHARED_CASES names no directory with more cases");
        return;
    };
    let text = fs::read_to_string(Path::new(&dir).join("paths.jsonl")).unwrap();
    let mut wrong = Vec::new();
    for case in json_lines(&text) {
        let scene = Scene::new();
        let (id, input) = (case["id"].as_str().unwrap(), scene.fill(case["input"].as_str().unwrap()));
        let Some(calls) = read(&scene, &input) else {
            println!("skipped {id}, which needs more than a call: {input}");
            continue;
        };
        for (tool, args) in calls {
            let expect = case["expect"].as_str().unwrap();
            wrong.extend(scene.judge(tool, &args, expect).map(|problem| format!("{id}: {problem}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The calls that a description of a case means; none if it means more than calls.
fn read(scene: &Scene, input: &str) -> Option<Vec<(&'static str, Value)>> {
    let (input, note) = input.split_once("   (").unwrap_or((input, ""));
    let mut calls = Vec::new();
    for part in input.split(" ; ") {
        let (tool, rest) = part.trim().split_once(' ')?;
        let mut words: Vec<String> = rest.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
        if note.contains("ESC") {
            words[0] = words[0].replace("\\n", "\n\u{1b}[31m");
        }
        calls.push(match tool {
            "read_file" if rest.starts_with("on a symlink") => ("read_file", json!({"path": "inside"})),
            "read_file" => ("read_file", json!({"path": rest.trim()})),
            "write_file" if rest.contains("disk is full") => return None,
            "write_file" => {
                if rest.contains("where a is a file") {
                    fs::write(scene.ws().join("a"), "").unwrap();
                }
                let content = words.get(1).cloned().unwrap_or_default();
                ("write_file", json!({"path": words[0], "content": content}))
            }
            "grep" => ("grep", json!({"pattern": "canary", "path": words.last()?})),
            "apply_patch" => {
                let patch = format!("*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n", words.last()?);
                ("apply_patch", json!({"input": patch}))
            }
            _ => return None,
        });
    }
    Some(calls)
}
