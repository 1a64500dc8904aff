//! What is taken out of an exported session.

use helve::store::{Entry, EntryKind, Journal, JournalOptions};
use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_folder_holds_the_session_without_its_secrets_and_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let mut writer = Blobs::open(&home, u64::MAX).unwrap().writer();
    writer.write(b"whole output with DB_PASSWORD=geheim99\n").unwrap();
    let kept = writer.finish().unwrap().id;
    let absent = format!("b3:{}", "0".repeat(64));
    let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
    for body in [
        serde_json::json!({"args": {"command": "curl https://me:geheim@host"}}),
        serde_json::json!({"truncated": {"blob": kept}, "text": format!("the whole is {absent}.")}),
        serde_json::json!({"agent": "asked", "request": format!("b3:{}", "2".repeat(64))}),
        serde_json::json!({"changes": [{"after": format!("b3:{}", "1".repeat(64))}]}),
    ] {
        journal.append(&Entry { kind: EntryKind::Note, call: None, at_us: 1, body }).unwrap();
    }
    let folder = dir.path().join("out");
    let cleaner = Cleaner::new(&str::to_owned);
    let more = [("versions", serde_json::json!({"helve": "0", "token": "geheim99"}))];
    let exported = export(&home, "s", &folder, &cleaner, &more).unwrap();
    assert_eq!(
        (exported.entries, exported.cleaned_entries, exported.blobs, exported.cleaned_blobs),
        (4, 1, 1, 1)
    );
    let left: Vec<&String> = exported.left_out.iter().map(|(id, _)| id).collect();
    assert_eq!(left, [&absent]);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let lines: Vec<Value> =
        read("journal.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["body"]["args"]["command"], "curl https://me:[REMOVED]@host");
    assert_eq!((&lines[0]["cleaned"], &lines[1]["cleaned"]), (&json!(true), &Value::Null));
    let all = read("journal.jsonl")
        + &read("README.md")
        + &read("versions.json")
        + &read(&format!("blobs/{}", kept.trim_start_matches("b3:")));
    assert!(!all.contains("geheim"), "{all}");
    assert!(matches!(export(&home, "s", &folder, &cleaner, &[]), Err(ExportError::Exists(_))));
    let other = dir.path().join("other");
    assert!(matches!(export(&home, "none", &other, &cleaner, &[]), Err(ExportError::Store(_))));
    assert!(!other.exists());
}
