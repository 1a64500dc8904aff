//! `helve mcp` without a subcommand: the MCP server on standard input and output.

use clap::Args as ClapArgs;

use crate::args::Global;
use crate::failure::Failure;

#[derive(ClapArgs)]
pub(super) struct Options {}

pub(super) fn serve(_global: &Global, _options: &Options) -> Result<u8, Failure> {
    Err(Failure::usage("this build of Helve is no MCP server"))
}
