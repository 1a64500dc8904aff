//! A program of the owner's that answers questions: `approval.hook` names it. It gets the request as one line of JSON on
//! its standard input and answers with one line of JSON: `{"answer": "once" | "session" | "always" | "deny" | "nobody",
//! "reason": …, "grants": [{"part": 0, "pattern": …, "scope": "session" | "workspace" | "user", "expires_in":
//! seconds}]}`. Without `grants`, "session" and "always" mean every pattern that was offered, in this workspace.
//!
//! Everything else fails closed: an answer that is no such line, an exit code other than 0 or an answer that is too long
//! mean that nobody is there, and the program is ended when its time is up. It runs in `/` with an environment of a few
//! named variables, never in a workspace.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use helve_core::BoxFuture;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{Answer, Approval, ApprovalRequest, Approver, Grant, Scope};

/// The name under which its answers are recorded.
const NAME: &str = "hook";
/// The longest answer.
const MAX_ANSWER: usize = 64 << 10;
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
pub(crate) struct Hook {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) timeout: Duration,
}

/// The line that the program answers with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    answer: Word,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    grants: Option<Vec<LineGrant>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Once,
    Session,
    Always,
    Deny,
    Nobody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineGrant {
    part: usize,
    pattern: String,
    #[serde(default = "workspace")]
    scope: Scope,
    #[serde(default)]
    expires_in: Option<u64>,
}

fn workspace() -> Scope {
    Scope::Workspace
}

impl Approver for Hook {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move { Answer::new(NAME, self.run(request).await) })
    }
}

impl Hook {
    async fn run(&self, request: &ApprovalRequest) -> Approval {
        let Ok(mut question) = serde_json::to_vec(request) else { return Approval::Nobody };
        question.push(b'\n');
        let Ok(child) = self.start() else { return Approval::Nobody };
        let taken_back = TakenBack(Arc::new(AtomicBool::new(false)));
        let watch = Watch { deadline: Instant::now() + self.timeout, taken_back: Arc::clone(&taken_back.0) };
        let (to, answer) = oneshot::channel();
        // A thread of its own: one that waits for a person must not hold up other work.
        let asker = std::thread::Builder::new().name("helve-hook".to_owned()).spawn(move || {
            let _ = to.send(watch.converse(child, question));
        });
        let heard = match asker {
            Ok(_) => answer.await.unwrap_or(Heard::Nothing),
            Err(_) => Heard::Nothing,
        };
        match heard {
            Heard::Line(line) => read(&line, request).unwrap_or(Approval::Nobody),
            Heard::Nothing => Approval::Nobody,
            Heard::TimedOut => Approval::TimedOut,
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

/// What the program said.
enum Heard {
    Line(Vec<u8>),
    Nothing,
    TimedOut,
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
}

impl Watch {
    /// Hands over the question and waits for one line and a good end.
    fn converse(&self, mut ended: Ended, question: Vec<u8>) -> Heard {
        let child = &mut ended.0;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Heard::Nothing;
        };
        // A program that does not read its question must not hold up reading its answer. The thread ends with the
        // program, when nobody holds the other end of the pipe.
        let writer = std::thread::Builder::new().name("helve-hook-in".to_owned()).spawn(move || {
            let _ = input.write_all(&question);
        });
        if writer.is_err() {
            return Heard::Nothing;
        }
        let heard = match self.listen(output) {
            Heard::Line(line) => line,
            other => return other,
        };
        match self.end(child) {
            Some(true) => Heard::Line(heard),
            Some(false) => Heard::Nothing,
            None => Heard::TimedOut,
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
                Ok(0) | Err(_) => return if line.is_empty() { Heard::Nothing } else { Heard::Line(line) },
                Ok(count) => count,
            };
            let piece = &piece[..count];
            let end = piece.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&piece[..end.unwrap_or(count)]);
            if line.len() > MAX_ANSWER {
                return Heard::Nothing;
            }
            if end.is_some() {
                return Heard::Line(line);
            }
        }
    }

    /// Whether the program ended with 0; none if its time is up first.
    fn end(&self, child: &mut Child) -> Option<bool> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Not waited for here: the number must stay the program's own until its group was ended.
        if !self.wait(&pidfd) {
            return None;
        }
        let options = rustix::process::WaitIdOptions::EXITED
            | rustix::process::WaitIdOptions::NOWAIT
            | rustix::process::WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).ok()??;
        Some(status.exit_status() == Some(0))
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

/// The answer in a line; none if it is no answer.
fn read(line: &[u8], request: &ApprovalRequest) -> Option<Approval> {
    // A list would be taken for the members in their order.
    let line: Line =
        serde_json::from_slice(line.trim_ascii()).ok().filter(|_| line.trim_ascii().starts_with(b"{"))?;
    let grants = match line.grants {
        Some(grants) => grants.into_iter().map(grant).collect::<Option<Vec<Grant>>>()?,
        None => offered(request),
    };
    Some(match line.answer {
        Word::Once => Approval::Once,
        Word::Session => Approval::Session { grants },
        Word::Always => Approval::Always { grants },
        Word::Deny => {
            Approval::Denied { reason: line.reason.unwrap_or_else(|| "the hook said no".to_owned()) }
        }
        Word::Nobody => Approval::Nobody,
    })
}

/// None where it would end at a moment that no clock shows: that is not to say "never".
fn grant(line: LineGrant) -> Option<Grant> {
    let expires = match line.expires_in {
        Some(seconds) => Some(SystemTime::now().checked_add(Duration::from_secs(seconds))?),
        None => None,
    };
    Some(Grant { pattern: line.pattern, scope: line.scope, expires, part: line.part })
}

/// Every pattern that was offered.
fn offered(request: &ApprovalRequest) -> Vec<Grant> {
    let parts = request.parts.iter().enumerate();
    let offers = parts.filter_map(|(part, asked)| Some((part, asked.offer.clone()?)));
    let grants =
        offers.map(|(part, pattern)| Grant { pattern, scope: Scope::Workspace, expires: None, part });
    grants.collect()
}
