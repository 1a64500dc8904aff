//! What a line asks for: one call, or an array of calls. Arguments stay text, so that the pipeline sees what a parser
//! would lose; what is no call becomes a result line that says why, in words for whoever wrote the line.

use std::fmt;

use helve::{Args, Call, Content as Block, ErrorKind, Limits, strict_json};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::lines::Content;

/// What stands in one place of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Slot {
    Call(Call),
    Refused(Refused),
}

/// The result line of something that did not become a call, or whose result is lost. It has the shape of every other
/// result; there is no call to name.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Refused {
    id: Option<Value>,
    call: (),
    tool: Option<String>,
    ok: bool,
    content: [Block; 1],
    error: Error,
    cost: (),
    duration_us: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Error {
    kind: ErrorKind,
    message: String,
    hint: &'static str,
}

const HINT: &str =
    "Write one JSON object a line with the keys id (optional), tool and args, or an array of such objects.";

impl Refused {
    fn new(kind: ErrorKind, message: String, hint: &'static str) -> Self {
        let text = format!("Error: {message}\n\n{hint}");
        Refused {
            id: None,
            call: (),
            tool: None,
            ok: false,
            content: [Block::text(text)],
            error: Error { kind, message, hint },
            cost: (),
            duration_us: 0,
        }
    }

    /// What stands for a call that ended without a result, which only a fault of Helve's own can bring about.
    pub(super) fn lost(id: Option<Value>) -> Self {
        let message = "The call ended without a result.".to_owned();
        let lost = Refused::new(
            ErrorKind::Internal,
            message,
            "Look it up with `helve log`, and report this as a bug.",
        );
        Refused { id, ..lost }
    }
}

/// The keys of a call, their values as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool: &'a RawValue,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// What can be told of something that is no call.
#[derive(Default, Deserialize)]
struct Remains<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool: Option<&'a RawValue>,
}

/// A null that was written is echoed as such.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(input).map(Some)
}

/// The slots of one line.
pub(super) fn read(number: u64, content: Content, limits: &Limits) -> Vec<Slot> {
    let refuse = |why: String| {
        let message = format!("Line {number} is not a call: {why}.");
        vec![Slot::Refused(Refused::new(ErrorKind::InvalidParams, message, HINT))]
    };
    let line = match content {
        Content::Text(line) => line,
        Content::TooLong { bytes, limit } => {
            return refuse(format!("it has {bytes} bytes, and limits.batch_line_bytes allows {limit}"));
        }
        Content::NotText => return refuse("it is not UTF-8 text".to_owned()),
    };
    match start(&line) {
        Some('{') => return vec![slot(&line, 0, limits, || format!("Line {number}"))],
        Some('[') => {}
        Some('\u{feff}') => return refuse("it starts with a byte-order mark: remove it".to_owned()),
        _ => return refuse("it starts with neither { nor [".to_owned()),
    }
    let Elements { kept, count } = match elements(&line, limits.batch_calls) {
        Ok(elements) => elements,
        Err(error) => return refuse(plain(&error, 0)),
    };
    if count > limits.batch_calls {
        let most = limits.batch_calls;
        let message = format!("Line {number} holds {count} calls, and limits.batch_calls allows {most}.");
        let hint = "None of them was made. Spread them over several lines.";
        return vec![Slot::Refused(Refused::new(ErrorKind::TooLarge, message, hint))];
    }
    let place = |at: usize| move || format!("Line {number}, element {}", at + 1);
    let from = |element: &str| element.as_ptr().addr() - line.as_ptr().addr();
    let elements = kept.iter().map(|element| element.get()).enumerate();
    elements.map(|(at, element)| slot(element, from(element), limits, place(at))).collect()
}

/// The first character that is not white space to JSON.
fn start(text: &str) -> Option<char> {
    text.chars().find(|ch| !matches!(ch, ' ' | '\t' | '\r' | '\n'))
}

/// The elements of an array, as far as they may be run, and how many there are.
struct Elements<'a> {
    kept: Vec<&'a RawValue>,
    count: u64,
}

/// Reads the array to its end; what is over the limit is counted, not kept.
fn elements(line: &str, most: u64) -> serde_json::Result<Elements<'_>> {
    struct UpTo(u64);
    impl<'de> Visitor<'de> for UpTo {
        type Value = Elements<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of calls")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Elements<'de>, A::Error> {
            let mut found = Elements { kept: Vec::new(), count: 0 };
            while found.count < self.0
                && let Some(element) = seq.next_element()?
            {
                found.kept.push(element);
                found.count += 1;
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {
                found.count += 1;
            }
            Ok(found)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(line);
    let found = reader.deserialize_seq(UpTo(most))?;
    reader.end().map(|()| found)
}

/// One call of a line; `from` is where it starts there.
fn slot(text: &str, from: usize, limits: &Limits, place: impl Fn() -> String) -> Slot {
    let why = match request(text, from, limits) {
        Ok(call) => return Slot::Call(call),
        Err(why) => why,
    };
    let message = format!("{} is not a call: {why}.", place());
    let refused = Refused::new(ErrorKind::InvalidParams, message, HINT);
    let remains = match start(text) {
        Some('{') => serde_json::from_str(text).unwrap_or_default(),
        _ => Remains::default(),
    };
    let id = remains.id.and_then(|id| read_id(id, limits).ok());
    let tool = remains.tool.and_then(|tool| serde_json::from_str(tool.get()).ok());
    Slot::Refused(Refused { id, tool, ..refused })
}

/// The call, or why it is none.
fn request(text: &str, from: usize, limits: &Limits) -> Result<Call, String> {
    // An array of the values would be taken for the object otherwise.
    if start(text) != Some('{') {
        return Err(format!("it is not a JSON object (byte {from})"));
    }
    let Request { id, tool, args } = serde_json::from_str(text).map_err(|error| plain(&error, from))?;
    let id = id.map(|id| read_id(id, limits)).transpose();
    let id = id.map_err(|why| format!("its id cannot be given back as it is: {why}"))?;
    let tool =
        serde_json::from_str(tool.get()).map_err(|_| "the value of `tool` is not a text".to_owned())?;
    Ok(Call { id, tool, args: Args::Text(args.map_or("{}", RawValue::get).to_owned()) })
}

/// The id, if it comes out again as it went in.
fn read_id(id: &RawValue, limits: &Limits) -> Result<Value, String> {
    let depth = usize::try_from(limits.args_depth).unwrap_or(usize::MAX);
    strict_json::read(id.get(), depth).map_err(|malformed| malformed.reason)
}

/// What the parser found wrong, in words that need no knowledge of it, and the byte of the line at which it shows.
fn plain(error: &serde_json::Error, from: usize) -> String {
    const LONGEST: usize = 200;
    let told = error.to_string();
    let reason = told.rsplit_once(" at line ").map_or(told.as_str(), |(reason, _)| reason);
    let reason = match (error.classify(), reason) {
        (Category::Eof, _) => "it ends too early".to_owned(),
        (_, "expected ident") => "there is a word that JSON does not know".to_owned(),
        (_, "expected value") => "a JSON value is expected".to_owned(),
        (_, "key must be a string") => "a key is not in double quotes".to_owned(),
        (_, "trailing characters") => "something follows its end".to_owned(),
        (Category::Data, reason) => reason.replacen(" field `", " key `", 1),
        (_, reason) => reason.to_owned(),
    };
    let reason: String = reason.chars().take(LONGEST).collect();
    format!("{reason} (byte {})", from + error.column().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn text(line: &str) -> Vec<Slot> {
        read(7, Content::Text(line.to_owned()), &Limits::default())
    }

    fn call(id: Option<Value>, tool: &str, args: &str) -> Slot {
        Slot::Call(Call { id, tool: tool.to_owned(), args: Args::Text(args.to_owned()) })
    }

    fn refusals(slots: &[Slot]) -> Vec<Value> {
        slots
            .iter()
            .map(|slot| match slot {
                Slot::Refused(refused) => serde_json::to_value(refused).unwrap(),
                Slot::Call(call) => panic!("{call:?}"),
            })
            .collect()
    }

    #[test]
    fn a_line_is_a_call_and_an_array_is_several() {
        assert_eq!(
            text(r#" {"tool":"t","args":{"a":1, "a":2},"id":[1]}"#),
            [call(Some(json!([1])), "t", r#"{"a":1, "a":2}"#)]
        );
        assert_eq!(text(r#"{"tool":"t","args":null,"id":null}"#), [call(Some(Value::Null), "t", "{}")]);
        assert_eq!(
            text(r#"[{"tool":"a"},{"tool":"b","args":"{}"}]"#),
            [call(None, "a", "{}"), call(None, "b", r#""{}""#)]
        );
        assert_eq!(text("[]"), []);
    }

    #[test]
    fn a_bad_line_is_a_whole_result() {
        let message = "Line 7 is not a call: it starts with neither { nor [.";
        assert_eq!(
            refusals(&text("nonsense")),
            [json!({
                "id": null,
                "call": null,
                "tool": null,
                "ok": false,
                "content": [{"type": "text", "text": format!("Error: {message}\n\n{HINT}")}],
                "error": {"kind": "invalid_params", "message": message, "hint": HINT},
                "cost": null,
                "duration_us": 0,
            })]
        );
    }

    fn message(slots: &[Slot]) -> String {
        refusals(slots)[0]["error"]["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let cases = [
            ("nonsense", "it starts with neither { nor ["),
            ("\u{a0}{}", "it starts with neither { nor ["),
            ("\u{feff}{\"tool\":\"t\"}", "it starts with a byte-order mark: remove it"),
            (r#"{"tool":"t""#, "it ends too early (byte 10)"),
            (r#"{"tool":"t"} x"#, "something follows its end (byte 13)"),
            (r#"{"tool":nope}"#, "there is a word that JSON does not know (byte 9)"),
            (r#"{"tool":}"#, "a JSON value is expected (byte 8)"),
            (r#"{tool:1}"#, "a key is not in double quotes (byte 1)"),
            (r#"{"tool" 1}"#, "expected `:` (byte 8)"),
            (r#"[{"tool":"t"}"#, "it ends too early (byte 12)"),
            (r#"{"tool":5}"#, "the value of `tool` is not a text"),
            (r#"{"args":{}}"#, "missing key `tool` (byte 10)"),
            (r#"{"tool":"a","tool":"b"}"#, "duplicate key `tool` (byte 17)"),
        ];
        for (line, why) in cases {
            assert_eq!(message(&text(line)), format!("Line 7 is not a call: {why}."), "{line}");
        }
        assert_eq!(
            message(&text(r#"[ 5]"#)),
            "Line 7, element 1 is not a call: it is not a JSON object (byte 2)."
        );
        assert_eq!(
            message(&text(r#"[{"tool":"t","tool":1}]"#)),
            "Line 7, element 1 is not a call: duplicate key `tool` (byte 18)."
        );
        let long = text(&format!(r#"{{"{}":1}}"#, "x".repeat(100_000)));
        assert!(message(&long).len() < 300, "a long key is cut");
    }

    #[test]
    fn only_an_object_is_a_call() {
        for line in [r#"[[null,"echo",{"message":"x"}]]"#, r#"[["echo"]]"#, r#"["echo"]"#, r#"[null]"#] {
            assert!(message(&text(line)).contains("it is not a JSON object"), "{line}");
        }
    }

    #[test]
    fn an_id_is_given_back_as_it_is_or_refused() {
        for id in ["18446744073709551615", "-9223372036854775808", "1.5", r#""12345678901234567890123""#] {
            let slots = text(&format!(r#"{{"id":{id},"tool":"t"}}"#));
            let Slot::Call(call) = &slots[0] else { panic!("{slots:?}") };
            assert_eq!(call.id.as_ref().map(Value::to_string), Some(id.to_owned()));
        }
        for id in ["12345678901234567890123", r#"{"a":[12345678901234567890123]}"#] {
            let slots = text(&format!(r#"{{"id":{id},"tool":"t"}}"#));
            assert_eq!(refusals(&slots)[0]["id"], Value::Null, "{id}");
            assert!(message(&slots).contains("quote it"), "{}", message(&slots));
        }
        assert!(message(&text(r#"{"id":{"a":1,"a":2},"tool":"t"}"#)).contains("duplicate key"));
    }

    #[test]
    fn what_can_be_told_is_told() {
        let unknown = text(r#"{"id":"x","tool":"t","arguments":{}}"#);
        assert_eq!(
            (&refusals(&unknown)[0]["id"], &refusals(&unknown)[0]["tool"]),
            (&json!("x"), &json!("t"))
        );
        assert!(message(&unknown).contains("unknown key `arguments`"), "{}", message(&unknown));
        let long = read(1, Content::TooLong { bytes: 9, limit: 8 }, &Limits::default());
        assert_eq!(
            message(&long),
            "Line 1 is not a call: it has 9 bytes, and limits.batch_line_bytes allows 8."
        );
        assert!(message(&read(1, Content::NotText, &Limits::default())).contains("UTF-8"));
    }

    #[test]
    fn an_array_of_too_many_calls_is_refused_as_one() {
        let limits = Limits { batch_calls: 2, ..Limits::default() };
        let array = |count: usize| {
            let line = format!("[{}]", vec![r#"{"tool":"t"}"#; count].join(","));
            read(7, Content::Text(line), &limits)
        };
        assert_eq!(array(2), [call(None, "t", "{}"), call(None, "t", "{}")]);
        for count in [3, 100_000] {
            let refused = refusals(&array(count));
            assert_eq!((refused.len(), &refused[0]["error"]["kind"]), (1, &json!("too_large")));
            let expected = format!("Line 7 holds {count} calls, and limits.batch_calls allows 2.");
            assert_eq!(refused[0]["error"]["message"], expected);
        }
    }

    #[test]
    fn in_an_array_only_what_is_wrong_is_refused() {
        let slots = text(r#"[{"tool":"a"},5,{"tool":"b"}]"#);
        assert_eq!(slots[0], call(None, "a", "{}"));
        assert_eq!(slots[2], call(None, "b", "{}"));
        let refused = &refusals(&slots[1..2])[0];
        assert!(refused["error"]["message"].as_str().unwrap().starts_with("Line 7, element 2 is not a call"));
    }

    #[test]
    fn deep_nesting_is_left_to_the_pipeline_or_refused_but_never_overflows() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(&text(&format!(r#"{{"tool":"t","args":{deep}}}"#))[..], [Slot::Call(_)]));
        assert_eq!(refusals(&text(&format!(r#"{{"tool":"t","id":{deep}}}"#))).len(), 1);
        assert_eq!(refusals(&text(&deep)).len(), 1);
    }
}
