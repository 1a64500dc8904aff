use std::collections::BTreeMap;

use helve_core::{Explain, Network, View};
use pretty_assertions::assert_eq;

use super::*;
use crate::plan::rules::resolve;
use crate::plan::{self, Wanted};

/// A folder with a workspace and a directory of tools.
struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
    view: View,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws/inner", "tools/bin", "tools/deep/keys", "tools/deep/lib"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["ws/helve.toml", "ws/token", "tools/credentials", "tools/readme", "tools/deep/keys/one"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("/", root.join("tools/link")).unwrap();
    let view = View {
        workspace: root.join("ws"),
        read_only: vec![root.join("tools")],
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: BTreeMap::new(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    };
    Scene { _folder: folder, root, view }
}

impl Scene {
    /// The grants inside the scene's folder, relative to it.
    fn grants(&self) -> Result<Vec<(String, Access)>, ToolError> {
        let rules = resolve(&self.view).unwrap();
        let wanted = Wanted { rules: &rules, home: None, network: Network::Off, file_bytes: 1 << 20 };
        let plan = plan::plan(&wanted).unwrap();
        let mut grants: Vec<(String, Access)> = grants(&plan, &self.view.workspace, &self.view.protected)?
            .into_iter()
            .filter_map(|(path, access)| {
                Some((path.strip_prefix(&self.root).ok()?.display().to_string(), access))
            })
            .collect();
        grants.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(grants)
    }
}

fn granted(entries: &[(&str, Access)]) -> Vec<(String, Access)> {
    entries.iter().map(|(path, access)| ((*path).to_owned(), *access)).collect()
}

#[test]
fn a_view_is_granted_place_by_place() {
    let mut scene = scene();
    assert_eq!(scene.grants(), Ok(granted(&[("tools", Access::Use), ("ws", Access::Change)])));
    // What lies in a writable place is granted with it, and never opened by name.
    scene.view.read_write = vec![scene.root.join("ws/inner")];
    assert_eq!(scene.grants(), Ok(granted(&[("tools", Access::Use), ("ws", Access::Change)])));
    scene.view.read_write = vec![scene.root.join("tools/bin")];
    let expected = [("tools", Access::Use), ("tools/bin", Access::Change), ("ws", Access::Change)];
    assert_eq!(scene.grants(), Ok(granted(&expected)));
}

#[test]
fn what_is_beside_something_hidden_is_granted_one_by_one() {
    let mut scene = scene();
    scene.view.hidden = vec![scene.root.join("tools/credentials"), scene.root.join("tools/deep/keys")];
    let expected = [
        ("tools/bin", Access::Use),
        ("tools/deep/lib", Access::Use),
        ("tools/readme", Access::Use),
        ("ws", Access::Change),
    ];
    assert_eq!(scene.grants(), Ok(granted(&expected)));
    for index in 0..=MOST_BESIDE {
        std::fs::write(scene.root.join(format!("tools/{index}")), "").unwrap();
    }
    assert!(scene.grants().unwrap_err().message.contains("cannot show"));
}

#[test]
fn what_would_be_taken_from_a_writable_place_is_refused() {
    let mut scene = scene();
    scene.view.hidden = vec![scene.root.join("ws/token")];
    let error = scene.grants().unwrap_err();
    assert!(error.message.contains("cannot hide") && error.message.contains("ws/token"), "{error:?}");
    assert_eq!((error.kind, error.hint.is_some()), (ErrorKind::Blocked, true));
    // Hidden and absent is nothing to be hidden.
    scene.view.hidden = vec![scene.root.join("ws/absent")];
    assert!(scene.grants().is_ok());
    scene.view.read_only.push(scene.root.join("ws/helve.toml"));
    let error = scene.grants().unwrap_err();
    assert!(error.message.contains("cannot keep") && error.hint.is_some(), "{error:?}");
    // What is protected by name is put back after the command.
    scene.view.protected = vec!["helve.toml".to_owned()];
    assert_eq!(scene.grants(), Ok(granted(&[("tools", Access::Use), ("ws", Access::Change)])));
}
