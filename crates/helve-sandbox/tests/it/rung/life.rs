//! A call under Landlock from its beginning to its end: its own directory, its bounds, what it leaves, and everyday work.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::{Cancel, ErrorKind, Exit, LimitHit, SandboxChoice};
use pretty_assertions::assert_eq;

use super::{LANDLOCK, NOBODY, is_root, lines, scene};
use crate::common::{
    Collector, LIMITS, backend, block_on, bwrap_works, count_running, job, landlock_works, output, role, run,
    run_job, unique_seconds, view, wait_for,
};

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
    let mut helve = role("rung::life::role_helve");
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
    // Each is below the bound, and both together above it.
    let (exit, limit, _) = limited(limits, &two_halves(20));
    assert_eq!((exit, limit), (Exit::Signal(libc::SIGKILL), Some(LimitHit::Memory(64 << 20))));
    let mut limits = LIMITS;
    limits.disk_bytes = 64 << 20;
    // What others give back meanwhile hides what the command takes, so it may try more than once.
    let fill = "for i in $(seq 10); do head -c 20000000 /dev/zero > $i; sync $i; done; sleep 2";
    let disk = (Exit::Signal(libc::SIGKILL), Some(LimitHit::Disk(64 << 20)));
    let found = (0..5).map(|_| limited(limits, fill)).find(|(exit, limit, _)| (*exit, *limit) == disk);
    assert!(found.is_some());
}

/// Two processes that hold 40 MB each for so many seconds: long, where the machine may be slow to fill them.
fn two_halves(seconds: u32) -> String {
    let half =
        format!("head -c 40000000 /dev/zero | tail -c 40000000 | {{ sleep {seconds}; cat; }} >/dev/null");
    format!("({half}) & ({half}) & wait")
}

#[test]
fn the_tree_of_bwrap_is_held_to_its_bounds_too() {
    if !bwrap_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut limits = LIMITS;
    limits.memory_bytes = 64 << 20;
    let run = |limits, seconds| {
        let backend = helve_sandbox::backend(&SandboxChoice::Bwrap, view(folder.path()), limits).unwrap();
        let job = job(&two_halves(seconds));
        block_on(backend.run(job, Box::new(Collector::default()), Cancel::never())).unwrap()
    };
    assert_eq!(run(limits, 20).limit, Some(LimitHit::Memory(64 << 20)));
    let free = run(LIMITS, 1);
    assert_eq!((free.exit, free.limit), (Exit::Code(0), None));
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
            signals: tokio::sync::mpsc::unbounded_channel().1,
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
    // The directory of a program that never ran goes too, and before the answer.
    let temporary = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temporary.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut program = role("rung::life::role_not_executed");
    program.env("TMPDIR", temporary.path()).env("ROLE_WORKSPACE", &scene.view.workspace);
    assert!(program.status().unwrap().success());
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_not_executed() {
    let workspace = PathBuf::from(std::env::var_os("ROLE_WORKSPACE").unwrap());
    let mut view = view(&workspace);
    view.shell = workspace.join("plain");
    assert!(run(&LANDLOCK, view, "true").exit.is_err());
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
