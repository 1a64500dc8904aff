//! A world for one test: a workspace, a state directory, a user's home and configuration, all temporary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Options under which commands run bare, so that a test does not depend on an installed sandbox.
pub(crate) const BARE: [&str; 4] = ["--set", "sandbox=none", "--set", "auto_approve=true"];

/// The session of tests that look into its directory. The default is the date, which changes in the middle of a test
/// that runs at midnight.
pub(crate) const SESSION: &str = "noted";

pub(crate) struct World {
    dir: tempfile::TempDir,
}

/// What a process left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Exit code and standard output; standard error must be empty.
    pub(crate) fn quiet(self) -> (Option<i32>, String) {
        assert_eq!(self.stderr, "", "{}", self.stdout);
        (self.code, self.stdout)
    }

    /// The one line of JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Every line as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["workspace", "user", "config"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        World { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    /// The user's configuration file, with this text.
    pub(crate) fn configure(&self, text: &str) -> PathBuf {
        let file = self.path("config/helve/helve.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }

    pub(crate) fn helve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helve"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("HELVE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.helve(args).output().unwrap().into()
    }

    /// Fails if it does not end.
    pub(crate) fn run_in_time(&self, args: &[&str]) -> Ended {
        let mut child = self.helve(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
                panic!("helve {args:?} does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().unwrap().into()
    }

    /// With these options before the arguments.
    pub(crate) fn run_with(&self, options: &[&str], args: &[&str]) -> Ended {
        self.run(&[options, args].concat())
    }

    /// With this text on standard input.
    pub(crate) fn feed(&self, args: &[&str], input: impl Into<Vec<u8>>) -> Ended {
        let input = input.into();
        let mut child = self
            .helve(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A process that ends early does not read it all.
        let feeder = std::thread::spawn(move || drop(pipe.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        output.into()
    }

    /// The directory of [`SESSION`], which must be the only one.
    pub(crate) fn session(&self) -> PathBuf {
        let sessions = std::fs::read_dir(self.path("state/sessions")).unwrap();
        let names: Vec<_> = sessions.map(|session| session.unwrap().file_name()).collect();
        assert_eq!(names, [SESSION], "record with --session");
        self.path("state/sessions").join(SESSION)
    }

    /// The journal of [`SESSION`].
    pub(crate) fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.session().join("journal.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a file holds a text.
pub(crate) fn wait_for_text(file: &Path, text: &str) {
    wait_until(text, || std::fs::read_to_string(file).is_ok_and(|held| held.contains(text)));
}
