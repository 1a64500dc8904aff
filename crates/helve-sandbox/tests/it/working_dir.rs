//! Where a command starts, and where it may not.

use std::os::unix::fs::symlink;

use helve_core::{ErrorKind, Exit, SandboxChoice, ShellJob, View};
use pretty_assertions::assert_eq;

use crate::common::{Done, choices_that_hide, job, run_job, view};

fn scene() -> (tempfile::TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws/sub/deep", "ws/.state", "outside", "tools/bin"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("ws/file"), "").unwrap();
    symlink(root.join("outside"), root.join("ws/out")).unwrap();
    symlink("../outside", root.join("ws/out-relative")).unwrap();
    symlink("/proc/self/root", root.join("ws/magic")).unwrap();
    symlink("sub/deep", root.join("ws/short")).unwrap();
    symlink("loop", root.join("ws/loop")).unwrap();
    let mut view = view(&root.join("ws"));
    view.read_only = vec![root.join("tools")];
    view.hidden = vec![root.join("ws/.state")];
    (folder, view)
}

fn start_in(choice: &SandboxChoice, view: &View, working_dir: &str) -> Done {
    run_job(choice, view.clone(), ShellJob { working_dir: Some(working_dir.to_owned()), ..job("pwd -P") })
}

#[test]
fn inside_the_view_it_is_entered() {
    let (folder, view) = scene();
    let root = folder.path().canonicalize().unwrap();
    let absolute = root.join("ws/sub");
    let read_only = root.join("tools/bin");
    for choice in choices_that_hide() {
        for (asked, real) in [
            ("", "ws"),
            (".", "ws"),
            ("sub", "ws/sub"),
            ("sub/../sub/deep/", "ws/sub/deep"),
            ("short", "ws/sub/deep"),
            (absolute.to_str().unwrap(), "ws/sub"),
            (read_only.to_str().unwrap(), "tools/bin"),
        ] {
            let done = start_in(&choice, &view, asked);
            assert_eq!(done.exit, Ok(Exit::Code(0)), "{choice:?} {asked}: {}", done.stderr);
            assert_eq!(done.stdout, format!("{}\n", root.join(real).display()), "{choice:?} {asked}");
        }
    }
}

#[test]
fn outside_the_view_it_is_blocked_with_the_roots_that_are_allowed() {
    let (folder, view) = scene();
    let root = folder.path().canonicalize().unwrap();
    let text = |path: &str| root.join(path).display().to_string();
    for choice in choices_that_hide() {
        for asked in [
            "..".to_owned(),
            "sub/../../outside".to_owned(),
            "out".to_owned(),
            "out-relative".to_owned(),
            "magic".to_owned(),
            "magic/etc".to_owned(),
            "loop".to_owned(),
            ".state".to_owned(),
            "/".to_owned(),
            "/etc".to_owned(),
            "/proc/self/cwd".to_owned(),
            text("outside"),
            text("ws/../outside"),
            text("ws2"),
            text("tools/../outside"),
        ] {
            let error = start_in(&choice, &view, &asked).exit.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Blocked, "{choice:?} {asked}: {error:?}");
            assert!(
                error.message.starts_with("Command blocked: working_dir is outside the view"),
                "{error:?}"
            );
            assert!(error.message.contains(view.workspace.to_str().unwrap()), "{error:?}");
        }
    }
}

#[test]
fn what_is_missing_or_no_directory_says_so() {
    let (_folder, view) = scene();
    for choice in choices_that_hide() {
        for (asked, kind) in [
            ("absent", ErrorKind::NotFound),
            ("sub/absent", ErrorKind::NotFound),
            ("file", ErrorKind::ToolFailed),
            ("file/sub", ErrorKind::ToolFailed),
        ] {
            let error = start_in(&choice, &view, asked).exit.unwrap_err();
            assert_eq!(error.kind, kind, "{choice:?} {asked}: {error:?}");
            assert!(error.hint.is_some(), "{choice:?} {asked}");
        }
    }
}
