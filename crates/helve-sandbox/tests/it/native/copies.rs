//! Shells that are copied: one is loaded, and what a command gets is a copy of it. That it is one shows in the room that was
//! kept for its text. None of the texts names a place that would keep it from such a shell.

use std::collections::BTreeSet;

use pretty_assertions::{assert_eq, assert_ne};

use super::*;

const SHELLS: [&str; 2] = ["/bin/sh", "/bin/bash"];

/// How long the shell's own words are, for the kernel.
const ROOM: &str = "cd /p*c/$$; cat cm*ine | wc -c";

async fn is_copied(backend: &dyn ShellBackend) -> bool {
    output(backend, job(ROOM)).await.trim().parse::<usize>().unwrap() > 4000
}

/// Whether the shell is loaded soon, once commands come.
async fn gets_copied(backend: &dyn ShellBackend) -> bool {
    for _ in 0..30 {
        if is_copied(backend).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// A sandbox without a pool whose shell is loaded.
async fn copying(view: View) -> Arc<dyn ShellBackend> {
    let shell = view.shell.clone();
    let backend = native(view, PoolSize::NONE);
    assert!(gets_copied(&*backend).await, "{} was executed for every call", shell.display());
    backend
}

fn with_shell(shell: &str, workspace: &Path) -> View {
    View { shell: shell.into(), ..view(workspace) }
}

/// What a shell finds out about itself. Which signals it catches it reads itself: bash catches another one while it waits for a
/// program, and that program may look before it does.
const STATE: &str = r#"
echo $$ $PPID $0 $- $# $PWD; umask; env | sort; sh -c 'echo $$ $PPID'
cd /p*c/$$
while read -r name value; do case $name in
    Uid:|Gid:|Groups:|Cap*|NoNewPrivs:|Seccomp*|SigIgn:|SigCgt:|Threads:|NSpid:|NSpgid:|NSsid:|Name:|Umask:) echo "$name	$value";;
esac; done <status
grep SigBlk ../self/status
cat limits oom_score_adj comm cgroup personality coredump_filter timerslack_ns; readlink exe cwd root; ls fd; readlink fd/0
cut -d' ' -f 4-8 stat; cut -d' ' -f 4-6 mountinfo | sort
"#;

#[test]
fn a_copy_is_in_every_respect_what_a_new_shell_is() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for shell in SHELLS {
            let backend = copying(with_shell(shell, folder.path())).await;
            let name = shell.rsplit('/').next().unwrap();
            for round in 0..10 {
                let new = output(&*backend, program(&[name, "-c", STATE])).await;
                let copy = output(&*backend, job(STATE)).await;
                assert_eq!(copy, new, "{shell} {round}");
                let capabilities = copy.lines().filter(|line| line.starts_with("Cap"));
                let values: BTreeSet<&str> =
                    capabilities.map(|line| line.split_whitespace().last().unwrap()).collect();
                assert_eq!(values, BTreeSet::from(["0000000000000000"]), "{shell} {round}");
                for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "2 1 "] {
                    assert!(copy.lines().any(|seen| seen.starts_with(line)), "{line} {copy}");
                }
            }
            // Of the mould's own memory it has only a page of instructions, which cannot be written.
            let [new, copy] = [program(&[name, "-c", MAPPED]), job(MAPPED)].map(|job| output(&*backend, job));
            let ([new, copy], page) = ([new.await, copy.await], "r-xp 00000000 00:00 0\n");
            assert_eq!(copy.replacen(page, "", 1), new, "{shell}");
            assert!(is_copied(&*backend).await);
        }
    });
}

/// What of a shell's memory is no file's, without where it lies and what the kernel keeps there.
const MAPPED: &str = r#"grep -v '[]/]' /p*c/$$/maps | cut -d' ' -f 2-5"#;

#[test]
fn every_copy_has_namespaces_and_directories_of_its_own() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let look = "for kind in pid mnt ipc net user uts cgroup; do readlink /p*c/$$/ns/$kind; done
        [ -e /tmp/mark ] && echo stale; touch /tmp/mark; sleep 0.5";
    let kinds = ["pid", "mnt", "ipc", "net", "user", "uts", "cgroup"];
    let outside = kinds.map(|kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
    block_on(async {
        let backend = copying(with_shell("/bin/sh", folder.path())).await;
        for round in 0..3 {
            // At the same time: the kernel uses numbers again.
            let calls = [(); 6].map(|()| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move { output(&*backend, job(look)).await })
            });
            let mut seen = BTreeSet::new();
            for call in calls {
                let text = call.await.unwrap();
                let namespaces: Vec<&str> = text.lines().collect();
                assert_eq!(namespaces.len(), kinds.len(), "{round}: {text}");
                for (inside, outside) in namespaces.iter().zip(&outside) {
                    assert_ne!(Path::new(inside), outside, "{round}");
                }
                // Of the pid, mount and ipc namespaces no two are the same.
                for namespace in namespaces.iter().take(3) {
                    assert!(seen.insert((*namespace).to_owned()), "{round}: {text}");
                }
            }
        }
        assert!(is_copied(&*backend).await);
    });
}

#[test]
fn a_copy_is_held_to_the_rules_of_its_view() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        for shell in SHELLS {
            let backend = copying(with_shell(shell, folder.path())).await;
            for (text, said) in [
                // Nothing but Landlock is in the way of this one.
                ("cd /p*c/self && echo other > comm", "Permission denied"),
                ("echo x > /usr/planted", "Read-only file system"),
                ("unshare -U true", "Operation not permitted"),
                ("nsenter -t 1 -m true", "Permission denied"),
                ("ls /root/", "cannot access"),
            ] {
                let (ended, collected) = run(&*backend, job(text)).await;
                let stderr = String::from_utf8_lossy(&collected.stderr).into_owned();
                assert!(stderr.contains(said), "{shell} {text}: {stderr}");
                assert_ne!(ended.map(|ended| ended.exit), Ok(Exit::Code(0)), "{shell} {text}");
            }
            assert!(is_copied(&*backend).await);
        }
    });
}

/// Looks for a text, written apart so that it is not in these words, in the memory of the shell that started it.
const SEARCHES: &str = r#"exec 2>&1; python3 -c '
import os
wanted = b"what-only-the-" + b"first-one-knows"
place = "/pr" + "oc/%d/" % os.getppid()
found = 0
with open(place + "mem", "rb") as memory:
    for line in open(place + "maps"):
        span, rights = line.split()[:2]
        if rights[0] != "r" or line.rstrip().endswith("]") and "stack" not in line and "heap" not in line:
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        memory.seek(start)
        found += memory.read(end - start).count(wanted)
print(found)'; true"#;

#[test]
fn nothing_of_one_command_is_in_the_memory_of_the_next() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = copying(with_shell("/bin/sh", folder.path())).await;
        let long = format!("true {}; : what-only-the-first-one-knows", "x ".repeat(1500));
        for _ in 0..5 {
            // That it would be found: the text itself is there.
            let own = format!(": what-only-the-first-one-knows; {SEARCHES}");
            assert_ne!(output(&*backend, job(&own)).await, "0\n");
            output(&*backend, job(&long)).await;
            assert_eq!(output(&*backend, job(SEARCHES)).await, "0\n");
        }
        assert!(is_copied(&*backend).await);
    });
}

#[test]
fn what_a_workspace_could_decide_is_not_loaded_beforehand() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("planted.so").display().to_string();
    block_on(async {
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES"] {
            let mut view = with_shell("/bin/sh", folder.path());
            view.env.insert(name.to_owned(), library.clone());
            let backend = native(view, PoolSize::NONE);
            assert!(!gets_copied(&*backend).await, "{name}");
        }
        // A shell that every command could replace.
        let planted = folder.path().join("sh");
        std::fs::copy("/bin/sh", &planted).unwrap();
        let backend = native(with_shell(planted.to_str().unwrap(), folder.path()), PoolSize::NONE);
        assert!(!gets_copied(&*backend).await);
    });
}

/// The helper's children that are shells.
fn loaded() -> Vec<i32> {
    let list =
        |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let numbers = |list: String| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let own = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let own = own.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let helpers = own.flat_map(numbers);
    let shells = helpers.flat_map(|helper| numbers(list(&helper)));
    let is_shell = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name == "sh\n" || name == "bash\n")
    };
    shells.filter(is_shell).map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn commands_go_on_when_the_loaded_shell_dies_and_it_dies_with_helve() {
    if !native_works() {
        return;
    }
    let output = role("native::copies::role_loses_it").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code().is_none(),
        "it kills itself: {text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let pid = text.rsplit_once("loaded ").unwrap().1.trim().to_owned();
    assert!(wait_for(SOON, || !Path::new("/proc").join(&pid).exists()), "{pid}");
}

/// Alone in its process, so that its only child is the helper.
#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_loses_it() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = copying(with_shell("/bin/sh", folder.path())).await;
        let [shell] = loaded()[..] else { panic!("{:?}", loaded()) };
        let kill = |pid: i32| {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        kill(shell);
        for round in 0..10 {
            assert_eq!(output(&*backend, job("echo on")).await, "on\n", "{round}");
        }
        assert!(wait_for(SOON, || loaded().is_empty()));
        assert!(!is_copied(&*backend).await);
        // Another, which is there when this process is gone.
        let backend = copying(with_shell("/bin/sh", folder.path())).await;
        let [shell] = loaded()[..] else { panic!("{:?}", loaded()) };
        println!("loaded {shell}");
        assert!(is_copied(&*backend).await);
        kill(rustix::process::getpid().as_raw_nonzero().get());
    });
}

#[test]
fn many_copies_at_once_are_each_their_own() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let backend = copying(with_shell("/bin/sh", folder.path())).await;
        let calls: Vec<_> = (0..60)
            .map(|number| {
                let backend = Arc::clone(&backend);
                let text = format!("echo {number} $PPID; echo error {number} >&2; exit {}", number % 7);
                tokio::spawn(async move { run(&*backend, job(&text)).await })
            })
            .collect();
        for (number, call) in calls.into_iter().enumerate() {
            let (ended, collected) = call.await.unwrap();
            assert_eq!(ended.unwrap().exit, Exit::Code(i32::try_from(number % 7).unwrap()));
            assert_eq!(collected.stdout, format!("{number} 1\n").into_bytes());
            assert_eq!(collected.stderr, format!("error {number}\n").into_bytes());
        }
        // After a crowd the next one may have to be loaded anew.
        assert!(gets_copied(&*backend).await);
    });
}

/// A program in a shell's place. It says where it lies, which is the same for all copies of one that is loaded.
const STRANGE_SHELL: &str = r#"
#include <stdio.h>
extern int used;
int main(void) { printf("%p %d\n", (void *)main, used); return 0; }
"#;

/// Its library, which makes a system call when it is loaded, if it was built so.
const STRANGE_LIBRARY: &str = r#"
#include <signal.h>
#include <unistd.h>
int used;
#ifdef ACTS
__attribute__((constructor)) static void act(void) { kill(getppid(), 0); }
#endif
"#;

#[test]
fn what_does_more_than_read_while_it_is_loaded_is_not_copied() {
    if !native_works() {
        return;
    }
    let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open_to_all(programs.path());
    let path = |name: &str| programs.path().join(name).display().to_string();
    for (name, source) in [("shell.c", STRANGE_SHELL), ("library.c", STRANGE_LIBRARY)] {
        std::fs::write(path(name), source).unwrap();
    }
    for (flag, copied) in [("-DQUIET", true), ("-DACTS", false)] {
        let (shell, library) = (path(flag), path(&format!("lib{flag}.so")));
        let [shell_source, library_source] = ["shell.c", "library.c"].map(path);
        let built = [
            vec!["-shared", "-fPIC", flag, "-o", &library, &library_source],
            vec!["-pie", "-fPIE", "-o", &shell, &shell_source, &library],
        ]
        .map(|words| std::process::Command::new("cc").args(words).status());
        match built {
            [Ok(library), Ok(shell)] => assert!(library.success() && shell.success()),
            _ => return println!("skipped: cc does not run"),
        }
        let mut view = with_shell(&shell, folder.path());
        view.read_only.push(programs.path().to_owned());
        let backend = native(view, PoolSize::NONE);
        block_on(async {
            let (mut last, mut same) = (String::new(), false);
            for _ in 0..30 {
                let place = output(&*backend, job("true")).await;
                same |= place == last;
                last = place;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(same, copied, "{flag}");
        });
    }
}
