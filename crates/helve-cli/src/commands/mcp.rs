//! `helve mcp`: Helve before MCP clients. Without a subcommand it is the server on standard input and output; the
//! subcommands are the owner's, one file each.

mod stdio;

use clap::Args as ClapArgs;

use crate::args::Global;
use crate::failure::Failure;

/// Offer the tools to an MCP client, and look after MCP servers
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  helve mcp
  helve mcp --workspace .")]
pub(crate) struct Options {
    #[command(flatten)]
    stdio: stdio::Stdio,
}

pub(crate) fn mcp(global: &Global, options: &Options) -> Result<u8, Failure> {
    stdio::serve(global, &options.stdio)
}
