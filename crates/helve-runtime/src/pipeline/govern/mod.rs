//! Govern: what the model may see of an output.
//!
//! A command's output is governed while it streams ([`drain`]); every other output here, when the tool returns it:
//! known secrets redacted ([`redact`]), terminal escapes and invisible characters made visible ([`helve_core::harmless`]), cut to
//! head and tail with the whole kept as a blob, details held against their declared schema.

pub(crate) mod drain;
pub(crate) mod redact;

use std::sync::Arc;

use helve_core::harmless::harmless;
use helve_core::text::{Capture, compose};
use helve_core::{CallId, Content, Limits, Output, Truncated};
use helve_store::Blobs;
use serde_json::Value;

use super::validate::Validator;
use redact::Secrets;

/// What the stage needs to know.
pub(crate) struct Governor {
    pub(crate) secrets: Option<Arc<Secrets>>,
    pub(crate) limits: Arc<Limits>,
}

impl Governor {
    /// A text without secrets, harmless.
    pub(crate) fn clean(&self, text: &str) -> String {
        match &self.secrets {
            Some(secrets) => harmless(&secrets.redact(text)),
            None => harmless(text),
        }
    }

    /// A value without secrets.
    pub(crate) fn clean_value(&self, value: &mut Value) {
        if let Some(secrets) = &self.secrets {
            secrets.redact_value(value);
        }
    }

    /// The stage. Gives notes for the result where something had to be left out.
    pub(crate) fn govern(
        &self,
        call: &CallId,
        output: &mut Output,
        details: Option<&Validator>,
        blobs: impl FnOnce() -> Option<Arc<Blobs>>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        self.clean_value(&mut output.details);
        if let Some(raw) = &mut output.raw {
            *raw = self.clean(raw);
        }
        if let Some(note) = details.and_then(|schema| misfit(schema, &output.details)) {
            output.details = Value::Null;
            notes.push(note);
        }
        if output.truncated.is_none() {
            self.cut(call, output, blobs, &mut notes);
        }
        notes
    }

    fn cut(
        &self,
        call: &CallId,
        output: &mut Output,
        blobs: impl FnOnce() -> Option<Arc<Blobs>>,
        notes: &mut Vec<String>,
    ) {
        let budget = usize::try_from(self.limits.output_chars).unwrap_or(usize::MAX);
        let mut total = 0usize;
        for block in &mut output.content {
            if let Content::Text { text } = block {
                let clean = self.clean(text);
                total = total.saturating_add(clean.chars().count());
                *text = clean;
            }
        }
        if total <= budget {
            return;
        }
        let whole = output.joined_text();
        let kept = keep(&whole, blobs);
        if let Err(reason) = &kept {
            notes.push(format!("the whole output could not be kept: {reason}"));
        }
        let (blob, dropped) = kept.map_or((None, 0), |(id, dropped)| (Some(id), dropped));
        let composed = compose(&[Capture::whole(&whole)], budget, |n| omission(n, blob.is_some(), call));
        output.content.retain(|block| !matches!(block, Content::Text { .. }));
        output.content.insert(0, Content::Text { text: composed.text });
        output.truncated = Some(Truncated {
            bytes: composed.omitted_bytes,
            chars: composed.omitted_chars,
            blob,
            blob_dropped: dropped,
        });
    }
}

fn keep(whole: &str, blobs: impl FnOnce() -> Option<Arc<Blobs>>) -> Result<(String, u64), String> {
    let blobs = blobs().ok_or("the store cannot be opened")?;
    let mut writer = blobs.writer();
    writer.write(whole.as_bytes()).map_err(|e| e.to_string())?;
    let blob = writer.finish().map_err(|e| e.to_string())?;
    Ok((blob.id, blob.dropped))
}

/// The mark that stands for what was left out.
fn omission(chars: u64, kept: bool, call: &CallId) -> String {
    if kept {
        format!(
            "\n\n... ({chars} characters left out; call read_output with call \"{call}\" to see them) ...\n\n"
        )
    } else {
        format!("\n\n... ({chars} characters left out) ...\n\n")
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
