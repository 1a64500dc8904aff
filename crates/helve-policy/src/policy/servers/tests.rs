//! MCP servers as the owner writes them, and what a workspace may take away.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use helve_core::ApprovalNeed;
use helve_core::servers::{HttpServer, StdioServer, Transport, WorkspaceUse};
use pretty_assertions::assert_eq;

use crate::config::layers::{Sources, WorkspaceFile};
use crate::view::Surroundings;
use crate::{ConfiguredServer, Policy};

fn table(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A policy of these layers, with an environment that holds two tokens.
fn load(system: &str, user: &str, workspace: Option<&str>) -> Result<Policy, String> {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("system.toml"), dir.path().join("user.toml"));
    std::fs::write(&one, system).unwrap();
    std::fs::write(&two, user).unwrap();
    let workspace =
        workspace.map(|text| WorkspaceFile { path: "/w/helve.toml".into(), text: text.to_owned() });
    let sources = Sources { system: Some(one), user: Some(two), workspace, ..Sources::default() };
    let variables = table(&[("API_TOKEN", "tok-12345678"), ("PLAIN", "yes"), ("HOME", "/home/user")]);
    Policy::load_around(&sources, Surroundings { variables }).map_err(|error| error.to_string())
}

fn of_user(text: &str) -> Result<Policy, String> {
    load("", text, None)
}

fn only(policy: &Policy) -> ConfiguredServer {
    let mut servers = policy.mcp_configured();
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

fn process(server: &ConfiguredServer) -> &StdioServer {
    match &server.spec.transport {
        Transport::Stdio(process) => process,
        Transport::Http(_) => panic!("{server:?}"),
    }
}

#[test]
fn a_process_with_everything() {
    let policy = of_user(
        r#"
        mcp.call_timeout = 7
        [mcp.servers.files]
        command = "npx"
        args = ["-y", "server", ""]
        cwd = "sub"
        env = { MODE = "fast", PLAIN = "no" }
        pass_env = ["API_TOKEN", "PLAIN", "ABSENT"]
        read = ["~/docs"]
        write = ["/srv/data"]
        workspace = "write"
        network = "host"
        start_timeout = 5
        trusted = true
        parallel = true
        allow = ["read_*"]
        deny = ["read_secret"]
        approval = "always"
        per_minute = 10
        mayElicit = true
        [mcp.servers.files.tools."dir.list"]
        approval = "never"
        [mcp.servers.files.tools.drop]
        enabled = false
        "#,
    )
    .unwrap();
    let server = only(&policy);
    assert!(server.enabled);
    assert_eq!(server.unset, ["ABSENT"]);
    assert_eq!(server.origin.line, Some(4));
    let expected = StdioServer {
        command: "npx".into(),
        args: vec!["-y".into(), "server".into(), String::new()],
        working_dir: Some("sub".into()),
        env: table(&[("API_TOKEN", "tok-12345678"), ("MODE", "fast"), ("PLAIN", "no")]),
        read: vec![PathBuf::from("/home/user/docs")],
        write: vec![PathBuf::from("/srv/data")],
        workspace: WorkspaceUse::Write,
        network: true,
    };
    assert_eq!(process(&server), &expected);
    let spec = &server.spec;
    assert_eq!((spec.start_timeout, spec.call_timeout), (Duration::from_secs(5), Duration::from_secs(7)));
    assert_eq!(
        (spec.allow.as_deref(), spec.deny.as_slice()),
        (Some(&["read_*".into()][..]), &["read_secret".into()][..])
    );
    assert_eq!(spec.off, ["drop".to_owned()].into());
    assert_eq!(spec.approval, Some(ApprovalNeed::Always));
    assert_eq!(spec.tool_approval.get("dir.list"), Some(&ApprovalNeed::Never));
    assert_eq!(spec.rate_limit.unwrap().per_minute, 10);
    assert!(spec.trusted && spec.parallel && spec.may.elicit && !spec.may.sample && !spec.may.roots);
    assert!(!format!("{spec:?}").contains("tok-12345678"));
}

#[test]
fn an_address_with_everything_and_what_is_given_to_it_is_a_secret() {
    let policy = of_user(
        r#"
        [mcp.servers.far]
        url = "https://example.com/mcp"
        transport = "sse"
        headers = { X-Api-Key = "literal-key-1", X-Team = "blue team" }
        headers_from_env = { X-Token = "API_TOKEN" }
        bearer_token_env = "API_TOKEN"
        oauth = false
        oauth_client_id = "me"
        oauth_client_secret_env = "API_TOKEN"
        oauth_scopes = ["read"]
        "#,
    )
    .unwrap();
    let server = only(&policy);
    let expected = HttpServer {
        url: "https://example.com/mcp".into(),
        headers: table(&[
            ("X-Api-Key", "literal-key-1"),
            ("X-Team", "blue team"),
            ("X-Token", "tok-12345678"),
        ]),
        bearer: Some("tok-12345678".into()),
        oauth: false,
        oauth_client: Some(helve_core::servers::OauthClient {
            id: Some("me".into()),
            secret: Some("tok-12345678".into()),
            metadata_url: None,
            scopes: vec!["read".into()],
        }),
        sse: true,
    };
    assert_eq!(server.spec.transport, Transport::Http(expected));
    let secrets: Vec<String> = policy.secrets().unwrap().into_iter().map(|secret| secret.value).collect();
    assert_eq!(secrets, ["tok-12345678", "tok-12345678", "tok-12345678", "literal-key-1"]);
    assert!(!format!("{server:?}").contains("literal-key-1"));
    let shown = serde_json::to_string(&policy.explain()).unwrap();
    assert!(!shown.contains("literal-key-1") && !shown.contains("tok-12345678"), "{shown}");
    let headers =
        policy.explain().into_iter().find(|setting| setting.key == "mcp.servers.far.headers").unwrap();
    assert!(headers.hidden);
    assert_eq!(headers.toml().unwrap(), r#"{ X-Api-Key = "(hidden)", X-Team = "(hidden)" }"#);
}

#[test]
fn what_is_not_said_is_nothing() {
    let policy =
        of_user("mcp.servers.a.command = 'x'\nmcp.servers.b.command = 'y'\nmcp.servers.b.enabled = false")
            .unwrap();
    let servers = policy.mcp_configured();
    assert_eq!(servers.iter().map(|server| server.enabled).collect::<Vec<_>>(), [true, false]);
    let a = process(&servers[0]);
    assert_eq!((a.workspace, a.network, a.env.len()), (WorkspaceUse::Read, false, 0));
    let spec = &servers[0].spec;
    assert!(!spec.trusted && !spec.may.sample && spec.approval.is_none() && spec.rate_limit.is_none());
    assert_eq!(policy.mcp_servers(), std::slice::from_ref(spec));
    assert_eq!(policy.mcp_schema_budget(), 65536);
    assert_eq!(Policy::builtin().mcp_configured(), []);
}

#[test]
fn what_is_wrong_says_what_to_change() {
    for (text, part) in [
        ("mcp.servers.a.args = []", "`mcp.servers.a` has neither a `command` nor a `url`"),
        ("mcp.servers.a = { command = 'x', url = 'https://x' }", "has a `command` and a `url`"),
        ("mcp.servers.a = { command = 'x', oauth = true }", "`mcp.servers.a.oauth` in "),
        ("mcp.servers.a = { url = 'https://x', network = 'host' }", "does not run here; take it out"),
        ("mcp.servers.a = { command = 'x', transport = 'http' }", "has no `url`"),
        ("mcp.servers.a = { url = 'https://x', transport = 'stdio' }", "has no `command`"),
        ("mcp.servers.a.comand = 'x'", "did you mean `command`?"),
        ("mcp.servers.'a b'.command = 'x'", "unknown key `mcp.servers.a b`"),
        ("mcp.servers.a.command = ['x']", "expected a string, received a list"),
        ("mcp.servers.a = { command = 'x', args = 'y' }", "expected a list of strings, received a string"),
        ("mcp.servers.a = { command = 'x', env = { A = 1 } }", "`A`: expected a string, received a number"),
        ("mcp.servers.a = { command = 'x', env = { 'A B' = '1' } }", "is not the name of a variable"),
        (
            "mcp.servers.a = { command = 'x', env = 'A=geheim' }",
            "expected a table of variables, each a string, received a string",
        ),
        ("mcp.servers.a = { command = 'x', pass_env = ['HELVE_HOME'] }", "configures Helve itself"),
        ("mcp.servers.a = { command = 'x', network = 'lan' }", "\"none\" or \"host\""),
        (
            "mcp.servers.a = { command = 'x', tools.t = { on = true } }",
            "the known keys are `enabled` and `approval`",
        ),
        (
            "mcp.servers.a = { command = 'x', tools.'t*' = { enabled = false } }",
            "patterns belong into `allow`",
        ),
        ("mcp.servers.a = { command = 'x', tools.t.approval = 'no' }", "expected \"never\" or"),
        ("mcp.servers.a.url = 'http://example.com/mcp'", "may only lead to this machine"),
        ("mcp.servers.a.url = 'ftp://example.com'", "neither `https` nor `http`"),
        ("mcp.servers.a.url = 'https://u:p@example.com'", "bearer_token_env"),
        ("mcp.servers.a.url = 'https://'", "there is no host"),
        (
            "mcp.servers.a = { url = 'https://x', headers = { Mcp-Session-Id = 'x' } }",
            "header that can be set",
        ),
        ("mcp.servers.a = { url = 'https://x', headers = { A = \"x\\ny\" } }", "cannot stand there"),
        ("mcp.servers.a = { url = 'https://x', headers_from_env = { A = 'x y' } }", "name of a variable"),
    ] {
        let error = of_user(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("geheim"), "{error}");
    }
    for url in ["http://localhost:1/x", "http://127.0.0.1/mcp", "http://[::1]:8/", "HTTPS://x?y=1"] {
        assert!(of_user(&format!("mcp.servers.a.url = '{url}'")).is_ok(), "{url}");
    }
}

#[test]
fn a_server_cannot_be_given_the_configuration_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("helve.toml");
    let text = format!("mcp.servers.a = {{ command = 'x', write = ['{}'] }}", dir.path().display());
    std::fs::write(&file, text).unwrap();
    let error = Policy::load(&Sources { user: Some(file), ..Sources::default() }).unwrap_err();
    assert!(error.to_string().contains("name a smaller directory"), "{error}");
}

#[test]
fn tables_of_layers_add_up_and_the_command_line_comes_last() {
    let system =
        "mcp.servers.a = { command = 'x', env = { A = '1', B = '1' }, tools.t = { approval = 'always' } }";
    let policy =
        load(system, "mcp.servers.a = { env = { B = '2' }, tools.t = { enabled = false } }", None).unwrap();
    let server = only(&policy);
    assert_eq!(process(&server).env, table(&[("A", "1"), ("B", "2")]));
    assert_eq!(server.spec.tool_approval.get("t"), Some(&ApprovalNeed::Always));
    assert_eq!(server.spec.off, ["t".to_owned()].into());
    let set = ["mcp.servers.a.command=x", "mcp.servers.a.env.N=1", "mcp.servers.a.tools.t.enabled=false"];
    let set = set.map(str::to_owned).to_vec();
    let policy = Policy::load(&Sources { set, ..Sources::default() }).unwrap();
    assert_eq!(process(&only(&policy)).env, table(&[("N", "1")]));
}

/// A list that is there and empty offers nothing.
#[test]
fn an_empty_list_of_tools_is_not_the_same_as_none() {
    let allow = |text: &str| {
        let policy = load("", &format!("mcp.servers.a.command = 'x'\n{text}"), None).unwrap();
        only(&policy).spec.allow
    };
    assert_eq!(allow(""), Some(vec!["*".to_owned()]));
    assert_eq!(allow("mcp.servers.a.allow = []"), Some(Vec::new()));
    assert_eq!(allow("mcp.servers.a.allow = ['t']"), Some(vec!["t".to_owned()]));
    let odd = load("", "mcp.servers.a = { command = 'x', tools.'x{y}'.enabled = false }", None).unwrap();
    assert_eq!(only(&odd).spec.off, ["x{y}".to_owned()].into());
}

/// A repository cannot bring a server, nor give one of the owner's more.
#[test]
fn a_workspaces_file_only_tightens() {
    let owner = "[mcp.servers.a]\ncommand = 'x'\nworkspace = 'write'\nnetwork = 'host'\ndeny = ['one']\nper_minute = 5\nmay_sample = true\nparallel = true";
    let tightened = |text: &str| load("", owner, Some(text));
    let policy = tightened(
        "[mcp.servers.a]\nworkspace = 'read'\nnetwork = 'none'\ndeny = ['two']\nper_minute = 9\nmay_sample = false\nparallel = false\n\
         approval = 'always'\ncall_timeout = 3\ntools.t = { enabled = false }",
    )
    .unwrap();
    let server = only(&policy);
    assert_eq!((process(&server).workspace, process(&server).network), (WorkspaceUse::Read, false));
    assert_eq!(
        (server.spec.deny.as_slice(), server.spec.off.contains("t")),
        (&["one".into(), "two".into()][..], true)
    );
    assert_eq!(server.spec.rate_limit.unwrap().per_minute, 5);
    assert_eq!(server.spec.call_timeout, Duration::from_secs(3));
    assert_eq!(server.spec.approval, Some(ApprovalNeed::Always));
    assert!(!server.spec.may.sample && !server.spec.parallel);
    assert_eq!(tightened("mcp.servers.a.enabled = false").unwrap().mcp_servers(), []);
    for looser in [
        "mcp.servers.new.command = 'evil'",
        "mcp.servers.new.url = 'https://evil.test'",
        "mcp.servers.a.command = 'evil'",
        "mcp.servers.a.args = ['evil']",
        "mcp.servers.a.env.LD_PRELOAD = '/w/evil.so'",
        "mcp.servers.a.pass_env = ['API_TOKEN']",
        "mcp.servers.a.allow = ['*']",
        "mcp.servers.a.trusted = true",
        "mcp.servers.a.approval = 'never'",
        "mcp.servers.a.tools.t.approval = 'never'",
        "mcp.servers.a.tools.t.enabled = true",
        "mcp.servers.a.workspace = 'write'",
        "mcp.servers.a.may_elicit = true",
        "mcp.schema_budget = 1",
    ] {
        let error = tightened(looser).unwrap_err();
        assert!(error.contains("may only tighten"), "{looser}: {error}");
    }
    let error = load("", "mcp.servers.a.command = 'x'", Some("mcp.servers.a.parallel = true")).unwrap_err();
    assert!(error.contains("may only tighten"), "{error}");
    // What it says of a server that the owner does not have is of no use, and no harm.
    let policy = tightened("mcp.servers.other.enabled = false").unwrap();
    assert_eq!(policy.mcp_configured().len(), 1);
}

#[test]
fn the_machines_ceiling_holds_for_servers() {
    let closed = load("ceiling.network = false", "mcp.servers.a = { command = 'x', network = 'host' }", None);
    assert!(closed.unwrap_err().contains("keeps the network closed"));
    for text in ["approval = 'never'", "tools.t.approval = 'never'"] {
        let user = format!("[mcp.servers.a]\ncommand = 'x'\n{text}");
        let error = load("ceiling.longest_approval = 'session'", &user, None).unwrap_err();
        assert!(error.contains("lets no answer hold for ever"), "{error}");
    }
}
