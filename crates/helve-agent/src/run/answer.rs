//! What a model said, made fit for the talk: every call has a name of its own, and nothing secret is in it.

use serde_json::Value;

use super::Agent;
use crate::model::Answer;
use crate::talk::ToolUse;

/// The longest name of a call.
const MAX_ID: usize = 100;

impl Agent {
    /// The answer as talk and journal have it, and its calls as the tools get them.
    pub(super) fn fit(&mut self, mut answer: Answer) -> (Answer, Vec<ToolUse>) {
        answer.message.text = self.runtime.without_secrets(&answer.message.text);
        for call in &mut answer.message.calls {
            self.name_call(call);
        }
        let calls = answer.message.calls.clone();
        for call in &mut answer.message.calls {
            call.args = self.shown_args(&call.args);
        }
        (answer, calls)
    }

    /// Gives a call a name that no other call of the talk has, where its own will not do.
    fn name_call(&mut self, call: &mut ToolUse) {
        let fits = !call.id.is_empty()
            && call.id.len() <= MAX_ID
            && call.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if fits && self.ids.insert(call.id.clone()) {
            return;
        }
        let mut count = self.ids.len();
        loop {
            count += 1;
            let id = format!("call_{count}");
            if self.ids.insert(id.clone()) {
                call.id = id;
                return;
            }
        }
    }

    /// Arguments without secrets, as the talk has them.
    fn shown_args(&self, args: &str) -> String {
        let clean = self.runtime.without_secrets(args);
        // A secret may hide behind an escape.
        let Ok(value) = serde_json::from_str::<Value>(&clean) else { return clean };
        let mut hidden = value.clone();
        self.runtime.hide_secrets(&mut hidden);
        if hidden == value { clean } else { hidden.to_string() }
    }
}
