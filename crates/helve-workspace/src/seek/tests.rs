//! Walks and searches in small trees, hostile ones, and random ones beside other walkers.

mod hostile;
mod naive;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use helve_core::files::{CaseMode, FileKind, Kinds, PathRules, SearchMode};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

/// A directory with these files; a path that ends in `/` is a directory.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path_on_disk = dir.path().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(path_on_disk).unwrap();
        } else {
            fs::create_dir_all(path_on_disk.parent().unwrap()).unwrap();
            fs::write(path_on_disk, text).unwrap();
        }
    }
    dir
}

fn start(root: &Path, shown: &str) -> Start {
    let open = |path: &Path| OwnedFd::from(File::open(path).unwrap());
    Start {
        root: Arc::new(open(root)),
        dir: open(&root.join(shown)),
        shown: shown.to_owned(),
        prefix: String::new(),
        temporary: Hidden::default(),
    }
}

fn rules(deny: &[&str]) -> Rules {
    let deny_read = deny.iter().map(|pattern| (*pattern).to_owned()).collect();
    Rules::new(PathRules { deny_read, ..PathRules::default() }).unwrap()
}

pub(crate) fn names() -> WalkRequest {
    WalkRequest {
        path: String::new(),
        globs: Vec::new(),
        kinds: Kinds::Files,
        hidden: true,
        obey_ignore: true,
        depth: None,
        limit: 1_000_000,
        after: None,
        stat: false,
    }
}

pub(crate) fn lines(pattern: &str) -> SearchRequest {
    SearchRequest {
        path: String::new(),
        pattern: pattern.to_owned(),
        literal: false,
        case: CaseMode::Sensitive,
        word: false,
        multiline: false,
        globs: Vec::new(),
        types: Vec::new(),
        hidden: true,
        obey_ignore: true,
        before: 0,
        after: 0,
        mode: SearchMode::Lines,
        limit: 1_000_000,
        skip: 0,
        line_chars: 500,
        max_bytes: 1 << 30,
    }
}

fn paths(root: &Path, request: &WalkRequest) -> Vec<String> {
    let found = walk(start(root, ""), &rules(&[]), request, &Cancel::never()).unwrap();
    found.entries.into_iter().map(|entry| entry.path).collect()
}

fn found(root: &Path, request: &SearchRequest) -> Searched {
    search(SearchStart::Dir(start(root, "")), &rules(&[]), request, &Cancel::never()).unwrap()
}

/// `path:line: text` for a match, `path-line- text` around it.
fn shown_lines(searched: &Searched) -> Vec<String> {
    let mut shown = Vec::new();
    for file in &searched.files {
        for line in &file.lines {
            let sign = if line.matched { ':' } else { '-' };
            shown.push(format!("{}{sign}{}{sign} {}", file.path, line.line, line.text));
        }
    }
    shown
}

#[test]
fn paths_come_in_the_order_of_their_bytes() {
    let dir = tree(&[("a/x", ""), ("a-b", ""), ("a.b/y", ""), ("b", ""), ("a/sub/z", "")]);
    assert_eq!(paths(dir.path(), &names()), ["a-b", "a.b/y", "a/sub/z", "a/x", "b"]);
    let all = WalkRequest { kinds: Kinds::All, ..names() };
    let everything = ["a", "a-b", "a.b", "a.b/y", "a/sub", "a/sub/z", "a/x", "b"];
    assert_eq!(paths(dir.path(), &all), everything);
    for limit in 1..9 {
        let mut pages: Vec<String> = Vec::new();
        loop {
            let request = WalkRequest { limit, after: pages.last().cloned(), ..all.clone() };
            let page = walk(start(dir.path(), ""), &rules(&[]), &request, &Cancel::never()).unwrap();
            pages.extend(page.entries.into_iter().map(|entry| entry.path));
            if !page.more {
                break;
            }
        }
        assert_eq!(pages, everything, "pages of {limit}");
    }
}

#[test]
fn ignore_files_hold_without_a_repository_and_above_the_start() {
    let dir = tree(&[
        (".gitignore", "*.log\n/target/\n"),
        ("a.log", ""),
        ("src/b.log", ""),
        ("src/c.rs", ""),
        ("src/target/d.rs", ""),
        ("target/e.rs", ""),
        ("src/.ignore", "c.rs\n!b.log\n"),
    ]);
    assert_eq!(paths(dir.path(), &names()), [".gitignore", "src/.ignore", "src/b.log", "src/target/d.rs"]);
    let inside = walk(start(dir.path(), "src"), &rules(&[]), &names(), &Cancel::never()).unwrap();
    let inside: Vec<String> = inside.entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(inside, ["src/.ignore", "src/b.log", "src/target/d.rs"]);
    let everything = paths(dir.path(), &WalkRequest { obey_ignore: false, hidden: false, ..names() });
    assert_eq!(everything, ["a.log", "src/b.log", "src/c.rs", "src/target/d.rs", "target/e.rs"]);
}

#[test]
fn the_excludes_of_a_repository_hold_and_git_is_never_entered() {
    let dir =
        tree(&[(".git/info/exclude", "secret\n"), (".git/config", "needle"), ("secret", ""), ("b", "")]);
    let all = WalkRequest { kinds: Kinds::All, ..names() };
    assert_eq!(paths(dir.path(), &all), [".git", "b"]);
    assert_eq!(found(dir.path(), &lines("needle")).files, []);
}

#[test]
fn globs_kinds_depth_and_stat() {
    let dir =
        tree(&[("a.rs", "12345"), ("src/b.rs", ""), ("src/c.md", ""), ("src/deep/d.rs", ""), ("x/", "")]);
    let with = |globs: &[&str]| WalkRequest {
        globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..names()
    };
    assert_eq!(paths(dir.path(), &with(&["*.rs"])), ["a.rs", "src/b.rs", "src/deep/d.rs"]);
    assert_eq!(paths(dir.path(), &with(&["./*.rs"])), ["a.rs"]);
    assert_eq!(paths(dir.path(), &with(&["src/**"])), ["src/b.rs", "src/c.md", "src/deep/d.rs"]);
    assert_eq!(paths(dir.path(), &with(&["*.rs", "!deep"])), ["a.rs", "src/b.rs"]);
    assert_eq!(paths(dir.path(), &with(&["*.{md,txt}"])), ["src/c.md"]);
    let dirs = WalkRequest { kinds: Kinds::Directories, ..names() };
    assert_eq!(paths(dir.path(), &dirs), ["src", "src/deep", "x"]);
    assert_eq!(paths(dir.path(), &WalkRequest { depth: Some(1), ..dirs }), ["src", "x"]);
    let request = WalkRequest { stat: true, depth: Some(1), ..names() };
    let stats = walk(start(dir.path(), ""), &rules(&[]), &request, &Cancel::never()).unwrap();
    let stat = stats.entries[0].stat.as_ref().unwrap();
    assert_eq!((stat.kind, stat.len), (FileKind::File, 5));
    let error = walk(start(dir.path(), ""), &rules(&[]), &with(&["a[b"]), &Cancel::never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
    assert!(error.message.contains("a[b"), "{}", error.message);
}

#[test]
fn denied_paths_are_never_found() {
    let dir = tree(&[
        (".env", "needle"),
        ("a/.ENV", "needle"),
        ("a/ok", "needle"),
        ("keys/x.pem", "needle"),
        ("secrets/deep/y", "needle"),
        (".ignore", "!.env\n!secrets\n"),
    ]);
    let rules = rules(&[".env", "*.pem", "secrets/"]);
    let all = WalkRequest { kinds: Kinds::All, obey_ignore: false, ..names() };
    let walked = walk(start(dir.path(), ""), &rules, &all, &Cancel::never()).unwrap();
    let walked: Vec<String> = walked.entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(walked, [".ignore", "a", "a/ok", "keys"]);
    for globs in
        [vec![], vec![".env".to_owned(), "*.pem".to_owned(), "secrets/**".to_owned(), "ok".to_owned()]]
    {
        let request = SearchRequest { globs, ..lines("needle") };
        let start = SearchStart::Dir(start(dir.path(), ""));
        let searched = search(start, &rules, &request, &Cancel::never()).unwrap();
        assert_eq!(shown_lines(&searched), ["a/ok:1: needle"]);
    }
}

#[test]
fn lines_with_their_context_and_pages_of_them() {
    let text = "one\ntwo\nneedle 3\nfour\nfive\nsix\nneedle 7\nneedle 8\nnine\n";
    let dir = tree(&[("a.txt", text), ("b/c.txt", "needle\r\n"), ("d.txt", "nothing\n")]);
    let around = SearchRequest { before: 1, after: 1, ..lines("needle") };
    let expected = [
        "a.txt-2- two",
        "a.txt:3: needle 3",
        "a.txt-4- four",
        "a.txt-6- six",
        "a.txt:7: needle 7",
        "a.txt:8: needle 8",
        "a.txt-9- nine",
        "b/c.txt:1: needle",
    ];
    assert_eq!(shown_lines(&found(dir.path(), &around)), expected);
    let page = |skip, limit| found(dir.path(), &SearchRequest { skip, limit, ..around.clone() });
    let first = page(0, 2);
    assert_eq!(shown_lines(&first), expected[..5]);
    assert!(first.more);
    let second = page(2, 1);
    assert_eq!(shown_lines(&second), expected[5..7]);
    assert!(second.more);
    let third = page(3, 9);
    assert_eq!(shown_lines(&third), expected[7..]);
    assert!(!third.more);
    let one_file = |skip, limit| {
        let file = File::open(dir.path().join("a.txt")).unwrap();
        let request = SearchRequest { skip, limit, ..around.clone() };
        search(SearchStart::File { file, shown: "a.txt".into() }, &rules(&[]), &request, &Cancel::never())
            .unwrap()
    };
    assert_eq!(shown_lines(&one_file(2, 1)), expected[5..7]);
    assert!(one_file(1, 1).more);
    assert!(!one_file(2, 1).more);
}

#[test]
fn files_and_counts() {
    let dir = tree(&[("a", "x\nx\ny\n"), ("b", "y\n"), ("c", "x")]);
    let by = |mode, skip, limit| {
        let searched = found(dir.path(), &SearchRequest { mode, skip, limit, ..lines("x") });
        let files: Vec<(String, u64)> =
            searched.files.into_iter().map(|file| (file.path, file.count)).collect();
        (files, searched.more)
    };
    assert_eq!(by(SearchMode::Count, 0, 9), (vec![("a".into(), 2), ("c".into(), 1)], false));
    assert_eq!(by(SearchMode::Files, 0, 1), (vec![("a".into(), 1)], true));
    assert_eq!(by(SearchMode::Files, 1, 1), (vec![("c".into(), 1)], false));
}

#[test]
fn an_answer_ends_at_its_bytes_and_gives_at_least_one_line() {
    let dir = tree(&[("a", "needle 1\nneedle 2\nneedle 3\n"), ("b", "needle 4\n")]);
    let of = |max_bytes| found(dir.path(), &SearchRequest { max_bytes, ..lines("needle") });
    assert_eq!(shown_lines(&of(40)), ["a:1: needle 1", "a:2: needle 2"]);
    assert_eq!(shown_lines(&of(0)), ["a:1: needle 1"]);
    assert!(of(40).more && of(0).more && !of(1000).more);
}

#[test]
fn what_a_pattern_may_be() {
    let dir = tree(&[("a", "Foo.bar\nfoobar\nfoo bar\nstart\nend\n"), ("crlf", "end\r\nx")]);
    let texts = |request: &SearchRequest| -> Vec<String> {
        found(dir.path(), request)
            .files
            .into_iter()
            .flat_map(|file| file.lines)
            .map(|line| line.text)
            .collect()
    };
    assert_eq!(texts(&lines("foo.bar")), ["foo bar"]);
    assert_eq!(texts(&SearchRequest { literal: true, ..lines("Foo.bar") }), ["Foo.bar"]);
    assert_eq!(
        texts(&SearchRequest { case: CaseMode::Insensitive, ..lines("FOO.BAR") }),
        ["Foo.bar", "foo bar"]
    );
    assert_eq!(texts(&SearchRequest { case: CaseMode::Smart, ..lines("foo.") }).len(), 3);
    assert_eq!(texts(&SearchRequest { case: CaseMode::Smart, ..lines("Foo") }), ["Foo.bar"]);
    assert_eq!(texts(&SearchRequest { word: true, ..lines("foo") }), ["foo bar"]);
    assert_eq!(texts(&lines("end$")), ["end", "end"]);
    assert_eq!(texts(&SearchRequest { multiline: true, ..lines("start.end") }), ["start", "end"]);
    for (pattern, message, hint) in [
        ("foo(", "unclosed group", "literal: true"),
        ("start\nend", "line break", "multiline: true"),
        ("(a{1000}){1000}", "size limit", "literal: true"),
        (r"(a)\1", "backreference", "literal: true"),
    ] {
        let start = SearchStart::Dir(start(dir.path(), ""));
        let error = search(start, &rules(&[]), &lines(pattern), &Cancel::never()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidParams);
        assert!(error.message.contains(message), "{pattern}: {}", error.message);
        assert!(error.hint.unwrap().contains(hint), "{pattern}");
    }
}

#[test]
fn types_choose_files_and_unknown_ones_say_so() {
    let dir = tree(&[("a.rs", "x"), ("b.py", "x"), ("c.txt", "x")]);
    let with = |names: &[&str]| SearchRequest {
        types: names.iter().map(|name| (*name).to_owned()).collect(),
        ..lines("x")
    };
    assert_eq!(shown_lines(&found(dir.path(), &with(&["rust", "py"]))), ["a.rs:1: x", "b.py:1: x"]);
    let from = SearchStart::Dir(start(dir.path(), ""));
    let error = search(from, &rules(&[]), &with(&["rustt"]), &Cancel::never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
    assert!(error.hint.unwrap().contains("rust"));
}

#[test]
fn encodings_with_a_mark_are_read_and_binary_files_are_not() {
    let dir = tree(&[("plain", "needle\n"), ("binary", "needle\0\n")]);
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("ä needle\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    fs::write(dir.path().join("utf16"), utf16).unwrap();
    // A NUL byte far behind is a character as others.
    let late = format!("needle\n{}\0needle\nneedle\n", "line\n".repeat(40_000));
    fs::write(dir.path().join("late"), late).unwrap();
    fs::write(dir.path().join("latin1"), b"\xe4 needle \xff\n").unwrap();
    let searched = found(dir.path(), &lines("needle"));
    let expected = [
        "late:1: needle",
        "late:40002: \0needle",
        "late:40003: needle",
        "latin1:1: ä needle ÿ",
        "plain:1: needle",
        "utf16:1: ä needle",
    ];
    assert_eq!(shown_lines(&searched), expected);
    assert_eq!((searched.searched, searched.binary), (5, 1));
}

#[test]
fn text_in_an_older_encoding_is_found_as_it_is_shown() {
    let dir = tree(&[("damaged", "")]);
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("damaged", "caf\u{e9} und na\u{ef}ve, \u{fc}ber \u{e4}hnlich\n".as_bytes());
    write("latin1", b"Un caf\xe9, s'il vous pla\xeet. L'\xe9t\xe9 \xe0 la plage.\n");
    let japanese = "日本語のテキストです。これは検索されます。\n";
    let encoded = |text: &str| encoding_rs::SHIFT_JIS.encode(text).0.into_owned();
    write("sjis", &encoded(japanese));
    write("large", &[encoded(&japanese.repeat(20_000)), encoded("最後の行\n")].concat());
    let of = |pattern: &str| shown_lines(&found(dir.path(), &lines(pattern)));
    assert_eq!(
        of("caf\u{e9},"),
        ["latin1:1: Un caf\u{e9}, s'il vous pla\u{ee}t. L'\u{e9}t\u{e9} \u{e0} la plage."]
    );
    assert_eq!(of("caf\\w und"), ["damaged:1: caf\u{e9} und na\u{ef}ve, \u{fc}ber \u{e4}hnlich"]);
    assert_eq!(of("^最後"), ["large:20001: 最後の行"]);
    let files = SearchRequest { mode: SearchMode::Files, ..lines("日本") };
    let paths: Vec<String> = found(dir.path(), &files).files.into_iter().map(|file| file.path).collect();
    assert_eq!(paths, ["large", "sjis"]);
    // The last character is no whole one of UTF-8.
    write("open", b"d\xe9j\xe0 vu au caf\xe9");
    assert_eq!(of("caf\u{e9}$"), ["open:1: d\u{e9}j\u{e0} vu au caf\u{e9}"]);
}

#[test]
fn what_stands_behind_a_late_nul_byte_is_counted() {
    let dir = tree(&[("m", "")]);
    let text = [b"needle text\n".repeat(100_000), vec![0, 0, b'\n'], b"needle text\n".repeat(1000)].concat();
    fs::write(dir.path().join("m"), &text).unwrap();
    let counted = |multiline| {
        let request = SearchRequest { mode: SearchMode::Count, multiline, ..lines("needle") };
        found(dir.path(), &request)
    };
    for searched in [counted(false), counted(true)] {
        assert_eq!(searched.files.iter().map(|file| file.count).collect::<Vec<_>>(), [101_000]);
        assert_eq!((searched.binary, searched.unread_count), (0, 0));
    }
    // A second page, and one file that is named.
    let last = SearchRequest { skip: 100_999, limit: 5, ..lines("needle") };
    assert_eq!(shown_lines(&found(dir.path(), &last)), ["m:101001: needle text"]);
    let from = SearchStart::File { file: File::open(dir.path().join("m")).unwrap(), shown: "m".into() };
    let searched = search(from, &rules(&[]), &last, &Cancel::never()).unwrap();
    assert_eq!(shown_lines(&searched), ["m:101001: needle text"]);
}

#[test]
fn a_wide_encoding_with_a_nul_character_is_binary() {
    let dir = tree(&[]);
    for (name, count) in [("small", 1), ("large", 40_000)] {
        let text = format!("needle\0\n{}", "line\n".repeat(count));
        let utf16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        fs::write(dir.path().join(name), utf16).unwrap();
    }
    let searched = found(dir.path(), &lines("needle"));
    assert_eq!((shown_lines(&searched), searched.binary), (Vec::new(), 2));
}

#[test]
fn the_tree_in_memory_answers_as_the_one_on_disk() {
    let files = [
        (".gitignore", "*.log\n"),
        ("a-b", "needle"),
        ("a/x", "needle\nneedle"),
        ("a/y.log", "needle"),
        ("b/.ignore", "c\n"),
        ("b/c", "needle"),
        ("b/d/e", "needle"),
    ];
    let dir = tree(&files);
    let stat = |bytes: &str| helve_core::files::FileStat {
        kind: FileKind::File,
        len: bytes.len() as u64,
        modified: None,
        mode: 0o644,
    };
    let in_memory = |base: &str| {
        let mut entries: std::collections::BTreeMap<&str, MemoryEntry<'_>> = files
            .iter()
            .map(|(path, text)| (*path, MemoryEntry::File { bytes: text.as_bytes(), stat: stat(text) }))
            .collect();
        entries.insert("b", MemoryEntry::Directory);
        MemoryTree::new(entries, base)
    };
    for base in ["", "b", "b/d"] {
        for kinds in [Kinds::All, Kinds::Files, Kinds::Directories] {
            let request = WalkRequest { kinds, ..names() };
            let on_disk = walk(start(dir.path(), base), &rules(&[]), &request, &Cancel::never()).unwrap();
            let memory = walk_memory(&in_memory(base), &rules(&[]), &request, &Cancel::never()).unwrap();
            assert_eq!(on_disk, memory, "{base} {kinds:?}");
        }
        for skip in 0..3 {
            let request = SearchRequest { skip, limit: 2, ..lines("needle") };
            let from = SearchStart::Dir(start(dir.path(), base));
            let on_disk = search(from, &rules(&[]), &request, &Cancel::never()).unwrap();
            let memory = search_memory(&in_memory(base), &rules(&[]), &request, &Cancel::never()).unwrap();
            assert_eq!(on_disk.files, memory.files, "{base} {skip}");
            assert_eq!(on_disk.more, memory.more);
        }
    }
    let one = search_bytes(b"a\nneedle", "m".into(), &lines("needle"), &Cancel::never()).unwrap();
    assert_eq!(shown_lines(&one), ["m:2: needle"]);
}
