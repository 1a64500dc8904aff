//! Whether a plan touches what runs programs in a git directory that has another name than `.git`.
//!
//! Git takes any directory for one of its own that has a `HEAD` beside `objects` and `refs` (or a `commondir` that says
//! where these are), and runs what its configuration and its hooks name as soon as somebody enters it. So the files that
//! make up such a directory are protected where it is one, and the last of them that would make it one.

use std::collections::BTreeMap;

use helve_core::ToolError;

use super::plan::Judge;
use super::{Entry, Key, Now, Plan, World};
use crate::{names, refuse};

/// What makes a directory one of git's, and what in it names programs.
const NAMES: [&str; 7] = ["head", "commondir", "config", "config.worktree", "hooks", "objects", "refs"];

/// Refuses a plan after which something that it puts in place is obeyed by git.
pub(super) fn check(plan: &Plan, world: &mut dyn World, judge: &dyn Judge) -> Result<(), ToolError> {
    let mut known: BTreeMap<Key, bool> = BTreeMap::new();
    for (key, _) in plan.differing().filter(|(_, entry)| !matches!(entry.now, Now::Absent)) {
        let mut at = 0_usize;
        for part in key.path.split('/') {
            let dir = &key.path[..at.saturating_sub(1)];
            at += part.len() + 1;
            if !NAMES.contains(&names::visible(part).as_str()) || judge.may_change_git(key) {
                continue;
            }
            let place = Key { root: key.root, path: dir.to_owned() };
            if *known.entry(place).or_insert_with_key(|place| is_git(place, &plan.entries, world)) {
                return Err(refuse::git(&judge.shown(key), dir));
            }
        }
    }
    Ok(())
}

/// Whether git takes a directory for one of its own after the plan.
fn is_git(dir: &Key, entries: &BTreeMap<Key, Entry>, world: &mut dyn World) -> bool {
    let mut has = |name: &str| {
        let key = dir.child(name);
        match entries.get(&key) {
            Some(entry) => !matches!(entry.now, Now::Absent),
            None => world.is_there(&key),
        }
    };
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
