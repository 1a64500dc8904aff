//! Which bwrap is there and what it can do. No process is started to find out.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ToolError};

use crate::plan::rules::Rules;
use crate::program;

/// An installed bubblewrap.
#[derive(Debug)]
pub(super) struct Installed {
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Whether it can forbid further user namespaces inside.
    pub(super) disables_userns: bool,
}

/// Where a system keeps its programs when `PATH` says nothing.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Looks for bwrap in Helve's own `PATH`. What the command can write is left out: there it could plant a bwrap for
/// the next call.
pub(super) fn find(rules: &Rules) -> Result<Installed, ToolError> {
    let list = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let is_writable = |file: &Path| {
        rules.in_writable(file) || file.canonicalize().is_ok_and(|real| rules.in_writable(&real))
    };
    let skip = |folder: &Path| is_writable(&folder.join("bwrap"));
    let Some(path) = program::find("bwrap", &list, skip) else {
        return Err(program::find("bwrap", &list, |_| false).map_or_else(missing, |path| planted(&path)));
    };
    let disables_userns = can_disable_userns(&path);
    Ok(Installed { path, disables_userns })
}

fn missing() -> ToolError {
    ToolError::new(ErrorKind::SandboxUnavailable, "The sandbox bwrap is not installed (not found in PATH).")
        .hint("Install bubblewrap: apt install bubblewrap; or write sandbox = \"none\" to run bare.")
}

fn planted(path: &Path) -> ToolError {
    let message = format!(
        "The sandbox bwrap is not used: {} lies in a directory that commands can write, so one could have replaced it.",
        path.display()
    );
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
        "Choose another workspace, take the directory out of view.read_write, or install bubblewrap elsewhere: apt \
         install bubblewrap.",
    )
}

/// Whether the program knows `--disable-userns`, which came with version 0.8: the name of an option is in the program's
/// bytes. A setuid bwrap knows it and refuses it.
fn can_disable_userns(path: &Path) -> bool {
    const OPTION: &[u8] = b"--disable-userns\0";
    let setuid = path.metadata().is_ok_and(|file| file.mode() & 0o4000 != 0);
    if setuid && !rustix::process::geteuid().is_root() {
        return false;
    }
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(OPTION.len()).any(|window| window == OPTION))
}
