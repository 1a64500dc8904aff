//! The owner's configuration: `helve.toml` in layers, checked against one table of keys.
//!
//! In come files and `--set key=value`, out come values that need no further check, each with its origin, or every
//! problem at once. Layers, weakest first: built-in, profile, system, user, command line; a workspace's own file only
//! tightens.
//!
//! | module | what it does |
//! |---|---|
//! | `document` | TOML or JSON text to a tree with line numbers |
//! | `keys` | the table: every key, its type, its default, what it does |
//! | `credentials` | what nobody should read for a model, by default |
//! | `server`, `server_keys` | the same for what only MCP servers have |
//! | `container_keys` | the same for containers |
//! | `model_keys` | the same for models and the agent |
//! | `hook` | the tables `[[hooks]]` |
//! | `value` | checks one value against its type |
//! | `layers` | puts the layers together, remembers where each value came from |
//! | `tighten` | what a workspace's own file may set |
//! | `edit`, `import`, `jsonc` | changing one table of a file; servers from files of other programs |
//! | `suggest` | what an unknown key was meant to be |
//! | `show` | the table for people: what is in force, and a starter file |
//!
//! Not here: what the values mean, and whether the owner trusts a workspace's own file.

pub(crate) mod container_keys;
pub(crate) mod credentials;
pub(crate) mod document;
pub(crate) mod edit;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod jsonc;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod model_keys;
pub(crate) mod server;
pub(crate) mod server_keys;
pub(crate) mod show;
pub(crate) mod suggest;
pub(crate) mod tighten;
pub(crate) mod value;

#[cfg(test)]
mod tests;
