//! The loop: ask the model, do what it wants, tell it what came of it, until it wants nothing more.
//!
//! In: a runtime, a model, a journal, and what the owner says. Out: [`Event`]s while it goes on, an [`Ending`], and a journal
//! from which the talk can be told again. Whatever a model answers, the talk stays valid: every call has exactly one result.
//! What enters the talk is without the secrets that the policy knows, so that talk and journal are the same.
//!
//! | module | does |
//! |---|---|
//! | `limits` | what a run has used and may use |
//! | `asking` | asks the model, and again where the talk was too long |
//! | `answer` | what a model said, made fit for the talk |
//! | `calls` | hands calls to the pipeline, and its results to the model |
//! | `pace` | waits for whoever listens |
//! | `pieces` | the words of a model as they come, without the secrets that the policy knows |
//! | `room` | makes the talk shorter before it does not fit any more |
//! | `ending` | the last words of a run that did not end by itself |

mod answer;
mod asking;
mod calls;
mod ending;
mod limits;
mod pace;
mod pieces;
mod room;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use helve::json_text::length;
use helve::mcp::client::Shelf;
use helve::store::{Entry, EntryKind, Journal, Record};
use helve::{HookSaid, Runtime, ToolSpec};

use crate::control::Control;
use crate::events::{Bound, Bounds, Ending, Event};
use crate::guard::Progress;
use crate::model::Model;
use crate::prompt::Toolset;
use crate::story::{Chapter, Digest};
use crate::talk::{Message, Stop, Usage, UserMessage};
use crate::window::{Window, weight, weight_of_tools};
use asking::Said;
use limits::Run;

/// So often is a model asked to go on where its answer was cut by its length.
const GO_ON: u32 = 3;
/// How much of what the owner said is kept for a talk that is cut: the first and the latest.
const OWNER_WORDS: usize = 20;

/// A talk with more in its journal does not go on: with its calls it could not be read any more.
const MOST_RECORDED: u64 = crate::record::MOST_BYTES / 2;

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
    toolset: Toolset,
    shelf: Option<Arc<Shelf>>,
    /// The tools that the model is shown now, and what they weigh.
    tools: Vec<Arc<ToolSpec>>,
    tools_weight: u64,
    messages: Vec<Message>,
    /// What the messages weigh.
    weight: u64,
    /// The hash of the request so far, of so many messages.
    digest: Option<(Digest, usize)>,
    window: Window,
    /// What the owner said.
    owner: Vec<String>,
    /// Who else wrote in the talk, where the owner does not vouch for it.
    tainted: Option<String>,
    /// The names of all calls of the talk: each has its own.
    ids: HashSet<String>,
    usage: Usage,
    /// What the model had in answers for which its provider counted nothing, about.
    uncounted: Usage,
    rounds: u64,
    /// How many bytes of the talk the journal has.
    recorded: AtomicU64,
}

/// How a run ends, and its last words.
struct Over {
    ending: Ending,
    text: String,
    /// Whether the text stops in the midst, because an answer became too long.
    cut: bool,
}

impl Over {
    fn new(ending: Ending, text: impl Into<String>) -> Self {
        Over { ending, text: text.into(), cut: false }
    }
}

impl Agent {
    /// A new talk.
    pub fn new(runtime: Runtime, model: Arc<dyn Model>, journal: Journal, options: Options) -> Agent {
        let window = Window::new(model.card(), options.max_output);
        let mut agent = Agent {
            runtime,
            model,
            journal,
            options,
            toolset: Toolset::Full,
            shelf: None,
            tools: Vec::new(),
            tools_weight: 0,
            messages: Vec::new(),
            weight: 0,
            digest: None,
            window,
            owner: Vec::new(),
            tainted: None,
            ids: HashSet::new(),
            usage: Usage::default(),
            uncounted: Usage::default(),
            rounds: 0,
            recorded: AtomicU64::new(0),
        };
        agent.look_at_tools();
        agent
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
        agent.set_messages(crate::record::messages(records));
        agent.recorded = AtomicU64::new(records.iter().map(|record| length(&record.body) as u64).sum());
        for record in records {
            if let Some(source) =
                record.body["tainted"].as_str().filter(|_| record.kind == EntryKind::Outcome)
            {
                agent.tainted = Some(source.to_owned());
            }
            match Chapter::of(record) {
                Some(Chapter::Begin { goes_on: false, .. }) => {
                    agent.owner.clear();
                    agent.tainted = None;
                }
                Some(Chapter::Said { message }) if !message.from_loop => agent.hear(&message.text),
                Some(Chapter::Answered { answer, round }) => {
                    agent.ids.extend(answer.message.calls.into_iter().map(|call| call.id));
                    agent.usage += answer.usage;
                    agent.rounds = agent.rounds.max(round);
                }
                Some(Chapter::Summed { answer, .. }) => agent.usage += answer.usage,
                Some(Chapter::Failed { error, .. }) => agent.usage += error.usage,
                Some(Chapter::Asked { round, .. }) => agent.rounds = agent.rounds.max(round),
                _ => {}
            }
        }
        agent
    }

    /// Shows and lets it call only some of the tools.
    #[must_use]
    pub fn with_toolset(mut self, toolset: Toolset) -> Agent {
        self.toolset = toolset;
        self.look_at_tools();
        self
    }

    /// Shows of the tools of MCP servers only those that this shelf shows; the others are found by `tool_search`.
    #[must_use]
    pub fn with_shelf(mut self, shelf: Arc<Shelf>) -> Agent {
        self.shelf = Some(shelf);
        self.look_at_tools();
        self
    }

    /// The talk so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The tools that the model is shown.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        &self.tools
    }

    /// All that the model was asked and said in this talk.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The same with what nobody counted, about, and whether there is such.
    pub fn about(&self) -> (Usage, bool) {
        let mut all = self.usage;
        all += self.uncounted;
        (all, !self.uncounted.is_nothing())
    }

    /// About how many tokens the next request has.
    pub fn tokens(&self) -> u64 {
        self.window.tokens(self.request_weight())
    }

    /// Says something to the model and lets it work until it has nothing more to do, or something ends it.
    pub async fn run(
        &mut self,
        message: UserMessage,
        control: &Control,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Ending {
        let mut run = Run::new(control, watch, self.options.bounds, self.rounds, self.usage);
        let card = self.model.card();
        let model = format!("{}:{}", card.provider, card.name);
        run.tell(Event::Begin { session: self.journal.session().to_owned(), model });
        let (Ok(over) | Err(over)) = self.go(message, &mut run).await;
        let Over { mut ending, text, cut } = over;
        let usage = run.used(&self.usage);
        let (all, about) = run.about(&self.usage);
        self.uncounted += run.not_counted();
        let cost = self.model.card().price.map(|price| price.of(&all));
        let about = about && cost.is_some();
        let end = self.record(&[Chapter::End { ending: ending.name().to_owned(), usage, cost, about }]);
        if let Err(unrecorded) = end
            && !matches!(ending, Ending::Unrecorded { .. })
        {
            ending = unrecorded.ending;
        }
        let rounds = run.rounds(self.rounds);
        run.tell(Event::End { ending: ending.clone(), text, cut, usage, cost, about, rounds });
        ending
    }

    /// The talk is over for now: the owner's hooks hear how its last run ended. Of a talk that never ran they hear nothing.
    pub async fn close(&mut self, ending: &str, watch: &mut (dyn FnMut(Event) + Send)) {
        for HookSaid { hook, text, failed } in self.runtime.session_ends(ending).await {
            watch(Event::Hook { hook, text, failed });
        }
    }

    async fn go(&mut self, message: UserMessage, run: &mut Run<'_>) -> Result<Over, Over> {
        let resumed = !self.messages.is_empty();
        self.begin()?;
        let said = self.runtime.session_starts(resumed).await;
        self.hear(&message.text);
        self.say(message)?;
        for HookSaid { hook, text, failed } in said {
            let told = format!("The owner's hook {hook} says: {text}");
            run.tell(Event::Hook { hook, text, failed });
            if !failed {
                self.say(UserMessage { text: told, images: Vec::new(), from_loop: true })?;
            }
        }
        let (mut empty, mut cut) = (0, 0);
        // The answer so far, where it was cut.
        let mut begun = String::new();
        loop {
            self.may_go_on(run).await?;
            self.look_at_tools();
            self.make_room(run).await?;
            // What was asked for a summary counts too.
            self.stay_within(run).await?;
            let Said { text, calls, stop } = self.ask(run, true).await?;
            let was_cut = stop == Stop::Length;
            if !calls.is_empty() {
                (empty, cut) = (0, 0);
                begun.clear();
                let round = self.call(&calls, was_cut, run).await?;
                match run.guard.look(round) {
                    Progress::Fine => {}
                    Progress::Circles { rounds, times } => self.note(circles(rounds, times), run)?,
                    Progress::Stuck { rounds, times } => {
                        let why = format!("the same was done {} times with the same result", rounds * times);
                        return self.last_words(Ending::NoProgress, &why, run).await;
                    }
                }
            } else if text.is_empty() && stop != Stop::Refused {
                empty += 1;
                if empty > 1 {
                    return Err(nothing_said());
                }
                self.note(EMPTY.to_owned(), run)?;
            } else if was_cut && cut < GO_ON {
                cut += 1;
                begun.push_str(&text);
                self.note(CUT.to_owned(), run)?;
            } else if self.steer(run)? {
                cut = 0;
                begun.clear();
            } else {
                let text = if text.is_empty() { "The model refuses to answer.".to_owned() } else { text };
                // A secret may lie across the place where it was cut.
                let text = self.runtime.without_secrets(&(begun + &text));
                return Ok(Over { cut: was_cut, ..Over::new(Ending::Answered, text) });
            }
        }
    }

    /// Whether there may be one more request. What the owner said meanwhile goes before it.
    async fn may_go_on(&mut self, run: &mut Run<'_>) -> Result<(), Over> {
        run.pace().room().await;
        self.stay_within(run).await?;
        self.steer(run).map(|_| ())
    }

    /// Ends the run where it was stopped, and where a bound is reached.
    async fn stay_within(&mut self, run: &mut Run<'_>) -> Result<(), Over> {
        if run.is_stopped() {
            return Err(cancelled());
        }
        if self.recorded.load(Ordering::Relaxed) > MOST_RECORDED {
            let message = "The session has become too large to go on with it.".to_owned();
            let text = format!("{message} Begin a new one.");
            return Err(Over::new(Ending::Unrecorded { message }, text));
        }
        match self.bound(run) {
            Some(bound) => Err(self.at_bound(bound, run).await),
            None => Ok(()),
        }
    }

    /// The bound that is reached, if one is.
    fn bound(&self, run: &Run<'_>) -> Option<Bound> {
        run.bound(self.rounds, &self.usage, self.model.card().price)
    }

    /// Puts in what the owner said while it ran; whether there was anything.
    fn steer(&mut self, run: &Run<'_>) -> Result<bool, Over> {
        let heard = run.control.unheard();
        for text in &heard {
            self.hear(text);
            self.say(UserMessage { text: text.clone(), ..UserMessage::default() })?;
        }
        Ok(!heard.is_empty())
    }

    fn begin(&mut self) -> Result<(), Over> {
        let card = self.model.card();
        let (provider, model) = (card.provider.clone(), card.name.clone());
        let (system, tools) = (Digest::of_system(&self.options.system), Digest::of_tools(&self.tools));
        let goes_on = !self.messages.is_empty();
        self.record(&[Chapter::Begin { provider, model, system, tools, goes_on }])
    }

    /// Keeps what the owner said for a talk that has to be cut.
    fn hear(&mut self, text: &str) {
        if self.owner.len() >= OWNER_WORDS {
            self.owner.remove(1);
        }
        self.owner.push(self.runtime.without_secrets(text));
    }

    /// Says something to the model that the loop thinks of.
    fn note(&mut self, text: String, run: &mut Run<'_>) -> Result<(), Over> {
        run.tell(Event::Note { text: text.clone() });
        self.say(UserMessage { text, images: Vec::new(), from_loop: true })
    }

    /// Puts a message of the owner's or the loop's into the talk.
    fn say(&mut self, message: UserMessage) -> Result<(), Over> {
        let message = UserMessage { text: self.runtime.without_secrets(&message.text), ..message };
        self.record(&[Chapter::Said { message: message.clone() }])?;
        self.push(Message::User(message));
        Ok(())
    }

    fn push(&mut self, message: Message) {
        self.weight += weight(&message);
        self.messages.push(message);
    }

    fn set_messages(&mut self, messages: Vec<Message>) {
        self.weight = messages.iter().map(weight).sum();
        self.messages = messages;
        self.digest = None;
    }

    /// What a request weighs now.
    fn request_weight(&self) -> u64 {
        self.weight + self.tools_weight + self.options.system.len() as u64
    }

    /// Takes the tools that there are now; the list changes only where they do, so that the provider's cache holds.
    fn look_at_tools(&mut self) {
        let shown = |spec: &Arc<ToolSpec>| {
            self.toolset.shows(spec) && self.shelf.as_ref().is_none_or(|shelf| shelf.shows(&spec.name))
        };
        let now: Vec<Arc<ToolSpec>> = self.runtime.specs().filter(shown).collect();
        let same = now.len() == self.tools.len()
            && now.iter().zip(&self.tools).all(|(now, before)| Arc::ptr_eq(now, before));
        if !same {
            self.tools_weight = weight_of_tools(&now);
            self.tools = now;
            self.digest = None;
        }
    }

    /// Writes chapters into the journal. Nothing goes on unrecorded.
    fn record(&self, chapters: &[Chapter]) -> Result<(), Over> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let entry = |body| Entry { kind: EntryKind::Note, call: None, at_us, body };
        self.recorded
            .fetch_add(chapters.iter().map(|chapter| length(chapter) as u64).sum(), Ordering::Relaxed);
        let entries: Vec<Entry<&Chapter>> = chapters.iter().map(entry).collect();
        self.journal.record(&entries).map_err(|error| {
            let message = format!("The journal cannot be written: {error}");
            let text =
                format!("{message}. Nothing goes on unrecorded: free the disk or correct $HELVE_HOME.");
            Over::new(Ending::Unrecorded { message }, text)
        })
    }
}

const EMPTY: &str =
    "Your last answer was empty. Call a tool, or say what you found; if you are done, say so.";
const CUT: &str = "Your last answer was cut because it became too long. Go on exactly where it stopped.";

/// What a model is told that goes in circles.
fn circles(rounds: usize, times: usize) -> String {
    let what = match rounds {
        1 => "The same call was made with the same result".to_owned(),
        rounds => format!("The same {rounds} rounds of calls came in turn with the same results"),
    };
    format!(
        "{what} {times} times in a row. To do it once more will change nothing: try another way, or say what is in the way."
    )
}

fn nothing_said() -> Over {
    use crate::model::{ModelError, ModelErrorKind};
    let error = ModelError::new(ModelErrorKind::Strange, "The model answered with nothing, twice.")
        .hint("Say what to do in other words, or choose another model.");
    let text = error.to_string();
    Over::new(Ending::Model { error }, text)
}

fn cancelled() -> Over {
    Over::new(Ending::Cancelled, "The run was stopped.")
}
