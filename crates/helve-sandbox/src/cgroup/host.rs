//! Which groups of the host are Helve's to divide.
//!
//! A group is given to Helve if it is the top of its hierarchy as Helve sees it (nobody else is above or beside), or if
//! systemd has marked it as delegated. In the unified hierarchy a group that hands controllers down holds no processes
//! itself; so a given group is used as it is where it hands them down already, and otherwise only where Helve and what it
//! started are alone in it: then they go into a group of their own below.

use std::fs;
use std::path::{Path, PathBuf};

/// The two kinds of hierarchies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// One hierarchy per controller.
    One,
    /// One for all.
    Two,
}

/// The controllers without which there is no wall.
const NEEDED: [&str; 2] = ["memory", "pids"];

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) version: Version,
    /// The group under which groups with a memory bound are made; in the unified hierarchy, those with any.
    pub(super) memory: PathBuf,
    /// The same for a bound on processes, where that is another hierarchy.
    pub(super) processes: Option<PathBuf>,
}

impl Host {
    /// What this host gives to this process. May move it and what it started, once, into a group of its own.
    pub(super) fn find() -> Option<Host> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        Host::one(&mounts, &own).or_else(|| Host::two(&mounts, &own))
    }

    /// The groups under which groups are made.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.memory.as_path()).chain(self.processes.as_deref())
    }

    pub(super) fn one(mounts: &str, own: &str) -> Option<Host> {
        let memory = top(mounts, own, "memory")?;
        Some(Host { version: Version::One, memory, processes: top(mounts, own, "pids") })
    }

    pub(super) fn two(mounts: &str, own: &str) -> Option<Host> {
        let Place { group, is_top } = Place::find(mounts, own, None)?;
        if !is_top && !is_delegated(&group) {
            return None;
        }
        let handed_down = words(&group.join("cgroup.subtree_control"));
        if !NEEDED.iter().all(|name| handed_down.contains(&(*name).to_owned())) {
            hand_down(&group)?;
        }
        Some(Host { version: Version::Two, memory: group, processes: None })
    }
}

/// The top of that controller's own hierarchy, if this process is in it.
pub(super) fn top(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    Place::find(mounts, own, Some(controller)).filter(|place| place.is_top).map(|place| place.group)
}

/// The group of this process in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    group: PathBuf,
    is_top: bool,
}

impl Place {
    /// In the hierarchy of that controller, or in the unified one.
    fn find(mounts: &str, own: &str, controller: Option<&str>) -> Option<Place> {
        let path = own.lines().find_map(|line| {
            let (_number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            match controller {
                Some(controller) => controllers.split(',').any(|name| name == controller),
                None => controllers.is_empty(),
            }
            .then_some(path)
        })?;
        mounts.lines().find_map(|line| Place::below(line, Path::new(path), controller))
    }

    /// The place if this line of `mountinfo` shows the hierarchy.
    fn below(line: &str, path: &Path, controller: Option<&str>) -> Option<Place> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut kind = file_system.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let fits = match controller {
            Some(controller) => name == "cgroup" && options.split(',').any(|option| option == controller),
            None => name == "cgroup2",
        };
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        // A path with an escaped character, such as a space, is taken as it is written, and not found.
        let rest = path.strip_prefix(root).ok().filter(|_| fits)?;
        let is_plain = rest.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let group =
            if rest.as_os_str().is_empty() { PathBuf::from(point) } else { Path::new(point).join(rest) };
        is_plain.then_some(Place { group, is_top: rest.as_os_str().is_empty() })
    }
}

/// Whether systemd has given the group to whoever runs in it.
fn is_delegated(group: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 8];
        rustix::fs::getxattr(group, *name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

/// Lets groups below have the controllers. Only if no process but this one and what it started is in the group; they
/// leave it for one below.
fn hand_down(group: &Path) -> Option<()> {
    let has = words(&group.join("cgroup.controllers"));
    let procs = group.join("cgroup.procs");
    if !NEEDED.iter().all(|name| has.contains(&(*name).to_owned())) || own_processes(&procs).is_none() {
        return None;
    }
    // Processors are shared out too where that can be had.
    let all = if has.iter().any(|name| name == "cpu") {
        &["+memory +pids +cpu", "+memory +pids"][..]
    } else {
        &["+memory +pids"]
    };
    let control = group.join("cgroup.subtree_control");
    let below = group.join(super::own_name("self").ok()?);
    fs::create_dir(&below).ok()?;
    // A process that starts another while it is moved leaves that one behind: then the kernel refuses, and all is tried
    // again.
    let handed = (0..super::MOVES).any(|turn| {
        if turn > 0 {
            std::thread::sleep(super::MOVE_PAUSE);
        }
        // This process is among them the first time only.
        descendants(&procs).is_some_and(|processes| move_all(&processes, &below))
            && all.iter().any(|controllers| fs::write(&control, controllers).is_ok())
    });
    if !handed {
        own_processes(&below.join("cgroup.procs")).map(|all| move_all(&all, group));
        let _ = fs::remove_dir(&below);
    }
    handed.then_some(())
}

/// Whether each process is in the group now, or has ended.
fn move_all(processes: &[u32], group: &Path) -> bool {
    let procs = group.join("cgroup.procs");
    processes
        .iter()
        .all(|pid| fs::write(&procs, pid.to_string()).is_ok() || super::start_time(*pid).is_none())
}

/// The processes in a list, if this one is among them and it has started all others, or they have ended since.
fn own_processes(procs: &Path) -> Option<Vec<u32>> {
    descendants(procs).filter(|listed| listed.contains(&std::process::id()))
}

/// The processes in a list, if each is this one or one that it has started, or has ended since.
fn descendants(procs: &Path) -> Option<Vec<u32>> {
    let listed = words(procs).iter().map(|word| word.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let own = std::process::id();
    listed.iter().all(|pid| descends(*pid, own)).then_some(listed)
}

fn descends(mut pid: u32, from: u32) -> bool {
    // Deeper trees are not Helve's.
    for _ in 0..16 {
        if pid == from {
            return true;
        }
        match super::stat_field(pid, 4).and_then(|parent| u32::try_from(parent).ok()) {
            Some(parent) => pid = parent,
            None => return super::start_time(pid).is_none() && pid != 0,
        }
    }
    false
}

fn words(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}
