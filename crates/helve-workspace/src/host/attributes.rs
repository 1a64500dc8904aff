//! What a file keeps when its content is replaced: owner, mode, access control list and extended attributes.
//!
//! Owner and mode are kept or the change is refused. The rest is kept as far as the file system and the kernel let an
//! ordinary process. The bits that lend a program its owner's rights are taken away, as the kernel does on a write.

use std::ffi::CStr;
use std::fs::File;

use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::sys::Sys;

/// Lists and values of attributes beyond this are not kept; Linux allows no larger ones.
const MAX_BYTES: usize = 64 << 10;
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
/// Rights of a program, which a changed program does not inherit.
const CAPABILITIES: &CStr = c"security.capability";

/// Gives `new` what `old` has.
pub(super) fn copy(sys: &Sys, old: &File, new: &File) -> Result<(), Errno> {
    let was = rustix::fs::fstat(old)?;
    let is = rustix::fs::fstat(new)?;
    copy_owner(sys, &was, &is, new)?;
    sys.call("chmod", || rustix::fs::fchmod(new, Mode::from_raw_mode(was.st_mode & 0o1777)))?;
    copy_extended(old, new);
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

fn copy_extended(old: &File, new: &File) {
    let mut list = vec![0_u8; MAX_BYTES];
    let Ok(len) = rustix::fs::flistxattr(old, &mut list[..]) else { return };
    let mut has_list = false;
    for name in list[..len].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        has_list |= name == ACCESS_LIST;
        if name == CAPABILITIES {
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
