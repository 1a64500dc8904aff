//! Which entries of a directory are protected places, and the walk that finds all of them.
//!
//! A place is a file or directory that has to stay as it is, as a whole: something with a protected name, or what in a
//! git directory runs programs. A git directory is one that git would take for one: named `.git`, or with a `HEAD`
//! beside `objects` and `refs` (or a `commondir` that says where these are), so that bare repositories, submodules and
//! work trees count too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use helve_core::{DenyRead, protected};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::tree::{self, Tree, join};

/// How many directories one walk looks into, the outer ones first.
pub(super) const MOST_DIRECTORIES: usize = 200_000;

/// The longest path of a directory that is looked into: programs cannot name a longer one either.
const LONGEST: usize = 4095;

/// Directories that package managers fill and nobody opens as a project. Names do not count in them, git's structure
/// does.
const INSTALLED: [&[u8]; 3] = [b"node_modules", b"site-packages", b"vendor"];

/// What kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something with a protected name, or that git's configuration leads to.
    Named,
    /// A configuration of git.
    Config,
    /// A directory of hooks.
    Hooks,
    /// A `.git` that is no directory.
    GitFile,
    /// A file in a git directory that says where another part of the repository is.
    Pointer,
    /// A name that the owner's links pass: a link itself, or nothing yet, where only a directory may come.
    Way,
    /// Something that nobody may read, or a link that may lead there. What a command makes at such a place is its own and
    /// stays.
    Denied,
}

impl Kind {
    /// Why what was there may not stay.
    pub(super) fn why(self) -> &'static str {
        match self {
            Kind::Named => "programs obey it without being asked",
            Kind::Config => "a configuration of git that may name programs",
            Kind::Hooks => "a hook of git",
            Kind::GitFile => "a .git that leads git elsewhere",
            Kind::Pointer => "leads git out of the workspace",
            Kind::Way => "a link of yours that programs obey leads there",
            Kind::Denied => "nobody may read it",
        }
    }
}

/// What is protected.
#[derive(Debug)]
pub(super) struct Names {
    /// Names that count anywhere, without `.git`.
    named: Vec<String>,
    /// Which bytes they begin with and, where only an end is given, end with, so that few names have to be compared.
    edges: Edges,
    /// Whether git's structure counts.
    git: bool,
    /// Single paths that the owner's links and git configuration lead to.
    pub(super) paths: BTreeMap<Vec<u8>, Kind>,
    /// What nobody may read.
    denied: DenyRead,
    /// The same behind links, and inside protected places.
    pub(super) hidden: Hidden,
}

/// What nobody may read although a walk does not find it by its name.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    pub(super) paths: BTreeSet<Vec<u8>>,
    /// Links on the way there, and names that are missing on it.
    pub(super) ways: BTreeSet<Vec<u8>>,
    /// Directories that were looked through by another path than their own.
    pub(super) seen: BTreeSet<Vec<u8>>,
}

/// What one directory holds.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Protected places in it.
    pub(super) places: Vec<(Vec<u8>, Kind)>,
    /// Names of the directories in it that are to be looked into.
    pub(super) directories: Vec<Vec<u8>>,
    /// Whether it is a git directory.
    pub(super) git: bool,
}

/// The first and the last bytes that names can have.
#[derive(Debug)]
struct Edges {
    first: [bool; 256],
    last: [bool; 256],
}

impl Edges {
    fn of(names: &[String]) -> Edges {
        let mut edges = Edges { first: [false; 256], last: [false; 256] };
        for name in names {
            let (bytes, edge) = match name.strip_prefix('*') {
                None => (&mut edges.first, name.bytes().next()),
                Some(end) => (&mut edges.last, end.bytes().next_back()),
            };
            match edge {
                Some(edge) => {
                    bytes[usize::from(edge.to_ascii_lowercase())] = true;
                    bytes[usize::from(edge.to_ascii_uppercase())] = true;
                }
                // A star alone is every name.
                None => bytes.fill(true),
            }
        }
        edges
    }

    fn may_be(&self, name: &[u8]) -> bool {
        let is = |bytes: &[bool; 256], edge: Option<&u8>| edge.is_some_and(|edge| bytes[usize::from(*edge)]);
        is(&self.first, name.first()) || is(&self.last, name.last())
    }
}

impl Names {
    pub(super) fn new(names: &[String], denied: DenyRead) -> Names {
        let is_git = |name: &&String| name.eq_ignore_ascii_case(protected::GIT);
        let named: Vec<String> = names.iter().filter(|name| !is_git(name)).cloned().collect();
        Names {
            edges: Edges::of(&named),
            named,
            git: names.iter().any(|name| is_git(&name)),
            paths: BTreeMap::new(),
            denied,
            hidden: Hidden::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.git && self.denied.is_empty()
    }

    /// Whether nobody may read what has this path.
    pub(super) fn is_denied(&self, path: &[u8], is_directory: bool) -> bool {
        self.denies(path, is_directory) || !self.hidden.paths.is_empty() && self.hidden.paths.contains(path)
    }

    /// Whether a name denies what has this path, whatever else leads there.
    pub(super) fn denies(&self, path: &[u8], is_directory: bool) -> bool {
        self.denied.denies_entry(Path::new(OsStr::from_bytes(path)), is_directory)
    }

    /// Whether something below a directory with this path may be denied for the sake of this path.
    pub(super) fn may_deny_below(&self, path: &[u8]) -> bool {
        self.denied.may_deny_below(Path::new(OsStr::from_bytes(path)))
    }

    /// Whether a link with this path may lead to what nobody may read.
    fn may_lead_to_denied(&self, path: &[u8]) -> bool {
        !self.denied.is_empty()
            && (self.denies(path, false) || self.denies(path, true) || self.may_deny_below(path))
    }

    /// Whether a change of an entry with this name can make or change a place.
    pub(super) fn is_relevant(&self, directory: &[u8], name: &[u8]) -> bool {
        self.is_protected(name)
            || self.git && (is_named(name, b".git") || piece(name).is_some() || is_mark(name))
            || self.paths.keys().any(|path| tree::split(path).1 == name)
            || !self.denied.is_empty() && {
                let path = join(directory, name);
                self.is_denied(&path, false)
                    // A link there would be no directory to the kernel that tells of it.
                    || self.may_lead_to_denied(&path)
                    || self.hidden.ways.contains(&path)
                    || self.hidden.seen.contains(directory)
            }
    }

    /// Looks through one directory.
    pub(super) fn list(&self, tree: &Tree, path: &[u8]) -> Result<Listing, Errno> {
        let directory = tree.directory(path)?;
        let in_installed = is_installed(path);
        let mut listing = Listing::default();
        let mut marks = Marks::default();
        let mut pieces = Vec::new();
        tree::list(&directory, |name, kind| {
            let name = name.to_bytes();
            let is_directory = kind == FileType::Directory;
            if let Some(kind) = self.place(path, name, in_installed) {
                listing.places.push((join(path, name), kind));
                match kind {
                    _ if !is_directory => {}
                    Kind::Way => listing.directories.push(name.to_vec()),
                    _ => listing.directories.push(join(name, protected::WORKTREES.as_bytes())),
                }
                return true;
            }
            if !in_installed && !self.denied.is_empty() && self.is_denied(&join(path, name), is_directory) {
                listing.places.push((join(path, name), Kind::Denied));
                return true;
            }
            // The first letters of all that counts in git's structure.
            if self.git && name.first().is_some_and(|first| b".HhOoRrCcGg".contains(first)) {
                if is_named(name, b".git") && !is_directory {
                    listing.places.push((join(path, name), Kind::GitFile));
                    return true;
                }
                marks.note(name);
                if let Some(kind) = piece(name) {
                    pieces.push((name.to_vec(), kind, is_directory));
                    return true;
                }
            }
            if is_directory {
                listing.directories.push(name.to_vec());
            } else if kind == FileType::Symlink && !in_installed && self.may_lead_to_denied(&join(path, name))
            {
                listing.places.push((join(path, name), Kind::Denied));
            }
            true
        })?;
        listing.git = self.git && (marks.is_git() || is_named(tree::split(path).1, b".git"));
        for (name, kind, is_directory) in pieces {
            if listing.git && (is_directory == (kind == Kind::Hooks) || !is_directory) {
                listing.places.push((join(path, &name), kind));
            } else if is_directory {
                listing.directories.push(name);
            }
        }
        Ok(listing)
    }

    fn is_protected(&self, name: &[u8]) -> bool {
        self.edges.may_be(name) && protected::is_among(&self.named, name)
    }

    fn place(&self, directory: &[u8], name: &[u8], in_installed: bool) -> Option<Kind> {
        if !in_installed && self.is_protected(name) {
            return Some(Kind::Named);
        }
        if self.paths.is_empty() { None } else { self.paths.get(&join(directory, name)).copied() }
    }

    /// Looks through directories from `start` on, the outer ones first. `each` takes the path, first alone and then with
    /// what is there, or why that cannot be said. Whether all within the bound were tried.
    pub(super) fn walk(&self, tree: &Tree, start: Vec<u8>, each: &mut dyn FnMut(&[u8], Step<'_>)) -> bool {
        let mut ahead = VecDeque::from([start]);
        for _ in 0..MOST_DIRECTORIES {
            let Some(path) = ahead.pop_front() else { return true };
            each(&path, Step::Into);
            let listing = match self.list(tree, &path) {
                Ok(listing) => listing,
                Err(errno) => {
                    if !holds_nothing(errno) {
                        each(&path, Step::Failed(errno));
                    }
                    continue;
                }
            };
            each(&path, Step::Seen(&listing));
            let below = listing.directories.iter().map(|name| join(&path, name));
            ahead.extend(below.filter(|path| path.len() <= LONGEST));
        }
        ahead.is_empty()
    }
}

/// Whether a path lies where package managers install.
pub(super) fn is_installed(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| INSTALLED.contains(&part))
}

/// Whether an error says that a directory holds nothing for others to obey: it has gone meanwhile, or it belongs to
/// somebody else who lets neither this user nor his commands in.
pub(super) fn holds_nothing(errno: Errno) -> bool {
    tree::is_gone(errno) || errno == Errno::ACCESS
}

/// What a walk does with one directory.
pub(super) enum Step<'a> {
    /// It is about to look into it.
    Into,
    /// This is in there.
    Seen(&'a Listing),
    /// It could not look.
    Failed(Errno),
}

/// What makes a directory a git directory.
#[derive(Default)]
struct Marks {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl Marks {
    fn note(&mut self, name: &[u8]) {
        self.head |= is_named(name, b"HEAD");
        self.objects |= is_named(name, b"objects");
        self.refs |= is_named(name, b"refs");
        self.common |= is_named(name, b"commondir");
    }

    fn is_git(&self) -> bool {
        self.head && (self.common || self.objects && self.refs)
    }
}

fn is_mark(name: &[u8]) -> bool {
    [&b"HEAD"[..], b"objects", b"refs", b"commondir"].iter().any(|mark| is_named(name, mark))
}

/// What an entry of a git directory is, if it is a place.
fn piece(name: &[u8]) -> Option<Kind> {
    const PIECES: [(&[u8], Kind); 5] = [
        (b"config", Kind::Config),
        (b"config.worktree", Kind::Config),
        (b"hooks", Kind::Hooks),
        (b"commondir", Kind::Pointer),
        (b"gitdir", Kind::Pointer),
    ];
    PIECES.iter().find(|(piece, _)| is_named(name, piece)).map(|(_, kind)| *kind)
}

fn is_named(name: &[u8], wanted: &[u8]) -> bool {
    name.eq_ignore_ascii_case(wanted)
}
