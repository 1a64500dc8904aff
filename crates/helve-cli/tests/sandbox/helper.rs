//! The helper process that `helve` forks from its own beginning: nothing of what that process had is left in it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;

use super::{backends, helve};
use crate::support::Place;

const NAME: &str = "helve-sandbox-zygote";

/// The helper of a running `helve`.
fn helper(of: &Child) -> PathBuf {
    let tasks = fs::read_dir(format!("/proc/{}/task", of.id())).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    Path::new("/proc").join(&children[0])
}

/// What its descriptors lead to.
fn descriptors(process: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.join("fd")).unwrap().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

#[test]
fn a_forked_helper_has_forgotten_arguments_environment_and_streams() {
    if !backends().contains(&"native") {
        return;
    }
    let place = Place::new();
    let mut command = helve(&place, "native", &[], &["sh", "-c", "echo on; read -r line"]);
    command.env("HELVE_TEST_SECRET", "0f9c-of-the-owner").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "on\n");
    let helper = helper(&child);
    let arguments = fs::read(helper.join("cmdline")).unwrap();
    let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).filter(|text| !text.is_empty()).collect();
    assert_eq!(arguments, [NAME.as_bytes()]);
    if rustix::process::geteuid().is_root() {
        let environment = fs::read(helper.join("environ")).unwrap();
        assert!(environment.iter().all(|byte| *byte == 0), "{environment:?}");
        // The streams themselves went to the member with the order, and not to stay.
        let kept = descriptors(&helper);
        assert!(kept.iter().all(|kept| !kept.display().to_string().starts_with("pipe:")), "{kept:?}");
    } else {
        println!("skipped: only root can look at the helper's environment and descriptors");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().code().is_some());
    // It hears that its maker has gone, and goes too.
    let gone = || fs::read(helper.join("cmdline")).map_or(true, |arguments| arguments.is_empty());
    let patience = Instant::now() + Duration::from_secs(5);
    while !gone() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "the helper outlives its maker");
}
