//! What the client lane wants kept, and whom it tells: implemented by whoever puts the parts together.
//!
//! Pins and tokens are small and are read and written rarely; the lane calls these traits off its event loop.

use helve_core::ToolError;
use serde_json::Value;

/// What the owner has agreed to of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// Its name at the server.
    pub tool: String,
    /// The fingerprint of its definition.
    pub hash: String,
    /// The definition, to show a difference with.
    pub definition: Value,
}

/// Keeps pins over processes.
pub trait PinStore: Send + Sync {
    /// The pins of a server; none at all if it was never seen.
    fn pins(&self, server: &str) -> Result<Option<Vec<Pin>>, ToolError>;

    /// Adds pins or replaces those of the same tools. An empty list says that the server was seen.
    fn pin(&self, server: &str, pins: Vec<Pin>) -> Result<(), ToolError>;
}

/// Keeps what a server's sign-in gave, as a secret.
pub trait TokenStore: Send + Sync {
    /// What is kept under a key.
    fn get(&self, key: &str) -> Result<Option<String>, ToolError>;

    /// Keeps it.
    fn set(&self, key: &str, value: &str) -> Result<(), ToolError>;

    /// Forgets it.
    fn remove(&self, key: &str) -> Result<(), ToolError>;
}

/// Takes what a server writes to its standard error, and what happens to it. The lane bounds how much comes.
pub trait ServerLog: Send + Sync {
    /// Raw bytes of standard error.
    fn stderr(&self, server: &str, bytes: &[u8]);

    /// Something happened: `started`, `ended`, `failed`, `refused`, `changed`, `note`.
    fn event(&self, server: &str, kind: &'static str, text: &str);
}

/// The person before the machine, for signing in at a server.
pub trait Owner: Send + Sync {
    /// Shows, or opens, an address at which the owner agrees. The answer comes to an address of this machine.
    fn open(&self, server: &str, url: &str);
}
