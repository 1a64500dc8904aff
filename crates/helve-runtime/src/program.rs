//! A program of the owner's that is asked something: one line of JSON on its standard input, one line back, and no more.
//!
//! It runs in `/` with an environment of a few named variables, never in a workspace. It is ended, with all that it started
//! in its group, when its time is up or when nobody waits for it any more. What its answer means is for whoever asks:
//! `approval/hook.rs` and `hooks.rs`.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
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
    /// The one line that the program said; empty where it said nothing. It ended well.
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
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return Heard::Failed("it has no number".to_owned());
        };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => return Heard::Failed(format!("its end cannot be waited for: {error}")),
        };
        let said = match self.listen(output, &pidfd) {
            Heard::Line(said) => said,
            other => return other,
        };
        match self.end(pid, &pidfd) {
            None => Heard::TimedOut,
            Some(Some(0)) => only_line(&said),
            Some(Some(code)) => Heard::Failed(format!("it ended with exit code {code}")),
            Some(None) => Heard::Failed("a signal ended it".to_owned()),
        }
    }

    /// All that it says until it ends; what it leaves behind may keep its output open.
    fn listen(&self, mut output: ChildStdout, pidfd: &OwnedFd) -> Heard {
        let mut said = Vec::new();
        let mut piece = [0_u8; 4096];
        loop {
            let Some(ready) = self.wait(&[output.as_fd(), pidfd.as_fd()]) else { return Heard::TimedOut };
            // What it said last may have come between the two looks.
            if !ready[0] && !has_more(&output) {
                return Heard::Line(said);
            }
            let count = match output.read(&mut piece) {
                Ok(0) | Err(_) => return Heard::Line(said),
                Ok(count) => count,
            };
            said.extend_from_slice(&piece[..count]);
            // A line has an end, too.
            if said.len() > self.most.saturating_add(2) {
                return Heard::Failed(format!("its answer is longer than {} bytes", self.most));
            }
        }
    }

    /// The exit code, none where a signal ended the program; none at all if its time is up first.
    fn end(&self, pid: Pid, pidfd: &OwnedFd) -> Option<Option<i32>> {
        // It is not waited for here, so that its number stays its own until its group is ended.
        self.wait(&[pidfd.as_fd()])?;
        let options = rustix::process::WaitIdOptions::EXITED
            | rustix::process::WaitIdOptions::NOWAIT
            | rustix::process::WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).ok()??;
        Some(status.exit_status())
    }

    /// Waits until there is something to read of any of them, and says of which; none when the time is up or the question
    /// was taken back.
    fn wait<const N: usize>(&self, on: &[BorrowedFd<'_>; N]) -> Option<[bool; N]> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.taken_back.load(Ordering::Relaxed) {
                return None;
            }
            let tick = Timespec::try_from(left.min(TICK)).ok()?;
            let mut fds = on.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Some(fds.map(|fd| !fd.revents().is_empty())),
                Err(_) => return None,
            }
        }
    }
}

fn has_more(output: &ChildStdout) -> bool {
    let mut fds = [PollFd::new(output, PollFlags::IN)];
    !matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

/// The line that is all that was said. One that is lost behind another must not count for nothing.
fn only_line(said: &[u8]) -> Heard {
    let said = said.trim_ascii();
    match said.contains(&b'\n') {
        true => Heard::Failed("it says more than one line".to_owned()),
        false => Heard::Line(said.to_vec()),
    }
}
