//! The sandbox by itself: a program of the owner's own in a view of the world, without tools, guard or journal.
//!
//! In: a [`View`], [`ProcessLimits`] and a [`SandboxChoice`], for example those that a [`crate::Policy`] gives. Out: a
//! [`crate::ShellBackend`], whose `attach` runs a program on its caller's own streams. Calls of a model never come this way:
//! they go through the pipeline of a [`crate::Runtime`].
//!
//! The native sandbox starts the surrounding program again as its helper. On Linux with glibc that needs nothing; elsewhere
//! `main` calls [`run_helper_if_asked`] first. A program that runs one command and ends is faster with [`helper_ahead`].
//! What a backend runs is awaited in a tokio runtime whose I/O and time drivers are enabled (`enable_all`).

pub use helve_core::{
    Act, Attach, CallGroup, Cause, ContainerChoice, ContainerEngine, Denied, DenyRead, Ended, Exit, Explain,
    Explained, FilesHelper, Layer, LayerEntry, LayerLinks, LayerOutcome, LayerPart, LayerReport, LimitHit,
    Network, ProcessLimits, Removed, SandboxChoice, ShellJob, View, Work,
};
pub use helve_policy::{Grant as ViewGrant, Refused, RefusedBy};
pub use helve_runtime::{check_workspace, check_writable, hold_layer};
#[doc(hidden)]
pub use helve_sandbox::native_unseen;
pub use helve_sandbox::{
    ActFinding, Expected, Findings, HelperAhead, Lack, LayerFinding, Outcome, PoolSize, SandboxFinding,
    backend, helper_ahead, ladder, native, probe, run_helper_if_asked, use_helper,
};
pub use helve_tools::{LayerChanged, layer_changes};
