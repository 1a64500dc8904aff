//! What plain filters print.

use super::*;
use crate::Span;

fn printed(line: &[&str], input: Option<&str>) -> Option<String> {
    let span = Span { start: 0, end: 0 };
    let args: Vec<Arg> = line[1..].iter().map(|text| Arg::known(*text, span)).collect();
    let input = input.map(Text::known);
    let text = output(line[0], &args, input.as_ref(), Some(Path::new("/ws")))?;
    text.whole().map(str::to_owned)
}

#[test]
fn filters_print_what_the_programs_print() {
    let rows: [(&[&str], Option<&str>, &str); 33] = [
        (&["echo", "a", "b"], None, "a b\n"),
        (&["echo", "-n", "a"], None, "a"),
        (&["echo", "-e", "a\\tb\\x41\\0102"], None, "a\tbAB\n"),
        (&["echo", "-e", "a\\cb"], None, "a"),
        (&["echo", "-e", "\\162m"], None, "\\162m\n"),
        (&["printf", "%b", "\\162m"], None, "rm"),
        (&["printf", "\\0101m"], None, "\u{8}1m"),
        (&["echo", "-ne", "\\n"], None, "\n"),
        (&["echo", "-x"], None, "-x\n"),
        (&["printf", "%s-%s\\n", "a", "b"], None, "a-b\n"),
        (&["printf", "%s\\n", "a", "b"], None, "a\nb\n"),
        (&["printf", "\\x72m"], None, "rm"),
        (&["printf", "\\162m"], None, "rm"),
        (&["printf", "%b", "\\0162"], None, "r"),
        (&["printf", "%d %x %c%%", "65", "255", "abc"], None, "65 ff a%"),
        (&["printf", "--", "a"], None, "a"),
        (&["cat"], Some("a\n"), "a\n"),
        (&["rev"], Some("ab\ncd\n"), "ba\ndc\n"),
        (&["tac"], Some("a\nb\n"), "b\na\n"),
        (&["base64", "-d"], Some("cm0gLXJmIHg="), "rm -rf x"),
        (&["base64", "--decode"], Some("cm0=\n"), "rm"),
        (&["openssl", "base64", "-d"], Some("cm0="), "rm"),
        (&["xxd", "-r", "-p"], Some("726d0a"), "rm\n"),
        (&["tr", "a-z", "b-za"], Some("ql"), "rm"),
        (&["tr", "-d", "x"], Some("xrxm"), "rm"),
        (&["tr", "[:upper:]", "[:lower:]"], Some("RM"), "rm"),
        (&["head", "-n", "1"], Some("a\nb\n"), "a\n"),
        (&["head", "-c2"], Some("abc"), "ab"),
        (&["tail", "-n", "+2"], Some("a\nb\nc\n"), "b\nc\n"),
        (&["tail", "-1"], Some("a\nb\n"), "b\n"),
        (&["sed", "s/x/r/"], Some("xm\n"), "rm\n"),
        (&["basename", "/a/b.c", ".c"], None, "b\n"),
        (&["pwd"], None, "/ws\n"),
    ];
    for (line, input, expected) in rows {
        assert_eq!(printed(line, input).as_deref(), Some(expected), "{line:?}");
    }
}

#[test]
fn anything_else_prints_what_is_not_known() {
    let rows: [(&[&str], Option<&str>); 12] = [
        (&["date"], None),
        (&["cat", "f"], Some("a")),
        (&["cat"], None),
        (&["base64", "-d"], Some("*")),
        (&["printf", "%5s", "a"], None),
        (&["printf", "-v", "x", "a"], None),
        (&["sed", "s/a.*/b/"], Some("abc")),
        (&["tr", "-c", "a", "b"], Some("abc")),
        (&["printf", "a\\0b"], None),
        (&["printf", "\\xff"], None),
        (&["base64", "-d"], Some("cm0=cm0=")),
        (&["base64", "-d"], Some("cm 0=")),
    ];
    for (line, input) in rows {
        assert_eq!(printed(line, input), None, "{line:?}");
    }
}
