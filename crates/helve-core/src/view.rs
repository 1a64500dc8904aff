//! What a sandboxed process may see: emitted by policy, implemented by a sandbox backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a sandboxed process may reach over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing: an empty network namespace.
    Off,
    /// The host's network as it is.
    Host,
}

/// The compiled description of a sandboxed process's world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The workspace: read-write, the starting directory.
    pub workspace: PathBuf,
    /// Visible, not writable. What does not exist is left out.
    pub read_only: Vec<PathBuf>,
    /// Visible and writable, besides the workspace.
    pub read_write: Vec<PathBuf>,
    /// Covered by nothingness even where a visible directory holds them.
    pub hidden: Vec<PathBuf>,
    /// The whole environment of the process.
    pub env: BTreeMap<String, String>,
    /// What it may reach.
    pub network: Network,
    /// The shell that reads the command.
    pub shell: PathBuf,
}

/// Which sandbox the owner chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxChoice {
    /// The installed bubblewrap with the view.
    Bwrap,
    /// The owner's own command template around each command.
    Wrapper {
        /// The template of `tools.exec.commandWrapper`.
        template: String,
    },
    /// No sandbox: the owner wrote `sandbox = "none"`.
    None,
}

/// Bounds on one process of a command; enforced by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open descriptors.
    pub open_files: u64,
    /// Bytes of any file that it writes.
    pub file_bytes: u64,
}
