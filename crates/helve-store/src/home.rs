//! The state directory: where it is, and that it belongs to the caller alone.
//!
//! In: a path or the environment. Out: an open directory below which every other module works. Whoever can write
//! here can rewrite history, so a directory that others can reach is tightened when it is ours and refused when not.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::head::WITNESSES;
use crate::{StoreError, files};

pub(crate) const SESSIONS: &str = "sessions";

/// An open state directory (`$HELVE_HOME`). Clones share it.
#[derive(Debug, Clone)]
pub struct Home {
    path: Arc<Path>,
    dir: Arc<OwnedFd>,
}

impl Home {
    /// Opens the state directory, making it with mode 0700 when there is none. Fails when it belongs to somebody
    /// else, or when it is open to others and holds things that are not Helve's.
    pub fn open(path: &Path) -> Result<Home, StoreError> {
        let refuse = |reason: String| StoreError::Home { path: path.display().to_string(), reason };
        let failed = |error: io::Error| refuse(error.to_string());
        if let Err(error) = make_path(path) {
            return Err(refuse(format!(
                "it cannot be made: {error}. Set HELVE_HOME to a directory you can write"
            )));
        }
        let path = fs::canonicalize(path).map_err(failed)?;
        // Said before it is opened, which would only say that it is not permitted.
        check_rights(&path, &path.metadata().map_err(failed)?).map_err(refuse)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let dir = fs::File::from(dir);
        let metadata = dir.metadata().map_err(failed)?;
        check_rights(&path, &metadata).map_err(refuse)?;
        if metadata.mode() & 0o077 != 0 {
            let names = files::names(&dir).map_err(failed)?;
            if !names.is_empty() && !names.iter().any(|name| name == SESSIONS) {
                return Err(refuse(format!(
                    "others can reach it and it holds other things. Run `chmod 700 {}`, \
                     or set HELVE_HOME to a directory of its own",
                    path.display()
                )));
            }
            dir.set_permissions(fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(Home { path: path.into(), dir: Arc::new(dir.into()) })
    }

    /// Where the state lives unless told otherwise: `$HELVE_HOME`, else `$XDG_STATE_HOME/helve`, else
    /// `~/.local/state/helve`.
    pub fn default_path() -> Result<PathBuf, StoreError> {
        default_path_from(|name| env::var_os(name).map(PathBuf::from))
    }

    /// The directory, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the sessions that have a directory, sorted.
    pub fn sessions(&self) -> Result<Vec<String>, StoreError> {
        let failed =
            |error| StoreError::io("cannot list the sessions", self.path.display().to_string(), error);
        let Some(dir) = files::open_dir(self.dir(), SESSIONS).map_err(failed)? else {
            return Ok(Vec::new());
        };
        let mut names = files::names(&dir).map_err(failed)?;
        names.retain(|name| check_session(name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    /// The sessions, and those whose directory is gone but that the witness has seen before. Sorted.
    pub fn sessions_ever_seen(&self) -> Result<Vec<String>, StoreError> {
        let failed =
            |error| StoreError::io("cannot list the witnesses", self.path.display().to_string(), error);
        let mut names = self.sessions()?;
        if let Some(dir) = files::open_dir(self.dir(), WITNESSES).map_err(failed)? {
            let witnessed = files::names(&dir).map_err(failed)?;
            names.extend(witnessed.into_iter().filter(|name| check_session(name).is_ok()));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// The directory that holds the sessions.
    pub(crate) fn make_sessions_dir(&self) -> io::Result<OwnedFd> {
        files::make_dir(self.dir(), SESSIONS)
    }

    /// A session's directory; `None` when there is none.
    pub(crate) fn session_dir(&self, session: &str) -> Result<Option<OwnedFd>, StoreError> {
        check_session(session)?;
        let find = || match files::open_dir(self.dir(), SESSIONS)? {
            Some(sessions) => files::open_dir(sessions, session),
            None => Ok(None),
        };
        find().map_err(|error| StoreError::io("cannot open the session", session, error))
    }
}

/// Whether a state directory is the caller's, and he may look into it.
fn check_rights(path: &Path, found: &fs::Metadata) -> Result<(), String> {
    let (owner, me) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != me {
        return Err(format!(
            "it belongs to user {owner}, not to user {me}. Set HELVE_HOME to a directory of your own"
        ));
    }
    if me != 0 && found.mode() & 0o500 != 0o500 {
        let (mode, path) = (found.mode() & 0o777, path.display());
        return Err(format!("its mode {mode:03o} keeps its own user out. Run `chmod 700 {path}`"));
    }
    Ok(())
}

/// Makes a directory and those above it that are missing, for the owner alone whatever the umask is.
fn make_path(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.is_dir()).collect();
    for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        match DirBuilder::new().mode(0o700).create(dir) {
            // Said again, because the umask may have taken the owner's own rights away.
            Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?,
            Err(_) if dir.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn default_path_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, StoreError> {
    // The XDG rules say that a relative path in its variables is to be ignored.
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    if let Some(home) = variable("HELVE_HOME").filter(|path| !path.as_os_str().is_empty()) {
        if home.is_absolute() {
            return Ok(home);
        }
        // It would be another directory wherever Helve is started.
        return Err(StoreError::Home {
            path: home.display().to_string(),
            reason: "it is not absolute. Set HELVE_HOME to a path that begins with /".to_owned(),
        });
    }
    if let Some(state) = absolute("XDG_STATE_HOME") {
        return Ok(state.join("helve"));
    }
    if let Some(home) = absolute("HOME") {
        return Ok(home.join(".local/state/helve"));
    }
    Err(StoreError::Home {
        path: "(unknown)".to_owned(),
        reason:
            "neither HELVE_HOME, XDG_STATE_HOME nor HOME is set. Set HELVE_HOME to a directory of your own"
                .to_owned(),
    })
}

/// Whether a session name can be a plain directory name; the error says what it may be.
pub fn check_session(name: &str) -> Result<(), StoreError> {
    let valid = (1..=100).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if valid { Ok(()) } else { Err(StoreError::BadSession(name.chars().take(120).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_made_for_the_owner_alone() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/b");
        let home = Home::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(home.sessions().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_open_directory_is_tightened_when_empty_and_refused_when_it_holds_other_things() {
        let outer = tempfile::tempdir().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(outer.path().join("letter"), "x").unwrap();
        let error = Home::open(outer.path()).unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
        fs::remove_file(outer.path().join("letter")).unwrap();
        Home::open(outer.path()).unwrap();
        assert_eq!(fs::metadata(outer.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_in_its_place_is_an_error_that_names_the_remedy() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("home");
        fs::write(&path, "x").unwrap();
        let error = Home::open(&path).unwrap_err().to_string();
        assert!(error.contains("HELVE_HOME"), "{error}");
    }

    #[test]
    fn rights_that_are_missing_are_said_with_the_remedy() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("home");
        fs::create_dir(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            let error = Home::open(&path).unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345") && error.contains("HELVE_HOME"), "{error}");
            return;
        }
        for mode in [0o000, 0o200, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for error in [Home::open(&path).err(), crate::Trust::open_existing(&path).err()] {
                let error = error.unwrap().to_string();
                let (place, remedy) = (path.display(), "Run `chmod 700");
                assert!(error.contains(&place.to_string()) && error.contains(remedy), "{mode:o} {error}");
            }
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Home::open(&path).unwrap();
    }

    #[test]
    fn the_environment_decides_in_order() {
        let with = |pairs: &'static [(&str, &str)]| {
            default_path_from(move |name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        let all = &[("HELVE_HOME", "/h"), ("XDG_STATE_HOME", "/x"), ("HOME", "/u")];
        assert_eq!(with(all).unwrap(), Path::new("/h"));
        assert_eq!(with(&[("XDG_STATE_HOME", "/x"), ("HOME", "/u")]).unwrap(), Path::new("/x/helve"));
        let relative = &[("HELVE_HOME", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/u")];
        assert_eq!(with(relative).unwrap(), Path::new("/u/.local/state/helve"));
        assert!(with(&[]).is_err());
        for relative in ["h", "./h", "../h", "~/h"] {
            let error =
                default_path_from(|name| Some(if name == "HELVE_HOME" { relative } else { "/u" }.into()));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(relative) && error.contains("begins with /"), "{error}");
        }
    }

    #[test]
    fn session_names_are_plain_directory_names() {
        for good in ["a", "2026-01-02.x_Y", &"x".repeat(100)] {
            assert!(check_session(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "ü", "a\0", &"x".repeat(101)] {
            assert!(matches!(check_session(bad), Err(StoreError::BadSession(_))), "{bad}");
        }
    }
}
