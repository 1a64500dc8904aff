//! Against directories of plain files that stand in for hierarchies, and, for root, against the host's own hierarchy of
//! processes where Helve may divide it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use helve_core::{Exit, LimitHit};
use pretty_assertions::assert_eq;

use super::shared::{MEMORY_ROOM, PROCESS_ROOM};
use super::*;

const MOUNTS_ONE: &str = "\
30 23 0:26 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
31 23 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 23 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

fn limits() -> ProcessLimits {
    ProcessLimits {
        open_files: 100,
        file_bytes: 1 << 30,
        memory_bytes: 64 << 20,
        processes: 20,
        cpu_seconds: 10,
        disk_bytes: 1 << 30,
        tmp_bytes: 1 << 20,
    }
}

fn read(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap()
}

#[test]
fn only_the_top_of_an_old_hierarchy_is_given() {
    let host = |own: &str| Host::one(MOUNTS_ONE, own);
    let memory = PathBuf::from("/sys/fs/cgroup/memory");
    let all = Host {
        version: Version::One,
        memory: memory.clone(),
        processes: Some(PathBuf::from("/sys/fs/cgroup/pids")),
    };
    assert_eq!(host("4:memory:/\n8:pids:/\n0::/\n"), Some(all.clone()));
    assert_eq!(host("4:memory:/\n8:pids:/somebody\n0::/\n"), Some(Host { processes: None, ..all.clone() }));
    assert_eq!(host("4:memory:/\n0::/\n"), Some(Host { processes: None, ..all.clone() }));
    for foreign in
        ["4:memory:/somebody/elses\n8:pids:/\n", "8:pids:/\n", "4:memory:/../x\n", "", "x\n4:memory\n"]
    {
        assert_eq!(host(foreign), None, "{foreign:?}");
    }
    // A container that sees its own group as the top.
    let inside = MOUNTS_ONE.replace(" / ", " /docker/1 ");
    assert_eq!(Host::one(&inside, "4:memory:/docker/1\n8:pids:/docker/1\n"), Some(all));
    assert_eq!(Host::one(&inside, "4:memory:/docker/12\n8:pids:/docker/1\n"), None);
}

/// A directory that stands in for the unified hierarchy.
struct Unified(tempfile::TempDir);

impl Unified {
    fn new(controllers: &str, handed_down: &str, processes: &str) -> Unified {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), handed_down).unwrap();
        fs::write(dir.path().join("cgroup.procs"), processes).unwrap();
        Unified(dir)
    }

    fn host(&self, own: &str) -> Option<Host> {
        let mounts = format!("33 23 0:29 / {} rw - cgroup2 cgroup2 rw\n", self.0.path().display());
        Host::two(&mounts, own)
    }

    fn made(&self) -> Vec<String> {
        let dirs = fs::read_dir(self.0.path()).unwrap().flatten().filter(|entry| entry.path().is_dir());
        dirs.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn a_group_that_hands_controllers_down_is_used_as_it_is() {
    let unified = Unified::new("cpu memory pids\n", "memory pids\n", "1\n2\n");
    let top = unified.0.path().to_owned();
    let host = Host { version: Version::Two, memory: top, processes: None };
    assert_eq!(unified.host("0::/\n"), Some(host));
    assert_eq!(unified.made(), Vec::<String>::new());
}

#[test]
fn helve_goes_below_only_where_nobody_else_is() {
    let pid = std::process::id();
    for (controllers, processes) in
        [("memory pids", format!("{pid}\n1\n")), ("memory pids", String::new()), ("pids", format!("{pid}\n"))]
    {
        let unified = Unified::new(controllers, "", &processes);
        assert_eq!(unified.host("0::/\n"), None, "{controllers} {processes:?}");
        assert_eq!(unified.made(), Vec::<String>::new());
    }
    let unified = Unified::new("memory pids", "", &format!("{pid}\n"));
    assert!(unified.host("0::/\n").is_some());
    assert_eq!(read(unified.0.path(), "cgroup.subtree_control"), "+memory +pids");
    let with_processors = Unified::new("cpu memory pids", "", &format!("{pid}\n"));
    assert!(with_processors.host("0::/\n").is_some());
    assert_eq!(read(with_processors.0.path(), "cgroup.subtree_control"), "+memory +pids +cpu");
    let own = unified.made().pop().unwrap();
    assert_eq!(own, own_name("self").unwrap());
    assert_eq!(read(&unified.0.path().join(own), "cgroup.procs"), pid.to_string());
}

#[test]
fn what_helve_started_goes_with_it() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    // The second has ended; the file keeps the last that was written.
    let processes = format!("{}\n4194999\n{}\n", std::process::id(), child.id());
    let unified = Unified::new("memory pids", "", &processes);
    let host = unified.host("0::/\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(host.is_some());
    let own = unified.made().pop().unwrap();
    assert_eq!(read(&unified.0.path().join(own), "cgroup.procs"), child.id().to_string());
}

#[test]
fn a_group_that_is_not_delegated_is_left_alone() {
    let pid = std::process::id();
    let unified = Unified::new("memory pids", "memory pids", &format!("{pid}\n"));
    let scope = unified.0.path().join("scope");
    fs::create_dir(&scope).unwrap();
    fs::write(scope.join("cgroup.subtree_control"), "memory pids").unwrap();
    assert_eq!(unified.host("0::/scope\n"), None);
    // Where files can carry such a mark, the mark decides.
    if rustix::fs::setxattr(&scope, "user.delegate", b"1", rustix::fs::XattrFlags::empty()).is_ok() {
        assert_eq!(unified.host("0::/scope\n").map(|host| host.memory), Some(scope));
    }
}

#[test]
fn a_shared_wall_stands_behind_the_bounds_and_names_what_hit_it() {
    let top = tempfile::tempdir().unwrap();
    let (memory, pids) = (top.path().join("memory"), top.path().join("pids"));
    fs::create_dir(&memory).unwrap();
    fs::create_dir(&pids).unwrap();
    let host = Host { version: Version::One, memory, processes: Some(pids) };
    let Ok(Groups::Shared(groups)) = Groups::make(&host, &limits()) else { panic!("no groups") };
    let (one, two) = (groups.memory.clone(), groups.processes.clone().unwrap());
    assert_eq!(read(&one, "memory.limit_in_bytes"), ((64_u64 << 20) + MEMORY_ROOM).to_string());
    assert_eq!(read(&two, "pids.max"), (20 + PROCESS_ROOM).to_string());
    groups.enter(77).unwrap();
    assert_eq!((read(&one, "cgroup.procs"), read(&two, "cgroup.procs")), ("77".into(), "77".into()));

    let hit = |exit| groups.hit(exit, &limits());
    assert_eq!(hit(Exit::Signal(9)), None);
    fs::write(one.join("memory.oom_control"), "low 0\noom 1\noom_kill 2\noom_kill_disable 9\n").unwrap();
    assert_eq!(hit(Exit::Code(0)), None, "a command that works hit nothing that matters");
    assert_eq!(hit(Exit::Code(137)), Some(LimitHit::Memory(64 << 20)));
    assert_eq!(hit(Exit::Signal(9)), None, "it was another command's");
    fs::write(two.join("pids.events"), "max 3\n").unwrap();
    assert_eq!(hit(Exit::Code(1)), Some(LimitHit::Processes(20)));
}

#[test]
fn each_command_has_a_wall_of_its_own_at_its_bounds() {
    let given = tempfile::tempdir().unwrap();
    let host = Host { version: Version::Two, memory: given.path().to_owned(), processes: None };
    let Ok(Groups::Own(groups)) = Groups::make(&host, &limits()) else { panic!("no groups") };
    let top = below(given.path()).next().unwrap();
    assert_eq!(read(&top, "cpu.weight"), "50");
    groups.enter(77).unwrap();
    assert!(groups.room().is_none(), "nobody may be born there yet");
    // The kernel would list the zygote here.
    assert_eq!(read(&top, "cgroup.procs"), "77");
    fs::write(top.join("cgroup.controllers"), "cpuset cpu memory pids\n").unwrap();
    groups.divide(rustix::process::geteuid().as_raw()).unwrap();
    assert_eq!(read(&top, "cgroup.subtree_control"), "+memory +pids +cpu");
    assert_eq!(read(&top.join("zygote"), "cgroup.procs"), "77");

    let (one, two) = (groups.room().unwrap(), groups.room().unwrap());
    let (first, second) = (top.join("command-0"), top.join("command-1"));
    let place = |room: &Room| rustix::fs::fstat(room.descriptors().next().unwrap()).unwrap().st_ino;
    assert_eq!(place(&one), rustix::fs::stat(&first).unwrap().st_ino);
    for group in [&first, &second] {
        let bounds = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"];
        let bounds = bounds.map(|file| read(group, file));
        assert_eq!(bounds, [(64 << 20).to_string(), "0".into(), "1".into(), "36".into()]);
    }
    fs::write(first.join("memory.events"), "low 0\nhigh 0\nmax 8\noom 1\noom_kill 2\noom_group_kill 1\n")
        .unwrap();
    fs::write(second.join("pids.events"), "max 3\n").unwrap();
    assert_eq!(one.hit(Exit::Code(0)), None, "a command that works hit nothing that matters");
    assert_eq!(one.hit(Exit::Signal(9)), Some(LimitHit::Memory(64 << 20)));
    assert_eq!(two.hit(Exit::Code(1)), Some(LimitHit::Processes(20)));
    one.kill();
    assert_eq!(read(&first, "cgroup.kill"), "1");

    assert!(!groups.tidy(true), "nothing is left to be removed");
    assert!(top.join("command-2").is_dir(), "the next one stands ready");
    groups.close();
    assert!(groups.room().is_none() && !groups.is_open());
}

/// Below this a process that is about to execute its program could hit the wall, and take its zygote with it.
#[test]
fn no_wall_is_too_near() {
    let given = tempfile::tempdir().unwrap();
    let host = Host { version: Version::Two, memory: given.path().to_owned(), processes: None };
    let small = ProcessLimits { memory_bytes: 1 << 20, ..limits() };
    let Ok(Groups::Own(groups)) = Groups::make(&host, &small) else { panic!("no groups") };
    let top = below(given.path()).next().unwrap();
    fs::write(top.join("cgroup.controllers"), "memory pids").unwrap();
    fs::write(top.join("cgroup.procs"), "").unwrap();
    groups.divide(rustix::process::geteuid().as_raw()).unwrap();
    let _room = groups.room().unwrap();
    assert_eq!(read(&top.join("command-0"), "memory.max"), (16 << 20).to_string());
}

#[test]
fn only_groups_of_makers_that_are_gone_are_left_over() {
    let top = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let mine = own_name("3").unwrap();
    let (_, start) = maker(&mine).unwrap();
    let stay =
        [mine.clone(), "helve".into(), "helve-x-1-1".into(), format!("helve-{pid}-7"), "user.slice".into()];
    let go = [format!("helve-{pid}-{}-0", start + 1), "helve-4194999-12-self".into()];
    for name in stay.iter().chain(&go) {
        fs::create_dir(top.path().join(name)).unwrap();
    }
    fs::create_dir(top.path().join(&go[0]).join("zygote")).unwrap();
    remove_leftovers(top.path());
    let mut left: Vec<_> = fs::read_dir(top.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let mut stay = stay.to_vec();
    stay.sort();
    assert_eq!(left, stay);
}

/// The kernel takes what this module writes. The hierarchy of processes stands in for that of memory, because it is the
/// one whose top a test may divide without taking memory from somebody.
#[test]
fn a_real_group_holds_a_process_and_goes_with_it() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(parent) = host::top(&mounts, &own, "pids") else {
        return println!("skipped: no hierarchy of processes is given to this process");
    };
    let group = parent.join(own_name("test").unwrap());
    if fs::create_dir(&group).is_err() {
        return println!("skipped: {} cannot be divided", parent.display());
    }
    // One directory stands in for both.
    let groups = Shared {
        memory: group.clone(),
        processes: Some(group.clone()),
        memory_kills: AtomicU64::new(0),
        refused_forks: AtomicU64::new(0),
    };
    write(&group, "pids.max", 3).unwrap();
    let script = "read go; for i in 1 2 3 4 5 6; do sleep 60 & done; wait";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    groups.enter(shell.id()).unwrap();
    drop(shell.stdin.take().map(|mut pipe| io::Write::write_all(&mut pipe, b"go\n")));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while counter(&group, "pids.events", "max") == 0 {
        assert!(std::time::Instant::now() < deadline, "the bound did not hold");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(groups.hit(Exit::Code(2), &limits()), Some(LimitHit::Processes(20)));
    drop(groups);
    assert!(group.exists(), "the kernel keeps a group with processes in it");
    let all = rustix::process::Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(all, rustix::process::Signal::KILL).unwrap();
    shell.wait().unwrap();
    while group.exists() {
        assert!(std::time::Instant::now() < deadline, "the group was not removed");
        std::thread::sleep(Duration::from_millis(5));
    }
}
