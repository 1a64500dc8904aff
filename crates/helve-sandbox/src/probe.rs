//! What this machine can give: every layer is tried, and every sandbox is held against forbidden acts.
//!
//! ```text
//! probe
//!   ├ scene            files, listeners and a process that only this probe made
//!   ├ act   outside    a throw-away process does every act: one that fails there proves nothing inside
//!   │       inside     the same process in each sandbox: there every act has to fail
//!   ├ causes           why a layer is missing, and the command that mends it
//!   └ answer           what the ladder remembers of it
//! ```
//!
//! In: nothing but the machine. Out: [`Findings`] for a person, or the best rung for the ladder. Version numbers decide
//! nothing. Deliberately not here: the owner's view and workspace, with which a sandbox may still fail; whoever wants to
//! know that runs a command in it.

mod act;
pub(crate) mod answer;
mod causes;
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

/// Tries every layer and every sandbox for real, in processes of its own; takes some tenths of a second. What the ladder
/// would choose is kept in `remember_in`, in place of what was known there.
pub fn probe(remember_in: Option<&Path>) -> Result<Findings, ToolError> {
    let probe = Probe::start()?;
    let sandboxes: Vec<SandboxFinding> =
        [SandboxChoice::Native, SandboxChoice::Landlock, SandboxChoice::Bwrap]
            .iter()
            .map(|choice| probe.hold(choice))
            .collect();
    if let Some(memory) = remember_in.and_then(Memory::of) {
        let best = Rung::ALL
            .into_iter()
            .find(|rung| sandboxes.iter().any(|sandbox| sandbox.name == rung.name() && sandbox.holds()));
        match best {
            Some(rung) => memory.keep(rung),
            None => memory.forget(),
        }
    }
    Ok(Findings {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        user: rustix::process::geteuid().as_raw(),
        layers: probe.layers(),
        sandboxes,
    })
}

/// The best rung that holds, or what each of them lacks. Those below it are not tried.
pub(crate) fn climb() -> Result<Result<Rung, Vec<SandboxFinding>>, ToolError> {
    let probe = Probe::start()?;
    let mut refused = Vec::new();
    for rung in Rung::ALL {
        let found = probe.hold(&choice(rung));
        if found.holds() {
            return Ok(Ok(rung));
        }
        refused.push(found);
    }
    Ok(Err(refused))
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
            ToolError::new(ErrorKind::SandboxUnavailable, format!("The sandbox cannot be probed: {error}"))
                .hint("Make the temporary directory (TMPDIR, else /tmp) writable, and allow programs to run.")
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
                let hint = error.hint.unwrap_or_default();
                let lack = self.missing_layer(choice).unwrap_or(Lack::new(error.message, hint));
                SandboxFinding { name, layers: Vec::new(), acts: Vec::new(), lack: Some(lack) }
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
                let lack = verdict(&acts).map(|lack| self.too_old(choice).unwrap_or(lack));
                SandboxFinding { name, layers: ended.sandbox.layers, acts, lack }
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
            return Err(
                ToolError::new(ErrorKind::SandboxUnavailable, message).hint("Report this as a bug of Helve.")
            );
        }
        Ok((ended, act::read(&text)))
    }
}

/// What a sandbox lets happen although it promises to refuse it, or refuses although commands need it.
fn verdict(acts: &[ActFinding]) -> Option<Lack> {
    let list = |broken: fn(&ActFinding) -> bool| {
        let list: Vec<&str> = acts.iter().filter(|act| broken(act)).map(|act| act.about).collect();
        list.join(", ")
    };
    let open = list(|act| act.expected == Expected::Refused && !matches!(act.inside, Outcome::Refused(_)));
    let useless = list(|act| act.expected == Expected::Done && act.inside != Outcome::Done);
    if !open.is_empty() {
        return Some(Lack::new(
            format!("It does not hold: a process in it can {open}."),
            "Use another sandbox, and report this with the kernel's release: it is a security bug.",
        ));
    }
    (!useless.is_empty()).then(|| {
        Lack::new(
            format!("It is of no use: a process in it cannot {useless}."),
            "Look at the permissions and the mount options of the temporary directory.",
        )
    })
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
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_not_kept_or_not_shown_is_a_lack() {
        let act = |expected, inside| ActFinding {
            name: "x",
            about: "do x",
            expected,
            outside: Outcome::Done,
            inside,
        };
        let refused = Outcome::Refused(libc::EPERM);
        let good = [
            act(Expected::Refused, refused),
            act(Expected::Either, Outcome::Done),
            act(Expected::Done, Outcome::Done),
        ];
        assert_eq!(verdict(&good), None);
        for (expected, inside, why) in [
            (Expected::Refused, Outcome::Done, "can do x"),
            (Expected::Refused, Outcome::Unknown, "can do x"),
            (Expected::Done, refused, "cannot do x"),
            (Expected::Done, Outcome::Unknown, "cannot do x"),
        ] {
            let mut acts = good.to_vec();
            acts.push(act(expected, inside));
            let lack = verdict(&acts).unwrap();
            assert!(lack.why.contains(why), "{lack:?}");
        }
    }
}
