//! Six servers behind Helve: added, started in the sandbox, listed and called, and each answer held against what the Inspector
//! gets from the same server. The calls are the rows of `cases/mcp_peers.jsonl`; `left_out` names what changes with the time.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::programs::{Programs, Server, comparable};
use crate::row::Row;
use crate::support::{self, Place};

/// A page on this machine; gives its address.
fn web() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap_or(0);
            let wanted = String::from_utf8_lossy(request.get(..count).unwrap_or_default()).into_owned();
            let (status, page) = match wanted.starts_with("GET /page ") {
                true => ("200 OK", PAGE),
                false => ("404 Not Found", ""),
            };
            let head = "Content-Type: text/html\r\nConnection: close";
            let _ =
                write!(stream, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    format!("http://{address}")
}

const PAGE: &str = "<!doctype html><html><head><title>A page</title></head><body><article><h1>A page</h1>\
    <p>It has <b>some</b> words, enough of them that a reader takes it for the text of the page.</p></article></body></html>";

/// A workspace that is the same each time: files, and a repository with one commit and one change.
fn furnish(place: &Place) {
    let workspace = place.workspace();
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::create_dir_all(workspace.join("docs")).unwrap();
    place.put("a.txt", "one\ntwo\nthree\n");
    place.put("docs/b.md", "# B\n");
    let repository = workspace.join("repository");
    std::fs::create_dir(&repository).unwrap();
    std::fs::write(repository.join("file.txt"), "first\n").unwrap();
    for words in ["init -q -b main", "add file.txt", "commit -q -m first"] {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=tests",
                "-c",
                "user.email=tests@example.org",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(words.split(' '))
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(&repository)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    std::fs::write(repository.join("file.txt"), "first\nsecond\n").unwrap();
}

/// The cases of a server, with the places and addresses of this run in them.
fn cases(server: &str, place: &Place, web: &str) -> Vec<Value> {
    let rows = support::cases("mcp_peers.jsonl").into_iter().filter(|row| row["server"] == server);
    let workspace = place.workspace().to_str().unwrap().to_owned();
    let fill = |row: Value| {
        let text = row.to_string().replace("{workspace}", &workspace).replace("{web}", web);
        serde_json::from_str(&text).unwrap()
    };
    rows.map(fill).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}"))
}

/// What a server says of a tool, without what other programs than models read.
fn declared(tool: &Value) -> Value {
    comparable(&json!([tool["name"], tool["description"], tool["inputSchema"], tool["outputSchema"]]), &[])
}

/// Every tool that the Inspector is told of is listed, as the server declares it, and can be called.
fn every_tool_is_listed(place: &Place, server: &Server, listed: &Value) -> usize {
    let mut words = vec!["mcp", "test", server.name, "--json"];
    words.extend(server.settings().iter().flat_map(|setting| ["--set", setting]));
    let ran = place.run(&words);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_ne!(report["sandbox"]["layers"], json!([]), "{report}");
    let mut theirs: Vec<Value> = listed["tools"].as_array().unwrap().iter().map(declared).collect();
    let tools = report["tools"].as_array().unwrap();
    let mut ours: Vec<Value> = tools.iter().map(|tool| declared(&tool["definition"])).collect();
    for list in [&mut theirs, &mut ours] {
        list.sort_by_key(|tool| tool[0].to_string());
    }
    assert_eq!(ours, theirs, "{}", server.name);
    assert!(tools.iter().all(|tool| tool["standing"] == "on"), "{report}");
    ours.len()
}

/// One call, sandboxed; what came of it in the form of the protocol.
fn called(place: &Place, server: &Server, case: &Value) -> Value {
    let tool = format!("mcp__{}__{}", server.name, text(case, "tool"));
    let answer = place.call_with(&tool, &case["args"], server.settings()).result;
    let layers = answer["sandbox"]["layers"].as_array();
    assert!(layers.is_some_and(|layers| layers.contains(&json!("landlock"))), "{answer}");
    assert_eq!(answer["tainted"], format!("mcp:{}", server.name));
    json!({"content": answer["content"], "structuredContent": answer["details"], "isError": answer["ok"] == false})
}

fn answers_alike(name: &str) {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new(format!("peer: {name}"));
    let place = Place::new();
    let web = web();
    let server = programs.servers(&place).into_iter().find(|server| server.name == name).unwrap();
    let cases = cases(name, &place, &web);
    assert_ne!(cases, Vec::<Value>::new());

    furnish(&place);
    let listed = server.inspected(&programs, &place, &["--method", "tools/list"]);
    let inspect = |case: &Value| {
        let args = case["args"].to_string();
        let request =
            ["--method", "tools/call", "--tool-name", text(case, "tool"), "--tool-args-json", &args];
        server.inspected(&programs, &place, &request)
    };
    let theirs: Vec<Value> = cases.iter().map(inspect).collect();

    furnish(&place);
    server.add(&place);
    let tools = every_tool_is_listed(&place, &server, &listed);
    for (case, theirs) in cases.iter().zip(&theirs) {
        let ours = called(&place, &server, case);
        let left_out: Vec<&str> =
            case["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let expected = json!({
            "content": theirs["content"],
            "structuredContent": theirs["structuredContent"],
            "isError": theirs["isError"] == true,
        });
        if expected["isError"] == true {
            assert_eq!(ours["isError"], true, "{case}: {ours}");
            // Helve says before it that it is an error.
            let (said, theirs) = (support::text(&ours), support::text(&expected));
            assert!(said.contains(theirs), "{case}: {said:?} and not {theirs:?}");
            continue;
        }
        assert_eq!(comparable(&ours, &left_out), comparable(&expected, &left_out), "{case}");
    }
    let verified = place.verify();
    assert_eq!(verified.code, 0, "{:#}", verified.result);
    row.seen = format!("{tools} tools listed, {} calls like the Inspector's, sandboxed", cases.len());
}

#[test]
fn peer_everything() {
    answers_alike("everything");
}

#[test]
fn peer_filesystem() {
    answers_alike("filesystem");
}

#[test]
fn peer_memory() {
    answers_alike("memory");
}

#[test]
fn peer_git() {
    answers_alike("git");
}

#[test]
fn peer_time() {
    answers_alike("time");
}

#[test]
fn peer_fetch() {
    answers_alike("fetch");
}
