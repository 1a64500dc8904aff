//! The owner's hooks in a session of an agent.

use helve_agent::events::Event;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Parrot, Place, Says, run};

/// A policy with one hook, a script that a shell reads; it is given the place as its first argument.
fn hook(place: &Place, on: &[&str], script: &str) -> String {
    std::fs::write(place.path("hook.sh"), script).unwrap();
    format!("[[hooks]]\nname = 'mine'\non = {}\nprogram = ['/bin/sh', '$DIR/hook.sh', '$DIR']\n", json!(on))
}

#[tokio::test]
async fn a_session_is_told_once_and_the_model_hears_what_the_hook_says() {
    let place = Place::new();
    let script = "cat >> \"$1/told\"; if tail -n1 \"$1/told\" | grep -q session_start; then echo '{\"note\":\"be brief\"}'; \
                  else exit 3; fi";
    let runtime = place.builder(&hook(&place, &["session_start", "session_end"], script)).build().unwrap();
    let model = Parrot::new(Vec::new());
    let mut agent = place.agent(&runtime, &model);
    agent.close("answered", &mut |event| panic!("it has not begun: {event:?}")).await;
    let (_, events) = run(&mut agent, "one", &mut |_| {}).await;
    let said = Event::Hook { hook: "mine".into(), text: "be brief".into(), failed: false };
    assert_eq!(events.iter().filter(|event| **event == said).count(), 1);
    assert!(model.asked()[0].contains("The owner's hook mine says: be brief"), "{}", model.asked()[0]);
    run(&mut agent, "two", &mut |_| {}).await;
    let mut last = Vec::new();
    agent.close("answered", &mut |event| last.push(event)).await;
    agent.close("answered", &mut |event| panic!("it has ended already: {event:?}")).await;
    let text = "it ended with exit code 3".to_owned();
    assert_eq!(last, [Event::Hook { hook: "mine".into(), text, failed: true }]);
    let told = std::fs::read_to_string(place.path("told")).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&Value> = told.iter().map(|told| &told["event"]).collect();
    assert_eq!(events, ["session_start", "session_end"], "once, however many runs there are");
    assert_eq!((&told[0]["resumed"], &told[1]["ending"]), (&json!(false), &json!("answered")));
    assert_eq!(helve_agent::record::messages(&place.records()), agent.messages());
}

#[tokio::test]
async fn a_hooks_no_and_its_note_go_back_to_the_model() {
    let place = Place::new();
    let script = "if grep -q secrets.txt; then echo '{\"verdict\":\"deny\",\"reason\":\"not that file\"}'; \
                  else echo '{\"note\":\"seen\"}'; fi";
    let runtime = place.builder(&hook(&place, &["before_call"], script)).build().unwrap();
    std::fs::write(place.path("w/secrets.txt"), "x").unwrap();
    let calls = [("read_file", json!({"path": "secrets.txt"})), ("echo", json!({"message": "hello"}))];
    let model = Parrot::new(vec![Says::calls(&calls)]);
    let mut agent = place.agent(&runtime, &model);
    run(&mut agent, "go", &mut |_| {}).await;
    let asked = model.asked()[1].clone();
    assert!(asked.contains("The owner's hook 'mine' refuses the call: not that file"), "{asked}");
    assert!(asked.contains("[the owner's hook mine: seen]"), "{asked}");
    let said: Vec<Value> =
        place.entries("planned").iter().map(|body| body["hooks"][0]["said"].clone()).collect();
    assert_eq!(said.len(), 2);
    assert!(said.contains(&json!("deny")) && said.contains(&json!("nothing")), "{said:?}");
    assert_eq!(helve_agent::record::messages(&place.records()), agent.messages());
}
