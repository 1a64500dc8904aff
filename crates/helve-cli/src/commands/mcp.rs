//! `helve mcp`: Helve before MCP clients, and MCP servers behind Helve. Without a subcommand it is the server on standard
//! input and output; the subcommands are the owner's, one file each.
//!
//! | module | does |
//! |---|---|
//! | `stdio` | the server |
//! | `install` | gives other programs Helve's tools |
//! | `list`, `test`, `logs` | which servers there are, whether one answers, what happened to it |
//! | `add`, `remove` | changes which servers there are |
//! | `trust`, `pins` | what the owner agreed to of their tools |
//! | `config`, `file`, `standing`, `live` | what these share |

mod add;
mod config;
mod file;
mod install;
pub(super) mod list;
pub(super) mod live;
mod logs;
mod pins;
mod remove;
pub(super) mod standing;
mod stdio;
mod test;
mod trust;

use clap::{Args as ClapArgs, Subcommand};

use crate::args::Global;
use crate::failure::Failure;

/// Offer the tools to an MCP client, and look after MCP servers
#[derive(ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
#[command(long_about = "\
Offer the tools to an MCP client, and look after MCP servers.

Without a subcommand: an MCP server on standard input and output, as MCP clients start it. `helve mcp install` writes that \
into the configuration of a client.

Helve also runs other MCP servers, in the sandbox, and puts their tools through its own rules and journal. They stand in \
your configuration as [mcp.servers.NAME]. What lies in a repository (.mcp.json and the like) is never started by itself: \
`helve mcp add --from .mcp.json` shows it and asks.")]
#[command(after_help = "\
Examples:
  helve mcp
  helve mcp --gateway --with-own
  helve mcp install claude --print
  helve mcp add time --yes -- mcp-server-time
  helve mcp add --from .mcp.json --yes
  helve mcp list
  helve mcp pins")]
pub(crate) struct Options {
    #[command(flatten)]
    stdio: stdio::Stdio,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Give other programs Helve's tools: write their configuration, after showing the change
    Install(install::Options),
    /// Print the configured servers and how each stands
    List(list::Options),
    /// Add a server to your configuration, after showing it
    Add(add::Options),
    /// Take a server out of your configuration
    Remove(remove::Options),
    /// Start a server as a call would, in its sandbox, and print what it answers
    Test(test::Options),
    /// Show what a server says of its tools, against what you agreed to before, and agree to it
    Trust(trust::Options),
    /// Print what happened to a server, and what it wrote to standard error
    Logs(logs::Options),
    /// Print the definitions of tools that you agreed to
    Pins(pins::Options),
}

impl Options {
    /// Whether `--json` means lines of JSON, among which an error can stand as the last; else the protocol is spoken.
    pub(crate) fn answers_in_lines(&self) -> bool {
        self.action.is_some()
    }
}

pub(crate) fn mcp(global: &Global, options: &Options) -> Result<u8, Failure> {
    match &options.action {
        None => return stdio::serve(global, &options.stdio),
        Some(Action::Install(options)) => install::install(global, options)?,
        Some(Action::List(options)) => list::list(global, options)?,
        Some(Action::Add(options)) => add::add(global, options)?,
        Some(Action::Remove(options)) => remove::remove(global, options)?,
        Some(Action::Test(options)) => return test::test(global, options),
        Some(Action::Trust(options)) => trust::trust(global, options)?,
        Some(Action::Logs(options)) => logs::logs(global, options)?,
        Some(Action::Pins(options)) => pins::pins(global, options)?,
    }
    Ok(0)
}
