//! What a walk asks of a file system, and the names of one directory.

use std::io::{self, Read};

use helve_core::files::{FileKind, FileStat};

/// Longest path below a root, in bytes, that a walk enters: as long as the kernel takes in one call.
pub(super) const PATH_BYTES: usize = 4_095;

/// A directory that was entered, and its path relative to the root.
pub(super) struct Place<'a, D> {
    pub(super) dir: &'a D,
    pub(super) path: &'a [u8],
}

/// What was opened to be searched.
pub(super) enum Loaded<R> {
    /// All of a small file is in the buffer.
    Small,
    /// A larger file, to be read as a stream.
    Large(R),
}

/// A file whose length is at most this is read at once. What decides whether a file is binary is as long.
pub(super) const SMALL_FILE: usize = 64 << 10;

/// The directory where a walk begins, and those above it, each with its path; the outermost first.
pub(super) struct Top<D> {
    pub(super) dir: D,
    pub(super) above: Vec<(D, Vec<u8>)>,
}

/// A file system below one directory.
pub(super) trait Tree: Sync {
    /// A directory that was entered.
    type Dir: Send + Sync;
    /// A file that is read as a stream.
    type Reader: Read;

    /// The path of the directory where the walk begins, relative to the root.
    fn base(&self) -> &[u8];

    /// What every path of an answer begins with.
    fn prefix(&self) -> &str;

    fn top(&self) -> io::Result<Top<Self::Dir>>;

    /// The directory of this name, which is no link.
    fn enter(&self, at: Place<'_, Self::Dir>, name: &[u8]) -> io::Result<Self::Dir>;

    /// All names of a directory that was just entered.
    fn list(&self, dir: &Self::Dir, into: &mut Listing) -> io::Result<()>;

    /// The directory was listed and will only be used to reach what is in it.
    fn listed(&self, dir: Self::Dir) -> Self::Dir {
        dir
    }

    /// What is known of a name, a link not followed.
    fn stat(&self, at: Place<'_, Self::Dir>, name: &[u8]) -> io::Result<FileStat>;

    /// Whether the link at this path leads to a regular file inside the root.
    fn links_to_file(&self, path: &[u8]) -> bool;

    /// The first bytes of a regular file, for an ignore file; none if it is not one.
    fn head(&self, at: Place<'_, Self::Dir>, name: &[u8], max: usize) -> Option<Vec<u8>>;

    /// Opens a regular file to search it; a small one is read into the buffer.
    fn load(
        &self,
        at: Place<'_, Self::Dir>,
        name: &[u8],
        buffer: &mut Vec<u8>,
    ) -> io::Result<Loaded<Self::Reader>>;

    /// The same by a path relative to the root, for a file that a walk has found.
    fn load_again(&self, path: &[u8], buffer: &mut Vec<u8>) -> io::Result<Loaded<Self::Reader>>;
}

/// The names of one directory, packed: a directory may have very many.
#[derive(Default)]
pub(super) struct Listing {
    names: Vec<u8>,
    items: Vec<Item>,
    /// Which names that matter to ignoring are there.
    pub(super) marks: Marks,
}

/// Which names that matter to ignoring a directory has.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    pub(super) ignore: bool,
    pub(super) gitignore: bool,
    pub(super) git: bool,
}

#[derive(Clone, Copy)]
struct Item {
    at: u32,
    len: u16,
    /// None where the directory does not say.
    kind: Option<FileKind>,
}

impl Listing {
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.items.clear();
        self.marks = Marks::default();
    }

    /// Adds a name; `.` and `..` are left out.
    pub(super) fn push(&mut self, name: &[u8], kind: Option<FileKind>) -> io::Result<()> {
        if let [b'.', rest @ ..] = name {
            match rest {
                b"" | b"." => return Ok(()),
                b"ignore" => self.marks.ignore = true,
                b"gitignore" => self.marks.gitignore = true,
                b"git" => self.marks.git = true,
                _ => {}
            }
        }
        let many = || io::Error::other("it has too many names");
        let at = u32::try_from(self.names.len()).map_err(|_| many())?;
        let len = u16::try_from(name.len()).map_err(|_| many())?;
        self.names.extend_from_slice(name);
        self.items.push(Item { at, len, kind });
        Ok(())
    }

    pub(super) fn sort(&mut self) {
        let names = &self.names;
        self.items.sort_unstable_by(|a, b| name_of(names, a).cmp(name_of(names, b)));
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<(&[u8], Option<FileKind>)> {
        self.items.get(index).map(|item| (name_of(&self.names, item), item.kind))
    }
}

fn name_of<'a>(names: &'a [u8], item: &Item) -> &'a [u8] {
    let at = item.at as usize;
    names.get(at..at + usize::from(item.len)).unwrap_or_default()
}
