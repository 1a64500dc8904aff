//! `helve mcp --gateway`: several MCP servers, and Helve's own tools, before one client.
//!
//! Long file: each test is a story of a few requests by itself, and they share the same two servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "mcp/client.rs"]
mod client;
#[path = "mcp/scene.rs"]
mod scene;
mod support;

use std::time::{Duration, Instant};

use client::{Client, modern_meta};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Place, is_installed, json_lines, running_with, sandbox_works, unique_seconds, wait_for};

/// Two servers of the kind `Useful`, each with its own settings; none where they cannot run.
fn place(top: &str, one: &str, two: &str) -> Option<Place> {
    if !sandbox_works() || !is_installed("python3") {
        return None;
    }
    let place = scene::place();
    let server = |name: &str, more: &str| {
        let words = ["Useful".to_owned(), name.to_owned()];
        scene::server(name, &words, more)
    };
    place.configure(&format!("{top}\n{}{}", server("one", one), server("two", two)));
    Some(place)
}

fn open(place: &Place, options: &[&str], capabilities: Value) -> Client {
    let options = [&["--gateway"], options].concat();
    let mut client = Client::with(place, &options, &[]);
    client.initialize(capabilities);
    // A server that is slow to start holds nobody up, so its tools may come later.
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = names(&mut client);
        let has = |name: &str| listed.iter().any(|listed| listed == name);
        if has("tool_search") || (has("mcp__one__echo") && has("mcp__two__echo")) {
            return client;
        }
        assert!(Instant::now() < until, "{listed:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn names(client: &mut Client) -> Vec<String> {
    client.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The last block of a failed result names the kind of error.
fn kind(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().trim_matches(['[', ']'])
}

fn calls(place: &Place) -> Vec<Value> {
    json_lines(&place.run(&["log", "--json"]).stdout)
}

#[test]
fn tools_of_all_servers_and_our_own_stand_side_by_side() {
    let Some(place) = place("auto_approve = true", "", "deny = ['d*']") else { return };
    let mut client = open(&place, &["--with-own"], json!({}));
    let names = names(&mut client);
    for name in ["mcp__one__echo", "mcp__one__die", "mcp__two__echo", "echo", "exec", "read_file"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    for name in ["mcp__two__die", "tool_search", "mcp_read__one", "mcp_prompt__one"] {
        assert!(!names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert_eq!(text(&client.call("mcp__one__echo", json!({"say": "a"}))), "one echo a");
    assert_eq!(text(&client.call("mcp__two__echo", json!({"say": "b"}))), "two echo b");
    assert_eq!(text(&client.call("echo", json!({"message": "c"}))), "c");
    let denied = client.call("mcp__two__die", json!({}));
    assert_eq!(kind(&denied), "blocked");
    assert!(text(&denied).contains("does not offer"), "{denied}");
    assert_eq!(client.end(), Some(0));
    let told: Vec<(Value, Value, Value)> = calls(&place)
        .into_iter()
        .map(|call| (call["tool"].clone(), call["ok"].clone(), call["caller"].clone()))
        .collect();
    let call = |tool: &str, ok: bool| (json!(tool), json!(ok), json!("mcp:local/tests"));
    let expected = [
        call("mcp__one__echo", true),
        call("mcp__two__echo", true),
        call("echo", true),
        call("mcp__two__die", false),
    ];
    for one in expected {
        assert!(told.contains(&one), "{one:?}: {told:?}");
    }
    let mut alone = open(&place, &[], json!({}));
    assert!(self::names(&mut alone).iter().all(|name| name.starts_with("mcp__")));
}

#[test]
fn the_owners_rules_hold_for_each_tool() {
    let top = "[tools.mcp__one__count]\nenabled = false\n";
    let one = "per_minute = 3\n[mcp.servers.one.tools.grow]\napproval = 'always'";
    let Some(place) = place(top, one, "") else { return };
    let mut client = open(&place, &[], json!({"elicitation": {}}));
    let listed = names(&mut client);
    assert!(
        !listed.contains(&"mcp__one__count".to_owned()) && listed.contains(&"mcp__two__count".to_owned())
    );
    let off = client.response("tools/call", json!({"name": "mcp__one__count", "arguments": {}}));
    assert!(off.to_string().contains("mcp__one__count") && !off.to_string().contains("one count"), "{off}");
    for (answer, expected) in [("deny", Some("approval_denied")), ("once", None)] {
        let id = client.send("tools/call", json!({"name": "mcp__one__grow", "arguments": {"say": answer}}));
        let question = client.asked("elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("mcp__one__grow") && message.contains("Rule: "), "{message}");
        client.answer(&question["id"], json!({"action": "accept", "content": {"answer": answer}}));
        let result = client.wait(id)["result"].take();
        assert_eq!((result["isError"] == true).then(|| kind(&result)), expected, "{result}");
    }
    for number in 0..3 {
        assert_eq!(
            text(&client.call("mcp__one__echo", json!({"say": number.to_string()}))),
            format!("one echo {number}")
        );
    }
    assert_eq!(kind(&client.call("mcp__one__echo", json!({}))), "rate_limited");
    assert_eq!(text(&client.call("mcp__two__echo", json!({}))), "two echo");
    client.end();
    let mut nobody = open(&place, &[], json!({}));
    assert_eq!(kind(&nobody.call("mcp__one__grow", json!({}))), "approval_required");
}

#[test]
fn very_many_schemas_are_searched_for() {
    let Some(place) = place("mcp.schema_budget = 0", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    assert_eq!(names(&mut client), ["tool_search"]);
    let found = client.call("tool_search", json!({"query": "mcp__two__count"}));
    assert!(text(&found).contains("mcp__two__count"), "{found}");
    assert!(names(&mut client).contains(&"mcp__two__count".to_owned()));
    client.told("notifications/tools/list_changed");
    // What is not shown can be called all the same.
    assert_eq!(text(&client.call_when_started("mcp__one__echo", &json!({}))["result"]), "one echo");
}

#[test]
fn a_list_that_grows_is_passed_on() {
    let Some(place) = place("", "trusted = true", "") else { return };
    let mut client = open(&place, &[], json!({}));
    assert!(!names(&mut client).contains(&"mcp__one__late".to_owned()));
    client.call("mcp__one__grow", json!({}));
    for what in ["tools", "resources", "prompts"] {
        client.told(&format!("notifications/{what}/list_changed"));
    }
    assert!(names(&mut client).contains(&"mcp__one__late".to_owned()));
    assert_eq!(text(&client.call("mcp__one__late", json!({}))), "one late");
    // Of a server that the owner does not vouch for, what is new is off until he agrees.
    client.call("mcp__two__grow", json!({}));
    let until = Instant::now() + Duration::from_secs(10);
    let refused = loop {
        let answer = client.response("tools/call", json!({"name": "mcp__two__late", "arguments": {}}));
        if answer.get("result").is_some() || Instant::now() > until {
            break answer["result"].clone();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(kind(&refused), "blocked");
    assert!(text(&refused).contains("was not there when the owner agreed"), "{refused}");
}

#[test]
fn resources_and_prompts_of_servers_are_calls_under_the_same_rules() {
    let Some(place) = place("", "", "[tools.mcp_read__two]\nenabled = false") else { return };
    let mut client = open(&place, &[], json!({}));
    let listed = client.request("resources/list", json!({}))["resources"].to_string();
    for part in ["helve://manual", "helve://mcp/one/demo://note", "helve://mcp/two/demo://note"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let templates = client.request("resources/templates/list", json!({})).to_string();
    assert!(templates.contains("helve://mcp/one/demo://item/{id}"), "{templates}");
    let read = client.request("resources/read", json!({"uri": "helve://mcp/one/demo://item/7"}));
    assert_eq!(
        read["contents"][0],
        json!({"uri": "helve://mcp/one/demo://item/7", "mimeType": "text/plain", "text": "one has demo://item/7"})
    );
    for uri in [
        "helve://mcp/two/demo://note",
        "helve://mcp/one/file:///etc/passwd",
        "helve://mcp/three/demo://note",
        "helve://mcp/one/",
        "demo://note",
    ] {
        let refused = client.response("resources/read", json!({"uri": uri}));
        assert!(refused["error"]["code"].is_number(), "{uri}: {refused}");
    }
    let prompts = client.request("prompts/list", json!({}))["prompts"].clone();
    let greet =
        prompts.as_array().unwrap().iter().find(|prompt| prompt["name"] == "mcp__two__greet").unwrap();
    assert_eq!(greet["arguments"][0]["name"], "who");
    let got = client.request("prompts/get", json!({"name": "mcp__two__greet", "arguments": {"who": "Ada"}}));
    assert_eq!(got["messages"][0]["content"]["text"], "two greets Ada\\x1b[2J", "{got}");
    assert!(client.response("prompts/get", json!({"name": "mcp__two__none"}))["error"].is_object());
    assert_eq!(client.end(), Some(0));
    let told = calls(&place);
    let was_called = |tool: &str, ok: bool| told.iter().any(|call| call["tool"] == tool && call["ok"] == ok);
    assert!(was_called("mcp_read__one", true) && was_called("mcp_prompt__two", true), "{told:?}");
}

#[test]
fn progress_comes_through_and_a_call_that_is_taken_back_ends_at_its_server() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    let params = json!({"name": "mcp__one__count", "arguments": {}, "_meta": {"progressToken": "p"}});
    let id = client.send("tools/call", params);
    assert_eq!(text(&client.wait(id)["result"]), "one count");
    let notes = client.notifications("notifications/progress");
    let last = notes.last().unwrap();
    assert_eq!(
        (&last["params"]["progressToken"], &last["params"]["total"]),
        (&json!("p"), &json!(3.0)),
        "{notes:?}"
    );
    assert!(last["params"]["message"].as_str().unwrap().contains("step 3"), "{notes:?}");

    let logs = || place.run(&["mcp", "logs", "one", "--json"]).stdout;
    let id = client.send("tools/call", json!({"name": "mcp__one__wait", "arguments": {}}));
    assert!(wait_for(Duration::from_secs(10), || logs().contains("waits")), "{}", logs());
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert!(wait_for(Duration::from_secs(10), || logs().contains("was cancelled")), "{}", logs());
    assert_eq!(text(&client.call("mcp__one__echo", json!({"say": "next"}))), "one echo next");
}

/// What is asked of a server besides its tools, and waits for ever.
const WAITS: [(&str, &str, &str); 2] =
    [("prompts/get", "name", "mcp__one__wait"), ("resources/read", "uri", "helve://mcp/one/demo://wait")];

#[test]
fn prompts_and_resources_that_are_taken_back_end_at_their_server() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    let said = |words: &str| place.run(&["mcp", "logs", "one", "--json"]).stdout.matches(words).count();
    for (count, (method, key, what)) in (1..).zip(WAITS) {
        let id = client.send(method, json!({key: what}));
        assert!(wait_for(Duration::from_secs(10), || said("waits") == count), "{method}");
        client.notify("notifications/cancelled", json!({"requestId": id}));
        assert!(wait_for(Duration::from_secs(10), || said("was cancelled") == count), "{method}");
    }
    // The end of input takes back what is under way.
    let (method, key, what) = WAITS[0];
    client.send(method, json!({key: what}));
    assert!(wait_for(Duration::from_secs(10), || said("waits") == 3), "{method}");
    let from = Instant::now();
    assert_eq!(client.end(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(8), "{:?}", from.elapsed());
    let told = calls(&place);
    assert_eq!(told.iter().filter(|call| call["error_kind"] == "cancelled").count(), 3, "{told:?}");
}

/// Each in the name that the client gave itself, also before its first call.
#[test]
fn who_asks_for_prompts_and_resources_is_asked_as_for_calls() {
    let Some(place) = place("", "approval = \"always\"", "") else { return };
    let mut client = open(&place, &[], json!({"elicitation": {}}));
    for (method, params) in [
        ("prompts/get", json!({"name": "mcp__one__greet", "arguments": {"who": "Ada"}})),
        ("resources/read", json!({"uri": "helve://mcp/one/demo://note"})),
        ("tools/call", json!({"name": "mcp__one__echo", "arguments": {"say": "x"}})),
    ] {
        let id = client.send(method, params);
        let asked = client.asked("elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("mcp:local/tests"), "{method}: {message}");
        client.answer(&asked["id"], json!({"action": "accept", "content": {"answer": "once"}}));
        let done = client.wait(id);
        assert!(done["error"].is_null() && done["result"]["isError"] != true, "{method}: {done}");
    }
}

#[test]
fn a_resource_is_asked_about_where_the_client_comes_again_with_the_answer() {
    let Some(place) = place("", "approval = \"always\"", "") else { return };
    let mut client = open(&place, &[], json!({}));
    client.meta = Some(modern_meta(json!({"elicitation": {}})));
    let mut params = json!({"uri": "helve://mcp/one/demo://note"});
    let asked = client.request("resources/read", params.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": "once"}}});
    params["requestState"] = asked["requestState"].clone();
    let read = client.request("resources/read", params.clone());
    assert_eq!(read["contents"][0]["text"], "one has demo://note", "{read}");
    params["uri"] = json!("helve://mcp/one/demo://other");
    let other = client.response("resources/read", params);
    assert_eq!(other["error"]["code"], -32602, "an answer counts for what was asked: {other}");
}

#[test]
fn a_server_hears_that_a_call_is_taken_back_only_if_it_got_it() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    for id in 1_000..1_020 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "mcp__one__wait", "arguments": {}}});
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        client.raw(&format!("{call}\n{cancel}"));
    }
    assert_eq!(text(&client.call("mcp__one__echo", json!({"say": "next"}))), "one echo next");
    let logs = || place.run(&["mcp", "logs", "one", "--json"]).stdout;
    let are_equal = || logs().matches("waits").count() == logs().matches("was cancelled").count();
    assert!(wait_for(Duration::from_secs(10), are_equal), "{}", logs());
    assert!(!logs().contains("never got"), "{}", logs());
}

#[test]
fn a_signal_takes_calls_of_servers_back_and_their_results_come() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    let logs = || place.run(&["mcp", "logs", "one", "--json"]).stdout;
    let id = client.send("tools/call", json!({"name": "mcp__one__wait", "arguments": {}}));
    assert!(wait_for(Duration::from_secs(10), || logs().contains("waits")), "{}", logs());
    client.tell(Signal::TERM);
    assert_eq!(kind(&client.wait(id)["result"]), "cancelled");
    assert_eq!(client.end(), Some(130));
    let told = calls(&place);
    let ends: Vec<_> = told.iter().map(|call| (&call["state"], &call["error_kind"])).collect();
    assert_eq!(ends, [(&json!("done"), &json!("cancelled"))]);
}

#[test]
fn what_a_server_logs_and_asks_meanwhile_reaches_the_client() {
    let Some(place) = place("", "may_elicit = true", "") else { return };
    let mut client = open(&place, &[], json!({"elicitation": {}}));
    assert_eq!(text(&client.call("mcp__one__log", json!({}))), "one log");
    let logged = client.notifications("notifications/message");
    let expected = json!({"level": "warning", "logger": "test", "data": "half way\\x1b[2J"});
    assert_eq!(
        logged.iter().map(|note| &note["params"]).collect::<Vec<_>>(),
        [&expected],
        "before the answer"
    );
    let id = client.send("tools/call", json!({"name": "mcp__one__ask", "arguments": {}}));
    let asked = client.asked("elicitation/create");
    // Whoever is asked holds nobody else up.
    assert_eq!(text(&client.call("mcp__two__echo", json!({"say": "b"}))), "two echo b");
    client.answer(&asked["id"], json!({"action": "accept", "content": {"p": "x"}}));
    assert_eq!(text(&client.wait(id)["result"]), r#"one hears {"p": "x"}"#);
    // The owner has not let this one ask.
    let refused = client.call("mcp__two__ask", json!({}));
    assert!(text(&refused).contains("two hears") && !text(&refused).contains("\"p\""), "{refused}");
}

#[test]
fn the_time_of_a_server_is_up_but_does_not_pass_while_somebody_is_asked() {
    let Some(place) = place("", "may_elicit = true\ncall_timeout = 2", "call_timeout = 2") else { return };
    let mut client = open(&place, &[], json!({"elicitation": {}}));
    let waits = client.send("tools/call", json!({"name": "mcp__two__wait", "arguments": {}}));
    let asks = client.send("tools/call", json!({"name": "mcp__one__ask", "arguments": {}}));
    let asked = client.asked("elicitation/create");
    let late = client.wait(waits);
    assert_eq!(kind(&late["result"]), "timeout", "{late}");
    let logs = || place.run(&["mcp", "logs", "two", "--json"]).stdout;
    assert!(wait_for(Duration::from_secs(10), || logs().contains("was cancelled")), "{}", logs());
    std::thread::sleep(Duration::from_secs(1));
    client.answer(&asked["id"], json!({"action": "accept", "content": {"p": "y"}}));
    assert_eq!(text(&client.wait(asks)["result"]), r#"one hears {"p": "y"}"#);
}

#[test]
fn a_server_that_dies_comes_back_and_the_others_go_on() {
    let Some(place) = place("", "per_minute = 1000", "per_minute = 1000") else { return };
    let mut client = open(&place, &[], json!({}));
    let dying = client.send("tools/call", json!({"name": "mcp__one__die", "arguments": {}}));
    let others: Vec<u64> = (0..20)
        .map(|n| {
            client.send("tools/call", json!({"name": "mcp__two__echo", "arguments": {"say": n.to_string()}}))
        })
        .collect();
    for (n, id) in others.into_iter().enumerate() {
        assert_eq!(text(&client.wait(id)["result"]), format!("two echo {n}"));
    }
    let died = client.wait(dying);
    assert!(text(&died["result"]).contains("ended with code 1"), "{died}");
    assert_eq!(text(&client.call("mcp__one__echo", json!({"say": "again"}))), "one echo again");
}

/// Whoever runs these tests may have a terminal or none.
#[test]
fn a_server_stays_in_the_session_unless_that_has_a_terminal() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    let has_terminal = std::fs::File::open("/dev/tty").is_ok();
    let expected = if has_terminal { "leads group and session" } else { "leads group" };
    assert_eq!(text(&client.call("mcp__one__who", json!({}))), expected);
}

#[test]
fn a_hundred_calls_at_once_reach_their_servers_in_order() {
    let Some(place) = place("", "per_minute = 1000", "per_minute = 1000") else { return };
    let mut client = open(&place, &[], json!({}));
    let sent: Vec<(u64, String)> = (0..100)
        .map(|n| {
            let server = if n % 2 == 0 { "one" } else { "two" };
            let params = json!({"name": format!("mcp__{server}__echo"), "arguments": {"say": n.to_string()}});
            (client.send("tools/call", params), format!("{server} echo {n}"))
        })
        .collect();
    for (id, expected) in sent {
        assert_eq!(text(&client.wait(id)["result"]), expected);
    }
}

#[test]
fn calls_of_one_server_run_beside_each_other_where_the_owner_says_so() {
    let Some(place) = place("", "parallel = true", "") else { return };
    let mut client = open(&place, &[], json!({}));
    let ask = |client: &mut Client, server: &str, tool: &str| {
        let params = json!({"name": format!("mcp__{server}__{tool}"), "arguments": {"say": "x"}});
        client.send("tools/call", params)
    };
    let (first, _second) = (ask(&mut client, "two", "wait"), ask(&mut client, "one", "wait"));
    let (waits, echo) = (ask(&mut client, "two", "echo"), ask(&mut client, "one", "echo"));
    assert_eq!(text(&client.wait(echo)["result"]), "one echo x");
    let logs = || place.run(&["mcp", "logs", "two", "--json"]).stdout;
    assert!(wait_for(Duration::from_secs(10), || logs().contains("waits")), "{}", logs());
    let of_two = || calls(&place).iter().filter(|call| call["tool"] == "mcp__two__echo").count();
    assert_eq!(of_two(), 0, "it has not begun");
    client.notify("notifications/cancelled", json!({"requestId": first}));
    assert_eq!(text(&client.wait(waits)["result"]), "two echo x");
    assert_eq!(of_two(), 1);
}

/// A model has the tools of servers as it has Helve's own: shown at once, or found by a search where they are too many.
#[test]
fn a_model_calls_the_tools_of_servers() {
    if !sandbox_works() || !is_installed("python3") {
        return;
    }
    let search = ("s", "tool_search", json!({"query": "mcp__one__echo"}));
    let echo = ("a", "mcp__one__echo", json!({"say": "hi"}));
    let own = ("b", "echo", json!({"message": "own"}));
    let shown = vec![vec![echo.clone(), own.clone()]];
    let searched = vec![vec![search], vec![echo], vec![own]];
    for (budget, rounds) in [("", shown), ("mcp.schema_budget = 0", searched)] {
        let (place, mark) = (scene::place(), format!("mark-{}", unique_seconds()));
        let words = ["Useful".to_owned(), "one".to_owned(), mark.clone()];
        place.configure(&format!("auto_approve = true\n{budget}\n{}", scene::server("one", &words, "")));
        let answer = |calls: &[(&str, &str, Value)]| {
            let calls: Vec<Value> =
                calls.iter().map(|(id, name, args)| json!({"id": id, "name": name, "args": args})).collect();
            let text = if calls.is_empty() { "Done." } else { "" };
            json!({"agent": "answered", "answer": {"text": text, "calls": calls}})
        };
        let answers: String = rounds
            .iter()
            .map(|calls| format!("{}\n", answer(calls)))
            .chain([format!("{}\n", answer(&[]))])
            .collect();
        let record = place.root().join("record.jsonl");
        std::fs::write(&record, answers).unwrap();
        let model = format!("replay:{}", record.display());
        let ran = place.run(&["agent", "--json", "--session", "tests", "--model", &model, "call them"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let results: Vec<Value> =
            json_lines(&ran.stdout).into_iter().filter(|event| event["event"] == "result").collect();
        let of = |id: &str| &results.iter().find(|event| event["id"] == id).unwrap()["result"];
        assert_eq!((of("a")["ok"] == true, text(of("a"))), (true, "one echo hi"), "{ran:?}");
        assert_eq!(text(of("b")), "own", "{ran:?}");
        assert_eq!(results.iter().any(|event| event["id"] == "s"), !budget.is_empty(), "{ran:?}");
        let outcome = place
            .journal()
            .into_iter()
            .find(|entry| entry["type"] == "outcome" && entry["body"]["tool"] == "mcp__one__echo");
        let outcome = outcome.unwrap();
        assert_eq!(
            (&outcome["body"]["id"], &outcome["body"]["ok"]),
            (&json!("a"), &json!(true)),
            "{outcome}"
        );
        assert_eq!(place.verify().code, 0);
        assert!(wait_for(Duration::from_secs(10), || running_with(&mark).is_empty()), "a server is left");
    }
}

/// What a server says at a stretch comes in its order, before the answer that stands behind it.
#[test]
fn what_a_server_tells_at_a_stretch_comes_in_order_and_before_its_answer() {
    let Some(place) = place("", "", "") else { return };
    let mut client = open(&place, &[], json!({}));
    for round in 0..5 {
        let token = format!("round {round}");
        let before = client.others().len();
        let call =
            json!({"name": "mcp__one__count", "arguments": {"to": 300}, "_meta": {"progressToken": token}});
        let result = client.request("tools/call", call);
        assert_eq!(text(&result), "counted");
        let heard = &client.others()[before..];
        let numbers = |method: &str, key: &str| -> Vec<f64> {
            let told = heard.iter().filter(|told| told["method"] == method).map(|told| &told["params"]);
            told.inspect(|told| {
                assert!(key != "progress" || told["progressToken"] == token.as_str(), "{told}")
            })
            .map(|told| told[key].as_str().and_then(|text| text.parse().ok()).or(told[key].as_f64()).unwrap())
            .collect()
        };
        for (method, key) in [("notifications/progress", "progress"), ("notifications/message", "data")] {
            let told = numbers(method, key);
            assert!(told.len() >= 64 && told.is_sorted_by(|one, next| one < next), "{method}: {told:?}");
            assert!(
                told.iter().all(|number| number.fract() == 0.0 && *number <= 300.0),
                "{method}: {told:?}"
            );
        }
        // Nothing comes late.
        let known = client.others().len();
        client.request("ping", json!({}));
        assert_eq!(client.others().len(), known);
    }
}

/// The line that a refusal offers opens its server to the caller, and no other.
#[test]
fn what_a_refusal_offers_is_enough_and_opens_nothing_else() {
    let Some(place) = place("", "network = 'host'", "network = 'host'") else { return };
    let mut client = open(&place, &[], json!({}));
    let refused = client.call("mcp__one__echo", json!({"say": "a"}));
    assert_eq!(kind(&refused), "approval_required");
    let shown = refused.to_string().replace("\\\"", "\"");
    let grant = "mcp.servers.one.approval = \"never\"";
    assert!(shown.contains(grant) && !shown.contains("auto_approve"), "{shown}");
    client.end();
    let mut client = open(&place, &["--set", grant], json!({}));
    assert_eq!(text(&client.call("mcp__one__echo", json!({"say": "a"}))), "one echo a");
    assert_eq!(kind(&client.call("mcp__two__echo", json!({"say": "b"}))), "approval_required");
}
