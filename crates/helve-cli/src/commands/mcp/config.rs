//! The user's configuration, as the commands about servers read and change it.

use std::path::PathBuf;

use helve::{ConfiguredServer, Policy, Sources};

use crate::args::Global;
use crate::failure::Failure;
use crate::setup;

/// Where the user's configuration is.
pub(super) fn user_file(global: &Global) -> Result<PathBuf, Failure> {
    setup::sources(global).user.ok_or_else(|| {
        Failure::usage("there is no place for a user's file: set XDG_CONFIG_HOME or HOME, or name one with --config FILE")
    })
}

/// Whether a text speaks of a server.
pub(super) fn has_server(text: &str, name: &str) -> bool {
    matches!(helve::text::remove_table(text, &["mcp", "servers", name]), Ok(Some(_)) | Err(_))
}

/// What would be written is a configuration that loads, with the other layers around it.
pub(super) fn check(global: &Global, text: &str) -> Result<(), Failure> {
    let refuse =
        |why: String| Failure::usage(format!("nothing is written, because the file would not load: {why}"));
    Policy::from_toml(text).map_err(|error| refuse(error.to_string()))?;
    let others = Sources { user: None, user_required: false, ..setup::sources(global) };
    Policy::load(&others).map(|_| ()).map_err(|error| refuse(error.to_string()))
}

/// A server of the configuration by its name.
pub(super) fn server(policy: &Policy, name: &str) -> Result<ConfiguredServer, Failure> {
    let servers = policy.mcp_configured();
    let names: Vec<String> = servers.iter().map(|server| server.spec.name.clone()).collect();
    servers.into_iter().find(|server| server.spec.name == name).ok_or_else(|| {
        let known = match names.as_slice() {
            [] => "none is configured; `helve mcp add` adds one".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        Failure::not_found(format!("no MCP server is called {name:?}: {known}"))
    })
}

/// The same for one that is to be started.
pub(super) fn enabled_server(policy: &Policy, name: &str) -> Result<ConfiguredServer, Failure> {
    let server = server(policy, name)?;
    if server.enabled {
        return Ok(server);
    }
    Err(Failure::usage(format!("the server {name} is switched off: `enabled = false` in {}", server.origin)))
}
