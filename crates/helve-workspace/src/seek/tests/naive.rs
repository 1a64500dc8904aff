//! Random trees, beside the walker of the `ignore` crate and a search that does the simplest thing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 8] = ["a", "b", "a-b", "a.b", ".h", "build", "x.log", "target"];
const PATTERNS: [&str; 13] = [
    "*.log",
    "build/",
    "/a",
    "!x.log",
    "a/b",
    "**/b",
    "target",
    "b*",
    "!build/",
    "a/**",
    ".h",
    "# no",
    "!/a/target",
];

fn directory() -> impl Strategy<Value = String> {
    prop::collection::vec(0..NAMES.len(), 0..4)
        .prop_map(|names| names.into_iter().map(|name| format!("{}/", NAMES[name])).collect())
}

fn file() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        8 => (0..NAMES.len()).prop_map(|name| NAMES[name].to_owned()),
        2 => prop_oneof![Just(".gitignore"), Just(".ignore"), Just(".git/info/exclude")].prop_map(str::to_owned),
    ];
    let patterns = prop::collection::vec(0..PATTERNS.len(), 1..4)
        .prop_map(|lines| lines.into_iter().map(|line| format!("{}\n", PATTERNS[line])).collect::<String>());
    (directory(), name, patterns).prop_map(|(dir, name, text)| (format!("{dir}{name}"), text))
}

/// A repository with the files that can be made: one whose name is a directory by now is left out, and what would be in a
/// file too.
fn planted(files: &[(String, String)]) -> TempDir {
    let dir = tree(&[(".git/", "")]);
    for (path, text) in files {
        let path = dir.path().join(path);
        if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
            let _ = fs::write(path, text);
        }
    }
    dir
}

fn by_ignore_crate(root: &Path, hidden: bool, obey: bool) -> BTreeSet<String> {
    ignore::WalkBuilder::new(root)
        .hidden(!hidden)
        .ignore(obey)
        .git_ignore(obey)
        .git_exclude(obey)
        .git_global(false)
        .parents(false)
        .follow_links(false)
        .filter_entry(|entry| !entry.path().parent().is_some_and(|above| above.ends_with(".git")))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() > 0)
        .map(|entry| entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_finds_what_the_ignore_crate_finds(
        files in prop::collection::vec(file(), 0..30),
        hidden: bool,
        obey: bool,
        limit in 1_usize..8,
    ) {
        let dir = planted(&files);
        let request = WalkRequest { kinds: Kinds::All, hidden, obey_ignore: obey, ..names() };
        let walked = paths(dir.path(), &request);
        let expected: Vec<String> = by_ignore_crate(dir.path(), hidden, obey).into_iter().collect();
        prop_assert_eq!(&walked, &expected);

        // Pages of it give the same.
        let mut pages: Vec<String> = Vec::new();
        loop {
            let request = WalkRequest { limit, after: pages.last().cloned(), ..request.clone() };
            let page = walk(start(dir.path(), ""), &rules(&[]), &request, &Cancel::never()).unwrap();
            prop_assert!(page.entries.len() == limit || !page.more);
            pages.extend(page.entries.into_iter().map(|entry| entry.path));
            if !page.more {
                break;
            }
        }
        prop_assert_eq!(&pages, &expected);

        // From any directory that is not itself left out, the same again.
        for base in expected.iter().filter(|path| dir.path().join(path).is_dir() && !path.ends_with(".git")) {
            let inside = walk(start(dir.path(), base), &rules(&[]), &request, &Cancel::never()).unwrap();
            let inside: Vec<String> = inside.entries.into_iter().map(|entry| entry.path).collect();
            let below: Vec<String> =
                expected.iter().filter(|path| path.starts_with(&format!("{base}/"))).cloned().collect();
            prop_assert_eq!(inside, below);
        }
    }

    #[test]
    fn a_search_finds_what_reading_every_file_finds(
        files in prop::collection::vec((directory(), 0..NAMES.len(), "[xy\n]{0,12}"), 0..25),
        limit in 1_usize..6,
        context in 0_usize..3,
    ) {
        let files: Vec<(String, String)> =
            files.into_iter().map(|(dir, name, text)| (format!("{dir}{}", NAMES[name]), text)).collect();
        let dir = planted(&files);
        let request = SearchRequest { obey_ignore: false, ..lines("xy") };
        let mut expected = Vec::new();
        for path in paths(dir.path(), &WalkRequest { obey_ignore: false, ..names() }) {
            let text = fs::read_to_string(dir.path().join(&path)).unwrap();
            for (number, line) in text.split('\n').enumerate().filter(|(_, line)| line.contains("xy")) {
                expected.push(format!("{path}:{}: {line}", number + 1));
            }
        }
        prop_assert_eq!(shown_lines(&found(dir.path(), &request)), &expected[..]);

        let mut pages = Vec::new();
        loop {
            let around = SearchRequest { before: context, after: context, skip: pages.len(), limit, ..request.clone() };
            let page = found(dir.path(), &around);
            let matched: Vec<String> =
                shown_lines(&page).into_iter().filter(|line| line.contains(": ")).collect();
            prop_assert!(matched.len() == limit || !page.more);
            pages.extend(matched);
            if !page.more {
                break;
            }
        }
        prop_assert_eq!(pages, expected);
    }
}
