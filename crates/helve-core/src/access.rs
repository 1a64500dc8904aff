//! What one call reads, writes and runs, computed from its valid arguments. The guard and the scheduler live on it.

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
    /// Which commands it runs.
    pub commands: Vec<CommandUse>,
}

impl Access {
    /// Whether two calls must keep their order.
    pub fn conflicts(&self, other: &Access) -> bool {
        let hits = |a: &[Resource], b: &[Resource]| a.iter().any(|x| b.iter().any(|y| x.overlaps(y)));
        hits(&self.writes, &other.writes)
            || hits(&self.writes, &other.reads)
            || hits(&self.reads, &other.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
