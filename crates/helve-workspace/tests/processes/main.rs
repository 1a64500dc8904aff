//! The workspace among processes that are killed, that have no disk left, and that exchange names behind its back.
//!
//! Tests start this program again to play a role of its own; a role is an ignored test. With `HELVE_TEST_SOAK=1` all runs
//! at full length.

#[cfg(test)]
mod common;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod race;
#[cfg(test)]
mod turns;
