//! Bytes of a body to an answer: events, or JSON at once from a server that does not stream. What it is shows in the first
//! byte; what servers call it does not count.
//!
//! Nothing here waits or knows of a connection, so that the same bytes give the same answer in any pieces.

use std::collections::HashSet;

use helve::mcp::holds_more_than;
use serde_json::Value;

use super::draft::{Draft, Origin};
use super::fault::{Fault, LARGEST, LARGEST_BODY, VALUES, said, shown};
use super::sse::Events;
use super::wire::{Reader, Wire, text_of};
use crate::model::{Answer, Listener, ModelErrorKind};
use crate::talk::Usage;

/// Reads one answer.
pub(super) struct Intake<'l> {
    form: Form,
    /// How many bytes came.
    bytes: usize,
    inner: Inner<'l>,
}

enum Form {
    /// Only white space so far, or a part of the mark that may stand at the very beginning.
    Unknown,
    Events(Events),
    Json(Vec<u8>),
}

struct Inner<'l> {
    reader: Box<dyn Reader>,
    draft: Draft<'l>,
    /// Who is spoken of in errors.
    provider: &'l str,
    key_hint: &'l str,
    /// How many events said something.
    events: usize,
}

/// What may stand before a text, and says nothing.
const MARK: &[u8] = b"\xef\xbb\xbf";

impl<'l> Intake<'l> {
    pub(super) fn new(
        wire: Wire,
        provider: &'l str,
        key_hint: &'l str,
        listener: Listener<'l>,
    ) -> Intake<'l> {
        let inner =
            Inner { reader: wire.reader(), draft: Draft::new(listener), provider, key_hint, events: 0 };
        Intake { form: Form::Unknown, bytes: 0, inner }
    }

    /// Takes more bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        let before = self.bytes;
        self.bytes = before.saturating_add(bytes.len());
        if self.bytes > LARGEST_BODY {
            return Err(Fault::endless());
        }
        if let Form::Unknown = self.form {
            // The mark may come in pieces.
            let mark = MARK.get(before..).unwrap_or_default();
            let same = mark.iter().zip(bytes).take_while(|(mark, byte)| mark == byte).count();
            bytes = bytes[same..].trim_ascii_start();
            self.form = match bytes.first() {
                None => return Ok(()),
                Some(b'{' | b'[') => Form::Json(Vec::new()),
                Some(b'<') => {
                    let message = format!("{} answers with a web page.", self.inner.provider);
                    let mut fault = Fault::last(ModelErrorKind::Strange, message);
                    fault.error = fault.error.hint("Check base_url.");
                    return Err(fault);
                }
                Some(_) => Form::Events(Events::new(LARGEST)),
            };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Events(events) => {
                let inner = &mut self.inner;
                events.push(bytes, &mut |data: &str| inner.event(data))
            }
            Form::Json(body) if body.len() + bytes.len() > LARGEST => Err(Fault::too_large()),
            Form::Json(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// How much of an answer came so far, in a number that grows with it. What only keeps a connection open does not count, but
    /// for pings within an answer.
    pub(super) fn progress(&self) -> usize {
        match &self.form {
            Form::Json(body) => body.len(),
            Form::Unknown | Form::Events(_) => self.inner.events,
        }
    }

    /// What the provider counted by now.
    pub(super) fn usage(&self) -> Usage {
        self.inner.draft.usage
    }

    /// Nothing more is to be expected.
    pub(super) fn is_over(&self) -> bool {
        self.inner.draft.over
    }

    /// The answer is there, though more may come.
    pub(super) fn is_whole(&self) -> bool {
        self.inner.draft.is_whole()
    }

    /// The body has ended. `used` are the names of the calls of the talk so far.
    pub(super) fn end(mut self, model: &str, used: HashSet<String>) -> Result<Answer, Fault> {
        match self.form {
            Form::Unknown => {}
            Form::Events(mut events) => {
                // A last event without its empty line counts if it is whole; half of one means that the connection broke.
                if let Some(data) = events.rest()
                    && !holds_more_than(VALUES, data.as_bytes())
                    && (data == DONE || serde_json::from_str::<Value>(&data).is_ok())
                {
                    self.inner.event(&data)?;
                }
            }
            Form::Json(body) => {
                if holds_more_than(VALUES, &body) {
                    return Err(Fault::too_many_values());
                }
                let value: Value = serde_json::from_slice(&body).map_err(|error| {
                    if error.is_eof() {
                        Fault::broken("The connection ended in the midst of an answer.")
                    } else {
                        Fault::strange(format!("{} answers with broken JSON: {error}.", self.inner.provider))
                    }
                })?;
                match value {
                    Value::Array(values) => {
                        for value in &values {
                            self.inner.value(value)?;
                        }
                    }
                    value => self.inner.value(&value)?,
                }
            }
        }
        let origin = Origin { provider: self.inner.provider, model };
        self.inner.draft.finish(origin, used)
    }
}

const DONE: &str = "[DONE]";

impl Inner<'_> {
    fn event(&mut self, data: &str) -> Result<(), Fault> {
        let data = data.trim();
        if data.is_empty() || self.draft.over {
            return Ok(());
        }
        if data == DONE {
            self.draft.over = true;
            return Ok(());
        }
        if holds_more_than(VALUES, data.as_bytes()) {
            return Err(Fault::too_many_values());
        }
        let value = serde_json::from_str::<Value>(data).map_err(|error| {
            let start: String = data.chars().take(60).collect();
            Fault::strange(format!(
                "{} sends an event that is no JSON ({error}): {}",
                self.provider,
                shown(&start)
            ))
        })?;
        // Before an answer has begun a ping only keeps the connection open. Later it says that the model is at work, which may
        // think for long without a word.
        self.events += usize::from(self.draft.begun || text_of(&value, "type") != "ping");
        self.value(&value)
    }

    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match said(value) {
            Some(said) => Err(said.fault(self.provider, self.key_hint)),
            None => self.reader.take(value, &mut self.draft),
        }
    }
}
