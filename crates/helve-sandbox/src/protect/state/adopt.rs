//! Before a call: what the owner has, where it leads to, and what nobody may read of it.

use std::collections::BTreeSet;
use std::io;

use super::{Known, MOST_GUARDED, State, wanted};
use crate::protect::found::Found;
use crate::protect::hidden;
use crate::protect::judge::Leads;
use crate::protect::places::Kind;
use crate::protect::snapshot::{Held, Snapshot};
use crate::protect::tree::{about, shown, split};

/// How many paths the owner's links and git configuration lead to.
const MOST_LED_TO: usize = 4096;

impl State {
    /// Takes what a look found as the owner's.
    pub(super) fn adopt(&mut self, found: &Found) -> io::Result<()> {
        if let Some((path, errno)) = found.unseen.first() {
            let (path, error) = (shown(path), io::Error::from(*errno));
            return Err(io::Error::new(error.kind(), format!("{path} cannot be looked into: {error}")));
        }
        self.known.retain(|path, _| !found.misses(path));
        self.theirs.retain(|path| !found.misses(path));
        // What is on the way of links is found again by following them.
        for (path, kind) in found.places.iter().filter(|(_, kind)| **kind != Kind::Way) {
            self.adopt_one(path, *kind).map_err(about(path))?;
        }
        self.adopt_led_to()?;
        self.adopt_hidden()
    }

    /// Takes what the owner's places lead to as the owner's, and what that leads to in turn.
    fn adopt_led_to(&mut self) -> io::Result<()> {
        let places = self.known.iter().filter(|(_, known)| known.kind != Kind::Denied);
        let mut ahead: BTreeSet<Vec<u8>> = places.map(|(path, _)| path.clone()).collect();
        let mut all = Leads::default();
        while !ahead.is_empty() {
            let mut next = Leads::default();
            for path in &ahead {
                let Some(known) = self.known.get(path) else { continue };
                let config = all.configs.get(path);
                self.judge().leads(path, known.kind, &known.snapshot.held, config, &mut next)?;
            }
            let is_new = |path: &Vec<u8>, kind: &Kind| {
                all.paths.get(path).is_none_or(|had| (*had, *kind) == (Kind::Way, Kind::Named))
            };
            next.paths.retain(|path, kind| is_new(path, kind) && !self.is_held(path));
            next.configs.retain(|path, _| !all.configs.contains_key(path));
            ahead = next.paths.keys().chain(next.configs.keys()).cloned().collect();
            for (path, kind) in &next.paths {
                let known = self.known.get(path).map(|known| known.kind);
                let named = known.filter(|kind| !matches!(kind, Kind::Denied | Kind::Way));
                self.adopt_one(path, named.unwrap_or(*kind)).map_err(about(path))?;
            }
            all.paths.append(&mut next.paths);
            all.configs.append(&mut next.configs);
            if all.paths.len() > MOST_LED_TO {
                let reason = format!("links at protected places lead to more than {MOST_LED_TO} paths");
                return Err(io::Error::other(reason));
            }
        }
        if !all.paths.is_empty() {
            let places =
                self.known.iter().filter(|(path, known)| known.kind != Kind::Denied && self.is_held(path));
            let held: Vec<Vec<u8>> = places.map(|(path, _)| path.clone()).collect();
            for path in held {
                self.known.remove(&path);
                all.paths.remove(&path);
            }
        }
        let before = std::mem::replace(&mut self.names.paths, all.paths);
        let gone = before.into_keys().filter(|path| !self.names.paths.contains_key(path)).collect();
        self.leave(gone)
    }

    /// Whether a path lies in a place that is kept as it is, with everything in it.
    fn is_held(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.filter_map(|end| path.split_at_checked(end)).any(|(above, rest)| {
            let Some(known) = self.known.get(above) else { return false };
            let mut parts = rest.split(|byte| *byte == b'/').skip(1).peekable();
            let counts =
                known.kind != Kind::Denied && parts.peek().is_some_and(|first| wanted(known.kind)(first));
            counts && known.snapshot.held.keeps(parts)
        })
    }

    /// Finds what nobody may read behind links and inside protected places.
    fn adopt_hidden(&mut self) -> io::Result<()> {
        let places = self.known.iter().map(|(path, known)| (path.as_slice(), known.kind, &known.snapshot));
        let found = hidden::find(&self.tree, &self.names, places)?;
        for path in &found.paths {
            if self.known.get(path).is_none_or(|known| known.kind == Kind::Denied) {
                self.adopt_one(path, Kind::Denied).map_err(about(path))?;
            }
        }
        let before = std::mem::replace(&mut self.names.hidden, found);
        let gone = before.paths.into_iter().filter(|path| !self.names.hidden.paths.contains(path)).collect();
        self.leave(gone)
    }

    /// Leaves paths that nothing leads to any more, unless they count by their names.
    fn leave(&mut self, paths: Vec<Vec<u8>>) -> io::Result<()> {
        for path in paths {
            let (directory, name) = split(&path);
            let Some(kind) = self.known.get(&path).map(|known| known.kind) else { continue };
            if self.names.is_relevant(directory, name) {
                self.adopt_one(&path, kind).map_err(about(&path))?;
            } else {
                self.known.remove(&path);
            }
        }
        Ok(())
    }

    /// Whether a link leads, or may lead, to what nobody may read.
    pub(super) fn follows_denied_links(&self) -> bool {
        let is_link =
            |known: &Known| known.kind == Kind::Denied && matches!(known.snapshot.held, Held::Link(_));
        !self.names.hidden.ways.is_empty()
            || !self.names.hidden.seen.is_empty()
            || self.known.values().any(is_link)
    }

    /// Whether everything that nobody may read can be hidden.
    pub(super) fn all_are_hidden(&self) -> io::Result<()> {
        let to_hide = |(path, known): &(&Vec<u8>, &Known)| {
            known.snapshot.can_be_mounted() && self.names.is_denied(path, known.snapshot.is_directory)
        };
        let denied: Vec<_> = self.known.iter().filter(to_hide).collect();
        let Some((path, _)) = denied.first().filter(|_| !self.mounts || denied.len() > MOST_GUARDED) else {
            return Ok(());
        };
        let path = shown(path);
        Err(io::Error::other(if self.mounts {
            format!("more than {MOST_GUARDED} paths are denied by files.deny_read, {path} among them")
        } else {
            format!("this sandbox cannot hide {path}, which files.deny_read denies")
        }))
    }

    /// What is at a place, as far as its kind asks.
    pub(super) fn see(&self, path: &[u8], kind: Kind) -> io::Result<Option<Snapshot>> {
        match kind {
            // Of a secret nothing is remembered.
            Kind::Denied | Kind::Way => Snapshot::outline(&self.tree, path),
            kind => Snapshot::of(&self.tree, path, wanted(kind)),
        }
    }

    pub(super) fn adopt_one(&mut self, path: &[u8], kind: Kind) -> io::Result<()> {
        let Some(snapshot) = self.see(path, kind)? else {
            self.known.remove(path);
            return Ok(());
        };
        if kind == Kind::Denied {
            self.known.insert(path.to_vec(), Known { kind, snapshot, mounted: false, doubtful: false });
            return Ok(());
        }
        self.watch_place(path, &snapshot);
        if self.theirs.contains(path) && self.judge().may_stay(path, kind, &snapshot, None) {
            return Ok(());
        }
        self.theirs.remove(path);
        // A time can be made new by whoever may write there. What holds what the owner had is the owner's all the same.
        let is_owners = |had: &Known| !had.doubtful && !had.snapshot.held.differs(&snapshot.held);
        let doubtful = !self.known.get(path).is_some_and(is_owners)
            && self.others_since.is_some_and(|since| snapshot.changed >= since);
        self.known.insert(path.to_vec(), Known { kind, snapshot, mounted: false, doubtful });
        Ok(())
    }
}
