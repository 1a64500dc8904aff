//! Why a command ended without its own exit code: a message, what to change, and the code of the table in the manual.
//! It is said on standard error; where JSON was asked for, it is the last line of standard output instead.

use std::process::ExitCode;

use helve::store::{Home, StoreError};
use helve::{ErrorKind, WireError};
use serde_json::json;

use crate::commands::sandbox;
use crate::harmless::harmless;
use crate::ui;

/// Bad usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// What was asked for is not there.
pub(crate) const NOT_FOUND: u8 = 1;
/// Helve itself failed.
pub(crate) const INTERNAL: u8 = 70;
/// The person at the terminal took it back.
pub(crate) const CANCELLED: u8 = 130;

/// An end that is not a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// Nobody reads any more what there is to show (`helve log | head -1`): nothing is wrong and there is nobody to tell.
    ReaderGone,
    /// Something is wrong, said on standard error.
    Told {
        /// The exit code.
        code: u8,
        /// What kind of thing it is, for programs.
        kind: ErrorKind,
        /// What is wrong, and what to change where the message does not say it already.
        message: String,
    },
}

impl Failure {
    /// Bad usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::of_kind(ErrorKind::InvalidParams, USAGE, message)
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::of_kind(ErrorKind::NotFound, NOT_FOUND, message)
    }

    /// There is no session of this name.
    pub(crate) fn no_session(session: &str) -> Self {
        let home = Home::default_path().map(|home| format!(" in {}", home.display())).unwrap_or_default();
        let message =
            format!("there is no session {session:?}{home}. `helve verify --all` lists the sessions");
        Failure::not_found(harmless(&message))
    }

    /// A session of this name was there, and its journal is not.
    pub(crate) fn journal_gone(session: &str) -> Self {
        let message = format!(
            "the journal of the session {session:?} is gone. `helve verify {session}` says what is known of it"
        );
        Failure::not_found(harmless(&message))
    }

    /// The machine or Helve itself failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Failure::of_kind(ErrorKind::Internal, INTERNAL, message)
    }

    /// An error of a call or of a server, as one of this program.
    pub(crate) fn of_kind(kind: ErrorKind, code: u8, message: impl Into<String>) -> Self {
        Failure::Told { code, kind, message: message.into() }
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        match self {
            Failure::Told { kind, message, .. } => Failure::Told { code, kind, message },
            Failure::ReaderGone => Failure::ReaderGone,
        }
    }

    /// What is wrong.
    pub(crate) fn message(self) -> String {
        match self {
            Failure::Told { message, .. } => message,
            Failure::ReaderGone => "nobody reads the output".to_owned(),
        }
    }

    /// Says it and gives the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let Failure::Told { code, kind, message } = self else { return ExitCode::SUCCESS };
        // What cannot be said on standard output may still be said on the other.
        if !json || print(kind, &message, None).is_err() {
            ui::error(&message);
        }
        ExitCode::from(code)
    }
}

/// What was written, where it does not matter whether somebody still reads it: an exit code that is an answer holds anyway.
pub(crate) fn whoever_reads(written: Result<(), Failure>) -> Result<(), Failure> {
    match written {
        Err(Failure::ReaderGone) => Ok(()),
        written => written,
    }
}

/// The end of a command line that could not be read, or that asked for help.
pub(crate) fn bad_usage(error: &clap::Error) -> ! {
    // Any other code could be that of the command that was to run.
    if !error.use_stderr() {
        error.exit();
    }
    let is_sandbox = asks_for_sandbox(std::env::args_os().skip(1));
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if !words.any(|word| word == "--json") {
        tell_and_exit(error, if is_sandbox { sandbox::FAILED } else { USAGE });
    }
    let told = error.render().to_string();
    let (message, hint) = told.split_once("\n\n").unwrap_or((&told, ""));
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let hint = Some(hint.trim().to_owned()).filter(|hint| !hint.is_empty());
    if is_sandbox {
        ui::tell(&sandbox::bad_usage(message, hint));
        std::process::exit(sandbox::FAILED.into());
    }
    match print(ErrorKind::InvalidParams, message, hint) {
        Ok(()) => std::process::exit(USAGE.into()),
        Err(_) => tell_and_exit(error, USAGE),
    }
}

fn tell_and_exit(error: &clap::Error, code: u8) -> ! {
    ui::tell(&error.render().ansi().to_string());
    std::process::exit(code.into())
}

/// Whether the first word of a command line that is neither an option nor the value of one is `sandbox`.
fn asks_for_sandbox(words: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--workspace" | "--config" | "--set" | "--session") => drop(words.next()),
            Some(word) if word.starts_with('-') => {}
            word => return word == Some("sandbox"),
        }
    }
    false
}

fn print(kind: ErrorKind, message: &str, hint: Option<String>) -> Result<(), Failure> {
    let error = WireError { kind, message: message.to_owned(), hint, problems: Vec::new() };
    ui::heard::print_json(&json!({"ok": false, "error": error}))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::NoSuchSession(session) => Failure::no_session(session).with_code(USAGE),
            StoreError::Home { .. }
            | StoreError::NotText(_)
            | StoreError::BadSession(_)
            | StoreError::BadCall(_)
            | StoreError::BadBlobId(_)
            | StoreError::BadHead(_)
            | StoreError::BadServer(_) => Failure::usage(error.to_string()),
            StoreError::NoSuchBlob(_) => Failure::not_found(error.to_string()),
            _ => Failure::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_first_word_that_is_no_option() {
        let asks = |line: &str| asks_for_sandbox(line.split(' ').map(Into::into));
        for line in ["sandbox", "--json sandbox --oops", "--workspace call sandbox", "--set=a=b sandbox ls"] {
            assert!(asks(line), "{line}");
        }
        for line in ["", "call sandbox", "--workspace sandbox call", "--json run sandbox"] {
            assert!(!asks(line), "{line}");
        }
    }
}
