//! Where a command starts.
//!
//! In: the view and the `working_dir` that a model asked for. Out: an open directory and its real path. The kernel
//! resolves the path beneath one root of the view, so that neither `..` nor a symbolic link leads out, and nobody
//! resolves it a second time by name outside the sandbox.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, ToolError, View};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// An open starting directory.
#[derive(Debug)]
pub(crate) struct WorkDir {
    /// The directory itself, for `fchdir`.
    pub(crate) fd: OwnedFd,
    /// Its path without symbolic links.
    pub(crate) path: PathBuf,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens `working_dir`, or the workspace where none is asked for.
pub(crate) fn open(view: &View, working_dir: Option<&str>) -> Result<WorkDir, ToolError> {
    let asked = working_dir.filter(|text| !text.is_empty()).unwrap_or(".");
    let path = Path::new(asked);
    let (root, inside) = if path.is_absolute() {
        roots(view)
            .filter_map(|root| Some((root, path.strip_prefix(root).ok()?)))
            .max_by_key(|(root, _)| root.components().count())
            .ok_or_else(|| outside(view, asked))?
    } else {
        (view.workspace.as_path(), path)
    };
    let base = rustix::fs::openat(CWD, root, DIRECTORY, Mode::empty())
        .map_err(|errno| refused(view, &root.display().to_string(), errno))?;
    let fd = beneath(&base, inside).map_err(|errno| refused(view, asked, errno))?;
    let path = real_path(&fd).ok_or_else(|| missing(asked))?;
    if is_hidden(view, &path) {
        return Err(outside(view, asked));
    }
    Ok(WorkDir { fd, path })
}

fn beneath(base: &OwnedFd, inside: &Path) -> Result<OwnedFd, Errno> {
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The kernel answers EAGAIN when something was renamed meanwhile; a rename storm ends in an error.
    for _ in 0..64 {
        match rustix::fs::openat2(base, inside, DIRECTORY, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

/// The path of an open directory as the kernel knows it; none if it was removed.
fn real_path(fd: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let path = std::fs::read_link(link).ok()?;
    let removed = rustix::fs::fstat(fd).ok()?.st_nlink == 0;
    (!removed && path.is_absolute()).then_some(path)
}

fn roots(view: &View) -> impl Iterator<Item = &Path> {
    std::iter::once(&view.workspace).chain(&view.read_only).chain(&view.read_write).map(PathBuf::as_path)
}

/// Whether `path` lies in a hidden directory. That hides all of itself, except a workspace inside it.
fn is_hidden(view: &View, path: &Path) -> bool {
    let workspace = view.workspace.canonicalize().ok();
    let workspace = workspace.as_deref().filter(|workspace| path.starts_with(workspace));
    let hidden = view.hidden.iter().filter_map(|rule| rule.canonicalize().ok());
    hidden.filter(|rule| path.starts_with(rule)).any(|rule| {
        // A rule for the workspace itself hides it.
        workspace.is_none_or(|workspace| workspace == rule || !workspace.starts_with(&rule))
    })
}

fn refused(view: &View, asked: &str, errno: Errno) -> ToolError {
    match errno {
        Errno::XDEV | Errno::LOOP => outside(view, asked),
        Errno::NOENT => missing(asked),
        Errno::NOTDIR => ToolError::failed(format!("working_dir is not a directory: {asked}"))
            .hint("Name the directory that holds the file."),
        Errno::NOSYS => ToolError::new(
            ErrorKind::SandboxUnavailable,
            "working_dir cannot be resolved safely: this kernel has no openat2.",
        )
        .hint("Use Linux 5.9 or newer."),
        other => ToolError::failed(format!("working_dir cannot be opened: {asked}: {other}"))
            .hint("Choose a directory that this user may enter."),
    }
}

fn missing(asked: &str) -> ToolError {
    ToolError::not_found(format!("working_dir does not exist: {asked}"))
        .hint("Create it first, or leave working_dir out to start in the workspace.")
}

fn outside(view: &View, asked: &str) -> ToolError {
    let allowed: Vec<_> = roots(view).map(|root| root.display().to_string()).collect();
    ToolError::new(
        ErrorKind::Blocked,
        format!(
            "Command blocked: working_dir is outside the view: {asked}\nAllowed are directories in: {}",
            allowed.join(", ")
        ),
    )
    .hint("Leave working_dir out to start in the workspace, or give a path relative to it, without links that lead out.")
}

#[cfg(test)]
mod tests;
