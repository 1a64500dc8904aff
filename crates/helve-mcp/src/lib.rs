//! MCP both ways.
//!
//! | module | does |
//! |---|---|
//! | [`client`] | the lane `mcp`: starts and connects servers, offers their tools, carries calls to them |
//! | [`server`] | the face: offers Helve's tools to an MCP client, over standard streams or HTTP |
//! | `ends` | pipes and sockets, as both read and write them |
//! | `scan` | JSON as nearly all programs write it |
//! | `levels` | how bad what is logged is, in the words of both sides |
//!
//! Both speak two eras of the protocol: with state (2025-11-25 and before) and without (2026-07-28). This crate knows the
//! contract (`helve-core`) and the protocol, no configuration, no sandbox and no pipeline: what it needs of them is given
//! to it by whoever puts the parts together.

pub mod client;
mod ends;
mod levels;
mod scan;
pub mod server;

pub use scan::holds_more_than;
