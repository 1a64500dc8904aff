//! Programs that people call read-only, with the options that make them something else.

use super::{Invocation, Meaning};

/// What the argv means, if this table knows the program.
pub(super) fn understand(_invocation: &Invocation<'_>) -> Option<Meaning> {
    None
}
