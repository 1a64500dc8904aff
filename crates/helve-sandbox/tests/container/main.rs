//! The sandbox `container` with a real engine that the tests start themselves; skipped where that is impossible.

#[cfg(test)]
mod common;
#[cfg(test)]
#[path = "../support/engine.rs"]
mod engine;
#[cfg(test)]
mod life;
