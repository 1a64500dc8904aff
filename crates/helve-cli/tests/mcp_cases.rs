//! Hostile MCP servers behind Helve and hostile MCP clients before it, through the real program.
//!
//! The cases are `cases/mcp_servers.jsonl` and `cases/mcp_clients.jsonl`; what a server of a kind does is in `mcp/servers.py`. After
//! every case another server, and another client, is still served, Helve has not grown much, and nothing is left running.
//! A directory that `HELVE_SHARED_CASES` names may hold `mcp.jsonl`: each of its lines names a case that must be covered here.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "mcp/client.rs"]
mod client;
#[path = "mcp/door.rs"]
mod door;
#[path = "mcp/scene.rs"]
mod scene;
#[path = "mcp/serve.rs"]
mod serve;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::{cases, is_installed, json_lines, sandbox_works};

/// So many cases at once: most of them wait.
const AT_ONCE: usize = 4;

/// Judges every case; gives what is wrong, by case.
fn judge(cases: &[Value], one: impl Fn(&Value) -> Result<(), String> + Sync) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(case)));
                    let judged = judged.unwrap_or_else(|_| Err("the test itself failed".to_owned()));
                    if let Err(problem) = judged {
                        wrong.lock().unwrap().push(format!("{}: {problem}", case["id"]));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

/// The cases whose name begins with what the environment asks for; all if it asks for none.
fn asked_for(cases: Vec<Value>) -> Vec<Value> {
    let only = std::env::var("HELVE_TEST_CASE").unwrap_or_default();
    cases.into_iter().filter(|case| case["id"].as_str().unwrap().starts_with(&only)).collect()
}

#[test]
fn no_server_harms_helve_its_client_or_another_server() {
    if !sandbox_works() || !is_installed("python3") {
        return;
    }
    let wrong = judge(&asked_for(cases("mcp_servers.jsonl")), scene::play);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_client_gets_in_that_should_not_and_none_holds_up_another() {
    let wrong = judge(&asked_for(cases("mcp_clients.jsonl")), door::knock);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Which case here covers a line of the shared ones.
#[test]
fn every_shared_case_is_covered() {
    let Some(dir) = std::env::var_os("HELVE_SHARED_CASES") else {
        println!("skipped: HELVE_SHARED_CASES names no directory with more cases");
        return;
    };
    let text = std::fs::read_to_string(Path::new(&dir).join("mcp.jsonl")).unwrap();
    let mut covered: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in cases("mcp_servers.jsonl").iter().chain(&cases("mcp_clients.jsonl")) {
        for shared in case["shared"].as_array().into_iter().flatten() {
            let outcome = format!("{} ({})", case["id"].as_str().unwrap(), case["expect"].as_str().unwrap());
            covered.entry(shared.as_str().unwrap().to_owned()).or_default().push(outcome);
        }
    }
    // What takes more than one server or one request has a test of its own.
    for (id, test) in [
        ("mc-006", "mcp_owner::mc_006_nothing_of_a_repository_is_started_before_consent (blocked)"),
        ("mc-018", "door::mc_018_two_clients_see_only_their_own (contained)"),
        ("mc-020", "door::mc_020_streams_and_half_open_connections_are_counted (clear_error)"),
    ] {
        covered.entry(id.to_owned()).or_default().push(test.to_owned());
    }
    let mut wrong = Vec::new();
    for line in json_lines(&text) {
        let (id, expect) = (line["id"].as_str().unwrap(), line["expect"].as_str().unwrap());
        let by = covered.get(id).cloned().unwrap_or_default();
        println!("{id} {expect}: {}", by.join(", "));
        if !by.iter().any(|by| by.ends_with(&format!("({expect})"))) {
            wrong.push(format!("{id}: no case expects {expect}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
