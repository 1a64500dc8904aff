//! The project of the demo: a few files with a bug, in a directory of their own that is removed again unless it is kept.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::Failure;

/// The files, by their paths.
const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("project/README.md")),
    ("lib/discount.sh", include_str!("project/lib/discount.sh")),
    ("lib/money.sh", include_str!("project/lib/money.sh")),
    (LIST, include_str!("project/shopping.txt")),
    ("tests/run.sh", include_str!("project/tests/run.sh")),
    ("till.sh", include_str!("project/till.sh")),
];
/// The one that a seed changes.
const LIST: &str = "shopping.txt";
/// Other places are tried so often.
const TRIES: u32 = 100;

/// The demo's workspace.
pub(crate) struct Project {
    dir: PathBuf,
    keep: bool,
}

impl Project {
    /// Makes it in a new directory. Another seed than 0 changes a price of the shopping list.
    pub(crate) fn make(seed: u64, keep: bool) -> Result<Project, Failure> {
        let project = Project { dir: new_dir()?, keep };
        for (name, text) in FILES {
            let text = if *name == LIST { with_seed(text, seed) } else { (*text).to_owned() };
            let path = project.dir.join(name);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, text)).map_err(|error| cannot(&path, &error))?;
        }
        Ok(project)
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed stays in the directory for temporary files, where others clean up too.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn new_dir() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir();
    let base = base.canonicalize().unwrap_or(base);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let mut last = None;
    for turn in 0..TRIES {
        let dir = base.join(format!("helve-demo-{:x}-{:x}", std::process::id(), now.wrapping_add(turn)));
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = Some((dir, error)),
            Err(error) => return Err(cannot(&dir, &error)),
        }
    }
    let (dir, error) = last.unwrap_or_else(|| (base, std::io::Error::other("no name is free")));
    Err(cannot(&dir, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "{} cannot be made: {error}. Set TMPDIR to a directory that can be written",
        path.display()
    ))
}

/// The list with another price of its last item.
fn with_seed(list: &str, seed: u64) -> String {
    if seed == 0 {
        return list.to_owned();
    }
    let more = seed.wrapping_mul(37) % 400 + 1;
    let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
    if let Some(last) = lines.last_mut()
        && let Some((name, cents)) = last.split_once(' ')
    {
        let cents: u64 = cents.trim().parse().unwrap_or_default();
        *last = format!("{name} {}", cents + more);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_whole_and_removed_unless_it_is_kept() {
        let project = Project::make(0, false).unwrap();
        let dir = project.dir().to_owned();
        for (name, text) in FILES {
            assert_eq!(std::fs::read_to_string(dir.join(name)).unwrap(), *text);
        }
        drop(project);
        assert!(!dir.exists());
        let kept = Project::make(0, true).unwrap();
        let dir = kept.dir().to_owned();
        drop(kept);
        assert!(dir.exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_seed_but_none_changes_one_price() {
        let list = FILES.iter().find(|(name, _)| *name == LIST).unwrap().1;
        assert_eq!(with_seed(list, 0), list);
        for seed in [1, 2, 37, 400, u64::MAX] {
            let other = with_seed(list, seed);
            let differ = other.lines().zip(list.lines()).filter(|(a, b)| a != b).count();
            assert_eq!((differ, other.lines().count()), (1, list.lines().count()), "{seed}: {other}");
        }
    }
}
