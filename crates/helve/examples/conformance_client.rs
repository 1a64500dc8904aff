//! The client lane before the MCP conformance suite, which starts this program with the address of a server.
//!
//! `conformance client --command PROGRAM --requirements VERSION` says in the environment what is to be done. Every call goes
//! through the pipeline of a runtime, as any call of a tool of an MCP server does. Who signs in and who answers questions is
//! played here.

#![allow(clippy::print_stderr, reason = "a program for tests; the suite shows what it says")]

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve::mcp::client::{Owner, Pin, PinStore, ServerLog, TokenStore, shown_name};
use helve::mcp::lane::{Gateway, Keep, fleet_of};
use helve::{Call, Policy, Runtime};
use helve_core::servers::{HttpServer, OauthClient, ServerMay, Transport};
use helve_core::{
    ApprovalNeed, BoxFuture, LogLevel, Peer, QuestionKind, RateLimit, ServerSpec, Servers, ToolError,
    ToolSpec,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NAME: &str = "conformance";
/// The suite starts one of these for each scenario, all at once: on a small machine that takes its time.
const PATIENCE: Duration = Duration::from_secs(50);
/// A document that describes this client; the suite knows its address and does not fetch it.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// Keeps everything for the length of one scenario.
#[derive(Default)]
struct Memory {
    pins: Mutex<HashMap<String, Vec<Pin>>>,
    tokens: Mutex<HashMap<String, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PinStore for Memory {
    fn pins(&self, server: &str) -> Result<Option<Vec<Pin>>, ToolError> {
        Ok(lock(&self.pins).get(server).cloned())
    }

    fn pin(&self, server: &str, pins: Vec<Pin>) -> Result<(), ToolError> {
        lock(&self.pins).entry(server.to_owned()).or_default().extend(pins);
        Ok(())
    }
}

impl TokenStore for Memory {
    fn get(&self, key: &str) -> Result<Option<String>, ToolError> {
        Ok(lock(&self.tokens).get(key).cloned())
    }

    fn set(&self, key: &str, value: &str) -> Result<(), ToolError> {
        lock(&self.tokens).insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), ToolError> {
        lock(&self.tokens).remove(key);
        Ok(())
    }
}

/// Says what happens on standard error.
struct Loud;

impl ServerLog for Loud {
    fn stderr(&self, _server: &str, _bytes: &[u8]) {}

    fn event(&self, server: &str, kind: &'static str, text: &str) {
        eprintln!("{server}: {kind}: {text}");
    }
}

/// A browser that agrees to everything.
struct Browser;

impl Owner for Browser {
    fn open(&self, _server: &str, url: &str) {
        let url = url.to_owned();
        tokio::spawn(async move {
            match get(&url).await {
                Ok(Some(back)) => {
                    if let Err(error) = get(&back).await {
                        eprintln!("the way back: {error}");
                    }
                }
                Ok(None) => eprintln!("{url} leads nowhere"),
                Err(error) => eprintln!("{url}: {error}"),
            }
        });
    }
}

/// Asks for an address of this machine; gives where it leads on to.
async fn get(url: &str) -> std::io::Result<Option<String>> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let location = answer.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    Ok(location)
}

/// Accepts every form with its defaults, and says something for a model.
struct Anybody;

impl Peer for Anybody {
    fn takes(&self, _kind: QuestionKind) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        _key: &'a str,
        kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        let answer = match kind {
            QuestionKind::Form => json!({"action": "accept", "content": filled(&params["requestedSchema"])}),
            QuestionKind::Url => json!({"action": "accept"}),
            QuestionKind::Roots => json!({"roots": []}),
            QuestionKind::Sample => json!({"role": "assistant", "model": "none", "stopReason": "endTurn",
                "content": {"type": "text", "text": "This is an answer."}}),
        };
        Box::pin(async move { Ok(answer) })
    }

    fn log(&self, _level: LogLevel, _logger: Option<&str>, _data: Value) {}
}

/// A form with its defaults, and with anything where it has none and needs one.
fn filled(schema: &Value) -> Value {
    let needs =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    let mut form = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        match property.get("default") {
            Some(default) => {
                form.insert(name.clone(), default.clone());
            }
            None if needs(name) => {
                form.insert(name.clone(), anything(property));
            }
            None => {}
        }
    }
    Value::Object(form)
}

fn anything(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number") => json!(1.5),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    }
}

fn server(url: &str, context: &Value) -> ServerSpec {
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    ServerSpec {
        name: NAME.to_owned(),
        transport: Transport::Http(HttpServer {
            url: url.to_owned(),
            headers: BTreeMap::new(),
            bearer: None,
            oauth: true,
            oauth_client: Some(OauthClient {
                id: text("client_id"),
                secret: text("client_secret"),
                metadata_url: Some(METADATA.to_owned()),
                scopes: Vec::new(),
            }),
            sse: false,
        }),
        start_timeout: PATIENCE,
        call_timeout: PATIENCE,
        trusted: true,
        parallel: false,
        allow: None,
        deny: Vec::new(),
        off: Default::default(),
        approval: Some(ApprovalNeed::Never),
        tool_approval: BTreeMap::new(),
        rate_limit: Some(RateLimit { per_minute: 1000, per_hour: 1000 }),
        may: ServerMay { sample: true, roots: true, elicit: true },
        origin: "the suite".to_owned(),
    }
}

/// The calls that the scenario names, or one of each tool.
fn calls(runtime: &Runtime, context: &Value) -> Vec<Call> {
    if let Some(named) = context["toolCalls"].as_array() {
        let named = named.iter().filter_map(|one| {
            let args = one.get("arguments").cloned().unwrap_or_else(|| json!({}));
            Some(Call::new(shown_name(NAME, one["name"].as_str()?), args))
        });
        return named.collect();
    }
    // One scenario looks at what is left of a schema: it is sent back as it came through.
    let schema = |name: &str| {
        let spec = runtime.specs().find(|spec| spec.name == shown_name(NAME, name));
        spec.map(|spec| spec.parameters.clone())
    };
    let echo = shown_name(NAME, "json_schema_echo");
    let args = |spec: &ToolSpec| match schema("json_schema_2020_12_tool") {
        Some(seen) if spec.name == echo => json!({ "schema": seen }),
        _ => filled(&spec.parameters),
    };
    // What reads a resource or fills in a prompt is a tool of the runtime, and none of the server's.
    let is_tool = |spec: &Arc<ToolSpec>| spec.origin.as_ref().is_none_or(|origin| origin.act.is_call());
    runtime.specs().filter(is_tool).map(|spec| Call::new(spec.name.clone(), args(&spec))).collect()
}

async fn run(url: &str, context: &Value) -> Result<(), String> {
    let state = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (workspace, home) = (state.path().join("workspace"), state.path().join("home"));
    std::fs::create_dir(&workspace).map_err(|error| error.to_string())?;
    let policy = Policy::builtin();
    let memory = Arc::new(Memory::default());
    let keep = Keep {
        pins: Arc::clone(&memory) as Arc<dyn PinStore>,
        tokens: Arc::clone(&memory) as Arc<dyn TokenStore>,
        log: Arc::new(Loud),
        owner: Some(Arc::new(Browser)),
    };
    let fleet = fleet_of(vec![server(url, context)], &policy, &workspace, &home, keep);
    let runtime = Runtime::builder()
        .policy(policy)
        .workspace(&workspace)
        .home(&home)
        .servers(Arc::clone(&fleet) as Arc<dyn Servers>)
        .peer(Arc::new(Anybody))
        .build()
        .map_err(|error| error.to_string())?;
    let look = fleet.look(NAME).await.map_err(|error| error.message)?;
    eprintln!("{} tools, protocol {}", look.tools.len(), look.version);
    let _gateway = Gateway::new(&fleet, &runtime, usize::MAX);
    for kept_out in runtime.quarantined() {
        eprintln!("kept out: {kept_out:?}");
    }
    let mut failed = None;
    for call in calls(&runtime, context) {
        let tool = call.tool.clone();
        let result = runtime.call(call).await;
        eprintln!("{tool}: {:?}", result.error.as_ref().map_or("ok", |error| &error.message));
        failed = failed.or(result.error.map(|error| error.message));
    }
    // The last messages go out before the program ends.
    fleet.stop();
    tokio::time::sleep(Duration::from_millis(300)).await;
    failed.map_or(Ok(()), Err)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: conformance_client URL");
        return ExitCode::from(2);
    };
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let done = tokio::time::timeout(2 * PATIENCE, run(&url, &context)).await;
    match done.unwrap_or_else(|_| Err("the time is up".to_owned())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
