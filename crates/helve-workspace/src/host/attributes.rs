//! What a file keeps when its content is replaced: owner, mode, access control list and extended attributes; and what it
//! gets where a turn says its attributes.
//!
//! Owner and mode are kept or the change is refused. The rest is kept as far as the file system and the kernel let an
//! ordinary process. The bits that lend a program its owner's rights are taken away, as the kernel does on a write.
//! Attributes that a turn says are exactly those, or the change is refused.
//!
//! Who may not write into a file may not give it attributes of users, and a list and the bits say the same twice: so those of
//! users come first, then the bits, then lists.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use helve_core::ToolError;
use helve_core::files::{ACCESS_LIST, Attributes, DEFAULT_LIST, OF_USERS, Owner};
use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::Host;
use super::stage::{Spot, Step};
use super::sys::Sys;
use crate::attributes::MAX_BYTES;
use crate::commit::{Key, Rest};
use crate::names::show;

/// Rights of a program, which a changed program does not inherit.
const CAPABILITIES: &CStr = c"security.capability";

/// Gives `new` what `old` has.
pub(super) fn copy(sys: &Sys, old: &File, new: &File) -> Result<(), Errno> {
    let was = rustix::fs::fstat(old)?;
    let is = rustix::fs::fstat(new)?;
    copy_owner(sys, &was, &is, new)?;
    copy_extended(old, new, |_| true);
    // Last: a file that its owner may not write takes no attributes.
    sys.call("chmod", || rustix::fs::fchmod(new, Mode::from_raw_mode(was.st_mode & 0o1777)))
}

/// The same but for the bits, and for attributes that a turn says.
pub(super) fn copy_rest(sys: &Sys, old: &File, new: &File) -> Result<(), Errno> {
    let (was, is) = (rustix::fs::fstat(old)?, rustix::fs::fstat(new)?);
    copy_owner(sys, &was, &is, new)?;
    copy_extended(old, new, |name| !name.to_str().is_ok_and(Attributes::is_taken));
    Ok(())
}

fn copy_owner(sys: &Sys, was: &Stat, is: &Stat, new: &File) -> Result<(), Errno> {
    let owner = (was.st_uid != is.st_uid).then(|| Uid::from_raw(was.st_uid));
    let group = (was.st_gid != is.st_gid).then(|| Gid::from_raw(was.st_gid));
    if owner.is_none() && group.is_none() {
        return Ok(());
    }
    sys.call("chown", || rustix::fs::fchown(new, owner, group))
}

fn copy_extended(old: &File, new: &File, wanted: impl Fn(&CStr) -> bool) {
    let mut list = vec![0_u8; MAX_BYTES];
    let Ok(len) = rustix::fs::flistxattr(old, &mut list[..]) else { return };
    let mut has_list = false;
    for name in list[..len].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        has_list |= name.to_bytes() == ACCESS_LIST.as_bytes();
        if name == CAPABILITIES || !wanted(name) {
            continue;
        }
        let mut value = vec![0_u8; MAX_BYTES];
        if let Ok(len) = rustix::fs::fgetxattr(old, name, &mut value[..]) {
            // Some are the kernel's own and refuse to be set.
            let _ = rustix::fs::fsetxattr(new, name, &value[..len], XattrFlags::empty());
        }
    }
    if !has_list {
        // One that the new file got from its directory.
        let _ = rustix::fs::fremovexattr(new, ACCESS_LIST);
    }
}

/// Gives a file that is made anew what the one had that it stands for, as far as this process and the file system can. Says
/// what is missing; then nobody may do more with it than before.
pub(super) fn bring_back(sys: &Sys, new: &File, bits: u32, had: &Rest) -> Result<Vec<String>, Errno> {
    let (mut bits, mut attributes) = (bits, had.attributes.clone());
    let mut lacks = Vec::new();
    if let Some(owner) = had.owner {
        let (lack, is_same_group) = give_owner(sys, new, owner)?;
        lacks.extend(lack.map(str::to_owned));
        if !is_same_group {
            bits = narrowed(bits, attributes.get(ACCESS_LIST));
            attributes = attributes.only(|name| name != ACCESS_LIST);
        }
    }
    loop {
        let (name, error) = match give(sys, new, bits, &attributes) {
            Ok(()) => return Ok(lacks),
            Err((Some(name), error)) if attributes.get(&name).is_some() && is_no_room(error) => (name, error),
            Err((_, error)) => return Err(error),
        };
        if name == ACCESS_LIST {
            bits = narrowed(bits, attributes.get(ACCESS_LIST));
        }
        lacks.push(format!("{name}: {error}"));
        attributes = attributes.only(|one| one != name);
    }
}

/// Whether a file system has no such attributes, or no room for one more, or has no one of whom a list speaks.
fn is_no_room(error: Errno) -> bool {
    matches!(
        error,
        Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::INVAL
            | Errno::NOSPC
            | Errno::DQUOT
            | Errno::TOOBIG
            | Errno::RANGE
    )
}

/// Gives something away, or to its group alone where only root may give it away. What is missing, and whether it has its
/// group.
pub(super) fn give_owner(
    sys: &Sys,
    new: impl AsFd,
    owner: Owner,
) -> Result<(Option<&'static str>, bool), Errno> {
    let new = new.as_fd();
    let is = rustix::fs::fstat(new)?;
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    let (is_his, is_its) = (is.st_uid == owner.user, is.st_gid == owner.group);
    if is_his && is_its {
        return Ok((None, true));
    }
    match sys.call("chown", || rustix::fs::fchown(new, Some(user), Some(group))) {
        Err(Errno::PERM | Errno::INVAL) => {}
        other => return other.map(|()| (None, true)),
    }
    let has_group = is_its
        || match sys.call("chown", || rustix::fs::fchown(new, None, Some(group))) {
            Err(Errno::PERM | Errno::INVAL) => false,
            other => other.map(|()| true)?,
        };
    let lack = match (is_his, has_group) {
        (true, _) => "group",
        (false, true) => "owner",
        (false, false) => "owner and group",
    };
    Ok((Some(lack), has_group))
}

/// Bits with which others than the owner may do what all of them might before, with the list that there was.
pub(super) fn narrowed(bits: u32, list: Option<&[u8]>) -> u32 {
    const HEAD: usize = 4;
    const OWNER: u8 = 1;
    let entries = list.and_then(|list| list.get(HEAD..)).unwrap_or_default().chunks_exact(8);
    // An entry is a kind, permissions and a number.
    let of_others = entries.filter(|entry| entry.first() != Some(&OWNER)).filter_map(|entry| entry.get(2));
    let all = of_others.fold((bits >> 3) & bits & 0o7, |all, one| all & u32::from(*one));
    (bits & !0o77) | (all << 3) | all
}

/// The attributes of a file or a directory that is looked at.
pub(super) fn attributes_of(place: impl AsFd, shown: &str) -> Result<Attributes, ToolError> {
    crate::attributes::read(place, None).map_err(|unread| {
        let message = format!("The extended attributes of '{}': {}.", show(shown), unread.why());
        ToolError::failed(message)
    })
}

/// Whose it is.
pub(super) fn owner_of(stat: &Stat) -> Owner {
    Owner { user: stat.st_uid, group: stat.st_gid }
}

/// Gives what is staged exactly these bits and attributes.
pub(super) fn give(
    sys: &Sys,
    new: impl AsFd,
    bits: u32,
    attributes: &Attributes,
) -> Result<(), (Option<String>, Errno)> {
    let new = new.as_fd();
    let set = |(name, value): (&str, &[u8])| {
        let set = || rustix::fs::fsetxattr(new, name, value, XattrFlags::empty());
        sys.call("setxattr", set).map_err(|error| (Some(name.to_owned()), error))
    };
    let is_list = |(name, _): &(&str, &[u8])| !name.starts_with(OF_USERS);
    attributes.iter().filter(|one| !is_list(one)).try_for_each(set)?;
    sys.call("chmod", || rustix::fs::fchmod(new, Mode::from_raw_mode(bits)))
        .map_err(|error| (None, error))?;
    attributes.iter().filter(is_list).try_for_each(set)?;
    // Those that it got from the directory that it is made in.
    for name in lists(new).into_iter().filter(|name| attributes.get(name).is_none()) {
        let remove = || rustix::fs::fremovexattr(new, name);
        sys.call("removexattr", remove).map_err(|error| (Some(name.to_owned()), error))?;
    }
    Ok(())
}

/// The access control lists that something new has.
fn lists(new: BorrowedFd<'_>) -> Vec<&'static str> {
    let mut names = [0_u8; 1024];
    let Ok(len) = rustix::fs::flistxattr(new, &mut names[..]) else { return Vec::new() };
    let names = names.get(..len).unwrap_or_default();
    let has = |list: &&str| names.split(|byte| *byte == 0).any(|name| name == list.as_bytes());
    [ACCESS_LIST, DEFAULT_LIST].into_iter().filter(has).collect()
}

/// The steps that give what stays where it is other bits and attributes, each of one moment.
pub(super) fn steps(key: &Key, at: &Spot, from: (u32, &Attributes), to: (u32, &Attributes)) -> Vec<Step> {
    let differing = from.1.differing(to.1);
    let (of_users, lists): (Vec<_>, Vec<_>) =
        differing.into_iter().partition(|name| name.starts_with(OF_USERS));
    let attribute = |name: &str| Step::Attribute {
        key: key.clone(),
        at: at.clone(),
        name: name.to_owned(),
        from: from.1.get(name).map(<[u8]>::to_vec),
        to: to.1.get(name).map(<[u8]>::to_vec),
    };
    let chmod =
        |from: u32, to: u32| (from != to).then(|| Step::Chmod { key: key.clone(), at: at.clone(), from, to });
    let open = if of_users.is_empty() { from.0 } else { from.0 | 0o200 };
    let before = chmod(from.0, open).into_iter().chain(of_users.into_iter().map(attribute));
    before.chain(chmod(open, to.0)).chain(lists.into_iter().map(attribute)).collect()
}

impl Host {
    /// Why something did not get an attribute.
    pub(super) fn cannot_have(&self, key: &Key, name: &str, error: Errno) -> ToolError {
        let why = match error {
            Errno::OPNOTSUPP => "the file system has no such attributes".to_owned(),
            Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE => {
                "the file system has no room for it".to_owned()
            }
            error => error.to_string(),
        };
        let (path, name) = (show(&self.shown(key)), show(name));
        ToolError::failed(format!(
            "'{path}' cannot have the extended attribute '{name}': {why}. Nothing was changed."
        ))
        .hint("Let the command do without it, or put the workspace on a file system that has it.")
    }
}
