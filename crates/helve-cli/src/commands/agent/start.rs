//! From options and configuration to a talk with a model: the model, the tools, who is asked, the session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use helve::mcp::client::Shelf;
use helve::mcp::{Fleet, Gateway};
use helve::store::{Held, Home, Journal, JournalOptions};
use helve::{Approver, Caller, Policy, Runtime, Servers, ToolSpec};
use helve_agent::events::{Bounds, Ending};
use helve_agent::model::{Card, Model};
use helve_agent::prompt::{self, Toolset};
use helve_agent::record;
use helve_agent::run::{Agent, Options as AgentOptions};
use helve_agent::talk::Message;

use super::choose::{self, Chosen};
use super::hands::Hands;
use super::rules;
use super::turn::Left;
use crate::args::Global;
use crate::commands::replay;
use crate::failure::{Failure, NOT_FOUND};
use crate::harmless::one_line;
use crate::{approve, moment, setup, ui};

/// How long servers that were never seen before are waited for.
const SETTLE: Duration = Duration::from_secs(5);
/// Tasks that were given up have so long to end.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// What `helve agent` and `helve chat` take alike.
#[derive(ClapArgs)]
pub(crate) struct Setup {
    /// The model to ask: openai, openai-responses, anthropic, gemini, ollama or openai-compatible, a colon, and its name; or replay:FILE [default: model.use]
    #[arg(long, value_name = "PROVIDER:NAME", help_heading = "Model")]
    model: Option<String>,
    /// Where it is served, such as http://localhost:8080/v1 [default: model.base_url, else the provider's own address]
    #[arg(long, value_name = "URL", help_heading = "Model")]
    base_url: Option<String>,
    /// Ask the model at most this often in a run [default: agent.rounds]
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    max_rounds: Option<u64>,
    /// The longest time of a run, such as 10m, without that in which you are asked [default: agent.time]
    #[arg(long, value_name = "TIME", value_parser = moment::parse_duration, help_heading = "Bounds")]
    max_time: Option<Duration>,
    /// The most tokens of a run, requests and answers together [default: agent.tokens]
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    max_tokens: Option<u64>,
    /// The most that a run may cost, in US dollars [default: agent.cost]
    #[arg(long, value_name = "DOLLARS", help_heading = "Bounds")]
    max_cost: Option<f64>,
    /// Which tools the model is shown [default: agent.toolset]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(["readonly", "coding", "full"]))]
    toolset: Option<String>,
    /// Agree to calls beforehand: a command pattern such as 'git push origin *', tool:NAME, or @FILE with one a line; can be repeated
    #[arg(long, value_name = "RULE")]
    approve: Vec<String>,
}

impl Setup {
    /// The same as settings of the command line.
    fn settings(&self) -> Vec<String> {
        let mut settings = Vec::new();
        let mut set = |key: &str, value: Option<String>| {
            settings.extend(value.map(|value| format!("{key}={value}")));
        };
        set("model.use", self.model.clone());
        set("model.base_url", self.base_url.clone());
        set("agent.rounds", self.max_rounds.map(|rounds| rounds.to_string()));
        set("agent.time", self.max_time.map(|time| time.as_secs().to_string()));
        set("agent.tokens", self.max_tokens.map(|tokens| tokens.to_string()));
        set("agent.cost", self.max_cost.map(|cost| format!("{cost:.6}")));
        set("agent.toolset", self.toolset.clone());
        settings
    }
}

/// Which session a talk is kept in.
pub(crate) enum Which {
    /// A new one, named by the owner or else so.
    New {
        /// How its name begins where the owner names none.
        kind: &'static str,
    },
    /// One that is there, to go on with it.
    Resumed(String),
}

/// What a talk is made from, before there is an event loop.
pub(crate) struct Ready {
    policy: Policy,
    session: String,
    hands: Hands,
    workspace: PathBuf,
    runtime: Runtime,
    model: Arc<dyn Model>,
    fleet: Option<Arc<Fleet>>,
    home: PathBuf,
    resumed: bool,
    settings: Vec<String>,
}

/// Reads the configuration and chooses the model; says what is missing.
pub(crate) fn policy(global: &Global, setup: &Setup) -> Result<Policy, Failure> {
    setup::policy_with(global, setup.settings())
}

/// Puts everything together. Nothing is asked of the model, no server is started.
pub(crate) fn ready(global: &Global, setup: &Setup, policy: Policy, which: Which) -> Result<Ready, Failure> {
    let (workspace, home) = (setup::workspace(global)?, Home::default_path()?);
    let Chosen { model, secrets } = choose::choose(&policy, &workspace, &home)?;
    let (session, resumed) = match which {
        Which::New { kind } => {
            let named = setup::named_session(global, &policy);
            (named.map_or_else(|| fresh_session(kind, &workspace), Ok)?, false)
        }
        Which::Resumed(session) => (session, true),
    };
    let card = model.card();
    if policy.agent().cost.is_some() && card.price.is_none() && card.provider != "replay" {
        ui::note(&format!(
            "what {} costs is not known, so that --max-cost and agent.cost do not hold; model.price_input and \
             model.price_output say it",
            one_line(&format!("{}:{}", card.provider, card.name), 120)
        ));
    }
    let hands = Hands::listen()?;
    let pressed = hands.clone();
    let person = approve::person_who(Arc::new(move || pressed.press()));
    let person = person.map(|person| Arc::new(person) as Arc<dyn Approver>);
    let caller = Caller::Named(setup::AGENT.to_owned());
    let mut builder = setup::builder_for(global, policy.clone(), session.clone(), caller)?;
    if let Some(approver) = rules::approver(&setup.approve, person)? {
        builder = builder.approver(approver);
    }
    for (name, value) in secrets {
        builder = builder.secret(name, value);
    }
    let fleet = setup::fleet(global, &policy)?;
    if let Some(fleet) = &fleet {
        builder = builder.servers(Arc::clone(fleet) as Arc<dyn Servers>);
    }
    let runtime = setup::build(builder)?;
    let settings = setup.settings();
    Ok(Ready { policy, session, hands, workspace, runtime, model, fleet, home, resumed, settings })
}

/// A talk that can be gone on with.
pub(crate) struct Talk {
    pub(crate) agent: Agent,
    pub(crate) runtime: Runtime,
    pub(crate) hands: Hands,
    pub(crate) card: Card,
    /// How its last run ended; none before the first.
    pub(crate) ended: Option<Ending>,
    /// How it is left after that.
    pub(crate) left: Left,
    place: Place,
    /// Nobody else goes on with its session.
    _held: Held,
    /// Keeps the tools of servers in step.
    _gateway: Option<Gateway>,
    fleet: Option<Arc<Fleet>>,
}

/// Where a talk takes place, whoever answers.
struct Place {
    runtime: Runtime,
    policy: Policy,
    /// What its command line said.
    settings: Vec<String>,
    workspace: PathBuf,
    home: PathBuf,
    session: String,
    /// Which tools of servers are shown and which are searched for.
    shelf: Option<Arc<Shelf>>,
}

impl Ready {
    /// Learns the tools of the servers and opens the session.
    pub(crate) async fn talk(self) -> Result<Talk, Failure> {
        let Ready { policy, session, hands, workspace, runtime, model, fleet, home, resumed, settings } =
            self;
        let gateway = match &fleet {
            None => None,
            Some(fleet) => {
                fleet.recall().await;
                fleet.settled(SETTLE).await;
                let budget = usize::try_from(policy.mcp_schema_budget()).unwrap_or(usize::MAX);
                // Schemas must leave room for the talk.
                let budget = budget.min(prompt::schema_budget(model.card()));
                Some(Gateway::new(fleet, &runtime, budget))
            }
        };
        let card = model.card().clone();
        let shelf = gateway.as_ref().map(|gateway| Arc::clone(gateway.shelf()));
        let place = Place { runtime: runtime.clone(), policy, settings, workspace, home, session, shelf };
        // Nobody else goes on with a talk after it was read. A new session is there only once it is opened.
        let held = if resumed { Some(place.hold()?) } else { None };
        let agent = place.open(model, resumed)?;
        let _held = held.map_or_else(|| place.hold(), Ok)?;
        let (ended, left) = (None, Left::default());
        Ok(Talk { agent, runtime, hands, card, ended, left, place, _held, _gateway: gateway, fleet })
    }
}

impl Talk {
    /// The session that keeps it.
    pub(crate) fn session(&self) -> &str {
        &self.place.session
    }

    /// The longest time of a run.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.place.policy.agent().time
    }

    /// Goes on with another model.
    pub(crate) fn ask_another(&mut self, name: &str, global: &Global) -> Result<(), Failure> {
        // It is named after the one that the talk began with: what the command line says beside that one, which may be named
        // in a file alone, is not for this one.
        let began = self.place.policy.model().name;
        let named = began.as_deref().into_iter().chain([name]).map(|model| format!("model.use={model}"));
        let settings = self.place.settings.iter().cloned().chain(named).collect();
        let policy = setup::policy_with(global, settings)?;
        let Chosen { model, secrets } = choose::choose(&policy, &self.place.workspace, &self.place.home)?;
        // The runtime leaves out the keys that there were at the start. One that is new would be recorded where it shows.
        if secrets.iter().any(|(_, value)| self.runtime.without_secrets(value).contains(value)) {
            return Err(Failure::usage(format!(
                "the key of {name} was not known when the talk began, so that nothing would hide it. End the talk and go on \
                 with `helve chat --resume {} --model {name}`",
                self.session()
            )));
        }
        self.card = model.card().clone();
        let resumed = !self.agent.messages().is_empty();
        self.agent = self.place.open(model, resumed)?;
        Ok(())
    }

    /// Ends the servers.
    pub(crate) async fn stop(&self) {
        if let Some(fleet) = &self.fleet {
            fleet.close().await;
        }
    }
}

impl Place {
    /// Keeps others from going on with the same talk.
    fn hold(&self) -> Result<Held, Failure> {
        let home = Home::open(&self.home)?;
        helve::store::hold(&home, &self.session)?.ok_or_else(|| {
            Failure::usage(format!(
                "another `helve agent` or `helve chat` goes on with the session {} now. Wait for its end, or begin a new talk",
                self.session
            ))
        })
    }

    /// The talk of the session with a model: a new one, or the one that is in it.
    fn open(&self, model: Arc<dyn Model>, resumed: bool) -> Result<Agent, Failure> {
        let Place { runtime, policy, settings: _, workspace, home, session, shelf } = self;
        let bounds = policy.agent();
        let settings = policy.model();
        let toolset: Toolset = bounds.toolset.parse().map_err(Failure::usage)?;
        let shown = |spec: &Arc<ToolSpec>| {
            toolset.shows(spec) && shelf.as_ref().is_none_or(|shelf| shelf.shows(&spec.name))
        };
        let tools: Vec<Arc<ToolSpec>> = runtime.specs().filter(shown).collect();
        let (notes, others) = prompt::notes(home, workspace)?;
        for name in others {
            ui::note(&format!("the model does not read {name}. `helve trust {name}` shows and trusts it"));
        }
        let options = AgentOptions {
            system: prompt::system(&tools, policy, workspace, &notes),
            bounds: Bounds {
                rounds: bounds.rounds,
                time: bounds.time,
                tokens: bounds.tokens,
                cost: bounds.cost,
            },
            temperature: settings.temperature,
            max_output: settings.max_output,
        };
        let home = Home::open(home)?;
        let records = match resumed {
            true => record::records(&home, session)?,
            false => Vec::new(),
        };
        let journal = Journal::open(&home, session, JournalOptions { fsync: policy.fsync() })?;
        let agent = match resumed {
            false => Agent::new(runtime.clone(), model, journal, options),
            true => Agent::resume(runtime.clone(), model, journal, options, &records),
        };
        let agent = agent.with_toolset(toolset);
        Ok(match shelf {
            Some(shelf) => agent.with_shelf(Arc::clone(shelf)),
            None => agent,
        })
    }
}

/// The session to go on with: the one that is named, which has to hold a talk.
pub(crate) fn resumable(session: &str) -> Result<Which, Failure> {
    let home = setup::existing_home()?;
    let records = replay::records(home.as_ref(), session, NOT_FOUND)?;
    let messages: Vec<Message> = record::messages(&records);
    if messages.is_empty() {
        return Err(Failure::not_found(format!(
            "there is no talk in the session {session:?}. `helve log --session {session}` lists its calls"
        )));
    }
    Ok(Which::Resumed(session.to_owned()))
}

/// The last session of this kind in a workspace that nobody named; none if there is none.
pub(crate) fn last_session(kind: &str, workspace: &Path) -> Result<Option<String>, Failure> {
    let Some(home) = setup::existing_home()? else { return Ok(None) };
    let begins = format!("{kind}-{}-", mark(workspace));
    Ok(home.sessions()?.into_iter().filter(|name| name.starts_with(&begins)).max())
}

/// A name that no other session has: what it is, where, when, and something unlike.
fn fresh_session(kind: &str, workspace: &Path) -> Result<String, Failure> {
    let unlike = helve::mcp::token::fresh()
        .map_err(|error| Failure::internal(format!("no session can be named: {error}")))?;
    Ok(format!("{kind}-{}-{}-{}", mark(workspace), moment::stamp(), &unlike[..4]))
}

/// A short word for a workspace, by which its sessions are found again (FNV-1a, folded).
fn mark(workspace: &Path) -> String {
    let hash =
        workspace.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// Runs a talk to its end on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("the event loop cannot start: {error}")))?;
    let done = tokio.block_on(work);
    // A thread that waits for a line from the terminal cannot be waited for.
    tokio.shutdown_timeout(SHUTDOWN);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_workspace_are_told_from_others_and_in_order() {
        let (here, there) = (Path::new("/a/b"), Path::new("/a/c"));
        assert_ne!(mark(here), mark(there));
        let first = fresh_session("chat", here).unwrap();
        assert!(first.starts_with(&format!("chat-{}-20", mark(here))), "{first}");
        helve::store::check_session(&first).unwrap();
        assert_ne!(first, fresh_session("chat", here).unwrap());
    }
}
