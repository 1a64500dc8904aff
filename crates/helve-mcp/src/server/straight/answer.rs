//! The answer to a call, written as a line: what [`shown::result`] shows to a client of the older era, without building it first.
//!
//! What every answer has is written by hand; what few have goes through `serde_json`.

use helve_core::json_text::{write_string, write_u64};
use helve_core::output::{Content, join_text};
use helve_core::{CallResult, ErrorKind};
use rmcp::ErrorData;
use rmcp::model::{NumberOrString, RequestId, ServerJsonRpcMessage};
use serde::Serialize;
use serde_json::Value;

use crate::server::shown;

/// Writes the answer to a call as a line. `declared` says whether the tool publishes a schema.
pub(in crate::server) fn answer(out: &mut Vec<u8>, id: &RequestId, result: &CallResult, declared: bool) {
    let start = out.len();
    if Answer(out).whole(id, result, declared).is_err() {
        // Everything in a result can be written; whoever waits is told all the same.
        out.truncate(start);
        refusal(out, id, ErrorData::internal_error("The result cannot be written.", None));
    }
}

/// Writes the refusal of a call as a line.
pub(in crate::server) fn refusal(out: &mut Vec<u8>, id: &RequestId, error: ErrorData) {
    write(out, &ServerJsonRpcMessage::error(error, Some(id.clone())));
}

/// Writes a message as a line.
pub(in crate::server) fn write(out: &mut Vec<u8>, message: &ServerJsonRpcMessage) {
    if serde_json::to_writer(&mut *out, message).is_ok() {
        out.push(b'\n');
    }
}

/// Writes a notification as a line.
pub(in crate::server) fn notice(out: &mut Vec<u8>, method: &'static str, params: &impl Serialize) {
    #[derive(Serialize)]
    struct Notice<'p, P> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'p P,
    }

    let start = out.len();
    match serde_json::to_writer(&mut *out, &Notice { jsonrpc: "2.0", method, params }) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(start),
    }
}

/// An answer on its way.
struct Answer<'o>(&'o mut Vec<u8>);

type Written = serde_json::Result<()>;

impl Answer<'_> {
    fn whole(&mut self, id: &RequestId, result: &CallResult, declared: bool) -> Written {
        self.raw(r#"{"jsonrpc":"2.0","id":"#);
        match id {
            NumberOrString::Number(number) => self.any(number)?,
            NumberOrString::String(text) => self.text(text),
        }
        self.raw(r#","result":{"content":["#);
        self.blocks(result)?;
        self.raw("]");
        self.structured(result, declared)?;
        self.raw(if result.ok { r#","isError":false,"_meta":{""# } else { r#","isError":true,"_meta":{""# });
        self.raw(shown::META);
        self.raw(r#"":{"#);
        self.facts(result)?;
        self.raw("}}}}\n");
        Ok(())
    }

    /// The blocks, and the kind of error behind them.
    fn blocks(&mut self, result: &CallResult) -> Written {
        let start = self.0.len();
        for block in &result.content {
            self.comma(start);
            match block {
                Content::Text { text, about: None } => self.block(text),
                other => self.any(&shown::block(other.clone()))?,
            }
        }
        if let Some(error) = result.error.as_ref().filter(|error| error.kind != ErrorKind::ToolFailed) {
            self.comma(start);
            self.block(&shown::kind(error.kind));
        }
        Ok(())
    }

    fn block(&mut self, text: &str) {
        self.raw(r#"{"type":"text","text":"#);
        self.text(text);
        self.raw("}");
    }

    /// Details with the text, and the error where there is one. What another server said stays as it came.
    fn structured(&mut self, result: &CallResult, declared: bool) -> Written {
        let CallResult { content, details, error, tainted, .. } = result;
        if details.is_null() && (tainted.is_some() || (error.is_none() && !declared)) {
            return Ok(());
        }
        self.raw(r#","structuredContent":"#);
        if tainted.is_some() {
            return self.any(details);
        }
        self.raw("{");
        let start = self.0.len();
        let details = details.as_object();
        for (name, value) in details.into_iter().flatten() {
            if !(name == "error" && error.is_some()) {
                self.comma(start);
                self.text(name);
                self.raw(":");
                self.value(value)?;
            }
        }
        if let Some(error) = error {
            self.comma(start);
            self.raw(r#""error":"#);
            self.any(error)?;
        }
        if !details.is_some_and(|details| details.contains_key("text")) {
            self.comma(start);
            self.raw(r#""text":"#);
            match &content[..] {
                [Content::Text { text, .. }] => self.text(text),
                content => self.text(&join_text(content)),
            }
        }
        self.raw("}");
        Ok(())
    }

    /// What only Helve knows of a call.
    fn facts(&mut self, result: &CallResult) -> Written {
        let CallResult { call, decision, sandbox, truncated, notes, tainted, cost, .. } = result;
        self.raw(r#""call":"#);
        self.text(call.as_str());
        self.fact(r#","decision":"#, shown::told(decision.as_ref()))?;
        if let Some(sandbox) = sandbox {
            self.raw(r#","sandbox":"#);
            self.text(&sandbox.backend);
        }
        self.fact(r#","truncated":"#, truncated.as_ref())?;
        if let Some(source) = tainted {
            self.raw(r#","tainted":"#);
            self.text(source);
        }
        self.fact(r#","cost":"#, cost.as_ref())?;
        self.fact(r#","notes":"#, Some(notes).filter(|notes| !notes.is_empty()))
    }

    /// Something that few results have.
    fn fact(&mut self, name: &str, value: Option<&impl Serialize>) -> Written {
        let Some(value) = value else { return Ok(()) };
        self.raw(name);
        self.any(value)
    }

    fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    /// A comma, where something stands behind `start`.
    fn comma(&mut self, start: usize) {
        if self.0.len() > start {
            self.0.push(b',');
        }
    }

    fn text(&mut self, text: &str) {
        let _ = write_string(self.0, text);
    }

    fn value(&mut self, value: &Value) -> Written {
        match value {
            Value::String(text) => self.text(text),
            Value::Number(number) if number.is_u64() => {
                write_u64(self.0, number.as_u64().unwrap_or_default());
            }
            value => self.any(value)?,
        }
        Ok(())
    }

    fn any(&mut self, value: &impl Serialize) -> Written {
        serde_json::to_writer(&mut *self.0, value)
    }
}
