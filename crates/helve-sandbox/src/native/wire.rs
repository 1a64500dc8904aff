//! What Helve, the zygote and the members say to each other.
//!
//! ```text
//! Helve ──control──► zygote                one per view; the zygote makes members and says so
//!   └─────talk─────► member (init, pid 1)  one per call; a request goes in, the ending comes out
//! ```
//!
//! Both are `SOCK_SEQPACKET` sockets: one message is one record. A zygote hears its [`SETUP`] before anything else. Helve
//! makes every member's sockets and pipes and hands their other ends over with [`Make`]; whoever closes `talk` ends the
//! member and everything in it. A zygote ends when `control` is closed, and its members with it. Numbers are in the
//! machine's own order: both sides are one program.

use std::io;

/// How the helper is told from an ordinary start: its name.
pub(crate) const HELPER_NAME: &str = "helve-sandbox-zygote";
/// The helper's end of `control`, where it was started as a program.
pub(crate) const CONTROL: i32 = 0;
/// The first message to the zygote. Descriptor: a file with an encoded [`super::setup::Setup`].
pub(crate) const SETUP: u32 = 5;

/// An order to the zygote to make a control group namespace whose top is the group that it is in now. Descriptor: where it
/// writes one byte when that is done; without it the descriptor is closed.
pub(crate) const ENCLOSE: u32 = 6;

/// A word to the zygote: many commands are to be expected, so it may load the shell once and have it copied. Not before it
/// is behind its wall.
pub(crate) const LOAD: u32 = 7;

/// The longest request that travels in a message; a longer one is a file, handed over as the last descriptor.
pub(crate) const INLINE_BYTES: usize = 64 * 1024;

/// The most texts of a request that is not in a file.
pub(crate) const MOST_TEXTS: u32 = 4096;

/// What a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// A shell that has started and stands still before it reads its `-c` text; the request is that text.
    Warm = 1,
    /// A process that executes whatever it is asked.
    Parked = 2,
    /// Like `Parked`, with the request in the order to make it.
    Direct = 3,
}

/// An order to the zygote. A [`Request`] follows it for [`Kind::Direct`]. Descriptors: talk, stdout, stderr, then those
/// of the request, then, if there is one, the control group that the command is to be born in and its `cpu.stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Make {
    /// Always [`Make::TAG`].
    pub(crate) tag: u32,
    /// A [`Kind`].
    pub(crate) kind: u32,
    /// Comes back in the answer.
    pub(crate) id: u64,
}

impl Make {
    pub(crate) const TAG: u32 = 1;
}

/// An order to the zygote to guard paths of the workspace; followed by entries, see [`encode_guarded`]. It replaces the
/// list before and holds for members made later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Guard {
    /// Always [`Guard::TAG`].
    pub(crate) tag: u32,
    /// 1 if the entries are in a file that is the message's descriptor.
    pub(crate) in_file: u32,
}

impl Guard {
    pub(crate) const TAG: u32 = 2;
}

/// What the zygote says. Descriptors: for [`Told::MADE`] the pidfd of the member's init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Told {
    /// One of the constants.
    pub(crate) tag: u32,
    /// For a failure: a [`Step`].
    pub(crate) step: u32,
    /// For a failure: an `errno`.
    pub(crate) errno: i32,
    /// For [`Told::CALIBRATED`]: whether the view's shell can be kept warm; for [`Told::COPIES`]: whether it is copied.
    pub(crate) warm: u32,
    /// Of the order.
    pub(crate) id: u64,
}

impl Told {
    /// The template stands; members can be made.
    pub(crate) const READY: u32 = 1;
    /// A member was made.
    pub(crate) const MADE: u32 = 2;
    /// A member could not be made, or a guard not be set: `step` and `errno` say why.
    pub(crate) const FAILED: u32 = 3;
    /// The guard is set.
    pub(crate) const GUARDED: u32 = 4;
    /// The template could not be built: `step` and `errno` say why. The zygote ends.
    pub(crate) const BROKEN: u32 = 5;
    /// It is now known whether the shell can be kept warm (`warm`); said once, after `READY`.
    pub(crate) const CALIBRATED: u32 = 6;
    /// The upper directory of a layer is the descriptor; said before `READY`, for the workspace and then for each file
    /// system in it.
    pub(crate) const UPPER: u32 = 7;
    /// What commands see of the workspace through its layer is the descriptor; said once, before `READY`.
    pub(crate) const MERGED: u32 = 8;
    /// Whether members that are made from now on can be given copies of the shell (`warm`); said when that changes.
    pub(crate) const COPIES: u32 = 9;
}

/// The head of a request to a member; `length` bytes follow, or lie in a file that is the last descriptor (only in an
/// order for a direct member).
///
/// The bytes are texts, each ended by NUL. For a warm member: the shell's text alone. Otherwise: the directory (empty for
/// the workspace), the program (looked up in the view's `PATH` if it has no slash), then its arguments from the zeroth on:
/// a shell is called by its file name (`bash`), as a person would. Descriptors: standard input if `streams` is 1, all three
/// if it is 3. At most [`MOST_TEXTS`] texts outside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Request {
    /// Always [`Request::TAG`].
    pub(crate) tag: u32,
    /// How many bytes follow.
    pub(crate) length: u32,
    /// How many standard streams come as descriptors: 0, 1 or 3.
    pub(crate) streams: u32,
    /// 1 if the bytes are in a file.
    pub(crate) in_file: u32,
    /// 1 if standard input is a terminal that becomes the controlling one.
    pub(crate) terminal: u32,
    /// How many texts there are.
    pub(crate) texts: u32,
    /// 1 if the program is the view's shell, and its text, the last one, may be given to a copy of one that is loaded.
    pub(crate) copied: u32,
}

impl Request {
    pub(crate) const TAG: u32 = 3;
}

/// A signal for a command that runs on its caller's own streams; sent to its member after the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Signal {
    /// Always [`Signal::TAG`].
    pub(crate) tag: u32,
    /// Its number.
    pub(crate) number: i32,
}

impl Signal {
    pub(crate) const TAG: u32 = 4;
}

/// What a member's init says, once, before everything in it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Report {
    /// One of the constants.
    pub(crate) tag: u32,
    /// For [`Report::ENDED`]: the status as `waitpid` gives it. For [`Report::NOT_STARTED`]: an `errno`.
    pub(crate) status: i32,
    /// For [`Report::NOT_STARTED`]: a [`Step`].
    pub(crate) step: u32,
    /// Which bound was hit: a [`Bound`], or 0.
    pub(crate) bound: u32,
    /// How many processes were still running.
    pub(crate) left_running: u64,
}

impl Report {
    /// The command ended.
    pub(crate) const ENDED: u32 = 1;
    /// The command could not be started.
    pub(crate) const NOT_STARTED: u32 = 2;
    /// The member waits for its request; said before anything else, for warm and parked ones.
    pub(crate) const READY: u32 = 3;
}

/// Which bound a member's init saw being hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Bound {
    /// Memory.
    Memory = 1,
    /// Processes.
    Processes = 2,
    /// Processor time.
    Cpu = 3,
    /// Space on the disk.
    Disk = 4,
}

impl Bound {
    /// The bound of that number.
    pub(crate) fn from_number(number: u32) -> Option<Bound> {
        [Bound::Memory, Bound::Processes, Bound::Cpu, Bound::Disk]
            .into_iter()
            .find(|bound| *bound as u32 == number)
    }
}

/// The step at which something could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Step {
    /// Reading what Helve asked.
    Order = 1,
    /// Making the user namespace.
    UserNamespace = 2,
    /// Making the other namespaces.
    Namespaces = 3,
    /// Giving the workspace's files to the sandbox's user.
    Idmap = 4,
    /// Building the tree of mounts.
    Mounts = 5,
    /// Mounting a process file system.
    Proc = 6,
    /// Mounting private directories.
    Private = 7,
    /// Making a process.
    Process = 8,
    /// Setting limits.
    Limits = 9,
    /// Restricting by Landlock.
    Landlock = 10,
    /// Giving up capabilities.
    Capabilities = 11,
    /// Filtering system calls.
    Seccomp = 12,
    /// Entering the starting directory.
    Directory = 13,
    /// Connecting the standard streams.
    Streams = 14,
    /// Executing the program.
    Program = 15,
    /// Guarding paths of the workspace.
    Guard = 16,
    /// Giving up root's identity.
    Identity = 17,
    /// Having the command born in its control group.
    Group = 18,
    /// Laying a layer over the workspace.
    Layer = 19,
}

impl Step {
    const ALL: [Step; 19] = [
        Step::Order,
        Step::UserNamespace,
        Step::Namespaces,
        Step::Idmap,
        Step::Mounts,
        Step::Proc,
        Step::Private,
        Step::Process,
        Step::Limits,
        Step::Landlock,
        Step::Capabilities,
        Step::Seccomp,
        Step::Directory,
        Step::Streams,
        Step::Program,
        Step::Guard,
        Step::Identity,
        Step::Group,
        Step::Layer,
    ];

    /// The step of that number.
    pub(crate) fn from_number(number: u32) -> Option<Step> {
        Step::ALL.into_iter().find(|step| *step as u32 == number)
    }

    /// What could not be done, as words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Step::Order => "the order could not be read",
            Step::UserNamespace => "no user namespace could be made",
            Step::Namespaces => "the mount, process, network and other namespaces could not be made",
            Step::Idmap => {
                "the file system of the workspace, or of what else may be written, cannot show its files as another user's"
            }
            Step::Mounts => "the tree of mounts could not be built",
            Step::Proc => "no process file system could be mounted",
            Step::Private => "the private directories could not be mounted",
            Step::Process => "no process could be made",
            Step::Limits => "its limits could not be set",
            Step::Landlock => "Landlock could not be applied",
            Step::Capabilities => "capabilities could not be given up",
            Step::Seccomp => "the system call filter could not be applied",
            Step::Directory => "its directory could not be entered",
            Step::Streams => "its streams could not be connected",
            Step::Program => "its program could not be executed",
            Step::Guard => "protected paths of the workspace could not be guarded",
            Step::Identity => "root's identity could not be given up",
            Step::Group => "its control group could not be entered",
            Step::Layer => "no layer could be laid over the workspace",
        }
    }
}

/// One path of the workspace that members see through a mount of its own, relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Relative to the workspace, without links.
    pub(crate) path: Vec<u8>,
    /// What the mount does.
    pub(crate) cover: Cover,
}

/// What a mount on a path of the workspace does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// It keeps it from being changed.
    ReadOnly,
    /// It only pins its place, so that nobody can move it away.
    Pin,
    /// It shows an empty file or directory instead.
    Hidden,
}

/// The entries of a [`Guard`], directories before what is in them.
pub(crate) fn encode_guarded(entries: &[Guarded]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.push(match entry.cover {
            Cover::ReadOnly => 1,
            Cover::Pin => 2,
            Cover::Hidden => 3,
        });
        bytes.extend_from_slice(&entry.path);
        bytes.push(0);
    }
    bytes
}

/// The inverse of [`encode_guarded`].
pub(crate) fn decode_guarded(bytes: &[u8]) -> io::Result<Vec<Guarded>> {
    let broken =
        || io::Error::new(io::ErrorKind::InvalidData, "a list of guarded paths is cut off or garbled");
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let end = after.iter().position(|byte| *byte == 0).ok_or_else(broken)?;
        let (path, after) = after.split_at(end);
        let cover = match first {
            1 => Cover::ReadOnly,
            2 => Cover::Pin,
            3 => Cover::Hidden,
            _ => return Err(broken()),
        };
        entries.push(Guarded { path: path.to_vec(), cover });
        rest = after.get(1..).unwrap_or_default();
    }
    Ok(entries)
}
