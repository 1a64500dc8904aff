//! The official conformance suite on both sides of Helve, with what each revision of the protocol requires.
//!
//! Before clients it is the example `conformance_server`, which has the suite's fixtures as tools in a registry of Helve's own:
//! each call takes the pipeline and stands in a journal, which is looked at afterwards. Before servers it is `conformance_client`.
//! `cases/mcp_expected_failures.yaml` has what is not passed, each line with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pretty_assertions::assert_eq;

use crate::programs::Programs;
use crate::row::Row;
use crate::support::{Place, json_lines};

/// A program beside the one that is tested.
fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_helve")).with_file_name("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build -p helve --examples", path.display());
    path
}

/// What passed, in the suite's own words. Fails where something failed that is required and not expected to.
fn passes(suite: &mut Command, revision: &str) -> String {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/mcp_expected_failures.yaml");
    // More time than a scenario takes where all of them run at once on two processors.
    suite.args(["--requirements", revision, "--timeout", "120000", "--expected-failures"]).arg(expected);
    let output = suite.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let scenarios = |mark: &str| -> Vec<&str> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(mark)?.split_once(": "));
        lines.filter(|(_, counts)| counts.contains(" passed, ")).map(|(name, _)| name).collect()
    };
    let (passed, others) = (scenarios("✓ "), scenarios("✗ "));
    assert!(passed.len() > others.len(), "{said}");
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &others {
        *groups.entry(name.split(['-', '/']).next().unwrap_or_default()).or_default() += 1;
    }
    let groups: Vec<String> = groups.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let required = format!("{} scenarios passed", passed.len());
    match groups.is_empty() {
        true => required,
        false => format!("{required}, not required and not passed: {}", groups.join(", ")),
    }
}

/// The fixtures on an address; ends with this.
struct Fixtures(Child);

impl Fixtures {
    fn start(place: &Place) -> (Fixtures, String) {
        let mut command = Command::new(example("conformance_server"));
        command.env("PORT", "0").env("HELVE_HOME", place.home());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Fixtures(child), line.trim().to_owned())
    }
}

impl Drop for Fixtures {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The fixtures that were called, by the word of the journals.
fn recorded(place: &Place) -> BTreeSet<String> {
    let sessions = std::fs::read_dir(place.home().join("sessions")).unwrap().flatten();
    let journals = sessions.filter_map(|dir| std::fs::read_to_string(dir.path().join("journal.jsonl")).ok());
    let entries = journals.flat_map(|journal| json_lines(&journal));
    let outcomes = entries.filter(|entry| entry["type"] == "outcome");
    outcomes.filter_map(|entry| Some(entry["body"]["tool"].as_str()?.to_owned())).collect()
}

fn server(revision: &str, fixtures: usize) {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new(format!("conformance: server {revision}"));
    let place = Place::new();
    std::fs::create_dir(place.home()).unwrap();
    let (_fixtures, url) = Fixtures::start(&place);
    row.seen = passes(programs.conformance().args(["server", "--url", &url]), revision);
    let recorded = recorded(&place);
    assert!(recorded.len() >= fixtures, "{recorded:?}");
    let verified = place.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    row.seen += &format!("; {} fixtures in the journal", recorded.len());
}

fn client(revision: &str) {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new(format!("conformance: client {revision}"));
    let program = example("conformance_client");
    row.seen = passes(programs.conformance().arg("client").arg("--command").arg(program), revision);
}

#[test]
fn conformance_server_2025_11_25() {
    server("2025-11-25", 10);
}

#[test]
fn conformance_server_2026_07_28() {
    server("2026-07-28", 10);
}

#[test]
fn conformance_client_2025_11_25() {
    client("2025-11-25");
}

#[test]
fn conformance_client_2026_07_28() {
    client("2026-07-28");
}
