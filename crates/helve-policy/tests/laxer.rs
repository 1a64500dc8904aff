//! Dressing a command up never makes the decision about it laxer.
//!
//! Every simple command of the collections is put behind wrappers, inside control structures and quoted in other ways;
//! under each policy the verdict is at least as strict as for the plain command.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::{Judgement, Policy};
use helve_shell::analysis::OpaqueReason;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    command: String,
}

/// Simple commands that start with the plain name of a program.
fn commands() -> Vec<String> {
    let files = [include_str!("cases/families.jsonl"), include_str!("cases/p0.jsonl")];
    let cases = files.iter().flat_map(|file| file.lines());
    let commands = cases.map(|line| serde_json::from_str::<Case>(line).unwrap().command);
    commands
        .chain(include_str!("cases/everyday.txt").lines().map(str::to_owned))
        .filter(|command| is_simple(command))
        .collect()
}

/// Words of the shell itself mean something else behind a wrapper or in quotes.
const OF_THE_SHELL: &[&str] = &[
    "alias", "bind", "break", "builtin", "case", "cd", "command", "coproc", "declare", "enable", "eval",
    "exec", "exit", "export", "for", "function", "hash", "help", "history", "if", "let", "mapfile", "popd",
    "pushd", "read", "select", "set", "shopt", "source", "time", "trap", "type", "ulimit", "unset", "until",
    "wait", "while",
];

fn is_simple(command: &str) -> bool {
    let name = command.split(' ').next().unwrap_or_default();
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.' || byte == b'-')
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !OF_THE_SHELL.contains(&name)
        && !command.contains([
            '\n', ';', '|', '&', '<', '>', '(', ')', '{', '}', '`', '#', '\\', '!', '$', '~', '*', '?', '[',
        ])
}

/// Structures around any command. `{}` stands for the command, `{'}` for it as one quoted word.
const AROUND: &[&str] = &[
    "{}; true",
    "true && {}",
    "false || {}",
    "true | {}",
    "{} & wait",
    "( {} )",
    "{ {}; }",
    "! {}",
    "time {}",
    "if true; then {}; fi",
    "if {}; then true; fi",
    "while true; do {}; break; done",
    "for x in 1; do {}; done",
    "case x in x) {};; esac",
    "f() { {}; }; f",
    "echo $( {} )",
    "echo \"$( {} )\"",
    "cat <( {} )",
    "x=$( {} )",
    "{} 2>&1",
    "{} > /dev/null",
    "sh -c {'}",
    "bash -c {'}",
    "eval {'}",
    "bash <<< {'}",
    "echo {'} | sh",
    "sudo sh -c {'}",
    "env bash -c {'}",
    "trap {'} EXIT",
    "source <(echo {'})",
    "y={'}; eval \"$y\"",
    "y={'}; bash -c \"$y\"",
];

/// What stands only before the name of a program.
const BEFORE: &[&str] = &[
    "LC_ALL=C",
    "command",
    "exec",
    "env",
    "env A=1",
    "nice",
    "nohup",
    "setsid",
    "timeout 5",
    "stdbuf -o0",
    "sudo",
    "busybox",
];

/// The name of the program written in other ways.
fn respelled(command: &str, way: usize, at: usize) -> String {
    let (name, rest) = command.split_at(command.find(' ').unwrap_or(command.len()));
    let cut = 1 + at % name.len();
    let (first, last) = name.split_at(cut.min(name.len()));
    match way {
        0 => command.to_owned(),
        1 => format!("'{name}'{rest}"),
        2 => format!("\"{name}\"{rest}"),
        3 => format!("{first}''{last}{rest}"),
        4 => format!("{first}\"\"{last}{rest}"),
        5 => format!("\\{name}{rest}"),
        6 => format!("$'{name}'{rest}"),
        7 => format!("{first}\\\n{last}{rest}"),
        8 => format!("$(echo {name}){rest}"),
        9 => format!("${{unset_name:-{name}}}{rest}"),
        _ => format!("n={name}; $n{rest}"),
    }
}

/// How many ways there are to write the name where it stands.
const WAYS: usize = 10;

fn judge(policy: &Policy, command: &str, contained: bool) -> Judgement {
    let command = CommandUse { command: command.to_owned(), working_dir: None };
    policy.judge(&command, Path::new("/home/user/project"), contained)
}

fn policies() -> Vec<(Policy, bool)> {
    let list = "[[rules]]\nverdict = \"allow\"\ncommand = [\"{echo,cat,ls,grep,find,sed,sort,git,env,xargs,tar,make} *\"]";
    vec![
        (Policy::builtin(), true),
        (Policy::builtin(), false),
        (Policy::from_toml(list).unwrap(), true),
        (Policy::from_toml("profile = \"readonly\"").unwrap(), true),
        (Policy::from_toml("tools.exec.allow_patterns = [\"(cat|ls|rm|grep)( .*)?\"]").unwrap(), true),
        (Policy::from_toml("tools.restrict_to_workspace = true").unwrap(), true),
    ]
}

/// A text that no shell takes runs nothing, so that it may be judged as laxly as one likes.
fn check(policies: &[(Policy, bool)], plain: &str, dressed: &str) -> Result<(), TestCaseError> {
    for (index, (policy, contained)) in policies.iter().enumerate() {
        let before = judge(policy, plain, *contained).decision.verdict;
        let after = judge(policy, dressed, *contained);
        let faulty =
            after.analysis.opaque.iter().any(|opaque| matches!(opaque.reason, OpaqueReason::Unreadable(_)));
        let after = after.decision.verdict;
        prop_assert!(
            faulty || after >= before,
            "policy {index}: {plain:?} is {before:?}, {dressed:?} is {after:?}"
        );
    }
    Ok(())
}

fn dressed(dress: &str, command: &str) -> String {
    dress.replace("{'}", &helve_shell::quote(command)).replace("{}", command)
}

#[test]
fn every_dress_keeps_every_family() {
    let policies = policies();
    let commands: Vec<String> = commands();
    assert!(commands.len() > 300, "{}", commands.len());
    let denied = |command: &&String| judge(&policies[0].0, command, true).decision.verdict == Verdict::Deny;
    for command in commands.iter().filter(denied) {
        let around = AROUND.iter().map(|dress| dressed(dress, command));
        let before = BEFORE.iter().map(|wrapper| format!("{wrapper} {command}"));
        let spelled = (0..=WAYS).map(|way| respelled(command, way, 0));
        for dressed in around.chain(before).chain(spelled) {
            check(&policies[..1], command, &dressed).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_dress_makes_a_decision_laxer(
        pick in any::<prop::sample::Index>(),
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
        wrapper in any::<prop::sample::Index>(),
        way in 0..WAYS,
        at in 0usize..8,
    ) {
        let commands = commands();
        let plain = pick.get(&commands);
        let spelled = respelled(plain, way, at);
        let wrapped = format!("{} {spelled}", wrapper.get::<&str>(BEFORE));
        // The echo of some shells reads backslashes, so that it prints something else.
        let kept = if spelled.contains('\\') { plain } else { &wrapped };
        let once = dressed(first.get::<&str>(AROUND), kept);
        let twice = dressed(second.get::<&str>(AROUND), &once);
        // Behind a pipe `time` is a program, which knows nothing that only a shell does.
        let by_shell = ["LC_ALL=C ", "command ", "exec "].iter().any(|word| kept.starts_with(word));
        prop_assume!(!(by_shell && twice.contains("| time ")));
        let policies = policies();
        for dressed in [spelled, wrapped, once, twice] {
            check(&policies, plain, &dressed)?;
        }
    }
}
