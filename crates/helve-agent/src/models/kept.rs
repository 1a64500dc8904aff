//! The order in which an answer came, with what a provider wants to see again between and beside its parts.
//!
//! Text and calls stand in the message itself; here are only their places, so that nothing is said twice and a message that
//! was changed is not changed back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Card;
use crate::talk::{ModelMessage, ToolUse};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// So much of the text.
    Text {
        bytes: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Value>,
    },
    /// A call.
    Call {
        index: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Value>,
    },
    /// Something of the provider's own.
    Own { value: Value },
}

/// What is kept: the parts, and the model that they came from. Signed thoughts are of use to that one alone.
#[derive(Serialize, Deserialize)]
struct Whole {
    model: String,
    parts: Vec<Part>,
}

/// What is to be kept of the parts; none if the message says it all.
pub(super) fn value(model: &str, parts: Vec<Part>) -> Option<Value> {
    let special = parts.iter().any(|part| match part {
        Part::Text { extra, .. } | Part::Call { extra, .. } => extra.is_some(),
        Part::Own { value } => !value.is_null(),
    });
    if !special {
        return None;
    }
    let parts: Vec<Part> =
        parts.into_iter().filter(|part| !matches!(part, Part::Own { value: Value::Null })).collect();
    serde_json::to_value(Whole { model: model.to_owned(), parts }).ok()
}

/// A part of a message, to be written down for a provider.
#[derive(Debug, PartialEq)]
pub(super) enum Written<'a> {
    /// Text that is not empty, or something is attached to it.
    Text(&'a str, Option<Value>),
    /// A call.
    Call(&'a ToolUse, Option<Value>),
    /// Something of the provider's own.
    Own(Value),
}

/// The parts of a message in the order in which this model gave them; text and then calls where that is not known.
pub(super) fn written<'a>(message: &'a ModelMessage, card: &Card) -> Vec<Written<'a>> {
    let kept = message.kept.as_ref().filter(|kept| kept.provider == card.provider);
    let whole = kept.and_then(|kept| serde_json::from_value::<Whole>(kept.value.clone()).ok());
    let parts = whole.filter(|whole| whole.model == card.name).map(|whole| whole.parts).unwrap_or_default();
    in_order(message, &parts).unwrap_or_else(|| beside(message, parts))
}

/// The parts in their order; none if they do not fit the message.
fn in_order<'a>(message: &'a ModelMessage, parts: &[Part]) -> Option<Vec<Written<'a>>> {
    let (mut text, mut calls) = (message.text.as_str(), message.calls.iter().enumerate());
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { bytes, extra } => {
                let (now, rest) = text.split_at_checked(*bytes)?;
                text = rest;
                out.push(Written::Text(now, extra.clone()));
            }
            Part::Call { index, extra } => {
                let (at, call) = calls.next()?;
                if at != *index {
                    return None;
                }
                out.push(Written::Call(call, extra.clone()));
            }
            Part::Own { value } => out.push(Written::Own(value.clone())),
        }
    }
    (text.is_empty() && calls.next().is_none()).then_some(out)
}

/// A message that was changed: the provider's own first, then text, then calls.
fn beside(message: &ModelMessage, parts: Vec<Part>) -> Vec<Written<'_>> {
    let mut own = Vec::new();
    let mut extras = vec![None; message.calls.len()];
    for part in parts {
        match part {
            Part::Own { value } => own.push(Written::Own(value)),
            Part::Call { index, extra } => {
                if let Some(slot) = extras.get_mut(index) {
                    *slot = extra;
                }
            }
            Part::Text { .. } => {}
        }
    }
    if !message.text.is_empty() {
        own.push(Written::Text(&message.text, None));
    }
    own.extend(message.calls.iter().zip(extras).map(|(call, extra)| Written::Call(call, extra)));
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::Kept;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn call(id: &str) -> ToolUse {
        ToolUse { id: id.into(), name: "t".into(), args: "{}".into() }
    }

    #[test]
    fn parts_come_back_in_their_order() {
        let parts = vec![
            Part::Own { value: json!({"sign": 1}) },
            Part::Text { bytes: 2, extra: None },
            Part::Own { value: Value::Null },
            Part::Call { index: 0, extra: Some(json!("x")) },
            Part::Text { bytes: 1, extra: None },
        ];
        let card = |provider: &str, name: &str| Card {
            provider: provider.into(),
            name: name.into(),
            context_window: 1,
            max_output: 1,
            price: None,
        };
        let (own_card, other, other_model) = (card("p", "m"), card("q", "m"), card("p", "n"));
        let kept = value("m", parts).map(|value| Kept { provider: "p".into(), value });
        let message = ModelMessage { text: "äb".into(), calls: vec![call("1")], kept };
        let own = || Written::Own(json!({"sign": 1}));
        assert_eq!(
            written(&message, &own_card),
            [
                own(),
                Written::Text("ä", None),
                Written::Call(&message.calls[0], Some(json!("x"))),
                Written::Text("b", None)
            ]
        );
        // Nobody else sees anything of it.
        for card in [&other, &other_model] {
            let plain = [Written::Text("äb", None), Written::Call(&message.calls[0], None)];
            assert_eq!(written(&message, card), plain);
        }
        // A message that was changed is not changed back.
        let changed = ModelMessage { text: "c".into(), ..message.clone() };
        assert_eq!(
            written(&changed, &own_card),
            [own(), Written::Text("c", None), Written::Call(&message.calls[0], Some(json!("x")))]
        );
        let fewer = ModelMessage { calls: Vec::new(), ..message };
        assert_eq!(written(&fewer, &own_card), [own(), Written::Text("äb", None)]);
    }

    #[test]
    fn a_plain_answer_needs_nothing_kept() {
        assert_eq!(
            value("m", vec![Part::Text { bytes: 2, extra: None }, Part::Call { index: 0, extra: None }]),
            None
        );
    }
}
