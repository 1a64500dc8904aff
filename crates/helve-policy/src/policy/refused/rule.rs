//! What refuses an act to a command, and how it is written: the key of the configuration with its entry or value.

use std::fmt;
use std::path::PathBuf;

use crate::config::keys;
use crate::config::layers::WORKSPACE_FILE;
use crate::policy::ExecMode;

/// What refused an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The path is outside everything that commands see.
    NotShown,
    /// The entry of `view.hidden`.
    Hidden(PathBuf),
    /// A file or directory of Helve's own, or a file of `secrets`.
    Own(PathBuf),
    /// The pattern of `files.deny_read`.
    DenyRead(String),
    /// The path is shown and not writable; the entry of `view.read_only` that shows it, if one does.
    ReadOnly(Option<PathBuf>),
    /// The workspace's own file, which no command changes.
    WorkspaceFile,
    /// The command runs over a layer, and only the workspace has one.
    Layer(ExecMode),
    /// The name of `view.protected`.
    Protected(String),
    /// Commands have no network.
    Network,
    /// The system call filter.
    Filter,
    /// The kernel, because commands have no capability.
    Capability,
    /// The limit of this name and its value.
    Limit(&'static str, u64),
    /// The time that the command had, in seconds.
    Time(u64),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::NotShown => {
                write!(f, "not in {} or {}", keys::VIEW_READ_ONLY, keys::VIEW_READ_WRITE)
            }
            Rule::Hidden(entry) => write!(f, "{} {:?}", keys::VIEW_HIDDEN, entry.display().to_string()),
            Rule::Own(_) => write!(f, "Helve's own files"),
            Rule::DenyRead(pattern) => write!(f, "{} {pattern:?}", keys::FILES_DENY_READ),
            Rule::ReadOnly(Some(entry)) => {
                write!(f, "{} {:?}", keys::VIEW_READ_ONLY, entry.display().to_string())
            }
            Rule::ReadOnly(None) => write!(f, "not in {}", keys::VIEW_READ_WRITE),
            Rule::WorkspaceFile => write!(f, "the workspace's own {WORKSPACE_FILE}"),
            Rule::Layer(ExecMode::Preview) => write!(f, "{} = \"preview\"", keys::EXEC_MODE),
            Rule::Layer(_) => write!(f, "{} = true", keys::EXEC_CHECKPOINT),
            Rule::Protected(name) => write!(f, "{} {name:?}", keys::VIEW_PROTECTED),
            Rule::Network => write!(f, "{} = false", keys::EXEC_NETWORK),
            Rule::Filter => write!(f, "the system call filter"),
            Rule::Capability => write!(f, "no command has a capability"),
            Rule::Limit(name, value) => write!(f, "limits.{name} = {value}"),
            Rule::Time(seconds) => write!(f, "the command's time of {seconds} seconds"),
        }
    }
}
