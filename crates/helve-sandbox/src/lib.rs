//! Runs one command in a view of the world and ends everything that it started.
//!
//! In: a [`View`] (what the command may see), [`ProcessLimits`], and which sandbox the owner chose. Out: a
//! [`ShellBackend`] that runs commands, streams their bytes into a sink and says how they ended.
//!
//! ```text
//! ladder ── probe                 the choice `auto`: the best of Helve's own that holds here, found by trying
//! native                          Helve's own: a pool of sandboxes made beforehand, each used once (sys::native makes them)
//! container                       a container of Docker or Podman, with a helper that stays in it
//! call                            one call, the same way for every other sandbox
//!   ├ rung │ bwrap │ wrapper │ bare   what to start, and what the ending means
//!   │   └ workdir                 where it starts, resolved by the kernel beneath the view
//!   └ spawn                       deadline, cancellation, dropped future
//!       └ drain                   bytes from the pipes into the sink, on a thread of its own
//!           └ sys                 supervisor process: starts the command, kills its whole tree (all unsafe code)
//! ```
//!
//! `protect` keeps the protected paths of the workspace, before and after each call; `git_config` reads what git obeys.
//! The view is always given from outside. Deliberately not here: configuration, the guard that reads a command,
//! redaction and truncation of output, and any fallback: a sandbox that cannot be had is an error, never a bare run.

mod bare;
mod bwrap;
mod call;
mod cgroup;
mod confine;
mod container;
mod drain;
pub mod git_config;
mod ladder;
mod namespaces;
mod native;
mod numbers;
mod plan;
mod probe;
mod program;
mod protect;
mod rung;
mod spawn;
mod sys;
mod workdir;
mod wrapper;

use std::path::PathBuf;
use std::sync::Arc;

use call::Backend;
use helve_core::{ProcessLimits, SandboxChoice, ShellBackend, ToolError, View};

pub use container::{FilesAnswer, run_container_helper_if_asked};
pub use native::{HelperAhead, PoolSize, helper_ahead, run_helper_if_asked, use_helper};
pub use probe::{ActFinding, Expected, Findings, Lack, LayerFinding, Outcome, SandboxFinding, probe};

/// The backend of the owner's choice, bound to `view`. Starts no process; a sandbox that is missing shows itself at
/// the first run, as `sandbox_unavailable`. A view with a rule that the sandbox could not keep is refused here.
///
/// What it runs has to be awaited in a tokio runtime whose I/O and time drivers are enabled, as tokio's own processes have;
/// elsewhere that panics.
pub fn backend(
    choice: &SandboxChoice,
    view: View,
    limits: ProcessLimits,
) -> Result<Arc<dyn ShellBackend>, ToolError> {
    Ok(match choice {
        SandboxChoice::Native => return native(view, limits, PoolSize::default()),
        SandboxChoice::Landlock => Arc::new(Backend(rung::Rung::new(view, limits)?)),
        SandboxChoice::Auto => return ladder(view, limits, None),
        SandboxChoice::Bwrap => Arc::new(Backend(bwrap::Bwrap::new(view, limits)?)),
        SandboxChoice::Wrapper { template } => {
            Arc::new(Backend(wrapper::Wrapper::new(template, view, limits)?))
        }
        SandboxChoice::Container(choice) => {
            Arc::new(container::Container::new(choice.clone(), view, limits)?)
        }
        SandboxChoice::None => Arc::new(Backend(bare::Bare::new(view, limits))),
    })
}

/// Helve's own sandbox, bound to `view`, with a pool of the given size. As [`backend`] for [`SandboxChoice::Native`], for
/// programs that know how many commands they run.
pub fn native(view: View, limits: ProcessLimits, pool: PoolSize) -> Result<Arc<dyn ShellBackend>, ToolError> {
    Ok(Arc::new(native::Native::new(view, limits, pool)?))
}

/// The same without anybody who sees what is refused: what watching costs is measured against it.
#[doc(hidden)]
pub fn native_unseen(
    view: View,
    limits: ProcessLimits,
    pool: PoolSize,
) -> Result<Arc<dyn ShellBackend>, ToolError> {
    Ok(Arc::new(native::Native::new(view, limits, pool)?.unseen()))
}

/// The best of Helve's own sandboxes that this machine gives, as [`backend`] for [`SandboxChoice::Auto`]; what it gives is
/// found out at the first use and remembered in `remember_in`, a directory that no command can write, if it is the caller's
/// alone.
pub fn ladder(
    view: View,
    limits: ProcessLimits,
    remember_in: Option<PathBuf>,
) -> Result<Arc<dyn ShellBackend>, ToolError> {
    Ok(Arc::new(ladder::Ladder::new(view, limits, remember_in)?))
}
