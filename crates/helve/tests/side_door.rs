//! There is no side door: a program that tries to run a tool without the pipeline does not compile.
//!
//! Each file of `tests/compile_fail` names in its first line the errors that the compiler must give, so that it cannot
//! fail for another reason; `tests/compile_pass` shows that the same set-up compiles when the pipeline is used.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set up must fail loudly")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use pretty_assertions::assert_eq;

/// Where cargo put this test and the libraries that it was linked with.
fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Every build of a library that is there, newest first.
fn builds(name: &str) -> Vec<PathBuf> {
    let prefix = format!("lib{name}-");
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut found: Vec<PathBuf> = std::fs::read_dir(deps())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let file = path.file_name().unwrap().to_string_lossy();
            file.starts_with(&prefix) && file.ends_with(".rlib")
        })
        .collect();
    found.sort_by_key(age);
    found.reverse();
    found
}

/// Builds that fit each other: builds with other features may lie beside the ones that this test was linked with, so
/// the newest set with which the program that must compile does compile is taken.
fn libraries() -> &'static [(&'static str, PathBuf)] {
    static FITTING: OnceLock<Vec<(&'static str, PathBuf)>> = OnceLock::new();
    FITTING.get_or_init(|| {
        let sound = &programs("compile_pass")[0];
        for helve in builds("helve") {
            for runtime in builds("helve_runtime") {
                for json in builds("serde_json") {
                    let set = vec![
                        ("helve", helve.clone()),
                        ("helve_runtime", runtime.clone()),
                        ("serde_json", json),
                    ];
                    if compile(sound, &set).0 {
                        return set;
                    }
                }
            }
        }
        panic!("no set of libraries in {} compiles {}", deps().display(), sound.display());
    })
}

/// Whether a program compiles, and what the compiler says.
fn compile(program: &Path, libraries: &[(&str, PathBuf)]) -> (bool, String) {
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
    for (name, path) in libraries {
        rustc.arg("--extern").arg(format!("{name}={}", path.display()));
    }
    let run = rustc.arg(program).output().unwrap();
    (run.status.success(), String::from_utf8(run.stderr).unwrap())
}

/// The codes of the compiler's errors; an error without a code by its first words.
fn errors(program: &Path) -> BTreeSet<String> {
    let (compiles, messages) = compile(program, libraries());
    let mut found = BTreeSet::new();
    for message in messages.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        if message["level"] == "error" && !message["message"].as_str().unwrap().starts_with("aborting") {
            let words =
                || message["message"].as_str().unwrap().split(' ').take(2).collect::<Vec<_>>().join(" ");
            found.insert(message["code"]["code"].as_str().map_or_else(words, str::to_owned));
        }
    }
    assert_eq!(compiles, found.is_empty(), "{messages}");
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
