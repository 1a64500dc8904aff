use std::path::Path;

use helve_core::{CommandUse, Verdict};
use pretty_assertions::assert_eq;

use super::*;
use crate::{Policy, Sources};

fn in_force(policy: &Policy, key: &str) -> (serde_json::Value, Layer) {
    let setting = policy.explain().into_iter().find(|setting| setting.key == key).unwrap();
    (setting.value, setting.origin.layer)
}

fn problem(text: &str) -> String {
    Policy::from_toml(text).unwrap_err().to_string()
}

#[test]
fn every_built_in_profile_loads_and_its_examples_hold() {
    for (name, text) in BUILT_IN {
        assert!(text.starts_with('#') && text.contains(&format!("[profiles.{name}]")), "{name}");
        let policy = Policy::from_toml(&format!("profile = '{name}'")).unwrap();
        assert_eq!(policy.profile(), Some(name));
        let problems = policy.rules().example_problems(Some(Path::new("/home/me")), |_| true);
        assert_eq!(problems, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_profile_holds_where_the_configuration_is_silent() {
    let policy = Policy::from_toml("profile = 'coding'").unwrap();
    assert!(policy.delete_inside());
    assert_eq!(in_force(&policy, "tools.exec.delete_inside"), (true.into(), Layer::Profile));
    let policy = Policy::from_toml("profile = 'coding'\ntools.exec.delete_inside = false").unwrap();
    assert!(!policy.delete_inside());
    assert_eq!(in_force(&policy, "tools.exec.delete_inside"), (false.into(), Layer::User));
    assert!(!Policy::builtin().delete_inside());
    assert_eq!(Policy::from_toml("profile = 'guarded'").unwrap().rules_otherwise(), Verdict::Ask);
}

/// Nothing holds back what a program does that nobody knows.
#[test]
fn readonly_refuses_what_it_cannot_vouch_for_in_a_bare_run() {
    let verdict = |text: &str, command: &str, contained| {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        Policy::from_toml(text).unwrap().judge(&command, Path::new("/w"), contained).decision.verdict
    };
    for command in ["make", "python3 x.py", "./run.sh", "ls; mytool", "$x"] {
        assert_eq!(verdict("profile = 'readonly'", command, true), Verdict::Ask, "{command}");
        assert_eq!(verdict("profile = 'readonly'", command, false), Verdict::Deny, "{command}");
        assert_eq!(verdict("profile = 'guarded'", command, false), Verdict::Ask, "{command}");
    }
    assert_eq!(verdict("profile = 'readonly'", "ls | sort && git log", false), Verdict::Allow);
    assert_eq!(verdict("rules_otherwise_bare = 'deny'", "make", true), Verdict::Allow);
    assert_eq!(verdict("rules_otherwise_bare = 'deny'", "make", false), Verdict::Deny);
    assert_eq!(
        verdict("rules_otherwise = 'deny'\nrules_otherwise_bare = 'allow'", "ls", false),
        Verdict::Deny
    );
}

#[test]
fn profiles_extend_each_other_and_the_last_to_speak_wins() {
    let policy = Policy::from_toml(
        "profile = 'mine'
        [profiles.mine]\nextends = 'base'\nnetwork = true
        [[profiles.mine.rules]]\nverdict = 'ask'\ncommand = 'git push *'
        [profiles.base]\nextends = 'coding'\ndelete_inside = false\nnetwork = false\nrestrict_to_workspace = true
        [[profiles.base.rules]]\nverdict = 'deny'\ncommand = 'git clean *'",
    )
    .unwrap();
    assert!(!policy.delete_inside());
    assert_eq!(in_force(&policy, "tools.exec.network").0, true);
    assert_eq!(in_force(&policy, "tools.restrict_to_workspace").0, true);
    let names: Vec<String> = policy.rules_shown().into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, ["profile.base.rules[0]", "profile.mine.rules[0]"]);
}

#[test]
fn what_no_profile_is_says_what_to_change() {
    for (text, part) in [
        ("profile = 'codng'", "did you mean \"coding\"?"),
        ("profile = 'zzzzzzz'", "the profiles are readonly, guarded, coding, open"),
        ("[profiles.mine]\nextends = 'codng'", "`profiles.mine.extends`"),
        (
            "[profiles.coding]\ndelete_inside = false",
            "is built in; make one of your own with `extends = \"coding\"`",
        ),
        (
            "[profiles.a]\nextends = 'b'\n[profiles.b]\nextends = 'a'",
            "a extends b extends a, which goes round",
        ),
        ("[profiles.a]\nextends = 'a'", "a extends a, which goes round"),
        ("[profiles.a]\nnonsense = 1", "unknown key `profiles.a.nonsense`"),
        ("[profiles.a]\ndelete_insid = true", "did you mean `delete_inside`?"),
        ("[[profiles.a.rules]]\nverdict = 'deny'", "`profiles.a.rules[0]`"),
    ] {
        let found = problem(text);
        assert!(found.contains(part), "{text}: {found}");
    }
}

fn written(texts: [(&str, &str); 2]) -> (tempfile::TempDir, Sources) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, text) in texts {
        std::fs::write(path(name), text).unwrap();
    }
    let (system, user) = (Some(path(texts[0].0)), Some(path(texts[1].0)));
    (directory, Sources { system, user, ..Sources::default() })
}

#[test]
fn rules_of_all_layers_add_up_and_are_named_after_them() {
    let rule = |command: &str| format!("[[rules]]\nverdict = 'ask'\ncommand = '{command}'\n");
    let (system, user) = (rule("a"), format!("{}{}", rule("b"), rule("c")));
    let (_directory, mut sources) = written([("system.toml", &system), ("user.toml", &user)]);
    sources.set =
        vec!["rules=[{verdict='deny',command='d'}]".into(), "rules=[{verdict='deny',command='e'}]".into()];
    let shown = Policy::load(&sources).unwrap().rules_shown();
    let names: Vec<&str> = shown.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["system.rules[0]", "rules[0]", "rules[1]", "set.rules[0]", "set.rules[1]"]);
    assert!(shown[2].origin.to_string().ends_with("user.toml line 4"), "{}", shown[2].origin);
}

#[test]
fn a_ceiling_counts_only_in_the_machines_file() {
    let found = problem("ceiling.sandbox = true");
    assert!(found.contains("`ceiling.sandbox` in the given text line 1: a ceiling counts only"), "{found}");
    let found = problem("[[ceiling.rules]]\nverdict = 'deny'\ncommand = 'x'");
    assert!(found.contains("a ceiling counts only in the machine's file"), "{found}");
    let ceiling =
        "[ceiling]\nlongest_approval = 'session'\n[[ceiling.rules]]\nverdict = 'deny'\neffect = 'privilege'";
    let (_directory, mut sources) = written([("system.toml", ceiling), ("user.toml", "profile = 'open'")]);
    let policy = Policy::load(&sources).unwrap();
    assert_eq!(policy.longest_approval(), crate::ApprovalLength::Session);
    let shown = policy.rules_shown();
    assert!(shown[0].ceiling && shown[0].name == "ceiling.rules[0]", "{shown:?}");
    assert!(shown[1..].iter().all(|rule| !rule.ceiling));
    sources.set = vec!["ceiling.longest_approval=always".into()];
    assert!(Policy::load(&sources).unwrap_err().to_string().contains("a ceiling counts only"));
    let allows = "[[ceiling.rules]]\nverdict = 'allow'\ncommand = 'x'";
    let (_directory, sources) = written([("system.toml", allows), ("user.toml", "")]);
    let found = Policy::load(&sources).unwrap_err().to_string();
    assert!(found.contains("a ceiling only tightens"), "{found}");
}

/// Of two rules that say the same, the one that no approval lifts decides.
#[test]
fn the_ceiling_comes_before_the_owners_rules() {
    let ceiling = "[[ceiling.rules]]\nverdict = 'ask'\ncommand = 'x *'";
    let user = "[[rules]]\nverdict = 'ask'\ncommand = 'x *'";
    let (_directory, sources) = written([("system.toml", ceiling), ("user.toml", user)]);
    let names: Vec<String> =
        Policy::load(&sources).unwrap().rules_shown().into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, ["ceiling.rules[0]", "rules[0]"]);
}

#[test]
fn a_closed_network_needs_the_sandbox_and_a_bounded_approval_an_answer() {
    for (ceiling, user) in [
        ("ceiling.network = false", "sandbox = 'none'"),
        ("ceiling.network = false", "tools.exec.commandWrapper = 'box {command}'"),
        ("ceiling.longest_approval = 'once'", "auto_approve = true"),
        ("ceiling.longest_approval = 'session'", "tools.exec.approval = 'never'"),
        ("ceiling.longest_approval = 'once'", "tools.json.approval = 'never'"),
    ] {
        let (_directory, mut sources) = written([("system.toml", ceiling), ("user.toml", user)]);
        let error = Policy::load(&sources).unwrap_err().to_string();
        let by = ceiling.split(' ').next().unwrap();
        assert!(error.contains("user.toml") && error.contains(by), "{ceiling}, {user}: {error}");
        sources.system = None;
        assert!(Policy::load(&sources).is_ok(), "{user}");
    }
    for (ceiling, user) in [
        ("ceiling.network = false", "tools.exec.network = false"),
        ("ceiling.longest_approval = 'always'", "auto_approve = true"),
        ("ceiling.longest_approval = 'once'", "auto_approve = false\ntools.exec.approval = 'always'"),
        ("ceiling.longest_approval = 'once'\nauto_approve = true", ""),
    ] {
        let (_directory, sources) = written([("system.toml", ceiling), ("user.toml", user)]);
        assert!(Policy::load(&sources).is_ok(), "{ceiling}, {user}");
    }
}

#[test]
fn no_later_layer_goes_past_the_ceiling() {
    let ceiling = "ceiling.sandbox = true\nceiling.network = false";
    for (user, part) in [
        ("sandbox = 'none'", "wants every command in a sandbox"),
        (
            "tools.exec.command_wrapper = 'firejail -- {command}'",
            "wants every command in Helve's own sandbox",
        ),
        ("tools.exec.network = true", "keeps the network closed"),
        ("profile = 'mine'\nprofiles.mine.network = true", "keeps the network closed"),
    ] {
        let (_directory, sources) = written([("system.toml", ceiling), ("user.toml", user)]);
        let found = Policy::load(&sources).unwrap_err().to_string();
        assert!(found.contains(part) && found.contains("system.toml line "), "{user}: {found}");
    }
    for user in [
        "sandbox = 'bwrap'\ntools.exec.network = false",
        "sandbox = 'landlock'",
        "sandbox = 'native'",
        "sandbox = 'auto'",
        "profile = 'open'",
        "",
    ] {
        let (_directory, sources) = written([("system.toml", ceiling), ("user.toml", user)]);
        assert!(Policy::load(&sources).is_ok(), "{user}");
    }
    let own = format!("{ceiling}\nsandbox = 'none'");
    let (_directory, sources) = written([("system.toml", &own), ("user.toml", "")]);
    assert!(Policy::load(&sources).is_ok(), "the machine's own file says so itself");
}

fn with_workspace(user: &str, workspace: &str) -> Result<Policy, String> {
    let (_directory, mut sources) = written([("system.toml", ""), ("user.toml", user)]);
    let path = "/w/helve.toml".into();
    sources.workspace = Some(crate::WorkspaceFile { path, text: workspace.to_owned() });
    Policy::load(&sources).map_err(|error| error.to_string())
}

#[test]
fn a_workspaces_own_file_tightens() {
    let text = "rules_otherwise = 'ask'\ntools.restrict_to_workspace = true\ntools.exec.delete_inside = false
        tools.exec.network = false\ntools.exec.timeout = 5\nlimits.output_chars = 100\ntools.echo.enabled = false
        tools.json.approval = 'always'\nauto_approve = false
        [[rules]]\nverdict = 'deny'\ncommand = 'git push *'\ndenies = ['git push']";
    let user =
        "profile = 'coding'\ntools.exec.network = true\nauto_approve = true\nlimits.command_bytes = 10";
    let policy = with_workspace(user, text).unwrap();
    assert!(!policy.delete_inside() && !policy.auto_approve());
    assert_eq!(policy.rules_otherwise(), Verdict::Ask);
    assert_eq!(in_force(&policy, "tools.exec.network"), (false.into(), Layer::Workspace));
    assert_eq!(in_force(&policy, "tools.restrict_to_workspace"), (true.into(), Layer::Workspace));
    assert_eq!((policy.limits().output_chars, policy.exec_timeout().as_secs()), (100, 5));
    assert!(!policy.tool("echo").enabled);
    assert_eq!(policy.rules_shown()[0].name, "workspace.rules[0]");
    // What is stricter already stays.
    let policy = with_workspace(user, "limits.command_bytes = 100\ntools.exec.timeout = 600").unwrap();
    assert_eq!((policy.limits().command_bytes, policy.exec_timeout().as_secs()), (10, 60));
    let policy = with_workspace("rules_otherwise = 'deny'", "rules_otherwise = 'ask'").unwrap();
    assert_eq!(policy.rules_otherwise(), Verdict::Deny);
    // Names are added; none can be taken out.
    for (user, file, then) in [
        ("view.protected = ['.git']", "view.protected = ['x.mk']", serde_json::json!([".git", "x.mk"])),
        ("view.protected = ['.git']", "view.protected = []", serde_json::json!([".git"])),
        ("", "view.protected = []", helve_core::protected::NAMES.into()),
    ] {
        let policy = with_workspace(user, file).unwrap();
        assert_eq!(in_force(&policy, "view.protected").0, then, "{user} {file}");
    }
    let policy = with_workspace("files.deny_read = ['a', '!b']", "files.deny_read = ['b']").unwrap();
    assert_eq!(in_force(&policy, "files.deny_read").0, serde_json::json!(["a", "!b", "b"]));
}

#[test]
fn a_workspaces_own_file_may_ask_for_a_sandbox_that_holds_more() {
    let in_ours = |user: &str, file: &str| {
        with_workspace(user, &format!("sandbox = '{file}'")).map(|policy| in_force(&policy, "sandbox").0)
    };
    for (ours, theirs, then) in [
        ("auto", "native", "native"),
        ("landlock", "native", "native"),
        ("landlock", "auto", "auto"),
        ("bwrap", "native", "native"),
        ("native", "auto", "native"),
        ("auto", "auto", "auto"),
        ("bwrap", "bwrap", "bwrap"),
    ] {
        assert_eq!(in_ours(&format!("sandbox = '{ours}'"), theirs).unwrap(), then, "{ours} {theirs}");
    }
    for (ours, theirs) in [
        ("auto", "landlock"),
        ("auto", "bwrap"),
        ("native", "landlock"),
        ("native", "bwrap"),
        ("landlock", "bwrap"),
        ("bwrap", "landlock"),
        ("bwrap", "auto"),
        ("none", "native"),
        ("none", "auto"),
        ("auto", "none"),
    ] {
        let found = in_ours(&format!("sandbox = '{ours}'"), theirs).unwrap_err();
        assert!(found.contains("`sandbox` may only be one that holds all"), "{ours} {theirs}: {found}");
    }
    let wrapped = "sandbox = 'bwrap'\ntools.exec.command_wrapper = 'box {command}'";
    assert!(in_ours(wrapped, "native").is_err(), "a wrapper stays what the owner made it");
}

#[test]
fn a_workspaces_own_file_lowers_the_limits_of_tools_and_raises_none() {
    use crate::config::tighten::{LIMITS, OWNERS};
    use helve_core::Limits;
    for row in Limits::TABLE {
        let name = format!("limits.{}", row.name);
        let (lowers, owners) = (LIMITS.contains(&name.as_str()), OWNERS.contains(&name.as_str()));
        assert!(lowers != owners, "{name} is in one of the two lists");
        let smaller = with_workspace("", &format!("{name} = {}", row.default - 1));
        if owners {
            let error = smaller.unwrap_err();
            assert!(error.contains("may only tighten: this limit is the owner's alone"), "{error}");
            assert_eq!(error.contains("tools.exec.timeout"), name == "limits.exec_timeout_max", "{error}");
            continue;
        }
        assert_eq!(in_force(&smaller.unwrap(), &name).0, row.default - 1, "{name}");
        let larger = with_workspace("", &format!("{name} = {}", row.default + 1)).unwrap();
        assert_eq!(in_force(&larger, &name).0, row.default, "{name}");
    }
}

#[test]
fn a_workspaces_own_file_never_loosens() {
    for (text, part) in [
        ("sandbox = 'none'", "may only tighten"),
        ("rules_otherwise = 'allow'", "`rules_otherwise` may be \"ask\" or \"deny\" here"),
        ("tools.exec.delete_inside = true", "may only tighten"),
        ("files.deny_read = ['!.env']", "none with `!`"),
        ("files.read_only = ['/data']", "may only tighten"),
        ("files.hard_links = 'allow'", "may only tighten"),
        ("tools.restrict_to_workspace = false", "may only tighten"),
        ("tools.exec.network = true", "may only tighten"),
        ("tools.exec.deny_patterns = []", "may only tighten"),
        ("tools.exec.allow_patterns = ['x']", "may only tighten"),
        ("tools.exec.shell = 'sh'", "may only tighten"),
        ("hooks = [{ on = 'before_call', program = ['/bin/true'] }]", "cannot name a program"),
        ("[[hooks]]\non = 'session_start'\nprogram = ['/bin/true']", "cannot name a program"),
        ("tools.exec.env.LD_PRELOAD = '/x.so'", "may only tighten"),
        ("tools.exec.per_minute = 1", "may only tighten"),
        ("tools.echo.enabled = true", "may only tighten"),
        ("tools.echo.approval = 'never'", "may only tighten"),
        ("auto_approve = true", "may only tighten"),
        ("profile = 'open'", "may only tighten"),
        ("view.read_only = ['/etc']", "may only tighten"),
        ("secrets = []", "may only tighten"),
        ("limits.blob_store_bytes = 0", "may only tighten"),
        ("journal.session = 'x'", "may only tighten"),
        ("[profiles.x]\ndelete_inside = true", "may only tighten"),
        ("ceiling.network = true", "a ceiling counts only"),
        (
            "[[rules]]\nverdict = 'allow'\ncommand = 'x'",
            "a workspace's own file may only tighten: its rules ask or deny",
        ),
        ("nonsense = 1", "unknown key `nonsense` in /w/helve.toml line 1"),
        ("[[rules", "/w/helve.toml line 1"),
    ] {
        let found = with_workspace("", text).unwrap_err();
        assert!(found.contains(part) && found.contains("/w/helve.toml"), "{text}: {found}");
    }
}
