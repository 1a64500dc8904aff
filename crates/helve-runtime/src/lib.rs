//! The registry and the one pipeline that every tool call takes
