//! `helve policy`: the rules that decide about commands: which are in force, what they mean, whether they do what they say,
//! what a change of them would change, and which ones the past suggests.

mod explain;
mod show;

use clap::{Args as ClapArgs, Subcommand};

use crate::args::Global;
use crate::failure::Failure;

/// Show, explain, test, compare or learn rules
#[derive(ClapArgs)]
#[command(long_about = "\
Show, explain, test, compare or learn the rules that decide about commands.")]
#[command(after_help = "\
Examples:
  helve policy show
  helve policy explain guard.rm-recursive")]
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
}

pub(crate) fn policy(global: &Global, options: &Options) -> Result<u8, Failure> {
    match &options.action {
        Action::Show => show::show(global)?,
        Action::Explain { rule } => explain::explain(global, rule.as_deref())?,
    }
    Ok(0)
}
