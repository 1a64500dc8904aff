use helve_core::{CommandUse, ContainerChoice, ContainerEngine, ProcessLimits};
use pretty_assertions::assert_eq;

use super::*;

#[test]
fn the_defaults_are_the_documented_ones() {
    let policy = Policy::builtin();
    assert_eq!(policy.limits(), &Limits::default());
    assert_eq!(policy.sandbox(), SandboxChoice::Auto);
    assert_eq!(policy.exec_timeout(), Duration::from_secs(60));
    assert!(policy.parallel() && !policy.auto_approve() && !policy.fsync());
    assert_eq!((policy.session(), policy.working_dir()), (None, None));
    let rule = ToolRule { enabled: true, approval: None, per_minute: None, per_hour: None };
    assert_eq!(policy.tool("exec"), rule);
    assert_eq!(policy.secrets(), Ok(vec![]));
    let process = ProcessLimits {
        open_files: 4096,
        file_bytes: 8 << 30,
        memory_bytes: 4 << 30,
        processes: 1024,
        cpu_seconds: 1800,
        disk_bytes: 8 << 30,
        tmp_bytes: 1 << 30,
    };
    assert_eq!(policy.process_limits(), process);
}

/// Each key that a caller can ask for, set to something else than its default.
#[test]
fn every_setting_arrives() {
    let policy = Policy::from_toml(
        r#"
        sandbox = "none"
        parallel = false
        auto_approve = true
        secrets = [{ file = "/nonexistent/secret" }]
        tools.exec.timeout = 5
        tools.exec.working_dir = "src"
        tools.exec.shell = "sh"
        tools.echo = { enabled = false, approval = "always", per_minute = 2, per_hour = 3 }
        limits.exec_open_files = 77
        limits.exec_file_bytes = 1048576
        limits.blob_bytes = 0
        journal.fsync = true
        journal.session = "work"
        "#,
    )
    .unwrap();
    assert_eq!(policy.sandbox(), SandboxChoice::None);
    assert!(!policy.parallel() && policy.auto_approve() && policy.fsync());
    assert!(policy.secrets().unwrap_err().to_string().contains("/nonexistent/secret"));
    assert_eq!(policy.exec_timeout(), Duration::from_secs(5));
    assert_eq!(policy.working_dir(), Some("src"));
    assert!(policy.shell().ends_with("sh"));
    let rule = ToolRule {
        enabled: false,
        approval: Some(ApprovalNeed::Always),
        per_minute: Some(2),
        per_hour: Some(3),
    };
    assert_eq!(policy.tool("echo"), rule);
    let process = policy.process_limits();
    assert_eq!((process.open_files, process.file_bytes), (77, 1 << 20));
    assert_eq!(policy.limits().blob_bytes, 0);
    assert_eq!(policy.session(), Some("work"));
    assert_eq!(policy.tools_named().into_keys().collect::<Vec<_>>(), ["echo", "exec"]);
}

/// Limits need no code of their own here: each row of the table is a key.
#[test]
fn every_limit_arrives() {
    for row in Limits::TABLE {
        let value = row.default + 1;
        let text = format!("limits.{} = {value}", row.name);
        assert_eq!(Policy::from_toml(&text).unwrap().limits().get(row.name), Some(value), "{}", row.name);
    }
}

#[test]
fn a_wrapper_selects_its_backend_and_an_empty_one_does_not() {
    let choice = |text: &str| Policy::from_toml(text).unwrap().sandbox();
    let template = "firejail -- {command}".to_owned();
    let wrapped = "tools.exec.command_wrapper = 'firejail -- {command}'\nsandbox = 'none'";
    assert_eq!(choice(wrapped), SandboxChoice::Wrapper { template });
    for (word, chosen) in [
        ("auto", SandboxChoice::Auto),
        ("native", SandboxChoice::Native),
        ("landlock", SandboxChoice::Landlock),
        ("bwrap", SandboxChoice::Bwrap),
        ("none", SandboxChoice::None),
    ] {
        assert_eq!(choice(&format!("sandbox = '{word}'")), chosen);
    }
    assert_eq!(choice("tools.exec.commandWrapper = ''"), SandboxChoice::Auto);
}

#[test]
fn timeouts_keep_below_the_limit() {
    let seconds = |text: &str| Policy::from_toml(text).map(|policy| policy.exec_timeout().as_secs());
    assert_eq!(seconds("limits.exec_timeout_default = 7"), Ok(7));
    assert_eq!(seconds("limits.exec_timeout_default = 7\ntools.exec.timeout = 9"), Ok(9));
    assert_eq!(seconds("limits.exec_timeout_max = 30"), Ok(30));
    assert_eq!(seconds("limits.exec_timeout_max = 900\ntools.exec.timeout = 900"), Ok(900));
    let error = seconds("tools.exec.timeout = 601").unwrap_err().to_string();
    assert!(error.contains("limits.exec_timeout_max, which is 600"), "{error}");
    let clamped = Policy::from_toml("limits.exec_timeout_max = 30").unwrap();
    assert_eq!(clamped.limits().exec_timeout_default, 30);
}

#[test]
fn half_a_rate_limit_is_filled_from_the_declaration() {
    let rule = |minute, hour| ToolRule { enabled: true, approval: None, per_minute: minute, per_hour: hour };
    let limit = |per_minute, per_hour| RateLimit { per_minute, per_hour };
    assert_eq!(rule(None, None).rate(None), None);
    assert_eq!(rule(None, None).rate(Some(limit(60, 1000))), Some(limit(60, 1000)));
    assert_eq!(rule(Some(5), None).rate(Some(limit(60, 1000))), Some(limit(5, 1000)));
    assert_eq!(rule(Some(5), None).rate(None), Some(limit(5, 300)));
    assert_eq!(rule(None, Some(7)).rate(None), Some(limit(7, 7)));
}

#[test]
fn a_shell_that_is_not_there_is_an_error() {
    for shell in ["/nonexistent/shell", "no-such-shell"] {
        let error = Policy::from_toml(&format!("tools.exec.shell = '{shell}'")).unwrap_err().to_string();
        assert!(error.contains(shell), "{error}");
    }
}

/// A home directory with a standard configuration file that is not there, and one given by hand.
fn guarding(home: &Path, set: &str) -> Result<Policy, ConfigError> {
    let variables = BTreeMap::from([("HOME".to_owned(), home.display().to_string())]);
    let sources = Sources {
        system: Some("/nonexistent/system.toml".into()),
        user: Some(home.join("given/../given.toml")),
        set: vec![set.to_owned(), "secrets=[{file='~/keys/token'},{env='TOKEN'}]".to_owned()],
        ..Sources::default()
    };
    Policy::load_around(&sources, Surroundings { variables })
}

#[test]
fn every_file_that_configures_or_holds_a_secret_is_guarded() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().canonicalize().unwrap();
    std::fs::create_dir(home.join("dotfiles")).unwrap();
    std::os::unix::fs::symlink("dotfiles", home.join(".config")).unwrap();
    let below =
        [".config", ".config/helve/helve.toml", "dotfiles/helve/helve.toml", "given.toml", "keys/token"];
    let mut expected: Vec<PathBuf> = below.map(|path| home.join(path)).to_vec();
    expected.push("/nonexistent/system.toml".into());
    expected.sort();
    assert_eq!(guarding(&home, "parallel=true").unwrap().guarded_files(), expected);
    assert_eq!(Policy::builtin().guarded_files(), Vec::<PathBuf>::new());
}

#[test]
fn what_commands_may_write_holds_no_guarded_file() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().canonicalize().unwrap();
    std::fs::create_dir_all(home.join("project")).unwrap();
    std::os::unix::fs::symlink(".", home.join("same")).unwrap();
    for root in ["~", "~/.config", "~/.config/helve/helve.toml", "~/keys", "~/given.toml", "~/same", "/"] {
        let error =
            guarding(&home, &format!("view.read_write=['~/project','{root}']")).unwrap_err().to_string();
        assert!(error.starts_with("`view.read_write` in the command line: "), "{root}: {error}");
        assert!(error.contains("name a smaller directory"), "{root}: {error}");
    }
    for root in ["~/project", "~/same/project", "~/keys/tok", "~/.config/helve2"] {
        assert!(guarding(&home, &format!("view.read_write=['{root}']")).is_ok(), "{root}");
    }
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("helve.toml");
    std::fs::write(
        &file,
        "view.read_only = ['/usr', '/nonexistent/a']\nview.read_write = ['/nonexistent/b']",
    )
    .unwrap();
    let warnings = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let variables = BTreeMap::from([("HOME".to_owned(), "/nonexistent".to_owned())]);
        let sources = Sources { user: Some(file.clone()), ..Sources::default() };
        Policy::load_around(&sources, Surroundings { variables }).unwrap().warnings()
    };
    let missing = |key: &str, line, path: &str| {
        format!(
            "`{key}` in {} line {line}: {path} does not exist, so commands do not see it; create it or take it out",
            file.display()
        )
    };
    let mut expected =
        vec![missing("view.read_only", 1, "/nonexistent/a"), missing("view.read_write", 2, "/nonexistent/b")];
    assert_eq!(warnings(0o644), expected);
    expected
        .push(format!("{}: everybody can change what Helve allows; run chmod go-w on it", file.display()));
    assert_eq!(warnings(0o666), expected);
    assert_eq!(Policy::builtin().warnings(), Vec::<String>::new());
}

#[test]
fn a_full_check_fails_where_the_next_call_would() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text =
        format!("secrets = [{{ file = '{}' }}]\nview.read_only = ['/nonexistent/a']", file.path().display());
    let policy = Policy::from_toml(&text).unwrap();
    assert!(policy.check_all().unwrap_err().to_string().contains("shorter than 4 characters"));
    std::fs::write(file.path(), "long enough").unwrap();
    assert_eq!(policy.check_all(), Ok(policy.warnings()));
    assert_eq!(policy.warnings().len(), 1);
    drop(file);
    assert!(policy.check_all().unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn no_grant_opens_everything_or_a_home_directory() {
    let policy = guarding(Path::new("/srv/people/ann"), "tools.restrict_to_workspace=true").unwrap();
    let grant = |command: &str| policy.check_text(command, Path::new("/w")).grant;
    for path in
        ["/", "/home", "/home/bob", "/root", "/srv/people", "/srv/people/ann", "/proc/1/environ", "/dev/sr0"]
    {
        assert_eq!(grant(&format!("ls {path}")), None, "{path}");
        let elsewhere = CommandUse { command: "ls".to_owned(), working_dir: Some(path.to_owned()) };
        assert_eq!(policy.check(&elsewhere, Path::new("/w")).grant, None, "{path}");
    }
    for path in ["/srv/data", "/home/bob/data", "/srv/people/ann/data"] {
        assert_eq!(grant(&format!("ls {path}")), Some(format!("view.read_only = [\"{path}\"]")));
    }
}

#[test]
fn printing_a_policy_shows_nothing_of_it() {
    let policy = Policy::from_toml("tools.exec.env.TOKEN = 'hush'").unwrap();
    assert_eq!(format!("{policy:?}"), "Policy { .. }");
}

#[test]
fn policies_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Policy>();
}

#[test]
fn a_container_has_a_system_of_its_own_and_only_the_owner_names_it() {
    let text = "sandbox = 'container'\n[container]\nimage = 'debian'\nengine = 'podman'\nsocket = '/run/x.sock'\ncpus = 2";
    let policy = Policy::from_toml(text).unwrap();
    let choice = ContainerChoice {
        image: Some("debian".to_owned()),
        engine: Some(ContainerEngine::Podman),
        socket: Some("/run/x.sock".into()),
        cpus: Some(2),
    };
    assert_eq!(policy.sandbox(), SandboxChoice::Container(choice));
    let folder = tempfile::tempdir().unwrap();
    let view = policy.view(folder.path(), Path::new("/home/user/.helve"));
    assert_eq!(view.read_only, Vec::<PathBuf>::new());
    assert_eq!(view.shell, Path::new("/bin/sh"));
    assert_eq!(view.env["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    assert_eq!(view.env["HOME"], "/tmp/home");
    // A shell that only the image has.
    let named = Policy::from_toml(&format!("tools.exec.shell = '/opt/bin/bash'\n{text}")).unwrap();
    assert_eq!(named.shell(), Path::new("/opt/bin/bash"));
    for line in ["container.image = 'evil'", "container.socket = '/w/x.sock'", "sandbox = 'container'"] {
        let workspace = WorkspaceFile { path: "/w/helve.toml".into(), text: line.to_owned() };
        let sources = Sources { workspace: Some(workspace), ..Sources::default() };
        let error = Policy::load(&sources).unwrap_err().to_string();
        assert!(error.contains("/w/helve.toml"), "{line}: {error}");
    }
}
