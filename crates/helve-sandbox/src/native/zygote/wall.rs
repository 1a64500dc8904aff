//! The wall around a zygote's members: how it is built, and what is around each of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use helve_core::{Exit, LimitHit, ProcessLimits};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;

use super::super::socket;
use super::super::wire::ENCLOSE;
use super::Zygote;
use crate::cgroup::{Groups, Own, Room, user_of};

/// How many seconds it may take to make a namespace while it makes members too.
const ENCLOSED_WITHIN: i64 = 5;

/// The control groups around one member.
pub(in crate::native) enum Wall {
    /// There are none.
    None,
    /// Those of its zygote.
    Shared,
    /// One of its own.
    Own(Room),
}

impl Wall {
    /// What the member's init is given of the group that its command is to be born in, if there is one.
    pub(in crate::native) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.room().into_iter().flat_map(Room::descriptors)
    }

    /// The command's own group, if it has one.
    pub(in crate::native) fn room(&self) -> Option<&Room> {
        match self {
            Wall::Own(room) => Some(room),
            Wall::None | Wall::Shared => None,
        }
    }

    /// Whether the command of one of the zygote's members, which ended so, hit it.
    pub(in crate::native) fn hit(
        &self,
        zygote: &Zygote,
        exit: Exit,
        limits: &ProcessLimits,
    ) -> Option<LimitHit> {
        match (self, zygote.groups()) {
            (Wall::Own(room), _) => room.hit(exit),
            (Wall::Shared, Some(Groups::Shared(groups))) => groups.hit(exit, limits),
            (Wall::Shared | Wall::None, _) => None,
        }
    }
}

impl Zygote {
    /// Puts it, and with it all members that it makes from now on, behind a wall of control groups, where the host gives
    /// any. The kernel takes some milliseconds for that. Only once it is ready.
    pub(in crate::native) fn fence(&self, limits: &ProcessLimits) {
        let groups = Groups::for_view(limits).filter(|groups| {
            let pid = self.process.id();
            match groups {
                Groups::Shared(groups) => groups.enter(pid).is_ok(),
                // Once it is inside, the groups stay as long as it does, open or not.
                Groups::Own(groups) => groups.enter(pid).inspect(|()| drop(self.divide(groups))).is_ok(),
            }
        });
        let _ = self.groups.set(groups);
    }

    fn divide(&self, groups: &Own) -> io::Result<()> {
        self.enclose()?;
        let user = user_of(self.process.id()).ok_or(io::ErrorKind::NotFound)?;
        groups.divide(user)
    }

    /// Has it make a control group namespace, and waits for that.
    fn enclose(&self) -> io::Result<()> {
        let (done, says) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        socket::send(self.control(), &[&ENCLOSE.to_ne_bytes()], &[says.as_fd()])?;
        drop(says);
        let limit = Timespec { tv_sec: ENCLOSED_WITHIN, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(&done, PollFlags::IN)], Some(&limit))?;
        // Where it took too long this would block.
        rustix::io::ioctl_fionbio(&done, true)?;
        match rustix::io::read(&done, &mut [0])? {
            1 => Ok(()),
            _ => Err(io::Error::other("no control group namespace could be made")),
        }
    }

    fn groups(&self) -> Option<&Groups> {
        self.groups.get()?.as_ref()
    }

    /// Whether members that are made now are behind a wall.
    pub(in crate::native) fn is_fenced(&self) -> bool {
        match self.groups() {
            Some(Groups::Shared(_)) => true,
            Some(Groups::Own(groups)) => groups.is_open(),
            None => false,
        }
    }

    /// The wall around a member that is made now.
    pub(in crate::native) fn wall(&self) -> Wall {
        match self.groups() {
            Some(Groups::Shared(_)) => Wall::Shared,
            Some(Groups::Own(groups)) => groups.room().map_or(Wall::None, Wall::Own),
            None => Wall::None,
        }
    }

    /// Makes members without a group of their own from now on.
    pub(in crate::native) fn open_wall(&self) {
        if let Some(Groups::Own(groups)) = self.groups() {
            groups.close();
        }
    }

    /// Removes control groups of commands that are over, and makes one for the next where `more` are to be expected.
    /// Whether there are some that cannot be removed yet.
    pub(in crate::native) fn tidy(&self, more: bool) -> bool {
        match self.groups() {
            Some(Groups::Own(groups)) => groups.tidy(more),
            Some(Groups::Shared(_)) | None => false,
        }
    }
}
