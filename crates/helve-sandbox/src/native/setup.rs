//! What a zygote is told at its start: the plan of mounts, the command's environment, its shell and its bounds.
//!
//! In: a view that was checked and planned. Out: bytes in a file that the helper inherits, so that nothing of it stands in
//! an argument list. Both sides are one program, so the encoding has no version.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use helve_core::{CallGroup, Explain, Network, ProcessLimits, ToolError, View};

use crate::numbers;
use crate::plan::rules::Rules;
use crate::plan::{self, Mount, Wanted};

/// Everything that a zygote needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// What stands where, a directory before what is in it.
    pub(crate) mounts: Vec<(PathBuf, Place)>,
    /// The workspace; commands start there.
    pub(crate) workspace: PathBuf,
    /// The device and the number of that directory, which Helve guards: no other may be shown in its place.
    pub(crate) identity: (u64, u64),
    /// Whether there is a network namespace of its own.
    pub(crate) own_network: bool,
    /// The command's environment, as `NAME=value`.
    pub(crate) environment: Vec<CString>,
    /// Where programs are looked up.
    pub(crate) path: CString,
    /// The shell that may be kept warm.
    pub(crate) shell: CString,
    /// The bounds.
    pub(crate) limits: ProcessLimits,
    /// What takes every change of the workspace in its place, if something does.
    pub(crate) layer: Option<Layer>,
    /// System calls that are granted.
    pub(crate) system_calls: Vec<CallGroup>,
    /// How closely commands are watched for what is refused to them; not at all if absent.
    pub(crate) explain: Option<Explain>,
}

/// A layer over the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    /// How large the file system is that holds it.
    pub(crate) bytes: u64,
    /// Directories of the workspace, relative to it, at which other file systems are mounted; the outer first.
    pub(crate) nested: Vec<PathBuf>,
}

/// What stands at a place inside. As [`Mount`], with what the zygote reads itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The same place outside, not writable.
    ReadOnly,
    /// The same place outside.
    ReadWrite,
    /// A directory of the member's own private file system.
    Private,
    /// A process file system.
    Proc,
    /// Harmless devices.
    Devices,
    /// A symbolic link.
    Link(PathBuf),
    /// A new file with this content.
    File(Vec<u8>),
    /// A new file with the content of the one outside.
    Copy,
    /// An empty directory that stays empty.
    HiddenDirectory,
    /// An empty file that stays empty.
    HiddenFile,
}

impl Setup {
    /// For a view whose rules hold, and the workspace with this device and number.
    pub(crate) fn new(
        view: &View,
        rules: &Rules,
        identity: (u64, u64),
        limits: ProcessLimits,
    ) -> Result<Setup, ToolError> {
        let wanted = Wanted {
            rules,
            home: view.env.get("HOME").map(Path::new),
            network: view.network,
            // Nothing that the zygote writes counts as a file of the command.
            file_bytes: u64::MAX,
        };
        let place = |(path, mount): (&Path, &Mount)| match mount {
            // One directory in memory is enough, and each mount costs every command a moment.
            Mount::Private if path == Path::new("/var/tmp") => (path.to_owned(), Place::Link("/tmp".into())),
            mount => (path.to_owned(), Place::from(mount)),
        };
        let mounts = plan::plan(&wanted)?.mounts().map(place).collect();
        let text =
            |text: &[u8]| CString::new(text).map_err(|_| crate::spawn::bad_text(io::Error::other("NUL")));
        let pair = |(name, value): (&String, &String)| text(format!("{name}={value}").as_bytes());
        Ok(Setup {
            mounts,
            workspace: rules.workspace.real.clone(),
            identity,
            own_network: view.network == Network::Off,
            environment: view.env.iter().map(pair).collect::<Result<_, _>>()?,
            path: text(view.env.get("PATH").map_or("", String::as_str).as_bytes())?,
            shell: text(view.shell.as_os_str().as_bytes())?,
            limits,
            layer: None,
            system_calls: view.system_calls.clone(),
            explain: Some(view.explain),
        })
    }

    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.number(self.mounts.len() as u64);
        for (path, place) in &self.mounts {
            out.bytes(path.as_os_str().as_bytes());
            let (tag, content) = match place {
                Place::ReadOnly => (0, &[][..]),
                Place::ReadWrite => (1, &[][..]),
                Place::Private => (2, &[][..]),
                Place::Proc => (3, &[][..]),
                Place::Devices => (4, &[][..]),
                Place::Link(target) => (5, target.as_os_str().as_bytes()),
                Place::File(content) => (6, content.as_slice()),
                Place::Copy => (7, &[][..]),
                Place::HiddenDirectory => (8, &[][..]),
                Place::HiddenFile => (9, &[][..]),
            };
            out.number(tag);
            out.bytes(content);
        }
        out.bytes(self.workspace.as_os_str().as_bytes());
        out.number(self.identity.0);
        out.number(self.identity.1);
        out.number(u64::from(self.own_network));
        out.number(self.environment.len() as u64);
        for variable in &self.environment {
            out.bytes(variable.as_bytes());
        }
        out.bytes(self.path.as_bytes());
        out.bytes(self.shell.as_bytes());
        for limit in numbers::of_limits(self.limits) {
            out.number(limit);
        }
        out.number(u64::from(self.layer.is_some()));
        if let Some(layer) = &self.layer {
            out.number(layer.bytes);
            out.number(layer.nested.len() as u64);
            for place in &layer.nested {
                out.bytes(place.as_os_str().as_bytes());
            }
        }
        out.number(self.system_calls.len() as u64);
        for group in &self.system_calls {
            out.bytes(group.as_str().as_bytes());
        }
        out.number(match self.explain {
            None => 0,
            Some(Explain::Rare) => 1,
            Some(Explain::Full) => 2,
        });
        out.0
    }

    /// From bytes.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Setup> {
        let mut from = Reader(bytes);
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from);
        let mut mounts = Vec::new();
        for _ in 0..from.number()? {
            let at = path(from.bytes()?);
            let (tag, content) = (from.number()?, from.bytes()?);
            let place = match tag {
                0 => Place::ReadOnly,
                1 => Place::ReadWrite,
                2 => Place::Private,
                3 => Place::Proc,
                4 => Place::Devices,
                5 => Place::Link(path(content)),
                6 => Place::File(content.to_vec()),
                7 => Place::Copy,
                8 => Place::HiddenDirectory,
                9 => Place::HiddenFile,
                _ => return Err(broken()),
            };
            mounts.push((at, place));
        }
        let workspace = path(from.bytes()?);
        let identity = (from.number()?, from.number()?);
        let own_network = from.number()? == 1;
        let mut environment = Vec::new();
        for _ in 0..from.number()? {
            environment.push(text(from.bytes()?)?);
        }
        let (search, shell) = (text(from.bytes()?)?, text(from.bytes()?)?);
        let mut limits = [0; numbers::COUNT];
        for limit in &mut limits {
            *limit = from.number()?;
        }
        let limits = numbers::to_limits(limits);
        Ok(Setup {
            mounts,
            workspace,
            identity,
            own_network,
            environment,
            path: search,
            shell,
            limits,
            layer: if from.number()? == 1 { Some(Layer::decode(&mut from)?) } else { None },
            system_calls: groups(&mut from)?,
            explain: match from.number()? {
                0 => None,
                1 => Some(Explain::Rare),
                2 => Some(Explain::Full),
                _ => return Err(broken()),
            },
        })
    }
}

fn groups(from: &mut Reader<'_>) -> io::Result<Vec<CallGroup>> {
    let group = |from: &mut Reader<'_>| {
        let name = std::str::from_utf8(from.bytes()?).map_err(|_| broken())?;
        CallGroup::from_name(name).ok_or_else(broken)
    };
    (0..from.number()?).map(|_| group(from)).collect()
}

impl Layer {
    fn decode(from: &mut Reader<'_>) -> io::Result<Layer> {
        let bytes = from.number()?;
        let mut nested = Vec::new();
        for _ in 0..from.number()? {
            nested.push(PathBuf::from(OsString::from_vec(from.bytes()?.to_vec())));
        }
        Ok(Layer { bytes, nested })
    }
}

impl From<&Mount> for Place {
    fn from(mount: &Mount) -> Place {
        match mount {
            Mount::ReadOnly => Place::ReadOnly,
            Mount::ReadWrite => Place::ReadWrite,
            Mount::Private => Place::Private,
            Mount::Proc => Place::Proc,
            Mount::Devices => Place::Devices,
            Mount::Link(target) => Place::Link(target.clone()),
            Mount::File(content) => Place::File(content.to_vec()),
            Mount::Copy => Place::Copy,
            Mount::HiddenDirectory => Place::HiddenDirectory,
            Mount::HiddenFile => Place::HiddenFile,
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(broken)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| broken())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(broken)?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the sandbox's setup is cut off or unknown")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn setup() -> Setup {
        let places = [
            Place::ReadOnly,
            Place::ReadWrite,
            Place::Private,
            Place::Proc,
            Place::Devices,
            Place::Link("usr/bin".into()),
            Place::File(b"127.0.0.1 localhost\n".to_vec()),
            Place::Copy,
            Place::HiddenDirectory,
            Place::HiddenFile,
        ];
        let odd = OsString::from_vec(b"/odd\xff\nname".to_vec());
        Setup {
            mounts: places.into_iter().map(|place| (PathBuf::from(&odd), place)).collect(),
            workspace: "/ws".into(),
            identity: (8, 9),
            own_network: true,
            environment: vec![c"A=1".to_owned(), c"B=two words".to_owned()],
            path: c"/usr/bin:/bin".to_owned(),
            shell: c"/bin/sh".to_owned(),
            limits: ProcessLimits {
                open_files: 1,
                file_bytes: 2,
                memory_bytes: 3,
                processes: 4,
                cpu_seconds: 5,
                disk_bytes: 6,
                tmp_bytes: 7,
            },
            layer: Some(Layer { bytes: 8, nested: vec!["in/it".into()] }),
            system_calls: vec![CallGroup::Ptrace, CallGroup::IoUring],
            explain: Some(Explain::Full),
        }
    }

    #[test]
    fn every_setup_comes_back_as_it_was_written() {
        assert_eq!(Setup::decode(&setup().encode()).unwrap(), setup());
    }

    #[test]
    fn a_setup_that_is_cut_off_anywhere_is_refused() {
        let bytes = setup().encode();
        for length in 0..bytes.len() {
            assert!(Setup::decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}
