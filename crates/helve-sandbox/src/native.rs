//! Helve's side of the native sandbox.
#![allow(dead_code, reason = "the zygote's other side is being written")]

pub(crate) mod setup;
pub(crate) mod wire;
