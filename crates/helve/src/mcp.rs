//! MCP put together: the pipeline, the policy and the store with what `helve-mcp` knows of the protocol.
//!
//! | module | does |
//! |---|---|
//! | [`lane`] | puts MCP servers behind a runtime |
//! | [`fleets`] | gives each client servers of its own |
//! | [`keep`](keep()) | what is kept of servers, in the state directory |
//! | [`serve`] | offers a runtime to an MCP client |
//! | [`token`] | the tokens of clients that come over HTTP |

pub mod fleets;
mod keep;
pub mod lane;
pub mod serve;
pub mod token;

pub use fleets::Fleets;
pub use helve_mcp::client;
pub use helve_mcp::client::{Era, Fleet, Owner, ServerLook, Standing, ToolLook};
pub use helve_mcp::holds_more_than;
pub use helve_mcp::server;
pub use keep::keep;
pub use lane::{Gateway, Keep, fleet, fleet_of, kept_out};
