//! A terminal that a command only writes to, as in `curl … | helve sandbox -- ./parse`.
//!
//! ```text
//! real terminal ◄── thread ◄── pseudo-terminal ◄── command
//! ```
//!
//! Whoever holds a terminal to write to it can read its keys and set its modes as well. So the command gets a
//! pseudo-terminal, on which nobody types and whose modes are nobody else's, and a thread shows what it writes.

use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

use super::joint::LAST_OUTPUT;

/// What is shown at once.
const PIECE_BYTES: usize = 16 * 1024;

/// The terminals that a command writes to.
pub(in super::super) struct Screens(Vec<Screen>);

struct Screen {
    /// Which terminal it is.
    device: u64,
    /// The command's side, until it is handed over.
    inner: Option<OwnedFd>,
    /// Told when the last output is shown.
    shown: Receiver<()>,
    listening: SigId,
}

impl Screens {
    /// Puts a screen between the command and each terminal among the streams that it writes to.
    pub(in super::super) fn before(streams: &mut [OwnedFd; 3]) -> io::Result<Screens> {
        let mut screens: Vec<Screen> = Vec::new();
        let [_, written @ ..] = streams;
        for stream in written.iter_mut().filter(|stream| stream.is_terminal()) {
            let device = rustix::fs::fstat(&*stream)?.st_rdev;
            // Both streams on one terminal stay in order.
            let known = screens.iter().find(|screen| screen.device == device);
            let inner = known.and_then(|screen| screen.inner.as_ref()).map(OwnedFd::try_clone).transpose()?;
            let inner = match inner {
                Some(inner) => inner,
                None => {
                    let screen = Screen::open(stream.try_clone()?, device)?;
                    let inner = screen.inner.as_ref().map(OwnedFd::try_clone).transpose()?;
                    screens.push(screen);
                    inner.ok_or_else(|| io::Error::other("a screen without an inner side"))?
                }
            };
            *stream = inner;
        }
        // They end when the command has closed its own.
        screens.iter_mut().for_each(|screen| screen.inner = None);
        Ok(Screens(screens))
    }

    /// Waits until the last output is shown.
    pub(in super::super) fn close(self) {
        for screen in self.0 {
            let _ = screen.shown.recv_timeout(LAST_OUTPUT);
            signal_hook::low_level::unregister(screen.listening);
        }
    }
}

impl Screen {
    fn open(real: OwnedFd, device: u64) -> io::Result<Screen> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let inner = ioctl_tiocgptpeer(&master, flags)?;
        // What is written is changed once, by the real one.
        let mut modes = tcgetattr(&real)?;
        modes.make_raw();
        tcsetattr(&inner, OptionalActions::Now, &modes)?;
        follow_size(&real, &master);
        let (resized, hear) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        let listening = signal_hook::low_level::pipe::register(SIGWINCH, hear)?;
        let (told, shown) = mpsc::channel();
        let work = move || {
            let _ = show(&master, &real, resized);
            let _ = told.send(());
        };
        std::thread::Builder::new().name("screen".to_owned()).spawn(work)?;
        Ok(Screen { device, inner: Some(inner), shown, listening })
    }
}

/// Shows what the command writes, until nobody can write any more.
fn show(master: &OwnedFd, real: &OwnedFd, mut resized: UnixStream) -> Result<(), Errno> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let mut sources = [PollFd::new(master, PollFlags::IN), PollFd::new(&resized, PollFlags::IN)];
        match poll(&mut sources, None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        let [output, size] = sources.map(|source| !source.revents().is_empty());
        if size {
            let mut bytes = [0; 64];
            while resized.read(&mut bytes).is_ok_and(|count| count > 0) {}
            follow_size(real, master);
        }
        if output {
            let count = match rustix::io::read(master, &mut *piece) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                count => count?,
            };
            write_all(real, piece.get(..count).unwrap_or_default())?;
        }
    }
}

fn write_all(real: &OwnedFd, mut piece: &[u8]) -> Result<(), Errno> {
    while !piece.is_empty() {
        match rustix::io::write(real, piece) {
            Ok(count) => piece = piece.get(count..).unwrap_or_default(),
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(real, PollFlags::OUT)], None)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn follow_size(real: &impl AsFd, inner: &impl AsFd) {
    if let Ok(size) = tcgetwinsize(real) {
        let _ = tcsetwinsize(inner, size);
    }
}
