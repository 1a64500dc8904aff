//! What a session last saw of the files of one workspace, so that calls in several processes know of each other.
//!
//! In: a path and the hash of what was seen of it. Out: the last one of a path. One line a sight, appended under a lock; a
//! process that finds the file longer than it left it reads the rest. When most lines are old news, the file is written
//! anew. It is a memory, not a record: what is lost only makes Helve forget that something was seen.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::files::{self, Lock};
use crate::{Home, StoreError, check_session};

/// What the names of these files start with.
pub(crate) const PREFIX: &str = "seen-";
/// A file that has grown so long is written anew, half as long at the most.
const MAX_BYTES: u64 = 4 << 20;
/// So many paths are remembered; then the half that was seen longest ago is forgotten.
const MAX_PATHS: usize = 10_000;

/// What was seen of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenState {
    /// The hash of the content.
    pub id: String,
}

/// The memory of one session in one workspace.
#[derive(Debug)]
pub struct SeenLog {
    dir: OwnedFd,
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file that was read, and how far; another one may have taken its place.
    inode: u64,
    read: u64,
    paths: HashMap<String, Sight>,
    /// Counts sights, so that the oldest are known.
    count: u64,
}

#[derive(Debug)]
struct Sight {
    id: String,
    at: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    /// None where it was seen that nothing is there.
    id: Option<String>,
}

impl SeenLog {
    /// The memory of a session for the workspace at this absolute path.
    pub fn open(home: &Home, session: &str, workspace: &str) -> Result<SeenLog, StoreError> {
        check_session(session)?;
        let dir = home.make_sessions_dir().and_then(|sessions| files::make_dir(sessions, session));
        let dir = dir.map_err(|error| StoreError::io("cannot open the session", session, error))?;
        let hash = blake3::hash(workspace.as_bytes()).to_hex();
        let name = format!("{PREFIX}{}", hash.get(..16).unwrap_or_default());
        Ok(SeenLog { dir, name, state: Mutex::default() })
    }

    /// What was last seen of a path.
    pub fn last(&self, path: &str) -> Result<Option<SeenState>, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = files::open_to_read(&self.dir, &self.name).map_err(failed)? else {
            return Ok(None);
        };
        let _lock = Lock::shared(&file).map_err(failed)?;
        state.catch_up(&file).map_err(failed)?;
        Ok(state.paths.get(path).map(|sight| SeenState { id: sight.id.clone() }))
    }

    /// This was seen of a path; none if it was seen that nothing is there.
    pub fn saw(&self, path: &str, id: Option<&str>) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&mut state, path, id).map_err(failed)
    }

    fn append(&self, state: &mut State, path: &str, id: Option<&str>) -> io::Result<()> {
        loop {
            let flags = OFlags::RDWR | OFlags::APPEND;
            let file = files::open_or_make(&self.dir, &self.name, flags)?;
            let _lock = Lock::exclusive(&file)?;
            let is_current = files::stat(&self.dir, &self.name)?
                .is_some_and(|stat| file.metadata().is_ok_and(|opened| opened.ino() == stat.st_ino));
            if !is_current {
                // It was written anew between opening and locking.
                continue;
            }
            state.catch_up(&file)?;
            if state.paths.get(path).map(|sight| sight.id.as_str()) == id {
                return Ok(());
            }
            let line = Line { path: path.to_owned(), id: id.map(str::to_owned) };
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            (&file).write_all(&text)?;
            state.catch_up(&file)?;
            if state.read > MAX_BYTES || state.paths.len() > MAX_PATHS {
                self.rewrite(state)?;
            }
            return Ok(());
        }
    }

    /// Writes the file anew with what is still remembered.
    fn rewrite(&self, state: &mut State) -> io::Result<()> {
        let mut sights: Vec<(&String, &Sight)> = state.paths.iter().collect();
        sights.sort_unstable_by_key(|(_, sight)| std::cmp::Reverse(sight.at));
        let mut lines = Vec::new();
        let mut bytes = 0;
        for (path, sight) in sights.into_iter().take(MAX_PATHS / 2) {
            let line = Line { path: path.clone(), id: Some(sight.id.clone()) };
            lines.push(serde_json::to_string(&line)?);
            bytes += lines.last().map_or(0, |line| line.len() as u64 + 1);
            if bytes > MAX_BYTES / 2 {
                break;
            }
        }
        let text: String = lines.iter().rev().flat_map(|line| [line.as_str(), "\n"]).collect();
        let temporary = format!(".{}", self.name);
        files::remove_file(&self.dir, &temporary)?;
        files::make_new(&self.dir, &temporary)?.write_all(text.as_bytes())?;
        rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name)?;
        *state = State::default();
        Ok(())
    }
}

impl State {
    /// Reads what was appended since.
    fn catch_up(&mut self, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        if metadata.ino() != self.inode || metadata.len() < self.read {
            *self = State { inode: metadata.ino(), ..State::default() };
        }
        let new = usize::try_from(metadata.len() - self.read).unwrap_or(usize::MAX);
        if new == 0 {
            return Ok(());
        }
        let mut text = vec![0; new];
        file.read_exact_at(&mut text, self.read)?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // A line that a dying process did not finish, and the one that then follows on it, say nothing.
            if let Some(Line { path, id }) =
                line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok())
            {
                self.count += 1;
                match id {
                    Some(id) => self.paths.insert(path, Sight { id, at: self.count }),
                    None => self.paths.remove(&path),
                };
            }
        }
        self.read = metadata.len();
        Ok(())
    }
}

fn failed(error: io::Error) -> StoreError {
    StoreError::io("cannot use the memory of seen files", PREFIX, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        (dir, home)
    }

    fn last(log: &SeenLog, path: &str) -> Option<String> {
        log.last(path).unwrap().map(|seen| seen.id)
    }

    #[test]
    fn two_handles_of_one_session_know_of_each_other_and_others_do_not() {
        let (_dir, home) = home();
        let (a, b) = (SeenLog::open(&home, "s", "/w").unwrap(), SeenLog::open(&home, "s", "/w").unwrap());
        assert_eq!(last(&a, "x"), None);
        a.saw("x", Some("b3:1")).unwrap();
        assert_eq!(last(&b, "x").as_deref(), Some("b3:1"));
        b.saw("x", Some("b3:2")).unwrap();
        b.saw("y", Some("b3:3")).unwrap();
        b.saw("y", None).unwrap();
        assert_eq!(last(&a, "x").as_deref(), Some("b3:2"));
        assert_eq!(last(&a, "y"), None);
        assert_eq!(last(&SeenLog::open(&home, "other", "/w").unwrap(), "x"), None);
        assert_eq!(last(&SeenLog::open(&home, "s", "/v").unwrap(), "x"), None);
    }

    #[test]
    fn the_file_is_written_anew_and_the_newest_stay() {
        let (_dir, home) = home();
        let (a, b) = (SeenLog::open(&home, "s", "/w").unwrap(), SeenLog::open(&home, "s", "/w").unwrap());
        b.saw("first", Some("b3:0")).unwrap();
        let mut state = a.state.lock().unwrap();
        for number in 0..MAX_PATHS {
            let sight = Sight { id: "b3:1".to_owned(), at: number as u64 + 2 };
            state.paths.insert(format!("p{number}"), sight);
        }
        a.rewrite(&mut state).unwrap();
        state.paths.clear();
        drop(state);
        assert_eq!(last(&b, "first"), None, "it was in another file");
        a.saw("first", Some("b3:2")).unwrap();
        assert_eq!(last(&b, "first").as_deref(), Some("b3:2"));
        assert_eq!(last(&b, &format!("p{}", MAX_PATHS - 1)).as_deref(), Some("b3:1"));
    }

    #[test]
    fn an_unfinished_line_is_no_harm() {
        let (dir, home) = home();
        let log = SeenLog::open(&home, "s", "/w").unwrap();
        log.saw("a", Some("b3:1")).unwrap();
        let file = dir.path().join("home/sessions/s").join(&log.name);
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"path\":\"z").unwrap();
        let other = SeenLog::open(&home, "s", "/w").unwrap();
        assert_eq!(last(&other, "a").as_deref(), Some("b3:1"));
        other.saw("b", Some("b3:2")).unwrap();
        other.saw("c", Some("b3:3")).unwrap();
        assert_eq!(last(&log, "c").as_deref(), Some("b3:3"));
    }

    #[test]
    fn gc_takes_it_with_its_session() {
        let (dir, home) = home();
        let log = SeenLog::open(&home, "s", "/w").unwrap();
        log.saw("a", Some("b3:1")).unwrap();
        crate::Journal::open(&home, "s", crate::JournalOptions::default()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let options = crate::GcOptions {
            blob_budget_bytes: 0,
            undo_budget_bytes: 0,
            dry_run: false,
            sessions_older_than: Some(std::time::Duration::from_millis(1)),
        };
        let report = crate::gc(&home, &options).unwrap();
        assert_eq!(report.sessions.len(), 1);
        assert!(!dir.path().join("home/sessions/s").exists());
    }
}
