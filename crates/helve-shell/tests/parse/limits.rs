//! Hostile input: nesting bombs, unclosed everything, the longest text of anything.

use std::time::{Duration, Instant};

use helve_shell::tree::{Dialect, FaultReason};
use helve_shell::{MAX_NESTING, MAX_TEXT, parse};
use pretty_assertions::assert_eq;
use rustix::time::{ClockId, clock_gettime};

use crate::DIALECTS;

/// Opening and closing text of everything that nests.
const BRACKETS: [(&str, &str); 33] = [
    ("$(", ")"),
    ("( ", ")"),
    ("{ ", ";}"),
    ("${x:-", "}"),
    ("\"${x:-", "}\""),
    ("${x/", "}"),
    ("${x[", "]}"),
    ("${x:", "}"),
    ("$((1+", "))"),
    ("$[1+", "]"),
    ("\"$(", ")\""),
    ("echo \"$(echo \"${x:-", "}\")\""),
    ("<(", ")"),
    (">(", ")"),
    ("if ", ";then a;fi"),
    ("if a;then ", ";fi"),
    ("if a;then b;else ", ";fi"),
    ("while ", ";do a;done"),
    ("until a;do ", ";done"),
    ("for i in a;do ", ";done"),
    ("for ((i=0;i<1;i++));do ", ";done"),
    ("select i in a;do ", ";done"),
    ("case x in x)", ";;esac"),
    ("f() { ", ";}"),
    ("f()\n(", ")"),
    ("function f { ", ";}"),
    ("coproc N { ", ";}"),
    ("[[ ( a && ", " b ) ]]"),
    ("a=(b $(", "))"),
    ("a[$(", ")]=1"),
    ("! time { ", ";}"),
    ("((a); (", ") )"),
    ("echo $(cat <<E\n$(", ")\nE\n)"),
];

/// The stack is a quarter of what a thread has by default, and a debug build needs several times as much as a release.
fn in_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn nesting_bombs_do_not_overflow_the_stack() {
    in_small_stack(|| {
        for (open, close) in BRACKETS {
            for depth in [2, 5, 10, 20, MAX_NESTING, MAX_NESTING + 1, 1000, 100_000 / open.len()] {
                for dialect in DIALECTS {
                    for middle in ["a", "", "'", "\"", "`", ")", "<<E\n"] {
                        drop(parse(
                            &format!("{}{middle}{}", open.repeat(depth), close.repeat(depth)),
                            dialect,
                        ));
                        drop(parse(&format!("{}{middle}", open.repeat(depth)), dialect));
                    }
                }
            }
        }
    });
}

#[test]
fn mixed_nesting_bombs_do_not_overflow_the_stack() {
    in_small_stack(|| {
        for (first, first_close) in BRACKETS {
            for (second, second_close) in BRACKETS {
                for depth in [MAX_NESTING / 2, MAX_NESTING] {
                    let open = format!("{first}{second}").repeat(depth);
                    let close = format!("{second_close}{first_close}").repeat(depth);
                    drop(parse(&format!("{open}a{close}"), Dialect::Bash));
                }
            }
        }
    });
}

#[test]
fn nested_backticks_double_their_backslashes() {
    let mut text = "a".to_owned();
    for _ in 0..12 {
        text = format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"));
        assert_eq!(parse(&text, Dialect::Bash).fault, None);
    }
}

#[test]
fn limits_are_exact() {
    let nested = |depth: usize| {
        let script = parse(&("$(".repeat(depth) + "x" + &")".repeat(depth)), Dialect::Bash);
        script.fault.map(|fault| fault.reason)
    };
    assert_eq!(nested(MAX_NESTING), None);
    assert_eq!(nested(MAX_NESTING + 1), Some(FaultReason::TooDeep));
    assert_eq!(parse(&"x".repeat(MAX_TEXT), Dialect::Bash).fault, None);
    let too_long = parse(&"x".repeat(MAX_TEXT + 1), Dialect::Bash);
    assert_eq!(too_long.fault.map(|fault| fault.reason), Some(FaultReason::TooLong));
    assert_eq!(too_long.statements, []);
    let nul = parse("echo a\0b", Dialect::Bash);
    assert_eq!(nul.fault.map(|fault| (fault.reason, fault.span.range())), Some((FaultReason::Nul, 6..7)));
}

/// Texts that are repeated up to the longest text.
const REPEATED: [&str; 95] = [
    "(",
    ")",
    "((",
    "))",
    "$(",
    "$((",
    "${",
    "${x:-",
    "${x[",
    "${x/",
    "`",
    "\\`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "<<",
    "<<a ",
    "<<a\n",
    "<<-a\n",
    "<(",
    ">(",
    "{",
    "}",
    "{ ",
    "a=(",
    "a[",
    "a[1]=",
    "case x in ",
    "x)",
    ";;",
    "$((a) ",
    "\"$(",
    "\"${x:-\"",
    "&&",
    "|",
    "||",
    "&",
    ";",
    "\n",
    "#",
    "#\n",
    "=",
    "$",
    "$x",
    "$'",
    "$'\\",
    "$\"",
    "a ",
    "a;",
    "a|",
    "a&",
    "a&&",
    "a\n",
    "a=b ",
    "x=(a) ",
    "if ",
    "then ",
    "fi ",
    "for i in ",
    "do ",
    "done ",
    "[[ ",
    "[[ a && ",
    "! ",
    "time ",
    "coproc ",
    "function ",
    "f()",
    "f(){ ",
    "2>",
    "2>&1 ",
    "{a}>f ",
    "$[",
    "@(",
    "é",
    "\r",
    "\t",
    "(a) ",
    "((a)) ",
    "((a) );",
    "((a #((\n) );",
    "$((1)) ",
    "$(a) ",
    "`a` ",
    "\"$x\" ",
    "cat <<E\n$(a)\nE\n",
    "cat <<E\n",
    "(( $(case x in x) a;; esac) )); ",
    "a\\\n",
    "${x:-'",
    "\"${x:-'a'}\" ",
    "$(cat <<E\n",
    "[[ a =~ (",
    "<<E <<E\nE\nE\n",
];

/// The processor time, in which the kernel's work for the memory counts but not what else the machine does.
fn time_to_parse(text: &str, dialect: Dialect) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let start = now();
    drop(parse(text, dialect));
    now() - start
}

fn repeated(piece: &str, prefix: &str, suffix: &str, length: usize) -> String {
    let room = length.saturating_sub(prefix.len() + suffix.len());
    format!("{prefix}{}{suffix}", piece.repeat(room / piece.len()))
}

/// How much longer the long text is.
const RATIO: usize = 13;

/// The time for the longest text of it, and for a short one; the best of some, since other work may share the machine.
fn times(piece: &str, prefix: &str, suffix: &str, dialect: Dialect) -> (Duration, Duration) {
    let long = repeated(piece, prefix, suffix, MAX_TEXT);
    let short = repeated(piece, prefix, suffix, MAX_TEXT / RATIO);
    let best = |text: &str, tries: usize| (0..tries).map(|_| time_to_parse(text, dialect)).min();
    (best(&long, 2).unwrap_or_default(), best(&short, 3).unwrap_or_default())
}

#[test]
fn the_longest_text_of_anything_is_parsed_in_linear_time() {
    // One millisecond for each kilobyte is what a release build must keep.
    let kilobytes = u32::try_from(MAX_TEXT / 1024).unwrap();
    let most = Duration::from_millis(if cfg!(debug_assertions) { 8 } else { 1 }) * kilobytes;
    // Twice of linear for the kernel, which has to find the memory, and again for caches that others use: what is not
    // linear takes the ratio's square.
    let factor = u32::try_from(RATIO).unwrap() * 4;
    for piece in REPEATED {
        for (prefix, suffix) in
            [("", ""), ("echo \"", "\""), ("x=$(", ")"), ("cat <<E\n", "\nE\n"), ("`", "`"), ("((", "))")]
        {
            // Caches and memory are shared with whatever else runs, so one bad measurement says nothing; and small times
            // are mostly noise.
            let linear = |(long, short): (Duration, Duration)| {
                long < most && long < short.max(Duration::from_millis(1)) * factor
            };
            let measured: Vec<_> = (0..5)
                .map(|_| times(piece, prefix, suffix, Dialect::Bash))
                .take_while(|it| !linear(*it))
                .collect();
            assert!(measured.len() < 5, "{prefix}{piece}…{suffix} takes {measured:?}");
        }
    }
}

#[test]
fn pairings_that_reach_too_far_stop_the_parse() {
    // Each `((` is paired with a parenthesis at the far end, since the comment hides one from the parser alone.
    let unit = "((a #((\n) );";
    let count = 6000;
    let text = unit.repeat(count) + &") ".repeat(2 * count);
    let start = Instant::now();
    let script = parse(&text, Dialect::Bash);
    assert_eq!(script.fault.map(|fault| fault.reason), Some(FaultReason::TooDeep));
    assert!(start.elapsed() < Duration::from_secs(5));
}
