//! What is found of a secret, and what is left alone.

use super::forms::{STANDARD, base64_core};
use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

const SECRET: &str = "s3cr3t/Value+1";

fn secrets() -> Arc<Secrets> {
    Secrets::new([("TOKEN", SECRET)]).unwrap()
}

fn base64(bytes: &[u8]) -> String {
    // The core of the text at shift 0, with the last bits padded by zero bytes.
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().div_ceil(3) * 3, 0);
    String::from_utf8(base64_core(&padded, 0, STANDARD)).unwrap()
}

#[test]
fn every_form_is_found() {
    let hex: String = SECRET.bytes().map(|b| format!("{b:02x}")).collect();
    for text in [
        SECRET.to_owned(),
        hex.to_uppercase(),
        hex,
        "s3cr3t%2FValue%2B1".to_owned(),
        base64(format!("x{SECRET}").as_bytes()),
        base64(format!("xx{SECRET}yyy").as_bytes()),
        base64(SECRET.as_bytes()),
        "s3cr3t/Value%2B1".to_owned(),
        SECRET.chars().rev().collect(),
    ] {
        let clean = secrets().redact(&text).into_owned();
        assert!(clean.contains("[REDACTED:TOKEN]"), "{text} gave {clean}");
    }
}

#[test]
fn a_broken_line_of_base64_and_the_lines_of_a_key_are_found() {
    let text = base64(SECRET.as_bytes());
    for at in 1..text.len() - 4 {
        let broken = format!("{}\n{}", &text[..at], &text[at..]);
        assert!(secrets().redact(&broken).contains("[REDACTED"), "{broken}");
    }
    let key = Secrets::new([("KEY", "-----BEGIN-----\nMIIEvgIBADANBgkqhkiG9w0B\nquoted \"words\" of 20\n")])
        .unwrap();
    assert_eq!(key.redact("see MIIEvgIBADANBgkqhkiG9w0B"), "see [REDACTED:KEY]");
    assert_eq!(key.redact(r#"quoted \"words\" of 20"#), "[REDACTED:KEY]");
}

#[test]
fn base64_is_base64() {
    assert_eq!(base64(b"Man"), "TWFu");
    assert_eq!(base64(b"light work"), "bGlnaHQgd29yawAA");
}

#[test]
fn ordinary_data_is_left_alone() {
    for text in
        ["3f786850e387550fdab836ed7e6dc881de23001b", "550e8400-e29b-41d4-a716-446655440000", "s3cr3t/Valu"]
    {
        assert_eq!(secrets().redact(text), text);
    }
}

#[test]
fn values_are_redacted_in_keys_and_depth() {
    let mut value = json!({"a": [{SECRET: format!("x{SECRET}")}], "n": 1});
    assert!(secrets().are_in(&value));
    secrets().redact_value(&mut value);
    assert_eq!(value, json!({"a": [{"[REDACTED:TOKEN]": "x[REDACTED:TOKEN]"}], "n": 1}));
    assert!(!secrets().are_in(&value));
    for value in [json!(SECRET), json!([[SECRET]]), json!({"a": {SECRET: 1}}), json!({"a": SECRET})] {
        assert!(secrets().are_in(&value), "{value}");
    }
}

#[test]
fn no_secrets_no_search() {
    assert!(Secrets::new(std::iter::empty()).is_none());
    assert!(Secrets::new([("SHORT", "abc")]).is_none());
}

/// Whoever reads along sees every word at once; only what may become a secret waits.
#[test]
fn nothing_waits_but_what_may_become_a_secret() {
    let secrets = secrets();
    let mut words = Redactor::new(Some(&secrets));
    for (piece, told) in [
        ("Hello, ", "Hello, "),
        ("wörld. It is s3", "wörld. It is "),
        ("cr3t/Val", ""),
        ("ley. No: s3cr3t/Value+", "s3cr3t/Valley. No: "),
        ("1!", "[REDACTED:TOKEN]!"),
        ("s3cr", ""),
    ] {
        assert_eq!(words.push(piece), told, "{piece}");
    }
    assert_eq!(words.finish(), "s3cr");
    let mut plain = Redactor::new(None);
    assert_eq!((plain.push("s3cr3t/Value+1"), plain.finish()), ("s3cr3t/Value+1".into(), String::new()));
}

/// Breaks a text as programs do, after so many letters.
fn broken(text: &str, letters: usize, seam: &str) -> String {
    let lines: Vec<&str> = (0..text.len().div_ceil(letters))
        .map(|nth| &text[nth * letters..((nth + 1) * letters).min(text.len())])
        .collect();
    lines.join(seam)
}

/// Tokens of today are longer than a line of `base64` or `xxd -p`.
#[test]
fn long_secrets_are_found_over_any_number_of_line_breaks() {
    let token = format!("sk-ant-api03-{}", "Zx9Qw8Er7Ty6".repeat(9));
    let secrets = Secrets::new([("TOKN", token.as_str())]).unwrap();
    let hex: String = token.bytes().map(|b| format!("{b:02x}")).collect();
    for text in [base64(format!("Authorization: {token} and").as_bytes()), hex, token.clone()] {
        for letters in [1, 7, 60, 64, 76] {
            for seam in ["\n", "\r\n", "\n    ", "\\n", "\\r\\n", "\\\\n", "\n\t "] {
                let text = format!("see {} there", broken(&text, letters, seam));
                let clean = secrets.redact(&text).into_owned();
                let left: String = clean.replace("[REDACTED:TOKN]", "").replace(seam, "");
                assert!(left.len() < 45, "{text} gave {clean}");
                assert_eq!(streamed(&secrets, &text, &[5, 1, 90]), clean);
            }
        }
    }
}

/// Everything that is put between the letters of a secret and that a reader does not see.
#[test]
fn secrets_are_found_behind_what_is_not_seen() {
    let long = "sk-live-51Hq8ZbW2xKp9Rt7";
    let secrets = Secrets::new([("TOKN", long), ("PIN", "1234"), ("NAME", "J\u{e9}r\u{f4}me-K3y")]).unwrap();
    for unseen in [
        "\u{1b}[1m",
        "\u{1b}[0m\u{1b}[38;5;196m",
        "\u{1b}[01;31m\u{1b}[K",
        "\u{1b}(B\u{1b}[m",
        "\u{1b}]8;;http://x\u{1b}\\",
        "\u{1b}]0;title\u{7}",
        "\u{200b}",
        "\u{feff}\u{2060}",
        "\u{ad}",
        "\u{e0041}",
        "\0",
        "\u{8}",
    ] {
        for (secret, mark) in [(long, "TOKN"), ("1234", "PIN"), ("J\u{e9}r\u{f4}me-K3y", "NAME")] {
            for at in (1..secret.len()).filter(|at| secret.is_char_boundary(*at)) {
                let text = format!("is {}{unseen}{} \u{e9}{unseen}.", &secret[..at], &secret[at..]);
                let expected = format!("is [REDACTED:{mark}] \u{e9}{unseen}.");
                assert_eq!(secrets.redact(&text), expected, "{text:?}");
                assert_eq!(streamed(&secrets, &text, &[1, 3]), expected, "{text:?}");
            }
            let spread: String =
                secret.chars().flat_map(|letter| [letter.to_string(), unseen.to_owned()]).collect();
            assert_eq!(secrets.redact(&spread), format!("[REDACTED:{mark}]{unseen}"), "{spread:?}");
        }
    }
    // A line that breaks is seen, also among what is not.
    for text in ["12\u{1b}[0m\n\u{1b}[1m34", "12\n\u{200b}34", "12\u{e9}34", "12\u{1b}[1"] {
        assert_eq!(secrets.redact(text), text, "{text:?}");
    }
}

#[test]
fn prints_of_bytes_are_found() {
    let secrets = secrets();
    let pairs: Vec<String> = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    for between in [" ", ":", "\\x", ", 0x"] {
        let text = pairs.join(between);
        assert!(secrets.redact(&text).contains("[REDACTED:TOKEN]"), "{text}");
        assert!(
            secrets
                .redact(&text.to_uppercase().replace("0X", "0x").replace("\\X", "\\x"))
                .contains("[REDACTED")
        );
    }
    for first in ["", "41"] {
        let all = format!("{first}{}", pairs.concat());
        let groups: Vec<&str> =
            (0..all.len().div_ceil(4)).map(|nth| &all[nth * 4..(nth * 4 + 4).min(all.len())]).collect();
        let text = groups.join(" ");
        assert!(secrets.redact(&text).contains("[REDACTED:TOKEN]"), "{text}");
    }
    let quoted = Secrets::new([("T", r#"a"b\c'd"#), ("U", r#"e"f\gh"#)]).unwrap();
    assert_eq!(quoted.redact(r#"'a"b\\c\'d' 'e"f\\gh'"#), "'[REDACTED:T]' '[REDACTED:U]'");
}

#[test]
fn short_secrets_are_found_only_as_one_piece() {
    let secrets = Secrets::new([("PIN", "1234"), ("WORD", "hunter2pass")]).unwrap();
    for text in ["12\n34", "hunter2\npass", "hunter2\\npass", "3132\n3334", "MTI\nzNA"] {
        assert_eq!(secrets.redact(text), text);
    }
    assert_eq!(secrets.redact("a 1234\nhunter2pass"), "a [REDACTED:PIN]\n[REDACTED:WORD]");
}

#[test]
fn a_wide_gap_ends_what_may_be_broken() {
    let secrets = Secrets::new([("TOKN", "0123456789abcdefghij")]).unwrap();
    let text = |blanks: usize| format!("0123456789\n{}abcdefghij", " ".repeat(blanks));
    assert_eq!(secrets.redact(&text(40)), "[REDACTED:TOKN]");
    assert_eq!(secrets.redact(&text(400)), text(400));
}

#[test]
fn a_run_of_backslashes_waits_no_longer_than_a_break_is_wide() {
    let mut stream = StreamRedactor::new(secrets());
    let run = "\\".repeat(1 << 20);
    let mut given = 0;
    for piece in run.as_bytes().chunks(1000) {
        given += stream.push(piece).len();
        assert!(stream.held.len() < 500, "{} bytes wait", stream.held.len());
    }
    assert_eq!(given + stream.finish().len(), run.len());
}

#[test]
fn a_long_break_behind_others_leaves_nothing_of_a_secret() {
    let secrets = Secrets::new([("T", "\u{e9}abcdefghijklmnopqrs")]).unwrap();
    let run = "\\".repeat(60);
    for text in [
        format!("\u{e9}\nabcdefghi{run}njklmnopqrs"),
        format!("\u{e9}abcdefgh\n        i{run}njklmnopqrs"),
        format!("\u{e9}\n \na\nbcd\r\nefghi{run}njkl{run}n\tmnopqrs"),
    ] {
        assert_eq!(secrets.redact(&text), "[REDACTED:T]", "{text}");
        assert_eq!(streamed(&secrets, &text, &[1]), "[REDACTED:T]", "{text}");
    }
}

#[test]
fn what_programs_trim_is_no_part_of_a_secret() {
    for value in [
        "topsecretvalue\n",
        "topsecretvalue \r\n",
        "\ttopsecretvalue\r",
        "\"topsecretvalue\"",
        "'topsecretvalue'\n",
        " ' topsecretvalue '",
    ] {
        let secrets = Secrets::new([("T", value)]).unwrap();
        assert_eq!(secrets.redact("a topsecretvalue b"), "a [REDACTED:T] b", "{value:?}");
        assert_eq!(secrets.redact(&format!("a{value}b")), "a[REDACTED:T]b", "{value:?}");
    }
    // What is left of these would hit ordinary text.
    for value in ["  ab  ", "\"ab\"", "    "] {
        let secrets = Secrets::new([("T", value)]);
        assert!(secrets.is_none_or(|secrets| secrets.redact("ab") == "ab"), "{value:?}");
    }
}

#[test]
fn the_forms_of_common_encoders_are_found() {
    let value = "ab&cd<ef>gh/ij!kl(m) n";
    let word = "k\u{e4}rntner-stra\u{df}e-\u{1F511}";
    let secrets = Secrets::new([("T", value), ("W", word), ("Q", "say \"it's\" a\\b+c=d`")]).unwrap();
    for text in [
        // json.Marshal, json_encode, Gson, System.Text.Json.
        r"ab\u0026cd\u003cef\u003egh/ij!kl(m) n",
        r"ab&cd<ef>gh\/ij!kl(m) n",
        r"ab\u0026cd\u003Cef\u003Egh/ij!kl(m) n",
        r"say \u0022it\u0027s\u0022 a\\b\u002Bc=d\u0060",
        r#"say \"it\u0027s\" a\\b+c\u003dd`"#,
        r#"say \\\"it's\\\" a\\\\b+c=d`"#,
        // json.dumps, and Jackson with ASCII alone.
        r"k\u00e4rntner-stra\u00dfe-\ud83d\udd11",
        r"k\u00E4rntner-stra\u00DFe-\uD83D\uDD11",
        // quote, quote_plus, encodeURIComponent, encodeURI, PathEscape, HttpUtility.
        "ab%26cd%3Cef%3Egh%2Fij%21kl%28m%29%20n",
        "ab%26cd%3Cef%3Egh%2Fij%21kl%28m%29+n",
        "ab%26cd%3Cef%3Egh%2Fij!kl(m)%20n",
        "ab&cd%3Cef%3Egh/ij!kl(m)%20n",
        "ab&cd%3Cef%3Egh%2Fij%21kl%28m%29%20n",
        "ab%26cd%3cef%3egh%2fij!kl(m)+n",
    ] {
        let clean = secrets.redact(text).into_owned();
        assert!(
            ["[REDACTED:T]", "[REDACTED:W]", "[REDACTED:Q]"].contains(&clean.as_str()),
            "{text} gave {clean}"
        );
    }
}

#[test]
fn numbers_that_tell_a_secret_become_marks() {
    let secrets = Secrets::new([("PIN", "918273645"), ("SHORT", "1234")]).unwrap();
    for (number, clean) in [
        (json!(918_273_645), json!("[REDACTED:PIN]")),
        (json!(-918_273_645), json!("[REDACTED:PIN]")),
        (json!(918_273_645.0), json!("[REDACTED:PIN]")),
        (json!(19_182_736_450_u64), json!("[REDACTED:PIN]")),
        (json!(1234), json!("[REDACTED:SHORT]")),
        (json!(-1234.0), json!("[REDACTED:SHORT]")),
        // Sizes and times hold short runs of digits by chance.
        (json!(712_345), json!(712_345)),
        (json!(0.1234), json!(0.1234)),
        (json!(12), json!(12)),
    ] {
        let mut value = json!({ "a": [number] });
        assert_eq!(secrets.are_in(&value), number != clean, "{number}");
        secrets.redact_value(&mut value);
        assert_eq!(value, json!({ "a": [clean] }));
    }
}

#[test]
fn secrets_that_overlap_leave_nothing_of_either() {
    let secrets = Secrets::new([("A", "first-middle"), ("B", "middle-and-last"), ("C", "aaaa")]).unwrap();
    assert_eq!(secrets.redact("x first-middle-and-last y"), "x [REDACTED:B] y");
    let run = "a".repeat(1000);
    assert_eq!(secrets.redact(&run), "[REDACTED:C]");
    assert_eq!(streamed(&secrets, &run, &[1, 3]), "[REDACTED:C]");
}

fn streamed(secrets: &Arc<Secrets>, text: &str, cuts: &[usize]) -> String {
    let mut stream = StreamRedactor::new(Arc::clone(secrets));
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    for cut in cuts.iter().cycle() {
        let (piece, behind) = rest.split_at((*cut).min(rest.len()));
        out.extend(stream.push(piece));
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    out.extend(stream.finish());
    String::from_utf8(out).unwrap()
}

proptest! {
    #[test]
    fn pieces_of_a_text_are_redacted_as_the_whole(
        parts in prop::collection::vec(
            prop_oneof![Just(SECRET.to_owned()), Just("s3cr".to_owned()), "[a-z0-9/+é€]{0,9}"], 0..6),
        cuts in prop::collection::vec(1usize..7, 0..40),
    ) {
        let text = parts.concat();
        let mut words = Redactor::new(Some(&secrets()));
        let (mut out, mut rest) = (String::new(), text.as_str());
        for cut in cuts {
            let (piece, behind) = rest.split_at(rest.ceil_char_boundary(cut.min(rest.len())));
            out.push_str(&words.push(piece));
            rest = behind;
        }
        out.push_str(&words.push(rest));
        out.push_str(&words.finish());
        prop_assert_eq!(out, secrets().redact(&text).into_owned());
    }

    #[test]
    fn chunk_borders_do_not_matter(
        parts in prop::collection::vec(prop_oneof![Just(SECRET.to_owned()), "[a-z0-9/+]{0,9}"], 0..6),
        cuts in prop::collection::vec(1usize..7, 0..40),
    ) {
        let text = parts.concat();
        let mut stream = StreamRedactor::new(secrets());
        let (mut out, mut at) = (Vec::new(), 0);
        for cut in cuts {
            let end = (at + cut).min(text.len());
            out.extend(stream.push(&text.as_bytes()[at..end]));
            at = end;
        }
        out.extend(stream.push(&text.as_bytes()[at..]));
        out.extend(stream.finish());
        prop_assert_eq!(String::from_utf8(out).unwrap(), secrets().redact(&text));
    }

    /// Line breaks, escapes and secrets that share letters: what comes in pieces is redacted as the whole.
    #[test]
    fn chunk_borders_do_not_matter_for_broken_and_overlapping_secrets(
        parts in prop::collection::vec(
            prop_oneof![
                Just("abcdabcdabcdabcdabce".to_owned()), Just("abcdabcd".to_owned()), Just("dabc".to_owned()),
                Just("\n".to_owned()), Just("\\n".to_owned()), Just("\\".to_owned()), Just("\\".repeat(60)),
                Just("\\".repeat(200)), "[abcden \\r\\n]{0,6}"],
            0..12),
        cuts in prop::collection::vec(1usize..7, 1..9),
    ) {
        let text = parts.concat();
        let secrets = Secrets::new([("A", "abcdabcdabcdabcdabce"), ("B", "cdab"), ("N", "nabc\\nd")]).unwrap();
        let whole = secrets.redact(&text).into_owned();
        prop_assert_eq!(streamed(&secrets, &text, &cuts), whole.clone());
        prop_assert!(!whole.contains("cdab"));
    }

    /// Wherever its breaks are and however they are written, a secret goes as a whole, and what stands around it stays.
    #[test]
    fn a_broken_secret_goes_as_a_whole(
        before in "[w-z ]{0,9}",
        seams in prop::collection::vec(prop_oneof![
            4 => Just(String::new()), 1 => "(\r?\n[ \t]{0,9}){1,3}", 1 => "\\\\{1,120}[nr][ \t]{0,4}"], 19..20),
        behind in "[w-z ]{0,9}",
        cuts in prop::collection::vec(1usize..70, 1..9),
    ) {
        let secret = "\u{e9}abcdefghijklmnopqrs";
        let secrets = Secrets::new([("T", secret)]).unwrap();
        let broken: String = secret.chars().zip(seams.iter().map(String::as_str).chain([""]))
            .flat_map(|(letter, seam)| [letter.to_string(), seam.to_owned()]).collect();
        let clean = format!("{before}[REDACTED:T]{behind}");
        let text = format!("{before}{broken}{behind}");
        prop_assert_eq!(secrets.redact(&text), clean.as_str());
        prop_assert_eq!(streamed(&secrets, &text, &cuts), clean);
    }
}
