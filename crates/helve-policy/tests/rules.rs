//! Rules as part of a whole policy: the table of `tests/cases/rules.jsonl` once more, with the guard in force, and what
//! the faces do with rules: test, diff, learn.
//!
//! Nothing is looked up on the disk: the workspace does not exist.

use std::collections::BTreeMap;
use std::path::Path;

use helve_core::Verdict;
use helve_policy::{Change, Observation, Policy, PolicyCase, diff, learn};
use pretty_assertions::assert_eq;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Set { set: String, toml: String },
    Case { under: String, command: String, verdict: Verdict },
}

/// In the home directory, so that `~` in a rule and in a command mean the same.
fn workspace() -> std::path::PathBuf {
    std::env::home_dir()
        .filter(|home| home.is_absolute())
        .unwrap_or("/home/user".into())
        .join("no-such-project")
}

#[test]
fn every_case_gets_its_verdict_unless_the_guard_is_stricter() {
    let mut sets = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in include_str!("cases/rules.jsonl").lines() {
        match serde_json::from_str(line).unwrap() {
            Line::Set { set, toml } => {
                sets.insert(set, Policy::from_toml(&toml).unwrap());
            }
            Line::Case { under, command, verdict } => {
                let decision = sets[&under].check_text(&command, &workspace());
                let guarded = decision.rule.starts_with("guard.") && decision.verdict > verdict;
                if decision.verdict != verdict && !guarded {
                    wrong.push(format!("{under}: {command:?}: expected {verdict:?}, received {decision:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

const RULES: &str = r#"
    [[rules]]
    name = "list"
    verdict = "allow"
    command = ["echo *", "git *"]
    allows = ["echo a", "git log"]
    asks = ["touch x"]
    [[rules]]
    name = "push"
    verdict = "deny"
    command = "git push *"
    denies = ["git push origin"]
    allows = ["git log"]
"#;

#[test]
fn a_decision_names_the_rule_and_the_part() {
    let policy = Policy::from_toml(RULES).unwrap();
    let decision = policy.check_text("echo a && git push origin", Path::new("/w"));
    assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Deny, "push"));
    assert_eq!(decision.span, Some((10, 25)));
    let decision = policy.check_text("echo a; touch x", Path::new("/w"));
    assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Ask, "rules_otherwise"));
    assert_eq!(decision.span, Some((8, 15)));
}

#[test]
fn an_allowance_names_the_owners_rule_that_speaks_for_all_of_it() {
    let policy = Policy::from_toml(RULES).unwrap();
    let decision = policy.check_text("cd src && echo a | git log", Path::new("/w"));
    assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Allow, "list"));
    assert_eq!(decision.reason.unwrap(), "the owner's rules allow commands like `echo *`, `git *`");
    let open = Policy::from_toml(&format!("rules_otherwise = 'allow'\n{RULES}")).unwrap();
    let rule = |command: &str| open.check_text(command, Path::new("/w")).rule;
    assert_eq!(rule("echo a"), "list");
    assert_eq!(rule("echo a; touch x"), "guard.default");
    assert_eq!(rule("echo a; > x"), "guard.default");
    assert_eq!(rule("true"), "guard.default");
}

#[test]
fn what_the_list_lacks_comes_with_the_rule_that_would_allow_it() {
    for text in [RULES, "profile = 'guarded'"] {
        let policy = Policy::from_toml(text).unwrap();
        for command in ["touch x", "mkdir a && touch a/b; touch x", "npm run build", "git log; touch 'a b'"] {
            let decision = policy.check_text(command, Path::new("/w"));
            assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Ask, "rules_otherwise"));
            let grant = decision.grant.unwrap_or_else(|| panic!("no grant for {command:?}"));
            let granted = Policy::from_toml(&format!("{text}\n{grant}\n")).unwrap();
            assert_eq!(
                granted.check_text(command, Path::new("/w")).verdict,
                Verdict::Allow,
                "{command}\n{grant}"
            );
            assert_eq!(
                granted.check_text("touch elsewhere", Path::new("/w")).verdict,
                Verdict::Ask,
                "{grant}"
            );
        }
        for command in ["python3 x.py", "touch x; python3 x.py", "$x", "> x", "touch x > y"] {
            assert_eq!(policy.check_text(command, Path::new("/w")).grant, None, "{command}");
        }
    }
}

#[test]
fn what_a_rule_refuses_comes_with_the_place_of_that_rule() {
    let policy = Policy::from_toml(RULES).unwrap();
    let grant = |policy: &Policy, command: &str| policy.check_text(command, Path::new("/w")).grant.unwrap();
    assert_eq!(grant(&policy, "git push"), "take out or narrow the rule push in the given text line 8");
    let profile = Policy::from_toml("profile = 'readonly'").unwrap();
    let expected = "choose another profile: the rule profile.readonly.rules[0] is part of this one";
    assert_eq!(grant(&profile, "touch x"), expected);
    let tool = Policy::from_toml("[[rules]]\nverdict = 'deny'\ntool = 'json'").unwrap();
    let decision = tool.check_tool("json", Path::new("/w"), None).unwrap();
    assert_eq!(decision.grant.unwrap(), "take out or narrow the rule rules[0] in the given text line 1");
}

#[test]
fn examples_and_cases_are_tested_under_the_whole_policy() {
    let policy = Policy::from_toml(RULES).unwrap();
    let case = |command: &str, verdict, rule: Option<&str>| PolicyCase {
        command: command.to_owned(),
        verdict,
        rule: rule.map(str::to_owned),
    };
    let cases = [
        case("git log", Verdict::Allow, None),
        case("git push", Verdict::Deny, Some("push")),
        case("git push", Verdict::Deny, Some("other")),
        case("touch x", Verdict::Allow, None),
    ];
    let outcomes = policy.test(&cases, Path::new("/w"));
    let problems: Vec<(&str, &str)> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.from.as_str(), outcome.problem.as_deref()?)))
        .collect();
    let expected = [
        ("cases[2]", "expected the rule other, received push"),
        ("cases[3]", "expected allow, received ask"),
    ];
    assert_eq!(problems, expected);
    assert_eq!(outcomes.len(), 5 + cases.len());
    // Another rule takes away what the first one allows: its example no longer holds.
    let stricter =
        Policy::from_toml(&format!("{RULES}\n[[rules]]\nverdict = 'deny'\ncommand = 'echo *'")).unwrap();
    let problems: Vec<String> =
        stricter.test(&[], Path::new("/w")).into_iter().filter_map(|outcome| outcome.problem).collect();
    assert_eq!(problems, ["the rule allows it, but rules[2] does not"]);
}

#[test]
fn a_difference_shows_settings_and_verdicts() {
    let before = Policy::builtin();
    let after =
        Policy::from_toml("parallel = false\n[[rules]]\nverdict = 'ask'\ncommand = 'git push *'").unwrap();
    let changes = diff(&before, &after, &["git push", "git log"], Path::new("/w"));
    let keys: Vec<&str> = changes
        .iter()
        .map(|change| match change {
            Change::Setting { key, .. } => key.as_str(),
            Change::Verdict { command, .. } => command.as_str(),
        })
        .collect();
    assert_eq!(keys, ["parallel", "rules", "git push"]);
    assert_eq!(diff(&after, &after, &["git push"], Path::new("/w")), []);
}

#[test]
fn a_rule_may_be_about_any_tool() {
    let policy =
        Policy::from_toml("[[rules]]\nverdict = 'ask'\ntool = ['json', 'exec']\nname = 'tools'").unwrap();
    let of = |tool: &str| {
        policy.check_tool(tool, Path::new("/w"), None).map(|decision| (decision.verdict, decision.rule))
    };
    assert_eq!(of("json"), Some((Verdict::Ask, "tools".to_owned())));
    assert_eq!(of("echo"), None);
    assert_eq!(policy.check_text("ls", Path::new("/w")).rule, "tools");
}

#[test]
fn what_was_learnt_allows_what_was_seen() {
    let seen =
        ["cargo test -q", "git status && wc -l a.txt", "wc -l b.txt", "wc -l src/c.txt", "python3 x.py"];
    let observations: Vec<Observation> =
        seen.iter().map(|command| Observation { command: (*command).to_owned(), count: 2 }).collect();
    let rules = learn(&observations, Path::new("/w"), None);
    let text: String = rules.iter().map(helve_policy::ProposedRule::toml).collect();
    let policy = Policy::from_toml(&text).unwrap();
    for command in &seen[..4] {
        assert_eq!(policy.check_text(command, Path::new("/w")).verdict, Verdict::Allow, "{command}\n{text}");
    }
    for command in ["python3 x.py", "cargo publish", "wc -l /etc/passwd", "git push"] {
        assert_eq!(policy.check_text(command, Path::new("/w")).verdict, Verdict::Ask, "{command}\n{text}");
    }
}
