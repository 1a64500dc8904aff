//! There is no side door: a program that tries to run a tool without the pipeline does not compile.
//!
//! Each file of `tests/compile_fail` names in its first line the errors that the compiler must give, so that it cannot
//! fail for another reason; `tests/compile_pass` shows that the same set-up compiles when the pipeline is used.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use pretty_assertions::assert_eq;

/// Where cargo put this test and the libraries that it was linked with.
fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The newest build of a library.
fn library(name: &str) -> PathBuf {
    let prefix = format!("lib{name}-");
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let found = std::fs::read_dir(deps()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let file = path.file_name().unwrap().to_string_lossy();
        file.starts_with(&prefix) && file.ends_with(".rlib")
    });
    found.max_by_key(age).unwrap()
}

/// The codes of the compiler's errors; an error without a code by its first words.
fn errors(program: &Path) -> BTreeSet<String> {
    let out = tempfile::tempdir().unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition=2024",
        "--crate-type=bin",
        "--emit=metadata",
        "--error-format=json",
        "--cap-lints=allow",
    ]);
    rustc.arg("--out-dir").arg(out.path()).arg("-L").arg(format!("dependency={}", deps().display()));
    for name in ["helve", "helve_runtime", "serde_json"] {
        rustc.arg("--extern").arg(format!("{name}={}", library(name).display()));
    }
    let run = rustc.arg(program).output().unwrap();
    let messages = String::from_utf8(run.stderr).unwrap();
    let mut found = BTreeSet::new();
    for message in messages.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        if message["level"] == "error" && !message["message"].as_str().unwrap().starts_with("aborting") {
            let words =
                || message["message"].as_str().unwrap().split(' ').take(2).collect::<Vec<_>>().join(" ");
            found.insert(message["code"]["code"].as_str().map_or_else(words, str::to_owned));
        }
    }
    assert_eq!(run.status.success(), found.is_empty(), "{messages}");
    found
}

fn programs(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn no_way_around_the_pipeline() {
    for program in programs("compile_fail") {
        let text = std::fs::read_to_string(&program).unwrap();
        let wanted = text.lines().next().unwrap().strip_prefix("// errors: ").unwrap();
        let wanted: BTreeSet<String> = wanted.split(", ").map(str::to_owned).collect();
        assert_eq!(errors(&program), wanted, "{}", program.display());
    }
}

#[test]
fn the_way_through_the_pipeline_compiles() {
    for program in programs("compile_pass") {
        assert_eq!(errors(&program), BTreeSet::new(), "{}", program.display());
    }
}
