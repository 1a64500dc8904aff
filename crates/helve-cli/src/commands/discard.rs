//! `helve discard`: drops what a command would change.

use clap::Args as ClapArgs;

use super::{commit, diff, undo};
use crate::args::Global;
use crate::failure::Failure;
use crate::setup::{self, Running};

/// Drop what a command would change
#[derive(ClapArgs)]
#[command(long_about = "\
Drop what a command would change: one that ran with tools.exec.mode = \"preview\", or under `helve sandbox --dry-run`. The \
workspace stays as it is. Without CALL it is the newest that waits here; `helve commit --list` lists them.")]
#[command(after_help = "\
Examples:
  helve discard
  helve discard c_01JZ4M5V6W7X8Y9Z0ABCDEFGHJ")]
pub(crate) struct Options {
    /// The call; `helve commit --list` and `helve log` show them
    call: Option<String>,
}

pub(crate) fn discard(global: &Global, options: Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let running = Running::new(global, policy)?;
    let call = commit::named(&running, options.call)?;
    let result = running.block_on(|runtime, _, _| async move {
        runtime.discard(&call).await.map_err(|error| diff::told(&error))
    })??;
    undo::show(&result, "", global.json)?;
    Ok(result.exit_code())
}
