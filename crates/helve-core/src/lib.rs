//! The contract of Helve: what a tool is, what a call and its result look like, and which lanes a tool may use.
//!
//! Everything above this crate speaks in these words; everything in it is data or a trait. It knows no
//! configuration, opens no file and starts no process.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tool`], [`spec`], [`mod@typed`] | the [`Tool`] trait, its [`ToolSpec`], and typed arguments |
//! | [`call`], [`output`], [`error`] | a call, what a tool gives back, the closed set of errors |
//! | [`context`], [`cancel`] | what a running tool can reach; taking a call back |
//! | [`lane`], [`files`] | the traits behind those handles: shell, egress, blobs; the bridge to a file system |
//! | [`view`], [`verdict`], [`access`] | data that policy, sandbox and runtime share |
//! | [`protected`], [`deny_read`] | names of files that run or configure programs without being asked; patterns of files that nobody reads |
//! | [`denied`], [`explained`] | what a sandbox refused while a command ran; the same in words, with the rule and the grant |
//! | [`text`], [`harmless`] | bounded text with an exact count of the rest; text that can do nothing to a terminal |
//! | [`limits`] | every limit with its default and what happens at it |
//! | [`json_text`] | JSON written by hand, as serde would write it |
//! | [`strict_json`] | JSON from outside: no duplicate keys, no lost digits, bounded depth |
//! | [`schema`], [`export`] | schema annotations, and specs in the shapes that model APIs want |
//! | [`servers`], [`peer`] | MCP servers behind Helve; the program at the other end of a call |
//! | [`dialect`] | tools under the names and parameters of other agents |
//!
//! Deliberately not here: how a permit is given and how a tool is run. That is `helve-runtime`, and it is private there.

pub mod access;
pub mod call;
pub mod cancel;
pub mod context;
pub mod denied;
pub mod deny_read;
pub mod dialect;
pub mod error;
pub mod explained;
pub mod export;
pub mod files;
pub mod harmless;
#[doc(hidden)]
pub mod json_text;
pub mod lane;
pub mod limits;
pub mod output;
pub mod peer;
pub mod protected;
pub mod schema;
pub mod servers;
pub mod spec;
pub mod strict_json;
pub mod text;
pub mod tool;
pub mod typed;
pub mod verdict;
pub mod view;

pub use access::{Access, CommandUse, Resource};
pub use call::{Args, Call, CallId, CallResult, SandboxReport, SharedReport, WireError};
pub use cancel::{Cancel, CancelHandle};
pub use context::{Context, Progress};
pub use denied::{Act, CallGroup, Cause, Denied, Explain};
pub use deny_read::DenyRead;
pub use dialect::{Dialect, DialectTool};
pub use error::{ErrorKind, Problem, ToolError};
pub use explained::Explained;
pub use files::{Files, FilesBridge, FilesPlace, FilesScope, PathRules};
pub use lane::{
    Attach, BlobRef, Blobs, BoxFuture, Egress, Ended, Exit, FilesHelper, Layer, LayerEntry, LayerLinks,
    LayerOutcome, LayerPart, LayerReport, LimitHit, OutputSink, Removed, Shell, ShellBackend, ShellJob,
    ShellOutput, ShellRequest, Stream, TakenOut, Work,
};
pub use limits::Limits;
pub use output::{About, Content, Cost, EmbeddedResource, Output, ResourceLink, Truncated};
pub use peer::{LogLevel, Peer, QuestionKind};
pub use servers::{SentCall, ServerCall, ServerReply, ServerSpec, Servers};
pub use spec::{ApprovalNeed, Lane, RateLimit, ServerAct, ToolOrigin, ToolSpec};
pub use text::Capture;
pub use tool::{InstantTool, RelayTool, Tool};
pub use typed::{TypedInstantTool, TypedTool, instant, typed};
pub use verdict::{Decision, Verdict};
pub use view::{ContainerChoice, ContainerEngine, Network, ProcessLimits, SandboxChoice, View};
