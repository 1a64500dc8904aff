//! What nobody may read although a walk through the workspace does not find it by its name: behind links, and inside
//! protected places.
//!
//! A link cannot be covered, so what it leads to in the end is. A link above what a pattern of several names denies
//! (`.config` of `.config/gh/hosts.yml`) gives what is behind it a second path, by which it is denied too. What lies in a
//! denied directory is covered with it, and is denied by no other name.

use std::io;

use rustix::fs::FileType;

use super::links::End;
use super::places::{Hidden, Kind, Names, Step, holds_nothing, is_installed};
use super::snapshot::{Held, Snapshot};
use super::tree::{self, Tree, about, is_below, join};

/// How many links are followed, and how many directories behind them looked through.
const MOST: usize = 4096;

/// Finds it, from all places that are known.
pub(super) fn find<'p>(
    tree: &Tree,
    names: &Names,
    places: impl Iterator<Item = (&'p [u8], Kind, &'p Snapshot)>,
) -> io::Result<Hidden> {
    let mut search = Search { tree, names, hidden: Hidden::default(), ahead: Vec::new(), left: MOST };
    for (path, kind, snapshot) in places {
        match &snapshot.held {
            Held::Link(_) => search.follow(path, path)?,
            _ if kind == Kind::Denied || is_installed(path) => {}
            Held::Directory { .. } => search.inside(path, &snapshot.held)?,
            Held::Unknown if snapshot.is_directory => search.walk(path)?,
            _ => {}
        }
    }
    while let Some((named, real)) = search.ahead.pop() {
        search.look_through(&named, &real)?;
    }
    Ok(search.hidden)
}

struct Search<'a> {
    tree: &'a Tree,
    names: &'a Names,
    hidden: Hidden,
    /// Directories behind links, by the path that may be denied and the real one.
    ahead: Vec<(Vec<u8>, Vec<u8>)>,
    left: usize,
}

impl Search<'_> {
    fn spend(&mut self) -> io::Result<()> {
        let reason =
            || format!("more than {MOST} links and directories may lead to what files.deny_read denies");
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other(reason()))?;
        Ok(())
    }

    /// Follows the link at `link`, which a command can name `named`.
    fn follow(&mut self, named: &[u8], link: &[u8]) -> io::Result<()> {
        let (as_file, as_directory) = (self.names.denies(named, false), self.names.denies(named, true));
        if !as_file && !as_directory && !self.names.may_deny_below(named) {
            return Ok(());
        }
        self.spend()?;
        let way = self.tree.follow(link)?;
        self.hidden.ways.extend(way.links);
        match way.end {
            // What holds the link itself cannot be hidden: that would be an empty workspace.
            End::At { path, kind: FileType::Directory } if as_directory => {
                if !is_below(link, &path) {
                    self.hidden.paths.insert(path);
                }
            }
            End::At { path, kind: FileType::Directory } => {
                if self.names.may_deny_below(named) {
                    self.ahead.push((named.to_vec(), path));
                }
            }
            End::At { path, .. } => {
                if as_file {
                    self.hidden.paths.insert(path);
                }
            }
            End::Missing { path, above } => {
                self.hidden.ways.extend(above);
                self.hidden.ways.insert(path);
            }
            End::Nowhere => {}
        }
        Ok(())
    }

    /// Looks through a directory behind a link.
    fn look_through(&mut self, named: &[u8], real: &[u8]) -> io::Result<()> {
        self.spend()?;
        self.hidden.seen.insert(real.to_vec());
        let directory = match self.tree.directory(real) {
            Err(errno) if holds_nothing(errno) => return Ok(()),
            directory => directory.map_err(about(real))?,
        };
        let mut entries = Vec::new();
        tree::list(&directory, |name, kind| {
            entries.push((name.to_bytes().to_vec(), kind));
            true
        })
        .map_err(about(real))?;
        for (name, kind) in entries {
            let (named, real) = (join(named, &name), join(real, &name));
            match kind {
                FileType::Symlink => self.follow(&named, &real)?,
                kind if self.names.denies(&named, kind == FileType::Directory) => {
                    self.hidden.paths.insert(real);
                }
                FileType::Directory if self.names.may_deny_below(&named) => self.ahead.push((named, real)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks at what a protected place holds, as it is remembered.
    fn inside(&mut self, path: &[u8], held: &Held) -> io::Result<()> {
        let Held::Directory { entries, .. } = held else { return Ok(()) };
        for (name, held) in entries {
            let path = join(path, name);
            match held {
                Held::Link(_) => self.follow(&path, &path)?,
                Held::File { .. } | Held::Large(_) if !self.names.denies(&path, false) => {}
                Held::Directory { .. } if !self.names.denies(&path, true) => self.inside(&path, held)?,
                // Perhaps a directory.
                Held::Unknown if !self.names.denies(&path, true) => self.walk(&path)?,
                _ => {
                    self.hidden.paths.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Looks through a part of a protected place that is too large to be remembered.
    fn walk(&mut self, path: &[u8]) -> io::Result<()> {
        let mut denied = Vec::new();
        let mut failed = Ok(());
        self.names.walk(self.tree, path.to_vec(), &mut |path, step| match step {
            Step::Seen(listing) => {
                let places = listing.places.iter().filter(|(_, kind)| *kind == Kind::Denied);
                denied.extend(places.map(|(path, _)| path.clone()));
            }
            Step::Failed(errno) => failed = Err(about(path)(errno)),
            Step::Into => {}
        });
        failed?;
        for path in denied {
            match self.tree.stat(&path).map_err(about(&path))?.map(|stat| tree::kind(&stat)) {
                Some(FileType::Symlink) => self.follow(&path, &path)?,
                Some(_) => {
                    self.hidden.paths.insert(path);
                }
                None => {}
            }
        }
        Ok(())
    }
}
