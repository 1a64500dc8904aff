//! MCP servers: what the owner configured of each, as the client lane takes it.
//!
//! In come the settings under `mcp.servers`, out come [`ServerSpec`]s; nothing is made of them before somebody asks. What
//! stands in variables of Helve's own environment is put in at that moment. Whether a server is sound is checked when the
//! policy is compiled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::servers::{
    HttpServer, OauthClient, ServerMay, ServerSpec, StdioServer, Transport, WorkspaceUse,
};
use helve_core::{ApprovalNeed, RateLimit};

use super::{Policy, ToolRule};
use crate::config::layers::{ConfigError, Layer, Origin};
use crate::config::server::{self, ServerTool};
use crate::config::server_keys::{self, OF_ADDRESS, OF_PROCESS};
use crate::config::value::Value;
use crate::guarded;
use crate::secrets::Secret;

/// A value that is shorter is hardly a secret, and hiding it would spoil ordinary text.
const SECRET_CHARS: usize = 8;

/// A server of the configuration, whether it is switched on or not.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredServer {
    /// The server.
    pub spec: ServerSpec,
    /// Whether it is there for callers.
    pub enabled: bool,
    /// The place where its program or address is written.
    pub origin: Origin,
    /// Variables that it is meant to get from Helve's own environment and that are not set there.
    pub unset: Vec<String>,
}

impl Policy {
    /// What the owner wrote about agreeing to a tool of a server: of the tool, else of the server; none where nothing is
    /// written of either.
    pub fn server_approval(&self, server: &str, tool: &str) -> Option<ApprovalNeed> {
        let written = |key: &str| {
            let name = format!("{}{server}.{key}", server_keys::SERVERS);
            self.inner.settings.written(&name).map(|(value, _)| value)
        };
        let of_tool = match written("tools") {
            Some(Value::ServerTools(tools)) => tools.get(tool).and_then(|tool| tool.approval),
            _ => None,
        };
        of_tool.or_else(|| match written("approval") {
            Some(Value::Text(word)) => server::need(word),
            _ => None,
        })
    }

    /// The servers that are switched on, in the order of their names.
    pub fn mcp_servers(&self) -> Vec<ServerSpec> {
        let enabled = self.mcp_configured().into_iter().filter(|server| server.enabled);
        enabled.map(|server| server.spec).collect()
    }

    /// Every server of the configuration, in the order of their names.
    pub fn mcp_configured(&self) -> Vec<ConfiguredServer> {
        self.server_names()
            .into_iter()
            .filter_map(|name| Server { policy: self, name }.configured())
            .collect()
    }

    /// How many bytes the definitions of all tools of servers may take in one list.
    pub fn mcp_schema_budget(&self) -> u64 {
        self.count(server_keys::SCHEMA_BUDGET).unwrap_or_default()
    }

    fn count(&self, key: &str) -> Option<u64> {
        match self.inner.settings.get(key) {
            Some(Value::Count(number)) => Some(*number),
            _ => None,
        }
    }

    fn server_names(&self) -> Vec<&str> {
        let keys = self.inner.settings.all_written();
        let names =
            keys.filter_map(|(key, ..)| Some(key.strip_prefix(server_keys::SERVERS)?.split_once('.')?.0));
        let mut names: Vec<&str> = names.chain(self.inner.settings.servers()).collect();
        // One name may be the beginning of another, whose keys then stand between its own.
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Each server is reached in one way, and gets nothing that would let it change what Helve allows.
    pub(super) fn check_servers(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let mut files = None;
        for name in self.server_names() {
            let server = Server { policy: self, name };
            if let Err(problem) = server.kind() {
                problems.push(problem);
            }
            if let Some((Value::List(names), origin)) = server.written("pass_env")
                && let Some(name) = names.iter().find(|name| name.starts_with("HELVE_"))
            {
                let key = server.key("pass_env");
                problems.push(format!("`{key}` in {origin}: {name} configures Helve itself; take it out"));
            }
            if let Some((Value::List(roots), origin)) = server.written("write") {
                let files = files.get_or_insert_with(|| self.guarded_files());
                let held =
                    roots.iter().find_map(|root| Some((root, guarded::inside(Path::new(root), files)?)));
                if let Some((root, file)) = held {
                    problems.push(format!(
                        "`{}` in {origin}: {root} holds {}, which configures Helve or is a file of `secrets`, of \
                         `approval.hook` or of `hooks`, so the server could change it; name a smaller directory, or keep that file \
                         elsewhere",
                        server.key("write"),
                        file.display()
                    ));
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::all(problems)) }
    }

    /// What servers are given that is a secret: tokens, headers from variables, and variables that are called like one.
    pub(super) fn server_secrets(&self) -> Vec<Secret> {
        let mut secrets = Vec::new();
        for name in self.server_names() {
            let server = Server { policy: self, name };
            let mut add = |name: &str, value: &str| {
                if value.chars().count() >= SECRET_CHARS {
                    secrets.push(Secret { name: name.to_owned(), value: value.to_owned() });
                }
            };
            let from_env = server.names("headers_from_env").into_values();
            let tokens = ["bearer_token_env", "oauth_client_secret_env"];
            let tokens = tokens.iter().filter_map(|key| server.text(key)).map(str::to_owned);
            for variable in from_env.chain(tokens) {
                add(&variable, server.variable(&variable).unwrap_or_default());
            }
            for variable in server.list("pass_env").iter().filter(|name| is_called_a_secret(name)) {
                add(variable, server.variable(variable).unwrap_or_default());
            }
            for key in ["env", "headers"] {
                for (name, value) in server.hidden(key).iter().filter(|(name, _)| is_called_a_secret(name)) {
                    // The word before a token says of which kind it is.
                    add(name, value.split_once(' ').map_or(value.as_str(), |(_, token)| token));
                }
            }
        }
        secrets
    }
}

/// Whether the name of a variable or header says that its value is a secret.
fn is_called_a_secret(name: &str) -> bool {
    const WORDS: &[&str] =
        &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTHORIZATION", "COOKIE"];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// One server among the settings.
struct Server<'p> {
    policy: &'p Policy,
    name: &'p str,
}

/// How a server is reached.
enum Reach<'p> {
    Process(&'p str),
    Address { url: &'p str, sse: bool },
}

impl<'p> Server<'p> {
    fn key(&self, key: &str) -> String {
        format!("{}{}.{key}", server_keys::SERVERS, self.name)
    }

    fn written(&self, key: &str) -> Option<(&'p Value, &'p Origin)> {
        self.policy.inner.settings.written(&self.key(key))
    }

    fn value(&self, key: &str) -> Option<&'p Value> {
        let written = self.written(key).map(|(value, _)| value);
        written.or_else(|| server_keys::default(&self.key(key)))
    }

    fn text(&self, key: &str) -> Option<&'p str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Bool(true)))
    }

    fn list(&self, key: &str) -> &'p [String] {
        match self.value(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    fn hidden(&self, key: &str) -> BTreeMap<String, String> {
        match self.value(key) {
            Some(Value::Hidden(table)) => table.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn names(&self, key: &str) -> BTreeMap<String, String> {
        match self.value(key) {
            Some(Value::Names(table)) => table.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn tools(&self) -> BTreeMap<String, ServerTool> {
        match self.value("tools") {
            Some(Value::ServerTools(tools)) => tools.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn seconds(&self, key: &str, shared: &str) -> Duration {
        let own = match self.value(key) {
            Some(Value::Count(seconds)) => Some(*seconds),
            _ => None,
        };
        Duration::from_secs(own.or_else(|| self.policy.count(shared)).unwrap_or(1))
    }

    fn calls(&self, key: &str) -> Option<u32> {
        match self.value(key) {
            Some(Value::Count(calls)) => u32::try_from(*calls).ok(),
            _ => None,
        }
    }

    /// A variable of Helve's own environment; one that is empty counts as not set.
    fn variable(&self, name: &str) -> Option<&'p str> {
        self.policy.inner.around.get(name)
    }

    /// How it is reached, or what is wrong with that.
    fn kind(&self) -> Result<Reach<'p>, String> {
        let transport = self.text("transport");
        let (command, url) = (self.text("command").filter(|text| !text.is_empty()), self.text("url"));
        let name = format!("{}{}", server_keys::SERVERS, self.name);
        let wrong_keys = |keys: &[&str], why: &str| {
            let found = keys.iter().find_map(|key| Some((self.key(key), self.written(key)?.1)));
            found.map(|(key, origin)| format!("`{key}` in {origin}: {why}; take it out"))
        };
        match (transport, command, url) {
            (_, Some(_), Some(_)) => {
                Err(format!("`{name}` has a `command` and a `url`; keep the one by which it is reached"))
            }
            (None | Some("stdio"), Some(command), None) => {
                match wrong_keys(OF_ADDRESS, "a server with a `command` has no address") {
                    Some(problem) => Err(problem),
                    None => Ok(Reach::Process(command)),
                }
            }
            (None | Some("http" | "sse"), None, Some(url)) => {
                match wrong_keys(OF_PROCESS, "a server with a `url` does not run here") {
                    Some(problem) => Err(problem),
                    None => Ok(Reach::Address { url, sse: transport == Some("sse") }),
                }
            }
            (Some("http" | "sse"), _, None) => {
                Err(format!("`{name}` has no `url`, which the transport needs; write one"))
            }
            (_, None, _) => {
                let what = if transport == Some("stdio") {
                    "no `command`"
                } else {
                    "neither a `command` nor a `url`"
                };
                Err(format!("`{name}` has {what}; write how it is reached"))
            }
            (_, Some(_), None) => {
                Err(format!("`{name}` has a `command`, which runs over \"stdio\"; take `transport` out"))
            }
        }
    }

    fn configured(&self) -> Option<ConfiguredServer> {
        let reach = self.kind().ok()?;
        let mut unset = Vec::new();
        let mut from_environment = |name: &str| {
            let value = self.variable(name).map(str::to_owned);
            if value.is_none() && !unset.iter().any(|known| known == name) {
                unset.push(name.to_owned());
            }
            value
        };
        let (transport, place) = match reach {
            Reach::Process(command) => {
                let passed = self.list("pass_env").iter();
                let mut env: BTreeMap<String, String> =
                    passed.filter_map(|name| Some((name.clone(), from_environment(name)?))).collect();
                env.extend(self.hidden("env"));
                let paths = |key| self.list(key).iter().map(PathBuf::from).collect();
                let stdio = StdioServer {
                    command: command.to_owned(),
                    args: self.list("args").to_vec(),
                    working_dir: self
                        .text("cwd")
                        .filter(|directory| !directory.is_empty())
                        .map(str::to_owned),
                    env,
                    read: paths("read"),
                    write: paths("write"),
                    workspace: match self.text("workspace") {
                        Some("hidden") => WorkspaceUse::Hidden,
                        Some("write") => WorkspaceUse::Write,
                        _ => WorkspaceUse::Read,
                    },
                    network: self.text("network") == Some("host"),
                };
                (Transport::Stdio(stdio), "command")
            }
            Reach::Address { url, sse } => {
                let mut headers = self.hidden("headers");
                let named = self.names("headers_from_env");
                headers.extend(
                    named
                        .iter()
                        .filter_map(|(name, variable)| Some((name.clone(), from_environment(variable)?))),
                );
                let http = HttpServer {
                    url: url.to_owned(),
                    headers,
                    bearer: self.text("bearer_token_env").and_then(&mut from_environment),
                    oauth: self.flag("oauth"),
                    oauth_client: self.oauth_client(&mut from_environment),
                    sse,
                };
                (Transport::Http(http), "url")
            }
        };
        let origin = self.written(place).map(|(_, origin)| origin.clone());
        let origin = origin.unwrap_or(Origin { layer: Layer::BuiltIn, file: None, line: None });
        Some(ConfiguredServer {
            spec: self.spec(transport, &origin),
            enabled: self.flag("enabled"),
            origin,
            unset,
        })
    }

    /// Who Helve is to the authorization server, where the owner says anything about it.
    fn oauth_client(&self, variable: &mut impl FnMut(&str) -> Option<String>) -> Option<OauthClient> {
        let text = |key| self.text(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let client = OauthClient {
            id: text("oauth_client_id"),
            secret: self.text("oauth_client_secret_env").and_then(variable),
            metadata_url: text("oauth_metadata_url"),
            scopes: self.list("oauth_scopes").to_vec(),
        };
        (client != OauthClient::default()).then_some(client)
    }

    fn spec(&self, transport: Transport, origin: &Origin) -> ServerSpec {
        let tools = self.tools();
        let off = tools.iter().filter(|(_, tool)| tool.enabled == Some(false));
        ServerSpec {
            name: self.name.to_owned(),
            transport,
            start_timeout: self.seconds("start_timeout", server_keys::START_TIMEOUT),
            call_timeout: self.seconds("call_timeout", server_keys::CALL_TIMEOUT),
            trusted: self.flag("trusted"),
            parallel: self.flag("parallel"),
            allow: Some(self.list("allow").to_vec()),
            deny: self.list("deny").to_vec(),
            off: off.map(|(name, _)| name.clone()).collect(),
            approval: self.text("approval").and_then(server::need),
            tool_approval: tools
                .iter()
                .filter_map(|(name, tool)| Some((name.clone(), tool.approval?)))
                .collect(),
            rate_limit: self.rate_limit(),
            may: ServerMay {
                sample: self.flag("may_sample"),
                roots: self.flag("may_read_roots"),
                elicit: self.flag("may_elicit"),
            },
            origin: origin.to_string(),
        }
    }

    fn rate_limit(&self) -> Option<RateLimit> {
        let (per_minute, per_hour) = (self.calls("per_minute"), self.calls("per_hour"));
        ToolRule { enabled: true, approval: None, per_minute, per_hour }.rate(None)
    }
}

#[cfg(test)]
mod tests;
