//! The view as a plan of mounts, which every sandbox with a root of its own builds from.
//!
//! The plan is a map from place to mount, sorted so that a directory comes before what is in it: the deeper rule wins.
//! The root is an empty read-only file system. So whatever the plan does not name does not exist, and the directories
//! above the workspace are empty. All places are real paths; a rule that was given through a symbolic link gets a link.
//! A hidden directory hides everything of the outside that is in it, whatever else shows it, except the workspace.

pub(crate) mod rules;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use helve_core::{ErrorKind, Network, ToolError};

use crate::native::wire::{Cover, Guarded};
use rules::{Rule, Rules};

/// What stands at a place inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
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

/// Directories of the system that every program needs.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

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
pub(crate) const COPY_BYTES: u64 = 256 * 1024;

/// Every mount of a view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan(BTreeMap<PathBuf, Mount>);

/// What a plan is made for.
pub(crate) struct Wanted<'a> {
    /// The view's paths.
    pub(crate) rules: &'a Rules,
    /// The command's home directory.
    pub(crate) home: Option<&'a Path>,
    /// What it may reach.
    pub(crate) network: Network,
    /// The size of the largest file that a command may write. It holds for bwrap too, so no new file is planned that is
    /// larger.
    pub(crate) file_bytes: u64,
}

/// Plans the view. Later steps overrule earlier ones at the same place, the stricter later.
pub(crate) fn plan(wanted: &Wanted<'_>) -> Result<Plan, ToolError> {
    let rules = wanted.rules;
    let mut plan = Plan(BTreeMap::new());
    plan.add_system();
    plan.add_etc(wanted);
    plan.add_private(wanted);
    plan.add_rules(rules)?;
    Ok(plan)
}

/// Plans what the view shows besides a system, for a sandbox that has one of its own.
pub(crate) fn without_system(rules: &Rules) -> Result<Plan, ToolError> {
    let mut plan = Plan(BTreeMap::new());
    plan.add_rules(rules)?;
    Ok(plan)
}

/// The new files that nearly every plan has, so that they can be made before the plan is known. Of those to be copied some
/// may not be there, or be too large.
pub(crate) fn usual() -> impl Iterator<Item = (PathBuf, Mount)> {
    let etc = Path::new("/etc");
    let copies = ETC.iter().map(|name| (etc.join(name), Mount::Copy));
    copies.chain([(etc.join("hosts"), Mount::File(LOCAL_HOSTS))])
}

/// An entry of a directory whose real path is given: where it really is, and what. A link is followed to its file, which may
/// lie where nothing else is shown.
fn followed(directory: &Path, entry: &Path) -> Option<(PathBuf, Metadata)> {
    let file = entry.symlink_metadata().ok()?;
    if file.is_symlink() {
        let real = entry.canonicalize().ok()?;
        let file = real.metadata().ok()?;
        return Some((real, file));
    }
    Some((directory.join(entry.file_name()?), file))
}

impl Plan {
    fn add_system(&mut self) {
        self.0.insert("/proc".into(), Mount::Proc);
        self.0.insert("/dev".into(), Mount::Devices);
        for path in SYSTEM.map(PathBuf::from) {
            match path.read_link() {
                Ok(target) => drop(self.0.insert(path, Mount::Link(target))),
                Err(_) if path.exists() => drop(self.0.insert(path, Mount::ReadOnly)),
                Err(_) => {}
            }
        }
    }

    fn add_etc(&mut self, wanted: &Wanted<'_>) {
        let copy_bytes = wanted.file_bytes.min(COPY_BYTES);
        let etc = Path::new("/etc");
        let mut names: Vec<PathBuf> = ETC.iter().map(|name| etc.join(name)).collect();
        // Java keeps what it cannot start without in a directory that bears its version.
        let entries = etc.read_dir().into_iter().flatten().flatten();
        names.extend(
            entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"java-")).map(|e| e.path()),
        );
        match wanted.network {
            Network::Host => names.extend(ETC_NETWORK.iter().map(|name| etc.join(name))),
            Network::Off if LOCAL_HOSTS.len() as u64 <= copy_bytes => {
                self.0.insert(etc.join("hosts"), Mount::File(LOCAL_HOSTS));
            }
            // A command that may not write even so little does without the name localhost.
            Network::Off => {}
        }
        let Ok(etc_real) = etc.canonicalize() else { return };
        for path in names {
            let Some((real, file)) = followed(&etc_real, &path) else { continue };
            // Where a command may write it could be led elsewhere, and is shown already.
            if wanted.rules.hides(&real) || wanted.rules.in_writable(&path) {
                continue;
            }
            let small = file.is_file() && file.len() <= copy_bytes;
            self.0.insert(path, if small { Mount::Copy } else { Mount::ReadOnly });
        }
    }

    fn add_private(&mut self, wanted: &Wanted<'_>) {
        self.0.insert("/tmp".into(), Mount::Private);
        self.0.insert("/var/tmp".into(), Mount::Private);
        let Some(home) = wanted.home else { return };
        if home.is_absolute() && home != Path::new("/") && !wanted.rules.in_writable(home) {
            self.0.insert(home.to_owned(), Mount::Private);
        }
    }

    fn add_rules(&mut self, rules: &Rules) -> Result<(), ToolError> {
        for rule in &rules.read_write {
            self.show(rule, Mount::ReadWrite);
        }
        if !self.show(&rules.workspace, Mount::ReadWrite) {
            let path = rules.workspace.given.display();
            return Err(ToolError::new(
                ErrorKind::SandboxUnavailable,
                format!("The workspace is not a directory that can be shown: {path}"),
            )
            .hint("Choose an existing directory as the workspace."));
        }
        for rule in &rules.read_only {
            self.show(rule, Mount::ReadOnly);
        }
        self.hide(rules);
        self.drop_repetitions(&rules.workspace.real);
        Ok(())
    }

    /// Shows a path under its real name and, where it differs, the name that was given. Whether there is such a path.
    fn show(&mut self, rule: &Rule, mount: Mount) -> bool {
        if !rule.real.symlink_metadata().is_ok_and(|file| !file.is_symlink()) {
            return false;
        }
        let goes_up = rule.given.components().any(|part| part == Component::ParentDir);
        if rule.given.is_absolute() && rule.real != rule.given && !goes_up {
            self.0.insert(rule.given.clone(), Mount::Link(rule.real.clone()));
        }
        self.0.insert(rule.real.clone(), mount);
        true
    }

    /// Takes out what is hidden, and covers it where a mount above would show it. New directories hold nothing of the
    /// outside and stay.
    fn hide(&mut self, rules: &Rules) {
        self.0.retain(|path, mount| *mount == Mount::Private || !rules.hides(path));
        // What was no link when the rules were resolved may be one now, in a place that commands cannot write.
        let mut hidden: Vec<PathBuf> =
            rules.hidden.iter().filter_map(|rule| rule.real.canonicalize().ok()).collect();
        hidden.sort_unstable();
        for path in hidden {
            if self.above(&path).is_some_and(Mount::shows_outside) {
                let mount = if path.is_dir() { Mount::HiddenDirectory } else { Mount::HiddenFile };
                self.0.insert(path, mount);
            }
        }
    }

    /// The mount in which `path` lies.
    fn above(&self, path: &Path) -> Option<&Mount> {
        path.ancestors().skip(1).find_map(|above| self.0.get(above))
    }

    /// Takes out what the mount above shows already, but the workspace, and links that lie where the outside shows them.
    fn drop_repetitions(&mut self, workspace: &Path) {
        let repeated = |(path, mount): (&PathBuf, &Mount)| {
            let above = self.above(path)?;
            let repeated = match mount {
                // A writable one stays: as a mount point it cannot be moved away from under the rules inside it.
                Mount::ReadOnly => *above == Mount::ReadOnly && path != workspace,
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

    /// Adds protected and denied paths of the workspace, where nothing stricter stands.
    pub(crate) fn guard(&mut self, rules: &Rules, guarded: &[Guarded]) {
        let workspace = &rules.workspace.real;
        let mut added = Vec::new();
        for entry in guarded {
            let path = workspace.join(OsStr::from_bytes(&entry.path));
            let stands = self.0.get(&path).or_else(|| self.above(&path));
            let mount = match entry.cover {
                Cover::Hidden if stands.is_some_and(Mount::shows_outside) => {
                    if path.is_dir() {
                        Mount::HiddenDirectory
                    } else {
                        Mount::HiddenFile
                    }
                }
                Cover::Hidden => continue,
                // Only what shows the workspace itself, or another writable root, is pinned or made read-only.
                _ if self.0.contains_key(&path) || stands != Some(&Mount::ReadWrite) => continue,
                Cover::Pin => Mount::ReadWrite,
                Cover::ReadOnly => Mount::ReadOnly,
            };
            added.push((path, mount));
        }
        self.0.extend(added);
    }

    /// Every place and what stands there, a directory before what is in it.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (&Path, &Mount)> {
        self.0.iter().map(|(path, mount)| (path.as_path(), mount))
    }
}

#[cfg(test)]
mod tests;
