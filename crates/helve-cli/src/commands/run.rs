//! `helve run`: a shell command through the tool `exec`. One word is the command's text; several are quoted and joined.

use clap::Args as ClapArgs;
use helve::Call;
use serde_json::{Map, json};

use super::call::one_call;
use crate::args::Global;
use crate::failure::Failure;
use crate::setup;

/// Run a shell command in the sandbox
#[derive(ClapArgs)]
#[command(long_about = "\
Run a shell command in the sandbox: the same as `helve call exec`.

One argument is the text of the command, read by the shell. Several arguments are the words of one command: each is \
quoted, so that the shell changes nothing in them. Standard input of the command is closed. The exit code is that of \
the call (see `helve call --help`), not of the command, whose own code is in the result.")]
#[command(after_help = "\
Examples:
  helve run 'ls -la | head -3'
  helve run --timeout 10 --working-dir src 'ls | wc -l'
  helve run -- grep -rn 'two words' .")]
pub(crate) struct Options {
    /// The command, or its words
    #[arg(required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// End the command after this many seconds, at most limits.exec_timeout_max [default: tools.exec.timeout]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    timeout: Option<i64>,
    /// Where the command starts [default: the workspace]
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
}

pub(crate) fn run(global: &Global, options: Options) -> Result<u8, Failure> {
    let mut args = Map::new();
    args.insert("command".to_owned(), json!(command_text(&options.command)));
    if let Some(seconds) = options.timeout {
        args.insert("timeout".to_owned(), json!(seconds));
    }
    if let Some(dir) = options.working_dir {
        args.insert("working_dir".to_owned(), json!(dir));
    }
    one_call(global, setup::policy(global)?, None, Call::new("exec", serde_json::Value::Object(args)))
}

/// Any whole number: the pipeline brings it into its range, as for every other caller, and says so.
fn seconds(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "write a whole number of seconds, such as 10".to_owned())
}

fn command_text(words: &[String]) -> String {
    match words {
        [text] => text.clone(),
        words => words.iter().map(|word| helve::quote(word)).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_text_and_several_are_quoted() {
        let text =
            |words: &[&str]| command_text(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(text(&["ls -la | wc"]), "ls -la | wc");
        assert_eq!(
            text(&["ls", "-la", "a b", "it's", "$HOME", "x=1", ""]),
            r"ls -la 'a b' 'it'\''s' '$HOME' 'x=1' ''"
        );
    }
}
