//! Calls through the public interface of the sandbox, and bare spawns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helve::sandbox::{
    Explain, Network, PoolSize, ProcessLimits, SandboxChoice, View, Work, hold_layer, layer_changes,
};
use helve::store::{Home, Undo};
use helve::{Cancel, Exit, OutputSink, ShellBackend, ShellJob, Stream, ToolError};

use super::Measured;
use super::turns::{Answer, Contender, Proof, Random};

/// Prints the token, the shell's own number and that of its process namespace, with nothing but what a shell has of its
/// own, then `true`. The two paths come as variables. What the kernel says of the open namespace (`ino: 4026531836` and
/// other such lines) is run as commands whose names are aliases: one read, where `read` would take one for each byte.
pub(crate) const PROBE: &str =
    "alias pos:=: flags:=: mnt_id:=: ino:=\"echo @TOKEN@ $$\";exec 9<$NAMESPACE;. $NUMBER;true";

/// The same for bash, which reads a whole file by itself.
const BASH_PROBE: &str = "exec 9<$NAMESPACE;mapfile -t a<$NUMBER;echo @TOKEN@ $$ ${a[3]#ino:};true";

/// As [`PROBE`], and then a search through many files.
const GREP: &str = "alias pos:=: flags:=: mnt_id:=: ino:=\"echo @TOKEN@ $$\";exec 9<$NAMESPACE;. $NUMBER;exec 9<&-;grep -R keyword files";

/// As [`PROBE`], and then a program twenty times.
const MANY: &str = "alias pos:=: flags:=: mnt_id:=: ino:=\"echo @TOKEN@ $$\";exec 9<$NAMESPACE;. $NUMBER;exec 9<&-;for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20;do /bin/true;done";

/// As [`PROBE`], and then a line at the end of a file. Of every call it is a change: the file holds the token of the last.
const SMALL: &str = "alias pos:=: flags:=: mnt_id:=: ino:=\"echo @TOKEN@ $$\";exec 9<$NAMESPACE;. $NUMBER;echo @TOKEN@ >> small.txt";

/// How large the layer of a dry run may be.
const LAYER_BYTES: u64 = 256 << 20;

/// What a shell is given to do.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    /// To prove where it runs, and then nothing.
    Probe,
    /// To prove where it runs, and then to search through many files.
    Grep,
    /// To prove where it runs, and then to start a program twenty times.
    Many,
    /// To prove where it runs, and then to change a file.
    Small,
    /// Nothing at all.
    True,
}

impl Text {
    fn with(self, shell: Shell, token: &str) -> String {
        let text = match (self, shell) {
            (Text::Probe, Shell::Sh) => PROBE,
            (Text::Probe, Shell::Bash) => BASH_PROBE,
            (Text::Grep, _) => GREP,
            (Text::Many, _) => MANY,
            (Text::Small, _) => SMALL,
            (Text::True, _) => "true",
        };
        text.replace("@TOKEN@", token)
    }

    /// What has to be seen of a call, in a process namespace of its own or not.
    fn proof(self, fresh: bool) -> Proof {
        match self {
            Text::True => Proof::None,
            Text::Probe | Text::Grep | Text::Many | Text::Small if fresh => Proof::Fresh,
            Text::Probe | Text::Grep | Text::Many | Text::Small => Proof::Token,
        }
    }
}

/// Which shell.
#[derive(Clone, Copy)]
pub(crate) enum Shell {
    Sh,
    Bash,
}

impl Shell {
    fn path(self) -> &'static str {
        match self {
            Shell::Sh => "/bin/sh",
            Shell::Bash => "/bin/bash",
        }
    }
}

/// Writes 2,000 files into 50 directories: 10 to 50 lines of 9 words each, one in ten with the keyword.
fn fill(files: &Path) -> std::io::Result<()> {
    let mut random = Random::from_seed(1);
    let word = |random: &mut Random| -> String {
        let letters = 3 + random.below(7);
        (0..letters).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or_default())).collect()
    };
    let words: Vec<String> = (0..500).map(|_| word(&mut random)).collect();
    let line = |random: &mut Random| {
        let words: Vec<&str> =
            (0..9).filter_map(|_| words.get(random.below(words.len()))).map(String::as_str).collect();
        words.join(" ") + "\n"
    };
    for number in 0..2000 {
        let folder = files.join(format!("folder{}", number / 40));
        std::fs::create_dir_all(&folder)?;
        let lines = 10 + random.below(41);
        let mut text: Vec<String> = (0..lines).map(|_| line(&mut random)).collect();
        if number % 10 == 0 {
            text.push("the keyword\n".to_owned());
        }
        std::fs::write(folder.join(format!("file{number}.txt")), text.concat())?;
    }
    Ok(())
}

/// A workspace with many files, and how to run a future.
pub(crate) struct Place {
    root: tempfile::TempDir,
    on: tokio::runtime::Runtime,
}

impl Place {
    pub(crate) fn new() -> Measured<Place> {
        let root = tempfile::tempdir()?;
        fill(&root.path().join("files"))?;
        let on = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Place { root, on })
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    /// The whole environment of every contender.
    pub(crate) fn variables() -> BTreeMap<String, String> {
        let pairs = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/home/user"),
            ("LANG", "C.UTF-8"),
            ("NAMESPACE", "/proc/self/ns/pid"),
            ("NUMBER", "/proc/self/fdinfo/9"),
        ];
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn view(&self, shell: Shell) -> View {
        View {
            workspace: self.workspace(),
            read_only: Vec::new(),
            read_write: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: Self::variables(),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: shell.path().into(),
        }
    }

    fn backend(&self, choice: &SandboxChoice, shell: Shell) -> Measured<Arc<dyn ShellBackend>> {
        helve::sandbox::backend(choice, self.view(shell), LIMITS).map_err(|error| error.message.into())
    }

    fn unpooled(&self) -> Measured<Arc<dyn ShellBackend>> {
        let none = PoolSize { warm: 0, parked: 0 };
        helve::sandbox::native(self.view(Shell::Sh), LIMITS, none).map_err(|error| error.message.into())
    }

    /// One call over a layer; the path that it changes has to be the one that is listed.
    fn try_out(
        &self,
        backend: &dyn ShellBackend,
        home: &Home,
        job: ShellJob,
        changes: Option<&str>,
    ) -> Measured<Answer> {
        let kept = Kept::default();
        let start = Instant::now();
        let ended =
            self.on.block_on(backend.run_layered(job, LAYER_BYTES, Box::new(kept.clone()), Cancel::never()));
        let (ended, layer) = ended.map_err(|error| error.message)?;
        let undo = Undo::open(home).map_err(|error| error.to_string())?;
        let held = hold_layer(&undo, self.root.path(), &layer, &Cancel::never());
        let (_, report) = held.map_err(|error| error.message)?;
        let listed = layer_changes(&report);
        let took = start.elapsed();
        // What the sandbox makes ready for the next one would fall into the time of another contender.
        std::thread::sleep(Duration::from_millis(15));
        if ended.exit != Exit::Code(0) {
            return Err(format!("the command ended with {:?}: {}", ended.exit, kept.text()).into());
        }
        let listed: Vec<&str> = listed.iter().map(|change| change.path.as_str()).collect();
        if listed != changes.into_iter().collect::<Vec<_>>() {
            return Err(format!("a dry run listed {listed:?}").into());
        }
        Ok(Answer { took, stdout: kept.take() })
    }

    /// One call and what it printed.
    fn run(&self, backend: &dyn ShellBackend, work: Work) -> Measured<Answer> {
        let kept = Kept::default();
        let start = Instant::now();
        let ended = self.on.block_on(backend.run(job(work), Box::new(kept.clone()), Cancel::never()));
        let took = start.elapsed();
        let ended = ended.map_err(|error| error.message)?;
        if ended.exit != Exit::Code(0) {
            return Err(format!("the command ended with {:?}: {}", ended.exit, kept.text()).into());
        }
        Ok(Answer { took, stdout: kept.take() })
    }
}

const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 1024,
    file_bytes: 1 << 30,
    memory_bytes: 4 << 30,
    processes: 512,
    cpu_seconds: 600,
    disk_bytes: 4 << 30,
    tmp_bytes: 256 << 20,
};

fn job(work: Work) -> ShellJob {
    ShellJob { work, stdin: Vec::new(), working_dir: None, timeout: Duration::from_secs(60) }
}

/// Keeps both streams.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn take(&self) -> Vec<u8> {
        self.0.lock().map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.take()).into_owned()
    }
}

impl OutputSink for Kept {
    fn chunk(&mut self, _: Stream, bytes: &[u8]) {
        if let Ok(mut kept) = self.0.lock() {
            kept.extend_from_slice(bytes);
        }
    }
}

/// Runs a program that has to succeed; its time from start to exit status, with its output captured.
pub(crate) fn spawned(command: &mut Command) -> Measured<Answer> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output();
    let took = start.elapsed();
    let output = output.map_err(|error| {
        let program = command.get_program().display();
        format!("{program} does not start: {error}. `scripts/setup --test` installs what is measured beside Helve.")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} ended with {}: {said}", output.status).into());
    }
    Ok(Answer { took, stdout: output.stdout })
}

fn bare_command(workspace: &Path, shell: Shell, text: &str) -> Command {
    let mut command = Command::new(shell.path());
    command.args(["-c", text]).current_dir(workspace).env_clear().envs(Place::variables());
    command
}

/// A bare spawn: `posix_spawn`, output through pipes.
pub(crate) fn bare<'a>(place: &'a Place, name: &'static str, shell: Shell, text: Text) -> Contender<'a> {
    let call =
        move |token: &str| spawned(&mut bare_command(place.root.path(), shell, &text.with(shell, token)));
    Contender { name, proof: text.proof(false), call: Box::new(call) }
}

/// Helve's own sandbox as `exec` uses it.
pub(crate) fn pooled<'a>(
    place: &'a Place,
    name: &'static str,
    shell: Shell,
    text: Text,
) -> Measured<Contender<'a>> {
    let backend = place.backend(&SandboxChoice::Native, shell)?;
    let call = move |token: &str| place.run(&*backend, Work::Shell(text.with(shell, token)));
    Ok(Contender { name, proof: text.proof(true), call: Box::new(call) })
}

/// A text in a sandbox in which nobody sees what is refused, and in one in which every file is looked at.
pub(crate) fn seen<'a>(
    place: &'a Place,
    text: Text,
    [unseen, full]: [&'static str; 2],
) -> Measured<[Contender<'a>; 2]> {
    let view = || place.view(Shell::Sh);
    let unseen = (unseen, helve::sandbox::native_unseen(view(), LIMITS, PoolSize::default()));
    let in_full = View { explain: Explain::Full, ..view() };
    let full = (full, helve::sandbox::native(in_full, LIMITS, PoolSize::NONE));
    let contender = |(name, backend): (&'static str, Result<Arc<dyn ShellBackend>, ToolError>)| {
        let backend = backend.map_err(|error| error.message)?;
        let call = move |token: &str| place.run(&*backend, Work::Shell(text.with(Shell::Sh, token)));
        Ok::<_, String>(Contender { name, proof: text.proof(true), call: Box::new(call) })
    };
    Ok([contender(unseen)?, contender(full)?])
}

/// Helve's own sandbox with a program instead of a text.
pub(crate) fn parked<'a>(place: &'a Place, name: &'static str) -> Measured<Contender<'a>> {
    let backend = place.backend(&SandboxChoice::Native, Shell::Sh)?;
    let call = move |token: &str| {
        let words = ["/bin/sh", "-c", &PROBE.replace("@TOKEN@", token)].map(str::to_owned);
        place.run(&*backend, Work::Program(words.to_vec()))
    };
    Ok(Contender { name, proof: Proof::Fresh, call: Box::new(call) })
}

/// Helve's own sandbox without a pool.
pub(crate) fn direct<'a>(place: &'a Place, name: &'static str, text: Text) -> Measured<Contender<'a>> {
    let backend = place.unpooled()?;
    let call = move |token: &str| place.run(&*backend, Work::Shell(text.with(Shell::Sh, token)));
    Ok(Contender { name, proof: text.proof(true), call: Box::new(call) })
}

/// The same over a layer, up to the list of what would change, which is held for a commit.
pub(crate) fn dry_run<'a>(place: &'a Place, name: &'static str, text: Text) -> Measured<Contender<'a>> {
    let backend = place.unpooled()?;
    let state = tempfile::tempdir()?;
    let home = Home::open(state.path())?;
    let call = move |token: &str| {
        // The state lives as long as the contender.
        let _ = &state;
        let job = job(Work::Shell(text.with(Shell::Sh, token)));
        place.try_out(&*backend, &home, job, matches!(text, Text::Small).then_some("small.txt"))
    };
    Ok(Contender { name, proof: text.proof(true), call: Box::new(call) })
}

/// The other sandboxes that work here.
pub(crate) fn others(place: &Place) -> Vec<Contender<'_>> {
    let all = [
        ("backend landlock", SandboxChoice::Landlock, Proof::Token),
        ("backend bwrap", SandboxChoice::Bwrap, Proof::Fresh),
    ];
    let working = all.into_iter().filter_map(|(name, choice, proof)| {
        let backend = place.backend(&choice, Shell::Sh).ok()?;
        let call = move |token: &str| place.run(&*backend, Work::Shell(PROBE.replace("@TOKEN@", token)));
        call("trial").ok()?;
        Some(Contender { name, proof, call: Box::new(call) })
    });
    working.collect()
}

/// Two threads, each with a `worker` that calls without a pause; the time of one call.
fn busy<W>(window: Duration, worker: impl Fn() -> Measured<W> + Sync) -> Measured<Duration>
where
    W: FnMut() -> Measured<()>,
{
    let start = Instant::now();
    let work = || -> Result<u32, String> {
        let mut call = worker().map_err(|error| error.to_string())?;
        let mut number = 0;
        while start.elapsed() < window {
            call().map_err(|error| error.to_string())?;
            number += 1;
        }
        Ok(number)
    };
    let numbers = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().unwrap_or_else(|_| Err("a worker died".to_owned())))
    });
    let mut all = 0;
    for number in numbers {
        all += number?;
    }
    Ok(start.elapsed() / all.max(1))
}

/// Two workers that spawn bare.
pub(crate) fn busy_bare(place: &Place, window: Duration) -> Measured<Duration> {
    let text = PROBE.replace("@TOKEN@", "token");
    let workspace = place.workspace();
    busy(window, || {
        let mut command = bare_command(&workspace, Shell::Sh, &text);
        Ok(move || spawned(&mut command).map(drop))
    })
}

/// A sandbox that has run commands before.
pub(crate) fn used(place: &Place) -> Measured<Arc<dyn ShellBackend>> {
    let backend = place.backend(&SandboxChoice::Native, Shell::Sh)?;
    for _ in 0..5 {
        place.run(&*backend, Work::Shell("true".to_owned()))?;
    }
    Ok(backend)
}

/// Two workers on one sandbox.
pub(crate) fn busy_pooled(backend: &Arc<dyn ShellBackend>, window: Duration) -> Measured<Duration> {
    let text = PROBE.replace("@TOKEN@", "token");
    busy(window, || {
        let on = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (backend, text) = (Arc::clone(backend), text.clone());
        Ok(move || {
            let job = job(Work::Shell(text.clone()));
            let ended = on.block_on(backend.run(job, Box::new(Kept::default()), Cancel::never()));
            ended.map(drop).map_err(|error| error.message.into())
        })
    })
}
