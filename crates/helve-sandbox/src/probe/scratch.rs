//! The directory in which the probe's scene stands. Nobody but the probe can change what it consists of.
//!
//! Root's probe writes files and has them written again later, in a directory where every user may make names. So the
//! scratch is made where nobody else can move it away, it is for its owner alone while it is furnished, everything in it is
//! made anew by descriptor, and afterwards one group may pass through it and no more. A process that ends in the middle of it
//! leaves its scratch behind: a later one takes that away.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags};

/// Where it may be made, in this order, after the place that the environment names.
const PLACES: [&str; 2] = ["/tmp", "/var/tmp"];

/// How the name of every scratch begins.
pub(super) const NAME: &str = "helve-probe-";
/// No probe takes so long: whoever made a scratch that is older has ended.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that is removed with everything in it.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    own: File,
}

impl Scratch {
    /// Makes one, for this user alone, in the first place that is safe for it.
    pub(super) fn make(name: &str) -> io::Result<Scratch> {
        let places = std::iter::once(std::env::temp_dir()).chain(PLACES.map(PathBuf::from));
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match place.canonicalize().and_then(|place| Scratch::make_in(&place, name)) {
                Ok(scratch) => return Ok(scratch),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Makes it in this place, which is named without links.
    pub(super) fn make_in(place: &Path, name: &str) -> io::Result<Scratch> {
        if !place.ancestors().all(only_trusted_move_things_in) {
            let why = format!("other users can move things in {}", place.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        remove_left_behind(place, SystemTime::now());
        let parent = rustix::fs::openat(CWD, place, DIRECTORY, Mode::empty())?;
        // Fails if the name is taken, also by a link.
        let own = make_directory(&parent, name)?;
        Ok(Scratch { path: place.join(name), own })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory in it, which everybody who gets there may read and only its owner may change.
    pub(super) fn directory(&self, name: &str) -> io::Result<File> {
        let made = make_directory(&self.own, name)?;
        made.set_permissions(Permissions::from_mode(0o755))?;
        Ok(made)
    }

    /// Lets one group pass through, so that another user than its owner can reach what is in it. Others stay out.
    pub(super) fn open_to(&self, group: u32) -> io::Result<()> {
        fchown(&self.own, None, Some(group))?;
        self.own.set_permissions(Permissions::from_mode(0o710))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes what this user's earlier probes left in a place where nobody else can move it. What cannot be removed stays.
fn remove_left_behind(place: &Path, now: SystemTime) {
    let own = rustix::process::geteuid().as_raw();
    let is_left = |path: &Path| {
        path.symlink_metadata().is_ok_and(|found| {
            let age = found.modified().ok().and_then(|then| now.duration_since(then).ok());
            found.is_dir() && found.uid() == own && age.is_some_and(|age| age > LEFT_BEHIND)
        })
    };
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()) && is_left(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn make_directory(parent: impl std::os::fd::AsFd, name: &str) -> io::Result<File> {
    rustix::fs::mkdirat(&parent, name, Mode::RWXU)?;
    let made: OwnedFd = rustix::fs::openat(&parent, name, DIRECTORY, Mode::empty())?;
    Ok(made.into())
}

/// Makes a file with this content and these permissions; fails if the name is taken, also by a link.
pub(super) fn make_file(parent: &File, name: &str, content: &mut impl io::Read, mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    io::copy(content, &mut file)?;
    file.flush()?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Whether nobody but this user and the system can rename or remove what these have made in the directory.
fn only_trusted_move_things_in(directory: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    directory.symlink_metadata().is_ok_and(|found| {
        let closed = found.mode() & WRITABLE_BY_OTHERS == 0 || found.mode() & STICKY != 0;
        let own = rustix::process::geteuid().as_raw();
        closed && (found.uid() == 0 || found.uid() == own || is_nobody_here(found.uid()))
    })
}

/// Whether the number stands for all users whom this user namespace does not know, among them the system's root.
fn is_nobody_here(user: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let is_known = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first.saturating_add(count)).contains(&user.into()),
            _ => true,
        }
    };
    read("/proc/sys/fs/overflowuid").trim().parse() == Ok(user)
        && !read("/proc/self/uid_map").lines().any(is_known)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_name_that_somebody_has_taken_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        let victim = real.join("victim");
        std::fs::create_dir(&victim).unwrap();
        chmod(&victim, 0o750);
        symlink(&victim, real.join("scratch")).unwrap();
        let error = Scratch::make_in(&real, "scratch").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(victim.metadata().unwrap().mode() & 0o777, 0o750);

        let scratch = Scratch::make_in(&real, "other").unwrap();
        let directory = scratch.directory("directory").unwrap();
        let target = real.join("target");
        std::fs::write(&target, "as it was").unwrap();
        chmod(&target, 0o600);
        symlink(&target, scratch.path().join("directory/file")).unwrap();
        let error = make_file(&directory, "file", &mut &b"new"[..], 0o666).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "as it was");
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_a_probe_left_behind_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        std::fs::write(victim.path().join("file"), "stays").unwrap();
        for name in ["helve-probe-1-a/hidden", "helve-probe-2-b", "other", "helve-probe-3-c"] {
            std::fs::create_dir_all(place.path().join(name)).unwrap();
        }
        std::fs::write(place.path().join("helve-probe-file"), "").unwrap();
        std::fs::remove_dir(place.path().join("helve-probe-3-c")).unwrap();
        symlink(victim.path(), place.path().join("helve-probe-3-c")).unwrap();
        let there = || {
            let names = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort_unstable();
            names
        };
        remove_left_behind(place.path(), SystemTime::now());
        assert_eq!(there().len(), 5, "somebody may still need them");
        remove_left_behind(place.path(), SystemTime::now() + LEFT_BEHIND + Duration::from_secs(60));
        assert_eq!(there(), ["helve-probe-3-c", "helve-probe-file", "other"]);
        assert_eq!(std::fs::read_to_string(victim.path().join("file")).unwrap(), "stays");
    }

    #[test]
    fn a_place_where_others_can_move_it_away_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        let below = real.join("below");
        std::fs::create_dir(&below).unwrap();
        for (mode, used) in
            [(0o777, false), (0o770, false), (0o757, false), (0o1777, true), (0o755, true), (0o700, true)]
        {
            chmod(&real, mode);
            for place in [&real, &below] {
                let made = Scratch::make_in(place, "scratch");
                assert_eq!(made.is_ok(), used, "{mode:o} {made:?}");
            }
        }
        assert!(!real.join("scratch").exists(), "it goes with its owner");
    }
}
