//! Programs that change files, machines and networks.
//!
//! In comes an argv, out goes which of its arguments are written, deleted or contacted. One module a trade; each has the
//! option grammars of its programs. What a path is (a raw device, a start file, a credential) is not known here: only
//! which argument is one.

pub(crate) mod code;
mod hosts;
mod windows;

use super::{Deed, Invocation, Meaning, On};

/// What the argv means, if this table knows the program.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    windows::understand(invocation)
}
