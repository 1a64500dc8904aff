//! Why a command ended without its own exit code: a message, what to change, and the code of the table in the manual.
//! It is said on standard error; where one line of JSON was asked for, it stands on standard output in that line's place.

use std::process::ExitCode;

use helve::store::StoreError;
use helve::{ErrorKind, WireError};
use serde_json::json;

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
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// Nobody reads our output any more (`helve log | head -1`): nothing is wrong and there is nobody to tell.
    ReaderGone,
    /// Something is wrong, said on standard error.
    Told {
        /// The exit code.
        code: u8,
        /// What is wrong, and what to change where the message does not say it already.
        message: String,
    },
}

impl Failure {
    /// Bad usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Told { code: USAGE, message: message.into() }
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::Told { code: NOT_FOUND, message: message.into() }
    }

    /// The machine or Helve itself failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Failure::Told { code: INTERNAL, message: message.into() }
    }

    /// Says it and gives the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let Failure::Told { code, message } = self else { return ExitCode::SUCCESS };
        let kind = match code {
            USAGE => ErrorKind::InvalidParams,
            NOT_FOUND => ErrorKind::NotFound,
            _ => ErrorKind::Internal,
        };
        // What cannot be said on standard output may still be said on the other.
        if !json || print(kind, &message, None).is_err() {
            ui::error(&message);
        }
        ExitCode::from(code)
    }
}

/// The end of a command line that could not be read, or that asked for help.
pub(crate) fn bad_usage(error: &clap::Error) -> ! {
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if !error.use_stderr() || !words.any(|word| word == "--json") {
        error.exit();
    }
    let told = error.render().to_string();
    let (message, hint) = told.split_once("\n\n").unwrap_or((&told, ""));
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let hint = Some(hint.trim().to_owned()).filter(|hint| !hint.is_empty());
    match print(ErrorKind::InvalidParams, message, hint) {
        Ok(()) => std::process::exit(USAGE.into()),
        Err(_) => error.exit(),
    }
}

fn print(kind: ErrorKind, message: &str, hint: Option<String>) -> Result<(), Failure> {
    let error = WireError { kind, message: message.to_owned(), hint, problems: Vec::new() };
    ui::print_json(&json!({"ok": false, "error": error}))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Home { .. }
            | StoreError::BadSession(_)
            | StoreError::NoSuchSession(_)
            | StoreError::BadCall(_)
            | StoreError::BadBlobId(_)
            | StoreError::BadHead(_) => USAGE,
            StoreError::NoSuchBlob(_) => NOT_FOUND,
            _ => INTERNAL,
        };
        Failure::Told { code, message: error.to_string() }
    }
}
