//! What is protected, denied or ignored, through the same handle that tools use.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn protected_and_denied_paths() {
    let mut scene = Scene::new();
    scene.rules.deny_read = vec![".env".to_owned()];
    fs::write(scene.ws().join(".env"), "SECRET").unwrap();
    symlink(".env", scene.ws().join("innocent")).unwrap();
    let files = scene.files();
    assert_eq!(read(&*files, ".env"), Err(ErrorKind::Blocked));
    assert_eq!(read(&*files, "innocent"), Err(ErrorKind::Blocked));
    assert_eq!(wait(async { files.stat(".env").await }).unwrap_err().kind, ErrorKind::Blocked);
    for path in [".env", ".g\u{200d}it/config", "src/../.git/hooks/pre-commit", ".vscode/tasks.json"] {
        assert_eq!(write(&*files, path, "x"), Err(ErrorKind::Blocked), "{path}");
    }
    for path in [".gitignore", ".github/workflows/ci.yml", "docs/.gitkeep"] {
        assert_eq!(write(&*files, path, "x"), Ok(()), "{path}");
    }
    let agreed =
        scene.with(FilesScope { agreed: vec![".vscode/tasks.json".to_owned()], ..FilesScope::default() });
    assert_eq!(write(&*agreed, "./.vscode/tasks.json", "x"), Ok(()));
    assert_eq!(write(&*agreed, ".vscode/other.json", "x"), Err(ErrorKind::Blocked));
}

/// Git obeys the configuration and the hooks of any directory that looks like one of its own.
#[test]
fn no_directory_of_git_is_made_or_changed_whatever_its_name() {
    let scene = Scene::new();
    let files = scene.files();
    let blocked = |changes: Vec<Change>| commit(&*files, changes).map_err(|error| error.kind).err();
    let parts = ["HEAD", "objects/x", "refs/x"].map(|name| put(&format!("repo/{name}"), "x"));
    // Each of them alone is a file like others, until one of them makes it a repository.
    for last in 0..3 {
        fs::remove_dir_all(scene.ws().join("repo")).ok();
        let others = (0..3).filter(|at| *at != last).map(|at| parts[at].clone()).collect();
        assert_eq!(blocked(others), None);
        assert_eq!(blocked(vec![put("repo/config", "[core]")]), None);
        assert_eq!(blocked(vec![parts[last].clone()]), Some(ErrorKind::Blocked), "{last}");
    }
    assert_eq!(blocked(parts.to_vec()), Some(ErrorKind::Blocked));
    fs::write(scene.ws().join("repo/HEAD"), "x").unwrap();
    fs::create_dir_all(scene.ws().join("repo/refs")).unwrap();
    fs::create_dir_all(scene.ws().join("repo/objects")).unwrap();
    for name in ["config", "CONFIG", "config.worktree", "hooks/pre-commit", "commondir", "hook\u{200d}s/x"] {
        assert_eq!(blocked(vec![put(&format!("repo/{name}"), "x")]), Some(ErrorKind::Blocked), "{name}");
    }
    let moved = change("f", Act::Move { to: "repo/hooks/x".to_owned(), content: None });
    assert_eq!(blocked(vec![put("f", "x"), moved]), Some(ErrorKind::Blocked));
    assert_eq!(
        blocked(vec![put("linked/HEAD", "x"), put("linked/commondir", "../repo")]),
        Some(ErrorKind::Blocked)
    );
    // What git does not obey is nobody's concern, nor is what goes, nor what the owner agreed to.
    assert_eq!(blocked(vec![put("repo/notes", "x"), put("config/HEAD", "x"), put("config/refs", "x")]), None);
    assert_eq!(blocked(vec![change("repo/config", Act::Remove)]), None);
    let agreed = scene.with(FilesScope { agreed: vec!["repo/config".to_owned()], ..FilesScope::default() });
    assert!(commit(&*agreed, vec![put("repo/config", "x")]).is_ok());
}

#[test]
fn what_is_closed_to_tools_is_not_even_named() {
    let mut scene = Scene::new();
    scene.rules.deny_read = vec![".env".to_owned(), "secrets/".to_owned(), "/src/*.pem".to_owned()];
    let ws = scene.ws();
    for dir in ["secrets", "src/secrets", "old"] {
        fs::create_dir(ws.join(dir)).unwrap();
    }
    for file in [".env", ".e\u{200b}nv", "src/a.pem", "a.pem", "old/.env"] {
        fs::write(ws.join(file), "x").unwrap();
    }
    let files = scene.files();
    let names = |request: &ListRequest| {
        let Listed { entries, more, .. } = wait(async { files.list(request).await }).unwrap();
        (entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), more)
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&ListRequest::all(".", 9)), (owned(&["a.pem", "a.txt", "old", "src"]), false));
    assert_eq!(names(&ListRequest::all("src", 1)), (owned(&["lib.rs"]), false), "no more than what is shown");
    let error = wait(async { files.remove("old").await }).unwrap_err();
    assert!(error.message.contains("not empty") && !error.message.contains(".env"), "{}", error.message);
}

#[test]
fn a_list_obeys_ignore_files_where_that_is_asked_for() {
    let scene = Scene::new();
    let ws = scene.ws();
    fs::write(ws.join(".gitignore"), "*.o\nbuild/\n!keep.o\n").unwrap();
    fs::write(ws.join("src/.ignore"), "lib.rs\n").unwrap();
    fs::create_dir(ws.join("src/build")).unwrap();
    for name in ["src/a.o", "src/b.o", "src/keep.o", "src/z"] {
        fs::write(ws.join(name), "").unwrap();
    }
    let files = scene.files();
    let names = |request: ListRequest| {
        let Listed { entries, more, .. } = wait(async { files.list(&request).await }).unwrap();
        (entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" "), more)
    };
    let obeying = |limit| ListRequest { obey_ignore: true, ..ListRequest::all("src", limit) };
    assert_eq!(names(obeying(9)), (".ignore keep.o z".to_owned(), false));
    assert_eq!(names(obeying(2)), (".ignore keep.o".to_owned(), true));
    assert_eq!(names(ListRequest { hidden: false, ..obeying(2) }), ("keep.o z".to_owned(), false));
    let all = ".ignore a.o b.o build keep.o lib.rs z".to_owned();
    assert_eq!(names(ListRequest::all("src", 9)), (all, false));
}

/// On disk and in memory alike. A name that is closed to tools does not count, although it is ignored too.
#[test]
fn what_ignore_files_leave_out_is_counted() {
    let mut scene = Scene::new();
    scene.rules.deny_read = vec!["*.key".to_owned(), "closed/".to_owned()];
    let tree = [
        (".gitignore", "*.o\n*.key\nbuild/\nclosed/\n!keep.o\n"),
        ("d/.hidden.o", ""),
        ("d/a.o", ""),
        ("d/a.key", ""),
        ("d/b.o", ""),
        ("d/build/x", ""),
        ("d/closed/x", ""),
        ("d/keep.o", ""),
        ("d/y", ""),
        ("d/z", ""),
        ("e/a.key", ""),
    ];
    for (path, text) in tree {
        let path = scene.ws().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let memory = tree.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let memory = crate::memory::memory(memory.into(), scene.rules.clone()).unwrap();
    let all = |path, limit| ListRequest { obey_ignore: true, ..ListRequest::all(path, limit) };
    let after = |name: &str| ListRequest { after: Some(name.to_owned()), ..all("d", 9) };
    let cases = [
        (all("d", 9), "keep.o y z", false, 4),
        (all("d", 3), "keep.o y z", false, 4),
        (all("d", 2), "keep.o y", true, 0),
        (all("d", 0), "", true, 0),
        (ListRequest { hidden: false, ..all("d", 9) }, "keep.o y z", false, 3),
        (after("a.o"), "keep.o y z", false, 2),
        (after("keep.o"), "y z", false, 0),
        (all("e", 9), "", false, 0),
        (ListRequest::all("d", 9), ".hidden.o a.o b.o build keep.o y z", false, 0),
    ];
    for files in [scene.files(), memory.scoped(FilesScope::default())] {
        for (request, names, more, ignored) in &cases {
            let listed = wait(async { files.list(request).await }).unwrap();
            let found: Vec<&str> = listed.entries.iter().map(|entry| entry.path.as_str()).collect();
            let told = (found.join(" "), listed.more, listed.ignored);
            assert_eq!(told, ((*names).to_owned(), *more, *ignored), "{:?} {request:?}", files.place());
        }
    }
}

#[test]
fn a_file_that_would_take_too_long_is_not_changed() {
    let scene = Scene::new();
    let big = fs::File::create(scene.ws().join("big")).unwrap();
    big.set_len(1 << 40).unwrap();
    let files = scene.files();
    assert_eq!(write(&*files, "big", "x"), Err(ErrorKind::TooLarge));
    let append = change("big", Act::Append(b"x".to_vec()));
    assert_eq!(commit(&*files, vec![append]).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(big.metadata().unwrap().len(), 1 << 40);
}

/// Only names that a live process made are hidden; those of others are seen, and not made by tools.
#[test]
fn a_name_like_helves_own_hides_nothing() {
    let scene = Scene::new();
    let state = scene.dir.path().join("state");
    let options = Options { fsync: false, janitor: Some(state.clone()) };
    let files = open_with(&scene.ws(), scene.rules.clone(), options).unwrap().scoped(FilesScope::default());
    let (theirs, living) = (".helve-0123456789abcdef-1.tmp", ".helve-fedcba9876543210-1.tmp");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("fedcba9876543210"), "").unwrap();
    for name in [theirs, living] {
        fs::write(scene.ws().join(name), "x").unwrap();
    }
    let listed = wait(async { files.list(&ListRequest::all(".", 10)).await }).unwrap().entries;
    let listed: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(listed, [theirs, "a.txt", "src"]);
    assert_eq!(write(&*files, theirs, "y"), Err(ErrorKind::ToolFailed));
}
