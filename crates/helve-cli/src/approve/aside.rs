//! What a person types while a model works. Keys come one by one and are shown by whoever listens, because the end of the
//! screen is in use; Ctrl-C and Ctrl-Z do what they always do. A question takes the terminal away meanwhile.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::getpgrp;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcsetattr,
};

use super::editor::{Edit, Editor};
use super::keys::Decoder;
use crate::ui;

/// How long it waits before it looks again whether the terminal is there for it.
const PAUSE: Duration = Duration::from_millis(50);
/// What one read takes.
const READ_BYTES: usize = 4096;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line so far.
    Going(String),
    /// A whole line.
    Line(String),
}

/// Somebody listens as long as it lives; then the terminal is as it was.
pub(crate) struct Aside {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Listens to the keyboard; none where there is nobody, or this process does not have the terminal.
pub(crate) fn listen(heard: impl FnMut(Typed) + Send + 'static) -> Option<Aside> {
    if !super::is_somebody_there() {
        return None;
    }
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    // Opened anew: what is set on it is set on nobody else's.
    let tty = File::options().read(true).custom_flags(nonblocking).open("/dev/tty").ok()?;
    if !has_it(&tty) {
        return None;
    }
    let was = tcgetattr(&tty).ok()?;
    let mut keys = was.clone();
    keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    keys.input_modes -= InputModes::ICRNL;
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&tty, OptionalActions::Now, &keys).ok()?;
    let (stop, stopped) = UnixStream::pair().ok()?;
    let read = move || {
        read(&tty, &stopped, heard);
        if has_it(&tty) {
            let _ = tcsetattr(&tty, OptionalActions::Now, &was);
        }
    };
    let thread = std::thread::Builder::new().name("keyboard".to_owned()).spawn(read).ok()?;
    Some(Aside { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether this process may use the terminal: one in the background would be stopped.
fn has_it(tty: &File) -> bool {
    tcgetpgrp(tty).is_ok_and(|group| group == getpgrp())
}

fn read(mut tty: &File, stopped: &UnixStream, mut heard: impl FnMut(Typed)) {
    let (mut decoder, mut editor) = (Decoder::default(), Editor::new(""));
    loop {
        let mut fds = [PollFd::new(stopped, PollFlags::IN), PollFd::new(tty, PollFlags::IN)];
        if poll(&mut fds, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        // A question reads for itself, and so does whoever has the terminal now.
        if ui::is_held() || !has_it(tty) {
            std::thread::sleep(PAUSE);
            continue;
        }
        let mut bytes = [0; READ_BYTES];
        let count = match tty.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut events = Vec::new();
        decoder.push(&bytes[..count], &mut events);
        decoder.settle(&mut events);
        for event in &events {
            match editor.take(event) {
                Edit::Going => heard(Typed::Going(editor.text())),
                Edit::GivenUp => {
                    editor = Editor::new("");
                    heard(Typed::Going(String::new()));
                }
                Edit::Done => {
                    let line = std::mem::replace(&mut editor, Editor::new("")).text();
                    heard(Typed::Line(line));
                }
            }
        }
    }
}
