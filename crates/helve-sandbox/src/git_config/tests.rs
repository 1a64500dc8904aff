use std::io::Write;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Entries as `git config --list -z` prints them: key, line feed, value, NUL.
fn listed(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(entry.section.as_bytes());
        if let Some(subsection) = &entry.subsection {
            bytes.push(b'.');
            bytes.extend_from_slice(subsection);
        }
        bytes.push(b'.');
        bytes.extend_from_slice(entry.name.as_bytes());
        if let Some(value) = &entry.value {
            bytes.push(b'\n');
            bytes.extend_from_slice(value);
        }
        bytes.push(0);
    }
    bytes
}

/// What git reads; none if it cannot.
fn by_git(text: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new("git")
        .args(["config", "--no-includes", "--list", "-z", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    output.status.success().then_some(output.stdout)
}

fn git_is_there() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped what needs git");
    }
    there
}

const TEXTS: &[&str] = &[
    "",
    "\u{feff}[core]\n\tbare = false\n",
    "[core]\nbare",
    "[Core]\r\n\tBare = TRUE\r\n",
    "[core] bare = true # not so\n; a comment\n[user]name=A  B \t \n",
    "[remote \"o\\\"r\\\\i g\"]\nurl = a\\tb\\n\\\\\\\"c\"  d # \" # e\n",
    "[branch.Main]\nmerge = refs/heads/a\\\n  b\n",
    "[a.b \"C\"]\nx = 1\n",
    "[a \"\"]\nx = \"\"\ny =\nz = \" \"\n",
    "[a]\nx = one ; two \\\ny = three\n",
    "[a]\nx = \"one\" two \"three ; four\"\n",
    "[a] [b] x\n[c]y=1",
];

const FAULTS: &[(&str, usize)] = &[
    ("x = 1\n", 1),
    ("[a]\n\n1x = 1\n", 3),
    ("[a]\nx = \"open\ny = 1\n", 3),
    ("[a \"b\nc\"]\n", 2),
    ("[a\n]", 2),
    ("[a]\nx = \\q\n", 2),
    ("[a]\nx y\n", 2),
    ("[a]\nx_y = 1\n", 2),
    ("[]\nx = 1\n", 1),
    ("[a]\nx = 1\ry = 2\n", 2),
    ("[a]\nx = 1\0\n", 2),
    ("[a]\nx = 1\\", 2),
];

#[test]
fn texts_read_as_git_reads_them() {
    if !git_is_there() {
        return;
    }
    for text in TEXTS {
        let own = read(text.as_bytes()).map(|entries| String::from_utf8(listed(&entries)).unwrap());
        let gits = String::from_utf8(by_git(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(own, Ok(gits), "{text:?}");
    }
}

#[test]
fn faults_are_told_with_their_line() {
    for (text, line) in FAULTS {
        assert_eq!(read(text.as_bytes()).map_err(|fault| fault.line), Err(*line), "{text:?}");
    }
    assert!(read(&vec![b'\n'; MOST_BYTES + 1]).is_err());
}

/// Texts made of what the format is made of, so that many are valid.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "[",
        "]",
        "\"",
        "\\",
        "\n",
        "\r\n",
        " ",
        "\t",
        "=",
        "#",
        ";",
        ".",
        "-",
        "a",
        "B",
        "1",
        "é",
        "[a]\n",
        "[a \"b\"]\n",
        "x = y\n",
        "\\\n",
        "[c.d]",
        "\\t",
        "\\\"",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(fault) = read(&bytes) {
            prop_assert!(fault.line >= 1 && fault.line <= bytes.len() + 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever both can read they read alike, and whatever git reads beyond is refused, never misread.
    #[test]
    fn what_is_read_is_what_git_reads(text in pieces()) {
        if let (Ok(entries), true) = (read(&text), git_is_there()) {
            prop_assert_eq!(Some(listed(&entries)), by_git(&text), "{:?}", String::from_utf8_lossy(&text));
        }
    }
}
