//! The command line as types: the global options and the list of commands. Each command declares its own options in
//! its own file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use helve::Dialect;

use crate::commands::{
    agent, approvals, batch, call, chat, check, commit, completions, config, demo, diff, discard, doctor,
    export, gc, log, mcp, policy, replay, run, sandbox, serve, tools, trust, undo, verify, what_if, why,
};
use crate::setup::EXEC;

/// Gives a language model tools, and keeps every call on a surface that you can restrict, read back and verify.
#[derive(Parser)]
#[command(name = "helve", version, propagate_version = false)]
#[command(after_help = "\
First steps:
  helve demo                       a recorded session with real tools; needs no model
  helve run 'uname -a'             a shell command, in the sandbox
  helve call echo message=hello    any tool, by its name
  helve call grep pattern=TODO     a tool for files; `helve undo` puts back what one changed
  helve check 'rm -rf build'       what a command does and whether it may run, without running it
  helve agent 'find the bug'       a model that works with these tools until it is done
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
    Agent(agent::Options),
    Chat(chat::Options),
    Demo(demo::Options),
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
    Commit(commit::Options),
    Discard(discard::Options),
    Verify(verify::Options),
    Replay(replay::Options),
    WhatIf(what_if::Options),
    Export(export::Options),
    Doctor(doctor::Options),
    Gc(gc::Options),
    Config(config::Options),
    Completions(completions::Options),
}

impl Command {
    /// Whether `--json` means lines of JSON, among which an error can stand as the last.
    pub(crate) fn answers_in_lines(&self) -> bool {
        match self {
            Command::Call(_)
            | Command::Run(_)
            | Command::Batch(_)
            | Command::Agent(_)
            | Command::Serve(_)
            | Command::Chat(_)
            | Command::Demo(_)
            | Command::Replay(_)
            | Command::Verify(_)
            | Command::WhatIf(_)
            | Command::Export(_)
            | Command::Check(_)
            | Command::Approvals(_)
            | Command::Policy(_)
            | Command::Why(_)
            | Command::Trust(_)
            | Command::Tools(_)
            | Command::Doctor(_)
            | Command::Diff(_)
            | Command::Undo(_)
            | Command::Commit(_)
            | Command::Discard(_)
            | Command::Gc(_)
            | Command::Config(_) => true,
            Command::Log(options) => options.answers_in_lines(),
            Command::Mcp(options) => options.answers_in_lines(),
            // The output is the command's own, or a script.
            Command::Sandbox(_) | Command::Completions(_) => false,
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

/// Whether these words, the program's name first, look as if a command was to be run in the sandbox. A guess from the first
/// words alone, in no time; the command line itself is the answer.
pub(crate) fn seem_to_run_a_command(words: impl Iterator<Item = OsString>) -> bool {
    let mut words = words.skip(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-"));
    match words.next() {
        Some(word) if word == "call" => words.next().is_some_and(|word| word == EXEC),
        Some(word) => word == "run" || word == "sandbox",
        None => false,
    }
}

/// Reads the command line.
///
/// To make the parsers of all commands takes longer than to read one line. So where the first word is that of a command
/// that programs start again and again, only its own is made; what that does not understand goes to all of them.
pub(crate) fn read(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let one = match words.get(1).and_then(|word| word.to_str()) {
        Some("call") => read_one("call", &words, Command::Call),
        Some("run") => read_one("run", &words, Command::Run),
        Some("sandbox") => read_one("sandbox", &words, Command::Sandbox),
        Some("batch") => read_one("batch", &words, Command::Batch),
        Some("check") => read_one("check", &words, Command::Check),
        Some("agent") => read_one("agent", &words, Command::Agent),
        _ => None,
    };
    one.map_or_else(|| Cli::try_parse_from(words), Ok)
}

fn parser_of_one<O: Args>(name: &'static str) -> clap::Command {
    let own = O::augment_args(clap::Command::new(name));
    Global::augment_args(clap::Command::new("helve")).subcommand(own)
}

/// Reads the line of one command; none if anything is wrong with it, or its help is asked for.
fn read_one<O: Args>(name: &'static str, words: &[OsString], command: fn(O) -> Command) -> Option<Cli> {
    let found = parser_of_one::<O>(name).try_get_matches_from(words).ok()?;
    let (_, options) = found.subcommand()?;
    let command = command(O::from_arg_matches(options).ok()?);
    Some(Cli { global: Global::from_arg_matches(&found).ok()?, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn one_parser_reads_a_line_as_all_of_them_do() {
        let same = |one: clap::Command, line: &str| {
            let words = || line.split(' ');
            let one = one.try_get_matches_from(words()).unwrap();
            let all = Cli::command().try_get_matches_from(words()).unwrap();
            assert_eq!(one.subcommand(), all.subcommand(), "{line}");
            let global = |found| {
                let Global { workspace, config, set, json, session } =
                    Global::from_arg_matches(&found).unwrap();
                (workspace, config, set, json, session)
            };
            assert_eq!(global(one), global(all), "{line}");
        };
        for line in [
            "helve call echo message=hello --json",
            "helve call --workspace a exec {} --set a=b --set c=d",
            "helve call --dialect claude Write file_path=x --session s",
        ] {
            same(parser_of_one::<call::Options>("call"), line);
        }
        for line in ["helve run ls --json", "helve run --timeout -3 --working-dir d -- ls --json"] {
            same(parser_of_one::<run::Options>("run"), line);
        }
        same(parser_of_one::<sandbox::Options>("sandbox"), "helve sandbox --ro /a --json -- ls --config x");
        same(parser_of_one::<batch::Options>("batch"), "helve batch --config x");
        same(parser_of_one::<check::Options>("check"), "helve check --json ls");
        let line = "helve agent --json --model a:b --max-time 5m --approve ls --session s task";
        same(parser_of_one::<agent::Options>("agent"), line);
    }

    #[test]
    fn what_one_parser_does_not_take_is_said_by_all_of_them() {
        let read = |line: &str| read(line.split(' ').map(OsString::from).collect());
        for line in
            ["helve call", "helve call --help", "helve run", "helve run --timeout x ls", "helve calls"]
        {
            let all = Cli::try_parse_from(line.split(' ')).err().unwrap();
            assert_eq!(read(line).err().unwrap().to_string(), all.to_string(), "{line}");
        }
        assert!(read("helve --json call exec {}").unwrap().command.runs_a_command());
    }

    #[test]
    fn the_first_words_tell_whether_a_command_is_to_be_run() {
        let seem = |line: &str| seem_to_run_a_command(line.split(' ').map(OsString::from));
        for line in
            ["helve run ls", "helve call exec {}", "helve --json call --json exec {}", "helve sandbox -- ls"]
        {
            assert!(seem(line), "{line}");
        }
        for line in ["helve", "helve call echo exec", "helve log run", "helve --version", "helve batch"] {
            assert!(!seem(line), "{line}");
        }
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
