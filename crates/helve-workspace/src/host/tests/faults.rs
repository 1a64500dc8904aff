//! Every system call of a commit fails once: the tree is the old or the new one, and nothing is left beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;

use super::*;
use crate::host::janitor::is_temporary;

type Tree = BTreeMap<String, Option<String>>;

/// What is below a directory: the text of files, none for directories.
fn tree(dir: &Path) -> Tree {
    names(dir)
        .into_iter()
        .map(|name| {
            let path = dir.join(&name);
            let text = if path.is_dir() { None } else { Some(fs::read_to_string(path).unwrap()) };
            (name, text)
        })
        .collect()
}

/// Commits that together need every kind of step.
fn commits() -> Vec<Vec<Change>> {
    let to = |to: &str, content: Option<&str>| Act::Move {
        to: to.to_owned(),
        content: content.map(|text| text.as_bytes().to_vec()),
    };
    vec![
        vec![put("a.txt", "new\n")],
        vec![put("new/dir/b.txt", "b")],
        vec![change("a.txt", Act::Append(b"more".to_vec()))],
        vec![change("a.txt", to("src/b.txt", None))],
        vec![
            put("a.txt", "new\n"),
            put("b.txt", "b"),
            put("new/dir/c.txt", "c"),
            change("new/empty", Act::Mkdirp),
            change("src/lib.rs", to("new/lib.rs", None)),
            change("src/other.rs", to("new/other.rs", Some("other"))),
            change("full/one", Act::Remove),
            change("full/two", Act::Remove),
            change("full", Act::Remove),
            change("gone", Act::Remove),
            change("log", Act::Append(b"2".to_vec())),
        ],
    ]
}

/// A scene with a workspace and a place for its janitor.
struct Fault {
    scene: Scene,
    old: Tree,
}

impl Fault {
    fn new() -> Fault {
        let scene = Scene::new();
        let ws = scene.ws();
        fs::create_dir(ws.join("full")).unwrap();
        for (path, text) in
            [("src/other.rs", "o"), ("full/one", "1"), ("full/two", "2"), ("gone", "g"), ("log", "L")]
        {
            fs::write(ws.join(path), text).unwrap();
        }
        let old = tree(&ws);
        Fault { scene, old }
    }

    fn open(&self) -> Arc<Workspace> {
        let options = Options { fsync: true, janitor: Some(self.scene.dir.path().join("janitor")) };
        open_with(&self.scene.ws(), PathRules::default(), options).unwrap()
    }

    /// Commits while `fault` decides about every call.
    fn commit(
        &self,
        changes: &[Change],
        fault: impl Fn(&'static str) -> Result<(), Errno> + Send + Sync + 'static,
    ) -> Result<Vec<Changed>, ToolError> {
        let workspace = self.open();
        *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(fault));
        commit(&*workspace.scoped(FilesScope::default()), changes.to_vec())
    }

    /// What is there after the next start.
    fn after(&self) -> Tree {
        drop(self.open());
        let janitor = self.scene.dir.path().join("janitor");
        assert!(!janitor.exists() || names(&janitor).is_empty(), "the janitor keeps a record");
        tree(&self.scene.ws())
    }
}

fn expected(changes: &[Change]) -> Tree {
    let fault = Fault::new();
    fault.commit(changes, |_| Ok(())).unwrap();
    fault.after()
}

#[test]
fn any_call_that_fails_once_changes_nothing_or_all() {
    for changes in commits() {
        let new = expected(&changes);
        let mut seen = BTreeSet::new();
        for error in [Errno::IO, Errno::NOSPC] {
            for nth in 1.. {
                assert!(nth < 2000, "the commit never succeeds");
                let fault = Fault::new();
                let calls = Arc::new(AtomicUsize::new(0));
                let hit = Arc::new(Mutex::new(None));
                let (count, mark) = (Arc::clone(&calls), Arc::clone(&hit));
                let outcome = fault.commit(&changes, move |name| {
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                        *mark.lock().unwrap() = Some(name);
                        return Err(error);
                    }
                    Ok(())
                });
                let hit = *hit.lock().unwrap();
                let now = fault.after();
                match &outcome {
                    Ok(_) => assert_eq!(now, new, "call {nth} {hit:?}"),
                    Err(said) => {
                        assert_eq!(now, fault.old, "call {nth} {hit:?}: {said}");
                        assert!(said.message.ends_with('.') && said.kind != ErrorKind::Internal, "{said}");
                    }
                }
                seen.extend(hit);
                if hit.is_none() {
                    assert!(outcome.is_ok());
                    break;
                }
            }
        }
        for name in ["open", "read", "create", "write", "fsync", "stat", "place", "remove"] {
            let needed = changes.len() > 1;
            assert!(seen.contains(name) || !needed, "{name} was never made to fail: {seen:?}");
        }
    }
}

#[test]
fn a_file_system_that_cannot_exchange_or_place_gives_the_same() {
    for changes in commits() {
        let new = expected(&changes);
        for missing in [&["exchange"][..], &["place"], &["exchange", "place"], &["place", "link"], &["copy"]]
        {
            let fault = Fault::new();
            let error = if missing.contains(&"link") { Errno::OPNOTSUPP } else { Errno::INVAL };
            let outcome =
                fault.commit(&changes, move |name| if missing.contains(&name) { Err(error) } else { Ok(()) });
            assert!(outcome.is_ok(), "{missing:?}: {outcome:?}");
            assert_eq!(fault.after(), new, "{missing:?}");
        }
    }
}

#[test]
fn without_exchange_a_failure_is_taken_back_too() {
    let changes = commits().pop().unwrap();
    let new = expected(&changes);
    for nth in 1.. {
        let fault = Fault::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.commit(&changes, move |name| {
            if name == "exchange" {
                return Err(Errno::INVAL);
            }
            if count.fetch_add(1, Ordering::Relaxed) + 1 == nth { Err(Errno::IO) } else { Ok(()) }
        });
        let now = fault.after();
        assert_eq!(&now, if outcome.is_ok() { &new } else { &fault.old }, "call {nth}: {outcome:?}");
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
}

/// A disk that is gone from some moment on: nothing can be taken back, and still nothing is lost.
#[test]
fn when_every_later_call_fails_too_no_content_is_lost() {
    let changes = commits().pop().unwrap();
    let new = expected(&changes);
    let mut stuck = 0;
    for nth in 1.. {
        let fault = Fault::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.commit(&changes, move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 >= nth { Err(Errno::IO) } else { Ok(()) }
        });
        let now = tree(&fault.scene.ws());
        let texts: Vec<&String> = now.values().flatten().collect();
        for (path, text) in fault.old.iter().filter(|_| outcome.is_err()) {
            assert!(text.iter().all(|text| texts.contains(&text)), "call {nth}: {path} is lost: {now:?}");
        }
        for (path, text) in &now {
            let is_one = fault.old.get(path) == Some(text) || new.get(path) == Some(text);
            let is_beside = path.split('/').any(|name| is_temporary(name.as_bytes()));
            assert!(is_one || is_beside, "call {nth}: {path} is neither old nor new");
        }
        stuck += usize::from(outcome.as_ref().is_err_and(|said| said.kind == ErrorKind::Internal));
        let then = fault.after();
        assert_eq!(&then, if outcome.is_ok() { &new } else { &fault.old }, "call {nth}, at the next start");
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
    assert!(stuck > 0, "no rollback ever failed");
}

/// What a dead process had done is taken back but for what somebody has changed since, also inside of a new directory.
#[test]
fn the_next_start_leaves_what_somebody_changed_since() {
    let changes = commits().pop().unwrap();
    let (mut changed, mut within) = (0, 0);
    for nth in 1.. {
        let fault = Fault::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.commit(&changes, move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 >= nth { Err(Errno::IO) } else { Ok(()) }
        });
        let ws = fault.scene.ws();
        let is_new = fs::read_to_string(ws.join("a.txt")).unwrap() == "new\n";
        if outcome.is_err() && is_new {
            fs::write(ws.join("a.txt"), "mine").unwrap();
            let dir = ws.join("new").is_dir();
            if dir {
                fs::write(ws.join("new/dir/mine"), "mine").unwrap();
            }
            let mut wanted = fault.old.clone();
            wanted.insert("a.txt".to_owned(), Some("mine".to_owned()));
            let mut then = fault.after();
            if dir {
                // The directory stays, with what the commit had put into it.
                assert_eq!(then.get("new/dir/mine"), Some(&Some("mine".to_owned())), "call {nth}");
                then.retain(|path, _| path != "new" && !path.starts_with("new/"));
                within += 1;
            }
            assert_eq!(then, wanted, "call {nth}");
            changed += 1;
        }
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
    assert!(changed > 0 && within > 0, "{changed} {within}");
}

/// The disk is waited for while the undo record is made; both must be done before the first step.
#[test]
fn nothing_takes_place_before_the_disk_has_it_and_the_record_knows_what_became_of_it() {
    for error in [None, Some(Errno::IO)] {
        for changes in commits() {
            let fault = Fault::new();
            let undo = Arc::new(Record::default());
            let calls = Arc::new(Mutex::new(Vec::new()));
            let workspace = fault.open();
            let (log, record) = (Arc::clone(&calls), Arc::clone(&undo));
            *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(move |name| {
                let is_first = matches!(name, "exchange" | "place") && !log.lock().unwrap().contains(&name);
                assert!(!is_first || record.lines().last().is_some_and(|line| line == "ready"));
                log.lock().unwrap().push(name);
                error.filter(|_| name == "fsync").map_or(Ok(()), Err)
            }));
            let scope = FilesScope { undo: Some(undo.clone()), ..FilesScope::default() };
            let outcome = commit(&*workspace.scoped(scope), changes.to_vec());
            drop(workspace);
            assert_eq!(undo.lines().last().unwrap(), &format!("done {}", outcome.is_ok()));
            let calls = calls.lock().unwrap().clone();
            let first_step = calls.iter().position(|name| matches!(*name, "exchange" | "place"));
            let written = calls.contains(&"create");
            match error {
                None => {
                    assert!(outcome.is_ok());
                    let before = &calls[..first_step.unwrap()];
                    assert_eq!(before.contains(&"fsync"), written, "{calls:?}");
                }
                Some(_) => {
                    assert!(outcome.is_err());
                    assert!(first_step.is_none() || !written, "{calls:?}");
                    assert_eq!(fault.after(), fault.old);
                }
            }
        }
    }
}
