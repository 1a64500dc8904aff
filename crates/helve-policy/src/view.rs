//! What a sandboxed command sees: directories, environment, shell.
//!
//! In come the owner's settings and Helve's own surroundings, out goes a [`View`]. Visible without being asked for are
//! the system's directories and the user's toolchains, never a directory in which a tool keeps credentials
//! (`~/.cargo` itself, `~/.local/share/uv`, …). The environment is an allow list.
//!
//! Not here: the files of `/etc`, devices, `/proc` and `/tmp`, which are the sandbox's own matter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use helve_core::{CallGroup, Explain, Network, SandboxChoice, View};

use crate::config::layers::WORKSPACE_FILE;

/// Where a command finds its HOME in a sandbox: under the private `/tmp`, so that it is writable and empty.
const PRIVATE_HOME: &str = "/tmp/home";

/// The system's own directories. `/opt` is not among them: it often holds services with their configuration.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

const SYSTEM_PATH: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The variables that every command inherits. Each is named: a secret may hide behind any prefix.
const INHERITED: &[&str] = &[
    "LANG",
    "TZ",
    "USER",
    "LOGNAME",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
];

/// A directory of a toolchain.
struct Toolchain {
    /// The variable that names its base, and the base below the home directory.
    base: (Option<&'static str>, &'static str),
    /// What is shown of it; empty for all.
    shown: &'static [&'static str],
    /// What of it belongs on PATH.
    bins: &'static [&'static str],
    /// The part of it for which programs need the variable, because HOME is another one in the sandbox; empty for any.
    pass: Option<&'static str>,
}

const TOOLCHAINS: &[Toolchain] = &[
    // The rest of this directory holds credentials.toml, and config.toml, where tokens may stand too. Cargo works from
    // a registry that it cannot write: it builds with everything that was downloaded before.
    Toolchain {
        base: (Some("CARGO_HOME"), ".cargo"),
        shown: &["bin", "registry", "git/db", "git/checkouts"],
        bins: &["bin"],
        pass: Some("registry"),
    },
    Toolchain { base: (Some("RUSTUP_HOME"), ".rustup"), shown: &[""], bins: &[], pass: Some("") },
    Toolchain { base: (Some("NVM_DIR"), ".nvm"), shown: &[""], bins: &[], pass: Some("") },
    Toolchain { base: (Some("PYENV_ROOT"), ".pyenv"), shown: &[""], bins: &["shims", "bin"], pass: Some("") },
    Toolchain { base: (None, ".local"), shown: &["bin"], bins: &["bin"], pass: None },
    // uv keeps credentials beside these two.
    Toolchain { base: (None, ".local/share/uv"), shown: &["tools", "python"], bins: &[], pass: None },
    Toolchain { base: (None, ".local/share/pipx"), shown: &["venvs", "shared", "py"], bins: &[], pass: None },
    Toolchain { base: (None, "go"), shown: &["bin"], bins: &["bin"], pass: None },
];

/// Helve's own environment. It prints nothing of itself, because it holds the caller's secrets.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// Those of this process; variables that are not valid UTF-8 are left out.
    pub(crate) fn current() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Surroundings { variables: std::env::vars_os().filter_map(text).collect() }
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.directory("HOME")
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A directory named by a variable; never the root, which would show everything.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute() && path.parent().is_some())
    }
}

/// The toolchains that are there.
#[derive(Debug, Default)]
struct Found {
    shown: Vec<PathBuf>,
    bins: Vec<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
}

/// What lies in `workspace` is shown with it already, as writable as the rest, and never on PATH.
fn toolchains(around: &Surroundings, workspace: Option<&Path>) -> Found {
    let mut found = Found::default();
    let home = around.home();
    for toolchain in TOOLCHAINS {
        let (variable, below_home) = toolchain.base;
        let named = variable.and_then(|name| around.directory(name));
        // A variable that names the home directory itself would show all of it.
        let named = named.filter(|base| home.as_ref().is_none_or(|home| !home.starts_with(base)));
        let Some(base) = named.or_else(|| Some(home.as_ref()?.join(below_home))) else { continue };
        let below = |part: &&str| if part.is_empty() { base.clone() } else { base.join(part) };
        let is_there = |part: &str| below(&part).is_dir();
        if let (Some(name), true) = (variable, toolchain.pass.is_some_and(is_there)) {
            found.variables.push((name, base.clone()));
        }
        if workspace.is_some_and(|workspace| base.starts_with(workspace)) {
            continue;
        }
        let shown = toolchain.shown.iter().map(below).filter(|path| path.is_dir());
        found.bins.extend(toolchain.bins.iter().map(below).filter(|path| path.is_dir()));
        found.shown.extend(shown);
    }
    found
}

/// What is visible without being asked for.
pub(crate) fn usual_roots(around: &Surroundings) -> Vec<PathBuf> {
    system_roots().chain(toolchains(around, None).shown).collect()
}

fn system_roots() -> impl Iterator<Item = PathBuf> {
    SYSTEM.iter().map(PathBuf::from).filter(|path| path.is_dir())
}

/// What the owner's settings say about the view.
pub(crate) struct Wishes<'a> {
    pub(crate) sandbox: &'a SandboxChoice,
    pub(crate) read_only: &'a [PathBuf],
    pub(crate) read_write: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) protected: &'a [String],
    pub(crate) deny_read: &'a [String],
    pub(crate) path_append: &'a str,
    pub(crate) fixed: BTreeMap<String, String>,
    pub(crate) passed: &'a [String],
    pub(crate) network: bool,
    pub(crate) system_calls: Vec<CallGroup>,
    pub(crate) explain: Explain,
    pub(crate) shell: PathBuf,
}

/// The whole view for commands in `workspace`.
pub(crate) fn compile(wishes: Wishes<'_>, workspace: &Path, around: &Surroundings) -> View {
    // An image has a system and toolchains of its own, where these would be in its way.
    let in_image = matches!(wishes.sandbox, SandboxChoice::Container(_));
    let found = if in_image { Found::default() } else { toolchains(around, Some(workspace)) };
    let system = system_roots().filter(|_| !in_image);
    let usual: Vec<PathBuf> = system.chain(found.shown.iter().cloned()).collect();
    let named = wishes.read_only.iter().filter(|path| path.exists()).cloned();
    let mut read_only: Vec<PathBuf> = usual.iter().cloned().chain(named).collect();
    let read_write: Vec<PathBuf> = wishes.read_write.iter().filter(|path| path.exists()).cloned().collect();
    let path = search_path(&found, &read_only, workspace, wishes.path_append, around);
    // Only what the owner names himself keeps commands from writing where he lets them.
    let overruled = overruled(&usual, &read_write);
    read_only.retain(|path| !overruled.contains(path) || wishes.read_only.contains(path));

    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    set("LANG", "C.UTF-8".into());
    for (name, value) in &around.variables {
        if INHERITED.contains(&name.as_str()) && !value.is_empty() {
            set(name, value.clone());
        }
    }
    set("TERM", "dumb".into());
    set("PATH", path);
    set("SHELL", wishes.shell.display().to_string());
    match wishes.sandbox {
        SandboxChoice::Auto
        | SandboxChoice::Native
        | SandboxChoice::Landlock
        | SandboxChoice::Bwrap
        | SandboxChoice::Container(_) => set("HOME", PRIVATE_HOME.into()),
        SandboxChoice::Wrapper { .. } | SandboxChoice::None => {
            set("HOME", around.home().unwrap_or_else(|| "/".into()).display().to_string())
        }
    };
    for (name, base) in &found.variables {
        set(name, base.display().to_string());
    }
    for name in wishes.passed {
        if let Some(value) = around.variables.get(name) {
            set(name, value.clone());
        }
    }
    env.extend(wishes.fixed);

    // Commands may look at the workspace's own file, but not choose what it will say. A link is left alone: it would lead
    // out of the workspace.
    let own = workspace.join(WORKSPACE_FILE);
    if own.symlink_metadata().is_ok_and(|found| found.is_file()) {
        read_only.push(own);
    }
    let network = if wishes.network { Network::Host } else { Network::Off };
    View {
        workspace: workspace.to_owned(),
        read_only,
        read_write,
        hidden: wishes.hidden,
        protected: wishes.protected.to_vec(),
        deny_read: wishes.deny_read.to_vec(),
        env,
        network,
        system_calls: wishes.system_calls,
        explain: wishes.explain,
        shell: wishes.shell,
    }
}

/// Which of the usual places lie in what the owner lets commands write, whatever links lead there.
fn overruled(usual: &[PathBuf], read_write: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let writable: Vec<PathBuf> = read_write.iter().map(real).collect();
    if writable.is_empty() {
        return Vec::new();
    }
    let is_written = |path: &&PathBuf| writable.iter().any(|root| real(path).starts_with(root));
    usual.iter().filter(is_written).cloned().collect()
}

/// The caller's own order as far as it leads into visible places, then the usual places, then what the owner appends.
/// Never a directory of the workspace, where a project could plant programs.
fn search_path(
    found: &Found,
    read_only: &[PathBuf],
    workspace: &Path,
    append: &str,
    around: &Surroundings,
) -> String {
    let visible = |path: &PathBuf| {
        path.is_absolute()
            && !path.starts_with(workspace)
            && read_only.iter().any(|root| path.starts_with(root))
            && path.is_dir()
    };
    let own = std::env::split_paths(around.get("PATH").unwrap_or_default()).filter(visible);
    let system = SYSTEM_PATH.iter().map(PathBuf::from);
    let appended = append.split(':').filter(|part| !part.is_empty()).map(PathBuf::from);
    let mut entries: Vec<String> = Vec::new();
    for path in own.chain(found.bins.iter().cloned()).chain(system).chain(appended) {
        if let Some(text) = path.to_str().filter(|text| !entries.iter().any(|entry| entry == text)) {
            entries.push(text.to_owned());
        }
    }
    entries.join(":")
}

/// The same for a shell that lies in an image, of which nothing is known here: a bare name is one of `/bin`.
pub(crate) fn shell_of_image(wish: &str) -> PathBuf {
    Path::new("/bin").join(wish)
}

/// The shell by the owner's word, or bash where there is one, else sh.
pub(crate) fn shell(wish: Option<&str>) -> Result<PathBuf, String> {
    let look = |name: &str| {
        ["/bin", "/usr/bin", "/usr/local/bin"]
            .iter()
            .map(|dir| Path::new(dir).join(name))
            .find(|path| path.is_file())
    };
    match wish {
        None => Ok(look("bash").unwrap_or_else(|| "/bin/sh".into())),
        Some(path) if path.starts_with('/') => match Path::new(path) {
            path if path.is_file() => Ok(path.to_owned()),
            _ => Err(format!("there is no shell at {path}; install it or name another")),
        },
        Some(name) => look(name).ok_or_else(|| {
            format!(
                "there is no shell {name} in /bin, /usr/bin or /usr/local/bin; install it or give its path"
            )
        }),
    }
}

#[cfg(test)]
mod tests;
