//! The question as a document: the whole call, what it does, which rule asks and why. Nothing of it is shortened, and
//! nothing in a call can pass for a line of ours.

use anstyle::Style;
use helve::{ApprovalRequest, AskedPart};
use serde_json::{Value, json};

use super::page::Document;
use crate::harmless::one_line;
use crate::marked::{Mark, Stretch};
use crate::{effects, ui};

/// Everything that a person has to see before an answer.
pub(super) fn document(request: &ApprovalRequest) -> Document {
    let mut page = Document::default();
    let verb = if request.command.is_some() { "wants to run:" } else { "wants to be called with:" };
    page.prose(ui::STRONG, &format!("{} {verb}", one_line(&request.tool, usize::MAX)));
    if let Some(command) = &request.command {
        page.quoted(command, &marks(request));
    }
    for (key, value) in request.args.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if key == "command" && request.command.as_deref() == Some(text.as_str()) || is_short(key, value) {
            continue;
        }
        if is_name(key) {
            page.prose(ui::FAINT, &format!("  {key}:"));
            page.quoted(&text, &[]);
        } else {
            page.quoted(&json!({ key: value }).to_string(), &[]);
        }
    }
    if request.args.as_object().is_none() && request.args != Value::Null {
        page.quoted(&request.args.to_string(), &[]);
    }
    page.gap();
    what_it_does(&mut page, request);
    who_asks(&mut page, request);
    page
}

/// Which rule asks about which part, and why; parts that share both stand together.
fn who_asks(page: &mut Document, request: &ApprovalRequest) {
    let mut groups: Vec<(&AskedPart, Vec<&str>)> = Vec::new();
    for part in &request.parts {
        let same = |(first, _): &&mut (&AskedPart, _)| first.rule == part.rule && first.reason == part.reason;
        match groups.iter_mut().find(same) {
            Some((_, texts)) => texts.push(&part.text),
            None => groups.push((part, vec![&part.text])),
        }
    }
    let alone = groups.len() == 1;
    for (part, texts) in groups {
        page.prose(
            Style::new(),
            &one_line(&format!("Asked by {}: {}", part.rule, sentence(&part.reason)), usize::MAX),
        );
        if !alone {
            texts.iter().for_each(|text| page.quoted(text, &[]));
        }
    }
}

fn what_it_does(page: &mut Document, request: &ApprovalRequest) {
    if let Some(cwd) = &request.cwd {
        page.entry("in", &cwd.display().to_string());
    }
    for (key, value) in request.args.as_object().into_iter().flatten() {
        if is_short(key, value) {
            page.entry(key, &value.to_string());
        }
    }
    if let Some(summary) = &request.effects {
        for (name, value) in effects::lines(summary, request.command.as_deref().unwrap_or_default()) {
            page.entry(name, &value);
        }
    }
    for script in &request.scripts {
        page.entry("script", &format!("{} as it is now", script.path));
    }
}

fn marks(request: &ApprovalRequest) -> Vec<(Stretch, Mark)> {
    let rules = request.parts.iter().filter_map(|part| part.span).map(|span| (span, Mark::Rule));
    let opaque = request.effects.iter().flat_map(|effects| &effects.opaque);
    rules.chain(opaque.filter_map(|part| Some((part.span?, Mark::Unknown)))).collect()
}

/// Numbers and the like behind a plain name cannot imitate anything and need no bar.
fn is_short(key: &str, value: &Value) -> bool {
    is_name(key) && matches!(value, Value::Null | Value::Bool(_) | Value::Number(_))
}

/// Whether a parameter has a name as tools give them; with any other it stands behind the bar.
fn is_name(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=40).contains(&key.len()) && key.bytes().all(plain)
}

/// Reasons come with and without their full stop.
fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::super::testing::request;
    use super::*;
    use helve::EffectSummary;
    use pretty_assertions::assert_eq;

    fn shown(request: &ApprovalRequest, columns: usize) -> String {
        let (rows, _) = document(request).rows(columns);
        anstream::adapter::strip_str(&rows.join("\n")).to_string()
    }

    #[test]
    fn the_whole_call_is_shown_and_nothing_can_imitate_it() {
        let mut request = request("true\u{1b}[2K\n[o]nce  [n]o\u{202e}", &[Some("true")]);
        request.args = json!({"timeout": 5, "command": request.command, "working_dir": "src"});
        request.parts[0].reason = "It removes\r things.".into();
        request.effects = Some(EffectSummary { programs: vec!["true".into()], ..EffectSummary::default() });
        assert_eq!(
            shown(&request, 80),
            "exec wants to run:\n  | true\\x1b[2K\n  | [o]nce  [n]o\\u{202e}\n  working_dir:\n  | src\n\n\
             \x20 in             /ws\n  timeout        5\n  programs       true\n\
             Asked by some.rule: It removes things."
        );
    }

    #[test]
    fn parts_that_ask_for_different_reasons_are_told_apart() {
        let mut request = request("a; b; c", &[Some("a"), Some("b"), Some("c")]);
        assert!(shown(&request, 80).ends_with("\nAsked by some.rule: it asks."));
        request.parts[1].rule = "other.rule".into();
        assert!(
            shown(&request, 80).ends_with(
                "\nAsked by some.rule: it asks.\n  | a\n  | c\nAsked by other.rule: it asks.\n  | b"
            )
        );
    }

    #[test]
    fn a_long_command_is_shown_to_its_end() {
        let request = request(&format!("{}; the end", "x".repeat(100_000)), &[None]);
        let whole = shown(&request, 10_000).replace("\n  | ", "");
        assert!(whole.contains("; the end\n"));
    }

    #[test]
    fn no_name_or_reason_can_pass_for_a_line_of_ours() {
        let mut request = request("true", &[None]);
        request.tool = "x\n[o]nce".into();
        request.args = json!({"a\n[o]nce": "b", "c\n[o]nce": 1, "deletes nothing": 1, "reads ": "b"});
        request.parts[0].reason = "because\n[o]nce".into();
        assert!(
            shown(&request, 80).lines().all(|line| !line.starts_with("[o]nce")),
            "{}",
            shown(&request, 80)
        );
        for quoted in ["\n  | {\"deletes nothing\":1}\n", "\n  | {\"reads \":\"b\"}\n"] {
            assert!(shown(&request, 80).contains(quoted), "{}", shown(&request, 80));
        }
    }

    #[test]
    fn arguments_that_are_no_object_and_no_command_are_shown_too() {
        let mut request = request("", &[None]);
        request.command = None;
        request.args = json!(["a", 1]);
        assert!(shown(&request, 80).starts_with("exec wants to be called with:\n  | [\"a\",1]\n"));
    }
}
