//! What a sandbox refused to a command, explained: what it tried, which rule refused it, and the smallest grant.
//!
//! In come [`Denied`] and [`helve_core::LimitHit`], as evidence from a backend, with the [`View`] that it carried out. Out goes a
//! [`Refused`]. Nothing is decided here: whether a command may do something is the sandbox's matter, and what is said of it
//! is a hint for people. A grant is made from the settings in force, so that its lines can stand in place of the ones that
//! are there: a list is written out whole, with what it holds and what is granted.
//!
//! | module | what it does |
//! |---|---|
//! | `rule` | what refuses, and how it is written |
//! | `bounds` | limits that were passed, and time that ran out |
//! | `lines` | grants as lines of a configuration |

mod bounds;
mod lines;
mod rule;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::{Act, CallGroup, Cause, Denied, DenyRead, Ended, Exit, Explained, Network, View};

use super::{ExecMode, Policy, list, paths};
use crate::config::keys;
use crate::config::layers::{Layer, WORKSPACE_FILE};
use crate::config::value::Value;

pub use rule::Rule;

/// One thing that was refused to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What it tried, in a word: see [`Explained::act`].
    pub act: &'static str,
    /// What it tried that on.
    pub subject: String,
    /// What refused it.
    pub rule: Rule,
    /// What together would allow it; empty where nothing does.
    pub grants: Vec<Grant>,
    /// Why nothing does, or what else the grants would open.
    pub note: Option<String>,
    /// How often it was tried.
    pub times: u32,
}

/// One change of the configuration that allows something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `view.read_only` with this path.
    ReadOnly(PathBuf),
    /// `view.read_write` with this path, and `view.read_only` without it.
    ReadWrite(PathBuf),
    /// `view.read_only` without this entry.
    NotReadOnly(PathBuf),
    /// `view.hidden` without this entry.
    NotHidden(PathBuf),
    /// `files.deny_read` with these patterns at its end.
    Readable(Vec<String>),
    /// `view.protected` without this name.
    NotProtected(String),
    /// `tools.exec.network = true`.
    Network,
    /// `tools.exec.system_calls` with this group.
    SystemCalls(CallGroup),
    /// `tools.exec.mode` and `tools.exec.checkpoint` as if they were not set.
    Direct,
    /// A limit of this name and value.
    Limit(&'static str, u64),
    /// `tools.exec.timeout` in seconds.
    Timeout(u64),
}

impl Policy {
    /// Everything that was refused to a command that has ended, in words, the bound that it passed first. `timeout` is the
    /// time that it had.
    pub fn explained(&self, ended: &Ended, timeout: Option<Duration>, view: &View) -> Vec<Explained> {
        let mut all = Vec::new();
        for refused in self.refused(ended, timeout, view) {
            let explained = self.in_words(&refused);
            // Two paths through which one file is reached may read the same.
            match all.iter_mut().find(|known: &&mut Explained| {
                (&known.act, &known.subject, &known.rule)
                    == (&explained.act, &explained.subject, &explained.rule)
            }) {
                Some(known) => known.times = known.times.saturating_add(explained.times),
                None => all.push(explained),
            }
        }
        all
    }

    /// The same as values.
    pub fn refused(&self, ended: &Ended, timeout: Option<Duration>, view: &View) -> Vec<Refused> {
        let bound = ended.limit.map(|hit| self.passed(hit));
        let time = timeout.filter(|_| ended.exit == Exit::TimedOut).map(|timeout| self.out_of_time(timeout));
        let denied = ended.denied.iter().map(|denied| self.denied(denied, view));
        bound.into_iter().chain(time).chain(denied).collect()
    }

    /// One refusal in words.
    pub fn in_words(&self, refused: &Refused) -> Explained {
        let lines = self.lines(&refused.grants);
        Explained {
            act: refused.act.to_owned(),
            subject: refused.subject.clone(),
            rule: refused.rule.to_string(),
            grant: (!lines.is_empty()).then(|| lines.join("\n")),
            note: refused.note.clone(),
            times: refused.times,
        }
    }

    /// Explains one act that was refused under a view.
    fn denied(&self, denied: &Denied, view: &View) -> Refused {
        let (act, subject) = words(&denied.act);
        let (rule, found) = match &denied.act {
            Act::Read(path) | Act::Execute(path) => self.of_path(path, &denied.cause, view, false),
            Act::Write(path) => self.of_path(path, &denied.cause, view, true),
            Act::ConnectUnix(path) => self.of_path(path, &denied.cause, view, false),
            Act::Connect { .. } => self.of_network(view),
            Act::Socket(_) => match denied.cause {
                Cause::NoNetwork => self.of_network(view),
                Cause::NoCapability => {
                    (Rule::Capability, nothing("such sockets need a capability that no command gets"))
                }
                _ => (Rule::Filter, nothing("the filter refuses such sockets to every command")),
            },
            Act::SystemCall { group: Some(group), .. } => (Rule::Filter, self.of_group(*group)),
            Act::SystemCall { group: None, .. } => match denied.cause {
                Cause::NoCapability => {
                    (Rule::Capability, nothing("it needs a capability that no command gets"))
                }
                _ => (Rule::Filter, nothing("the filter refuses it to every command")),
            },
        };
        let Found { grants, note } = found;
        Refused { act, subject, rule, grants, note, times: denied.times }
    }

    fn of_network(&self, view: &View) -> (Rule, Found) {
        if view.network == Network::Host {
            return (Rule::Network, nothing("the network is open to commands; something else refuses this"));
        }
        let ceiling = self.inner.settings.written(keys::CEILING_NETWORK);
        if let Some((Value::Bool(false), origin)) = ceiling {
            return (
                Rule::Network,
                nothing(&format!("{origin} keeps the network closed ({})", keys::CEILING_NETWORK)),
            );
        }
        let found = self.unless_tightened(&[keys::EXEC_NETWORK], || Found {
            grants: vec![Grant::Network],
            note: Some("it opens everything that this machine can reach".to_owned()),
        });
        (Rule::Network, found)
    }

    fn of_group(&self, group: CallGroup) -> Found {
        let ceiling = self.inner.settings.written(keys::CEILING_SYSTEM_CALLS);
        if let Some((Value::Bool(false), origin)) = ceiling {
            return nothing(&format!("{origin} grants no such calls ({})", keys::CEILING_SYSTEM_CALLS));
        }
        self.unless_tightened(&[keys::EXEC_SYSTEM_CALLS], || granted(Grant::SystemCalls(group)))
    }

    /// A path that was to be read, run or connected to, or written.
    fn of_path(&self, path: &Path, cause: &Cause, view: &View, write: bool) -> (Rule, Found) {
        match cause {
            Cause::Hidden(entry) => self.of_hidden(path, entry, view, write),
            Cause::DenyRead(pattern) => {
                let found = self.unless_tightened(&[keys::FILES_DENY_READ], || self.readable(path, view));
                (Rule::DenyRead(pattern.clone()), found)
            }
            Cause::Protected(name) => {
                let found = self.unless_tightened(&[keys::VIEW_PROTECTED], || {
                    let known = list(&self.inner.settings, keys::VIEW_PROTECTED);
                    match known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                        Some(known) => Found {
                            grants: vec![Grant::NotProtected(known.clone())],
                            note: Some("it holds for that name everywhere in the workspace".to_owned()),
                        },
                        None => nothing("no entry of view.protected names it"),
                    }
                });
                (Rule::Protected(name.clone()), found)
            }
            Cause::ReadOnly => self.of_read_only(path, view),
            Cause::NoNetwork => self.of_network(view),
            Cause::Filter => (Rule::Filter, nothing("the filter refuses it to every command")),
            Cause::NoCapability => (Rule::Capability, nothing("it needs a capability that no command gets")),
            Cause::NotShown => (Rule::NotShown, self.shown(path, write)),
        }
    }

    /// What shows a path that nothing shows.
    fn shown(&self, path: &Path, write: bool) -> Found {
        let place = if write { existing(path) } else { Some(path.to_owned()) };
        let Some(place) = place else {
            return nothing("no directory above it is there");
        };
        if let Err(why) = self.may_open(&place) {
            return nothing(why);
        }
        let widened =
            (place != path).then(|| format!("it is not there, so all of {} is opened", place.display()));
        if write {
            if let Some(file) = crate::guarded::inside(&place, &self.guarded_files()) {
                return nothing(&format!(
                    "{} holds {}, which configures Helve or is one of its secrets",
                    place.display(),
                    file.display()
                ));
            }
            return Found { grants: vec![Grant::ReadWrite(place)], note: widened };
        }
        Found { grants: vec![Grant::ReadOnly(place)], note: widened }
    }

    fn of_hidden(&self, path: &Path, entry: &Path, view: &View, write: bool) -> (Rule, Found) {
        let configured = paths(&self.inner.settings, keys::VIEW_HIDDEN);
        let is_entry =
            |known: &&PathBuf| *known == entry || known.canonicalize().is_ok_and(|real| real == entry);
        let Some(known) = configured.iter().find(is_entry) else {
            let why = "no command sees the files that configure Helve, its state and its secrets";
            return (Rule::Own(entry.to_owned()), nothing(why));
        };
        let rule = Rule::Hidden(known.clone());
        // The state directory or a secret may lie in it, or it in them.
        if self.inner.guarded.iter().any(|own| path.starts_with(own)) {
            return (rule, nothing("Helve's own files are in it, which no command sees"));
        }
        let mut grants = vec![Grant::NotHidden(known.clone())];
        let mut note = None;
        if !is_shown(path, view, write) {
            match self.shown(path, write) {
                Found { grants: more, note: why } if !more.is_empty() => {
                    grants.extend(more);
                    note = why;
                }
                Found { note, .. } => return (rule, Found { grants: Vec::new(), note }),
            }
        } else if path != known.as_path() {
            note = Some(format!("it opens all of {}", known.display()));
        }
        (rule, Found { grants, note })
    }

    fn of_read_only(&self, path: &Path, view: &View) -> (Rule, Found) {
        let own = view.workspace.join(WORKSPACE_FILE);
        if path == own {
            return (Rule::WorkspaceFile, nothing("no command chooses what it will say; change it yourself"));
        }
        let beneath = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let mode = self.exec_mode();
        if mode != ExecMode::Direct && beneath(&view.read_write) {
            let found =
                self.unless_tightened(&[keys::EXEC_MODE, keys::EXEC_CHECKPOINT], || granted(Grant::Direct));
            return (Rule::Layer(mode), found);
        }
        let configured = paths(&self.inner.settings, keys::VIEW_READ_ONLY);
        let above =
            configured.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len());
        let Some(place) = existing(path) else {
            return (Rule::ReadOnly(above.cloned()), nothing("no directory above it is there"));
        };
        // What makes it read-only in what is writable is an entry that can go.
        if let Some(entry) =
            above.filter(|entry| entry.starts_with(&view.workspace) || beneath(&view.read_write))
        {
            let note = (place != **entry).then(|| format!("it opens all of {} for writing", entry.display()));
            return (
                Rule::ReadOnly(Some(entry.clone())),
                Found { grants: vec![Grant::NotReadOnly(entry.clone())], note },
            );
        }
        (Rule::ReadOnly(above.cloned()), self.shown(path, true))
    }

    /// The patterns at the end of `files.deny_read` that make one path readable, and nothing beside it.
    fn readable(&self, path: &Path, view: &View) -> Found {
        let Ok(inside) = path.strip_prefix(&view.workspace) else {
            return nothing("it is not in the workspace");
        };
        let mut all = view.deny_read.clone();
        let mut more = Vec::new();
        let is_directory = path.is_dir();
        let mut above: Vec<&Path> =
            inside.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        above.reverse();
        let mut add = |all: &mut Vec<String>, pattern: String| {
            all.push(pattern.clone());
            more.push(pattern);
        };
        let denies = |all: &[String], path: &Path, is_dir: bool| {
            DenyRead::new(all).is_ok_and(|deny| deny.denies_entry(path, is_dir))
        };
        for directory in above {
            let Some(name) = escaped(directory) else { return nothing(NOT_TEXT) };
            if denies(&all, directory, true) {
                add(&mut all, format!("!/{name}/"));
                add(&mut all, format!("/{name}/*"));
            }
        }
        let Some(name) = escaped(inside) else { return nothing(NOT_TEXT) };
        if denies(&all, inside, is_directory) {
            add(&mut all, format!("!/{name}"));
        }
        match more.is_empty() || DenyRead::new(&all).is_ok_and(|deny| deny.denies(inside, is_directory)) {
            true => nothing("no pattern of files.deny_read covers it by name"),
            false => Found {
                grants: vec![Grant::Readable(more)],
                note: Some("file tools may read it then, too".to_owned()),
            },
        }
    }

    /// What is found, unless the workspace's own file sets one of the keys: no line of the owner's lifts that.
    fn unless_tightened(&self, keys: &[&str], found: impl FnOnce() -> Found) -> Found {
        let tightened = keys.iter().find_map(|key| {
            let (_, origin) = self.inner.settings.written(key)?;
            (origin.layer == Layer::Workspace).then_some((key, origin))
        });
        match tightened {
            Some((key, origin)) => nothing(&format!(
                "`{key}` in {origin} tightens it; take that line out, or do not trust the file"
            )),
            None => found(),
        }
    }

    /// Whether one command's need is reason enough to open a path.
    fn may_open(&self, place: &Path) -> Result<(), &'static str> {
        if ["/proc", "/dev"].iter().any(|own| place.starts_with(own)) {
            return Err("commands have a /proc and a /dev of their own");
        }
        let homes =
            [Path::new("/home"), Path::new("/root")].into_iter().chain(self.inner.guard.home.as_deref());
        if place.parent() == Some(Path::new("/home")) || homes.into_iter().any(|home| home.starts_with(place))
        {
            return Err("it holds whole home directories; name what is needed of it in view.read_only");
        }
        match place.to_str() {
            Some(_) => Ok(()),
            None => Err(NOT_TEXT),
        }
    }
}

const NOT_TEXT: &str = "its name is not UTF-8, so no configuration can name it";

/// What would allow something.
struct Found {
    grants: Vec<Grant>,
    note: Option<String>,
}

fn nothing(why: &str) -> Found {
    Found { grants: Vec::new(), note: Some(why.to_owned()) }
}

fn granted(grant: Grant) -> Found {
    Found { grants: vec![grant], note: None }
}

/// The act in a word, and what it was about.
fn words(act: &Act) -> (&'static str, String) {
    let shown = |path: &Path| path.display().to_string();
    match act {
        Act::Read(path) => ("read", shown(path)),
        Act::Write(path) => ("write", shown(path)),
        Act::Execute(path) => ("execute", shown(path)),
        Act::Connect { address, datagram } => ("connect", reached(*address, *datagram)),
        Act::ConnectUnix(path) => ("connect", shown(path)),
        Act::Socket(kind) => ("socket", kind.clone()),
        Act::SystemCall { name, .. } => ("system_call", name.clone()),
    }
}

fn reached(address: SocketAddr, datagram: bool) -> String {
    let by = if datagram { " by datagram" } else { "" };
    format!("{} port {}{by}", address.ip(), address.port())
}

/// The path itself if something is there, else the nearest directory above it that is.
fn existing(path: &Path) -> Option<PathBuf> {
    let place = path.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    (place.parent().is_some()).then(|| place.to_owned())
}

/// Whether a view would show a path, or let it be written, if nothing hid it.
fn is_shown(path: &Path, view: &View, write: bool) -> bool {
    let writable = std::iter::once(&view.workspace).chain(&view.read_write);
    let readable = view.read_only.iter().filter(|_| !write);
    writable.chain(readable).any(|root| path.starts_with(root))
}

/// A path as a pattern that means just it; none if it is not text.
fn escaped(path: &Path) -> Option<String> {
    let mut pattern = String::new();
    for ch in path.to_str()?.chars() {
        if matches!(ch, '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(ch);
    }
    Some(pattern).filter(|pattern| !pattern.contains(['\n', '\0']))
}
