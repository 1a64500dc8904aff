//! What a sandboxed process may see: emitted by policy, implemented by a sandbox backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::denied::{CallGroup, Explain};

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
    /// Names of files and directories that, at any depth of the workspace, run or configure programs without being
    /// asked: a command can neither change them nor leave new ones behind. `.git` stands for what in a repository does
    /// so (hooks, configuration), not for the whole.
    pub protected: Vec<String>,
    /// Patterns of paths of the workspace ([`crate::DenyRead`]) that a command cannot read, where something is there when
    /// it begins.
    pub deny_read: Vec<String>,
    /// The whole environment of the process.
    pub env: BTreeMap<String, String>,
    /// What it may reach.
    pub network: Network,
    /// System calls that are granted to it besides the usual ones.
    pub system_calls: Vec<CallGroup>,
    /// How closely it is watched for what is refused to it.
    pub explain: Explain,
    /// The shell that reads the command.
    pub shell: PathBuf,
}

/// Which sandbox the owner chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxChoice {
    /// The strongest of Helve's own that this machine can give: native, else landlock, else none at all.
    Auto,
    /// Helve's own: namespaces, mounts, Landlock, a system call filter and limits.
    Native,
    /// Helve's own without namespaces: Landlock, a system call filter and limits.
    Landlock,
    /// The installed bubblewrap with the view.
    Bwrap,
    /// The owner's own command template around each command.
    Wrapper {
        /// The template of `tools.exec.commandWrapper`.
        template: String,
    },
    /// A container of Docker or Podman, one for all commands of a session.
    Container(ContainerChoice),
    /// No sandbox: the owner wrote `sandbox = "none"`.
    None,
}

/// Which container the owner chose. Nothing of it comes from a model or from a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerChoice {
    /// The image; none if the owner named none, and then no container is made.
    pub image: Option<String>,
    /// Whose engine; none for whichever is there.
    pub engine: Option<ContainerEngine>,
    /// Its socket; none for the usual place.
    pub socket: Option<PathBuf>,
    /// How many processors it may use; none for all.
    pub cpus: Option<u64>,
}

/// An engine of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEngine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

/// Bounds on a command and everything that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open descriptors of one process.
    pub open_files: u64,
    /// Bytes of any file that it writes.
    pub file_bytes: u64,
    /// Bytes of memory of all its processes, its `/tmp` included.
    pub memory_bytes: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Processor time of all its processes, in seconds.
    pub cpu_seconds: u64,
    /// By how many bytes the free space of the disk may fall while it runs.
    pub disk_bytes: u64,
    /// Bytes in its `/tmp` and its other private directories.
    pub tmp_bytes: u64,
}
