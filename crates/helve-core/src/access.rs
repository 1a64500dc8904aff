//! What one call reads, writes and runs, computed from its valid arguments. The guard and the scheduler live on it.

use std::collections::HashSet;

/// Something that two calls may both want.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A path, as the arguments name it.
    Path(String),
    /// A host name or address.
    Host(String),
    /// Anything else with a name: `memory:notes`, `job:7`.
    Key(String),
}

impl Resource {
    /// Whether an act on one may disturb the other: equal, or one path above the other.
    pub fn overlaps(&self, other: &Resource) -> bool {
        match (self, other) {
            // Where a relative path starts is not known here, so it may be anywhere below an absolute one.
            (Resource::Path(a), Resource::Path(b)) if a.starts_with('/') != b.starts_with('/') => true,
            (Resource::Path(a), Resource::Path(b)) => {
                let (a, b) = (clean(a), clean(b));
                a.starts_with(&b) || b.starts_with(&a)
            }
            _ => self == other,
        }
    }
}

/// The components of a path without `.` and without resolving anything; `..` is kept out of the comparison by
/// widening to the part before it, which can only make two paths overlap that might not.
fn clean(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Vec::new(),
            part => parts.push(part),
        }
    }
    parts
}

/// A shell command that a call wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandUse {
    /// The text for the shell.
    pub command: String,
    /// Where it starts, as the arguments say.
    pub working_dir: Option<String>,
}

/// What one call touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// What it reads.
    pub reads: Vec<Resource>,
    /// What it changes.
    pub writes: Vec<Resource>,
    /// What of `writes` it deletes.
    pub deletes: Vec<Resource>,
    /// Which commands it runs.
    pub commands: Vec<CommandUse>,
}

impl Access {
    /// Whether two calls must keep their order.
    pub fn conflicts(&self, other: &Access) -> bool {
        // Calls that only read are many at a time, and each is held against all of them.
        if self.writes.is_empty() && other.writes.is_empty() {
            return false;
        }
        meet(&self.writes, &other.writes)
            || meet(&self.writes, &other.reads)
            || meet(&self.reads, &other.writes)
    }
}

/// Up to so many are compared with each of the others.
const FEW: usize = 4;

/// Whether one of these overlaps one of those. Calls that name thousands of files meet each other too, so the work grows
/// with their sum, not with their product.
fn meet(these: &[Resource], those: &[Resource]) -> bool {
    if these.len().min(those.len()) <= FEW {
        return these.iter().any(|one| those.iter().any(|other| one.overlaps(other)));
    }
    let mut paths: Vec<Vec<&str>> = Vec::new();
    let mut others: HashSet<&Resource> = HashSet::new();
    let (mut absolute, mut relative) = (false, false);
    for other in those {
        match other {
            Resource::Path(path) => {
                absolute |= path.starts_with('/');
                relative |= !path.starts_with('/');
                paths.push(clean(path));
            }
            other => {
                others.insert(other);
            }
        }
    }
    paths.sort_unstable();
    these.iter().any(|one| match one {
        Resource::Path(path) if path.starts_with('/') && relative => true,
        Resource::Path(path) if !path.starts_with('/') && absolute => true,
        Resource::Path(path) => {
            let path = clean(path);
            // What is below a path follows it in the order.
            let behind = paths.partition_point(|other| *other < path);
            let above = |parts: usize| paths.binary_search_by(|other| other[..].cmp(&path[..parts])).is_ok();
            paths.get(behind).is_some_and(|other| other.starts_with(&path)) || (0..path.len()).any(above)
        }
        one => others.contains(one),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(p: &str) -> Resource {
        Resource::Path(p.into())
    }

    #[test]
    fn a_directory_overlaps_what_it_holds_and_not_its_namesake() {
        assert!(path("src").overlaps(&path("./src/lib.rs")));
        assert!(path("a/../b").overlaps(&path("b")));
        assert!(!path("src").overlaps(&path("src-old")));
        assert!(path("/project/a").overlaps(&path("a")));
        assert!(!path("a").overlaps(&Resource::Key("a".into())));
    }

    #[test]
    fn reads_do_not_conflict_with_reads() {
        let read = Access { reads: vec![path("a")], ..Access::default() };
        let write = Access { writes: vec![path("a")], ..Access::default() };
        assert!(!read.conflicts(&read));
        assert!(read.conflicts(&write));
        assert!(write.conflicts(&write));
    }

    #[test]
    fn two_calls_with_very_many_files_are_compared_at_once() {
        let many = |dir: &str| Access {
            writes: (0..20_000).map(|file| path(&format!("{dir}/{file}/x"))).collect(),
            ..Access::default()
        };
        let begun = std::time::Instant::now();
        assert!(!many("a").conflicts(&many("b")));
        assert!(many("a").conflicts(&many("./a")));
        // File by file it would be a thousand million comparisons.
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn many_meet_where_two_of_them_overlap(
            these in prop::collection::vec("/?([ab.]|\\.\\.)(/[ab.]){0,3}|k[12]", 0..9),
            those in prop::collection::vec("/?[cb](/[ab]){0,3}|k[23]", 0..9),
        ) {
            let resource = |text: &String| match text.strip_prefix('k') {
                Some(key) => Resource::Key(key.to_owned()),
                None => path(text),
            };
            let these: Vec<Resource> = these.iter().map(resource).collect();
            let those: Vec<Resource> = those.iter().map(resource).collect();
            let each = these.iter().any(|one| those.iter().any(|other| one.overlaps(other)));
            prop_assert_eq!(meet(&these, &those), each);
        }
    }
}
