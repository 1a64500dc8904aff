//! What a model said, made fit for the talk: every call has a name of its own, nothing is beyond measure, and no known secret
//! is in it. A provider takes all of it back at the next request.

use helve::harmless::harmless;
use helve::json_text::length;
use serde_json::Value;

use super::Agent;
use crate::compact::short_args;
use crate::model::Answer;
use crate::talk::{Stop, ToolUse};

/// The longest name of a call.
const MAX_ID: usize = 100;
/// The longest name of a tool that providers take.
const MAX_NAME: usize = 64;
/// The longest text of an answer, in bytes. No model says so much.
const MAX_TEXT: usize = 1 << 20;
/// The most calls of an answer that enter the talk.
const MAX_CALLS: usize = 512;
/// The most that a provider gets back unchanged, in bytes. It can be asked without, and what is kept stands in the journal
/// each time that the talk is made shorter.
const MAX_KEPT: usize = 1 << 20;
/// The longest word for why a model stopped.
const MAX_WORD: usize = 40;

impl Agent {
    /// The answer as talk and journal have it, and its calls as the pipeline gets them.
    pub(super) fn fit(&mut self, mut answer: Answer) -> (Answer, Vec<ToolUse>) {
        answer.model = harmless(&self.runtime.without_secrets(&answer.model));
        if let Stop::Other(word) = &mut answer.stop {
            *word = plain_word(&self.runtime.without_secrets(word));
        }
        let message = &mut answer.message;
        let end = message.text.floor_char_boundary(MAX_TEXT);
        let left_out = message.text.len() - end;
        message.text.truncate(end);
        message.text = self.runtime.without_secrets(&message.text);
        if left_out > 0 {
            message.text.push_str(&format!("\n[{left_out} bytes of the answer left out]"));
        }
        let too_many = message.calls.len().saturating_sub(MAX_CALLS);
        if too_many > 0 {
            message.calls.truncate(MAX_CALLS);
            message
                .text
                .push_str(&format!("\n[{too_many} calls left out: an answer has at most {MAX_CALLS}]"));
        }
        let mut changed = too_many > 0;
        for call in &mut message.calls {
            changed |= self.name_call(call);
        }
        let calls = message.calls.clone();
        let most = self.runtime.policy().limits().args_bytes;
        for call in &mut message.calls {
            let name = shown_name(&self.runtime.without_secrets(&call.name));
            let mut args = self.shown_args(&call.args);
            if args.len() as u64 > most {
                args = short_args(&args).unwrap_or(args);
            }
            changed |= name != call.name || args != call.args;
            (call.name, call.args) = (name, args);
        }
        // What a provider wants back unchanged has to fit the rest of the message, and must hold no secret either.
        if let Some(kept) = &message.kept {
            let mut clean = kept.value.clone();
            self.runtime.hide_secrets(&mut clean);
            if changed || clean != kept.value || length(&kept.value) > MAX_KEPT {
                message.kept = None;
            }
        }
        (answer, calls)
    }

    /// Gives a call a name that no other call of the talk has, where its own will not do. Whether it got another.
    fn name_call(&mut self, call: &mut ToolUse) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let fits = (1..=MAX_ID).contains(&call.id.len()) && call.id.bytes().all(plain);
        if fits && self.runtime.without_secrets(&call.id) == call.id && self.ids.insert(call.id.clone()) {
            return false;
        }
        let mut count = self.ids.len();
        loop {
            count += 1;
            let id = format!("call_{count}");
            if self.ids.insert(id.clone()) {
                call.id = id;
                return true;
            }
        }
    }

    /// Arguments without secrets.
    fn shown_args(&self, args: &str) -> String {
        let clean = self.runtime.without_secrets(args);
        // A secret may hide behind an escape.
        let Ok(value) = serde_json::from_str::<Value>(&clean) else { return clean };
        let mut hidden = value.clone();
        self.runtime.hide_secrets(&mut hidden);
        if hidden == value { clean } else { hidden.to_string() }
    }
}

/// A provider's word for why a model stopped; what is none is not told.
fn plain_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let fits = (1..=MAX_WORD).contains(&word.len()) && word.bytes().all(plain);
    if fits { word.to_owned() } else { "other".to_owned() }
}

/// A tool's name as every provider takes it back, whatever the model made up.
fn shown_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let shown: String = name.chars().take(MAX_NAME).map(|c| if plain(c) { c } else { '_' }).collect();
    if shown.is_empty() { "unnamed".to_owned() } else { shown }
}
