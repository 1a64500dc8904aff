//! `helve mcp list`: the configured servers and how each stands. Nothing is started unless --live asks for it.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use helve::ConfiguredServer;
use helve::servers::{Transport, WorkspaceUse};
use serde_json::{Value, json};

use super::live;
use super::standing::{self, Standing};
use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{moment, setup, ui};

#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp list
  helve mcp list --live")]
pub(super) struct Options {
    /// Start every server and say whether it answers
    #[arg(long)]
    live: bool,
}

pub(super) fn list(global: &Global, options: &Options) -> Result<(), Failure> {
    let policy = setup::policy(global)?;
    let servers = policy.mcp_configured();
    let standings = standing::all(&servers)?;
    let answers = if options.live { live::all(global, policy.clone())? } else { Vec::new() };
    if global.json {
        let shown: Vec<Value> = servers
            .iter()
            .zip(&standings)
            .map(|(server, standing)| {
                let mut value = as_json(server, standing);
                if let Some((_, answer)) = answers.iter().find(|(name, _)| *name == server.spec.name) {
                    value["live"] = live::as_json(answer);
                }
                value
            })
            .collect();
        return ui::print_json(&shown);
    }
    if servers.is_empty() {
        ui::note("no MCP server is configured; `helve mcp add` adds one");
    }
    let mut text = String::new();
    for (server, standing) in servers.iter().zip(&standings) {
        told(&mut text, "", server, standing);
        if let Some((_, answer)) = answers.iter().find(|(name, _)| *name == server.spec.name) {
            let _ = writeln!(text, "  {}", live::on_one_line(answer));
        }
    }
    ui::print_styled(&text)
}

/// What a server is to read, and is not there to be shown to it.
fn unread(server: &ConfiguredServer) -> Vec<&PathBuf> {
    match &server.spec.transport {
        Transport::Stdio(process) => process.read.iter().filter(|path| !path.exists()).collect(),
        Transport::Http(_) => Vec::new(),
    }
}

/// The same for people.
pub(super) fn not_there(server: &ConfiguredServer) -> Option<String> {
    let paths: Vec<String> = unread(server).iter().map(|path| path.display().to_string()).collect();
    let what = format!("not there, so not shown to it: {} (`read`)", paths.join(", "));
    (!paths.is_empty()).then_some(what)
}

/// How a server is reached, on one line.
fn reach(server: &ConfiguredServer) -> String {
    match &server.spec.transport {
        Transport::Stdio(process) => {
            let words: Vec<String> = std::iter::once(&process.command)
                .chain(&process.args)
                .map(|word| helve::quote(word).into())
                .collect();
            words.join(" ")
        }
        Transport::Http(address) => address.url.clone(),
    }
}

/// One server on a few lines, each behind `indent`.
pub(in crate::commands) fn told(
    text: &mut String,
    indent: &str,
    server: &ConfiguredServer,
    standing: &Standing,
) {
    let spec = &server.spec;
    let state = match (server.enabled, standing.pinned) {
        (false, _) => ui::styled(ui::FAINT, "off"),
        (true, None) if standing.problem.is_some() => ui::styled(ui::BAD, "unknown"),
        (true, None) => ui::styled(ui::CAREFUL, "never started"),
        (true, Some(count)) => {
            let is_well = standing.waiting + standing.kept_out == 0 && standing.last_error.is_none();
            ui::styled(
                if is_well { ui::GOOD } else { ui::CAREFUL },
                &format!("{} pinned", live::counted(count)),
            )
        }
    };
    let _ = writeln!(
        text,
        "{indent}{}  {state}  {}",
        ui::styled(ui::STRONG, &spec.name),
        one_line(&reach(server), 200)
    );
    let mut more = vec![opened(server)];
    for (is_set, word) in [(spec.trusted, "trusted"), (spec.parallel, "parallel")] {
        if is_set {
            more.push(word.to_owned());
        }
    }
    for (what, event) in [("last start", &standing.last_start), ("last error", &standing.last_error)] {
        if let Some(event) = event {
            more.push(format!("{what} {}: {}", moment::show(event.at_us), one_line(&event.text, 200)));
        }
    }
    if standing.waiting > 0 {
        more.push(format!(
            "{} off: `helve mcp trust {}` shows why",
            live::counted(standing.waiting),
            spec.name
        ));
    }
    if standing.kept_out > 0 {
        more.push(format!(
            "{} kept out of calls: `helve mcp test {}` says why",
            live::counted(standing.kept_out),
            spec.name
        ));
    }
    if let Some(problem) = &standing.problem {
        more.push(problem.clone());
    }
    if let Some(text) = not_there(server) {
        more.push(text);
    }
    if !server.unset.is_empty() {
        more.push(format!("not set: {}", server.unset.join(", ")));
    }
    for line in more.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "{indent}  {}", ui::styled(ui::FAINT, &harmless(line)));
    }
}

/// What the owner opened for a server.
fn opened(server: &ConfiguredServer) -> String {
    let Transport::Stdio(process) = &server.spec.transport else { return String::new() };
    let network = if process.network { "reaches the network" } else { "has no network" };
    format!("{}, {network}", workspace_use(process.workspace).1)
}

/// What a server may do with the workspace: the word of the configuration, and for people.
fn workspace_use(of: WorkspaceUse) -> (&'static str, &'static str) {
    match of {
        WorkspaceUse::Hidden => ("hidden", "does not see the workspace"),
        WorkspaceUse::Read => ("read", "reads the workspace"),
        WorkspaceUse::Write => ("write", "may change the workspace"),
    }
}

/// The same for programs.
pub(in crate::commands) fn as_json(server: &ConfiguredServer, standing: &Standing) -> Value {
    let spec = &server.spec;
    let reach = match &spec.transport {
        Transport::Stdio(process) => json!({
            "transport": "stdio", "command": process.command, "args": process.args, "cwd": process.working_dir,
            "env": process.env.keys().collect::<Vec<_>>(), "network": process.network,
            "workspace": workspace_use(process.workspace).0, "read": process.read, "write": process.write,
        }),
        Transport::Http(address) => json!({
            "transport": if address.sse { "sse" } else { "http" }, "url": address.url,
            "headers": address.headers.keys().collect::<Vec<_>>(),
        }),
    };
    json!({
        "name": spec.name, "enabled": server.enabled, "trusted": spec.trusted, "parallel": spec.parallel, "reach": reach,
        "origin": server.origin, "unset": server.unset, "pinned": standing.pinned, "waiting": standing.waiting,
        "kept_out": standing.kept_out, "not_there": unread(server),
        "last_start": standing.last_start, "last_error": standing.last_error, "problem": standing.problem,
    })
}
