//! Who a command is outside: the caller himself, or, where the caller is root, a user that owns nothing.
//!
//! A user namespace that maps root onto root would leave a command root's rights on files and on the switches in `/proc/sys`.
//! So root's commands run as a user number that nobody has, and the workspace is shown through an idmapped mount as that
//! user's; on disk what they write belongs to the workspace's owner. Where a file system cannot do that, they run as the
//! workspace's owner, if that is not root, and are refused otherwise. Inside, everybody keeps the number that he has outside.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::failure::{At, Failure};
use super::holder::{Holder, Ids};
use super::template::{owner, set_attributes};
use crate::native::wire::Step;

/// A user number outside every range that systems give out, and one for containers that know only the first 65,536.
const NOBODY_ELSES: [u32; 2] = [2_135_444_566, 65_533];

/// Who commands are.
pub(super) struct Identity {
    is_root: bool,
    /// Outside.
    outer: Ids,
    /// Inside.
    inner: Ids,
    /// User namespaces that show somebody's files as those of `outer`.
    shown: Vec<(Ids, OwnedFd)>,
}

impl Identity {
    /// For the user that this process runs as.
    pub(super) fn new() -> Result<Identity, Failure> {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let is_root = own.0 == 0;
        let outer = if is_root {
            let id = for_root().ok_or((Step::Identity, libc::EINVAL))?;
            (id, id)
        } else {
            own
        };
        Ok(Identity { is_root, outer, inner: own, shown: Vec::new() })
    }

    /// Whether namespaces and mounts are made with root's rights first.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Shows a tree of mounts, whose owner may be anybody, as the command's own.
    pub(super) fn adopt(
        &mut self,
        tree: BorrowedFd<'_>,
        writable: bool,
        workspace: bool,
    ) -> Result<(), Failure> {
        if !self.is_root {
            return Ok(());
        }
        let failed = |errno: rustix::io::Errno| (Step::Idmap, errno.raw_os_error());
        let owner = owner(tree).map_err(failed)?;
        let users = self.users(owner)?;
        match set_attributes(tree, 0, Some(users)) {
            Ok(()) => Ok(()),
            Err(_) if workspace && owner.0 != 0 => {
                self.outer = owner;
                self.inner = owner;
                // They show files as somebody's who is not the command any more.
                self.shown.clear();
                Ok(())
            }
            // What only is looked at stays readable as far as it is to everybody.
            Err(_) if !writable => Ok(()),
            Err(errno) => Err((Step::Idmap, errno)),
        }
    }

    /// A user namespace in which the owner's files are those of the command.
    fn users(&mut self, owner: Ids) -> Result<BorrowedFd<'_>, Failure> {
        let known = self.shown.iter().position(|(ids, _)| *ids == owner);
        let index = match known {
            Some(index) => index,
            None => {
                let holder = Holder::user_namespace().map_err(idmap)?;
                let users = mapping_namespace(&holder, owner, self.outer).map_err(idmap)?;
                self.shown.push((owner, users));
                self.shown.len() - 1
            }
        };
        self.shown.get(index).map(|(_, users)| users.as_fd()).ok_or((Step::Idmap, libc::EIO))
    }

    /// Makes ready to show files of this owner, who is likely to be met, with a child that was started for it. An error
    /// comes again when he is.
    pub(super) fn expect(&mut self, owner: Ids, holder: &Holder) {
        if let Ok(users) = mapping_namespace(holder, owner, self.outer) {
            self.shown.push((owner, users));
        }
    }

    /// Who commands are inside, and outside.
    pub(super) fn ids(&self) -> (Ids, Ids) {
        (self.inner, self.outer)
    }
}

/// A map that shows one number as another and leaves all others as they are: a file whose group is somebody else's can
/// still be written by its owner. Where this process does not know all numbers itself, only the one is mapped.
fn map_of_files(owner: u32, outer: u32, own_map: &str) -> String {
    let all = is_in(u32::MAX - 1, own_map);
    let mut lines = vec![(owner, outer, 1)];
    if all {
        let (low, high) = (owner.min(outer), owner.max(outer));
        // Neither the owner's number nor the command's own stands for anybody else.
        for (from, to) in [(0, low), (low + 1, high), (high + 1, u32::MAX)] {
            if from < to {
                lines.push((from, from, to - from));
            }
        }
    }
    lines.iter().map(|(inner, outer, count)| format!("{inner} {outer} {count}\n")).collect()
}

/// A user namespace whose only purpose is its map: the owner's files are shown as those of `outer`.
fn mapping_namespace(holder: &Holder, owner: Ids, outer: Ids) -> Result<OwnedFd, Failure> {
    let users = map_of_files(owner.0, outer.0, "/proc/self/uid_map");
    let groups = map_of_files(owner.1, outer.1, "/proc/self/gid_map");
    holder.stand(&users, &groups)?;
    holder.user().at(Step::Idmap)
}

/// Whatever went wrong, files cannot be shown as somebody else's.
fn idmap((_, errno): Failure) -> Failure {
    (Step::Idmap, errno)
}

/// Who root's commands are outside, unless a workspace that cannot be idmapped decides.
pub(crate) fn for_root() -> Option<u32> {
    NOBODY_ELSES.into_iter().find(|id| is_mapped(*id))
}

/// Whether a user and a group of this number exist for this process.
pub(crate) fn is_mapped(id: u32) -> bool {
    is_in(id, "/proc/self/uid_map") && is_in(id, "/proc/self/gid_map")
}

fn is_in(id: u32, map: &str) -> bool {
    let text = fs::read_to_string(map).unwrap_or_default();
    text.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (from, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let from = from.unwrap_or(0);
        (from..from.saturating_add(count.unwrap_or(0))).contains(&u64::from(id))
    })
}
