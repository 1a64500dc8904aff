//! MCP put together: the pipeline, the policy and the store with what `helve-mcp` knows of the protocol.
//!
//! | module | does |
//! |---|---|
//! | [`lane`] | puts MCP servers behind a runtime |

pub mod lane;

pub use helve_mcp::client;
pub use helve_mcp::client::{Era, Fleet, Owner, ServerLook, Standing, ToolLook};
pub use lane::{Gateway, Keep, fleet, fleet_of};
