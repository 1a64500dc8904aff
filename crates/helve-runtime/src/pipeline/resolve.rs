//! Resolve: a name in, the tool out. Exact, then alias, then a question; a guess is never run.

use std::sync::Arc;

use helve_core::{ErrorKind, ToolError};

use crate::nearest;
use crate::registry::{Entry, Registry};

/// The stage.
pub(crate) fn resolve<'r>(registry: &'r Registry, name: &str) -> Result<&'r Arc<Entry>, ToolError> {
    registry.get(name).or_else(|| registry.by_alias(name)).ok_or_else(|| unknown(registry, name))
}

fn unknown(registry: &Registry, name: &str) -> ToolError {
    if let Some(kept_out) = registry.quarantined().iter().find(|q| q.name == name) {
        let reasons = kept_out.reasons.join("; ");
        return ToolError::new(ErrorKind::UnknownTool, format!("Tool '{name}' is kept out: {reasons}"))
            .hint("Its author has to correct the schema.");
    }
    let names: Vec<&str> = registry.names().collect();
    let mut message = format!("Tool '{}' not found.", name.chars().take(64).collect::<String>());
    if let Some(near) = nearest(name, names.iter().copied()) {
        message.push_str(&format!(" Did you mean '{near}'?"));
    }
    ToolError::new(ErrorKind::UnknownTool, message)
        .hint(format!("Tool names must match exactly. Available: {}.", names.join(", ")))
}
