//! How a configured server stands, by what was kept of it. Nothing is started.

use helve::ConfiguredServer;
use helve::store::{Pins, ServerEvent, ServerLogs};

use crate::failure::Failure;
use crate::setup;

/// What is known about a server.
#[derive(Default)]
pub(in crate::commands) struct Standing {
    /// How many of its tools are pinned; none where it never started.
    pub(in crate::commands) pinned: Option<usize>,
    /// When it last started.
    pub(in crate::commands) last_start: Option<ServerEvent>,
    /// What last went wrong, if nothing went right since.
    pub(in crate::commands) last_error: Option<ServerEvent>,
    /// Why what was kept cannot be read.
    pub(in crate::commands) problem: Option<String>,
}

/// How each of the servers stands, in their order.
pub(in crate::commands) fn all(servers: &[ConfiguredServer]) -> Result<Vec<Standing>, Failure> {
    let home = if servers.is_empty() { None } else { setup::existing_home()? };
    let of = |server: &ConfiguredServer| {
        let Some(home) = &home else { return Standing::default() };
        let name = &server.spec.name;
        let (pinned, problem) = match Pins::new(home).of(name) {
            Ok(pins) => (pins.map(|pins| pins.len()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let events = ServerLogs::new(home, 0).of(name).unwrap_or_default();
        let last = |kinds: &[&str]| events.iter().rposition(|event| kinds.contains(&event.kind.as_str()));
        let (start, error) = (last(&["started"]), last(&["failed"]));
        Standing {
            pinned,
            last_start: start.map(|at| events[at].clone()),
            last_error: error.filter(|at| start.is_none_or(|start| start < *at)).map(|at| events[at].clone()),
            problem,
        }
    };
    Ok(servers.iter().map(of).collect())
}
