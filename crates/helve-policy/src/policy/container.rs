//! What the settings say about the container that commands run in.

use std::path::PathBuf;

use helve_core::{ContainerChoice, ContainerEngine};

use super::text;
use crate::config::layers::Settings;
use crate::config::value::Value;
use crate::config::{container_keys, keys};

/// Whether commands run in a container.
pub(super) fn is_chosen(settings: &Settings) -> bool {
    let wrapped = text(settings, keys::EXEC_WRAPPER).is_some_and(|template| !template.trim().is_empty());
    !wrapped && text(settings, keys::SANDBOX) == Some("container")
}

/// Which one.
pub(super) fn choice(settings: &Settings) -> ContainerChoice {
    ContainerChoice {
        image: text(settings, container_keys::IMAGE).map(str::to_owned),
        engine: match text(settings, container_keys::ENGINE) {
            Some("docker") => Some(ContainerEngine::Docker),
            Some("podman") => Some(ContainerEngine::Podman),
            _ => None,
        },
        socket: text(settings, container_keys::SOCKET).map(PathBuf::from),
        cpus: match settings.get(container_keys::CPUS) {
            Some(Value::Count(count)) => Some(*count),
            _ => None,
        },
    }
}
