//! What the ladder remembers of a probe: which of Helve's own sandboxes holds here.
//!
//! In: the outcome of a climb. Out: the same, from a small file, as long as it was found under the same boot, kernel,
//! program, user and switches of the machine. A lesser answer than the best is believed for some minutes only: what was
//! missing may be mended meanwhile. "None holds" is never kept. The file lies in Helve's state, which no command can
//! write; a file that is broken, old or of another kind counts as none.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::causes::Switches;

/// The name of the file.
const FILE: &str = "sandbox-probe.json";

/// How long a lesser answer than the best is believed.
pub(crate) const LESSER: Duration = Duration::from_secs(600);

/// The largest file that is read.
const FILE_BYTES: u64 = 64 * 1024;

/// One of Helve's own sandboxes, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// With namespaces.
    Native,
    /// Without.
    Landlock,
}

impl Rung {
    pub(crate) const ALL: [Rung; 2] = [Rung::Native, Rung::Landlock];

    /// Its name in results and in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rung::Native => "native",
            Rung::Landlock => "landlock",
        }
    }
}

/// Where an answer is kept, and what it holds for.
#[derive(Debug)]
pub(crate) struct Memory {
    file: PathBuf,
    key: Value,
}

impl Memory {
    /// In this directory, for this machine as it is now; none where it cannot be told from another, and none in a directory
    /// that others can reach: who writes there could have a lesser sandbox chosen.
    pub(crate) fn of(directory: &Path) -> Option<Memory> {
        if !is_own(&std::fs::metadata(directory).ok()?, 0o077) {
            return None;
        }
        Some(Memory { file: directory.join(FILE), key: key(&Switches::read())? })
    }

    /// The rung that held, if that is known.
    pub(crate) fn recall(&self) -> Option<Rung> {
        let mut options = std::fs::OpenOptions::new();
        // What stood there before the directory was closed may be another's.
        let file =
            options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&self.file).ok()?;
        let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        if !is_own(&found, 0o022) || found.len() > FILE_BYTES {
            return None;
        }
        let mut text = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut text).ok()?;
        let kept: Value = serde_json::from_slice(&text).ok()?;
        let rung = Rung::ALL.into_iter().find(|rung| kept["rung"] == rung.name())?;
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(kept["at"].as_u64()?))?;
        // A time to come is no age.
        let fresh = SystemTime::now().duration_since(at).is_ok_and(|age| age < LESSER);
        (kept["key"] == self.key && (rung == Rung::Native || fresh)).then_some(rung)
    }

    /// Keeps the rung, whole or not at all. A failure costs the next process a probe, nothing else.
    pub(crate) fn keep(&self, rung: Rung) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        let text = json!({"rung": rung.name(), "at": at, "key": self.key}).to_string();
        let new = self.file.with_extension(format!("{}.new", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let written = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if written.and_then(|()| std::fs::rename(&new, &self.file)).is_err() {
            let _ = std::fs::remove_file(new);
        }
    }

    /// Forgets what is kept.
    pub(crate) fn forget(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Whether it is this user's, and nobody else has one of these rights.
fn is_own(found: &std::fs::Metadata, rights: u32) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & rights == 0
}

/// What an answer holds for.
fn key(switches: &Switches) -> Option<Value> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let program = std::fs::metadata("/proc/self/exe").ok()?;
    let kernel = rustix::system::uname();
    Some(json!([
        boot.trim(),
        kernel.release().to_string_lossy(),
        kernel.version().to_string_lossy(),
        rustix::process::geteuid().as_raw(),
        [program.dev(), program.ino(), program.size()],
        [program.mtime(), program.mtime_nsec()],
        format!("{switches:?}"),
    ]))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pretty_assertions::assert_eq;

    use super::*;

    /// A directory that is the caller's alone.
    pub(crate) fn own_directory() -> tempfile::TempDir {
        let own = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(own).tempdir().unwrap()
    }

    fn edit(directory: &Path, change: impl Fn(&mut Value)) {
        let file = directory.join(FILE);
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        change(&mut kept);
        std::fs::write(&file, kept.to_string()).unwrap();
    }

    #[test]
    fn an_answer_is_kept_for_this_machine_only() {
        let directory = own_directory();
        let memory = Memory::of(directory.path()).unwrap();
        assert_eq!(memory.recall(), None);
        memory.keep(Rung::Native);
        assert_eq!(memory.recall(), Some(Rung::Native));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left there");
        edit(directory.path(), |kept| kept["key"][0] = "another boot".into());
        assert_eq!(memory.recall(), None);
        memory.keep(Rung::Landlock);
        assert_eq!(memory.recall(), Some(Rung::Landlock));
        memory.forget();
        assert_eq!(memory.recall(), None);
    }

    #[test]
    fn where_others_could_write_nothing_is_kept_or_believed() {
        let directory = own_directory();
        Memory::of(directory.path()).unwrap().keep(Rung::Landlock);
        for (mode, used) in [(0o700, true), (0o500, true), (0o750, false), (0o702, false), (0o777, false)] {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let recalled = Memory::of(directory.path()).and_then(|memory| memory.recall());
            assert_eq!(recalled, used.then_some(Rung::Landlock), "{mode:o}");
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let memory = Memory::of(directory.path()).unwrap();
        for (mode, used) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
            std::fs::set_permissions(directory.path().join(FILE), std::fs::Permissions::from_mode(mode))
                .unwrap();
            assert_eq!(memory.recall(), used.then_some(Rung::Landlock), "{mode:o}");
        }
        if rustix::process::geteuid().is_root() {
            memory.keep(Rung::Landlock);
            std::os::unix::fs::chown(directory.path().join(FILE), Some(65534), None).unwrap();
            assert_eq!(memory.recall(), None, "another's");
        }
        let aside = directory.path().join("aside");
        memory.keep(Rung::Landlock);
        std::fs::rename(directory.path().join(FILE), &aside).unwrap();
        std::os::unix::fs::symlink(&aside, directory.path().join(FILE)).unwrap();
        assert_eq!(memory.recall(), None, "a link");
    }

    #[test]
    fn a_lesser_answer_is_not_believed_for_long() {
        let directory = own_directory();
        let memory = Memory::of(directory.path()).unwrap();
        for (rung, at, believed) in [
            (Rung::Native, 0, true),
            (Rung::Landlock, 0, false),
            (Rung::Landlock, u64::MAX, false),
            (Rung::Landlock, 1 << 40, false),
        ] {
            memory.keep(rung);
            edit(directory.path(), |kept| kept["at"] = at.into());
            assert_eq!(memory.recall(), believed.then_some(rung), "{rung:?} {at}");
        }
    }

    #[test]
    fn a_broken_file_counts_as_none() {
        let directory = own_directory();
        let memory = Memory::of(directory.path()).unwrap();
        for text in ["", "{", "[]", "{\"rung\":\"none\"}", "{\"rung\":\"native\",\"at\":1}"] {
            std::fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(memory.recall(), None, "{text}");
        }
        memory.keep(Rung::Native);
        assert_eq!(memory.recall(), Some(Rung::Native));
        std::fs::write(directory.path().join(FILE), vec![b' '; 1 << 20]).unwrap();
        assert_eq!(memory.recall(), None);
    }

    #[test]
    fn every_switch_is_part_of_the_key() {
        let here = Switches::read();
        let there = Switches { apparmor_userns: Some("other".to_owned()), ..here.clone() };
        assert!(key(&here) == key(&here) && key(&here) != key(&there));
    }
}
