//! The choice `auto`: it becomes one of Helve's own sandboxes, says which, and remembers it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::{Cancel, Ended, ErrorKind, Exit, ShellBackend, ToolError, View};
use pretty_assertions::assert_eq;

use crate::common::{Collector, LIMITS, block_on, job, view};

fn ladder(workspace: &Path, state: &Path) -> Arc<dyn ShellBackend> {
    helve_sandbox::ladder(view(workspace), LIMITS, Some(state.to_owned())).unwrap()
}

fn run(backend: &dyn ShellBackend, command: &str) -> Result<Ended, ToolError> {
    block_on(backend.run(job(command), Box::new(Collector::default()), Cancel::never()))
}

/// A directory that is the caller's alone: nothing is remembered elsewhere.
fn own_directory() -> tempfile::TempDir {
    let own = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(own).tempdir().unwrap()
}

fn kept(state: &Path) -> PathBuf {
    state.join("sandbox-probe.json")
}

/// Whether any rung holds on this machine; where none does, refusing is what has to happen.
fn some_rung_holds(workspace: &Path, state: &Path) -> bool {
    match ladder(workspace, state).ready() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
            assert!(error.message.contains("native: ") && error.message.contains("landlock: "), "{error:?}");
            println!("skipped what needs a sandbox: {}", error.message);
            false
        }
    }
}

#[test]
fn it_is_the_rung_that_holds_and_says_so() {
    let (workspace, state) = (tempfile::tempdir().unwrap(), own_directory());
    let (workspace, state) = (workspace.path(), state.path());
    if !some_rung_holds(workspace, state) {
        return;
    }
    std::fs::remove_file(kept(state)).unwrap();
    let first = ladder(workspace, state);
    assert!(first.contains());
    assert_eq!(
        (first.report().backend.as_str(), first.report().layers.len()),
        ("auto", 0),
        "nothing is known yet"
    );
    let ended = run(&*first, "exit 3").unwrap();
    assert_eq!(ended.exit, Exit::Code(3));
    assert!(["native", "landlock"].contains(&ended.sandbox.backend.as_str()), "{ended:?}");
    assert!(ended.sandbox.layers.iter().any(|layer| layer == "seccomp"), "{ended:?}");
    assert_eq!(first.report().backend, ended.sandbox.backend);
    // The next process knows it without trying.
    let second = ladder(workspace, state);
    assert_eq!(second.report().backend, ended.sandbox.backend);
    assert_eq!(run(&*second, "true").unwrap().sandbox.backend, ended.sandbox.backend);
}

#[test]
fn what_cannot_be_had_after_all_is_forgotten() {
    let (workspace, state) = (tempfile::tempdir().unwrap(), own_directory());
    if !some_rung_holds(workspace.path(), state.path()) {
        return;
    }
    assert!(kept(state.path()).exists());
    let shell = workspace.path().join("shell");
    let seen = View { shell: shell.clone(), ..view(workspace.path()) };
    let backend = helve_sandbox::ladder(seen, LIMITS, Some(state.path().to_owned())).unwrap();
    let error = run(&*backend, "true").unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{error:?}");
    assert!(!kept(state.path()).exists());
    std::os::unix::fs::symlink("/bin/sh", shell).unwrap();
    assert_eq!(run(&*backend, "true").unwrap().exit, Exit::Code(0), "it works again when its cause is gone");
    assert!(kept(state.path()).exists());
}

#[test]
fn without_a_place_to_remember_it_works_too() {
    let workspace = tempfile::tempdir().unwrap();
    let state = own_directory();
    if !some_rung_holds(workspace.path(), state.path()) {
        return;
    }
    for remember_in in [None, Some(state.path().join("absent"))] {
        let backend = helve_sandbox::ladder(view(workspace.path()), LIMITS, remember_in).unwrap();
        assert_eq!(run(&*backend, "true").unwrap().exit, Exit::Code(0));
    }
    assert!(!state.path().join("absent").exists());
}
