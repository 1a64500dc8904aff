use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;
use crate::Policy;

fn message(policy: &str, command: &str) -> String {
    let decision = Policy::from_toml(policy).unwrap().check_text(command, Path::new("/home/user/project"));
    blocked_message(&decision, command)
}

fn first_line(policy: &str, command: &str) -> String {
    message(policy, command).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_refusal_says_the_kind_then_the_rule_then_the_remedy() {
    let policy = "tools.exec.deny_patterns = ['guard.rm-recursive', 'guard.power']";
    let expected = "Error: Command blocked by safety guard (dangerous pattern detected)\n\
        Rule guard.rm-recursive: it deletes whole directory trees. Found: rm -rf /\n\
        The owner can allow it in helve.toml: tools.exec.deny_patterns = [\"guard.power\"]";
    assert_eq!(message(policy, "ls; rm -rf /"), expected);
}

#[test]
fn the_first_line_names_the_kind() {
    let restricted = "tools.restrict_to_workspace = true";
    for (policy, command, kind) in [
        ("tools.exec.deny_patterns = ['x']", "echo x", "dangerous pattern detected"),
        ("[[rules]]\nverdict = 'deny'\ncommand = 'git push *'", "git push", "denied by a rule of the owner"),
        ("[[rules]]\nname = 'mine'\nverdict = 'deny'\npath = 'x'", "cat x", "denied by a rule of the owner"),
        ("profile = 'readonly'", "touch x", "denied by a rule of the owner"),
        (
            "rules_otherwise = 'deny'\n[[rules]]\nverdict = 'allow'\ncommand = 'ls'",
            "id",
            "allowed by no rule",
        ),
        (restricted, "cat /etc/passwd", "path outside working dir"),
        (restricted, "cat ~/.netrc", "path outside working dir"),
        (restricted, "cat ../x", "path traversal detected"),
        (restricted, "tar --file=\"../x\"", "path traversal detected"),
        ("tools.exec.allow_patterns = []", "ls", "not in allowlist"),
        ("tools.exec.working_dir = '/etc'", "ls", "working_dir outside the view"),
        ("", "eval eval eval eval eval eval eval eval eval eval eval ls", "cannot be read"),
        ("", &format!("echo {}ls{}", "$(".repeat(45), ")".repeat(45)), "cannot be read"),
    ] {
        let expected = format!("Error: Command blocked by safety guard ({kind})");
        assert_eq!(first_line(policy, command), expected, "{command}");
    }
}

#[test]
fn a_reason_that_is_a_sentence_gets_no_second_full_stop() {
    let rule =
        "[[rules]]\nverdict = 'deny'\ncommand = 'git push *'\nreason = 'Releases are made by a person.'";
    assert_eq!(
        message(rule, "git push"),
        "Error: Command blocked by safety guard (denied by a rule of the owner)\n\
        Rule rules[0]: Releases are made by a person. Found: git push\n\
        The owner can allow it in helve.toml: take out or narrow the rule rules[0] in the given text line 1"
    );
    let reasons = [("a", "a."), ("a.", "a."), ("a?", "a?"), ("a…", "a…"), ("a. ", "a.")];
    assert_eq!(
        reasons.map(|(reason, _)| sentence(reason).into_owned()),
        reasons.map(|(_, said)| said.to_owned())
    );
}

#[test]
fn a_refusal_quotes_little_and_on_one_line() {
    let text = message("tools.exec.deny_patterns = ['(?s)x.*']", &format!("x\n{}", "y".repeat(10_000)));
    assert!(text.len() < 500, "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn reasons_and_grants_are_cut_at_a_length_that_can_be_read() {
    let long = "é".repeat(30_000);
    for (policy, command) in [
        ("tools.exec.allow_patterns = ['ls']".to_owned(), format!("echo {long}")),
        (format!("tools.exec.deny_patterns = ['x', '(?i:{})']", "a".repeat(3_000)), "a".repeat(3_000)),
        ("tools.restrict_to_workspace = true".to_owned(), format!("cat /{long}")),
    ] {
        let decision = Policy::from_toml(&policy).unwrap().check_text(&command, Path::new("/w"));
        assert_eq!(decision.verdict, Verdict::Deny);
        let texts = [decision.reason.unwrap(), decision.grant.unwrap()];
        let lengths = texts.each_ref().map(|text| text.chars().count());
        assert!(lengths.iter().all(|length| *length <= 2_000), "{lengths:?}");
        assert!(texts.iter().any(|text| text.chars().count() == 2_000 && text.ends_with('…')), "{lengths:?}");
    }
}

#[test]
fn the_span_points_at_the_part() {
    for (command, part) in [
        ("ls && sudo rm -rf x | cat", "sudo rm -rf x"),
        ("ls; sh -c 'a; rm -rf x'", "rm -rf x"),
        ("echo é; bash <<E\nrm -rf x\nE", "rm -rf x"),
    ] {
        let decision = Policy::builtin().check_text(command, Path::new("/w"));
        assert_eq!(decision.span.and_then(|(start, end)| command.get(start..end)), Some(part));
    }
}

#[test]
fn a_grant_names_every_rule_that_stands_in_the_way() {
    let decision = Policy::builtin().check_text("rm -rf x; reboot", Path::new("/w"));
    let grant = decision.grant.unwrap();
    assert!(
        !grant.contains("rm-recursive") && !grant.contains("power") && grant.contains("guard.dd"),
        "{grant}"
    );
}

#[test]
fn a_command_that_cannot_be_read_is_allowed_with_a_word_about_it() {
    let decision = Policy::builtin().check_text("echo 'open", Path::new("/w"));
    assert_eq!(decision.verdict, Verdict::Allow);
    assert!(decision.reason.unwrap().contains("a quote is never closed"));
}

/// An owner may raise `limits.command_bytes` above what is read.
#[test]
fn a_command_that_is_too_long_to_read_is_refused_unless_the_list_is_empty() {
    let long = format!("{}; rm -rf x", "x".repeat(helve_shell::MAX_TEXT));
    let rule = |policy: &str| {
        let decision = Policy::from_toml(policy).unwrap().check_text(&long, Path::new("/w"));
        (decision.verdict, decision.rule, decision.reason.unwrap_or_default())
    };
    let (verdict, name, reason) = rule("limits.command_bytes = 1000000");
    assert_eq!((verdict, name.as_str()), (Verdict::Deny, UNREADABLE));
    assert!(reason.contains("put the text into a file and run that"), "{reason}");
    assert_eq!(rule("tools.exec.deny_patterns = []").0, Verdict::Allow);
}

#[test]
fn expressions_that_cannot_run_in_linear_time_are_refused() {
    for source in ["a(?!b)", r"(a)\1", "(", "a)|(b"] {
        assert!(Pattern::anywhere(source, Verdict::Deny).is_err(), "{source}");
        assert!(Pattern::whole(source).is_err(), "{source}");
    }
}

#[test]
fn a_misspelt_rule_is_an_error_with_the_nearest_name() {
    for (source, verdict, remedy) in [
        ("guard.rm-recursiv", Verdict::Deny, "did you mean `guard.rm-recursive`?"),
        ("guard.git-clen", Verdict::Ask, "did you mean `guard.destructive.git-clean`?"),
        ("guard.nope", Verdict::Deny, "the rules for this list are `guard.rm-recursive`, "),
        ("guard.nope", Verdict::Ask, "the rules for this list are `guard.destructive.git-push-force`, "),
    ] {
        let error = Pattern::anywhere(source, verdict).unwrap_err();
        assert!(error.contains(remedy), "{error}");
    }
}

#[test]
fn a_directory_inside_the_workspace_needs_no_leave_to_delete_everything() {
    let policy = Policy::builtin();
    let grant = |command: &str| policy.check_text(command, Path::new("/nowhere/work")).grant.unwrap();
    assert_eq!(grant("make clean && rm -rf target"), "tools.exec.delete_inside = true");
    for command in ["rm -rf /", "rm -rf .", "rm -rf $X", "rm -rf target; reboot"] {
        assert!(grant(command).starts_with("tools.exec.deny_patterns = ["), "{command}");
    }
}
