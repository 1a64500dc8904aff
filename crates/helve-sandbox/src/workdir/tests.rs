use std::collections::BTreeMap;

use helve_core::{Explain, Network};
use pretty_assertions::assert_eq;

use super::*;

fn view(workspace: &Path) -> View {
    View {
        workspace: workspace.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: BTreeMap::new(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    }
}

#[test]
fn hidden_directory_hides_all_of_itself_except_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("state/shown/dir")).unwrap();
    let mut view = view(&root);
    let kind = |view: &View, dir: &str| {
        let dir = root.join(dir);
        open(view, dir.to_str()).map(|dir| dir.path).map_err(|error| error.kind)
    };
    view.hidden = vec![root.join("state")];
    view.read_only = vec![root.join("state/shown")];
    for dir in ["state", "state/shown", "state/shown/dir"] {
        assert_eq!(kind(&view, dir), Err(ErrorKind::Blocked), "{dir}");
    }
    view.workspace = root.join("state/shown");
    assert_eq!(kind(&view, "state/shown"), Ok(root.join("state/shown")));
    view.hidden.push(root.join("state/shown/dir"));
    assert_eq!(kind(&view, "state/shown/dir"), Err(ErrorKind::Blocked));
    view.hidden.push(root.join("state/shown"));
    assert_eq!(kind(&view, "state/shown"), Err(ErrorKind::Blocked));
}

#[test]
fn twin_of_a_roots_name_is_not_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ws", "ws-twin"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let twin = folder.path().join("ws-twin");
    let error = open(&view(&folder.path().join("ws")), twin.to_str()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Blocked);
}
