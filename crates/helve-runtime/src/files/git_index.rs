//! Git's index, as far as it says something: what is staged, and how.
//!
//! Besides that it remembers what files looked like (times, numbers, sizes) and what follows from the rest. A mere look, such
//! as `git status`, writes that anew, and nobody means it as a change.

use helve_core::files::{Files, Is};
use helve_store::{FileState, Undo};

use super::records::kept;

/// What is kept only to save work: trees, untracked files, a watcher's word, where parts begin.
const CACHES: [&[u8]; 5] = [b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT"];

/// What a file looked like before and after its kind and mode.
const TIMES_AND_PLACE: usize = 24;
const OWNER_AND_SIZE: usize = 12;

/// A longer index is not kept with changes that wait.
pub(super) const WAITING_BYTES: u64 = 16 << 20;

/// Whether a path is git's index and says what a state said whose content is kept: then git wrote it anew for a mere look.
pub(super) async fn was_looked_at(
    files: &dyn Files,
    undo: &Undo,
    path: &str,
    (state, now): (&FileState, &Is),
    max: u64,
) -> bool {
    let (FileState::File { id: old, mode: bits, .. }, Is::File { id, mode, attributes }) = (state, now)
    else {
        return false;
    };
    if !is_index(path) || bits != mode || attributes != state.attributes() {
        return false;
    }
    match (kept(undo, old, max), files.read(path, max).await) {
        // What is compared has to be what will be replaced.
        (Some(old), Ok(content)) if content.id == *id => say_the_same(&old, &content.bytes),
        _ => false,
    }
}

/// Whether a path is the index of a repository.
pub(super) fn is_index(path: &str) -> bool {
    path == ".git/index" || path.ends_with("/.git/index")
}

/// Whether two indexes say the same. What cannot be read says nothing.
fn say_the_same(one: &[u8], other: &[u8]) -> bool {
    // A name is a hash of one of two lengths, which the index does not tell.
    [20, 32].iter().any(|hash| said(one, *hash).is_some_and(|said_by| Some(said_by) == said(other, *hash)))
}

/// Everything that an index says: its version, entries without what files looked like, and parts that are no caches.
fn said(index: &[u8], hash: usize) -> Option<Vec<&[u8]>> {
    let mut rest = Rest(index.get(..index.len().checked_sub(hash)?)?);
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let version = rest.take(4)?;
    let mut said = vec![version];
    for _ in 0..rest.number()? {
        let start = rest.0.len();
        rest.take(TIMES_AND_PLACE)?;
        said.push(rest.take(4)?);
        rest.take(OWNER_AND_SIZE)?;
        said.push(rest.take(hash)?);
        let flags = rest.take(2)?;
        said.push(flags);
        if flags.first()? & 0x40 != 0 {
            said.push(rest.take(2)?);
        }
        match version {
            [0, 0, 0, 2 | 3] => {
                said.push(rest.name()?);
                // An entry ends with one to eight zeros; the name has taken one.
                let long = start - rest.0.len();
                rest.take(long.next_multiple_of(8) - long)?;
            }
            [0, 0, 0, 4] => {
                // How much of the name before it goes, in a number of several bytes.
                let digits = rest.0.iter().position(|byte| byte & 0x80 == 0)? + 1;
                said.push(rest.take(digits)?);
                said.push(rest.name()?);
            }
            _ => return None,
        }
    }
    while !rest.0.is_empty() {
        let name = rest.take(4)?;
        let long = usize::try_from(rest.number()?).ok()?;
        let part = rest.take(long)?;
        if !CACHES.contains(&name) {
            said.extend([name, part]);
        }
    }
    Some(said)
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Up to a zero, which is taken too.
    fn name(&mut self) -> Option<&'a [u8]> {
        let long = self.0.iter().position(|byte| *byte == 0)?;
        let name = self.take(long)?;
        self.take(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, words: &[&str]) {
        let config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
        let mut git = Command::new("git");
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nonexistent").current_dir(dir);
        let ran = git.args(config).args(words).output().unwrap();
        assert!(ran.status.success(), "{words:?} {ran:?}");
    }

    #[test]
    fn a_look_says_nothing_new_and_everything_else_does() {
        if Command::new("git").arg("--version").output().is_err() {
            println!("skipped: there is no git");
            return;
        }
        for (version, hash) in [("2", "sha1"), ("2", "sha256"), ("4", "sha1"), ("4", "sha256")] {
            let dir = tempfile::tempdir().unwrap();
            let at = dir.path();
            git(at, &["init", "-q", "--object-format", hash]);
            std::fs::create_dir_all(at.join("src/deep")).unwrap();
            for name in ["a", "b.txt", "src/long-name-of-a-file", "src/deep/c"] {
                std::fs::write(at.join(name), name).unwrap();
            }
            git(at, &["add", "."]);
            git(at, &["commit", "-qm", "first"]);
            git(at, &["update-index", "--index-version", version]);
            let index = || std::fs::read(at.join(".git/index")).unwrap();
            let before = index();
            assert!(say_the_same(&before, &before), "{version} {hash}");
            // Other times, and a file of another number.
            std::fs::rename(at.join("a"), at.join("z")).unwrap();
            std::fs::copy(at.join("z"), at.join("a")).unwrap();
            std::fs::remove_file(at.join("z")).unwrap();
            git(at, &["-c", "core.untrackedCache=true", "status"]);
            assert!(index() != before && say_the_same(&before, &index()), "{version} {hash}");
            let looked = index();
            for (name, act) in [
                ("content", &["add", "a"][..]),
                ("mode", &["update-index", "--chmod=+x", "a"]),
                ("name", &["mv", "a", "q"]),
                ("gone", &["rm", "-q", "--cached", "src/deep/c"]),
                ("unchanged", &["update-index", "--assume-unchanged", "a"]),
                ("skipped", &["update-index", "--skip-worktree", "a"]),
                ("intent", &["add", "-N", "new"]),
            ] {
                std::fs::write(at.join(if name == "intent" { "new" } else { "a" }), "other").unwrap();
                git(at, act);
                assert!(!say_the_same(&looked, &index()), "{name} {version} {hash}");
                git(at, &["reset", "-q", "--hard"]);
                std::fs::write(at.join(".git/index"), &looked).unwrap();
            }
            // What is cut among its entries or is no index says nothing.
            for cut in 0..200 {
                assert!(!say_the_same(&before, &before[..cut]), "{cut}");
            }
            assert!(!say_the_same(b"", b"") && !say_the_same(b"text", b"text"));
        }
    }

    #[test]
    fn only_a_repository_has_an_index() {
        for path in [".git/index", "sub/.git/index"] {
            assert!(is_index(path), "{path}");
        }
        for path in ["index", "x.git/index", ".git/indexes", ".git/x/index", ".git/index/x"] {
            assert!(!is_index(path), "{path}");
        }
    }
}
