//! `helve sandbox --learn` on real toolchains: what it proposes runs the command, opens nothing that was not needed, and leaves
//! every act of the table of refused acts refused, and every attack of the sandbox's own suite held.
//!
//! A toolchain that is not here, or that this user cannot run, is said and left out. Where there is no pytest Python's own
//! unittest stands in. Root also plays all of it as a user without rights.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

#[path = "learn/attacks.rs"]
mod attacks;
#[path = "../../helve-sandbox/tests/contain/basics.rs"]
mod basics;
#[allow(dead_code, reason = "a part is for the sandbox's own suite")]
#[path = "../../helve-sandbox/tests/contain/check.rs"]
mod check;
#[path = "denied/scene.rs"]
mod scene;
mod support;
#[allow(dead_code, reason = "a part is for the sandbox's own suite")]
#[path = "../../helve-sandbox/tests/contain/world.rs"]
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use scene::{Scene, rows};
use serde_json::{Value, json};
use support::{Ran, is_installed, sandbox_works};

/// Whether layers can be had here, over which everything is learned.
fn learns() -> bool {
    if !sandbox_works() || !is_installed("python3") {
        return false;
    }
    let ran = Scene::new().place.run(&["sandbox", "--dry-run", "--", "true"]);
    if ran.code != 0 {
        println!("skipped: no layers here: {}", ran.stderr);
        assert!(std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_none(), "{}", ran.stderr);
    }
    ran.code == 0
}

/// `helve` with the toolchains of whoever runs the tests.
fn helve(scene: &Scene) -> Command {
    let mut helve = scene.place.helve();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let place = std::env::var_os(name).map_or_else(|| home.join(below), PathBuf::from);
        if place.is_dir() {
            helve.env(name, place);
        }
    }
    helve
}

fn ran(mut helve: Command) -> Ran {
    let output = helve.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Learns a command, with the profile in a file.
fn learn(scene: &Scene, command: &[&str]) -> (Value, PathBuf) {
    let profile = scene.place.root().join("learned.toml");
    let mut helve = helve(scene);
    helve
        .args(["sandbox", "--learn", "--json", "--time", "10m", "--write"])
        .arg(&profile)
        .arg("--")
        .args(command);
    let ran = ran(helve);
    let learned = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    (learned, profile)
}

/// The command with the profile, for real.
fn with_profile(scene: &Scene, profile: &Path, command: &[&str]) -> Ran {
    let mut helve = helve(scene);
    helve.arg("sandbox").arg("--config").arg(profile).arg("--").args(command);
    ran(helve)
}

/// Every act of the table that needs no settings of its own is refused under a profile, or reaches nothing outside.
fn denies_the_table(scene: &Scene, profile: &Path) {
    let (text, mut tried) = (fs::read_to_string(profile).unwrap(), 0);
    for row in rows(scene::ACTS, scene) {
        if !row.settings.is_empty() {
            continue;
        }
        let look = || (row.act == "write").then(|| fs::read(&row.subject).ok());
        let before = look();
        let mut helve = helve(scene);
        helve.args(["call", "exec", "--json", "--config"]).arg(profile);
        helve.args(["--set", "tools.exec.deny_patterns=[]", "--set", "auto_approve=true"]);
        let ran = ran({
            helve.arg(json!({"command": row.command}).to_string());
            helve
        });
        let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        // What is written beneath the command's own /tmp is written there, and nothing outside changes.
        match before {
            Some(before) => assert_eq!(look(), Some(before), "{} under\n{text}", row.name),
            None => assert_eq!(result["ok"], json!(false), "{} under\n{text}", row.name),
        }
        tried += 1;
    }
    assert!(tried >= 24, "{tried}");
}

/// Learns, runs it for real, and tries what is refused.
fn holds(scene: &Scene, command: &[&str]) -> Value {
    let (learned, profile) = learn(scene, command);
    assert_eq!((&learned["ended_well"], &learned["is_smallest"]), (&json!(true), &json!(true)), "{learned}");
    let ran = with_profile(scene, &profile, command);
    assert_eq!(ran.code, 0, "{learned}\n{ran:?}");
    denies_the_table(scene, &profile);
    learned
}

fn can_run(scene: &Scene, words: &[&str]) -> bool {
    let mut helve = helve(scene);
    helve.args(["sandbox", "--"]).args(words);
    let works = ran(helve).code == 0;
    if !works {
        println!("skipped: {words:?} does not run here");
    }
    works
}

/// A file outside that no act of the table is about.
fn input(scene: &Scene) -> PathBuf {
    let dir = scene.place.outside().join("data");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("input"), "x\n").unwrap();
    dir.join("input")
}

fn grants(learned: &Value) -> Vec<&str> {
    learned["grants"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn cargo_needs_the_crate_that_lies_outside_and_nothing_else() {
    let scene = Scene::new();
    if !learns() || !can_run(&scene, &["cargo", "--version"]) {
        return;
    }
    let place = &scene.place;
    fs::create_dir_all(place.workspace().join("src")).unwrap();
    place.put("src/main.rs", "fn main() {}\n");
    place.put("Cargo.toml", "[package]\nname = \"alone\"\nedition = \"2021\"\n");
    let alone = holds(&scene, &["cargo", "build", "--offline"]);
    assert_eq!(grants(&alone), [] as [&str; 0], "{alone}");

    let dep = place.outside().join("crates/dep");
    fs::create_dir_all(dep.join("src")).unwrap();
    fs::write(dep.join("Cargo.toml"), "[package]\nname = \"dep\"\nedition = \"2021\"\n").unwrap();
    fs::write(dep.join("src/lib.rs"), "pub fn one() -> u8 { 1 }\n").unwrap();
    place.put("src/main.rs", "fn main() { assert_eq!(dep::one(), 1); }\n");
    let manifest = format!(
        "[package]\nname = \"alone\"\nedition = \"2021\"\n[dependencies]\ndep = {{ path = {:?} }}\n",
        dep.to_str().unwrap()
    );
    place.put("Cargo.toml", &manifest);
    fs::remove_file(place.root().join("learned.toml")).unwrap();
    let learned = holds(&scene, &["cargo", "build", "--offline"]);
    let (found, dep) = (grants(&learned), dep.to_str().unwrap().to_owned());
    assert!(found.len() == 1 && found[0].starts_with("view.read_only = ["), "{learned}");
    for path in found[0].split('"').filter(|part| part.starts_with('/')) {
        assert!(path.starts_with(&dep), "{learned}");
    }
    attacks::are_held(&scene);
}

#[test]
fn npm_test_needs_the_file_that_it_reads_outside() {
    let scene = Scene::new();
    if !learns() || !can_run(&scene, &["npm", "--version"]) {
        return;
    }
    let place = &scene.place;
    place.put(
        "package.json",
        "{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node test.js\"}}",
    );
    let data = input(&scene);
    place.put("test.js", &format!("require('fs').readFileSync({:?});\n", data.to_str().unwrap()));
    let learned = holds(&scene, &["npm", "test"]);
    assert_eq!(grants(&learned), [format!("view.read_only = [{:?}]", data.to_str().unwrap())], "{learned}");
    attacks::are_held(&scene);
}

#[test]
fn python_tests_need_the_file_that_they_read_outside() {
    let scene = Scene::new();
    if !learns() {
        return;
    }
    let place = &scene.place;
    let data = input(&scene);
    let text = format!(
        "import unittest\n\nclass Reads(unittest.TestCase):\n    def test_reads(self):\n        open({:?}).read()\n",
        data.to_str().unwrap()
    );
    place.put("test_reads.py", &text);
    // The first Python need not be the one that has it.
    let words: &[&str] = if can_run(&scene, &["pytest", "--version"]) {
        &["pytest", "test_reads.py"]
    } else if can_run(&scene, &["python3", "-m", "pytest", "--version"]) {
        &["python3", "-m", "pytest", "test_reads.py"]
    } else {
        println!("python's own unittest stands in for pytest");
        &["python3", "-m", "unittest", "test_reads"]
    };
    let learned = holds(&scene, words);
    assert_eq!(grants(&learned), [format!("view.read_only = [{:?}]", data.to_str().unwrap())], "{learned}");
    attacks::are_held(&scene);
}

/// The attacks are such: under a profile that grants too much, what it grants is reached.
#[test]
fn a_profile_that_grants_too_much_does_not_hold_the_attacks() {
    if !learns() {
        return;
    }
    let scene = Scene::new();
    let (granted, other) =
        (["read", "read-link", "list", "write", "create", "delete", "unix-path"], ["home-start", "kill"]);
    let asked = |id: &str| granted.contains(&id) || other.contains(&id);
    let (wrong, _) = attacks::not_held(&scene, &scene.fill("view.read_write = [\"{out}\"]\n"), asked);
    let mut reached: Vec<&str> = wrong.iter().filter_map(|one| one.split(':').next()).collect();
    reached.dedup();
    assert_eq!(reached, granted, "{wrong:#?}");
}

#[test]
fn what_is_learned_holds_for_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() || !is_installed("setpriv") {
        return;
    }
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(std::env::current_exe().unwrap());
    user.args(["_need", "--nocapture", "--test-threads=1"]).env("HOME", "/").current_dir("/");
    let output = user.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn secrets_and_the_network_are_named_and_not_proposed() {
    if !learns() {
        return;
    }
    let scene = Scene::new();
    let script = scene.fill(
        "cat {out}/secret.txt && cat {user}/.ssh/id_ed25519 && python3 act.py connect {address} {port}",
    );
    let (learned, profile) = learn(&scene, &["sh", "-c", &script]);
    assert_eq!(learned["ended_well"], json!(false), "{learned}");
    assert_eq!(grants(&learned), [scene.fill("view.read_only = [\"{out}/secret.txt\"]")], "{learned}");
    let left: Vec<&str> = learned["not_proposed"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["subject"].as_str())
        .collect();
    assert_eq!(left, [scene.fill("{user}/.ssh/id_ed25519")], "{learned}");
    assert!(fs::read_to_string(profile).unwrap().contains("exit code 1"));

    fs::remove_file(scene.place.root().join("learned.toml")).unwrap();
    let script = scene.fill("exec 3<>/dev/tcp/{address}/{port}");
    let (learned, _) = learn(&scene, &["bash", "-c", &script]);
    assert_eq!((&learned["ended_well"], grants(&learned).len()), (&json!(false), 0), "{learned}");
    let left = &learned["not_proposed"][0];
    assert_eq!(left["subject"].as_str(), Some(&*scene.fill("{address} port {port}")), "{learned}");
}

#[test]
fn a_command_that_needs_nothing_changes_nothing_and_a_profile_is_never_overwritten() {
    if !learns() {
        return;
    }
    let scene = Scene::new();
    let (learned, profile) = learn(&scene, &["sh", "-c", "echo x > made; rm words.txt"]);
    assert_eq!(
        (&learned["ended_well"], &learned["runs"], grants(&learned).len()),
        (&json!(true), &json!(1), 0)
    );
    assert!(!scene.place.has("made") && scene.place.has("words.txt"));
    assert!(fs::read_to_string(&profile).unwrap().ends_with("# Nothing.\n"));
    let again = scene.place.run(&["sandbox", "--learn", "--write", profile.to_str().unwrap(), "--", "true"]);
    assert!(again.code == 125 && again.stderr.contains("cannot be written"), "{again:?}");
    // What commands could change is no profile.
    for file in ["p.toml", "../ws/p.toml"] {
        let inside = scene.place.run(&["sandbox", "--learn", "--write", file, "--", "true"]);
        assert!(inside.code == 125 && inside.stderr.contains("outside of"), "{inside:?}");
        assert!(!scene.place.has("p.toml"));
    }
    let told = scene.place.run(&["sandbox", "--learn", "--", "true"]);
    assert!(
        told.stdout.contains("# Nothing.\n") && told.stdout.contains("helve sandbox -- true"),
        "{told:?}"
    );
}

#[test]
fn what_turns_out_not_to_be_needed_is_taken_out() {
    if !learns() {
        return;
    }
    let scene = Scene::new();
    let script = scene.fill("cat {out}/second.txt; cat {out}/secret.txt");
    let (learned, _) = learn(&scene, &["sh", "-c", &script]);
    assert_eq!(grants(&learned), [scene.fill("view.read_only = [\"{out}/secret.txt\"]")], "{learned}");
    assert_eq!(learned["is_smallest"], json!(true), "{learned}");
}
