//! What can be seen of a server: its state, its protocol, its tools and how they stand.

use std::time::Duration;

use helve_core::{SharedReport, ToolError};
use serde_json::Value;

use super::definition::{Definition, Rejected};
use super::pins::Standing;

/// Which way of the protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With a session: 2025-11-25 and before.
    Stateful,
    /// Without: 2026-07-28.
    Stateless,
}

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateName {
    /// Not started yet.
    Idle,
    /// Being started.
    Starting,
    /// Connected.
    Up,
    /// It failed, and is tried again later.
    Down,
}

/// How a server is, without starting it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerState {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: StateName,
    /// Its last failure.
    pub error: Option<ToolError>,
    /// How many of its tools can be called, and how many it has.
    pub tools: (usize, usize),
}

/// A tool of a server, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolLook {
    /// What the server says of it.
    pub definition: Definition,
    /// How it stands with the owner.
    pub standing: Standing,
}

/// A server that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLook {
    /// Its name in the configuration.
    pub name: String,
    /// Which way of the protocol it speaks.
    pub era: Era,
    /// Which version.
    pub version: String,
    /// What it says it is.
    pub server_info: Option<Value>,
    /// What it says of its use, harmless.
    pub instructions: Option<String>,
    /// How long it took to start.
    pub opened_in: Duration,
    /// The sandbox that it runs in; none for an address.
    pub sandbox: Option<SharedReport>,
    /// Its tools.
    pub tools: Vec<ToolLook>,
    /// Those that are left out.
    pub rejected: Vec<Rejected>,
}
