//! What this machine can give: every layer is tried, and every sandbox is held against forbidden acts.
//!
//! ```text
//! probe
//!   ├ scene            files, listeners and a process that only this probe made
//!   ├ act   outside    a throw-away process does every act: one that fails there proves nothing inside
//!   │       inside     the same process in each sandbox: there every act has to fail
//!   ├ causes           why a layer is missing, and the command that mends it
//!   ├ passing          what only shows that the machine is short of something now: nothing is concluded from it
//!   └ answer           what the ladder remembers of it
//! ```
//!
//! In: nothing but the machine. Out: [`Findings`] for a person, or the best rung for the ladder. Version numbers decide
//! nothing. Deliberately not here: the owner's view and workspace, with which a sandbox may still fail; whoever wants to
//! know that runs a command in it.

mod act;
pub(crate) mod answer;
mod causes;
pub(crate) mod passing;
mod scene;
mod scratch;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve_core::{
    Cancel, Ended, ErrorKind, Exit, OutputSink, ProcessLimits, SandboxChoice, ShellJob, Stream, ToolError,
    Work,
};

pub use act::{Expected, Outcome};
pub use causes::Lack;

use act::Act;
use answer::{Memory, Rung};
use causes::Switches;
use scene::Scene;

use crate::cgroup::Groups;

/// Bounds on the process that does the acts.
const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 256,
    file_bytes: 64 << 20,
    memory_bytes: 1 << 30,
    processes: 64,
    cpu_seconds: 30,
    disk_bytes: 1 << 30,
    tmp_bytes: 16 << 20,
};

/// How long the acts inside may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What mends a shortage.
pub(crate) const SHORT: &str =
    "Try again when there are memory, processes, open files and disk space to be had.";

/// The longest answer that is kept.
const ANSWER_BYTES: usize = 64 * 1024;

/// What this machine can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The kernel's release.
    pub kernel: String,
    /// The user that Helve runs as.
    pub user: u32,
    /// The layers that sandboxes are made of.
    pub layers: Vec<LayerFinding>,
    /// The sandboxes, Helve's own first, best first.
    pub sandboxes: Vec<SandboxFinding>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFinding {
    /// Its name.
    pub name: &'static str,
    /// What is there, or what is missing.
    pub state: Result<String, Lack>,
}

/// One sandbox, held against the acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxFinding {
    /// Its name.
    pub name: &'static str,
    /// The layers that were on.
    pub layers: Vec<String>,
    /// How each act ended; none where nothing could be run in it.
    pub acts: Vec<ActFinding>,
    /// Why it cannot be used; none if it holds.
    pub lack: Option<Lack>,
    /// Whether it may hold at the next try, because the machine was only short of something. No lesser one is taken then.
    pub passing: bool,
}

impl SandboxFinding {
    /// Whether it refused every act that it has to refuse.
    pub fn holds(&self) -> bool {
        self.lack.is_none()
    }
}

/// One act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActFinding {
    /// Its name.
    pub name: &'static str,
    /// What it is, as words.
    pub about: &'static str,
    /// What has to become of it.
    pub expected: Expected,
    /// How it ended without a sandbox: where it fails there too, its failing inside proves nothing.
    pub outside: Outcome,
    /// How it ended inside.
    pub inside: Outcome,
}

impl ActFinding {
    /// Whether it succeeds without a sandbox. Otherwise it could not be tried: that it fails inside shows nothing.
    pub fn tried(&self) -> bool {
        self.outside == Outcome::Done
    }

    /// Whether the sandbox was seen to refuse it.
    pub fn refused(&self) -> bool {
        self.tried() && matches!(self.inside, Outcome::Refused(errno) if !passing::is_shortage(errno))
    }
}

/// Tries every layer and every sandbox for real, in processes of its own; takes some tenths of a second. What the ladder
/// would choose is kept in `remember_in`, in place of what was known there, if that directory is the caller's alone.
pub fn probe(remember_in: Option<&Path>) -> Result<Findings, ToolError> {
    let probe = Probe::start()?;
    let sandboxes: Vec<SandboxFinding> =
        [SandboxChoice::Native, SandboxChoice::Landlock, SandboxChoice::Bwrap]
            .iter()
            .map(|choice| probe.hold(choice))
            .collect();
    if let Some(memory) = remember_in.and_then(Memory::of) {
        let of = |rung: Rung| sandboxes.iter().find(|sandbox| sandbox.name == rung.name()).cloned();
        match best(Rung::ALL.into_iter().filter_map(|rung| Some((rung, of(rung)?)))) {
            Climbed::Holds(rung, _) => memory.keep(rung),
            Climbed::Nothing(_) => memory.forget(),
            Climbed::Unclear(_) => {}
        }
    }
    Ok(Findings {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        user: rustix::process::geteuid().as_raw(),
        layers: probe.layers(),
        sandboxes,
    })
}

/// What came of looking for the best rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Climbed {
    /// The best that holds, and what better ones lack.
    Holds(Rung, Vec<SandboxFinding>),
    /// It cannot be told now whether this one holds, and none above it does.
    Unclear(SandboxFinding),
    /// None holds; what each lacks.
    Nothing(Vec<SandboxFinding>),
}

/// Looks for the best rung that holds. Those below it are not tried.
pub(crate) fn climb() -> Result<Climbed, ToolError> {
    let probe = Probe::start()?;
    Ok(best(Rung::ALL.into_iter().map(|rung| (rung, probe.hold(&choice(rung))))))
}

/// The best rung; only what lasts leads to a lesser one.
fn best(rungs: impl Iterator<Item = (Rung, SandboxFinding)>) -> Climbed {
    let mut refused = Vec::new();
    for (rung, found) in rungs {
        if found.holds() {
            return Climbed::Holds(rung, refused);
        }
        if found.passing {
            return Climbed::Unclear(found);
        }
        refused.push(found);
    }
    Climbed::Nothing(refused)
}

/// The choice that stands for a rung.
pub(crate) fn choice(rung: Rung) -> SandboxChoice {
    match rung {
        Rung::Native => SandboxChoice::Native,
        Rung::Landlock => SandboxChoice::Landlock,
    }
}

/// Ends this process with the acts done, if it was started for them.
pub(crate) fn run_if_asked(words: impl IntoIterator<Item = std::ffi::OsString>) {
    let mut words = words.into_iter();
    let zeroth = words.next().unwrap_or_default();
    if Path::new(&zeroth).file_name().is_some_and(|name| name == scene::PROGRAM_NAME) {
        let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
        std::process::exit(act::main(&words).into());
    }
}

/// A scene, and how the acts ended outside.
struct Probe {
    scene: Scene,
    outside: Vec<Outcome>,
    switches: Switches,
}

impl Probe {
    fn start() -> Result<Probe, ToolError> {
        let failed = |error: std::io::Error| {
            let hint = match error.raw_os_error() {
                Some(errno) if passing::is_shortage(errno) => SHORT,
                _ if !Path::new("/proc/self/exe").exists() => {
                    "Mount the kernel's own file system: mount -t proc proc /proc."
                }
                _ if !Path::new("/dev/null").exists() => {
                    "Give this system its devices: there is no /dev/null."
                }
                _ => "Make the temporary directory (TMPDIR, else /tmp) writable, and allow programs to run.",
            };
            ToolError::new(ErrorKind::SandboxUnavailable, format!("The sandbox cannot be probed: {error}"))
                .hint(hint)
        };
        let scene = Scene::set(&crate::native::helper::startable()?).map_err(failed)?;
        let outside = scene.play_outside().map_err(failed)?;
        Ok(Probe { scene, outside, switches: Switches::read() })
    }

    fn outside(&self, act: Act) -> Outcome {
        self.outside.get(act as usize).copied().unwrap_or(Outcome::Unknown)
    }

    fn user_namespaces(&self) -> Result<String, Lack> {
        let (made, mounted) = (self.outside(Act::UserNamespace), self.outside(Act::Mount));
        causes::user_namespaces(made, mounted, &self.switches)
    }

    fn landlock(&self) -> Result<String, Lack> {
        causes::landlock(crate::sys::confine::landlock_version().map(|version| version.0), &self.switches)
    }

    fn seccomp(&self) -> Result<String, Lack> {
        let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        causes::seccomp(crate::sys::acts::filters_can_refuse().map_err(errno))
    }

    fn layers(&self) -> Vec<LayerFinding> {
        let layer = |name, state| LayerFinding { name, state };
        vec![
            layer("user namespaces", self.user_namespaces()),
            layer("Landlock", self.landlock()),
            layer("system call filter", self.seccomp()),
            layer("control groups", causes::control_groups(Groups::for_view(&LIMITS).is_some())),
            layer("warm shells", causes::tracing(self.outside(Act::TraceChild), &self.switches)),
        ]
    }

    /// The layer without which a sandbox cannot be had, if one is missing.
    fn missing_layer(&self, choice: &SandboxChoice) -> Option<Lack> {
        let needs: &[Result<String, Lack>] = match choice {
            SandboxChoice::Native => &[self.user_namespaces(), self.landlock(), self.seccomp()],
            SandboxChoice::Landlock => &[self.landlock(), self.seccomp()],
            // bwrap knows its own causes, the first of them that it is not installed.
            _ => &[],
        };
        needs.iter().find_map(|state| state.clone().err())
    }

    /// Whether the only missing layer is one that was in use up to the last: the other two are had or not, at all times.
    fn missing_layer_passes(&self) -> bool {
        let shortage = |outcome| match outcome {
            Outcome::Done => false,
            Outcome::Refused(errno) => passing::is_shortage(errno),
            Outcome::Unknown => true,
        };
        let (made, mounted) = (self.outside(Act::UserNamespace), self.outside(Act::Mount));
        let one = if made == Outcome::Done { mounted } else { made };
        self.landlock().is_ok() && self.seccomp().is_ok() && shortage(one)
    }

    /// What a kernel that is only too old lacks.
    fn too_old(&self, choice: &SandboxChoice) -> Option<Lack> {
        let version = crate::sys::confine::landlock_version().ok()?;
        (*choice == SandboxChoice::Landlock).then(|| causes::old_landlock(version.0)).flatten()
    }

    /// Holds a sandbox against the acts.
    fn hold(&self, choice: &SandboxChoice) -> SandboxFinding {
        let name = match choice {
            SandboxChoice::Native => "native",
            SandboxChoice::Landlock => "landlock",
            _ => "bwrap",
        };
        match self.play_inside(choice) {
            Err(error) => {
                let missing = self.missing_layer(choice);
                let passing = match &missing {
                    Some(_) => self.missing_layer_passes(),
                    None => passing::passes(&error),
                };
                let lack = missing.unwrap_or(Lack::new(error.message, error.hint.unwrap_or_default()));
                SandboxFinding { name, layers: Vec::new(), acts: Vec::new(), lack: Some(lack), passing }
            }
            Ok((ended, inside)) => {
                let acts: Vec<ActFinding> = Act::all()
                    .zip(inside)
                    .map(|(act, inside)| ActFinding {
                        name: act.name(),
                        about: act.about(),
                        expected: act.expected(name),
                        outside: self.outside(act),
                        inside,
                    })
                    .collect();
                let verdict = verdict(&acts);
                let passing = matches!(verdict, Verdict::Unclear(_));
                let lack = match verdict {
                    Verdict::Holds => None,
                    Verdict::Lacks(lack) => Some(self.too_old(choice).unwrap_or(lack)),
                    Verdict::Unclear(lack) => Some(lack),
                };
                SandboxFinding { name, layers: ended.sandbox.layers, acts, lack, passing }
            }
        }
    }

    /// Has a process in the sandbox do the acts.
    fn play_inside(&self, choice: &SandboxChoice) -> Result<(Ended, Vec<Outcome>), ToolError> {
        let backend = crate::backend(choice, self.scene.view(), LIMITS)?;
        let unnamed =
            |error: std::io::Error| ToolError::new(ErrorKind::SandboxUnavailable, error.to_string());
        let job = ShellJob {
            work: Work::Program(self.scene.words().map_err(unnamed)?),
            stdin: Vec::new(),
            working_dir: None,
            timeout: PATIENCE,
        };
        let answer = Answer::default();
        let sink = Box::new(answer.clone());
        let ended = block_on(move || async move { backend.run(job, sink, Cancel::never()).await })?;
        let bytes = answer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        if ended.exit != Exit::Code(0) {
            let message =
                format!("The process that tries forbidden acts ended early ({:?}): {text}", ended.exit);
            // Killed or late, as on a machine that is short of memory.
            let kind = match ended.exit {
                Exit::TimedOut => ErrorKind::Timeout,
                Exit::Cancelled => ErrorKind::Cancelled,
                Exit::Signal(libc::SIGKILL) => ErrorKind::ToolFailed,
                Exit::Code(_) | Exit::Signal(_) => ErrorKind::SandboxUnavailable,
            };
            return Err(ToolError::new(kind, message).hint("Try again; if it stays, report it."));
        }
        Ok((ended, act::read(&text)))
    }
}

/// What the acts say of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// It lets happen what it promises to refuse, refuses what commands need, or was not seen to refuse the least.
    Lacks(Lack),
    /// The machine was short of something, so that it cannot be told.
    Unclear(Lack),
}

/// Without having been seen to refuse these, which succeed outside on every machine, no sandbox is believed. The others may
/// fail outside, too, where the machine has nothing of the kind.
const LEAST: [Act; 4] = [Act::ReadHidden, Act::WriteHidden, Act::WriteShown, Act::SignalProcess];

fn verdict(acts: &[ActFinding]) -> Verdict {
    let list = |broken: &dyn Fn(&ActFinding) -> bool| {
        let list: Vec<&str> = acts.iter().filter(|act| broken(act)).map(|act| act.about).collect();
        (!list.is_empty()).then(|| list.join(", "))
    };
    let short = |outcome: Outcome| matches!(outcome, Outcome::Refused(errno) if passing::is_shortage(errno));
    let promised = |act: &ActFinding| act.expected == Expected::Refused;
    let needed = |act: &ActFinding| act.expected == Expected::Done;
    let open = |act: &ActFinding| promised(act) && !matches!(act.inside, Outcome::Refused(_));
    if let Some(open) = list(&open) {
        return Verdict::Lacks(Lack::new(
            format!("It does not hold: a process in it can {open}."),
            "Use another sandbox, and report this with the kernel's release: it is a security bug.",
        ));
    }
    let least = |act: &ActFinding| promised(act) && LEAST.iter().any(|one| one.name() == act.name);
    let unclear = |act: &ActFinding| {
        let outside = least(act) && (short(act.outside) || act.outside == Outcome::Unknown);
        outside || ((needed(act) || promised(act) && act.tried()) && short(act.inside))
    };
    if let Some(unclear) = list(&unclear) {
        return Verdict::Unclear(Lack::new(
            format!("The machine is short of something, so that it could not be tried to {unclear}."),
            SHORT,
        ));
    }
    if let Some(untried) = list(&|act| least(act) && !act.tried()) {
        return Verdict::Lacks(Lack::new(
            format!("It is not shown to hold: a process outside of it cannot {untried} either."),
            "Look for what restricts Helve itself; `helve doctor --json` shows each act.",
        ));
    }
    match list(&|act| needed(act) && act.inside != Outcome::Done) {
        None => Verdict::Holds,
        Some(useless) => Verdict::Lacks(Lack::new(
            format!("It is of no use: a process in it cannot {useless}."),
            "Look at the permissions and the mount options of the temporary directory.",
        )),
    }
}

/// Collects what the process writes, up to a bound.
#[derive(Clone, Default)]
struct Answer(Arc<Mutex<Vec<u8>>>);

impl OutputSink for Answer {
    fn chunk(&mut self, _stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = ANSWER_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Runs a future to its end on a thread of its own: the caller's may belong to an event loop already.
fn block_on<T: Send, F: Future<Output = Result<T, ToolError>>>(
    make: impl FnOnce() -> F + Send,
) -> Result<T, ToolError> {
    let failed = |why: String| ToolError::internal(format!("The sandbox cannot be probed: {why}"));
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| failed(error.to_string()))?.block_on(make())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("helve-probe".to_owned()).spawn_scoped(scope, run);
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("it crashed".to_owned())))
    })
}

#[cfg(test)]
mod tests;
