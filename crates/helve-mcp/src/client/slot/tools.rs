//! What is known of a server's tools, and whether one may be called.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::{ErrorKind, ToolError};

use super::{Catalog, Slot, State, lock};
use crate::client::definition::{self, Definition, Rejected};
use crate::client::keep::Pin;
use crate::client::look::ToolLook;
use crate::client::names;
use crate::client::oauth::off_loop;
use crate::client::pins::{Standing, pin_of};

impl Slot {
    /// Replaces what is known; tells whoever listens if it differs.
    pub(super) fn put(&self, catalog: Catalog) {
        let differs = {
            let mut now = lock(&self.catalog);
            let differs = now.tools != catalog.tools;
            *now = catalog;
            differs
        };
        if differs {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// What the owner has agreed to, without secrets.
    pub(super) async fn pins(&self) -> Result<Option<Vec<Pin>>, ToolError> {
        let (store, name) = (Arc::clone(&self.parts.pins), self.spec.name.clone());
        Ok(self.without_secrets(off_loop(move || store.pins(&name)).await?))
    }

    fn without_secrets(&self, mut pins: Option<Vec<Pin>>) -> Option<Vec<Pin>> {
        pins.iter_mut().flatten().for_each(|pin| (self.parts.hide)(&mut pin.definition));
        pins
    }

    /// What the pins say of the tools, for a server that has not been started.
    pub(crate) async fn recall(self: &Arc<Self>) -> Result<(), ToolError> {
        if self.is_known() {
            return Ok(());
        }
        let slot = Arc::clone(self);
        off_loop(move || slot.recall_now()).await
    }

    /// The same for who may wait for a disk.
    pub(crate) fn recall_now(&self) -> Result<(), ToolError> {
        let Some(pins) = self.without_secrets(self.parts.pins.pins(&self.spec.name)?) else { return Ok(()) };
        let looks = pins.into_iter().filter_map(|pin| {
            let definition = definition::read(&self.spec.name, &pin.definition).ok()?;
            let definition = Definition { hash: pin.hash, ..definition };
            let standing =
                if self.offered.offers(&definition.tool) { Standing::On } else { Standing::Denied };
            Some((definition.tool.clone(), ToolLook { definition, standing }))
        });
        let tools: BTreeMap<String, ToolLook> = looks.collect();
        if !lock(&self.catalog).is_known {
            self.put(Catalog { tools, rejected: Vec::new(), is_known: true });
        }
        Ok(())
    }

    /// Whether anything is known of its tools.
    pub(crate) fn is_known(&self) -> bool {
        lock(&self.catalog).is_known
    }

    /// Whether the tool that is shown under this name can be called; none if there is none.
    pub(crate) fn has(&self, shown: &str) -> Option<bool> {
        let catalog = lock(&self.catalog);
        let look = catalog.tools.values().find(|look| look.definition.shown_as == shown)?;
        Some(look.standing == Standing::On)
    }

    /// The server's own name of a tool.
    pub(crate) fn tool_shown(&self, shown: &str) -> Option<String> {
        let catalog = lock(&self.catalog);
        let look = catalog.tools.values().find(|look| look.definition.shown_as == shown)?;
        Some(look.definition.tool.clone())
    }

    /// Why the tool that is shown under this name cannot be called.
    pub(crate) fn may_call_shown(&self, shown: &str) -> Result<(), ToolError> {
        self.tool_shown(shown).map_or(Ok(()), |tool| self.may_call(&tool))
    }

    /// The tools that can be called.
    pub(crate) fn offered(&self) -> Vec<Definition> {
        let catalog = lock(&self.catalog);
        let on = catalog.tools.values().filter(|look| look.standing == Standing::On);
        on.map(|look| look.definition.clone()).collect()
    }

    /// Pins what the owner has seen, and holds what is known of the server's tools against that.
    pub(crate) async fn agree(&self, seen: &[Definition]) -> Result<(), ToolError> {
        let _one_at_a_time = self.listing.lock().await;
        let (store, name) = (Arc::clone(&self.parts.pins), self.spec.name.clone());
        let pins: Vec<Pin> = seen.iter().map(pin_of).collect();
        off_loop(move || store.pin(&name, pins)).await?;
        let known: Vec<Definition> =
            lock(&self.catalog).tools.values().map(|look| look.definition.clone()).collect();
        let standings = self.standings(&known).await?;
        let looks = known.into_iter().zip(standings);
        let looks =
            looks.map(|(definition, standing)| (definition.tool.clone(), ToolLook { definition, standing }));
        let (rejected, is_known) = {
            let catalog = lock(&self.catalog);
            (catalog.rejected.clone(), catalog.is_known)
        };
        self.put(Catalog { tools: looks.collect(), rejected, is_known });
        Ok(())
    }

    /// Why the tool that would be shown under this name is not there; nothing if it is, or if the server is and has none such.
    pub(crate) fn missing(&self, shown: &str) -> Option<ToolError> {
        if let Some(tool) = self.tool_shown(shown) {
            return self.may_call(&tool).err();
        }
        let left_out = {
            let catalog = lock(&self.catalog);
            let is = |rejected: &&Rejected| names::shown_name(&self.spec.name, &rejected.tool) == shown;
            catalog.rejected.iter().find(is).map(|rejected| rejected.tool.clone())
        };
        if let Some(tool) = left_out {
            return self.may_call(&tool).err();
        }
        match &*lock(&self.state) {
            State::Down { error, until } => Some(self.not_yet(error, *until)),
            State::Starting(_) if !self.is_known() => {
                let message = format!("The MCP server '{}' is still being started.", self.spec.name);
                Some(ToolError::failed(message).hint("Call again in a moment."))
            }
            _ => None,
        }
    }

    fn no_tool(&self, tool: &str) -> ToolError {
        ToolError::not_found(format!("The MCP server '{}' has no tool '{tool}'.", self.spec.name))
            .hint(format!("`helve mcp test {}` lists its tools.", self.spec.name))
    }

    /// A tool is called only as the owner agreed to it.
    pub(super) fn may_call(&self, tool: &str) -> Result<(), ToolError> {
        let catalog = lock(&self.catalog);
        let name = &self.spec.name;
        let Some(look) = catalog.tools.get(tool) else {
            return Err(match catalog.rejected.iter().find(|rejected| rejected.tool == tool) {
                Some(rejected) => ToolError::new(
                    ErrorKind::Blocked,
                    format!("The tool '{tool}' of the MCP server '{name}' is left out: {}.", rejected.reason),
                ),
                None => self.no_tool(tool),
            });
        };
        let off = |why: String| {
            Err(ToolError::new(ErrorKind::Blocked, why).hint(format!(
                "`helve mcp trust {name} --tool {tool}` shows what is new and asks the owner."
            )))
        };
        let hash = &look.definition.hash;
        match &look.standing {
            Standing::On => Ok(()),
            Standing::Changed { agreed, .. } => off(format!(
                "The tool '{tool}' of the MCP server '{name}' is not what the owner agreed to: {agreed} then, {hash} now."
            )),
            Standing::New => off(format!(
                "The tool '{tool}' of the MCP server '{name}' was not there when the owner agreed to its tools ({hash})."
            )),
            Standing::Denied => Err(ToolError::new(
                ErrorKind::Blocked,
                format!("The owner does not offer the tool '{tool}' of the MCP server '{name}'."),
            )
            .hint(format!("The lists are allow and deny in [mcp.servers.{name}]."))),
        }
    }
}
