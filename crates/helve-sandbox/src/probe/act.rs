//! The acts, nearly all of them forbidden: one table, performed by a throw-away process of this program, inside and outside.
//!
//! In: a [`Stage`], which is what the probe has set up for the acts. Out: one line an act, its name and 0 or an `errno`.
//! Each act is chosen so that it succeeds outside for an ordinary user and harms nothing there: it touches only what the
//! probe made, or ends with the process. Those that change the process come last.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Pid;

use crate::sys::acts as sys;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Which process does the acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// One in the sandbox.
    Inside,
    /// One outside, to show that the acts succeed there.
    Outside,
}

/// What has to become of an act in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The sandbox promises to refuse it.
    Refused,
    /// Without it no command could work.
    Done,
    /// This sandbox does not promise anything.
    Either,
}

/// Something that a process tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    WriteWorkspace,
    ReadHidden,
    WriteHidden,
    WriteShown,
    MakeDevice,
    KeepCapabilities,
    NewPrivileges,
    SignalProcess,
    SeeProcess,
    AbstractSocket,
    Loopback,
    HypervisorSocket,
    IoUring,
    TraceChild,
    UserNamespace,
    Mount,
}

/// One row of the table of acts.
struct Row {
    act: Act,
    /// Its name in answers.
    name: &'static str,
    /// What it is, as words.
    about: &'static str,
    /// The sandboxes that have to refuse it.
    refused_by: &'static [&'static str],
}

const ALL: &[&str] = &["native", "landlock", "bwrap"];
/// Only these two have namespaces.
const NAMESPACED: &[&str] = &["native", "bwrap"];

const fn row(act: Act, name: &'static str, about: &'static str, refused_by: &'static [&'static str]) -> Row {
    Row { act, name, about, refused_by }
}

/// Every sandbox has to let it happen.
const NOBODY: &[&str] = &[];

const TABLE: [Row; 16] = [
    row(Act::WriteWorkspace, "write-workspace", "make a file in the workspace", NOBODY),
    row(Act::ReadHidden, "read-hidden", "read a file that the view does not show", ALL),
    row(Act::WriteHidden, "write-hidden", "write a file that the view does not show", ALL),
    row(Act::WriteShown, "write-read-only", "write a file that is shown read-only", ALL),
    row(Act::MakeDevice, "make-device", "make a device in the workspace", ALL),
    // Without a user namespace an ordinary user cannot give them up; without new privileges they are out of reach.
    row(Act::KeepCapabilities, "capabilities", "keep a capability within reach", NAMESPACED),
    row(Act::NewPrivileges, "new-privileges", "gain privileges from a setuid program", ALL),
    row(Act::SignalProcess, "signal-outside", "signal a process outside", ALL),
    row(Act::SeeProcess, "see-outside", "see a process outside", NAMESPACED),
    row(Act::AbstractSocket, "abstract-socket", "connect to an abstract socket outside", ALL),
    row(Act::Loopback, "loopback", "connect to a port of the machine's loopback", ALL),
    row(Act::HypervisorSocket, "vsock", "make a socket to the hypervisor", ALL),
    row(Act::IoUring, "io-uring", "reach io_uring", ALL),
    row(Act::TraceChild, "trace", "trace a process", ALL),
    row(Act::UserNamespace, "user-namespace", "make a user namespace", ALL),
    row(Act::Mount, "mount", "mount a file system", ALL),
];

impl Act {
    /// Every act, in the order in which they are done.
    pub(super) fn all() -> impl Iterator<Item = Act> {
        TABLE.iter().map(|row| row.act)
    }

    fn row(self) -> &'static Row {
        // Every act has its row: the table is as long as the list, and a test holds the order.
        &TABLE[self as usize]
    }

    /// Its name in answers.
    pub(super) fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is, as words.
    pub(super) fn about(self) -> &'static str {
        self.row().about
    }

    /// What has to become of it in that sandbox.
    pub(super) fn expected(self, sandbox: &str) -> Expected {
        match self.row().refused_by {
            [] => Expected::Done,
            list if list.contains(&sandbox) => Expected::Refused,
            _ => Expected::Either,
        }
    }

    fn perform(self, stage: &Stage, side: Side) -> io::Result<()> {
        match self {
            Act::WriteWorkspace => {
                let file = stage.workspace().join(format!("file-{side:?}"));
                File::create_new(&file)?;
                std::fs::remove_file(file)
            }
            Act::ReadHidden => File::open(stage.hidden()).and_then(|mut file| file.read_exact(&mut [0])),
            Act::WriteHidden => append(&stage.hidden()),
            Act::WriteShown => append(&stage.shown()),
            Act::MakeDevice => {
                let device = stage.workspace().join(format!("device-{side:?}"));
                // Number 0 is no device at all, and the only one that needs no privilege.
                rustix::fs::mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR, 0)?;
                std::fs::remove_file(device)
            }
            Act::KeepCapabilities => keeps_a_capability(),
            Act::NewPrivileges => match rustix::thread::no_new_privs()? {
                false => Ok(()),
                true => Err(rustix::io::Errno::PERM.into()),
            },
            Act::SignalProcess => {
                let pid = stage.process.ok_or(io::ErrorKind::NotFound)?;
                // Inside, the number may be that of a process inside.
                if pid == rustix::process::getpid() || Some(pid) == rustix::process::getppid() {
                    return Err(rustix::io::Errno::SRCH.into());
                }
                Ok(rustix::process::test_kill_process(pid)?)
            }
            Act::SeeProcess => {
                let pid = stage.process.ok_or(io::ErrorKind::NotFound)?;
                let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid()))?;
                let mark = stage.mark.as_bytes();
                let seen = line.windows(mark.len()).any(|part| part == mark);
                if seen { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
            }
            Act::AbstractSocket => {
                UnixStream::connect_addr(&UnixAddr::from_abstract_name(&stage.mark)?).map(drop)
            }
            Act::Loopback => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, stage.port));
                TcpStream::connect_timeout(&address, CONNECT).map(drop)
            }
            Act::HypervisorSocket => sys::hypervisor_socket(),
            Act::IoUring => sys::reach_io_uring(),
            Act::TraceChild => sys::trace_a_child(),
            Act::UserNamespace => sys::new_user_namespace(),
            Act::Mount => {
                let own = sys::new_mount_namespace();
                // Outside a mount is only made where nobody else sees it.
                if side == Side::Outside {
                    own?;
                }
                sys::mount_and_unmount(&CString::new(stage.workspace().as_os_str().as_bytes())?)
            }
        }
    }
}

fn append(file: &Path) -> io::Result<()> {
    // Whatever takes the file's place is not written in its stead.
    OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(file)?.write_all(b"x")
}

fn keeps_a_capability() -> io::Result<()> {
    /// Beyond the last that the kernel knows, asking is an error.
    const LAST: u32 = 63;
    for number in 0..=LAST {
        let set = rustix::thread::CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::capability_is_in_bounding_set(set) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(_) => break,
        }
    }
    Err(rustix::io::Errno::PERM.into())
}

/// What the probe has set up for the acts, as the process that does them is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The directory that holds everything.
    pub(super) place: PathBuf,
    /// A word that nobody else uses: the abstract socket's name, and part of the process's command line.
    pub(super) mark: String,
    /// The port that is listened on.
    pub(super) port: u16,
    /// A process outside.
    pub(super) process: Option<Pid>,
}

impl Stage {
    /// The workspace of the sandbox.
    pub(super) fn workspace(&self) -> PathBuf {
        self.place.join("workspace")
    }

    /// A file that the view shows read-only.
    pub(super) fn shown(&self) -> PathBuf {
        self.place.join("shown/file")
    }

    /// A file that the view does not show.
    pub(super) fn hidden(&self) -> PathBuf {
        self.place.join("hidden/file")
    }

    /// The arguments from which [`Stage::read`] makes it again.
    pub(super) fn words(&self, side: Side) -> Option<Vec<String>> {
        let process = self.process.map_or(0, Pid::as_raw_pid);
        Some(vec![
            ACTS.to_owned(),
            format!("{side:?}"),
            self.place.to_str()?.to_owned(),
            self.mark.clone(),
            self.port.to_string(),
            process.to_string(),
        ])
    }

    fn read(words: &[String]) -> Option<(Side, Stage)> {
        let [side, place, mark, port, process] = words else { return None };
        let side = [Side::Inside, Side::Outside].into_iter().find(|one| format!("{one:?}") == *side)?;
        let (place, mark) = (PathBuf::from(place), mark.clone());
        let process = Pid::from_raw(process.parse().ok()?);
        Some((side, Stage { place, mark, port: port.parse().ok()?, process }))
    }
}

/// The first argument of a process that does the acts.
const ACTS: &str = "acts";
/// The first argument of a process that waits until nobody holds its standard input.
pub(super) const WAIT: &str = "wait";

/// What the process of the probe does; its exit code.
pub(super) fn main(words: &[String]) -> u8 {
    match words.split_first() {
        Some((role, _)) if role == WAIT => {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            0
        }
        Some((role, rest)) if role == ACTS => match Stage::read(rest) {
            Some((side, stage)) => perform_all(&stage, side),
            None => 2,
        },
        _ => 2,
    }
}

/// Does every act and says how each ended. The acts after a refused user namespace would be done outside of any.
fn perform_all(stage: &Stage, side: Side) -> u8 {
    let mut out = io::stdout();
    let mut refused = None;
    for act in Act::all() {
        let ended = match (act, side, refused) {
            (Act::Mount, Side::Outside, Some(errno)) => Err(errno),
            _ => act.perform(stage, side).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)),
        };
        if act == Act::UserNamespace {
            refused = ended.err();
        }
        if writeln!(out, "{} {}", act.name(), ended.err().unwrap_or(0)).is_err() {
            return 1;
        }
    }
    0
}

/// How an act ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// The kernel answered with this `errno`.
    Refused(i32),
    /// Nothing is known of it.
    Unknown,
}

/// Reads what a process of [`main`] wrote: the outcome of each act, in their order.
pub(super) fn read(text: &str) -> Vec<Outcome> {
    let outcome = |act: Act| {
        let line = text.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == act.name()));
        match line.map(|(_, number)| number.parse()) {
            Some(Ok(0)) => Outcome::Done,
            Some(Ok(errno)) => Outcome::Refused(errno),
            _ => Outcome::Unknown,
        }
    };
    Act::all().map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_act_has_its_row() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.act as usize, at, "{}", row.name);
            let expected = if at == 0 { Expected::Done } else { Expected::Refused };
            assert_eq!(row.act.expected("native"), expected, "{}", row.name);
        }
    }

    #[test]
    fn a_stage_is_read_as_it_was_written() {
        let stage = Stage {
            place: "/some where".into(),
            mark: "mark".to_owned(),
            port: 7,
            process: Pid::from_raw(12),
        };
        let words = stage.words(Side::Inside).unwrap();
        assert_eq!(words[0], ACTS);
        assert_eq!(Stage::read(&words[1..]), Some((Side::Inside, stage)));
        assert_eq!(Stage::read(&words), None);
        assert_eq!(main(&[]), 2);
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_written_through() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("victim");
        std::fs::write(&victim, "as it was").unwrap();
        let stage = Stage { place: place.path().to_owned(), mark: "mark".to_owned(), port: 0, process: None };
        for (act, file) in [(Act::WriteHidden, stage.hidden()), (Act::WriteShown, stage.shown())] {
            std::fs::create_dir(file.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&victim, &file).unwrap();
            let error = act.perform(&stage, Side::Outside).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "as it was");
    }

    #[test]
    fn an_answer_that_lacks_an_act_says_nothing_of_it() {
        let text = "write-workspace 2\nread-hidden 0\nvsock x\nnonsense\n";
        let outcomes = read(text);
        assert_eq!(outcomes.len(), TABLE.len());
        assert_eq!(outcomes[0], Outcome::Refused(2));
        assert_eq!(outcomes[1], Outcome::Done);
        assert!(outcomes[2..].iter().all(|outcome| *outcome == Outcome::Unknown));
    }
}
