//! Trees that were made to hang, to lead outside or to exhaust a walker.

use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;
use pretty_assertions::assert_eq;

#[test]
fn links_are_neither_followed_nor_searched() {
    let outside = tree(&[("canary", "needle")]);
    let dir = tree(&[("a/file", "needle")]);
    symlink(outside.path(), dir.path().join("out")).unwrap();
    symlink(outside.path().join("canary"), dir.path().join("leaf")).unwrap();
    symlink("..", dir.path().join("a/loop")).unwrap();
    symlink("file", dir.path().join("a/inside")).unwrap();
    symlink("nowhere", dir.path().join("a/dangling")).unwrap();
    assert_eq!(shown_lines(&found(dir.path(), &lines("needle"))), ["a/file:1: needle"]);
    assert_eq!(paths(dir.path(), &names()), ["a/file", "a/inside"]);
    let all = WalkRequest { kinds: Kinds::All, ..names() };
    let everything = ["a", "a/dangling", "a/file", "a/inside", "a/loop", "leaf", "out"];
    assert_eq!(paths(dir.path(), &all), everything);
}

#[test]
fn an_ignore_file_that_is_a_link_or_a_pipe_says_nothing() {
    let outside = tree(&[("ignore", "*\n")]);
    let dir = tree(&[("a", ""), ("b/c", "")]);
    symlink(outside.path().join("ignore"), dir.path().join(".gitignore")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("b/.ignore"), 0o600.into()).unwrap();
    assert_eq!(paths(dir.path(), &WalkRequest { hidden: false, ..names() }), ["a", "b/c"]);
}

#[test]
fn pipes_are_listed_and_never_opened() {
    let dir = tree(&[("a", "needle")]);
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), 0o600.into()).unwrap();
    let searched = found(dir.path(), &lines("needle"));
    assert_eq!((shown_lines(&searched).len(), searched.searched), (1, 1));
    assert_eq!(paths(dir.path(), &WalkRequest { kinds: Kinds::All, ..names() }), ["a", "pipe"]);
    assert_eq!(paths(dir.path(), &names()), ["a"]);
}

#[test]
fn files_with_several_names_are_told_not_searched() {
    let outside = tree(&[("canary", "needle")]);
    let dir = tree(&[("a", "needle")]);
    fs::hard_link(outside.path().join("canary"), dir.path().join("b")).unwrap();
    let searched = found(dir.path(), &lines("needle"));
    assert_eq!(shown_lines(&searched), ["a:1: needle"]);
    assert_eq!(searched.unread, ["b: it has several names (hard links)"]);
    assert_eq!(searched.unread_count, 1);
    let rules = Rules::new(PathRules { hard_links: true, ..PathRules::default() }).unwrap();
    let from = SearchStart::Dir(start(dir.path(), ""));
    let searched = search(from, &rules, &lines("needle"), &Cancel::never()).unwrap();
    assert_eq!(shown_lines(&searched).len(), 2);
}

#[test]
fn a_directory_of_a_hundred_thousand_entries_is_walked_in_pages() {
    let dir = tree(&[("big/", "")]);
    for i in 0..100_000 {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join(format!("big/{i:06}")),
            rustix::fs::FileType::RegularFile,
            0o600.into(),
            0,
        )
        .unwrap();
    }
    let page = |after: Option<&str>, limit| {
        let request = WalkRequest { limit, after: after.map(str::to_owned), ..names() };
        walk(start(dir.path(), ""), &rules(&[]), &request, &Cancel::never()).unwrap()
    };
    let first = page(None, 3);
    let shown: Vec<&str> = first.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(shown, ["big/000000", "big/000001", "big/000002"]);
    assert!(first.more);
    let last = page(Some("big/099997"), 3);
    let shown: Vec<&str> = last.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(shown, ["big/099998", "big/099999"]);
    assert!(!last.more);
    assert_eq!(page(None, 200_000).entries.len(), 100_000);
}

/// Makes a chain of directories, each with a file and a second directory beside the next one, deeper than descriptors
/// could be held for.
#[test]
fn a_deep_tree_needs_few_descriptors() {
    let dir = tree(&[]);
    let mut at = OwnedFd::from(File::open(dir.path()).unwrap());
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    for _ in 0..1_500 {
        rustix::fs::mkdirat(&at, "d", 0o700.into()).unwrap();
        rustix::fs::mkdirat(&at, "e", 0o700.into()).unwrap();
        let file = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        let file = rustix::fs::openat(&at, "e/file", file, 0o600.into()).unwrap();
        rustix::io::write(&file, b"needle").unwrap();
        at = rustix::fs::openat(&at, "d", flags, 0.into()).unwrap();
    }
    drop(at);
    let searched = found(dir.path(), &lines("needle"));
    assert_eq!(searched.unread, Vec::<String>::new());
    assert_eq!(searched.files.len(), 1_500);
    let walked = walk(start(dir.path(), ""), &rules(&[]), &names(), &Cancel::never()).unwrap();
    assert_eq!(walked.entries.len(), 1_500);
}

#[test]
fn a_path_that_is_too_long_is_told() {
    let dir = tree(&[]);
    let mut at = OwnedFd::from(File::open(dir.path()).unwrap());
    let name = "n".repeat(250);
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, name.as_str(), 0o700.into()).unwrap();
        at = rustix::fs::openat(&at, name.as_str(), rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    }
    let walked = walk(start(dir.path(), ""), &rules(&[]), &names(), &Cancel::never()).unwrap();
    assert_eq!(walked.unread_count, 1);
    assert!(walked.unread[0].ends_with("its path is too long"), "{:?}", walked.unread);
}

#[test]
fn a_line_that_is_too_long_to_hold_is_told() {
    let dir = tree(&[("a", "needle\n")]);
    // What stands before it, further than is read at once, is found.
    let text = [b"needle\n".to_vec(), b"line\n".repeat(40_000), vec![b'x'; 34 << 20]].concat();
    fs::write(dir.path().join("b"), text).unwrap();
    let searched = found(dir.path(), &lines("needle|x{3}y"));
    assert_eq!(shown_lines(&searched), ["a:1: needle", "b:1: needle"]);
    assert_eq!(searched.unread_count, 1);
    assert!(
        searched.unread[0].starts_with("b: it has a line longer than ")
            && searched.unread[0].ends_with(" MiB, and was searched only up to there"),
        "{:?}",
        searched.unread
    );
    let searched = found(dir.path(), &SearchRequest { multiline: true, ..lines("needle|x.y") });
    assert!(searched.unread[0].starts_with("b: it is larger than"), "{:?}", searched.unread);
}

#[test]
fn a_search_that_was_taken_back_ends() {
    let dir = tree(&[("a/b", "x\n")]);
    let (handle, cancel) = Cancel::pair();
    handle.cancel();
    let error =
        search(SearchStart::Dir(start(dir.path(), "")), &rules(&[]), &lines("x"), &cancel).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    let error = walk(start(dir.path(), ""), &rules(&[]), &names(), &cancel).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    // Also in the middle of one file that has no end.
    let (handle, cancel) = Cancel::pair();
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            handle.cancel();
        });
        find::search_one(std::io::repeat(b'\n'), "endless".into(), &lines("x"), &cancel)
    });
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Cancelled);
}

/// Braces are read by recursion: a pattern that nests without end would take the process down.
#[test]
fn braces_that_nest_without_end_are_passed_over_in_ignore_files_and_refused_in_globs() {
    let nested = format!("{}a{}", "{".repeat(100_000), "}".repeat(100_000));
    let dir = tree(&[(".gitignore", &format!("{nested}\nb\n")), ("a", "needle"), ("b", "needle")]);
    assert_eq!(shown_lines(&found(dir.path(), &lines("needle"))), ["a:1: needle"]);
    let request = WalkRequest { globs: vec![nested], ..names() };
    let error = walk(start(dir.path(), ""), &rules(&[]), &request, &Cancel::never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
    assert!(error.message.len() < 300, "{}", error.message);
}

/// Compiled patterns take memory as long as something below them is visited.
#[test]
fn only_so_many_patterns_hold_at_a_time() {
    let many: String = (0..5_000).map(|n| format!("x{n}\n")).collect();
    let dir =
        tree(&[(".gitignore", &format!("# a comment takes no room\n\n{many}")), ("x0", ""), ("x4999", "")]);
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/.gitignore"), "y\n").unwrap();
    fs::write(dir.path().join("in/y"), "").unwrap();
    let shown = paths(dir.path(), &WalkRequest { hidden: false, ..names() });
    assert_eq!(shown, ["in/y", "x4999"]);
}

#[test]
fn names_that_are_no_text_are_told_apart_and_paged_through() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tree(&[("a", "needle")]);
    for name in [&b"\x801"[..], b"\xff1", b"\xff2"] {
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), "needle").unwrap();
    }
    let all = ["a", r"\x801", r"\xff1", r"\xff2"];
    assert_eq!(paths(dir.path(), &names()), all);
    let mut after: Option<String> = None;
    let mut paged = Vec::new();
    while let [next] =
        paths(dir.path(), &WalkRequest { limit: 1, after: after.clone(), ..names() }).as_slice()
    {
        paged.push(next.clone());
        after = Some(next.clone());
        assert!(paged.len() <= all.len(), "{paged:?}");
    }
    assert_eq!(paged, all);
    let searched = found(dir.path(), &lines("needle"));
    assert_eq!(searched.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), all);
}

#[test]
fn what_a_commit_makes_for_a_moment_is_not_found() {
    let dir = tree(&[(".helve-0123456789abcdef-1f.tmp", "needle"), (".helve-mine.tmp", "needle")]);
    assert_eq!(paths(dir.path(), &names()), [".helve-mine.tmp"]);
    assert_eq!(shown_lines(&found(dir.path(), &lines("needle"))), [".helve-mine.tmp:1: needle"]);
}
