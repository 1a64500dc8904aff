//! Each act with each cause: the rule that is named, and the lines that are granted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_core::{
    Act, CallGroup, Cause, Denied, DenyRead, Ended, Exit, Explained, LimitHit, SandboxReport, View,
};
use pretty_assertions::assert_eq;

use crate::config::layers::{Sources, WorkspaceFile};
use crate::policy::Policy;

/// A workspace, and beside it what commands do not see.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws/.ssh", "ws/sub", "out/deep"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        for name in ["ws/.env", "ws/.ssh/config", "ws/helve.toml", "out/file", "out/deep/other"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        Scene { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn view(&self, policy: &Policy) -> View {
        policy.view(&self.path("ws"), &self.path("state"))
    }

    /// What is said of an act under a configuration.
    fn said(&self, toml: &str, act: Act, cause: Cause) -> Explained {
        let policy = Policy::from_toml(toml).unwrap();
        let view = self.view(&policy);
        one(&policy, &view, act, cause)
    }
}

fn one(policy: &Policy, view: &View, act: Act, cause: Cause) -> Explained {
    let mut ended = Ended::plain(Exit::Code(1), SandboxReport::default());
    ended.denied = vec![Denied { act, cause, times: 3 }];
    let mut all = policy.explained(&ended, None, view);
    assert_eq!(all.len(), 1);
    let explained = all.remove(0);
    assert_eq!(explained.times, 3);
    // What is granted can be read back, as a file and as `--set`.
    if let Some(grant) = &explained.grant {
        Policy::from_toml(grant).unwrap();
        let set = grant.lines().map(str::to_owned).collect();
        Policy::load(&Sources { set, ..Sources::default() }).unwrap();
    }
    explained
}

#[test]
fn a_path_that_is_not_shown_is_granted_by_itself() {
    let scene = Scene::new();
    let (file, deep, other) = (scene.text("out/file"), scene.text("out/deep"), scene.text("out/deep/new"));
    let already = format!("view.read_only = [{file:?}]");
    for (toml, act, what, grant) in [
        ("", Act::Read(file.clone().into()), "read", format!("view.read_only = [{file:?}]")),
        ("", Act::Execute(file.clone().into()), "execute", format!("view.read_only = [{file:?}]")),
        ("", Act::ConnectUnix(file.clone().into()), "connect", format!("view.read_only = [{file:?}]")),
        ("", Act::Write(file.clone().into()), "write", format!("view.read_write = [{file:?}]")),
        // What is not there is made in the directory that is.
        ("", Act::Write(other.clone().into()), "write", format!("view.read_write = [{deep:?}]")),
        // What is configured already stays.
        (&already, Act::Read(deep.clone().into()), "read", format!("view.read_only = [{file:?}, {deep:?}]")),
    ] {
        let said = scene.said(toml, act, Cause::NotShown);
        assert_eq!((said.act.as_str(), said.grant), (what, Some(grant)));
        assert_eq!(said.rule, "not in view.read_only or view.read_write");
    }
}

#[test]
fn nothing_opens_a_home_or_what_a_sandbox_has_of_its_own() {
    let scene = Scene::new();
    for path in ["/home", "/home/somebody", "/proc/1/environ", "/dev/kmem", "/"] {
        let said = scene.said("", Act::Read(path.into()), Cause::NotShown);
        assert!(said.grant.is_none() && said.note.is_some(), "{path}: {said:?}");
    }
}

#[test]
fn what_configures_helve_is_never_granted() {
    let scene = Scene::new();
    let (file, out) = (scene.text("out/file"), scene.text("out"));
    let secrets = format!("secrets = [{{ file = {file:?} }}]");
    let said = scene.said(&secrets, Act::Read(file.clone().into()), Cause::Hidden(file.clone().into()));
    assert_eq!((said.rule.as_str(), said.grant), ("Helve's own files", None));
    let said = scene.said(&secrets, Act::Write(out.into()), Cause::NotShown);
    assert!(said.grant.is_none() && said.note.unwrap().contains(&file));
    let own = scene.said("", Act::Write(scene.path("ws/helve.toml")), Cause::ReadOnly);
    assert_eq!((own.rule.as_str(), own.grant), ("the workspace's own helve.toml", None));
}

#[test]
fn a_hidden_entry_goes_and_what_nothing_shows_is_shown() {
    let scene = Scene::new();
    let (sub, file, out) = (scene.text("ws/sub"), scene.text("out/file"), scene.text("out"));
    let hidden = format!("view.hidden = [{sub:?}, {out:?}]");
    let said = scene.said(&hidden, Act::Read(scene.path("ws/sub/a")), Cause::Hidden(sub.clone().into()));
    assert_eq!(said.rule, format!("view.hidden {sub:?}"));
    assert_eq!(said.grant, Some(format!("view.hidden = [{out:?}]")));
    assert_eq!(said.note, Some(format!("it opens all of {sub}")));
    let said = scene.said(&hidden, Act::Read(file.clone().into()), Cause::Hidden(out.clone().into()));
    let both = format!("view.read_only = [{file:?}]\nview.hidden = [{sub:?}]");
    assert_eq!(said.grant, Some(both));
}

#[test]
fn a_denied_file_becomes_readable_and_nothing_beside_it() {
    let scene = Scene::new();
    let policy = Policy::builtin();
    let view = scene.view(&policy);
    for (path, beside) in [(".env", "sub/.env"), (".ssh/config", ".ssh/id_rsa"), (".ssh/a/b", ".ssh/a/c")] {
        let act = Act::Read(scene.path("ws").join(path));
        let said = one(&policy, &view, act, Cause::DenyRead(".any".to_owned()));
        assert_eq!(said.rule, "files.deny_read \".any\"");
        let granted = Policy::from_toml(&said.grant.unwrap()).unwrap();
        let deny = DenyRead::new(&scene.view(&granted).deny_read).unwrap();
        let denies = |path: &str| deny.denies(Path::new(path), false);
        assert_eq!((denies(path), denies(beside), denies(".env.local")), (false, true, true), "{path}");
    }
}

#[test]
fn names_that_a_pattern_would_read_otherwise_are_taken_as_they_are() {
    let scene = Scene::new();
    let policy = Policy::from_toml("files.deny_read = [\"*\"]").unwrap();
    let view = scene.view(&policy);
    for name in ["a*b.key", "[x].key", "!bang", "#hash", "end ", "back\\slash", "{a,b}"] {
        let act = Act::Read(scene.path("ws").join(name));
        let said = one(&policy, &view, act, Cause::DenyRead("*".to_owned()));
        let granted = Policy::from_toml(&said.grant.unwrap()).unwrap();
        let deny = DenyRead::new(&scene.view(&granted).deny_read).unwrap();
        assert!(!deny.denies(Path::new(name), false) && deny.denies(Path::new("axb.key"), false), "{name}");
    }
}

#[test]
fn what_is_read_only_becomes_writable_where_it_is_shown() {
    let scene = Scene::new();
    let (file, sub, out) = (scene.text("out/file"), scene.text("ws/sub"), scene.text("out"));
    let shown = format!("view.read_only = [{out:?}, {sub:?}]");
    let said = scene.said(&shown, Act::Write(file.clone().into()), Cause::ReadOnly);
    assert_eq!(said.rule, format!("view.read_only {out:?}"));
    assert_eq!(said.grant, Some(format!("view.read_write = [{file:?}]")));
    // At one place the stricter rule wins, so there it moves.
    let said = scene.said(&shown, Act::Write(out.clone().into()), Cause::ReadOnly);
    assert_eq!(said.grant, Some(format!("view.read_only = [{sub:?}]\nview.read_write = [{out:?}]")));
    // In the workspace nothing but that entry makes it so.
    let said = scene.said(&shown, Act::Write(scene.path("ws/sub/new")), Cause::ReadOnly);
    assert_eq!(said.grant, Some(format!("view.read_only = [{out:?}]")));
    let layered = format!("tools.exec.checkpoint = true\nview.read_write = [{out:?}]");
    let said = scene.said(&layered, Act::Write(file.into()), Cause::ReadOnly);
    assert_eq!(
        (said.rule.as_str(), said.grant.as_deref()),
        ("tools.exec.checkpoint = true", Some("tools.exec.checkpoint = false"))
    );
}

#[test]
fn other_causes_name_their_key_or_why_nothing_allows_it() {
    let scene = Scene::new();
    let address = "192.0.2.1:443".parse().unwrap();
    let call = |name: &str, group| Act::SystemCall { name: name.to_owned(), group };
    let calls = "tools.exec.system_calls = [\"perf\"]";
    for (toml, act, cause, rule, grant) in [
        (
            "",
            Act::Connect { address, datagram: false },
            Cause::NoNetwork,
            "tools.exec.network = false",
            Some("tools.exec.network = true"),
        ),
        ("", Act::Socket("AF_PACKET".into()), Cause::NoCapability, "no command has a capability", None),
        ("", Act::Socket("AF_VSOCK".into()), Cause::Filter, "the system call filter", None),
        ("", call("mount", None), Cause::Filter, "the system call filter", None),
        (
            calls,
            call("ptrace", Some(CallGroup::Ptrace)),
            Cause::Filter,
            "the system call filter",
            Some("tools.exec.system_calls = [\"perf\", \"ptrace\"]"),
        ),
        (
            "view.protected = [\".git\", \".vscode\"]",
            Act::Write(scene.path("ws/.git/hooks/x")),
            Cause::Protected(".git".into()),
            "view.protected \".git\"",
            Some("view.protected = [\".vscode\"]"),
        ),
    ] {
        let said = scene.said(toml, act, cause);
        assert_eq!((said.rule.as_str(), said.grant.as_deref()), (rule, grant));
        assert!(said.grant.is_some() || said.note.is_some(), "{said:?}");
    }
    let said = scene.said("", Act::Connect { address, datagram: true }, Cause::NoNetwork);
    assert_eq!(said.what(), "connect to 192.0.2.1 port 443 by datagram");
}

#[test]
fn bounds_are_doubled_and_time_is_the_owners_or_the_calls() {
    let scene = Scene::new();
    let policy = Policy::from_toml("tools.exec.timeout = 400").unwrap();
    let view = scene.view(&policy);
    let said = |exit, limit, seconds| {
        let mut ended = Ended::plain(exit, SandboxReport::default());
        ended.limit = limit;
        let mut all = policy.explained(&ended, Some(Duration::from_secs(seconds)), &view);
        assert_eq!(all.len(), 1);
        let said = all.remove(0);
        (said.what(), said.rule, said.grant)
    };
    let owned =
        |what: &str, rule: &str, grant: &str| (what.to_owned(), rule.to_owned(), Some(grant.to_owned()));
    assert_eq!(
        said(Exit::Signal(9), Some(LimitHit::Memory(64 << 20)), 5),
        owned(
            "use more than 64 MiB of memory",
            "limits.exec_memory_bytes = 67108864",
            "limits.exec_memory_bytes = 134217728"
        )
    );
    assert_eq!(
        said(Exit::Signal(9), Some(LimitHit::Processes(20)), 5),
        owned(
            "have more than 20 processes and threads at a time",
            "limits.exec_processes = 20",
            "limits.exec_processes = 40"
        )
    );
    assert_eq!(
        said(Exit::TimedOut, None, 400),
        owned(
            "run longer than 400 seconds",
            "the command's time of 400 seconds",
            "limits.exec_timeout_max = 800\ntools.exec.timeout = 800"
        )
    );
    assert_eq!(said(Exit::TimedOut, None, 7).2, None);
    assert_eq!(said(Exit::TimedOut, None, 600).2.as_deref(), Some("limits.exec_timeout_max = 1200"));
}

#[test]
fn what_a_ceiling_or_the_workspaces_own_file_closes_no_line_of_the_owners_opens() {
    let scene = Scene::new();
    let address = "192.0.2.1:443".parse().unwrap();
    let system = scene.path("system.toml");
    fs::write(&system, "ceiling.network = false\nceiling.system_calls = false\n").unwrap();
    let ceiling = Policy::load(&Sources { system: Some(system), ..Sources::default() }).unwrap();
    let text = "tools.exec.network = false\ntools.exec.system_calls = []\nview.protected = [\"x\"]\n";
    let workspace = WorkspaceFile { path: scene.path("ws/helve.toml"), text: text.to_owned() };
    let tightened = Policy::load(&Sources { workspace: Some(workspace), ..Sources::default() }).unwrap();
    for policy in [ceiling, tightened] {
        let view = scene.view(&policy);
        let acts = [
            (Act::Connect { address, datagram: false }, Cause::NoNetwork),
            (Act::SystemCall { name: "ptrace".into(), group: Some(CallGroup::Ptrace) }, Cause::Filter),
        ];
        for (act, cause) in acts {
            let said = one(&policy, &view, act, cause);
            assert!(said.grant.is_none() && said.note.is_some(), "{said:?}");
        }
    }
}

#[test]
fn what_is_watched_and_which_calls_are_granted_reaches_the_view() {
    let scene = Scene::new();
    let view = scene.view(&Policy::builtin());
    assert_eq!((view.explain, view.system_calls), (helve_core::Explain::Rare, Vec::new()));
    let policy = Policy::from_toml("tools.exec.explain = \"full\"\ntools.exec.system_calls = [\"io_uring\"]");
    let view = scene.view(&policy.unwrap());
    assert_eq!((view.explain, view.system_calls), (helve_core::Explain::Full, vec![CallGroup::IoUring]));
    assert!(Policy::from_toml("tools.exec.system_calls = [\"mount\"]").is_err());
    let names: Vec<&str> = CallGroup::ALL.iter().map(|group| group.as_str()).collect();
    assert_eq!(names, crate::config::keys::SYSTEM_CALLS);
}

#[test]
fn a_workspaces_own_file_grants_no_system_call_and_watches_nothing() {
    let scene = Scene::new();
    let load = |text: &str| {
        let workspace = WorkspaceFile { path: scene.path("ws/helve.toml"), text: text.to_owned() };
        let set = vec!["tools.exec.system_calls=[\"ptrace\", \"perf\"]".to_owned()];
        Policy::load(&Sources { set, workspace: Some(workspace), ..Sources::default() })
    };
    assert!(load("tools.exec.system_calls = [\"io_uring\"]").is_err());
    assert!(load("tools.exec.explain = \"full\"").is_err());
    let fewer = load("tools.exec.system_calls = [\"perf\"]").unwrap();
    assert_eq!(scene.view(&fewer).system_calls, [CallGroup::Perf]);
}

#[test]
fn a_ceiling_that_grants_no_system_calls_is_held() {
    let scene = Scene::new();
    let system = scene.path("system.toml");
    fs::write(&system, "ceiling.system_calls = false\n").unwrap();
    let load = |set: &str| {
        Policy::load(&Sources {
            system: Some(system.clone()),
            set: vec![set.to_owned()],
            ..Sources::default()
        })
    };
    let error = load("tools.exec.system_calls=[\"ptrace\"]").unwrap_err().to_string();
    assert!(error.contains("ceiling.system_calls"), "{error}");
    load("tools.exec.system_calls=[]").unwrap();
}
