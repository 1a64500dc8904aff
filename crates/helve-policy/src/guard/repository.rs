//! Whether a repository makes git start other programs.
//!
//! Settings of a repository name programs (`core.fsmonitor`, `diff.external`, …), and its hooks are programs, one of which
//! runs when the index is refreshed; whoever can write the repository chooses them. Only settings that are known to name
//! none count as plain, and what cannot be read to its end is not. A hook counts for the subcommands that may run it, whether
//! it may be executed yet or not.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::readers;

/// The most directories of one command in which a repository is looked for.
const MAX_DIRECTORIES: usize = 16;

/// The most directories that are looked at on the way up.
const MAX_LEVELS: usize = 128;

/// The largest file of settings and the largest index that are read, in bytes.
const MAX_CONFIG: u64 = 64 << 10;
const MAX_INDEX: u64 = 8 << 20;

/// Sections whose settings matter only to commands that change something, or name no program.
const SECTIONS: &[&str] = &[
    "advice",
    "author",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "fetch",
    "gc",
    "init",
    "maintenance",
    "pull",
    "push",
    "rebase",
    "rerere",
    "tag",
    "user",
];

/// Single settings of other sections that name none, and whether they stand below a name: such settings of a remote are
/// its own, those of `diff`, `merge` and others are drivers.
const SETTINGS: &[(&str, bool, &[&str])] = &[
    (
        "core",
        false,
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "symlinks",
            "untrackedcache",
        ],
    ),
    ("diff", false, &["algorithm", "colormoved", "context", "mnemonicprefix", "renames"]),
    ("lfs", false, &["locksverify", "repositoryformatversion", "url"]),
    ("lfs", true, &["access", "locksverify"]),
    ("log", false, &["abbrevcommit", "date", "decorate"]),
    (
        "merge",
        false,
        &["autostash", "conflictstyle", "ff", "log", "renamelimit", "renames", "stat", "tool", "verbosity"],
    ),
    ("remote", true, &["fetch", "gh-resolved", "prune", "pushurl", "tagopt", "url"]),
];

/// Subcommands that make commits or take those of others over.
const COMMIT: &[&str] = &["commit", "merge", "pull", "rebase", "cherry-pick", "revert", "am"];

/// Hooks, each with the subcommands that may run it; no list stands for all that do more than read or fill the index. What
/// only another repository runs, or a subcommand that no rule vouches for, is left out.
const HOOKS: &[(&str, &[&str])] = &[
    ("applypatch-msg", COMMIT),
    ("pre-applypatch", COMMIT),
    ("post-applypatch", COMMIT),
    ("pre-commit", COMMIT),
    ("pre-merge-commit", COMMIT),
    ("prepare-commit-msg", COMMIT),
    ("commit-msg", COMMIT),
    ("post-commit", COMMIT),
    ("post-merge", COMMIT),
    ("post-rewrite", COMMIT),
    ("pre-rebase", COMMIT),
    ("pre-auto-gc", &[]),
    ("reference-transaction", &[]),
    ("pre-push", &["push"]),
    (
        "post-checkout",
        &["checkout", "switch", "clone", "worktree", "bisect", "stash", "submodule", "rebase", "pull"],
    ),
];

/// Subcommands that change no more than the index and the work tree, and run no hook but the index's own.
const INDEX: &[&str] = &["add", "stage", "rm", "mv", "restore", "apply", "clean", "config", "init"];

/// Subcommands that run no hook but those that all others run.
const OTHERS: &[&str] = &[
    "archive",
    "branch",
    "bundle",
    "fetch",
    "gc",
    "notes",
    "reflog",
    "remote",
    "reset",
    "tag",
    "update-ref",
];

/// Where git finds a repository.
#[derive(Clone)]
enum Found {
    /// Nowhere, so that it starts nothing at all.
    Nothing,
    /// There, and its settings name no program.
    Plain(PathBuf),
    /// Somewhere, and it may start programs whatever is done.
    LedOn,
}

/// What was found from the directories of one command on.
#[derive(Default)]
pub(super) struct Seen(HashMap<PathBuf, Found>);

impl Seen {
    /// Whether git that works in `directory` starts nothing that the repository names. It is looked up once a directory;
    /// beyond the most of them nothing is plain. Without the name of a subcommand it may be any.
    pub(super) fn is_plain(&mut self, directory: &Path, subcommand: Option<&str>) -> bool {
        let found = match self.0.get(directory) {
            Some(known) => known.clone(),
            None if self.0.len() >= MAX_DIRECTORIES => Found::LedOn,
            None => {
                let found = find(directory);
                self.0.insert(directory.to_owned(), found.clone());
                found
            }
        };
        match found {
            Found::Nothing => true,
            Found::Plain(git) => !has_hook(&git, subcommand),
            Found::LedOn => false,
        }
    }
}

/// The repository in which git works in `directory`.
fn find(directory: &Path) -> Found {
    for (level, above) in directory.ancestors().enumerate() {
        if level >= MAX_LEVELS {
            return Found::LedOn;
        }
        let git = above.join(".git");
        // A link or a file leads to a repository elsewhere.
        match git.symlink_metadata() {
            Ok(found) if found.is_dir() && is_plain_repository(&git) => return Found::Plain(git),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => return Found::LedOn,
        }
        // A repository without a work tree is its own directory.
        if ["HEAD", "objects", "refs"].iter().all(|name| above.join(name).exists()) {
            return Found::LedOn;
        }
    }
    Found::Nothing
}

/// Whether a repository has a hook that the subcommand may run.
fn has_hook(git: &Path, subcommand: Option<&str>) -> bool {
    let is_quiet = |name: &str| INDEX.contains(&name) || readers::is_git_reader(name);
    if subcommand.is_some_and(is_quiet) {
        return false;
    }
    let runs_more = |name: &&str| HOOKS.iter().any(|(_, subcommands)| subcommands.contains(name));
    // Any other name is an alias, and may stand for any subcommand.
    let known = subcommand.filter(|name| OTHERS.contains(name) || runs_more(name));
    let runs =
        |subcommands: &[&str]| subcommands.is_empty() || known.is_none_or(|name| subcommands.contains(&name));
    let mut hooks = HOOKS.iter().filter(|(_, subcommands)| runs(subcommands));
    hooks.any(|(name, _)| !is_absent(&git.join("hooks").join(name)))
}

/// Whether nothing is at a path, as far as can be seen.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn is_plain_repository(git: &Path) -> bool {
    let config = match read(&git.join("config"), MAX_CONFIG) {
        Content::Nothing => Ok(String::new()),
        Content::Bytes(bytes) => String::from_utf8(bytes),
        Content::TooMuch => return false,
    };
    let links = match read(&git.join("index"), MAX_INDEX) {
        Content::Nothing => false,
        Content::Bytes(index) => holds_repositories(&index),
        Content::TooMuch => true,
    };
    config.is_ok_and(|text| names_no_program(&text))
        && !links
        && ["config.worktree", "modules", "commondir", "hooks/post-index-change"]
            .into_iter()
            .all(|name| is_absent(&git.join(name)))
}

enum Content {
    Nothing,
    Bytes(Vec<u8>),
    /// It is too large, no plain file, or cannot be read.
    TooMuch,
}

fn read(path: &Path, most: u64) -> Content {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Content::Nothing,
        Ok(found) if found.is_file() && found.len() <= most => {}
        _ => return Content::TooMuch,
    }
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 <= most => Content::Bytes(bytes),
        _ => Content::TooMuch,
    }
}

/// Whether an index may hold another repository, whose settings count too: its entries have a mode of their own. Other
/// bytes may look like it, which costs a question.
fn holds_repositories(index: &[u8]) -> bool {
    index.windows(4).any(|mode| mode == [0, 0, 0xe0, 0])
}

/// Whether every setting is one that is known to name no program.
fn names_no_program(text: &str) -> bool {
    let mut section = String::new();
    let mut has_subsection = false;
    for line in text.lines() {
        // A line that goes on in the next hides where a section starts.
        if line.ends_with('\\') || line.chars().any(|ch| ch.is_control() && ch != '\t') {
            return false;
        }
        let mut rest = line.trim_start();
        if let Some(header) = rest.strip_prefix('[') {
            let Some((name, has_more, behind)) = read_header(header) else { return false };
            (section, has_subsection) = (name, has_more);
            rest = behind.trim_start();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let end = rest.find(|ch: char| !ch.is_ascii_alphanumeric() && ch != '-').unwrap_or(rest.len());
        let setting = rest.get(..end).unwrap_or_default().to_ascii_lowercase();
        let section = section.as_str();
        let known = |(name, below, settings): &(&str, bool, &[&str])| {
            *name == section && *below == has_subsection && settings.contains(&setting.as_str())
        };
        if setting.is_empty() || !(SECTIONS.contains(&section) || SETTINGS.iter().any(known)) {
            return false;
        }
    }
    true
}

/// The name of a section in lower case, whether it has a second part, and what stands behind the bracket.
fn read_header(header: &str) -> Option<(String, bool, &str)> {
    let end = header.find(|ch: char| !ch.is_ascii_alphanumeric() && ch != '-')?;
    let (name, rest) = (header.get(..end)?.to_ascii_lowercase(), header.get(end..)?);
    if let Some(behind) = rest.strip_prefix(']') {
        return Some((name, false, behind));
    }
    let quoted = rest.trim_start().strip_prefix('"')?;
    let mut chars = quoted.char_indices();
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' => {
                chars.next();
            }
            '"' => {
                let behind = quoted.get(at + 1..)?.strip_prefix(']')?;
                return Some((name, true, behind));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_known_settings_name_no_program() {
        let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n# a comment\n\
             [remote \"origin\"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"main\"]\n\tremote = origin\n[user] name = \"Ann\" ; me\n\n[color]\n\tui\n";
        assert!(names_no_program(usual));
        assert!(names_no_program(""));
        assert!(names_no_program(
            "[merge]\n\tconflictStyle = zdiff3\n[lfs]\n\trepositoryformatversion = 0\n\
             [lfs \"https://example.org/x\"]\n\taccess = basic\n"
        ));
        assert!(!names_no_program("fsmonitor = x"));
        for more in [
            "[core]\nfsmonitor = ./x",
            "[CORE] FsMonitor=./x",
            "[core] hooksPath = x",
            "[core] pager = x",
            "[core] sshCommand = x",
            "[core] worktree = /x",
            "[core \"x\"] bare = true",
            "[diff] external = x",
            "[diff \"x\"] textconv = y",
            "[diff \"x\"] renames = y",
            "[diff.x] command = y",
            "[merge \"x\"] driver = y",
            "[merge \"x\"] ff = y",
            "[merge.x] driver = y",
            "[lfs \"extension.x\"] clean = y",
            "[lfs \"customtransfer.x\"] path = y",
            "[lfs] standalonetransferagent = x",
            "[log] diffMerges = remerge",
            "[alias] st = !x",
            "[filter \"x\"] clean = y",
            "[gpg] program = x",
            "[include] path = x",
            "[includeIf \"gitdir:/\"] path = x",
            "[credential] helper = x",
            "[remote \"origin\"] promisor = true",
            "[remote \"a]b\"] uploadpack = x",
            "[extensions] partialClone = origin",
            "[submodule \"x\"] url = y",
            // The section starts inside a value, as git reads it.
            "[core]\nabbrev = 7 \\\n[user]\nfsmonitor = x",
            "[core]\nabbrev = 7 \\\r\n[user]\nfsmonitor = x",
            "[core",
            "[remote \"x]\nurl = y",
            "\u{feff}[user]\nname = x",
        ] {
            assert!(!names_no_program(&format!("{usual}{more}\n")), "{more}");
        }
    }

    #[test]
    fn the_repository_around_a_directory_counts() {
        let plain = |directory: &Path| Seen::default().is_plain(directory, Some("status"));
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
        put("index", b"DIRC\0\0\0\x02\0\0\x81\xa4");
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

    #[test]
    fn a_hook_counts_for_the_subcommands_that_run_it() {
        let around = tempfile::tempdir().unwrap();
        let hooks = around.path().join(".git/hooks");
        fs::create_dir_all(&hooks).unwrap();
        let plain = |subcommand| Seen::default().is_plain(around.path(), subcommand);
        let all = ["status", "add", "commit", "pull", "push", "checkout", "fetch", "tag", "co"];
        fs::write(hooks.join("pre-commit.sample"), "").unwrap();
        assert!(all.iter().all(|name| plain(Some(name))) && plain(None));
        for (hook, led_on) in [
            ("pre-commit", &["commit", "pull", "co"][..]),
            ("commit-msg", &["commit", "pull", "co"]),
            ("pre-push", &["push", "co"]),
            ("post-checkout", &["pull", "checkout", "co"]),
            ("reference-transaction", &["commit", "pull", "push", "checkout", "fetch", "tag", "co"]),
            ("post-index-change", &all),
            ("post-receive", &[]),
        ] {
            fs::write(hooks.join(hook), "").unwrap();
            let found: Vec<&str> = all.into_iter().filter(|name| !plain(Some(name))).collect();
            assert_eq!(found, led_on, "{hook}");
            assert_eq!(plain(None), led_on.is_empty(), "{hook}");
            fs::remove_file(hooks.join(hook)).unwrap();
        }
    }
}
