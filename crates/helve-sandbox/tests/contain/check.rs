//! A case and what must hold after it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use helve_core::Exit;
use serde::Deserialize;

use crate::basics::{Done, shared};
use crate::world::{Listener, Snapshot, World, snapshot};

const CASES: &str = include_str!("../cases/attacks.jsonl");

/// One attack.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// What the attacker is after.
    pub(crate) why: String,
    /// A text for bash, with placeholders.
    pub(crate) command: String,
    /// What must hold afterwards.
    pub(crate) hold: Vec<Check>,
    /// How it is shown that the attack is one.
    #[serde(default)]
    pub(crate) control: Control,
    /// Sandboxes that do not hold it, and why: `bwrap`, or `bwrap without root` where only root's holds.
    #[serde(default)]
    pub(crate) not_held_by: BTreeMap<String, String>,
    /// The shared case that asks the same.
    #[serde(default)]
    pub(crate) shared: Option<String>,
}

/// Where an attack succeeds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    /// Without a sandbox, in a throw-away world of namespaces, with every capability in it.
    #[default]
    World,
    /// There, as the real root.
    Root,
    /// Nowhere: the line shows what the sandbox says of itself.
    None,
}

/// What an observer looks at. All texts may have placeholders; paths are relative to the workspace.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// Neither stream has the text.
    OutputLacks(String),
    /// Standard output is the text.
    OutputIs(String),
    /// The exit code is not 0.
    Fails,
    /// The file, or the directory with all in it, is as it was: content, mode, time of change.
    Unchanged(String),
    /// The file has its content and its mode, perhaps again.
    Kept(String),
    /// There is no such file.
    Absent(String),
    /// The file does not exist or does not have the text.
    FileLacks(String, String),
    /// The file does not exist or is not setuid, nor setgid.
    NotSetuid(String),
    /// Nobody connected.
    NoConnection(Listener),
    /// The process outside sleeps on, neither stopped nor traced.
    VictimSleeps,
    /// There is no segment of shared memory with this key.
    NoSharedMemory(u64),
}

/// Every attack.
pub(crate) fn cases() -> Vec<Case> {
    let cases: Vec<Case> = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for case in &cases {
        let number = cases.iter().filter(|other| other.id == case.id).count();
        assert_eq!(number, 1, "two cases are called {}", case.id);
        assert!(!case.hold.is_empty() && !case.why.is_empty(), "{}", case.id);
    }
    cases
}

/// The commands of the shared cases, where they are.
pub(crate) fn shared_commands() -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Line {
        id: String,
        input: String,
    }
    let Some(path) = shared("HELVE_SHARED_CASES", "sandbox.jsonl") else { return BTreeMap::new() };
    let lines = std::fs::read_to_string(path).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Line>(line).unwrap());
    lines.map(|line| (line.id, line.input)).collect()
}

/// Everything as it was before the attack.
pub(crate) type Before = BTreeMap<PathBuf, Snapshot>;

/// What the checks will want to compare.
pub(crate) fn before(world: &World, checks: &[Check]) -> Before {
    let paths = checks.iter().filter_map(|check| match check {
        Check::Unchanged(path) | Check::Kept(path) => Some(world.path(path)),
        _ => None,
    });
    paths.map(|path| (path.clone(), snapshot(&path))).collect()
}

/// Whether a check holds.
pub(crate) fn holds(check: &Check, world: &mut World, before: &Before, done: &Done) -> bool {
    match check {
        Check::OutputLacks(text) => !done.text().contains(&world.fill(text)),
        Check::OutputIs(text) => String::from_utf8_lossy(&done.stdout) == world.fill(text),
        Check::Fails => done.ended.as_ref().is_ok_and(|ended| ended.exit != Exit::Code(0)),
        Check::Unchanged(path) => {
            let path = world.path(path);
            before.get(&path) == Some(&snapshot(&path))
        }
        Check::Kept(path) => {
            let path = world.path(path);
            let without_time =
                |all: Snapshot| all.into_iter().map(|(path, (mode, _, bytes))| (path, mode, bytes));
            let now = without_time(snapshot(&path)).collect::<Vec<_>>();
            !now.is_empty() && before.get(&path).is_some_and(|then| without_time(then.clone()).eq(now))
        }
        Check::Absent(path) => world.path(path).symlink_metadata().is_err(),
        Check::FileLacks(path, text) => {
            let content = std::fs::read(world.path(path)).unwrap_or_default();
            !String::from_utf8_lossy(&content).contains(&world.fill(text))
        }
        Check::NotSetuid(path) => {
            world.path(path).symlink_metadata().map_or(0, |file| file.permissions().mode()) & 0o6000 == 0
        }
        Check::NoConnection(listener) => !world.was_reached(*listener),
        Check::VictimSleeps => world.victim_sleeps(),
        Check::NoSharedMemory(key) => {
            let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
            let found =
                table.lines().any(|line| line.split_whitespace().next() == Some(key.to_string().as_str()));
            if found {
                // Made by the command; it would outlive the test.
                drop(Command::new("ipcrm").args(["-M", &key.to_string()]).status());
            }
            !found
        }
    }
}
