//! The owner's own template, with the programs that people use for it.

use helve_core::{ErrorKind, Exit, SandboxChoice};
use pretty_assertions::assert_eq;

use crate::common::{LIMITS, backend, bwrap_works, firejail_works, output, run, view};

/// The example of many manuals: the quotes around the placeholder are the template's.
const BWRAP_TEMPLATE: &str = "bwrap --ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib \
    --ro-bind-try /lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --bind {cwd} {cwd} --chdir {cwd} -- sh -c \"{command}\"";

fn wrapper(template: &str) -> SandboxChoice {
    SandboxChoice::Wrapper { template: template.to_owned() }
}

#[test]
fn nothing_of_the_command_runs_outside_the_wrapper() {
    if !bwrap_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("my ws");
    std::fs::create_dir(&workspace).unwrap();
    let mark = folder.path().join("mark");
    let tries = [
        format!("echo \"$(touch {m}; echo a)\"; true && touch {m}; touch '{m}'", m = mark.display()),
        format!("echo a; `touch {m}`; touch {m}", m = mark.display()),
    ];
    for template in [BWRAP_TEMPLATE, &BWRAP_TEMPLATE.replace("sh -c \"{command}\"", "{command}")] {
        for command in &tries {
            let done = run(&wrapper(template), view(&workspace), command);
            assert!(done.stdout.starts_with("a\n") && !mark.exists(), "{template}\n{command}\n{done:?}");
        }
        assert_eq!(output(&wrapper(template), view(&workspace), "echo \"it's\" > f && cat f; pwd"), {
            format!("it's\n{}\n", workspace.canonicalize().unwrap().display())
        });
    }
}

#[test]
fn firejail_runs_the_command() {
    if !firejail_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let choice = wrapper("firejail --quiet --noprofile --private={cwd} -- {command}");
    let done = run(&choice, view(folder.path()), "echo one && echo two");
    assert_eq!((done.exit, done.stdout.as_str()), (Ok(Exit::Code(0)), "one\ntwo\n"), "{}", done.stderr);
}

#[test]
fn it_reports_no_layers_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&wrapper("{command}"), view(folder.path()));
    assert_eq!((backend.report().backend.as_str(), backend.report().layers.len()), ("wrapper", 0));
    assert!(!backend.contains());
}

#[test]
fn template_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for template in ["", "firejail --", "sh -c \"{command}"] {
        let error = helve_sandbox::backend(&wrapper(template), view(folder.path()), LIMITS).err().unwrap();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{template}");
        assert!(error.hint.is_some());
    }
}
