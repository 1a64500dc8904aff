//! MCP servers behind Helve: what the owner configures of one, and the handle through which a tool of one is called.
//!
//! The policy emits [`ServerSpec`], the client lane (`helve-mcp`) carries it out, and the runtime gives a running tool of the lane
//! `mcp` a [`Servers`] that reaches the one tool that the permit is for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;

use crate::call::SharedReport;
use crate::cancel::Cancel;
use crate::context::Progress;
use crate::error::ToolError;
use crate::lane::BoxFuture;
use crate::output::Content;
use crate::peer::Peer;
use crate::spec::{ApprovalNeed, RateLimit, ServerAct};

/// A server as the owner configured it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its name in the configuration: letters, digits, `_` and `-`.
    pub name: String,
    /// Where it is.
    pub transport: Transport,
    /// After how long a start or a connection is given up.
    pub start_timeout: Duration,
    /// After how long a call is given up.
    pub call_timeout: Duration,
    /// The owner vouches for what it says of itself: only then does `readOnlyHint` count.
    pub trusted: bool,
    /// Its calls may run beside each other, also those that may change something.
    pub parallel: bool,
    /// The tools that are offered, as globs of the server's own names: none if there is no glob, all if absent.
    pub allow: Option<Vec<String>>,
    /// The tools that are not, whatever `allow` says.
    pub deny: Vec<String>,
    /// The tools that are switched off, by the server's own names.
    pub off: BTreeSet<String>,
    /// When a person has to agree to a call; by what the tool says of itself if absent.
    pub approval: Option<ApprovalNeed>,
    /// The same for single tools, by the server's own names.
    pub tool_approval: BTreeMap<String, ApprovalNeed>,
    /// How often its tools may be called.
    pub rate_limit: Option<RateLimit>,
    /// What it may ask of this end.
    pub may: ServerMay,
    /// Where it was configured, for error messages.
    pub origin: String,
}

/// What a server may ask of this end. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerMay {
    /// Words of the model of whoever calls.
    pub sample: bool,
    /// The workspace as a root.
    pub roots: bool,
    /// A question to the person.
    pub elicit: bool,
}

/// Where a server is and how it is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A process in the sandbox that speaks on its standard streams.
    Stdio(StdioServer),
    /// An address that speaks Streamable HTTP, or the older HTTP with SSE.
    Http(HttpServer),
}

/// A process in the sandbox.
#[derive(Clone, PartialEq)]
pub struct StdioServer {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it starts; the workspace if absent.
    pub working_dir: Option<String>,
    /// Variables beside the clean environment of the sandbox.
    pub env: BTreeMap<String, String>,
    /// Directories that it may read beside what a command sees.
    pub read: Vec<PathBuf>,
    /// Directories that it may change beside the workspace.
    pub write: Vec<PathBuf>,
    /// Whether it may change the workspace.
    pub workspace: WorkspaceUse,
    /// Whether it has the machine's network; none otherwise.
    pub network: bool,
}

impl fmt::Debug for StdioServer {
    /// Names the variables and leaves out their values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("working_dir", &self.working_dir)
            .field("env", &self.env.keys())
            .field("read", &self.read)
            .field("write", &self.write)
            .field("workspace", &self.workspace)
            .field("network", &self.network)
            .finish()
    }
}

/// What a server may do with the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceUse {
    /// It does not see it.
    Hidden,
    /// It reads it.
    #[default]
    Read,
    /// It changes it, as a command may.
    Write,
}

/// An address.
#[derive(Clone, PartialEq)]
pub struct HttpServer {
    /// Its address, `https:` or, to this machine, `http:`.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A bearer token of the owner's.
    pub bearer: Option<String>,
    /// Whether the owner may be sent through OAuth where the server asks for it.
    pub oauth: bool,
    /// Who this end is to the server's authorization server; it registers by itself if absent.
    pub oauth_client: Option<OauthClient>,
    /// The older transport with two addresses.
    pub sse: bool,
}

impl fmt::Debug for HttpServer {
    /// Names the headers and leaves out their values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("url", &self.url)
            .field("headers", &self.headers.keys())
            .field("bearer", &self.bearer.is_some())
            .field("oauth", &self.oauth)
            .field("oauth_client", &self.oauth_client)
            .field("sse", &self.sse)
            .finish()
    }
}

/// A client of an authorization server, as the owner got it from there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OauthClient {
    /// Its id.
    pub id: Option<String>,
    /// Its secret, if it has one.
    pub secret: Option<String>,
    /// The address of a document that describes it, for authorization servers that read those.
    pub metadata_url: Option<String>,
    /// What is asked for; what the server says it needs if empty.
    pub scopes: Vec<String>,
}

impl fmt::Debug for OauthClient {
    /// Leaves out the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthClient")
            .field("id", &self.id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// One call of a server's tool, or something else that is asked of it.
#[derive(Clone)]
pub struct ServerCall {
    /// The server's name in the configuration.
    pub server: String,
    /// What is asked.
    pub act: ServerAct,
    /// The tool's name at the server; empty where none is called.
    pub tool: String,
    /// Valid arguments.
    pub args: Value,
    /// Where its progress goes.
    pub progress: Progress,
    /// What takes it back.
    pub cancel: Cancel,
    /// The other end of the call, for questions that the owner lets the server ask.
    pub peer: Option<Arc<dyn Peer>>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerReply {
    /// Blocks for the model.
    pub content: Vec<Content>,
    /// `structuredContent`, if there was any.
    pub structured: Option<Value>,
    /// The server says that the call failed.
    pub is_error: bool,
    /// The sandbox that the server runs in; none for an address.
    pub sandbox: Option<SharedReport>,
}

/// Reaches servers. The runtime wraps what is plugged in, so that a tool reaches what its permit names and nothing else.
pub trait Servers: Send + Sync {
    /// Calls a tool of a server, which is started or connected if it is not yet.
    fn call(&self, call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>>;

    /// The same for who does not wait: where nothing has to be waited for first, the call is on its way as soon as its reply is first
    /// polled for. What is sent before that goes out together.
    fn send(self: Arc<Self>, call: ServerCall) -> Box<dyn SentCall>
    where
        Self: 'static,
    {
        called(Box::pin(async move { self.call(call).await }))
    }

    /// Why there is no tool that a model sees under this name, where that has to do with a server: it is off, or its server is
    /// not there. Starts nothing.
    fn missing(&self, _shown: &str) -> Option<ToolError> {
        None
    }
}

/// A call that was sent to a server. Dropped, it is taken back.
pub trait SentCall: Send {
    /// The answer, or that its time is up.
    fn poll_reply(&mut self, poller: &mut Context<'_>) -> Poll<Result<ServerReply, ToolError>>;

    /// How much of its time is left, where nothing wakes who waits for it when that is up: it has to be polled again then.
    fn left(&self) -> Option<Duration>;

    /// Whether who polls sees the answer as soon as it has come, without anybody else's doing: who waits may then poll again and
    /// again for a moment.
    fn is_seen(&self) -> bool {
        false
    }
}

/// A call that looks after its time itself.
pub fn called(call: BoxFuture<'static, Result<ServerReply, ToolError>>) -> Box<dyn SentCall> {
    Box::new(Called(call))
}

struct Called(BoxFuture<'static, Result<ServerReply, ToolError>>);

impl SentCall for Called {
    fn poll_reply(&mut self, poller: &mut Context<'_>) -> Poll<Result<ServerReply, ToolError>> {
        self.0.as_mut().poll(poller)
    }

    fn left(&self) -> Option<Duration> {
        None
    }
}
