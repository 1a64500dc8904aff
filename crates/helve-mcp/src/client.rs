//! The client lane: MCP servers behind Helve.
//!
//! In come servers as the owner configured them ([`helve_core::ServerSpec`]) and what the composition gives ([`FleetParts`]):
//! a sandbox for a process, pins, tokens, a log. Out come tools of the lane `mcp` and answers to their calls.
//!
//! ```text
//! fleet ── seat                the same for one session of its client
//!       ── slot                one server: started at its first use, again with back-off; its tools and their standing
//!            ├ opening         negotiation of the era, signing in
//!            │   └ failure ─ cause     what goes wrong, in words for the owner
//!            ├ connection      one connection: listing, calls with their questions
//!            │   ├ listing             the pages of a list, bounded together
//!            │   ├ process ─ frame     a process in the sandbox, one bounded line a message
//!            │   │   ├ inlet ─ straight    read by whoever waits; calls that need nothing of the loop
//!            │   │   └ backlog             what the server has not read yet
//!            │   ├ http ─ oauth        Streamable HTTP with bounded bodies; signing in
//!            │   │   └ events              bounded, and not asked for again too soon
//!            │   ├ sse                 the older HTTP with two addresses
//!            │   ├ gate                floods held back, over any of them
//!            │   ├ notices             progress and logs, heard in their order where they are read
//!            │   └ face ─ questions    what the server may ask of this end
//!            ├ definition ─ names      what a server says of a tool, cleaned and named; or why it is left out
//!            └ pins, offered           what of it the owner has agreed to, and offers
//! tool, search                 the tools as the pipeline sees them; finding some of very many
//! more                         resources and prompts of servers, as a client behind Helve is shown them
//! ```
//!
//! Deliberately not here: what a server may do (policy), how its process is confined (sandbox), and every judgement of a
//! call (pipeline). A call comes here with its permit given.

mod backlog;
mod cause;
mod connection;
mod content;
mod definition;
mod events;
mod face;
mod failure;
mod fleet;
mod frame;
mod gate;
mod http;
mod inlet;
mod keep;
mod listing;
mod look;
mod more;
mod names;
mod notices;
mod oauth;
mod offered;
mod opening;
mod pins;
mod process;
mod questions;
mod rate;
mod search;
mod seat;
mod sent;
mod slot;
mod sse;
mod straight;
mod tool;

#[doc(hidden)]
pub use definition::read as try_definition;
pub use definition::{Definition, Hints, Rejected};
pub use fleet::{Fleet, FleetLimits, FleetParts, Hide, Launch, Launched};
#[doc(hidden)]
pub use frame::try_frames;
pub use keep::{Owner, Pin, PinStore, ServerLog, TokenStore};
pub use look::{Era, ServerLook, ServerState, StateName, ToolLook};
pub use more::{Listed, asking_name, of_address};
pub use names::shown_name;
pub use pins::{Standing, fingerprint};
pub use search::{Shelf, TOOL_SEARCH, ToolSearch};
pub use seat::Seat;
pub use tool::RemoteTool;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bounds;
#[cfg(test)]
mod tests_http;
#[cfg(test)]
mod tests_secrets;
#[cfg(test)]
mod tests_sessions;
