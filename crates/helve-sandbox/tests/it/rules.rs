//! Rules of the view that a command tries to get around, in its own call and from one call to the next.

use std::path::PathBuf;

use helve_core::{ErrorKind, SandboxChoice, View};
use pretty_assertions::assert_eq;

use crate::common::{LIMITS, bwrap_works, output, run, view};

const BWRAP: SandboxChoice = SandboxChoice::Bwrap;

/// A workspace, and beside it a directory that no command may see.
fn scene() -> (tempfile::TempDir, PathBuf, View) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws", "out"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    std::fs::write(root.join("out/letter"), "canary-91c2").unwrap();
    let view = view(&root.join("ws"));
    (folder, root, view)
}

#[test]
fn entry_with_a_rule_can_neither_be_moved_nor_removed() {
    if !bwrap_works() {
        return;
    }
    let (_folder, root, mut view) = scene();
    let ws = root.join("ws");
    for name in ["ro-dir", "hidden-dir", "rw-dir"] {
        std::fs::create_dir(ws.join(name)).unwrap();
    }
    for name in ["ro-file", "hidden-file"] {
        std::fs::write(ws.join(name), name).unwrap();
    }
    let names = ["ro-dir", "hidden-dir", "rw-dir", "ro-file", "hidden-file"];
    let rules = |kind: &str| {
        names.iter().filter(|name| name.starts_with(kind)).map(|name| ws.join(name)).collect::<Vec<_>>()
    };
    view.read_only = rules("ro");
    view.hidden = rules("hidden");
    view.read_write = rules("rw");
    let command = "for n in ro-dir hidden-dir rw-dir ro-file hidden-file; do \
            mv -T $n moved-$n; mkdir other; mv --exchange -T other $n; rmdir $n; rm -f $n; ln -f $n linked-$n; \
            ln -sfn /etc $n; ln -sfT /etc $n; done 2>/dev/null; ls -d moved-* linked-* 2>/dev/null; echo tried";
    assert_eq!(output(&BWRAP, view, command), "tried\n");
    for name in names {
        let kind = ws.join(name).symlink_metadata().unwrap().file_type();
        assert_eq!(
            (kind.is_dir(), kind.is_file()),
            (name.ends_with("dir"), name.ends_with("file")),
            "{name}"
        );
    }
}

#[test]
fn moving_a_parent_between_calls_gains_nothing() {
    if !bwrap_works() {
        return;
    }
    let (_folder, root, plain) = scene();
    let ws = root.join("ws");
    std::fs::create_dir_all(ws.join("conf/hid")).unwrap();
    std::fs::write(ws.join("conf/hid/token"), "canary-91c2").unwrap();
    let backend = |view: &View| helve_sandbox::backend(&BWRAP, view.clone(), LIMITS);
    // A deep rule is refused, and the rule that the hint names holds.
    let mut hides = plain.clone();
    hides.hidden = vec![ws.join("conf/hid")];
    let error = backend(&hides).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Blocked);
    assert!(error.hint.unwrap().contains(ws.join("conf").to_str().unwrap()));
    hides.hidden = vec![ws.join("conf")];
    let text = output(&BWRAP, hides.clone(), "mv conf conf2 2>/dev/null; grep -r canary . || echo nothing");
    assert_eq!(text, "nothing\n");
    // What a command prepares for a rule that finds nothing yet.
    let mut shows = plain.clone();
    shows.read_only = vec![ws.join("data")];
    output(&BWRAP, plain, &format!("ln -s {} data", root.join("out").display()));
    let error = backend(&shows).err().unwrap();
    assert!(error.kind == ErrorKind::Blocked && error.message.contains("symbolic link"), "{error:?}");
}

#[test]
fn one_backend_does_not_follow_a_link_that_a_command_made() {
    if !bwrap_works() {
        return;
    }
    let (_folder, root, mut view) = scene();
    view.read_only = vec![root.join("ws/data")];
    view.hidden = vec![root.join("ws/late")];
    let backend = helve_sandbox::backend(&BWRAP, view, LIMITS).unwrap();
    let call = |command: &str| {
        let sink = crate::common::Collector::default();
        let job = crate::common::job(command);
        let run = backend.run(job, Box::new(sink.clone()), helve_core::Cancel::never());
        let exit = crate::common::block_on(run);
        (exit, String::from_utf8(sink.0.lock().unwrap().stdout.clone()).unwrap())
    };
    // What comes to be hidden while the backend lives is hidden from then on.
    std::fs::write(root.join("ws/late"), "canary-91c2").unwrap();
    assert_eq!(call("cat late; echo end").1, "end\n");
    let (_, text) = call(&format!("ln -s {} data; ls", root.join("out").display()));
    assert_eq!(text, "data\nlate\n");
    let (exit, text) = call("cat data/letter");
    assert_eq!((exit.unwrap_err().kind, text.as_str()), (ErrorKind::Blocked, ""));
}

#[test]
fn hidden_directories_hide_what_the_view_shows_of_them() {
    if !bwrap_works() {
        return;
    }
    let (_folder, root, mut view) = scene();
    let inner = root.join("out/inner");
    std::fs::create_dir(&inner).unwrap();
    view.read_only = vec![inner.clone()];
    for (hidden, place) in [("/etc", "/etc"), ("/etc/ssl", "/etc/ssl"), ("/usr/share", "/usr/share")] {
        view.hidden = vec![hidden.into()];
        let text = output(&BWRAP, view.clone(), &format!("ls -A {place} 2>/dev/null; echo end"));
        assert_eq!(text, "end\n", "{hidden}");
    }
    view.hidden = vec![root.clone()];
    let command = format!("pwd; ls {} 2>/dev/null; ls ..", inner.display());
    assert_eq!(output(&BWRAP, view.clone(), &command), format!("{}\nws\n", view.workspace.display()));
}

#[test]
fn writable_bwrap_is_refused_by_its_true_reason() {
    if !bwrap_works() {
        return;
    }
    let (_folder, _, mut view) = scene();
    view.read_write = vec!["/usr".into()];
    let error = run(&BWRAP, view.clone(), "true").exit.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
    assert!(error.message.contains("directory that commands can write"), "{error:?}");
    view.read_write = vec!["/".into()];
    let error = helve_sandbox::backend(&BWRAP, view, LIMITS).err().unwrap();
    assert!(error.message.contains("root directory"), "{error:?}");
}
