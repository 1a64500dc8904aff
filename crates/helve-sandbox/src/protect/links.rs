//! Where a link of the workspace leads to in the end, and through which other links.
//!
//! Each step is made from the descriptor of a real directory, as the kernel would make it: by what is opened there, not by
//! how a path is written. A way that leaves the workspace is followed outside, because it may come back.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::tree::{self, Tree, about, identity, join, kind, split};

/// How many links are followed on one way: beyond that the kernel follows none, either.
const MOST_LINKS: usize = 40;
/// How many names are passed on one way.
const MOST_STEPS: usize = 4096;

/// The way that a link, or a path that a file names, begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The links of the workspace on it, but not the one that it begins with.
    pub(super) links: Vec<Vec<u8>>,
    pub(super) end: End,
}

/// Where a way ends. Paths are real ones, relative to the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At something in the workspace.
    At { path: Vec<u8>, kind: FileType },
    /// Where nothing is yet in the workspace; `above` are the directories that are missing too.
    Missing { path: Vec<u8>, above: Vec<Vec<u8>> },
    /// Outside, or nowhere at all.
    Nowhere,
}

/// How far a way has been followed.
enum Place {
    /// In this directory of the workspace.
    Inside(Vec<u8>),
    /// In a directory outside.
    Outside(OwnedFd),
}

/// What one step came to.
enum Step {
    Directory(Place),
    Link(Vec<u8>),
    File(FileType),
    Missing,
    Nowhere,
}

impl Tree {
    /// Follows a link to its end. An error means that nobody can tell where it leads.
    pub(super) fn follow(&self, link: &[u8]) -> io::Result<Way> {
        let (directory, name) = split(link);
        let mut way = self.way(directory, name).map_err(about(link))?;
        way.links.retain(|passed| passed != link);
        Ok(way)
    }

    /// Follows a path that a file names, from the directory that it is relative to.
    pub(super) fn follow_from(&self, directory: &[u8], named: &[u8]) -> io::Result<Way> {
        self.way(directory, named).map_err(about(named))
    }

    fn way(&self, directory: &[u8], named: &[u8]) -> io::Result<Way> {
        let mut place = Place::Inside(directory.to_vec());
        let mut ahead = Vec::new();
        self.put_ahead(named, &mut place, &mut ahead)?;
        let mut links = Vec::new();
        let mut followed = 0;
        for _ in 0..MOST_STEPS {
            let Some(name) = ahead.pop() else {
                let end = match place {
                    Place::Inside(path) => End::At { path, kind: FileType::Directory },
                    Place::Outside(_) => End::Nowhere,
                };
                return Ok(Way { links, end });
            };
            let end = match self.step(&place, &name)? {
                Step::Directory(next) => {
                    place = next;
                    continue;
                }
                Step::Link(target) if followed < MOST_LINKS => {
                    if let Place::Inside(directory) = &place {
                        links.push(join(directory, &name));
                    }
                    followed += 1;
                    self.put_ahead(&target, &mut place, &mut ahead)?;
                    continue;
                }
                Step::File(kind) if ahead.is_empty() => match place {
                    Place::Inside(directory) => End::At { path: join(&directory, &name), kind },
                    Place::Outside(_) => End::Nowhere,
                },
                Step::Missing => match place {
                    Place::Inside(directory) => missing(&directory, &name, &ahead),
                    Place::Outside(_) => End::Nowhere,
                },
                Step::Link(_) | Step::File(_) | Step::Nowhere => End::Nowhere,
            };
            return Ok(Way { links, end });
        }
        Err(io::Error::other("it leads further than can be followed"))
    }

    /// Puts the names of a path before those that are still ahead. One that begins at the root is followed from there.
    fn put_ahead(&self, path: &[u8], place: &mut Place, ahead: &mut Vec<Vec<u8>>) -> io::Result<()> {
        if path.starts_with(b"/") {
            *place = self.outside(rustix::fs::openat(CWD, "/", PATH, Mode::empty())?)?;
        }
        // An empty name at the end means that it has to be a directory.
        ahead.extend(path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn step(&self, place: &Place, name: &[u8]) -> io::Result<Step> {
        match (place, name) {
            (Place::Inside(path), b"" | b".") => Ok(Step::Directory(Place::Inside(path.clone()))),
            (Place::Outside(directory), b"" | b".") => {
                Ok(Step::Directory(Place::Outside(directory.try_clone()?)))
            }
            (Place::Inside(path), b"..") if !path.is_empty() => {
                Ok(Step::Directory(Place::Inside(split(path).0.to_vec())))
            }
            (Place::Inside(path), name) if name != b".." => self.step_inside(path, name),
            (Place::Inside(path), _) => match self.directory(path) {
                Ok(directory) => self.step_outside(&directory, b".."),
                Err(errno) => gone(errno),
            },
            (Place::Outside(directory), name) => self.step_outside(directory, name),
        }
    }

    fn step_inside(&self, path: &[u8], name: &[u8]) -> io::Result<Step> {
        let opened = match self.node(path, name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(Step::Missing),
            Err(errno) => return gone(errno),
        };
        match kind(&rustix::fs::fstat(&opened)?) {
            FileType::Directory => Ok(Step::Directory(Place::Inside(join(path, name)))),
            FileType::Symlink => Ok(Step::Link(target(&opened)?)),
            kind => Ok(Step::File(kind)),
        }
    }

    fn step_outside(&self, directory: &OwnedFd, name: &[u8]) -> io::Result<Step> {
        let Ok(opened) = rustix::fs::openat(directory, name, PATH, Mode::empty()) else {
            return Ok(Step::Nowhere);
        };
        match kind(&rustix::fs::fstat(&opened)?) {
            FileType::Directory => Ok(Step::Directory(self.outside(opened)?)),
            // Those of the kernel lead to what a process has open.
            FileType::Symlink => Ok(target(&opened).map_or(Step::Nowhere, Step::Link)),
            _ => Ok(Step::Nowhere),
        }
    }

    /// A directory outside, which may be the workspace itself.
    fn outside(&self, directory: OwnedFd) -> io::Result<Place> {
        let is_workspace = identity(&rustix::fs::fstat(&directory)?) == self.identity()?;
        Ok(if is_workspace { Place::Inside(Vec::new()) } else { Place::Outside(directory) })
    }
}

/// Something is opened only to say what it is.
const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn target(link: &OwnedFd) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlinkat(link, "", Vec::new()).map(std::ffi::CString::into_bytes)
}

/// What cannot be reached by this user cannot be reached by his commands, and a name that is too long for the file system
/// leads nobody anywhere.
fn gone(errno: Errno) -> io::Result<Step> {
    let nowhere = tree::is_gone(errno) || matches!(errno, Errno::ACCESS | Errno::NAMETOOLONG);
    if nowhere { Ok(Step::Nowhere) } else { Err(errno.into()) }
}

/// The end of a way where `name` is missing in a directory, and `ahead`, the last first, would come after it.
fn missing(directory: &[u8], name: &[u8], ahead: &[Vec<u8>]) -> End {
    let mut path = join(directory, name);
    let mut above = Vec::new();
    for name in ahead.iter().rev() {
        match name.as_slice() {
            b"" | b"." => {}
            // Nobody knows where that will be.
            b".." => return End::Missing { path, above },
            name => {
                let next = join(&path, name);
                above.push(std::mem::replace(&mut path, next));
            }
        }
    }
    End::Missing { path, above }
}
