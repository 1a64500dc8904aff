//! The workspace's own `helve.toml`. What counts is the text that the owner trusted, whatever is in the file now: commands
//! can write to the workspace, and must not be able to lift a rule of a trusted file by changing or removing it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use helve::store::{Home, Trust, TrustedFile};
use helve::{WORKSPACE_FILE, WorkspaceFile};
use rustix::fs::OFlags;

use crate::failure::Failure;

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// How it stands with the file of a workspace.
pub(crate) struct Standing {
    /// What counts: the text that the owner trusted.
    pub(crate) trusted: Option<WorkspaceFile>,
    /// What the owner should know about the file as it is now.
    pub(crate) note: Option<String>,
}

/// Where the file of a workspace is.
pub(crate) fn path(workspace: &Path) -> PathBuf {
    workspace.join(WORKSPACE_FILE)
}

/// Reads the file; none if there is none. Never waits: something else than a regular file is an error.
pub(crate) fn read(path: &Path) -> io::Result<Option<WorkspaceFile>> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(nonblocking).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(WorkspaceFile { path: path.to_owned(), text }))
}

/// What the owner trusted for this file, if anything.
pub(crate) fn trusted(path: &Path) -> Result<Option<TrustedFile>, Failure> {
    let trust = Trust::open_existing(&Home::default_path()?)?;
    Ok(trust.map(|trust| trust.trusted(path)).transpose()?.flatten())
}

/// How the file differs from what was trusted: a part of a sentence, or none if it does not.
pub(crate) fn difference(trusted: &TrustedFile) -> Option<String> {
    match read(&trusted.path) {
        Ok(Some(now)) if now.text == trusted.text => None,
        Ok(Some(_)) => Some("has changed since it was trusted".to_owned()),
        Ok(None) => Some("is gone".to_owned()),
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}

/// What counts in a workspace, and what the owner should know about its file.
pub(crate) fn standing(workspace: &Path) -> Result<Standing, Failure> {
    let path = path(workspace);
    let shown = path.display();
    if let Some(trusted) = trusted(&path)? {
        let note = difference(&trusted).map(|how| {
            format!(
                "{shown} {how}. What was trusted stays in force; `helve trust` trusts the file as it is now, \
                 `helve trust --revoke` ends it"
            )
        });
        return Ok(Standing { trusted: Some(WorkspaceFile { path, text: trusted.text }), note });
    }
    let note = match read(&path) {
        Ok(Some(_)) => Some(format!("{shown} is not trusted and ignored. `helve trust` shows and trusts it")),
        Ok(None) => None,
        Err(error) => Some(format!("{shown} is ignored: {error}")),
    };
    Ok(Standing { trusted: None, note })
}
