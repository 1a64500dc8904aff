//! What the sandboxes hold, with real processes: attacks, greedy commands, everyday work, warm shells, endurance.
//!
//! Every suite runs on each sandbox that works here, as the user who started it and, where that is root, as an ordinary
//! user too: the program starts itself again through `setpriv`. Cases are lines of JSON under `tests/cases`. An attack
//! also runs without a sandbox, in a throw-away world of namespaces, to show that it is one.
//!
//! | variable | meaning |
//! |---|---|
//! | `HELVE_TEST_REQUIRE_SANDBOX=1` | a sandbox that does not work here fails the tests instead of skipping them |
//! | `HELVE_TEST_SOAK=1` | endurance at full length, greedy commands in bwrap and landlock, and every command of the shared data |
//! | `HELVE_TEST_PATIENCE=10` | so many times longer may everything take; for a machine that is emulated |
//! | `HELVE_TEST_DELEGATED=1` | each suite in a unit of systemd with a control group that is handed down to it; needs root |
//! | `HELVE_TEST_CASE` | only cases whose name begins so |
//! | `HELVE_SHARED_CASES`, `HELVE_SHARED_DATA` | directories with more cases and commands; skipped where not set |

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod basics;
#[cfg(test)]
mod check;
#[cfg(test)]
mod common;
#[cfg(test)]
#[path = "../support/engine.rs"]
mod engine;
#[cfg(test)]
mod everyday;
#[cfg(test)]
mod groups;
#[cfg(test)]
#[path = "../support/kernel.rs"]
mod kernel;
#[cfg(test)]
mod live;
#[cfg(test)]
mod resource;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod survivors;
#[cfg(test)]
mod warm;
#[cfg(test)]
mod witness;
#[cfg(test)]
mod world;
