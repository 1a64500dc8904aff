//! The server face: Helve before an MCP client.
