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

/// Whether everything may be looked at with a budget, and with nothing less.
fn is_just_enough(git: &Path, least: &Budget) -> bool {
    let is_plain = |budget: &Budget| Inner::of(git).is_plain(Some("add"), None, &mut budget.clone());
    let less = [
        Budget { directories: least.directories - 1, ..least.clone() },
        Budget { entries: least.entries - 1, ..least.clone() },
        Budget { repositories: least.repositories - 1, ..least.clone() },
        Budget { bytes: least.bytes - 1, ..least.clone() },
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
    let least = Budget { directories: 4, entries: 8, repositories: 3, bytes: 63, indexes: 0 };
    assert!(is_just_enough(&git, &least));
    // Nothing is looked at for what takes none up, and all of it once.
    let mut nothing = Budget { directories: 0, entries: 0, repositories: 0, bytes: 0, indexes: 0 };
    assert!(Inner::of(&git).is_plain(Some("status"), None, &mut nothing));
    let inner = Inner::of(&git);
    let mut budget = least.clone();
    assert!((0..4000).all(|_| inner.is_plain(Some("add"), None, &mut budget)));
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
        let is_plain = || Inner::of(&git).is_plain(Some("add"), None, &mut Budget::default());
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
        let mut budget = Budget { directories: 0, entries: 0, repositories, bytes: 0, indexes };
        Inner::of(&git).is_plain(Some("worktree"), None, &mut budget)
    };
    assert!(with(2, 32) && !with(1, 32) && !with(2, 31));
}
