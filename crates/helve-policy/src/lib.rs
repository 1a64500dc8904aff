//! What the owner allows: configuration layers, the guard, rate limits.
//!
//! In come `helve.toml`, `--set key=value` and the commands of calls; out go limits, a view for the sandbox, decisions
//! with their rule and the smallest grant, and tickets of the rate limiter. Everything is compiled once and then only
//! read.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | the layers of `helve.toml`, checked against one table of keys |
//! | `policy` | [`Policy`]: the compiled answers |
//! | `guard` | judges the text of a command |
//! | `rules` | the owner's rules, judged on what a command does |
//! | `profiles` | named sets of rules and settings |
//! | `readers` | programs that only read |
//! | `guarded` | the places from which a file that configures Helve can be changed |
//! | `file` | reads a file that the owner names, without waiting |
//! | `view` | what a sandboxed command sees |
//! | `secrets` | values that never reach a model |
//! | [`rate`] | how often a caller may call a tool |
//!
//! Deliberately not here: asking a person, starting a process, and whether a workspace's own file is trusted.

mod config;
mod file;
mod guard;
mod guarded;
mod policy;
mod profiles;
pub mod rate;
mod readers;
mod rules;
mod secrets;
mod view;

pub use config::hook::{Hook, HookEvent};
pub use config::keys::{Key, keys};
pub use config::layers::{ConfigError, Layer, Origin, Sources, WORKSPACE_FILE, WorkspaceFile};
pub use config::show::{Setting, starter};
pub use config::value::Kind;
pub use guard::{Judgement, PartDecision, blocked_message, sentence};
/// Files of the owner's as texts: changing one table of one, and servers in those of other programs.
pub mod text {
    pub use crate::config::edit::{remove_table, set_table};
    pub use crate::config::import::{Imported, ServerDraft, import_servers};
    pub use crate::config::jsonc::plain as plain_json;
    pub use crate::config::layers::is_plain_name;
    pub use crate::config::show::to_toml as toml_value;
}

pub use policy::{
    AgentSettings, ApprovalLength, CaseOutcome, Change, ConfiguredServer, ExecMode, Grant, ModelPrice,
    ModelSettings, PathAct, PathDecision, PathUse, Policy, PolicyCase, Refused, RefusedBy, RuleShown, RunBy,
    ToolMeant, ToolRule, diff,
};
pub use rate::{RateLimiter, RetryAfter, Ticket};
pub use rules::{
    CommandPattern, Observation, ProposedRule, effect_names, learn, never_offered, propose, rule_keys,
};
pub use secrets::Secret;
