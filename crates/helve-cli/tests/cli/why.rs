//! Decisions of the past, from the journal alone.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{BARE, World};

fn last_call(world: &World) -> String {
    let lines = world.run(&["log", "--json"]).lines();
    lines.last().unwrap()["call"].as_str().unwrap().to_owned()
}

#[test]
fn a_refusal_is_explained_whatever_the_configuration_says_now() {
    let world = World::new();
    assert_eq!(world.run_with(&BARE, &["run", "ls; rm -rf x"]).code, Some(3));
    world.configure("[tools.exec]\ndeny_patterns = []\n");
    let call = last_call(&world);
    let told = world.run(&["why", &call]).quiet().1;
    for part in
        ["  | ls; rm -rf x\n  |     ^^^^^^^^\n", "deny: guard.rm-recursive\n", "What would have allowed it: "]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = world.run(&["why", &call[..12], "--json"]).json();
    assert_eq!((&told["verdict"], &told["rule"]), (&json!("deny"), &json!("guard.rm-recursive")));
    assert_eq!(
        (&told["span"], &told["command"], &told["error"]),
        (&json!([4, 12]), &json!("ls; rm -rf x"), &json!("blocked"))
    );
}

#[test]
fn a_question_that_nobody_could_answer_is_explained() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--set", "sandbox=none", "touch x"]).code, Some(4));
    let told = world.run(&["why", &last_call(&world), "--json"]).json();
    assert_eq!((&told["verdict"], &told["error"]), (&json!("ask"), &json!("approval_required")));
    assert_eq!(told["approval"]["answer"], "nobody");
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(told.contains("there was nobody to answer"), "{told}");
}

#[test]
fn a_call_about_which_no_rule_decided_says_so() {
    let world = World::new();
    assert_eq!(world.run(&["call", "echo"]).code, Some(2));
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(told.contains("No rule decided about this call. It ended before one: invalid_params."), "{told}");
    assert_eq!(world.run(&["why", "c_nothing"]).code, Some(1));
}
