//! The only place that writes to the terminal: results to standard output, everything else to standard error.
//!
//! A reader that went away is not an error, and changes no exit code: what is printed is lost then, and the command goes on.
//! Where there is no sense in going on, [`heard`] says so (see [`Failure::ReaderGone`]). Styles appear only on a terminal and not
//! under `NO_COLOR`. Text from outside must be made harmless before it comes here with styles around it.
//!
//! A command that must not wait for its reader has a [`lane`] between itself and everything but a terminal.

pub(crate) mod lane;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::{Failure, whoever_reads};
use lane::Stream;

/// Something went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Something needs a look.
pub(crate) const CAREFUL: Style = AnsiColor::Yellow.on_default();
/// Something went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// A heading.
pub(crate) const STRONG: Style = Style::new().bold();
/// Beside the point.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// The text in a style.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a text as it is, ended by exactly one newline more if it does not end in one.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    whoever_reads(heard::print(text))
}

/// Prints a text that carries styles, which are taken out where they would not be seen as such.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    whoever_reads(heard::print_styled(text))
}

/// Prints a value as JSON on one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    whoever_reads(heard::print_json(value))
}

/// A path as JSON has it: as text, in which a mark stands for what is not UTF-8. `json!` itself panics at such a path.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Printing for what has no sense without a reader: that there is none any more is the failure [`Failure::ReaderGone`].
pub(crate) mod heard {
    use super::*;

    pub(crate) fn print(text: &str) -> Result<(), Failure> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        if let Some(lane) = lane::of(Stream::Out) {
            return lane.put(Stream::Out, [text, end].concat().into_bytes());
        }
        let mut out = io::stdout().lock();
        let written = out
            .write_all(text.as_bytes())
            .and_then(|()| out.write_all(end.as_bytes()))
            .and_then(|()| out.flush());
        written.map_err(cannot_print)
    }

    pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
        if let Some(lane) = lane::of(Stream::Out) {
            return lane.put(Stream::Out, with_styles(text, AutoStream::choice(&io::stdout())));
        }
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(cannot_print)
    }

    pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::internal(error.to_string()))?;
        print(&text)
    }
}

/// Copies bytes of any length to standard output, unchanged, as long as somebody reads.
pub(crate) fn print_bytes(mut from: impl io::Read) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    io::copy(&mut from, &mut out).and_then(|_| out.flush()).map_err(cannot_print)
}

/// Why standard output took no more.
pub(crate) fn cannot_print(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::ReaderGone;
    }
    Failure::internal(format!("standard output cannot be written: {error}"))
}

/// Says something beside the result.
pub(crate) fn note(text: &str) {
    say(&format!("{}: {text}\n", styled(STRONG, "note")));
}

/// Says what is wrong.
pub(crate) fn error(text: &str) {
    say(&format!("{}: {text}\n", styled(BAD, "error")));
}

/// What standard error shows besides what was said for good.
struct Said {
    /// What is said while a question has the screen, as much as is kept of it.
    held: Option<String>,
    /// The line at the end that says what goes on; empty for none.
    status: String,
}

static SAID: Mutex<Said> = Mutex::new(Said { held: None, status: String::new() });
const HELD_BYTES: usize = 64 * 1024;

/// Takes a line off the screen on which the cursor stands.
const CLEAR: &[u8] = b"\r\x1b[K";

/// While this lives, what is said beside results waits; then it is said.
pub(crate) struct Quiet;

/// Keeps notes off a screen that a question has.
pub(crate) fn hold_notes() -> Quiet {
    said().held.get_or_insert_default();
    Quiet
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let waiting = said().held.take().unwrap_or_default();
        say(&waiting);
    }
}

/// Whether a question has the screen.
pub(crate) fn is_held() -> bool {
    said().held.is_some()
}

/// Shows what goes on, on a line that the next word takes away again; an empty one only takes it away. Only for a terminal
/// that can move its cursor, and shorter than its rows are.
pub(crate) fn status(line: &str) {
    let mut said = said();
    if said.held.is_none() && !(line.is_empty() && said.status.is_empty()) {
        let _ = io::stderr().write_all(&[CLEAR, line.as_bytes()].concat());
    }
    line.clone_into(&mut said.status);
}

/// Says a text that carries styles, on standard error.
pub(crate) fn tell(text: &str) {
    say(text);
}

fn said() -> MutexGuard<'static, Said> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What cannot be said on standard error can be said nowhere. One text is one write, so that it stays whole beside those of
/// other processes.
fn say(text: &str) {
    let mut said = said();
    if let Some(waiting) = said.held.as_mut() {
        if waiting.len() + text.len() <= HELD_BYTES {
            waiting.push_str(text);
        }
        return;
    }
    let text = with_styles(text, AutoStream::choice(&io::stderr()));
    if let Some(lane) = lane::of(Stream::Err) {
        let _ = lane.put(Stream::Err, text);
        return;
    }
    let text = match said.status.as_bytes() {
        [] => text,
        status => [CLEAR, &text, status].concat(),
    };
    let _ = io::stderr().write_all(&text);
}

/// The text as a stream gets it that takes styles so.
fn with_styles(text: &str, choice: anstream::ColorChoice) -> Vec<u8> {
    let mut out = AutoStream::new(Vec::with_capacity(text.len()), choice);
    // Writing into memory does not fail.
    let _ = out.write_all(text.as_bytes());
    out.into_inner()
}

/// Prints a piece of a text that goes on as long as somebody reads.
pub(crate) fn print_piece(text: &str) -> Result<(), Failure> {
    if let Some(lane) = lane::of(Stream::Out) {
        return lane.put(Stream::Out, text.as_bytes().to_vec());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(cannot_print)
}

/// Whether standard error is a terminal on which a line can be taken away again.
pub(crate) fn has_status() -> bool {
    io::stderr().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether a person sees standard error.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person sees standard output.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// How many columns standard error has, if it is a terminal.
pub(crate) fn stderr_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How many columns standard output has, if it is a terminal.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
