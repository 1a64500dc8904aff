use std::path::Path;

use helve_shell::analysis::{DepartureKind, EffectKind, More, RunKind};
use proptest::prelude::*;

use super::super::testing::{analysis, departing, run, with_effect, with_opaque};
use super::*;

fn pattern(text: &str) -> CommandPattern {
    CommandPattern::parse(text).unwrap()
}

/// Whether an allow rule takes a run of plain words.
fn vouches(text: &str, command: &str) -> bool {
    pattern(text).covers(&analysis(run(command)), 0, Path::new("/w")).is_ok()
}

/// Pattern, command, whether a rule that allows takes it, whether one that denies finds it.
const TABLE: &[(&str, &str, bool, bool)] = &[
    ("git status", "git status", true, true),
    ("git status", "git status -s", false, false),
    ("git status *", "git status", true, true),
    ("git status *", "git status -s --long", true, true),
    ("git status *", "git stash", false, false),
    ("git status *", "git", false, false),
    ("git *", "git", true, true),
    ("git *", "gitk", false, false),
    ("git *", "/usr/bin/git log", true, true),
    ("git *", "/bin/git log", true, true),
    ("git *", "./git log", false, true),
    ("git *", "/tmp/evil/git log", false, true),
    ("/usr/bin/git *", "/usr/bin/git log", true, true),
    ("/usr/bin/git *", "git log", false, false),
    ("/opt/x/git *", "/opt/x/git log", true, true),
    ("npm run {test,build}", "npm run test", true, true),
    ("npm run {test,build}", "npm run build", true, true),
    ("npm run {test,build}", "npm run deploy", false, false),
    ("npm run test:{unit,e2e}", "npm run test:e2e", true, true),
    ("npm run test:{unit,e2e}", "npm run test:", false, false),
    ("npm run test:{unit,e2e{,-slow}}", "npm run test:e2e-slow", true, true),
    ("{cat,head} *", "head -5 x", true, true),
    ("{cat,head} *", "tail -5 x", false, false),
    ("find {} x", "find {} x", true, true),
    ("npm run test:*", "npm run test:unit", true, true),
    ("npm run test:*", "npm run build:unit", false, false),
    ("cat src/*", "cat src/main.rs", true, true),
    ("cat src/*", "cat src/../../etc/passwd", false, true),
    ("cc *.c -o x", "cc main.c -o x", true, true),
    ("cc *.c", "cc --evil.c", false, true),
    ("a*c*e", "abcde", true, true),
    ("run a*c*e", "run abcde", true, true),
    ("run a*c*e", "run ace", true, true),
    ("run a*c*e", "run aec", false, false),
    ("run a*a", "run a", false, false),
    ("mv * target", "mv a target", true, true),
    ("mv * target", "mv a b target", false, false),
    ("mv <any> target", "mv -f target", true, true),
    ("head -n <number> *", "head -n 5 x", true, true),
    ("head -n <number> *", "head -n -5 x", false, false),
    ("head -n <number>", "head -n x", false, false),
    ("make -j<number>", "make -j8", true, true),
    ("make -j<number>", "make -j", false, false),
    ("make --jobs=<number>", "make --jobs=8", true, true),
    ("make --jobs=<number>", "make --jobs=8x", false, false),
    ("git checkout <name>", "git checkout feature-1.2_x", true, true),
    ("git checkout <name>", "git checkout -f", false, false),
    ("git checkout <name>", "git checkout a/b", false, false),
    ("echo <word>", "echo hello", true, true),
    ("echo <word>", "echo -n", false, false),
    ("cat <path>", "cat src/main.rs", true, true),
    ("cat <path>", "cat /w/src/main.rs", true, true),
    ("cat <path>", "cat /etc/passwd", false, true),
    ("cat <path>", "cat /w/../etc/passwd", false, false),
    ("cat <path>", "cat ../x", false, false),
    ("cat <path>", "cat -", false, false),
    ("cat <path>", "cat src/*.rs", true, false),
    ("cat <path>", "cat *.rs", false, false),
    ("cat <path>", "cat ?", false, false),
    ("cat <word>", "cat ?", false, false),
    ("cat *", "cat ?", true, true),
    ("cat x", "cat ?", false, false),
    ("cat <any>", "cat ?", false, true),
    ("cat <any> x", "cat ? x", false, true),
    ("? x", "? x", false, false),
    ("* --force", "anything --force", true, true),
    // Rules that ask or deny find options wherever they stand, and a subcommand behind options of the program.
    ("git push --force *", "git push --force origin", true, true),
    ("git push --force *", "git push origin main --force", false, true),
    ("git push --force *", "git push origin main", false, false),
    ("git push --force", "git push --force", true, true),
    ("git push --force", "git push --force origin", false, false),
    ("git push *", "git -C sub push origin", true, true),
    ("git push *", "git -C /elsewhere push origin", false, true),
    ("git push *", "git -C ../sub push origin", false, true),
    ("git push *", "git -C ? push origin", false, true),
    ("git log", "git --no-pager -P -C . log", true, true),
    ("git log", "git --no-pager log -3", false, false),
    ("git <any> log", "git -P log", true, true),
    ("git push *", "git -c a.b=c --no-pager push", false, true),
    ("git push *", "git --git-dir=x push", false, true),
    ("git push *", "git -C push status", false, false),
    ("git push *", "git log --grep push", false, false),
    ("git push *", "git --no-pager log push", false, false),
    ("cargo publish *", "cargo +nightly publish", false, true),
    ("kubectl delete *", "kubectl -n prod delete pod x", false, true),
    ("rm {-rf,-fr} *", "rm x -rf", false, true),
    // An option whose value nobody knows is read with and without one.
    ("aws s3 rm *", "aws --profile p s3 rm x", false, true),
    ("aws s3 rm *", "aws s3 --profile p rm x", false, true),
    ("aws s3 rm *", "aws --profile p --region r s3 ls x", false, false),
    ("npm publish *", "npm --loglevel error publish", false, true),
    ("npm publish *", "npm --odd error publish", false, true),
    ("npm publish *", "npm --silent run publish", false, false),
    ("npm publish *", "npm run publish", false, false),
    ("gh pr merge *", "gh -R a/b pr merge 1", false, true),
    ("gh pr merge *", "gh pr -R a/b merge 1", false, true),
    ("gh pr merge *", "gh pr view merge", false, false),
    ("git push *", "git --attr-source x push", false, true),
    ("git push *", "git ? push origin", false, true),
    ("git push *", "git --odd push push", false, true),
    ("git push *", "git --odd", false, false),
    ("git push", "git --odd x push", false, true),
    ("git push", "git push x", false, false),
    ("git {push,pu*} origin", "git -C x pull origin", false, true),
    ("git push origin", "git push origin main", false, false),
    ("ls", "ls", true, true),
];

#[test]
fn what_a_person_was_shown_passes_over_nothing() {
    let moved = analysis(run("git -C evil tag v1"));
    assert!(pattern("git tag v1").covers(&moved, 0, Path::new("/w")).is_ok());
    assert!(pattern("git tag v1").covers_as_shown(&moved, 0, Path::new("/w")).is_err());
    let here = analysis(run("git tag v1"));
    assert!(pattern("git tag v1").covers_as_shown(&here, 0, Path::new("/w")).is_ok());
}

#[test]
fn every_row_of_the_table_holds() {
    for (text, command, allows, finds) in TABLE {
        assert_eq!(vouches(text, command), *allows, "{text:?} vouches for {command:?}");
        assert_eq!(pattern(text).finds(&run(command)), *finds, "{text:?} finds {command:?}");
    }
}

#[test]
fn quoting_takes_the_meaning_away() {
    for (text, command, expected) in [
        ("echo '*'", "echo \\*", false),
        (r#"echo "a b""#, "echo a b", false),
        (r"echo \{a,b\}", "echo {a,b}", true),
        (r"echo '{a,b}'", "echo {a,b}", true),
        (r"echo '<number>'", "echo <number>", true),
        (r"echo '<number>'", "echo 7", false),
        (r#"echo "it's""#, "echo it's", true),
        (r#"echo "\$x""#, "echo $x", true),
        (r"'git' sta''tus", "git status", true),
    ] {
        assert_eq!(vouches(text, command), expected, "{text:?} for {command:?}");
    }
    let mut spaced = run("echo x");
    spaced.argv[1] = Arg::known("a b", spaced.argv[1].span);
    assert!(pattern("echo 'a b'").covers(&analysis(spaced), 0, Path::new("/w")).is_ok());
}

#[test]
fn what_is_no_pattern_says_what_to_change() {
    for (text, part) in [
        ("", "names no program"),
        ("*", "names no program"),
        ("  ", "names no program"),
        ("a | b", "`|` ends or changes a command"),
        ("a; b", "`;` ends or changes a command"),
        ("a && b", "`&` ends or changes a command"),
        ("a $x", "`$` ends or changes a command"),
        ("a \"$x\"", "`$` ends or changes a command"),
        ("a `b`", "ends or changes a command"),
        ("a > b", "`>` ends or changes a command"),
        ("a\nb", "a line break ends or changes a command"),
        ("a # b", "`#` ends or changes a command"),
        ("cat ~/x", "write the whole path"),
        ("A=1 cmd", "starts with a variable"),
        ("a 'b", "never closed"),
        ("a \"b", "never closed"),
        ("a \\", "ends in a backslash"),
        ("a <nmber>", "is no slot"),
        ("a <number", "is no slot"),
        ("a <number>x", "is no slot"),
        ("a *<number>", "only plain text may stand before"),
        ("a {1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}", "more than 256 words"),
    ] {
        let error = CommandPattern::parse(text).unwrap_err();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    assert!(CommandPattern::parse(&"x ".repeat(3000)).unwrap_err().contains("longer than"));
}

#[test]
fn departures_are_vouched_for_only_where_they_are_spelled_out() {
    use DepartureKind as Kind;
    // Pattern, command, departure, the word that it stands at, the answer.
    for (text, command, kind, at, expected) in [
        ("sed *", "sed -i s/a/b/ x", Kind::Change, Some(1), false),
        ("sed -i *", "sed -i s/a/b/ x", Kind::Change, Some(1), true),
        ("git *", "git push origin", Kind::Network, Some(1), false),
        ("git push *", "git push origin", Kind::Network, Some(1), true),
        ("git push *", "git push origin", Kind::Change, None, true),
        ("curl *", "curl https://example.org", Kind::Network, None, true),
        ("git -c *", "git -c a=b log", Kind::Configuration, Some(1), false),
        ("git -c a=b log", "git -c a=b log", Kind::Configuration, Some(1), true),
        ("sort *", "sort -o out x", Kind::Output, Some(1), false),
        ("sort -o <path> x", "sort -o out x", Kind::Output, Some(1), false),
        ("sort -o {out,x} x", "sort -o out x", Kind::Output, Some(1), true),
        ("find . -exec *", "find . -exec rm x", Kind::Program, Some(2), false),
        ("cat x", "cat x", Kind::Output, None, false),
        ("cat x", "cat x", Kind::Environment, Some(1), false),
        ("cat x", "cat x", Kind::PossibleOption, Some(1), false),
        ("foo *", "foo --odd", Kind::UnknownOption, Some(1), false),
    ] {
        let analysis = analysis(departing(run(command), kind, at));
        let covered = pattern(text).covers(&analysis, 0, Path::new("/w"));
        assert_eq!(covered.is_ok(), expected, "{text:?} for {command:?} with {kind:?}: {covered:?}");
    }
}

#[test]
fn what_is_opaque_or_redefined_is_never_vouched_for() {
    let opaque = with_opaque(analysis(run("cat x")), 1);
    let error = pattern("cat *").covers(&opaque, 0, Path::new("/w")).unwrap_err();
    assert!(error.contains("no pattern can vouch for it"), "{error}");
    let mut function = run("cat x");
    function.kind = RunKind::Function;
    assert!(pattern("cat *").covers(&analysis(function), 0, Path::new("/w")).is_err());
    assert!(pattern("cat *").covers(&analysis(run("cat x")), 7, Path::new("/w")).is_err());
}

#[test]
fn added_arguments_need_an_open_end() {
    let mut more = run("wc -l");
    more.more = More::Paths;
    let more = analysis(more);
    assert!(pattern("wc *").covers(&more, 0, Path::new("/w")).is_ok());
    assert!(pattern("wc -l").covers(&more, 0, Path::new("/w")).is_err());
}

/// A relative path may lie outside after `cd`; the effect knows.
#[test]
fn a_path_slot_follows_the_effect() {
    let inside = with_effect(analysis(run("cat x")), EffectKind::Read, "x");
    assert!(pattern("cat <path>").covers(&inside, 0, Path::new("/w")).is_ok());
    let mut moved = run("cat x");
    for directory in [Some("/etc".into()), None] {
        moved.directory = directory;
        assert!(pattern("cat <path>").covers(&analysis(moved.clone()), 0, Path::new("/w")).is_err());
    }
    let outside = with_effect(analysis(run("cat x")), EffectKind::Read, "/etc/x");
    assert!(pattern("cat <path>").covers(&outside, 0, Path::new("/w")).is_err());
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-c{}, *<>'\"\\\\|$=~nmber]{0,60}", command in "[a-c*? ]{1,30}") {
        if let Ok(pattern) = CommandPattern::parse(&text) {
            let run = run(&command);
            let covered = pattern.covers(&analysis(run.clone()), 0, Path::new("/w")).is_ok();
            // What a rule allows, the same pattern would find for one that denies; globs are read as paths only there.
            let plain = run.argv.iter().all(|arg| arg.text().is_some());
            prop_assert!(!covered || !plain || pattern.finds(&run), "{text:?} {command:?}");
        }
    }

    #[test]
    fn a_quoted_command_is_a_pattern_for_itself(words in proptest::collection::vec("[ -~]{1,12}", 1..5)) {
        let quoted: Vec<_> = words.iter().map(|word| helve_shell::quote(word).into_owned()).collect();
        prop_assume!(!words[0].contains(['=', '/']));
        let mut argv = run(&vec!["x"; words.len()].join(" "));
        for (arg, word) in argv.argv.iter_mut().zip(&words) {
            *arg = Arg::known(word.as_str(), arg.span);
        }
        argv.program = Some(words[0].clone());
        let pattern = CommandPattern::parse(&quoted.join(" ")).unwrap();
        prop_assert!(pattern.covers(&analysis(argv), 0, Path::new("/w")).is_ok());
    }
}

#[test]
fn a_pattern_says_where_it_finds_little() {
    let parse = |text: &str| CommandPattern::parse(text).unwrap();
    let told = |text: &str, others: &[&str]| {
        let others: Vec<CommandPattern> = others.iter().map(|other| parse(other)).collect();
        parse(text).finds_little(&others)
    };
    for (text, hint) in [
        ("git push", "write \"git push *\""),
        ("curl", "write \"curl *\""),
        ("npm {publish,unpublish}", "without further arguments"),
        ("/usr/bin/curl *", "under this path"),
    ] {
        assert!(told(text, &[]).is_some_and(|told| told.contains(hint)), "{text}: {:?}", told(text, &[]));
    }
    for (text, others) in [
        ("git push *", &[][..]),
        ("git push", &["git *"]),
        ("git push", &["git push *"]),
        ("head <path>", &[]),
    ] {
        assert_eq!(told(text, others), None, "{text}");
    }
}
