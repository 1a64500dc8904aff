//! Commands that leave names which look like lines of an answer, or files that claim any length.

use std::io::Read as _;
use std::time::Instant;

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

#[test]
fn a_name_makes_no_line_in_what_is_shown() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    let script = r#"printf 'x\n' > "$(printf 'z\ndeleted important\n+++ b-fake')"; ln -s "$(printf 't\nadded forged')" lnk"#;
    let shown = place.run(&["sandbox", "--dry-run", "--", "sh", "-c", script]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let has = |ran: &Ran, line: &str| assert!(ran.stderr.lines().any(|one| one == line), "{line}: {ran:?}");
    has(&shown, r#"added "z\ndeleted important\n+++ b-fake""#);
    has(&shown, r#"+++ "b/z\ndeleted important\n+++ b-fake""#);
    has(&shown, r#"added link lnk -> "t\nadded forged""#);
    let diff = helve(&place, &["diff", &pending(&place)]);
    let committed = helve(&place, &["commit"]);
    assert!(committed.stdout.contains("\nadded \"z\\ndeleted important\\n+++ b-fake\"\n"), "{committed:?}");
    let odd = place.workspace().join("z\ndeleted important\n+++ b-fake");
    fs::write(&odd, "changed since\n").unwrap();
    let refused = helve(&place, &["undo"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    fs::write(&odd, "x\n").unwrap();
    let undone = helve(&place, &["undo"]);
    assert!(undone.stdout.contains("\nremoved \"z\\ndeleted important\\n+++ b-fake\"\n"), "{undone:?}");
    for ran in [shown, diff, committed, refused, undone] {
        for line in ran.stdout.lines().chain(ran.stderr.lines()) {
            let forged =
                ["deleted important", "+++ b-fake", "added forged"].iter().any(|one| line.starts_with(one));
            assert!(!forged, "{ran:?}");
        }
    }
}

/// The call whose changes wait.
fn pending(place: &Place) -> String {
    let listed: Value = serde_json::from_str(&helve(place, &["commit", "--list", "--json"]).stdout).unwrap();
    listed[0]["call"].as_str().unwrap().to_owned()
}

/// A file that takes no room on the disk.
fn sparse(place: &Place, name: &str, bytes: u64) {
    fs::File::create(place.workspace().join(name)).unwrap().set_len(bytes).unwrap();
}

#[test]
fn a_file_too_long_to_be_read_is_refused_by_its_name() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    sparse(&place, "sp", 1 << 40);
    let ran = place.run(&["sandbox", "--dry-run", "--", "sh", "-c", "echo x > other; rm sp"]);
    assert!(ran.code == 125 && ran.stderr.contains("'sp'"), "{ran:?}");
    // The command did run.
    let ran = place.run(&["--json", "sandbox", "--dry-run", "--", "sh", "-c", "rm sp; exit 3"]);
    let told: Value = serde_json::from_str(ran.stderr.trim_end()).unwrap();
    assert_eq!((ran.code, &told["exit_code"], &told["ended"]), (125, &json!(125), &json!("exited")));
    assert_eq!((&told["error"]["kind"], &told["dry_run"]), (&json!("too_large"), &Value::Null), "{told}");
    for answer in [preview(&place, "echo x > other; rm sp"), checkpoint(&place, "echo x > other; rm sp")] {
        assert_eq!(answer.kind(), Some("too_large"), "{:?}", answer.result);
    }
    assert!(place.has("sp") && !place.has("other"));
    assert_eq!(helve(&place, &["commit", "--list"]).stdout, "");
}

#[test]
fn a_signal_ends_the_reading_of_what_a_command_left() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    // As long as files may be, and several of them.
    let names: Vec<String> = (0..50).map(|number| format!("sp{number}")).collect();
    names.iter().for_each(|name| sparse(&place, name, 8 << 30));
    let mut helve = place.helve();
    helve.args(["sandbox", "--dry-run", "--", "sh", "-c", "rm sp*"]);
    let mut child = helve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command has ended when its output has.
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    let began = Instant::now();
    // One that comes while the command is being waited for may be for the command.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(500));
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        }
    }
    let mut ended = false;
    while !ended && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
        ended = child.try_wait().unwrap().is_some();
    }
    let _ = child.kill();
    let status = child.wait().unwrap();
    assert!(ended, "it goes on after two signals");
    assert!(status.code().is_some_and(|code| code != 0), "{status:?}");
    assert!(names.iter().all(|name| place.has(name)));
}
