//! The engine, Docker or Podman: where its socket is, and what is asked of it.
//!
//! In: the owner's choice. Out: containers, by their ids, and errors that say what to change. Paths carry no version of the
//! interface: an engine takes them as its own newest one, and what is used here has been the same in all of them.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::{ContainerChoice, ContainerEngine, ErrorKind, ToolError};
use serde_json::{Value, json};

use super::http;

/// How long an engine may take for one request. Making a container on a busy disk takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to say who it is.
const SHORT: Duration = Duration::from_secs(10);

/// An engine.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    socket: PathBuf,
    /// The program that people use with it.
    program: &'static str,
}

/// An image, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// Its own name, by which it cannot become another one.
    pub(super) id: String,
    /// Directories that it wants to have on a disk of their own.
    pub(super) volumes: Vec<String>,
}

/// A container that bears a label.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Labelled {
    pub(super) id: String,
    pub(super) label: String,
}

impl Engine {
    /// The engine of the owner's choice, if its socket is there.
    pub(super) fn find(choice: &ContainerChoice) -> Result<Engine, ToolError> {
        let places = places(choice, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).as_deref());
        let found = places.iter().find(|engine| engine.socket.exists());
        found.cloned().ok_or_else(|| {
            let tried: Vec<String> =
                places.iter().map(|engine| engine.socket.display().to_string()).collect();
            unavailable(format!("No engine for containers is here: there is no socket {}.", tried.join(", nor ")))
                .hint("Install Docker or Podman and start it (for Podman: systemctl --user start podman.socket), or name its socket with container.socket.")
        })
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>, within: Duration) -> Asked {
        let answer =
            http::ask(&self.socket, (method, path), body, within).map_err(|error| self.silent(&error))?;
        // Some answers are no document.
        let document = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        Ok((answer.status, document))
    }

    /// Whether its containers are those of an ordinary user, to whom the user there called root belongs.
    pub(super) fn is_rootless(&self) -> Result<bool, ToolError> {
        match self.ask("GET", "/info", None, SHORT)? {
            (200, info) => {
                let options = info["SecurityOptions"].as_array().map_or(&[][..], Vec::as_slice);
                Ok(options.iter().filter_map(Value::as_str).any(|option| option.contains("rootless")))
            }
            (status, said) => Err(self.refused("says nothing of itself", status, &said)),
        }
    }

    /// The image of that name, which has to be there.
    pub(super) fn image(&self, name: &str) -> Result<Image, ToolError> {
        match self.ask("GET", &format!("/images/{}/json", escaped(name)), None, SHORT)? {
            (200, image) => {
                let volumes = image["Config"]["Volumes"].as_object();
                Ok(Image {
                    id: image["Id"].as_str().unwrap_or(name).to_owned(),
                    volumes: volumes.map(|all| all.keys().cloned().collect()).unwrap_or_default(),
                })
            }
            (404, _) => Err(unavailable(format!("The engine has no image {name:?}."))
                .hint(format!("Run: {} pull {name}\nHelve itself pulls nothing.", self.program))),
            (status, said) => Err(self.refused("does not find the image", status, &said)),
        }
    }

    /// Makes a container; its id.
    pub(super) fn create(&self, spec: &Value) -> Result<String, ToolError> {
        match self.ask("POST", "/containers/create", Some(spec), PATIENCE)? {
            (201, made) => made["Id"]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| unavailable("The engine made a container and did not say which.".to_owned())),
            (status, said) => Err(self.refused("makes no container", status, &said)),
        }
    }

    /// Starts a container.
    pub(super) fn start(&self, id: &str) -> Result<(), ToolError> {
        match self.ask("POST", &format!("/containers/{id}/start"), None, PATIENCE)? {
            (204 | 304, _) => Ok(()),
            (status, said) => Err(self.refused("does not start the container", status, &said)),
        }
    }

    /// Removes a container, running or not. One that is not there is removed already.
    pub(super) fn remove(&self, id: &str) -> Result<(), ToolError> {
        match self.ask("DELETE", &format!("/containers/{id}?force=true&v=true"), None, SHORT)? {
            // 409: it is being removed by somebody else.
            (200 | 204 | 404 | 409, _) => Ok(()),
            (status, said) => Err(self.refused("does not remove the container", status, &said)),
        }
    }

    /// Every container that bears the label, running or not.
    pub(super) fn labelled(&self, label: &str) -> Result<Vec<Labelled>, ToolError> {
        let filters = json!({"label": [label]}).to_string();
        let path = format!("/containers/json?all=true&filters={}", escaped(&filters));
        match self.ask("GET", &path, None, SHORT)? {
            (200, list) => {
                let list = list.as_array().map_or(&[][..], Vec::as_slice);
                let one = |one: &Value| {
                    let (id, label) = (one["Id"].as_str()?, one["Labels"][label].as_str()?);
                    Some(Labelled { id: id.to_owned(), label: label.to_owned() })
                };
                Ok(list.iter().filter_map(one).collect())
            }
            (status, said) => Err(self.refused("does not list its containers", status, &said)),
        }
    }

    /// A connection on which the engine answers when the container has ended, and which ends when the engine does.
    pub(super) fn watch(&self, id: &str) -> Result<UnixStream, ToolError> {
        http::send(&self.socket, ("POST", &format!("/containers/{id}/wait")), None, SHORT)
            .map_err(|error| self.silent(&error))
    }

    fn silent(&self, error: &io::Error) -> ToolError {
        let socket = self.socket.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                unavailable(format!("This user may not use the engine at {socket}."))
                    .hint("Become a member of the group that owns the socket, which is as good as being root (for Docker: usermod -aG docker USER), or use an engine of your own: rootless Podman or Docker.")
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                unavailable(format!("No engine answers at {socket}."))
                    .hint(format!("Start it, for example: systemctl start {}.", self.program))
            }
            io::ErrorKind::TimedOut => unavailable(format!("The engine at {socket} does not answer in time."))
                .hint(format!("Look whether it is busy or stuck: {} ps", self.program)),
            _ => unavailable(format!("The engine at {socket} gives no answer: {error}."))
                .hint(format!("Look whether it runs: {} info", self.program)),
        }
    }

    fn refused(&self, what: &str, status: u16, said: &Value) -> ToolError {
        // Docker and Podman name the text differently.
        let said =
            said["message"].as_str().or_else(|| said["cause"].as_str()).unwrap_or("it does not say why");
        let said = helve_core::harmless::harmless(said);
        unavailable(format!("The engine {what} ({status}): {}", said.trim()))
            .hint("Correct what it names: the image, a path of the policy, or the engine itself.")
    }
}

type Asked = Result<(u16, Value), ToolError>;

pub(super) fn unavailable(message: String) -> ToolError {
    ToolError::new(ErrorKind::SandboxUnavailable, message)
}

/// Where an engine may be, the best first.
fn places(choice: &ContainerChoice, runtime: Option<&Path>) -> Vec<Engine> {
    let docker = choice.engine != Some(ContainerEngine::Podman);
    let podman = choice.engine != Some(ContainerEngine::Docker);
    if let Some(socket) = &choice.socket {
        let program = if docker { "docker" } else { "podman" };
        return vec![Engine { socket: socket.clone(), program }];
    }
    let mut places = Vec::new();
    // A user's own engine is not root.
    for folder in runtime.into_iter().chain([Path::new("/run")]) {
        for (wanted, name, program) in
            [(docker, "docker.sock", "docker"), (podman, "podman/podman.sock", "podman")]
        {
            if wanted {
                places.push(Engine { socket: folder.join(name), program });
            }
        }
    }
    places
}

/// A text as a part of a path: everything but letters, digits and a few harmless signs as `%XX`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:/@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn sockets(choice: &ContainerChoice, runtime: Option<&str>) -> Vec<String> {
        let places = places(choice, runtime.map(Path::new));
        places.iter().map(|engine| format!("{} {}", engine.program, engine.socket.display())).collect()
    }

    #[test]
    fn a_users_own_engine_goes_first_and_a_named_socket_is_the_only_one() {
        let any = ContainerChoice::default();
        assert_eq!(sockets(&any, None), ["docker /run/docker.sock", "podman /run/podman/podman.sock"]);
        let podman = ContainerChoice { engine: Some(ContainerEngine::Podman), ..any.clone() };
        let own = "podman /run/user/7/podman/podman.sock";
        assert_eq!(sockets(&podman, Some("/run/user/7")), [own, "podman /run/podman/podman.sock"]);
        let named = ContainerChoice { socket: Some("/x/y.sock".into()), ..podman };
        assert_eq!(sockets(&named, Some("/run/user/7")), ["podman /x/y.sock"]);
    }

    #[test]
    fn no_name_leaves_its_place_in_a_request() {
        assert_eq!(escaped("debian:bookworm"), "debian:bookworm");
        assert_eq!(escaped("a b\r\nHost: x?y#z%"), "a%20b%0D%0AHost:%20x%3Fy%23z%25");
    }

    #[test]
    fn an_engine_that_is_not_there_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let choice = ContainerChoice { socket: Some(socket.clone()), ..ContainerChoice::default() };
        let error = Engine::find(&choice).unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
        assert!(error.message.contains("no socket") && error.hint.unwrap().contains("container.socket"));
        // A socket that somebody left behind.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let error = Engine::find(&choice).unwrap().image("x").unwrap_err();
        assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
        assert!(error.message.contains("No engine answers"), "{error}");
    }
}
