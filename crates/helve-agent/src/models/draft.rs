//! An answer while it is put together from what a stream brings, in whatever order that comes.
//!
//! The readers of the wire formats say what they see; here it is kept, bounded, and told to the listener. Names of calls are
//! made unique here too, because not every server gives them, and some give the same one twice.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use helve::json_text::length;
use serde_json::Value;

use super::fault::{Fault, LARGEST};
use super::kept::{self, Part};
use crate::model::{Answer, Listener, ModelErrorKind, Piece};
use crate::talk::{Kept, ModelMessage, Stop, ToolUse, Usage};

/// The most calls in one answer.
const CALLS: usize = 1024;
/// The most parts that a reader keeps in mind.
pub(super) const PARTS: usize = 4 * CALLS;
/// What a part costs beside its text.
const OVERHEAD: usize = 64;
/// The longest name of a call that providers take.
const LONGEST_ID: usize = 64;
/// The longest name of a tool that is kept.
const LONGEST_NAME: usize = 256;

/// The answer so far.
pub(super) struct Draft<'l> {
    listener: Listener<'l>,
    text: String,
    calls: Vec<Open>,
    parts: Vec<Part>,
    size: usize,
    refused: bool,
    /// Why the model stopped, once the stream says so.
    pub(super) stop: Option<Stop>,
    /// Nothing more comes.
    pub(super) over: bool,
    /// Anything of the wire format was seen.
    pub(super) begun: bool,
    pub(super) usage: Usage,
    pub(super) model: String,
}

/// Who answers, as the owner calls them.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) provider: &'a str,
    pub(super) model: &'a str,
}

/// A call that is not whole yet.
struct Open {
    id: String,
    name: String,
    args: String,
    /// Whether the listener knows of it; it does once the name is there.
    told: bool,
}

impl<'l> Draft<'l> {
    pub(super) fn new(listener: Listener<'l>) -> Draft<'l> {
        Draft {
            listener,
            text: String::new(),
            calls: Vec::new(),
            parts: Vec::new(),
            size: 0,
            refused: false,
            stop: None,
            over: false,
            begun: false,
            usage: Usage::default(),
            model: String::new(),
        }
    }

    fn grow(&mut self, by: usize) -> Result<(), Fault> {
        self.size = self.size.saturating_add(by);
        if self.size > LARGEST { Err(Fault::too_large()) } else { Ok(()) }
    }

    /// More text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.parts.last_mut() {
            Some(Part::Text { bytes, extra: None }) => *bytes += text.len(),
            _ => {
                self.grow(OVERHEAD)?;
                self.parts.push(Part::Text { bytes: text.len(), extra: None });
            }
        }
        self.text.push_str(text);
        (self.listener)(Piece::Text { text: text.to_owned() });
        Ok(())
    }

    /// More text, to which the provider attaches something of its own.
    pub(super) fn text_with(&mut self, text: &str, extra: Value) -> Result<(), Fault> {
        self.grow(text.len() + length(&extra) + OVERHEAD)?;
        self.parts.push(Part::Text { bytes: text.len(), extra: Some(extra) });
        if !text.is_empty() {
            self.text.push_str(text);
            (self.listener)(Piece::Text { text: text.to_owned() });
        }
        Ok(())
    }

    /// More text, by which the model refuses.
    pub(super) fn refusal(&mut self, text: &str) -> Result<(), Fault> {
        self.refused = true;
        self.text(text)
    }

    /// More thoughts. They are shown and not kept; what a provider wants back is kept with [`Draft::own`].
    pub(super) fn thought(&mut self, text: &str) -> Result<(), Fault> {
        if !text.is_empty() {
            self.grow(text.len())?;
            (self.listener)(Piece::Thought { text: text.to_owned() });
        }
        Ok(())
    }

    /// A new call.
    pub(super) fn call(&mut self, id: &str, name: &str) -> Result<usize, Fault> {
        if self.calls.len() == CALLS {
            return Err(Fault::last(
                ModelErrorKind::Strange,
                format!("The answer holds more than {CALLS} calls."),
            ));
        }
        self.grow(OVERHEAD)?;
        let index = self.calls.len();
        self.calls.push(Open { id: String::new(), name: String::new(), args: String::new(), told: false });
        self.parts.push(Part::Call { index, extra: None });
        self.id(index, id)?;
        self.name(index, name)?;
        Ok(index)
    }

    /// The name that the provider gives a call. The first one counts.
    pub(super) fn id(&mut self, index: usize, id: &str) -> Result<(), Fault> {
        let Some(call) = self.calls.get_mut(index) else { return Ok(()) };
        if call.id.is_empty() && id.len() <= LONGEST_ID {
            id.clone_into(&mut call.id);
        }
        self.grow(id.len())
    }

    pub(super) fn id_of(&self, index: usize) -> &str {
        self.calls.get(index).map_or("", |call| &call.id)
    }

    pub(super) fn args_of(&self, index: usize) -> &str {
        self.calls.get(index).map_or("", |call| &call.args)
    }

    /// The tool of a call. Servers say it once, or with every piece; some come with the arguments first.
    pub(super) fn name(&mut self, index: usize, name: &str) -> Result<(), Fault> {
        let Some(call) = self.calls.get_mut(index) else { return Ok(()) };
        if name.is_empty() || call.told {
            return Ok(());
        }
        call.name = name.chars().take(LONGEST_NAME).collect();
        let (name, args) = (call.name.clone(), call.args.clone());
        call.told = true;
        (self.listener)(Piece::Call { index, name: name.clone() });
        if !args.is_empty() {
            (self.listener)(Piece::Args { index, text: args });
        }
        self.grow(name.len())
    }

    /// More of a call's arguments.
    pub(super) fn args(&mut self, index: usize, text: &str) -> Result<(), Fault> {
        self.grow(text.len())?;
        let Some(call) = self.calls.get_mut(index) else { return Ok(()) };
        if text.is_empty() {
            return Ok(());
        }
        call.args.push_str(text);
        if call.told {
            (self.listener)(Piece::Args { index, text: text.to_owned() });
        }
        Ok(())
    }

    /// A call's arguments as a whole, which counts more than the pieces before it.
    pub(super) fn all_args(&mut self, index: usize, text: &str) -> Result<(), Fault> {
        let so_far = self.args_of(index);
        if let Some(rest) = text.strip_prefix(so_far) {
            let rest = rest.to_owned();
            return self.args(index, &rest);
        }
        self.grow(text.len())?;
        if let Some(call) = self.calls.get_mut(index) {
            text.clone_into(&mut call.args);
        }
        Ok(())
    }

    /// Something of the provider's own that belongs to a call.
    pub(super) fn attach(&mut self, call: usize, extra: Value) -> Result<(), Fault> {
        self.grow(length(&extra))?;
        for part in self.parts.iter_mut().rev() {
            if let Part::Call { index, extra: slot } = part
                && *index == call
            {
                *slot = Some(extra);
                break;
            }
        }
        Ok(())
    }

    /// Something of the provider's own that stands here. It may be said later what it is, with [`Draft::set_own`].
    pub(super) fn own(&mut self, value: Value) -> Result<usize, Fault> {
        self.grow(length(&value) + OVERHEAD)?;
        self.parts.push(Part::Own { value });
        Ok(self.parts.len() - 1)
    }

    /// Says anew what it is.
    pub(super) fn set_own(&mut self, at: usize, new: Value) -> Result<(), Fault> {
        self.grow(length(&new))?;
        if let Some(Part::Own { value }) = self.parts.get_mut(at) {
            *value = new;
        }
        Ok(())
    }

    /// More of one member of it.
    pub(super) fn extend_own(&mut self, at: usize, member: &str, text: &str) -> Result<(), Fault> {
        self.grow(text.len())?;
        if let Some(Part::Own { value: Value::Object(own) }) = self.parts.get_mut(at) {
            match own.get_mut(member) {
                Some(Value::String(so_far)) => so_far.push_str(text),
                _ => {
                    own.insert(member.to_owned(), Value::String(text.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// How many calls there are.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether what came can be an answer, though the stream was not ended properly.
    pub(super) fn is_whole(&self) -> bool {
        self.over || self.stop.is_some()
    }

    /// The model that answers, as the stream says.
    pub(super) fn answers(&mut self, name: Option<&str>) {
        if let Some(name) = name.filter(|_| self.model.is_empty()) {
            self.model = name.chars().take(LONGEST_NAME).collect();
        }
    }

    /// The answer. `used` are the names of the calls of the talk so far.
    pub(super) fn finish(self, from: Origin<'_>, mut used: HashSet<String>) -> Result<Answer, Fault> {
        if !self.is_whole() {
            return Err(if self.begun {
                Fault::broken("The connection ended in the midst of an answer.")
            } else {
                Fault::strange("There is no answer in what came.")
            });
        }
        for (index, call) in self.calls.iter().enumerate() {
            if !call.told {
                (self.listener)(Piece::Call { index, name: String::new() });
                if !call.args.is_empty() {
                    (self.listener)(Piece::Args { index, text: call.args.clone() });
                }
            }
        }
        let calls: Vec<ToolUse> = self
            .calls
            .into_iter()
            .map(|call| ToolUse { id: unique(call.id, &mut used), name: call.name, args: call.args })
            .collect();
        let stop = match self.stop.unwrap_or(Stop::Done) {
            _ if self.refused => Stop::Refused,
            Stop::Done if !calls.is_empty() => Stop::Calls,
            Stop::Calls if calls.is_empty() => Stop::Done,
            other => other,
        };
        let kept = kept::value(from.model, self.parts);
        let kept = kept.map(|value| Kept { provider: from.provider.to_owned(), value });
        let message = ModelMessage { text: self.text, calls, kept };
        Ok(Answer { message, stop, usage: self.usage, model: self.model })
    }
}

/// A name for a call that no other call of the talk has.
fn unique(id: String, used: &mut HashSet<String>) -> String {
    let proper = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
    let mut id = id;
    if !proper || used.contains(&id) {
        loop {
            id = made_up();
            if !used.contains(&id) {
                break;
            }
        }
    }
    used.insert(id.clone());
    id
}

/// Nine letters and digits: a shape that every provider takes, the strictest included.
fn made_up() -> String {
    const SIGNS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    // The only source of chance in the standard library; it has to be different, not secret.
    let mut number = RandomState::new().hash_one(0u8);
    (0..9)
        .map(|_| {
            let sign = SIGNS[(number % 32) as usize];
            number /= 32;
            char::from(sign)
        })
        .collect()
}
