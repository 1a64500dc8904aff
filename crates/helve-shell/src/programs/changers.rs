//! Programs that change files, machines and networks.

use super::{Invocation, Meaning};

/// What the argv means, if this table knows the program.
pub(super) fn understand(_invocation: &Invocation<'_>) -> Option<Meaning> {
    None
}
