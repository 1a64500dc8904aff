//! What the tests of the binary share: a place of its own for each test, and calls as a program makes them.
//!
//! A [`Place`] has its own workspace, state, configuration and home below one temporary directory, and starts `helve`
//! with an environment that names nothing else, so that no test sees the machine's own settings or another test.

#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The session that a place records in.
pub(crate) const SESSION: &str = "tests";

/// Settings under which commands run bare and unasked.
pub(crate) const BARE: &[&str] = &["sandbox=none", "auto_approve=true"];

/// A temporary directory with everything that `helve` touches.
pub(crate) struct Place {
    dir: TempDir,
}

/// What `helve` did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `helve` with these arguments, which works.
#[track_caller]
pub(crate) fn good(place: &Place, args: &[&str]) -> Ran {
    let ran = place.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    ran
}

/// The same for a command that prints JSON.
#[track_caller]
pub(crate) fn json_of(place: &Place, args: &[&str]) -> Value {
    let ran = good(place, args);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// The result of one call in the wire format, and the exit code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) result: Value,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws", "user", "config/helve", "outside"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        Place { dir }
    }

    /// The directory above everything else.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join("ws")
    }

    /// A sibling of the workspace, which no command should reach.
    pub(crate) fn outside(&self) -> PathBuf {
        self.root().join("outside")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Writes the user's configuration file. JSON is recognized by its first brace.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.root().join("config/helve/helve.toml"), text).unwrap();
    }

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.workspace().join(name), text).unwrap();
    }

    /// Whether the workspace has such a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.workspace().join(name).exists()
    }

    /// An executable shell script below the place; gives the directory that it stands in.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let dir = self.root().join("programs");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    /// The command `helve`, with nothing around it but this place.
    pub(crate) fn helve(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helve"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root().join("user"))
            .env("HELVE_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.root().join("config"))
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Runs `helve` with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(&self.helve().args(args).output().unwrap())
    }

    /// Runs a command of `helve` with these lines typed on a terminal, which ends when it has heard enough.
    pub(crate) fn run_at_keyboard(command: &mut Command, typed: &str) -> Ran {
        use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let terminal = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
        command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        rustix::io::write(&keyboard, typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        ran(&output)
    }

    /// Runs `helve` with these arguments and this standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.helve();
        let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // A program that does not read to the end is no failure of the test.
            scope.spawn(move || pipe.write_all(input).ok());
            child.wait_with_output().unwrap()
        });
        ran(&output)
    }

    /// One call with arguments in any notation of JSON text.
    pub(crate) fn call_text(&self, tool: &str, args: &str, settings: &[&str]) -> Answer {
        let mut words = vec!["call", tool, "-", "--json", "--session", SESSION];
        for setting in settings {
            words.extend(["--set", setting]);
        }
        let ran = self.run_with_input(&words, args.as_bytes());
        let result = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no result line: {ran:?}"));
        Answer { code: ran.code, result }
    }

    pub(crate) fn call_with(&self, tool: &str, args: &Value, settings: &[&str]) -> Answer {
        self.call_text(tool, &args.to_string(), settings)
    }

    pub(crate) fn call(&self, tool: &str, args: &Value) -> Answer {
        self.call_with(tool, args, &[])
    }

    /// A command in the default sandbox.
    pub(crate) fn exec(&self, command: &str) -> Answer {
        self.exec_with(command, &[])
    }

    pub(crate) fn exec_with(&self, command: &str, settings: &[&str]) -> Answer {
        self.call_with("exec", &json!({"command": command}), settings)
    }

    /// Runs the lines as one batch and gives the result lines.
    pub(crate) fn batch(&self, lines: &[Value], settings: &[&str]) -> Vec<Value> {
        let mut words = vec!["batch", "--session", SESSION];
        for setting in settings {
            words.extend(["--set", setting]);
        }
        let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let ran = self.run_with_input(&words, input.as_bytes());
        assert_eq!(ran.code, 0, "{ran:?}");
        json_lines(&ran.stdout)
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.home().join("sessions").join(SESSION).join("journal.jsonl")
    }

    /// Every entry of the journal.
    pub(crate) fn journal(&self) -> Vec<Value> {
        json_lines(&std::fs::read_to_string(self.journal_path()).unwrap())
    }

    /// `helve verify --json` of the session: exit code and report.
    pub(crate) fn verify(&self) -> Answer {
        let ran = self.run(&["verify", SESSION, "--json"]);
        let result = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no report: {ran:?}"));
        Answer { code: ran.code, result }
    }
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        text(&self.result)
    }

    pub(crate) fn first_line(&self) -> &str {
        self.text().lines().next().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> Option<&str> {
        self.result["error"]["kind"].as_str()
    }

    pub(crate) fn backend(&self) -> Option<&str> {
        self.result["sandbox"]["backend"].as_str()
    }

    /// Whether it ran in one of Helve's own sandboxes.
    pub(crate) fn is_in_own_sandbox(&self) -> bool {
        matches!(self.backend(), Some("native" | "landlock"))
    }

    /// The text of a call that worked.
    #[track_caller]
    pub(crate) fn good(&self) -> &str {
        assert_eq!((self.code, &self.result["ok"]), (0, &json!(true)), "{:#}", self.result);
        self.text()
    }

    /// The call was refused by the guard before anything ran.
    #[track_caller]
    pub(crate) fn blocked(&self, because: &str) {
        let first = format!("Error: Command blocked by safety guard ({because})");
        assert_eq!((self.first_line(), self.kind(), self.code), (first.as_str(), Some("blocked"), 3));
        assert_eq!((&self.result["sandbox"], &self.result["details"]), (&Value::Null, &Value::Null));
    }
}

/// What the model reads of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The rows of a file of cases beside these tests.
pub(crate) fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    json_lines(&std::fs::read_to_string(path).unwrap())
}

fn ran(output: &std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Whether a program can do its work here, tried without any code of ours. If it cannot, the test is skipped and says
/// so; where the environment variable `required_by` is 1, it fails.
fn works(name: &str, probe: &[&str], required_by: Option<&str>) -> bool {
    let answer = Command::new(name).args(probe).stdin(Stdio::null()).output();
    let works = answer.as_ref().is_ok_and(|output| output.status.success());
    let required = required_by.and_then(std::env::var_os).is_some_and(|value| value == "1");
    assert!(works || !required, "{name} does not work here, and {required_by:?} is 1: {answer:?}");
    if !works {
        println!("skipped what needs {name}, which does not work here: {answer:?}");
    }
    works
}

/// Whether the default sandbox can be had here, by the word of `helve doctor`.
pub(crate) fn sandbox_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let ran = Place::new().run(&["doctor"]);
        let required = std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_some_and(|value| value == "1");
        assert!(ran.code == 0 || !required, "no sandbox works here: {}{}", ran.stdout, ran.stderr);
        if ran.code != 0 {
            println!("skipped what needs a sandbox, which cannot be had here: {}{}", ran.stdout, ran.stderr);
        }
        ran.code == 0
    })
}

pub(crate) fn bwrap_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let probe = ["--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true"];
    *WORKS.get_or_init(|| works("bwrap", &probe, Some("HELVE_TEST_REQUIRE_SANDBOX")))
}

/// It refuses itself to ordinary users on many systems, so only root can require it.
pub(crate) fn firejail_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let required_by = rustix::process::geteuid().is_root().then_some("HELVE_TEST_PEERS");
    *WORKS.get_or_init(|| {
        works("firejail", &["--quiet", "--noprofile", "--", "true"], required_by)
            && !is_inside_another_sandbox()
    })
}

/// In a container firejail finds itself sandboxed already, says so on a line that `--quiet` hides, and runs the
/// command as it is.
fn is_inside_another_sandbox() -> bool {
    let args = ["--quiet", "--noprofile", "--", "readlink", "/proc/self/ns/pid"];
    let output = Command::new("firejail").args(args).stdin(Stdio::null()).output().unwrap();
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let inside = String::from_utf8_lossy(&output.stdout).lines().any(|line| line == own);
    if inside {
        println!("skipped what needs firejail, which makes no sandbox inside another one");
    }
    inside
}

pub(crate) fn is_installed(program: &str) -> bool {
    works(program, &["--version"], None)
}

/// A number of seconds to sleep that no other process has on its command line.
pub(crate) fn unique_seconds() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("4127.{:07}{count:03}", std::process::id())
}

/// The living processes that have `part` in their command line. Tests use parts that nobody else has.
pub(crate) fn running_with(part: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_line = |path: PathBuf| {
        let bytes = std::fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    processes.map(|entry| command_line(entry.path())).filter(|line| line.contains(part)).collect()
}

/// Waits until a condition holds; false if it does not within `limit`.
pub(crate) fn wait_for(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}
