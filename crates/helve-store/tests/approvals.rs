//! Several processes that add, use and revoke approvals at once, and processes that die while they do.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and print to their parent"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use helve_store::{ApprovalScope, Approvals, BoundScript, Home, NewApproval, Trust, Within};
use pretty_assertions::assert_eq;

const HOME: &str = "HELVE_STORE_TEST_HOME";
const COUNT: &str = "HELVE_STORE_TEST_COUNT";

fn grant(pattern: String) -> NewApproval {
    NewApproval {
        pattern,
        tool: "exec".to_owned(),
        caller: "owner".to_owned(),
        rule: "guard.bare".to_owned(),
        reason: "it runs bare".to_owned(),
        within: Within::Nothing,
        scope: ApprovalScope::User,
        cwd: ".".to_owned(),
        scripts: vec![BoundScript { path: "x".repeat(3000), hash: "00".to_owned() }],
        expires_at_us: None,
        created_by: "test".to_owned(),
        call: "c_1".to_owned(),
        shown: String::new(),
    }
}

fn start_worker(home: &Path, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "worker_process", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test of its own: adds approvals, revokes every second one, and trusts files; prints each deed once it is done.
#[test]
#[ignore = "runs only as a child of the other tests"]
fn worker_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let count: u64 = std::env::var(COUNT).unwrap().parse().unwrap();
    let home = Home::open(Path::new(&home)).unwrap();
    let mut approvals = Approvals::open(&home).unwrap();
    let mut out = std::io::stdout();
    let pid = std::process::id();
    for number in 0..count {
        let kept = approvals.add(&grant(format!("{pid} {number}"))).unwrap();
        out.write_all(format!("\nadded {}\n", kept.id).as_bytes()).unwrap();
        if number % 2 == 0 {
            assert!(approvals.revoke(&kept.id).unwrap());
            out.write_all(format!("\nrevoked {}\n", kept.id).as_bytes()).unwrap();
        }
        if number % 5 == 0 {
            let path = format!("/w/{pid}/{number}");
            Trust::new(&home).trust(Path::new(&path), "x").unwrap();
            out.write_all(format!("\ntrusted {path}\n").as_bytes()).unwrap();
        }
    }
}

#[derive(Default)]
struct Deeds {
    added: BTreeSet<String>,
    revoked: BTreeSet<String>,
    trusted: BTreeSet<String>,
}

impl Deeds {
    fn note(&mut self, line: &str) -> bool {
        let Some((what, name)) = line.split_once(' ') else { return false };
        match what {
            "added" => self.added.insert(name.to_owned()),
            "revoked" => self.revoked.insert(name.to_owned()),
            "trusted" => self.trusted.insert(name.to_owned()),
            _ => false,
        }
    }

    /// Everything that was acknowledged is there, and nothing revoked holds.
    fn check(&self, home: &Home) {
        let approvals = Approvals::open(home).unwrap();
        let all: BTreeSet<String> = approvals.list(true).unwrap().into_iter().map(|row| row.id).collect();
        let holding: BTreeSet<String> =
            approvals.list(false).unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(self.added.difference(&all).collect::<Vec<_>>(), Vec::<&String>::new());
        assert_eq!(self.revoked.intersection(&holding).collect::<Vec<_>>(), Vec::<&String>::new());
        let trusted = Trust::new(home).list().unwrap();
        let trusted: BTreeSet<String> =
            trusted.into_iter().map(|file| file.path.to_str().unwrap().to_owned()).collect();
        assert_eq!(self.trusted.difference(&trusted).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}

#[test]
fn two_processes_work_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let mut deeds = Deeds::default();
    let mut children = [start_worker(dir.path(), 30), start_worker(dir.path(), 30)];
    for child in &mut children {
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            deeds.note(&line.unwrap());
        }
        assert!(child.wait().unwrap().success());
    }
    assert_eq!((deeds.added.len(), deeds.revoked.len(), deeds.trusted.len()), (60, 30, 12));
    let home = Home::open(dir.path()).unwrap();
    deeds.check(&home);
    assert_eq!(Approvals::open(&home).unwrap().list(false).unwrap().len(), 30);
}

#[test]
fn what_was_acknowledged_survives_kill() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let mut deeds = Deeds::default();
    for round in 0..20_usize {
        let mut child = start_worker(dir.path(), 1_000_000);
        let mut wanted = 1 + round * 3;
        // Reads on after the kill: what was printed before it must be there too.
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if deeds.note(&line) {
                wanted = wanted.saturating_sub(1);
            }
            if wanted == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        deeds.check(&home);
    }
    assert!(deeds.added.len() >= 20);
}
