//! Pins, tokens and logs of servers on disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn place() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    (dir, home)
}

fn new(tool: &str, hash: &str) -> NewPin {
    NewPin { tool: tool.into(), hash: hash.into(), definition: json!({"name": tool, "description": hash}) }
}

fn hashes(pins: &Pins, server: &str) -> Option<Vec<(String, String)>> {
    let pins = pins.of(server).unwrap()?;
    Some(pins.into_iter().map(|pin| (pin.tool, pin.hash)).collect())
}

fn pair(tool: &str, hash: &str) -> (String, String) {
    (tool.to_owned(), hash.to_owned())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn pins_are_added_replaced_and_taken_back() {
    let (dir, home) = place();
    let pins = Pins::new(&home);
    assert_eq!(pins.of("files").unwrap(), None, "never seen");
    assert_eq!(pins.servers().unwrap(), Vec::<String>::new());
    assert!(!dir.path().join("home/mcp").exists(), "to look makes nothing");
    pins.pin("files", vec![new("write", "h1"), new("read", "h2")]).unwrap();
    assert_eq!(hashes(&pins, "files"), Some(vec![pair("read", "h2"), pair("write", "h1")]));
    pins.pin("files", vec![new("write", "h3"), new("list", "h4")]).unwrap();
    let all = vec![pair("list", "h4"), pair("read", "h2"), pair("write", "h3")];
    assert_eq!(hashes(&pins, "files"), Some(all));
    let write = pins.of("files").unwrap().unwrap().remove(2);
    assert_eq!(write.definition, json!({"name": "write", "description": "h3"}));
    assert!(write.pinned_at_us > 0);
    assert!(pins.unpin("files", "read").unwrap());
    assert!(!pins.unpin("files", "read").unwrap());
    pins.pin("empty", Vec::new()).unwrap();
    assert_eq!(hashes(&pins, "empty"), Some(Vec::new()), "seen, without tools");
    assert_eq!(pins.servers().unwrap(), ["empty", "files"]);
    assert!(pins.forget("files").unwrap());
    assert!(!pins.forget("files").unwrap());
    assert_eq!(pins.of("files").unwrap(), None);
    assert_eq!(mode(&dir.path().join("home/mcp/empty/pins.jsonl")), 0o600);
}

#[test]
fn a_server_may_have_any_name() {
    let (dir, home) = place();
    let (pins, tokens) = (Pins::new(&home), Tokens::new(&home));
    // As an older Helve leaves it.
    std::fs::create_dir(dir.path().join("home/mcp")).unwrap();
    std::fs::write(dir.path().join("home/mcp/lock"), "").unwrap();
    assert_eq!(pins.of("lock").unwrap(), None);
    for server in ["lock", "scratch", "tokens", "log", "pins"] {
        tokens.set(server, "a token").unwrap();
        pins.pin(server, vec![new("read", "h1")]).unwrap();
        assert_eq!(hashes(&pins, server), Some(vec![pair("read", "h1")]));
        assert_eq!(tokens.get(server).unwrap().as_deref(), Some("a token"));
    }
    assert_eq!(pins.servers().unwrap(), ["lock", "log", "pins", "scratch", "tokens"]);
}

/// Taken for "never seen", a damaged file would let every changed definition through.
#[test]
fn pins_that_cannot_be_read_are_an_error_until_they_are_forgotten() {
    let (dir, home) = place();
    let pins = Pins::new(&home);
    pins.pin("a", vec![new("t", "h")]).unwrap();
    let file = dir.path().join("home/mcp/a/pins.jsonl");
    let whole = std::fs::read(&file).unwrap();
    for cut in [1, whole.len() / 2, whole.len() - 2] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let error = pins.of("a").unwrap_err().to_string();
        assert!(error.contains("helve mcp trust a"), "{error}");
        assert!(pins.pin("a", vec![new("t2", "h")]).is_err());
    }
    assert!(pins.forget("a").unwrap());
    assert_eq!(pins.of("a").unwrap(), None);
}

/// A writer that was killed leaves a new file behind, and the old one counts.
#[test]
fn what_an_interrupted_writer_left_changes_nothing() {
    let (dir, home) = place();
    let pins = Pins::new(&home);
    pins.pin("a", vec![new("t", "h")]).unwrap();
    std::fs::write(dir.path().join("home/mcp/a/pins.jsonl.new"), "{\"tool\":").unwrap();
    assert_eq!(hashes(&pins, "a"), Some(vec![pair("t", "h")]));
    pins.pin("a", vec![new("u", "h")]).unwrap();
    assert_eq!(hashes(&pins, "a").unwrap().len(), 2);
}

#[test]
fn many_at_once_lose_no_pin_and_no_token() {
    let (_dir, home) = place();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let home = home.clone();
            scope.spawn(move || {
                for n in 0..10 {
                    Pins::new(&home).pin("a", vec![new(&format!("{thread}.{n}"), "h")]).unwrap();
                    Tokens::new(&home).set(&format!("{thread}.{n}"), "t").unwrap();
                }
            });
        }
    });
    assert_eq!(hashes(&Pins::new(&home), "a").unwrap().len(), 40);
    assert_eq!(Tokens::new(&home).keys().unwrap().len(), 40);
}

#[test]
fn names_that_are_no_directories_are_refused() {
    let (_dir, home) = place();
    for bad in ["", ".", "..", "a/b", "a b", "ü", "a.b", &"x".repeat(65)] {
        assert!(matches!(Pins::new(&home).of(bad), Err(StoreError::BadServer(_))), "{bad}");
        assert!(ServerLogs::new(&home, 1000).note(bad, "note", "x").is_err(), "{bad}");
    }
}

#[test]
fn tokens_are_the_owners_alone_and_no_message_shows_them() {
    let (dir, home) = place();
    let tokens = Tokens::new(&home);
    assert_eq!(tokens.get("a").unwrap(), None);
    assert!(!tokens.remove("a").unwrap());
    tokens.set("a", "geheim-1").unwrap();
    tokens.set("a", "geheim-2").unwrap();
    tokens.set("b|https://x", "geheim-3").unwrap();
    assert_eq!(tokens.get("a").unwrap().as_deref(), Some("geheim-2"));
    let file = dir.path().join("home/mcp/tokens.json");
    assert_eq!(mode(&file), 0o600);
    assert!(tokens.remove("a").unwrap());
    assert_eq!(tokens.keys().unwrap(), ["b|https://x"]);
    std::fs::write(&file, "{\"a\": geheim-4}").unwrap();
    let error = tokens.get("a").unwrap_err();
    assert!(
        error.to_string().contains("tokens.json") && !format!("{error:?} {error}").contains("geheim"),
        "{error}"
    );
    // A link in its place is not followed.
    std::fs::rename(&file, dir.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("moved"), &file).unwrap();
    assert!(tokens.get("a").is_err());
}

#[test]
fn a_log_is_bounded_and_keeps_the_newest() {
    let (dir, home) = place();
    let logs = ServerLogs::new(&home, 10_000);
    assert_eq!(logs.of("a").unwrap(), []);
    logs.note("a", "started", "1 s").unwrap();
    for n in 0..1000 {
        logs.note("a", "stderr", &format!("line {n}")).unwrap();
    }
    let events = logs.of("a").unwrap();
    assert_eq!(events.last().unwrap().text, "line 999");
    assert!(events.len() > 50 && events.len() < 300, "{}", events.len());
    let numbers: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    let first: usize = numbers[0].strip_prefix("line ").unwrap().parse().unwrap();
    let expected: Vec<String> = (first..1000).map(|n| format!("line {n}")).collect();
    assert_eq!(numbers, expected);
    let size = |name: &str| std::fs::metadata(dir.path().join("home/mcp/a").join(name)).unwrap().len();
    assert!(size("log.jsonl") + size("log.old.jsonl") <= 10_000);
    logs.note("a", "stderr", &"ü".repeat(10_000)).unwrap();
    assert!(logs.of("a").unwrap().last().unwrap().text.len() < 9_000);
    logs.forget("a").unwrap();
    assert_eq!(logs.of("a").unwrap(), []);
}

#[test]
fn a_bad_line_of_a_log_is_left_out() {
    let (dir, home) = place();
    let logs = ServerLogs::new(&home, 10_000);
    logs.note("a", "started", "x").unwrap();
    let file = dir.path().join("home/mcp/a/log.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("nonsense\n{text}{}", &text[..10])).unwrap();
    assert_eq!(logs.of("a").unwrap().len(), 1);
}
