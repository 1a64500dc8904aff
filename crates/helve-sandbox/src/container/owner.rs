//! Whose a container is: the process of Helve that made it, by boot, pid namespace, number and time of its start.
//!
//! A container ends with its owner and the engine removes it then. Where the engine could not, because it was killed too or
//! because the owner died before the container was started, the next start finds it by its label.

use std::path::{Path, PathBuf};

use super::engine::Engine;

/// The label that every container of Helve's bears.
pub(super) const LABEL: &str = "dev.helve.owner";

/// How the names of directories begin that a start makes and removes again.
const PREFIX: &str = "helve-container-";

/// A process, known also after its number was given to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    boot: String,
    namespace: String,
    pid: u32,
    started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Option<Owner> {
        let pid = std::process::id();
        Some(Owner {
            boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned(),
            namespace: namespace()?,
            pid,
            started: started(pid)?,
        })
    }

    /// As a label.
    pub(super) fn label(&self) -> String {
        format!("{}.{}.{}.{}", self.boot, self.namespace, self.pid, self.started)
    }

    fn read(label: &str) -> Option<Owner> {
        let mut parts = label.split('.');
        let owner = Owner {
            boot: parts.next()?.to_owned(),
            namespace: parts.next()?.to_owned(),
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Whether it is certain that the process is gone, as far as `this` one can know.
    fn is_gone(&self, this: &Owner) -> bool {
        if self.boot != this.boot {
            return true;
        }
        // Numbers of another namespace say nothing here.
        self.namespace == this.namespace && started(self.pid) != Some(self.started)
    }

    /// A new directory for what a container gets from this process, which nobody else can enter.
    pub(super) fn directory(&self) -> std::io::Result<PathBuf> {
        use std::os::unix::fs::DirBuilderExt;
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}.{number}", self.label()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }
}

/// Removes containers and directories whose owners are gone. What cannot be removed is left to the next start.
pub(super) fn remove_orphans(engine: &Engine, this: &Owner) {
    for found in engine.labelled(LABEL).unwrap_or_default() {
        if Owner::read(&found.label).is_some_and(|owner| owner.is_gone(this)) {
            let _ = engine.remove(&found.id);
        }
    }
    remove_directories(&std::env::temp_dir(), this);
}

fn remove_directories(folder: &Path, this: &Owner) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let label = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.rsplit_once('.'));
        if label.and_then(|(label, _)| Owner::read(label)).is_some_and(|owner| owner.is_gone(this)) {
            // Of another user's nothing is removed, because it cannot be entered.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The pid namespace of this process.
fn namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_str()?.trim_matches(|sign: char| !sign.is_ascii_digit()).to_owned())
}

/// When a process was started, in the kernel's ticks since the boot; none if there is no such process.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows it are numbers, the first of them field 3.
    stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_label_names_one_process_and_tells_when_it_is_gone() {
        let this = Owner::this().unwrap();
        assert_eq!(Owner::read(&this.label()), Some(this.clone()));
        assert!(!this.is_gone(&this));
        let other_time = Owner { started: this.started + 1, ..this.clone() };
        assert!(other_time.is_gone(&this));
        let rebooted = Owner { boot: "x".to_owned(), ..this.clone() };
        assert!(rebooted.is_gone(&this));
        // Somebody else's process in another namespace is not this one's to judge.
        let elsewhere = Owner { namespace: "1".to_owned(), ..other_time };
        assert!(!elsewhere.is_gone(&this));
        for broken in ["", "a.b.c.d", "a.b.1.2.3", "a.b.1"] {
            assert_eq!(Owner::read(broken), None);
        }
    }

    #[test]
    fn directories_of_processes_that_are_gone_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let this = Owner::this().unwrap();
        let gone = Owner { started: this.started + 1, ..this.clone() };
        let name = |owner: &Owner| format!("{PREFIX}{}.7", owner.label());
        let (mine, theirs, other) = (name(&this), name(&gone), format!("{PREFIX}x"));
        for name in [&mine, &theirs, &other] {
            std::fs::create_dir_all(folder.path().join(name).join("inside")).unwrap();
        }
        remove_directories(folder.path(), &this);
        let there = |name: &str| folder.path().join(name).exists();
        assert_eq!((there(&mine), there(&theirs), there(&other)), (true, false, true));
    }
}
