//! What random words become when their quotes are removed, with the shells as judges.

#![allow(clippy::expect_used, reason = "a test fails loudly")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use helve_shell::analysis::{Arg, Setting};
use helve_shell::tree::Dialect;
use helve_shell::{analyze, parse};
use proptest::prelude::*;

/// The words of `printf '%s\0' WORDS`, if that is one command and all of them are known.
fn ours(line: &str, dialect: Dialect) -> Option<Vec<String>> {
    let script = parse(line, dialect);
    let [statement] = script.statements.as_slice() else { return None };
    let [(_, pipeline)] = statement.pipelines.as_slice() else { return None };
    let workspace = Path::new("/");
    let analysis = analyze(line, &Setting { dialect, directory: workspace, workspace, home: None });
    let [run] = analysis.runs.as_slice() else { return None };
    let is_plain = script.fault.is_none() && pipeline.commands.len() == 1 && !statement.background;
    let words: Option<Vec<String>> =
        run.argv.get(2..)?.iter().map(|arg| arg.text().map(str::to_owned)).collect();
    words.filter(|words| {
        is_plain && !words.is_empty() && run.argv.first().and_then(Arg::text) == Some("printf")
    })
}

/// What the shell makes of them, or nothing if there is no such shell or it does not like them.
fn theirs(shell: &str, line: &str) -> Option<Vec<String>> {
    // Only printf runs: the line is one command, and its words hold neither operators nor substitutions.
    let mut process = Command::new(shell);
    process.args(["-c", line]).env_clear().env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null());
    let output = process.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.split_terminator('\0').map(str::to_owned).collect())
}

fn agree(words: &str, dialect: Dialect, shell: &str) -> Result<(), TestCaseError> {
    // Behind quotes that span lines, bash drops a backslash at the very end.
    let words = if words.contains('\n') { words.trim_end_matches('\\') } else { words };
    let line = format!("printf '%s\\0' {words}");
    if let Some(ours) = ours(&line, dialect)
        && let Some(theirs) = theirs(shell, &line)
    {
        prop_assert_eq!(ours, theirs, "{}", line);
    }
    Ok(())
}

#[test]
fn the_judges_see_words() {
    let words = || Some(["a b", "c"].map(str::to_owned).to_vec());
    let line = "printf '%s\\0' 'a b' \\c";
    assert_eq!(ours(line, Dialect::Posix), words());
    assert_eq!(theirs("sh", line), words());
}

proptest! {
    #![proptest_config(support::proptest_config(300))]

    #[test]
    fn words_are_those_of_a_small_shell(words in r#"[ab é'"\\\n ={}!%^+,.:@/-]{0,16}"#) {
        agree(&words, Dialect::Posix, "dash")?;
    }

    #[test]
    fn words_are_those_of_bash(words in r#"[ab é'"\\\n =~{}!%^+,.:@/-]{0,16}"#) {
        agree(&words, Dialect::Bash, "bash")?;
    }

    #[test]
    fn words_in_dollar_quotes_are_those_of_bash(words in r#"[ab'"\\$xuU0-9a-fntce ]{0,16}"#) {
        agree(&words.replace('$', "$'"), Dialect::Bash, "bash")?;
    }
}
