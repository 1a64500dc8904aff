//! The workspace's own `helve.toml`. It is read once; the bytes whose trust is looked up are the bytes that the policy gets.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use helve::store::{Home, Trust};
use helve::{WORKSPACE_FILE, WorkspaceFile};
use rustix::fs::OFlags;

use crate::failure::Failure;

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// How it stands with the file of a workspace.
pub(crate) enum Standing {
    /// There is none.
    Absent,
    /// The owner trusts exactly what is in it.
    Trusted(WorkspaceFile),
    /// It counts for nothing, and why.
    Ignored(String),
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

/// Reads the file and asks the store about exactly that content.
pub(crate) fn standing(workspace: &Path) -> Result<Standing, Failure> {
    let path = path(workspace);
    let shown = path.display();
    let file = match read(&path) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(Standing::Absent),
        Err(error) => return Ok(Standing::Ignored(format!("{shown} is ignored: {error}"))),
    };
    // To ask makes no state directory: where there is none, nothing is trusted.
    let home = Home::default_path()?;
    let trusted = home.exists() && Trust::new(&Home::open(&home)?).is_trusted(&path, file.text.as_bytes())?;
    Ok(match trusted {
        true => Standing::Trusted(file),
        false => Standing::Ignored(format!(
            "{shown} is not trusted and ignored. `helve trust` shows and trusts it"
        )),
    })
}
