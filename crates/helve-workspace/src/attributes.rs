//! The extended attributes of what is open: which of them are taken over, and what they hold.
//!
//! In comes a descriptor, which may be one that only names a place; out go [`Attributes`], or why they cannot be had. What
//! has none costs one system call.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use helve_core::files::{ACCESS_LIST, Attributes, DEFAULT_LIST, OF_USERS};
use helve_core::limits::fixed::{ATTRIBUTE_BYTES, ATTRIBUTES};
use rustix::io::Errno;

/// Linux gives no longer list of names, and no longer value.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// A list of names that is no longer needs no memory of its own.
const SHORT: usize = 512;

/// Why attributes cannot be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// There are too many of them, or they are too large.
    Many,
    /// One has a name that is not UTF-8.
    Name,
    /// The system refuses.
    System(Errno),
}

impl Unread {
    pub(crate) fn why(self) -> String {
        match self {
            Unread::Many => {
                format!("there are more than {ATTRIBUTES}, or more than {ATTRIBUTE_BYTES} bytes of them")
            }
            Unread::Name => "one has a name that is not UTF-8".to_owned(),
            Unread::System(error) => format!("they cannot be read: {error}"),
        }
    }
}

/// The path that stands for a descriptor itself, not for a name.
pub(crate) fn link(place: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
}

/// The attributes of a file or a directory. `widen` is asked once where its owner took the right to read from himself.
/// Access control lists are read before.
pub(crate) fn read(
    place: impl AsFd,
    widen: Option<&dyn Fn() -> Result<(), Errno>>,
) -> Result<Attributes, Unread> {
    let link = link(&place);
    let mut short = [0_u8; SHORT];
    let mut long = Vec::new();
    let list = match rustix::fs::listxattr(&link, &mut short[..]) {
        Ok(len) => short.get(..len),
        Err(Errno::RANGE) => {
            long.resize(MAX_BYTES, 0);
            let len = rustix::fs::listxattr(&link, &mut long[..]).map_err(Unread::System)?;
            long.get(..len)
        }
        Err(Errno::OPNOTSUPP) => None,
        Err(error) => return Err(Unread::System(error)),
    };
    let mut names = taken(list.unwrap_or_default())?;
    if names.is_empty() {
        return Ok(Attributes::NONE);
    }
    if names.len() > ATTRIBUTES {
        return Err(Unread::Many);
    }
    // `system.` comes before `user.`.
    names.sort_unstable();
    let mut room = ATTRIBUTE_BYTES;
    let mut widen = widen;
    let mut all = BTreeMap::new();
    let mut value = vec![0; MAX_BYTES];
    for name in names {
        let get = |value: &mut [u8]| rustix::fs::getxattr(&link, name, value);
        let len = match get(&mut value) {
            Err(Errno::ACCESS) if let Some(widen) = widen.take() => widen().and_then(|()| get(&mut value)),
            other => other,
        };
        let len = match len {
            Ok(len) => len,
            // Somebody has just removed it, or it has a name and nothing else.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
            Err(error) => return Err(Unread::System(error)),
        };
        room = room.checked_sub(name.len() + len).ok_or(Unread::Many)?;
        all.insert(name.to_owned(), value.get(..len).unwrap_or_default().to_vec());
    }
    Ok(Attributes::new(all))
}

/// The names of a list that are taken over.
fn taken(list: &[u8]) -> Result<Vec<&str>, Unread> {
    let mut names = Vec::new();
    for name in list.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        match name.to_str() {
            Ok(name) if Attributes::is_taken(name) => names.push(name),
            Err(_) if name.to_bytes().starts_with(OF_USERS.as_bytes()) => return Err(Unread::Name),
            _ => {}
        }
    }
    Ok(names)
}

/// Which attributes a file system can hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    users: bool,
    lists: bool,
}

impl Holds {
    /// Of the file system that a directory is on.
    pub(crate) fn of(dir: impl AsFd) -> Holds {
        let link = link(&dir);
        let holds = |name: &str| {
            !matches!(rustix::fs::getxattr(&link, name, &mut [0_u8; 0][..]), Err(Errno::OPNOTSUPP))
        };
        Holds { users: holds("user.helve"), lists: holds(ACCESS_LIST) }
    }

    /// Whether an attribute of this name.
    pub(crate) fn can(self, name: &str) -> bool {
        match name {
            ACCESS_LIST | DEFAULT_LIST => self.lists,
            _ => self.users,
        }
    }
}

/// Who is who: what one number stands for, of users and of groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) user: (u32, u32),
    pub(crate) group: (u32, u32),
}

impl Ids {
    /// The same attributes where access control lists name others.
    pub(crate) fn of(self, attributes: Attributes) -> Attributes {
        let is_list = |name: &str| matches!(name, ACCESS_LIST | DEFAULT_LIST);
        if (self.user.0 == self.user.1 && self.group.0 == self.group.1)
            || !attributes.iter().any(|(name, _)| is_list(name))
        {
            return attributes;
        }
        let one = |(name, value): (&str, &[u8])| {
            (name.to_owned(), if is_list(name) { self.in_list(value) } else { value.to_vec() })
        };
        Attributes::new(attributes.iter().map(one).collect())
    }

    /// A list is a number of four bytes, then entries: a kind and permissions of two bytes each, and a number of four.
    fn in_list(self, list: &[u8]) -> Vec<u8> {
        const HEAD: usize = 4;
        const USER: [u8; 2] = [2, 0];
        const GROUP: [u8; 2] = [8, 0];
        let mut list = list.to_vec();
        for entry in list.get_mut(HEAD..).unwrap_or_default().chunks_exact_mut(8) {
            let (kind, id) = entry.split_at_mut(4);
            let (from, to) = match kind.get(..2) {
                Some(kind) if kind == USER => self.user,
                Some(kind) if kind == GROUP => self.group,
                _ => continue,
            };
            if *id == from.to_le_bytes() {
                id.copy_from_slice(&to.to_le_bytes());
            }
        }
        list
    }
}
