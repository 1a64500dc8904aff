//! What may stay at a place where a command left it, and where git's configuration leads to.

use std::collections::BTreeSet;

use helve_core::protected;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::harmless::is_harmless;
use super::places::{Kind, Names};
use super::snapshot::{Held, Snapshot};
use super::tree::{self, Tree, is_below, join, split};
use crate::git_config::{self, Entry};

/// Judges places of one workspace.
pub(super) struct Judge<'a> {
    pub(super) tree: &'a Tree,
    pub(super) names: &'a Names,
}

impl Judge<'_> {
    /// Whether what a command left at a place does no harm there. `before` is what the owner had.
    pub(super) fn may_stay(
        &self,
        path: &[u8],
        kind: Kind,
        now: &Snapshot,
        before: Option<&Snapshot>,
    ) -> bool {
        let before = before.map(|before| &before.held);
        match kind {
            Kind::Named => {
                let trees = join(path, protected::WORKTREES.as_bytes());
                matches!(&now.held, Held::Directory { entries, .. } if entries.is_empty())
                    && self.tree.stat(&trees).is_ok_and(|stat| stat.is_some())
            }
            Kind::Hooks => match (&now.held, before) {
                (Held::Directory { entries, .. }, Some(Held::Directory { entries: before, .. })) => entries
                    .iter()
                    .all(|(name, held)| before.get(name).is_some_and(|before| !before.differs(held))),
                (Held::Directory { entries, .. }, _) => entries.is_empty(),
                _ => false,
            },
            Kind::Config => {
                let entries = |held: &Held| held.content().map(git_config::read).and_then(Result::ok);
                let before: BTreeSet<Entry> = before.and_then(entries).into_iter().flatten().collect();
                let git = split(path).0;
                // Opened, because a link on the way would lead elsewhere. A work tree may be gone.
                let is_real = |path: Vec<u8>| matches!(self.tree.directory(&path), Ok(_) | Err(Errno::NOENT));
                let inside =
                    |named: &[u8]| is_plain(named) && self.tree.resolve(git, named).is_some_and(is_real);
                self.is_single(path)
                    && entries(&now.held).is_some_and(|entries| {
                        entries.iter().all(|entry| before.contains(entry) || is_harmless(entry, &inside))
                    })
            }
            Kind::Denied => true,
            Kind::GitFile => self.leads_inside(path, now, b"gitdir: "),
            Kind::Pointer => is_of_work_tree(split(path).0) && self.leads_inside(path, now, b""),
        }
    }

    /// Whether a file has no second name, through which it could be changed unseen.
    fn is_single(&self, path: &[u8]) -> bool {
        self.tree.stat(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.st_nlink == 1))
    }

    /// Whether a file names a place in the workspace and, unless it only says where a work tree is, a git directory: for
    /// a work tree's own that is the one in which it lies.
    fn leads_inside(&self, path: &[u8], now: &Snapshot, prefix: &[u8]) -> bool {
        let (directory, name) = split(path);
        let named = now.held.content().and_then(|content| content.strip_prefix(prefix));
        let Some(named) =
            named.map(<[u8]>::trim_ascii_end).filter(|named| !named.contains(&b'\n') && is_plain(named))
        else {
            return false;
        };
        let Some(target) = self.tree.resolve(directory, named) else { return false };
        let is_git = || self.names.list(self.tree, &target).is_ok_and(|listing| listing.git);
        let is_right = match name.to_ascii_lowercase().as_slice() {
            b"gitdir" => true,
            b"commondir" => target == split(split(directory).0).0 && is_git(),
            _ => is_git(),
        };
        is_right && self.is_single(path)
    }

    /// Files and directories of the workspace that the owner's configuration of git makes part of itself: its hooks and
    /// included files.
    pub(super) fn led_to<'h>(
        &self,
        configs: impl Iterator<Item = (&'h [u8], &'h Held)>,
    ) -> BTreeSet<Vec<u8>> {
        let mut paths = BTreeSet::new();
        for (path, held) in configs {
            let git = split(path).0;
            let entries = held.content().map(git_config::read);
            for entry in entries.into_iter().flatten().flatten() {
                let Some(value) = &entry.value else { continue };
                let target = match (entry.section.as_str(), entry.name.as_str()) {
                    // Hooks run in the work tree.
                    ("core", "hookspath") => self.tree.resolve(split(git).0, value).map(|path| {
                        // husky keeps the hooks themselves beside a directory of that name.
                        match path.strip_suffix(b"/_") {
                            Some(above) => above.to_vec(),
                            None => path,
                        }
                    }),
                    ("include" | "includeif", "path") => self.tree.resolve(git, value),
                    _ => None,
                };
                // The whole workspace cannot be kept from being changed.
                paths.extend(target.filter(|path| !path.is_empty() && !is_below(git, path)));
            }
        }
        paths
    }

    /// Files of the workspace that the owner made hooks or protected files by a link: who changes them changes those.
    pub(super) fn linked<'h>(
        &self,
        places: impl Iterator<Item = (&'h [u8], Kind, &'h Held)>,
    ) -> BTreeSet<Vec<u8>> {
        let mut paths = BTreeSet::new();
        for (path, kind, held) in places {
            match held {
                Held::Link(target) => paths.extend(self.target(path, target, kind == Kind::Hooks)),
                Held::Directory { entries, .. } if kind == Kind::Hooks => {
                    for (name, held) in entries {
                        if let Held::Link(target) = held {
                            paths.extend(self.target(&join(path, name), target, false));
                        }
                    }
                }
                _ => {}
            }
        }
        paths
    }

    /// Where a link leads to, if that is a file of the workspace, or a directory where one will do.
    fn target(&self, link: &[u8], target: &[u8], or_directory: bool) -> Option<Vec<u8>> {
        let path = self.tree.resolve(split(link).0, target)?;
        let stat = self.tree.stat(&path).ok()??;
        let fits = match tree::kind(&stat) {
            FileType::RegularFile => true,
            FileType::Directory => or_directory && !is_below(link, &path),
            _ => false,
        };
        fits.then_some(path)
    }
}

/// Whether a path goes up only at its beginning: after a name, which may be a link, nobody knows where up is.
fn is_plain(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/').skip_while(|part| matches!(*part, b".." | b"." | b""));
    parts.all(|part| part != b"..")
}

/// Whether a git directory is where git keeps those of further work trees.
fn is_of_work_tree(path: &[u8]) -> bool {
    split(split(path).0).1.eq_ignore_ascii_case(b"worktrees")
}
