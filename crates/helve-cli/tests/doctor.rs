//! `helve doctor` and the ladder in three worlds: this machine, one that refuses user namespaces, one that refuses
//! Landlock. The last two are made by a system call filter around `helve`, in a child, so that nothing of the machine is
//! changed.
//!
//! A container is judged apart, with an engine of the test's own and without one.
//!
//! In each world the doctor has to tell the truth, and `exec` has to run, step down or refuse as the policy says.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

#[path = "../../helve-sandbox/tests/support/engine.rs"]
mod engine;
mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Place, bwrap_works, is_installed};

/// A world in which `helve` is started.
#[derive(Clone, Copy, Debug)]
enum World {
    Here,
    Without(&'static str),
    /// With so few open files at a time.
    Short(u32),
}

const NO_NAMESPACES: World = World::Without("user-namespaces");
const NO_LANDLOCK: World = World::Without("landlock");
const LANDLOCK_OFF: World = World::Without("landlock:off");

/// The nobody of most systems: root's commands run as the owner of the workspace where there are no namespaces.
const NOBODY: u32 = 65534;

fn place() -> Place {
    let place = Place::new();
    if rustix::process::geteuid().is_root() {
        for path in [place.root(), place.workspace()] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        chown(place.workspace(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    place
}

/// What `helve` answers there: exit code and the one line of JSON.
fn ask(place: &Place, world: World, args: &[&str]) -> (i32, Value) {
    let helve = place.helve();
    let mut command = match world {
        World::Here => Command::new(helve.get_program()),
        World::Without(what) => {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/refuse.py");
            let mut command = Command::new("python3");
            command.args([script, what]).arg(helve.get_program());
            command
        }
        World::Short(files) => {
            let mut command = Command::new("/bin/sh");
            let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            command.args(["-c", &script]).arg(helve.get_program());
            command
        }
    };
    command.env_clear().envs(helve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(place.workspace()).args(args).arg("--json");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap_or(-1), answer)
}

/// The doctor's answer under a choice.
fn doctor(place: &Place, world: World, sandbox: &str) -> (i32, Value) {
    ask(place, world, &["doctor", "--set", &format!("sandbox={sandbox}")])
}

/// What became of `helve run true` under a choice: exit code, kind of error, backend, layers.
fn ran(place: &Place, world: World, sandbox: &str) -> (i32, Value, Value, Vec<String>) {
    let (code, answer) = ask(place, world, &["run", "true", "--set", &format!("sandbox={sandbox}")]);
    let layers = answer["sandbox"]["layers"].as_array().into_iter().flatten();
    let layers = layers.map(|layer| layer.as_str().unwrap().to_owned()).collect();
    (code, answer["error"]["kind"].clone(), answer["sandbox"]["backend"].clone(), layers)
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

/// Whether this machine gives everything, without which its own world cannot be told from the others.
fn machine_gives_all() -> bool {
    let place = place();
    let (_, answer) = doctor(&place, World::Here, "auto");
    let layers = &answer["probe"]["layers"];
    let all = ["user namespaces", "Landlock"].iter().all(|name| named(layers, name)["works"] == true);
    let required = std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_some_and(|value| value == "1");
    assert!(all || !required, "{answer:#}");
    if !all {
        println!("skipped: this machine refuses user namespaces or Landlock");
    }
    all && is_installed("python3")
}

#[test]
fn on_this_machine_everything_holds() {
    if !machine_gives_all() {
        return;
    }
    let place = place();
    let (code, answer) = doctor(&place, World::Here, "auto");
    assert_eq!((code, &answer["exec"]["ok"]), (0, &json!(true)), "{answer:#}");
    assert_eq!(answer["exec"]["sandbox"]["backend"], "native");
    for name in ["native", "landlock"] {
        let sandbox = named(&answer["probe"]["sandboxes"], name);
        assert_eq!(sandbox["holds"], true, "{sandbox:#}");
        for act in sandbox["acts"].as_array().unwrap() {
            let inside = act["inside"].as_str().unwrap();
            match act["expected"].as_str() {
                Some("refused") => assert!(inside.starts_with("refused: "), "{act}"),
                Some(_) => assert_eq!(inside, "done", "{act}"),
                None => {}
            }
        }
        // What fails outside too shows nothing; these succeed everywhere.
        for act in ["read-hidden", "write-hidden", "write-read-only", "signal-outside", "loopback", "mount"] {
            assert_eq!(named(&sandbox["acts"], act)["outside"], "done", "{act}");
        }
    }
    let (code, kind, backend, layers) = ran(&place, World::Here, "auto");
    assert_eq!((code, kind, backend), (0, Value::Null, json!("native")));
    assert!(layers.iter().any(|layer| layer == "userns"), "{layers:?}");
}

#[test]
fn without_user_namespaces_auto_steps_down_and_native_is_refused() {
    if !machine_gives_all() {
        return;
    }
    let place = place();
    // What was found without the filter does not count with it.
    assert_eq!(ran(&place, World::Here, "auto").2, "native");
    let (code, answer) = doctor(&place, NO_NAMESPACES, "auto");
    assert_eq!((code, &answer["exec"]["sandbox"]["backend"]), (0, &json!("landlock")), "{answer:#}");
    let layer = named(&answer["probe"]["layers"], "user namespaces");
    assert_eq!(layer["works"], false);
    assert!(layer["why"].as_str().unwrap().contains("refuses user namespaces"), "{layer}");
    assert!(layer["mend"].as_str().unwrap().contains("seccomp=unconfined"), "{layer}");
    assert_eq!(named(&answer["probe"]["layers"], "Landlock")["works"], true);
    let held = |name| named(&answer["probe"]["sandboxes"], name)["holds"].clone();
    assert_eq!((held("native"), held("landlock")), (json!(false), json!(true)), "{answer:#}");

    let (code, kind, backend, layers) = ran(&place, NO_NAMESPACES, "auto");
    assert_eq!((code, kind, backend), (0, Value::Null, json!("landlock")));
    assert!(!layers.iter().any(|layer| layer.ends_with("ns")), "{layers:?}");
    assert!(layers.iter().any(|layer| layer == "landlock"), "{layers:?}");
    for choice in ["native", "bwrap"] {
        let (code, kind, ..) = ran(&place, NO_NAMESPACES, choice);
        assert_eq!((code, kind), (5, json!("sandbox_unavailable")), "{choice}");
        assert_eq!(doctor(&place, NO_NAMESPACES, choice).0, 5, "{choice}");
    }
    // The world without the filter is as it was.
    assert_eq!(ran(&place, World::Here, "auto").2, "native");
}

/// Somewhere on the way from too few to enough the probe itself gets far, and native fails for want of a descriptor.
#[test]
fn a_machine_that_is_short_of_something_fails_the_call_and_lowers_nothing() {
    if !machine_gives_all() {
        return;
    }
    let place = place();
    let mut not_now = 0;
    for files in (12..=40).step_by(4) {
        // Nothing is remembered, so that each call looks anew.
        let _ = std::fs::remove_file(place.home().join("sandbox-probe.json"));
        let (_, answer) = ask(&place, World::Short(files), &["run", "true", "--set", "sandbox=auto"]);
        assert_ne!(answer["sandbox"]["backend"], "landlock", "{files}: {answer:#}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        not_now += usize::from(message.contains("could not be tried now"));
        let kept = std::fs::read_to_string(place.home().join("sandbox-probe.json")).unwrap_or_default();
        assert!(!kept.contains("\"landlock\""), "{files}: {kept}");
        assert_eq!(ran(&place, World::Here, "auto").2, "native", "after {files}");
    }
    assert!(not_now > 0, "none of the numbers was the one that is meant");
}

#[test]
fn without_landlock_auto_refuses_and_says_what_is_missing() {
    if !machine_gives_all() {
        return;
    }
    let place = place();
    for (world, why) in [(NO_LANDLOCK, "Landlock"), (LANDLOCK_OFF, "not switched on at boot")] {
        let (code, answer) = doctor(&place, world, "auto");
        assert_eq!((code, &answer["exec"]["ok"]), (5, &json!(false)), "{answer:#}");
        let error = &answer["exec"]["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("native: ") && message.contains("landlock: "), "{message}");
        assert!(error["hint"].as_str().unwrap().contains("helve doctor"), "{error}");
        let layer = named(&answer["probe"]["layers"], "Landlock");
        assert_eq!(layer["works"], false);
        assert!(layer["why"].as_str().unwrap().contains(why), "{layer}");
        assert_eq!(named(&answer["probe"]["layers"], "user namespaces")["works"], true);
        for choice in ["auto", "native", "landlock"] {
            let (code, kind, ..) = ran(&place, world, choice);
            assert_eq!((code, kind), (5, json!("sandbox_unavailable")), "{choice}");
        }
        // Never by itself, only by the owner's word.
        if bwrap_works() {
            assert_eq!(named(&answer["probe"]["sandboxes"], "bwrap")["holds"], true);
            assert_eq!(ran(&place, world, "bwrap").2, "bwrap");
        }
        assert_eq!(doctor(&place, world, "none").0, 0);
    }
}

#[test]
fn a_person_reads_what_is_missing_and_what_mends_it() {
    let place = place();
    let ran = place.run(&["doctor", "--set", "sandbox=none"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("exec runs bare: the policy says sandbox = \"none\"\n"), "{ran:?}");
    for part in ["Layers (Linux ", "user namespaces", "Landlock", "Sandboxes", "native", "landlock", "bwrap"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!place.home().exists(), "looking makes no state");
    let without = place.helve().args(["doctor", "--set", "sandbox=bwrap"]).env("PATH", place.home()).output();
    let without = without.unwrap();
    let text = String::from_utf8_lossy(&without.stdout);
    assert_eq!(without.status.code(), Some(5), "{text}");
    assert!(text.contains("bwrap is not installed") && text.contains("apt install bubblewrap"), "{text}");
}

/// The doctor's answer where the policy chooses a container.
fn of_container(place: &Place, socket: &str, image: &str) -> (i32, Value) {
    let socket = format!("container.socket={socket}");
    let image = format!("container.image={image}");
    ask(place, World::Here, &["doctor", "--set", "sandbox=container", "--set", &socket, "--set", &image])
}

#[test]
fn with_a_container_chosen_the_doctor_says_whether_there_is_an_engine() {
    let place = place();
    let (code, answer) = of_container(&place, "/nonexistent/engine.sock", engine::TOOLS);
    assert_eq!((code, &answer["exec"]["ok"]), (5, &json!(false)), "{answer}");
    assert!(answer["exec"]["error"]["message"].as_str().unwrap().contains("there is no socket"), "{answer}");
    let Some(engine) = engine::Engine::start() else { return };
    let socket = engine.socket().display().to_string();
    let (code, answer) = of_container(&place, &socket, engine::TOOLS);
    assert_eq!((code, &answer["exec"]["ok"]), (0, &json!(true)), "{answer}");
    assert_eq!(answer["exec"]["sandbox"]["backend"], json!("container"), "{answer}");
    let (code, answer) = of_container(&place, &socket, "no/such:image");
    assert_eq!((code, &answer["exec"]["ok"]), (5, &json!(false)), "{answer}");
    assert!(answer["exec"]["error"]["message"].as_str().unwrap().contains("no/such:image"), "{answer}");
    // Looking leaves nothing.
    engine.is_empty_soon();
    engine.kill();
    let (code, answer) = of_container(&place, &socket, engine::TOOLS);
    assert_eq!((code, &answer["exec"]["ok"]), (5, &json!(false)), "{answer}");
}

/// It remembers its answer only where nobody else could change it.
#[test]
fn the_doctor_leaves_a_state_directory_that_others_can_reach_as_it_is() {
    let place = place();
    let home = place.home();
    std::fs::create_dir_all(&home).unwrap();
    let count = || std::fs::read_dir(&home).unwrap().count();
    for mode in [0o777, 0o755] {
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(mode)).unwrap();
        doctor(&place, World::Here, "auto");
        assert_eq!(count(), 0, "{mode:o}");
    }
    // The first call closes it.
    let (code, answer) = ask(&place, World::Here, &["run", "true"]);
    assert_eq!((code, &answer["ok"]), (0, &json!(true)), "{answer}");
    assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
}
