//! Govern: what the model may see of an output.
//!
//! A command's output is governed while it streams ([`drain`]); every other output here, when the tool returns it:
//! known secrets redacted ([`redact`]), terminal escapes and invisible characters made visible ([`helve_core::harmless`]), cut to
//! head and tail with the whole kept as a blob, other blocks bounded ([`blocks`]), details held against their declared
//! schema.

mod blocks;
pub(crate) mod drain;
pub(crate) mod redact;

use std::borrow::Cow;
use std::sync::Arc;

use helve_core::harmless::{harmless, make_harmless};
use helve_core::text::{Capture, compose, omission};
use helve_core::{BlobRef, CallId, Content, Limits, Output, ToolError, Truncated};
use serde_json::Value;

use super::normalize::weight;
use super::validate::Validator;
use redact::Secrets;

/// The mark in a text that was cut by its handle is at most this long.
const MARK_CHARS: usize = 256;

/// What the stage needs to know.
pub(crate) struct Governor {
    pub(crate) secrets: Option<Arc<Secrets>>,
    pub(crate) limits: Arc<Limits>,
}

/// Where an output comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// What its details must look like.
    pub(crate) schema: Option<&'a Validator>,
    /// It comes from a program that is not Helve's: nothing in it is taken as harmless, and it must keep its word.
    pub(crate) foreign: bool,
}

impl Governor {
    /// A text without secrets, harmless.
    pub(crate) fn clean(&self, text: &str) -> String {
        match &self.secrets {
            Some(secrets) => harmless(&secrets.redact(text)),
            None => harmless(text),
        }
    }

    /// The same where the text stands.
    fn clean_in_place(&self, text: &mut String) {
        if let Some(secrets) = &self.secrets
            && let Cow::Owned(clean) = secrets.redact(text)
        {
            *text = clean;
        }
        make_harmless(text);
    }

    /// A clean text of at most `chars` characters, head and tail kept. Redacted first and cut second: a cut through a
    /// secret would hide it from the search.
    pub(crate) fn clean_short(&self, text: &str, chars: usize) -> String {
        let clean = self.clean(text);
        compose(&[Capture::whole(&clean)], chars, |n| format!(" … ({n} characters left out) … ")).text
    }

    /// A text without secrets, otherwise as it is.
    pub(crate) fn redact(&self, text: &str) -> String {
        match &self.secrets {
            Some(secrets) => secrets.redact(text).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Whether there is a secret in a value.
    pub(crate) fn has_secret(&self, value: &Value) -> bool {
        self.secrets.as_ref().is_some_and(|secrets| secrets.are_in(value))
    }

    /// Whether a secret is in a text behind escapes of JSON.
    pub(crate) fn hides_secret(&self, text: &str) -> bool {
        self.secrets.as_ref().is_some_and(|secrets| secrets.are_behind_escapes(text))
    }

    /// A value without secrets.
    pub(crate) fn clean_value(&self, value: &mut Value) {
        if let Some(secrets) = &self.secrets {
            secrets.redact_value(value);
        }
    }

    /// The stage. Gives notes for the result where something had to be left out; an error where an answer from elsewhere
    /// does not keep to what its own tool declares.
    pub(crate) fn govern(
        &self,
        call: &CallId,
        output: &mut Output,
        by: &Origin<'_>,
        keep: impl FnOnce(&str) -> Result<BlobRef, String>,
    ) -> Result<Vec<String>, ToolError> {
        let mut notes = Vec::new();
        // What fits before it is redacted fits: a number that tells a secret becomes a text.
        let fitted = by.schema.filter(|_| self.has_secret(&output.details));
        let fitted = fitted.is_some_and(|schema| misfit(schema, &output.details).is_none());
        if by.foreign {
            self.clean_deep(&mut output.details);
        } else {
            self.clean_value(&mut output.details);
        }
        if let Some(raw) = &mut output.raw {
            *raw = self.clean_short(raw, usize::try_from(self.limits.raw_bytes / 4).unwrap_or(usize::MAX));
        }
        let misfit = by.schema.filter(|_| !fitted).and_then(|schema| misfit(schema, &output.details));
        if let Some(note) = misfit.as_ref().filter(|_| by.foreign) {
            return Err(ToolError::failed(format!("The server's answer was refused: {note}."))
                .hint("This is a fault of the server; nothing in the arguments can mend it."));
        }
        if let Some(note) = misfit.or_else(|| self.oversize(&output.details)) {
            output.details = Value::Null;
            notes.push(note);
        }
        self.blocks(output, &mut notes);
        self.text(call, output, keep, &mut notes);
        Ok(notes)
    }

    fn oversize(&self, details: &Value) -> Option<String> {
        let bytes = weight(details);
        let limit = self.limits.details_bytes;
        (bytes > limit).then(|| {
            format!("the tool's details are about {bytes} bytes long (limit {limit}) and were left out")
        })
    }

    /// Cleans every text block and cuts them together to the budget, which is larger for a page that the tool has cut
    /// itself. A tool whose handle has cut the text already may have added its own mark to a full budget.
    fn text(
        &self,
        call: &CallId,
        output: &mut Output,
        keep: impl FnOnce(&str) -> Result<BlobRef, String>,
        notes: &mut Vec<String>,
    ) {
        let mut total = 0usize;
        for text in output.content.iter_mut().filter_map(blocks::text) {
            self.clean_in_place(text);
            total = total.saturating_add(text.chars().count());
        }
        let limit = if output.paged { self.limits.page_chars } else { self.limits.output_chars };
        let budget = usize::try_from(limit).unwrap_or(usize::MAX);
        let slack = if output.truncated.is_some() { MARK_CHARS } else { 0 };
        if total <= budget.saturating_add(slack) {
            return;
        }
        let mut whole = String::new();
        output.content.retain_mut(|block| {
            let Some(text) = blocks::text(block) else { return true };
            if !whole.is_empty() {
                whole.push('\n');
            }
            whole.push_str(text);
            false
        });
        let mut truncated = output.truncated.take().unwrap_or_else(|| match keep(&whole) {
            Ok(blob) => Truncated { blob: Some(blob.id), blob_dropped: blob.dropped, ..Truncated::default() },
            Err(reason) => {
                notes.push(format!("the whole output could not be kept: {reason}"));
                Truncated::default()
            }
        });
        let kept = truncated.blob.is_some().then_some(call);
        let composed = compose(&[Capture::whole(&whole)], budget, |n| omission(n, kept));
        output.content.insert(0, Content::text(composed.text));
        truncated.bytes += composed.omitted_bytes;
        truncated.chars += composed.omitted_chars;
        output.truncated = Some(truncated);
    }
}

fn misfit(schema: &Validator, details: &Value) -> Option<String> {
    match schema.problems(details) {
        Ok(problems) => {
            let first = problems.first()?;
            Some(format!("the tool's details do not fit its declared schema and were left out ({first})"))
        }
        Err(error) => {
            Some(format!("the tool's output schema does not compile, its details were left out ({error})"))
        }
    }
}
