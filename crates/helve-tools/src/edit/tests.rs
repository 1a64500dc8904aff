use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Longer than any result here.
const MOST: usize = 1 << 30;

pub(super) fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.into(), new: new.into(), all: false }
}

pub(super) fn one(file: &str, old: &str, new: &str) -> Result<(String, Level), Reason> {
    match apply(file.as_bytes(), &[edit(old, new)], MOST) {
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

#[test]
fn places_that_overlap_are_several_places() {
    use Level::*;
    for (file, old, level, lines) in [
        ("{\n}\n}\n}\n", "}\n}\n", Exact, [2, 3]),
        ("aaa", "aa", Exact, [1, 1]),
        ("\u{e9}\u{e9}\u{e9}", "\u{e9}\u{e9}", Exact, [1, 1]),
        ("x\r\ny\r\ny\r\ny\r\n", "y\ny\n", LineEndings, [2, 3]),
        ("{\n} \n}\n} \n", "}\n}\n", TrailingSpace, [2, 3]),
        ("\u{201c}\u{201c}\u{201c}", "\"\"", Unicode, [1, 1]),
        ("  if x\n  if x\n  if x\n", "if x\nif x", Indentation, [1, 2]),
    ] {
        let told = Reason::Ambiguous { count: 2, level, lines: lines.to_vec() };
        assert_eq!(one(file, old, "new"), Err(told), "{file:?} {old:?}");
    }
    // All of them are those that can all be replaced.
    let every = [Edit { all: true, ..edit("aa", "b") }];
    assert_eq!(apply(b"aaa", &every, MOST).unwrap().bytes, b"ba");
    assert_eq!(one("}\n}\n", "}\n}\n", "").unwrap().0, "");
}

#[test]
fn what_does_not_fit_is_told_apart() {
    assert_eq!(one("a", "", "x"), Err(Reason::Empty));
    assert_eq!(one("a", "\u{feff}", "x"), Err(Reason::Empty));
    assert_eq!(
        one("aaaa", "aa", "x"),
        Err(Reason::Ambiguous { count: 2, level: Level::Exact, lines: vec![1, 1] })
    );
    assert_eq!(one("\u{fb01}le", "ile", "x"), Err(Reason::InsideCharacter { line: 1 }));
    let misses = apply(b"abcdef", &[edit("cde", "x"), edit("abc", "y"), edit("f", "z")], MOST).unwrap_err();
    assert_eq!(misses, [Miss { edit: 1, reason: Reason::Overlap { with: 0, line: 1 } }]);
}

/// What a plain replacement gives, if every old text is there once and none meets another.
fn naive(file: &str, edits: &[Edit]) -> Option<String> {
    let mut spans: Vec<(usize, usize, &str)> = Vec::new();
    for edit in edits {
        let starts: Vec<usize> = file.match_indices(&edit.old).map(|(at, _)| at).collect();
        if let (true, Some(span)) = (starts.is_empty(), at_open_end(file, edit)) {
            spans.push(span);
            continue;
        }
        let overlaps = || {
            (1..edit.old.len()).any(|by| {
                starts.iter().any(|at| file.get(at + by..).is_some_and(|rest| rest.starts_with(&edit.old)))
            })
        };
        if starts.is_empty() || (!edit.all && (starts.len() > 1 || overlaps())) {
            return None;
        }
        spans.extend(starts.iter().map(|at| (*at, at + edit.old.len(), edit.new.as_str())));
    }
    spans.sort();
    if spans.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return None;
    }
    let (mut after, mut kept) = (String::new(), 0);
    for (start, end, new) in spans {
        after.push_str(&file[kept..start]);
        after.push_str(new);
        kept = end;
    }
    after.push_str(&file[kept..]);
    Some(after)
}

#[test]
fn nothing_is_looked_for_once_the_call_is_taken_back() {
    let (handle, cancel) = Cancel::pair();
    let edits = [edit("gone", "x"), edit("a", "b")];
    assert!(apply_until(b"a", &edits[1..], MOST, &cancel).is_ok());
    handle.cancel();
    let misses = apply_until(b"a", &edits, MOST, &cancel).unwrap_err();
    assert_eq!(misses, [Miss { edit: 0, reason: Reason::GivenUp }]);
}

/// A text whose last ending the file does not have.
fn at_open_end<'e>(file: &str, edit: &'e Edit) -> Option<(usize, usize, &'e str)> {
    let old = edit.old.strip_suffix('\n').filter(|old| !old.is_empty() && !file.ends_with('\n'))?;
    let (at, _) = file.match_indices(old).last().filter(|(at, _)| at + old.len() == file.len())?;
    Some((at, file.len(), edit.new.strip_suffix('\n').unwrap_or(&edit.new)))
}

#[test]
fn a_last_ending_that_the_file_does_not_have_is_no_miss() {
    let text = |file, old, new| {
        apply(file, &[edit(old, new)], MOST).map(|edited| String::from_utf8(edited.bytes).unwrap()).ok()
    };
    assert_eq!(text(b"q\nx", "x\n", "y\n").as_deref(), Some("q\ny"));
    assert_eq!(text(b"q\r\nx", "q\nx\n", "y\nz\n").as_deref(), Some("y\r\nz"));
    assert_eq!(text(b"q\n\tx", "q\n    x\n", "q\n    y").as_deref(), Some("q\n\ty"));
    assert_eq!(text(b"x\nq", "x\n\n", "y"), None);
    assert_eq!(text(b"qx\nq", "x\nx\n", "y"), None);
}

fn some_edit(old: &'static str, new: &'static str) -> impl Strategy<Value = Edit> {
    (old, new, any::<bool>()).prop_map(|(old, new, all)| Edit { old, new, all })
}

/// Everything that the levels and the cleanings look at, and bytes that are no text.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "a", "b", " ", "  ", "\t", "\n", "\r\n", "\r", "\u{201c}", "\"", "\u{fb01}", "e\u{301}", "\u{a0}",
        "\\n", "1|", "2|", "{", "}", "\u{feff}",
    ];
    let mut all: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
    all.push(vec![0xff]);
    prop::collection::vec(prop::sample::select(all), 0..40).prop_map(|pieces| pieces.concat())
}

/// Some of a file's own text, as a model may have copied it.
fn copied(file: &[u8], from: prop::sample::Index, length: usize) -> String {
    let text = String::from_utf8_lossy(file).replace('\u{201c}', "\"").replace('\u{a0}', " ");
    let chars: Vec<char> = text.chars().collect();
    let from = if chars.is_empty() { 0 } else { from.index(chars.len()) };
    chars.iter().skip(from).take(length).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn edits_of_plain_text_are_plain_replacements(
        file in "[ab\n]{0,24}",
        edits in prop::collection::vec(some_edit("[ab\n]{1,4}", "[abc\n]{0,5}"), 1..4),
    ) {
        let edited = apply(file.as_bytes(), &edits, MOST).ok().map(|edited| String::from_utf8(edited.bytes).unwrap());
        prop_assert_eq!(edited, naive(&file, &edits));
    }

    #[test]
    fn a_sequence_of_edits_is_a_sequence_of_replacements(
        file in "[ab\n]{0,24}",
        edits in prop::collection::vec(some_edit("[ab\n]{1,3}", "[abc\n]{0,4}"), 1..8),
    ) {
        let (mut ours, mut model) = (file.clone().into_bytes(), file);
        for edit in edits {
            let edits = [edit];
            let edited = apply(&ours, &edits, MOST);
            let wanted = naive(&model, &edits);
            prop_assert_eq!(edited.is_ok(), wanted.is_some());
            if let (Ok(edited), Some(wanted)) = (edited, wanted) {
                (ours, model) = (edited.bytes, wanted);
                prop_assert_eq!(String::from_utf8_lossy(&ours), model.as_str());
            }
        }
    }

    #[test]
    fn nothing_changes_outside_of_what_was_found(
        file in anything(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 1usize..12, anything(), any::<bool>()), 1..3),
    ) {
        let edits: Vec<Edit> = picks
            .into_iter()
            .map(|(from, length, new, all)| Edit {
                old: copied(&file, from, length),
                new: String::from_utf8_lossy(&new).into_owned(),
                all,
            })
            .collect();
        if let Ok(edited) = apply(&file, &edits, MOST) {
            let mut rest = &edited.bytes[..];
            let mut kept = 0;
            for span in &edited.spans {
                prop_assert!(span.start >= kept && span.start < span.end);
                let gap = &file[kept..span.start];
                let at = if kept == 0 { 0 } else { memchr::memmem::find(rest, gap).unwrap() };
                prop_assert!(rest[at..].starts_with(gap));
                rest = &rest[at + gap.len()..];
                kept = span.end;
            }
            prop_assert!(rest.ends_with(&file[kept..]));
        }
    }

    #[test]
    fn an_edit_that_repeats_its_text_changes_nothing(
        file in anything(),
        from in any::<prop::sample::Index>(),
        length in 1usize..16,
    ) {
        let text = copied(&file, from, length);
        if let Ok(edited) = apply(&file, &[edit(&text, &text)], MOST) {
            prop_assert_eq!(edited.bytes, file);
        }
    }

    #[test]
    fn a_block_is_found_whatever_a_model_does_to_it(
        count in 1usize..8,
        first in 0usize..8,
        length in 1usize..5,
        habit in 0usize..5,
    ) {
        let lines: Vec<String> = (0..count).map(|n| format!("{}say(\u{201c}{n}\u{201d})\r\n", "\t".repeat(1 + n % 2))).collect();
        let first = first % count;
        let last = (first + length).min(count);
        let block = lines[first..last].concat();
        let text = match habit {
            0 => block.clone(),
            1 => block.replace("\r\n", "\n"),
            2 => block.replace("\r\n", "  \n"),
            3 => block.replace("\r\n", "\n").replace(['\u{201c}', '\u{201d}'], "\""),
            _ => block.replace("\r\n", "\n").replace(['\u{201c}', '\u{201d}'], "\"").replace('\t', "    "),
        };
        let file = lines.concat();
        let edited = apply(file.as_bytes(), &[edit(&text, &format!("{text}\tnew\n"))], MOST);
        let wanted = [lines[..last].concat(), "\tnew\r\n".to_owned(), lines[last..].concat()].concat();
        // In four spaces the new line has another depth than a tab has in the file.
        let bytes = edited.map(|edited| String::from_utf8(edited.bytes).unwrap());
        prop_assert_eq!(bytes, Ok(wanted));
    }
}

/// Runs `work` and counts what it looks at.
fn steps(work: impl FnOnce()) -> usize {
    STEPS.with(|count| count.set(0));
    work();
    STEPS.with(std::cell::Cell::get)
}

#[test]
fn hostile_files_cost_a_few_passes() {
    let many = 100_000;
    let shapes: [(&str, String, String); 8] = [
        ("one long line", "ab".repeat(many), "ba".repeat(50) + "x"),
        ("equal lines", "x\n".repeat(many), "x\n".repeat(1_000) + "y\n"),
        ("equal lines, the last differs", "x\n".repeat(many) + "y", "x\n".repeat(2_000) + "z"),
        ("empty lines", "\n".repeat(many), "\n".repeat(1_000) + "y"),
        ("lines of white space", "   \n".repeat(many), "  \n".repeat(1_000) + "y"),
        ("carriage returns", "\r".repeat(many), "\r".repeat(1_000) + "y"),
        ("indentation that never fits", " x\nx\n".repeat(many / 2), "x\n".repeat(999) + "  x\nx\n"),
        ("typography", "\u{201c}\u{fb01}\u{201d}\n".repeat(many / 4), "\"fi\"\n".repeat(500) + "y"),
    ];
    for (name, file, old) in shapes {
        let size = file.len() + old.len();
        let taken = steps(|| assert!(apply(file.as_bytes(), &[edit(&old, "")], MOST).is_err(), "{name}"));
        assert!(taken < 40 * size, "{name}: {taken} steps for {size} bytes");
        let all = Edit { old: "x\n".into(), new: "y\n\n".into(), all: true };
        let taken = steps(|| drop(apply(file.as_bytes(), &[all], MOST)));
        assert!(taken < 40 * size, "{name}, all: {taken} steps for {size} bytes");
    }
}

#[test]
fn the_nearest_text_is_found_anywhere() {
    let mut lines: Vec<String> = (0..5_000).map(|n| format!("    let value_{n} = compute({n});")).collect();
    lines[4_321] = "    let answer = compute_the_answer(42, \"life\");".to_owned();
    let file = lines.join("\n");
    let Err(Reason::Absent { near, region }) =
        one(&file, "let answer = compute_the_answer(41, \"life\");", "x")
    else {
        panic!("it is not there")
    };
    assert_eq!(near[0].line, 4_322);
    assert!(near[0].percent > 90, "{}", near[0].percent);
    assert_eq!(near[0].found, lines[4_321]);
    let region = region.unwrap();
    assert_eq!(region.first_line, 4_319);
    assert!(region.text.contains("compute_the_answer") && region.more_before && region.more_behind);
}

#[test]
fn in_a_very_long_line_the_nearest_piece_is_shown() {
    let mut file = "abcdefgh ".repeat(100_000);
    file.insert_str(500_000, "the quick brown fox jumps over the lazy dog");
    let Err(Reason::Absent { near, region }) =
        one(&file, "the quick brown fox jumped over the lazy dog", "x")
    else {
        panic!("it is not there")
    };
    let shown = region.unwrap().text;
    assert!(shown.chars().count() <= 800);
    assert!(near.iter().all(|near| near.expected.len() < 200 && near.found.len() < 700), "{near:?}");
}

#[test]
fn a_result_that_would_be_too_long_is_refused_before_it_is_made() {
    let file = vec![b'a'; 100_000];
    let all = Edit { all: true, ..edit("a", &"b".repeat(1 << 20)) };
    let misses = apply(&file, &[all], 4 << 20).unwrap_err();
    assert_eq!(misses, [Miss { edit: 0, reason: Reason::TooLong { most: 4 << 20 } }]);
    let shorter = Edit { all: true, ..edit("a", "") };
    assert_eq!(apply(&file, &[shorter], file.len()).unwrap().bytes, b"");
}
