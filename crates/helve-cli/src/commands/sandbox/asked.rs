//! From the options to what a sandbox takes: the view, the limits and the starting directory.
//!
//! The view begins as that of a policy which nobody wrote (system directories, toolchains, a private home) and gets what
//! the options name. Deliberately not read are the user's and the machine's configuration: they are for calls of a model.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use helve::sandbox::{self, Network, ProcessLimits, SandboxChoice, View};
use helve::store::Home;
use helve::{ErrorKind, Policy, Sources, ToolError};

use super::{Backend, Net, Options};
use crate::args::Global;
use crate::setup;

/// Bounds that nothing reaches.
const NO_BYTES: u64 = 1 << 60;
const NO_SECONDS: u64 = 1 << 40;

/// What a sandbox takes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) choice: SandboxChoice,
    pub(super) view: View,
    pub(super) limits: ProcessLimits,
    /// Where is remembered what the machine gives; no command can write there.
    pub(super) state: PathBuf,
    /// Where the command starts, if not in the workspace itself.
    pub(super) start: Option<String>,
    /// How large a layer may be, where it runs over one.
    pub(super) layer_bytes: u64,
    /// What the options and `--set` say, as a policy.
    pub(super) policy: Policy,
}

/// Reads the options; `on_terminal` if the command will see a terminal.
pub(super) fn asked(global: &Global, options: &Options, on_terminal: bool) -> Result<Asked, ToolError> {
    let (choice, name) = match options.backend {
        Backend::Auto => (SandboxChoice::Auto, "auto"),
        Backend::Native => (SandboxChoice::Native, "native"),
        Backend::Landlock => (SandboxChoice::Landlock, "landlock"),
        Backend::Bwrap => (SandboxChoice::Bwrap, "bwrap"),
    };
    let mut set = global.set.clone();
    set.push(format!("sandbox={name}"));
    let (user, user_required) = (global.config.clone(), global.config.is_some());
    let sources = Sources { system: None, user, user_required, set, workspace: None };
    let policy = Policy::load(&sources).map_err(|error| wrong(error.to_string()))?;
    let (home, guarded) =
        (Home::default_path().map_err(|error| wrong(error.to_string()))?, policy.guarded_files());
    let workspace = setup::workspace(global).map_err(|failure| wrong(failure.message()))?;
    let workspace = sandbox::check_workspace(&workspace, &home, &guarded)?;

    let writable = existing("--rw", &options.read_write)?;
    for path in &writable {
        sandbox::check_writable(path, &home, &guarded)?;
    }
    let mut view = policy.view_writing(&workspace, &home, &writable);
    // What the owner does in his own project stays; he says himself what is to be read only.
    view.protected.clear();
    view.read_only.extend(existing("--ro", &options.read_only)?);
    view.hidden.extend(existing("--hide", &options.hide)?);
    view.network = match options.net {
        Net::None => Network::Off,
        Net::Host => Network::Host,
    };
    if on_terminal {
        pass_terminal(&mut view);
    }
    for wish in &options.env {
        let (name, value) = variable(wish, |name| std::env::var_os(name))?;
        view.env.insert(name, value);
    }
    let start = start_below(&workspace);
    let layer_bytes = policy.limits().exec_layer_bytes;
    let limits = limits(&policy, options);
    Ok(Asked { choice, view, limits, state: home, start, layer_bytes, policy })
}

/// The error for an option that cannot be kept.
fn wrong(message: impl Into<String>) -> ToolError {
    ToolError::new(ErrorKind::InvalidParams, message)
}

/// The paths of an option, absolute, each of which must be there: a name with a slip in it would protect nothing.
fn existing(option: &str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
    let one = |path: &PathBuf| {
        let absolute = std::path::absolute(path).and_then(|path| path.metadata().map(|_| path));
        absolute.map_err(|error| {
            wrong(format!("{option} {}: {error}", path.display())).hint(
                "Name a file or directory that is there; a relative path begins in the current directory.",
            )
        })
    };
    paths.iter().map(one).collect()
}

/// The view's own variables suit a program that nobody looks at.
fn pass_terminal(view: &mut View) {
    for name in ["TERM", "COLORTERM"] {
        if let Ok(value) = std::env::var(name) {
            view.env.insert(name.to_owned(), value);
        }
    }
}

/// `NAME=VALUE`, or `NAME` for the value that it has here.
fn variable(wish: &OsStr, here: impl Fn(&str) -> Option<OsString>) -> Result<(String, String), ToolError> {
    let wrong = |why: &str| {
        wrong(format!("--env {}: {why}", wish.display()))
            .hint("Write --env NAME=VALUE, or --env NAME for a variable that is set.")
    };
    let not_text = "it is not valid UTF-8";
    let text = wish.to_str().ok_or_else(|| wrong(not_text))?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let value = here(text).ok_or_else(|| wrong("it is not set here"))?;
            (text, value.into_string().map_err(|_| wrong(not_text))?)
        }
    };
    if name.is_empty() || name.contains('\0') || value.contains('\0') {
        return Err(wrong("it names no variable"));
    }
    Ok((name.to_owned(), value))
}

/// Memory and processes are always bounded, so that no command takes the machine down with it. What only takes long or
/// writes much is the owner's business.
fn limits(policy: &Policy, options: &Options) -> ProcessLimits {
    let usual = policy.process_limits();
    let disk = options.disk.unwrap_or(NO_BYTES);
    ProcessLimits {
        memory_bytes: options.mem.unwrap_or(usual.memory_bytes),
        processes: options.pids.unwrap_or(usual.processes),
        cpu_seconds: options.cpu.unwrap_or(NO_SECONDS),
        disk_bytes: disk,
        file_bytes: disk,
        ..usual
    }
}

/// Where the caller stands, if that is inside the workspace.
fn start_below(workspace: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    let inside = here.strip_prefix(workspace).ok()?;
    inside.to_str().filter(|inside| !inside.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_variable_is_given_or_passed() {
        let here = |name: &str| (name == "SET").then(|| OsString::from("here"));
        let read = |wish: &str| variable(OsStr::new(wish), here).ok();
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        assert_eq!(read("A=b"), pair("A", "b"));
        assert_eq!(read("A="), pair("A", ""));
        assert_eq!(read("A=b=c"), pair("A", "b=c"));
        assert_eq!(read("SET"), pair("SET", "here"));
        assert_eq!([read("UNSET"), read("=x"), read(""), read("A=\0")], [None, None, None, None]);
    }
}
