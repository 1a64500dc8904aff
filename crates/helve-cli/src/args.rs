//! The command line as types: the global options and the list of commands. Each command declares its own options in
//! its own file.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use helve::Dialect;

use crate::commands::{
    approvals, batch, call, check, completions, config, diff, doctor, gc, log, mcp, policy, run, sandbox,
    serve, tools, trust, undo, verify, why,
};

/// Gives a language model tools, and keeps every call on a surface that you can restrict, read back and verify.
#[derive(Parser)]
#[command(name = "helve", version, propagate_version = false)]
#[command(after_help = "\
First steps:
  helve run 'uname -a'             a shell command, in the sandbox
  helve call echo message=hello    any tool, by its name
  helve call grep pattern=TODO     a tool for files; `helve undo` puts back what one changed
  helve check 'rm -rf build'       what a command does and whether it may run, without running it
  helve doctor                     which sandbox this machine gives, and what mends it
  helve log                        what was called, and what came of it

`helve COMMAND --help` explains a command and gives examples.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Args)]
pub(crate) struct Global {
    /// The directory that tools work in [default: the current directory]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) workspace: Option<PathBuf>,
    /// A configuration file that stands in for the user's own
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// Set one configuration key for this command; can be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = "Global options")]
    pub(crate) set: Vec<String>,
    /// Print for programs: JSON, one value a line
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// The session that calls are recorded in [default: journal.session, else today's date in UTC]
    #[arg(long, global = true, value_name = "NAME", value_parser = session_name, help_heading = "Global options")]
    pub(crate) session: Option<String>,
}

/// The names in which a command shows and calls tools.
#[derive(Args)]
pub(crate) struct Names {
    /// Show and call tools by the names and parameters that another agent has for them
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(helve::DIALECTS))]
    dialect: Option<String>,
}

impl Names {
    /// The dialect; none for our own names.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        helve::dialect(self.dialect.as_deref()?)
    }
}

/// What the store takes as the name of a session; here, so that a bad one is bad usage before anything happens.
fn session_name(name: &str) -> Result<String, String> {
    helve::store::check_session(name).map(|()| name.to_owned()).map_err(|error| error.to_string())
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Call(call::Options),
    Run(run::Options),
    Sandbox(sandbox::Options),
    Batch(batch::Options),
    Mcp(mcp::Options),
    Serve(serve::Options),
    Check(check::Options),
    Why(why::Options),
    Policy(policy::Options),
    Approvals(approvals::Options),
    Trust(trust::Options),
    Tools(tools::Options),
    Log(log::Options),
    Diff(diff::Options),
    Undo(undo::Options),
    Verify(verify::Options),
    Doctor(doctor::Options),
    Gc(gc::Options),
    Config(config::Options),
    Completions(completions::Options),
}

impl Command {
    /// Whether `--json` means one line, in whose place an error can stand.
    pub(crate) fn answers_on_one_line(&self) -> bool {
        match self {
            Command::Call(_)
            | Command::Run(_)
            | Command::Check(_)
            | Command::Approvals(_)
            | Command::Policy(_)
            | Command::Why(_)
            | Command::Trust(_)
            | Command::Tools(_)
            | Command::Doctor(_)
            | Command::Diff(_)
            | Command::Undo(_)
            | Command::Gc(_)
            | Command::Config(_) => true,
            Command::Mcp(options) => options.answers_on_one_line(),
            // The output is the command's own.
            Command::Sandbox(_)
            | Command::Batch(_)
            | Command::Log(_)
            // What it prints is the protocol.
            | Command::Serve(_)
            | Command::Verify(_)
            | Command::Completions(_) => false,
        }
    }

    /// Whether it is made to run one command in the sandbox.
    pub(crate) fn runs_a_command(&self) -> bool {
        match self {
            Command::Run(_) | Command::Sandbox(_) => true,
            Command::Call(options) => options.is_of_exec(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_examples() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let help = command.clone().render_long_help().to_string();
            let examples = help.matches(&format!("helve {name}")).count();
            assert!(help.contains("Examples:") && examples >= 2, "{name} lacks examples");
        }
    }
}
