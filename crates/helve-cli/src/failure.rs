//! Why a command ended without its own exit code: a message, what to change, and the code of the table in the manual.

use std::process::ExitCode;

use helve::store::StoreError;

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
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::ReaderGone => ExitCode::SUCCESS,
            Failure::Told { code, message } => {
                ui::error(&message);
                ExitCode::from(code)
            }
        }
    }
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
