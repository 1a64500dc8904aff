//! Whether a repository makes git start other programs.
//!
//! Settings of a repository name programs (`core.fsmonitor`, `diff.external`, …), and its hooks are programs, one of which
//! runs when the index is refreshed; whoever can write the repository chooses them. Only settings that are known to name
//! none count as plain, and what cannot be read to its end is not. A hook counts for the subcommands that may run it, whether
//! it may be executed yet or not. Another repository that a command reaches counts where it is on this machine.
//!
//! | module | what is in it |
//! |---|---|
//! | `places` | which directories git takes for repositories |
//! | `settings` | which settings name no program |
//! | `hooks` | which subcommand may run which hook |
//! | `index` | whether the index has another repository |
//! | `inner` | repositories inside the work tree of another, its other work trees, and which subcommand goes there |
//! | `remotes` | which subcommand starts programs of another repository |
//! | `unfinished` | what git still has to do there, and which subcommand goes on with it |

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use helve_shell::analysis::Arg;
use rustix::fs::{Mode, OFlags};

use hooks::Hooks;
pub(super) use hooks::is_hook;
pub(super) use inner::takes_up;
use inner::{Budget, Inner};
use remotes::Remotes;
use unfinished::Unfinished;

mod hooks;
mod index;
mod inner;
mod places;
mod remotes;
mod settings;
mod unfinished;

/// The most directories of one command in which a repository is looked for.
const MAX_DIRECTORIES: usize = 16;

/// The most directories that are looked at on the way up, and on the way down.
const MAX_LEVELS: usize = 128;

/// The most directories of the name `.git` that git may pass by on the way.
const MAX_PASSED_BY: usize = 4;

/// The largest file of settings that is read, in bytes.
const MAX_CONFIG: u64 = 64 << 10;

/// A repository whose settings name no program.
struct Repository {
    hooks: Hooks,
    inner: Inner,
    remotes: Remotes,
    unfinished: Unfinished,
}

/// The repositories in which git may work; nothing if one may start programs whatever is done.
type Found = Option<Vec<Rc<Repository>>>;

/// How far a repository is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// What lies in the git directory.
    Around,
    /// What lies in the work tree and in others of the repository as well.
    Inside,
}

/// What was found from the directories of one command on.
#[derive(Default)]
pub(super) struct Seen {
    /// Whether the command may put another repository into the index.
    takes_up: bool,
    /// What may still be looked at inside of them.
    budget: Budget,
    from: HashMap<PathBuf, Found>,
    /// Each repository by its own directory, so that it is read once.
    repositories: HashMap<PathBuf, Option<Rc<Repository>>>,
}

impl Seen {
    /// Nothing yet, for a command that may put another repository into the index or may not.
    pub(super) fn new(takes_up: bool) -> Seen {
        Seen { takes_up, ..Seen::default() }
    }

    /// Whether git that works in `directory` starts nothing that a repository names. It is looked up once a directory;
    /// beyond the most of them nothing is plain. Without the name of a subcommand it may be any, and so may its arguments.
    pub(super) fn is_plain(
        &mut self,
        directory: &Path,
        subcommand: Option<&str>,
        args: Option<&[Arg]>,
        reach: Reach,
    ) -> bool {
        if !self.from.contains_key(directory) {
            if self.from.len() >= MAX_DIRECTORIES {
                return false;
            }
            let found = self.find(directory);
            self.from.insert(directory.to_owned(), found);
        }
        let Some(Some(found)) = self.from.get(directory) else { return false };
        // Without a subcommand git says how it is used, or which version it has.
        if subcommand.is_none() && args.is_some() {
            return true;
        }
        let (takes_up, budget) = (self.takes_up, &mut self.budget);
        found.iter().all(|repository| repository.is_plain(subcommand, args))
            && (reach == Reach::Around
                || found
                    .iter()
                    .all(|repository| repository.inner.is_plain(subcommand, args, takes_up, budget)))
    }

    /// The repositories in which git may work in `directory`: the first one that it takes for certain, and those that it
    /// may pass by on the way up.
    fn find(&mut self, directory: &Path) -> Found {
        let mut found = Vec::new();
        for (level, above) in directory.ancestors().enumerate() {
            if level >= MAX_LEVELS || found.len() >= MAX_PASSED_BY {
                return None;
            }
            let git = above.join(".git");
            // A link or a file leads to a repository elsewhere.
            match git.symlink_metadata() {
                Ok(there) if there.is_dir() => {
                    found.push(self.read(&git)?);
                    if places::is_certain(&git) {
                        return Some(found);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => return None,
            }
            // A repository without a work tree is its own directory.
            if places::is_possible(above) {
                return None;
            }
        }
        if found.is_empty() {
            // The command itself may make one.
            found.push(self.read(&directory.join(".git"))?);
        }
        Some(found)
    }

    /// The repository in a directory; none if it may start programs whatever is done.
    fn read(&mut self, git: &Path) -> Option<Rc<Repository>> {
        let read = || Repository::read(git).map(Rc::new);
        self.repositories.entry(git.to_owned()).or_insert_with(read).clone()
    }
}

impl Repository {
    /// Reads the one in a directory; none if it may start programs whatever is done.
    fn read(git: &Path) -> Option<Repository> {
        let more = ["config.worktree", "modules", "commondir"].map(|name| git.join(name));
        if index::holds_repositories(git)
            || !more.iter().all(|path| is_absent(path))
            || !is_absent(&git.join("hooks").join(hooks::OF_INDEX))
        {
            return None;
        }
        let mut remotes = settings::read(&read_settings(git)?)?;
        remotes.look(git);
        Some(Repository {
            hooks: Hooks::look(&git.join("hooks")),
            inner: Inner::of(git),
            remotes,
            unfinished: Unfinished::look(git),
        })
    }

    /// Whether a subcommand starts nothing by what lies in the git directory.
    fn is_plain(&self, subcommand: Option<&str>, args: Option<&[Arg]>) -> bool {
        !self.hooks.may_run(subcommand)
            && !self.unfinished.may_start(subcommand)
            && self.remotes.are_far(subcommand, args)
    }
}

/// The text of the settings in a git directory; none if it cannot be read.
fn read_settings(git: &Path) -> Option<String> {
    match read(&git.join("config"), MAX_CONFIG) {
        Content::Nothing => Some(String::new()),
        Content::Bytes(bytes) => String::from_utf8(bytes).ok(),
        Content::TooMuch => None,
    }
}

/// Whether nothing is at a path, as far as can be seen.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

enum Content {
    Nothing,
    Bytes(Vec<u8>),
    /// It is too large, no plain file, or cannot be read.
    TooMuch,
}

fn read(path: &Path, most: u64) -> Content {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::Nothing,
        Ok(found) if found.is_file() && found.len() <= most => read_now(path, most),
        _ => Content::TooMuch,
    }
}

/// Reads what is at a path by now: it may have become another file since somebody looked, for which nobody waits.
fn read_now(path: &Path, most: u64) -> Content {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else {
        return Content::TooMuch;
    };
    let mut bytes = Vec::new();
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    match is_file.then(|| file.take(most + 1).read_to_end(&mut bytes)) {
        Some(Ok(_)) if bytes.len() as u64 <= most => Content::Bytes(bytes),
        _ => Content::TooMuch,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_repository_around_a_directory_counts() {
        let plain =
            |directory: &Path| Seen::default().is_plain(directory, Some("status"), Some(&[]), Reach::Inside);
        let around = tempfile::tempdir().unwrap();
        let root = around.path();
        fs::create_dir_all(root.join("repo/src/deep")).unwrap();
        let deep = root.join("repo/src/deep");
        assert!(plain(&deep));
        assert!(plain(&root.join("not/there")));
        fs::create_dir_all(root.join("repo/.git/hooks")).unwrap();
        assert!(plain(&deep));
        let put = |name: &str, text: &[u8]| fs::write(root.join("repo/.git").join(name), text).unwrap();
        put("config", b"[core]\n\tbare = false\n");
        assert!(plain(&deep));
        let plain_again = |name: &str| {
            assert!(!plain(&deep), "{name}");
            fs::remove_file(root.join("repo/.git").join(name)).unwrap();
            assert!(name == "config" || plain(&deep), "{name}");
        };
        for name in ["hooks/post-index-change", "commondir"] {
            put(name, b"");
            plain_again(name);
            fs::rename(root.join("repo/.git/config"), root.join("config")).unwrap();
            put(name, b"");
            plain_again(name);
            fs::rename(root.join("config"), root.join("repo/.git/config")).unwrap();
        }
        put("config.worktree", b"");
        plain_again("config.worktree");
        put("index", b"DIRC\0\0\0\x02\0\0\x81\xa4\0\0\xe0\0");
        plain_again("index");
        put("index", &[b"DIRC\0\0\0\x02".as_slice(), &[0; 24]].concat());
        assert!(plain(&deep));
        put("config", b"[core]\n\tfsmonitor = ./evil\n");
        plain_again("config");
        put("config", &vec![b'\n'; MAX_CONFIG as usize + 1]);
        assert!(!plain(&deep));
        // Another repository that a file names, and one without a work tree.
        fs::write(root.join("repo/src/.git"), "gitdir: ../.git").unwrap();
        assert!(!plain(&deep));
        let bare = root.join("bare");
        for name in ["objects", "refs"] {
            fs::create_dir_all(bare.join(name)).unwrap();
        }
        assert!(plain(&bare));
        fs::write(bare.join("HEAD"), "ref: refs/heads/main").unwrap();
        assert!(!plain(&bare));
    }

    /// Nothing is read again, however many runs there are.
    #[test]
    fn a_repository_is_read_once_for_all_runs() {
        let around = tempfile::tempdir().unwrap();
        let evil = |git: &str| {
            fs::create_dir_all(around.path().join(git).join("hooks")).unwrap();
            fs::write(around.path().join(git).join("config"), "[core]\n\tfsmonitor = ./evil\n").unwrap();
            fs::write(around.path().join(git).join("hooks/pre-push"), "").unwrap();
        };
        fs::create_dir_all(around.path().join("n/.git")).unwrap();
        fs::create_dir(around.path().join(".git")).unwrap();
        let all_are_plain = |seen: &mut Seen| {
            let mut is_plain = |name| seen.is_plain(around.path(), Some(name), Some(&[]), Reach::Inside);
            ["add", "push", "status", "worktree"].map(&mut is_plain) == [true; 4]
        };
        let mut seen = Seen::default();
        assert!(all_are_plain(&mut seen));
        let budget = seen.budget.clone();
        [".git", "n/.git"].into_iter().for_each(evil);
        assert!((0..1000).all(|_| all_are_plain(&mut seen)) && seen.budget == budget);
        assert!(!all_are_plain(&mut Seen::default()));
    }

    #[test]
    fn a_hook_counts_for_the_subcommands_that_run_it() {
        let around = tempfile::tempdir().unwrap();
        let hooks = around.path().join(".git/hooks");
        fs::create_dir_all(&hooks).unwrap();
        let plain = |subcommand: Option<&str>| {
            let args = subcommand.is_some().then_some(&[][..]);
            Seen::default().is_plain(around.path(), subcommand, args, Reach::Inside)
        };
        let all =
            ["status", "add", "prune", "commit", "pull", "push", "checkout", "restore", "fetch", "gc", "co"];
        fs::write(hooks.join("pre-commit.sample"), "").unwrap();
        assert!(all.iter().all(|name| plain(Some(name))) && plain(None));
        for (hook, led_on) in [
            ("pre-commit", &["commit", "pull", "co"][..]),
            ("commit-msg", &["commit", "pull", "co"]),
            ("pre-push", &["push", "co"]),
            ("post-checkout", &["pull", "checkout", "restore", "co"]),
            (
                "reference-transaction",
                &["commit", "pull", "push", "checkout", "restore", "fetch", "gc", "co"],
            ),
            ("post-index-change", &all),
            ("post-receive", &["push", "co"]),
            ("fsmonitor-watchman", &[]),
        ] {
            fs::write(hooks.join(hook), "").unwrap();
            let found: Vec<&str> = all.into_iter().filter(|name| !plain(Some(name))).collect();
            assert_eq!(found, led_on, "{hook}");
            assert_eq!(plain(None), led_on.is_empty(), "{hook}");
            fs::remove_file(hooks.join(hook)).unwrap();
        }
    }

    /// Somebody may put another file in its place between two looks.
    #[test]
    fn a_file_that_is_none_by_now_is_not_waited_for() {
        let around = tempfile::tempdir().unwrap();
        let path = |name: &str| around.path().join(name);
        fs::write(path("file"), "a").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR).unwrap();
        assert!(matches!(read_now(&path("file"), 1), Content::Bytes(bytes) if bytes == b"a"));
        for name in ["link", "pipe", "none", "."] {
            assert!(matches!(read_now(&path(name), 1), Content::TooMuch), "{name}");
        }
    }
}
