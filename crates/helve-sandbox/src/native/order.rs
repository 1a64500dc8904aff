//! What is asked of a member: a job as texts and descriptors, in the shapes that each lane takes.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use helve_core::{Attach, ShellJob, ToolError, View, Work};
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedReceiver;

use super::lane;
use super::member::Member;
use super::socket;
use super::wire::{INLINE_BYTES, MOST_TEXTS, Make, Request};
use crate::drain::memory_file;
use crate::{program, spawn, workdir};

/// One job, ready to be sent.
pub(super) struct Order {
    /// What a warm shell reads, if one may.
    warm: Option<Vec<u8>>,
    /// Directory, program and arguments, each ended by NUL.
    texts: Vec<u8>,
    count: u32,
    /// The texts, where they are too long for a message.
    file: Option<OwnedFd>,
    stdin: Option<OwnedFd>,
    attached: Option<Attached>,
}

struct Attached {
    streams: [OwnedFd; 3],
    terminal: bool,
}

impl Order {
    /// A job whose output is collected.
    pub(super) fn of_job(view: &View, job: &ShellJob) -> Result<Order, ToolError> {
        let directory = directory(view, job.working_dir.as_deref())?;
        let texts = match &job.work {
            Work::Shell(text) => {
                // A shell is called as a person calls it, so that its messages begin with `bash:`.
                let name = view.shell.file_name().unwrap_or(view.shell.as_os_str());
                let words = [view.shell.as_os_str(), name, OsStr::new("-c"), OsStr::new(text)];
                Texts::new(&directory, words.into_iter())?
            }
            Work::Program(words) => Texts::of_words(&directory, words.iter().map(OsStr::new))?,
        };
        let warm = match &job.work {
            Work::Shell(text) if job.stdin.is_empty() && directory.is_empty() && lane::fits_warm(text) => {
                Some([text.as_bytes(), b"\0"].concat())
            }
            _ => None,
        };
        let stdin = match job.stdin.as_slice() {
            [] => None,
            bytes => Some(memory_file("stdin", bytes).map_err(spawn::no_process)?),
        };
        Order::new(warm, texts, stdin, None)
    }

    /// A program on its caller's own streams.
    pub(super) fn of_attached(
        view: &View,
        program: Attach,
    ) -> Result<(Order, UnboundedReceiver<i32>), ToolError> {
        let directory = directory(view, program.working_dir.as_deref())?;
        let texts = Texts::of_words(&directory, program.words.iter().map(OsString::as_os_str))?;
        let attached = Attached { streams: program.streams, terminal: program.terminal };
        Ok((Order::new(None, texts, None, Some(attached))?, program.signals))
    }

    fn new(
        warm: Option<Vec<u8>>,
        texts: Texts,
        stdin: Option<OwnedFd>,
        attached: Option<Attached>,
    ) -> Result<Order, ToolError> {
        let Texts { bytes, count } = texts;
        let long = bytes.len() > INLINE_BYTES || count > MOST_TEXTS;
        let file = if long { Some(memory_file("words", &bytes).map_err(spawn::no_process)?) } else { None };
        Ok(Order { warm, texts: bytes, count, file, stdin, attached })
    }

    /// Whether a warm shell may take it.
    pub(super) fn fits_warm(&self) -> bool {
        self.warm.is_some()
    }

    /// Whether a parked member can take it.
    pub(super) fn fits_parked(&self) -> bool {
        self.file.is_none() && self.attached.is_none()
    }

    /// The caller's own streams, if it runs on them.
    pub(super) fn streams(&self) -> Option<[BorrowedFd<'_>; 3]> {
        self.attached.as_ref().map(|attached| attached.streams.each_ref().map(AsFd::as_fd))
    }

    /// Lets go of the caller's own streams, which the command has now: a pipe ends when it closes them. Whether there were
    /// any; then the order cannot be given again.
    pub(super) fn hand_over(&mut self) -> bool {
        self.attached.take().is_some()
    }

    /// Sends it to a member that waits for one.
    pub(super) fn send_to(&self, member: &Member) -> Result<(), Errno> {
        if let (true, Some(text)) = (member.is_warm(), &self.warm) {
            let head = Request {
                tag: Request::TAG,
                length: short(text.len())?,
                streams: 0,
                in_file: 0,
                terminal: 0,
                texts: 1,
                copied: 0,
            };
            return member.request(&[&head.to_bytes(), text], &[]);
        }
        let stdin = self.stdin.as_ref().map(AsFd::as_fd);
        member.request(&[&self.head()?.to_bytes(), &self.texts], stdin.as_slice())
    }

    /// Sends it to the zygote with the order to make `member`, whose ends are given: talk and outputs.
    pub(super) fn send_with_make(&self, member: &Member, ends: [BorrowedFd<'_>; 3]) -> Result<(), Errno> {
        let make = Make { tag: Make::TAG, kind: member.kind as u32, id: member.id };
        let mut fds = ends.to_vec();
        fds.extend(self.stdin.as_ref().map(AsFd::as_fd));
        fds.extend(self.streams().into_iter().flatten());
        fds.extend(self.file.as_ref().map(AsFd::as_fd));
        fds.extend(member.wall.descriptors());
        let texts = if self.file.is_some() { &[][..] } else { &self.texts };
        socket::send(member.zygote.control(), &[&make.to_bytes(), &self.head()?.to_bytes(), texts], &fds)
    }

    fn head(&self) -> Result<Request, Errno> {
        let streams = match (&self.attached, &self.stdin) {
            (Some(_), _) => 3,
            (None, Some(_)) => 1,
            (None, None) => 0,
        };
        Ok(Request {
            tag: Request::TAG,
            length: short(self.texts.len())?,
            streams,
            in_file: u32::from(self.file.is_some()),
            terminal: u32::from(self.attached.as_ref().is_some_and(|attached| attached.terminal)),
            texts: self.count,
            copied: u32::from(self.warm.is_some()),
        })
    }
}

fn short(length: usize) -> Result<u32, Errno> {
    u32::try_from(length).map_err(|_| Errno::TOOBIG)
}

/// Where it starts, as a real path; empty for the workspace.
fn directory(view: &View, asked: Option<&str>) -> Result<OsString, ToolError> {
    match asked {
        None | Some("" | ".") => Ok(OsString::new()),
        Some(asked) if Path::new(asked) == view.workspace => Ok(OsString::new()),
        asked => Ok(workdir::open(view, asked)?.path.into_os_string()),
    }
}

/// Texts, each ended by NUL.
struct Texts {
    bytes: Vec<u8>,
    count: u32,
}

impl Texts {
    /// Of a program that is called by the name it is looked up by.
    fn of_words<'a>(
        directory: &'a OsStr,
        words: impl Iterator<Item = &'a OsStr> + Clone,
    ) -> Result<Texts, ToolError> {
        let program = words.clone().next().ok_or_else(program::nothing_to_run)?;
        Texts::new(directory, std::iter::once(program).chain(words))
    }

    /// Of a program and its arguments from the zeroth on.
    fn new<'a>(directory: &'a OsStr, words: impl Iterator<Item = &'a OsStr>) -> Result<Texts, ToolError> {
        let mut texts = Texts { bytes: Vec::new(), count: 0 };
        for text in std::iter::once(directory).chain(words) {
            if text.as_bytes().contains(&0) {
                return Err(spawn::bad_text(Errno::INVAL.into()));
            }
            texts.bytes.extend_from_slice(text.as_bytes());
            texts.bytes.push(0);
            texts.count = texts.count.saturating_add(1);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use helve_core::{ErrorKind, Explain, Network};
    use pretty_assertions::assert_eq;

    use super::*;

    fn view(workspace: &Path) -> View {
        View {
            workspace: workspace.to_owned(),
            read_only: Vec::new(),
            read_write: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: BTreeMap::new(),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: "/bin/bash".into(),
        }
    }

    fn job(work: Work) -> ShellJob {
        ShellJob { work, stdin: Vec::new(), working_dir: None, timeout: Duration::from_secs(1) }
    }

    fn shell(text: &str) -> ShellJob {
        job(Work::Shell(text.to_owned()))
    }

    #[test]
    fn a_text_can_go_to_a_warm_shell_or_to_one_that_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let order = Order::of_job(&view(folder.path()), &shell("echo hi")).unwrap();
        assert_eq!(order.warm.as_deref(), Some(&b"echo hi\0"[..]));
        assert_eq!(order.texts, b"\0/bin/bash\0bash\0-c\0echo hi\0");
        let head = Request { tag: 3, length: 27, streams: 0, in_file: 0, terminal: 0, texts: 5, copied: 1 };
        assert_eq!(order.head().unwrap(), head);
        assert!(order.fits_warm() && order.fits_parked());
    }

    #[test]
    fn input_another_directory_and_programs_need_a_process_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().canonicalize().unwrap().join("in side");
        std::fs::create_dir(&inside).unwrap();
        let view = view(folder.path());
        let order = Order::of_job(&view, &ShellJob { stdin: b"x".to_vec(), ..shell("cat") }).unwrap();
        assert_eq!((order.fits_warm(), order.head().unwrap().streams), (false, 1));
        let there = ShellJob { working_dir: Some("in side".to_owned()), ..shell("pwd") };
        let order = Order::of_job(&view, &there).unwrap();
        assert!(!order.fits_warm());
        let expected = [inside.as_os_str().as_bytes(), b"\0/bin/bash\0bash\0-c\0pwd\0"].concat();
        assert_eq!(order.texts, expected);
        let words = Work::Program(vec!["grep".to_owned(), "-R".to_owned()]);
        let order = Order::of_job(&view, &job(words)).unwrap();
        assert_eq!((order.texts.as_slice(), order.count), (&b"\0grep\0grep\0-R\0"[..], 4));
    }

    #[test]
    fn the_workspace_by_any_name_is_where_a_shell_stands_already() {
        let folder = tempfile::tempdir().unwrap();
        let view = view(folder.path());
        for name in ["", ".", folder.path().to_str().unwrap()] {
            let here = ShellJob { working_dir: Some(name.to_owned()), ..shell("pwd") };
            assert!(Order::of_job(&view, &here).unwrap().fits_warm(), "{name}");
        }
    }

    #[test]
    fn long_texts_travel_in_a_file_and_nul_bytes_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let view = view(folder.path());
        let order = Order::of_job(&view, &shell(&"x".repeat(INLINE_BYTES))).unwrap();
        assert_eq!((order.fits_parked(), order.head().unwrap().in_file), (false, 1));
        let many = Work::Program(vec!["x".to_owned(); MOST_TEXTS as usize]);
        assert!(!Order::of_job(&view, &job(many)).unwrap().fits_parked());
        let error = Order::of_job(&view, &shell("a\0b")).err().unwrap();
        assert_eq!(error.kind, ErrorKind::InvalidParams);
        let error = Order::of_job(&view, &job(Work::Program(Vec::new()))).err().unwrap();
        assert_eq!(error.kind, ErrorKind::InvalidParams);
    }
}
