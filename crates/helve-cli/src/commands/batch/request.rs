//! What a line asks for: one call, or an array of calls. Arguments stay text, so that the pipeline sees what a parser
//! would lose; what is no call becomes a result line that says why.

use helve::{Args, Call, Content as Block, ErrorKind};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
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
            content: [Block::Text { text }],
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

/// The keys of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    tool: String,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// What can be told of something that is no call.
#[derive(Default, Deserialize)]
struct Remains {
    id: Option<Value>,
    tool: Option<Value>,
}

/// A null that was written is echoed as such.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

/// The slots of one line.
pub(super) fn read(number: u64, content: Content) -> Vec<Slot> {
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
    if !line.trim_start().starts_with('[') {
        return vec![slot(&line, || format!("Line {number}"))];
    }
    match serde_json::from_str::<Vec<&RawValue>>(&line) {
        Ok(calls) => {
            let place = |at: usize| move || format!("Line {number}, element {}", at + 1);
            calls.iter().enumerate().map(|(at, call)| slot(call.get(), place(at))).collect()
        }
        Err(error) => refuse(error.to_string()),
    }
}

fn slot(text: &str, place: impl Fn() -> String) -> Slot {
    match serde_json::from_str::<Request<'_>>(text) {
        Ok(Request { id, tool, args }) => {
            let args = args.map_or("{}", RawValue::get).to_owned();
            Slot::Call(Call { id, tool, args: Args::Text(args) })
        }
        Err(error) => {
            let remains: Remains = serde_json::from_str(text).unwrap_or_default();
            let message = format!("{} is not a call: {error}.", place());
            let refused = Refused::new(ErrorKind::InvalidParams, message, HINT);
            let tool = remains.tool.and_then(|tool| tool.as_str().map(str::to_owned));
            Slot::Refused(Refused { id: remains.id, tool, ..refused })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn text(line: &str) -> Vec<Slot> {
        read(7, Content::Text(line.to_owned()))
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
        assert_eq!(
            refusals(&text("nonsense")),
            [json!({
                "id": null,
                "call": null,
                "tool": null,
                "ok": false,
                "content": [{
                    "type": "text",
                    "text": format!("Error: Line 7 is not a call: expected ident at line 1 column 2.\n\n{HINT}"),
                }],
                "error": {
                    "kind": "invalid_params",
                    "message": "Line 7 is not a call: expected ident at line 1 column 2.",
                    "hint": HINT,
                },
                "cost": null,
                "duration_us": 0,
            })]
        );
    }

    #[test]
    fn what_can_be_told_is_told() {
        let message = |slots: &[Slot]| refusals(slots)[0]["error"]["message"].as_str().unwrap().to_owned();
        let unknown = text(r#"{"id":"x","tool":"t","arguments":{}}"#);
        assert_eq!(
            (&refusals(&unknown)[0]["id"], &refusals(&unknown)[0]["tool"]),
            (&json!("x"), &json!("t"))
        );
        assert!(message(&unknown).contains("unknown field `arguments`"), "{}", message(&unknown));
        assert!(message(&text(r#"{"args":{}}"#)).contains("missing field `tool`"));
        assert!(message(&text(r#"{"tool":"a","tool":"b"}"#)).contains("duplicate field `tool`"));
        let long = read(1, Content::TooLong { bytes: 9, limit: 8 });
        assert_eq!(
            message(&long),
            "Line 1 is not a call: it has 9 bytes, and limits.batch_line_bytes allows 8."
        );
        assert!(message(&read(1, Content::NotText)).contains("UTF-8"));
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
