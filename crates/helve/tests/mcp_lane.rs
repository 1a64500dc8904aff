//! MCP servers in the sandbox, behind a runtime: what they see, what they can do, and how they end.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up must fail loudly"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve::mcp::client::Fleet;
use helve::mcp::lane::{Gateway, fleet_of};
use helve::{Call, ErrorKind, Policy, Runtime};
use helve_core::servers::{ServerMay, StdioServer, Transport, WorkspaceUse};
use helve_core::{ApprovalNeed, ServerSpec, Servers};
use pretty_assertions::assert_eq;
use serde_json::json;

/// A server with one tool, which runs a command where the server is.
const SERVER: &str = r#"
while IFS= read -r line; do
  [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  case $line in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id";;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"run","description":"runs","inputSchema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}}\n' "$id";;
    *'"tools/call"'*)
      [[ $line =~ \"command\":\"([^\"]*)\" ]]
      said=$(eval "${BASH_REMATCH[1]}" 2>&1 | tr '\n\t"\\' '|   ')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$said";;
  esac
done
"#;

fn stdio(workspace: WorkspaceUse) -> StdioServer {
    StdioServer {
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), SERVER.to_owned()],
        working_dir: None,
        env: BTreeMap::from([("GIVEN".to_owned(), "by the owner".to_owned())]),
        read: Vec::new(),
        write: Vec::new(),
        workspace,
        network: false,
    }
}

fn server(name: &str, stdio: StdioServer) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        transport: Transport::Stdio(stdio),
        start_timeout: Duration::from_secs(60),
        call_timeout: Duration::from_secs(60),
        trusted: false,
        parallel: false,
        allow: None,
        deny: Vec::new(),
        off: Default::default(),
        approval: Some(ApprovalNeed::Never),
        tool_approval: BTreeMap::new(),
        rate_limit: None,
        may: ServerMay::default(),
        origin: "test".to_owned(),
    }
}

/// A workspace and a state directory that are beside each other.
struct Place {
    _root: tempfile::TempDir,
    workspace: PathBuf,
    home: PathBuf,
}

impl Place {
    fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        let (workspace, home) = (root.path().join("workspace"), root.path().join("home"));
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("note.txt"), "in the workspace").unwrap();
        Place { _root: root, workspace, home }
    }

    fn fleet(&self, servers: Vec<ServerSpec>) -> Arc<Fleet> {
        let policy = Policy::builtin();
        let kept = helve::mcp::keep(&self.home, &policy, None);
        fleet_of(servers, &policy, &self.workspace, &self.home, kept)
    }

    fn runtime(&self, fleet: &Arc<Fleet>) -> Runtime {
        Runtime::builder()
            .policy(Policy::builtin())
            .workspace(&self.workspace)
            .home(&self.home)
            .session("t")
            .servers(Arc::clone(fleet) as Arc<dyn Servers>)
            .build()
            .unwrap()
    }
}

/// Starts the servers; none where this machine has no sandbox for them.
async fn ready(place: &Place, servers: Vec<ServerSpec>) -> Option<(Runtime, Gateway, Arc<Fleet>)> {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let fleet = place.fleet(servers);
    fleet.start_all();
    for name in names {
        match fleet.look(&name).await {
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::SandboxUnavailable => {
                println!("skipped: {}", error.message);
                return None;
            }
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
    let runtime = place.runtime(&fleet);
    let gateway = Gateway::new(&fleet, &runtime, usize::MAX);
    Some((runtime, gateway, fleet))
}

async fn run(runtime: &Runtime, server: &str, command: &str) -> String {
    let result = runtime.call(Call::new(format!("mcp__{server}__run"), json!({"command": command}))).await;
    assert!(result.ok, "{result:?}");
    assert_eq!(result.tainted.as_deref(), Some(format!("mcp:{server}").as_str()));
    assert!(result.sandbox.as_ref().is_some_and(|sandbox| !sandbox.layers.is_empty()), "{result:?}");
    result.text()
}

#[tokio::test]
async fn a_server_sees_and_changes_what_the_owner_says() {
    let place = Place::new();
    let extra = tempfile::tempdir().unwrap();
    let writing = StdioServer { write: vec![extra.path().to_owned()], ..stdio(WorkspaceUse::Write) };
    let servers = vec![
        server("hidden", stdio(WorkspaceUse::Hidden)),
        server("read", stdio(WorkspaceUse::Read)),
        server("write", writing),
    ];
    let Some((runtime, _gateway, fleet)) = ready(&place, servers).await else { return };
    let workspace = place.workspace.canonicalize().unwrap();
    let note = workspace.join("note.txt");
    let note = note.display();

    assert!(!run(&runtime, "hidden", &format!("cat {note}")).await.contains("in the workspace"));
    assert_eq!(run(&runtime, "hidden", "echo mine > own; cat own").await, "mine|");
    assert_eq!(
        run(&runtime, "read", &format!("pwd; cat {note}")).await,
        format!("{}|in the workspace", workspace.display())
    );
    let denied = run(&runtime, "read", "echo x > planted; ls").await;
    assert!(denied.ends_with("note.txt|") && !workspace.join("planted").exists(), "{denied}");
    assert_eq!(run(&runtime, "write", "echo x > made; cat made").await, "x|");
    assert!(workspace.join("made").exists());
    let beside = extra.path().canonicalize().unwrap().join("beside");
    run(&runtime, "write", &format!("echo x > {}", beside.display())).await;
    assert!(beside.exists());

    // Neither Helve's own state nor the network nor the caller's environment.
    for name in ["hidden", "read", "write"] {
        let state = run(&runtime, name, &format!("ls {}/sessions", place.home.display())).await;
        assert!(state.contains("No such file"), "{name}: {state}");
        let interfaces = run(&runtime, name, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await;
        assert!(matches!(interfaces.as_str(), "lo|" | ""), "{name}: {interfaces}");
        let names = run(&runtime, name, "env | cut -d= -f1 | sort").await;
        assert!(names.contains("GIVEN|") && names.contains("PATH|"), "{names}");
        assert!(!names.contains("CARGO_PKG_NAME") && !names.contains("CARGO_MANIFEST_DIR"), "{names}");
    }
    let look = fleet.look("read").await.unwrap();
    assert!(!look.sandbox.unwrap().layers.is_empty());
}

#[tokio::test]
async fn arguments_are_checked_before_and_an_unknown_program_is_named() {
    let place = Place::new();
    let Some((runtime, _gateway, _fleet)) = ready(&place, vec![server("s", stdio(WorkspaceUse::Read))]).await
    else {
        return;
    };
    let wrong = runtime.call(Call::new("mcp__s__run", json!({"command": 7}))).await;
    assert_eq!(wrong.error.unwrap().kind, ErrorKind::InvalidParams);
    let missing = runtime.call(Call::new("mcp__s__run", json!({}))).await;
    assert_eq!(missing.error.unwrap().kind, ErrorKind::InvalidParams);

    let absent = StdioServer { command: "no-such-program".to_owned(), ..stdio(WorkspaceUse::Read) };
    let fleet = place.fleet(vec![server("absent", absent)]);
    let error = fleet.look("absent").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.message.contains("no-such-program"), "{error}");
}

const AS_PARENT: &str = "HELVE_TEST_HOLDS_SERVERS";

/// Not a test of its own: what the next one kills.
#[tokio::test]
async fn hold_servers() {
    let Ok(mark) = std::env::var(AS_PARENT) else { return };
    let place = Place::new();
    let marked = |index: usize| {
        let mut stdio = stdio(WorkspaceUse::Read);
        stdio.args.push(mark.clone());
        server(&format!("s{index}"), stdio)
    };
    let Some((runtime, _gateway, _fleet)) = ready(&place, (0..6).map(marked).collect()).await else {
        println!("NONE");
        return;
    };
    for index in 0..6 {
        let left = format!("setsid bash -c 'sleep 1000; : {mark}' < /dev/null > /dev/null 2>&1 & echo left");
        assert_eq!(run(&runtime, &format!("s{index}"), &left).await, "left|");
    }
    println!("READY");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

/// Processes whose command line holds `mark`.
fn marked(mark: &str) -> usize {
    let holds = |process: &Path| {
        std::fs::read(process.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| holds(&entry.path())).count()
}

#[test]
fn no_server_outlives_a_killed_parent() {
    let mark = format!("mark-{}", std::process::id());
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_servers", "--nocapture"])
        .env(AS_PARENT, &mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(parent.stdout.take().unwrap());
    let word =
        said.lines().map_while(Result::ok).find(|line| line.contains("READY") || line.contains("NONE"));
    if word.is_none_or(|word| word.contains("NONE")) {
        let _ = parent.kill();
        println!("skipped: no sandbox here, or the servers did not start: {:?}", parent.wait());
        return;
    }
    // What was left behind may only be about to become what it is.
    comes_to(&mark, |count| count >= 12);
    parent.kill().unwrap();
    parent.wait().unwrap();
    comes_to(&mark, |count| count == 0);
}

/// Waits until the number of marked processes is as it should be.
fn comes_to(mark: &str, is_right: impl Fn(usize) -> bool) {
    let from = Instant::now();
    while !is_right(marked(mark)) {
        assert!(from.elapsed() < Duration::from_secs(10), "{} processes", marked(mark));
        std::thread::sleep(Duration::from_millis(20));
    }
}
