//! How a configured server stands, by what was kept of it. Nothing is started.

use std::collections::BTreeSet;

use helve::ConfiguredServer;
use helve::mcp::client::try_definition;
use helve::store::{Pin, Pins, ServerEvent, ServerLogs};

use crate::failure::Failure;
use crate::setup;

/// What is known about a server.
#[derive(Default)]
pub(in crate::commands) struct Standing {
    /// How many of its tools are pinned; none where it never started.
    pub(in crate::commands) pinned: Option<usize>,
    /// How many of its tools are off because they have changed, or are new, since the owner agreed; by its last start.
    pub(in crate::commands) waiting: usize,
    /// How many of the pinned ones no runtime takes.
    pub(in crate::commands) kept_out: usize,
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
        let (pins, problem) = match Pins::new(home).of(name) {
            Ok(pins) => (pins, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let events = ServerLogs::new(home, 0).of(name).unwrap_or_default();
        let last = |events: &[ServerEvent], kinds: &[&str]| {
            events.iter().rposition(|event| kinds.contains(&event.kind.as_str()))
        };
        let (start, error) = (last(&events, &["started"]), last(&events, &["failed", "ended"]));
        Standing {
            pinned: pins.as_ref().map(Vec::len),
            kept_out: kept_out(name, pins.as_deref().unwrap_or_default()),
            waiting: waiting(&events, start, pins.as_deref().unwrap_or_default()),
            last_start: start.map(|at| events[at].clone()),
            last_error: error.filter(|at| start.is_none_or(|start| start < *at)).map(|at| events[at].clone()),
            problem,
        }
    };
    Ok(servers.iter().map(of).collect())
}

/// How many of these tools have a schema that keeps them out of calls.
fn kept_out(server: &str, pins: &[Pin]) -> usize {
    let is_kept_out = |pin: &&Pin| {
        let definition = try_definition(server, &pin.definition).ok();
        definition.is_some_and(|definition| helve::mcp::kept_out(&definition).is_some())
    };
    pins.iter().filter(is_kept_out).count()
}

/// How many tools were off at the last start, or have been since, that the owner has not agreed to by now. What is off is noted
/// before the start is, with its hash at the end.
fn waiting(events: &[ServerEvent], start: Option<usize>, pins: &[Pin]) -> usize {
    let before = start.and_then(|start| {
        events[..start]
            .iter()
            .rposition(|event| matches!(event.kind.as_str(), "started" | "failed" | "ended"))
    });
    let since = &events[before.map_or(0, |at| at + 1)..];
    let off: BTreeSet<&str> =
        since.iter().filter(|event| event.kind == "changed").map(|event| event.text.as_str()).collect();
    off.into_iter().filter(|text| !pins.iter().any(|pin| text.ends_with(&pin.hash))).count()
}
