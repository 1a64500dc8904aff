//! Helve is killed with six servers of other people behind it: nothing of them is left.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::client::Client;
use crate::programs::Programs;
use crate::row::Row;
use crate::support::{Place, unique_seconds};

/// A process: its number, and when it began, so that another with its number is not taken for it.
type Process = (u32, u64);

/// All processes that can be seen, with their parents.
fn processes() -> BTreeMap<Process, u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let of = |entry: std::fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold anything: state, parent, …; the beginning is the 22nd of all.
        let rest: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let is_dead = matches!(*rest.first()?, "Z" | "X");
        (!is_dead).then_some(((number, rest.get(19)?.parse().ok()?), rest.get(1)?.parse().ok()?))
    };
    numbers.filter_map(of).collect()
}

/// Everything below a process.
fn tree(root: u32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|(_, of)| **of == parent).map(|(process, _)| *process);
        for child in children {
            found.push(child);
            parents.push(child.0);
        }
    }
    found
}

fn command_line(process: Process) -> String {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The processes that were started with a variable, as far as they let themselves be looked at.
fn marked(mark: &str) -> Vec<Process> {
    let has = |process: &Process| {
        let bytes = std::fs::read(format!("/proc/{}/environ", process.0)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(mark)
    };
    processes().into_keys().filter(has).collect()
}

#[test]
fn kill_nine_leaves_no_server() {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new("kill -9 with six servers");
    let place = Place::new();
    let mark = unique_seconds();
    let mut servers = programs.servers(&place);
    servers = servers.into_iter().map(|server| server.with_variable("HELVE_TEST_MARK", &mark)).collect();
    for server in &servers {
        server.add(&place);
    }
    let mut client = Client::with(&place, &["--gateway"], &["auto_approve=true"]);
    client.initialize(json!({}));
    let calls = [
        ("everything", "echo", json!({"message": "up"})),
        ("filesystem", "list_allowed_directories", json!({})),
        ("memory", "read_graph", json!({})),
        ("git", "git_status", json!({"repo_path": place.workspace()})),
        ("time", "get_current_time", json!({"timezone": "UTC"})),
        ("fetch", "fetch", json!({"url": "http://127.0.0.1:9/"})),
    ];
    let are_known = |client: &mut Client| {
        let listed = client.request("tools/list", json!({})).to_string();
        calls.iter().all(|(server, tool, _)| listed.contains(&format!("\"mcp__{server}__{tool}\"")))
    };
    // They all start at once, and the tools of each come when it is up.
    let begin = Instant::now();
    while !are_known(&mut client) {
        assert!(begin.elapsed() < Duration::from_secs(120), "not all servers came up");
        std::thread::sleep(Duration::from_millis(100));
    }
    for (server, tool, args) in &calls {
        // Whatever it answers, it is there.
        let answer = client.call(&format!("mcp__{server}__{tool}"), args.clone());
        let meta = &answer["_meta"]["helve/result"];
        assert!(
            ["native", "landlock"].iter().any(|backend| meta["sandbox"] == *backend),
            "{server}: {answer}"
        );
    }
    let below = tree(client.pid());
    for (server, ..) in &calls {
        let program = format!("mcp-server-{server}");
        let running = below.iter().filter(|process| command_line(**process).contains(&program)).count();
        assert!(
            running > 0,
            "{server} does not run: {:?}",
            below.iter().map(|one| command_line(*one)).collect::<Vec<_>>()
        );
    }
    // An ordinary user may not be let look at what is in a sandbox.
    assert!(!marked(&mark).is_empty() || !rustix::process::geteuid().is_root());
    client.kill();
    std::thread::sleep(Duration::from_secs(1));
    let alive = processes();
    let left: Vec<String> = below
        .iter()
        .filter(|process| alive.contains_key(process))
        .map(|process| command_line(*process))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    let left: Vec<String> = marked(&mark).into_iter().map(command_line).collect();
    assert_eq!(left, Vec::<String>::new());
    row.seen = format!("{} processes before, none a second later", below.len());
}
