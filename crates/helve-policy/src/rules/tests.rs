//! Rules judged on analyses made by hand: what each matcher, scope and verdict means.

mod table;

use std::path::Path;
use std::time::{Duration, SystemTime};

use helve_core::Verdict;
use helve_shell::Span;
use helve_shell::analysis::{
    Analysis, DepartureKind, Effect, EffectKind, Opaque, OpaqueReason, Run, RunKind, Target,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::testing::{WORKSPACE, analysis, departing, findings, run, with_effect, with_host, with_opaque};
use super::*;
use crate::Policy;

/// The rules of a configuration.
fn rules(text: &str) -> Rules {
    Policy::from_toml(text).unwrap().rules().clone()
}

/// The strictest verdict and its rule; allow by nobody where nothing was found.
fn verdict(text: &str, analysis: &Analysis) -> (Verdict, String) {
    let found = findings(&rules(text), analysis);
    found.strictest().map_or((Verdict::Allow, String::new()), |found| (found.verdict, found.rule.clone()))
}

fn builtin(text: &str) -> Run {
    Run { kind: RunKind::Builtin, ..run(text) }
}

#[test]
fn without_rules_nothing_is_found() {
    assert_eq!(findings(&rules(""), &analysis(run("rm -rf x"))), Findings::default());
}

#[test]
fn an_allow_list_asks_about_the_rest() {
    let list = "[[rules]]\nverdict = 'allow'\ncommand = ['ls *', 'cat *']";
    assert_eq!(verdict(list, &analysis(run("ls -l"))), (Verdict::Allow, "rules[0]".into()));
    assert_eq!(verdict(list, &analysis(run("touch x"))), (Verdict::Ask, "rules_otherwise".into()));
    let denies = format!("rules_otherwise = 'deny'\n{list}");
    assert_eq!(verdict(&denies, &analysis(run("touch x"))), (Verdict::Deny, "rules_otherwise".into()));
    let allows = format!("rules_otherwise = 'allow'\n{list}");
    assert_eq!(verdict(&allows, &analysis(run("touch x"))).0, Verdict::Allow);
    // Every part of a chain must be on the list.
    let mut chain = analysis(run("ls -l"));
    chain.runs.push(run("touch x"));
    assert_eq!(verdict(list, &chain).0, Verdict::Ask);
    let found = findings(&rules(list), &chain);
    assert_eq!(found.of(Part::Run(0)).map(|found| found.verdict), Some(Verdict::Allow));
    assert_eq!(found.of(Part::Run(1)).map(|found| found.verdict), Some(Verdict::Ask));
}

#[test]
fn what_is_opaque_is_on_no_list() {
    let list = "[[rules]]\nverdict = 'allow'\ncommand = 'cat *'";
    let found = findings(&rules(list), &with_opaque(analysis(run("cat x")), 1));
    assert_eq!(found.of(Part::Run(0)).map(|found| found.verdict), Some(Verdict::Ask));
    assert_eq!(found.of(Part::Opaque(0)).map(|found| found.verdict), Some(Verdict::Ask));
    let exact = "rules_otherwise = 'allow'\n[[rules]]\nverdict = 'allow'\ncommand = 'cat x'";
    assert_eq!(findings(&rules(exact), &with_opaque(analysis(run("cat x")), 1)).of(Part::Run(0)), None);
    let asks = "[[rules]]\nverdict = 'ask'\neffect = 'opaque'";
    assert_eq!(verdict(asks, &with_opaque(analysis(run("cat x")), 1)), (Verdict::Ask, "rules[0]".into()));
    assert_eq!(verdict(asks, &analysis(run("cat x"))).0, Verdict::Allow);
}

#[test]
fn builtins_that_only_steer_need_no_rule() {
    let list = "[[rules]]\nverdict = 'allow'\ncommand = 'ls *'";
    for (text, expected) in [
        ("cd src", Verdict::Allow),
        ("true", Verdict::Allow),
        ("[ -f x ]", Verdict::Allow),
        ("exit 1", Verdict::Allow),
        ("export A=1", Verdict::Allow),
        ("set -euo pipefail", Verdict::Allow),
        ("set +e", Verdict::Allow),
        ("set -o errexit", Verdict::Allow),
        ("set -o history", Verdict::Ask),
        ("set -x", Verdict::Ask),
        ("set -o", Verdict::Ask),
        ("set", Verdict::Ask),
        ("set -- a", Verdict::Ask),
        ("set ?", Verdict::Ask),
        ("command -v git", Verdict::Allow),
        ("command git", Verdict::Ask),
        ("eval x", Verdict::Ask),
        ("trap x EXIT", Verdict::Ask),
        ("printf -v x y", Verdict::Ask),
        ("alias x=y", Verdict::Ask),
    ] {
        assert_eq!(verdict(list, &analysis(builtin(text))).0, expected, "{text}");
    }
    let writes = departing(builtin("true"), DepartureKind::Output, None);
    assert_eq!(verdict(list, &analysis(writes)).0, Verdict::Ask);
    assert_eq!(verdict(list, &analysis(run("cd src"))).0, Verdict::Ask, "a program of that name is none");
    let function = Run { kind: RunKind::Function, ..run("mine a b") };
    assert_eq!(verdict(list, &analysis(function)).0, Verdict::Allow);
}

#[test]
fn a_redirection_without_a_command_is_on_no_list() {
    let list = "[[rules]]\nverdict = 'allow'\ncommand = 'ls *'";
    let effect = |kind| Effect {
        kind,
        target: Target::path("/w/x", true),
        span: Span { start: 2, end: 3 },
        run: None,
    };
    let bare = |kind| Analysis { effects: vec![effect(kind)], ..Analysis::default() };
    assert_eq!(verdict(list, &bare(EffectKind::Write)).0, Verdict::Ask);
    assert_eq!(verdict(list, &bare(EffectKind::Read)).0, Verdict::Allow);
}

#[test]
fn effects_are_found_by_their_names() {
    use EffectKind as Kind;
    for (name, kind, path, expected) in [
        ("reads-outside", Kind::Read, "/etc/x", true),
        ("reads-outside", Kind::Read, "x", false),
        ("reads-outside", Kind::Write, "/etc/x", false),
        ("writes-outside", Kind::Write, "/etc/x", true),
        ("writes-outside", Kind::DeleteTree, "/etc/x", true),
        ("writes-outside", Kind::Write, "x", false),
        ("writes", Kind::Write, "x", true),
        ("writes", Kind::Delete, "x", false),
        ("deletes", Kind::Delete, "x", true),
        ("deletes", Kind::DeleteTree, "x", true),
        ("deletes-tree", Kind::Delete, "x", false),
        ("deletes-tree", Kind::DeleteTree, "x", true),
        ("persistence", Kind::Persist, "x", true),
        ("secrets", Kind::Secret, "x", true),
        ("device", Kind::Device, "/dev/sda", true),
        ("executes-workspace-file", Kind::Execute, "x", true),
        ("executes-workspace-file", Kind::Execute, "/usr/bin/x", false),
        ("privilege", Kind::Privilege, "x", true),
        ("power", Kind::Power, "x", true),
        ("kill", Kind::Kill, "x", true),
        ("fork-bomb", Kind::ForkBomb, "x", true),
        ("runs-download", Kind::RunsDownload, "x", true),
        ("network", Kind::Connect, "x", true),
        ("network", Kind::Read, "x", false),
    ] {
        let found = with_effect(analysis(run("a x")), kind, path);
        let text = format!("[[rules]]\nverdict = 'deny'\neffect = '{name}'");
        let expected = if expected { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(verdict(&text, &found).0, expected, "{name} {kind:?} {path}");
    }
    let departs = analysis(departing(run("git fetch"), DepartureKind::Network, Some(1)));
    assert_eq!(verdict("[[rules]]\nverdict = 'ask'\neffect = 'network'", &departs).0, Verdict::Ask);
}

#[test]
fn paths_and_hosts_narrow_a_rule() {
    let reads = |path: &str| with_effect(analysis(run("cat x")), EffectKind::Read, path);
    let text = "[[rules]]\nverdict = 'deny'\npath = ['.env', '/etc/**']";
    assert_eq!(verdict(text, &reads(".env")).0, Verdict::Deny);
    assert_eq!(verdict(text, &reads("/etc/x")).0, Verdict::Deny);
    assert_eq!(verdict(text, &reads("src/x")).0, Verdict::Allow);
    let text = "[[rules]]\nverdict = 'deny'\npath = '.env'\neffect = 'writes'";
    assert_eq!(verdict(text, &reads(".env")).0, Verdict::Allow);
    let text = "[[rules]]\nverdict = 'ask'\nhost = '*.example.org'";
    assert_eq!(verdict(text, &with_host(analysis(run("curl x")), "www.example.org:443")).0, Verdict::Ask);
    assert_eq!(verdict(text, &with_host(analysis(run("curl x")), "other.org")).0, Verdict::Allow);
    let text = "[[rules]]\nverdict = 'deny'\ncommand = 'curl *'\nhost = 'evil.org'";
    assert_eq!(verdict(text, &with_host(analysis(run("curl x")), "evil.org")).0, Verdict::Deny);
    assert_eq!(verdict(text, &with_host(analysis(run("wget x")), "evil.org")).0, Verdict::Allow);
    assert_eq!(verdict(text, &with_host(analysis(run("curl x")), "good.org")).0, Verdict::Allow);
}

#[test]
fn an_allowance_with_places_takes_all_that_a_run_does() {
    let text = "[[rules]]\nverdict = 'deny'\nhost = 'evil.org:443'";
    assert_eq!(verdict(text, &with_host(analysis(run("nc x")), "evil.org")).0, Verdict::Deny);
    assert_eq!(verdict(text, &with_host(analysis(run("nc x")), "evil.org:80")).0, Verdict::Allow);
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'nc *'\nhost = 'good.org:443'";
    assert_eq!(verdict(text, &with_host(analysis(run("nc x")), "good.org")).0, Verdict::Ask);
    assert_eq!(verdict(text, &with_host(analysis(run("nc x")), "good.org:443")).0, Verdict::Allow);
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'curl *'\nhost = 'good.org'";
    let one = with_host(analysis(run("curl x")), "good.org");
    assert_eq!(verdict(text, &one).0, Verdict::Allow);
    assert_eq!(verdict(text, &with_host(one, "evil.org")).0, Verdict::Ask);
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'cp *'\npath = ['src/**', 'target/**']";
    let one = with_effect(analysis(run("cp x")), EffectKind::Read, "src/x");
    let two = with_effect(one.clone(), EffectKind::Write, "target/x");
    assert_eq!(verdict(text, &two).0, Verdict::Allow);
    assert_eq!(verdict(text, &with_effect(two, EffectKind::Write, "other")).0, Verdict::Ask);
    let mut unknown = one;
    unknown.effects[0].target = Target::Unknown;
    assert_eq!(verdict(text, &unknown).0, Verdict::Ask);
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'x *'\neffect = 'writes'";
    let writes = with_effect(analysis(run("x y")), EffectKind::Write, "y");
    assert_eq!(verdict(text, &writes).0, Verdict::Allow);
    assert_eq!(verdict(text, &with_effect(writes.clone(), EffectKind::Read, "z")).0, Verdict::Allow);
    assert_eq!(verdict(text, &with_effect(writes, EffectKind::Delete, "y")).0, Verdict::Ask);
}

#[test]
fn an_allowed_effect_is_covered() {
    let text = "[[rules]]\nverdict = 'allow'\neffect = 'reads-outside'\npath = '/etc/**'";
    let found = findings(&rules(text), &with_effect(analysis(run("cat x")), EffectKind::Read, "/etc/x"));
    assert_eq!(found.of(Part::Effect(0)).map(|found| found.verdict), Some(Verdict::Allow));
    assert_eq!(found.of(Part::Run(0)), None);
    let found = findings(&rules(text), &with_effect(analysis(run("cat x")), EffectKind::Read, "/var/x"));
    assert_eq!(found, Findings::default());
}

#[test]
fn the_strictest_wins_and_the_first_of_equals_is_named() {
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'git *'\n[[rules]]\nverdict = 'ask'\ncommand = 'git push *'\nname = 'pushes'
        reason = 'a push is seen by others'\n[[rules]]\nverdict = 'ask'\ncommand = 'git * *'";
    let found = findings(&rules(text), &analysis(run("git push origin")));
    let expected = Finding {
        verdict: Verdict::Ask,
        rule: "pushes".into(),
        reason: "a push is seen by others".into(),
        span: Span { start: 0, end: 15 },
        part: Part::Run(0),
        origin: found.iter().next().unwrap().origin.clone(),
        ceiling: false,
    };
    assert_eq!(found.iter().cloned().collect::<Vec<_>>(), [expected]);
}

#[test]
fn scopes_and_expiry_bind_a_rule() {
    let rules = rules(
        "[[rules]]\nverdict = 'deny'\ncommand = 'a *'\nexpires = 2030-01-01\n[[rules]]\nverdict = 'deny'\ncommand = 'b *'
        session = 'night'\n[[rules]]\nverdict = 'deny'\ncommand = 'c *'\nworkspace = '/srv/*/jobs/**'
        [[rules]]\nverdict = 'deny'\ntool = 'json'\n[[rules]]\nverdict = 'ask'\ncommand = 'd *'\ntool = ['job', 'exec']",
    );
    let midnight = SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_542_400);
    let second = Duration::from_secs(1);
    let judge = |command: &str, change: &dyn Fn(&mut Subject<'_>)| {
        let analysis = if command.is_empty() { Analysis::default() } else { analysis(run(command)) };
        let mut subject = Subject {
            tool: "exec",
            text: command,
            analysis: &analysis,
            workspace: Path::new(WORKSPACE),
            session: None,
            now: SystemTime::UNIX_EPOCH,
            contained: true,
        };
        change(&mut subject);
        rules.judge(&subject).strictest().map_or(Verdict::Allow, |found| found.verdict)
    };
    assert_eq!(judge("a x", &|_| {}), Verdict::Deny);
    assert_eq!(judge("a x", &|subject| subject.now = midnight - second), Verdict::Deny);
    assert_eq!(judge("a x", &|subject| subject.now = midnight), Verdict::Allow);
    assert_eq!(judge("b x", &|_| {}), Verdict::Allow);
    assert_eq!(judge("b x", &|subject| subject.session = Some("night")), Verdict::Deny);
    assert_eq!(judge("b x", &|subject| subject.session = Some("day")), Verdict::Allow);
    assert_eq!(judge("c x", &|_| {}), Verdict::Allow);
    assert_eq!(judge("c x", &|subject| subject.workspace = Path::new("/srv/team/jobs/p")), Verdict::Deny);
    assert_eq!(judge("", &|subject| subject.tool = "json"), Verdict::Deny);
    assert_eq!(judge("", &|subject| subject.tool = "echo"), Verdict::Allow);
    assert_eq!(judge("a x", &|subject| subject.tool = "job"), Verdict::Deny);
    assert_eq!(judge("d x", &|subject| subject.tool = "job"), Verdict::Ask);
}

/// The end of an allow rule must not open everything.
#[test]
fn an_expired_list_is_still_a_list() {
    let text = "[[rules]]\nverdict = 'allow'\ncommand = 'ls *'\nexpires = 1980-01-01";
    let rules = rules(text);
    let analysis = analysis(run("ls x"));
    let subject = Subject {
        tool: "exec",
        text: "ls x",
        analysis: &analysis,
        workspace: Path::new(WORKSPACE),
        session: None,
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        contained: true,
    };
    assert_eq!(rules.judge(&subject).strictest().map(|found| found.verdict), Some(Verdict::Ask));
}

const WORDS: [&str; 6] = ["git", "push", "-f", "x", "?", "ls"];

fn any_analysis() -> impl Strategy<Value = Analysis> {
    let words = proptest::collection::vec(proptest::sample::select(&WORDS[..]), 1..4);
    let one = (words, any::<bool>(), any::<bool>(), 0..4usize);
    proptest::collection::vec(one, 1..4).prop_map(|parts| {
        let mut all = Analysis::default();
        for (words, departs, opaque, effect) in parts {
            let mut run = run(&words.join(" "));
            if departs {
                run = departing(run, DepartureKind::Change, Some(0));
            }
            if opaque {
                all.opaque.push(Opaque { reason: OpaqueReason::Code, span: run.span });
            }
            let index = all.runs.len();
            let kind = [EffectKind::Read, EffectKind::Write, EffectKind::Delete, EffectKind::Connect][effect];
            let target = Target::path("/w/x", true);
            all.effects.push(Effect { kind, target, span: run.span, run: Some(index) });
            all.runs.push(run);
        }
        all
    })
}

fn any_rule(verdicts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let matcher = prop_oneof![
        proptest::sample::select(&["git *", "git push *", "ls", "x", "git push -f", "git * x"][..])
            .prop_map(|pattern| format!("command = '{pattern}'")),
        proptest::sample::select(&["writes", "deletes", "network", "reads-outside"][..])
            .prop_map(|effect| format!("effect = '{effect}'")),
        Just("path = 'x'".to_owned()),
    ];
    (proptest::sample::select(verdicts), matcher)
        .prop_map(|(verdict, matcher)| format!("[[rules]]\nverdict = '{verdict}'\n{matcher}\n"))
}

fn any_otherwise() -> impl Strategy<Value = &'static str> {
    let lines =
        ["", "rules_otherwise = 'allow'\n", "rules_otherwise = 'ask'\n", "rules_otherwise = 'deny'\n"];
    proptest::sample::select(lines.to_vec())
}

/// A question about a command does not open what a list closes.
#[test]
fn a_rule_that_asks_is_no_entry_of_the_list() {
    let text = "rules_otherwise = 'deny'\n[[rules]]\nverdict = 'ask'\ncommand = 'git *'";
    assert_eq!(verdict(text, &analysis(run("git log"))), (Verdict::Deny, "rules_otherwise".into()));
    let text = format!("{text}\n[[rules]]\nverdict = 'allow'\ncommand = 'git *'");
    assert_eq!(verdict(&text, &analysis(run("git log"))), (Verdict::Ask, "rules[0]".into()));
}

proptest! {
    #[test]
    fn another_rule_that_asks_or_denies_never_makes_a_decision_laxer(
        known in proptest::collection::vec(any_rule(&["allow", "ask", "deny"]), 0..4),
        another in any_rule(&["ask", "deny"]),
        otherwise in any_otherwise(),
        analysis in any_analysis(),
    ) {
        let before = format!("{otherwise}{}", known.concat());
        let after = format!("{before}{another}");
        let (before, after) = (verdict(&before, &analysis).0, verdict(&after, &analysis).0);
        prop_assert!(after >= before);
    }

    #[test]
    fn another_rule_that_allows_never_changes_a_denial(
        known in proptest::collection::vec(any_rule(&["allow", "ask", "deny"]), 0..4),
        another in any_rule(&["allow"]),
        analysis in any_analysis(),
    ) {
        let before = known.concat();
        let after = format!("{before}{another}");
        let (before, after) = (verdict(&before, &analysis), verdict(&after, &analysis));
        prop_assert!(before.0 != Verdict::Deny || after == before);
    }
}

/// `cargo test` runs the project's own code; a script that is named by its path may be anything.
#[test]
fn a_task_that_is_spelled_out_is_vouched_for_and_a_script_is_not() {
    let script = |command: &str, at: usize| {
        let run = run(command);
        let span = run.argv[at].span;
        Analysis { opaque: vec![Opaque { reason: OpaqueReason::Script, span }], ..analysis(run) }
    };
    let list = |command: &str| format!("[[rules]]\nverdict = 'allow'\ncommand = '{command}'");
    for (pattern, analysis, expected) in [
        ("cargo test *", script("cargo test -q", 1), Verdict::Allow),
        ("cargo *", script("cargo test -q", 1), Verdict::Ask),
        ("cargo <name> *", script("cargo test -q", 1), Verdict::Ask),
        ("awk -f x", script("awk -f x", 1), Verdict::Ask),
        ("tox", script("tox", 0), Verdict::Allow),
        ("bash x", with_effect(script("bash x", 1), EffectKind::Execute, "x"), Verdict::Ask),
        ("cargo test *", with_opaque(analysis(run("cargo test")), 1), Verdict::Ask),
    ] {
        assert_eq!(verdict(&list(pattern), &analysis).0, expected, "{pattern} {analysis:?}");
    }
    // The code belongs to the inner run: the outer one is vouched for by its own rule.
    let mut nested = script("echo tox", 1);
    nested.runs.push(Run {
        span: nested.runs[0].argv[1].span,
        argv: nested.runs[0].argv[1..].to_vec(),
        ..run("tox")
    });
    assert_eq!(verdict(&list("echo *"), &nested).0, Verdict::Ask);
    let both = format!("{}\n{}", list("echo *"), list("tox"));
    assert_eq!(verdict(&both, &nested).0, Verdict::Allow);
}
