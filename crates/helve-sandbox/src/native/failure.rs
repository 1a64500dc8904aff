//! Errors of the native sandbox: what could not be done, why, and what mends it.

use std::io;
use std::path::Path;

use helve_core::{ErrorKind, Removed, ToolError};

use super::wire::Step;
use crate::namespaces::why_none;
use crate::plan::rules::Rules;
use crate::protect::shown;

/// What is the sandbox's own, so that nothing of the outside can be shown there, or hidden.
const OWN: [&str; 2] = ["/dev", "/proc"];

/// The zygote or a member could not be made.
pub(super) fn refused(step: u32, errno: i32) -> ToolError {
    let cause = io::Error::from_raw_os_error(errno);
    let Some(step) = Step::from_number(step) else {
        return ToolError::internal(format!("The sandbox native failed at an unknown step: {cause}"))
            .hint("Start Helve anew; if it stays, report it.");
    };
    let message = format!("The sandbox native cannot be had here: {}: {cause}", step.describe());
    let hint = match (step, errno) {
        (Step::Identity, libc::EINVAL) => {
            "This root knows no other user to run commands as, because the user namespace that it is in maps too few. \
             Run Helve as an ordinary user, or outside of that namespace, or map more users into it (/etc/subuid)."
                .to_owned()
        }
        _ => remedy(step),
    };
    ToolError::new(ErrorKind::SandboxUnavailable, message).hint(hint)
}

/// The same for a view, which may name what no sandbox can show.
pub(super) fn view_refused(rules: &Rules, step: u32, errno: i32) -> ToolError {
    let error = refused(step, errno);
    let builds = matches!(
        Step::from_number(step),
        Some(Step::Namespaces | Step::Idmap | Step::Mounts | Step::Proc | Step::Private)
    );
    let own = |path: &Path| OWN.into_iter().find(|own| path.starts_with(own));
    let Some((path, own)) = rules.all().filter(|_| builds).find_map(|rule| {
        let path = &rule.given;
        own(path).or_else(|| own(&rule.real)).map(|own| (path.display(), own))
    }) else {
        return error;
    };
    let message =
        format!("{path} cannot be shown or hidden: the sandbox has {own} of its own. {}", error.message);
    ToolError::new(error.kind, message).hint(format!(
        "Leave {path} out of --ro, --rw and --hide, or of view.read_only, view.read_write and view.hidden. The sandbox landlock \
         shows what the machine has there."
    ))
}

fn remedy(step: Step) -> String {
    match step {
        Step::UserNamespace | Step::Namespaces => {
            format!("{}; or choose sandbox = \"landlock\", which needs none.", why_none())
        }
        Step::Idmap => {
            "Put the workspace, and what else commands may write, on a file system that supports idmapped mounts (ext4, xfs, \
             btrfs, tmpfs), or give it to an ordinary user: chown -R USER WORKSPACE; or run Helve as that user."
                .to_owned()
        }
        Step::Mounts | Step::Private | Step::Proc => {
            format!("Check that the directories of the policy exist and can be read. {}.", why_none())
        }
        Step::Process | Step::Limits | Step::Group => {
            "Check the limits on processes, memory and namespaces of the user who runs Helve.".to_owned()
        }
        Step::Landlock => {
            "Use Linux 5.13 or newer with Landlock switched on (lsm=landlock,… on the kernel's command line)."
                .to_owned()
        }
        Step::Seccomp => "Use a kernel with CONFIG_SECCOMP_FILTER.".to_owned(),
        Step::Capabilities | Step::Identity => {
            "Run Helve as an ordinary user, or as root with all of root's rights.".to_owned()
        }
        Step::Layer => {
            "A layer needs overlayfs and tmpfs in a user namespace with attributes of users (Linux 6.6 and newer, or root). \
             As an ordinary user it cannot be laid over a workspace in which another file system is mounted. Or write \
             tools.exec.mode = \"direct\" and tools.exec.checkpoint = false."
                .to_owned()
        }
        Step::Guard => {
            "Look for protected paths of the workspace that change all the time, and try again.".to_owned()
        }
        Step::Order | Step::Directory | Step::Streams | Step::Program => {
            "Try again; if it stays, report it.".to_owned()
        }
    }
}

/// The command could not be started in a member that stood.
pub(super) fn not_started(step: u32, errno: i32, program: &str, is_shell: bool) -> ToolError {
    let cause = io::Error::from_raw_os_error(errno);
    match (Step::from_number(step), errno) {
        (Some(Step::Program), libc::E2BIG) => {
            ToolError::new(ErrorKind::TooLarge, "The command is longer than the kernel passes to a process.")
                .hint("Write it into a file of the workspace and run that file.")
        }
        (Some(Step::Program), _) if is_shell => {
            let message = format!("{program} could not be started: {cause}");
            ToolError::new(ErrorKind::SandboxUnavailable, message)
                .hint(format!("Install {program}, or name another shell with tools.exec.shell."))
        }
        (Some(Step::Program), libc::ENOENT | libc::ENOTDIR) => {
            ToolError::not_found(format!("There is no program {program} in the sandbox."))
                .hint("Install it, or give its path; what lies outside the view is not there.")
        }
        (Some(Step::Program), _) => {
            ToolError::failed(format!("The program {program} cannot be executed: {cause}"))
                .hint("Name a file that may be executed: chmod +x FILE.")
        }
        (Some(Step::Directory), _) => {
            ToolError::not_found(format!("The starting directory cannot be entered in the sandbox: {cause}"))
                .hint("Create it first, or leave working_dir out to start in the workspace.")
        }
        _ => refused(step, errno),
    }
}

/// How many paths an error names.
const MOST_NAMED: usize = 8;

/// An error of a call after which something was taken away: both are told.
pub(super) fn and_removed(mut error: ToolError, removed: &[Removed]) -> ToolError {
    if removed.is_empty() {
        return error;
    }
    let named: Vec<String> =
        removed.iter().take(MOST_NAMED).map(|removed| shown(removed.path.as_bytes())).collect();
    let more = removed.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let stop = if error.message.ends_with('.') { "" } else { "." };
    error.message.push_str(&format!(
        "{stop} What the command had put at protected paths was taken away: {}{more}.",
        named.join(", ")
    ));
    error
}

/// A sink failed.
pub(super) fn sink_failed() -> ToolError {
    ToolError::internal("What takes the command's output failed, and the command was ended.")
}

/// Two zygotes in a row ended before they could begin.
pub(super) fn never_began() -> ToolError {
    ToolError::failed("The sandbox's helper process was killed before the command began, twice.")
        .hint("Look for whoever kills processes here, such as the out-of-memory killer, and try again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_what_mends_it() {
        for step in 0..=20 {
            for errno in [libc::EPERM, libc::ENOSPC, libc::E2BIG, libc::ENOENT] {
                for error in [refused(step, errno), not_started(step, errno, "prog", step % 2 == 0)] {
                    assert!(error.hint.is_some(), "{step} {errno} {error:?}");
                }
            }
        }
    }

    #[test]
    fn a_missing_program_is_told_from_one_that_cannot_be_executed_and_from_a_missing_shell() {
        let step = Step::Program as u32;
        let kind = |errno, is_shell| not_started(step, errno, "prog", is_shell).kind;
        assert_eq!(kind(libc::ENOENT, false), ErrorKind::NotFound);
        assert_eq!(kind(libc::EACCES, false), ErrorKind::ToolFailed);
        assert_eq!(kind(libc::ENOENT, true), ErrorKind::SandboxUnavailable);
        assert_eq!(kind(libc::E2BIG, true), ErrorKind::TooLarge);
    }
}
