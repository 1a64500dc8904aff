//! Commands without a sandbox on paths that show only when they run.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;

const RESTRICTED: &str = "tools.restrict_to_workspace = true";

fn decided(policy: &str, command: &str, contained: bool) -> (Verdict, String) {
    let command = CommandUse { command: command.to_owned(), working_dir: None };
    let policy = Policy::from_toml(policy).unwrap();
    let decision = policy.judge(&command, Path::new("/home/user/project"), contained).decision;
    (decision.verdict, decision.rule)
}

#[test]
fn a_file_whose_name_nobody_knows_is_asked_about() {
    for command in [
        "cat $(cat f)",
        "cat \"$X\"",
        "cat src/$NAME",
        "grep x -- \"$F\"",
        "cat < \"$F\"",
        "cd \"$X\" && cat a",
        "cat list | xargs cat",
        "find / -name 'id_*' | xargs cat",
        "find . -printf '/root/%f' | xargs cat",
        "rg key | xargs cat",
        "rg -l key ~ | xargs cat",
        "cat $(find / -name key)",
        "cat /root/$(ls)",
        "cat $(ls)$X",
        "while read f; do cat \"$f\"; done < list",
        "sort $(cat list)",
        "find . | xargs cat \"$X\"",
        "cat < \"$F\" | xargs cat",
        "find \"$D\" -name x -exec cat {} \\;",
        "cd \"$D\" && find . | xargs cat",
    ] {
        assert_eq!(decided("", command, false), (Verdict::Ask, "guard.bare".to_owned()), "{command}");
        let expected = (Verdict::Deny, "tools.exec.restrict_to_workspace".to_owned());
        assert_eq!(decided(RESTRICTED, command, false), expected, "{command}");
        assert_eq!(decided("", command, true).0, Verdict::Allow, "{command}");
    }
}

#[test]
fn a_file_whose_name_stays_inside_is_not() {
    for command in [
        "for f in *.txt; do cat \"$f\"; done",
        "for f in src/*; do head -3 \"$f\"; done",
        "for f in a b c; do cat $f; done",
        "X=README.md; cat $X",
        "cat \"$1\"",
        "cat \"$PWD/x\"",
        "f() { cat \"$1\"; }; f a.txt",
        "find . -name '*.rs' | xargs cat",
        "find . -name '*.rs' | sort | head -n 5 | xargs wc -l",
        "find . -name '*.rs' -print0 | xargs -0 grep -n x",
        "find . -name '*.rs' -exec head -1 {} \\;",
        "git ls-files | xargs wc -l",
        "wc -l $(git ls-files '*.rs')",
        "grep -n x $(find src -name '*.rs')",
        "find . -name '*.rs' -print0 | xargs -0 grep -n 'x$'",
        "find . -name '*.rs' | xargs -I{} head -1 {}",
        "wc -l `find . -name '*.rs'`",
        "rg -l foo | xargs cat",
        "grep -rl foo src | xargs head -n 3",
        "head -n $N file",
        "grep \"$PATTERN\" file",
        "echo \"$X\"",
        "diff <(ls a) <(ls b)",
    ] {
        // What git's own settings name is another matter, and asked about where there is no repository to look at.
        let bare = decided("", command, false);
        assert!(bare.0 == Verdict::Allow || command.contains("git "), "{command}: {bare:?}");
        let restricted = decided(RESTRICTED, command, false);
        assert_ne!(restricted.0, Verdict::Deny, "{command}: {restricted:?}");
    }
}

#[test]
fn what_only_lists_or_is_vouched_for_is_not_asked_about() {
    for command in ["ls -l \"$F\"", "stat \"$F\"", "cd \"$D\" && ls", "du -sh \"$D\""] {
        assert_eq!(decided("", command, false).0, Verdict::Allow, "{command}");
    }
    let rule = "[[rules]]\nverdict = 'allow'\ncommand = 'cat *'";
    assert_eq!(decided(rule, "cat \"$X\"", false).0, Verdict::Allow);
}
