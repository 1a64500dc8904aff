//! The program `helve`, end to end: policy, guard, journal and all.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::Measured;
use super::calls::spawned;
use super::turns::{Answer, Contender, Proof};

/// As the probe of the other contenders, without variables from outside, because `exec` gives none.
const PROBE: &str =
    "n=/pro;exec 9<${n}c/self/ns/pid;mapfile -t a<${n}c/self/fdinfo/9;echo @TOKEN@ $$ ${a[3]#ino:};true";

/// A state, a configuration and a workspace of its own.
struct Home {
    root: tempfile::TempDir,
    helve: PathBuf,
}

impl Home {
    fn new(helve: &Path) -> Measured<Home> {
        let root = tempfile::tempdir()?;
        std::fs::create_dir(root.path().join("workspace"))?;
        Ok(Home { root, helve: helve.to_owned() })
    }

    fn helve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.helve);
        command
            .args(args)
            .current_dir(self.root.path().join("workspace"))
            .env("HELVE_HOME", self.root.path().join("state"))
            .env("XDG_CONFIG_HOME", self.root.path().join("config"));
        command
    }
}

/// One process a call.
pub(crate) fn call(helve: &Path, name: &'static str) -> Measured<Contender<'static>> {
    let home = Home::new(helve)?;
    let call = move |token: &str| {
        let args = json!({"command": PROBE.replace("@TOKEN@", token)}).to_string();
        spawned(&mut home.helve(&["call", "exec", &args]))
    };
    Ok(Contender { name, proof: Proof::Fresh, call: Box::new(call) })
}

/// A `helve batch` that runs on.
struct Batch {
    child: Child,
    calls: Option<ChildStdin>,
    results: BufReader<ChildStdout>,
    _home: Home,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.calls.take());
        drop(self.child.wait());
    }
}

/// One line a call, in a process that runs on.
pub(crate) fn batch(helve: &Path, name: &'static str) -> Measured<Contender<'static>> {
    let home = Home::new(helve)?;
    let mut child = home.helve(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let results = BufReader::new(child.stdout.take().ok_or("no standard output")?);
    let calls = child.stdin.take();
    let mut batch = Batch { child, calls, results, _home: home };
    let call = move |token: &str| {
        let line =
            json!({"tool": "exec", "args": {"command": PROBE.replace("@TOKEN@", token)}}).to_string() + "\n";
        let start = Instant::now();
        batch.calls.as_mut().ok_or("the batch is over")?.write_all(line.as_bytes())?;
        let mut result = String::new();
        batch.results.read_line(&mut result)?;
        let took = start.elapsed();
        let result: Value = serde_json::from_str(&result)?;
        if result["ok"] != true {
            return Err(format!("helve batch: {result}").into());
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        Ok(Answer { took, stdout: text.as_bytes().to_vec() })
    };
    Ok(Contender { name, proof: Proof::Fresh, call: Box::new(call) })
}
