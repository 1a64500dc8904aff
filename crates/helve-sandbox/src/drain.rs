//! The blocking half of a call: starts the supervisor and moves bytes from the pipes into the sink until it reports.
//!
//! In: an [`Order`], the sink and the lifeline. Out: how the command ended, and the little that a backend wants to
//! read itself. Nothing is kept beyond one read buffer. Deadlines are not here: whoever holds the other end of the
//! lifeline cuts it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use helve_core::{OutputSink, ProcessLimits, Removed, Stream};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::sync::oneshot;

use crate::native::wire::Bound;
use crate::protect::Turn;
use crate::rung::private::Private;
use crate::sys::confine::Confinement;
use crate::sys::{self, Ending, Launch, Program, Supervisor, Told};

/// What a backend wants to have run.
pub(crate) struct Order {
    /// What to execute.
    pub(crate) program: Program,
    /// Where it starts; `/` if absent.
    pub(crate) directory: Option<OwnedFd>,
    /// Descriptors that it gets besides the standard streams, under the numbers that they have.
    pub(crate) inherited: Vec<OwnedFd>,
    /// A pipe into which a sandbox program says what it did; read when everything has ended.
    pub(crate) status: Option<OwnedFd>,
    /// What it reads and where it writes.
    pub(crate) streams: Given,
    /// Its limits.
    pub(crate) limits: ProcessLimits,
    /// The protection of the workspace while it runs.
    pub(crate) turn: Option<Turn>,
    /// Whether its tree as a whole is held to the limits.
    pub(crate) watched: bool,
    /// What it gives up before it runs.
    pub(crate) confinement: Option<Confinement>,
    /// A directory of its own, which goes with it.
    pub(crate) private: Option<Private>,
}

impl Order {
    /// One for a program that needs nothing besides.
    pub(crate) fn plain(program: Program, directory: OwnedFd, limits: ProcessLimits) -> Order {
        Order {
            program,
            directory: Some(directory),
            inherited: Vec::new(),
            status: None,
            streams: Given::Nothing,
            limits,
            turn: None,
            watched: false,
            confinement: None,
            private: None,
        }
    }
}

/// Which of a command's standard streams come from outside. Pipes of this module take the output otherwise.
pub(crate) enum Given {
    /// None; there is nothing to read.
    Nothing,
    /// What it reads.
    Input(OwnedFd),
    /// All three: input, output and errors.
    All {
        /// In the order of their numbers.
        streams: [OwnedFd; 3],
        /// Whether standard input is a terminal that becomes the command's controlling one.
        terminal: bool,
    },
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Drained {
    /// How the command ended.
    pub(crate) ending: Ending,
    /// The bound that it passed, for which it was ended.
    pub(crate) bound: Option<Bound>,
    /// How many processes it had left running.
    pub(crate) left_running: u64,
    /// The first bytes of standard error, for the message of a sandbox program that failed.
    pub(crate) stderr_head: Vec<u8>,
    /// What came through the order's status pipe.
    pub(crate) status: Vec<u8>,
    /// What it left at protected places of the workspace and was taken away.
    pub(crate) removed: io::Result<Vec<Removed>>,
}

/// What one read takes at most.
const BUFFER_BYTES: usize = 128 * 1024;
/// What a pipe holds, where the system allows so much: fewer switches between writer and reader.
const PIPE_BYTES: usize = 1024 * 1024;
/// What is kept of standard error and of the status pipe.
const HEAD_BYTES: usize = 4 * 1024;

/// How a call ended, or why it could not be followed to its end. `None` if the lifeline was cut before anything began.
pub(crate) type Answer = io::Result<Option<Drained>>;

/// Runs the order to its end and sends the answer.
pub(crate) fn run(
    mut order: Order,
    sink: Box<dyn OutputSink>,
    lifeline: OwnedFd,
    answer: oneshot::Sender<Answer>,
) {
    // Ended after the supervisor, however this function is left: the workspace is swept when the tree is gone.
    let mut turn = order.turn.take();
    // Waited for when this function is left, and after `teller` is gone, even in a panic of the sink: a command whose
    // output nobody reads ends when whoever waits for the answer lets go of the lifeline. The command's own directory is
    // there until then.
    let mut private = order.private.take();
    let mut supervisor = None;
    let teller = answer;
    let mut done = follow(order, private.as_ref(), sink, lifeline, &mut supervisor);
    // The answer is the end: nothing is left to be done after it.
    if supervisor.is_none() {
        drop(private.take());
    }
    if let (Ok(Some(drained)), Some(turn)) = (&mut done, turn.take_if(|_| supervisor.is_none())) {
        drained.removed = turn.end();
    }
    let _ = teller.send(done);
}

/// Leaves the supervisor in its place if it may still be running.
fn follow(
    order: Order,
    private: Option<&Private>,
    mut sink: Box<dyn OutputSink>,
    lifeline: OwnedFd,
    supervisor: &mut Option<Supervisor>,
) -> Answer {
    if is_cut(lifeline.as_fd())? {
        return Ok(None);
    }
    let (report, report_end) = pipe()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let null = above_streams(null)?;
    let Connected { ends: [stdin, stdout_end, stderr_end], terminal, open } = connect(order.streams, &null)?;
    let inherited: Vec<_> = order.inherited.iter().map(AsFd::as_fd).collect();
    *supervisor = Some(sys::launch(&Launch {
        program: &order.program,
        directory: order.directory.as_ref().map(AsFd::as_fd),
        null: null.as_fd(),
        stdin: stdin.as_fd(),
        stdout: stdout_end.as_fd(),
        stderr: stderr_end.as_fd(),
        terminal,
        inherited: &inherited,
        lifeline: lifeline.as_fd(),
        report: report_end.as_fd(),
        limits: order.limits,
        watched: order.watched,
        confinement: order.confinement.as_ref(),
        private,
    })?);
    // Only the tree may hold the writing ends, or their end would never be seen.
    drop((stdout_end, stderr_end, report_end, stdin, lifeline));
    drop(inherited);
    drop(order.inherited);

    // Without a pipe there is nothing to move.
    let buffer = if open.iter().any(|(_, pipe)| pipe.is_some()) { BUFFER_BYTES } else { 0 };
    let mut streams = Streams { open, buffer: vec![0; buffer], stderr_head: Vec::new() };
    let Told { ending, bound, left_running } = streams.pump(report.as_fd(), &mut *sink)?;
    streams.finish(&mut *sink)?;
    // It has reported, so this is short.
    *supervisor = None;
    let status = order.status.map(|pipe| read_rest(pipe.as_fd())).transpose()?.unwrap_or_default();
    Ok(Some(Drained {
        ending,
        bound,
        left_running,
        stderr_head: streams.stderr_head,
        status,
        removed: Ok(Vec::new()),
    }))
}

/// The command's ends of its streams, and those that are read here.
struct Connected {
    ends: [OwnedFd; 3],
    terminal: bool,
    open: [(Stream, Option<OwnedFd>); 2],
}

fn connect(given: Given, null: &OwnedFd) -> io::Result<Connected> {
    let stdin = match given {
        Given::All { streams: [stdin, stdout, stderr], terminal } => {
            let ends = [above_streams(stdin)?, above_streams(stdout)?, above_streams(stderr)?];
            let open = [(Stream::Stdout, None), (Stream::Stderr, None)];
            return Ok(Connected { ends, terminal, open });
        }
        Given::Input(stdin) => stdin,
        Given::Nothing => rustix::io::fcntl_dupfd_cloexec(null, 3)?,
    };
    let (stdout, stdout_end) = output_pipe()?;
    let (stderr, stderr_end) = output_pipe()?;
    let open = [(Stream::Stdout, Some(stdout)), (Stream::Stderr, Some(stderr))];
    Ok(Connected { ends: [stdin, stdout_end, stderr_end], terminal: false, open })
}

struct Streams {
    open: [(Stream, Option<OwnedFd>); 2],
    buffer: Vec<u8>,
    stderr_head: Vec<u8>,
}

impl Streams {
    /// Moves bytes until the supervisor reports.
    fn pump(&mut self, report: BorrowedFd<'_>, sink: &mut dyn OutputSink) -> io::Result<Told> {
        loop {
            let open = self.open.iter().filter_map(|(_, pipe)| pipe.as_ref());
            let mut watched: Vec<_> = open.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
            watched.push(PollFd::new(&report, PollFlags::IN));
            match rustix::event::poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let reported = watched.last().is_some_and(|last| !last.revents().is_empty());
            drop(watched);
            for index in 0..self.open.len() {
                self.read_once(index, sink)?;
            }
            if reported && let Some(told) = sys::read_report(report) {
                return Ok(told);
            }
        }
    }

    /// Takes what is left. The tree is gone, so that is no more than the pipes hold; if a stranger was handed a
    /// writing end, it is not waited for.
    fn finish(&mut self, sink: &mut dyn OutputSink) -> io::Result<()> {
        for index in 0..self.open.len() {
            let Some((_, Some(pipe))) = self.open.get(index) else { continue };
            let mut left = rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or(PIPE_BYTES);
            while left > 0 {
                match self.read_once(index, sink)? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
        }
        Ok(())
    }

    /// One read of one stream, if it has something: how many bytes.
    fn read_once(&mut self, index: usize, sink: &mut dyn OutputSink) -> io::Result<usize> {
        let Some((stream, slot)) = self.open.get_mut(index) else { return Ok(0) };
        let Some(pipe) = slot else { return Ok(0) };
        match rustix::io::read(&*pipe, &mut self.buffer) {
            Ok(0) => *slot = None,
            Ok(count) => {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                if *stream == Stream::Stderr {
                    let room = HEAD_BYTES.saturating_sub(self.stderr_head.len());
                    self.stderr_head.extend(bytes.iter().take(room));
                }
                sink.chunk(*stream, bytes);
                return Ok(count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(0)
    }
}

/// A pipe that closes itself at exec; its reading end never blocks.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (reader, writer) = (above_streams(reader)?, above_streams(writer)?);
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe()?;
    // A user who has many pipes is refused a large one; the small one works too.
    let _ = rustix::pipe::fcntl_setpipe_size(&ends.1, PIPE_BYTES);
    Ok(ends)
}

/// A file that exists only in memory, ready to be read from its start.
pub(crate) fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut file = File::from(above_streams(file)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The same open file under a number that is not a standard stream's.
pub(crate) fn above_streams(fd: OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    if fd.as_raw_fd() > 2 { Ok(fd) } else { Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?) }
}

fn is_cut(lifeline: BorrowedFd<'_>) -> io::Result<bool> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut watched = [PollFd::new(&lifeline, PollFlags::empty())];
    match rustix::event::poll(&mut watched, Some(&at_once)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn read_rest(pipe: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while let Some(room @ [_, ..]) = bytes.get_mut(filled..) {
        match rustix::io::read(pipe, room) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
