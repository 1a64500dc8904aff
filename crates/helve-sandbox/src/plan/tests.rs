use std::collections::BTreeMap;

use pretty_assertions::assert_eq;

use helve_core::{Explain, View};

use super::*;
use crate::bwrap::options::{self, Options};

fn view(workspace: &Path) -> View {
    View {
        workspace: workspace.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: BTreeMap::from([("HOME".to_owned(), "/home/user".to_owned())]),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    }
}

fn plan(view: &View, file_bytes: u64) -> Plan {
    let rules = rules::resolve(view).unwrap();
    let home = view.env.get("HOME").map(Path::new);
    super::plan(&Wanted { rules: &rules, home, network: view.network, file_bytes }).unwrap()
}

/// The plan's rules at and below `root`.
fn below(plan: &Plan, root: &Path) -> Vec<(String, Mount)> {
    let inside = plan.0.iter().filter(|(path, _)| path.starts_with(root));
    inside
        .map(|(path, mount)| (path.strip_prefix(root).unwrap().display().to_string(), mount.clone()))
        .collect()
}

#[test]
fn the_stricter_rule_wins_at_one_place_and_the_deeper_rule_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws/a/b", "ws/frozen", "ws/secret", "both"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("ws/key"), "").unwrap();
    let mut view = view(&root.join("ws"));
    view.read_write = vec![root.join("both"), root.join("ws/a")];
    view.read_only = vec![root.join("both"), root.join("ws/frozen"), root.join("ws/secret")];
    view.hidden =
        vec![root.join("ws/secret"), root.join("ws/key"), root.join("ws/absent"), root.join("elsewhere")];
    let expected = [
        ("both", Mount::ReadOnly),
        ("ws", Mount::ReadWrite),
        ("ws/a", Mount::ReadWrite),
        ("ws/frozen", Mount::ReadOnly),
        ("ws/key", Mount::HiddenFile),
        ("ws/secret", Mount::HiddenDirectory),
    ];
    assert_eq!(below(&plan(&view, u64::MAX), &root), expected.map(|(path, mount)| (path.to_owned(), mount)));
}

#[test]
fn accounts_secrets_are_never_planned() {
    let folder = tempfile::tempdir().unwrap();
    let mut view = view(folder.path());
    for network in [Network::Off, Network::Host] {
        view.network = network;
        let plan = plan(&view, u64::MAX);
        for path in [
            "/etc",
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/sudoers",
            "/etc/ssh",
            "/root",
            "/home",
            "/run",
            "/var",
        ] {
            assert!(!plan.0.contains_key(Path::new(path)), "{path}");
        }
        assert_eq!(plan.0.get(Path::new("/home/user")), Some(&Mount::Private));
        assert_eq!(plan.0.get(Path::new("/tmp")), Some(&Mount::Private));
        let hosts = plan.0.get(Path::new("/etc/hosts"));
        assert_eq!(hosts == Some(&Mount::File(LOCAL_HOSTS)), network == Network::Off);
    }
}

#[test]
fn no_new_file_is_larger_than_a_command_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let view = view(folder.path());
    for limit in [0, 33, 1000, u64::MAX] {
        for (path, mount) in plan(&view, limit).0 {
            let bytes = match mount {
                Mount::Copy => path.metadata().unwrap().len(),
                Mount::File(content) => content.len() as u64,
                _ => 0,
            };
            assert!(bytes <= limit.min(COPY_BYTES), "{}: {bytes} bytes under {limit}", path.display());
        }
    }
}

#[test]
fn home_inside_the_workspace_stays_the_workspaces() {
    let folder = tempfile::tempdir().unwrap();
    let mut view = view(folder.path());
    let home = folder.path().join("home");
    view.env.insert("HOME".to_owned(), home.display().to_string());
    assert!(!plan(&view, u64::MAX).0.contains_key(&home));
}

#[test]
fn options_come_parent_first_and_end_with_the_seal() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options::write(&plan(&view(folder.path()), u64::MAX), &mut options, |_| Ok(9)).unwrap();
    let text = String::from_utf8(options.0).unwrap();
    let words: Vec<&str> = text.split_terminator('\0').collect();
    assert_eq!(words[words.len() - 2..], ["--remount-ro", "/"]);
    let place = |word: &str| words.iter().position(|other| *other == word).unwrap();
    assert!(place("/tmp") < place(folder.path().canonicalize().unwrap().to_str().unwrap()));
    let hosts = place("/etc/hosts");
    assert_eq!(words[hosts - 2..hosts], ["--file", "9"]);
}

#[test]
fn hidden_directory_takes_out_what_is_below_it_except_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["a/ws/sub", "a/rw", "a/ro"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let mut view = view(&root.join("a/ws"));
    view.read_write = vec![root.join("a/rw")];
    view.read_only = vec![root.join("a/ro"), root.join("a/ws/sub")];
    view.hidden = vec![root.join("a"), "/etc".into(), "/home".into()];
    let expected = [("a/ws", Mount::ReadWrite), ("a/ws/sub", Mount::ReadOnly)];
    let expected = expected.map(|(path, mount)| (path.to_owned(), mount));
    let planned = plan(&view, u64::MAX);
    assert_eq!(below(&planned, &root), expected);
    assert_eq!(below(&planned, Path::new("/etc")), []);
    // The private home holds nothing of the hidden one.
    assert_eq!(planned.0.get(Path::new("/home/user")), Some(&Mount::Private));
    // Where something shows the hidden directory it is covered, and the workspace lies on the cover.
    view.read_only.push(root.clone());
    let expected = [
        ("", Mount::ReadOnly),
        ("a", Mount::HiddenDirectory),
        ("a/ws", Mount::ReadWrite),
        ("a/ws/sub", Mount::ReadOnly),
    ];
    assert_eq!(below(&plan(&view, u64::MAX), &root), expected.map(|(path, mount)| (path.to_owned(), mount)));
}

#[test]
fn link_of_etc_does_not_show_what_is_hidden() {
    let Ok(real) = Path::new("/etc/localtime").canonicalize() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut view = view(folder.path());
    assert!(plan(&view, u64::MAX).0.contains_key(Path::new("/etc/localtime")));
    view.hidden = vec![real.parent().unwrap().to_owned()];
    assert!(!plan(&view, u64::MAX).0.contains_key(Path::new("/etc/localtime")));
}

#[test]
fn what_is_made_before_the_plan_is_known_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&view(folder.path()), u64::MAX);
    let small = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.len() <= COPY_BYTES);
    let usual: Vec<_> = usual().filter(|(path, mount)| *mount != Mount::Copy || small(path)).collect();
    assert!(usual.len() > 1, "{usual:?}");
    for (path, mount) in usual {
        assert_eq!(plan.0.get(&path), Some(&mount), "{path:?}");
    }
}
