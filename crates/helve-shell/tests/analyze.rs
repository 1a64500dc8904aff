//! What the analysis says about commands: a table of cases, and what must hold for any text.

#![allow(clippy::expect_used, reason = "a test fails loudly")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use helve_shell::analysis::{Analysis, Effect, RunKind, Setting, Target};
use helve_shell::tree::Dialect;
use helve_shell::{analyze, quote};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

fn bash() -> Setting<'static> {
    Setting {
        dialect: Dialect::Bash,
        directory: Path::new("/ws"),
        workspace: Path::new("/ws"),
        home: Some(Path::new("/home/me")),
    }
}

/// Programs with their wrappers in front; `()` marks a function, `?` a name that is not known.
fn programs(analysis: &Analysis) -> Vec<String> {
    let shown = analysis.runs.iter().map(|run| {
        let mut parts = run.via.clone();
        parts.push(run.program.clone().unwrap_or_else(|| "?".to_owned()));
        let function = if run.kind == RunKind::Function { "()" } else { "" };
        format!("{}{function}", parts.join(">"))
    });
    shown.collect()
}

fn effect(effect: &Effect) -> String {
    let kind = serde_json::to_value(effect.kind).expect("a kind is a word");
    let kind = kind.as_str().expect("a kind is a word");
    match &effect.target {
        Target::Path { path, .. } => format!("{kind} {}", path.display()),
        Target::Glob { under, pattern, .. } => format!("{kind} {} {pattern}", under.display()),
        Target::Unknown => format!("{kind} ?"),
        Target::Host(host) => format!("{kind} {host}"),
        Target::Machine => format!("{kind} machine"),
    }
}

fn opaque(analysis: &Analysis) -> Vec<String> {
    let reasons = analysis.opaque.iter().map(|opaque| match serde_json::to_value(opaque.reason) {
        Ok(Value::String(reason)) => reason,
        Ok(Value::Object(reason)) => reason.keys().next().cloned().unwrap_or_default(),
        other => format!("{other:?}"),
    });
    reasons.collect()
}

#[test]
fn cases_are_understood_as_written() {
    let rows = support::rows(include_str!("cases/analyze.jsonl"));
    assert!(rows.len() > 400, "only {} rows", rows.len());
    for row in rows {
        let command = row["run"].as_str().expect("run is text");
        let analysis = analyze(command, &bash());
        let effects: Vec<String> = analysis.effects.iter().map(effect).collect();
        let got = json!({
            "run": command,
            "programs": programs(&analysis),
            "effects": effects,
            "opaque": opaque(&analysis),
        });
        assert_eq!(got, row, "in {command}");
    }
}

/// Each row names a program and the stretch of the source that its run must point at.
#[test]
fn runs_point_at_their_own_command() {
    for row in support::rows(include_str!("cases/analyze_spans.jsonl")) {
        let command = row["run"].as_str().expect("run is text");
        let analysis = analyze(command, &bash());
        for (program, expected) in row["spans"].as_object().expect("spans is an object") {
            let found: Vec<&str> = analysis
                .runs
                .iter()
                .filter(|run| run.program.as_deref() == Some(program))
                .map(|run| &command[run.span.range()])
                .collect();
            assert_eq!(json!(found), *expected, "{program} in {command}");
        }
        if let Some(expected) = row["effects"].as_object() {
            for (kind, expected) in expected {
                let found: Vec<&str> = analysis
                    .effects
                    .iter()
                    .filter(|found| effect(found).split(' ').next() == Some(kind))
                    .map(|found| &command[found.span.range()])
                    .collect();
                assert_eq!(json!(found), *expected, "{kind} in {command}");
            }
        }
    }
}

/// What holds for the result of any text.
fn check_sound(text: &str, dialect: Dialect) -> Analysis {
    let setting = Setting { dialect, home: None, ..bash() };
    let analysis = analyze(text, &setting);
    for run in &analysis.runs {
        assert!(text.get(run.span.range()).is_some(), "run outside the text: {run:?} in {text:?}");
        for arg in &run.argv {
            assert!(text.get(arg.span.range()).is_some(), "argument outside the text: {arg:?} in {text:?}");
        }
    }
    let possible = analysis.possible.iter().map(|possible| &possible.effect);
    for effect in analysis.effects.iter().chain(possible) {
        assert!(text.get(effect.span.range()).is_some(), "effect outside the text: {effect:?} in {text:?}");
        assert!(
            effect.run.is_none_or(|run| run < analysis.runs.len()),
            "no such run: {effect:?} in {text:?}"
        );
    }
    for opaque in &analysis.opaque {
        assert!(text.get(opaque.span.range()).is_some(), "mark outside the text: {opaque:?} in {text:?}");
    }
    let starts: Vec<usize> = analysis.runs.iter().map(|run| run.span.start).collect();
    assert!(starts.is_sorted(), "runs out of order in {text:?}");
    analysis
}

/// Texts that a shell has something to do with: words, operators and quotes in any order.
fn shell_like() -> impl Strategy<Value = String> {
    let tokens = vec![
        "rm",
        "-rf",
        "x",
        "$x",
        "${x:-y}",
        "$(",
        ")",
        "`",
        "\"",
        "'",
        ";",
        "&&",
        "||",
        "|",
        "&",
        ">",
        "<",
        "<<<",
        "<(",
        "{",
        "}",
        "(",
        "((",
        "))",
        "if",
        "then",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "while",
        "case",
        "esac",
        "f()",
        "f",
        "eval",
        "sh -c",
        "cd",
        "..",
        "/",
        "~",
        "*",
        "[a]",
        "x=",
        "a=(",
        "a[0]=",
        "$((",
        "{a,b}",
        "{1..3}",
        "\n",
        " ",
        "<<E\n",
        "\nE\n",
        "read",
        "set --",
        "$@",
        "${!x}",
        "${x//a/b}",
        "${x:1:2}",
        "trap",
        "alias a=b",
        "a",
        "é",
        "xargs",
        "echo",
        "base64 -d",
        "export",
        "declare -n",
        "unset",
        "local",
        "return",
        "break",
        "source",
        "exec",
        "[[",
        "]]",
    ];
    proptest::collection::vec(proptest::sample::select(tokens), 0..24).prop_map(|tokens| tokens.join(" "))
}

/// Simple commands with an effect, for wrapping.
fn plain_command() -> impl Strategy<Value = (String, String)> {
    let names = proptest::sample::select(vec!["rm", "touch", "cat", "mkdir", "rmdir", "tee", "cp", "mv"]);
    let operand = proptest::sample::select(vec!["x", "a/b", "../y", "/out/z", "*.txt", "-r", "-f"]);
    (names, proptest::collection::vec(operand, 1..4))
        .prop_map(|(name, operands)| (name.to_owned(), operands.join(" ")))
}

fn effects_of(analysis: &Analysis) -> BTreeSet<String> {
    analysis.effects.iter().map(effect).collect()
}

fn names_of(analysis: &Analysis) -> BTreeSet<String> {
    analysis.runs.iter().filter_map(|run| run.program.clone()).collect()
}

proptest! {
    #![proptest_config(support::proptest_config(256))]

    #[test]
    fn any_text_is_analyzed(text in any::<String>()) {
        check_sound(&text, Dialect::Bash);
        check_sound(&text, Dialect::Posix);
    }

    #[test]
    fn anything_like_a_script_is_analyzed(text in shell_like()) {
        check_sound(&text, Dialect::Bash);
        check_sound(&text, Dialect::Posix);
    }

    /// Quotes, escapes and wrappers hide nothing.
    #[test]
    fn wrapping_loses_nothing((name, operands) in plain_command(), wrapper in 0..19_usize) {
        let plain = format!("{name} {operands}");
        let (first, rest) = name.split_at(1);
        let wrapped = match wrapper {
            0 => format!("{first}''{rest} {operands}"),
            1 => format!("{first}\"\"{rest} {operands}"),
            2 => format!("\\{name} {operands}"),
            3 => format!("'{name}' {operands}"),
            4 => format!("command {plain}"),
            5 => format!("env {plain}"),
            6 => format!("sh -c {}", quote(&plain)),
            7 => format!("eval {}", quote(&plain)),
            8 => format!("{{ {plain}; }}"),
            9 => format!("( {plain} )"),
            10 => format!("if true; then {plain}; fi"),
            11 => format!("c={name}; $c {operands}"),
            12 => format!("$(echo {name}) {operands}"),
            13 => format!("echo {} | sh", quote(&plain)),
            14 => format!("f() {{ {plain}; }}; f"),
            15 => format!("/usr/bin/{name} {operands}"),
            16 => format!("while {plain}; do break; done"),
            17 => format!("bash <<'END'\n{plain}\nEND\n"),
            _ => format!("timeout 5 nice {plain} &"),
        };
        let (before, after) = (analyze(&plain, &bash()), analyze(&wrapped, &bash()));
        prop_assert!(names_of(&before).is_subset(&names_of(&after)), "{wrapped}: {:?}", names_of(&after));
        prop_assert!(effects_of(&before).is_subset(&effects_of(&after)), "{wrapped}: {:?}", effects_of(&after));
    }
}

/// Texts that grow when they are followed, and texts that are deep: the analysis ends, and says that it gave up.
#[test]
fn hostile_texts_end() {
    let nested =
        |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(38), close.repeat(38));
    let doubling: String =
        (0..30).map(|i| format!("f{i}() {{ f{next}; f{next}; }};", next = i + 1)).collect();
    let mut quoted = "rm x".to_owned();
    for _ in 0..10 {
        quoted = format!("sh -c {}", quote(&quoted));
    }
    let texts = [
        format!("{doubling} f0"),
        quoted,
        "x='eval \"$x$x\"; eval \"$x$x\"'; eval \"$x\"".to_owned(),
        nested("for i in 1 2 3 4; do ", "b=$b$c", "; done"),
        "declare -n r='a[r=1]'; r=2".to_owned(),
        "declare -n r='a[r]'; echo $r".to_owned(),
        format!("set -- {}; {}", "a ".repeat(20_000), "getopts a o;".repeat(2_000)),
    ];
    for text in texts {
        let analysis = check_sound(&text, Dialect::Bash);
        assert!(opaque(&analysis).contains(&"too_complex".to_owned()), "{text:.80}");
    }
}

/// Long and deep texts need no more stack than a thread has, and no more than linear time.
#[test]
fn long_texts_are_followed_in_a_small_stack() {
    let long = 128 << 10;
    let fill = |unit: &str| unit.repeat(long / unit.len());
    let nested =
        |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(38), close.repeat(38));
    let chain: String = (0..60).map(|i| format!("x{i}=x{};", i + 1)).collect();
    let deep = nested("if a; then ", &format!("eval {}", quote(&nested("( ", "a", " )"))), "; fi");
    let texts = [
        fill("a;"),
        fill("a&"),
        fill("x=1||y=2&&"),
        fill("cd a&&"),
        fill("{a,b}"),
        fill("a+=xxxxxxxx;"),
        fill("f(){ x;};f;"),
        fill("$(a)"),
        fill("((a[b]++));"),
        fill("export a=b;ls;"),
        format!("a=xxxxxxxxxx; {}", fill("a=$a$a;")),
        format!("if a; then x=1;y=1; else x=2;y=2; fi; {}", fill("$x $y;")),
        nested("$(", "a", ")"),
        nested("( ", "a", " )"),
        nested("${x:-", "a", "}"),
        nested("f(){ ", "a", "; }; f"),
        format!("declare -n r='a[r=1]';{}", fill("r=2;: $r;")),
        format!("{chain}x60=r;declare -n r='a[x0+(x0=1)]';{}", fill("r=2;: $r;")),
        deep,
    ];
    let follow = move || {
        for text in &texts {
            let text: String = text.chars().take(long).collect();
            check_sound(&text, Dialect::Bash);
        }
    };
    thread::Builder::new().stack_size(2 << 20).spawn(follow).expect("a thread").join().expect("no panic");
}
