//! The registry while it changes: calls take the one of the moment, a change puts another in its place.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use helve_core::Tool;
use tokio::sync::watch;

use super::{RegisterError, Registry};

/// The registry of the moment, and how often it has changed.
pub(crate) struct Live {
    now: RwLock<Arc<Registry>>,
    /// Held while a change is made, so that none is lost.
    changing: Mutex<()>,
    version: watch::Sender<u64>,
}

impl Live {
    pub(crate) fn new(registry: Registry) -> Self {
        let (version, _) = watch::channel(0);
        Live { now: RwLock::new(Arc::new(registry)), changing: Mutex::new(()), version }
    }

    /// The registry as it is now; it stays as it is while it is held.
    pub(crate) fn now(&self) -> Arc<Registry> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Puts `tools` in the place of the group's tools. `builtin` ones may bear protected names.
    pub(crate) fn set(
        &self,
        group: &str,
        tools: Vec<Box<dyn Tool>>,
        builtin: bool,
    ) -> Vec<Result<(), RegisterError>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut registry = Registry::clone(&self.now());
        let answers = registry.set_group(group, tools, builtin);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
        self.version.send_modify(|version| *version += 1);
        answers
    }
}

impl Registry {
    fn set_group(
        &mut self,
        group: &str,
        tools: Vec<Box<dyn Tool>>,
        builtin: bool,
    ) -> Vec<Result<(), RegisterError>> {
        for name in self.groups.remove(group).unwrap_or_default() {
            self.entries.remove(&name);
            self.aliases.retain(|_, tool| *tool != name);
            self.quarantined.retain(|kept_out| kept_out.name != name);
        }
        let mut names = Vec::with_capacity(tools.len());
        let mut take = |tool: Box<dyn Tool>| {
            let name = tool.spec().name.clone();
            if builtin {
                self.register_builtin(tool)?
            } else {
                self.register(tool)?
            }
            names.push(name);
            Ok(())
        };
        let answers = tools.into_iter().map(&mut take).collect();
        self.groups.insert(group.to_owned(), names);
        answers
    }
}
