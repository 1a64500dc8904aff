//! What is a member's alone, made before there is an order for it: its private file system, its terminals, and the rules of
//! Landlock that go with them.
//!
//! The zygote makes a kit when it has nothing else to do, and gives it to one member for which a call waits. A member that gets
//! none makes all of it while it starts, which takes longer than everything else that it does.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::c_int;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::command::grant_rights;
use super::descriptors::{close, open_path_at};
use super::failure::{At, Failure};
use super::private::{TERMINALS, fill};
use super::world::World;
use crate::native::wire::Step;
use crate::sys::confine::Ruleset;

/// A kit in the zygote.
pub(super) struct Kit {
    private: OwnedFd,
    terminals: OwnedFd,
    rules: Ruleset,
}

/// A kit as its member knows it: descriptors.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// The private file system, filled, attached nowhere.
    pub(super) private: c_int,
    /// The terminals, attached nowhere.
    pub(super) terminals: c_int,
    /// The rules.
    pub(super) rules: c_int,
}

impl Given {
    pub(super) fn descriptors(self) -> [c_int; 3] {
        [self.private, self.terminals, self.rules]
    }
}

impl Kit {
    /// Makes one. An error is none of a command's: its member then does without.
    pub(super) fn make(world: &World) -> Result<Kit, Failure> {
        let nosuid = MountAttrFlags::MOUNT_ATTR_NOSUID;
        let private =
            file_system(c"tmpfs", &world.private_options, nosuid | MountAttrFlags::MOUNT_ATTR_NODEV)?;
        let root = private.as_raw_fd();
        fill(world, root)?;
        let terminals = file_system(c"devpts", TERMINALS, nosuid | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
        let rules = Ruleset::new(world.handled).at(Step::Landlock)?;
        grant_rights(&rules, &world.handled, world)?;
        for name in world.template.private.iter().map(|private| &private.name) {
            let place = open_path_at(root, if name.is_empty() { c"." } else { name }).at(Step::Landlock)?;
            let granted = super::command::grant_change(&rules, &world.handled, place);
            close(place);
            granted?;
        }
        Ok(Kit { private, terminals, rules })
    }

    /// What its member has to know of it.
    pub(super) fn given(&self) -> Given {
        Given {
            private: self.private.as_raw_fd(),
            terminals: self.terminals.as_raw_fd(),
            rules: self.rules.as_raw_fd(),
        }
    }
}

/// A new file system, attached nowhere. The options are written as for `mount`.
fn file_system(kind: &CStr, options: &CStr, attributes: MountAttrFlags) -> Result<OwnedFd, Failure> {
    let system = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).at(Step::Private)?;
    // As it is named where a member mounts it.
    rustix::mount::fsconfig_set_string(system.as_fd(), "source", kind).at(Step::Private)?;
    for option in options.to_bytes().split(|byte| *byte == b',') {
        let mut parts = option.splitn(2, |byte| *byte == b'=');
        let set = match (parts.next().unwrap_or_default(), parts.next()) {
            (key, Some(value)) => rustix::mount::fsconfig_set_string(system.as_fd(), key, value),
            (key, None) => rustix::mount::fsconfig_set_flag(system.as_fd(), key),
        };
        set.at(Step::Private)?;
    }
    rustix::mount::fsconfig_create(system.as_fd()).at(Step::Private)?;
    rustix::mount::fsmount(system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).at(Step::Private)
}
