//! What one look at the workspace found, and what it can say about what it did not find.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::places::{Kind, Listing};
use super::tree::split;

/// How many directories that could not be looked into are told.
const MOST_UNSEEN: usize = 64;

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) places: BTreeMap<Vec<u8>, Kind>,
    /// Directories that were listed.
    pub(super) listed: BTreeSet<Vec<u8>>,
    /// Directories that are gone, or that were walked with everything below.
    pub(super) covered: BTreeSet<Vec<u8>>,
    /// Whether no directory lay beyond the bound.
    pub(super) complete: bool,
    /// Directories that could not be looked into, and why; only the first of very many.
    pub(super) unseen: Vec<(Vec<u8>, Errno)>,
}

impl Found {
    pub(super) fn fail(&mut self, path: &[u8], errno: Errno) {
        if self.unseen.len() < MOST_UNSEEN {
            self.unseen.push((path.to_vec(), errno));
        }
    }

    /// Whether the look was at everything.
    pub(super) fn is_whole(&self) -> bool {
        self.covered.contains(&[][..])
    }

    pub(super) fn note(&mut self, path: &[u8], listing: &Listing) {
        self.listed.insert(path.to_vec());
        self.places.extend(listing.places.iter().cloned());
    }

    /// Whether the place is gone: the look went there and did not find it.
    pub(super) fn misses(&self, place: &[u8]) -> bool {
        let covered = || {
            let mut above = place;
            loop {
                if self.covered.contains(above) {
                    return true;
                }
                if above.is_empty() {
                    return false;
                }
                above = split(above).0;
            }
        };
        !self.places.contains_key(place) && (self.listed.contains(split(place).0) || covered())
    }
}
