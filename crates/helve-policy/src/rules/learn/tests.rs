use pretty_assertions::assert_eq;

use super::*;
use crate::Policy;

fn proposed(commands: &[(&str, u64)]) -> Vec<ProposedRule> {
    let observations: Vec<Observation> = commands
        .iter()
        .map(|(command, count)| Observation { command: (*command).into(), count: *count })
        .collect();
    learn(&observations, Path::new("/home/user/project"), Some(Path::new("/home/user")))
}

fn patterns(commands: &[(&str, u64)]) -> Vec<String> {
    proposed(commands).into_iter().map(|rule| rule.command).collect()
}

#[test]
fn commands_are_grouped_and_the_most_used_come_first() {
    let rules = proposed(&[("cargo test -q", 3), ("git status && cargo test -q", 4), ("git status", 2)]);
    let expected = [
        ProposedRule { command: "cargo test -q".into(), seen: 7, allows: vec!["cargo test -q".into()] },
        ProposedRule { command: "git status".into(), seen: 6, allows: vec!["git status".into()] },
    ];
    assert_eq!(rules, expected);
}

#[test]
fn a_slot_needs_three_values_of_one_kind() {
    for (commands, expected) in [
        (vec!["mytool run 1", "mytool run 2"], vec!["mytool run {1,2}"]),
        (vec!["mytool run 1", "mytool run 2", "mytool run 3"], vec!["mytool run <number>"]),
        (vec!["mytool run a", "mytool run b", "mytool run c"], vec!["mytool run <name>"]),
        (vec!["mytool src/a.c", "mytool src/b.c", "mytool c.c"], vec!["mytool <path>"]),
        (
            vec!["mytool /a/b", "mytool /a/c", "mytool /a/d"],
            vec!["mytool /a/b", "mytool /a/c", "mytool /a/d"],
        ),
        (vec!["mytool -a", "mytool -b", "mytool -c"], vec!["mytool {-a,-b,-c}"]),
        (vec!["mytool a 1", "mytool b 2"], vec!["mytool a 1", "mytool b 2"]),
        (vec!["mytool a", "mytool a b"], vec!["mytool a", "mytool a b"]),
        (vec!["cargo build", "cargo test", "cargo doc"], vec!["cargo build", "cargo doc", "cargo test"]),
        (vec!["npm run a", "npm run b", "npm run c"], vec!["npm run a", "npm run b", "npm run c"]),
    ] {
        let commands: Vec<(&str, u64)> = commands.into_iter().map(|command| (command, 1)).collect();
        assert_eq!(patterns(&commands), expected, "{commands:?}");
    }
}

#[test]
fn what_gives_away_everything_or_changes_things_is_never_put_together() {
    let commands = [
        "bash x",
        "python3 a.py",
        "sudo ls",
        "rm x",
        "git",
        "$x y",
        "mytool > out",
        "FOO=1 mytool",
        "cd src",
    ];
    let commands: Vec<(&str, u64)> = commands.into_iter().map(|command| (command, 9)).collect();
    assert_eq!(patterns(&commands), Vec::<String>::new());
    let touched = patterns(&[("touch a.txt", 1), ("touch b.txt", 1), ("touch c.txt", 1)]);
    assert_eq!(touched, ["touch a.txt", "touch b.txt", "touch c.txt"]);
}

/// Each proposal can be written into a configuration, where its examples hold.
#[test]
fn what_is_proposed_loads() {
    let rules = proposed(&[
        ("echo 'a \"b\" \\\\ c'", 2),
        ("mytool a,b", 1),
        ("mytool 'c d, e'", 1),
        ("mytool run 1", 1),
        ("mytool run 2", 1),
        ("mytool run 3", 1),
    ]);
    assert_eq!(rules.len(), 3, "{rules:?}");
    let text: String = rules.iter().map(ProposedRule::toml).collect();
    let policy = Policy::from_toml(&text).unwrap();
    assert_eq!(policy.rules_shown().len(), 3, "{text}");
}
