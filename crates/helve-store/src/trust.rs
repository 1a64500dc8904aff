//! Which files of workspaces the owner trusts, each with exactly the text that was looked at.
//!
//! In: a path and the text that is there. Out: the text that the owner trusted at this path. The text itself is kept, not
//! a hash of it: commands can change a file of the workspace, and must not be able to lift a trusted rule by that. One
//! JSON object a line in `$HELVE_HOME/trust.jsonl`: it is read at every start once a file is trusted, where opening a
//! database would cost more than all the rest, and a person can read it. Changes are made under a lock in a new file that
//! replaces the old one, so that a reader sees the one or the other.
//!
//! **Not here:** reading the workspace's file, and what a trusted file may say (the policy).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::files::{self, Lock};
use crate::{Home, StoreError};

const FILE: &str = "trust.jsonl";
const NEW: &str = "trust.jsonl.new";
const LOCK: &str = "trust.lock";
/// More than this is not read, and not written.
const MAX_BYTES: u64 = 16 << 20;

/// The trusted files of one state directory.
#[derive(Debug, Clone)]
pub struct Trust {
    home: Home,
}

/// A file that the owner trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// What was in it when it was trusted.
    pub text: String,
    /// When it was trusted, in microseconds since 1970 UTC.
    pub trusted_at_us: u64,
}

impl Trust {
    /// The trusted files of this state directory. Opens nothing yet.
    pub fn new(home: &Home) -> Trust {
        Trust { home: home.clone() }
    }

    /// The same for the state directory at this path; none when nothing was ever trusted there. Makes nothing.
    pub fn open_existing(home: &Path) -> Result<Option<Trust>, StoreError> {
        match home.join(FILE).symlink_metadata() {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            // Where it cannot even be looked for, the directory says why.
            _ => Ok(Some(Trust::new(&Home::open(home)?))),
        }
    }

    /// Trusts exactly this text at this path; what was trusted there before no longer is.
    pub fn trust(&self, path: &Path, text: &str) -> Result<TrustedFile, StoreError> {
        let path = absolute(path)?;
        // Another path must not be written down for one that has no form in JSON.
        if path.to_str().is_none() {
            return Err(StoreError::NotText(path.display().to_string()));
        }
        let trusted_at_us = files::microseconds(files::now());
        let new = TrustedFile { path, text: text.to_owned(), trusted_at_us };
        self.change(|files| {
            files.retain(|file| file.path != new.path);
            files.push(new.clone());
            true
        })?;
        Ok(new)
    }

    /// What the owner trusts at this path, whatever is there now.
    pub fn trusted(&self, path: &Path) -> Result<Option<TrustedFile>, StoreError> {
        let path = absolute(path)?;
        Ok(self.list()?.into_iter().find(|file| file.path == path))
    }

    /// The trusted files, in the order in which they were trusted.
    pub fn list(&self) -> Result<Vec<TrustedFile>, StoreError> {
        let open = files::open_to_read(self.home.dir(), FILE);
        match open.map_err(|error| failed(FILE, error))? {
            Some(file) => read(&file).map_err(|error| failed(FILE, error)),
            None => Ok(Vec::new()),
        }
    }

    /// Trusts a file no longer; false when it was not trusted.
    pub fn revoke(&self, path: &Path) -> Result<bool, StoreError> {
        let path = absolute(path)?;
        self.change(|files| {
            let before = files.len();
            files.retain(|file| file.path != path);
            files.len() != before
        })
    }

    /// Replaces the file if `change` says that there is something to write; whether it did.
    fn change(&self, change: impl FnOnce(&mut Vec<TrustedFile>) -> bool) -> Result<bool, StoreError> {
        let dir = self.home.dir();
        // A file of its own, because the lock of a file that is replaced would guard nothing.
        let lock = files::open_or_make(dir, LOCK, OFlags::RDWR).map_err(|error| failed(LOCK, error))?;
        let _held = Lock::exclusive(&lock).map_err(|error| failed(LOCK, error))?;
        let mut trusted = self.list()?;
        if !change(&mut trusted) {
            return Ok(false);
        }
        let mut text = Vec::new();
        for file in &trusted {
            serde_json::to_writer(&mut text, file).map_err(|error| StoreError::NotJson(error.to_string()))?;
            text.push(b'\n');
        }
        if text.len() as u64 > MAX_BYTES {
            let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
            return Err(StoreError::TooLarge { bytes: text.len(), limit });
        }
        let replace = || -> io::Result<()> {
            files::remove_file(dir, NEW)?;
            let mut new = files::make_new(dir, NEW)?;
            new.write_all(&text)?;
            new.sync_all()?;
            rustix::fs::renameat(dir, NEW, dir, FILE)?;
            Ok(())
        };
        replace().map_err(|error| failed(FILE, error))?;
        Ok(true)
    }
}

/// The entries of the file. A line that makes no sense trusts nothing.
fn read(file: &File) -> io::Result<Vec<TrustedFile>> {
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "it is longer than {MAX_BYTES} bytes; remove it and trust anew"
        )));
    }
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path)
        .map_err(|error| StoreError::io("cannot tell where the file is", path.display().to_string(), error))
}

fn failed(name: &str, error: io::Error) -> StoreError {
    StoreError::io("cannot read or write the list of trusted files", name, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::MetadataExt as _;

    fn place() -> (tempfile::TempDir, Trust) {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::new(&Home::open(&dir.path().join("home")).unwrap());
        (dir, trust)
    }

    #[test]
    fn what_was_trusted_at_exactly_this_path_is_known_until_it_is_revoked() {
        let (dir, trust) = place();
        let path = Path::new("/w/helve.toml");
        assert_eq!(trust.trusted(path).unwrap(), None);
        let file = trust.trust(path, "a\n").unwrap();
        assert_eq!(file.text, "a\n");
        assert_eq!(trust.list().unwrap(), std::slice::from_ref(&file));
        assert_eq!(trust.trusted(path).unwrap(), Some(file));
        assert_eq!(trust.trusted(Path::new("/w2/helve.toml")).unwrap(), None);

        let again = trust.trust(path, "b").unwrap();
        assert_eq!(trust.list().unwrap(), [again], "an older text is not trusted any more");
        assert!(Trust::open_existing(&dir.path().join("home")).unwrap().is_some());
        assert!(trust.revoke(path).unwrap());
        assert_eq!(trust.trusted(path).unwrap(), None);
        assert!(!trust.revoke(path).unwrap());
    }

    #[test]
    fn a_path_that_is_not_text_is_never_trusted_and_in_nobodys_way() {
        use std::os::unix::ffi::OsStrExt as _;
        let (_dir, trust) = place();
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/w\xff/helve.toml"));
        trust.trust(Path::new("/w\u{fffd}/helve.toml"), "other").unwrap();
        assert!(matches!(trust.trust(path, "a"), Err(StoreError::NotText(_))));
        assert_eq!(trust.trusted(path).unwrap(), None);
        assert!(!trust.revoke(path).unwrap());
    }

    #[test]
    fn to_ask_makes_no_state_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        assert!(Trust::open_existing(&home).unwrap().is_none());
        assert!(!home.exists());
    }

    #[test]
    fn the_file_is_the_owners_alone_and_a_bad_line_trusts_nothing() {
        let (dir, trust) = place();
        let path = Path::new("/w/helve.toml");
        trust.trust(path, "a").unwrap();
        let file = dir.path().join("home/trust.jsonl");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let line = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("nonsense\n{}\n{line}", &line[..line.len() / 2])).unwrap();
        assert_eq!(trust.list().unwrap().len(), 1);
        // A link in its place is not followed.
        std::fs::rename(&file, dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("moved"), &file).unwrap();
        assert!(trust.trusted(path).is_err());
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let (_dir, trust) = place();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let trust = trust.clone();
                scope.spawn(move || {
                    for n in 0..10 {
                        trust.trust(Path::new(&format!("/w/{thread}/{n}")), "x").unwrap();
                    }
                });
            }
        });
        assert_eq!(trust.list().unwrap().len(), 40);
    }
}
