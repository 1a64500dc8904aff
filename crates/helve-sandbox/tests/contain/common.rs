//! What the suites share: sandboxes, one run of a job, and this program again as another user.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use helve_core::{
    Cancel, ContainerChoice, ErrorKind, Explain, Network, OutputSink, ProcessLimits, SandboxChoice,
    ShellBackend, ShellJob, Stream, View, Work,
};

pub(crate) use crate::basics::{Done, shared, token};

/// The user without rights that the suites run as besides root.
const ORDINARY_USER: &str = "65534";

pub(crate) const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 1024,
    file_bytes: 1 << 30,
    memory_bytes: 2 << 30,
    processes: 512,
    cpu_seconds: 600,
    disk_bytes: 2 << 30,
    tmp_bytes: 256 << 20,
};

/// Names that no command may change in the workspace, nor leave behind.
const PROTECTED: [&str; 5] = [".git", ".agent", ".vscode", ".mcp.json", ".bashrc"];

/// A view of `workspace` with `home` as a private home.
pub(crate) fn view(workspace: &Path, home: &Path) -> View {
    let home = home.display().to_string();
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", home.as_str()), ("LANG", "C.UTF-8")];
    View {
        workspace: workspace.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: PROTECTED.map(str::to_owned).to_vec(),
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

pub(crate) fn shell(text: &str) -> ShellJob {
    job(Work::Shell(text.to_owned()))
}

pub(crate) fn program<const N: usize>(words: [&str; N]) -> ShellJob {
    job(Work::Program(words.map(str::to_owned).to_vec()))
}

fn job(work: Work) -> ShellJob {
    ShellJob { work, stdin: Vec::new(), working_dir: None, timeout: within(Duration::from_secs(20)) }
}

/// A sandbox by its name in results.
pub(crate) fn choice(name: &str) -> SandboxChoice {
    match name {
        "native" => SandboxChoice::Native,
        "landlock" => SandboxChoice::Landlock,
        "bwrap" => SandboxChoice::Bwrap,
        "container" => SandboxChoice::Container(ContainerChoice {
            image: Some(crate::engine::EMPTY.to_owned()),
            socket: Some(std::env::var_os("ROLE_SOCKET").unwrap().into()),
            ..ContainerChoice::default()
        }),
        other => panic!("no sandbox is called {other}"),
    }
}

/// The backend for `view`. The native one re-executes a helper, which a test harness is not.
pub(crate) fn backend(choice: &SandboxChoice, view: View, limits: ProcessLimits) -> Arc<dyn ShellBackend> {
    helve_sandbox::backend(choice, with_programs(choice, view), limits).unwrap()
}

/// A container without programs of its own shows the machine's.
fn with_programs(choice: &SandboxChoice, mut view: View) -> View {
    if matches!(choice, SandboxChoice::Container(_)) {
        view.read_only.push("/usr".into());
    }
    view
}

/// A sink that keeps at most [`Kept::MOST`] bytes of each stream and counts all.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Kept>>);

#[derive(Clone, Default)]
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    bytes: u64,
}

impl Kept {
    const MOST: usize = 4 << 20;
}

impl OutputSink for Collector {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap();
        kept.bytes += bytes.len() as u64;
        let kept = match stream {
            Stream::Stdout => &mut kept.stdout,
            Stream::Stderr => &mut kept.stderr,
        };
        let room = Kept::MOST.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// A time in which something has to happen, as long as this machine may take for it: see `HELVE_TEST_PATIENCE`.
pub(crate) fn within(time: Duration) -> Duration {
    let patience = std::env::var("HELVE_TEST_PATIENCE").map_or(1, |text| text.parse().unwrap());
    time * patience
}

/// Runs one job to its end.
pub(crate) async fn run(backend: &dyn ShellBackend, job: ShellJob) -> Done {
    let collector = Collector::default();
    let ended = backend.run(job, Box::new(collector.clone()), Cancel::never()).await;
    let kept = collector.0.lock().unwrap().clone();
    Done { ended, stdout: kept.stdout, stderr: kept.stderr, bytes: kept.bytes }
}

/// Two calls, after which a sandbox that keeps members ready has them.
pub(crate) async fn prime(backend: &dyn ShellBackend) {
    for _ in 0..2 {
        run(backend, shell("true")).await.ended.unwrap();
        tokio::time::sleep(within(Duration::from_millis(60))).await;
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Whether a sandbox works here, found by running `true` in it. Where `HELVE_TEST_REQUIRE_SANDBOX` is 1 it has to.
pub(crate) fn works(choice: &SandboxChoice) -> bool {
    let folder = tempfile::tempdir().unwrap();
    give_away(folder.path(), choice);
    let view = with_programs(choice, view(folder.path(), Path::new("/home/user")));
    let made = helve_sandbox::backend(choice, view, LIMITS);
    let ended = made.and_then(|backend| block_on(run(&*backend, shell("true"))).ended);
    match ended {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::SandboxUnavailable, "{error:?}");
            let required = std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_some_and(|value| value == "1");
            assert!(!required, "{choice:?} does not work here: {error:?}");
            println!("skipped {choice:?}, which does not work here: {}", error.message);
            false
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes a workspace and all in it an ordinary user's, where the suite runs as root and the sandbox is Landlock alone,
/// which does not hold root and therefore refuses to work on root's own files.
pub(crate) fn give_away(workspace: &Path, choice: &SandboxChoice) {
    if is_root() && *choice == SandboxChoice::Landlock {
        let owner = format!("{ORDINARY_USER}:{ORDINARY_USER}");
        let done = Command::new("chown").args(["-hR", &owner]).arg(workspace).status().unwrap();
        assert!(done.success(), "chown of {}", workspace.display());
    }
}

/// Who plays a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Same,
    /// A user without rights.
    Ordinary,
}

/// This program again, to play one of its ignored tests as a process of its own. None where the user is to be another
/// one and only root could become it.
pub(crate) fn role(test: &str, user: User) -> Option<Command> {
    let own = std::env::current_exe().unwrap();
    let mut command = match user {
        User::Same => Command::new(own),
        User::Ordinary if is_root() => {
            let (reuid, regid) = (format!("--reuid={ORDINARY_USER}"), format!("--regid={ORDINARY_USER}"));
            let mut command = Command::new("setpriv");
            command.args([&reuid, &regid, "--clear-groups", "--"]).arg(own);
            // Directories of root's would be looked into in vain.
            command.env("HOME", "/").env_remove("XDG_RUNTIME_DIR").current_dir("/");
            command
        }
        User::Ordinary => {
            println!("skipped: already an ordinary user");
            return None;
        }
    };
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    Some(command)
}

/// Whether roles are played in control groups that are handed down to them.
pub(crate) fn is_delegated() -> bool {
    std::env::var_os("HELVE_TEST_DELEGATED").is_some_and(|value| value == "1")
}

/// The same role as a unit of systemd, with a control group that is handed down to it.
fn delegated(role: &Command) -> Command {
    let mut unit = Command::new("systemd-run");
    unit.args(["--quiet", "--pipe", "--wait", "--collect", "-p", "Delegate=yes"]);
    let own = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| name == "PATH" || name.starts_with("HELVE_")));
    let given = role.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    for (name, value) in own.chain(given) {
        unit.arg("-E").arg([name, value].join("=".as_ref()));
    }
    let mut words: Vec<_> = role.get_args().collect();
    if role.get_program() == "setpriv" {
        // The user's own groups are left with the one capability that it takes, which is left with them.
        unit.args(["-p", &format!("User={ORDINARY_USER}"), "-p", "AmbientCapabilities=CAP_SETGID", "--"]);
        unit.args(["setpriv", "--clear-groups", "--ambient-caps=-all", "--inh-caps=-all", "--"]);
        words.drain(..=words.iter().position(|word| *word == "--").unwrap());
    } else {
        unit.arg("--").arg(role.get_program());
    }
    unit.args(words);
    unit
}

/// Plays a role to its end, shows what it said, and fails if it failed.
pub(crate) fn play(command: &mut Command) {
    let output = if is_delegated() { delegated(command).output() } else { command.output() }.unwrap();
    println!("{}", said(&output));
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
}

/// What a role said on both streams.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The sandbox that a role is told to use.
pub(crate) fn choice_of_role() -> (String, SandboxChoice) {
    let name = std::env::var("ROLE_SANDBOX").unwrap();
    let choice = choice(&name);
    (name, choice)
}

/// Whether a case is asked for: all are, unless the environment says how its name begins.
pub(crate) fn is_asked_for(id: &str) -> bool {
    std::env::var("HELVE_TEST_CASE").map_or(true, |asked| id.starts_with(&asked))
}

static SUITES: RwLock<()> = RwLock::new(());

/// Nothing else meanwhile: for suites that measure time, or count what there is on the machine.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    SUITES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Beside other suites, which wait as often as this one does.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    SUITES.read().unwrap_or_else(PoisonError::into_inner)
}
