//! The server face: Helve before an MCP client, over standard streams ([`serve_stdio`]) or HTTP ([`HttpFace`]).
//!
//! What is offered comes from a [`Host`]: the tools of one client, its calls, resources and prompts. Whoever puts the parts
//! together implements it over the pipeline; this module knows the protocol and no more. It speaks both eras: with a
//! handshake and a session, in which a question to the client is a request of our own, and without either, in which a
//! question ends the call and the client comes again with the answer.
//!
//! | module | does |
//! |---|---|
//! | `face` | answers the client's requests |
//! | `listen` | tells the client what has changed |
//! | `exchange` | one running request: progress, questions, log, cancellation |
//! | `rounds` | what is kept between the rounds of a request that asks something |
//! | `running` | how many requests are under way, and the end of all of them |
//! | `shown` | declarations and results as MCP has them |
//! | `stdio`, `http` | the two transports |
//! | `streams` | what the first is made of: `input` and `output`, and calls that are answered `straight`, through the `door` |
//! | `message` | reads everything else, and answers what cannot be read |
//! | `unread` | requests that are none of the protocol's |
//! | `awake` | whether who serves a stream looks again or sleeps |
//! | `aside`, `progress` | what a server logs and asks on behalf of a call that was sent, and how far that is |
//! | `crowd` | many clients at one door |
//!
//! Deliberately not here: who may call what (the pipeline), where a token is kept, what a resource is made of.

#![expect(deprecated, reason = "the older era has logging and sampling, which the newer one only tolerates")]

mod aside;
mod awake;
mod crowd;
mod door;
mod exchange;
mod face;
mod http;
mod input;
mod listen;
mod message;
mod output;
mod progress;
mod rounds;
mod running;
mod shown;
mod stdio;
mod straight;
mod streams;
mod unread;

use std::sync::Arc;
use std::task::Context;

use helve_core::context::ProgressNote;
use helve_core::{
    BoxFuture, Call, CallResult, Cancel, EmbeddedResource, ErrorKind, Peer, ToolError, ToolSpec,
};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, watch};

pub use face::LOCAL;
pub use http::{Gate, HttpFace, HttpOptions, Token};
pub use stdio::{serve_stdio, serve_streams};

/// What a server says of itself.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// What a model should know before it uses the tools.
    pub instructions: Option<String>,
    /// It has prompts.
    pub prompts: bool,
    /// It completes arguments of prompts and of addresses.
    pub completions: bool,
}

/// A call of a tool and the client's side of it.
pub struct HostCall {
    /// The call.
    pub call: Call,
    /// What the client calls itself; empty if it does not say. It can say anything: who it is, its host was made for.
    pub client: String,
    /// The way to the client while it runs.
    pub line: Line,
    /// Whether other calls of the client came together with it.
    pub beside: bool,
}

/// What the work of a request gets of its client.
pub struct Line {
    /// What takes it back.
    pub cancel: Cancel,
    /// Where its progress goes; none if the client did not ask for it.
    pub progress: Option<mpsc::Sender<ProgressNote>>,
    /// The client, for questions.
    pub peer: Arc<dyn Peer>,
}

/// A call that is taken together with others.
pub struct Taken {
    /// The call.
    pub call: Call,
    /// Where its progress goes; none if the client did not ask for it.
    pub progress: Option<mpsc::Sender<ProgressNote>>,
}

/// Takes calls of one client together whose work is done at once, or is sent to somebody.
pub trait AtOnce: Send {
    /// Whether calls of a tool are taken.
    fn takes(&self, tool: &str) -> bool;

    /// Takes calls of such tools as far as they go without waiting. How each of them stands comes in their order.
    fn calls(&mut self, calls: Vec<Taken>) -> Vec<Stand>;

    /// The results of calls that were sent, by their numbers; sends those whose turn has come. Who polls is woken when there may be
    /// more.
    fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)>;

    /// Lets go of calls whose results were given out. Asked when those are on their way, so that nobody waits for it.
    fn settle(&mut self);

    /// Takes a call back that was sent or would have been; it has no result any more.
    fn take_back(&mut self, number: u64);

    /// Whether polling sees every answer as soon as it has come, so that who waits may poll again and again for a moment.
    fn sees(&self) -> bool {
        false
    }

    /// Whoever calls only looks for the next call or answer from here on, until [`rest`](AtOnce::rest): what is needed for that may
    /// be kept at hand, though others wait for it.
    fn stay(&mut self) {}

    /// Gives back what was kept.
    fn rest(&mut self) {}
}

/// How a call stands that went as far as it could without waiting.
pub enum Stand {
    /// It is done.
    Done(Box<CallResult>),
    /// It was sent, or will be when its turn has come; its result comes under this number.
    Sent(u64),
    /// It has to wait, and goes on as soon as it has a way to its client.
    Waits(Box<dyn FnOnce(Line) -> BoxFuture<'static, Box<CallResult>> + Send>),
}

/// What is offered to one client. Everything but tools has a default of nothing.
pub trait Host: Send + Sync {
    /// The declarations of the tools, sorted by name.
    fn tools(&self) -> Vec<Arc<ToolSpec>>;

    /// Counts the changes of the tools.
    fn tools_version(&self) -> watch::Receiver<u64>;

    /// How often the tools have changed: what was changed before this is asked is counted. What [`tools_version`](Host::tools_version)
    /// says may come a little later.
    fn tools_changes(&self) -> u64 {
        *self.tools_version().borrow()
    }

    /// Runs a call to its result. That is boxed, because it is handed on several times.
    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>>;

    /// What takes calls of a client together, by what the client calls itself; none if all are run one by one. Questions that
    /// belong to a call that was sent go to `peer`.
    fn at_once(&self, _client: &str, _peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        None
    }

    /// The resources that can be listed, in the shape of MCP.
    fn resources(&self) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The patterns of resources, in the shape of MCP.
    fn resource_templates(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(async { Vec::new() })
    }

    /// Count the changes of what resources there are; none if nobody is told.
    fn resources_versions(&self) -> Vec<watch::Receiver<u64>> {
        Vec::new()
    }

    /// The content of a resource, for a client that calls itself so; `not_found` if there is none at this address.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        _client: String,
        _line: Line,
    ) -> BoxFuture<'a, Result<Vec<EmbeddedResource>, ToolError>> {
        Box::pin(async move { Err(no_such("resource", uri)) })
    }

    /// The addresses of resources whose content has changed, as that happens; none if nobody is told.
    fn updates(&self) -> Option<broadcast::Receiver<String>> {
        None
    }

    /// The prompts, in the shape of MCP.
    fn prompts(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(async { Vec::new() })
    }

    /// Counts the changes of the prompts; none if they never change.
    fn prompts_version(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// A prompt, in the shape of MCP, for a client that calls itself so; `not_found` if there is none of this name.
    fn prompt<'a>(
        &'a self,
        name: &'a str,
        _args: Value,
        _client: String,
        _line: Line,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { Err(no_such("prompt", name)) })
    }

    /// Values for an argument: the parameters and the result of `completion/complete`.
    fn complete(&self, _params: Value) -> BoxFuture<'_, Result<Value, ToolError>> {
        Box::pin(async { Ok(serde_json::json!({"completion": {"values": []}})) })
    }
}

/// Gives each client its host.
pub trait Hosts: Send + Sync {
    /// What the server says of itself.
    fn card(&self) -> Card;

    /// A host for one session of a client, which ends with it. The client's name is that of its token, or `local` where none is
    /// asked for, as on standard streams; it does not choose it.
    fn session(&self, client: &str) -> Result<Arc<dyn Host>, ToolError>;

    /// The host for what a client asks without a session: the same one each time.
    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError>;
}

fn no_such(what: &str, name: &str) -> ToolError {
    let name: String = name.chars().take(200).collect();
    ToolError::new(ErrorKind::NotFound, format!("There is no {what} '{name}'."))
}
