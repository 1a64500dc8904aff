//! The guard on collections of commands under the default policy, in a sandbox.
//!
//! | file | what it holds |
//! |---|---|
//! | `cases/everyday.txt`, `cases/everyday.jsonl` | everyday commands, a line each, and JSON strings for those of several lines: all allowed |
//! | `cases/families.jsonl` | every destructive family in every spelling, each with the text that must be marked, and harmless neighbours |
//! | `cases/labels.jsonl` | a verdict for each line of a sample of a collection that is not part of the project |
//!
//! The workspace is `/home/user/project`; nothing is looked up on the disk.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use helve_shell::analysis::OpaqueReason;
use serde::Deserialize;

const WORKSPACE: &str = "/home/user/project";

fn verdict(command: &str) -> (Verdict, String, Option<String>) {
    let decision = Policy::builtin().check_text(command, Path::new(WORKSPACE));
    let marked = decision.span.and_then(|(start, end)| command.get(start..end)).map(str::to_owned);
    (decision.verdict, decision.rule, marked)
}

/// The bound on work is for hostile texts: a long script of ordinary commands is followed to its end.
#[test]
fn a_long_script_of_everyday_commands_is_not_too_complex() {
    let script: String =
        include_str!("cases/everyday.txt").lines().map(|line| format!("( {line}\n)\n")).collect();
    assert!(script.len() > 20_000, "{}", script.len());
    let judgement = Policy::builtin().judge(
        &CommandUse { command: script, working_dir: None },
        Path::new(WORKSPACE),
        true,
    );
    let complex = judgement.analysis.opaque.iter().find(|part| part.reason == OpaqueReason::TooComplex);
    assert_eq!(complex, None);
}

#[test]
fn everyday_commands_are_allowed() {
    let lines = include_str!("cases/everyday.txt").lines().map(str::to_owned);
    let texts = include_str!("cases/everyday.jsonl").lines().map(|line| serde_json::from_str(line).unwrap());
    let commands: Vec<String> = lines.chain(texts).collect();
    assert!(commands.len() >= 600, "only {}", commands.len());
    let wrong: Vec<String> = commands
        .iter()
        .map(|command| (command, verdict(command)))
        .filter(|(_, (verdict, ..))| *verdict != Verdict::Allow)
        .map(|(command, found)| format!("{command:?}: {found:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), commands.len(), wrong.join("\n"));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    command: String,
    verdict: Verdict,
    rule: String,
    /// The text that the decision marks.
    span: Option<String>,
}

fn families() -> Vec<Family> {
    include_str!("cases/families.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_family_is_refused_in_every_spelling_and_its_neighbours_are_not() {
    let cases = families();
    let denied = cases.iter().filter(|case| case.verdict == Verdict::Deny).count();
    assert!(denied >= 300 && cases.len() - denied >= 150, "{denied} of {}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let (verdict, rule, marked) = verdict(&case.command);
        let span_is_wrong = case.span.is_some() && case.span != marked;
        if verdict != case.verdict || rule != case.rule || span_is_wrong {
            wrong.push(format!(
                "{:?}: {verdict:?} {rule} {marked:?}, not {:?} {} {:?}",
                case.command, case.verdict, case.rule, case.span
            ));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A decision about a chain points at its part.
#[test]
fn no_refusal_of_a_chain_marks_all_of_it() {
    for case in families().into_iter().filter(|case| case.verdict == Verdict::Deny) {
        for chain in [format!("true; {}", case.command), format!("{}\ntrue", case.command)] {
            let decision = Policy::builtin().check_text(&chain, Path::new(WORKSPACE));
            if decision.verdict == Verdict::Deny {
                let (start, end) = decision.span.unwrap_or((0, chain.len()));
                assert!(end - start < chain.trim().len(), "{chain:?}: {decision:?}");
            }
        }
    }
}

/// xorshift64 with the shifts 13, 7, 17, from a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The first steps of a Fisher-Yates shuffle of the numbers of all lines, counted from 1 and sorted.
fn sample(lines: usize, size: usize) -> Vec<usize> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut order: Vec<usize> = (1..=lines).collect();
    for at in 0..size {
        let other = at + usize::try_from(random.next() % (lines - at) as u64).unwrap();
        order.swap(at, other);
    }
    order.truncate(size);
    order.sort_unstable();
    order
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    line: usize,
    verdict: Verdict,
}

#[test]
fn at_most_one_in_a_hundred_real_commands_is_decided_wrongly() {
    let Some(data) = std::env::var_os("HELVE_SHARED_DATA") else {
        eprintln!("skipped: HELVE_SHARED_DATA does not say where commands.txt is");
        return;
    };
    let text = std::fs::read_to_string(Path::new(&data).join("commands.txt")).unwrap();
    let commands: Vec<&str> = text.lines().collect();
    let labels: Vec<Label> =
        include_str!("cases/labels.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let labels: BTreeMap<usize, Verdict> =
        labels.into_iter().map(|label| (label.line, label.verdict)).collect();
    assert_eq!(labels.keys().copied().collect::<Vec<_>>(), sample(commands.len(), 1000));
    let policy = Policy::builtin();
    let mut wrong = Vec::new();
    for (line, expected) in &labels {
        let command = commands[line - 1];
        let decision = policy.check_text(command, Path::new(WORKSPACE));
        if decision.verdict != *expected {
            wrong.push(format!("line {line}: {:?} by {}, not {expected:?}", decision.verdict, decision.rule));
        }
    }
    eprintln!("{} of {} decided wrongly\n{}", wrong.len(), labels.len(), wrong.join("\n"));
    assert!(wrong.len() * 100 <= labels.len());
}
