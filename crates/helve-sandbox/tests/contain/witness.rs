//! The witness of the native sandbox: each refused act gives exactly its note, what is not refused gives none, what a program
//! sees is the same as without a witness, and no hostile program makes it fail, hang or grow.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve_core::{Act, CallGroup, Cause, Denied, Exit, Explain, SandboxChoice, ShellBackend, ShellJob, View};
use helve_sandbox::PoolSize;
use pretty_assertions::assert_eq;

use crate::common::{
    Done, LIMITS, User, backend, beside_others, block_on, choice, give_away, play, prime, role, run, shell,
    view, within, works,
};

const HOSTILE: &str = include_str!("hostile.py");

/// Makes one system call with numbers, and prints its `errno`.
const RAW: &str = "import ctypes,sys; l=ctypes.CDLL(None,use_errno=True); \
    r=l.syscall(*[ctypes.c_long(int(a,0)) for a in sys.argv[1:]]); print(ctypes.get_errno() if r<0 else 0)";

/// A workspace, and beside it what is read only (`ro`) and what is not shown (`out`).
struct Scene {
    _root: tempfile::TempDir,
    base: PathBuf,
    _socket: UnixListener,
}

impl Scene {
    fn new() -> Scene {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        open(&base);
        for name in ["ws", "ws/hid", "ws/dir", "ro", "out"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        for name in ["ws/hid/x", "ws/.env", "ws/.mcp.json", "ws/file", "ro/file", "out/secret", "out/tool"] {
            std::fs::write(base.join(name), "x\n").unwrap();
        }
        open(&base.join("out/tool"));
        std::fs::write(base.join("ws/raw.py"), RAW).unwrap();
        std::fs::write(base.join("ws/hostile.py"), HOSTILE).unwrap();
        let socket = UnixListener::bind(base.join("out/sock")).unwrap();
        Scene { _root: root, base, _socket: socket }
    }

    fn view(&self, explain: Explain) -> View {
        let mut view = view(&self.base.join("ws"), Path::new("/home/user"));
        view.read_only.push(self.base.join("ro"));
        view.hidden.push(self.base.join("ws/hid"));
        view.deny_read.push(".env".to_owned());
        view.explain = explain;
        view
    }

    fn native(&self, explain: Explain, pool: PoolSize) -> Arc<dyn ShellBackend> {
        helve_sandbox::native(self.view(explain), LIMITS, pool).unwrap()
    }

    /// A command with `@` for the directory around the workspace.
    fn job(&self, text: &str) -> ShellJob {
        shell(&text.replace('@', self.base.to_str().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }
}

fn denied(done: &Done) -> Vec<Denied> {
    done.ended.as_ref().unwrap_or_else(|error| panic!("{error:?} {}", done.text())).denied.clone()
}

fn call(name: &str, group: Option<CallGroup>) -> (Act, Cause) {
    (Act::SystemCall { name: name.to_owned(), group }, Cause::Filter)
}

fn socket(name: &str, cause: Cause) -> (Act, Cause) {
    (Act::Socket(name.to_owned()), cause)
}

fn connect(address: &str, datagram: bool) -> (Act, Cause) {
    (Act::Connect { address: address.parse().unwrap(), datagram }, Cause::NoNetwork)
}

/// Each rare act, what the program sees of it, and what is said.
#[cfg(target_arch = "x86_64")]
fn rare(scene: &Scene) -> Vec<(String, &'static str, (Act, Cause))> {
    let raw = |numbers: &str| format!("python3 -ISB raw.py {numbers}");
    let python = |code: &str| format!("python3 -ISBc '{code}'");
    let tried = |code: &str| {
        python(&format!("import socket,os\ntry:\n  {code}\n  print(0)\nexcept OSError as e: print(e.errno)"))
    };
    vec![
        (raw("165 0 0 0 0 0"), "1", call("mount", None)),
        (raw("272 0x10020000"), "1", call("unshare CLONE_NEWNS|CLONE_NEWUSER", None)),
        (raw("56 0x10000011 0 0 0 0"), "1", call("clone CLONE_NEWUSER", None)),
        (raw("101 0 0 0 0"), "1", call("ptrace", Some(CallGroup::Ptrace))),
        (raw("310 1 0 0 0 0 0"), "1", call("process_vm_readv", Some(CallGroup::Ptrace))),
        (raw("425 1 0"), "38", call("io_uring_setup", Some(CallGroup::IoUring))),
        (raw("298 0 0 0 0 0"), "1", call("perf_event_open", Some(CallGroup::Perf))),
        (raw("323 0"), "1", call("userfaultfd", Some(CallGroup::Userfaultfd))),
        (raw("250 0 0 0"), "38", call("keyctl", None)),
        (raw("321 0 0 0"), "1", call("bpf", None)),
        (raw("161 0"), "1", call("chroot", None)),
        (raw("41 17 3 0"), "97", socket("AF_PACKET", Cause::Filter)),
        (raw("41 40 1 0"), "97", socket("AF_VSOCK", Cause::Filter)),
        (raw("41 16 3 9"), "93", socket("AF_NETLINK protocol 9", Cause::Filter)),
        (raw("41 2 1 132"), "93", socket("AF_INET protocol 132", Cause::Filter)),
        (raw("41 2 3 1"), "1", socket("AF_INET SOCK_RAW", Cause::NoCapability)),
        (raw("41 10 0x80003 58"), "1", socket("AF_INET6 SOCK_RAW", Cause::NoCapability)),
        (tried("socket.create_connection((\"192.0.2.1\", 443))"), "101", connect("192.0.2.1:443", false)),
        (
            tried("socket.socket(10, 1).connect((\"2001:db8::1\", 80))"),
            "101",
            connect("[2001:db8::1]:80", false),
        ),
        (
            tried("socket.socket(2, 2).sendto(b\"x\", (\"192.0.2.1\", 9))"),
            "101",
            connect("192.0.2.1:9", true),
        ),
        (tried("socket.socket(2, 2).connect((\"127.0.0.1\", 53))"), "0", connect("127.0.0.1:53", true)),
        (
            tried("socket.socket(1, 1).connect(\"@/out/sock\")"),
            "2",
            (Act::ConnectUnix(scene.path("out/sock")), Cause::NotShown),
        ),
        (
            tried("socket.socket(1, 1).connect(\"../out/sock\")"),
            "2",
            (Act::ConnectUnix(scene.path("out/sock")), Cause::NotShown),
        ),
        (
            tried("os.execv(\"@/out/tool\", [\"tool\"])"),
            "2",
            (Act::Execute(scene.path("out/tool")), Cause::NotShown),
        ),
        (
            tried("os.execv(\"hid/x\", [\"x\"])"),
            "2",
            // It was made able to run below.
            (Act::Execute(scene.path("ws/hid/x")), Cause::Hidden(scene.path("ws/hid"))),
        ),
    ]
}

/// Each act with a file, and what is said where a command is explained in full.
fn full(scene: &Scene) -> Vec<(&'static str, (Act, Cause))> {
    let read = |name: &str, cause: Cause| (Act::Read(scene.path(name)), cause);
    let write = |name: &str, cause: Cause| (Act::Write(scene.path(name)), cause);
    let hidden = || Cause::Hidden(scene.path("ws/hid"));
    let denied = || Cause::DenyRead(".env".to_owned());
    let protected = || Cause::Protected(".mcp.json".to_owned());
    vec![
        ("cat @/out/secret", read("out/secret", Cause::NotShown)),
        ("cat ../out/secret", read("out/secret", Cause::NotShown)),
        ("cd dir; cat ../../out/secret", read("out/secret", Cause::NotShown)),
        ("echo @/out/*", read("out", Cause::NotShown)),
        ("cd @/out", read("out", Cause::NotShown)),
        ("cat .env", read("ws/.env", denied())),
        ("cat hid/x", read("ws/hid/x", hidden())),
        ("ls hid", read("ws/hid", hidden())),
        ("echo x > .env", write("ws/.env", denied())),
        ("echo x > hid/new", write("ws/hid/new", hidden())),
        ("echo x > @/out/new", write("out/new", Cause::NotShown)),
        ("echo x >> @/out/secret", write("out/secret", Cause::NotShown)),
        ("echo x > @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("echo x >> @/ro/file", write("ro/file", Cause::ReadOnly)),
        ("cd @/ro; : > file", write("ro/file", Cause::ReadOnly)),
        ("rm -f @/ro/file", write("ro/file", Cause::ReadOnly)),
        ("mkdir @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("mv @/ro/file moved", write("ro/file", Cause::ReadOnly)),
        ("mv file @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("ln -s x @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("ln file @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("chmod 600 @/ro/file", write("ro/file", Cause::ReadOnly)),
        ("touch @/ro/file", write("ro/file", Cause::ReadOnly)),
        ("touch @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("truncate -s 0 @/ro/file", write("ro/file", Cause::ReadOnly)),
        ("mkfifo @/ro/new", write("ro/new", Cause::ReadOnly)),
        ("echo x >> .mcp.json", write("ws/.mcp.json", protected())),
        ("rm -f .mcp.json", write("ws/.mcp.json", protected())),
        ("chmod 777 .mcp.json", write("ws/.mcp.json", protected())),
    ]
}

fn both(test: &str) {
    let _beside = beside_others();
    for user in [User::Same, User::Ordinary] {
        if let Some(mut role) = role(test, user) {
            play(&mut role);
        }
    }
}

#[test]
fn each_rare_act_gives_its_note_and_the_same_error() {
    both("witness::role_rare");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
#[cfg(target_arch = "x86_64")]
fn role_rare() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    std::fs::set_permissions(scene.path("ws/hid/x"), PermissionsExt::from_mode(0o755)).unwrap();
    block_on(async {
        let seen = scene.native(Explain::Rare, PoolSize::NONE);
        let full = scene.native(Explain::Full, PoolSize::NONE);
        let pooled = scene.native(Explain::Rare, PoolSize::default());
        let unseen = helve_sandbox::native_unseen(scene.view(Explain::Rare), LIMITS, PoolSize::NONE).unwrap();
        prime(&*pooled).await;
        let mut wrong = Vec::new();
        for (text, said, (act, cause)) in rare(&scene) {
            let expected = vec![Denied { act, cause, times: 1 }];
            for (name, backend) in [("seen", &seen), ("pooled", &pooled), ("full", &full)] {
                let done = run(&**backend, scene.job(&text)).await;
                let mut notes = denied(&done);
                if name == "full" {
                    // What an interpreter looks for at its start.
                    notes.retain(|note| !matches!(&note.act, Act::Read(_)));
                }
                if done.text() != format!("{said}\n") || notes != expected {
                    wrong.push(format!("{name}: {text}\n  {}  {notes:?}\n  {expected:?}", done.text()));
                }
            }
            let done = run(&*unseen, scene.job(&text)).await;
            if done.text() != format!("{said}\n") || !denied(&done).is_empty() {
                wrong.push(format!("unseen: {text}\n  {}  {:?}", done.text(), denied(&done)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn each_file_gives_its_note_where_a_command_is_explained_in_full() {
    both("witness::role_full");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_full() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    let inside = |notes: &[Denied]| -> Vec<(Act, Cause)> {
        let notes = notes.iter().filter(|note| match &note.act {
            // What a program looks for at its start lies elsewhere.
            Act::Read(path) | Act::Write(path) => path.starts_with(&scene.base),
            _ => true,
        });
        notes.map(|note| (note.act.clone(), note.cause.clone())).collect()
    };
    block_on(async {
        let seen = scene.native(Explain::Full, PoolSize::default());
        let mut wrong = Vec::new();
        for (text, expected) in full(&scene) {
            // A program that says nothing of it, and succeeds.
            let quiet = format!("{{ {text}; }} 2>/dev/null >&2; true");
            let done = run(&*seen, scene.job(&quiet)).await;
            assert_eq!(done.ended.as_ref().map(|ended| ended.exit), Ok(Exit::Code(0)), "{text}");
            let notes = inside(&denied(&done));
            if notes != [expected.clone()] {
                wrong.push(format!("{text}\n  {notes:?}\n  {expected:?}"));
            }
        }
        for text in [
            "cat file; echo x > new; rm new; mkdir d; rmdir d; cp file c; mv c e; ln -s e l; touch e; chmod 600 e",
            "cat @/ro/file nothing @/ro/nothing; ls @/ro; mkdir -p dir; rm -f nothing",
            "echo x > /tmp/x; cat /tmp/x /tmp/nothing; echo x > /dev/null; echo x > ~/x",
            "cd dir && echo x > x && cat x ../file",
            "mkdir @/ro; mkdir dir",
        ] {
            let done = run(&*seen, scene.job(text)).await;
            let notes = inside(&denied(&done));
            if !notes.is_empty() {
                wrong.push(format!("{text}\n  {notes:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn what_is_not_refused_gives_no_note() {
    both("witness::role_quiet");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_quiet() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize::default()] {
            let seen = scene.native(Explain::Rare, pool);
            prime(&*seen).await;
            for text in [
                "true",
                "echo 'bash: x: Permission denied' >&2; echo 'Operation not permitted'; exit 1",
                "ls -la / /tmp; id; whoami; date; env; cat file",
                "nothing-of-this-name; ./nothing; /usr/bin/nothing",
                "python3 -c 'import subprocess,socket; subprocess.run([\"true\"]); socket.socketpair()'",
                "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); \
                 socket.create_connection(s.getsockname())'",
                "cat @/out/secret; echo x > @/ro/new",
                "chmod 755 file; umask 022; ulimit -n; nice true",
                "(sleep 0.01; true) & wait; sh -c 'exit 3'",
            ] {
                let done = run(&*seen, scene.job(text)).await;
                assert_eq!(denied(&done), [], "{text} {}", done.text());
            }
        }
    });
}

#[test]
fn a_call_that_is_ended_from_outside_has_its_notes() {
    both("witness::role_timed_out");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
#[cfg(target_arch = "x86_64")]
fn role_timed_out() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    block_on(async {
        for pool in [PoolSize::NONE, PoolSize::default()] {
            let seen = scene.native(Explain::Rare, pool);
            prime(&*seen).await;
            let text = "for i in 1 2 3; do python3 -ISB raw.py 165 0 0 0 0 0; done; sleep 60";
            let job = ShellJob { timeout: within(Duration::from_secs(3)), ..scene.job(text) };
            let done = run(&*seen, job).await;
            assert_eq!(done.ended.as_ref().unwrap().exit, Exit::TimedOut);
            let acts: Vec<_> = denied(&done).into_iter().map(|one| (one.act, one.cause)).collect();
            assert_eq!(acts, [call("mount", None)]);
        }
    });
}

#[test]
fn hostile_programs_end_and_the_log_stays_bounded() {
    both("witness::role_hostile");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
#[cfg(target_arch = "x86_64")]
fn role_hostile() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    block_on(async {
        for explain in [Explain::Rare, Explain::Full] {
            let seen = scene.native(explain, PoolSize::NONE);
            for act in ["flip", "pointers", "edge", "killed", "stopped", "vfork", "threads", "many_paths"] {
                let text = format!("python3 -ISB hostile.py {act}");
                let job = ShellJob { timeout: within(Duration::from_secs(60)), ..scene.job(&text) };
                let done = run(&*seen, job).await;
                let exit = done.ended.as_ref().map(|ended| ended.exit);
                assert_eq!(exit, Ok(Exit::Code(0)), "{explain:?} {act} {}", done.text());
                assert_eq!(done.text(), "done\n", "{explain:?} {act}");
                assert!(denied(&done).len() < 400, "{act} {}", denied(&done).len());
            }
            let text = "python3 -ISB hostile.py many_calls";
            let job = ShellJob { timeout: within(Duration::from_secs(60)), ..scene.job(text) };
            let done = run(&*seen, job).await;
            assert_eq!(done.text(), "done\n");
            let (act, cause) = call("keyctl", None);
            let notes = denied(&done);
            assert_eq!(notes.iter().find(|one| one.act == act), Some(&Denied { act, cause, times: 100_000 }));
        }
    });
}

#[test]
fn a_bomb_of_processes_that_ask_is_ended() {
    both("witness::role_bomb");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
#[cfg(target_arch = "x86_64")]
fn role_bomb() {
    if !works(&SandboxChoice::Native) {
        return;
    }
    let scene = Scene::new();
    let limits = helve_core::ProcessLimits { processes: 60, ..LIMITS };
    block_on(async {
        let seen = helve_sandbox::native(scene.view(Explain::Rare), limits, PoolSize::NONE).unwrap();
        let job = ShellJob {
            timeout: within(Duration::from_secs(30)),
            ..scene.job("python3 -ISB hostile.py bomb")
        };
        let done = run(&*seen, job).await;
        let ended = done.ended.unwrap();
        assert_eq!(ended.limit, Some(helve_core::LimitHit::Processes(60)), "{:?}", ended.exit);
    });
}

#[test]
fn granted_calls_are_made_and_reach_no_further() {
    both("witness::role_granted");
}

#[test]
#[ignore = "played as a process of its own by the test above"]
#[cfg(target_arch = "x86_64")]
fn role_granted() {
    for name in ["native", "landlock", "bwrap"] {
        let sandbox = choice(name);
        if !works(&sandbox) {
            continue;
        }
        let scene = Scene::new();
        give_away(&scene.path("ws"), &sandbox);
        let mut granted = view(&scene.path("ws"), Path::new("/home/user"));
        granted.system_calls = vec![CallGroup::Ptrace, CallGroup::IoUring];
        block_on(async {
            let backend = backend(&sandbox, granted, LIMITS);
            let done = run(&*backend, scene.job("python3 -ISB hostile.py follow_child")).await;
            assert_eq!(done.text(), "0\n", "{name}");
            if name != "bwrap" {
                // The first process that bwrap shows is its own, and in the same sandbox.
                let done = run(&*backend, scene.job("python3 -ISB hostile.py follow_first")).await;
                assert_eq!(done.text(), "1\n", "{name}");
            }
            // A ring of no entries is wrong, and no longer missing.
            let done = run(&*backend, scene.job("python3 -ISB raw.py 425 0 0")).await;
            assert!(["14\n", "22\n", "1\n"].contains(&done.text().as_str()), "{name} {}", done.text());
            let done = run(&*backend, scene.job("python3 -ISB raw.py 323 0")).await;
            assert_eq!(done.text(), "1\n", "{name}");
        });
    }
}
