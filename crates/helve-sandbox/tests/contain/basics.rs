//! What cases and their surroundings need, whatever runs them: the tests of other crates take it from here.

use std::path::PathBuf;

use helve_core::{Ended, ToolError};

/// What a run gave.
#[derive(Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) ended: Result<Ended, ToolError>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// How many bytes of output there were, kept or not.
    pub(crate) bytes: u64,
}

impl Done {
    /// Both streams as text.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr))
    }
}

/// A text that nothing else on this machine contains.
pub(crate) fn token() -> String {
    let folder = tempfile::Builder::new().prefix("").rand_bytes(20).tempdir().unwrap();
    folder.path().file_name().unwrap().to_string_lossy().into_owned()
}

/// A file or directory from the environment; none, with a word about it, where it is not set.
pub(crate) fn shared(variable: &str, file: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(|folder| PathBuf::from(folder).join(file));
    if path.is_none() {
        println!("skipped: {variable} is not set");
    }
    path
}
