//! The loop: ask the model, do what it wants, tell it what came of it, until it wants nothing more.
//!
//! In: a runtime, a model, a journal, and what the owner says. Out: [`Event`]s while it goes on, an [`Ending`], and a journal
//! from which the talk can be told again. Whatever a model answers, the talk stays valid: every call has exactly one result.
//!
//! | module | does |
//! |---|---|
//! | `answer` | what a model said, made fit for the talk |
//! | `calls` | hands calls to the pipeline, and its results to the model |

mod answer;
mod calls;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use helve::store::{Entry, EntryKind, Journal, Record};
use helve::{Runtime, ToolSpec};

use crate::control::Control;
use crate::events::{Bound, Bounds, Ending, Event};
use crate::model::{Model, ModelError, ModelErrorKind, Request};
use crate::story::{Chapter, Digest};
use crate::talk::{Message, ToolUse, Usage, UserMessage};

/// How an agent works.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the model is told of itself.
    pub system: String,
    /// How much one run may use.
    pub bounds: Bounds,
    /// How the model samples; none for its own way.
    pub temperature: Option<f64>,
    /// The longest answer, in tokens; none for the model's own limit.
    pub max_output: Option<u64>,
}

/// A model with hands: one talk, which goes on from run to run.
pub struct Agent {
    runtime: Runtime,
    model: Arc<dyn Model>,
    journal: Journal,
    options: Options,
    tools: Vec<Arc<ToolSpec>>,
    messages: Vec<Message>,
    /// The names of all calls of the talk: each has its own.
    ids: HashSet<String>,
    usage: Usage,
    rounds: u64,
}

/// Why a step ends the run.
enum Stop {
    Ending(Ending, String),
}

impl From<Ending> for Stop {
    fn from(ending: Ending) -> Self {
        Stop::Ending(ending, String::new())
    }
}

impl Agent {
    /// A new talk.
    pub fn new(runtime: Runtime, model: Arc<dyn Model>, journal: Journal, options: Options) -> Agent {
        let tools = runtime.specs().collect();
        let (messages, ids) = (Vec::new(), HashSet::new());
        Agent { runtime, model, journal, options, tools, messages, ids, usage: Usage::default(), rounds: 0 }
    }

    /// Goes on with the talk that these records of the session hold.
    pub fn resume(
        runtime: Runtime,
        model: Arc<dyn Model>,
        journal: Journal,
        options: Options,
        records: &[Record],
    ) -> Agent {
        let mut agent = Agent::new(runtime, model, journal, options);
        agent.messages = crate::record::messages(records);
        for record in records {
            match Chapter::of(record) {
                Some(Chapter::Answered { answer, round }) => {
                    agent.ids.extend(answer.message.calls.iter().map(|call| call.id.clone()));
                    agent.usage += answer.usage;
                    agent.rounds = agent.rounds.max(round);
                }
                Some(Chapter::Asked { round, .. }) => agent.rounds = agent.rounds.max(round),
                _ => {}
            }
        }
        agent
    }

    /// The talk so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// All that the model was asked and said in this talk.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Says something to the model and lets it work until it has nothing more to do, or something ends it.
    pub async fn run(
        &mut self,
        message: UserMessage,
        control: &Control,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Ending {
        let (before, first) = (self.usage, self.rounds);
        let card = self.model.card();
        let model = format!("{}:{}", card.provider, card.name);
        watch(Event::Begin { session: self.journal.session().to_owned(), model });
        let Stop::Ending(ending, text) = match self.go(message, control, watch, first).await {
            Ok(stop) | Err(stop) => stop,
        };
        let usage = Usage {
            input: self.usage.input - before.input,
            cached: self.usage.cached - before.cached,
            output: self.usage.output - before.output,
        };
        let cost = self.model.card().price.map(|price| price.of(&usage));
        let ended = self.record(&[Chapter::End { ending: name(&ending), usage, cost }]);
        let ending = match ended {
            Err(Stop::Ending(unrecorded, _)) if !matches!(ending, Ending::Unrecorded { .. }) => unrecorded,
            _ => ending,
        };
        watch(Event::End { ending: ending.clone(), text, usage, cost, rounds: self.rounds - first });
        ending
    }

    async fn go(
        &mut self,
        message: UserMessage,
        control: &Control,
        watch: &mut (dyn FnMut(Event) + Send),
        first: u64,
    ) -> Result<Stop, Stop> {
        self.begin()?;
        self.say(message)?;
        loop {
            if control.stopped().is_cancelled() {
                return Ok(Ending::Cancelled.into());
            }
            if self.rounds - first >= self.options.bounds.rounds {
                return Ok(Ending::Bound { bound: Bound::Rounds }.into());
            }
            for text in control.unheard() {
                self.say(UserMessage { text, ..UserMessage::default() })?;
            }
            let (text, calls) = self.ask(control, watch).await?;
            if calls.is_empty() {
                return Ok(Stop::Ending(Ending::Answered, text));
            }
            self.call(calls, control, watch).await?;
        }
    }

    async fn ask(
        &mut self,
        control: &Control,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(String, Vec<ToolUse>), Stop> {
        self.rounds += 1;
        let round = self.rounds;
        watch(Event::Round { round });
        let request = Request {
            system: &self.options.system,
            tools: &self.tools,
            messages: &self.messages,
            may_call: true,
            max_output: self.options.max_output,
            temperature: self.options.temperature,
        };
        self.record(&[Chapter::Asked { round, request: crate::story::digest(&request) }])?;
        let mut listener = |piece| watch(Event::Piece(piece));
        let answered = self.model.answer(request, &mut listener, control.stopped()).await;
        match answered {
            Ok(answer) => {
                let (answer, wanted) = self.fit(answer);
                self.usage += answer.usage;
                let (text, calls, usage) =
                    (answer.message.text.clone(), answer.message.calls.clone(), answer.usage);
                let message = answer.message.clone();
                self.record(&[Chapter::Answered { round, answer: Box::new(answer) }])?;
                self.messages.push(Message::Model(message));
                watch(Event::Answer { text: text.clone(), calls, usage });
                Ok((text, wanted))
            }
            Err(error) => Err(self.failed(round, error)),
        }
    }

    fn failed(&mut self, round: u64, error: ModelError) -> Stop {
        if error.kind == ModelErrorKind::Cancelled {
            return Ending::Cancelled.into();
        }
        match self.record(&[Chapter::Failed { round, error: error.clone() }]) {
            Ok(()) => Ending::Model { error }.into(),
            Err(stop) => stop,
        }
    }

    fn begin(&mut self) -> Result<(), Stop> {
        let card = self.model.card();
        let (provider, model) = (card.provider.clone(), card.name.clone());
        let (system, tools) = (Digest::of_system(&self.options.system), Digest::of_tools(&self.tools));
        let goes_on = !self.messages.is_empty();
        self.record(&[Chapter::Begin { provider, model, system, tools, goes_on }])
    }

    /// Puts a message of the owner's or the loop's into the talk.
    fn say(&mut self, message: UserMessage) -> Result<(), Stop> {
        let message = UserMessage { text: self.runtime.without_secrets(&message.text), ..message };
        self.record(&[Chapter::Said { message: message.clone() }])?;
        self.messages.push(Message::User(message));
        Ok(())
    }

    /// Writes chapters into the journal. Nothing goes on unrecorded.
    fn record(&self, chapters: &[Chapter]) -> Result<(), Stop> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let entries: Vec<Entry<&Chapter>> =
            chapters.iter().map(|body| Entry { kind: EntryKind::Note, call: None, at_us, body }).collect();
        self.journal.record(&entries).map_err(|error| {
            let message = format!("The journal cannot be written: {error}");
            Stop::Ending(Ending::Unrecorded { message: message.clone() }, message)
        })
    }
}

/// An ending's name in the journal.
fn name(ending: &Ending) -> String {
    let name = match ending {
        Ending::Answered => "answered",
        Ending::Bound { bound: Bound::Rounds } => "rounds",
        Ending::Bound { bound: Bound::Time } => "time",
        Ending::Bound { bound: Bound::Tokens } => "tokens",
        Ending::Bound { bound: Bound::Cost } => "cost",
        Ending::NoProgress => "no_progress",
        Ending::Cancelled => "cancelled",
        Ending::Model { .. } => "model",
        Ending::Unrecorded { .. } => "unrecorded",
    };
    name.to_owned()
}
