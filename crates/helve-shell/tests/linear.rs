//! What reading a hostile text costs grows with its length and no faster. Counted in allocations and not timed, so that a
//! busy machine fails nothing.

use std::path::Path;

use allocation_counter::measure;
use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;

/// A start, what is repeated, an end.
const TEXTS: &[(&str, &str, &str)] = &[
    ("", "a;", ""),
    ("", "x=1;", ""),
    ("", "a=$a$a;", ""),
    ("", "$(a)", ""),
    ("", "a|", "a"),
    ("", "a <<E\nx\nE\n", ""),
    ("", "a>b;", ""),
    ("", "cd a;", ""),
    ("", "f(){ f|f& };f;", ""),
    ("", "x=a;[ $y ]&&x=b;$x;", ""),
    ("", "for i in a b c;do $i;done;", ""),
    ("f(){ g;};g(){ a;};", "f;", ""),
    ("alias a='b;b;b;b';", "a;", ""),
    ("export a b c d e f g h;", "a;", ""),
    ("for a in 1 2 3 4 5;do for b in 1 2 3 4 5;do ", "x;", "done;done"),
    ("case x in ", "a)b;;", " esac"),
    ("sh -c '", "a;", "'"),
    ("sh <<E\n", "$(a)\n", "E\n"),
    ("echo '", "a;", "'|sh"),
    ("git ", "-c a=b ", ""),
    ("find . ", "-exec a ; ", ""),
    ("sed '", "s/a/b/;", "'"),
    ("awk '", "{system(\"a\")}\n", "'"),
    ("python -c '", "os.system(\"a\");", "'"),
    ("parallel ", "{", ""),
    ("ls ", "{a,b}", ""),
    ("ls {", "a,", "}"),
    ("ls {x", ",", "}"),
    ("ls ", "{1..1000}", ""),
    ("f=$(a);", "curl -o \"$f\" a.b;", ""),
    ("make --eval='", "$(shell ", "'"),
    ("ls ", "a{1..9} ", ""),
    ("ls ", "a/../", ""),
    ("rm -rf ", "a ", ""),
    ("m ", "a ", ""),
    ("m ", "/ab,", ""),
    ("git diff ", "-C a ", ""),
    ("git ", "-C a ", "diff"),
    ("tar cf x ", "-C a ", ""),
    ("tar cf x ", "-C a b ", ""),
];

/// How often reading allocates, and how many bytes.
fn cost(text: &str) -> (u64, u64) {
    let place = Path::new("/home/user/project");
    let setting = Setting { dialect: Dialect::Bash, directory: place, workspace: place, home: None };
    let taken = measure(|| drop(helve_shell::analyze(text, &setting)));
    (taken.count_total, taken.bytes_total)
}

#[test]
fn twelve_times_the_text_costs_at_most_fifteen_times_as_much() {
    for (start, repeated, end) in TEXTS {
        let of = |bytes: usize| cost(&format!("{start}{}{end}", repeated.repeat(bytes / repeated.len())));
        let (small, large) = (of(5_000), of(60_000));
        assert!(
            large.0 <= 15 * small.0 && large.1 <= 15 * small.1,
            "{start}{repeated}…{end}: {small:?} allocations and bytes for 5 kB, {large:?} for 60 kB"
        );
    }
}

/// Texts whose second half is read from the directories that the first half names.
fn joined(bytes: usize) -> Vec<String> {
    let (directory, operands) = ("d".repeat(bytes / 2), "a ".repeat(bytes / 4));
    let places = (0..7).map(|place| format!("elif a; then cd {place}{}; ", "d".repeat(bytes.min(8_000) / 8)));
    vec![
        format!("git -C {directory} diff {operands}"),
        format!("git -C {directory} add {operands}"),
        format!("git -C {directory} push {operands}"),
        format!("git reset {operands}"),
        format!("git fetch --multiple {operands}"),
        format!("tar cf x -C {directory} {operands}"),
        format!("tar xf x -C {directory} {operands}"),
        format!("if a; then :; {}fi; m {operands}", places.clone().collect::<String>()),
        format!("if a; then :; {}fi; git diff {operands}", places.collect::<String>()),
    ]
}

#[test]
fn what_is_read_from_a_long_directory_costs_a_bounded_sum_for_each_byte() {
    for bytes in [1_000, 5_000, 60_000, 120_000] {
        for text in joined(bytes) {
            let (_, taken) = cost(&text);
            assert!(taken <= 600 * 1024 + 800 * text.len() as u64, "{text:.40}…: {taken} for {}", text.len());
        }
    }
}

#[test]
fn an_everyday_command_takes_few_allocations() {
    let (count, bytes) = cost("git status && cargo test -q 2>&1 | tail -5");
    assert!(count <= 85 && bytes <= 7_200, "{count} allocations of {bytes} bytes");
}
