//! Why a layer is missing, and the command that mends it.
//!
//! In: how the acts ended outside, what the kernel answered, and the machine's switches. Out: for each layer what is
//! there, or a [`Lack`]. Whether a layer works is found by doing; the switches only explain a refusal.

use std::path::{Path, PathBuf};

use super::act::Outcome;

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The cause, as a sentence.
    pub why: String,
    /// What to do about it: commands and files, or a sentence.
    pub mend: String,
}

impl Lack {
    pub(crate) fn new(why: impl Into<String>, mend: impl Into<String>) -> Lack {
        Lack { why: why.into(), mend: mend.into() }
    }
}

/// The machine's switches that explain refusals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// `user.max_user_namespaces`.
    pub(crate) most_user_namespaces: Option<String>,
    /// `kernel.unprivileged_userns_clone`, a switch of Debian.
    pub(crate) userns_clone: Option<String>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, a switch of Ubuntu.
    pub(crate) apparmor_userns: Option<String>,
    /// `kernel.yama.ptrace_scope`.
    pub(crate) ptrace_scope: Option<String>,
    /// The security modules in force, by `/sys/kernel/security/lsm`.
    pub(crate) modules: Option<String>,
    /// How many system call filters this process is under already.
    pub(crate) filters: Option<String>,
    /// Whether this is the inside of a container.
    pub(crate) container: bool,
    /// Helve's own program.
    pub(crate) program: PathBuf,
}

impl Switches {
    /// Those of this machine.
    pub(crate) fn read() -> Switches {
        let text = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let status = text("/proc/self/status").unwrap_or_default();
        let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        Switches {
            most_user_namespaces: text("/proc/sys/user/max_user_namespaces"),
            userns_clone: text("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_userns: text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            ptrace_scope: text("/proc/sys/kernel/yama/ptrace_scope"),
            modules: text("/sys/kernel/security/lsm"),
            filters: filters.map(|number| number.trim().to_owned()),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists()),
            program: std::env::current_exe().unwrap_or_else(|_| "/usr/bin/helve".into()),
        }
    }

    fn is_filtered(&self) -> bool {
        self.filters.as_deref().is_some_and(|number| number != "0")
    }
}

/// User namespaces: `made` is how making one ended, `mounted` how a mount in it ended.
pub(crate) fn user_namespaces(made: Outcome, mounted: Outcome, switches: &Switches) -> Result<String, Lack> {
    let is = |switch: &Option<String>, value: &str| switch.as_deref() == Some(value);
    match (made, mounted) {
        (Outcome::Done, Outcome::Done) => Ok("can be made, and file systems mounted in them".to_owned()),
        (Outcome::Refused(_), _) if is(&switches.most_user_namespaces, "0") => Err(Lack::new(
            "The machine allows no user namespaces: user.max_user_namespaces is 0.",
            "sudo sysctl -w user.max_user_namespaces=15000",
        )),
        (Outcome::Refused(libc::ENOSPC), _) => Err(Lack::new(
            "All user namespaces that the machine allows are in use.",
            "sudo sysctl -w user.max_user_namespaces=15000",
        )),
        (Outcome::Refused(libc::EINVAL | libc::ENOSYS), _) => Err(Lack::new(
            "The kernel is built without user namespaces.",
            "Boot a kernel with CONFIG_USER_NS=y (Linux 3.8 or newer; all large distributions have it).",
        )),
        (Outcome::Refused(_), _) if is(&switches.userns_clone, "0") => Err(Lack::new(
            "Ordinary users may not make user namespaces: kernel.unprivileged_userns_clone is 0.",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )),
        (Outcome::Refused(_), _) | (Outcome::Done, Outcome::Refused(_))
            if is(&switches.apparmor_userns, "1") =>
        {
            Err(Lack::new(
                "AppArmor gives no rights in new user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1).",
                apparmor_profile(&switches.program),
            ))
        }
        (Outcome::Refused(errno), _) if switches.container || switches.is_filtered() => Err(Lack::new(
            format!(
                "A system call filter around this process refuses user namespaces, as in many containers ({}).",
                errno_text(errno)
            ),
            "Start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL for the last), or run Helve outside \
             of it.",
        )),
        (Outcome::Refused(errno), _) => Err(Lack::new(
            format!("The kernel refuses a user namespace ({}).", errno_text(errno)),
            "Allow user namespaces for the user who runs Helve; a process in a chroot cannot make them.",
        )),
        (Outcome::Done, Outcome::Refused(errno)) => Err(Lack::new(
            format!(
                "User namespaces can be made, but nothing can be mounted in them ({}).",
                errno_text(errno)
            ),
            "Look for a security module that denies it: sudo dmesg | grep -i denied",
        )),
        (Outcome::Unknown, _) | (Outcome::Done, Outcome::Unknown) => Err(untried()),
    }
}

/// Nothing is known of what was not come to.
fn untried() -> Lack {
    Lack::new(
        "It could not be tried: the process that tries it was killed, or was too slow.",
        "Try again when the machine has less to do; if it stays, report it.",
    )
}

/// What lets one program make user namespaces where AppArmor keeps them from the rest.
fn apparmor_profile(program: &Path) -> String {
    let program = program.display();
    format!(
        "Write /etc/apparmor.d/helve:\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile helve \"{program}\" flags=(unconfined) {{\n  userns,\n}}\n\
         and load it: sudo apparmor_parser -r /etc/apparmor.d/helve\n\
         Or lift the restriction for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )
}

/// What each version of Landlock's interface brought, and the kernel that has it.
const LANDLOCK: [(u32, &str, &str); 5] = [
    (2, "moving files between directories", "5.19"),
    (3, "truncating files", "6.2"),
    (4, "TCP ports", "6.7"),
    (5, "ioctl on devices", "6.10"),
    (6, "signals and abstract sockets", "6.12"),
];

/// Landlock, by the version of its interface or the error of asking for it.
pub(crate) fn landlock(answer: Result<u32, i32>, switches: &Switches) -> Result<String, Lack> {
    let modules = switches.modules.as_deref();
    match answer {
        Ok(version) => {
            let lacks: Vec<String> = LANDLOCK
                .iter()
                .filter(|(needed, ..)| version < *needed)
                .map(|(_, what, kernel)| format!("{what} (Linux {kernel})"))
                .collect();
            let version = format!("interface version {version}");
            Ok(if lacks.is_empty() { version } else { format!("{version}; it lacks {}", lacks.join(", ")) })
        }
        Err(libc::EOPNOTSUPP) => {
            let present = modules.unwrap_or("capability");
            Err(Lack::new(
                "Landlock is built into the kernel but was not switched on at boot.",
                format!(
                    "Add lsm=landlock,{present} to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then \
                     sudo update-grub) and boot again."
                ),
            ))
        }
        Err(libc::ENOSYS) if modules.is_some_and(|list| list.split(',').any(|one| one == "landlock")) => {
            Err(Lack::new(
                "The kernel has Landlock, but a system call filter around this process hides it.",
                "Start Helve without that filter; in a container: --security-opt seccomp=unconfined, or a newer container \
                 program, whose filter knows Landlock.",
            ))
        }
        Err(libc::ENOSYS) => Err(Lack::new(
            "The kernel has no Landlock.",
            "Boot Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y.",
        )),
        Err(errno) => Err(Lack::new(
            format!("A system call filter around this process refuses Landlock ({}).", errno_text(errno)),
            "Start Helve without that filter; in a container: --security-opt seccomp=unconfined.",
        )),
    }
}

/// What Landlock alone, without namespaces, cannot hold in this version.
pub(crate) fn old_landlock(version: u32) -> Option<Lack> {
    let (_, what, kernel) = LANDLOCK.iter().rev().find(|(needed, ..)| version < *needed)?;
    Some(Lack::new(
        format!("Landlock of this kernel (interface version {version}) does not hold {what} yet."),
        format!("Boot Linux {kernel} or newer, or allow user namespaces, for the sandbox native."),
    ))
}

/// System call filters, by the error of asking for them.
pub(crate) fn seccomp(answer: Result<(), i32>) -> Result<String, Lack> {
    match answer {
        Ok(()) => Ok("filters can be installed".to_owned()),
        Err(libc::ENOSYS | libc::EINVAL) => Err(Lack::new(
            "The kernel has no system call filters.",
            "Boot Linux 4.14 or newer with CONFIG_SECCOMP_FILTER=y.",
        )),
        Err(errno) => Err(Lack::new(
            format!("System call filters are refused ({}).", errno_text(errno)),
            "Start Helve without the filter that is around it.",
        )),
    }
}

/// Control groups, which bound what commands take beside the watch of each command's own init.
pub(crate) fn control_groups(given: bool) -> Result<String, Lack> {
    if given {
        return Ok("bound the memory and the processes of commands".to_owned());
    }
    Err(Lack::new(
        "The host gives Helve no control group of its own; each command's init watches it instead.",
        "Start Helve in a group that is delegated to it: systemd-run --user --scope -p Delegate=yes helve …; for a service \
         Delegate=yes below [Service] (systemctl edit SERVICE).",
    ))
}

/// Tracing of own children, which keeps shells warm. Without it calls are only slower.
pub(crate) fn tracing(traced: Outcome, switches: &Switches) -> Result<String, Lack> {
    match (traced, switches.ptrace_scope.as_deref()) {
        (Outcome::Done, _) => Ok("shells can be kept warm".to_owned()),
        (_, Some(scope @ ("2" | "3"))) => Err(Lack::new(
            format!(
                "Tracing own children is switched off (kernel.yama.ptrace_scope is {scope}): calls are slower."
            ),
            if scope == "3" {
                "Set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and boot again: 3 cannot be lowered."
            } else {
                "sudo sysctl -w kernel.yama.ptrace_scope=1"
            },
        )),
        (Outcome::Refused(errno), _) => Err(Lack::new(
            format!("Tracing own children is refused ({}): calls are slower.", errno_text(errno)),
            "Start Helve without the system call filter that is around it.",
        )),
        (Outcome::Unknown, _) => Err(untried()),
    }
}

/// An error of the kernel as its words.
pub(crate) fn errno_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests;
