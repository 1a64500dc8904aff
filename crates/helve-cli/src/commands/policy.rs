//! `helve policy`: the rules that decide about commands: which are in force, what they mean, whether they do what they say,
//! what a change of them would change, and which ones the past suggests.

mod diff;
mod explain;
mod learn;
mod past;
mod show;
mod test;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use crate::args::Global;
use crate::failure::Failure;
use crate::moment;

/// Show, explain, test, compare or learn rules
#[derive(ClapArgs)]
#[command(long_about = "\
Show, explain, test, compare or learn the rules that decide about commands.

Rules are written as [[rules]] in helve.toml: a verdict (allow, ask, deny) and what it is about (command, effect, path, host, \
tool). The strictest rule wins. `allows`, `asks` and `denies` of a rule are examples that are checked whenever it is \
loaded. Helve's own rules come on top; the names that decisions have are explained by `helve policy explain`.")]
#[command(after_help = "\
Examples:
  helve policy show
  helve policy explain guard.rm-recursive
  helve policy test cases.jsonl
  helve policy diff helve.toml stricter.toml --commands commands.txt
  helve policy learn --since 30d")]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the rules in force and where each comes from
    Show,
    /// Say what a rule means, what it finds and how to change it; without a name, list Helve's own rules
    Explain {
        /// The rule, as a decision names it
        #[arg(value_name = "RULE")]
        rule: Option<String>,
    },
    /// Hold the rules against their own examples and a file of cases; exit code 1 if one comes out otherwise
    Test {
        /// Cases, one a line: {"command":"ls","verdict":"allow","rule":"…"}; the rule may be left out
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Say what differs between two configuration files, and which commands they decide differently
    Diff {
        /// The first configuration, in place of the user's
        a: PathBuf,
        /// The second
        b: PathBuf,
        /// The commands to decide, one a line [default: those of this workspace in the journal]
        #[arg(long, value_name = "FILE")]
        commands: Option<PathBuf>,
    },
    /// Propose rules that would have allowed what was run in this workspace, as TOML; what was allowed only once as comments
    Learn {
        /// Only calls from then on: 2h, 3d (ago), 2026-01-31, "2026-01-31 13:00"
        #[arg(long, value_name = "WHEN", value_parser = moment::parse_since, conflicts_with = "commands")]
        since: Option<u64>,
        /// Learn from these commands, one a line [default: those of this workspace in the journal]
        #[arg(long, value_name = "FILE")]
        commands: Option<PathBuf>,
        /// Add the rules to the user's configuration file, after a question on the terminal
        #[arg(long)]
        write: bool,
        /// Write without the question
        #[arg(long, requires = "write")]
        yes: bool,
    },
}

/// Prints the rules in force.
pub(super) fn show_rules(global: &Global) -> Result<(), Failure> {
    show::show(global)
}

/// Whether `helve policy explain` knows a rule that a decision names.
pub(super) fn is_explained(global: &Global, rule: &str) -> bool {
    explain::is_explained(global, rule)
}

pub(crate) fn policy(global: &Global, options: &Options) -> Result<u8, Failure> {
    match &options.action {
        Action::Show => show::show(global)?,
        Action::Explain { rule } => explain::explain(global, rule.as_deref())?,
        Action::Test { file } => return test::test(global, file.as_deref()),
        Action::Diff { a, b, commands } => diff::diff(global, a, b, commands.as_deref())?,
        Action::Learn { since, commands, write, yes } => {
            let write = match (write, yes) {
                (false, _) => learn::Write::No,
                (true, false) => learn::Write::Asked,
                (true, true) => learn::Write::Now,
            };
            learn::learn(global, *since, commands.as_deref(), write)?;
        }
    }
    Ok(0)
}
