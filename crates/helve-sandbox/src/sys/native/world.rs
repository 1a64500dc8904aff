//! What all members of one zygote share: built once, read by processes that must not allocate, never changed.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use libc::{c_char, c_int};

use super::mould;
use super::origin::Origin;
use super::template::Template;
use super::warm::PLACEHOLDER;
use super::witness::Witness;
use crate::confine::landlock::Handled;
use crate::confine::seccomp::{self, Filter};
use crate::native::setup::Setup;
use crate::sys::launch::Resource;

/// Everything that a member reads.
pub(super) struct World {
    /// The template's places.
    pub(super) template: Template,
    /// Options of the private file system.
    pub(super) private_options: CString,
    /// The command's environment, ended by a null pointer.
    pub(super) environment: Vec<*const c_char>,
    /// Where programs are looked up.
    pub(super) path: CString,
    /// The shell.
    pub(super) shell: CString,
    /// The arguments of a warm shell, ended by a null pointer.
    pub(super) shell_arguments: [*const c_char; 4],
    /// Whether the shell may be loaded once and copied.
    pub(super) copied: bool,
    /// Limits of each process.
    pub(super) limits: [(Resource, libc::rlimit); 6],
    /// Limits of the whole.
    pub(super) bounds: helve_core::ProcessLimits,
    /// What a command is forbidden in the end.
    pub(super) filter: Filter,
    /// Who sees what is refused to it, if somebody does.
    pub(super) witness: Option<Witness>,
    /// What Landlock forbids unless it is granted.
    pub(super) handled: Handled,
    /// The same for a command on its caller's own streams: behind their names in `/proc` may be files outside the view.
    pub(super) handled_on_streams: Handled,
    /// What there is of the program that started the helper.
    pub(super) origin: Origin,
    /// `/dev/null`.
    pub(super) null: OwnedFd,
    /// What the pointers above lead to.
    _texts: Vec<CString>,
}

impl World {
    /// For a setup whose template stands.
    pub(super) fn new(
        setup: Setup,
        template: Template,
        origin: Origin,
        null: OwnedFd,
        [handled, handled_on_streams]: [Handled; 2],
    ) -> World {
        // The file system itself is the private directory where there is only one.
        let mode = match template.private.as_slice() {
            [only] if only.open => "1777",
            [_] => "700",
            _ => "755",
        };
        let private_options = format!("mode={mode},size={},nr_inodes=200000", setup.limits.tmp_bytes);
        let filter = seccomp::inner(&setup.system_calls);
        let copied = mould::may_be_copied(&setup);
        let environment: Vec<*const c_char> =
            setup.environment.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        // Moving a list does not move what it holds.
        let witness = Witness::new(&setup, &template, environment.as_ptr() as u64);
        let mut texts = setup.environment;
        let name = setup.shell.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = CString::new(name).unwrap_or_default();
        let shell_arguments = [name.as_ptr(), c"-c".as_ptr(), PLACEHOLDER.as_ptr().cast(), ptr::null()];
        // Moving a list of texts does not move the texts.
        texts.push(name);
        let limits = setup.limits;
        let at_most = |resource: Resource, wanted: u64| {
            let mut current = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: `current` lives through the call.
            unsafe { libc::getrlimit(resource, &mut current) };
            let limit = current.rlim_max.min(wanted);
            (resource, libc::rlimit { rlim_cur: limit, rlim_max: limit })
        };
        // The signal at the lower limit has a name; one that is not heeded is followed by death.
        let (_, mut cpu) = at_most(libc::RLIMIT_CPU, limits.cpu_seconds.saturating_add(2));
        cpu.rlim_cur = cpu.rlim_cur.min(limits.cpu_seconds);
        World {
            template,
            private_options: CString::new(private_options).unwrap_or_default(),
            environment,
            path: setup.path,
            shell: setup.shell,
            shell_arguments,
            copied,
            limits: [
                at_most(libc::RLIMIT_CORE, 0),
                at_most(libc::RLIMIT_NOFILE, limits.open_files),
                at_most(libc::RLIMIT_FSIZE, limits.file_bytes.min(limits.disk_bytes)),
                (libc::RLIMIT_CPU, cpu),
                // Beyond this the kernel refuses further processes; the init, which ends such a command, and the
                // others of the pool count too.
                at_most(libc::RLIMIT_NPROC, limits.processes.saturating_mul(2).saturating_add(64)),
                at_most(libc::RLIMIT_MEMLOCK, 8 << 20),
            ],
            bounds: limits,
            filter,
            witness,
            handled,
            handled_on_streams,
            origin,
            null,
            _texts: texts,
        }
    }

    /// Every descriptor of the template that a member needs until its command starts.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = c_int> {
        let template = &self.template;
        let own = [&template.workspace, &template.root, &template.devices, &self.null];
        own.into_iter().chain(template.writable.iter().map(|(place, _)| place)).map(AsRawFd::as_raw_fd)
    }
}
