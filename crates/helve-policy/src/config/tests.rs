use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::keys::{Key, keys};
use super::layers::{Layer, Sources, camel};
use super::show::starter;
use crate::Policy;

fn problems(text: &str) -> Vec<String> {
    match Policy::from_toml(text) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems().to_vec(),
    }
}

/// The one problem of a text.
fn problem(text: &str) -> String {
    let mut found = problems(text);
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    found.remove(0)
}

fn in_force(policy: &Policy, key: &str) -> (serde_json::Value, Layer) {
    let setting = policy.explain().into_iter().find(|setting| setting.key == key).unwrap();
    (setting.value, setting.origin.layer)
}

#[test]
fn later_layers_replace_earlier_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (system, user) = (directory.path().join("system.toml"), directory.path().join("user.json"));
    std::fs::write(&system, "parallel = false\ntools.exec.timeout = 10\ntools.exec.env.A = 'system'")
        .unwrap();
    std::fs::write(&user, r#"{"tools": {"exec": {"timeout": 20, "env": {"B": "user"}}}}"#).unwrap();
    let set = vec!["tools.exec.timeout=30".to_owned(), "sandbox=none".into()];
    let mut sources =
        Sources { system: Some(system.clone()), user: Some(user.clone()), ..Sources::default() };
    let policy = Policy::load(&sources).unwrap();
    assert_eq!(in_force(&policy, "sandbox"), (json!("auto"), Layer::BuiltIn));
    assert_eq!(in_force(&policy, "parallel"), (json!(false), Layer::System));
    assert_eq!(in_force(&policy, "tools.exec.timeout"), (json!(20), Layer::User));
    assert_eq!(in_force(&policy, "tools.exec.env.A"), (json!("system"), Layer::System));
    assert_eq!(in_force(&policy, "tools.exec.env.B"), (json!("user"), Layer::User));
    sources.set = set;
    let policy = Policy::load(&sources).unwrap();
    assert_eq!(in_force(&policy, "tools.exec.timeout"), (json!(30), Layer::CommandLine));
    assert_eq!(in_force(&policy, "sandbox"), (json!("none"), Layer::CommandLine));
    let shown = policy.explain();
    let parallel = shown.iter().find(|setting| setting.key == "parallel").unwrap();
    assert_eq!(parallel.origin.to_string(), format!("{} line 1", system.display()));
}

#[test]
fn an_absent_file_is_fine_unless_it_was_asked_for() {
    let absent = Some("/nonexistent/helve.toml".into());
    let mut sources = Sources { system: absent.clone(), user: absent, ..Sources::default() };
    assert!(Policy::load(&sources).is_ok());
    sources.user_required = true;
    let error = Policy::load(&sources).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/helve.toml: cannot be read"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let sources = Sources { system: Some(directory.path().into()), ..Sources::default() };
    assert!(Policy::load(&sources).is_err(), "a directory is no file");
    let pipe = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for file in [pipe.as_path(), std::path::Path::new("/dev/zero")] {
        let sources = Sources { user: Some(file.into()), ..Sources::default() };
        let error = Policy::load(&sources).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let large = directory.path().join("large.toml");
    std::fs::write(&large, "#".repeat(2 << 20)).unwrap();
    let error = Policy::load(&Sources { system: Some(large), ..Sources::default() }).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn unknown_keys_name_the_place_and_the_nearest_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("helve.toml");
    std::fs::write(&file, "parallel = true\n[tools.exec]\ntimout = 5\n").unwrap();
    let error = Policy::load(&Sources { user: Some(file.clone()), ..Sources::default() }).unwrap_err();
    let expected =
        format!("unknown key `tools.exec.timout` in {} line 3: did you mean `timeout`?", file.display());
    assert_eq!(error.to_string(), expected);
    for (text, remedy) in [
        ("paralel = true", "did you mean `parallel`?"),
        ("timeout = 5", "did you mean `tools.exec.timeout`?"),
        ("tools.exce.timeout = 5", "did you mean `tools.exec.timeout`?"),
        ("tools.shell.denyPatterns = []", "did you mean `tools.exec.deny_patterns`?"),
        ("tools.exec.denyPattern = []", "did you mean `deny_patterns`?"),
        ("limits.output_char = 1", "did you mean `output_chars`?"),
        ("view.readonly = []", "did you mean `read_only`?"),
        ("journal.zzzzzzzzzz = 1", "the known keys here are `fsync`, `session`"),
        (
            "tools.echo.nonsense = 1",
            "the known keys here are `enabled`, `approval`, `per_minute`, `per_hour`",
        ),
        ("tools.restrict_to_workspaces = true", "did you mean `restrict_to_workspace`?"),
    ] {
        let found = problem(text);
        assert!(found.starts_with("unknown key `") && found.ends_with(remedy), "{text}: {found}");
    }
}

#[test]
fn wrong_values_name_the_key_what_was_expected_and_what_came() {
    for (text, expected, received) in [
        ("parallel = 1", "true or false", "the number 1"),
        ("parallel = 'yes'", "true or false", "the string \"yes\""),
        (
            "sandbox = 'docker'",
            "\"auto\" or \"native\" or \"landlock\" or \"bwrap\" or \"container\" or \"none\"",
            "the string \"docker\"",
        ),
        ("tools.exec.timeout = '60'", "a whole number of seconds", "the string \"60\""),
        ("tools.exec.timeout = 0", "a whole number of seconds from 1", "the number 0"),
        ("tools.exec.timeout = -1", "a whole number of seconds", "the number -1"),
        ("tools.exec.timeout = 1.5", "a whole number of seconds", "the number 1.5"),
        ("tools.exec.timeout = 99999999999", "a whole number of seconds", "the number 99999999999"),
        ("tools.exec.timeout = 1979-05-27", "a whole number of seconds", "the date 1979-05-27"),
        ("tools.exec.deny_patterns = 'rm'", "a list of regular expressions", "the string \"rm\""),
        ("tools.exec.deny_patterns = [1]", "a list of regular expressions", "the number 1 in it"),
        ("tools.exec.path_append = ['/x']", "a string", "a list"),
        ("tools.exec.env.A = 1", "a string", "the number 1"),
        ("tools.exec.env_pass = ['A B']", "names of environment variables", "\"A B\" in it"),
        ("tools.exec.shell = 'bin/sh'", "the absolute path", "\"bin/sh\""),
        ("tools.exec = 1", "a table", "the number 1"),
        ("tools.echo.per_minute = 0", "from 1 to 100000", "the number 0"),
        ("tools.echo.approval = 'sometimes'", "\"never\" or", "the string \"sometimes\""),
        ("limits.workers = 0", "a whole number, 1 or more", "the number 0"),
        (
            "limits.output_chars = 18446744073709551615",
            "at most 9223372036854775807",
            "the number 18446744073709551615",
        ),
        ("limits.exec_file_bytes = 0", "a whole number, 1048576 or more", "the number 0"),
        ("limits.exec_file_bytes = 1048575", "a whole number, 1048576 or more", "the number 1048575"),
        ("limits.exec_memory_bytes = 4096", "a whole number, 16777216 or more", "the number 4096"),
        ("limits.exec_processes = 3", "a whole number, 4 or more", "the number 3"),
        ("limits.exec_tmp_bytes = 0", "a whole number, 65536 or more", "the number 0"),
        ("limits = 3", "a table", "the number 3"),
        ("view.read_only = ['relative']", "an absolute path without `..`", "\"relative\""),
        ("view.read_only = ['/a/../b']", "an absolute path without `..`", "\"/a/../b\""),
        ("view.hidden = ['~other/x']", "an absolute path", "\"~other/x\""),
        ("view.protected = ['a/b']", "names of files", "\"a/b\""),
        ("view.protected = ['..']", "names of files", "\"..\""),
        ("secrets = [{}]", "a table with one of", "a table"),
        ("secrets = [{ env = 'A', file = '/x' }]", "a table with one of", "a table"),
        ("secrets = ['A']", "a table with one of", "the string \"A\""),
        ("[[secrets]]\nenv = 'A-B'", "the name of a variable", "the string \"A-B\""),
        ("[[secrets]]\nfile = 'x'", "an absolute path", "\"x\""),
        ("journal.session = '../x'", "1 to 100 letters", "\"../x\""),
    ] {
        let found = problem(text);
        for part in ["in the given text line ", "expected ", expected, received] {
            assert!(found.contains(part), "{text}: {found}");
        }
    }
}

#[test]
fn values_that_cannot_work_are_errors_at_load() {
    for (text, part) in [
        ("tools.exec.deny_patterns = ['ok', '(']", "element 1: \"(\" is not a regular expression"),
        ("tools.exec.allow_patterns = ['a(?=b)']", "look-around"),
        ("tools.exec.deny_patterns = ['guard.powr']", "did you mean `guard.power`?"),
        ("tools.exec.ask_patterns = ['guard.git-clen']", "did you mean `guard.destructive.git-clean`?"),
        ("view.read_only = ['/']", "name a smaller directory"),
        ("view.read_write = ['/tmp', '//']", "name a smaller directory"),
        ("view.hidden = ['/']", "name a smaller directory"),
        ("files.read_write = ['/']", "name a smaller directory"),
        ("files.deny_read = ['a[z-a]']", "a[z-a]"),
        ("files.deny_read = ['# a']", "\"# a\" is no pattern"),
        ("files.deny_reads = []", "did you mean"),
        ("files.bridge = 'container'", "\"host\" or \"sandbox\""),
        ("files.hard_links = 'yes'", "\"refuse\" or \"allow\""),
        ("model_context_window_tokens = 0", "1 or more"),
        ("tools.exec.env_pass = ['HELVE_HOME']", "HELVE_HOME configures Helve itself; take it out"),
        ("tools.exec.command_wrapper = 'firejail -- {cmd}'", "{command}"),
        ("tools.exec.command_wrapper = 'firejail'", "has no {command}"),
        ("[[secrets]]\nname = 'A'", "the known keys are `env` and `file`"),
        ("parallel = ", "line 1"),
        ("parallel = true\nparallel = false", "duplicate key"),
        ("{\"parallel\": true, \"parallel\": false}", "the key `parallel` is written twice"),
        ("{\"parallel\": tru}", "line 1"),
    ] {
        let found = problem(text);
        assert!(found.contains(part), "{text}: {found}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    assert_eq!(problems("paralel = 1\nsandbox = 2\ntools.exec.timeout = 'x'").len(), 3);
}

#[test]
fn both_spellings_of_a_key_mean_the_same() {
    let plain = |key: &&Key| !key.name.contains('<') && !super::keys::is_ceiling(&key.name);
    for key in keys().iter().filter(plain) {
        let name: Vec<String> = key.parts().map(camel).collect();
        let value = example(key);
        let snake = Policy::from_toml(&format!("{} = {value}", key.name)).unwrap();
        let camel = Policy::from_toml(&format!("{} = {value}", name.join("."))).unwrap();
        assert_eq!(in_force(&snake, &key.name), in_force(&camel, &key.name));
        assert_eq!(in_force(&snake, &key.name).1, Layer::User, "{}", key.name);
    }
}

#[test]
fn both_spellings_in_one_file_are_an_error() {
    let found = problem("[tools.exec]\ndeny_patterns = []\ndenyPatterns = []");
    assert!(
        found.contains("written twice, as `denyPatterns` and as `deny_patterns`")
            || found.contains("written twice, as `deny_patterns` and as `denyPatterns`"),
        "{found}"
    );
}

#[test]
fn the_command_line_takes_toml_or_plain_text() {
    let load = |set: &str| {
        Policy::load(&Sources { set: vec![set.to_owned()], ..Sources::default() }).map_err(|e| e.to_string())
    };
    for (set, key, value) in [
        ("tools.exec.timeout=30", "tools.exec.timeout", json!(30)),
        ("tools.exec.allowPatterns=[]", "tools.exec.allow_patterns", json!([])),
        ("tools.exec.allow_patterns=['a=b']", "tools.exec.allow_patterns", json!(["a=b"])),
        ("tools.exec.path_append=/opt/bin", "tools.exec.path_append", json!("/opt/bin")),
        ("tools.exec.path_append=\"/opt/a b\"", "tools.exec.path_append", json!("/opt/a b")),
        ("tools.exec.path_append=", "tools.exec.path_append", json!("")),
        ("tools.exec.env.N=1", "tools.exec.env.N", json!("1")),
        ("journal.session=2024-01-01", "journal.session", json!("2024-01-01")),
        ("sandbox=none", "sandbox", json!("none")),
    ] {
        assert_eq!(in_force(&load(set).unwrap(), key).0, value, "{set}");
    }
    for set in ["parallel", "=1", "a..b=1", "tools.exec.timeout=soon", "nonsense=1"] {
        assert!(load(set).is_err(), "{set}");
    }
    assert!(load("paralel=1").unwrap_err().contains("unknown key `paralel` in the command line"));
}

#[test]
fn null_means_not_written() {
    let policy =
        Policy::from_toml(r#"{"tools": {"exec": {"working_dir": null, "allow_patterns": null}}}"#).unwrap();
    assert_eq!(in_force(&policy, "tools.exec.allow_patterns"), (json!(null), Layer::BuiltIn));
}

#[test]
fn empty_lists_say_nothing_not_everything() {
    let workspace = std::path::Path::new("/w");
    let verdict =
        |text: &str, command: &str| Policy::from_toml(text).unwrap().check_text(command, workspace).verdict;
    assert_eq!(verdict("tools.exec.allow_patterns = []", "true"), helve_core::Verdict::Deny);
    assert_eq!(verdict("tools.exec.deny_patterns = []", "rm -rf x"), helve_core::Verdict::Allow);
}

/// The configuration of the seeds, as they print it.
#[test]
fn seed_001_configuration_is_accepted_verbatim() {
    for template in [
        r#"bwrap --ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --bind {cwd} {cwd} --chdir {cwd} -- sh -c \"{command}\""#,
        "firejail --noprofile --private={cwd} -- {command}",
        "nsjail -Mo --chroot /sandbox --cwd {cwd} -- {command}",
    ] {
        let text = format!("{{\n\"tools\": {{\n\"exec\": {{\n\"commandWrapper\": \"{template}\"\n}}\n}}\n}}");
        let policy = Policy::from_toml(&text).unwrap();
        let template = template.replace("\\\"", "\"");
        assert_eq!(policy.sandbox(), helve_core::SandboxChoice::Wrapper { template });
    }
    let restricted = Policy::from_toml(r#"{"tools": {"restrictToWorkspace": true}}"#).unwrap();
    let decision = restricted.check_text("cat /etc/passwd", std::path::Path::new("/w"));
    assert_eq!(decision.verdict, helve_core::Verdict::Deny);
}

#[test]
fn seed_004_configuration_is_accepted_under_its_names() {
    let text = r#"{"tools": {"exec": {"timeout": 60, "working_dir": null, "deny_patterns": null,
        "allow_patterns": null, "restrict_to_workspace": false, "path_append": ""}}}"#;
    let policy = Policy::from_toml(text).unwrap();
    assert_eq!(policy.exec_timeout().as_secs(), 60);
}

#[test]
fn every_key_is_shown_with_its_default() {
    let shown = Policy::builtin().explain();
    let plain: Vec<&str> =
        keys().iter().map(|key| key.name.as_ref()).filter(|name| !name.contains('<')).collect();
    assert_eq!(shown.iter().map(|setting| setting.key.as_str()).collect::<Vec<_>>(), plain);
    assert!(shown.iter().all(|setting| setting.origin.layer == Layer::BuiltIn && !setting.doc.is_empty()));
    let deny = shown.iter().find(|setting| setting.key == "tools.exec.deny_patterns").unwrap();
    assert!(deny.toml().unwrap().starts_with("[\"guard.rm-recursive\", "));
}

#[test]
fn what_is_shown_can_be_written() {
    let text = "secrets = [{ env = \"A\" }, { file = \"/x y\" }]\ntools.exec.env.A = \"quote \\\" and \\n\"";
    let policy = Policy::from_toml(text).unwrap();
    let lines: Vec<String> = policy
        .explain()
        .iter()
        .filter(|setting| setting.origin.layer == Layer::User)
        .filter_map(|setting| Some(format!("{} = {}", setting.key, setting.toml()?)))
        .collect();
    assert_eq!(lines.len(), 2);
    let again = Policy::from_toml(&lines.join("\n")).unwrap();
    assert_eq!(in_force(&again, "secrets"), in_force(&policy, "secrets"));
    assert_eq!(in_force(&again, "tools.exec.env.A"), in_force(&policy, "tools.exec.env.A"));
}

#[test]
fn the_starter_file_changes_nothing_and_its_lines_are_valid() {
    let text = starter();
    let written = |text: &str| {
        let policy = Policy::from_toml(text).unwrap();
        policy.explain().into_iter().filter(|setting| setting.origin.layer != Layer::BuiltIn).count()
    };
    assert_eq!(written(&text), 0);
    let uncommented: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("##"))
        .filter_map(|line| line.strip_prefix("# "))
        .collect();
    let settings: Vec<&str> =
        uncommented.into_iter().filter(|line| line.starts_with('[') || line.contains(" = ")).collect();
    let ceilings = keys().iter().filter(|key| super::keys::is_ceiling(&key.name)).count();
    assert_eq!(ceilings, 5);
    assert_eq!(written(&settings.join("\n")), keys().len() - ceilings);
}

/// A value that a key takes and that differs from "not set".
fn example(key: &Key) -> String {
    let setting = crate::Setting {
        key: key.name.to_string(),
        value: key.default_json(),
        origin: crate::Origin { layer: Layer::BuiltIn, file: None, line: None },
        doc: String::new(),
        hidden: false,
    };
    setting.toml().unwrap_or_else(|| match key.name.rsplit('.').next().unwrap() {
        "timeout" | "model_context_window_tokens" => "60".into(),
        "allow_patterns" => "[]".into(),
        "shell" => "'sh'".into(),
        "hook" => "['/usr/bin/ask']".into(),
        "profile" => "'coding'".into(),
        "rules_otherwise" | "rules_otherwise_bare" => "'ask'".into(),
        _ if ["model.", "agent.", "container."].iter().any(|start| key.name.starts_with(start)) => {
            super::show::example(&key.name).into()
        }
        _ => "'work'".into(),
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z.\\[\\]{}=\"', \n0-9:_]{0,80}") {
        let _ = Policy::from_toml(&text);
        let _ = Policy::load(&Sources { set: vec![text], ..Sources::default() });
    }
}

#[test]
fn a_secret_that_commands_are_given_is_allowed_with_a_warning() {
    let policy =
        Policy::from_toml("tools.exec.env_pass = ['A', 'TOKEN']\nsecrets = [{ env = 'TOKEN' }]").unwrap();
    let warnings = policy.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("every command can read the secret TOKEN"),
        "{warnings:?}"
    );
}
