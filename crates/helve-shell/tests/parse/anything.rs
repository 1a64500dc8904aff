//! Properties that hold for any text.

use helve_shell::tree::{CommandKind, Dialect, PieceKind, Script};
use helve_shell::{Span, parse, quote};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::{DIALECTS, rows};

/// Parses in both dialects and checks what must hold for any text.
pub(crate) fn check(text: &str) {
    for dialect in DIALECTS {
        let script = parse(text, dialect);
        spans(&script, text);
    }
}

/// Every span lies in the text, on character borders, and not the wrong way round.
fn spans(script: &Script, text: &str) {
    // The debug form names every span of the tree, wherever it is.
    let shown = format!("{script:?}");
    for part in shown.split("Span { start: ").skip(1) {
        let Some((start, rest)) = part.split_once(", end: ") else { continue };
        let Some((end, _)) = rest.split_once(" }") else { continue };
        let (Ok(start), Ok(end)) = (start.parse(), end.parse()) else { continue };
        let span = Span { start, end };
        assert!(text.get(span.range()).is_some(), "{span:?} is no part of {text:?}");
    }
}

/// The text of the only word of a script, if it is one literal word.
fn only_word(script: &Script) -> Option<String> {
    let [statement] = script.statements.as_slice() else { return None };
    let [(_, pipeline)] = statement.pipelines.as_slice() else { return None };
    let [command] = pipeline.commands.as_slice() else { return None };
    let CommandKind::Simple(simple) = &command.kind else { return None };
    let [word] = simple.words.as_slice() else { return None };
    if script.fault.is_some() || !command.redirects.is_empty() || !simple.assignments.is_empty() {
        return None;
    }
    let mut text = String::new();
    for piece in &word.pieces {
        match &piece.kind {
            PieceKind::Text(part) | PieceKind::Single(part) => text.push_str(part),
            PieceKind::Escaped(ch) => text.push(*ch),
            PieceKind::Double(inside) => {
                for piece in inside {
                    let PieceKind::Text(part) = &piece.kind else { return None };
                    text.push_str(part);
                }
            }
            _ => return None,
        }
    }
    Some(text)
}

fn corpus() -> Vec<String> {
    let all = [include_str!("../cases/parse.jsonl"), include_str!("../cases/parse_valid.jsonl")];
    all.iter().flat_map(|file| rows(file)).map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

proptest! {
    #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_text_is_parsed(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_shell_like_text_is_parsed(text in r#"[ab$(){}\[\]<>|&;'"`\\\n \t=+#!*?@:/%^,~éE0-9-]{0,60}"#) {
        check(&text);
    }

    #[test]
    fn mutated_commands_are_parsed(
        index in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let corpus = corpus();
        let mut chars: Vec<char> = index.get(&corpus).chars().collect();
        let piece: Vec<char> = other.get(&corpus).chars().collect();
        let from = at.index(chars.len() + 1);
        let end = from.max(to.index(chars.len() + 1));
        chars.splice(from..end, piece);
        check(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn a_quoted_word_is_read_back(word in "[^\0]{1,40}") {
        for dialect in DIALECTS {
            prop_assert_eq!(only_word(&parse(&quote(&word), dialect)), Some(word.clone()));
        }
    }

    #[test]
    fn joined_lines_change_nothing(index in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        // Outside quotes and words with backslashes a joined line may stand anywhere.
        let corpus: Vec<String> =
            corpus().into_iter().filter(|text| !text.contains(['\'', '\\', '#', '\n', '`', '"'])).collect();
        let text = index.get(&corpus);
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let at = *at.get(&borders);
        let joined = format!("{}\\\n{}", &text[..at], &text[at..]);
        let shown = |text: &str| crate::show::script(&parse(text, Dialect::Bash));
        prop_assert_eq!(shown(&joined), shown(text));
    }
}

#[test]
fn spans_point_at_what_they_name() {
    let text = "é=1 ls 'a b'\\ c \"$x\"y `echo \\`date\\``>>o\\\nut";
    let script = parse(text, Dialect::Bash);
    let CommandKind::Simple(simple) = &script.statements[0].pipelines[0].1.commands[0].kind else { panic!() };
    let words: Vec<&str> = simple.words.iter().map(|word| &text[word.span.range()]).collect();
    assert_eq!(words, ["é=1", "ls", "'a b'\\ c", "\"$x\"y", "`echo \\`date\\``"]);
    let command = &script.statements[0].pipelines[0].1.commands[0];
    assert_eq!(&text[command.span.range()], text);
    assert_eq!(&text[command.redirects[0].span.range()], ">>o\\\nut");
    let PieceKind::Command(echo) = &simple.words[4].pieces[0].kind else { panic!() };
    let CommandKind::Simple(echo) = &echo.statements[0].pipelines[0].1.commands[0].kind else { panic!() };
    let words: Vec<&str> = echo.words.iter().map(|word| &text[word.span.range()]).collect();
    assert_eq!(words, ["echo", "`date\\`"]);
    let PieceKind::Command(date) = &echo.words[1].pieces[0].kind else { panic!() };
    assert_eq!(&text[date.statements[0].span.range()], "date");
}

#[test]
fn spans_of_faults_point_at_the_trouble() {
    for (text, trouble) in [
        ("a | | b", "|"),
        ("a; echo 'b", "'b"),
        ("a \"$(b\" c", "\" c"),
        ("if a; then b; done", "d"),
        ("echo ${x!}", "${x"),
        ("a && (b; c", "(b; c"),
    ] {
        let fault = parse(text, Dialect::Bash).fault.unwrap();
        assert_eq!(&text[fault.span.range()], trouble, "{text}");
    }
}
