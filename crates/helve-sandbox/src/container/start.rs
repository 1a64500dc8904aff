//! A new container, from the image to the helper's first word. Blocking.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use helve_core::{ContainerChoice, ProcessLimits, ToolError, View};

use super::engine::{Engine, unavailable};
use super::http;
use super::own::Own;
use super::owner::{self, Owner};
use super::running::Running;
use super::spec::{self, Parts};
use super::wire::{self, Frame, Kind, Ready, Setup};
use crate::native::wire::Guarded;
use crate::plan;
use crate::plan::rules::Rules;
use crate::spawn;

/// How long a started container may take until its helper speaks.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(5);

/// What containers of one view are made from.
pub(super) struct Ground {
    pub(super) choice: ContainerChoice,
    pub(super) rules: Rules,
    pub(super) view: View,
    pub(super) limits: ProcessLimits,
    /// Whether the helper is one for files too.
    pub(super) files: bool,
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What was mounted from it stays in the container.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A container that is removed when it is dropped.
struct Made<'a> {
    engine: &'a Engine,
    id: String,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            let _ = self.engine.remove(&self.id);
        }
    }
}

impl Ground {
    /// The image, which the owner has to name.
    pub(super) fn image_name(&self) -> Result<&str, ToolError> {
        let name = self.choice.image.as_deref().filter(|name| !name.trim().is_empty());
        name.ok_or_else(|| {
            unavailable("The policy names no image for containers.".to_owned())
                .hint("Write for example: [container] image = \"debian:bookworm-slim\"")
        })
    }

    /// Starts a container with these mounts on paths of the workspace.
    pub(super) fn start(&self, guarded: Vec<Guarded>) -> Result<Running, ToolError> {
        let name = self.image_name()?;
        let engine = Engine::find(&self.choice)?;
        let owner = Owner::this().ok_or_else(|| {
            unavailable("This process cannot be told from others: /proc does not show it.".to_owned())
                .hint("Mount /proc.")
        })?;
        let image = engine.image(name)?;
        owner::remove_orphans(&engine, &owner);
        let mut plan = plan::without_system(&self.rules)?;
        plan.guard(&self.rules, &guarded);
        let scratch = Scratch(owner.directory().map_err(spawn::no_process)?);
        let listener = prepare(&scratch.0).map_err(spawn::no_process)?;
        let workspace = self.rules.workspace.real.metadata().map_err(spawn::no_process)?;
        // The user who is root in an ordinary user's container is that user.
        let user = if engine.is_rootless()? { (0, 0) } else { (workspace.uid(), workspace.gid()) };
        let spec = spec::spec(&Parts {
            image: &image,
            plan: &plan,
            limits: &self.limits,
            network: self.view.network,
            cpus: self.choice.cpus,
            home: self.view.env.get("HOME").map(String::as_str),
            user,
            own: &Own::find()?,
            word: if self.files { spec::FILES_HELPER_WORD } else { spec::HELPER_WORD },
            owner: owner.label(),
            scratch: &scratch.0,
        })?;
        let mut made = Made { id: engine.create(&spec)?, engine: &engine };
        engine.start(&made.id)?;
        let watch = engine.watch(&made.id)?;
        let mut link = self.first_word(&listener, &watch)?;
        let ready = self.greet(&mut link)?;
        if ready.workspace != (workspace.dev(), workspace.ino()) {
            let message = "The container shows another directory in the workspace's place.";
            return Err(unavailable(message.to_owned()).hint(
                "The engine has to run on this machine and to see the same files: not in a virtual machine, nor Helve in a container of it.",
            ));
        }
        if !ready.writes {
            let (user, group) = user;
            let message =
                format!("In the container user {user} (group {group}) cannot write to the workspace.");
            return Err(unavailable(message).hint("Give the workspace to the user who runs Helve, and use no engine that maps users (userns-remap)."));
        }
        let running =
            Running::new(engine.clone(), made.id.clone(), guarded, link, watch).map_err(spawn::no_process)?;
        made.id.clear();
        Ok(running)
    }

    /// Waits until the helper has connected.
    fn first_word(&self, listener: &UnixListener, watch: &UnixStream) -> Result<UnixStream, ToolError> {
        let start = Instant::now();
        loop {
            match listener.accept() {
                Ok((link, _)) => {
                    link.set_nonblocking(false).map_err(spawn::no_process)?;
                    return Ok(link);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(spawn::no_process(error)),
            }
            if http::is_answered(watch) {
                return Err(unavailable("The container ended before Helve's helper in it spoke.".to_owned()).hint(
                    "Look whether the image is one for this machine's processor, and whether the user of the workspace may execute Helve's program.",
                ));
            }
            if start.elapsed() > FIRST_WORD {
                return Err(unavailable("Helve's helper in the container does not speak.".to_owned())
                    .hint("The engine has to run on this machine and to see its files; look whether it is very busy."));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn greet(&self, link: &mut UnixStream) -> Result<Ready, ToolError> {
        let silent = |error: io::Error| {
            unavailable(format!("Helve's helper in the container went away: {error}"))
                .hint("Look whether the container has enough memory (limits.exec_memory_bytes).")
        };
        link.set_read_timeout(Some(FIRST_WORD)).map_err(silent)?;
        link.set_write_timeout(Some(FIRST_WORD)).map_err(silent)?;
        wire::send(link, Kind::Setup, 0, &Setup::encode(&self.view, &self.limits)).map_err(silent)?;
        match wire::receive(link).map_err(silent)? {
            Some(Frame { kind: Kind::Ready, bytes, .. }) => Ready::decode(&bytes),
            Some(_) => Err(wire::garbled()),
            None => Err(silent(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Makes what a start needs in its directory: the socket, and what hides others.
fn prepare(scratch: &Path) -> io::Result<UnixListener> {
    spec::make_empty(scratch)?;
    let socket = scratch.join(spec::SOCKET);
    let listener = UnixListener::bind(&socket)?;
    // Nobody else can enter the directory; in the container it is another user's.
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
