//! Calls of two keepers in one workspace, as two processes have them.

use std::time::Duration;

use pretty_assertions::assert_eq;

use super::*;

/// Another keeper of the same workspace.
fn another(scene: &Scene, mounts: bool) -> Keeper {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, scene.folder.path(), flags, Mode::empty()).unwrap();
    let names: Vec<String> = helve_core::protected::NAMES.iter().map(|name| (*name).to_owned()).collect();
    Keeper::new(opened, &names, none(), mounts)
}

fn paths(removed: Vec<Removed>) -> Vec<String> {
    removed.into_iter().map(|one| one.path).collect()
}

#[test]
fn what_one_takes_out_is_not_put_back_by_the_other() {
    for mounts in [true, false] {
        for calls in [0, 1, 3] {
            let scene = Scene::new(&[(".envrc", "mine"), ("evil", ""), (".zshrc", "mine")], mounts);
            let other = another(&scene, mounts);
            for _ in 0..calls {
                other.before().unwrap();
                assert_eq!(other.after().unwrap(), []);
            }
            std::thread::sleep(Duration::from_millis(20));
            scene.before();
            symlink("evil", scene.path(".bashrc")).unwrap();
            fs::create_dir(scene.path(".vscode")).unwrap();
            symlink("../evil", scene.path(".vscode/tasks.json")).unwrap();
            scene.write(".profile", "theirs");
            if !mounts {
                scene.write(".zshrc", "theirs");
            }
            other.before().unwrap();
            assert!(scene.after().len() >= 3);
            // What the other's own command does is taken away, and the owner's put back.
            scene.write(".zlogin", "theirs");
            if !mounts {
                fs::remove_file(scene.path(".envrc")).unwrap();
            }
            let taken = paths(other.after().unwrap());
            // Of what was restored meanwhile nobody can say who did it.
            let expected: &[&str] = if mounts { &[".zlogin"] } else { &[".zlogin", ".zshrc"] };
            assert_eq!(taken, expected, "{mounts} {calls}");
            for path in [".bashrc", ".vscode", ".profile", ".zlogin"] {
                assert!(scene.path(path).symlink_metadata().is_err(), "{path} {mounts} {calls}");
            }
            for path in [".envrc", ".zshrc"] {
                assert_eq!(scene.read(path).as_deref(), Some("mine"), "{path} {mounts} {calls}");
            }
            other.before().unwrap();
            assert_eq!(other.after().unwrap(), []);
            assert_eq!(scene.call(|_| {}), []);
        }
    }
}

#[test]
fn what_was_in_doubt_is_the_owners_when_nobody_else_runs() {
    let scene = Scene::new(&[("x", "")], false);
    let other = another(&scene, false);
    scene.before();
    scene.write(".envrc", "perhaps the owner's");
    other.before().unwrap();
    assert_eq!(other.after().unwrap(), []);
    // As if the first had been killed: its lock has gone with it.
    let Scene { folder, keeper } = scene;
    drop(keeper);
    other.before().unwrap();
    fs::write(folder.path().join(".envrc"), "theirs").unwrap();
    assert_eq!(paths(other.after().unwrap()), [".envrc"]);
    assert_eq!(fs::read_to_string(folder.path().join(".envrc")).unwrap(), "perhaps the owner's");
}

/// A command can make a file look new while another call runs, and then change it.
#[test]
fn what_the_owner_is_known_to_have_had_does_not_come_in_doubt() {
    for calls in [0, 1, 3] {
        let scene = Scene::new(&[(".envrc", "mine"), (".zshrc", "mine"), ("x", "")], false);
        let other = another(&scene, false);
        for _ in 0..calls {
            assert_eq!(scene.call(|_| {}), []);
        }
        std::thread::sleep(Duration::from_millis(20));
        other.before().unwrap();
        let touched = scene.call(|scene| {
            let file = fs::File::options().write(true).open(scene.path(".envrc")).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
            // The same in another file.
            fs::remove_file(scene.path(".zshrc")).unwrap();
            scene.write(".zshrc", "mine");
        });
        assert_eq!(touched, [], "{calls}");
        let removed = scene.call(|scene| {
            scene.write(".envrc", "theirs");
            fs::remove_file(scene.path(".zshrc")).unwrap();
        });
        assert_eq!(removed, taken(&[(".envrc", "theirs")]), "{calls}");
        for path in [".envrc", ".zshrc"] {
            assert_eq!(scene.read(path).as_deref(), Some("mine"), "{path} {calls}");
        }
    }
}

/// Others may run for hours, or only say that they do.
#[test]
fn what_is_in_doubt_is_told_while_others_run() {
    for calls in [0, 1, 3] {
        let scene = Scene::new(&[(".envrc", "mine"), ("x", "")], false);
        let forged =
            rustix::fs::open(scene.folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        crate::sys::locks::share(&forged, 0).unwrap();
        for _ in 0..calls {
            assert_eq!(scene.call(|_| {}), []);
        }
        scene.before();
        scene.write(".envrc", "theirs");
        let told = scene.keeper.after().unwrap();
        let why = "changed while another call ran in this workspace; left there";
        let expected = Removed { path: ".envrc".to_owned(), why: why.to_owned(), content: Vec::new() };
        assert_eq!(told, [expected], "{calls}");
        assert_eq!(scene.call(|_| {}), [], "it is told once, {calls}");
    }
}
