//! Somebody else changes files before any one system call of a commit: what he wrote is never lost.

use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;

use super::*;

/// Makes a commit; before its `nth` system call somebody acts. Gives the outcome and the call that it was before.
fn disturbed(
    scene: &Scene,
    changes: &[Change],
    nth: usize,
    can_exchange: bool,
    act: impl Fn(&Path) + Send + Sync + 'static,
) -> (Result<Vec<Changed>, ToolError>, Option<&'static str>) {
    // One thread does everything then, so that the same call comes at the same place each time.
    let options = Options { fsync: false, janitor: None };
    let workspace = open_with(&scene.ws(), scene.rules.clone(), options).unwrap();
    let (calls, before) = (AtomicUsize::new(0), Arc::new(Mutex::new(None)));
    let (ws, told) = (scene.ws(), Arc::clone(&before));
    *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(move |name| {
        if calls.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            // Without an exchange nothing can be done about somebody who comes at the very last moment.
            if can_exchange || name != "rename" {
                act(&ws);
            }
            *told.lock().unwrap() = Some(name);
        }
        if name == "exchange" && !can_exchange { Err(Errno::INVAL) } else { Ok(()) }
    }));
    let outcome = commit(&*workspace.scoped(FilesScope::default()), changes.to_vec());
    let before = *before.lock().unwrap();
    (outcome, before)
}

/// Another file takes the place of the one at a path, as an editor does it.
fn replace(path: &Path) {
    fs::write(path.with_extension("theirs"), "theirs").unwrap();
    fs::rename(path.with_extension("theirs"), path).unwrap();
}

/// The file itself gets another content.
fn overwrite(path: &Path) {
    fs::write(path, "theirs").unwrap();
}

#[test]
fn what_somebody_writes_meanwhile_is_never_lost() {
    let old = |act| Change { expect: Expect::Content(commit::id_of(b"old\n")), ..change("a.txt", act) };
    let new = || Act::Put(Arc::new(b"new\n".to_vec()));
    let moved = |content| Act::Move { to: "src/b.txt".to_owned(), content };
    let absent = Change { expect: Expect::Absent, ..change("src/new.txt", new()) };
    let commits = [
        ("a.txt", vec![old(new())]),
        ("a.txt", vec![put("z", "z"), old(new())]),
        ("a.txt", vec![old(Act::Append(b"more".to_vec()))]),
        ("a.txt", vec![old(Act::Remove)]),
        ("a.txt", vec![old(moved(None))]),
        ("a.txt", vec![old(moved(Some(b"new\n".to_vec())))]),
        ("src/new.txt", vec![absent]),
    ];
    for (path, changes) in commits {
        for (how, can_exchange) in
            [(replace as fn(&Path), true), (overwrite, true), (replace, false), (overwrite, false)]
        {
            for nth in 1.. {
                let scene = Scene::new();
                let (outcome, before) =
                    disturbed(&scene, &changes, nth, can_exchange, move |ws| how(&ws.join(path)));
                let case = format!("{changes:?}, before call {nth} ({before:?}): {outcome:?}");
                let Some(before) = before else {
                    assert!(outcome.is_ok(), "{case}");
                    break;
                };
                if can_exchange || before != "rename" {
                    assert_eq!(fs::read_to_string(scene.ws().join(path)).unwrap(), "theirs", "{case}");
                }
            }
        }
    }
}

#[test]
fn a_directory_that_is_no_longer_there_is_a_conflict() {
    let scene = Scene::new();
    let away = |ws: &Path| {
        fs::rename(ws.join("src"), ws.join("moved")).unwrap();
        fs::create_dir(ws.join("src")).unwrap();
    };
    let mut tried = 0;
    for nth in 1.. {
        fs::remove_dir_all(scene.ws()).unwrap();
        fs::create_dir_all(scene.ws().join("src")).unwrap();
        let (outcome, before) = disturbed(&scene, &[put("src/new.txt", "new")], nth, true, away);
        match before {
            Some("create" | "write") => {
                assert_eq!(outcome.unwrap_err().kind, ErrorKind::Conflict, "before call {nth}");
                assert_eq!(names(&scene.ws()), ["moved", "src"], "before call {nth}");
                tried += 1;
            }
            Some(_) => {}
            None => break,
        }
    }
    assert!(tried > 0);
}

#[test]
fn a_directory_that_gets_a_file_meanwhile_is_not_removed() {
    for nth in 1.. {
        let scene = Scene::new();
        fs::create_dir(scene.ws().join("empty")).unwrap();
        let fill = |ws: &Path| {
            fs::create_dir_all(ws.join("empty")).unwrap();
            fs::write(ws.join("empty/theirs"), "theirs").unwrap();
        };
        let remove = change("empty", Act::Remove);
        let (outcome, before) = disturbed(&scene, &[remove], nth, true, fill);
        if before.is_none() {
            assert!(outcome.is_ok() && !scene.ws().join("empty").exists());
            break;
        }
        let theirs = fs::read_to_string(scene.ws().join("empty/theirs"));
        assert_eq!(theirs.unwrap(), "theirs", "before call {nth} ({before:?}): {outcome:?}");
    }
}

/// A file that is written while it is read is read again.
#[test]
fn a_file_is_taken_as_it_was_at_one_moment() {
    let scene = Scene::new();
    let more = change("a.txt", Act::Append(b"more\n".to_vec()));
    let mut reads = 0;
    for nth in 1.. {
        fs::write(scene.ws().join("a.txt"), "old\n").unwrap();
        let (outcome, before) =
            disturbed(&scene, std::slice::from_ref(&more), nth, true, |ws| overwrite(&ws.join("a.txt")));
        let Some(before) = before else { break };
        if before == "read" && reads < 2 {
            reads += 1;
            assert!(outcome.is_ok(), "before call {nth}: {outcome:?}");
            assert_eq!(fs::read_to_string(scene.ws().join("a.txt")).unwrap(), "theirsmore\n");
        }
    }
    assert!(reads > 0);
}

/// One step is taken, somebody replaces what it made, and the next step fails: what he put there stays when the first one is
/// taken back, and so does what was there before.
#[test]
fn what_somebody_puts_in_place_of_a_step_that_is_taken_back_stays() {
    for (path, old) in [("a.txt", Some("old\n")), ("new.txt", None)] {
        let scene = Scene::new();
        let options = Options { fsync: false, janitor: None };
        let workspace = open_with(&scene.ws(), scene.rules.clone(), options).unwrap();
        let file = scene.ws().join(path);
        let theirs = file.clone();
        *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(move |name| {
            let is_step = matches!(name, "exchange" | "place");
            if is_step && fs::read_to_string(&theirs).is_ok_and(|text| text == "new") {
                replace(&theirs);
                return Err(Errno::IO);
            }
            Ok(())
        }));
        let changes = vec![put(path, "new"), put("src/lib.rs", "new")];
        let error = commit(&*workspace.scoped(FilesScope::default()), changes).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs", "{error}");
        assert_eq!(fs::read_to_string(scene.ws().join("src/lib.rs")).unwrap(), "lib\n");
        let kept = |text: &str| {
            let all = names(&scene.ws()).into_iter().map(|name| scene.ws().join(name));
            all.filter(|path| path.is_file()).any(|path| fs::read_to_string(path).unwrap() == text)
        };
        assert!(old.is_none_or(kept), "what was there is lost: {error}");
    }
}
