//! Attacks, one line of JSON each: none of them reaches anything outside, on any sandbox, as any user.
//!
//! A role is a process with a secret in its environment and a file held open. It runs every case and compares what holds
//! with what is expected; a case that a sandbox is said not to hold must really not hold in it, so that the list of
//! weaknesses stays true.

use std::process::Command;

use helve_core::{Ended, Exit, SandboxChoice, SandboxReport};

use crate::check::{Case, Check, Control, before, cases, holds, shared_commands};
use crate::common::{
    Done, LIMITS, User, backend, beside_others, block_on, choice_of_role, give_away, is_asked_for, is_root,
    play, prime, program, role, run, said, shell, token, view, works,
};
use crate::engine::Engine;
use crate::world::{World, only_memory, throw_away};

fn attack(sandbox: &str, user: User) {
    let _beside = beside_others();
    let Some(mut role) = role("attacks::role_attacked", user) else { return };
    play(role.env("ROLE_SANDBOX", sandbox).env("HELVE_TEST_SECRET", token()));
}

#[test]
fn native_holds() {
    attack("native", User::Same);
}

#[test]
fn native_holds_for_an_ordinary_user() {
    attack("native", User::Ordinary);
}

#[test]
fn landlock_holds() {
    attack("landlock", User::Same);
}

#[test]
fn landlock_holds_for_an_ordinary_user() {
    attack("landlock", User::Ordinary);
}

#[test]
fn bwrap_holds() {
    attack("bwrap", User::Same);
}

#[test]
fn bwrap_holds_for_an_ordinary_user() {
    attack("bwrap", User::Ordinary);
}

/// As root alone: a container of an engine that an ordinary user may use is one of root's.
#[test]
fn container_holds() {
    let _beside = beside_others();
    let Some(engine) = Engine::start() else { return };
    let Some(mut role) = role("attacks::role_attacked", User::Same) else { return };
    role.env("ROLE_SANDBOX", "container").env("ROLE_SOCKET", engine.socket());
    play(role.env("HELVE_TEST_SECRET", token()));
    engine.is_empty_soon();
}

/// How a command reaches its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The first call of a backend.
    First,
    /// A later call, as a text for the shell.
    Text,
    /// A later call, as a program with arguments.
    Words,
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_attacked() {
    let (name, choice) = choice_of_role();
    if !works(&choice) {
        return;
    }
    let commands = shared_commands();
    let mut wrong = Vec::new();
    let mut runs = 0;
    for case in cases().into_iter().filter(|case| is_asked_for(&case.id)) {
        let later = if runs % 3 == 0 { Way::Words } else { Way::Text };
        let shared = case.shared.as_ref().and_then(|id| commands.get(id));
        for (text, way) in [(Some(&case.command), later), (shared, Way::First)] {
            // Only Helve's own sandbox treats calls differently.
            let way = if name == "native" { way } else { Way::First };
            if let Some(text) = text {
                runs += 1;
                wrong.extend(try_case(&case, text, way, &name, &choice));
            }
        }
    }
    println!("{name}: {runs} attacks, {} not as expected", wrong.len());
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

/// Runs one attack in the sandbox; what is not as expected.
fn try_case(case: &Case, text: &str, way: Way, name: &str, choice: &SandboxChoice) -> Vec<String> {
    let _only = case.hold.iter().any(|check| matches!(check, Check::NoSharedMemory(_))).then(only_memory);
    let mut world = World::new(&std::env::var("HELVE_TEST_SECRET").unwrap(), text);
    give_away(&world.workspace, choice);
    let before = before(&world, &case.hold);
    let command = world.fill(text);
    let backend = backend(choice, view(&world.workspace, &world.home), LIMITS);
    let done = block_on(async {
        if way != Way::First {
            prime(&*backend).await;
        }
        let job = if way == Way::Words { program(["/bin/bash", "-c", &command]) } else { shell(&command) };
        run(&*backend, job).await
    });
    if let Err(error) = &done.ended {
        return vec![format!("{} {way:?}: {error:?}", case.id)];
    }
    let without_root = format!("{name} without root");
    let weak =
        case.not_held_by.contains_key(name) || (!is_root() && case.not_held_by.contains_key(&without_root));
    let expected = !weak;
    let all: Vec<(&Check, bool)> =
        case.hold.iter().map(|check| (check, holds(check, &mut world, &before, &done))).collect();
    if all.iter().all(|(_, holds)| *holds) == expected {
        return Vec::new();
    }
    let checks: Vec<_> = all.iter().filter(|(_, holds)| *holds != expected).collect();
    let exit = done.ended.as_ref().map(|ended| ended.exit);
    let said: String = done.text().chars().take(400).collect();
    vec![format!("{} {way:?}: expected {expected}: {checks:?}\n  {command}\n  {exit:?} {said}", case.id)]
}

/// Each attack succeeds where there is no sandbox.
#[test]
fn every_attack_is_one() {
    let _beside = beside_others();
    play(&mut role("attacks::role_controls", User::Same).unwrap());
}

#[test]
fn every_attack_is_one_for_an_ordinary_user() {
    let _beside = beside_others();
    let Some(mut role) = role("attacks::role_controls", User::Ordinary) else { return };
    play(&mut role);
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_controls() {
    if !works(&SandboxChoice::Bwrap) {
        return;
    }
    let (mut harmless, mut skipped) = (Vec::new(), 0);
    for case in cases() {
        match control(&case) {
            None => skipped += 1,
            Some(problem) if problem.is_empty() => {}
            Some(problem) => harmless.push(problem),
        }
    }
    println!("{skipped} attacks without a control here");
    assert!(harmless.is_empty(), "{}", harmless.join("\n"));
}

/// Runs an attack in a throw-away world: what its checks still hold there, or nothing. None if there is no control here.
fn control(case: &Case) -> Option<String> {
    if case.control == Control::None || (case.control == Control::Root && !is_root()) {
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut world = throw_away(scratch.path(), case.control == Control::Root, "attacks::role_control");
    world.env("ROLE_CASE", &case.id).env("HELVE_TEST_SECRET", token());
    let output = world.output().unwrap();
    let said = said(&output);
    if output.status.success() { Some(String::new()) } else { Some(format!("{}: {said}", case.id)) }
}

#[test]
#[ignore = "played in a world of its own by the test above"]
fn role_control() {
    let id = std::env::var("ROLE_CASE").unwrap();
    let case = cases().into_iter().find(|case| case.id == id).unwrap();
    let mut world = World::new(&std::env::var("HELVE_TEST_SECRET").unwrap(), &case.command);
    let before = before(&world, &case.hold);
    let output = Command::new("bash")
        .args(["-c", &world.fill(&case.command)])
        .current_dir(&world.workspace)
        .env("HOME", &world.home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let nothing = SandboxReport { backend: "nothing".to_owned(), layers: Vec::new() };
    let exit = Exit::Code(output.status.code().unwrap_or(-1));
    let bytes = output.stdout.len() as u64;
    let ended = Ok(Ended::plain(exit, nothing));
    let done = Done { ended, stdout: output.stdout, stderr: output.stderr, bytes };
    let held: Vec<&Check> =
        case.hold.iter().filter(|check| holds(check, &mut world, &before, &done)).collect();
    assert!(held.is_empty(), "harmless without a sandbox: {held:?}\n{}", done.text());
}
