//! The live state of a sandboxed process, as it sees it itself, compared as a whole.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::common::{
    LIMITS, User, backend, beside_others, block_on, choice_of_role, give_away, is_root, play, prime, program,
    role, run, shell, view, works,
};

const SCRIPT: &str = include_str!("live.py");

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

fn look(sandbox: &str, user: User) {
    let _beside = beside_others();
    let Some(mut role) = role("live::role_looks", user) else { return };
    play(role.env("ROLE_SANDBOX", sandbox).env("HELVE_TEST_SECRET", "in the environment"));
}

#[test]
fn native_is_as_it_should_be() {
    look("native", User::Same);
}

#[test]
fn native_is_as_it_should_be_for_an_ordinary_user() {
    look("native", User::Ordinary);
}

#[test]
fn landlock_is_as_it_should_be() {
    look("landlock", User::Same);
}

#[test]
fn landlock_is_as_it_should_be_for_an_ordinary_user() {
    look("landlock", User::Ordinary);
}

#[test]
fn bwrap_is_as_it_should_be() {
    look("bwrap", User::Same);
}

#[test]
fn bwrap_is_as_it_should_be_for_an_ordinary_user() {
    look("bwrap", User::Ordinary);
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_looks() {
    let (name, choice) = choice_of_role();
    if !works(&choice) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("live.py"), SCRIPT).unwrap();
    give_away(folder.path(), &choice);
    // A descriptor that every child inherits unless somebody closes it.
    let held = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    let numbers: BTreeMap<&str, String> = NAMESPACES
        .iter()
        .map(|name| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            (*name, link.display().to_string())
        })
        .collect();
    let numbers = serde_json::to_string(&numbers).unwrap();
    let backend = backend(&choice, view(folder.path(), "/home/user".as_ref()), LIMITS);
    let text = format!("exec python3 live.py '{numbers}'");
    let seen = block_on(async {
        let mut seen = Vec::new();
        // The first call, later ones, and a program without a shell.
        for job in [shell(&text), shell(&text), program(["python3", "live.py", &numbers])] {
            let done = run(&*backend, job).await;
            assert!(done.stderr.is_empty(), "{}", done.text());
            seen.push(serde_json::from_slice::<Value>(&done.stdout).unwrap());
            prime(&*backend).await;
        }
        seen
    });
    drop(held);
    assert_eq!(seen.len(), 3);
    for mut seen in seen {
        if name != "native" {
            // Another's init, which has nothing to hide.
            seen.as_object_mut().unwrap().remove("init_is_ours");
        }
        if name == "landlock" {
            // Without namespaces these are the machine's.
            for key in ["foreign_processes", "mounts_with_setuid", "mounts_with_devices", "mapped_users"] {
                seen.as_object_mut().unwrap().remove(key);
            }
        }
        let mut expected = expected(&name);
        if name == "native" {
            expected["init_is_ours"] = false.into();
        }
        if name == "landlock" && !is_root() {
            // Only root can empty it; without new privileges it gives nothing.
            expected["bounding_set"] = seen["bounding_set"].clone();
        }
        assert_eq!(seen, expected, "{name}");
    }
}

/// What a process sees in each sandbox.
fn expected(sandbox: &str) -> Value {
    if sandbox == "landlock" {
        return json!({
            "capabilities": ["0000000000000000"],
            "bounding_set": "0000000000000000",
            "capabilities_of_init": "shared",
            "no_new_privs": "1",
            "seccomp": "2",
            "mount_call": "Operation not permitted",
            "shared_namespaces": NAMESPACES,
            "descriptors": [0, 1, 2, 3],
            "environ_of_init": "",
            "own_session": true,
            "groups": 0,
            "root": "Permission denied",
            "system": "Permission denied",
            "core": 0,
            "open_files": LIMITS.open_files,
            "interfaces": [],
            "dev": [],
        });
    }
    json!({
        "capabilities": ["0000000000000000"],
        "bounding_set": "0000000000000000",
        "capabilities_of_init": "0000000000000000",
        "no_new_privs": "1",
        "seccomp": "2",
        "mount_call": "Operation not permitted",
        "shared_namespaces": [],
        "descriptors": [0, 1, 2, 3],
        "environ_of_init": "",
        "foreign_processes": 0,
        "own_session": true,
        "groups": 0,
        "mounts_with_setuid": [],
        "mounts_with_devices": [],
        "root": "Read-only file system",
        "system": "Read-only file system",
        "core": 0,
        "open_files": LIMITS.open_files,
        "interfaces": ["lo"],
        "mapped_users": 1,
        "dev": ["full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"],
    })
}
