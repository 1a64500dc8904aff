//! What holds for any files and any patch: trees and the diffs that git would write of them, and lines in any order.

use proptest::prelude::*;
use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use super::*;

/// Lines over a small alphabet, so that they repeat.
fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec!["a", "b", "  c", "d e", "", "--", "++ x", "\u{e4}", "\\", "@@"]);
    let ending = prop::sample::select(vec!["\n", "\n", "\n", "\r\n"]);
    let lines = prop::collection::vec((line, ending), 0..30);
    (lines, any::<bool>()).prop_map(|(lines, ends)| {
        let mut text: String = lines.iter().flat_map(|(line, ending)| [*line, *ending]).collect();
        if !ends {
            while text.ends_with(['\n', '\r']) {
                text.pop();
            }
        }
        text
    })
}

/// A text, and one that some edits made of it.
fn edited() -> impl Strategy<Value = (String, String)> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..3usize, text()), 0..4);
    (text(), edits).prop_map(|(before, edits)| {
        let mut lines: Vec<String> = before.split_inclusive('\n').map(str::to_owned).collect();
        for (at, removed, added) in edits {
            let at = at.index(lines.len() + 1);
            let end = (at + removed).min(lines.len());
            lines.splice(at..end, added.split_inclusive('\n').take(3).map(str::to_owned));
        }
        (before, lines.concat())
    })
}

/// What git would write.
fn git_diff(path: &str, before: Option<&str>, after: Option<&str>, context: usize) -> String {
    let lines = |text: Option<&str>| -> Vec<String> {
        text.unwrap_or_default().split_inclusive('\n').map(str::to_owned).collect()
    };
    let (old, new) = (lines(before), lines(after));
    let mut text = format!("diff --git a/{path} b/{path}\n");
    text.push_str(match (before, after) {
        (None, _) => "new file mode 100644\n",
        (_, None) => "deleted file mode 100644\n",
        _ => "",
    });
    if old != new {
        let name = |there: Option<&str>, side: &str| {
            there.map_or("/dev/null".to_owned(), |_| format!("{side}/{path}"))
        };
        text.push_str(&format!("--- {}\n+++ {}\n", name(before, "a"), name(after, "b")));
    }
    let put = |text: &mut String, sign: char, lines: &[String]| {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    let shown = |start: usize, len: usize| format!("{},{len}", if len == 0 { start } else { start + 1 });
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), context) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let (old_start, new_start) = (first.old_range().start, first.new_range().start);
        let old_count = last.old_range().end - old_start;
        let new_count = last.new_range().end - new_start;
        text.push_str(&format!("@@ -{} +{} @@\n", shown(old_start, old_count), shown(new_start, new_count)));
        for step in &group {
            let (tag, old_lines, new_lines) = step.as_tag_tuple();
            if tag == DiffTag::Equal {
                put(&mut text, ' ', &old[old_lines]);
            } else {
                put(&mut text, '-', &old[old_lines]);
                put(&mut text, '+', &new[new_lines]);
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_diff_of_two_trees_makes_one_of_the_other(
        files in prop::collection::vec((edited(), 0..5u8), 1..5),
        context in 1..4usize,
    ) {
        let (mut before, mut after, mut text) = (Tree::new(), Tree::new(), String::new());
        for (at, ((old, new), fate)) in files.iter().enumerate() {
            let path = format!("d{at}/x y");
            let (old, new) = match fate {
                0 => (None, Some(new.as_str())),
                1 => (Some(old.as_str()), None),
                _ => (Some(old.as_str()), Some(new.as_str())),
            };
            before.extend(old.map(|old| (path.clone(), old.as_bytes().to_vec())));
            after.extend(new.map(|new| (path.clone(), new.as_bytes().to_vec())));
            text.push_str(&git_diff(&path, old, new, context));
        }
        match parse(&text) {
            Err(bad) => prop_assert_eq!((&before, bad.message), (&after, "No files were modified: the diff has no hunk.".to_owned())),
            Ok(_) => match patched(&before, &text) {
                Ok(made) => prop_assert_eq!(made, after, "{}", text),
                Err(problems) => prop_assert!(false, "{problems:?}\n{text}"),
            },
        }
    }

    #[test]
    fn what_the_envelope_keeps_stays_as_it_is(before in text(), at in any::<prop::sample::Index>(), added in "[a-z]{0,5}") {
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        prop_assume!(!lines.is_empty());
        let at = at.index(lines.len());
        // All lines above are shown, so that there is one place.
        let body: String = lines[..=at].iter().map(|line| format!(" {}\n", line.trim_end_matches(['\n', '\r']))).collect();
        let body = format!("@@\n{body}+{added}");
        if let Ok(after) = one(&before, &body) {
            let head: String = lines[..=at].concat();
            let tail: String = lines[at + 1..].concat();
            prop_assert!(after.starts_with(head.trim_end_matches(['\n', '\r'])) && after.ends_with(&tail), "{after:?}");
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        text in prop::collection::vec(prop::sample::select(vec![
            "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: f", "*** Delete File: f", "*** Move to: b",
            "*** End of File", "@@", "@@ x", "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@", "@@ -99999999999999999999,1 +1 @@", "--- a/f", "+++ b/f",
            "+++ /dev/null", "--- /dev/null", "diff --git a/f b/f", "rename from f", "rename to g", "new file mode 100644",
            "deleted file mode 100644", "\\ No newline at end of file", " x", "+x", "-x", "", "\r", "+\r", "-- ", "```", "<<EOF", "EOF", "\u{e4}",
        ]), 0..20),
        free in "\\PC{0,30}",
        file in text(),
    ) {
        let mut text = text.join("\n");
        text.push_str(&free);
        let wrapped = format!("*** Begin Patch\n{text}\n*** End Patch");
        for text in [text, wrapped] {
            if parse(&text).is_ok() {
                let _ = patched(&tree(&[("f", &file)]), &text);
            }
        }
    }
}
