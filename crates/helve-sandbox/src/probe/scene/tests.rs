use std::collections::BTreeMap;

use super::*;

/// The scene in a directory of the test's own, through which everybody may pass, as through the system's.
fn scene(place: &tempfile::TempDir) -> Scene {
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    let mark =
        format!("helve-test-{}-{:016x}", std::process::id(), RandomState::new().build_hasher().finish());
    let scratch = Scratch::make_in(&place.path().canonicalize().unwrap(), &mark).unwrap();
    Scene::set_in(scratch, mark, Path::new("/proc/self/exe")).unwrap()
}

/// Everything in it: kind, permissions, owner and which file it is.
fn everything(place: &Path) -> BTreeMap<PathBuf, (bool, u32, u32, u64)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![place.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = path.symlink_metadata().unwrap();
        // In the workspace the user of the sandbox may do what he likes: root opens and executes nothing there.
        if metadata.is_dir() && !path.ends_with("workspace") {
            rest.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (metadata.is_dir(), metadata.mode(), metadata.uid(), metadata.ino()));
    }
    found
}

#[test]
fn nobody_else_can_change_what_it_consists_of() {
    let place = tempfile::tempdir().unwrap();
    let scene = scene(&place);
    let (own, workspace) = (rustix::process::geteuid().as_raw(), scene.stage.workspace());
    let all = everything(&scene.stage.place);
    assert_eq!(all[&scene.stage.place].1 & 0o027, 0, "others do not even get in, one group only through");
    for (path, (is_directory, mode, owner, _)) in &all {
        assert!(!is_directory || mode & 0o022 == 0 || mode & 0o1000 != 0, "{} {mode:o}", path.display());
        assert!(*owner == own || *path == workspace, "{} {owner}", path.display());
    }
    assert!(!scene.program.starts_with(&scene.stage.place), "nothing of it is executed outside");
}

/// Users whom root's scene is not for, and the one whom it is for, try to put a link to a file of root into it.
#[test]
fn an_attacker_who_swaps_its_names_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become other users");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    std::fs::write(&victim, "secret").unwrap();
    std::fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    let scene = scene(&place);
    let before = everything(&scene.stage.place);
    let attack = "for name in hidden shown program workspace hidden/file shown/file program/helve-sandbox-probe; do \
                  mv \"$1/$name\" \"$1/$name.old\"; rm -rf \"$1/$name\"; ln -sfn \"$2\" \"$1/$name\"; \
                  ln -s \"$2\" \"$1/$name/link\"; done; mv \"$1\" \"$1.old\"; :";
    for user in [NOBODY, NOBODY - 1] {
        let mut attacker = Command::new("/bin/sh");
        attacker.args(["-c", attack, "sh"]).arg(&scene.stage.place).arg(&victim);
        attacker.uid(user).gid(user).current_dir("/").stderr(Stdio::null());
        assert!(attacker.status().unwrap().success());
        assert_eq!(everything(&scene.stage.place), before, "user {user}");
    }
    let outcomes = scene.play_outside().unwrap();
    assert_eq!(outcomes[..4], [Outcome::Done; 4]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "secret");
    assert_eq!(std::fs::read_to_string(scene.stage.hidden()).unwrap(), "hiddenx");
}
