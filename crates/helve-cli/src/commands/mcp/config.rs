//! The user's configuration, as the commands about servers read and change it.

use std::path::{Path, PathBuf};

use helve::text::{ServerDraft, is_plain_name};
use helve::{ConfiguredServer, Policy, Sources};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::setup;

/// Where the user's configuration is.
pub(super) fn user_file(global: &Global) -> Result<PathBuf, Failure> {
    setup::sources(global).user.ok_or_else(|| {
        Failure::usage("there is no place for a user's file: set XDG_CONFIG_HOME or HOME, or name one with --config FILE")
    })
}

/// The server of a name that a file has.
pub(super) fn draft(path: &Path, text: &str, name: &str) -> Result<Option<ServerDraft>, Failure> {
    ServerDraft::of(text, name)
        .map_err(|why| Failure::usage(format!("{} cannot be changed: {why}", path.display())))
}

/// Refuses a name that no server can have.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    if is_plain_name(name) {
        return Ok(());
    }
    let name = one_line(name, 80);
    Err(Failure::usage(format!("{name:?} is no name for a server: use 1 to 64 letters, digits, `_` and `-`")))
}

/// Whether a server is one that loads, by itself.
pub(super) fn check_draft(draft: &ServerDraft) -> Result<(), String> {
    let text = format!("[mcp.servers.{}]\n{}", draft.name, draft.toml());
    Policy::from_toml(&text).map(|_| ()).map_err(|error| error.to_string())
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
