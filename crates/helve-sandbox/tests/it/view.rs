//! What a command in bwrap can reach, and what not.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use helve_core::{ErrorKind, Exit, Network, SandboxChoice, View};
use pretty_assertions::assert_eq;

use crate::common::{LIMITS, backend, bwrap_works, output, role, run, view};

const BWRAP: SandboxChoice = SandboxChoice::Bwrap;

/// A folder with `ws` in it, and a secret beside `ws`.
fn scene() -> (tempfile::TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("ws")).unwrap();
    std::fs::write(folder.path().join("secret"), "canary-91c2").unwrap();
    let view = view(&folder.path().canonicalize().unwrap().join("ws"));
    (folder, view)
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn workspace_is_writable_at_its_own_path_and_its_parents_are_empty() {
    if !bwrap_works() {
        return;
    }
    let (folder, view) = scene();
    let text = output(
        &BWRAP,
        view.clone(),
        "pwd; echo made > file; ls -A ..; cat ../secret 2>/dev/null || echo none",
    );
    assert_eq!(lines(&text), [view.workspace.to_str().unwrap(), "ws", "none"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("ws/file")).unwrap(), "made\n");
}

#[test]
fn writes_outside_the_workspace_leave_no_mark() {
    if !bwrap_works() {
        return;
    }
    let (folder, view) = scene();
    let outside = folder.path().join("mark");
    let home_mark = "home-mark-5e21";
    // Opened to append and nothing written: in a sandbox that leaks, the machine stays as it is.
    let command = format!(
        "w() {{ (: >> \"$1\") 2>/dev/null && echo \"wrote $1\"; }}; w {}; w /usr/mark; w /etc/mark; w /mark; w /etc/passwd; \
         w /proc/sys/kernel/core_pattern; w /proc/sys/vm/swappiness; w /proc/sysrq-trigger; w $HOME/{home_mark}; \
         w /tmp/{home_mark}; w /dev/shm/x; true",
        outside.display()
    );
    let text = output(&BWRAP, view, &command);
    // The private places take it, and forget it.
    let expected = [
        format!("wrote /home/user/{home_mark}"),
        format!("wrote /tmp/{home_mark}"),
        "wrote /dev/shm/x".to_owned(),
    ];
    let parent_is_private = outside.starts_with("/tmp") || outside.starts_with("/var/tmp");
    let mut wrote = lines(&text);
    if parent_is_private {
        wrote.retain(|line| *line != format!("wrote {}", outside.display()));
    }
    assert_eq!(wrote, expected);
    assert!(!outside.exists());
    for place in ["/tmp", "/home/user"] {
        assert!(!Path::new(place).join(home_mark).exists(), "{place}");
    }
}

#[test]
fn private_places_are_new_in_each_call() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    // Where the workspace lies below a private place, the way to it is there and nothing else.
    let below = ["/tmp", "/var/tmp"].iter().find_map(|place| view.workspace.strip_prefix(place).ok());
    let way = below.and_then(|rest| rest.iter().next()).map(|name| name.to_string_lossy().into_owned());
    let command = format!(
        "for d in /tmp /var/tmp $HOME /dev/shm; do ls -A $d | grep -vxF -e '{}'; echo x > $d/left; done; echo end",
        way.unwrap_or_else(|| "no such name".to_owned())
    );
    assert_eq!(output(&BWRAP, view.clone(), &command), "end\n");
    assert_eq!(output(&BWRAP, view, &command), "end\n");
}

#[test]
fn hidden_paths_are_empty_and_stay_so() {
    if !bwrap_works() {
        return;
    }
    let (folder, mut view) = scene();
    let ws = view.workspace.clone();
    std::fs::create_dir_all(ws.join("state/deep")).unwrap();
    std::fs::write(ws.join("state/deep/journal"), "canary-91c2").unwrap();
    std::fs::write(ws.join("token"), "canary-91c2").unwrap();
    std::fs::write(ws.join("open"), "open\n").unwrap();
    // A link outside of what commands can write hides what it leads to.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(ws.join("token"), &link).unwrap();
    view.hidden = vec![ws.join("state"), link, ws.join("absent"), folder.path().join("secret")];
    let command =
        "grep -r . . ; ls -A state; echo x > state/new; echo x > token; rm -rf state; mv token t; ls";
    let done = run(&BWRAP, view, command);
    assert_eq!(done.exit, Ok(Exit::Code(0)), "{}", done.stderr);
    assert_eq!(lines(&done.stdout), ["./open:open", "open", "state", "token"]);
    assert!(!done.stderr.contains("grep"), "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(ws.join("state/deep/journal")).unwrap(), "canary-91c2");
    assert_eq!(std::fs::read_to_string(ws.join("token")).unwrap(), "canary-91c2");
    assert!(!ws.join("absent").exists());
}

#[test]
fn further_roots_are_seen_as_the_view_says() {
    if !bwrap_works() {
        return;
    }
    let (folder, mut view) = scene();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ro", "rw", "ro/inner-rw", "real", "ws/frozen"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("file"), format!("{name}\n")).unwrap();
    }
    std::os::unix::fs::symlink(root.join("real"), root.join("alias")).unwrap();
    view.read_only = vec![root.join("ro"), root.join("alias"), root.join("ws/frozen"), root.join("missing")];
    view.read_write = vec![root.join("rw"), root.join("ro/inner-rw")];
    let command = "cd ..; cat ro/file rw/file ro/inner-rw/file alias/file real/file ws/frozen/file; \
                   for d in ro rw ro/inner-rw alias real ws/frozen ws; do echo x > $d/new && echo \"wrote $d\"; done 2>/dev/null; ls";
    let text = output(&BWRAP, view, command);
    let expected = [
        "ro",
        "rw",
        "ro/inner-rw",
        "real",
        "real",
        "ws/frozen",
        "wrote rw",
        "wrote ro/inner-rw",
        "wrote ws",
        "alias",
        "real",
        "ro",
        "rw",
        "ws",
    ];
    assert_eq!(lines(&text), expected);
    assert!(root.join("rw/new").exists() && !root.join("ro/new").exists() && !root.join("real/new").exists());
}

#[test]
fn workspace_may_lie_anywhere() {
    if !bwrap_works() {
        return;
    }
    for base in ["/tmp", "/var/tmp", "/dev/shm"] {
        let Ok(folder) = tempfile::tempdir_in(base) else { continue };
        let text = output(&BWRAP, view(folder.path()), "echo x > file; pwd");
        assert_eq!(text, format!("{}\n", folder.path().display()));
        assert!(folder.path().join("file").exists(), "{base}");
    }
    // Right below the root, and in the home directory. Only root can make the first.
    if let Ok(folder) = tempfile::tempdir_in("/") {
        assert_eq!(
            output(&BWRAP, view(folder.path()), "echo x > file; pwd"),
            format!("{}\n", folder.path().display())
        );
        assert!(folder.path().join("file").exists());
    }
    let home = tempfile::tempdir().unwrap();
    let inside = home.path().join("code/project");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(home.path().join(".netrc"), "canary-91c2").unwrap();
    let mut view = view(&inside);
    view.env.insert("HOME".to_owned(), home.path().display().to_string());
    let text = output(&BWRAP, view, "echo x > file; echo y > ~/.cache-file; ls -A ~; pwd");
    assert_eq!(lines(&text), [".cache-file", "code", inside.to_str().unwrap()]);
    assert!(inside.join("file").exists() && !home.path().join(".cache-file").exists());
}

#[test]
fn workspace_given_through_a_link_is_there_under_both_names() {
    if !bwrap_works() {
        return;
    }
    let (folder, mut view) = scene();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&view.workspace, &link).unwrap();
    view.workspace = link.clone();
    let text = output(&BWRAP, view, &format!("echo x > {}/file; cat file", link.display()));
    assert_eq!(text, "x\n");
    assert!(folder.path().join("ws/file").exists());
}

#[test]
fn etc_has_no_secrets_and_programs_work() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let text = output(
        &BWRAP,
        view,
        "ls /etc/shadow /etc/ssh /etc/sudoers /root /run /sys /boot 2>/dev/null; id -un >/dev/null && getent hosts localhost | tr -s ' '",
    );
    assert!(text.contains("localhost") && lines(&text).len() == 1, "{text}");
}

#[test]
fn network_is_off_unless_the_view_opens_it() {
    if !bwrap_works() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (_folder, mut view) = scene();
    let command = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected || echo refused; grep -c : /proc/net/dev"
    );
    assert_eq!(lines(&output(&SandboxChoice::None, view.clone(), &command))[0], "connected");
    assert_eq!(lines(&output(&BWRAP, view.clone(), &command)), ["refused", "1"]);
    assert!(backend(&BWRAP, view.clone()).report().layers.contains(&"netns".to_owned()));
    view.network = Network::Host;
    assert_eq!(lines(&output(&BWRAP, view.clone(), &command))[0], "connected");
    assert!(!backend(&BWRAP, view).report().layers.contains(&"netns".to_owned()));
}

#[test]
fn processes_of_the_host_are_invisible() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let own = std::process::id();
    let text = output(
        &BWRAP,
        view,
        &format!("ls -d /proc/[0-9]* | wc -l; kill -0 {own} 2>/dev/null && echo reached; echo alive"),
    );
    let found = lines(&text);
    assert!(found[0].parse::<u32>().unwrap() <= 5, "{text}");
    assert_eq!(found[1..], ["alive"]);
}

#[test]
fn first_process_tells_nothing_of_the_profile() {
    if !bwrap_works() {
        return;
    }
    let (_folder, mut view) = scene();
    view.hidden = vec![view.workspace.join("absent-name")];
    let text = output(&BWRAP, view, "tr '\\0' '\\n' < /proc/1/cmdline");
    assert!(text.contains("--args") && !text.contains("--ro-bind") && !text.contains("unshare"), "{text}");
}

#[test]
fn no_capabilities_no_new_privileges_no_further_namespaces() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let command = "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status | tr -d '\\t'; \
                   unshare -U true 2>/dev/null && echo nested; mount -t tmpfs x /tmp 2>/dev/null && echo mounted; true";
    let zero = "0000000000000000";
    let expected =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| format!("{name}:{zero}")).join("\n")
            + "\nNoNewPrivs:1\n";
    assert_eq!(output(&BWRAP, view, command), expected);
}

#[test]
fn report_names_the_namespaces_that_the_command_really_has() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let layers = backend(&BWRAP, view.clone()).report().layers;
    for (layer, file) in [
        ("userns", "user"),
        ("mountns", "mnt"),
        ("pidns", "pid"),
        ("ipcns", "ipc"),
        ("utsns", "uts"),
        ("cgroupns", "cgroup"),
        ("netns", "net"),
    ] {
        let inside = output(&BWRAP, view.clone(), &format!("readlink /proc/self/ns/{file}"));
        let outside = std::fs::read_link(format!("/proc/self/ns/{file}")).unwrap();
        assert_ne!(inside.trim(), outside.to_str().unwrap(), "{layer}");
        assert!(layers.contains(&layer.to_owned()), "{layer}");
    }
    assert!(backend(&BWRAP, view.clone()).contains());
    assert!(!backend(&SandboxChoice::None, view).contains());
}

#[test]
fn missing_or_broken_bwrap_is_refused_and_never_bare() {
    for (name, script) in [
        ("missing", None),
        ("broken", Some("#!/bin/sh\necho 'no namespaces here' >&2\nexit 1\n")),
        ("silent", Some("#!/bin/sh\nexit 7\n")),
        ("lying", Some("#!/bin/sh\nshift 3\nexit 0\n")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if let Some(script) = script {
            let file = folder.path().join("bwrap");
            std::fs::write(&file, script).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let output = role("view::role_without_bwrap")
            .env("PATH", folder.path())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {text}");
        assert_eq!(text.contains("no namespaces here"), name == "broken", "{name}: {text}");
        assert_eq!(text.contains("exit code 7"), name == "silent", "{name}: {text}");
        assert_eq!(text.contains("apt install bubblewrap"), name == "missing", "{name}: {text}");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_without_bwrap() {
    let (folder, view) = scene();
    let error = run(&BWRAP, view, "touch mark").exit.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxUnavailable);
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("sandbox = \"none\"")), "{error:?}");
    assert!(!folder.path().join("ws/mark").exists());
    println!("{} {:?}", error.message, error.hint);
}

#[test]
fn bwrap_from_the_workspace_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bwrap");
    std::fs::write(&file, "#!/bin/sh\ntouch planted\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = role("view::role_planted")
        .env("PATH", folder.path())
        .env("ROLE_WORKSPACE", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_planted() {
    let workspace = std::env::var("ROLE_WORKSPACE").unwrap();
    let error = run(&BWRAP, view(workspace.as_ref()), "true").exit.unwrap_err();
    assert!(error.message.contains("directory that commands can write"), "{error:?}");
    assert!(!error.message.contains("not installed"), "{error:?}");
}

#[test]
fn workspace_that_is_missing_or_the_root_is_refused() {
    if !bwrap_works() {
        return;
    }
    let (folder, _) = scene();
    let missing = run(&BWRAP, view(&folder.path().join("gone")), "true").exit.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    let root = helve_sandbox::backend(&BWRAP, view(Path::new("/")), LIMITS).err().unwrap();
    assert_eq!(root.kind, ErrorKind::SandboxUnavailable);
}

#[test]
fn sealed_proc_still_serves_the_shell() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let command =
        "echo a > /dev/stdout; cat <(echo b); echo c > >(cat); wait; cat <<< d; echo e >> /dev/fd/1";
    let text = output(&BWRAP, view, command);
    assert_eq!(lines(&text), ["a", "b", "c", "d", "e"]);
}

#[test]
fn one_backend_serves_many_calls_quickly() {
    if !bwrap_works() {
        return;
    }
    let (_folder, view) = scene();
    let start = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(output(&BWRAP, view.clone(), "echo ok"), "ok\n");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}
