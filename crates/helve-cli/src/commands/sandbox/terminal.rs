//! A terminal of the command's own, which Helve joins to the real one.
//!
//! ```text
//! keys ──► real terminal (raw) ──► pseudo-terminal ──► command      lines, echo, Ctrl-C and Ctrl-Z are made here
//! screen ◄──────────────────────── pseudo-terminal ◄── command
//! ```
//!
//! The command never holds the real terminal, so it can put no keys into it and change none of its modes. `joint` is a
//! thread that moves the bytes, follows the window's size, and gives the real terminal back while Helve is stopped or in
//! the background. `real` puts the real terminal back as it was, however Helve ends. `screen` is for a command that only
//! writes to a terminal, in a pipe.

mod joint;
mod real;
mod screen;

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};

use helve::CancelHandle;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGTSTP, SIGWINCH};

use joint::{Joint, LAST_OUTPUT};

pub(super) use real::restore;
pub(super) use screen::Screens;

/// Whether the command gets a terminal of its own: it would read from one and write to one. With only one of the two, the
/// other program of a pipe (`helve sandbox -- ls | less`) has the terminal's keys.
pub(super) fn is_wanted() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A terminal in use. Dropping it puts the real one back.
pub(super) struct Terminal {
    /// Closed when the command has ended.
    running: Option<UnixStream>,
    /// Told when the last output is on the screen.
    shown: Receiver<()>,
    listening: Vec<SigId>,
}

impl Terminal {
    /// Makes a terminal like the real one and joins the two; gives the command's streams. If the joint breaks while the
    /// command runs, the command is taken back.
    pub(super) fn open(canceller: CancelHandle) -> io::Result<(Terminal, [OwnedFd; 3])> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let inner = ioctl_tiocgptpeer(&master, flags)?;
        let keys = io::stdin().as_fd().try_clone_to_owned()?;
        let screen = io::stdout().as_fd().try_clone_to_owned()?;
        let was = tcgetattr(&keys)?;
        tcsetattr(&inner, OptionalActions::Now, &was)?;
        tcsetwinsize(&inner, tcgetwinsize(&keys)?)?;
        let errors = match io::stderr().is_terminal() {
            true => inner.try_clone()?,
            false => io::stderr().as_fd().try_clone_to_owned()?,
        };
        let streams = [inner.try_clone()?, inner, errors];

        let (running, over) = UnixStream::pair()?;
        let (told, shown) = mpsc::channel();
        real::keep(keys.try_clone()?, was);
        let mut terminal = Terminal { running: Some(running), shown, listening: Vec::new() };
        let resized = terminal.listen(SIGWINCH)?;
        let stop = terminal.listen(SIGTSTP)?;
        let go_on = terminal.listen(SIGCONT)?;
        let mut joint = Joint::new(keys, screen, master, joint::Told { over, resized, stop, go_on });
        let work = move || {
            let broken = TakeBack(canceller);
            let _ = joint.run();
            let _ = told.send(());
            drop(broken);
        };
        std::thread::Builder::new().name("terminal".to_owned()).spawn(work)?;
        Ok((terminal, streams))
    }

    /// Something that can be read when a signal came.
    fn listen(&mut self, signal: i32) -> io::Result<UnixStream> {
        let (heard, hear) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        self.listening.push(signal_hook::low_level::pipe::register(signal, hear)?);
        Ok(heard)
    }

    /// Waits until the last output is on the screen, and puts the real terminal back.
    pub(super) fn close(mut self) {
        self.running = None;
        let _ = self.shown.recv_timeout(LAST_OUTPUT);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        for signal in self.listening.drain(..) {
            signal_hook::low_level::unregister(signal);
        }
    }
}

/// Takes the command back when dropped, also by a panic: nobody could see what it does, nor stop it. A command that has
/// ended is past that.
struct TakeBack(CancelHandle);

impl Drop for TakeBack {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
