//! What a sandbox refused while a command ran, as far as it was seen.
//!
//! The evidence comes out of the command's own calls and memory, which it may change at any moment: it is a hint for
//! people, and nothing is ever decided by it. What was not seen may have been refused all the same.

use std::net::SocketAddr;
use std::path::PathBuf;

/// How closely a command is watched for what is refused to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Explain {
    /// Rare calls: sockets, connections, programs, and every call that the filter refuses.
    #[default]
    Rare,
    /// Files too: each path that it opens or changes. That costs time with every one of them.
    Full,
}

impl Explain {
    /// As it is written in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Explain::Rare => "rare",
            Explain::Full => "full",
        }
    }
}

/// System calls that the filter refuses unless the owner grants them, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallGroup {
    /// Following other processes of the same call: `ptrace`, `process_vm_readv`, `process_vm_writev`.
    Ptrace,
    /// `io_uring_setup`, `io_uring_enter`, `io_uring_register`.
    IoUring,
    /// `perf_event_open`.
    Perf,
    /// `userfaultfd`.
    Userfaultfd,
}

impl CallGroup {
    /// All of them.
    pub const ALL: [CallGroup; 4] =
        [CallGroup::Ptrace, CallGroup::IoUring, CallGroup::Perf, CallGroup::Userfaultfd];

    /// As it is written in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            CallGroup::Ptrace => "ptrace",
            CallGroup::IoUring => "io_uring",
            CallGroup::Perf => "perf",
            CallGroup::Userfaultfd => "userfaultfd",
        }
    }

    /// The group of that name.
    pub fn from_name(name: &str) -> Option<CallGroup> {
        CallGroup::ALL.into_iter().find(|group| group.as_str() == name)
    }
}

/// One thing that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// What the command tried.
    pub act: Act,
    /// What refused it.
    pub cause: Cause,
    /// How often.
    pub times: u32,
}

/// What a command tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// To read a file, or to list a directory.
    Read(PathBuf),
    /// To make, change, move or delete what has this name.
    Write(PathBuf),
    /// To run a program.
    Execute(PathBuf),
    /// To reach an address of a network.
    Connect {
        /// The address.
        address: SocketAddr,
        /// Whether it is a datagram that would have been sent.
        datagram: bool,
    },
    /// To reach a socket of the file system.
    ConnectUnix(PathBuf),
    /// To make a socket of this kind: `AF_PACKET`, `AF_INET SOCK_RAW`.
    Socket(String),
    /// To make a system call, with what is known of its arguments: `mount`, `ptrace`, `unshare CLONE_NEWUSER`.
    SystemCall {
        /// Its name.
        name: String,
        /// The group that would grant it, if one does.
        group: Option<CallGroup>,
    },
}

/// What refused an act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The path is outside everything that the view shows.
    NotShown,
    /// The path is one of the view's hidden ones, or beneath one: this one.
    Hidden(PathBuf),
    /// A pattern of `deny_read` covers the path: this one.
    DenyRead(String),
    /// The path is shown and may not be changed.
    ReadOnly,
    /// The path runs or configures programs without being asked: this protected name.
    Protected(String),
    /// The view has no network.
    NoNetwork,
    /// The system call filter.
    Filter,
    /// The kernel: the command has no capability.
    NoCapability,
}
