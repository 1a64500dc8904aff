//! Rules on a table of commands, read as a shell reads them: `tests/cases/rules.jsonl`.
//!
//! A line is a set of rules, `{"set", "toml"}`, or a case under one, `{"under", "command", "verdict"}`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use helve_core::Verdict;
use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;
use serde::Deserialize;

use super::super::{Rules, Subject};
use crate::Policy;
use crate::config::layers::Sources;
use crate::view::Surroundings;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Set { set: String, toml: String },
    Case { under: String, command: String, verdict: Verdict },
}

const HOME: &str = "/home/user";
const WORKSPACE: &str = "/home/user/project";

/// The rules of a text, for a user whose home is known.
fn rules(text: &str) -> Rules {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("helve.toml");
    std::fs::write(&file, text).unwrap();
    let around = Surroundings { variables: BTreeMap::from([("HOME".to_owned(), HOME.to_owned())]) };
    let sources = Sources { user: Some(file), ..Sources::default() };
    Policy::load_around(&sources, around).unwrap().rules().clone()
}

fn verdict(rules: &Rules, command: &str) -> (Verdict, String) {
    let workspace = Path::new(WORKSPACE);
    let setting =
        Setting { dialect: Dialect::Bash, directory: workspace, workspace, home: Some(Path::new(HOME)) };
    let analysis = helve_shell::analyze(command, &setting);
    let found = rules.judge(&Subject {
        tool: "exec",
        text: command,
        analysis: &analysis,
        workspace,
        session: None,
        now: SystemTime::UNIX_EPOCH,
        contained: true,
    });
    for finding in found.iter() {
        assert!(command.get(finding.span.range()).is_some(), "{command:?}: {finding:?}");
    }
    found.strictest().map_or((Verdict::Allow, String::new()), |found| {
        (found.verdict, format!("{}: {}", found.rule, found.reason))
    })
}

#[test]
fn every_case_gets_its_verdict() {
    let mut sets = BTreeMap::new();
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for line in include_str!("../../../tests/cases/rules.jsonl").lines() {
        match serde_json::from_str(line).unwrap() {
            Line::Set { set, toml } => {
                sets.insert(set, rules(&toml));
            }
            Line::Case { under, command, verdict: expected } => {
                cases += 1;
                let (found, why) = verdict(&sets[&under], &command);
                if found != expected {
                    wrong.push(format!(
                        "{under}: {command:?}: expected {expected:?}, received {found:?} by {why}"
                    ));
                }
            }
        }
    }
    assert!(cases > 150, "only {cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
}
