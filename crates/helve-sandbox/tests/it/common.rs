//! What the tests share: views, a sink that collects, a way to run one command, and a search for survivors.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use helve_core::{
    Cancel, Exit, Explain, Network, OutputSink, ProcessLimits, SandboxChoice, ShellBackend, ShellJob, Stream,
    ToolError, View, Work,
};

pub(crate) const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 256,
    file_bytes: 1 << 30,
    memory_bytes: 2 << 30,
    processes: 512,
    cpu_seconds: 600,
    disk_bytes: 4 << 30,
    tmp_bytes: 256 << 20,
};

/// A wrapper that confines nothing.
pub(crate) const PLAIN_WRAPPER: &str = "env MARK=1 bash -c {command}";

pub(crate) fn view(workspace: &Path) -> View {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/user"), ("LANG", "C.UTF-8")];
    View {
        workspace: workspace.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: Vec::new(),
        deny_read: Vec::new(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/bash".into(),
    }
}

pub(crate) fn job(command: &str) -> ShellJob {
    ShellJob {
        work: Work::Shell(command.to_owned()),
        stdin: Vec::new(),
        working_dir: None,
        timeout: Duration::from_secs(30),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A sink whose content can be looked at from outside.
#[derive(Clone, Default)]
pub(crate) struct Collector(pub(crate) Arc<Mutex<Collected>>);

impl OutputSink for Collector {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let mut collected = self.0.lock().unwrap();
        match stream {
            Stream::Stdout => collected.stdout.extend_from_slice(bytes),
            Stream::Stderr => collected.stderr.extend_from_slice(bytes),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) exit: Result<Exit, ToolError>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn backend(choice: &SandboxChoice, view: View) -> Arc<dyn ShellBackend> {
    helve_sandbox::backend(choice, view, LIMITS).unwrap()
}

pub(crate) fn run_job(choice: &SandboxChoice, view: View, job: ShellJob) -> Done {
    let collector = Collector::default();
    let ended = block_on(backend(choice, view).run(job, Box::new(collector.clone()), Cancel::never()));
    let exit = ended.map(|ended| ended.exit);
    let collected = collector.0.lock().unwrap().clone();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { exit, stdout: text(&collected.stdout), stderr: text(&collected.stderr) }
}

pub(crate) fn run(choice: &SandboxChoice, view: View, command: &str) -> Done {
    run_job(choice, view, job(command))
}

/// Runs a command that has to succeed and gives its standard output.
pub(crate) fn output(choice: &SandboxChoice, view: View, command: &str) -> String {
    let done = run(choice, view, command);
    assert_eq!(done.exit, Ok(Exit::Code(0)), "{command}\n{}{}", done.stdout, done.stderr);
    done.stdout
}

/// Whether what a test needs is there. If it is not, the test is skipped and says so; where the environment variable
/// `required_by` is 1, it fails.
fn is_there(what: &str, try_it: &mut Command, required_by: Option<&str>) -> bool {
    let answer = try_it.stdin(Stdio::null()).output();
    let works = answer.as_ref().is_ok_and(|output| output.status.success());
    let required = required_by.and_then(std::env::var_os).is_some_and(|value| value == "1");
    assert!(works || !required, "{what} does not work here, and {required_by:?} is 1: {answer:?}");
    if !works {
        println!("skipped what needs {what}, which does not work here: {answer:?}");
    }
    works
}

/// Whether bwrap can work here at all, tried once without any code of ours.
pub(crate) fn bwrap_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let probe = ["--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true"];
        is_there("bwrap", Command::new("bwrap").args(probe), Some("HELVE_TEST_REQUIRE_SANDBOX"))
    })
}

/// Whether the native sandbox can work here: whether the kernel gives this user namespaces at all, tried once without any
/// code of ours.
pub(crate) fn native_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let probe = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "true"];
        is_there("unshare", Command::new("unshare").args(probe), Some("HELVE_TEST_REQUIRE_SANDBOX"))
    })
}

/// Whether the kernel has a Landlock that the backend uses.
pub(crate) fn landlock_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
        }
        let ready = backend(&SandboxChoice::Landlock, view(folder.path())).ready();
        let required = std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_some_and(|value| value == "1");
        assert!(ready.is_ok() || !required, "Landlock does not work here: {ready:?}");
        if let Err(error) = &ready {
            println!("skipped what needs Landlock, which does not work here: {}", error.message);
        }
        ready.is_ok()
    })
}

/// Whether firejail can work here. It refuses itself to ordinary users on many systems, so only root can require it.
pub(crate) fn firejail_works() -> bool {
    let probe = ["--quiet", "--noprofile", "--", "true"];
    let required_by = rustix::process::geteuid().is_root().then_some("HELVE_TEST_PEERS");
    is_there("firejail", Command::new("firejail").args(probe), required_by)
}

#[test]
fn what_is_missing_skips_a_test_and_fails_it_where_it_is_required() {
    let nothing = tempfile::tempdir().unwrap();
    let root = rustix::process::geteuid().is_root();
    for (part, variable, can_be_required) in [
        ("common::role_needs_bwrap", "HELVE_TEST_REQUIRE_SANDBOX", true),
        ("common::role_needs_firejail", "HELVE_TEST_PEERS", root),
    ] {
        for (value, passes) in [("0", true), ("1", !can_be_required)] {
            let output = role(part).env("PATH", nothing.path()).env(variable, value).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.success(), passes, "{variable}={value}: {text}");
            assert!(!passes || text.contains("skipped what needs"), "{variable}={value}: {text}");
        }
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_needs_bwrap() {
    assert!(!bwrap_works());
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_needs_firejail() {
    assert!(!firejail_works());
}

/// Every backend that can work here.
pub(crate) fn choices() -> Vec<SandboxChoice> {
    let wrapper = SandboxChoice::Wrapper { template: PLAIN_WRAPPER.to_owned() };
    let mut choices = vec![SandboxChoice::None, wrapper];
    if native_works() {
        choices.push(SandboxChoice::Native);
    }
    if bwrap_works() {
        choices.push(SandboxChoice::Bwrap);
    }
    // Root becomes the owner of the workspace there, and in these tests that is root.
    if !rustix::process::geteuid().is_root() && landlock_works() {
        choices.push(SandboxChoice::Landlock);
    }
    choices
}

/// Those of them that can hide a part of the workspace, or do not promise to.
pub(crate) fn choices_that_hide() -> Vec<SandboxChoice> {
    choices().into_iter().filter(|choice| *choice != SandboxChoice::Landlock).collect()
}

/// A number of seconds to sleep that no other process has on its command line.
pub(crate) fn unique_seconds() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("4321.{:07}{count:03}", std::process::id())
}

/// How many living processes have `word` as an argument.
pub(crate) fn count_running(word: &str) -> usize {
    let has_word = |path: &Path| {
        let arguments = std::fs::read(path.join("cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| has_word(&entry.path())).count()
}

/// Waits until a condition holds; false if it does not within `limit`.
pub(crate) fn wait_for(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// This program again, to play one of its ignored tests as a process of its own.
pub(crate) fn role(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command
}

/// The backend named by the variable that a test gives to its role.
pub(crate) fn choice_of_role() -> SandboxChoice {
    match std::env::var("ROLE_BACKEND").unwrap().as_str() {
        "native" => SandboxChoice::Native,
        "landlock" => SandboxChoice::Landlock,
        "bwrap" => SandboxChoice::Bwrap,
        "wrapper" => SandboxChoice::Wrapper { template: PLAIN_WRAPPER.to_owned() },
        _ => SandboxChoice::None,
    }
}

pub(crate) fn name(choice: &SandboxChoice) -> &'static str {
    match choice {
        SandboxChoice::Auto => "auto",
        SandboxChoice::Native => "native",
        SandboxChoice::Landlock => "landlock",
        SandboxChoice::Bwrap => "bwrap",
        SandboxChoice::Wrapper { .. } => "wrapper",
        SandboxChoice::Container(_) => "container",
        SandboxChoice::None => "none",
    }
}
