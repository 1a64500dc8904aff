//! What nobody may read, through every sandbox: hidden where mounts can hide it, and no command without that.

use std::fs;
use std::path::Path;

use helve_core::{ErrorKind, Exit, SandboxChoice, View};
use pretty_assertions::assert_eq;

use crate::common::{backend, block_on, choices, job, run, view};

fn those_that_mount() -> impl Iterator<Item = SandboxChoice> {
    choices().into_iter().filter(|choice| matches!(choice, SandboxChoice::Native | SandboxChoice::Bwrap))
}

fn scene(workspace: &Path) -> View {
    fs::create_dir_all(workspace.join("deep/er")).unwrap();
    fs::create_dir_all(workspace.join("vault")).unwrap();
    for file in [".env", "deep/er/Key.pem", "vault/x", "plain"] {
        fs::write(workspace.join(file), "TOKEN=canary\n").unwrap();
    }
    View { deny_read: vec![".env".into(), "*.pem".into(), "vault/".into()], ..view(workspace) }
}

#[test]
fn what_is_denied_is_empty_inside_and_whole_outside() {
    for choice in those_that_mount() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let view = scene(&workspace);
        let done = run(&choice, view.clone(), "grep -r canary . ; cat .env deep/er/Key.pem; ls vault");
        assert_eq!(done.stdout, "./plain:TOKEN=canary\n", "{choice:?} {}", done.stderr);
        let replace = "echo x > .env; rm -f .env; mv deep moved; rm -rf vault; mv .env y; ln .env z; cat z";
        let done = run(&choice, view, replace);
        assert!(!done.stdout.contains("canary"), "{choice:?} {}", done.stdout);
        for file in [".env", "deep/er/Key.pem", "vault/x"] {
            let text = fs::read_to_string(workspace.join(file)).unwrap();
            assert_eq!(text, "TOKEN=canary\n", "{choice:?} {file}");
        }
    }
}

#[test]
fn what_a_command_makes_there_is_its_own_until_the_next_call() {
    for choice in those_that_mount() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let view = View { deny_read: vec![".env".into()], ..view(&workspace) };
        let backend = backend(&choice, view);
        let call = |command: &str| {
            let sink = crate::common::Collector::default();
            let ended = backend.run(job(command), Box::new(sink.clone()), helve_core::Cancel::never());
            let ended = block_on(ended).unwrap();
            assert_eq!((ended.exit, ended.removed), (Exit::Code(0), Vec::new()), "{choice:?} {command}");
            let text = sink.0.lock().unwrap().stdout.clone();
            String::from_utf8(text).unwrap()
        };
        for round in 0..4 {
            let file = format!("{round}/.env");
            assert_eq!(call(&format!("mkdir {round}; echo mine > {file}; cat {file}")), "mine\n");
            assert_eq!(call(&format!("cat {file}")), "", "{choice:?}");
            assert_eq!(fs::read_to_string(workspace.join(file)).unwrap(), "mine\n");
        }
    }
}

#[test]
fn a_sandbox_that_cannot_hide_it_runs_nothing() {
    for choice in choices().into_iter().filter(|choice| *choice == SandboxChoice::Landlock) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let done = run(&choice, scene(&workspace), "cat .env; touch ran");
        let error = done.exit.unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.message.contains("cannot hide"), "{error}");
        assert!(!workspace.join("ran").exists() && done.stdout.is_empty());
    }
}
