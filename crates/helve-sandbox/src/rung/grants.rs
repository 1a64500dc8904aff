//! The plan of a view as grants of Landlock.
//!
//! Landlock can only add: what is granted for a directory holds for everything in it. So two kinds of rules need care.
//! A hidden path in a readable directory: everything beside it is granted one by one, and the directories above it cannot be
//! listed. A rule that takes something away from a writable directory (hides it, or makes it read-only) cannot be kept, and the
//! view is refused. What is protected by its name in the workspace is put back after the command instead.
//!
//! What the plan makes new (`/tmp`, files with other content) does not exist here: nothing is granted for it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use helve_core::protected::is_among;
use helve_core::{ErrorKind, ToolError};

use crate::confine::landlock::Access;
use crate::plan::{Mount, Plan};

/// A place and what may be done there.
pub(super) type Grant = (PathBuf, Access);

/// Devices that hold nothing and reach nothing.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// How many places are granted for one directory with hidden paths in it.
const MOST_BESIDE: usize = 5_000;

/// Every grant of a plan, or why it cannot be kept. `protected` are the names that are put back in the workspace.
pub(super) fn grants(plan: &Plan, workspace: &Path, protected: &[String]) -> Result<Vec<Grant>, ToolError> {
    let mounts: Vec<(&Path, &Mount)> = plan.mounts().collect();
    let hidden: Vec<&Path> =
        mounts.iter().filter(|(_, mount)| is_hidden(mount)).map(|(path, _)| *path).collect();
    let mut grants = Vec::new();
    for (path, mount) in &mounts {
        let above = path.ancestors().skip(1).find_map(|above| {
            mounts.iter().find(|(place, mount)| *place == above && shows(mount)).map(|(_, mount)| *mount)
        });
        let in_writable = above == Some(&Mount::ReadWrite);
        match mount {
            Mount::HiddenDirectory | Mount::HiddenFile if in_writable => return Err(cannot_hide(path)),
            Mount::ReadOnly if in_writable => {
                if !(path.starts_with(workspace) && is_protected(path, protected)) {
                    return Err(cannot_keep(path));
                }
            }
            Mount::ReadOnly | Mount::Copy => {
                let access = if *mount == &Mount::Copy { Access::Read } else { Access::Use };
                grants.extend(beside(path, access, &hidden).ok_or_else(|| too_many(path))?);
            }
            // What a command can write it could replace by a link; and it is granted already.
            Mount::ReadWrite if in_writable => {}
            Mount::ReadWrite => grants.push(((*path).to_owned(), Access::Change)),
            Mount::Proc => grants.push(((*path).to_owned(), Access::Read)),
            Mount::Devices => grants.extend(DEVICES.map(|device| (device.into(), Access::Device))),
            Mount::Private | Mount::Link(_) | Mount::File(_) | Mount::HiddenDirectory | Mount::HiddenFile => {
            }
        }
    }
    Ok(grants)
}

fn shows(mount: &Mount) -> bool {
    matches!(mount, Mount::ReadOnly | Mount::ReadWrite)
}

fn is_hidden(mount: &Mount) -> bool {
    matches!(mount, Mount::HiddenDirectory | Mount::HiddenFile)
}

fn is_protected(path: &Path, names: &[String]) -> bool {
    path.file_name().is_some_and(|name| is_among(names, name.as_bytes()))
}

/// Grants for `path`, or, where something in it is hidden, for everything beside that. None if those are too many.
fn beside(path: &Path, access: Access, hidden: &[&Path]) -> Option<Vec<Grant>> {
    let mut grants = Vec::new();
    let mut ahead = vec![path.to_owned()];
    while let Some(place) = ahead.pop() {
        if hidden.contains(&place.as_path()) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&place)) {
            grants.push((place, access));
            continue;
        }
        let entries = place.read_dir().into_iter().flatten().flatten();
        // A link leads to what is granted where it is, or not at all.
        let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        ahead.extend(entries.take(MOST_BESIDE + 1).map(|entry| entry.path()));
        if grants.len() + ahead.len() > MOST_BESIDE {
            return None;
        }
    }
    Some(grants)
}

fn refuse(message: String) -> ToolError {
    ToolError::new(ErrorKind::Blocked, message)
}

fn cannot_hide(path: &Path) -> ToolError {
    let message = format!(
        "The sandbox landlock cannot hide {}: it lies in a directory that commands can write, of which Landlock can take \
         nothing away.",
        path.display()
    );
    refuse(message).hint("Move it out of that directory, or use the sandbox \"native\" or \"bwrap\".")
}

fn cannot_keep(path: &Path) -> ToolError {
    let message = format!(
        "The sandbox landlock cannot keep {} from being changed: it lies in a directory that commands can write, of which \
         Landlock can take nothing away.",
        path.display()
    );
    refuse(message).hint("Take it out of view.read_only, or use the sandbox \"native\" or \"bwrap\".")
}

fn too_many(path: &Path) -> ToolError {
    let message = format!(
        "The sandbox landlock cannot show {}: something in it is hidden, beside more than {MOST_BESIDE} other entries.",
        path.display()
    );
    refuse(message)
        .hint("Show only the directories that commands need, or use the sandbox \"native\" or \"bwrap\".")
}

#[cfg(test)]
mod tests;
