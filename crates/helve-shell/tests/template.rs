//! Command wrappers: what reaches the wrapper, judged by a real shell and a stand-in that writes down its arguments.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use helve_shell::{RenderError, Template, TemplateError};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tempfile::TempDir;

/// Makes a program of each name.
const MAKE: &str = r#"mkdir bin && for name; do printf '%s' "$SCRIPT" > bin/$name; done && chmod 755 bin/*"#;

/// Writes its name and its arguments down.
const SCRIPT: &str = r#"#!/bin/sh
printf '%s\0' "${0##*/}" "$@" >> "$RECORD"
printf '\n\0' >> "$RECORD"
"#;

/// A directory with programs of the given names, each of which appends its name and arguments to a file.
struct Stage {
    directory: TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Stage { directory: tempfile::tempdir().unwrap() };
        // Another process writes them: a file that this one has open for writing could be inherited by a child of
        // another test, and then not be run.
        let status = Command::new("sh")
            .args(["-c", MAKE, "sh", "bwrap", "firejail", "nsjail", "wrap", "ssh", "su"])
            .env("SCRIPT", SCRIPT)
            .current_dir(stage.path())
            .status()
            .unwrap();
        assert!(status.success());
        fs::create_dir(stage.path().join("work")).unwrap();
        stage
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a line with `sh -c` and gives the calls that the stand-ins wrote down.
    fn run(&self, line: &str) -> Vec<Vec<String>> {
        assert!(self.try_run(line), "{line}");
        let mut calls = vec![Vec::new()];
        for argument in fs::read_to_string(self.path().join("record")).unwrap().split_terminator('\0') {
            match argument {
                "\n" => calls.push(Vec::new()),
                _ => calls.last_mut().unwrap().push(argument.to_owned()),
            }
        }
        calls.pop();
        calls
    }

    /// Runs a line with `sh -c`. Whether it succeeded.
    fn try_run(&self, line: &str) -> bool {
        self.try_run_with("sh", line)
    }

    fn try_run_with(&self, shell: &str, line: &str) -> bool {
        let record = self.path().join("record");
        fs::write(&record, "").unwrap();
        let path = format!("{}:/usr/bin:/bin", self.path().join("bin").display());
        let mut shell = Command::new(shell);
        shell.args(["-c", line]).env_clear().env("PATH", path).env("RECORD", &record);
        shell.current_dir(self.path().join("work")).output().unwrap().status.success()
    }

    /// The names of all files that the line left in its directory.
    fn litter(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path().join("work")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

#[test]
fn cases_reach_the_wrapper() {
    let stage = Stage::new();
    for row in support::rows(include_str!("cases/template.jsonl")) {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let template = Template::parse(&text("template")).unwrap();
        let line = match row["shell"].as_str() {
            Some(shell) => template.render_with_shell(&text("command"), &text("cwd"), shell),
            None => template.render(&text("command"), &text("cwd")),
        };
        let call: Vec<String> = row["argv"]
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| argument.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(stage.run(&line.unwrap()), [call], "{row}");
        assert_eq!(stage.litter(), [""; 0], "{row}");
    }
}

#[test]
fn raw_placeholders_are_plain_replacement() {
    let template = Template::parse("wrap \"{cwd:raw}\" $(echo {command:raw}) # {command:raw}").unwrap();
    assert_eq!(template.render("a && b", "/x").unwrap(), "wrap \"/x\" $(echo a && b) # a && b");
}

#[test]
fn escaped_and_other_braces_are_left_alone() {
    let template =
        Template::parse(r#"wrap \{cmd} "\{command}" {} {a,b} '{print}' ${x} {print $1} {command}"#).unwrap();
    let line = template.render("ls", "/").unwrap();
    assert_eq!(line, r#"wrap \{cmd} "\{command}" {} {a,b} '{print}' ${x} {print $1} sh -c ls"#);
}

#[test]
fn errors_say_what_to_change() {
    for row in support::rows(include_str!("cases/template_errors.jsonl")) {
        let template = row["template"].as_str().unwrap();
        let error = Template::parse(template).map(|template| format!("{template:?}")).unwrap_err();
        assert_eq!(error.to_string(), row["error"].as_str().unwrap(), "{template}");
    }
    let nul = Template::parse("wrap a\0 {command}").unwrap_err();
    assert!(matches!(nul, TemplateError::Unreadable(_)));
}

#[test]
fn nul_is_refused() {
    let template = Template::parse("wrap {cwd} {command}").unwrap();
    assert_eq!(template.render("a\0b", "/"), Err(RenderError::NulInCommand));
    assert_eq!(template.render("a", "/\0"), Err(RenderError::NulInPath));
    assert_eq!(template.render_with_shell("a", "/", "s\0h"), Err(RenderError::NulInPath));
}

fn has(shell: &str) -> bool {
    Command::new(shell).args(["-c", ":"]).status().is_ok_and(|status| status.success())
}

/// Text that would leave a mark if any shell but the wrapper's ran it.
fn commands() -> impl Strategy<Value = String> {
    let pieces = vec![
        "$(touch mark)",
        "`touch mark`",
        " && touch mark",
        "; touch mark",
        " | touch mark",
        "\ntouch mark\n",
        " & touch mark",
        "'",
        "\"",
        "\\",
        "$",
        "$HOME",
        "${x:-y}",
        "!",
        "é",
        "日本",
        " ",
        "\t",
        "a",
        "*",
        "~",
        "#",
        "{command}",
        "{cwd}",
        ">mark",
        "<<E",
        "-n",
        "(",
        ")",
        "%s",
        "\\n",
        "=",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

/// A jail around the command, among words and quotes of which many would have a second shell read it.
fn templates() -> impl Strategy<Value = String> {
    let before = vec![
        "",
        "sh -c ",
        "bash -lc ",
        "eval ",
        "ssh host ",
        "echo ",
        "printf ",
        "A={command}; ",
        "set -- {cwd}; ",
        "cd . && ",
        "su --command=",
        "sh <<< ",
        "env ",
        "f() { wrap; }; ",
        "wrap &> f ",
        "wrap $'it\\'s' ",
        "wrap <(true) ",
        "[[ x && {cwd} ]]; ",
        "(( 1 )) && ",
        "time ",
    ];
    let jail = vec!["wrap ", "wrap sh -c ", "wrap --dir {cwd} ", "wrap --dir={cwd} ", "wrap -- ", "wrap x"];
    let inner =
        vec!["{command}", "'{command}'", "\"{command}\"", "$A", "\"$A\"", "$1", "{cwd}", "\\ {command}"];
    let after = vec!["", " | cat", " | sh", "; true", " _", " {cwd}", " {command}", " > f; sh f"];
    let quotes = vec!["", "\"", "'"];
    let select = prop::sample::select::<&str>;
    (select(before), select(quotes), select(jail), select(inner), select(after))
        .prop_map(|(before, quote, jail, inner, after)| format!("{before}{quote}{jail}{inner}{quote}{after}"))
}

proptest! {
    #![proptest_config(support::proptest_config(60))]

    #[test]
    fn nothing_of_the_command_runs_outside(command in commands(), cwd in commands()) {
        let stage = Stage::new();
        let c = command.as_str();
        let d = cwd.as_str();
        let private = format!("--private={d}");
        let run = format!("--run={c}");
        let cases: [(&str, &[&str]); 9] = [
            ("wrap --bind {cwd} {cwd} -- sh -c \"{command}\"", &["wrap", "--bind", d, d, "--", "sh", "-c", c]),
            ("wrap --private={cwd} -- {command}", &["wrap", &private, "--", "sh", "-c", c]),
            ("wrap \"--private={cwd}\" sh -c '{command}'", &["wrap", &private, "sh", "-c", c]),
            ("wrap bash -lc {command} 2>&1", &["wrap", "bash", "-lc", c]),
            ("A={command}; wrap \"$A\"", &["wrap", c]),
            ("wrap --run={command}", &["wrap", &run]),
            ("true \"a'b\" && wrap \"--run=\"'{command}'", &["wrap", &run]),
            ("sh -c 'wrap \"$1\" sh -c \"$2\"' _ {cwd} \"{command}\"", &["wrap", d, "sh", "-c", c]),
            ("{ wrap {cwd} && ! wrap ; } >/dev/null || (wrap {command})", &[]),
        ];
        for (template, argv) in cases {
            let line = Template::parse(template).unwrap().render(c, d).unwrap();
            let calls = stage.run(&line);
            if argv.is_empty() {
                prop_assert_eq!(calls, vec![vec!["wrap", d], vec!["wrap"], vec!["wrap", "sh", "-c", c]]);
            } else {
                prop_assert_eq!(calls, vec![argv.to_vec()], "{}", template);
            }
            prop_assert_eq!(stage.litter(), Vec::<String>::new(), "{}", template);
        }
    }

    /// The stand-in runs nothing, so a mark means that another shell read a value. Any of these shells may be `sh`.
    #[test]
    fn accepted_template_lets_nothing_run_outside(template in templates(), command in commands(), cwd in commands()) {
        if let Ok(template) = Template::parse(&template) {
            let stage = Stage::new();
            for shell in ["sh", "dash", "bash"].into_iter().filter(|shell| has(shell)) {
                stage.try_run_with(shell, &template.render(&command, &cwd).unwrap());
                prop_assert!(!stage.litter().contains(&"mark".to_owned()), "{shell} {template:?}");
            }
        }
    }

    #[test]
    fn any_template_is_parsed_or_refused(text in r#"[ab{}:\\'"$()`<E \ncwdoman#-]{0,40}(\{command\})?"#) {
        if let Ok(template) = Template::parse(&text) {
            prop_assert!(template.render("x", "/").is_ok());
        }
    }
}
