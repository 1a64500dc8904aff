//! Which bwrap is there and what it can do. No process is started to find out.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ToolError, View};

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
pub(super) fn find(view: &View) -> Result<Installed, ToolError> {
    let list = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let writable = |folder: &Path| {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut roots = std::iter::once(&view.workspace).chain(&view.read_write);
        roots.any(|root| folder.starts_with(root.canonicalize().as_ref().unwrap_or(root)))
    };
    let path = program::find("bwrap", &list, writable).ok_or_else(|| {
        ToolError::new(
            ErrorKind::SandboxUnavailable,
            "The sandbox bwrap is not installed (not found in PATH).",
        )
        .hint("Install bubblewrap: apt install bubblewrap; or write sandbox = \"none\" to run bare.")
    })?;
    let disables_userns = can_disable_userns(&path);
    Ok(Installed { path, disables_userns })
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

/// The likely reason why namespaces are refused, from the switches that systems have for it.
pub(super) fn why_no_namespaces() -> &'static str {
    let switch = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/{name}"))
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    };
    if switch("user/max_user_namespaces") == "0" {
        "User namespaces are refused: set the sysctl user.max_user_namespaces above 0"
    } else if switch("kernel/unprivileged_userns_clone") == "0" {
        "User namespaces are refused: set the sysctl kernel.unprivileged_userns_clone to 1"
    } else if switch("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "User namespaces are refused by AppArmor: install an AppArmor profile for bwrap that has the rule `userns`"
    } else {
        "User namespaces may be refused here, as in many containers: allow them for the user who runs Helve"
    }
}
