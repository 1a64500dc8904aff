//! Files in memory: what the model test of the workspace on disk does not ask.

use helve_core::ErrorKind;
use helve_core::files::{Act, CaseMode, Expect, Kinds, PageStart, SearchMode};
use pretty_assertions::assert_eq;

use super::*;

fn files(rules: PathRules) -> Arc<dyn Files> {
    let files = [("a.txt", "one\ntwo\n"), ("src/lib.rs", "fn one() {}\n"), ("src/.env", "KEY=1")];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    memory(BTreeMap::from(files), rules).unwrap().scoped(FilesScope::default())
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn reads_lists_pages_walks_and_searches() {
    let files = files(PathRules::default());
    let content = wait(files.read("./src/../a.txt", 100)).unwrap();
    assert_eq!((content.path.as_str(), content.bytes.as_slice()), ("a.txt", &b"one\ntwo\n"[..]));
    let Listed { entries, more, .. } = wait(files.list(&ListRequest::all("src", 1))).unwrap();
    assert_eq!((entries[0].path.as_str(), entries.len(), more), (".env", 1, true));
    let start = PageStart::Line { line: 2, cursor: 0 };
    let request = PageRequest { path: "a.txt".to_owned(), start, max_lines: 10, max_bytes: 100 };
    assert_eq!(wait(files.page(&request)).unwrap().text, "two");
    let request = WalkRequest {
        path: ".".to_owned(),
        globs: Vec::new(),
        kinds: Kinds::Files,
        hidden: false,
        obey_ignore: true,
        depth: None,
        limit: 10,
        after: None,
        stat: false,
    };
    let found: Vec<_> = wait(files.walk(&request)).unwrap().entries.into_iter().map(|one| one.path).collect();
    assert_eq!(found, ["a.txt", "src/lib.rs"]);
    let search = |path: &str| SearchRequest {
        path: path.to_owned(),
        pattern: "one".to_owned(),
        literal: true,
        case: CaseMode::Sensitive,
        word: false,
        multiline: false,
        globs: Vec::new(),
        types: Vec::new(),
        hidden: false,
        obey_ignore: true,
        before: 0,
        after: 0,
        mode: SearchMode::Files,
        limit: 10,
        skip: 0,
        line_chars: 100,
        max_bytes: 1 << 16,
    };
    for (path, paths) in
        [("", vec!["a.txt", "src/lib.rs"]), ("src", vec!["src/lib.rs"]), ("a.txt", vec!["a.txt"])]
    {
        let found = wait(files.search(&search(path))).unwrap();
        let found: Vec<_> = found.files.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(found, paths, "{path}");
    }
}

#[test]
fn a_list_obeys_ignore_files_where_that_is_asked_for() {
    let names = [".gitignore", "src/.ignore", "src/a.o", "src/keep.o", "src/build/x", "src/lib.rs", "src/z"];
    let content = |name: &str| match name {
        ".gitignore" => "*.o\nbuild/\n!keep.o\n",
        "src/.ignore" => "lib.rs\n",
        _ => "",
    };
    let tree = names.map(|name| (name.to_owned(), content(name).as_bytes().to_vec()));
    let bridge = memory(BTreeMap::from(tree), PathRules::default()).unwrap();
    let files = bridge.scoped(FilesScope::default());
    let request = ListRequest { obey_ignore: true, ..ListRequest::all("src", 9) };
    let Listed { entries, more, ignored } = wait(files.list(&request)).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!((names, more, ignored), (vec![".ignore", "keep.o", "z"], false, 3));
}

#[test]
fn the_same_is_refused_as_on_disk() {
    let files = files(PathRules { deny_read: vec![".env".to_owned()], ..PathRules::default() });
    let read = |path: &'static str| wait(files.read(path, 100)).map(drop).map_err(|error| error.kind);
    // Also where nothing is: whether something is there is not told.
    for path in ["src/.env", ".env", "/etc/passwd", "../x", "missing/../../x", "~/.bashrc"] {
        assert_eq!(read(path), Err(ErrorKind::Blocked), "{path}");
    }
    for path in ["nothing", "a.txt/", "a.txt/x", "missing/../a.txt"] {
        assert_eq!(read(path), Err(ErrorKind::NotFound), "{path}");
    }
    assert_eq!(read("src"), Err(ErrorKind::ToolFailed));
    let write = |path: &str| {
        let change = Change { path: path.to_owned(), act: Act::Put(Arc::default()), expect: Expect::Any };
        wait(files.commit(vec![change], false)).map(drop).map_err(|error| error.kind)
    };
    let Listed { entries, more, .. } = wait(files.list(&ListRequest::all("src", 1))).unwrap();
    assert_eq!((entries[0].path.as_str(), entries.len(), more), ("lib.rs", 1, false));
    assert_eq!(write(".git/config"), Err(ErrorKind::Blocked));
    assert_eq!(write("src/.env"), Err(ErrorKind::Blocked));
    assert_eq!(write("src/new/x"), Ok(()));
    assert!(memory(BTreeMap::from([("../x".to_owned(), Vec::new())]), PathRules::default()).is_err());
}
