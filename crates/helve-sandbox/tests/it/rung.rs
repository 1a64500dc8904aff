//! The backend `landlock`: what a command under it can do and what not. Each forbidden act is tried without a sandbox too,
//! where it succeeds, so that a refusal is known to come from the sandbox.
//!
//! As root the workspace belongs to another user, whom commands then run as; what lies outside belongs to him too, so that
//! nothing is refused by mere ownership.

#![expect(unsafe_code, reason = "the acts are system calls")]

use std::ffi::CString;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::{Cancel, ErrorKind, Exit, LimitHit, Network, SandboxChoice, View};
use pretty_assertions::assert_eq;

use crate::common::{
    Collector, LIMITS, backend, block_on, count_running, job, landlock_works, output, role, run, run_job,
    unique_seconds, view, wait_for,
};

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
fn each_call_has_a_directory_of_its_own_that_goes_with_it() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let command = "stat -c '%a %u' \"$TMPDIR\"; cd \"$HOME\" && pwd && ls -A . .. && echo x > file && mktemp && chmod 0 ../home";
    let (first, second) =
        (output(&LANDLOCK, scene.view.clone(), command), output(&LANDLOCK, scene.view.clone(), command));
    assert_ne!(first, second);
    for text in [first, second] {
        let user = if is_root() { NOBODY } else { rustix::process::getuid().as_raw() };
        let all = lines(&text);
        assert_eq!(all[0], format!("700 {user}"));
        assert!(all[1].ends_with("/home"), "{text}");
        assert_eq!(all[2..6], [".:", "", "..:", "home"]);
        assert!(!Path::new(all[1]).parent().unwrap().exists(), "{text}");
    }
    // A home that commands may write is left as it is.
    let mut view = scene.view.clone();
    view.env.insert("HOME".to_owned(), view.workspace.join("home").display().to_string());
    let home = view.env["HOME"].clone();
    assert_eq!(output(&LANDLOCK, view, "printf %s \"$HOME\""), home);
}

#[test]
fn nothing_survives_its_call() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let seconds = unique_seconds();
    let command = format!(
        "setsid sleep {seconds} & (trap '' TERM; setsid setsid sleep {seconds}) & sleep 0.2; echo $TMPDIR"
    );
    let text = output(&LANDLOCK, scene.view.clone(), &command);
    assert_eq!(count_running(&seconds), 0);
    assert!(!Path::new(text.trim()).exists());
    let mut job = job(&format!("echo $TMPDIR; (setsid sleep {seconds} &); sleep {seconds}"));
    job.timeout = Duration::from_millis(500);
    let done = run_job(&LANDLOCK, scene.view.clone(), job);
    assert_eq!(done.exit, Ok(Exit::TimedOut));
    assert!(wait_for(Duration::from_secs(5), || count_running(&seconds) == 0));
    assert!(!Path::new(done.stdout.trim()).exists(), "{done:?}");
}

#[test]
fn death_of_helve_leaves_neither_processes_nor_files() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let seconds = unique_seconds();
    let note = scene.root.join("ws/note");
    let mut helve = role("rung::role_helve");
    helve.env("ROLE_WORKSPACE", &scene.view.workspace).env("ROLE_SECONDS", &seconds);
    let mut helve = helve.stdout(std::process::Stdio::null()).spawn().unwrap();
    assert!(wait_for(Duration::from_secs(20), || std::fs::read_to_string(&note)
        .is_ok_and(|text| text.ends_with('\n'))));
    let private = PathBuf::from(std::fs::read_to_string(&note).unwrap().trim());
    assert!(wait_for(Duration::from_secs(5), || count_running(&seconds) > 0) && private.exists());
    helve.kill().unwrap();
    helve.wait().unwrap();
    assert!(wait_for(Duration::from_secs(10), || count_running(&seconds) == 0 && !private.exists()));
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_helve() {
    let workspace = PathBuf::from(std::env::var_os("ROLE_WORKSPACE").unwrap());
    let seconds = std::env::var("ROLE_SECONDS").unwrap();
    let command =
        format!("mkdir -p $TMPDIR/a/b; setsid sleep {seconds} & echo $TMPDIR > note; sleep {seconds}");
    run(&LANDLOCK, view(&workspace), &command);
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

#[test]
fn bounds_hold_and_are_named() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let limited = |limits, command: &str| {
        let backend = helve_sandbox::backend(&LANDLOCK, scene.view.clone(), limits).unwrap();
        let collector = Collector::default();
        let ended =
            block_on(backend.run(job(command), Box::new(collector.clone()), Cancel::never())).unwrap();
        let text = String::from_utf8_lossy(&collector.0.lock().unwrap().stdout).into_owned();
        (ended.exit, ended.limit, text)
    };
    let mut limits = LIMITS;
    limits.file_bytes = 4096;
    let (exit, limit, _) = limited(limits, "exec head -c 8192 /dev/zero > big");
    assert_eq!((exit, limit), (Exit::Signal(libc::SIGXFSZ), Some(LimitHit::File(4096))));
    let mut limits = LIMITS;
    limits.cpu_seconds = 1;
    let (exit, limit, _) = limited(limits, "while :; do :; done");
    assert_eq!((exit, limit), (Exit::Signal(libc::SIGXCPU), Some(LimitHit::Cpu(1))));
    let mut limits = LIMITS;
    limits.processes = 8;
    // Another shell than bash, which would try again and again.
    let many = "exec dash -c 'for i in $(seq 100); do sleep 3 & done; echo all'";
    if run(&SandboxChoice::None, scene.view.clone(), "dash -c true").exit == Ok(Exit::Code(0)) {
        let (exit, _, text) = limited(limits, many);
        assert!(exit != Exit::Code(0) && text.is_empty(), "{exit:?} {text}");
        let (exit, _, text) = limited(LIMITS, many);
        assert_eq!((exit, text.as_str()), (Exit::Code(0), "all\n"));
    }
    let mut limits = LIMITS;
    limits.memory_bytes = 64 << 20;
    // Two processes that are each below the bound and together above it.
    let half = "head -c 40000000 /dev/zero | tail -c 40000000 | { sleep 5; cat; } >/dev/null";
    let (exit, limit, _) = limited(limits, &format!("({half}) & ({half}) & wait"));
    assert_eq!((exit, limit), (Exit::Signal(libc::SIGKILL), Some(LimitHit::Memory(64 << 20))));
    let mut limits = LIMITS;
    limits.disk_bytes = 64 << 20;
    let (exit, limit, _) =
        limited(limits, "for i in 1 2 3 4 5 6; do head -c 20000000 /dev/zero > $i; sync $i; done; sleep 5");
    assert_eq!((exit, limit), (Exit::Signal(libc::SIGKILL), Some(LimitHit::Disk(64 << 20))));
}

#[test]
fn everyday_work_goes_on() {
    if !landlock_works() {
        return;
    }
    let tools = [
        (
            "bash",
            "cat <(echo a) <(echo b) && wc -c <<< text && x=$(seq 200000 | sort -rn -S 1M | tail -1) && echo $x",
        ),
        (
            "tar",
            "mkdir d && echo t > d/f && tar cf a.tar d && rm -r d && tar xf a.tar && cat d/f && mv d e && cp -rp e f && find . | sort",
        ),
        (
            "git",
            "git init -q r && cd r && git config user.name n && git config user.email e@e && echo t > f && git add f && git commit -qm m && git worktree add -q ../w && git log --format=%s && git status --short",
        ),
        ("make", "printf 'all: a b\\na b:\\n\\techo $@ > $@\\n' > Makefile && make -s -j2 && cat a b"),
        (
            "python3",
            "python3 -c 'import tempfile, subprocess, threading; f = tempfile.NamedTemporaryFile(); t = threading.Thread(target=lambda: print(1)); t.start(); t.join(); print(subprocess.run([\"echo\", \"2\"], capture_output=True).stdout)'",
        ),
        (
            "node",
            "node -e 'const c = require(\"child_process\"); console.log(c.execSync(\"echo 1\").toString()); setTimeout(() => console.log(2), 5)'",
        ),
        ("cc", "printf 'int main(void) { return 7; }' > p.c && cc p.c -o p && ./p; echo $?"),
        ("perl", "perl -e 'open(my $f, \"<\", \"/proc/self/maps\") or die; print \"ok\\n\"; print `echo 1`'"),
    ];
    for (tool, command) in tools {
        let free = scene();
        let there =
            run(&SandboxChoice::None, free.view.clone(), &format!("command -v {tool} && {tool} --version"));
        if there.exit != Ok(Exit::Code(0)) {
            println!("skipped what needs {tool}, which is not here");
            continue;
        }
        let expected = run(&SandboxChoice::None, free.view, command);
        let done = run(&LANDLOCK, scene().view, command);
        assert_eq!((done.exit, done.stdout), (expected.exit, expected.stdout), "{tool}: {}", done.stderr);
    }
}

#[test]
fn a_program_runs_on_its_callers_own_streams() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let attach = |words: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        let null = || std::fs::File::open("/dev/null").unwrap();
        let program = helve_core::Attach {
            words: words.iter().map(|word| (*word).into()).collect(),
            working_dir: None,
            streams: [null().into(), writer.into(), null().into()],
            terminal: false,
            timeout: Some(Duration::from_secs(30)),
        };
        let ended = block_on(backend(&LANDLOCK, scene.view.clone()).attach(program, Cancel::never()));
        (ended.map(|ended| ended.exit), std::io::read_to_string(reader).unwrap())
    };
    let (exit, text) = attach(&["sh", "-c", "pwd; cat ../secret; exit 3"]);
    assert_eq!((exit, text), (Ok(Exit::Code(3)), format!("{}\n", scene.view.workspace.display())));
    let (exit, _) = attach(&["no-such-program-5e21"]);
    assert_eq!(exit.unwrap_err().kind, ErrorKind::NotFound);
    let plain = scene.view.workspace.join("plain");
    std::fs::write(&plain, "").unwrap();
    let (exit, _) = attach(&[plain.to_str().unwrap()]);
    assert!(exit.unwrap_err().message.contains("cannot be executed"));
}

#[test]
fn what_was_left_running_is_counted() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    let left = |command: &str| {
        let backend = backend(&LANDLOCK, scene.view.clone());
        let sink = Box::new(Collector::default());
        block_on(backend.run(job(command), sink, Cancel::never())).unwrap().left_running
    };
    assert_eq!(left("sleep 0 & wait"), 0);
    assert_eq!(left("sleep 60 & setsid sleep 60 & sleep 0.2"), 2);
}

#[test]
fn a_planted_hook_is_taken_out_and_a_changed_configuration_put_back() {
    if !landlock_works() {
        return;
    }
    let mut scene = scene();
    scene.view.protected = helve_core::protected::NAMES.iter().map(|name| (*name).to_owned()).collect();
    let setup = "git init -q . && git config user.name before && printf 'a = 1' > helve.toml";
    let mut bare = scene.view.clone();
    bare.protected.clear();
    let made = run(&LANDLOCK, bare, setup);
    if made.exit != Ok(Exit::Code(0)) {
        println!("skipped, git is not here: {made:?}");
        return;
    }
    // Shown read-only, as the policy shows its own file.
    scene.view.read_only.push(scene.view.workspace.join("helve.toml"));
    let act = "printf '#!/bin/sh\n' > .git/hooks/pre-commit; git config core.fsmonitor evil; printf 'a = 2' > helve.toml; \
               mkdir .vscode && echo '{}' > .vscode/tasks.json; echo fine > file";
    let backend = backend(&LANDLOCK, scene.view.clone());
    let ended = block_on(backend.run(job(act), Box::new(Collector::default()), Cancel::never())).unwrap();
    let mut removed: Vec<_> = ended.removed.iter().map(|one| one.path.as_str()).collect();
    removed.sort_unstable();
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(removed, [".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json", "helve.toml"]);
    let read = |name: &str| std::fs::read_to_string(scene.view.workspace.join(name));
    assert!(!read(".git/config").unwrap().contains("fsmonitor"));
    assert_eq!(read("helve.toml").unwrap(), "a = 1");
    assert_eq!(read("file").unwrap(), "fine\n");
    assert!(read(".git/hooks/pre-commit").is_err() && read(".vscode/tasks.json").is_err());
}

#[test]
fn files_of_a_command_belong_to_the_owner_of_the_workspace() {
    if !landlock_works() {
        return;
    }
    let scene = scene();
    output(&LANDLOCK, scene.view.clone(), "echo x > made");
    let owner = scene.view.workspace.metadata().unwrap().uid();
    assert_eq!(scene.view.workspace.join("made").metadata().unwrap().uid(), owner);
}
