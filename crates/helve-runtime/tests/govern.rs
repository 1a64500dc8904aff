//! What the model, the journal and the disk may see of an output.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Printer, builder, fake, journal, open_schema, says, shell_tool};
use helve_core::{Call, Output, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::json;

const SECRET: &str = "hunter2-correct-horse";

/// Every byte of every file under `dir`.
fn everything_under(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything_under(&path));
        } else {
            all.extend(std::fs::read(&path).unwrap());
        }
    }
    all
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

fn with_secret(root: &Path, extra: &str) -> String {
    let file = root.join("token");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    format!("{extra}\n[[secrets]]\nfile = {:?}\n", file.to_str().unwrap())
}

#[tokio::test]
async fn a_secret_split_over_chunks_reaches_neither_model_nor_disk() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let filler: &'static str = Box::leak("filler line\n".repeat(2000).into_boxed_str());
    let printer = Printer {
        contained: true,
        pieces: vec![filler, "a hunter2-cor", "rect-horse b"],
        runs: Arc::default(),
    };
    let runtime =
        builder(dir.path(), &policy).register(shell_tool()).shell(Arc::new(printer)).build().unwrap();
    let result = runtime.call(Call::new("sh", json!({"command": "print it"}))).await;
    assert!(result.ok, "{result:?}");
    assert!(result.details["blob"].is_string(), "the output is long enough for a blob");
    let disk = everything_under(&dir.path().join("state"));
    assert!(!contains(&disk, SECRET));
    assert!(contains(&disk, "a [REDACTED:token] b"), "the blob has the mark in its place");
}

#[tokio::test]
async fn secrets_in_arguments_details_and_errors_are_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let policy = with_secret(dir.path(), "");
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "key": {"type": "string"}}});
    let spec = ToolSpec::new("t", "", schema).sensitive(&["key"]).read_only();
    let tool = fake(spec, |args, _| {
        Box::pin(async move {
            let details = json!({"seen": args["a"], "key_length": args["key"].as_str().unwrap_or("").len()});
            Ok(Output::text(format!("got {}", args["a"]))
                .with_details(details)
                .with_raw(format!("raw {}", args["a"])))
        })
    });
    let runtime = builder(dir.path(), &policy).register(tool).build().unwrap();
    let result = runtime.call(Call::new("t", json!({"a": SECRET, "key": "private words"}))).await;
    assert_eq!(result.text(), "got \"[REDACTED:token]\"");
    assert_eq!(result.details, json!({"seen": "[REDACTED:token]", "key_length": 13}));
    let text = helve_core::Args::Text(format!("{{\"a\":[\"{SECRET}\"],\"key\":\"private words\"}}"));
    let invalid = runtime.call(Call::new("t", text)).await;
    assert!(!invalid.ok);
    let journal = journal(dir.path());
    assert!(!journal.contains(SECRET) && !journal.contains("private words"), "{journal}");
    assert!(journal.contains("\"raw\":\"raw "), "{journal}");
}

#[tokio::test]
async fn terminal_escapes_and_invisible_characters_become_visible() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(says("t", "\x1b]0;owned\x07 a\u{202e}b")).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    assert_eq!(result.text(), "\\x1b]0;owned\\x07 a\\u{202e}b");
}

#[tokio::test]
async fn a_long_text_keeps_head_and_tail_with_the_exact_count() {
    let dir = tempfile::tempdir().unwrap();
    let long: &'static str = Box::leak(format!("start{}end", "ä".repeat(30_000)).into_boxed_str());
    let runtime = builder(dir.path(), "").register(says("t", long)).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    let truncated = result.truncated.clone().unwrap();
    assert_eq!((truncated.chars, truncated.bytes), (20_008, 40_016));
    let text = result.text();
    assert!(text.starts_with("start") && text.ends_with("end"));
    assert!(text.contains("(20008 characters left out;"), "{}", &text[5000..5200]);
    let home = helve_store::Home::open(&dir.path().join("state")).unwrap();
    let blobs = helve_store::Blobs::open(&home, 1 << 20).unwrap();
    let whole = blobs.read_range(&truncated.blob.unwrap(), 0, 1 << 20).unwrap();
    assert_eq!(whole, long.as_bytes());
}

#[tokio::test]
async fn details_that_do_not_fit_their_schema_are_left_out_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec::new("t", "", open_schema()).output_schema(schema).read_only();
    let tool = fake(spec, |_, _| Box::pin(async { Ok(Output::text("x").with_details(json!({"n": "one"}))) }));
    let runtime = builder(dir.path(), "").register(tool).build().unwrap();
    let result = runtime.call(Call::new("t", json!({}))).await;
    assert!(result.ok && result.details.is_null());
    assert!(result.notes[0].contains("do not fit"), "{:?}", result.notes);
}
