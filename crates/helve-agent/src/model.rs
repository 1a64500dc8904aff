//! One model behind one trait, whoever serves it.
//!
//! In: the talk so far and the tools. Out: the pieces of the answer as they come, then the answer whole. A model holds no
//! state: what it should know is in the request.

use std::sync::Arc;
use std::time::Duration;

use helve::{BoxFuture, Cancel, ToolSpec};
use serde::{Deserialize, Serialize};

use crate::talk::{Message, ModelMessage, Stop, Usage};

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who it is and how it should work. The same in every request of a talk, so that a provider's cache holds.
    pub system: &'a str,
    /// The tools that it may call, in an order that does not change.
    pub tools: &'a [Arc<ToolSpec>],
    /// The talk so far. It begins with a user's message; every call in it is answered.
    pub messages: &'a [Message],
    /// Whether it may call them now. Where it may not they are shown all the same, for the calls in the talk and for the
    /// provider's cache, and the provider is told to have none called.
    pub may_call: bool,
    /// The longest answer, in tokens; none for the model's own limit.
    pub max_output: Option<u64>,
    /// How it samples; none for the model's own way.
    pub temperature: Option<f64>,
}

/// A piece of an answer, as it comes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "piece", rename_all = "snake_case")]
pub enum Piece {
    /// More of the text.
    Text {
        /// The text.
        text: String,
    },
    /// More of what the model thinks, where a provider shows that.
    Thought {
        /// The text.
        text: String,
    },
    /// A call begins.
    Call {
        /// Which call of the answer, counted from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    Args {
        /// Which call.
        index: usize,
        /// The text.
        text: String,
    },
    /// The provider has to be asked again, because it was busy or the connection broke. What came of the answer so far does
    /// not count any more.
    Again {
        /// How long is waited first.
        after: Duration,
        /// Why.
        why: String,
        /// What it counted for that all the same.
        #[serde(skip_serializing_if = "Usage::is_nothing")]
        usage: Usage,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What the model says.
    #[serde(flatten)]
    pub message: ModelMessage,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, as its provider calls it.
    #[serde(default)]
    pub model: String,
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Who serves it: `openai`, `anthropic`, `gemini`, `ollama`, `replay`, ….
    pub provider: String,
    /// Its name there.
    pub name: String,
    /// How many tokens fit into request and answer together.
    pub context_window: u64,
    /// The longest answer, in tokens.
    pub max_output: u64,
    /// What tokens cost; none if that is not known.
    pub price: Option<Price>,
}

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Of the request.
    pub input: u64,
    /// Of what the provider puts into its cache.
    pub written: u64,
    /// Of what the provider had in its cache.
    pub cached: u64,
    /// Of the answer.
    pub output: u64,
}

impl Price {
    /// What providers take who do not want more for what they put into their caches.
    pub fn plain(input: u64, cached: u64, output: u64) -> Price {
        Price { input, written: input, cached, output }
    }

    /// What so much costs, in millionths of a US dollar.
    pub fn of(&self, usage: &Usage) -> u64 {
        let written = usage.written.min(usage.input);
        let all = u128::from(self.input) * u128::from(usage.input - written)
            + u128::from(self.written) * u128::from(written)
            + u128::from(self.cached) * u128::from(usage.cached)
            + u128::from(self.output) * u128::from(usage.output);
        u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No key, or one that is not taken.
    Key,
    /// The request does not fit into the model's window.
    TooLong,
    /// The provider does not take the request, and would not take it a second time either.
    Request,
    /// The provider is busy, and was each time.
    Busy,
    /// The provider cannot be reached, or broke off each time.
    Connection,
    /// What came is not what the provider should send.
    Strange,
    /// The caller took it back.
    Cancelled,
    /// A record has nothing more to say, or something else.
    Record,
}

/// The same with its words. No key is ever in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelError {
    /// Which.
    pub kind: ModelErrorKind,
    /// What happened.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the provider counted for it all the same.
    #[serde(default, skip_serializing_if = "Usage::is_nothing")]
    pub usage: Usage,
}

impl ModelError {
    /// An error without a hint.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError { kind, message: message.into(), hint: None, usage: Usage::default() }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        ModelError { hint: Some(hint.into()), ..self }
    }
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ModelError {}

/// Who listens to an answer while it comes.
pub type Listener<'a> = &'a mut (dyn FnMut(Piece) + Send);

/// A model.
pub trait Model: Send + Sync {
    /// What is known of it.
    fn card(&self) -> &Card;

    /// Asks it. Where a provider is busy or a connection breaks, the model asks again by itself, within its own bounds; where
    /// `cancel` fires, it ends at once.
    fn answer<'a>(
        &'a self,
        request: Request<'a>,
        listener: Listener<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>>;
}
