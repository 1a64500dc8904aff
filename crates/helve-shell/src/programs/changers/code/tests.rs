//! The table of `tests/cases/code.jsonl`, and that no text is too much.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::Value;

use super::{CodeDeed, deeds, shell_texts};

const LANGUAGES: [&str; 13] = [
    "python",
    "perl",
    "ruby",
    "node",
    "php",
    "lua",
    "awk",
    "osascript",
    "julia",
    "tcl",
    "r",
    "powershell",
    "cmd",
];

fn shown(deed: &CodeDeed) -> String {
    let kind = serde_json::to_value(deed.kind).unwrap();
    format!("{} {}", kind.as_str().unwrap(), deed.on.as_deref().unwrap_or("?"))
}

fn list(row: &Value, key: &str) -> Vec<String> {
    row[key].as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn code_does_what_the_table_says() {
    let mut wrong = Vec::new();
    let table = include_str!("../../../../tests/cases/code.jsonl");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let row: Value = serde_json::from_str(line).unwrap();
        let (language, text) = (row["language"].as_str().unwrap(), row["text"].as_str().unwrap());
        let found: Vec<String> = deeds(language, text).iter().map(shown).collect();
        let lines: Vec<String> = shell_texts(language, text).into_iter().map(|line| line.text).collect();
        if (&found, &lines) != (&list(&row, "deeds"), &list(&row, "shell")) {
            wrong.push(format!("{language}: {text}: {found:?} {lines:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn finds_stand_where_they_are_written() {
    let text = "x = 1; shutil.rmtree('build'); os.system('ls'); y = 2";
    let found = deeds("python", text);
    assert_eq!(&text[found[0].range.clone()], "shutil.rmtree('build')");
    let lines = shell_texts("python", text);
    assert_eq!(&text[lines[0].range.clone()], "os.system('ls')");
}

#[test]
fn hostile_text_costs_little() {
    let bombs = [
        "system(",
        "exec exec ",
        "$`",
        "qq(",
        "/\\",
        "eval(\"",
        "[=",
        "--[[",
        "'''",
        "open(x,",
        "iex ",
        "@'",
        "x.remove(",
        "fork while ",
        "import os as ",
        "${",
        "{",
        "spawn('a',[",
    ];
    for bomb in bombs {
        let text = bomb.repeat(20_000 / bomb.len());
        for language in LANGUAGES {
            let started = std::time::Instant::now();
            deeds(language, &text);
            shell_texts(language, &text);
            assert!(started.elapsed().as_secs() < 10, "{language}: {bomb}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_ranges_on_character_borders(text in any::<String>(), language in 0..LANGUAGES.len()) {
        ranges_hold(LANGUAGES[language], &text);
    }

    #[test]
    fn code_like_text_gives_ranges_on_character_borders(
        text in "([a-z]{1,3}|system|unlink|rmtree|eval|open|exec|iex|rm|é|[-'\"`(){}\\[\\]%$@#/\\\\=.,;:|<> \n]){0,40}",
        language in 0..LANGUAGES.len(),
    ) {
        ranges_hold(LANGUAGES[language], &text);
    }
}

fn ranges_hold(language: &str, text: &str) {
    let ranges = deeds(language, text).into_iter().map(|deed| deed.range);
    for range in ranges.chain(shell_texts(language, text).into_iter().map(|line| line.range)) {
        assert!(text.get(range.clone()).is_some(), "{language}: {range:?} in {text:?}");
    }
}
