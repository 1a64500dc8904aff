//! Writing and editing through a bridge, example by example: each test is named after what its description promises.
//!
//! Where Helve does otherwise on purpose, the test says so:
//! - the examples count 27 bytes for a text of 22: the real number is told;
//! - an edit that failed after it was applied is a success by the bytes that were written, not by a guess;
//! - what does not match is shown with the place that comes nearest, not with the head of the file.
//!
//! Every example runs on both bridges. What is inside the sandbox is told with `sandbox:` and `sandbox: true`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Place, sandbox_works};

const HELLO: &str = "console.log(\"Hello\");";
const WORLD: &str = "console.log(\"Hello, World!\");";

/// The setting, and what stands before a path, of each bridge that can be had.
fn bridges() -> Vec<(&'static str, &'static str)> {
    let mut bridges = vec![("files.bridge=host", "")];
    if sandbox_works() {
        bridges.push(("files.bridge=sandbox", "sandbox:"));
    }
    bridges
}

fn read(place: &Place, path: &str) -> Option<String> {
    std::fs::read_to_string(place.workspace().join(path)).ok()
}

/// A place with the file of the examples.
fn with_file(text: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.workspace().join("src")).unwrap();
    place.put("src/main.js", text);
    place
}

#[test]
fn write_makes_the_file_and_the_directories_above_it() {
    for (bridge, prefix) in bridges() {
        for tool in ["sandboxed_write", "write", "write_file"] {
            let place = Place::new();
            let answer = place.call_with(tool, &json!({"path": "src/main.js", "content": HELLO}), &[bridge]);
            let bytes = HELLO.len();
            assert_eq!(answer.good(), format!("Successfully wrote {bytes} bytes to {prefix}src/main.js"));
            let details = &answer.result["details"];
            let told = (&details["path"], &details["bytesWritten"], &details["sandbox"]);
            assert_eq!(told, (&json!("src/main.js"), &json!(bytes), &json!(!prefix.is_empty())));
            assert_eq!(read(&place, "src/main.js").as_deref(), Some(HELLO));
        }
    }
}

#[test]
fn edit_replaces_exactly_the_text() {
    for (bridge, prefix) in bridges() {
        for tool in ["sandboxed_edit", "edit", "edit_file"] {
            let place = with_file(HELLO);
            let args = json!({"path": "src/main.js", "oldText": HELLO, "newText": WORLD});
            let answer = place.call_with(tool, &args, &[bridge]);
            assert_eq!(answer.good(), format!("Successfully edited {prefix}src/main.js"));
            let details = &answer.result["details"];
            let told = (&details["path"], &details["sandbox"]);
            assert_eq!(told, (&json!("src/main.js"), &json!(!prefix.is_empty())));
            assert_eq!(read(&place, "src/main.js").as_deref(), Some(WORLD));
        }
    }
}

#[test]
fn every_alias_of_every_parameter_is_taken() {
    let paths = ["path", "file_path", "filePath", "file"];
    let old = ["oldText", "old_string", "old_text", "oldString"];
    let new = ["newText", "new_string", "new_text", "newString"];
    for path in paths {
        let place = Place::new();
        place.call("sandboxed_write", &json!({path: "a", "content": "one"})).good();
        assert_eq!(read(&place, "a").as_deref(), Some("one"), "{path}");
        assert_eq!(place.call("sandboxed_read", &json!({path: "a"})).good(), "one", "{path}");
        for (old, new) in old.iter().zip(new) {
            place.call("sandboxed_edit", &json!({path: "a", *old: "one", new: "two"})).good();
            place.call("edit", &json!({path: "a", "edits": [{*old: "two", new: "one"}]})).good();
            assert_eq!(read(&place, "a").as_deref(), Some("one"), "{path} {old} {new}");
        }
    }
}

#[test]
fn the_canonical_name_wins_over_its_aliases() {
    let place = Place::new();
    place.call("write", &json!({"path": "right", "file_path": "wrong", "content": "x"}));
    assert!(!place.has("wrong"));
}

#[test]
fn empty_new_text_deletes_and_a_missing_one_is_invalid() {
    let place = with_file("keep drop");
    place.call("edit", &json!({"path": "src/main.js", "oldText": " drop", "newText": ""})).good();
    assert_eq!(read(&place, "src/main.js").as_deref(), Some("keep"));
    for args in [
        json!({"path": "src/main.js", "oldText": "keep"}),
        json!({"path": "src/main.js", "edits": [{"oldText": "keep"}]}),
        json!({"oldText": "keep", "newText": "x"}),
        json!({"path": "src/main.js", "newText": "x"}),
        json!({"path": "src/main.js", "oldText": "", "newText": "x"}),
    ] {
        let answer = place.call("edit", &args);
        assert_eq!((answer.code, answer.kind()), (2, Some("invalid_params")), "{args}: {}", answer.text());
    }
    assert_eq!(read(&place, "src/main.js").as_deref(), Some("keep"));
}

#[test]
fn required_parameters_of_write_are_checked_before_anything_is_written() {
    let place = Place::new();
    for args in [json!({"content": "x"}), json!({"path": "a"}), json!({"path": "", "content": "x"})] {
        let answer = place.call("write", &args);
        assert_eq!((answer.code, answer.kind()), (2, Some("invalid_params")), "{args}: {}", answer.text());
    }
    assert!(!place.has("a"));
}

#[test]
fn texts_in_blocks_are_put_together() {
    let place = Place::new();
    let blocks = json!([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]);
    place.call("write", &json!({"path": "a", "content": blocks})).good();
    assert_eq!(read(&place, "a").as_deref(), Some("one two"));
    let edits = json!([{"oldText": {"type": "text", "text": "two"}, "newText": "three"}]).to_string();
    place.call("edit", &json!({"path": "a", "edits": edits})).good();
    assert_eq!(read(&place, "a").as_deref(), Some("one three"));
}

#[test]
fn an_edit_that_is_there_already_is_a_success() {
    for (bridge, prefix) in bridges() {
        let place = with_file(HELLO);
        let args = json!({"path": "src/main.js", "oldText": HELLO, "newText": WORLD});
        let call = json!({"id": 1, "tool": "sandboxed_edit", "args": args});
        for result in place.batch(&[call.clone(), call], &[bridge]) {
            let text = support::text(&result);
            let wanted = format!("Successfully edited {prefix}src/main.js");
            assert!(result["ok"] == true && text.starts_with(&wanted), "{result:#}");
            assert_eq!(read(&place, "src/main.js").as_deref(), Some(WORLD));
        }
        // The same from another process of the session, which finds what the last one replaced.
        let again = place.call_with("sandboxed_edit", &args, &[bridge]);
        assert!(
            again.good().starts_with(&format!("Successfully edited {prefix}src/main.js")),
            "{}",
            again.text()
        );
        assert_eq!(again.result["details"]["status"], "already_applied");
        let other_text = json!({"path": "src/main.js", "oldText": HELLO, "newText": "something else"});
        let other_edit = place.call_with("sandboxed_edit", &other_text, &[bridge]);
        assert_eq!(other_edit.code, 1, "another edit was not made: {}", other_edit.text());
        place.put("src/main.js", &format!("{WORLD}// and more\n"));
        let changed = place.call_with("sandboxed_edit", &args, &[bridge]);
        assert_eq!(changed.code, 1, "the file is not what the edit made of it: {}", changed.text());
        // The same words in a file that this session did not change are no proof.
        let other = with_file(WORLD);
        let answer = other.call_with("sandboxed_edit", &args, &[bridge]);
        assert_eq!(answer.code, 1, "{}", answer.text());
    }
}

#[test]
fn what_does_not_match_is_shown_with_what_is_there() {
    for (bridge, _) in bridges() {
        let text: String = (1..400).map(|line| format!("line {line}\n")).collect();
        let place = with_file(&format!("{text}    let total = sum(a, b);\n"));
        let args = json!({"path": "src/main.js", "oldText": "let total = sum(a, c);", "newText": "x"});
        let answer = place.call_with("sandboxed_edit", &args, &[bridge]);
        assert_eq!((answer.code, answer.result["ok"].clone()), (1, Value::Bool(false)));
        let shown = answer.text();
        assert!(shown.contains("Could not find the exact text in"), "{shown}");
        assert!(shown.contains("400") && shown.contains("sum(a, b)"), "{shown}");
    }
}

#[test]
fn nothing_outside_the_root_is_reached_on_either_bridge() {
    for (bridge, _) in bridges() {
        let place = Place::new();
        let secret = place.outside().join("secret");
        std::fs::write(&secret, "canary").unwrap();
        std::os::unix::fs::symlink(place.outside(), place.workspace().join("link")).unwrap();
        for path in ["../outside/secret", "link/secret", secret.to_str().unwrap(), "/proc/self/environ"] {
            let answer = place.call_with("sandboxed_read", &json!({"path": path}), &[bridge]);
            assert_eq!(
                (answer.code, answer.kind()),
                (3, Some("blocked")),
                "{bridge} {path}: {}",
                answer.text()
            );
            assert!(!answer.result.to_string().contains("canary"));
            let args = json!({"path": path, "content": "overwritten"});
            assert_eq!(
                place.call_with("sandboxed_write", &args, &[bridge]).kind(),
                Some("blocked"),
                "{path}"
            );
        }
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "canary");
    }
}

#[test]
fn calls_inside_the_sandbox_can_be_undone_and_are_searched_and_patched() {
    if !sandbox_works() {
        return;
    }
    let bridge = "files.bridge=sandbox";
    let place = with_file("one\n");
    place.call_with("write", &json!({"path": "src/main.js", "content": "two\n"}), &[bridge]).good();
    let patch =
        "*** Begin Patch\n*** Update File: src/main.js\n-two\n+three\n*** Add File: new\n+x\n*** End Patch";
    place.call_with("apply_patch", &json!({"input": patch}), &[bridge]).good();
    assert_eq!(read(&place, "src/main.js").as_deref(), Some("three\n"));
    let found = place.call_with("grep", &json!({"pattern": "thr.e"}), &[bridge]);
    assert!(found.good().contains("src/main.js:1"), "{}", found.text());
    for (file, new) in [("three\n", true), ("two\n", false), ("one\n", false)] {
        assert_eq!((read(&place, "src/main.js").as_deref(), place.has("new")), (Some(file), new));
        let ran = place.run(&["undo", "--session", support::SESSION, "--set", bridge]);
        assert_eq!(ran.code == 0, file != "one\n", "{ran:?}");
    }
}
