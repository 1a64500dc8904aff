//! How much memory the calls take: the peak of a child that does nothing else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::tree::{PATTERN, large_file};
use super::{Library, Measured, Place, change};
use crate::report::{Promise, Row};

pub(super) fn measure(place: &Place) -> Measured<Row> {
    let workspace = place.workspace();
    std::fs::write(workspace.join("edited"), large_file())?;
    let output = Command::new(std::env::current_exe()?)
        .arg("files-memory")
        .args([&workspace, &place.root.path().join("memory")])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let kib: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
    Ok(Row {
        name: "peak memory of all of these calls".into(),
        subject: Duration::ZERO,
        reference: None,
        promise: Promise::Mib(64.0),
        mib: Some(kib / 1024.0),
    })
}

/// Does the calls and prints the peak of this process's memory in KiB.
#[expect(clippy::print_stdout, reason = "the answer to the process that started this one")]
pub(super) fn child(workspace: &Path, state: &Path) -> Measured<()> {
    let library = Library::new(workspace, state)?;
    library.call("grep", &json!({"pattern": PATTERN, "limit": 0}))?;
    library.call("grep", &json!({"pattern": "e", "limit": 0, "context": 5}))?;
    library.call("everything", &json!({}))?;
    library.call("glob", &json!({"pattern": "*", "limit": 10_000, "long": true}))?;
    for (exact, back) in [(true, false), (true, true), (false, false), (false, true)] {
        library.call("edit_file", &change::toggle(exact, back))?;
    }
    library.any_call("edit_file", &change::missed());
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak is known")?;
    println!("{}", peak.trim().trim_end_matches("kB").trim());
    Ok(())
}
