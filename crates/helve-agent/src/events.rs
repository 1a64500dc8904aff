//! What a run tells while it goes on, and how it ends. `helve agent --json` prints these, one a line.

use std::time::Duration;

use helve::CallResult;
use serde::Serialize;

use crate::model::{ModelError, Piece};
use crate::talk::{ToolUse, Usage};

/// Something happens in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    Begin {
        /// The session whose journal keeps it.
        session: String,
        /// The model, as `provider:name`.
        model: String,
    },
    /// The model is asked.
    Round {
        /// Which round, counted from 1.
        round: u64,
    },
    /// A piece of the answer.
    Piece(Piece),
    /// The answer is whole.
    Answer {
        /// Its text.
        text: String,
        /// The calls that the model wants.
        calls: Vec<ToolUse>,
        /// What it cost.
        usage: Usage,
    },
    /// Calls are handed to the pipeline, which runs them together where that may be.
    Calls {
        /// Their names between model and loop.
        ids: Vec<String>,
    },
    /// A call says how far it is, or its command puts something out.
    Progress {
        /// What it says.
        message: String,
    },
    /// A call ended. Calls that run together end in any order.
    Result {
        /// Its name between model and loop.
        id: String,
        /// What came of it.
        result: Box<CallResult>,
    },
    /// A call never reached the pipeline: the answer was cut in the midst of it, or its tool is not among those that the model
    /// is shown. The model is told why.
    NotRun {
        /// Its name between model and loop.
        id: String,
        /// Why.
        text: String,
    },
    /// The loop says something to the model: a hint, or that the talk was made shorter.
    Note {
        /// What.
        text: String,
    },
    /// A hook of the owner's says something of the session.
    Hook {
        /// Which.
        hook: String,
        /// What it says, which the model is told at the start of a session; or why it failed.
        text: String,
        /// Whether it failed.
        failed: bool,
    },
    /// The talk was made shorter, because it would not fit any more.
    Shortened {
        /// How many tokens it has now, about.
        tokens: u64,
    },
    /// The run ended.
    End {
        /// How.
        #[serde(flatten)]
        ending: Ending,
        /// The last words for the owner.
        text: String,
        /// Whether they stop in the midst, because the answer became too long and did so again when it went on.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
        /// All that the model was asked and said.
        usage: Usage,
        /// What that cost, in millionths of a US dollar, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<u64>,
        /// Whether a part of the cost is an estimate, because the provider did not count all of it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        about: bool,
        /// How many rounds there were.
        rounds: u64,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// The model had nothing more to do.
    Answered,
    /// A bound was reached.
    Bound {
        /// Which.
        bound: Bound,
    },
    /// It did the same over and over.
    NoProgress,
    /// The owner stopped it.
    Cancelled,
    /// There was no answer.
    Model {
        /// Why.
        error: ModelError,
    },
    /// The session could not be recorded. Nothing goes on unrecorded.
    Unrecorded {
        /// Why.
        message: String,
    },
}

impl Ending {
    /// Its name in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Ending::Answered => "answered",
            Ending::Bound { bound: Bound::Rounds } => "rounds",
            Ending::Bound { bound: Bound::Time } => "time",
            Ending::Bound { bound: Bound::Tokens } => "tokens",
            Ending::Bound { bound: Bound::Cost } => "cost",
            Ending::NoProgress => "no_progress",
            Ending::Cancelled => "cancelled",
            Ending::Model { .. } => "model",
            Ending::Unrecorded { .. } => "unrecorded",
        }
    }
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Rounds.
    Rounds,
    /// Time, without that in which a person was asked.
    Time,
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
}

/// How much a run may use; none for as much as it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// So many times is the model asked.
    pub rounds: u64,
    /// So long may it take.
    pub time: Option<Duration>,
    /// So many tokens.
    pub tokens: Option<u64>,
    /// So much may it cost, in millionths of a US dollar.
    pub cost: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { rounds: 100, time: None, tokens: None, cost: None }
    }
}
