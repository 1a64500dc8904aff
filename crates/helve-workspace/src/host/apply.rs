//! A staged commit takes place: steps of one moment each, and back again if one of them fails.
//!
//! A replaced file and its replacement change names (`RENAME_EXCHANGE`), so the old one is still there under the
//! temporary name: whether it is the one that the plan saw is looked at after the exchange, when nobody can put another
//! one in between, and going back is the same exchange again. What is removed only takes a temporary name. Temporary
//! names are removed when all is done.
//!
//! Killed in the middle, every single file is its old or its new self. Several steps are noted before the first of them
//! (`journal`), and the next start takes back those that were taken, so that all files are the same of the two then.

use std::path::{Path, PathBuf};

use helve_core::{Cancel, ErrorKind, ToolError};
use rustix::io::Errno;

use super::stage::{Spot, Staging, Step, copy_all};
use super::world::Identity;
use super::{Host, attributes, journal};
use crate::commit::Key;
use crate::names::show;
use crate::refuse;

/// How one step is taken back.
enum Back {
    /// What was placed returns to its temporary name.
    Unplace { key: Key, at: Spot, temp: Spot, ino: u64 },
    /// The two change their names again.
    SwapAgain { key: Key, at: Spot, temp: Spot, ino: u64 },
    /// The copy of the old takes its place again.
    Restore { key: Key, at: Spot, copy: Spot },
    /// A file or a directory returns to the name that it had.
    Return { key: Key, from: Spot, to: Spot },
    /// A file or a directory gets the permission bits again that it had.
    Chmod { key: Key, at: Spot, to: u32 },
    /// It gets the value of an extended attribute again that it had, or loses it again.
    Attribute { key: Key, at: Spot, name: String, to: Option<Vec<u8>> },
}

/// Makes all steps or none. On success the changes are on the disk.
pub(super) fn apply(staging: &mut Staging<'_>) -> Result<(), ToolError> {
    let steps = std::mem::take(&mut staging.steps);
    let mut done = Vec::with_capacity(steps.len());
    let host = staging.host;
    let noted = host.note(&steps)?;
    let over = || noted.as_ref().map_or(Ok(()), |noted| noted.over(&host.sys));
    let outcome = run(staging, steps, &mut done);
    // From here on it has happened.
    let outcome = outcome.and_then(|()| over().map_err(cannot_note));
    let Err(mut error) = outcome else { return Ok(()) };
    let mut stuck = Vec::new();
    for back in done.into_iter().rev() {
        let key = back.key().clone();
        if take_back(staging.host, back).is_err() {
            stuck.push(show(&staging.host.shown(&key)));
        }
    }
    for dir in staging.dirs.values() {
        // What could not be synced forwards may not be backwards either; the first error is the one to tell.
        let _ = staging.host.sys.sync(dir);
    }
    if stuck.is_empty() {
        // If that fails, the next start finds nothing to take back.
        let _ = over();
    } else {
        staging.stuck = true;
        host.janitor.leave();
        error = ToolError::new(
            ErrorKind::Internal,
            format!(
                "{} These files could not be put back as they were: {}. What they held may be beside them under a name \
                 that begins with '.helve-'.",
                error.message,
                stuck.join(", ")
            ),
        )
        .hint("The next start of Helve tries again. Or restore them with: helve undo");
    }
    Err(error)
}

impl Host {
    /// Notes several steps before the first of them, where there is a place for notes.
    fn note(&self, steps: &[Step]) -> Result<Option<journal::Under>, ToolError> {
        if steps.len() < 2 {
            return Ok(None);
        }
        let Some(path) = self.janitor.steps().map_err(cannot_note)? else { return Ok(None) };
        let roots: Vec<&Path> =
            self.roots.iter().map(|root| root.names.last().map_or(Path::new(""), PathBuf::as_path)).collect();
        journal::note(&self.sys, path, &roots, steps).map(Some).map_err(cannot_note)
    }
}

fn cannot_note(error: Errno) -> ToolError {
    let message =
        format!("Cannot note in Helve's state directory which files change: {error}. Nothing was changed.");
    ToolError::failed(message).hint("Check the permissions and the space of Helve's state directory.")
}

fn run(staging: &mut Staging<'_>, steps: Vec<Step>, done: &mut Vec<Back>) -> Result<(), ToolError> {
    for (key, dir) in &staging.dirs {
        if !staging.host.is_still_at(key, dir).unwrap_or(false) {
            return Err(refuse::raced(&staging.host.shown(key)));
        }
    }
    for step in steps {
        take(staging, step, done)?;
    }
    for (key, dir) in &staging.dirs {
        match staging.host.sys.sync(dir) {
            Ok(()) => {}
            Err(error) => return Err(staging.cannot("write", key, error)),
        }
    }
    Ok(())
}

fn take(staging: &mut Staging<'_>, step: Step, done: &mut Vec<Back>) -> Result<(), ToolError> {
    let host = staging.host;
    let sys = &host.sys;
    match step {
        Step::Place { key, temp, to } => {
            let stat =
                sys.stat_at(&temp.dir, &temp.name).map_err(|error| staging.cannot("write", &key, error))?;
            match sys.place(&temp.dir, &temp.name, &to.dir, &to.name) {
                Ok(()) => done.push(Back::Unplace { key, at: to, temp, ino: stat.st_ino }),
                Err(Errno::EXIST) => return Err(refuse::raced(&host.shown(&key))),
                Err(error) => return Err(staging.cannot("write", &key, error)),
            }
        }
        Step::Swap { key, temp, to, was } => {
            check(staging, &key, &to, was)?;
            let new =
                sys.stat_at(&temp.dir, &temp.name).map_err(|error| staging.cannot("write", &key, error))?;
            match sys.exchange(&to.dir, &temp.name, &to.name) {
                Ok(()) => {
                    let (at, seen) = (to, temp.clone());
                    done.push(Back::SwapAgain { key: key.clone(), at, temp, ino: new.st_ino });
                    check_renamed(staging, &key, &seen, was)?;
                }
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    replace(staging, key, &temp, to, was, done)?;
                }
                Err(Errno::NOENT) => return Err(refuse::raced(&host.shown(&key))),
                Err(error) => return Err(staging.cannot("write", &key, error)),
            }
        }
        Step::Rename { key, from, to, was } => {
            check(staging, &key, &from, was)?;
            match sys.place(&from.dir, &from.name, &to.dir, &to.name) {
                Ok(()) => {
                    let seen = to.clone();
                    done.push(Back::Return { key: key.clone(), from: to, to: from });
                    check_renamed(staging, &key, &seen, was)?;
                }
                Err(Errno::EXIST | Errno::NOENT) => return Err(refuse::raced(&host.shown(&key))),
                Err(error) => return Err(staging.cannot("move", &key, error)),
            }
        }
        Step::Hide { key, from, temp, was } => {
            check(staging, &key, &from, was)?;
            match sys.place(&from.dir, &from.name, &temp.dir, &temp.name) {
                Ok(()) => {
                    let seen = temp.clone();
                    done.push(Back::Return { key: key.clone(), from: temp, to: from });
                    check_renamed(staging, &key, &seen, was)?;
                }
                Err(Errno::NOENT) => return Err(refuse::raced(&host.shown(&key))),
                Err(error) => return Err(staging.cannot("remove", &key, error)),
            }
        }
        Step::HideDir { key, from, temp } => match sys.place(&from.dir, &from.name, &temp.dir, &temp.name) {
            Ok(()) => {
                let seen = temp.clone();
                done.push(Back::Return { key: key.clone(), from: temp, to: from });
                match sys.is_empty_dir(&seen.dir, &seen.name) {
                    Ok(true) => {}
                    Ok(false) | Err(Errno::NOTDIR | Errno::LOOP) => {
                        return Err(refuse::raced(&host.shown(&key)));
                    }
                    Err(error) => return Err(staging.cannot("remove", &key, error)),
                }
            }
            Err(Errno::NOENT) => return Err(refuse::raced(&host.shown(&key))),
            Err(error) => return Err(staging.cannot("remove", &key, error)),
        },
        Step::Chmod { key, at, from, to } => match sys.chmod_at(&at.dir, &at.name, to) {
            Ok(()) => done.push(Back::Chmod { key, at, to: from }),
            Err(Errno::NOENT | Errno::LOOP) => return Err(refuse::raced(&host.shown(&key))),
            Err(error) => return Err(staging.cannot("change", &key, error)),
        },
        Step::Attribute { key, at, name, from, to } => {
            match sys.attribute_at(&at.dir, &at.name, &name, to.as_deref()) {
                Ok(()) => done.push(Back::Attribute { key, at, name, to: from }),
                Err(Errno::NOENT | Errno::LOOP) => return Err(refuse::raced(&host.shown(&key))),
                Err(error) => return Err(host.cannot_have(&key, &name, error)),
            }
        }
    }
    Ok(())
}

/// For a file system that cannot exchange: the old one is copied first, so that there is a way back.
fn replace(
    staging: &mut Staging<'_>,
    key: Key,
    temp: &Spot,
    to: Spot,
    was: Identity,
    done: &mut Vec<Back>,
) -> Result<(), ToolError> {
    let sys = &staging.host.sys;
    let old = staging.world.open_original(&key)?;
    let copy = staging.another(&to);
    let write = || {
        let file = sys.create(&copy.dir, &copy.name, 0o600)?;
        // The first step is made, or the next one makes it: no longer the moment to take the call back.
        copy_all(sys, &old, &file, &Cancel::never())?;
        attributes::copy(sys, &old, &file)?;
        sys.sync(&file)
    };
    write().map_err(|error| staging.cannot("write", &key, error))?;
    check(staging, &key, &to, was)?;
    sys.replace(&to.dir, &temp.name, &to.name).map_err(|error| staging.cannot("write", &key, error))?;
    done.push(Back::Restore { key, at: to, copy });
    Ok(())
}

/// A conflict unless a name still has the file that the plan saw.
fn check(staging: &Staging<'_>, key: &Key, at: &Spot, was: Identity) -> Result<(), ToolError> {
    match staging.host.sys.stat_at(&at.dir, &at.name) {
        Ok(stat) if Identity::of(&stat) == was => Ok(()),
        // A step before this one may have renamed another name of the same file.
        Ok(stat) if was.has_other_names() && was.is_after_rename(&stat) => Ok(()),
        Ok(_) | Err(Errno::NOENT) => Err(refuse::raced(&staging.host.shown(key))),
        Err(error) => Err(staging.cannot("read", key, error)),
    }
}

/// The same after it was renamed.
fn check_renamed(staging: &Staging<'_>, key: &Key, at: &Spot, was: Identity) -> Result<(), ToolError> {
    match staging.host.sys.stat_at(&at.dir, &at.name) {
        Ok(stat) if was.is_after_rename(&stat) => Ok(()),
        Ok(_) | Err(Errno::NOENT) => Err(refuse::raced(&staging.host.shown(key))),
        Err(error) => Err(staging.cannot("read", key, error)),
    }
}

fn take_back(host: &Host, back: Back) -> Result<(), Errno> {
    let sys = &host.sys;
    match back {
        Back::Unplace { at, temp, ino, .. } => match sys.stat_at(&at.dir, &at.name) {
            // Somebody else's by now.
            Ok(stat) if stat.st_ino != ino => Ok(()),
            Ok(_) => sys.place(&at.dir, &at.name, &temp.dir, &temp.name),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        },
        Back::SwapAgain { at, temp, ino, .. } => {
            sys.exchange(&at.dir, &temp.name, &at.name)?;
            if sys.stat_at(&temp.dir, &temp.name)?.st_ino == ino {
                return Ok(());
            }
            // Somebody has put another file there meanwhile. It is the newest, and what was there before it is kept.
            sys.exchange(&at.dir, &temp.name, &at.name)?;
            Err(Errno::EXIST)
        }
        Back::Restore { at, copy, .. } => sys.replace(&at.dir, &copy.name, &at.name),
        Back::Return { from, to, .. } => sys.place(&from.dir, &from.name, &to.dir, &to.name),
        Back::Chmod { at, to, .. } => sys.chmod_at(&at.dir, &at.name, to),
        Back::Attribute { at, name, to, .. } => sys.attribute_at(&at.dir, &at.name, &name, to.as_deref()),
    }
}

impl Back {
    fn key(&self) -> &Key {
        match self {
            Back::Unplace { key, .. }
            | Back::SwapAgain { key, .. }
            | Back::Restore { key, .. }
            | Back::Return { key, .. }
            | Back::Chmod { key, .. }
            | Back::Attribute { key, .. } => key,
        }
    }
}
