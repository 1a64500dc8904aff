//! The client lane: MCP servers behind Helve.
