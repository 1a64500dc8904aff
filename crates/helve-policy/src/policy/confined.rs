//! What commands are confined to: the view of the world and the bounds that a sandbox carries out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use helve_core::{CallGroup, Explain, ProcessLimits, View};

use super::{Policy, flag, list, text};
use crate::config::keys;
use crate::config::value::Value;
use crate::view::{self, Wishes};

impl Policy {
    /// The bounds on each process of a command.
    pub fn process_limits(&self) -> ProcessLimits {
        let limits = self.limits();
        ProcessLimits {
            open_files: limits.exec_open_files,
            file_bytes: limits.exec_file_bytes,
            memory_bytes: limits.exec_memory_bytes,
            processes: limits.exec_processes,
            cpu_seconds: limits.exec_cpu_seconds,
            disk_bytes: limits.exec_disk_bytes,
            tmp_bytes: limits.exec_tmp_bytes,
        }
    }

    /// What commands in `workspace` see; `home_state`, where Helve keeps its own state, is always hidden.
    pub fn view(&self, workspace: &Path, home_state: &Path) -> View {
        self.view_writing(workspace, home_state, &[])
    }

    /// The same, with more that commands can write.
    pub fn view_writing(&self, workspace: &Path, home_state: &Path, more: &[PathBuf]) -> View {
        let inner = &self.inner;
        let settings = &inner.settings;
        let mut hidden = inner.hidden.clone();
        hidden.push(home_state.to_owned());
        let prefix = format!("{}.", keys::EXEC_ENV);
        let fixed = settings.all_written().filter_map(|(name, value, _)| match value {
            Value::Text(value) => Some((name.strip_prefix(&prefix)?.to_owned(), value.clone())),
            _ => None,
        });
        let groups = list(settings, keys::EXEC_SYSTEM_CALLS).iter();
        let wishes = Wishes {
            sandbox: &inner.sandbox,
            read_only: &inner.guard.opened.read_only,
            read_write: inner.guard.opened.read_write.iter().chain(more).cloned().collect(),
            hidden,
            protected: &inner.guard.protected,
            deny_read: list(settings, keys::FILES_DENY_READ),
            path_append: text(settings, keys::EXEC_PATH_APPEND).unwrap_or_default(),
            fixed: fixed.collect::<BTreeMap<_, _>>(),
            passed: list(settings, keys::EXEC_ENV_PASS),
            network: flag(settings, keys::EXEC_NETWORK),
            system_calls: groups.filter_map(|name| CallGroup::from_name(name)).collect(),
            explain: self.explains(),
            shell: self.shell().to_owned(),
        };
        view::compile(wishes, workspace, &inner.around)
    }

    /// How closely commands are watched for what is refused to them.
    pub fn explains(&self) -> Explain {
        match text(&self.inner.settings, keys::EXEC_EXPLAIN) {
            Some("full") => Explain::Full,
            _ => Explain::Rare,
        }
    }
}
