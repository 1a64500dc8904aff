//! The keys of `[mcp]`: MCP servers, how they are reached, and what they may do.

use std::borrow::Cow;

use super::keys::{ANY_SERVER, APPROVALS, Key};
use super::value::{Kind, Value};

pub(crate) const START_TIMEOUT: &str = "mcp.start_timeout";
pub(crate) const CALL_TIMEOUT: &str = "mcp.call_timeout";
pub(crate) const SCHEMA_BUDGET: &str = "mcp.schema_budget";
/// What the keys of all servers begin with.
pub(crate) const SERVERS: &str = "mcp.servers.";

pub(crate) const TRANSPORTS: &[&str] = &["stdio", "http", "sse"];
pub(crate) const WORKSPACE_USES: &[&str] = &["hidden", "read", "write"];
pub(crate) const NETWORKS: &[&str] = &["none", "host"];

/// The keys that belong to a process, and those that belong to an address.
pub(crate) const OF_PROCESS: &[&str] =
    &["command", "args", "cwd", "env", "pass_env", "read", "write", "workspace", "network"];
pub(crate) const OF_ADDRESS: &[&str] = &[
    "url",
    "headers",
    "headers_from_env",
    "bearer_token_env",
    "oauth",
    "oauth_client_id",
    "oauth_client_secret_env",
    "oauth_metadata_url",
    "oauth_scopes",
];

/// The default of a key of one server, by its whole name.
pub(crate) fn default(name: &str) -> Option<&'static Value> {
    let (_, key) = name.strip_prefix(SERVERS)?.split_once('.')?;
    let of = |known: &&'static Key| {
        known.name.strip_prefix(SERVERS)?.split_once('.').map(|(_, known)| known == key)
    };
    super::keys::keys().iter().find(|known| of(known) == Some(true))?.default.as_ref()
}

/// All of them, in the order of the manual.
pub(crate) fn keys() -> Vec<Key> {
    let plain =
        |name, kind, default, doc| Key { name: Cow::Borrowed(name), kind, doc: Cow::Borrowed(doc), default };
    let key = |name: &str, kind, default, doc| Key {
        name: Cow::Owned(format!("{SERVERS}{ANY_SERVER}.{name}")),
        kind,
        doc: Cow::Borrowed(doc),
        default,
    };
    let flag = |value| Some(Value::Bool(value));
    let text = |value: &str| Some(Value::Text(value.to_owned()));
    let empty = || Some(Value::List(Vec::new()));
    vec![
        plain(
            START_TIMEOUT,
            Kind::Seconds,
            Some(Value::Count(30)),
            "How long a server may take to start or to be connected, where it does not say itself.",
        ),
        plain(
            CALL_TIMEOUT,
            Kind::Seconds,
            Some(Value::Count(120)),
            "How long a call of a server's tool may take, where the server does not say itself.",
        ),
        plain(
            SCHEMA_BUDGET,
            Kind::AtLeast(0),
            Some(Value::Count(64 << 10)),
            "How many bytes the definitions of all tools of servers may take in one list. Beyond that a client is shown `tool_search` in their place. 0: always.",
        ),
        key("enabled", Kind::Bool, flag(true), "Whether the server is there for callers."),
        key(
            "transport",
            Kind::Choice(TRANSPORTS),
            None,
            "How it is reached. stdio: a process in the sandbox. http: Streamable HTTP. sse: the older HTTP with SSE. Not set: stdio where there is a `command`, http where there is a `url`.",
        ),
        key("command", Kind::Text, None, "The program of a server that runs here, in the sandbox."),
        key("args", Kind::Texts, empty(), "Its arguments."),
        key(
            "cwd",
            Kind::Text,
            None,
            "Where it starts: a directory in the workspace, or an absolute path. Not set: the workspace.",
        ),
        key(
            "env",
            Kind::Variables,
            Some(Value::Hidden(Default::default())),
            "Variables that it gets, besides the clean environment of the sandbox. The values are not shown. Those of all layers add up.",
        ),
        key(
            "pass_env",
            Kind::VariableNames,
            empty(),
            "Variables of Helve's own environment that it gets; none of HELVE_*.",
        ),
        key("read", Kind::Paths, empty(), "Paths that it may read, besides what a command sees."),
        key(
            "write",
            Kind::Paths,
            empty(),
            "Paths that it may change. None may hold a file that configures Helve or a file of `secrets`.",
        ),
        key("workspace", Kind::Choice(WORKSPACE_USES), text("read"), "What it may do with the workspace."),
        key(
            "network",
            Kind::Choice(NETWORKS),
            text("none"),
            "Whether it reaches the network: host is that of the machine.",
        ),
        key("start_timeout", Kind::Seconds, None, "As mcp.start_timeout, for this server."),
        key("call_timeout", Kind::Seconds, None, "As mcp.call_timeout, for this server."),
        key(
            "trusted",
            Kind::Bool,
            flag(false),
            "Whether you vouch for what it says of itself: only then does a tool that it calls read-only count as one, and are tools that it adds later offered without `helve mcp trust`.",
        ),
        key(
            "parallel",
            Kind::Bool,
            flag(false),
            "Whether its calls may run beside each other. If not, one that may change something waits for all before it, and all others wait for that one. A server cannot say which of several calls a question is about, so while more than one is under way its questions are refused.",
        ),
        key(
            "allow",
            Kind::ToolPatterns,
            Some(Value::List(vec!["*".to_owned()])),
            "The tools that are offered, by its own names, `*` for any characters. Empty: none.",
        ),
        key("deny", Kind::ToolPatterns, empty(), "The tools that are not offered, whatever `allow` says."),
        key(
            "approval",
            Kind::Choice(APPROVALS),
            None,
            "When a person has to agree to a call. Not set: unless_auto_approved for tools that may change something.",
        ),
        key(
            "tools",
            Kind::ServerTools,
            Some(Value::ServerTools(Default::default())),
            "What holds for single tools, by its own names: tables with `enabled` and `approval`. Those of all layers add up.",
        ),
        key(
            "per_minute",
            Kind::Calls,
            None,
            "Calls of each of its tools by one caller in any 60 seconds. Not set: as for other tools.",
        ),
        key(
            "per_hour",
            Kind::Calls,
            None,
            "Calls of each of its tools by one caller in any hour. Not set: as for other tools.",
        ),
        key("may_sample", Kind::Bool, flag(false), "Whether it may ask for words of the caller's model."),
        key("may_elicit", Kind::Bool, flag(false), "Whether it may ask the person something."),
        key("may_read_roots", Kind::Bool, flag(false), "Whether it is told where the workspace is."),
        key("url", Kind::Url, None, "The address of a server elsewhere: https, or http to this machine."),
        key(
            "headers",
            Kind::Headers,
            Some(Value::Hidden(Default::default())),
            "Headers of every request. The values are not shown. Those of all layers add up.",
        ),
        key(
            "headers_from_env",
            Kind::HeaderVariables,
            Some(Value::Names(Default::default())),
            "Headers whose values stand in variables of Helve's own environment. Those of all layers add up.",
        ),
        key(
            "bearer_token_env",
            Kind::VariableName,
            None,
            "The variable of Helve's own environment that holds a bearer token for it.",
        ),
        key(
            "oauth",
            Kind::Bool,
            flag(true),
            "Whether you are shown an address to sign in at, where the server asks for it.",
        ),
        key(
            "oauth_client_id",
            Kind::Text,
            None,
            "Who Helve is to its authorization server, as you got it from there. Not set: Helve registers by itself.",
        ),
        key(
            "oauth_client_secret_env",
            Kind::VariableName,
            None,
            "The variable of Helve's own environment that holds the secret for oauth_client_id.",
        ),
        key(
            "oauth_metadata_url",
            Kind::Url,
            None,
            "The address of a document that describes Helve, for authorization servers that read those.",
        ),
        key("oauth_scopes", Kind::Texts, empty(), "What is asked for. Empty: what the server says it needs."),
    ]
}
