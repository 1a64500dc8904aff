//! Hands filters, rulesets and the giving up of rights to the kernel.
//!
//! Every function here may be called between fork (or a clone that shares memory) and exec: nothing is allocated, no lock
//! is taken. All of them return the `errno` of what the kernel refused. What is given up never comes back.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong};

use super::raw::syscall;
use super::report::Stage;
use crate::confine::landlock::{Handled, Version};
use crate::confine::seccomp::Filter;

/// How capabilities are read and written: version 3, of this process.
pub(super) const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];

/// `prctl` with numbers only.
fn control(option: c_int, value: c_ulong) -> Result<(), c_int> {
    const NONE: c_ulong = 0;
    // SAFETY: no option that is used here reads or writes memory; the unused arguments have to be 0.
    unsafe { syscall!(libc::SYS_prctl, option, value, NONE, NONE, NONE) }.map(drop)
}

/// Forbids every later rise of rights: setuid programs run as anybody else. Filters and rulesets demand it.
pub(crate) fn no_new_privs() -> Result<(), c_int> {
    control(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Installs a filter for this process and everything that it starts. An empty one is refused: it would forbid nothing.
pub(crate) fn install(filter: &Filter) -> Result<(), c_int> {
    install_with(filter, 0).map(drop)
}

fn install_with(filter: &Filter, flags: c_ulong) -> Result<usize, c_int> {
    const SET_MODE_FILTER: c_ulong = 1;
    let instructions = filter.instructions();
    let Ok(len @ 1..) = u16::try_from(instructions.len()) else { return Err(libc::ENOSYS) };
    let program = libc::sock_fprog { len, filter: instructions.as_ptr().cast_mut() };
    // SAFETY: the program and its instructions live through the call, and the kernel only reads them.
    unsafe { syscall!(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) }
}

/// How a filter is installed that asks somebody: the kernel gives a descriptor for him.
const NEW_LISTENER: c_ulong = 1 << 3;
/// A call that somebody looks at is not interrupted by signals that its process handles.
const WAIT_KILLABLE_RECV: c_ulong = 1 << 5;

/// What this kernel has for filters that ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking(c_ulong);

impl Asking {
    /// None if the kernel cannot have a filter ask, or has more to say than `notice` and `response` bytes.
    pub(crate) fn find(notice: usize, response: usize) -> Option<Asking> {
        const SET_MODE_FILTER: c_ulong = 1;
        const GET_NOTIF_SIZES: c_ulong = 3;
        let mut sizes = [0_u16; 3];
        // SAFETY: the kernel writes three short numbers, which live through the call.
        unsafe { syscall!(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, sizes.as_mut_ptr()) }.ok()?;
        let [notified, answered, _] = sizes.map(usize::from);
        if notified > notice || answered > response {
            return None;
        }
        // A kernel that knows the flags looks for the program next, and finds none.
        // SAFETY: nothing is read through the null pointer.
        let knows = |flags: c_ulong| unsafe { syscall!(libc::SYS_seccomp, SET_MODE_FILTER, flags, 0) } == Err(libc::EFAULT);
        [NEW_LISTENER | WAIT_KILLABLE_RECV, NEW_LISTENER].into_iter().find(|flags| knows(*flags)).map(Asking)
    }

    /// With which flags such a filter is installed.
    pub(crate) fn flags(self) -> c_ulong {
        self.0
    }

    /// Installs a filter that asks whoever has the descriptor that this gives. `EBUSY` where somebody else is asked already.
    pub(crate) fn install(self, filter: &Filter) -> Result<c_int, c_int> {
        install_with(filter, self.0).map(|listener| listener as c_int)
    }
}

/// Takes every capability out of what this process and its descendants could ever gain. Needs `CAP_SETPCAP`.
pub(crate) fn empty_bounding_set() -> Result<(), c_int> {
    for capability in 0..64 {
        match control(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // The first that the kernel does not know.
            Err(libc::EINVAL) if capability > 0 => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What it takes to enter the namespaces of a process.
const TO_ENTER: [u32; 2] = [21, 18];

/// Lets a program that this process executes enter namespaces, if it asks for that by [`keep_right_to_enter`]. To be called
/// before the bounding set is emptied.
pub(crate) fn offer_right_to_enter() -> Result<(), c_int> {
    let mut sets = [0_u32; 6];
    // SAFETY: the structures have the layout of version 3 (two words; two times effective, permitted, inheritable) and live
    // through the calls.
    unsafe {
        syscall!(libc::SYS_capget, CAPABILITIES.as_ptr(), sets.as_mut_ptr())?;
        let [_, _, inheritable, ..] = &mut sets;
        *inheritable |= TO_ENTER.map(|capability| 1 << capability).iter().sum::<u32>();
        syscall!(libc::SYS_capset, CAPABILITIES.as_ptr(), sets.as_ptr())
    }
    .map(drop)
}

/// Has the program that this process executes next be able to enter namespaces. It must have been offered.
pub(crate) fn keep_right_to_enter() -> Result<(), c_int> {
    for capability in TO_ENTER {
        // SAFETY: plain numbers.
        unsafe {
            syscall!(libc::SYS_prctl, libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0)
        }?;
    }
    Ok(())
}

/// Makes user 0 a user without rights of its own, for good. Needs `CAP_SETPCAP`.
pub(crate) fn lock_securebits() -> Result<(), c_int> {
    const NO_ROOT: c_ulong = 0b11;
    const NO_FIXUP: c_ulong = 0b1100;
    const KEEP_NOTHING: c_ulong = 0b10_0000;
    const NO_AMBIENT: c_ulong = 0b1100_0000;
    control(libc::PR_SET_SECUREBITS, NO_ROOT | NO_FIXUP | KEEP_NOTHING | NO_AMBIENT)
}

/// Gives up every capability that this process has.
pub(crate) fn drop_capabilities() -> Result<(), c_int> {
    let none = [0_u32; 6];
    // SAFETY: the structures have the layout of version 3 (two words; two times three words) and live through the call.
    unsafe { syscall!(libc::SYS_capset, CAPABILITIES.as_ptr(), none.as_ptr()) }?;
    match control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong) {
        // A kernel that has none.
        Err(libc::EINVAL) => Ok(()),
        answer => answer,
    }
}

/// The version of Landlock in this kernel: `ENOSYS` where it is not built in, `EOPNOTSUPP` where it is switched off.
pub(crate) fn landlock_version() -> Result<Version, c_int> {
    const ASK_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel wants no structure and only answers a number.
    let answer = unsafe { syscall!(libc::SYS_landlock_create_ruleset, 0, 0, ASK_VERSION) }?;
    u32::try_from(answer).map(Version).map_err(|_| libc::ENOSYS)
}

/// Rules about files that are being collected. Closes itself at exec.
#[derive(Debug)]
pub(crate) struct Ruleset {
    fd: OwnedFd,
    handled: Handled,
}

/// The same under a number that is not a standard stream's, which would be closed or replaced.
fn above_streams(fd: OwnedFd) -> Result<OwnedFd, c_int> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, 3).map_err(rustix::io::Errno::raw_os_error)
}

/// One rule, as the kernel reads it.
#[repr(C, packed)]
struct PathBeneath {
    rights: u64,
    place: c_int,
}

impl Ruleset {
    /// One that grants nothing yet.
    pub(crate) fn new(handled: Handled) -> Result<Ruleset, c_int> {
        // SAFETY: the structure lives through the call and has the size that is given; an older kernel takes a larger
        // one whose unknown fields are 0.
        let fd = unsafe {
            let size = size_of::<Handled>();
            syscall!(libc::SYS_landlock_create_ruleset, &raw const handled, size, 0)
        }?;
        let fd = c_int::try_from(fd).map_err(|_| libc::EBADF)?;
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Ruleset { fd: above_streams(fd)?, handled })
    }

    /// What this ruleset forbids unless it is granted.
    pub(crate) fn handled(&self) -> &Handled {
        &self.handled
    }

    /// Grants rights (of [`Handled::rights`]) at the open file or directory `place` and below it.
    pub(crate) fn grant(&self, place: c_int, rights: u64) -> Result<(), c_int> {
        const PATH_BENEATH: c_int = 1;
        let rule = PathBeneath { rights, place };
        let fd = self.fd.as_raw_fd();
        // SAFETY: the rule has the kernel's layout and lives through the call.
        unsafe { syscall!(libc::SYS_landlock_add_rule, fd, PATH_BENEATH, &raw const rule, 0) }.map(drop)
    }

    /// Holds this process and everything that it starts to the rules.
    pub(crate) fn restrict_self(&self) -> Result<(), c_int> {
        restrict_self(self.fd.as_raw_fd())
    }
}

/// Holds this process and everything that it starts to the rules of an open ruleset.
pub(crate) fn restrict_self(ruleset: c_int) -> Result<(), c_int> {
    // SAFETY: plain numbers.
    unsafe { syscall!(libc::SYS_landlock_restrict_self, ruleset, 0) }.map(drop)
}

impl AsRawFd for Ruleset {
    fn as_raw_fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }
}

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user's number.
    pub(crate) user: u32,
    /// The group's number.
    pub(crate) group: u32,
}

impl Identity {
    /// Becomes this user, in this group alone. The C library's own functions would try to change every thread.
    fn take(self) -> Result<(), c_int> {
        let (user, group) = (self.user, self.group);
        // SAFETY: plain numbers; an empty list of groups needs no memory.
        unsafe {
            syscall!(libc::SYS_setgroups, 0, 0)?;
            syscall!(libc::SYS_setresgid, group, group, group)?;
            syscall!(libc::SYS_setresuid, user, user, user).map(drop)
        }
    }
}

/// Everything that holds a command without namespaces of its own.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// The user that root becomes first; nobody else has to change.
    pub(crate) identity: Option<Identity>,
    /// What it may do with files.
    pub(crate) ruleset: Ruleset,
    /// Which system calls there are.
    pub(crate) filter: Filter,
    /// How many processes its user may have in all.
    pub(crate) processes: u64,
}

impl Confinement {
    /// Confines the calling process for good. Where root's bounding set and the meaning of user 0 can be changed they are,
    /// before the right to do so is gone.
    pub(super) fn apply(&self) -> Result<(), (Stage, c_int)> {
        let at = |stage| move |errno| (stage, errno);
        if let Some(identity) = self.identity {
            empty_bounding_set().and_then(|()| lock_securebits()).map_err(at(Stage::Capabilities))?;
            identity.take().map_err(at(Stage::Identity))?;
        }
        drop_capabilities().map_err(at(Stage::Capabilities))?;
        no_new_privs().map_err(at(Stage::Capabilities))?;
        self.ruleset.restrict_self().map_err(at(Stage::Landlock))?;
        install(&self.filter).map_err(at(Stage::Seccomp))
    }
}

#[cfg(test)]
mod tests;
