//! The attacks that every sandbox has to hold, under a profile that was learned.
//!
//! Cases, checks and surroundings are those of the sandbox's own suite. Each attack has a world of its own, with what the
//! profile grants beside that world's secrets: the profile is the learned one, and says the places of that world.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helve_core::{Ended, Exit, SandboxReport};
use serde_json::{Value, json};

use crate::basics::{Done, token};
use crate::check::{Case, Check, before, cases, holds, shared_commands};
use crate::scene::Scene;
use crate::support::Ran;
use crate::world::World;
use crate::{helve, ran};

/// Some attacks go for names that the whole machine shares.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is reached under the profile that was learned last.
pub(crate) fn are_held(scene: &Scene) {
    let profile = fs::read_to_string(scene.place.root().join("learned.toml")).unwrap();
    let (wrong, tried) = not_held(scene, &profile, |_| true);
    println!("{}: {tried} attacks, {} not held", profile.lines().next().unwrap_or_default(), wrong.len());
    assert!(wrong.is_empty(), "under\n{profile}\n{}", wrong.join("\n"));
    assert!(tried >= 100, "{tried}");
}

/// Every attack that is not held under a profile, of those that are asked for, and how many were tried.
pub(crate) fn not_held(scene: &Scene, profile: &str, asked: impl Fn(&str) -> bool) -> (Vec<String>, usize) {
    let _alone = alone();
    let (commands, mut wrong, mut tried) = (shared_commands(), Vec::new(), 0);
    for case in cases().into_iter().filter(|case| asked(&case.id)) {
        let shared = case.shared.as_ref().and_then(|id| commands.get(id));
        for text in [Some(&case.command), shared].into_iter().flatten() {
            tried += 1;
            wrong.extend(attack(scene, profile, &case, text));
        }
    }
    (wrong, tried)
}

/// Runs one attack; what it reached.
fn attack(scene: &Scene, profile: &str, case: &Case, text: &str) -> Option<String> {
    let secret = token();
    let mut world = World::new(&secret, text);
    let config = settle(scene, profile, &world);
    let before = before(&world, &case.hold);
    let command = world.fill(text);
    let mut helve = helve(scene);
    helve.current_dir(&world.workspace).env("HOME", &world.home).env("HELVE_TEST_SECRET", &secret);
    let (ran, sandbox) = if case.hold.iter().all(is_in_the_workspace) {
        as_a_call(helve, &config, &command)
    } else {
        as_the_owner(helve, &config, &command)
    };
    // An attack that never ran would be one that is held.
    assert_eq!(sandbox["backend"], json!("native"), "{}: {ran:?}", case.id);
    let report = SandboxReport { backend: "native".to_owned(), layers: Vec::new() };
    let done = Done {
        ended: Ok(Ended::plain(Exit::Code(ran.code), report)),
        bytes: ran.stdout.len() as u64,
        stdout: ran.stdout.into_bytes(),
        stderr: ran.stderr.into_bytes(),
    };
    let reached: Vec<&Check> =
        case.hold.iter().filter(|check| !holds(check, &mut world, &before, &done)).collect();
    (!reached.is_empty()).then(|| format!("{}: {reached:?}\n  {command}\n  {}", case.id, done.text()))
}

/// Whether a check is about a protected path: what the owner himself may do, and what is refused to a call.
fn is_in_the_workspace(check: &Check) -> bool {
    match check {
        Check::Kept(path) | Check::Absent(path) | Check::FileLacks(path, _) => !path.starts_with(['/', '@']),
        _ => false,
    }
}

/// The command as a call of `exec`, unasked; what was said, and in which sandbox. Its output is governed, so nothing is to be
/// read from it.
fn as_a_call(mut helve: Command, config: &Path, command: &str) -> (Ran, Value) {
    helve.args(["call", "exec", "--json", "--set", "sandbox=native", "--set", "tools.exec.deny_patterns=[]"]);
    helve.args(["--set", "auto_approve=true", "--config"]).arg(config);
    helve.arg(json!({"command": command}).to_string());
    let ran = ran(helve);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    (ran, result["sandbox"].clone())
}

/// The command as the owner's own: its very output, and in which sandbox.
fn as_the_owner(mut helve: Command, config: &Path, command: &str) -> (Ran, Value) {
    let report = config.with_file_name("report");
    helve.args(["sandbox", "--backend", "native", "--time", "20", "--config"]).arg(config);
    helve.arg("--report").arg(&report).args(["--", "/bin/bash", "-c", command]);
    let ran = ran(helve);
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap_or_default()).unwrap_or_default();
    (ran, report["sandbox"].clone())
}

/// Lays what was granted beside a world's secrets, and the profile for it beside the world.
fn settle(scene: &Scene, profile: &str, world: &World) -> PathBuf {
    let (from, to) = (scene.place.outside(), world.path("@OUT@"));
    for name in ["data", "crates"] {
        copy(&from.join(name), &to.join(name));
    }
    let said = |path: &Path| path.to_str().unwrap().to_owned();
    let config = world.path("@OUT@").with_file_name("learned.toml");
    fs::write(&config, profile.replace(&said(&from), &said(&to))).unwrap();
    config
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else if from.exists() {
        fs::copy(from, to).unwrap();
    }
}
