//! What a server has besides tools: resources and prompts, as a client behind Helve is shown them.
//!
//! Their addresses and names say which server they are of, so that no server can step into the place of another. They are not
//! read here: a client that wants one makes a call, of a tool that asks the server for it, and that takes the way of every call.

use helve_core::harmless::is_harmless;
use helve_core::{
    Content, EmbeddedResource, ServerAct, ServerCall, ServerReply, ServerSpec, SharedReport, ToolSpec,
};
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use serde_json::{Map, Value, json};

use super::definition::{self, Hints};
use super::failure::words;
use super::fleet::Hide;
use super::names;

/// How the addresses of servers' resources begin.
const ADDRESS: &str = "helve://mcp/";
/// So long may an address be, and so many arguments may a prompt have.
const MOST_BYTES: usize = 2_000;
const MOST_ARGUMENTS: usize = 64;

/// A list of a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Its tools.
    Tools,
    /// Its resources.
    Resources,
    /// Patterns of addresses of its resources.
    Templates,
    /// Its prompts.
    Prompts,
}

impl Listed {
    pub(super) fn request(self, params: PaginatedRequestParams) -> ClientRequest {
        match self {
            Listed::Tools => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
            Listed::Resources => {
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params))
            }
            Listed::Templates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
            }
            Listed::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Listed::Tools => "tools/list",
            Listed::Resources => "resources/list",
            Listed::Templates => "resources/templates/list",
            Listed::Prompts => "prompts/list",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Listed::Tools => "tools",
            Listed::Resources => "resources",
            Listed::Templates => "resourceTemplates",
            Listed::Prompts => "prompts",
        }
    }

    pub(super) fn to_do(self) -> &'static str {
        match self {
            Listed::Tools => "list its tools",
            Listed::Resources => "list its resources",
            Listed::Templates => "list the patterns of its resources",
            Listed::Prompts => "list its prompts",
        }
    }
}

/// What is asked of a server besides its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Resource,
    Prompt,
}

/// The request of a call that runs no tool.
pub(super) fn request(call: &ServerCall) -> Option<(ClientRequest, Asked)> {
    let word = |key: &str| call.args.get(key).and_then(Value::as_str).unwrap_or_default();
    match call.act {
        ServerAct::CallTool => None,
        ServerAct::ReadResource => {
            let params = ReadResourceRequestParams::new(word("uri"));
            Some((ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params)), Asked::Resource))
        }
        ServerAct::GetPrompt => {
            let mut params = GetPromptRequestParams::new(word("name"));
            params.arguments = call.args.get("arguments").and_then(Value::as_object).cloned();
            Some((ClientRequest::GetPromptRequest(GetPromptRequest::new(params)), Asked::Prompt))
        }
    }
}

/// What a call asks for, in words.
pub(super) fn asked_for(call: &ServerCall) -> String {
    let word = |key: &str| words(call.args.get(key).and_then(Value::as_str).unwrap_or_default());
    match call.act {
        ServerAct::CallTool => quoted(&call.tool),
        ServerAct::ReadResource => format!("the resource '{}'", word("uri")),
        ServerAct::GetPrompt => format!("the prompt '{}'", word("name")),
    }
}

/// A name in an error.
pub(super) fn quoted(name: &str) -> String {
    format!("'{name}'")
}

/// What the server answered; none if that is no answer.
pub(super) fn reply(
    asked: Asked,
    answer: ServerResult,
    sandbox: Option<SharedReport>,
) -> Option<ServerReply> {
    let mut answer = match answer {
        ServerResult::CustomResult(answer) => answer.0,
        other => serde_json::to_value(other).ok()?,
    };
    let plain = |content, structured| Some(ServerReply { content, structured, is_error: false, sandbox });
    match asked {
        Asked::Resource => {
            let contents: Vec<EmbeddedResource> =
                serde_json::from_value(answer.get_mut("contents")?.take()).ok()?;
            let block = |resource| Content::Resource { resource, about: None };
            plain(contents.into_iter().map(block).collect(), None)
        }
        Asked::Prompt => {
            let messages = answer.get_mut("messages")?.take();
            let count = messages.as_array()?.len();
            let mut prompt = Map::new();
            if let Some(about) = answer.get("description").and_then(Value::as_str) {
                prompt.insert("description".to_owned(), json!(definition::cleaned(about)));
            }
            prompt.insert("messages".to_owned(), messages);
            plain(vec![Content::text(format!("{count} messages"))], Some(Value::Object(prompt)))
        }
    }
}

/// One item of a list, as a client is shown it, and the server's own name of it; none if it cannot be.
pub(super) fn shown(server: &str, what: Listed, raw: &Value) -> Option<(Value, String)> {
    let word = |key: &str| raw.get(key).and_then(Value::as_str);
    let fits = |word: &&str| !word.is_empty() && word.len() <= MOST_BYTES && word.chars().all(is_harmless);
    let mut item = Map::new();
    for key in ["name", "title", "mimeType"] {
        if let Some(word) = word(key) {
            item.insert(key.to_owned(), json!(definition::cleaned(word)));
        }
    }
    let about = word("description").map(definition::cleaned).unwrap_or_default();
    item.insert(
        "description".to_owned(),
        json!(format!("[Of the MCP server '{server}', in its words.] {about}")),
    );
    let own = match what {
        Listed::Tools => return None,
        Listed::Resources | Listed::Templates => {
            let key = if what == Listed::Resources { "uri" } else { "uriTemplate" };
            let own = word(key).filter(fits)?;
            item.insert(key.to_owned(), json!(address(server, own)));
            if let Some(size) = raw.get("size").and_then(Value::as_u64) {
                item.insert("size".to_owned(), json!(size));
            }
            item.entry("name").or_insert_with(|| json!(own));
            own
        }
        Listed::Prompts => {
            let own = word("name").filter(|name| names::fault(name).is_none())?;
            item.insert("name".to_owned(), json!(names::shown_name(server, own)));
            let arguments = raw.get("arguments").and_then(Value::as_array).into_iter().flatten();
            let argument = |raw: &Value| {
                let name = raw.get("name").and_then(Value::as_str).filter(fits)?;
                let about = raw.get("description").and_then(Value::as_str).map(definition::cleaned);
                let required = raw.get("required").and_then(Value::as_bool).unwrap_or(false);
                Some(json!({"name": name, "description": about.unwrap_or_default(), "required": required}))
            };
            let arguments: Vec<Value> = arguments.take(MOST_ARGUMENTS).filter_map(argument).collect();
            item.insert("arguments".to_owned(), Value::Array(arguments));
            own
        }
    };
    let own = own.to_owned();
    Some((Value::Object(item), own))
}

/// The same without what is hidden, where that leaves the server's own name of it.
pub(super) fn shown_hiding(server: &str, what: Listed, raw: &Value, hide: &Hide) -> Option<(Value, String)> {
    let mut seen = raw.clone();
    hide(&mut seen);
    let (item, own) = shown(server, what, &seen)?;
    (own == shown(server, what, raw)?.1).then_some((item, own))
}

/// The address under which a client reads a server's resource.
fn address(server: &str, uri: &str) -> String {
    format!("{ADDRESS}{server}/{uri}")
}

/// The server and its own address of a resource, of an address that [`Listed::Resources`] gave; none if it is another's.
pub fn of_address(address: &str) -> Option<(&str, &str)> {
    let (server, uri) = address.strip_prefix(ADDRESS)?.split_once('/')?;
    (!uri.is_empty() && uri.len() <= MOST_BYTES).then_some((server, uri))
}

/// The name of the tool that asks a server for something else than a tool's work. It begins like no tool of a server's.
pub fn asking_name(server: &str, act: ServerAct) -> String {
    let what = match act {
        ServerAct::CallTool => "call",
        ServerAct::ReadResource => "read",
        ServerAct::GetPrompt => "prompt",
    };
    names::fitted(&format!("mcp_{what}__{server}"))
}

/// The declaration of such a tool.
pub(super) fn asking_spec(server: &ServerSpec, act: ServerAct, contained: bool) -> ToolSpec {
    let name = &server.name;
    let (description, parameters) = match act {
        ServerAct::GetPrompt => (
            format!("Fill in a prompt of the MCP server '{name}'."),
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "description": "The server's name of the prompt."},
                "arguments": {"type": "object", "properties": {}, "description": "What it is filled with."}}}),
        ),
        _ => (
            format!("Read a resource of the MCP server '{name}'."),
            json!({"type": "object", "required": ["uri"], "properties": {
                "uri": {"type": "string", "maxLength": MOST_BYTES, "description": "The server's address of the resource."}}}),
        ),
    };
    let mut spec = ToolSpec::new(asking_name(name, act), description, parameters)
        .asks(name, act)
        .approval(Hints::default().approval(server, contained));
    if server.trusted {
        spec = spec.read_only();
    }
    spec.rate_limit = server.rate_limit.or(spec.rate_limit);
    spec.concurrency_safe = server.parallel.then_some(true);
    spec.timeout = Some(definition::patience(server));
    spec
}

#[cfg(test)]
mod tests {
    use super::super::fake::spec;
    use super::*;
    use pretty_assertions::assert_eq;

    /// They wait for their turn as calls of the server's tools do.
    #[test]
    fn what_is_asked_of_a_server_runs_beside_its_calls_where_the_owner_says_so() {
        for (trusted, parallel) in [(false, false), (false, true), (true, false)] {
            let server = ServerSpec { trusted, parallel, ..spec("s") };
            let asks = asking_spec(&server, ServerAct::ReadResource, true);
            assert_eq!(asks.is_concurrency_safe(), trusted || parallel);
        }
    }

    #[test]
    fn addresses_go_there_and_back() {
        for uri in ["demo://a/b?c=d#e", "file:///x/../y", "x"] {
            assert_eq!(of_address(&address("s", uri)), Some(("s", uri)));
        }
        for other in ["helve://mcp/s/", "helve://mcp/s", "helve://journal", "file:///etc/passwd"] {
            assert_eq!(of_address(other), None);
        }
    }

    #[test]
    fn what_is_shown_names_its_server_and_hides_nothing() {
        let raw = json!({"uri": "demo://x", "name": "a\u{202e}b", "description": "d", "size": 3, "_meta": {"x": 1}});
        assert_eq!(
            shown("s", Listed::Resources, &raw).unwrap().0,
            json!({"uri": "helve://mcp/s/demo://x", "name": "a\\u{202e}b", "size": 3,
                "description": "[Of the MCP server 's', in its words.] d"})
        );
        let prompt = json!({"name": "greet", "arguments": [{"name": "who", "required": true}, {"name": ""}]});
        let (prompt, own) = shown("s", Listed::Prompts, &prompt).unwrap();
        assert_eq!((&prompt["name"], own.as_str()), (&json!("mcp__s__greet"), "greet"));
        assert_eq!(prompt["arguments"], json!([{"name": "who", "description": "", "required": true}]));
        for bad in
            [json!({"uri": ""}), json!({"uri": "a\u{200b}"}), json!({"uri": "x".repeat(3000)}), json!(7)]
        {
            assert_eq!(shown("s", Listed::Resources, &bad), None);
        }
        assert_eq!(shown("s", Listed::Prompts, &json!({"name": "gr\u{0435}et"})), None);
    }

    #[test]
    fn names_of_asking_tools_are_nobody_elses_and_fit() {
        let long = "s".repeat(80);
        for act in [ServerAct::ReadResource, ServerAct::GetPrompt] {
            assert!(!asking_name("s", act).starts_with("mcp__"));
            assert!(asking_name(&long, act).len() <= 64);
        }
        assert_ne!(
            asking_name(&long, ServerAct::GetPrompt),
            asking_name(&format!("{long}t"), ServerAct::GetPrompt)
        );
    }
}
