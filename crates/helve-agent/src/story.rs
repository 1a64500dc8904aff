//! What a session's journal keeps of the talk, beside the calls.
//!
//! The calls of a session stand in its journal as `planned` and `outcome`, written by the pipeline; the id of such an entry is
//! that of the [`ToolUse`](crate::talk::ToolUse). What the owner and the model said stands between them as notes, whose body
//! is one [`Chapter`]. Both together are the session: the talk can be told again from them, and nothing else is needed.

use helve::store::{EntryKind, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Answer, ModelError, Request};
use crate::talk::{Message, Usage, UserMessage};

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
    /// The model did not answer.
    Failed {
        /// The round.
        round: u64,
        /// Why.
        error: ModelError,
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
    let mut hasher = blake3::Hasher::new();
    let mut part = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    part(request.system);
    for tool in request.tools {
        part(&tool.name);
        part(&tool.description);
        part(&tool.parameters.to_string());
    }
    for message in request.messages {
        part(&serde_json::to_value(message).unwrap_or(Value::Null).to_string());
    }
    format!("b3:{}", hasher.finalize().to_hex())
}
