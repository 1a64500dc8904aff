//! `helve completions`: a script that teaches a shell to complete `helve`.

use clap::{Args as ClapArgs, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;
use crate::ui;

/// Print a completion script for a shell
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  source <(helve completions bash)    # in ~/.bashrc
  source <(helve completions zsh)     # in ~/.zshrc, after compinit
  helve completions fish | source     # in ~/.config/fish/config.fish")]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(options: &Options) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "helve", &mut script);
    ui::print_bytes(script.as_slice())?;
    Ok(0)
}
