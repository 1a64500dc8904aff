//! What is known of a workspace from call to call.

mod adopt;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use helve_core::{DenyRead, Removed, protected};
use rustix::fs::FileType;

use super::found::Found;
use super::judge::Judge;
use super::others::Running;
use super::places::{Kind, MOST_DIRECTORIES, Names, Step, holds_nothing};
use super::snapshot::{Held, Snapshot};
use super::take::{Taken, put_back, reconcile};
use super::tree::{Identity, Tree, identity, join, kind as type_of, shown, split};
use super::watch::{Changes, Watch};
use crate::native::wire::{Cover, Guarded};

/// How many paths are mounted, besides those above them. What the owner has beyond is put back if a command changes it.
const MOST_GUARDED: usize = 512;

/// How many lines about what was taken away before a call are kept for its end.
const MOST_LATE: usize = 128;

/// Everything about one workspace.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    names: Names,
    mounts: bool,
    watch: Watching,
    /// Calls between their `before` and their `after`.
    running: usize,
    /// Says so to other keepers of the workspace.
    told_others: Option<Running>,
    /// Since when calls of theirs were running when the last call began, if any were.
    others_since: Option<i64>,
    /// Whether the owner has no more directories than are looked into.
    complete: bool,
    /// What the owner has.
    known: BTreeMap<Vec<u8>, Known>,
    /// What commands made and may keep.
    theirs: BTreeSet<Vec<u8>>,
    /// Whether a look failed, so that the next one has to be at everything.
    stale: bool,
    /// Whether a command may have left something that could not be taken away: it must not become the owner's.
    unsettled: bool,
    /// What was taken away before a call began, and is told when it ends.
    late: Vec<Removed>,
    /// Whether a command made something that nobody may read, which is to be hidden from the next.
    unlisted: bool,
    /// What was said to be mounted the last time.
    told: Option<Vec<(Guarded, Option<Identity>)>>,
}

#[derive(Debug)]
enum Watching {
    /// No call has begun.
    Unused,
    /// One call has begun.
    NotYet,
    On(Watch),
    /// The system does not let it.
    Refused,
}

/// Something that the owner has.
#[derive(Debug)]
struct Known {
    kind: Kind,
    snapshot: Snapshot,
    /// Whether commands see it through a mount of its own.
    mounted: bool,
    /// Whether it changed while a call of another keeper ran: then it may be that command's, and is not put back.
    doubtful: bool,
}

impl State {
    pub(super) fn new(workspace: OwnedFd, names: &[String], denied: DenyRead, mounts: bool) -> State {
        State {
            tree: Tree::new(workspace),
            names: Names::new(names, denied),
            mounts,
            watch: Watching::Unused,
            running: 0,
            told_others: None,
            others_since: None,
            complete: true,
            known: BTreeMap::new(),
            theirs: BTreeSet::new(),
            stale: false,
            unsettled: false,
            late: Vec::new(),
            unlisted: false,
            told: None,
        }
    }

    /// Whether a look would find at once that nothing has changed.
    pub(super) fn is_quick(&self) -> bool {
        self.names.is_empty()
            || !self.stale
                && !self.unsettled
                && matches!(&self.watch, Watching::On(watch) if watch.is_quiet())
    }

    pub(super) fn before(&mut self) -> io::Result<Option<Vec<Guarded>>> {
        self.running += 1;
        let list = self.prepare();
        self.tree.narrow();
        self.running -= usize::from(list.is_err());
        self.tell_others_of_end();
        list
    }

    fn prepare(&mut self) -> io::Result<Option<Vec<Guarded>>> {
        // While another command runs nobody can tell its doing from the owner's.
        if self.told.is_some() && (self.running > 1 || self.names.is_empty()) {
            return Ok(None);
        }
        // Where directories cannot be opened as they have to be, nothing would be found at all.
        let root = self.tree.directory(b"")?;
        if self.told_others.is_none() {
            self.told_others = Some(Running::begin(root));
        }
        self.others_since = self.told_others.as_ref().and_then(Running::others_since);
        // What was in doubt is the owner's now, or it would have been taken away.
        self.stale |= self.others_since.is_none() && self.known.values().any(|known| known.doubtful);
        if self.unsettled {
            self.settle_rest()?;
        }
        match self.watch {
            Watching::Unused => self.watch = Watching::NotYet,
            Watching::NotYet if !self.names.is_empty() => {
                self.watch = Watch::new().map_or(Watching::Refused, Watching::On);
                self.stale = true;
            }
            _ => {}
        }
        let found = self.look();
        if let Some(found) = &found {
            self.complete = found.complete && (self.complete || found.is_whole());
            // What was looked at is not told again, so a look that did not succeed has to be at everything.
            self.stale = true;
            self.adopt(found)?;
            self.stale = false;
        }
        if found.is_none() && self.told.is_some() && !self.unlisted {
            return Ok(None);
        }
        self.all_are_hidden()?;
        self.unlisted = false;
        Ok(self.tell())
    }

    /// Takes away what could not be taken away when its call ended.
    fn settle_rest(&mut self) -> io::Result<()> {
        let mut taken = Taken::new();
        let found = self.walk();
        self.settle_all(&found, &mut taken);
        let failed =
            taken.first_failed().map(|first| format!("{}: {}", shown(first.path.as_bytes()), first.why));
        self.late.extend(taken.finish());
        self.late.truncate(MOST_LATE);
        failed.map_or(Ok(()), |failed| Err(io::Error::other(failed)))
    }

    pub(super) fn after(&mut self) -> io::Result<Vec<Removed>> {
        self.running = self.running.saturating_sub(1);
        let done = self.sweep();
        self.tree.narrow();
        self.unsettled |= done.is_err();
        self.tell_others_of_end();
        done
    }

    fn tell_others_of_end(&mut self) {
        if self.running == 0 {
            self.told_others = None;
        }
    }

    fn sweep(&mut self) -> io::Result<Vec<Removed>> {
        let found = self.look();
        let whole = found.as_ref().and_then(|found| found.unseen.iter().find(|(path, _)| path.is_empty()));
        if let Some((_, errno)) = whole {
            return Err((*errno).into());
        }
        let mut removed = std::mem::take(&mut self.late);
        let Some(found) = found else { return Ok(removed) };
        let mut taken = Taken::new();
        self.settle_all(&found, &mut taken);
        removed.extend(taken.finish());
        Ok(removed)
    }

    /// Decides about everything that a look after a call found. What fails is noted, and the rest is done all the same.
    fn settle_all(&mut self, found: &Found, taken: &mut Taken) {
        for (path, errno) in &found.unseen {
            taken.failed(path, &format_args!("it could not be looked into: {}", io::Error::from(*errno)));
        }
        for (path, kind) in &found.places {
            if let Err(error) = self.settle(path, *kind, taken) {
                taken.failed(path, &error);
            }
        }
        self.theirs.retain(|path| !found.misses(path));
        for (path, known) in self.known.iter().filter(|(path, _)| found.misses(path)) {
            if !known.mounted
                && !known.doubtful
                && known.kind != Kind::Denied
                && let Err(error) = put_back(&self.tree, path, &known.snapshot.held)
            {
                taken.failed(path, &format_args!("it was removed and could not be put back: {error}"));
            }
        }
        if self.complete && !found.complete {
            let reason = format!("there are more than {MOST_DIRECTORIES} directories, too many to look into");
            taken.failed(b".", &reason);
        }
        // What a command made behind a link is not told by its name.
        self.stale = self.follows_denied_links();
        self.unsettled = taken.first_failed().is_some();
    }

    /// What may have changed since the last look; none if nothing has.
    fn look(&mut self) -> Option<Found> {
        if self.names.is_empty() {
            return None;
        }
        let Watching::On(watch) = &mut self.watch else { return Some(self.walk()) };
        let Ok(changes) = watch.changes(&self.names) else {
            self.watch = Watching::Refused;
            return Some(self.walk());
        };
        if changes.all || self.stale || self.unsettled {
            return Some(self.walk());
        }
        (!changes.is_empty()).then(|| self.look_at(changes))
    }

    /// Looks through the whole workspace.
    fn walk(&mut self) -> Found {
        if let Watching::On(watch) = &mut self.watch {
            watch.forget();
        }
        let mut found = Found::default();
        found.covered.insert(Vec::new());
        found.complete = self.walk_from(Vec::new(), &mut found);
        found
    }

    fn walk_from(&mut self, start: Vec<u8>, found: &mut Found) -> bool {
        let State { tree, names, watch, .. } = self;
        names.walk(tree, start, &mut |path, step| match step {
            Step::Into => watch.follow(|watch| watch.directory(tree, path, false)),
            Step::Seen(listing) => {
                if listing.git {
                    watch.follow(|watch| watch.directory(tree, path, true));
                }
                found.note(path, listing);
            }
            Step::Failed(errno) => found.fail(path, errno),
        })
    }

    fn look_at(&mut self, changes: Changes) -> Found {
        let mut found = Found { complete: true, covered: changes.gone, ..Found::default() };
        for (path, new) in changes.directories {
            let listing = match self.names.list(&self.tree, &path) {
                Ok(listing) => listing,
                Err(errno) => {
                    if !holds_nothing(errno) {
                        found.fail(&path, errno);
                    }
                    continue;
                }
            };
            if listing.git {
                let State { tree, watch, .. } = self;
                watch.follow(|watch| watch.directory(tree, &path, true));
            }
            found.note(&path, &listing);
            for name in &listing.directories {
                let below = join(&path, name);
                // Also what was part of a place until now and is an ordinary directory.
                let is_new = new.contains(split_first(name))
                    || changes.fresh.contains(&below)
                    || matches!(&self.watch, Watching::On(watch) if !watch.follows(&below));
                if is_new {
                    found.complete &= self.walk_from(below.clone(), &mut found);
                    found.covered.insert(below);
                }
            }
        }
        found
    }

    fn watch_place(&mut self, path: &[u8], snapshot: &Snapshot) {
        let State { tree, watch, mounts, .. } = self;
        watch.follow(|watch| {
            // Under a mount no file gets a second name.
            let files = snapshot.shared || !*mounts;
            let mut inner = Vec::new();
            entries_in(path, &snapshot.held, files, &mut inner);
            watch.place(tree, path, &inner)
        });
    }

    fn judge(&self) -> Judge<'_> {
        Judge { tree: &self.tree, names: &self.names }
    }

    /// Decides about one place after a call.
    fn settle(&mut self, path: &[u8], kind: Kind, taken: &mut Taken) -> io::Result<()> {
        if kind == Kind::Denied {
            // It stays, and is hidden from the next call.
            self.unlisted = true;
            return self.adopt_one(path, kind);
        }
        if let (Some(known), Some(stat)) = (self.known.get(path), self.tree.stat(path)?)
            && known.mounted
            // Nothing but a second name leads around the mount.
            && !known.snapshot.shared
            && known.snapshot.identity == identity(&stat)
        {
            return Ok(());
        }
        let Some(now) = self.see(path, kind)? else { return Ok(()) };
        if let Some(known) = self.known.get(path) {
            if known.doubtful {
                // Others may still run, and for long: whoever reads the result is told now.
                if !known.mounted && known.snapshot.held.differs(&now.held) {
                    taken.unclear(path);
                }
                return Ok(());
            }
            if !known.snapshot.held.differs(&now.held)
                || known.mounted && self.judge().may_stay(path, kind, &now, Some(&known.snapshot))
            {
                return Ok(());
            }
            return reconcile(&self.tree, path, &known.snapshot.held, wanted(kind), kind.why(), taken);
        }
        if self.judge().may_stay(path, kind, &now, None) {
            self.watch_place(path, &now);
            self.theirs.insert(path.to_vec());
            return Ok(());
        }
        self.theirs.remove(path);
        self.take_place(path, kind, taken)?;
        if let Some(rest) = self.see(path, kind)? {
            self.watch_place(path, &rest);
            self.theirs.insert(path.to_vec());
        }
        Ok(())
    }

    fn take_place(&self, path: &[u8], kind: Kind, taken: &mut Taken) -> io::Result<()> {
        let is_directory = self.tree.stat(path)?.is_some_and(|stat| type_of(&stat) == FileType::Directory);
        if !is_directory || !matches!(kind, Kind::Named | Kind::Hooks) {
            return taken.take(&self.tree, path, kind.why());
        }
        taken.take_entries(&self.tree, path, wanted(kind), kind.why())?;
        // git's own samples stay, and so do work trees; a directory that held nothing else goes.
        Ok(taken.take_if_empty(&self.tree, path)?)
    }

    /// What is to be mounted, if it differs from what was told.
    fn tell(&mut self) -> Option<Vec<Guarded>> {
        let list = self.compile();
        if self.told.as_ref() == Some(&list) {
            return None;
        }
        let guarded = list.iter().map(|(guarded, _)| guarded.clone()).collect();
        self.told = Some(list);
        Some(guarded)
    }

    fn compile(&mut self) -> Vec<(Guarded, Option<Identity>)> {
        let mut paths: BTreeMap<Vec<u8>, (Cover, Option<Identity>)> = BTreeMap::new();
        let mut places: Vec<_> = self.known.iter_mut().collect();
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        // What must be hidden comes first, so that it is what the bound leaves room for.
        places.sort_by_key(|(path, known)| (known.kind != Kind::Denied, depth(path)));
        for (path, known) in places {
            known.mounted = false;
            if !self.mounts || !known.snapshot.can_be_mounted() || paths.len() >= MOST_GUARDED {
                continue;
            }
            known.mounted = true;
            let mut above = split(path).0;
            while !above.is_empty() {
                paths.entry(above.to_vec()).or_insert((Cover::Pin, None));
                above = split(above).0;
            }
            let denied = self.names.is_denied(path, known.snapshot.is_directory);
            let cover = if denied { Cover::Hidden } else { Cover::ReadOnly };
            paths.insert(path.clone(), (cover, Some(known.snapshot.identity)));
            let trees = join(path, protected::WORKTREES.as_bytes());
            let is_directory = |stat: &rustix::fs::Stat| type_of(stat) == FileType::Directory;
            if known.kind == Kind::Named
                && !denied
                && self.tree.stat(&trees).is_ok_and(|stat| stat.as_ref().is_some_and(is_directory))
            {
                paths.entry(trees).or_insert((Cover::Pin, None));
            }
        }
        let entry = |(path, (cover, identity))| (Guarded { path, cover }, identity);
        paths.into_iter().map(entry).collect()
    }

    pub(super) fn guarded(&self) -> Vec<Guarded> {
        self.told.iter().flatten().map(|(guarded, _)| guarded.clone()).collect()
    }
}

impl Watching {
    /// Does something with the watches, and gives them up if it cannot be done.
    fn follow(&mut self, step: impl FnOnce(&mut Watch) -> io::Result<()>) {
        if let Watching::On(watch) = self
            && step(watch).is_err()
        {
            *self = Watching::Refused;
        }
    }
}

/// Which entries of a place count.
fn wanted(kind: Kind) -> &'static dyn Fn(&[u8]) -> bool {
    match kind {
        Kind::Hooks => &|name| !name.ends_with(b".sample"),
        Kind::Named => &|name| name != protected::WORKTREES.as_bytes(),
        _ => &|_| true,
    }
}

fn split_first(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Every directory in a place, and every file if `files` says so.
fn entries_in(path: &[u8], held: &Held, files: bool, found: &mut Vec<Vec<u8>>) {
    let Held::Directory { entries, .. } = held else { return };
    for (name, held) in entries {
        let below = join(path, name);
        match held {
            Held::Directory { .. } => {
                entries_in(&below, held, files, found);
                found.push(below);
            }
            Held::File { .. } | Held::Large(_) if files => found.push(below),
            _ => {}
        }
    }
}
