//! The scene on which the acts are played: a scratch directory, two listeners and a waiting process, all made by this
//! probe and gone with it.
//!
//! Its files can be read and written by whoever gets to them, so that only a sandbox can be what keeps a process from them.
//! Who gets there at all, and that nobody can put something else in their place, is the matter of `scratch`. Outside,
//! nothing that lies in the scene is executed.

use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use helve_core::{Explain, Network, View};
use rustix::process::Pid;

use super::act::{self, Outcome, Side, Stage};
use super::scratch::{self, Scratch};
use crate::sys::native::is_mapped;

/// How a process of the probe is told from an ordinary start: the file name in its zeroth argument.
pub(super) const PROGRAM_NAME: &str = "helve-sandbox-probe";

/// The user to whom root's scratch workspace belongs: no sandbox that runs as root would prove anything.
const NOBODY: u32 = 65534;

/// How long the acts outside may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer that is read.
const ANSWER_BYTES: u64 = 64 * 1024;

/// The scene. Dropping it takes everything away.
pub(super) struct Scene {
    pub(super) stage: Stage,
    /// The program that does the acts, as it is started outside.
    program: PathBuf,
    /// The same as the sandbox shows it, where it is not part of the scene.
    seen: Option<PathBuf>,
    waiting: Child,
    _listeners: (UnixListener, Option<TcpListener>),
    _scratch: Scratch,
}

impl Scene {
    /// Sets everything up; `program` is one that calls the hook for helpers first.
    pub(super) fn set(program: &Path) -> io::Result<Scene> {
        let random = RandomState::new().build_hasher().finish();
        let mark = format!("{}{}-{random:016x}", scratch::NAME, std::process::id());
        Scene::set_in(Scratch::make(&mark)?, mark, program)
    }

    fn set_in(scratch: Scratch, mark: String, program: &Path) -> io::Result<Scene> {
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&mark)?)?;
        // A machine without a loopback has none to protect.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok();
        let number =
            port.as_ref().and_then(|port| port.local_addr().ok()).map_or(0, |address| address.port());
        let mut stage = Stage { place: scratch.path().to_owned(), mark, port: number, process: None };
        for part in ["hidden", "shown"] {
            scratch::make_file(&scratch.directory(part)?, "file", &mut part.as_bytes(), 0o666)?;
        }
        let seen = reachable(program, &scratch.directory("program")?)?;
        let workspace = scratch.directory("workspace")?;
        let waiting = Command::new(program)
            .arg0(PROGRAM_NAME)
            .args([act::WAIT, &stage.mark])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        stage.process = Pid::from_raw(i32::try_from(waiting.id()).unwrap_or(0));
        // Where this root knows no other user, as in a namespace of its own, no sandbox has one either, and says so.
        if rustix::process::geteuid().is_root() && is_mapped(NOBODY) {
            fchown(&workspace, Some(NOBODY), Some(NOBODY))?;
            // Also for a root without root's rights, as in bwrap. Nobody takes away what another has made there.
            workspace.set_permissions(Permissions::from_mode(0o1777))?;
            // Last, when everything stands.
            scratch.open_to(NOBODY)?;
        }
        let program = program.to_owned();
        Ok(Scene { stage, program, seen, waiting, _listeners: (socket, port), _scratch: scratch })
    }

    /// What a sandbox shows of it.
    pub(super) fn view(&self) -> View {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp/home"), ("LANG", "C.UTF-8")];
        let shown = ["shown", "program"].map(|part| self.stage.place.join(part));
        View {
            workspace: self.stage.workspace(),
            read_only: shown.into_iter().chain(self.seen.clone()).collect(),
            read_write: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: "/bin/sh".into(),
        }
    }

    /// The program and its arguments for the acts inside.
    pub(super) fn words(&self) -> io::Result<Vec<String>> {
        let unreadable =
            || io::Error::new(io::ErrorKind::InvalidInput, "the name of the temporary directory is no text");
        let program = self.stage.place.join("program").join(PROGRAM_NAME);
        let mut words = vec![program.to_str().ok_or_else(unreadable)?.to_owned()];
        words.extend(self.stage.words(Side::Inside).ok_or_else(unreadable)?);
        Ok(words)
    }

    /// Has a throw-away process do the acts outside.
    pub(super) fn play_outside(&self) -> io::Result<Vec<Outcome>> {
        let words = self.stage.words(Side::Outside).unwrap_or_default();
        let mut child = Command::new(&self.program)
            .arg0(PROGRAM_NAME)
            .args(words)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let start = Instant::now();
        while child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let mut answer = String::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(ANSWER_BYTES).read_to_string(&mut answer)?;
        }
        Ok(act::read(&answer))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.waiting.stdin.take());
        let _ = self.waiting.kill();
        let _ = self.waiting.wait();
    }
}

/// Puts the program under the probe's name into this directory: as a link where every user can follow it, whose end is
/// given, else as a copy.
fn reachable(program: &Path, directory: &File) -> io::Result<Option<PathBuf>> {
    let everybody = |path: &Path| path.metadata().is_ok_and(|found| found.mode() & 0o001 != 0);
    if let Ok(real) = program.canonicalize()
        && (!rustix::process::geteuid().is_root() || real.ancestors().all(everybody))
    {
        rustix::fs::symlinkat(&real, directory, PROGRAM_NAME)?;
        return Ok(Some(real));
    }
    scratch::make_file(directory, PROGRAM_NAME, &mut File::open(program)?, 0o755)?;
    Ok(None)
}

#[cfg(test)]
mod tests;
