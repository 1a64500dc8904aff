//! The declaration of a tool. One declaration feeds validation, the manual, `helve tools` and every export.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a tool's work happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// In this process, touching nothing.
    Host,
    /// In this process, through the workspace handle.
    Files,
    /// In a sandboxed child process.
    Sandbox,
    /// In a WASM instance.
    Wasm,
    /// In an MCP server.
    Mcp,
}

impl Lane {
    /// The name in the manual and the journal.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Host => "host",
            Lane::Files => "files",
            Lane::Sandbox => "sandbox",
            Lane::Wasm => "wasm",
            Lane::Mcp => "mcp",
        }
    }
}

/// When a person has to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalNeed {
    /// Never.
    Never,
    /// Unless the owner switched auto-approval on for the session, or the sandbox contains the call.
    UnlessAutoApproved,
    /// Each time.
    Always,
}

/// How often one caller may call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Calls in any 60 seconds.
    pub per_minute: u32,
    /// Calls in any 3,600 seconds.
    pub per_hour: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        RateLimit { per_minute: 60, per_hour: 1000 }
    }
}

/// The declaration of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`; at most 64.
    pub name: String,
    /// Other names under which a model may call it.
    pub aliases: Vec<String>,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema 2020-12 of the arguments, with the annotations of [`crate::schema`].
    pub parameters: Value,
    /// JSON Schema of `details`.
    pub output_schema: Option<Value>,
    /// It changes nothing.
    pub read_only: bool,
    /// It runs alone.
    pub exclusive: bool,
    /// It may run beside others; by default `read_only && !exclusive`.
    pub concurrency_safe: Option<bool>,
    /// Where its work happens.
    pub lane: Lane,
    /// When a person has to agree.
    pub approval: ApprovalNeed,
    /// How often a caller may call it; none for read-only tools.
    pub rate_limit: Option<RateLimit>,
    /// After how long the pipeline ends it.
    pub timeout: Option<Duration>,
    /// Top-level parameters whose values never enter the journal.
    pub sensitive: Vec<String>,
    /// Its name for people.
    pub title: Option<String>,
    /// Pictures for people, in the shape of the MCP specification.
    pub icons: Vec<Value>,
    /// Whether it may destroy something; by default where it is not read-only.
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more; by default where it is read-only.
    pub idempotent: Option<bool>,
    /// Whether it reaches beyond this machine; by default in the lanes `mcp` and `wasm`.
    pub open_world: Option<bool>,
    /// The MCP server's tool that it stands for.
    pub origin: Option<ToolOrigin>,
}

/// A tool of an MCP server, by the server's name in the configuration and the tool's name there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolOrigin {
    /// The server.
    pub server: String,
    /// The tool; empty where something else is asked of the server.
    pub tool: String,
    /// What is asked of the server.
    #[serde(default, skip_serializing_if = "ServerAct::is_call")]
    pub act: ServerAct,
}

/// What is asked of an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerAct {
    /// To run a tool with the arguments of the call.
    #[default]
    CallTool,
    /// To give the resource at the address `uri`.
    ReadResource,
    /// To fill the prompt `name` with `arguments`.
    GetPrompt,
}

impl ServerAct {
    /// Whether a tool is run.
    pub fn is_call(&self) -> bool {
        *self == ServerAct::CallTool
    }
}

impl ToolSpec {
    /// A spec with the careful defaults: not read-only, host lane, no approval, the seeds' rate limit.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        ToolSpec {
            name: name.into(),
            aliases: Vec::new(),
            description: description.into(),
            parameters,
            output_schema: None,
            read_only: false,
            exclusive: false,
            concurrency_safe: None,
            lane: Lane::Host,
            approval: ApprovalNeed::Never,
            rate_limit: Some(RateLimit::default()),
            timeout: None,
            sensitive: Vec::new(),
            title: None,
            icons: Vec::new(),
            destructive: None,
            idempotent: None,
            open_world: None,
            origin: None,
        }
    }

    /// Marks it as changing nothing, which also lifts the rate limit.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self.rate_limit = None;
        self
    }

    /// Marks it as running alone.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Adds other names.
    #[must_use]
    pub fn aliases(mut self, aliases: &[&str]) -> Self {
        self.aliases = aliases.iter().map(|a| (*a).to_owned()).collect();
        self
    }

    /// Sets where its work happens.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Sets when a person has to agree.
    #[must_use]
    pub fn approval(mut self, need: ApprovalNeed) -> Self {
        self.approval = need;
        self
    }

    /// Sets how often a caller may call it.
    #[must_use]
    pub fn rate_limit(mut self, limit: Option<RateLimit>) -> Self {
        self.rate_limit = limit;
        self
    }

    /// Sets after how long the pipeline ends it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Names top-level parameters whose values never enter the journal.
    #[must_use]
    pub fn sensitive(mut self, parameters: &[&str]) -> Self {
        self.sensitive = parameters.iter().map(|p| (*p).to_owned()).collect();
        self
    }

    /// Sets the schema of `details`.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Overrides whether it may run beside others.
    #[must_use]
    pub fn concurrency_safe(mut self, safe: bool) -> Self {
        self.concurrency_safe = Some(safe);
        self
    }

    /// Sets its name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Names the MCP server's tool that it stands for, which puts it into the lane `mcp`.
    #[must_use]
    pub fn origin(mut self, server: impl Into<String>, tool: impl Into<String>) -> Self {
        let (server, tool) = (server.into(), tool.into());
        self.origin = Some(ToolOrigin { server, tool, act: ServerAct::CallTool });
        self.lane(Lane::Mcp)
    }

    /// Names the MCP server that it asks for something else than to run a tool, which puts it into the lane `mcp`.
    #[must_use]
    pub fn asks(mut self, server: impl Into<String>, act: ServerAct) -> Self {
        self.origin = Some(ToolOrigin { server: server.into(), tool: String::new(), act });
        self.lane(Lane::Mcp)
    }

    /// Whether it may run beside others.
    pub fn is_concurrency_safe(&self) -> bool {
        self.concurrency_safe.unwrap_or(self.read_only && !self.exclusive)
    }
}
