use super::*;
use helve_core::files::CaseMode;
use pretty_assertions::assert_eq;

fn request(mode: SearchMode, context: usize) -> SearchRequest {
    SearchRequest {
        path: ".".into(),
        pattern: "x".into(),
        literal: false,
        case: CaseMode::Sensitive,
        word: false,
        multiline: false,
        globs: Vec::new(),
        types: Vec::new(),
        hidden: true,
        obey_ignore: true,
        before: context,
        after: context,
        mode,
        limit: 100,
        skip: 0,
        line_chars: 500,
        max_bytes: 50_000,
    }
}

fn line(line: u64, text: &str, matched: bool) -> HitLine {
    HitLine { line, text: text.into(), matched, cut: (0, 0) }
}

fn found() -> Searched {
    let lines = vec![line(2, "a", false), line(3, "x", true), line(7, "x", true)];
    let long = HitLine { cut: (12, 300), ..line(1, "around x here", true) };
    Searched {
        files: vec![
            FileHits { path: "a.rs".into(), count: 2, lines },
            FileHits { path: "odd\nname".into(), count: 1, lines: vec![long] },
        ],
        searched: 9,
        ..Searched::default()
    }
}

#[test]
fn lines_with_context_are_set_apart() {
    let output = output(&found(), &request(SearchMode::Lines, 1), true, false);
    let expected = "a.rs-2- a\na.rs:3: x\n--\na.rs:7: x\n--\n\
                    \"odd\\nname\":1: [12 characters] … around x here … [300 characters]";
    assert_eq!(output.joined_text(), expected);
    assert_eq!(output.details["matches"], 3);
    assert_eq!(output.details["searched"], 9);
}

#[test]
fn lines_without_numbers() {
    let mut found = found();
    found.files.pop();
    let output = output(&found, &request(SearchMode::Lines, 0), false, false);
    assert_eq!(output.joined_text(), "a.rs- a\na.rs: x\na.rs: x");
}

#[test]
fn files_and_counts() {
    let files = output(&found(), &request(SearchMode::Files, 0), true, false);
    assert_eq!(files.joined_text(), "a.rs\n\"odd\\nname\"");
    assert_eq!(files.details["matches"], 2);
    let counts = output(&found(), &request(SearchMode::Count, 0), true, false);
    assert_eq!(counts.joined_text(), "a.rs:2\n\"odd\\nname\":1\n\n[3 matches in 2 files]");
}

#[test]
fn a_page_says_how_to_go_on() {
    let found = Searched { more: true, ..found() };
    let request = SearchRequest { skip: 10, ..request(SearchMode::Lines, 0) };
    let lines = output(&found, &request, true, false);
    assert!(lines.joined_text().ends_with(
        "\n\n[More matches. Continue with the same arguments and skip=13, or make the pattern or path narrower.]"
    ));
    assert_eq!(lines.details["next_skip"], 13);
    let files = output(&found, &SearchRequest { mode: SearchMode::Files, ..request }, true, false);
    assert_eq!(files.details["next_skip"], 12);
}

#[test]
fn nothing_found_says_what_was_passed_over() {
    let unread = vec!["a: permission denied".to_owned()];
    let nothing = Searched { binary: 2, unread, unread_count: 1, ..Searched::default() };
    let text = output(&nothing, &request(SearchMode::Lines, 0), true, false).joined_text();
    let expected = "No matches found\n\n[2 binary files were passed over]\n\n\
                    [1 could not be read: a: permission denied]";
    assert_eq!(text, expected);
}

#[test]
fn what_ignore_files_name_and_escapes_are_told() {
    let text = output(&Searched::default(), &request(SearchMode::Lines, 0), true, true).joined_text();
    assert_eq!(
        text,
        "No matches found\n\n[What ignore files name was not searched; ignored=true searches it]"
    );
    let lines = vec![line(1, "a\u{1b}x", true)];
    let files = vec![FileHits { path: "a".into(), count: 1, lines }];
    let text =
        output(&Searched { files, ..Searched::default() }, &request(SearchMode::Lines, 0), true, false);
    assert!(text.joined_text().ends_with("[Some characters are shown as escapes. edit_file finds them so.]"));
}
