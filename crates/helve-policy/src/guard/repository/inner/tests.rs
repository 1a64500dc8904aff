use std::fs;

use tempfile::TempDir;

use super::*;

/// The git directory of a work tree.
fn work_tree() -> (TempDir, PathBuf) {
    let around = tempfile::tempdir().unwrap();
    let git = around.path().join(".git");
    fs::create_dir(&git).unwrap();
    (around, git)
}

/// How many names a path has.
fn names(path: &Path) -> usize {
    path.components().count() - 1
}

/// Whether everything may be looked at with a budget, and with nothing less.
fn is_just_enough(git: &Path, least: &Budget) -> bool {
    let is_plain = |budget: &Budget| Inner::of(git).is_plain(Some("add"), None, false, &mut budget.clone());
    let less = [
        Budget { directories: least.directories - 1, ..least.clone() },
        Budget { entries: least.entries - 1, ..least.clone() },
        Budget { repositories: least.repositories - 1, ..least.clone() },
        Budget { bytes: least.bytes - 1, ..least.clone() },
        Budget { steps: least.steps - 1, ..least.clone() },
    ];
    is_plain(least) && !less.iter().any(is_plain)
}

#[test]
fn what_is_looked_at_is_bounded() {
    let (around, git) = work_tree();
    for n in 0..3 {
        fs::create_dir_all(around.path().join(format!("d/{n}/.git"))).unwrap();
        fs::write(around.path().join(format!("d/{n}/.git/config")), "[core]\n\tbare = false\n").unwrap();
    }
    // The hooks of each are four names below.
    let steps = 3 * (names(around.path()) + 4);
    let least = Budget { directories: 4, entries: 8, repositories: 3, bytes: 63, indexes: 0, steps };
    assert!(is_just_enough(&git, &least));
    // Nothing is looked at for what takes none up, and all of it once.
    let mut nothing = Budget { directories: 0, entries: 0, repositories: 0, bytes: 0, indexes: 0, steps: 0 };
    assert!(Inner::of(&git).is_plain(Some("status"), None, false, &mut nothing));
    let inner = Inner::of(&git);
    let mut budget = least.clone();
    assert!((0..4000).all(|_| inner.is_plain(Some("add"), None, false, &mut budget)));
    assert_eq!(budget, nothing);
}

/// One file may stand for the settings of many repositories.
#[test]
fn settings_that_many_repositories_share_are_bounded() {
    for (line, limit) in [("\tbare = false\n", 128), ("\tworktree = ..\n", 0)] {
        let (around, git) = work_tree();
        let mut settings = "[core]\n".to_owned();
        while settings.len() + line.len() <= super::super::MAX_CONFIG as usize {
            settings.push_str(line);
        }
        settings.extend(std::iter::repeat_n(' ', super::super::MAX_CONFIG as usize - settings.len()));
        let add = |n: usize| {
            let inner = around.path().join(format!("{n}/.git"));
            fs::create_dir_all(&inner).unwrap();
            let first = around.path().join("0/.git/config");
            match n {
                0 => fs::write(first, &settings).unwrap(),
                _ => fs::hard_link(first, inner.join("config")).unwrap(),
            }
        };
        let is_plain = || Inner::of(&git).is_plain(Some("add"), None, false, &mut Budget::default());
        (0..limit).for_each(add);
        assert!(is_plain(), "{line}");
        add(limit);
        assert!(!is_plain(), "{line}");
    }
}

#[test]
fn the_indexes_of_other_work_trees_are_bounded() {
    let (_around, git) = work_tree();
    let first = git.join("worktrees/0");
    for n in 0..2 {
        let kept = git.join(format!("worktrees/{n}"));
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("commondir"), "../..\n").unwrap();
    }
    fs::write(first.join("index"), [b"DIRC\0\0\0\x02".as_slice(), &[0; 24]].concat()).unwrap();
    let with = |repositories, indexes| {
        let steps = 3 * names(&first);
        let mut budget = Budget { directories: 0, entries: 0, repositories, bytes: 0, indexes, steps };
        Inner::of(&git).is_plain(Some("worktree"), None, false, &mut budget)
    };
    assert!(with(2, 32) && !with(1, 32) && !with(2, 31));
}

/// Deep down nothing is looked for: there each look takes long.
#[test]
fn what_lies_deep_is_not_looked_at() {
    for (levels, plain) in [(MAX_LEVELS, true), (MAX_LEVELS + 1, false)] {
        let (around, git) = work_tree();
        fs::create_dir_all(around.path().join(vec!["a"; levels].join("/"))).unwrap();
        assert_eq!(Inner::of(&git).is_plain(Some("add"), None, false, &mut Budget::default()), plain);
    }
}

/// A few bytes may lead over many names and links, in each of many repositories.
#[test]
fn the_steps_to_git_directories_are_bounded() {
    for (leads, settings) in [("gitdir: ../LONG/r", ""), ("gitdir: ../r", "[core]\n\tworktree = ../LONG/0\n")]
    {
        let (around, git) = work_tree();
        fs::create_dir(around.path().join("r")).unwrap();
        let long = ["l/.."; 60].join("/");
        fs::create_dir(around.path().join("l")).unwrap();
        std::os::unix::fs::symlink("l", around.path().join("k")).unwrap();
        let long = long.replacen("l/", "k/", 30);
        fs::write(around.path().join("r/config"), settings.replace("LONG", &long)).unwrap();
        let add = |n: usize| {
            let inner = around.path().join(n.to_string());
            fs::create_dir(&inner).unwrap();
            fs::write(inner.join(".git"), leads.replace("LONG", &long)).unwrap();
        };
        let is_plain = |budget: &mut Budget| Inner::of(&git).is_plain(Some("add"), None, false, budget);
        add(0);
        let mut budget = Budget::default();
        assert!(is_plain(&mut budget), "{leads}");
        let taken = Budget::default().steps - budget.steps;
        assert!((150..300).contains(&taken), "{leads}: {taken}");
        assert!(!is_plain(&mut Budget { steps: taken - 1, ..Budget::default() }), "{leads}");
        let longer = format!("{long}/{long}/{long}");
        fs::write(around.path().join("0/.git"), format!("gitdir: ../{longer}/r")).unwrap();
        assert!(!is_plain(&mut Budget::default()), "{leads}");
    }
}
