//! The commands, one file each. Each takes the global options and its own, prints its result, and gives the exit code.

pub(crate) mod agent;
pub(crate) mod approvals;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod discard;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod gc;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod policy;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod verify;
pub(crate) mod what_if;
pub(crate) mod why;

use crate::args::{Cli, Command};
use crate::failure::Failure;

/// Does what was asked; gives the exit code.
pub(crate) fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let global = &cli.global;
    // Also where the command would not look into it. `sandbox` says it with an exit code of its own.
    if global.workspace.is_some() && !matches!(cli.command, Command::Sandbox(_)) {
        crate::setup::workspace(global)?;
    }
    match cli.command {
        Command::Call(options) => call::call(global, options),
        Command::Run(options) => run::run(global, options),
        Command::Sandbox(options) => sandbox::sandbox(global, options),
        Command::Batch(options) => batch::batch(global, &options),
        Command::Agent(options) => agent::agent(global, &options),
        Command::Chat(options) => chat::chat(global, &options),
        Command::Demo(options) => demo::demo(global, &options),
        Command::Replay(options) => replay::replay(global, &options),
        Command::WhatIf(options) => what_if::what_if(global, &options),
        Command::Export(options) => export::export(global, &options),
        Command::Check(options) => check::check(global, &options),
        Command::Trust(options) => trust::trust(global, &options),
        Command::Why(options) => why::why(global, &options),
        Command::Policy(options) => policy::policy(global, &options),
        Command::Mcp(options) => mcp::mcp(global, &options),
        Command::Serve(options) => serve::serve(global, &options),
        Command::Approvals(options) => approvals::approvals(global, &options),
        Command::Tools(options) => tools::tools(global, &options),
        Command::Log(options) => log::log(global, &options),
        Command::Diff(options) => diff::diff(global, options),
        Command::Undo(options) => undo::undo(global, options),
        Command::Commit(options) => commit::commit(global, options),
        Command::Discard(options) => discard::discard(global, options),
        Command::Verify(options) => verify::verify(global, &options),
        Command::Doctor(options) => doctor::doctor(global, &options),
        Command::Gc(options) => gc::gc(global, &options),
        Command::Config(options) => config::config(global, &options),
        Command::Completions(options) => completions::completions(&options),
    }
}
