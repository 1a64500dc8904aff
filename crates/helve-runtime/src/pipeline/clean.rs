//! What the journal, a prompt or a model sees of arguments and errors: nothing secret, nothing too long.

use std::sync::Arc;

use helve_core::{Args, ErrorKind, ToolError, ToolSpec, strict_json};
use serde_json::Value;

use super::Pipeline;

/// What stands for the value of a sensitive parameter outside its tool.
pub(super) const REDACTED: &str = "[REDACTED]";
/// So much of arguments that could not be read is kept.
const MAX_UNREAD_CHARS: usize = 2_000;
/// So much of an error is shown.
const MAX_ERROR_CHARS: usize = 4_000;

impl Pipeline {
    /// The arguments without secrets; none where they are too many to keep a copy.
    pub(super) fn redacted(&self, args: &Args) -> Option<Args> {
        match args {
            Args::Text(text) if text.len() as u64 > self.governor.limits.args_bytes => None,
            Args::Text(text) => Some(self.redacted_text(text)),
            Args::Value(value) => {
                let mut value = value.clone();
                self.governor.clean_value(&mut value);
                Some(Args::Value(value))
            }
        }
    }

    /// A mark in the place of a number would make JSON no JSON, and a secret behind an escape would stay: what is JSON is
    /// redacted as a value.
    fn redacted_text(&self, text: &str) -> Args {
        let depth = usize::try_from(self.governor.limits.args_depth).unwrap_or(usize::MAX);
        match strict_json::read(text, depth) {
            Ok(mut value) if self.governor.has_secret(&value) => {
                self.governor.clean_value(&mut value);
                Args::Value(value)
            }
            _ => Args::Text(self.governor.redact(text)),
        }
    }

    /// A refusal that shows nothing of a sensitive parameter, nor of an unknown key that may be one misspelt.
    pub(super) fn without_sensitive(&self, spec: &ToolSpec, mut error: ToolError) -> ToolError {
        if spec.sensitive.is_empty() {
            return error;
        }
        let open = |pointer: &str| {
            let first = pointer.split('/').nth(1).unwrap_or_default();
            let known = spec.parameters["properties"].get(first).is_some();
            known && !spec.sensitive.iter().any(|name| name == first)
        };
        for problem in &mut error.problems {
            if !open(&problem.pointer) {
                problem.received = REDACTED.to_owned();
            }
        }
        let (kind, hint) = (error.kind, error.hint.take());
        let message = if error.problems.is_empty() { REDACTED.to_owned() } else { String::new() };
        let told = ToolError::invalid(&spec.name, std::mem::take(&mut error.problems));
        ToolError { kind, hint, message: told.message + &message, ..told }
    }

    pub(super) fn clean_error(&self, mut error: ToolError) -> ToolError {
        let chars =
            usize::try_from(self.governor.limits.output_chars / 2).unwrap_or(usize::MAX).min(MAX_ERROR_CHARS);
        let clean = |text: &str| self.governor.clean_short(text, chars);
        error.message = clean(&error.message);
        error.hint = error.hint.map(|hint| clean(&hint));
        for problem in &mut error.problems {
            problem.pointer = clean(&problem.pointer);
            problem.expected = clean(&problem.expected);
            problem.received = clean(&problem.received);
        }
        error
    }

    /// Arguments as the journal, a prompt or a log may show them.
    pub(super) fn shown_args(&self, spec: &ToolSpec, args: &Value) -> Value {
        let mut shown = args.clone();
        for name in &spec.sensitive {
            if let Some(value) = shown.get_mut(name) {
                *value = Value::String(REDACTED.to_owned());
            }
        }
        self.governor.clean_value(&mut shown);
        shown
    }

    /// The same, and no copy where there is nothing to hide.
    pub(super) fn shown(&self, spec: &ToolSpec, args: &Arc<Value>) -> Arc<Value> {
        if spec.sensitive.is_empty() && !self.governor.has_secret(args) {
            return Arc::clone(args);
        }
        Arc::new(self.shown_args(spec, args))
    }

    /// Arguments that no stage could read: kept as text, short, so that a refusal can be understood later. The text is the
    /// one that came, every member that is written twice included; where a secret hides behind an escape, it is not kept.
    pub(super) fn unread_args(&self, args: &Args) -> Value {
        let text = match args {
            Args::Text(text) if text.len() as u64 > self.governor.limits.args_bytes => return Value::Null,
            Args::Text(text) => self.governor.redact(text),
            Args::Value(value) => {
                let mut value = value.clone();
                self.governor.clean_value(&mut value);
                match value {
                    Value::String(text) => text,
                    value => value.to_string(),
                }
            }
        };
        if self.governor.hides_secret(&text) {
            return Value::String(REDACTED.to_owned());
        }
        Value::String(self.governor.clean_short(&text, MAX_UNREAD_CHARS))
    }
}

/// A refusal that names the limit and shows nothing of what is longer: that was not looked at.
pub(super) fn is_too_large(error: &ToolError) -> bool {
    error.kind == ErrorKind::TooLarge
}

/// A refusal whose own words may show part of a secret.
pub(super) fn hidden(error: ToolError) -> ToolError {
    ToolError::new(error.kind, "The arguments do not fit, and showing why would show a secret.")
}
