//! Resolve: a name in, the tool out. The dialect's name if calls come in one, then exact, then alias, then a question; a
//! guess is never run.

use std::sync::Arc;

use helve_core::{ErrorKind, ToolError};

use crate::nearest;
use crate::registry::{Entry, Registry, Spoken};

/// So many names are given to whoever asked for one that no tool has.
const MOST_NAMED: usize = 100;

/// A tool, and how it was called.
#[derive(Clone, Copy)]
pub(crate) struct Found<'r> {
    pub(crate) entry: &'r Arc<Entry>,
    /// Its face in the dialect, if it was called by that.
    pub(crate) spoken: Option<&'r Spoken>,
}

/// The stage.
pub(crate) fn resolve<'r>(registry: &'r Registry, name: &str) -> Result<Found<'r>, ToolError> {
    find(registry, name).ok_or_else(|| unknown(registry, name))
}

/// The same for whoever asks no more than whether there is one.
pub(crate) fn find<'r>(registry: &'r Registry, name: &str) -> Option<Found<'r>> {
    if let Some(spoken) = registry.spoken(name) {
        return Some(Found { entry: spoken.entry(), spoken: Some(spoken) });
    }
    let entry = registry.get(name).or_else(|| registry.by_alias(name))?;
    Some(Found { entry, spoken: None })
}

fn unknown(registry: &Registry, name: &str) -> ToolError {
    if let Some(kept_out) = registry.quarantined().iter().find(|q| q.name == name) {
        let reasons = kept_out.reasons.join("; ");
        return ToolError::new(ErrorKind::UnknownTool, format!("Tool '{name}' is kept out: {reasons}."))
            .hint("Its author has to correct the schema.");
    }
    let mut names = registry.shown_names();
    let mut message = format!("Tool '{}' not found.", name.chars().take(64).collect::<String>());
    if let Some(near) = nearest(name, names.iter().copied()) {
        message.push_str(&format!(" Did you mean '{near}'?"));
    }
    let more = match names.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(MOST_NAMED);
    ToolError::new(ErrorKind::UnknownTool, message)
        .hint(format!("Tool names must match exactly. Available: {}{more}.", names.join(", ")))
}
