//! The binary `helve`: arguments in, results on standard output, everything else on standard error.
//!
//! | module | what it does |
//! |---|---|
//! | `args` | the command line as types |
//! | `commands` | one file a command |
//! | `setup`, `workspace_file` | policy, workspace, state directory and runtime from the global options |
//! | `hosts` | what MCP clients are offered |
//! | `approve`, `interrupt` | the person at the terminal: questions and answers, and Ctrl-C |
//! | `ui`, `failure` | the only ways out: text and an exit code; `ui::lane` keeps a reader that does not read from holding up a command |
//! | `harmless`, `marked`, `effects`, `verdict`, `refused`, `moment` | text, commands, what they do, what may be, what was refused, and time as people read and write them |
//!
//! Deliberately not here: anything that decides or does something with a call. That is the library's pipeline.

mod approve;
mod args;
mod commands;
mod effects;
mod failure;
mod harmless;
mod hosts;
mod interrupt;
mod marked;
mod moment;
mod refused;
mod setup;
mod ui;
mod verdict;
mod workspace_file;

use std::process::ExitCode;
use std::time::Duration;

/// How long the last words of a command that does not wait for its reader wait for one.
const LAST_WORDS: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    helve::sandbox::run_helper_if_asked();
    if let Some(code) = helve::serve_files_if_asked() {
        return code;
    }
    // Before anything is read, and before there is a second thread; where the first words do not tell, the whole line does.
    let mut helper = args::seem_to_run_a_command(std::env::args_os()).then(helve::sandbox::helper_ahead);
    let cli = match args::read(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => {
            drop(helper);
            failure::bad_usage(&error)
        }
    };
    if cli.command.runs_a_command() {
        helper.get_or_insert_with(helve::sandbox::helper_ahead);
    }
    let json = cli.global.json && cli.command.answers_in_lines();
    let ended = commands::dispatch(cli);
    // A question whose call was given up may still have the terminal.
    approve::restore();
    let code = match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(json),
    };
    // What is wrong with standard output is told already, or there is nobody to tell.
    let _ = ui::lane::flush(LAST_WORDS);
    code
}
