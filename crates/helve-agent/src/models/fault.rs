//! What goes wrong with a provider: what it says, whether it is worth asking again, and what the owner can do.

use std::time::Duration;

use helve::harmless::harmless;
use serde_json::{Value, json};

use super::sse::TooLong;
use crate::model::{ModelError, ModelErrorKind};

/// The longest part of a provider's own words that is shown, in characters.
const SHOWN: usize = 500;
/// The largest answer, in bytes.
pub(super) const LARGEST: usize = 16 << 20;
/// The largest body, in bytes: what is around an answer that comes word by word is many times the answer.
pub(super) const LARGEST_BODY: usize = 256 << 20;
/// The most values in one event, or in an answer that comes at once. Each takes far more memory than it has bytes.
pub(super) const VALUES: usize = 100_000;

/// A request that failed.
#[derive(Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) error: ModelError,
    pub(super) again: Again,
}

/// Whether another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It cannot.
    Never,
    /// It may, but not often: what came made no sense, and each try costs.
    Once,
    /// It may, after this time if the provider names one.
    After(Option<Duration>),
}

impl Fault {
    pub(super) fn last(kind: ModelErrorKind, message: impl Into<String>) -> Fault {
        Fault { error: ModelError::new(kind, message), again: Again::Never }
    }

    pub(super) fn strange(message: impl Into<String>) -> Fault {
        Fault { error: ModelError::new(ModelErrorKind::Strange, message), again: Again::Once }
    }

    pub(super) fn broken(message: impl Into<String>) -> Fault {
        Fault { error: ModelError::new(ModelErrorKind::Connection, message), again: Again::After(None) }
    }

    pub(super) fn too_many() -> Fault {
        Fault::last(ModelErrorKind::Strange, "The answer has more parts than an answer can have.")
    }

    /// What was read has far too many values to be an answer, and is not made into any.
    pub(super) fn too_many_values() -> Fault {
        Fault::last(ModelErrorKind::Strange, format!("The answer has a part of more than {VALUES} values."))
    }

    /// More came than an answer can be wrapped in.
    pub(super) fn endless() -> Fault {
        let most = LARGEST_BODY >> 20;
        Fault::last(ModelErrorKind::Strange, format!("The answer has not ended after {most} MiB."))
    }

    pub(super) fn too_large() -> Fault {
        Fault::last(ModelErrorKind::Strange, format!("The answer is larger than {} MiB.", LARGEST >> 20))
    }
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Fault {
        Fault::too_large()
    }
}

/// What a provider says went wrong, in whichever of the usual shapes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// The status of HTTP, or a number in the text that means the same.
    pub(super) status: Option<u16>,
    /// All the short names that it gives.
    names: Vec<String>,
    message: String,
    /// How long it wants to be left alone.
    after: Option<Duration>,
}

/// The error in a value; none if it holds none.
pub(super) fn said(value: &Value) -> Option<Said> {
    let value = match value {
        Value::Array(all) => all.first()?,
        other => other,
    };
    let object = match value.get("error") {
        Some(Value::Null) | None => {
            let is_error = ["type", "object"].iter().any(|key| value.get(key) == Some(&json!("error")));
            if is_error { value } else { return None }
        }
        Some(error) => error,
    };
    let mut said = Said::default();
    if let Some(text) = object.as_str() {
        said.message = text.to_owned();
        return Some(said);
    }
    let nested = object.get("details").and_then(Value::as_array).into_iter().flatten();
    for part in std::iter::once(object).chain(nested) {
        for key in ["type", "code", "status", "reason"] {
            match part.get(key) {
                Some(Value::String(name)) if !name.starts_with("type.") => {
                    said.names.push(name.to_lowercase())
                }
                Some(Value::Number(number)) => {
                    let number = number.as_u64().and_then(|number| u16::try_from(number).ok());
                    said.status = number.filter(|number| (400..600).contains(number)).or(said.status);
                }
                _ => {}
            }
        }
        if let Some(seconds) =
            part.get("retryDelay").and_then(Value::as_str).and_then(|text| text.strip_suffix('s'))
        {
            said.after =
                seconds.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        }
    }
    said.message = object.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    if said.message.is_empty() {
        said.message = object.to_string();
    }
    Some(said)
}

/// The error in the body of an answer that is none.
pub(super) fn said_in_body(status: u16, body: &[u8]) -> Said {
    let value = serde_json::from_slice::<Value>(body).ok();
    let found = value.as_ref().and_then(said);
    let mut said = found.unwrap_or_else(|| {
        let detail = value.as_ref().and_then(|value| value.get("detail").or_else(|| value.get("message")));
        let message = match detail {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::from_utf8_lossy(body).into_owned(),
        };
        Said { message, ..Said::default() }
    });
    said.status = Some(status);
    said
}

/// Words by which providers say that a request does not fit. There is no common code.
const TOO_LONG: &[&str] = &[
    "context_length",
    "context length",
    "context window",
    "context limit",
    "context size",
    "exceed_context_size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum prompt length",
    "maximum number of tokens",
    "request_too_large",
    "string_above_max_length",
];
/// Names that mean: later.
const BUSY: &[&str] = &[
    "overloaded",
    "rate_limit",
    "resource_exhausted",
    "unavailable",
    "server_error",
    "api_error",
    "internal",
    "timeout",
    "deadline_exceeded",
    "engine_overloaded",
    "upstream",
];
/// Names that mean: this key is not taken.
const KEY: &[&str] = &[
    "authentication",
    "invalid_api_key",
    "api_key_invalid",
    "permission",
    "unauthenticated",
    "unauthorized",
];
/// Names that mean: there is no more money, which waiting does not mend.
const MONEY: &[&str] = &["insufficient_quota", "billing", "credit_balance", "payment_required"];

impl Said {
    /// What to make of it. `key_hint` says how a key is given.
    pub(super) fn fault(self, provider: &str, key_hint: &str) -> Fault {
        let lower = self.message.to_lowercase();
        let named =
            |words: &[&str]| self.names.iter().any(|name| words.iter().any(|word| name.contains(word)));
        let status = self.status.unwrap_or(0);
        // A limit for a minute is not one for a request, unless the request alone is over it.
        let too_long = match status {
            413 => true,
            429 => lower.starts_with("request too large"),
            _ => named(TOO_LONG) || TOO_LONG.iter().any(|word| lower.contains(word)),
        };
        let words = shown(&self.message);
        let number = self.status.map_or(String::new(), |status| format!(" ({status})"));
        let tell = |kind, what: &str| {
            let colon = if words.is_empty() { "." } else { ": " };
            ModelError::new(kind, format!("{provider} {what}{number}{colon}{words}"))
        };
        if matches!(status, 401 | 403) || status < 429 && named(KEY) {
            let error = tell(ModelErrorKind::Key, "does not take the key").hint(key_hint);
            return Fault { error, again: Again::Never };
        }
        if status == 402 || named(MONEY) {
            let error = tell(ModelErrorKind::Request, "wants to be paid first")
                .hint("Look at the plan and the balance of the key's account.");
            return Fault { error, again: Again::Never };
        }
        if too_long {
            return Fault {
                error: tell(ModelErrorKind::TooLong, "says that the request is too long"),
                again: Again::Never,
            };
        }
        let busy = match status {
            408 | 409 | 425 | 429 => true,
            501 | 505 => false,
            500.. => true,
            0 => named(BUSY) || self.names.is_empty(),
            _ => false,
        };
        if busy {
            return Fault {
                error: tell(ModelErrorKind::Busy, "is busy or broken"),
                again: Again::After(self.after),
            };
        }
        let mut error = tell(ModelErrorKind::Request, "does not take the request");
        if status == 404 {
            error = error.hint("Check the model's name and base_url.");
        }
        Fault { error, again: Again::Never }
    }
}

/// A provider's words as they may be shown: bounded, on one line, harmless.
pub(super) fn shown(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(SHOWN));
        if line.len() > 4 * SHOWN {
            break;
        }
    }
    if let Some((end, _)) = line.char_indices().nth(SHOWN) {
        line.truncate(end);
        line.push('…');
    }
    harmless(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn kind(status: u16, body: &str) -> (ModelErrorKind, bool) {
        let fault = said_in_body(status, body.as_bytes()).fault("X", "Give a key.");
        (fault.error.kind, fault.again != Again::Never)
    }

    #[test]
    fn errors_of_the_providers() {
        use ModelErrorKind::{Busy, Key, Request, TooLong};
        for (status, body, expected) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                (Key, false),
            ),
            (403, r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#, (Key, false)),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"t","reason":"API_KEY_INVALID"}]}}"#,
                (Key, false),
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
                (TooLong, false),
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                (TooLong, false),
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                (TooLong, false),
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                (TooLong, false),
            ),
            (413, "", (TooLong, false)),
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30000.","code":"rate_limit_exceeded"}}"#,
                (TooLong, false),
            ),
            (
                400,
                r#"{"object":"error","message":"maximum context length is 4096","type":"BadRequestError","code":400}"#,
                (TooLong, false),
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit: context window tokens per minute","type":"tokens","code":"rate_limit_exceeded"}}"#,
                (Busy, true),
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                (Request, false),
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                (Busy, true),
            ),
            (503, "<html>busy</html>", (Busy, true)),
            (501, "no", (Request, false)),
            (404, r#"{"error":"model 'x' not found"}"#, (Request, false)),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, (Request, false)),
            (400, "", (Request, false)),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream() {
        use ModelErrorKind::{Busy, Request, TooLong};
        for (value, expected) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                (Busy, true),
            ),
            (
                json!({"error": {"code": 502, "message": "bad gateway"}, "choices": [{"finish_reason": "error"}]}),
                (Busy, true),
            ),
            (json!({"type": "error", "code": "server_error", "message": "x"}), (Busy, true)),
            (json!([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}]), (Busy, true)),
            (json!({"error": "something"}), (Busy, true)),
            (json!({"object": "error", "type": "Unavailable", "code": 503, "message": "x"}), (Busy, true)),
            (json!({"type": "error", "code": "context_length_exceeded", "message": "x"}), (TooLong, false)),
            (json!({"error": {"type": "invalid_request_error", "message": "x"}}), (Request, false)),
        ] {
            let fault = said(&value).expect("an error").fault("X", "");
            assert_eq!((fault.error.kind, fault.again != Again::Never), expected, "{value}");
        }
        for value in [
            json!({"error": null, "choices": []}),
            json!({"type": "response.completed"}),
            json!([]),
            json!(1),
        ] {
            assert_eq!(said(&value), None);
        }
    }

    #[test]
    fn a_pause_that_gemini_asks_for() {
        let value = json!({"error": {"code": 429, "message": "Quota", "details": [{"retryDelay": "1.5s"}]}});
        let fault = said(&value).expect("an error").fault("X", "");
        assert_eq!(fault.again, Again::After(Some(Duration::from_millis(1500))));
    }

    #[test]
    fn words_are_bounded_and_harmless() {
        let text = shown(&format!("a\n\u{1b}[31m {}", "x".repeat(100_000)));
        assert!(text.starts_with("a \\x1b[31m xx") && text.ends_with('…') && text.len() < 600, "{text}");
    }
}
