//! What words become, against the bash that is installed: its own `printf` shows the fields.

#![allow(clippy::expect_used, reason = "a test fails loudly")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use helve_shell::analysis::{Arg, Setting};
use helve_shell::analyze;
use helve_shell::tree::Dialect;
use pretty_assertions::assert_eq;

#[test]
fn words_become_what_bash_makes_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let setting = Setting {
        dialect: Dialect::Bash,
        directory: directory.path(),
        workspace: directory.path(),
        home: Some(Path::new("/home/me")),
    };
    for row in support::rows(include_str!("cases/analyze_expansions.jsonl")) {
        let line = row["run"].as_str().expect("run is text");
        let shell = Command::new("bash")
            .args(["--norc", "-c", line])
            .env("HOME", "/home/me")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let Ok(shell) = shell else {
            println!("skipped: there is no bash");
            return;
        };
        let analysis = analyze(line, &setting);
        let run = analysis
            .runs
            .iter()
            .rev()
            .find(|run| run.argv.get(1).and_then(Arg::text) == Some("<%s>"))
            .expect("a printf");
        let fields: Option<String> =
            run.argv[2..].iter().map(|arg| arg.text().map(|text| format!("<{text}>"))).collect();
        // `printf` without arguments prints its format once.
        let fields = fields.map(|fields| if fields.is_empty() { "<>".to_owned() } else { fields });
        let printed = String::from_utf8_lossy(&shell.stdout).into_owned();
        assert_eq!(fields, Some(printed), "{line}");
    }
}
