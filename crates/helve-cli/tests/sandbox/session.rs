//! Whose session a command is in: never that of a terminal, and that of Helve only on its streams.

use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use super::{backends, words};
use crate::support::Place;
use crate::tmux::Screen;

/// Says who it is. What is outside is 0 for it.
const SAY: &str = "read -r pid name state parent group session terminal rest < /proc/self/stat; \
    [ $group = $pid ] && group=own; [ $session = $pid ] && session=own; \
    echo group:$group session:$session terminal:$terminal";

/// What a command says that Helve runs without a terminal.
fn says_without_terminal(arguments: &[&str]) -> String {
    let place = Place::new();
    let helve = place.helve();
    let mut alone = Command::new("setsid");
    alone.arg("--wait").arg(helve.get_program()).args(arguments).current_dir(place.workspace()).env_clear();
    alone.envs(helve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = alone.stdin(Stdio::null()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{said}{errors}")
}

#[test]
fn a_program_on_the_streams_stays_in_a_session_without_terminal() {
    if !backends().contains(&"native") {
        return;
    }
    let said = says_without_terminal(&words("native", &[], &["sh", "-c", SAY]));
    assert_eq!(said, "group:own session:0 terminal:0\n");
}

/// A session's weight is everybody's in it, and who is in one may say how much it is, where nothing forbids it.
#[test]
fn the_weight_of_the_session_is_not_the_programs_to_set() {
    if !backends().contains(&"native") {
        return;
    }
    let set = "[ -e /proc/self/autogroup ] || exit; (echo 19 > /proc/self/autogroup) 2> /dev/null && echo set; \
        cat /proc/self/autogroup";
    let said = says_without_terminal(&words("native", &[], &["sh", "-c", set]));
    assert!(said.is_empty() || said.ends_with(" nice 0\n"), "{said}");
    assert!(!said.contains("set"), "{said}");
}

#[test]
fn a_command_leaves_every_session() {
    if !backends().contains(&"native") {
        return;
    }
    let said = says_without_terminal(&["run", SAY]);
    assert_eq!(said, "group:own session:own terminal:0\n");
}

#[test]
fn nobody_stays_in_the_session_of_a_terminal() {
    if !backends().contains(&"native") {
        return;
    }
    let place = Place::new();
    place.put("say.sh", SAY);
    let arguments = "sandbox --backend native -- sh say.sh < /dev/null 2>&1 | cat";
    let Some(screen) = Screen::start(&place, arguments, (80, 24)) else { return };
    screen.wait_for("EXIT:0");
    assert!(screen.text().contains("group:own session:own terminal:0\n"), "{}", screen.text());
}
