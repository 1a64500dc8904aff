//! What a session's journal keeps of the talk, beside the calls.
//!
//! The calls of a session stand in its journal as `planned` and `outcome`, written by the pipeline; the id of such an entry is
//! that of the [`ToolUse`](crate::talk::ToolUse). What the owner and the model said stands between them as notes, whose body
//! is one [`Chapter`]. Both together are the session: the talk can be told again from them, and nothing else is needed.

use std::sync::Arc;

use helve::ToolSpec;
use helve::store::{EntryKind, Record};
use serde::{Deserialize, Serialize};

use crate::model::{Answer, ModelError, Request};
use crate::talk::{Message, ToolAnswer, Usage, UserMessage};

/// The member that tells a note of ours from one of another program.
const MARK: &str = "agent";

/// One note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "agent", rename_all = "snake_case")]
pub enum Chapter {
    /// A run begins.
    Begin {
        /// Who serves the model.
        provider: String,
        /// The model.
        model: String,
        /// The hash of what the model is told of itself.
        system: String,
        /// The hash of the tools that it is shown.
        tools: String,
        /// Whether it goes on with the talk that the session already holds. Else a new talk begins here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        goes_on: bool,
    },
    /// The owner or the loop says something.
    Said {
        /// What.
        message: UserMessage,
    },
    /// The model is asked.
    Asked {
        /// The round, counted from 1.
        round: u64,
        /// The hash of the request.
        request: String,
    },
    /// The model answered.
    Answered {
        /// The round.
        round: u64,
        /// What it said.
        answer: Box<Answer>,
    },
    /// The model wrote down what came before, because the talk is too long. It is not part of the talk; what becomes of it
    /// is in the next `shortened`.
    Summed {
        /// The round.
        round: u64,
        /// What it said.
        answer: Box<Answer>,
    },
    /// The model did not answer.
    Failed {
        /// The round.
        round: u64,
        /// Why.
        error: ModelError,
    },
    /// Calls that never reached the pipeline, and what the model is told instead of their results.
    NotRun {
        /// What the model is told, one for each of these calls.
        results: Vec<ToolAnswer>,
    },
    /// From here on the talk is a shorter one: these messages stand for all before them.
    Shortened {
        /// The round.
        round: u64,
        /// What the model is shown from now on.
        messages: Vec<Message>,
    },
    /// The run ended.
    End {
        /// Why: `answered`, or the limit or event that ended it.
        ending: String,
        /// All that the model was asked and said.
        usage: Usage,
        /// What that cost, in millionths of a US dollar, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<u64>,
        /// Whether a part of the cost is an estimate, because the provider did not count all of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        about: bool,
    },
}

impl Chapter {
    /// The chapter in a journal's record; none if it is not one.
    pub fn of(record: &Record) -> Option<Chapter> {
        if record.kind != EntryKind::Note || record.body.get(MARK).is_none() {
            return None;
        }
        serde_json::from_value(record.body.clone()).ok()
    }
}

/// The hash by which a request is known in the journal: equal requests have equal ones.
pub fn digest(request: &Request<'_>) -> String {
    let mut digest = Digest::new(request.system, request.tools);
    request.messages.iter().for_each(|message| digest.add(message));
    digest.of_request(request.may_call)
}

/// The same made bit by bit, so that a long talk is not hashed again at each request.
#[derive(Clone)]
pub struct Digest(blake3::Hasher);

impl Digest {
    /// Of a request with no message yet.
    pub fn new(system: &str, tools: &[Arc<ToolSpec>]) -> Digest {
        let mut digest = Digest(blake3::Hasher::new());
        digest.part(system);
        digest.tools(tools);
        digest
    }

    /// One more message.
    pub fn add(&mut self, message: &Message) {
        self.part(&serde_json::to_string(message).unwrap_or_default());
    }

    /// The hash of the request.
    pub fn of_request(&self, may_call: bool) -> String {
        let mut whole = self.clone();
        if !may_call {
            whole.part("no calls");
        }
        whole.text()
    }

    /// The hash of what a model is told of itself.
    pub fn of_system(system: &str) -> String {
        let mut digest = Digest(blake3::Hasher::new());
        digest.part(system);
        digest.text()
    }

    /// The hash of the tools that a model is shown.
    pub fn of_tools(tools: &[Arc<ToolSpec>]) -> String {
        let mut digest = Digest(blake3::Hasher::new());
        digest.tools(tools);
        digest.text()
    }

    fn tools(&mut self, tools: &[Arc<ToolSpec>]) {
        for tool in tools {
            self.part(&tool.name);
            self.part(&tool.description);
            self.part(&tool.parameters.to_string());
        }
    }

    fn part(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn text(&self) -> String {
        format!("b3:{}", self.0.finalize().to_hex())
    }
}
