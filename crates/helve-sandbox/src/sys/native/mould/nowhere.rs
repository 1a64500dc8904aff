//! No mould: what brings a shell to its first instruction, and copies it there, is written for x86-64 alone.

use libc::{c_int, pid_t};

use super::slot;
use super::world::World;
use crate::native::setup::Setup;

/// The number that a copy would have.
pub(super) const COPY: pid_t = 2;

/// Always false.
pub(super) fn may_be_copied(_: &Setup) -> bool {
    false
}

/// There is none.
pub(super) enum Mould {}

/// Nor does a member know of one.
#[derive(Clone, Copy)]
pub(super) enum Given {}

impl Mould {
    /// Always an error.
    pub(super) fn make(_: &World) -> Result<Mould, c_int> {
        Err(libc::ENOSYS)
    }

    /// Its process.
    pub(super) fn pid(&self) -> pid_t {
        match *self {}
    }

    /// What a member has to know of it.
    pub(super) fn given(&self) -> Given {
        match *self {}
    }
}

impl Given {
    /// The descriptor that a member keeps of it.
    pub(super) fn descriptor(self) -> c_int {
        match self {}
    }

    /// A copy.
    pub(super) fn copy(self, _: &slot::Given, _: &[u8], _: c_int, _: c_int) -> Result<Option<c_int>, c_int> {
        match self {}
    }
}
