//! The backend `landlock`: what a command under it can do and what not. Each forbidden act is tried without a sandbox too,
//! where it succeeds, so that a refusal is known to come from the sandbox.
//!
//! As root the workspace belongs to another user, whom commands then run as; what lies outside belongs to him too, so that
//! nothing is refused by mere ownership.

#![expect(unsafe_code, reason = "the acts are system calls")]

mod life;

use std::ffi::CString;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, Network, SandboxChoice, View};
use pretty_assertions::assert_eq;

use crate::common::{LIMITS, backend, landlock_works, output, role, run, view};

const LANDLOCK: SandboxChoice = SandboxChoice::Landlock;
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives a file to the user whom commands run as.
fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A folder with `ws` in it, and beside it what commands must not touch.
struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
    view: View,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("ws")).unwrap();
    std::fs::create_dir(root.join("other")).unwrap();
    for name in ["secret", "other/file"] {
        std::fs::write(root.join(name), "canary-91c2\n").unwrap();
    }
    for name in ["", "ws", "other", "secret", "other/file"] {
        give(&root.join(name));
    }
    let view = view(&root.join("ws"));
    Scene { _folder: folder, root, view }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn files_outside_the_view_can_be_neither_read_nor_changed() {
    if !landlock_works() {
        return;
    }
    let acts = "t() { n=$1; shift; if \"$@\" >/dev/null 2>&1; then echo \"$n done\"; else echo \"$n refused\"; fi; }
        t read cat ../secret; t list ls ../other; t append dd if=/dev/null of=../secret oflag=append conv=notrunc
        t make touch ../new; t link ln ../secret linked; t move mv ../secret moved; t into mv own ../own
        t empty truncate -s 0 ../secret; t remove rm -f ../other/file; t mkdir mkdir ../dir; t symlink ln -s x ../symlink
        t fifo mkfifo ../fifo; t run ../program; t own cat own";
    let prepare = |scene: &Scene| {
        std::fs::write(scene.root.join("ws/own"), "own\n").unwrap();
        std::fs::write(scene.root.join("program"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(scene.root.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
        give(&scene.root.join("ws/own"));
        give(&scene.root.join("program"));
    };
    let free = scene();
    prepare(&free);
    let text = output(&SandboxChoice::None, free.view.clone(), acts);
    let words: Vec<_> = lines(&text);
    // The last cannot be done: the file was moved away. What was moved cannot be emptied at its old place: it is made new.
    assert!(words[..13].iter().all(|line| line.ends_with(" done")), "{text}");

    let held = scene();
    prepare(&held);
    let text = output(&LANDLOCK, held.view.clone(), acts);
    let mut expected: Vec<String> = words[..13].iter().map(|line| line.replace("done", "refused")).collect();
    expected.push("own done".to_owned());
    assert_eq!(lines(&text), expected);
    assert_eq!(std::fs::read_to_string(held.root.join("secret")).unwrap(), "canary-91c2\n");
    assert_eq!(std::fs::read_to_string(held.root.join("other/file")).unwrap(), "canary-91c2\n");
    let mut left: Vec<_> = held
        .root
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["other", "program", "secret", "ws"]);
}

#[test]
fn the_machine_can_be_seen_as_far_as_programs_need_it_and_not_written() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let command = "r() { cat \"$1\" >/dev/null 2>&1 && echo \"read $1\"; }
        w() { (: >> \"$1\") 2>/dev/null && echo \"wrote $1\"; }
        r /etc/passwd; r /etc/shadow; r /etc/hostname; r /proc/self/stat; r /proc/meminfo; r /bin/sh; r /dev/null
        w /usr/mark; w /etc/passwd; w /proc/self/comm; w /proc/sys/kernel/core_pattern; w /dev/null; w /tmp/mark
        w /var/tmp/mark; w /dev/shm/mark; w /mark; ls /dev/pts >/dev/null 2>&1 && echo listed; head -c 1 /dev/zero | wc -c; true";
    let text = output(&LANDLOCK, scene.view, command);
    let expected = [
        "read /etc/passwd",
        "read /proc/self/stat",
        "read /proc/meminfo",
        "read /bin/sh",
        "read /dev/null",
        "wrote /dev/null",
        "1",
    ];
    assert_eq!(lines(&text), expected);
    assert!(!Path::new("/tmp/mark").exists());
}

#[test]
fn the_live_state_is_what_the_layers_say() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let command = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status; ls /proc/self/fd | wc -l; ulimit -c";
    let text = output(&LANDLOCK, scene.view.clone(), command);
    let value = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_once(':').unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let user = if is_root() { NOBODY } else { rustix::process::getuid().as_raw() };
    assert_eq!(value("Uid"), [user.to_string().as_str(); 4].join(" "));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    if is_root() {
        assert_eq!((value("CapBnd"), value("Groups")), ("0000000000000000".to_owned(), String::new()));
    }
    assert_eq!((value("NoNewPrivs"), value("Seccomp")), ("1".to_owned(), "2".to_owned()));
    // The three streams and the directory that is listed.
    assert!(text.ends_with("4\n0\n"), "{text}");
    let report = backend(&LANDLOCK, scene.view).report();
    assert_eq!(report.backend, "landlock");
    let has = |layer: &str| report.layers.iter().any(|name| name == layer);
    assert!(has("landlock") && has("seccomp") && has("caps") && has("no_new_privs"), "{report:?}");
    assert_eq!(has("uid"), is_root());
}

/// What the acts of `role_acts` answer in a command under Landlock.
fn acts_held(view: &View, setup: &[(&str, String)]) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let mut view = view.clone();
    view.read_only = vec![program.clone()];
    view.env.extend(setup.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let command =
        format!("'{}' --exact rung::role_acts --ignored --nocapture --test-threads=1", program.display());
    answers(&run(&LANDLOCK, view, &command).stdout)
}

/// What they answer as the same user without a sandbox.
fn acts_free(setup: &[(&str, String)]) -> Vec<String> {
    let mut program = role("rung::role_acts");
    if is_root() {
        std::os::unix::process::CommandExt::uid(&mut program, NOBODY);
    }
    let output = program.envs(setup.iter().map(|(name, value)| (name, value))).output().unwrap();
    answers(&String::from_utf8_lossy(&output.stdout))
}

fn answers(text: &str) -> Vec<String> {
    let answers: Vec<String> =
        text.lines().filter_map(|line| Some(line.strip_prefix("act ")?.to_owned())).collect();
    assert!(!answers.is_empty(), "{text}");
    answers
}

#[test]
fn the_users_other_processes_and_services_are_out_of_reach() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let socket = scene.root.join("ws/socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    // A process of the user whom commands run as.
    let mut other = std::process::Command::new("sleep");
    other.arg("60");
    if is_root() {
        std::os::unix::process::CommandExt::uid(&mut other, NOBODY);
    }
    let mut other = other.spawn().unwrap();
    let setup = [
        ("ROLE_PID", other.id().to_string()),
        ("ROLE_SOCKET", socket.display().to_string()),
        ("ROLE_PORT", tcp.local_addr().unwrap().port().to_string()),
    ];
    let mut free = acts_free(&setup);
    let held = acts_held(&scene.view, &setup);
    other.kill().unwrap();
    other.wait().unwrap();
    // Where this backend is needed most, new namespaces are refused to everybody.
    free.retain(|act| !act.starts_with("new namespace"));
    let expected_free = [
        "signal 0",
        "environment 0",
        "limits 0",
        "priority 0",
        "priority of all 3",
        "affinity 0",
        "unix socket 0",
        "tcp socket 0",
        "netlink socket 0",
        "socket pair 0",
        "shared memory 0",
        "queue 0",
        "own limits 0",
        "personality 0",
        "keyring 0",
    ];
    assert_eq!(free, expected_free);
    let (eperm, eacces, enosys, family) = (libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EAFNOSUPPORT);
    let expected_held = [
        ("signal", eperm),
        ("environment", eacces),
        ("limits", eperm),
        ("priority", eperm),
        ("priority of all", eperm),
        ("affinity", eperm),
        ("unix socket", family),
        ("tcp socket", family),
        ("netlink socket", family),
        ("socket pair", 0),
        ("shared memory", enosys),
        ("queue", enosys),
        ("own limits", 0),
        ("personality", eperm),
        ("new namespace", eperm),
        ("keyring", enosys),
    ]
    .map(|(name, errno)| format!("{name} {errno}"));
    assert_eq!(held, expected_held);

    // With the host's network its sockets are there, and those with names are still not.
    let mut scene = scene;
    scene.view.network = Network::Host;
    let open = acts_held(&scene.view, &setup);
    let of = |name: &str| open.iter().find(|line| line.starts_with(name)).cloned().unwrap_or_default();
    assert_eq!(of("tcp"), "tcp socket 0");
    assert_eq!(of("netlink"), "netlink socket 0");
    assert_eq!(of("unix"), format!("unix socket {family}"));
}

/// Says of each act the `errno` that it got.
#[test]
#[ignore = "played inside a sandbox by the test above"]
fn role_acts() {
    // The test's own name stands on the line so far.
    println!();
    let number = |name: &str| std::env::var(name).unwrap().parse::<i32>().unwrap();
    let pid = number("ROLE_PID");
    let say = |name: &str, answer: i64| {
        let errno = if answer == -1 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 };
        println!("act {name} {errno}");
    };
    let result = |answer: std::io::Result<()>| match answer {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap(),
    };
    // SAFETY: all structures live through their calls and have the sizes that are given.
    unsafe {
        say("signal", libc::kill(pid, 0).into());
        let environment = CString::new(format!("/proc/{pid}/environ")).unwrap();
        say("environment", libc::open(environment.as_ptr(), libc::O_RDONLY).into());
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        say("limits", libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &mut limit).into());
        say("priority", libc::setpriority(libc::PRIO_PROCESS, pid as u32, 5).into());
        // Of a user who has no processes, so that it changes nothing: the kernel says that there are none.
        say("priority of all", libc::setpriority(libc::PRIO_USER, 0x7fff_fff0, 5).into());
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&processors), &mut processors);
        say("affinity", libc::sched_setaffinity(pid, size_of_val(&processors), &processors).into());
        let connected = std::os::unix::net::UnixStream::connect(std::env::var("ROLE_SOCKET").unwrap());
        println!("act unix socket {}", result(connected.map(drop)));
        let connected = std::net::TcpStream::connect(("127.0.0.1", number("ROLE_PORT") as u16));
        println!("act tcp socket {}", result(connected.map(drop)));
        say("netlink socket", libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).into());
        println!("act socket pair {}", result(std::os::unix::net::UnixStream::pair().map(drop)));
        let memory = libc::shmget(libc::IPC_PRIVATE, 4096, 0o600);
        say("shared memory", memory.into());
        if memory != -1 {
            libc::shmctl(memory, libc::IPC_RMID, std::ptr::null_mut());
        }
        let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
        say("queue", queue.into());
        if queue != -1 {
            libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut());
        }
        say("own limits", libc::prlimit(0, libc::RLIMIT_NOFILE, std::ptr::null(), &mut limit).into());
        say("personality", libc::personality(0x0040_0000).into());
        let child = libc::fork();
        if child == 0 {
            let refused = libc::unshare(libc::CLONE_NEWUSER) == -1;
            libc::_exit(if refused { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 });
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!("act new namespace {}", libc::WEXITSTATUS(status));
        // The number of the session's keyring.
        say("keyring", libc::syscall(libc::SYS_keyctl, 0, -3, 0));
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_a_remedy() {
    if !landlock_works() {
        return;
    }
    let mut scene = scene();
    std::fs::write(scene.root.join("ws/token"), "canary").unwrap();
    scene.view.hidden = vec![scene.root.join("ws/token")];
    let error = helve_sandbox::backend(&LANDLOCK, scene.view.clone(), LIMITS).err().unwrap();
    assert!(error.kind == ErrorKind::Blocked && error.hint.is_some(), "{error:?}");
    if is_root() {
        scene.view.hidden.clear();
        std::os::unix::fs::chown(&scene.view.workspace, Some(0), Some(0)).unwrap();
        let refused = backend(&LANDLOCK, scene.view.clone()).ready().unwrap_err();
        let done = run(&LANDLOCK, scene.view, "id -u");
        assert_eq!(done.exit, Err(refused.clone()));
        assert_eq!(refused.kind, ErrorKind::SandboxUnavailable);
        assert!(refused.hint.unwrap().contains("chown"));
    }
}

#[test]
fn a_hidden_file_beside_visible_ones_is_not_to_be_had() {
    if !landlock_works() {
        return;
    }
    let mut scene = scene();
    let tools = scene.root.join("tools");
    std::fs::create_dir_all(tools.join("bin")).unwrap();
    std::fs::write(tools.join("bin/tool"), "tool\n").unwrap();
    std::fs::write(tools.join("credentials"), "canary\n").unwrap();
    scene.view.read_only = vec![tools.clone()];
    scene.view.hidden = vec![tools.join("credentials")];
    let command = format!("cd '{}'; cat bin/tool; cat credentials 2>/dev/null || echo none", tools.display());
    assert_eq!(output(&LANDLOCK, scene.view, &command), "tool\nnone\n");
}
