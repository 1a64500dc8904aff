//! The only unsafe code of this crate: one supervisor process per call.
//!
//! ```text
//! Helve ── fork ──► supervisor ── vfork + exec ──► command ──► whatever it starts
//!   │ lifeline pipe ──►│ (subreaper)                                 │
//!   │◄── report pipe ──│◄───────── orphans come back here ───────────┘
//! ```
//!
//! The supervisor waits for the command's end or for the closing of the lifeline by whatever cause, Helve's own death by
//! SIGKILL included; a byte on the lifeline is a signal for the command. Then it kills its children until none is left. An orphan becomes its child, so
//! neither a new session nor a double fork escapes. A pipe is used because `PR_SET_PDEATHSIG` follows the thread that
//! forked, not the process.
//!
//! Between fork and exec only async-signal-safe calls are made and nothing is allocated: the other threads of the
//! forking process are gone, with whatever locks they held.
//!
//! Not here: what to start (the backends), the pipes' bytes (`drain`), deadlines (`spawn`).
#![expect(
    unsafe_code,
    reason = "fork, vfork, exec and signals have no safe interface that keeps their rules"
)]

pub(crate) mod acts;
mod command;
pub(crate) mod confine;
mod descriptors;
pub(crate) mod ear;
mod early;
pub(crate) mod everything;
mod launch;
pub(crate) mod loaded;
pub(crate) mod locks;
pub(crate) mod native;
mod raw;
mod report;
mod supervisor;

pub(crate) use launch::{Launch, Program, Supervisor, launch};
pub(crate) use report::{Ending, Stage, Told, read_report};
