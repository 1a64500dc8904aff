//! The terminal itself, in raw mode on a screen of its own: rows out, what a person does in.
//!
//! Whatever ends the question, the terminal is put back as it was: when the [`Terminal`] is dropped, also by a panic, and
//! by [`restore`] where the process is about to end without that.

use std::fs::File;
use std::io::{self, BufRead as _, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGWINCH};

use super::keys::{Decoder, Event};

/// Another screen, and marks around what is pasted.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[H\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?2004l\x1b[?25h\x1b[?1049l";

/// Keys that follow each other faster than this come from no hand.
const BURST: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };

/// So long a question stands before it can be answered.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// A process that was told to stop has stopped by then.
const STOP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What one read takes.
const READ_BYTES: usize = 4096;

/// How to put the terminal back, while it is not as it was.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);

struct Saved {
    tty: File,
    was: Termios,
}

/// Puts the terminal back as it was, if a question has it.
pub(crate) fn restore() {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Saved { mut tty, was }) = saved {
        let _ = tty.write_all(LEAVE);
        let _ = tcsetattr(&tty, OptionalActions::Flush, &was);
    }
}

/// A line that is typed behind a question, on the terminal as it is. What was typed before is thrown away.
pub(super) fn read_line(question: &str) -> io::Result<String> {
    let mut tty = File::options().read(true).write(true).open("/dev/tty")?;
    tcflush(&tty, QueueSelector::IFlush)?;
    tty.write_all(question.as_bytes())?;
    let mut line = String::new();
    io::BufReader::new(tty.take(READ_BYTES as u64)).read_line(&mut line)?;
    Ok(line)
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A person did something. Several events at once are a paste or a program, not keys that somebody pressed.
    Events(Vec<Event>),
    /// The terminal has another size.
    Resized,
    /// The question is taken back.
    TakenBack,
}

/// How large the terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// The terminal of this process.
pub(super) struct Terminal {
    tty: File,
    taken_back: UnixStream,
    resized: UnixStream,
    winch: SigId,
    decoder: Decoder,
    /// Whether styles are left out.
    plain: bool,
}

impl Terminal {
    /// Opens it; what was typed before is thrown away. A byte or the end of `taken_back` ends every wait.
    pub(super) fn open(taken_back: UnixStream) -> io::Result<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty")?;
        let (resized, resize) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        let winch = signal_hook::low_level::pipe::register(SIGWINCH, resize)?;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        // From here on dropping puts everything back.
        let mut terminal = Terminal { tty, taken_back, resized, winch, decoder: Decoder::default(), plain };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> io::Result<()> {
        let was = tcgetattr(&self.tty)?;
        let mut raw = was.clone();
        raw.make_raw();
        let tty = self.tty.try_clone()?;
        // What is raw already is not what it has to become again.
        SAVED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(Saved { tty, was });
        tcsetattr(&self.tty, OptionalActions::Flush, &raw)?;
        self.tty.write_all(ENTER)?;
        self.decoder = Decoder::default();
        tcflush(&self.tty, QueueSelector::IFlush)?;
        Ok(())
    }

    /// Ctrl-Z: the terminal goes back to the shell, and is taken again when the job goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        let (goes_on, go_on) = UnixStream::pair()?;
        let listening = signal_hook::low_level::pipe::register(SIGCONT, go_on)?;
        restore();
        let stopped = kill_current_process_group(Signal::TSTP);
        // The stop may reach another thread first: the terminal must not be touched before it is over. Where nobody
        // could ever continue the process the system does not stop it.
        let mut fds = [PollFd::new(&goes_on, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&STOP));
        signal_hook::low_level::unregister(listening);
        stopped?;
        self.enter()
    }

    pub(super) fn size(&self) -> Size {
        let known = tcgetwinsize(&self.tty).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = known.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        Size { rows, columns }
    }

    /// Draws the whole screen: each row fits it, there are no more than it has. The cursor stands where it is told to,
    /// or is hidden.
    pub(super) fn draw(&mut self, rows: &[String], cursor: Option<(usize, usize)>) -> io::Result<()> {
        let mut out = String::from("\x1b[?25l\x1b[H");
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.push_str("\r\n");
            }
            match self.plain {
                true => out.extend(anstream::adapter::strip_str(row)),
                false => out.push_str(row),
            }
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J");
        if let Some((row, column)) = cursor {
            out.push_str(&format!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1));
        }
        self.tty.write_all(out.as_bytes())
    }

    /// Lets a moment pass in which no key counts: whoever was typing when the question came up did not mean it. Whether
    /// the question still stands.
    pub(super) fn settle(&mut self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.taken_back, PollFlags::IN)];
        let taken_back = poll(&mut fds, Some(&MOMENT)).is_ok_and(|ready| ready > 0);
        tcflush(&self.tty, QueueSelector::IFlush)?;
        Ok(!taken_back)
    }

    /// Waits for something to happen.
    pub(super) fn wait(&mut self) -> io::Result<Input> {
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (back, resized, typed) = {
            let mut fds = [
                PollFd::new(&self.taken_back, PollFlags::IN),
                PollFd::new(&self.resized, PollFlags::IN),
                PollFd::new(&self.tty, PollFlags::IN),
            ];
            loop {
                match poll(&mut fds, None) {
                    Err(Errno::INTR) => {}
                    polled => {
                        polled?;
                        break;
                    }
                }
            }
            (ready(&fds[0]), ready(&fds[1]), ready(&fds[2]))
        };
        if back {
            return Ok(Input::TakenBack);
        }
        if typed {
            return self.events();
        }
        if resized {
            let mut drained = [0; 64];
            while self.resized.read(&mut drained).is_ok_and(|count| count > 0) {}
        }
        Ok(Input::Resized)
    }

    fn events(&mut self) -> io::Result<Input> {
        gather(&mut self.tty, &self.taken_back, &mut self.decoder)
    }
}

/// What was typed: one key, or all that came without a pause in which a hand could have moved. Input without an end does
/// not hold up the taking back of the question.
fn gather(tty: &mut (impl Read + AsFd), taken_back: &UnixStream, decoder: &mut Decoder) -> io::Result<Input> {
    let mut events = Vec::new();
    let mut bytes = [0; READ_BYTES];
    loop {
        let count = tty.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // More than a few events are a burst like any other; the rest need not be kept.
        decoder.push(&bytes[..count], &mut events);
        events.truncate(READ_BYTES);
        let mut fds =
            [PollFd::new(&*tty, PollFlags::IN), PollFd::from_borrowed_fd(taken_back.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&BURST)) {
            Err(Errno::INTR) => break,
            polled => polled?,
        };
        if !fds[1].revents().is_empty() {
            return Ok(Input::TakenBack);
        }
        if fds[0].revents().is_empty() {
            break;
        }
    }
    decoder.settle(&mut events);
    Ok(Input::Events(events))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        signal_hook::low_level::unregister(self.winch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approve::keys::Key;
    use pretty_assertions::assert_eq;

    #[test]
    fn what_comes_without_a_pause_comes_together() {
        let (mut tty, mut hand) = UnixStream::pair().unwrap();
        let (_asker, taken_back) = UnixStream::pair().unwrap();
        hand.write_all(b"ab").unwrap();
        let got = gather(&mut tty, &taken_back, &mut Decoder::default()).unwrap();
        let key = |ch| Event::Key(Key::Char(ch));
        assert_eq!(got, Input::Events(vec![key('a'), key('b')]));
    }

    /// A terminal on which there is always something more to read. The question is taken back at the third read.
    struct Endless {
        /// Always ready.
        ready: File,
        asker: Option<UnixStream>,
        reads: usize,
    }

    impl Read for Endless {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            if self.reads == 3 {
                self.asker = None;
            }
            bytes[0] = b'x';
            // Whoever goes on reading comes to an end all the same.
            Ok(usize::from(self.reads < 1000))
        }
    }

    impl AsFd for Endless {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.ready.as_fd()
        }
    }

    #[test]
    fn a_question_is_taken_back_also_while_input_keeps_coming() {
        let (asker, taken_back) = UnixStream::pair().unwrap();
        let mut tty = Endless { ready: File::open("/dev/zero").unwrap(), asker: Some(asker), reads: 0 };
        let got = gather(&mut tty, &taken_back, &mut Decoder::default()).unwrap();
        assert_eq!((got, tty.reads), (Input::TakenBack, 3));
    }
}
