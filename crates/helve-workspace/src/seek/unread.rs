//! What could not be read, and why: a few of them in order, and how many.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::names::told;

use helve_core::ToolError;

/// How many are told by name.
const TOLD: usize = 8;

#[derive(Default)]
pub(super) struct Unread(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    told: BTreeMap<Vec<u8>, String>,
    count: u64,
}

impl Unread {
    /// Notes a failure. What is gone, or has become something else, was not there to be read.
    pub(super) fn note(&self, path: &[u8], error: &io::Error) {
        let gone = error.kind() == io::ErrorKind::NotFound
            || matches!(
                rustix::io::Errno::from_io_error(error),
                Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR | rustix::io::Errno::XDEV)
            );
        if gone {
            return;
        }
        let mut inner = locked(&self.0);
        inner.count += 1;
        inner.told.insert(path.to_vec(), reason(error));
        if inner.told.len() > TOLD {
            inner.told.pop_last();
        }
    }

    pub(super) fn told(self, prefix: &str) -> (Vec<String>, u64) {
        let inner = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let line = |(path, why): (Vec<u8>, String)| format!("{prefix}{}: {why}", told(&path));
        (inner.told.into_iter().map(line).collect(), inner.count)
    }
}

/// That nothing can be told of a directory.
pub(super) fn unreadable(error: &io::Error) -> ToolError {
    ToolError::failed(format!("The directory cannot be read: {}", reason(error)))
}

/// An error in words, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotFound => "not found".to_owned(),
        _ => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            let mut rest = text[..end].chars();
            // It goes on in a sentence.
            rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
        }
    }
}

/// A lock, also after another thread died with it: what is behind it is whole at any moment.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
