//! Who a command is outside: the caller himself, or, where the caller is root, a user that owns nothing.
//!
//! A user namespace that maps root onto root would leave a command root's rights on files and on the switches in `/proc/sys`.
//! So root's commands run as a user number that nobody has, and the workspace is shown through an idmapped mount as that
//! user's; on disk what they write belongs to the workspace's owner. Where a file system cannot do that, they run as the
//! workspace's owner, if that is not root, and are refused otherwise. Inside, everybody keeps the number that he has outside.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{c_int, pid_t};
use rustix::fs::{Mode, OFlags};

use super::failure::Failure;
use super::template::{owner, set_attributes};
use crate::native::wire::Step;
use crate::sys::report::errno;

/// A user number outside every range that systems give out, and one for containers that know only the first 65,536.
const NOBODY_ELSES: [u32; 2] = [2_135_444_566, 65_533];

/// User and group, as numbers.
type Ids = (u32, u32);

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
                let users = mapping_namespace(owner, self.outer).map_err(|errno| (Step::Idmap, errno))?;
                self.shown.push((owner, users));
                self.shown.len() - 1
            }
        };
        self.shown.get(index).map(|(_, users)| users.as_fd()).ok_or((Step::Idmap, libc::EIO))
    }

    /// Enters a new user namespace in which this process has every capability and is the command's user.
    pub(super) fn enter_namespace(&self) -> Result<(), Failure> {
        let failed = |errno: c_int| (Step::UserNamespace, errno);
        if !self.is_root {
            unshare(libc::CLONE_NEWUSER).map_err(failed)?;
            return write_maps("self", self.inner, self.outer).map_err(failed);
        }
        // SAFETY: an empty list of groups; nothing is read through the null pointer.
        if unsafe { libc::setgroups(0, std::ptr::null()) } == -1 {
            return Err((Step::Identity, errno()));
        }
        // Maps of somebody else's number are written from outside the new namespace.
        // SAFETY: getpid only returns a number.
        let own = unsafe { libc::getpid() }.to_string();
        let (inner, outer) = (self.inner, self.outer);
        let go = Helper::start(move || write_maps(&own, inner, outer))?;
        unshare(libc::CLONE_NEWUSER).map_err(failed)?;
        go.finish().map_err(failed)?;
        // SAFETY: plain numbers.
        unsafe {
            if libc::setresgid(inner.1, inner.1, inner.1) == -1
                || libc::setresuid(inner.0, inner.0, inner.0) == -1
            {
                return Err((Step::Identity, errno()));
            }
        }
        Ok(())
    }
}

/// Leaves namespaces of this process for new ones.
pub(super) fn unshare(flags: c_int) -> Result<(), c_int> {
    // SAFETY: plain numbers; this process has one thread.
    if unsafe { libc::unshare(flags) } == -1 { Err(errno()) } else { Ok(()) }
}

fn write_maps(process: &str, inner: Ids, outer: Ids) -> Result<(), c_int> {
    let one = |inner: u32, outer: u32| format!("{inner} {outer} 1\n");
    write_map_files(process, &one(inner.0, outer.0), &one(inner.1, outer.1))
}

fn write_map_files(process: &str, users: &str, groups: &str) -> Result<(), c_int> {
    let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let file = |name: &str| format!("/proc/{process}/{name}");
    fs::write(file("setgroups"), "deny").map_err(number)?;
    fs::write(file("uid_map"), users).map_err(number)?;
    fs::write(file("gid_map"), groups).map_err(number)
}

/// A map that shows one number as another and leaves all others as they are: a file whose group is somebody else's can
/// still be written by its owner. Where this process does not know all numbers itself, only the one is mapped.
fn map_of_files(owner: u32, outer: u32, own_map: &str) -> String {
    let all = is_mapped(u32::MAX - 1, own_map);
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
fn mapping_namespace(owner: Ids, outer: Ids) -> Result<OwnedFd, c_int> {
    let helper = Helper::start(|| unshare(libc::CLONE_NEWUSER)).map_err(|(_, errno)| errno)?;
    let pid = helper.pid;
    // The child tells when it stands in the new namespace, and stays until its map is written and held.
    let helper = helper.wait()?;
    let users = map_of_files(owner.0, outer.0, "/proc/self/uid_map");
    let groups = map_of_files(owner.1, outer.1, "/proc/self/gid_map");
    let written = write_map_files(&pid.to_string(), &users, &groups);
    let held =
        rustix::fs::open(format!("/proc/{pid}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    helper.finish()?;
    written?;
    held.map_err(|errno| errno.raw_os_error())
}

/// Who root's commands are outside, unless a workspace that cannot be idmapped decides.
pub(crate) fn for_root() -> Option<u32> {
    let known = |id: &u32| is_mapped(*id, "/proc/self/uid_map") && is_mapped(*id, "/proc/self/gid_map");
    NOBODY_ELSES.into_iter().find(known)
}

fn is_mapped(id: u32, map: &str) -> bool {
    let text = fs::read_to_string(map).unwrap_or_default();
    text.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (from, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let from = from.unwrap_or(0);
        (from..from.saturating_add(count.unwrap_or(0))).contains(&u64::from(id))
    })
}

/// A child that does one thing when it is told to, or at once and then waits.
struct Helper {
    pid: pid_t,
    /// A byte, or its closing, lets the child go on.
    go: OwnedFd,
    /// The child's answer: an `errno`, or 0.
    answer: OwnedFd,
    told: Option<c_int>,
}

impl Helper {
    /// Starts a child that waits for [`Helper::finish`] or [`Helper::wait`], then works, answers, and ends when let go.
    fn start(work: impl FnOnce() -> Result<(), c_int>) -> Result<Helper, Failure> {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let failed = |errno: rustix::io::Errno| (Step::Process, errno.raw_os_error());
        let (waits, go) = pipe().map_err(failed)?;
        let (answer, answers) = pipe().map_err(failed)?;
        // SAFETY: this process has one thread, so its child may do whatever it may.
        match unsafe { libc::fork() } {
            -1 => Err((Step::Process, errno())),
            0 => {
                drop(go);
                let mut byte = [0];
                let _ = rustix::io::read(&waits, &mut byte);
                let number = work().err().unwrap_or(0);
                let _ = rustix::io::write(&answers, &number.to_ne_bytes());
                let _ = rustix::io::read(&waits, &mut byte);
                // SAFETY: leaves without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Helper { pid, go, answer, told: None }),
        }
    }

    /// Lets the child work, and waits for its answer. The child stays.
    fn wait(mut self) -> Result<Helper, c_int> {
        let _ = rustix::io::write(&self.go, b"g");
        let mut number = [0; 4];
        let told = match rustix::io::read(&self.answer, &mut number) {
            Ok(4) => c_int::from_ne_bytes(number),
            _ => libc::EIO,
        };
        self.told = Some(told);
        if told == 0 {
            return Ok(self);
        }
        self.finish()?;
        Err(told)
    }

    /// Ends the child, after its work.
    fn finish(self) -> Result<(), c_int> {
        let helper = if self.told.is_none() { self.wait()? } else { self };
        drop(helper.go);
        let mut status = 0;
        // SAFETY: `status` lives through the call; the child is this process's own.
        while unsafe { libc::waitpid(helper.pid, &mut status, 0) } == -1 && errno() == libc::EINTR {}
        match helper.told {
            Some(0) | None => Ok(()),
            Some(errno) => Err(errno),
        }
    }
}
