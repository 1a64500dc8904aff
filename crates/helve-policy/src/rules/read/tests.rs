use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::Policy;

fn problems(text: &str) -> Vec<String> {
    match Policy::from_toml(text) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems().to_vec(),
    }
}

#[test]
fn every_key_of_a_rule_is_read() {
    let text = r#"
        [[rules]]
        verdict = "allow"
        tool = ["exec"]
        command = ["git log *", "git show *"]
        effect = "reads-outside"
        path = "src/**"
        host = "example.org"
        name = "history"
        reason = "Reading the past is harmless."
        expires = "2031-12-31T18:00:00Z"
        workspace = "/srv/*/jobs/**"
        session = ["day", "night"]
        "#;
    let policy = Policy::from_toml(text).unwrap();
    let [rule] = policy.rules_shown().try_into().unwrap();
    assert_eq!(rule.name, "history");
    assert_eq!(rule.rule["command"][1], "git show *");
    assert_eq!(rule.origin.line, Some(2));
    // What is shown can be written again.
    let shown = policy.explain().into_iter().find(|setting| setting.key == "rules").unwrap();
    let again = Policy::from_toml(&format!("rules = {}", shown.toml().unwrap())).unwrap();
    assert_eq!(again.rules_shown()[0].rule, rule.rule);
}

/// A rule of a workspace's own file must not pass for a decision of Helve's own.
#[test]
fn names_of_helves_own_decisions_are_not_for_rules() {
    let named = |name: &str| problems(&format!("[[rules]]\nverdict = 'ask'\ncommand = 'x'\nname = '{name}'"));
    for name in [
        "guard.bare",
        "Guard.default",
        "guard",
        " guard.bare",
        "approval.exec",
        "sandbox.contains",
        "tools.exec.approval",
        "default",
        "rules_otherwise",
        "rules[0]",
        "profile.coding.rules[0]",
        "ceiling.rules[0]",
        "view.working_dir",
        "auto_approve",
    ] {
        let found = named(name);
        assert!(found.first().is_some_and(|problem| problem.contains("choose another")), "{name}: {found:?}");
    }
    for name in ["guards", "my.guard", "defaults", "push to main", "approvals", "no-tools", "tools", "set"] {
        assert_eq!(named(name), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_rule_says_where_and_what_to_change() {
    for (rule, part) in [
        ("command = 'x'", "`verdict`: expected \"allow\", \"ask\" or \"deny\", received nothing"),
        ("verdict = 'alow'\ncommand = 'x'", "`verdict`: expected"),
        ("verdict = 1\ncommand = 'x'", "received the number 1"),
        ("verdict = 'deny'", "it has no matcher and would be about everything"),
        ("verdict = 'deny'\nreason = 'x'", "it has no matcher"),
        ("verdict = 'deny'\ncomand = 'x'", "unknown key `comand` of a rule: did you mean `command`?"),
        ("verdict = 'deny'\ncommand = 'x'\nzzzzzz = 1", "the known keys are `verdict`, `tool`"),
        ("verdict = 'deny'\ncommand = []", "`command`: an empty list matches nothing"),
        ("verdict = 'deny'\ntool = []", "`tool`: an empty list matches nothing"),
        ("verdict = 'deny'\ncommand = 1", "expected a string or a list of strings, received the number 1"),
        ("verdict = 'deny'\ncommand = ['x', 1]", "received the number 1 in it"),
        ("verdict = 'deny'\ncommand = 'a | b'", "`command`: `|` ends or changes a command"),
        ("verdict = 'allow'\ncommand = '* x'", "would allow any program"),
        ("verdict = 'allow'\ncommand = 'g* x'", "would allow any program"),
        ("verdict = 'allow'\ncommand = '<any> x'", "would allow any program"),
        ("verdict = 'deny'\neffect = 'delete'", "did you mean \"deletes\"?"),
        ("verdict = 'deny'\neffect = 'zzzzzzzzz'", "the effects are reads-outside, writes-outside"),
        ("verdict = 'allow'\neffect = 'opaque'", "no rule can allow what is opaque"),
        ("verdict = 'deny'\npath = '../x'", "`path`: \"../x\": `..` cannot stand in a glob"),
        ("verdict = 'deny'\nhost = 'https://x'", "write the host alone"),
        ("verdict = 'deny'\ntool = 'a b'", "expected the name of a tool"),
        ("verdict = 'deny'\ncommand = 'x'\nexpires = 'soon'", "`expires`: expected a day"),
        ("verdict = 'deny'\ncommand = 'x'\nexpires = 2031-12-31T18:00:00", "`expires`: expected a day"),
        ("verdict = 'deny'\ncommand = 'x'\nexpires = true", "expected a day or a moment"),
        ("verdict = 'deny'\ncommand = 'x'\nworkspace = 'src'", "expected a glob of absolute paths"),
        ("verdict = 'deny'\ncommand = 'x'\nname = ''", "`name`: expected 1 to 100 bytes"),
        ("verdict = 'deny'\ncommand = 'x'\nreason = \"a\\nb\"", "it holds a control character"),
        ("verdict = 'deny'\ncommand = 'x'\ndenies = ['']", "an empty command is no example"),
    ] {
        let found = problems(&format!("[[rules]]\n{rule}"));
        assert!(found.iter().any(|problem| problem.contains(part)), "{rule}: {found:?}");
        assert!(
            found.iter().all(|problem| problem.starts_with("`rules[0]` in the given text line 1: ")),
            "{found:?}"
        );
    }
    for (text, part) in [
        ("rules = 1", "`rules` in the given text line 1: expected a list of tables, written as `[[rules]]`"),
        ("rules = ['x']", "received the string \"x\""),
        ("rules.x = 1", "received a table"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(part), "{text}: {found:?}");
    }
}

#[test]
fn all_problems_of_all_rules_are_told_at_once() {
    let text = "[[rules]]\nverdict = 'x'\ncommand = 'a;b'\n[[rules]]\nverdict = 'deny'\neffect = ['x1234567', 'y1234567']";
    assert_eq!(problems(text).len(), 4, "{:?}", problems(text));
}

#[test]
fn examples_are_checked_at_load() {
    for (rule, part) in [
        ("verdict = 'allow'\ncommand = 'echo *'\nallows = ['echo a', 'echo a; echo b']", ""),
        (
            "verdict = 'allow'\ncommand = 'echo *'\nasks = ['touch x', 'echo a; touch x']\ndenies = ['echo > x']",
            "",
        ),
        (
            "verdict = 'deny'\ncommand = 'git push *'\ndenies = ['git push', 'echo a; git push']\nallows = ['git log']",
            "",
        ),
        ("verdict = 'ask'\ncommand = 'git push *'\nasks = ['git push']\nallows = ['git log']", ""),
        ("verdict = 'deny'\neffect = 'writes'\ndenies = ['echo a > x']\nallows = ['echo a']", ""),
        ("verdict = 'deny'\ncommand = 'x *'\ndenies = ['x y']\nexpires = 1980-01-01\nsession = 's'", ""),
        (
            "verdict = 'allow'\ncommand = 'echo *'\nallows = ['touch x']",
            "`rules[0]` in the given text line 1: `allows` has \"touch x\", but it does not allow: no rule allows this use of touch",
        ),
        ("verdict = 'allow'\ncommand = 'echo *'\nallows = ['echo a; touch x']", "it does not allow"),
        ("verdict = 'allow'\ncommand = 'echo *'\nallows = ['echo a > x']", "it does not allow"),
        ("verdict = 'allow'\ncommand = 'echo *'\nasks = ['echo a']", "the rule does allow it"),
        (
            "verdict = 'deny'\ncommand = 'git push *'\ndenies = ['git log']",
            "it does not deny: the rule is not about",
        ),
        ("verdict = 'deny'\ncommand = 'git push *'\nallows = ['git push -f']", "the rule does deny it"),
        (
            "verdict = 'deny'\ncommand = 'git push *'\nasks = ['git push']",
            "a rule that does deny cannot say so",
        ),
        (
            "verdict = 'ask'\ncommand = 'git push *'\ndenies = ['git push']",
            "a rule that does ask about cannot say so",
        ),
    ] {
        let found = problems(&format!("[[rules]]\n{rule}"));
        if part.is_empty() {
            assert_eq!(found, Vec::<String>::new(), "{rule}");
        } else {
            assert!(found.len() == 1 && found[0].contains(part), "{rule}: {found:?}");
        }
    }
}

#[test]
fn an_expired_rule_is_a_warning() {
    let rule = |day: &str| format!("[[rules]]\nverdict = 'deny'\ncommand = 'x *'\nexpires = {day}\n");
    let text = format!("{}{}", rule("1980-01-01"), rule("9999-01-01"));
    let warnings = Policy::from_toml(&text).unwrap().warnings();
    assert_eq!(warnings, ["`rules[0]` in the given text line 1: it has expired; take it out or renew it"]);
}

#[test]
fn a_rule_that_finds_little_is_a_warning() {
    let warnings = |verdict: &str| {
        let text = format!("[[rules]]\nverdict = '{verdict}'\ncommand = 'git push'\n");
        Policy::from_toml(&text).unwrap().warnings()
    };
    let told = "`rules[0]` in the given text line 1: \"git push\" finds the command without further arguments alone; \
                write \"git push *\" for any";
    assert_eq!([warnings("deny"), warnings("ask")], [[told], [told]]);
    assert_eq!(warnings("allow"), Vec::<String>::new());
}

proptest! {
    #[test]
    fn no_table_makes_it_panic(
        key in "verdict|tool|command|effect|path|host|name|expires|workspace|session|allows|denies",
        value in "'[a-z*{}<>/~.,; -]{0,20}'|\\['[a-z*?\\[\\]/]{0,9}', 1\\]|1|true|2031-01-01",
    ) {
        let _ = Policy::from_toml(&format!("[[rules]]\nverdict = 'deny'\ncommand = 'x'\n{key} = {value}"));
        let _ = Policy::from_toml(&format!("[[rules]]\nverdict = 'allow'\n{key} = {value}"));
    }
}
