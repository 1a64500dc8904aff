//! Files with several names (hard links) in a layer: which of them are one file afterwards.
//!
//! An overlay does not know of the other names of a file below: a file that a command edits in place is copied up under the name
//! that it used, and looks like one that was put there anew. The kernel tells them apart as long as it remembers the file: the
//! number of the file that a name in the overlay began as is that of the one below.
//!
//! ```text
//! files in the layer, names that are gone ── began as? ─┬─ a file below: its names there ── walk ── all found, none closed?
//!                                                       │    └ yes: edited for all of them; no: a file of its own, with a note
//!                                                       └─ none: a file of its own
//! ```
//!
//! Two names of one file below that were edited apart cannot be told from one that was edited twice: each is a file of its own.

mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use helve_core::files::Is;
use helve_core::{Cancel, LayerLinks, ToolError};
use rustix::fs::{OFlags, Stat};

use super::{LayerChange, LayerRead};
use crate::beneath;
use crate::names::show;

/// What tells one file from another.
pub(super) type Inode = (u64, u64);

/// A file in the layer that has several names there, or whose path had a file below with several names.
struct Named {
    change: LayerChange,
    upper: Inode,
    /// The file at the same path below, and how many names it has.
    below: Option<(Inode, u64)>,
    /// Whether it is not the file that was at its path.
    apart: bool,
}

impl Named {
    /// Whether the file at its path below has other names.
    fn had_others(&self) -> bool {
        self.below.is_some_and(|(_, names)| names > 1)
    }

    fn was_at(&self) -> Option<Inode> {
        self.below.map(|(inode, _)| inode)
    }

    /// Whether nothing happens to it.
    fn stays(&self) -> bool {
        self.change.was == self.change.is && !self.apart
    }
}

/// A file below with several names of which the command used one.
struct Below {
    names: u64,
    was: Is,
    disturbed: bool,
    /// The names that are in the layer, or gone.
    used: BTreeSet<String>,
    /// The others, as far as they were found.
    others: Vec<String>,
    /// Those of them that no command may change.
    closed: BTreeSet<String>,
}

impl Below {
    fn is_complete(&self) -> bool {
        (self.used.len() + self.others.len()) as u64 == self.names
    }

    /// Whether all names are known, and a command may change each.
    fn is_open(&self) -> bool {
        self.is_complete() && self.closed.is_empty()
    }
}

/// Tells the number of the file below that a path began as.
pub(super) type BeganAs<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Where files below are found.
pub(super) struct Place<'a> {
    pub(super) root: BorrowedFd<'a>,
    pub(super) links: &'a LayerLinks,
    /// None where nobody can tell.
    pub(super) began_as: Option<BeganAs<'a>>,
    /// How many entries are looked at.
    pub(super) entries: usize,
}

/// The file below that a path in an overlay began as; none if it began there, or nobody knows.
pub(super) fn began_as(seen: BorrowedFd<'_>, path: &str) -> Option<u64> {
    let place = beneath::open(seen, path.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW).ok()?;
    let shown = rustix::fs::fstat(&place).ok()?.st_ino;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", place.as_fd().as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("ino:"))?.trim().parse().ok()?;
    (number != shown).then_some(number)
}

/// What was read of files with several names.
#[derive(Default)]
pub(super) struct Links {
    files: Vec<Named>,
    below: BTreeMap<Inode, Below>,
    /// Whether a name of such a file is gone.
    gone: bool,
}

impl Links {
    /// Takes a file of the layer.
    pub(super) fn file(&mut self, change: LayerChange, upper: &Stat, below: Option<&Stat>) {
        if let Some(below) = below.filter(|below| super::several(below)) {
            self.used(&change, below);
        }
        let below = below.map(|below| (inode(below), super::links(below)));
        self.files.push(Named { change, upper: inode(upper), below, apart: false });
    }

    /// Takes a path that had a file with several names and has none.
    pub(super) fn gone(&mut self, change: &LayerChange, below: &Stat) {
        self.gone = true;
        self.used(change, below);
    }

    fn used(&mut self, change: &LayerChange, below: &Stat) {
        let one = self.below.entry(inode(below)).or_insert_with(|| Below {
            names: super::links(below),
            was: change.was.clone(),
            disturbed: change.disturbed,
            used: BTreeSet::new(),
            others: Vec::new(),
            closed: BTreeSet::new(),
        });
        one.used.insert(change.path.clone());
    }

    /// How many files it holds.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Says of every file which others it is one with, and adds to the changes what follows from that.
    pub(super) fn settle(
        mut self,
        read: &mut LayerRead,
        place: &Place<'_>,
        cancel: &Cancel,
    ) -> Result<(), ToolError> {
        if self.files.is_empty() && self.below.is_empty() {
            return Ok(());
        }
        let left_out = read.left_out.iter().map(|(path, _)| path.as_str()).collect();
        walk::find_others(&mut self.below, place, &left_out, cancel)?;
        let began = self.origins(read, place);
        let mut by_upper: BTreeMap<Inode, Vec<Named>> = BTreeMap::new();
        for file in self.files {
            by_upper.entry(file.upper).or_default().push(file);
        }
        let mut by_below: BTreeMap<Inode, Vec<Named>> = BTreeMap::new();
        let mut alone = Vec::new();
        for (upper, mut files) in by_upper {
            match began.get(&upper) {
                Some(inode) => by_below.entry(*inode).or_default().append(&mut files),
                None => {
                    let told = place.began_as.is_some();
                    files.iter_mut().for_each(|file| file.apart = told && file.had_others());
                    alone.push(files);
                }
            }
        }
        // The first name of a file that was edited for all of them.
        let mut edited = BTreeMap::new();
        for (inode, files) in by_below {
            let Some(below) = self.below.get(&inode) else { continue };
            let edits = edits(&files, below);
            if edits > 1 || (edits == 1 && !below.is_open()) {
                alone.extend(dissolved(files, inode, below));
            } else if let Some(first) = one_file(files, inode, below, read) {
                edited.insert(inode, first);
            }
        }
        alone.into_iter().for_each(|files| of_its_own(files, read));
        name_former(read, &self.below, &edited);
        Ok(())
    }

    /// Which file below each file of the layer began as, by its number in the layer. Changes of files that turn out to be
    /// other names are taken along.
    fn origins(&mut self, read: &mut LayerRead, place: &Place<'_>) -> BTreeMap<Inode, Inode> {
        let mut began = BTreeMap::new();
        let (Some(ask), false) = (place.began_as, self.below.is_empty()) else { return began };
        let below = &self.below;
        let known = |path: &str| {
            let number = ask(path)?;
            let mut same = below.keys().filter(|inode| inode.1 == number);
            same.next().copied().filter(|_| same.next().is_none())
        };
        let mut moved = self.gone;
        for file in &self.files {
            let of = known(&file.change.path);
            moved |= file.had_others() && of != file.was_at();
            if let Some(of) = of {
                began.insert(file.upper, of);
            }
        }
        if !moved {
            return began;
        }
        // A name that is gone may be there under another.
        let mut number = 0;
        let (mut rest, mut found) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut read.changes) {
            match matches!(change.is, Is::File { .. }).then(|| known(&change.path)).flatten() {
                Some(of) => found.push((change, of)),
                None => rest.push(change),
            }
        }
        read.changes = rest;
        for (change, of) in found {
            // It has one name in the layer, so any number does that no other has.
            number += 1;
            let upper = (u64::MAX, number);
            began.insert(upper, of);
            self.files.push(Named { change, upper, below: None, apart: false });
        }
        began
    }
}

fn inode(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

/// How many different things files became that began as one below, but for those that are as they were.
fn edits(files: &[Named], below: &Below) -> usize {
    let mut edits: Vec<&Is> = Vec::new();
    for is in files.iter().map(|file| &file.change.is).filter(|is| **is != below.was) {
        if !edits.contains(&is) {
            edits.push(is);
        }
    }
    edits.len()
}

/// Files that began as one below and cannot be changed for all its names: each that is one in the layer by itself.
fn dissolved(files: Vec<Named>, inode: Inode, below: &Below) -> Vec<Vec<Named>> {
    let mut by_upper: BTreeMap<Inode, Vec<Named>> = BTreeMap::new();
    for mut file in files {
        // Bits and attributes alone change for all names, unless one is closed.
        file.apart = file.had_others() && (file.was_at() != Some(inode) || !below.closed.is_empty());
        by_upper.entry(file.upper).or_default().push(file);
    }
    by_upper.into_values().collect()
}

/// Files that began as one below, and are one with its other names. The first of its names if they are edited.
fn one_file(mut files: Vec<Named>, inode: Inode, below: &Below, read: &mut LayerRead) -> Option<String> {
    let edit = files.iter().find(|file| file.change.is != below.was);
    let edit = edit.map(|file| (file.change.is.clone(), file.change.modified));
    let is = edit.as_ref().map_or(&below.was, |(is, _)| is).clone();
    let there = files.iter().filter(|file| file.was_at() == Some(inode)).map(|file| &file.change.path);
    let others = below.others.iter().filter(|name| !below.closed.contains(*name));
    let all = files.iter().map(|file| &file.change.path);
    // One that was there before, if there is one.
    let first = match (there.chain(others).min(), all.min()) {
        (Some(first), _) => first.clone(),
        (None, Some(first)) => {
            if !below.is_open() {
                read.linked.push(show(first));
            }
            first.clone()
        }
        (None, None) => return None,
    };
    let same_as = |path: &str| (path != first).then(|| first.clone());
    if let Some((_, modified)) = &edit {
        for path in &below.others {
            read.changes.push(LayerChange {
                path: path.clone(),
                was: below.was.clone(),
                is: is.clone(),
                modified: *modified,
                same_as: same_as(path),
                was_same_as: None,
                apart: false,
                disturbed: below.disturbed,
                was_kept: false,
            });
        }
    }
    for file in &mut files {
        let change = &mut file.change;
        if let Some((_, modified)) = &edit {
            (change.is, change.modified) = (is.clone(), *modified);
        }
        change.same_as = same_as(&change.path);
        file.apart = file.had_others() && file.was_at() != Some(inode);
    }
    for mut file in files {
        if file.change.was != file.change.is || file.was_at() != Some(inode) {
            file.change.apart = file.apart;
            read.changes.push(file.change);
        }
    }
    edit.map(|_| first)
}

/// Files of the layer that are one there, and none with what nothing happened to.
fn of_its_own(mut files: Vec<Named>, read: &mut LayerRead) {
    files.sort_unstable_by(|a, b| (!a.stays(), &a.change.path).cmp(&(!b.stays(), &b.change.path)));
    let Some((first, was_first)) = files.first().map(|file| (file.change.path.clone(), file.was_at())) else {
        return;
    };
    for mut file in files {
        let is_first = file.change.path == first;
        if file.had_others() && is_noted(&file) {
            read.linked.push(show(&file.change.path));
        }
        if !file.stays() || (!is_first && file.was_at() != was_first) {
            file.change.apart = file.apart;
            file.change.same_as = (!is_first).then(|| first.clone());
            read.changes.push(file.change);
        }
    }
}

/// Whether other names keep something else than it has.
fn is_noted(file: &Named) -> bool {
    match (&file.change.was, &file.change.is) {
        (Is::File { id: old, .. }, Is::File { id, .. }) if old == id => {
            file.apart && file.change.was != file.change.is
        }
        _ => true,
    }
}

/// Says of each path that changes of which other the file that was there was a second name: one that nothing happens to, so
/// that an undo finds it, or the first of those that were edited together.
fn name_former(read: &mut LayerRead, below: &BTreeMap<Inode, Below>, edited: &BTreeMap<Inode, String>) {
    let changed: BTreeSet<String> = read.changes.iter().map(|change| change.path.clone()).collect();
    let mut former: BTreeMap<&str, &str> = BTreeMap::new();
    for (inode, below) in below {
        let all = || below.used.iter().chain(&below.others);
        let stays = all().find(|path| !changed.contains(*path));
        let first = || edited.get(inode).filter(|first| all().any(|path| path == *first));
        let Some(of) = stays.or_else(first) else { continue };
        former.extend(all().filter(|path| *path != of).map(|path| (path.as_str(), of.as_str())));
    }
    for change in &mut read.changes {
        change.was_same_as = former.get(change.path.as_str()).map(|of| (*of).to_owned());
    }
}
