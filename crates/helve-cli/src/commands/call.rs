//! `helve call`: one call of any tool. Arguments in several notations become one JSON text, which goes to the pipeline
//! unparsed, so that it sees what a parser would lose.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use clap::Args as ClapArgs;
use helve::mcp::lane;
use helve::{Args, Call, CallResult, Dialect, Policy};
use rustix::fs::OFlags;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::args::{Global, Names};
use crate::failure::Failure;
use crate::setup::{self, EXEC, Running};
use crate::{harmless, refused, ui};

/// Call one tool and print what a model would read
#[derive(ClapArgs)]
#[command(long_about = "\
Call one tool and print what a model would read.

The arguments are one JSON object, @FILE, - for standard input, or any number of KEY=VALUE (text) and KEY:=JSON. \
Without arguments the tool gets an empty object. Standard output carries the result only; notes go to standard error. A \
call that needs a person's agreement asks on the terminal; where there is none, it ends with approval_required.

Exit code: 0 ok; 1 the tool failed; 2 unknown tool, wrong arguments or bad configuration; 3 blocked or refused by a person; 4 approval \
needed; 5 no sandbox; 6 rate limit; 70 Helve itself failed; 124 timeout; 130 cancelled.")]
#[command(after_help = "\
Examples:
  helve call echo message=hello
  helve call time operation=convert input=2026-01-31T10:00:00Z to_timezone=Asia/Tokyo
  helve call json '{\"operation\":\"query\",\"path\":\"/a\",\"data\":{\"a\":1}}' --json
  helve call exec @arguments.json
  helve call mcp__files__read_text_file path=notes.txt
  helve call --dialect claude Write file_path=notes.txt content=hello")]
pub(crate) struct Options {
    /// The tool's name; `helve tools` lists them
    tool: String,
    /// JSON, @FILE, - or KEY=VALUE …
    #[arg(value_name = "ARGS")]
    args: Vec<String>,
    #[command(flatten)]
    names: Names,
}

/// How the names of tools of MCP servers begin.
pub(super) const OF_SERVERS: &str = "mcp__";

impl Options {
    /// Whether the tool is the one that runs commands, under its own name.
    pub(crate) fn is_of_exec(&self) -> bool {
        self.tool == EXEC
    }
}

pub(crate) fn call(global: &Global, options: Options) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let args = arguments(&options.args, policy.limits().args_bytes)?;
    let call = Call { id: None, tool: options.tool, args };
    one_call(global, policy, options.names.dialect(), call)
}

/// Makes one call, prints its result and gives its exit code.
pub(crate) fn one_call(
    global: &Global,
    policy: Policy,
    dialect: Option<Dialect>,
    call: Call,
) -> Result<u8, Failure> {
    let fleet = if call.tool.starts_with(OF_SERVERS) { setup::fleet(global, &policy)? } else { None };
    let result = match fleet {
        None => {
            let running = Running::for_call(global, policy, dialect, &call.tool)?;
            running.block_on(|runtime, _, _| async move { runtime.call(call).await })?
        }
        Some(fleet) => {
            let running = Running::with_servers(global, policy, dialect, &fleet)?;
            running.block_on(|runtime, cancel, _| async move {
                tokio::select! {
                    () = lane::bring(&fleet, &runtime, &call.tool) => {}
                    () = cancel.cancelled() => {}
                }
                let result = runtime.call(call).await;
                fleet.close().await;
                result
            })?
        }
    };
    show(&result, global.json)?;
    Ok(result.exit_code())
}

fn show(result: &CallResult, json: bool) -> Result<(), Failure> {
    if json {
        return ui::print_json(result);
    }
    for note in &result.notes {
        ui::note(&harmless::harmless(note));
    }
    ui::print(&result.text())?;
    let (denied, more) = refused::of_details(&result.details);
    refused::tell(&denied, more);
    Ok(())
}

/// The arguments in any of their notations.
fn arguments(words: &[String], most: u64) -> Result<Args, Failure> {
    match words {
        [] => Ok(Args::Text("{}".to_owned())),
        [word] if word == "-" => read_all(io::stdin().lock(), "standard input", most),
        [word] if word.starts_with('@') => read_all(open(&word[1..])?, &word[1..], most),
        [word] if pair(word).is_none() && is_meant_as_json(word) => Ok(Args::Text(word.clone())),
        pairs => object(pairs).map(Args::Text),
    }
}

/// Opens a file of arguments. One that could make Helve wait for ever, such as a named pipe, is refused; what the caller
/// has opened already, such as a shell's `<(command)`, is read like standard input.
fn open(name: &str) -> Result<File, Failure> {
    let wrong = |why: &str| Failure::usage(format!("the file {name} cannot be read: {why}"));
    if name.is_empty() {
        return Err(Failure::usage("there is no name behind @. Write @FILE, or - for standard input"));
    }
    let is_open_already = name == "/dev/stdin" || name.starts_with("/dev/fd/");
    let mut options = File::options();
    options.read(true);
    if !is_open_already {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(name).map_err(|error| wrong(&error.to_string()))?;
    let kind = file.metadata().map_err(|error| wrong(&error.to_string()))?;
    if is_open_already || kind.is_file() {
        return Ok(file);
    }
    Err(wrong("it is not a regular file. Write - and give it to standard input"))
}

/// Whether the pipeline can say what is wrong with it better than a list of the notations.
fn is_meant_as_json(word: &str) -> bool {
    let word = word.trim_start();
    word.is_empty() || word.starts_with(['{', '[', '"']) || serde_json::from_str::<IgnoredAny>(word).is_ok()
}

/// Reads at most one byte more than a call may have: enough for the pipeline to refuse it for its size.
fn read_all(from: impl Read, name: &str, most: u64) -> Result<Args, Failure> {
    let wrong = |why: String| Failure::usage(format!("{name} cannot be read as arguments: {why}"));
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() as u64 > most {
        // Cut in the middle of a character perhaps, but never parsed.
        return Ok(Args::Text(String::from_utf8_lossy(&bytes).into_owned()));
    }
    String::from_utf8(bytes).map(Args::Text).map_err(|error| wrong(format!("it is not UTF-8 text ({error})")))
}

/// One `KEY=VALUE` or `KEY:=JSON`.
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
    is_json: bool,
}

fn pair(word: &str) -> Option<Pair<'_>> {
    let (key, value) = word.split_once('=')?;
    let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
    let starts = key.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_');
    let fits = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | '.');
    (starts && key.chars().all(fits)).then_some(Pair { key, value, is_json })
}

/// The pairs as a JSON object. A key that comes twice stays twice: the pipeline says what is wrong with it.
fn object(words: &[String]) -> Result<String, Failure> {
    let mut text = String::from("{");
    for word in words {
        let Some(Pair { key, value, is_json }) = pair(word) else {
            return Err(Failure::usage(format!(
                "the argument '{}' is not KEY=VALUE or KEY:=JSON. Write all arguments so, or only one: \
                 a JSON object, @FILE or - for standard input",
                harmless::one_line(word, 80)
            )));
        };
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&quoted(key)?);
        text.push(':');
        if is_json {
            serde_json::from_str::<&RawValue>(value)
                .map_err(|error| Failure::usage(format!("the value of {key}:= is not JSON: {error}")))?;
            text.push_str(value);
        } else {
            text.push_str(&quoted(value)?);
        }
    }
    text.push('}');
    Ok(text)
}

fn quoted(text: &str) -> Result<String, Failure> {
    serde_json::to_string(text).map_err(|error| Failure::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn text(words: &[&str]) -> Result<String, Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match arguments(&words, 100)? {
            Args::Text(text) => Ok(text),
            Args::Value(value) => Ok(value.to_string()),
        }
    }

    #[test]
    fn every_notation_becomes_one_text() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "{}"),
            (&[r#"{"a":1,"a":2}"#], r#"{"a":1,"a":2}"#),
            (&["{hello"], "{hello"),
            (&[" [1"], " [1"),
            (&["null"], "null"),
            (&["5"], "5"),
            (&[""], ""),
            (&[r#"{"a=b":1}"#], r#"{"a=b":1}"#),
            (&["a=b=c"], r#"{"a":"b=c"}"#),
            (&["a=", "b:=[1, 2]"], r#"{"a":"","b":[1, 2]}"#),
            (&["a=\"", "a=2"], r#"{"a":"\"","a":"2"}"#),
        ];
        for (words, expected) in cases {
            assert_eq!(text(words), Ok((*expected).to_owned()), "{words:?}");
        }
    }

    proptest! {
        #[test]
        fn pairs_become_the_object_that_they_say(
            pairs in prop::collection::btree_map("[a-z_][a-z0-9_.-]{0,5}", any::<String>(), 1..6),
        ) {
            let words: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let object: std::collections::BTreeMap<String, String> =
                serde_json::from_str(&object(&words).unwrap()).unwrap();
            prop_assert_eq!(object, pairs);
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_behind_the_limit() {
        let read = |text: &str| read_all(text.as_bytes(), "x", 3);
        assert_eq!(read("abc"), Ok(Args::Text("abc".into())));
        assert_eq!(read("abcde"), Ok(Args::Text("abcd".into())));
        assert_eq!(read("abcü"), Ok(Args::Text("abc\u{fffd}".into())));
        assert!(read_all(&b"\xff"[..], "x", 3).is_err());
    }

    #[test]
    fn what_fits_no_notation_is_bad_usage() {
        for words in [
            &["a=1", "b"] as &[&str],
            &["a:=1,\"b\":2"],
            &["a:="],
            &["{}", "{}"],
            &["@/no/such/file"],
            &["@"],
            &["hello"],
            &["=x"],
            &["nul"],
        ] {
            assert!(matches!(text(words), Err(Failure::Told { code: 2, .. })), "{words:?}");
        }
    }
}
