use pretty_assertions::assert_eq;

use super::*;

pub(super) fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.into(), new: new.into(), all: false }
}

pub(super) fn one(file: &str, old: &str, new: &str) -> Result<(String, Level), Reason> {
    match apply(file.as_bytes(), &[edit(old, new)]) {
        Ok(edited) => Ok((String::from_utf8(edited.bytes).unwrap(), edited.applied[0].level)),
        Err(mut misses) => Err(misses.remove(0).reason),
    }
}

#[test]
fn the_ladder() {
    use Level::*;
    for (file, old, new, after, level) in [
        ("a\r\nb\r\nc\r\n", "b\n", "B1\nB2\n", "a\r\nB1\r\nB2\r\nc\r\n", LineEndings),
        ("a\r\nb\nc\r\n", "b", "B\nX", "a\r\nB\nX\nc\r\n", Exact),
        ("a\rb\rc", "b", "B", "a\rB\rc", Exact),
        ("a\rb\rc", "a\nb", "a\nx\nb", "a\rx\rb\rc", LineEndings),
        ("\u{feff}a\nb\n", "a", "x", "\u{feff}x\nb\n", Exact),
        ("\u{feff}a\nb\n", "\u{feff}a", "\u{feff}x", "\u{feff}x\nb\n", Exact),
        ("\u{feff}a\r\nb", "\u{feff}a\nb", "x\ny", "\u{feff}x\r\ny", LineEndings),
        ("x", "x", "$& $1 $$", "$& $1 $$", Exact),
        ("\u{ff21}\u{ff22}\u{ff23}", "ABC", "x", "x", Unicode),
        ("foo\u{a0}bar", "foo bar", "baz", "baz", Unicode),
        ("a   b", "   ", "-", "a-b", Exact),
        ("a  \nb\n", "a\nb", "a\nc", "a  \nc\n", TrailingSpace),
        ("say(“hi”, “you”)\n", "say(\"hi\", \"you\")", "say(\"hi\", \"me\")", "say(“hi”, “me”)\n", Unicode),
        (
            "\tif x {\n\t\ty();\n\t}\n",
            "if x {\n    y();\n}",
            "if x {\n    y();\n    z();\n}",
            "\tif x {\n\t\ty();\n\t\tz();\n\t}\n",
            Indentation,
        ),
        ("one\r\ntwo\r\n", "one\r\ntwo", "one\ntwo", "one\ntwo\r\n", Exact),
        ("a\r\nb", "\nb", "", "a", LineEndings),
        ("a\nb", "b", "", "a\n", Exact),
        ("no newline", "no", "a\r\nb", "a\r\nb newline", Exact),
        ("x\r\ny\nz", "y\nz", "y\nz\nw", "x\r\ny\nz\nw", Exact),
    ] {
        assert_eq!(one(file, old, new), Ok((after.to_owned(), level)), "{file:?} {old:?} {new:?}");
    }
}
