//! What may stay at a place where a command left it, and where the owner's links and git's configuration lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use helve_core::protected;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::harmless::is_harmless;
use super::links::{End, Way};
use super::places::{Kind, Names};
use super::snapshot::{Held, Snapshot};
use super::tree::{Tree, is_below, join, split};
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
            Kind::Way => now.is_directory,
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

    /// What a place of the owner's leads to in the workspace: who changes that, or a link on the way, changes the place.
    /// Those are the ends of its links, and the hooks and included files of a configuration of git, which it is for the
    /// sake of its own kind or of `config`.
    pub(super) fn leads(
        &self,
        path: &[u8],
        kind: Kind,
        held: &Held,
        config: Option<&Config>,
        leads: &mut Leads,
    ) -> io::Result<()> {
        let own =
            || (kind == Kind::Config).then(|| Config { named: path.to_vec(), git: split(path).0.to_vec() });
        if let Some(config) = config.cloned().or_else(own) {
            self.leads_of_config(&config, held, leads)?;
        }
        match held {
            Held::Link(_) if kind != Kind::Way => {
                let way = self.tree.follow(path)?;
                if let (Kind::Config, End::At { path: end, .. }) = (kind, &way.end) {
                    let config = Config { named: path.to_vec(), git: split(path).0.to_vec() };
                    leads.configs.insert(end.clone(), config);
                }
                leads.add(way, |end| !is_below(path, end));
            }
            Held::Directory { entries, .. } => self.leads_of_entries(path, entries, leads)?,
            _ => {}
        }
        Ok(())
    }

    /// Links inside a place count where they lead to files. A directory behind one is an ordinary part of the project.
    fn leads_of_entries(
        &self,
        path: &[u8],
        entries: &BTreeMap<Vec<u8>, Held>,
        leads: &mut Leads,
    ) -> io::Result<()> {
        for (name, held) in entries {
            let below = join(path, name);
            match held {
                Held::Link(_) => leads.add_file(self.tree.follow(&below)?),
                Held::Directory { entries, .. } => self.leads_of_entries(&below, entries, leads)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn leads_of_config(&self, config: &Config, held: &Held, leads: &mut Leads) -> io::Result<()> {
        let git = config.git.as_slice();
        let entries = held.content().map(git_config::read);
        for entry in entries.into_iter().flatten().flatten() {
            let Some(value) = &entry.value else { continue };
            // The whole workspace cannot be kept from being changed.
            let fits = |end: &[u8]| !end.is_empty() && !is_below(git, end);
            match (entry.section.as_str(), entry.name.as_str()) {
                // Hooks run in the work tree. husky keeps the hooks themselves beside a directory `_`.
                ("core", "hookspath") => {
                    let value = value.strip_suffix(b"/").unwrap_or(value);
                    let value = value.strip_suffix(b"/_").unwrap_or(value);
                    leads.add(self.tree.follow_from(split(git).0, value)?, fits);
                }
                ("include" | "includeif", "path") => {
                    let way = self.tree.follow_from(split(&config.named).0, value)?;
                    if let End::At { path, .. } = &way.end {
                        let config = Config { named: path.clone(), git: git.to_vec() };
                        leads.configs.insert(path.clone(), config);
                    }
                    leads.add(way, fits);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A file that git reads as its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// The path under which git knows it: what it names is relative to that.
    named: Vec<u8>,
    /// The git directory.
    git: Vec<u8>,
}

/// What places of the owner's lead to.
#[derive(Debug, Default)]
pub(super) struct Leads {
    pub(super) paths: BTreeMap<Vec<u8>, Kind>,
    /// Those that are configurations of git.
    pub(super) configs: BTreeMap<Vec<u8>, Config>,
}

impl Leads {
    /// Adds a way to whatever `fits`.
    fn add(&mut self, way: Way, fits: impl Fn(&[u8]) -> bool) {
        let (end, above) = match way.end {
            End::At { path, kind: FileType::RegularFile | FileType::Directory } => (Some(path), Vec::new()),
            End::Missing { path, above } => (Some(path), above),
            End::At { .. } | End::Nowhere => (None, Vec::new()),
        };
        for passed in way.links.into_iter().chain(above) {
            self.insert(passed, Kind::Way);
        }
        if let Some(end) = end.filter(|end| fits(end)) {
            self.insert(end, Kind::Named);
        }
    }

    /// Adds a way that counts only if it leads to a file.
    fn add_file(&mut self, way: Way) {
        match way.end {
            End::At { kind: FileType::Directory, .. } => {}
            End::Missing { path, mut above } => {
                above.push(path.clone());
                self.add(Way { links: way.links, end: End::Missing { path, above } }, |_| false);
            }
            _ => self.add(way, |_| true),
        }
    }

    fn insert(&mut self, path: Vec<u8>, kind: Kind) {
        let had = self.paths.entry(path).or_insert(kind);
        if kind == Kind::Named {
            *had = kind;
        }
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
