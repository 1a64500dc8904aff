//! Helve as a library: one place to import from.
//!
//! A model decides; Helve acts: it takes a tool call, validates it, decides whether it may happen, runs it in a sandbox
//! that holds, gives back what the model should see, and keeps a record that can be verified.
//!
//! ```no_run
//! use helve::{Call, Policy, Runtime};
//! use serde_json::json;
//!
//! # async fn run() -> Result<(), helve::BuildError> {
//! let builder = Runtime::builder().policy(Policy::builtin()).workspace("project");
//! let builder = helve::register_builtin_tools(builder);
//! let builder = helve::register_file_tools(builder);
//! let runtime = helve::register_container_tools(builder).build()?;
//! let result = runtime.call(Call::new("exec", json!({"command": "ls"}))).await;
//! println!("{}", result.text());
//! # Ok(())
//! # }
//! ```
//!
//! A tool of your own is a struct with arguments that derive `Deserialize` and `JsonSchema`; see [`TypedTool`]. It is
//! run by the pipeline only: a [`Context`] cannot be made outside of it, and the runtime hands out specs, never tools.

mod manual;
pub mod mcp;
pub mod sandbox;

pub use helve_core::context::ProgressNote;
pub use helve_core::dialect::Parameter;
pub use helve_core::files;
pub use helve_core::lane::{EgressRequest, EgressResponse};
pub use helve_core::limits;
pub use helve_core::strict_json;
pub use helve_core::text::Capture;
pub use helve_core::typed::schema_of;
pub use helve_core::{
    About, Access, ApprovalNeed, Args, BlobRef, BoxFuture, Call, CallId, CallResult, Cancel, CancelHandle,
    CommandUse, Content, Context, Cost, Decision, Dialect, DialectTool, Egress, EmbeddedResource, ErrorKind,
    Exit, Files, FilesBridge, FilesPlace, FilesScope, InstantTool, Lane, Limits, LogLevel, Output,
    OutputSink, Peer, Problem, Progress, QuestionKind, RateLimit, RelayTool, Resource, ResourceLink,
    SandboxReport, SentCall, ServerCall, ServerReply, ServerSpec, Servers, SharedReport, Shell, ShellBackend,
    ShellJob, ShellOutput, ShellRequest, Stream, Tool, ToolError, ToolOrigin, ToolSpec, Truncated,
    TypedInstantTool, TypedTool, Verdict, WireError, instant, typed,
};
pub use helve_policy::{
    AgentSettings, ApprovalLength, CaseOutcome, Change, ConfigError, ConfiguredServer, ExecMode, Hook,
    HookEvent, Judgement, Layer, ModelPrice, ModelSettings, Observation, Origin, PartDecision, Policy,
    PolicyCase, ProposedRule, RuleShown, Setting, Sources, WORKSPACE_FILE, WorkspaceFile, diff, learn,
    starter,
};
pub use helve_runtime::{
    Answer, Approval, ApprovalRequest, Approver, AskClock, AskedPart, AtOnce, BuildError, CallScope, Caller,
    Channel, Contents, Counts, EffectSummary, Grant, Headless, HookSaid, Lasting, OpaquePart, Pending,
    Quarantined, Questions, Redactor, RegisterError, Runtime, RuntimeBuilder, Scope, Script, Stand, Taken,
    UndoEntry, Waits, channel,
};
pub use helve_shell::quote;
pub use helve_tools::{DIALECTS, dialect, unified_diff};
pub use manual::manual;

pub use helve_core::servers;
pub use helve_policy::text;

/// Becomes the helper inside a sandbox that answers requests about files, if this program was started to be it: then either
/// the caller's `main` returns what comes back, or this never returns. Inside a container the same helper runs commands.
///
/// Call it first in `main` where `files.bridge = "sandbox"` is to work.
pub fn serve_files_if_asked() -> Option<std::process::ExitCode> {
    helve_sandbox::run_container_helper_if_asked(helve_workspace::answer_request);
    helve_workspace::serve_if_asked()
}

/// Text that can do nothing to a terminal or a reader's eyes.
pub mod harmless {
    pub use helve_core::harmless::{Harmless, escaped, harmless, is_harmless};
}

/// Patterns of paths that nobody reads.
pub mod deny_read {
    pub use helve_core::deny_read::{KEY, says_closed};
}

/// How long JSON would be.
pub mod json_text {
    pub use helve_core::json_text::length;
}

/// What a shell command says, without an opinion on whether it may run.
pub mod shell {
    pub use helve_shell::analysis::{
        Analysis, Arg, ArgPart, Departure, DepartureKind, Effect, EffectKind, Input, More, Opaque,
        OpaqueReason, Run, RunKind, Setting, Target,
    };
    pub use helve_shell::tree::Dialect;
    pub use helve_shell::{Span, analyze};
}

/// Specs in the shapes that model APIs want.
pub mod export {
    pub use helve_core::export::{Format, export};
}

/// The journal, blobs and index: reading, verifying and tidying what the runtime has recorded.
pub mod store {
    pub use helve_store::*;
}

/// Adds `echo`, `time`, `json` and `read_output`: tools that touch nothing outside this process.
#[must_use]
pub fn register_builtin_tools(builder: RuntimeBuilder) -> RuntimeBuilder {
    helve_runtime::register_builtin(builder, helve_tools::BUILTIN, |_policy| helve_tools::builtin_tools())
}

/// Adds `exec`: tools whose work happens in the sandbox. The defaults and limits that the schema shows are the policy's.
#[must_use]
pub fn register_container_tools(builder: RuntimeBuilder) -> RuntimeBuilder {
    helve_runtime::register_builtin(builder, helve_tools::CONTAINER, |policy| {
        helve_tools::container_tools(&helve_tools::ShellDefaults {
            timeout: policy.exec_timeout().as_secs(),
            timeout_max: policy.limits().exec_timeout_max,
            working_dir: policy.working_dir().map(str::to_owned),
        })
    })
}

/// Adds the tools of the files lane, which read and change files of the workspace through its handle.
#[must_use]
pub fn register_file_tools(builder: RuntimeBuilder) -> RuntimeBuilder {
    helve_runtime::register_builtin(builder, helve_tools::FILES, |policy| {
        helve_tools::file_tools(&helve_tools::FileDefaults {
            model_context_window_tokens: policy.model_context_window_tokens(),
        })
    })
}
