//! Streams that a command opens a second time by their names (`echo … > /dev/stderr`).
//!
//! Root's commands are another user outside, to whom a pipe of root's would be closed. Whoever can name a pipe at all has it
//! open already or may look into a process that has, so its mode protects nothing and is opened for everybody. A terminal
//! that was made for the command is given to its user. Anything else (files, named pipes) stays as it is: it has names that
//! others know.

use std::os::fd::AsFd;

use rustix::fs::{Mode, Uid};

use crate::sys::native::for_root;

/// What `fstatfs` says of a pipe without a name.
const PIPE_FILE_SYSTEM: i128 = 0x5049_5045;

/// Lets a command open a pipe again that it is given.
pub(super) fn allow(stream: impl AsFd) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let is_pipe =
        rustix::fs::fstatfs(&stream).is_ok_and(|system| i128::from(system.f_type) == PIPE_FILE_SYSTEM);
    if is_pipe {
        // Where this fails the command can still use what it has open.
        let _ = rustix::fs::fchmod(&stream, Mode::from_raw_mode(0o666));
    }
}

/// Gives the command's user a terminal that was made for the command.
pub(super) fn give(terminal: impl AsFd) {
    if rustix::process::geteuid().is_root()
        && let Some(user) = for_root()
    {
        let _ = rustix::fs::fchown(&terminal, Some(Uid::from_raw(user)), None);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_a_pipe_without_a_name_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("named");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &named,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let named = std::fs::File::options().read(true).write(true).open(&named).unwrap();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let writer = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        let modes = [&named, &file, &writer].map(|file| {
            allow(file);
            file.metadata().unwrap().mode() & 0o777
        });
        let open = if rustix::process::geteuid().is_root() { 0o666 } else { 0o600 };
        assert_eq!(modes, [0o600, 0o600, open]);
    }
}
