//! The view as a plan of mounts, and the plan as options of bwrap.
//!
//! The plan is a map from place to mount, sorted so that a directory comes before what is in it: the deeper rule wins.
//! The root is an empty read-only file system. So whatever the plan does not name does not exist, and the directories
//! above the workspace are empty. All places are real paths; a rule that was given through a symbolic link gets a link.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, Network, ToolError, View};

use super::Options;

/// What stands at a place inside.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mount {
    /// The same place outside, not writable.
    ReadOnly,
    /// The same place outside.
    ReadWrite,
    /// A new, empty, writable file system.
    Private,
    /// A new process file system.
    Proc,
    /// A new set of harmless devices.
    Devices,
    /// A symbolic link.
    Link(PathBuf),
    /// A new file with this content.
    File(&'static [u8]),
    /// A new file with the content of the one outside. A copy into memory is much cheaper than a mount.
    Copy,
    /// An empty directory that stays empty.
    HiddenDirectory,
    /// An empty file that stays empty.
    HiddenFile,
}

impl Mount {
    fn shows_outside(&self) -> bool {
        matches!(self, Mount::ReadOnly | Mount::ReadWrite)
    }
}

/// Directories of the system that every program needs, besides `/usr`.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What programs need of `/etc`. Not in it: accounts' secrets, keys, and the configuration of services.
const ETC: [&str; 29] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
];

/// What programs need of `/etc` to find hosts.
const ETC_NETWORK: [&str; 3] = ["host.conf", "hosts", "resolv.conf"];

/// The hosts of an empty network, so that a program can talk to itself.
const LOCAL_HOSTS: &[u8] = b"127.0.0.1 localhost\n::1 localhost\n";

/// The largest file that is copied rather than mounted.
const COPY_BYTES: u64 = 256 * 1024;

/// What a new file holds.
pub(super) enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What the file outside holds.
    Of(&'a Path),
}

/// Every mount of a view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan(BTreeMap<PathBuf, Mount>);

/// Plans the view. Later steps overrule earlier ones at the same place, the stricter later. The limit on the size of
/// files that a command may write holds for bwrap too, so no new file is planned that is larger than `file_bytes`.
pub(super) fn plan(view: &View, file_bytes: u64) -> Result<Plan, ToolError> {
    let mut plan = Plan(BTreeMap::new());
    plan.add_system();
    plan.add_etc(view.network, file_bytes.min(COPY_BYTES));
    plan.add_private(view);
    for path in &view.read_write {
        plan.show(path, Mount::ReadWrite);
    }
    if !plan.show(&view.workspace, Mount::ReadWrite) {
        let path = view.workspace.display();
        return Err(ToolError::new(
            ErrorKind::SandboxUnavailable,
            format!("The workspace is not a directory that can be shown: {path}"),
        )
        .hint("Choose an existing directory other than / as the workspace."));
    }
    for path in &view.read_only {
        plan.show(path, Mount::ReadOnly);
    }
    for path in &view.hidden {
        plan.hide(path);
    }
    plan.drop_repetitions();
    Ok(plan)
}

impl Plan {
    fn add_system(&mut self) {
        self.0.insert("/proc".into(), Mount::Proc);
        self.0.insert("/dev".into(), Mount::Devices);
        self.show(Path::new("/usr"), Mount::ReadOnly);
        for path in SYSTEM.map(Path::new) {
            match path.read_link() {
                Ok(target) => drop(self.0.insert(path.to_owned(), Mount::Link(target))),
                Err(_) => drop(self.show(path, Mount::ReadOnly)),
            }
        }
    }

    fn add_etc(&mut self, network: Network, copy_bytes: u64) {
        let etc = Path::new("/etc");
        let mut names: Vec<PathBuf> = ETC.iter().map(|name| etc.join(name)).collect();
        // Java keeps what it cannot start without in a directory that bears its version.
        let entries = etc.read_dir().into_iter().flatten().flatten();
        names.extend(
            entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"java-")).map(|e| e.path()),
        );
        match network {
            Network::Host => names.extend(ETC_NETWORK.iter().map(|name| etc.join(name))),
            Network::Off if LOCAL_HOSTS.len() as u64 <= copy_bytes => {
                self.0.insert(etc.join("hosts"), Mount::File(LOCAL_HOSTS));
            }
            // A command that may not write even so little does without the name localhost.
            Network::Off => {}
        }
        for path in names {
            // A link is followed to its file, which may lie where nothing else is shown.
            let Ok(file) = path.metadata() else { continue };
            let small = file.is_file() && file.len() <= copy_bytes;
            self.0.insert(path, if small { Mount::Copy } else { Mount::ReadOnly });
        }
    }

    fn add_private(&mut self, view: &View) {
        self.0.insert("/tmp".into(), Mount::Private);
        self.0.insert("/var/tmp".into(), Mount::Private);
        let Some(home) = view.env.get("HOME").map(Path::new) else { return };
        let writable = std::iter::once(&view.workspace).chain(&view.read_write);
        let already_writable = writable.into_iter().any(|root| home.starts_with(root));
        if home.is_absolute() && home != Path::new("/") && !already_writable {
            self.0.insert(home.to_owned(), Mount::Private);
        }
    }

    /// Shows a path under its real name and, where it differs, the name that was given. Whether there is such a path.
    fn show(&mut self, path: &Path, mount: Mount) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        if real == Path::new("/") {
            return false;
        }
        if path.is_absolute() && real != path {
            self.0.insert(path.to_owned(), Mount::Link(real.clone()));
        }
        self.0.insert(real, mount);
        true
    }

    /// Hides a path where something shows it. What no mount shows is not there anyway.
    fn hide(&mut self, path: &Path) {
        let Ok(real) = path.canonicalize() else { return };
        let shown = self
            .0
            .get(&real)
            .or_else(|| self.above(&real))
            .is_some_and(|mount| mount.shows_outside() || *mount == Mount::Copy);
        if shown {
            let mount = if real.is_dir() { Mount::HiddenDirectory } else { Mount::HiddenFile };
            self.0.insert(real, mount);
        }
    }

    /// The mount in which `path` lies.
    fn above(&self, path: &Path) -> Option<&Mount> {
        path.ancestors().skip(1).find_map(|above| self.0.get(above))
    }

    /// Takes out what the mount above shows already, and links that lie where the outside shows them.
    fn drop_repetitions(&mut self) {
        let repeated = |(path, mount): (&PathBuf, &Mount)| {
            let above = self.above(path)?;
            let repeated = match mount {
                Mount::ReadOnly | Mount::ReadWrite => above == mount,
                Mount::Link(_) | Mount::File(_) | Mount::Copy => {
                    above.shows_outside() || matches!(above, Mount::Link(_))
                }
                _ => false,
            };
            repeated.then(|| path.clone())
        };
        let repeated: Vec<PathBuf> = self.0.iter().filter_map(repeated).collect();
        for path in repeated {
            self.0.remove(&path);
        }
    }

    /// Writes the options. `file` makes a descriptor from which bwrap reads a file's content.
    pub(super) fn write(
        &self,
        options: &mut Options,
        mut file: impl FnMut(Content<'_>) -> Result<RawFd, ToolError>,
    ) -> Result<(), ToolError> {
        let mut number = |content: Content<'_>| file(content).map(|fd| OsString::from(fd.to_string()));
        for (path, mount) in &self.0 {
            let place = path.as_os_str();
            let option = OsStr::new(match mount {
                Mount::ReadOnly => "--ro-bind",
                Mount::ReadWrite => "--bind",
                Mount::Private | Mount::HiddenDirectory => "--tmpfs",
                Mount::Proc => "--proc",
                Mount::Devices => "--dev",
                Mount::Link(_) => "--symlink",
                Mount::File(_) | Mount::Copy => "--file",
                Mount::HiddenFile => "--ro-bind-data",
            });
            match mount {
                Mount::ReadOnly | Mount::ReadWrite => options.add([option, place, place]),
                Mount::Private | Mount::HiddenDirectory | Mount::Proc | Mount::Devices => {
                    options.add([option, place])
                }
                Mount::Link(target) => options.add([option, target.as_os_str(), place]),
                Mount::File(content) => {
                    options.add([option, number(Content::Bytes(content))?.as_ref(), place])
                }
                Mount::HiddenFile => options.add([option, number(Content::Bytes(b""))?.as_ref(), place]),
                Mount::Copy => options.add([option, number(Content::Of(path))?.as_ref(), place]),
            }
        }
        // Switches of the whole machine in /proc/sys belong to the outer root, whom an inner one without any
        // capability still counts as. bwrap leaves them writable.
        let sealed = |mount: &Mount| matches!(mount, Mount::HiddenDirectory | Mount::Proc);
        let sealed = self.0.iter().filter(|(_, mount)| sealed(mount));
        for place in sealed.map(|(path, _)| path.as_os_str()).chain([OsStr::new("/")]) {
            options.add([OsStr::new("--remount-ro"), place]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
