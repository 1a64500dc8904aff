//! What the view's rules named when a zygote was started: whether its template still means what the rules say.
//!
//! A rule inside a directory that is shown is a mount on top of one entry of it. A file that is made afterwards has no such
//! mount, and the kernel takes the mount away from one that is replaced outside (every editor saves by `rename`). So each
//! call compares, and a template that has fallen behind is given up. In: the rules. Out: yes or no, for one system call
//! per rule that matters. Not here: what a command that runs already sees of a change.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::setup;
use crate::plan::rules::Rules;

/// The entries that rules name, as they were.
#[derive(Debug)]
pub(super) struct Entries(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    writable: bool,
    seen: Seen,
    /// Keeps the number of what was seen from being given to another.
    _held: Option<OwnedFd>,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing that can be looked at.
    Nothing(Errno),
    There {
        device: u64,
        inode: u64,
        /// The last change of a file that commands must not write. It shows that a file got the same name a second time,
        /// without its mount. A directory has one name only.
        changed: Option<(i64, u64)>,
    },
    /// A link, and what it leads to.
    Link((u64, u64), Option<(u64, u64)>),
}

impl Entries {
    /// Looks at everything that the rules name, except the workspace itself. Before the template is planned, so that what
    /// changes in between is seen by the next call.
    pub(super) fn look(rules: &Rules) -> Entries {
        let kept = rules.hidden.iter().chain(&rules.read_only).map(|rule| (rule, false));
        let entries = kept.chain(rules.read_write.iter().map(|rule| (rule, true)));
        Entries(entries.map(|(rule, writable)| Entry::look(&rule.real, writable)).collect())
    }

    /// Forgets what does not lie in something that is shown: nothing of it can be seen, whatever stands there.
    pub(super) fn shown_by(mut self, mounts: &[(PathBuf, setup::Place)]) -> Entries {
        let shown = |above: &Path| {
            let place = mounts.iter().find(|(path, _)| path == above).map(|(_, place)| place);
            matches!(place, Some(setup::Place::ReadOnly | setup::Place::ReadWrite))
        };
        self.0.retain(|entry| entry.path.ancestors().skip(1).any(shown));
        self
    }

    /// Whether all of them are what they were.
    pub(super) fn are_same(&self) -> bool {
        self.0.iter().all(|entry| Seen::at(&entry.path, entry.writable) == entry.seen)
    }
}

impl Entry {
    fn look(path: &Path, writable: bool) -> Entry {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Held before it is looked at. One that cannot be held cannot be looked at either.
        let held = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok();
        Entry { path: path.to_owned(), writable, seen: Seen::at(path, writable), _held: held }
    }
}

impl Seen {
    fn at(path: &Path, writable: bool) -> Seen {
        let stat = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => return Seen::Nothing(errno),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Seen::Link(number(&stat), rustix::fs::stat(path).ok().as_ref().map(number)),
            kind => {
                let changed = !writable && kind != FileType::Directory;
                let changed = changed.then_some((stat.st_ctime, stat.st_ctime_nsec));
                Seen::There { device: stat.st_dev, inode: stat.st_ino, changed }
            }
        }
    }
}

fn number(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::plan::rules::Rule;

    fn rule(path: &Path) -> Rule {
        Rule { given: path.to_owned(), real: path.to_owned() }
    }

    /// A workspace with a hidden `.env`, a read-only `fixed` and a writable `open`.
    fn rules(workspace: &Path) -> Rules {
        Rules {
            workspace: rule(workspace),
            read_only: vec![rule(&workspace.join("fixed"))],
            read_write: vec![rule(&workspace.join("open"))],
            hidden: vec![rule(&workspace.join(".env")), rule(Path::new("/elsewhere/key"))],
            denied: helve_core::DenyRead::new::<&str>(&[]).unwrap(),
        }
    }

    fn look(workspace: &Path) -> Entries {
        let mounts =
            [(workspace.to_owned(), setup::Place::ReadWrite), ("/elsewhere".into(), setup::Place::Private)];
        Entries::look(&rules(workspace)).shown_by(&mounts)
    }

    #[test]
    fn only_what_lies_in_something_shown_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let entries = look(folder.path());
        let watched: Vec<_> = entries.0.iter().filter_map(|entry| entry.path.file_name()).collect();
        assert_eq!(watched, [".env", "fixed", "open"]);
        assert!(entries.are_same());
    }

    #[test]
    fn every_way_to_put_another_file_there_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let steps: [(&str, &dyn Fn()); 6] = [
            ("made", &|| fs::write(at(".env"), "1").unwrap()),
            ("replaced", &|| {
                fs::write(at("new"), "2").unwrap();
                fs::rename(at("new"), at(".env")).unwrap();
            }),
            ("removed and made again, perhaps with the same number", &|| {
                fs::remove_file(at(".env")).unwrap();
                fs::write(at(".env"), "3").unwrap();
            }),
            ("the same file under a new entry", &|| {
                // File systems tell times apart by some milliseconds.
                std::thread::sleep(std::time::Duration::from_millis(20));
                fs::hard_link(at(".env"), at("other")).unwrap();
                fs::remove_file(at(".env")).unwrap();
                fs::rename(at("other"), at(".env")).unwrap();
            }),
            ("removed", &|| fs::remove_file(at(".env")).unwrap()),
            ("a link", &|| std::os::unix::fs::symlink("/", at(".env")).unwrap()),
        ];
        for (step, change) in steps {
            let entries = look(folder.path());
            assert!(entries.are_same(), "{step}");
            change();
            assert!(!entries.are_same(), "{step}");
        }
    }

    #[test]
    fn what_commands_write_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("open"), "").unwrap();
        fs::create_dir(at("fixed")).unwrap();
        let entries = look(folder.path());
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(at("open"), "more").unwrap();
        fs::write(at("fixed/file"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        assert!(entries.are_same());
        fs::remove_file(at("open")).unwrap();
        fs::write(at("open"), "more").unwrap();
        assert!(!entries.are_same());
    }
}
