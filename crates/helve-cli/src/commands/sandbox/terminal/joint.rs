//! The thread between the real terminal and the command's: bytes, sizes, stopping and going on.
//!
//! One piece is on its way in each direction at the most, so a side that does not read holds the other up and no memory
//! grows. When the command has ended, what it wrote last is still in the pseudo-terminal, and behind it a hang-up.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{tcgetwinsize, tcsetwinsize};
use signal_hook::consts::SIGTSTP;

use super::real;

/// What is moved at once.
const PIECE_BYTES: usize = 16 * 1024;

/// How often is looked whether Helve has come into the foreground, or the command has opened its terminal again: of
/// neither anybody tells.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long the last output may take to reach the screen.
pub(super) const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// What the thread is told.
pub(super) struct Told {
    /// Ends when the command has.
    pub(super) over: UnixStream,
    /// The real terminal has another size.
    pub(super) resized: UnixStream,
    /// Helve is to stop.
    pub(super) stop: UnixStream,
    /// Helve goes on.
    pub(super) go_on: UnixStream,
}

pub(super) struct Joint {
    keys: OwnedFd,
    screen: OwnedFd,
    /// Helve's side of the pseudo-terminal, which never blocks.
    inner: OwnedFd,
    told: Told,
    /// On the way to the command.
    typed: Vec<u8>,
    /// On the way to the screen.
    shown: Vec<u8>,
    /// Whether no more keys will come.
    keys_ended: bool,
    /// When the last output has to be on the screen.
    ends: Option<Instant>,
}

/// What waited for something, and whether it came.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Over,
    Resized,
    Stop,
    GoOn,
    Keys,
    Screen,
    Inner,
}

impl Joint {
    pub(super) fn new(keys: OwnedFd, screen: OwnedFd, inner: OwnedFd, told: Told) -> Joint {
        let (typed, shown) = (Vec::new(), Vec::new());
        Joint { keys, screen, inner, told, typed, shown, keys_ended: false, ends: None }
    }

    /// Works until the command has ended and its last output is on the screen.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut taken = false;
        loop {
            if !taken && real::take() {
                taken = true;
                self.follow_size();
            }
            let hung_up = self.read_inner();
            if let Some(end) = self.ends
                && (Instant::now() >= end || (hung_up && self.shown.is_empty()))
            {
                return Ok(());
            }
            for source in self.wait(taken, hung_up)? {
                match source {
                    Source::Over => self.ends = Some(Instant::now() + LAST_OUTPUT),
                    Source::Resized => {
                        drain(&mut self.told.resized);
                        self.follow_size();
                    }
                    Source::Stop => {
                        drain(&mut self.told.stop);
                        real::give_back();
                        taken = false;
                        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
                    }
                    Source::GoOn => {
                        drain(&mut self.told.go_on);
                        // The shell has had the terminal meanwhile.
                        real::was_given_back();
                        taken = false;
                    }
                    Source::Keys => self.read_keys(),
                    Source::Screen => self.write_screen(),
                    Source::Inner => self.write_inner(),
                }
            }
        }
    }

    /// Waits until something can be done, and says what.
    fn wait(&self, taken: bool, hung_up: bool) -> io::Result<Vec<Source>> {
        let told = &self.told;
        let mut inner = PollFlags::empty();
        inner.set(PollFlags::IN, self.shown.is_empty());
        inner.set(PollFlags::OUT, !self.typed.is_empty());
        // What hung up would say so all the time, whatever it is asked.
        let reads_keys = taken && self.typed.is_empty() && !self.keys_ended && self.ends.is_none();
        let all = [
            (Source::Over, PollFd::new(&told.over, PollFlags::IN), self.ends.is_none()),
            (Source::Resized, PollFd::new(&told.resized, PollFlags::IN), true),
            (Source::Stop, PollFd::new(&told.stop, PollFlags::IN), true),
            (Source::GoOn, PollFd::new(&told.go_on, PollFlags::IN), true),
            (Source::Keys, PollFd::new(&self.keys, PollFlags::IN), reads_keys),
            (Source::Screen, PollFd::new(&self.screen, PollFlags::OUT), !self.shown.is_empty()),
            (Source::Inner, PollFd::new(&self.inner, inner), !hung_up && !inner.is_empty()),
        ];
        let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) =
            all.into_iter().filter(|(.., wanted)| *wanted).map(|(source, fd, _)| (source, fd)).unzip();
        let timeout = (hung_up || !taken || self.ends.is_some()).then_some(&LOOK_AGAIN);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// The command's terminal becomes as large as the real one, which tells the command.
    fn follow_size(&self) {
        if let Ok(size) = tcgetwinsize(&self.keys) {
            let _ = tcsetwinsize(&self.inner, size);
        }
    }

    fn read_keys(&mut self) {
        match read_piece(&self.keys, &mut self.typed) {
            Ok(0) => self.keys_ended = true,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.keys_ended = true,
        }
    }

    /// Takes output if there is room for it. Whether the command has no terminal open.
    fn read_inner(&mut self) -> bool {
        if !self.shown.is_empty() {
            return false;
        }
        match read_piece(&self.inner, &mut self.shown) {
            Ok(count) => count == 0,
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        }
    }

    fn write_screen(&mut self) {
        write_some(&self.screen, &mut self.shown);
    }

    fn write_inner(&mut self) {
        if !self.typed.is_empty() {
            write_some(&self.inner, &mut self.typed);
        }
    }
}

fn read_piece(from: &OwnedFd, piece: &mut Vec<u8>) -> Result<usize, Errno> {
    piece.resize(PIECE_BYTES, 0);
    let read = rustix::io::read(from, &mut *piece);
    piece.truncate(read.unwrap_or(0));
    read
}

/// Writes what can be written; what nobody takes any more is thrown away.
fn write_some(to: &OwnedFd, piece: &mut Vec<u8>) {
    match rustix::io::write(to, piece) {
        Ok(count) => drop(piece.drain(..count)),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(_) => piece.clear(),
    }
}

/// Takes out what signals have left.
fn drain(told: &mut UnixStream) {
    let mut bytes = [0; 64];
    while told.read(&mut bytes).is_ok_and(|count| count > 0) {}
}
