//! The way into the sandbox: what can be made before the view is known, and the rest.
//!
//! ```text
//! Ahead::make   user, ipc, uts, cgroup and network namespaces; a mount namespace, devices; who commands are
//!   enter       the template of mounts; then everything that members must not have is given up
//! ```
//!
//! As root the mounts are built with root's rights, because only they can show the workspace as another user's, and the
//! user namespace is entered after that; as an ordinary user it is entered first.

use std::os::fd::{AsFd, OwnedFd};

use libc::c_int;
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;

use super::failure::{At, Failure};
use super::holder::{Holder, Ids, set_namespace};
use super::identity::Identity;
use super::layer::Laid;
use super::origin::Origin;
use super::template::{self, Common};
use super::world::World;
use crate::confine::landlock::Handled;
use crate::confine::seccomp;
use crate::native::setup::Setup;
use crate::native::wire::Step;
use crate::sys::confine;
use crate::sys::report::errno;

/// What stands before the view is known.
pub(super) struct Ahead {
    identity: Identity,
    namespaces: Namespaces,
    common: Common,
}

impl Ahead {
    /// Makes what every view needs. Where `owner` is given, files are expected to be his.
    pub(super) fn make(owner: Option<Ids>) -> Result<Ahead, Failure> {
        let _ = crate::sys::supervisor::leave_session_keyring();
        let mut identity = Identity::new()?;
        if identity.is_root() {
            own_mounts()?;
            // Both make their namespaces beside this process.
            let namespaces = Holder::namespaces()?;
            let expected = owner.and_then(|owner| Some((owner, Holder::user_namespace().ok()?)));
            let common = Common::make()?;
            let namespaces = Namespaces::of(namespaces, &identity)?;
            if let Some((owner, holder)) = expected {
                identity.expect(owner, &holder);
            }
            return Ok(Ahead { identity, namespaces, common });
        }
        let mut namespaces = Namespaces::make(&identity)?;
        namespaces.enter(&identity)?;
        own_mounts()?;
        Ok(Ahead { identity, namespaces, common: Common::make()? })
    }

    /// Builds the template, enters what is left, and gives up what members must not have.
    pub(super) fn enter(self, setup: Setup, origin: Origin) -> Result<(World, Option<Laid>), Failure> {
        let Ahead { mut identity, mut namespaces, common } = self;
        let laid = template::build(&setup, common, &mut identity)?;
        if identity.is_root() {
            if namespaces.ids != identity.ids() {
                // The workspace has decided who commands are.
                namespaces = Namespaces::make(&identity)?;
            }
            namespaces.enter(&identity)?;
            unshare(libc::CLONE_NEWNS).at(Step::Namespaces)?;
        }
        if setup.own_network {
            set_namespace(namespaces.network?.as_fd(), libc::CLONE_NEWNET).at(Step::Namespaces)?;
        }
        drop(identity);
        let template = template::describe(&setup)?;
        // Commands may open their input again by name, so it has to be one of the devices that they see.
        let null =
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).at(Step::Mounts)?;
        // A shell that is loaded to be copied enters the namespaces of members.
        confine::offer_right_to_enter().at(Step::Capabilities)?;
        confine::empty_bounding_set().at(Step::Capabilities)?;
        confine::no_new_privs().at(Step::Capabilities)?;
        let version = confine::landlock_version().at(Step::Landlock)?;
        // Ports are left to the network namespace: a test that talks to itself needs them.
        let handled = [Handled::behind_mounts, Handled::everything]
            .map(|handled| handled(version, helve_core::Network::Host));
        confine::install(&seccomp::outer()).at(Step::Seccomp)?;
        // SAFETY: plain numbers.
        if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) } == -1 {
            return Err((Step::Process, errno()));
        }
        Ok((World::new(setup, template, origin, null, handled), laid))
    }
}

/// Namespaces that wait to be entered.
struct Namespaces {
    /// Who commands are in them and outside.
    ids: (Ids, Ids),
    holder: Option<Holder>,
    /// Opened when the user namespace is about to be entered: afterwards nothing of the holder may be looked at.
    network: Result<OwnedFd, Failure>,
}

impl Namespaces {
    fn make(identity: &Identity) -> Result<Namespaces, Failure> {
        Namespaces::of(Holder::namespaces()?, identity)
    }

    fn of(holder: Holder, identity: &Identity) -> Result<Namespaces, Failure> {
        let ids @ (inner, outer) = identity.ids();
        let one = |inner: u32, outer: u32| format!("{inner} {outer} 1\n");
        holder.stand(&one(inner.0, outer.0), &one(inner.1, outer.1))?;
        Ok(Namespaces { ids, holder: Some(holder), network: Err((Step::Namespaces, libc::ENOENT)) })
    }

    /// Enters them, except the network: this process has every capability there, and is the command's user.
    fn enter(&mut self, identity: &Identity) -> Result<(), Failure> {
        if identity.is_root() {
            // SAFETY: an empty list of groups; nothing is read through the null pointer.
            if unsafe { libc::setgroups(0, std::ptr::null()) } == -1 {
                return Err((Step::Identity, errno()));
            }
        }
        if let Some(holder) = self.holder.take() {
            self.network = holder.network();
            holder.enter()?;
        }
        let ((user, group), _) = self.ids;
        // SAFETY: plain numbers.
        unsafe {
            if identity.is_root()
                && (libc::setresgid(group, group, group) == -1 || libc::setresuid(user, user, user) == -1)
            {
                return Err((Step::Identity, errno()));
            }
        }
        Ok(())
    }
}

/// A mount namespace from which nothing gets out.
fn own_mounts() -> Result<(), Failure> {
    unshare(libc::CLONE_NEWNS).at(Step::Namespaces)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).at(Step::Mounts)
}

/// Leaves namespaces of this process for new ones.
pub(super) fn unshare(flags: c_int) -> Result<(), c_int> {
    // SAFETY: plain numbers; this process has one thread.
    if unsafe { libc::unshare(flags) } == -1 { Err(errno()) } else { Ok(()) }
}
