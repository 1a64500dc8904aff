//! The guard on a table of commands: `tests/cases/guard.jsonl`, one case a line.
//!
//! `command`, `verdict` and `rule`; where they matter, `policy` (the text of a `helve.toml`) and `working_dir`. The
//! workspace is `/home/user/project` everywhere; nothing is looked up on the disk.

use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    verdict: Verdict,
    rule: String,
    #[serde(default)]
    policy: String,
    working_dir: Option<String>,
}

const WORKSPACE: &str = "/home/user/project";

fn cases() -> serde_json::Result<Vec<Case>> {
    let lines = include_str!("cases/guard.jsonl").lines();
    lines.map(serde_json::from_str).collect()
}

fn command(case: &Case) -> CommandUse {
    CommandUse { command: case.command.clone(), working_dir: case.working_dir.clone() }
}

#[test]
fn every_case_gets_its_verdict_by_its_rule() {
    let mut wrong = Vec::new();
    for case in cases().unwrap() {
        let policy = Policy::from_toml(&case.policy).unwrap();
        let decision = policy.check(&command(&case), Path::new(WORKSPACE));
        if (decision.verdict, &decision.rule) != (case.verdict, &case.rule) {
            wrong.push(format!("{:?} under {:?}: {decision:?}", case.command, case.policy));
        }
        if let Some((start, end)) = decision.span {
            assert!(case.command.get(start..end).is_some(), "{:?}: {decision:?}", case.command);
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a refusal offers is true: with the offered lines the same command is no longer refused by that rule.
#[test]
fn every_grant_lifts_the_rule_that_offered_it() {
    let mut tried = 0;
    for case in cases().unwrap() {
        let policy = Policy::from_toml(&case.policy).unwrap();
        let decision = policy.check(&command(&case), Path::new(WORKSPACE));
        let Some(grant) = decision.grant else { continue };
        let granted: Vec<&str> = grant.lines().filter_map(|line| line.split(" = ").next()).collect();
        let kept = case.policy.lines().filter(|line| !granted.iter().any(|key| line.starts_with(key)));
        let text = format!("{}\n{grant}", kept.collect::<Vec<_>>().join("\n"));
        let after = Policy::from_toml(&text).unwrap().check(&command(&case), Path::new(WORKSPACE));
        assert_ne!(
            (after.verdict, &after.rule),
            (decision.verdict, &decision.rule),
            "{:?} with {grant}",
            case.command
        );
        tried += 1;
    }
    assert!(tried > 100, "only {tried} cases offered a grant");
}

/// Hostile texts near the longest that is read.
#[test]
fn judging_takes_linear_time() {
    let policy =
        Policy::from_toml("tools.restrict_to_workspace = true\ntools.exec.allow_patterns = [\"(a|b)*c\"]");
    let policies = [Policy::builtin(), policy.unwrap()];
    for unit in [
        "(",
        "$(",
        "`",
        "'",
        "\"",
        "sudo ",
        "sudo sudo rm -rf x;",
        "find -exec ",
        "sh -c ",
        "eval ",
        "f(){ f|f& };",
        "{ ",
        "cp cp ",
        "../",
        "<<E ",
        "env -S ",
        "a=b ",
        "xargs -I ",
        "\\\n",
        "cd ..;",
        "echo x|sh;",
        "sh -c 'sh -c ",
    ] {
        let text = unit.repeat(60_000 / unit.len());
        for policy in &policies {
            let start = std::time::Instant::now();
            policy.check_text(&text, Path::new(WORKSPACE));
            assert!(start.elapsed().as_secs_f64() < 2.0, "{unit:?} took {:?}", start.elapsed());
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z'\"`$(){}|&;<>\\\\ \n/.~=-]{0,60}") {
        let decision = Policy::builtin().check_text(&text, Path::new(WORKSPACE));
        helve_policy::blocked_message(&decision, &text);
    }
}
