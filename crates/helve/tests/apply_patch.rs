//! A patch over many files through the library: all of it happens, or the tree stays as it was, to the byte.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use helve::{Call, Policy, Runtime};
use pretty_assertions::assert_eq;
use serde_json::json;

const FILES: usize = 100;

/// Every file with its bytes and the time of its last change.
fn tree(root: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, (fs::read(entry.path()).unwrap(), entry.metadata().unwrap().modified().unwrap()))
    };
    entries.map(file).collect()
}

fn workspace(dir: &Path) -> Runtime {
    let workspace = dir.join("workspace");
    fs::create_dir(&workspace).unwrap();
    for at in 0..FILES {
        fs::write(workspace.join(format!("f{at}.txt")), format!("first\nline {at}\r\nlast")).unwrap();
    }
    let builder = Runtime::builder().policy(Policy::builtin()).workspace(workspace).home(dir.join("home"));
    helve::register_file_tools(builder).build().unwrap()
}

/// Changes, moves and deletes all files in turn, and adds one for each.
fn patch(last: &str) -> String {
    let mut text = String::from("*** Begin Patch\n");
    for at in 0..FILES {
        let old = if at + 1 == FILES { last.to_owned() } else { format!("line {at}") };
        text.push_str(&match at % 4 {
            0 => format!("*** Delete File: f{at}.txt\n"),
            1 => format!("*** Update File: f{at}.txt\n*** Move to: moved{at}.txt\n@@\n-line {at}\n+LINE\n"),
            _ => format!("*** Update File: f{at}.txt\n@@\n-{old}\n+LINE\n"),
        });
        text.push_str(&format!("*** Add File: new{at}.txt\n+new\n"));
    }
    text + "*** End Patch\n"
}

async fn apply(runtime: &Runtime, input: String, dry_run: bool) -> helve::CallResult {
    runtime.call(Call::new("apply_patch", json!({"input": input, "dry_run": dry_run}))).await
}

#[tokio::test]
async fn a_patch_whose_last_hunk_fails_leaves_the_tree_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = workspace(dir.path());
    let before = tree(&dir.path().join("workspace"));
    let result = apply(&runtime, patch("no such line"), false).await;
    assert!(!result.ok);
    assert!(result.text().contains("f99.txt (line "), "{}", result.text());
    assert!(result.text().contains("Failed to find expected lines in f99.txt"), "{}", result.text());
    assert_eq!(tree(&dir.path().join("workspace")), before);
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_tells_what_the_patch_then_does() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = workspace(dir.path());
    let root = dir.path().join("workspace");
    let before = tree(&root);
    let rehearsed = apply(&runtime, patch("line 99"), true).await;
    assert!(rehearsed.ok, "{}", rehearsed.text());
    assert_eq!(tree(&root), before);
    let applied = apply(&runtime, patch("line 99"), false).await;
    assert!(applied.ok, "{}", applied.text());
    assert_eq!(applied.details["summary"], rehearsed.details["summary"]);
    assert_eq!(applied.details["diff"], rehearsed.details["diff"]);
    let after = tree(&root);
    assert_eq!(after.len(), FILES + 3 * FILES / 4);
    assert_eq!(after["f99.txt"].0, b"first\nLINE\nlast");
    assert_eq!(after["moved1.txt"].0, b"first\nLINE\nlast");
    assert!(!after.contains_key("f0.txt") && !after.contains_key("f1.txt"));
}

#[tokio::test]
async fn undo_after_a_patch_gives_every_byte_back() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = workspace(dir.path());
    let root = dir.path().join("workspace");
    let bytes = || tree(&root).into_iter().map(|(name, (bytes, _))| (name, bytes)).collect::<Vec<_>>();
    let before = bytes();
    let applied = apply(&runtime, patch("line 99"), false).await;
    assert!(applied.ok, "{}", applied.text());
    assert_ne!(bytes(), before);
    let undone = runtime.undo(applied.call.as_str(), false).await.unwrap();
    assert!(undone.ok, "{}", undone.text());
    assert_eq!(bytes(), before);
}
