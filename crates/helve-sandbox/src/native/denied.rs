//! What a member's notes mean: which rule of the view stands behind each, if one does.
//!
//! In: notes, which are hints. Out: [`Denied`]. The files are looked at by name and by Helve's own rights: what exists nowhere,
//! and what its user could not do either, was not refused by the sandbox. Nothing is decided by any of this.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use helve_core::{Act, Cause, Denied, DenyRead, View};
use rustix::fs::{Access, AtFlags, CWD};

use super::engine::Engine;
use super::notes::{self, Note, Notes};
use crate::confine::seccomp;
use crate::plan::rules::{Rule, Rules};

/// So many notes are looked at where the call is awaited; more of them, elsewhere.
const FEW: usize = 8;

impl Engine {
    /// What was refused to a command.
    pub(super) async fn denied(self: &Arc<Self>, notes: Notes) -> Vec<Denied> {
        if notes.0.len() <= FEW {
            return explain(notes, &self.view, &self.rules);
        }
        let engine = Arc::clone(self);
        let look = move || explain(notes, &engine.view, &engine.rules);
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

fn explain(notes: Notes, view: &View, rules: &Rules) -> Vec<Denied> {
    let mut denied: Vec<Denied> = Vec::new();
    for (note, times) in notes.0 {
        let Some((act, cause)) = meaning(note, view, rules) else { continue };
        match denied.iter_mut().find(|one| (&one.act, &one.cause) == (&act, &cause)) {
            Some(one) => one.times = one.times.saturating_add(times),
            None => denied.push(Denied { act, cause, times }),
        }
    }
    denied
}

fn meaning(note: Note, view: &View, rules: &Rules) -> Option<(Act, Cause)> {
    match note {
        Note::Address { address, datagram } => Some((Act::Connect { address, datagram }, Cause::NoNetwork)),
        Note::Call { number, told, refused } => {
            let cause = if refused { Cause::Filter } else { Cause::NoCapability };
            let (name, group) = seccomp::name_and_group(number, told)?;
            let act =
                if name == "socket" { Act::Socket(socket(told)) } else { Act::SystemCall { name, group } };
            Some((act, cause))
        }
        Note::Path { act, stands, path } => {
            let path = plain(&path);
            let cause = match act {
                notes::Act::Write => write_cause(&path, stands, view, rules),
                notes::Act::Read => read_cause(&path, stands, Access::READ_OK, view, rules),
                notes::Act::Execute => read_cause(&path, stands, Access::EXEC_OK, view, rules),
                notes::Act::Unix => read_cause(&path, stands, Access::WRITE_OK, view, rules),
            }?;
            let act = match act {
                notes::Act::Read => Act::Read(path),
                notes::Act::Write => Act::Write(path),
                notes::Act::Execute => Act::Execute(path),
                notes::Act::Unix => Act::ConnectUnix(path),
            };
            Some((act, cause))
        }
    }
}

fn read_cause(path: &Path, stands: bool, wanted: Access, view: &View, rules: &Rules) -> Option<Cause> {
    let outside = may(path, wanted)?;
    let hidden = hidden(path, outside.is_directory, view, rules);
    // What stands inside and is no cover was read.
    hidden.or_else(|| (!stands).then_some(Cause::NotShown)).filter(|_| outside.allowed)
}

fn write_cause(path: &Path, stands: bool, view: &View, rules: &Rules) -> Option<Cause> {
    // Who may change a directory may replace what is in it.
    let above = path.parent().and_then(|above| may(above, Access::WRITE_OK));
    let itself = may(path, Access::WRITE_OK);
    let allowed = [&itself, &above].iter().any(|one| one.as_ref().is_some_and(|one| one.allowed));
    let is_directory = itself.is_some_and(|itself| itself.is_directory);
    let cause = hidden(path, is_directory, view, rules)
        .or_else(|| (!stands).then_some(Cause::NotShown))
        .or_else(|| protected(path, view, rules).map(Cause::Protected))
        .unwrap_or(Cause::ReadOnly);
    allowed.then_some(cause)
}

/// The rule that hides a path.
fn hidden(path: &Path, is_directory: bool, view: &View, rules: &Rules) -> Option<Cause> {
    if rules.hides(path) {
        let covers = |rule: &&Rule| path.starts_with(&rule.real);
        return rules.hidden.iter().find(covers).map(|rule| Cause::Hidden(rule.given.clone()));
    }
    let inside = path.strip_prefix(&rules.workspace.real).ok()?;
    if !rules.denied.denies(inside, is_directory) {
        return None;
    }
    let denies = |pattern: &&String| {
        DenyRead::new(&[pattern]).is_ok_and(|pattern| pattern.denies(inside, is_directory))
    };
    view.deny_read.iter().find(denies).cloned().map(Cause::DenyRead)
}

/// The protected name that a path of the workspace bears.
fn protected(path: &Path, view: &View, rules: &Rules) -> Option<String> {
    let inside = path.strip_prefix(&rules.workspace.real).ok()?;
    let parts: Vec<_> = inside.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let bears = |name: &&String| parts.iter().any(|part| part.eq_ignore_ascii_case(name));
    view.protected.iter().find(bears).cloned()
}

/// What is outside at a path.
struct Outside {
    /// Whether Helve's own user may do that with it.
    allowed: bool,
    is_directory: bool,
}

/// None if there is nothing.
fn may(path: &Path, wanted: Access) -> Option<Outside> {
    let is_directory = path.symlink_metadata().ok()?.is_dir();
    let allowed = rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS).is_ok();
    Some(Outside { allowed, is_directory })
}

/// The path without `.` and `..`, by its text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// A socket in the words of its call.
fn socket([family, kind, protocol]: [u32; 3]) -> String {
    const INTERNET: [u32; 2] = [libc::AF_INET as u32, libc::AF_INET6 as u32];
    let known = FAMILIES.iter().find(|(number, _)| *number as u32 == family);
    let name = known.map_or_else(|| format!("AF_{family}"), |(_, name)| (*name).to_owned());
    let raw = kind & 0xf == libc::SOCK_RAW as u32;
    if INTERNET.contains(&family) && raw {
        return format!("{name} SOCK_RAW");
    }
    if INTERNET.contains(&family) || family == libc::AF_NETLINK as u32 {
        return format!("{name} protocol {protocol}");
    }
    name
}

const FAMILIES: [(libc::c_int, &str); 12] = [
    (libc::AF_UNIX, "AF_UNIX"),
    (libc::AF_INET, "AF_INET"),
    (libc::AF_INET6, "AF_INET6"),
    (libc::AF_NETLINK, "AF_NETLINK"),
    (libc::AF_PACKET, "AF_PACKET"),
    (libc::AF_RDS, "AF_RDS"),
    (libc::AF_CAN, "AF_CAN"),
    (libc::AF_TIPC, "AF_TIPC"),
    (libc::AF_BLUETOOTH, "AF_BLUETOOTH"),
    (libc::AF_ALG, "AF_ALG"),
    (libc::AF_VSOCK, "AF_VSOCK"),
    (libc::AF_XDP, "AF_XDP"),
];
