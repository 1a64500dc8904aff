//! What the kernel is told about one process before it becomes the command: which system calls exist for it and which
//! files it may open. Plain data; `sys::confine` hands it over.
//!
//! ```text
//! seccomp    a table of system calls ──► a filter program     native (in two parts), landlock, bwrap
//! landlock   what the kernel knows   ──► rights for a place    native, landlock
//! ```
//!
//! Deliberately not here: which places a view shows (`plan`), and any system call.

pub(crate) mod landlock;
pub(crate) mod seccomp;
