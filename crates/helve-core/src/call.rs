//! A call as it comes in, and its result as it goes out on every wire.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::error::{ErrorKind, Problem, ToolError};
use crate::output::{Content, Cost, Truncated, join_text};
use crate::verdict::Decision;

/// The name of one call: `c_` and 26 letters that sort by time. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(Arc<str>);

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input).map(|text| CallId(text.into()))
    }
}

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl CallId {
    /// Builds an id from milliseconds since 1970 and 80 random bits (a ULID).
    pub fn from_parts(unix_ms: u64, random: u128) -> Self {
        let bits = (u128::from(unix_ms & 0xFFFF_FFFF_FFFF) << 80) | (random & ((1 << 80) - 1));
        let mut text = *b"c_00000000000000000000000000";
        let mut left = bits;
        for letter in text[2..].iter_mut().rev() {
            *letter = CROCKFORD[(left & 31) as usize];
            left >>= 5;
        }
        // All of them are ASCII.
        CallId(std::str::from_utf8(&text).unwrap_or_default().into())
    }

    /// The milliseconds since 1970 that an id begins with; none if the text is no id.
    pub fn unix_ms(text: &str) -> Option<u64> {
        let letters = text.strip_prefix("c_").filter(|letters| letters.len() == 26)?;
        let (time, random) = letters.as_bytes().split_at(10);
        let digit = |letter: &u8| CROCKFORD.iter().position(|one| one == letter);
        random.iter().all(|letter| digit(letter).is_some()).then_some(())?;
        time.iter().try_fold(0, |sum: u64, letter| Some((sum << 5) | digit(letter)? as u64))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Arguments as they arrive. Text keeps what a parsed value has lost: duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Args {
    /// Unparsed JSON text.
    Text(String),
    /// An already parsed value.
    Value(Value),
}

impl From<Value> for Args {
    fn from(value: Value) -> Self {
        Args::Value(value)
    }
}

/// One tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The caller's own id, echoed in the result.
    pub id: Option<Value>,
    /// The tool's name or one of its aliases.
    pub tool: String,
    /// The arguments.
    pub args: Args,
}

impl Call {
    /// A call without an id of the caller's.
    pub fn new(tool: impl Into<String>, args: impl Into<Args>) -> Self {
        Call { id: None, tool: tool.into(), args: args.into() }
    }
}

/// Which sandbox ran the call and which layers it really had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The backend's name: `bwrap`, `wrapper`, `none`, …
    pub backend: String,
    /// The layers of our own making that were in force; empty for a bare command.
    pub layers: Vec<String>,
}

/// A report that many results carry: all calls of a server have the same. Written once, and cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedReport(Arc<(SandboxReport, String)>);

impl SharedReport {
    /// The report as JSON, canonical as it stands.
    pub fn json(&self) -> &str {
        &self.0.1
    }
}

impl From<SandboxReport> for SharedReport {
    fn from(report: SandboxReport) -> Self {
        // Texts alone: that cannot fail.
        let json = serde_json::to_string(&report).unwrap_or_default();
        SharedReport(Arc::new((report, json)))
    }
}

impl Deref for SharedReport {
    type Target = SandboxReport;

    fn deref(&self) -> &SandboxReport {
        &self.0.0
    }
}

impl Serialize for SharedReport {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(out)
    }
}

impl<'de> Deserialize<'de> for SharedReport {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        SandboxReport::deserialize(input).map(SharedReport::from)
    }
}

/// The error part of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireError {
    /// Which of the closed set.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// For `invalid_params`: every problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

impl From<ToolError> for WireError {
    fn from(error: ToolError) -> Self {
        let ToolError { kind, message, hint, problems, output: _ } = error;
        WireError { kind, message, hint, problems }
    }
}

impl From<WireError> for ToolError {
    fn from(error: WireError) -> Self {
        let WireError { kind, message, hint, problems } = error;
        ToolError { hint, problems, ..ToolError::new(kind, message) }
    }
}

/// The whole result of a call, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallResult {
    /// The caller's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Helve's id.
    pub call: CallId,
    /// The tool's canonical name, or the unknown name as it came.
    pub tool: String,
    /// Whether it worked.
    pub ok: bool,
    /// What the model reads.
    pub content: Vec<Content>,
    /// What a program reads.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Why it did not work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
    /// Repairs that were made to the arguments, for the curious.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What authorize said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Where it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SharedReport>,
    /// Who else wrote what the model reads: a source that the owner does not vouch for, such as `mcp:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted: Option<String>,
    /// What was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// What it cost.
    #[serde(serialize_with = "cost_or_null")]
    pub cost: Option<Cost>,
    /// From the call's arrival to its result, in microseconds.
    pub duration_us: u64,
}

fn cost_or_null<S: Serializer>(cost: &Option<Cost>, out: S) -> Result<S::Ok, S::Error> {
    cost.serialize(out)
}

impl CallResult {
    /// The result of a call that worked and says no more than a text.
    pub fn saying(call: CallId, tool: impl Into<String>, text: impl Into<String>) -> CallResult {
        CallResult {
            id: None,
            call,
            tool: tool.into(),
            ok: true,
            content: vec![Content::text(text)],
            details: Value::Null,
            error: None,
            notes: Vec::new(),
            decision: None,
            sandbox: None,
            tainted: None,
            truncated: None,
            cost: None,
            duration_us: 0,
        }
    }

    /// The text that the model reads.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }

    /// The exit code of `helve call` for this result.
    pub fn exit_code(&self) -> u8 {
        self.error.as_ref().map_or(0, |error| error.kind.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let early = CallId::from_parts(1, u128::MAX);
        let late = CallId::from_parts(2, 0);
        assert!(early < late);
        assert_eq!(early.as_str().len(), 28);
        for ms in [0, 1, 1_794_000_000_123, (1 << 48) - 1] {
            assert_eq!(CallId::unix_ms(CallId::from_parts(ms, u128::MAX).as_str()), Some(ms));
        }
        for text in ["", "c_1", "c_0000000000000000000000000!", "c_!0000000000000000000000000"] {
            assert_eq!(CallId::unix_ms(text), None, "{text}");
        }
    }
}
