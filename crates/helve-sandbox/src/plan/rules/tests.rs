use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use helve_core::{Explain, Network};
use pretty_assertions::assert_eq;

use super::*;

/// A folder with `ws`, `rw`, `ro` and `out` in it, and a view of the first three.
fn scene() -> (tempfile::TempDir, PathBuf, View) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws/data/x", "ws/frozen/deep/er", "rw/a/b", "ro/c/d", "out"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let view = View {
        workspace: root.join("ws"),
        read_only: vec![root.join("ro"), root.join("ws/frozen")],
        read_write: vec![root.join("rw")],
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: BTreeMap::new(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    };
    (folder, root, view)
}

/// The view with one more rule of each kind in turn.
fn with_each(view: &View, path: &Path) -> [View; 3] {
    let mut views = [view.clone(), view.clone(), view.clone()];
    views[0].read_only.push(path.to_owned());
    views[1].read_write.push(path.to_owned());
    views[2].hidden.push(path.to_owned());
    views
}

#[test]
fn rule_inside_a_writable_directory_must_name_one_of_its_entries() {
    let (_folder, root, view) = scene();
    for (path, holds) in [
        ("ws/data", true),
        ("ws/absent", true),
        ("ws/data/x", false),
        ("ws/absent/x", false),
        ("ws/data/../data/x", false),
        ("rw/a", true),
        ("rw/a/b", false),
        // Nothing can be moved where commands cannot write.
        ("ro/c/d", true),
        ("ws/frozen/deep/er", true),
        ("out", true),
    ] {
        for view in with_each(&view, &root.join(path)) {
            let answer = resolve(&view).map(drop);
            assert_eq!(answer.is_ok(), holds, "{path}: {answer:?}");
            let Err(error) = answer else { continue };
            assert_eq!(error.kind, ErrorKind::Blocked, "{path}");
            assert!(error.message.contains("could move") && error.hint.is_some(), "{error:?}");
        }
    }
    let mut deep = view.clone();
    deep.read_write = vec![root.clone()];
    deep.workspace = root.join("ws/data");
    deep.read_only.clear();
    assert_eq!(resolve(&deep).unwrap_err().kind, ErrorKind::Blocked);
}

#[test]
fn link_that_commands_could_change_is_refused() {
    let (_folder, root, view) = scene();
    symlink(root.join("out"), root.join("ws/link")).unwrap();
    symlink("link", root.join("ws/second")).unwrap();
    symlink(root.join("ws/link"), root.join("via")).unwrap();
    symlink(root.join("out"), root.join("alias")).unwrap();
    symlink("nowhere", root.join("ws/dangling")).unwrap();
    symlink(root.join("ws"), root.join("to-ws")).unwrap();
    for (path, real) in [
        ("ws/link", None),
        ("ws/second", None),
        ("ws/link/../ro", None),
        ("via", None),
        ("ws/dangling", None),
        ("alias", Some("out")),
        ("to-ws/data", Some("ws/data")),
        ("./ws/../alias/absent", Some("out/absent")),
    ] {
        let mut view = view.clone();
        view.hidden.push(root.join(path));
        let answer = resolve(&view).map(|rules| rules.hidden[0].real.clone()).map_err(|error| error.kind);
        assert_eq!(answer, real.map(|real| root.join(real)).ok_or(ErrorKind::Blocked), "{path}");
    }
    symlink(root.join("loop"), root.join("loop")).unwrap();
    let mut looped = view.clone();
    looped.hidden.push(root.join("loop"));
    assert_eq!(resolve(&looped).unwrap_err().kind, ErrorKind::SandboxUnavailable);
}

#[test]
fn link_that_came_later_is_refused_at_the_call() {
    let (_folder, root, mut view) = scene();
    view.hidden.push(root.join("ws/late"));
    let rules = resolve(&view).unwrap();
    assert_eq!(rules.check_entries(), Ok(()));
    std::fs::write(root.join("ws/late"), "").unwrap();
    assert_eq!(rules.check_entries(), Ok(()));
    std::fs::remove_file(root.join("ws/late")).unwrap();
    symlink(root.join("out"), root.join("ws/late")).unwrap();
    assert_eq!(rules.check_entries().unwrap_err().kind, ErrorKind::Blocked);
}

#[test]
fn root_directory_and_a_hidden_workspace_are_refused() {
    let (_folder, root, view) = scene();
    for view in with_each(&view, Path::new("/")) {
        let error = resolve(&view).unwrap_err();
        assert!(error.message.contains("root directory"), "{error:?}");
    }
    let mut hidden = view;
    hidden.hidden.push(root.join("ws"));
    assert_eq!(resolve(&hidden).unwrap_err().kind, ErrorKind::Blocked);
}
