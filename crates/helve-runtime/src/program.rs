//! A program of the owner's that is asked something: one line of JSON on its standard input, one line back.
//!
//! It runs in `/` with an environment of a few named variables, never in a workspace. It is ended, with all that it started
//! in its group, when its time is up or when nobody waits for it any more. What its answer means is for whoever asks:
//! `approval/hook.rs` and `hooks.rs`.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::sync::oneshot;

/// How often a waiting thread looks whether the question was taken back.
const TICK: Duration = Duration::from_millis(50);
/// What the program gets of the environment: enough to show a window, nothing that configures Helve.
const PASSED: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LOGNAME",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program of the owner's.
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) timeout: Duration,
    /// The longest answer, in bytes.
    pub(crate) most: usize,
}

/// What came of a question.
pub(crate) enum Heard {
    /// The first line of what the program said, without its end; empty where it said nothing. It ended well.
    Line(Vec<u8>),
    /// It did not do as agreed; why, as a phrase.
    Failed(String),
    /// Its time was up.
    TimedOut,
}

impl Program {
    /// The program and its arguments, as the configuration has them.
    pub(crate) fn new(words: &[String], timeout: Duration, most: usize) -> Program {
        let mut words = words.iter();
        let program = words.next().map(PathBuf::from).unwrap_or_default();
        Program { program, args: words.cloned().collect(), timeout, most }
    }

    /// Hands over a question and waits for the answer. Whoever stops waiting ends the program.
    pub(crate) async fn ask(&self, mut question: Vec<u8>) -> Heard {
        question.push(b'\n');
        let child = match self.start() {
            Ok(child) => child,
            Err(error) => {
                return Heard::Failed(format!("{} cannot be started: {error}", self.program.display()));
            }
        };
        let taken_back = TakenBack(Arc::new(AtomicBool::new(false)));
        let watch = Watch {
            deadline: Instant::now() + self.timeout,
            taken_back: Arc::clone(&taken_back.0),
            most: self.most,
        };
        let (to, answer) = oneshot::channel();
        // A thread of its own: one that waits for a person must not hold up other work.
        let asker = std::thread::Builder::new().name("helve-hook".to_owned()).spawn(move || {
            let _ = to.send(watch.converse(child, question));
        });
        match asker {
            Ok(_) => answer.await.unwrap_or_else(|_| Heard::Failed("its answer was lost".to_owned())),
            Err(error) => Heard::Failed(format!("no thread can wait for it: {error}")),
        }
    }

    fn start(&self) -> std::io::Result<Ended> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir("/").env_clear().env("PATH", PATH).process_group(0);
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map(Ended)
    }
}

/// A program that is ended with all that it started in its group, whatever way its question goes.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Before it is waited for, so that the number is still its own.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Told when nobody waits for the answer any more.
struct TakenBack(Arc<AtomicBool>);

impl Drop for TakenBack {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Watch {
    deadline: Instant,
    taken_back: Arc<AtomicBool>,
    most: usize,
}

impl Watch {
    /// Hands over the question and waits for one line and a good end.
    fn converse(&self, mut ended: Ended, question: Vec<u8>) -> Heard {
        let child = &mut ended.0;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Heard::Failed("it has no pipes".to_owned());
        };
        // A program that does not read its question must not hold up reading its answer. The thread ends with the
        // program, when nobody holds the other end of the pipe.
        let writer = std::thread::Builder::new().name("helve-hook-in".to_owned()).spawn(move || {
            let _ = input.write_all(&question);
        });
        if let Err(error) = writer {
            return Heard::Failed(format!("no thread can write to it: {error}"));
        }
        let heard = match self.listen(output) {
            Heard::Line(line) => line,
            other => return other,
        };
        match self.end(child) {
            None => Heard::TimedOut,
            Some(Some(0)) => Heard::Line(heard),
            Some(Some(code)) => Heard::Failed(format!("it ended with exit code {code}")),
            Some(None) => Heard::Failed("a signal ended it".to_owned()),
        }
    }

    /// The first line, complete.
    fn listen(&self, mut output: ChildStdout) -> Heard {
        let mut line = Vec::new();
        let mut piece = [0_u8; 4096];
        loop {
            if !self.wait(&output) {
                return Heard::TimedOut;
            }
            let count = match output.read(&mut piece) {
                Ok(0) | Err(_) => return Heard::Line(line),
                Ok(count) => count,
            };
            let piece = &piece[..count];
            let end = piece.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&piece[..end.unwrap_or(count)]);
            if line.len() > self.most {
                return Heard::Failed(format!("its answer is longer than {} bytes", self.most));
            }
            if end.is_some() {
                return Heard::Line(line);
            }
        }
    }

    /// The exit code, none where a signal ended the program; none at all if its time is up first.
    fn end(&self, child: &Child) -> Option<Option<i32>> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // It is not waited for here, so that its number stays its own until its group is ended.
        if !self.wait(&pidfd) {
            return None;
        }
        let options = rustix::process::WaitIdOptions::EXITED
            | rustix::process::WaitIdOptions::NOWAIT
            | rustix::process::WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).ok()??;
        Some(status.exit_status())
    }

    /// Waits until there is something to read; false when the time is up or the question was taken back.
    fn wait(&self, on: impl AsFd) -> bool {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.taken_back.load(Ordering::Relaxed) {
                return false;
            }
            let Ok(tick) = Timespec::try_from(left.min(TICK)) else { return false };
            let mut fds = [PollFd::from_borrowed_fd(on.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }
}
