//! The keys of `[container]`: what a container for commands is made from, where `sandbox = "container"`.
//!
//! A workspace's own file can set none of them: what lies in a workspace must not choose the image that commands run in,
//! nor the engine that makes it, which is root on most machines.

use std::borrow::Cow;

use super::keys::Key;
use super::value::Kind;

/// What all of them begin with.
pub(crate) const CONTAINER: &str = "container.";
pub(crate) const IMAGE: &str = "container.image";
pub(crate) const ENGINE: &str = "container.engine";
pub(crate) const SOCKET: &str = "container.socket";
pub(crate) const CPUS: &str = "container.cpus";

pub(crate) const ENGINES: &[&str] = &["docker", "podman"];

/// All of them, in the order of the manual.
pub(crate) fn keys() -> Vec<Key> {
    let key =
        |name, kind, doc| Key { name: Cow::Borrowed(name), kind, doc: Cow::Borrowed(doc), default: None };
    vec![
        key(
            IMAGE,
            Kind::Text,
            "The image that commands run in where sandbox = \"container\", such as \"debian:bookworm-slim\". It has to be there already: Helve pulls nothing. Not set: none, and every command is refused. As all of [container], not in a workspace's own file.",
        ),
        key(
            ENGINE,
            Kind::Choice(ENGINES),
            "Whose engine makes the container. Not set: the first whose socket is there, Docker's before Podman's.",
        ),
        key(
            SOCKET,
            Kind::Text,
            "The absolute path of the engine's socket. Not set: /run/docker.sock or /run/podman/podman.sock, and for an ordinary user first the same below $XDG_RUNTIME_DIR.",
        ),
        key(
            CPUS,
            Kind::AtLeast(1),
            "How many processors all commands of the container may use at a time. Not set: all.",
        ),
    ]
}
