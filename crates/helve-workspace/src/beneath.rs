//! Opening a path beneath a directory without following any link.
//!
//! The kernel does it in one system call, `openat2`. Where that does not exist (kernels before 5.6, and the sandbox of
//! commands, whose filter cannot look into its arguments) every part is opened from the one before with `O_NOFOLLOW`, and
//! `..` goes back to a descriptor that is still open: in both ways nothing that is renamed meanwhile leads outside.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How often an open is repeated that a rename elsewhere disturbed.
const TRIES: usize = 64;

/// Opens `path` below `dir`. A link on the way, or at the end unless it is opened as itself (`O_PATH | O_NOFOLLOW`), is
/// `LOOP`; what leads above `dir` is `XDEV`.
pub(crate) fn open(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            // A `..` while something is renamed; the kernel asks to try again.
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS) => return by_steps(dir, path, flags),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

fn by_steps(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.first() == Some(&b'/') {
        return Err(Errno::XDEV);
    }
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    let goes_back = parts.contains(&&b".."[..]);
    // A slash or a dot at the end asks for the directory.
    let names_last = !matches!(path.rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."));
    let (last, above) = match parts.split_last() {
        Some((last, above)) if names_last => (*last, above),
        _ => (&b"."[..], parts.as_slice()),
    };
    let mut way: Vec<OwnedFd> = Vec::new();
    for part in above {
        if *part == b".." {
            way.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let next = directory(way.last().map_or(dir, AsFd::as_fd), part)?;
        if !goes_back {
            way.clear();
        }
        way.push(next);
    }
    let from = way.last().map_or(dir, AsFd::as_fd);
    let opened = rustix::fs::openat(from, OsStr::from_bytes(last), flags | OFlags::NOFOLLOW, Mode::empty())?;
    if flags.contains(OFlags::PATH) && !flags.contains(OFlags::NOFOLLOW) && is_link(&opened)? {
        return Err(Errno::LOOP);
    }
    Ok(opened)
}

/// A directory by its name in another.
fn directory(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, OsStr::from_bytes(name), flags, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) {
        FileType::Directory => Ok(opened),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::NOTDIR),
    }
}

fn is_link(opened: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both ways give the same: a descriptor of the same file, or the same error.
    #[test]
    fn steps_are_what_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("b/file", root.join("a/leaf")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let dir = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let names = ["a", "b", "file", "link", "leaf", "dangling", "gone", "..", ".", ""];
        let mut paths: Vec<String> = names.map(str::to_owned).to_vec();
        for one in names {
            for two in names {
                paths.push(format!("{one}/{two}"));
                paths.extend(names.map(|three| format!("{one}/{two}/{three}")));
                paths.extend(names.map(|three| format!("a/{one}/{two}/{three}")));
            }
        }
        let identity = |fd: OwnedFd| rustix::fs::fstat(&fd).map(|stat| stat.st_ino).unwrap();
        let mut opened = 0;
        for flags in [
            OFlags::PATH,
            OFlags::PATH | OFlags::NOFOLLOW,
            OFlags::PATH | OFlags::DIRECTORY,
            OFlags::RDONLY | OFlags::NONBLOCK,
        ] {
            for path in &paths {
                let steps = by_steps(dir.as_fd(), path.as_bytes(), flags | OFlags::CLOEXEC).map(identity);
                let kernel = if path.is_empty() { "." } else { path };
                let kernel = open(dir.as_fd(), kernel.as_bytes(), flags).map(identity);
                opened += usize::from(steps.is_ok());
                // Of several faults in one path each may name another.
                assert!(
                    steps == kernel || steps.is_err() && kernel.is_err(),
                    "{path} {flags:?}: {steps:?} {kernel:?}"
                );
            }
        }
        assert!(opened > 200, "{opened}");
    }

    #[test]
    fn nothing_above_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("in/deep")).unwrap();
        fs::write(folder.path().join("out"), "x").unwrap();
        symlink("../out", folder.path().join("in/link")).unwrap();
        let dir = rustix::fs::open(folder.path().join("in"), OFlags::PATH, Mode::empty()).unwrap();
        for path in ["../out", "deep/../../out", "/etc/passwd", "link", "..", "deep/../..", "../in/../out"] {
            for flags in [OFlags::PATH, OFlags::RDONLY] {
                assert!(by_steps(dir.as_fd(), path.as_bytes(), flags).is_err(), "{path}");
                assert!(open(dir.as_fd(), path.as_bytes(), flags).is_err(), "{path}");
            }
        }
    }
}
