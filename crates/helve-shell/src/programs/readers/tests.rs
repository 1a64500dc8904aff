use proptest::prelude::*;

use super::{awk, sed};
use crate::programs::cases::{any_args, check, split, understands};

#[test]
fn readers_do_what_their_cases_say() {
    check("readers.jsonl");
}

const PROGRAMS: &[&str] = &[
    "awk", "cat", "date", "dc", "diff", "fd", "file", "find", "git", "grep", "hostname", "jq", "less", "ls",
    "make", "rg", "sed", "sort", "tar", "tree", "uniq", "xxd",
];

proptest! {
    #[test]
    fn any_arguments_of_readers_are_understood(program in proptest::sample::select(PROGRAMS), args in any_args()) {
        understands(program, &args)?;
    }

    #[test]
    fn any_script_is_read(text in "[ -~\n]{0,40}") {
        let _ = sed::script_acts(&text);
        let _ = awk::program_acts(&text);
    }
}

#[test]
fn hostile_arguments_cost_little() {
    let many = |start: &str, repeated: &str| format!("{start}{}", repeated.repeat(100_000 / repeated.len()));
    let commands = [
        many("sed '", "s/[/"),
        many("sed '", "[^"),
        many("sed '", "{e"),
        many("awk '", "(\"/"),
        many("awk '", "print >"),
        many("sort -", "r"),
        many("tar ", "fC"),
        many("find ", "-exec {} ; "),
        many("find . -exec ", "{} "),
        many("find ", "a "),
        many("git ", "-C a "),
        many("git clone ", "a "),
        many("git stash ", "-m a b "),
        format!("{}commit", many("git ", "-c a=b -x ")),
        many("git config ", "-f a "),
        many("git log ", "--outp "),
        many("git reflog ", "--a "),
        many("git commit -", "aé"),
        many("git push ", "https://a "),
        many("git show ", "HEAD:a "),
        many("git rm ", ":/a "),
        many("git rm ", "[a"),
        many("git rm [", "[:a"),
        format!("{}]", many("git rm [", "[:a")),
        many("git rm ", "[\\]"),
        many("git rm :(icase)", "a"),
        many("git show x", "{a:"),
        many("make ", "A=b "),
        many("jq ", "--arg "),
        many("env -S '", "-S "),
        many("xargs -Ia ", "a"),
        many("parallel ", "{"),
    ];
    for command in commands {
        let words = split(&command.replace('\'', ""));
        let started = std::time::Instant::now();
        let program = words[0].text().expect("a known program").to_owned();
        understands(&program, &words[1..]).expect("it is understood");
        let took = started.elapsed();
        assert!(took.as_secs() < 5, "{} took {took:?}", &command[..20]);
    }
}
