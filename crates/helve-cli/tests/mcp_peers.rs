//! Helve beside the MCP programs of other people: six servers behind it, the Inspector before it, the conformance suite on
//! both sides, and what is left of them all when it is killed.
//!
//! `scripts/mcp-peers` installs these programs and names their directory in `HELVE_TEST_MCP_PEERS`. Without it the tests are
//! skipped and say so. One runs after the other: servers and clients have time limits of their own, and a machine that does
//! everything at once would try those.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

#[path = "mcp/client.rs"]
mod client;
#[path = "mcp_peers/conformance.rs"]
mod conformance;
#[path = "mcp_peers/inspector.rs"]
mod inspector;
#[path = "mcp_peers/kill.rs"]
mod kill;
#[path = "mcp_peers/peers.rs"]
mod peers;
#[path = "mcp_peers/programs.rs"]
mod programs;
#[path = "mcp_peers/row.rs"]
mod row;
mod support;
