//! Commands over a layer through the binary: what they would change is shown, committed or discarded, and what they did can
//! be undone like the change of any file tool.
//!
//! Long file: each test is a story of a few commands by itself, and they share one way of telling what a workspace is.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

#[path = "layers/hostile.rs"]
mod hostile;
#[path = "layers/index.rs"]
mod index;
#[path = "layers/links.rs"]
mod links;
#[path = "layers/marks.rs"]
mod marks;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Answer, Place, Ran, SESSION, is_installed, sandbox_works};

/// What a path is: kind, mode, number of names and extended attributes, content or target, and the first path of a file with
/// several names.
type Tree = BTreeMap<String, (String, Vec<u8>, Option<String>)>;

fn tree(top: &Path) -> Tree {
    fn gather(top: &Path, dir: &Path, found: &mut Tree, names: &mut BTreeMap<u64, String>) {
        let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let data = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let mode = data.permissions().mode() & 0o7777;
            let entry = if data.is_symlink() {
                ("link".to_owned(), path.read_link().unwrap().display().to_string().into_bytes(), None)
            } else if data.is_dir() {
                gather(top, &path, found, names);
                (format!("directory {mode:o}{}", marks::of(&path)), Vec::new(), None)
            } else {
                let first =
                    (data.nlink() > 1).then(|| names.entry(data.ino()).or_insert(name.clone()).clone());
                let what = format!("file {mode:o}, names {}{}", data.nlink(), marks::of(&path));
                (what, fs::read(&path).unwrap(), first)
            };
            found.insert(name, entry);
        }
    }
    let mut found = BTreeMap::new();
    gather(top, top, &mut found, &mut BTreeMap::new());
    found
}

fn put(place: &Place, path: &str, text: &str) {
    fs::create_dir_all(place.workspace().join(path).parent().unwrap()).unwrap();
    place.put(path, text);
}

/// Whether layers can be had here: the sandbox native.
fn layers_work() -> bool {
    if !sandbox_works() {
        return false;
    }
    let place = Place::new();
    let ran = place.run(&["sandbox", "--dry-run", "--", "true"]);
    if ran.code != 0 {
        println!("skipped: no layers here: {}", ran.stderr);
        assert!(std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_none(), "{}", ran.stderr);
    }
    ran.code == 0
}

fn helve(place: &Place, words: &[&str]) -> Ran {
    let words: Vec<&str> = words.iter().copied().chain(["--session", SESSION]).collect();
    place.run(&words)
}

/// A dry run: its report.
fn dry_run(place: &Place, script: &str) -> Value {
    let ran = place.run(&["sandbox", "--json", "--dry-run", "--", "sh", "-c", script]);
    let report = ran.stderr.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(report["exit_code"], json!(0), "{ran:?}");
    report["dry_run"].clone()
}

const SETTINGS: &[&str] = &["auto_approve=true", "tools.exec.delete_inside=true"];

fn preview(place: &Place, command: &str) -> Answer {
    place.exec_with(command, &[SETTINGS, &["tools.exec.mode=preview"]].concat())
}

fn checkpoint(place: &Place, command: &str) -> Answer {
    place.exec_with(command, &[SETTINGS, &["tools.exec.checkpoint=true"]].concat())
}

fn id(answer: &Answer) -> String {
    answer.result["call"].as_str().unwrap().to_owned()
}

/// Two hundred files, some in directories.
fn fill(place: &Place) {
    for number in 0..200 {
        let dir = place.workspace().join(format!("d{}", number % 10));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("f{number}.txt"));
        fs::write(&path, format!("line one of {number}\nline two\n")).unwrap();
        let mode = if number % 3 == 0 { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("d0/f0.txt", place.workspace().join("link")).unwrap();
}

/// Edits 80 of them, renames 60, deletes 60, makes links and directories.
const TWO_HUNDRED: &str = "i=0; while [ $i -lt 200 ]; do f=d$((i % 10))/f$i.txt; \
    if [ $i -lt 80 ]; then echo \"line three\" >> $f; elif [ $i -lt 140 ]; then mv $f d$((i % 10))/g$i.txt; else rm $f; fi; \
    i=$((i + 1)); done; ln -sf d1/f1.txt link; mkdir -p new/deep; echo hello > new/deep/h; ln new/deep/h new/second; chmod 700 new; \
    rm -r d9; echo file > d9; chmod 600 d0/f0.txt";

#[test]
fn a_dry_run_of_two_hundred_files_is_listed_shown_committed_and_undone() {
    if !layers_work() {
        return;
    }
    let (place, direct) = (Place::new(), Place::new());
    fill(&place);
    fill(&direct);
    let before = tree(&place.workspace());
    let held = dry_run(&place, TWO_HUNDRED);
    assert_eq!(tree(&place.workspace()), before);
    let count = |what: &str, kind: &str| {
        let changes = held["changes"].as_array().unwrap();
        changes.iter().filter(|one| one["change"] == json!(what) && one["kind"] == json!(kind)).count()
    };
    // Of the files in d9 eight were edited, six renamed and six deleted, and then all of them were deleted.
    assert_eq!(count("changed", "file"), 72 + 1, "and d9 itself");
    assert_eq!(count("renamed", "file"), 54);
    assert_eq!(count("deleted", "file"), 54 + 20);
    assert_eq!((count("added", "file"), count("added", "directory"), count("changed", "link")), (2, 2, 1));
    let edited =
        held["changes"].as_array().unwrap().iter().find(|one| one["path"] == json!("d7/f7.txt")).unwrap();
    let diff = edited["diff"].as_str().unwrap();
    assert!(diff.contains("\n line two\n+line three\n"), "{diff}");
    let call = held["call"].as_str().unwrap();

    let shown = helve(&place, &["diff", call, "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["pending"], shown["files"].as_array().unwrap().len()),
        (&json!(true), held["paths"].as_u64().unwrap() as usize)
    );
    assert!(shown["files"].as_array().unwrap().iter().all(|file| file["changed_since"] == json!(false)));

    let ran = direct.run(&["sandbox", "--", "sh", "-c", TWO_HUNDRED]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let committed = helve(&place, &["commit", call, "--json"]);
    assert_eq!(committed.code, 0, "{committed:?}");
    assert_eq!(tree(&place.workspace()), tree(&direct.workspace()));
    assert_eq!(helve(&place, &["commit", call]).code, 1, "it waits no longer");
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert_eq!(tree(&place.workspace()), before);
}

#[test]
fn what_is_discarded_leaves_no_trace_and_what_changed_meanwhile_is_a_conflict() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    fill(&place);
    let before = tree(&place.workspace());
    let held = dry_run(&place, TWO_HUNDRED);
    let call = held["call"].as_str().unwrap();
    assert!(helve(&place, &["commit", "--list"]).stdout.contains(call));
    assert_eq!(helve(&place, &["discard", call]).code, 0);
    assert_eq!(tree(&place.workspace()), before);
    assert_eq!(helve(&place, &["commit", call]).code, 1);
    assert_eq!(helve(&place, &["discard", call]).code, 1);

    for (path, content) in [
        ("d3/f3.txt", Some("mine\n")),
        ("d4/g84.txt", Some("mine\n")),
        ("d5/f145.txt", None),
        ("d9/mine", Some("x")),
    ] {
        let place = Place::new();
        fill(&place);
        let held = dry_run(&place, TWO_HUNDRED);
        let path_there = place.workspace().join(path);
        match content {
            Some(content) => fs::write(&path_there, content).unwrap(),
            None => fs::set_permissions(&path_there, fs::Permissions::from_mode(0o400)).unwrap(),
        }
        let disturbed = tree(&place.workspace());
        let refused = helve(&place, &["commit", held["call"].as_str().unwrap(), "--json"]);
        let result: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(result["error"]["kind"], json!("conflict"), "{path}: {refused:?}");
        assert!(result["error"]["message"].as_str().unwrap().contains(path), "{path}: {result}");
        assert_eq!(tree(&place.workspace()), disturbed, "{path}");
    }
}

#[test]
fn a_dry_run_whose_changes_cannot_be_kept_is_not_started() {
    if !layers_work() {
        return;
    }
    // The state directory is refused, or only what is in it.
    for mode in [0o755, 0o700] {
        let place = Place::new();
        fs::create_dir_all(place.home()).unwrap();
        fs::set_permissions(place.home(), fs::Permissions::from_mode(mode)).unwrap();
        fs::write(place.home().join("undo"), "in the way").unwrap();
        let ran = place.run(&["sandbox", "--dry-run", "--", "sh", "-c", "echo ran; echo x > a"]);
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{mode:o}: {ran:?}");
        assert!(ran.stderr.contains("could not be kept, so it was not started"), "{mode:o}: {ran:?}");
    }
}

#[test]
fn exec_in_preview_changes_nothing_until_the_owner_commits() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    place.put("a.txt", "one\n");
    place.put("gone.txt", "gone\n");
    let before = tree(&place.workspace());
    let answer = preview(&place, "echo two >> a.txt; rm gone.txt; cat a.txt");
    let text = answer.good();
    assert!(text.starts_with("one\ntwo\n"), "{text}");
    assert!(text.contains("\n  changed a.txt\n  deleted gone.txt\n") && text.contains("\n+two\n"), "{text}");
    assert!(text.contains(&format!("`helve commit {}`", id(&answer))), "{text}");
    assert_eq!(answer.result["details"]["layer"]["state"], json!("pending"));
    assert!(answer.result["sandbox"]["layers"].as_array().unwrap().contains(&json!("overlay")));
    assert_eq!(tree(&place.workspace()), before);
    // It is no change of the call's own: there is nothing to undo, and the log says that it waits.
    assert_eq!(helve(&place, &["undo", &id(&answer)]).code, 1);
    let log = helve(&place, &["log", "--json"]).stdout;
    let row = support::json_lines(&log).into_iter().find(|row| row["call"] == json!(id(&answer))).unwrap();
    assert_eq!((&row["pending"], &row["can_undo"]), (&json!(true), &json!(false)));
    assert_eq!(helve(&place, &["commit", &id(&answer)]).code, 0);
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "one\ntwo\n");
    assert!(!place.has("gone.txt"));
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert_eq!(tree(&place.workspace()), before);
    // One that would change nothing says nothing of it.
    let nothing = preview(&place, "cat a.txt");
    assert_eq!(nothing.good(), "one\n");
    place.verify();
}

#[test]
fn undo_of_a_command_restores_every_byte_and_mode() {
    if !layers_work() {
        return;
    }
    if !is_installed("git") {
        println!("skipped: there is no git");
        return;
    }
    let place = Place::new();
    let ws = place.workspace();
    let git = |words: &[&str]| {
        let config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
        let ran = Command::new("git").args(config).args(words).current_dir(&ws).output().unwrap();
        assert!(ran.status.success(), "{words:?} {ran:?}");
    };
    git(&["init", "-q"]);
    for (path, text) in [("src/a.c", "int a;\n"), ("src/b.c", "int b;\n"), ("run.sh", "echo run\n")] {
        put(&place, path, text);
    }
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    // Work that is not committed, and what was built from it.
    place.put("src/a.c", "int a = 1; /* my work */\n");
    fs::remove_file(ws.join("src/b.c")).unwrap();
    fs::set_permissions(ws.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..40 {
        put(&place, &format!("build/o{}/x{number}.o", number % 4), &format!("object {number}\u{0}\n"));
    }
    for name in ["empty", "fixed", "shared/deep", "sticky"] {
        fs::create_dir_all(ws.join("build").join(name)).unwrap();
    }
    put(&place, "build/nothing", "");
    put(&place, "build/two\nlines ü", "x");
    for (name, mode) in [
        ("o1", 0o710),
        ("o2/x2.o", 0o400),
        ("o2/x6.o", 0o711),
        ("fixed", 0o555),
        ("shared", 0o2775),
        ("sticky", 0o1777),
    ] {
        fs::set_permissions(ws.join("build").join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("o1/x1.o", ws.join("build/latest")).unwrap();
    symlink("/nonexistent/place", ws.join("build/astray")).unwrap();
    fs::hard_link(ws.join("build/o3/x3.o"), ws.join("build/second")).unwrap();
    fs::hard_link(ws.join("build/o3/x3.o"), ws.join("build/shared/deep/third")).unwrap();
    let before = tree(&ws);
    assert_eq!(before["build/shared"].0, "directory 2775");

    let answer = checkpoint(&place, "rm -rf build && git checkout .");
    answer.good();
    assert!(!place.has("build"));
    assert_eq!(fs::read_to_string(ws.join("src/a.c")).unwrap(), "int a;\n");
    assert!(place.has("src/b.c"));
    let log = support::json_lines(&helve(&place, &["log", "--json"]).stdout);
    assert_eq!(log.iter().find(|row| row["call"] == json!(id(&answer))).unwrap()["can_undo"], json!(true));
    let diff = helve(&place, &["diff"]).stdout;
    assert!(diff.contains("removed build/o0/x0.o") && diff.contains("+int a;"), "{diff}");

    // Git writes its index anew when somebody looks, and says the same with it; what is staged is somebody's change.
    let left = fs::read(ws.join(".git/index")).unwrap();
    git(&["status"]);
    assert!(fs::read(ws.join(".git/index")).unwrap() != left);
    git(&["rm", "-q", "--cached", "run.sh"]);
    let refused = helve(&place, &["undo"]);
    assert!(refused.code != 0 && refused.stdout.contains(": .git/index. Nothing"), "{refused:?}");
    git(&["add", "run.sh"]);
    git(&["status"]);

    let undone = helve(&place, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(tree(&ws), before);
    // The undo is a call too: undone, the command's work is there again.
    let list = support::json_lines(&helve(&place, &["log", "--json"]).stdout);
    let is_undo = |row: &&Value| row["tool"] == json!("undo") && row["can_undo"] == json!(true);
    let undo = list.iter().find(is_undo).unwrap();
    assert_eq!(helve(&place, &["undo", undo["call"].as_str().unwrap()]).code, 0);
    assert!(!place.has("build"));
}

#[test]
fn a_checkpoint_is_a_run_like_any_other_and_has_its_bound() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    place.put("a", "a\n");
    // What failed has changed what it changed.
    let failed = checkpoint(&place, "echo b > b; exit 3");
    assert_eq!((failed.result["ok"].as_bool(), place.has("b")), (Some(false), true));
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert!(!place.has("b"));
    // What is too much changes nothing, and says which limit that was.
    let before = tree(&place.workspace());
    let settings = [SETTINGS, &["tools.exec.checkpoint=true", "limits.exec_layer_bytes=2097152"]].concat();
    let much = place
        .exec_with("echo x > a; for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > f$i; done", &settings);
    assert_eq!(much.result["details"]["limit"], json!("exec_layer_bytes"), "{:?}", much.result);
    assert!(much.text().contains("The workspace is as it was before the command."), "{}", much.text());
    assert_eq!(tree(&place.workspace()), before);
    // Protected paths hold, and what a command leaves there is taken out of the layer too.
    place.put("s.sh", "echo evil > .bashrc; mkdir x; echo ok > x/ok\n");
    let hook = checkpoint(&place, "sh s.sh");
    assert!(hook.text().contains("Protected file taken out: .bashrc"), "{}", hook.text());
    assert!(place.has("x/ok") && !place.has(".bashrc"));
}

/// What cannot be read cannot be put back, so it stays, and the directory with it; root reads everything.
#[test]
fn a_file_that_nobody_may_read_in_a_directory_that_goes_is_named_and_stays() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    put(&place, "d/e/shut", "shut\n");
    put(&place, "d/open", "open\n");
    fs::set_permissions(place.workspace().join("d/e/shut"), fs::Permissions::from_mode(0o000)).unwrap();
    let answer = checkpoint(&place, "rm -rf d; echo new > new");
    let text = answer.text();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    assert_eq!(
        (place.has("d/e/shut"), place.has("d/open"), place.has("new")),
        (!is_root, false, true),
        "{text}"
    );
    let told = [
        "d/e/shut (what was there cannot be read",
        "d/e (something in it stays)",
        "d (something in it stays)",
    ];
    for told in told {
        assert_eq!(text.contains(&format!("Left as it was: {told}")), !is_root, "{text}");
    }
    assert_eq!(helve(&place, &["undo"]).code, 0);
    assert!(place.has("d/open") && !place.has("new"));
}

#[test]
fn a_sandbox_without_layers_refuses_a_preview() {
    let place = Place::new();
    for sandbox in ["landlock", "bwrap", "none"] {
        for mode in ["tools.exec.mode=preview", "tools.exec.checkpoint=true"] {
            let answer = place
                .exec_with("echo ran > ran", &["auto_approve=true", &format!("sandbox={sandbox}"), mode]);
            assert!(!place.has("ran"), "{sandbox}");
            assert_eq!(answer.result["ok"], json!(false), "{sandbox}");
        }
    }
}

/// A small generator, so that a failure can be repeated by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A script of random operations; each may fail by itself.
fn script(dice: &mut Dice) -> String {
    let names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/f/a", "g/a", "g/h/a", "l", "n", "o/p/q"];
    let dirs = ["d", "d/e", "d/e/f", "g", "g/h", "o", "o/p", "r"];
    let mut text = String::new();
    let edits = dice.roll(2) == 0;
    for step in 0..(4 + dice.roll(24)) {
        let mut one = |from: &[&'static str]| from[dice.roll(from.len() as u64) as usize];
        let (name, other, dir, other_dir) = (one(&names), one(&names), one(&dirs), one(&dirs));
        let line = match dice.roll(23) {
            18.. => links::line(dice, step, edits),
            0 => format!("echo {step} > {name}"),
            1 => format!("echo {step} >> {name}"),
            2 => format!("mv -T {name} {other}"),
            3 => format!("rm -f {name}"),
            4 => format!("rm -rf {dir}"),
            5 => format!("mkdir -p {dir}"),
            6 => format!("mv -T {dir} {other_dir}"),
            7 => format!("ln -s {other} {name}"),
            8 => format!("ln {name} {other}"),
            9 => format!("chmod 7{}{} {name}", dice.roll(8), dice.roll(8)),
            10 => format!("chmod 7{}5 {dir}", dice.roll(8)),
            11 => format!("rm -rf {dir}; mkdir {dir}; echo {step} > {dir}/new"),
            12 => format!("rm -rf {name}; mkdir -p {name}; echo {step} > {name}/in"),
            13 => format!("cp -a {name} {other_dir}/copy; cp -a d/e r/copy{step}"),
            14 => format!("rm -rf {dir}; echo {step} > {dir}"),
            15 => format!("cp --attributes-only --preserve=xattr marked {name}"),
            16 => format!("cp --attributes-only --preserve=mode,xattr d/e/marked {name}"),
            _ => format!("cat {name} > new; mv new {name}"),
        };
        text.push_str(&format!("{line} 2>/dev/null\n"));
    }
    text.push_str("true\n");
    text
}

fn base(place: &Place) {
    for (path, mode) in
        [("a", 0o644), ("b", 0o600), ("d/a", 0o755), ("d/e/a", 0o644), ("d/e/f/a", 0o644), ("g/h/a", 0o640)]
    {
        put(place, path, &format!("base of {path}\n"));
        fs::set_permissions(place.workspace().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    links::give(place);
    symlink("a", place.workspace().join("l")).unwrap();
    fs::create_dir_all(place.workspace().join("r/empty")).unwrap();
    for path in ["marked", "d/e/marked"] {
        put(place, path, "marked\n");
        marks::give(&place.workspace().join(path), &format!("user.{}", path.len()), b"base");
    }
    marks::give(&place.workspace().join("d/e/marked"), marks::ACCESS_LIST, &marks::list());
    marks::give(&place.workspace().join("d/e"), marks::DEFAULT_LIST, &marks::list());
    marks::give(&place.workspace().join("b"), "user.b", b"1");
    marks::give(&place.workspace().join("g"), "user.g", b"1");
}

#[test]
fn any_operations_in_preview_and_commit_are_those_of_a_direct_run() {
    if !layers_work() {
        return;
    }
    let rounds = std::env::var("HELVE_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    for round in 0..rounds {
        let script = script(&mut Dice(round * 7919 + 17));
        let (place, direct) = (Place::new(), Place::new());
        base(&place);
        base(&direct);
        let before = tree(&place.workspace());
        let held = dry_run(&place, &script);
        assert_eq!(tree(&place.workspace()), before, "{round}: {script}");
        let ran = direct.run(&["sandbox", "--", "sh", "-c", &script]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let after = tree(&direct.workspace());
        let Some(call) = held["call"].as_str() else {
            assert_eq!(after, before, "{round}: {script}");
            continue;
        };
        let committed = helve(&place, &["commit", call]);
        assert_eq!(committed.code, 0, "{round}: {script}\n{committed:?}");
        assert_eq!(tree(&place.workspace()), after, "{round}: {script}\n{held}");
        let undone = helve(&place, &["undo"]);
        assert_eq!(undone.code, 0, "{round}: {script}\n{undone:?}");
        assert_eq!(tree(&place.workspace()), before, "{round}: {script}");
    }
}

#[test]
fn a_replay_commits_nothing_and_makes_nothing_happen_that_the_owner_did_not_let() {
    if !layers_work() {
        return;
    }
    let place = Place::new();
    place.put("a.txt", "one\n");
    let committed = preview(&place, "echo two >> a.txt");
    assert_eq!(helve(&place, &["commit", &id(&committed)]).code, 0);
    let discarded = preview(&place, "echo three >> a.txt");
    assert_eq!(helve(&place, &["discard", &id(&discarded)]).code, 0);
    let waiting = preview(&place, "echo four >> a.txt");
    preview(&place, "cat a.txt").good();
    let log = support::json_lines(&helve(&place, &["log", "--json"]).stdout);
    let states: Vec<(String, bool, bool)> = log
        .iter()
        .map(|row| {
            let flag = |name: &str| row[name] == json!(true);
            (row["tool"].as_str().unwrap().to_owned(), flag("pending"), flag("can_undo"))
        })
        .collect();
    let row = |tool: &str, pending: bool, can_undo: bool| (tool.to_owned(), pending, can_undo);
    let wanted = [
        row("exec", false, false),
        row("commit", false, true),
        row("exec", false, false),
        row("discard", false, false),
        row("exec", true, false),
        row("exec", false, false),
    ];
    assert_eq!(states, wanted);

    let replay = |mode: &str, name: &str| {
        let copy = place.root().join(name);
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("a.txt"), "one\n").unwrap();
        let settings = SETTINGS.iter().flat_map(|set| ["--set", set]);
        let mode = format!("tools.exec.mode={mode}");
        let words: Vec<&str> = settings
            .chain([
                "--set",
                &mode,
                "replay",
                SESSION,
                "--json",
                "--session",
                name,
                "--in",
                copy.to_str().unwrap(),
            ])
            .collect();
        let ran = place.run(&words);
        let lines = support::json_lines(&ran.stdout);
        let left_out: Vec<u64> = lines
            .iter()
            .filter(|line| line["left_out"].is_string())
            .map(|line| line["number"].as_u64().unwrap())
            .collect();
        (left_out, fs::read_to_string(copy.join("a.txt")).unwrap(), lines)
    };
    // In the ordinary mode only what was committed happens again: neither what was discarded nor what waits.
    let (left_out, text, lines) = replay("direct", "direct");
    assert_eq!((left_out, text.as_str()), (vec![2, 3, 4, 5], "one\ntwo\n"), "{lines:#?}");
    // In preview nothing does, and nothing is committed.
    let (left_out, text, lines) = replay("preview", "shown");
    assert_eq!((left_out, text.as_str()), (vec![2, 4], "one\n"), "{lines:#?}");
    // What waited in the session waits on.
    assert!(helve(&place, &["commit", "--list"]).stdout.contains(&id(&waiting)));
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "one\ntwo\n");
}

#[test]
fn a_killed_commit_is_whole_after_a_second_one_and_can_be_undone() {
    if !layers_work() {
        return;
    }
    let rounds = std::env::var("HELVE_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let direct = Place::new();
    fill(&direct);
    assert_eq!(direct.run(&["sandbox", "--", "sh", "-c", TWO_HUNDRED]).code, 0);
    let wanted = tree(&direct.workspace());
    let mut dice = Dice(rounds * 31 + u64::from(std::process::id()));
    let mut finished = 0;
    for round in 0..rounds {
        let place = Place::new();
        fill(&place);
        let before = tree(&place.workspace());
        let held = dry_run(&place, TWO_HUNDRED);
        let call = held["call"].as_str().unwrap();
        let mut child = place
            .helve()
            .args(["commit", call, "--session", SESSION])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(20 + dice.roll(400)));
        child.kill().unwrap();
        child.wait().unwrap();
        // Each file is its old or its new self.
        for (path, what) in tree(&place.workspace()) {
            let old = before.get(&path).map(|one| &one.1);
            let new = wanted.get(&path).map(|one| &one.1);
            let whole = path.contains(".helve-") || old == Some(&what.1) || new == Some(&what.1);
            assert!(whole, "{round}: {path} is neither");
        }
        let second = helve(&place, &["commit", call]);
        let done = second.stderr.contains("No changes of the call");
        finished += u64::from(done);
        assert!(second.code == 0 || done, "{round}: {second:?}");
        assert_eq!(tree(&place.workspace()), wanted, "{round}: {second:?}");
        let undone = helve(&place, &["undo"]);
        assert_eq!(undone.code, 0, "{round}: {undone:?}");
        assert_eq!(tree(&place.workspace()), before, "{round}: {second:?} {undone:?}");
        assert_eq!(place.verify().code, 0);
    }
    println!("{finished} of {rounds} commits were done before the kill");
    assert!(finished < rounds, "every commit was done before the kill");
}

#[test]
fn what_somebody_else_changes_while_a_command_runs_over_a_layer_is_not_overwritten() {
    if !layers_work() {
        return;
    }
    for mode in ["tools.exec.checkpoint=true", "tools.exec.mode=preview"] {
        let place = Place::new();
        place.put("a.txt", "one\n");
        let nap = support::unique_seconds();
        let command = format!("timeout 2 sleep {nap}; echo two >> a.txt");
        let settings = [SETTINGS, &[mode]].concat();
        let answer = std::thread::scope(|scope| {
            let running = scope.spawn(|| place.exec_with(&command, &settings));
            // The line of Helve's own process has the number too.
            let sleeps = |line: &String| line.trim_end() == format!("sleep {nap}");
            let begun = || support::running_with(&nap).iter().any(sleeps);
            assert!(support::wait_for(Duration::from_secs(20), begun));
            place.put("a.txt", "mine\n");
            running.join().unwrap()
        });
        assert_eq!(
            answer.result["details"]["layer"]["state"],
            json!("pending"),
            "{mode}: {:?}",
            answer.result
        );
        assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "mine\n", "{mode}");
        let refused = helve(&place, &["commit", &id(&answer), "--json"]);
        let result: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(result["error"]["kind"], json!("conflict"), "{mode}: {refused:?}");
        assert!(result["error"]["message"].as_str().unwrap().contains("a.txt"), "{mode}: {result}");
        assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "mine\n", "{mode}");
        assert_eq!(helve(&place, &["discard", &id(&answer)]).code, 0);
    }
}
