//! The guard on a table of commands: `tests/cases/guard.jsonl`, one case a line.
//!
//! `command`, `verdict` and `rule`; where they matter, `policy` (the text of a `helve.toml`) and `working_dir`. The
//! workspace is `/home/user/project` everywhere, which need not exist.

use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    verdict: Verdict,
    rule: String,
    #[serde(default)]
    policy: String,
    working_dir: Option<String>,
}

const WORKSPACE: &str = "/home/user/project";

fn cases() -> serde_json::Result<Vec<Case>> {
    let lines = include_str!("cases/guard.jsonl").lines();
    lines.map(serde_json::from_str).collect()
}

fn command(case: &Case) -> CommandUse {
    CommandUse { command: case.command.clone(), working_dir: case.working_dir.clone() }
}

#[test]
fn every_case_gets_its_verdict_by_its_rule() {
    let mut wrong = Vec::new();
    for case in cases().unwrap() {
        let policy = Policy::from_toml(&case.policy).unwrap();
        let decision = policy.check(&command(&case), Path::new(WORKSPACE));
        if (decision.verdict, &decision.rule) != (case.verdict, &case.rule) {
            wrong.push(format!("{:?} under {:?}: {decision:?}", case.command, case.policy));
        }
        if let Some((start, end)) = decision.span {
            assert!(case.command.get(start..end).is_some(), "{:?}: {decision:?}", case.command);
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a refusal offers is true: with the offered lines the same command is no longer refused by that rule.
#[test]
fn every_grant_lifts_the_rule_that_offered_it() {
    let mut tried = 0;
    for case in cases().unwrap() {
        let policy = Policy::from_toml(&case.policy).unwrap();
        let decision = policy.check(&command(&case), Path::new(WORKSPACE));
        let Some(grant) = decision.grant else { continue };
        let granted: Vec<&str> = grant.lines().filter_map(|line| line.split(" = ").next()).collect();
        let kept = case.policy.lines().filter(|line| !granted.iter().any(|key| line.starts_with(key)));
        let text = format!("{}\n{grant}", kept.collect::<Vec<_>>().join("\n"));
        let after = Policy::from_toml(&text).unwrap().check(&command(&case), Path::new(WORKSPACE));
        assert_ne!(
            (after.verdict, &after.rule),
            (decision.verdict, &decision.rule),
            "{:?} with {grant}",
            case.command
        );
        tried += 1;
    }
    assert!(tried > 100, "only {tried} cases offered a grant");
}

/// The longest hostile text; a little less than the longest that is read.
const LONG: usize = 60_000;

/// As many of `unit` as fit.
fn filled(unit: &str) -> String {
    unit.repeat(LONG / unit.len())
}

/// `depth` times `open`, then as much `inner` as fits, then `depth` times `close`.
fn nested(open: &str, depth: usize, inner: &str, close: &str) -> String {
    let room = LONG.saturating_sub(depth * (open.len() + close.len()));
    format!("{}{}{}", open.repeat(depth), inner.repeat(room / inner.len()), close.repeat(depth))
}

/// Here-documents in here-documents, each read by as many shells as `reader` starts.
fn here_documents(reader: &str, depth: usize, inner: &str) -> String {
    (0..depth).fold(inner.to_owned(), |body, level| format!("{reader} <<'E{level}'\n{body}\nE{level}\n"))
}

fn hostile() -> Vec<String> {
    let units = [
        "(",
        "$(",
        "`",
        "'",
        "\"",
        "sudo ",
        "sudo sudo rm -rf x;",
        "find -exec ",
        "find -exec sh \\; ",
        "find -exec sh -c x \\; ",
        "sh -c ",
        "eval ",
        "eval;",
        "f(){ f|f& };",
        "{ ",
        "rm -rf a ",
        "cp cp ",
        "../",
        "<<E ",
        "env ",
        "env -S ",
        "env -u ",
        "env a=b ",
        "a=b ",
        "xargs ",
        "xargs sh ",
        "xargs sh;",
        "xargs -I ",
        "\\\n",
        "cd ..;",
        "cd /x;cat ../x;",
        "echo x|sh;",
        "echo x|xargs sh;",
        "sh -c 'sh -c ",
        "sh -c 'eval x';",
        "sh <<E\na\nE\n",
        "sh <<E\nsh <<F\na\nF\nE\n",
        "sh <<< a ",
        "sh <<< 'sh <<< a';",
        "trap x;",
        "watch ",
        "su -c x;",
        "git -c ",
        "echo $(a)|sh;",
        "$(sh -c `a`)",
        "{a,b}",
        "{a,{b,",
        "{",
        "{,",
        "a=xx;a=$a$a;",
        "a+=$a;",
        "$a ",
        "$IFS",
        "[",
        "[* ",
        "/b*/[r]*;",
        "alias a=b;",
        "alias ",
        ". <(echo . <(",
        ". <(echo a);",
        "ssh h ",
        "((",
    ];
    let mut texts: Vec<String> = units.iter().map(|unit| filled(unit)).collect();
    for depth in [2, 6, 16] {
        for inner in ["a;", "cat ../x;"] {
            texts.push(nested("sh -c \"$(", depth, inner, ")\""));
            texts.push(nested("eval $(", depth, inner, ")"));
            texts.push(nested("find -exec sh -c $(", depth, inner, ") \\;"));
            texts.push(nested("echo $(", depth, inner, ")|sh"));
        }
    }
    for depth in [1, 4, 5] {
        for reader in ["sh", "xargs sh", "env -S sh", &format!("find {}", "-exec sh \\; ".repeat(600))] {
            texts.push(here_documents(reader, depth, &"a;".repeat((LONG - depth * (reader.len() + 12)) / 2)));
        }
        let body = "sh -c a;".repeat(LONG / 8);
        texts.push((0..depth).fold(body, |body, _| format!("eval {body}")));
        texts.push(
            (0..depth).fold("a; ".repeat(400), |body, _| format!("sh -c {}", helve_shell::quote(&body))),
        );
        texts.push(
            (0..depth).fold("a; ".repeat(400), |body, _| format!("echo {} | sh", helve_shell::quote(&body))),
        );
    }
    texts.push(format!("cd {} && cat{}", "a/".repeat(2_000), " ../x".repeat(11_000)));
    texts.push(format!("cd {}; cat{}", "a/".repeat(2_000), " ../x".repeat(11_000)));
    texts.push(format!("a={};{}", "x".repeat(LONG / 2), "$a;".repeat(LONG / 6)));
    texts.push(format!("m {}", filled("/a,")));
    texts.push(format!("{}a,b{}", "{c,".repeat(LONG / 4), "}".repeat(LONG / 4)));
    texts.push(format!("{}*", "[".repeat(LONG - 1)));
    for text in &mut texts {
        text.truncate(LONG);
    }
    texts
}

#[test]
fn judging_takes_linear_time() {
    // Every check runs, so that one policy with all of them is the slowest.
    let text = "tools.restrict_to_workspace = true\ntools.exec.allow_patterns = [\"(a|b)*c\"]";
    let policy = Policy::from_toml(text).unwrap();
    for text in hostile() {
        let seconds = || {
            let start = std::time::Instant::now();
            policy.check_text(&text, Path::new(WORKSPACE));
            start.elapsed().as_secs_f64()
        };
        // The best of three, since other work may share the machine.
        let times: Vec<f64> = (0..3).map(|_| seconds()).take_while(|seconds| *seconds > 5.0).collect();
        assert!(times.len() < 3, "{text:.80}… took {times:?}");
    }
}

/// The command that was found to take 19 seconds: small, and every level reads the one below it many times.
#[test]
fn shells_that_share_an_input_do_not_multiply() {
    let text = here_documents(&format!("find {}", "-exec sh \\; ".repeat(25)), 4, "rm -rf x");
    assert!(text.len() < 1_400);
    let decision = Policy::builtin().check_text(&text, Path::new(WORKSPACE));
    assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Deny, "guard.rm-recursive"));
    let harmless = text.replace("rm -rf", "ls");
    let start = std::time::Instant::now();
    let decision = Policy::builtin().check_text(&harmless, Path::new(WORKSPACE));
    assert!(start.elapsed().as_secs_f64() < 5.0, "took {:?}", start.elapsed());
    // Followed or given up, but never for long.
    assert!(["guard.default", "guard.too-complex"].contains(&decision.rule.as_str()), "{decision:?}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z'\"`$(){}|&;<>\\\\ \n/.~=-]{0,60}") {
        let decision = Policy::builtin().check_text(&text, Path::new(WORKSPACE));
        helve_policy::blocked_message(&decision, &text);
    }
}
