//! The backends with real processes: what a command gets, what it cannot reach, and that nothing of it survives.
//!
//! One program, so that a test can start it again as a process of its own (see `role`). Where bwrap cannot work at all,
//! its tests say so and pass; with `HELVE_TEST_REQUIRE_SANDBOX=1` in the environment they fail.

#[cfg(test)]
mod common;

#[cfg(test)]
mod deny_read;
#[cfg(test)]
mod endings;
#[cfg(test)]
#[path = "../support/kernel.rs"]
mod kernel;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod native;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod protect;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod rung;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod view;
#[cfg(test)]
mod working_dir;
#[cfg(test)]
mod wrapper;
