//! What a command may read as its rules see it: `tests/cases/reads.jsonl`, one command a line, with the verdict of a policy that
//! keeps it from a directory, by a rule for its path or by restricting it to the workspace.
//!
//! The directories need not exist, except where words are held against what is there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use helve_core::Verdict;
use helve_policy::Policy;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    verdict: Verdict,
}

const WORKSPACE: &str = "/home/user/project";

/// A rule for paths that refuses them, and nothing else that does.
fn refusing(paths: &str) -> String {
    format!("tools.exec.deny_patterns = []\n[[rules]]\nverdict = 'deny'\npath = {paths}\n")
}

fn wrong(policy: &str) -> Vec<String> {
    let policy = Policy::from_toml(policy).unwrap();
    let cases: Vec<Case> =
        include_str!("cases/reads.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() > 200, "only {}", cases.len());
    let judged = cases.into_iter().map(|case| (policy.check_text(&case.command, Path::new(WORKSPACE)), case));
    let wrong = judged.filter(|(decision, case)| decision.verdict != case.verdict);
    wrong.map(|(decision, case)| format!("{:?}: {decision:?}", case.command)).collect()
}

#[test]
fn a_rule_for_a_path_finds_whatever_may_read_it() {
    let wrong = wrong(&refusing("['/outside/**', '/etc/**']"));
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_restricted_command_reads_nothing_outside_by_any_program() {
    let wrong = wrong("tools.exec.deny_patterns = []\ntools.restrict_to_workspace = true");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_path_of_the_workspace_is_found_in_every_place_that_may_be_one() {
    let policy = Policy::from_toml(&refusing("['secrets/**', '.env']")).unwrap();
    for (command, verdict) in [
        ("perl -pe1 secrets/key", Verdict::Deny),
        ("perl -pe1 ./secrets/key", Verdict::Deny),
        ("perl -pe1 .env", Verdict::Deny),
        ("mytool --file=secrets/key", Verdict::Deny),
        ("mytool -Isecrets/key", Verdict::Deny),
        ("mytool -f.env", Verdict::Deny),
        ("mytool @secrets/key", Verdict::Deny),
        ("mytool secrets/*", Verdict::Deny),
        ("cd src && mytool ../secrets/key", Verdict::Deny),
        ("cc -include secrets/key x.c", Verdict::Deny),
        ("git show HEAD:secrets/key", Verdict::Deny),
        ("git show :0:secrets/key", Verdict::Deny),
        ("cd src && git show HEAD:secrets/key", Verdict::Deny),
        ("git log -p -- secrets/key", Verdict::Deny),
        ("git log -p -- ':(top)secrets/key'", Verdict::Deny),
        ("git blame secrets/key", Verdict::Deny),
        ("git diff HEAD~1 -- secrets/key", Verdict::Deny),
        ("git archive HEAD secrets/key", Verdict::Deny),
        ("git cat-file -p HEAD:secrets/key", Verdict::Deny),
        ("git grep x -- secrets/key", Verdict::Deny),
        ("git -C secrets grep x ./key", Verdict::Deny),
        ("npm run secrets", Verdict::Allow),
        ("git push origin secrets", Verdict::Allow),
        ("git log secrets", Verdict::Allow),
        ("git log --grep=secrets/key", Verdict::Allow),
        ("git log --format=%H/%s", Verdict::Allow),
        ("mytool --env=secrets", Verdict::Allow),
        ("mytool other/key", Verdict::Allow),
        ("grep .env notes", Verdict::Allow),
        ("echo secrets/key", Verdict::Allow),
    ] {
        let decision = policy.check_text(command, Path::new(WORKSPACE));
        assert_eq!(decision.verdict, verdict, "{command}: {decision:?}");
    }
}

#[test]
fn a_word_is_a_path_where_a_file_of_that_name_is_there() {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().canonicalize().unwrap();
    let workspace = root.join("project");
    fs::create_dir_all(workspace.join("secrets")).unwrap();
    fs::create_dir(root.join("elsewhere")).unwrap();
    fs::write(root.join("elsewhere/key"), "x").unwrap();
    fs::write(workspace.join("notes"), "x").unwrap();
    symlink(root.join("elsewhere/key"), workspace.join("link")).unwrap();
    let policy = refusing(&format!("['secrets/**', '{}/**']", root.join("elsewhere").display()));
    let restricted = "tools.restrict_to_workspace = true";
    for (policy, command, verdict) in [
        (policy.as_str(), "mytool secrets", Verdict::Deny),
        (&policy, "perl -pe1 link", Verdict::Deny),
        (&policy, "mytool --file=link", Verdict::Deny),
        (&policy, "git archive HEAD secrets", Verdict::Deny),
        (&policy, "perl -pe1 notes", Verdict::Allow),
        (&policy, "perl -pe1 nothing", Verdict::Allow),
        (restricted, "perl -pe1 link", Verdict::Deny),
        (restricted, "perl -pe1 notes", Verdict::Allow),
        (restricted, "perl -pe1 nothing", Verdict::Allow),
    ] {
        let decision = Policy::from_toml(policy).unwrap().check_text(command, &workspace);
        assert_eq!(decision.verdict, verdict, "{command}: {decision:?}");
    }
}

#[test]
fn rules_for_effects_and_commands_count_what_may_be_read() {
    for (rule, command, verdict) in [
        ("verdict = 'ask'\neffect = 'reads-outside'", "perl -pe1 /outside/x", Verdict::Ask),
        ("verdict = 'ask'\neffect = 'reads-outside'", "perl -pe1 notes", Verdict::Allow),
        ("verdict = 'deny'\neffect = 'secrets'", "perl -pe1 /home/user/.ssh/id_rsa", Verdict::Deny),
        ("verdict = 'deny'\neffect = 'secrets'", "mytool --key=.env", Verdict::Deny),
        ("verdict = 'deny'\ncommand = 'perl *'\npath = '/outside/**'", "perl -pe1 /outside/x", Verdict::Deny),
        ("verdict = 'deny'\ncommand = 'perl *'\npath = '/outside/**'", "mytool /outside/x", Verdict::Allow),
        ("verdict = 'deny'\neffect = 'writes'\npath = '/outside/**'", "perl -pe1 /outside/x", Verdict::Allow),
        // A rule that allows paths does not vouch for what may be read elsewhere.
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool /outside/x", Verdict::Ask),
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool src/x", Verdict::Allow),
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool x", Verdict::Allow),
        ("verdict = 'allow'\ncommand = 'mytool *'\neffect = 'writes'", "mytool /outside/x", Verdict::Allow),
        // What shows only when it runs may be any path.
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool \"$X\"", Verdict::Ask),
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool --file=\"$X\"", Verdict::Ask),
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool /etc/$X", Verdict::Ask),
        ("verdict = 'allow'\ncommand = 'mytool *'\npath = 'src/**'", "mytool --file=/etc/$X", Verdict::Ask),
        ("verdict = 'allow'\ncommand = 'mytool *'", "mytool \"$X\"", Verdict::Allow),
        ("verdict = 'deny'\npath = '/**'", "cat \"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/**'", "perl -pe1 \"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/**'", "gcc \"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/**'", "mytool \"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/**'", "mytool --file=\"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/**'", "\"$PERL\" \"$F\"", Verdict::Deny),
        ("verdict = 'deny'\npath = '/etc/**'", "mytool \"$F\"", Verdict::Allow),
        ("verdict = 'ask'\neffect = 'reads-outside'", "mytool \"$F\"", Verdict::Allow),
        (
            "verdict = 'allow'\neffect = 'reads-outside'\n[[rules]]\nverdict = 'allow'\ncommand = 'ls'",
            "mytool /x",
            Verdict::Ask,
        ),
    ] {
        let policy =
            Policy::from_toml(&format!("tools.exec.deny_patterns = []\n[[rules]]\n{rule}\n")).unwrap();
        let decision = policy.check_text(command, Path::new(WORKSPACE));
        assert_eq!(decision.verdict, verdict, "{command} under {rule}: {decision:?}");
    }
}
