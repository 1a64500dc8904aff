//! One server of the fleet: its connection when it is needed, its tools and how they stand, its failures and when it is
//! tried again.
//!
//! Whoever needs the server waits for the one start under way; a start that fails is not repeated before its time. What a
//! tool stands for is looked at again at every call: one that changed since it was offered is not called.

mod more;
mod tools;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::{ErrorKind, ServerCall, ServerReply, ServerSpec, ToolError};
use tokio::sync::{Notify, Semaphore, watch};

use super::connection::{CallFailure, Connection};
use super::definition::{self, Definition, Rejected};
use super::face::News;
use super::failure::cancelled;
use super::fleet::FleetParts;
use super::look::{Era, ServerLook, ServerState, StateName, ToolLook};
use super::more::Listed;
use super::oauth::off_loop;
use super::offered::Offered;
use super::opening::Opening;
use super::pins::{self, Standing};
use super::seat::Session;
use super::sent::Sent;
pub(super) use turns::Turn;

/// The first pause after a failure; each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// A server that ran so long has started well.
const STEADY: Duration = Duration::from_secs(30);
/// How long a server's announcement of changes is let settle, and how often they are looked at.
const SETTLE: Duration = Duration::from_millis(100);
/// How often a call may lead to signing in.
const SIGN_INS: u32 = 2;

type Started = Option<Result<Arc<Connection>, ToolError>>;

enum State {
    Idle,
    Starting(watch::Receiver<Started>),
    Up(Arc<Connection>, Instant),
    Down { error: ToolError, until: Instant },
}

/// What is known of a server's tools.
#[derive(Default)]
struct Catalog {
    tools: BTreeMap<String, ToolLook>,
    rejected: Vec<Rejected>,
    /// Whether the server, or its pins, have said anything.
    is_known: bool,
}

/// A server.
pub(crate) struct Slot {
    pub(crate) spec: ServerSpec,
    parts: Arc<FleetParts>,
    state: Mutex<State>,
    failures: Mutex<u32>,
    era: Mutex<Option<Era>>,
    catalog: Mutex<Catalog>,
    offered: Offered,
    /// The server's own names of its prompts, by those under which they are shown.
    prompts: Mutex<BTreeMap<String, String>>,
    version: Arc<watch::Sender<u64>>,
    more_version: Arc<watch::Sender<u64>>,
    /// Held while the tools are listed, so that an older list never replaces a newer one.
    listing: tokio::sync::Mutex<()>,
    /// What calls take a part of while they run.
    turns: Arc<Semaphore>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    pub(crate) fn new(
        spec: ServerSpec,
        parts: Arc<FleetParts>,
        version: Arc<watch::Sender<u64>>,
        more_version: Arc<watch::Sender<u64>>,
    ) -> Arc<Slot> {
        let offered = Offered::new(&spec);
        Arc::new(Slot {
            spec,
            parts,
            state: Mutex::new(State::Idle),
            failures: Mutex::new(0),
            era: Mutex::new(None),
            catalog: Mutex::default(),
            offered,
            prompts: Mutex::default(),
            version,
            more_version,
            listing: tokio::sync::Mutex::new(()),
            turns: Arc::new(Semaphore::new(turns::ALL as usize)),
        })
    }

    /// The connection; started if it is not yet, or again if it ended.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, ToolError> {
        let mut started = {
            let mut state = lock(&self.state);
            match &*state {
                State::Up(connection, _) if !connection.is_closed() => return Ok(Arc::clone(connection)),
                State::Starting(started) => started.clone(),
                State::Down { error, until } if Instant::now() < *until => {
                    return Err(self.not_yet(error, *until));
                }
                State::Up(_, since) => {
                    if since.elapsed() >= STEADY {
                        *lock(&self.failures) = 0;
                    } else if let Some(pause) = self.pause_after_early_end() {
                        let error = ToolError::failed(format!(
                            "The MCP server '{}' ended soon after it started.",
                            self.spec.name
                        ));
                        let until = Instant::now() + pause;
                        *state = State::Down { error: error.clone(), until };
                        return Err(self.not_yet(&error, until));
                    }
                    self.begin(&mut state)
                }
                State::Idle | State::Down { .. } => self.begin(&mut state),
            }
        };
        let done = started.wait_for(Option::is_some).await;
        match done.ok().and_then(|done| done.clone()) {
            Some(done) => done,
            None => {
                Err(ToolError::internal(format!("Starting the MCP server '{}' crashed.", self.spec.name)))
            }
        }
    }

    /// One that ends early may start again at once, but not for ever.
    fn pause_after_early_end(&self) -> Option<Duration> {
        let mut failures = lock(&self.failures);
        *failures += 1;
        (*failures > 1).then(|| pause(*failures - 1))
    }

    /// Starts the server in a task of its own: whoever waits may give up, the start goes on.
    fn begin(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Started> {
        let (tell, started) = watch::channel(None);
        *state = State::Starting(started.clone());
        let slot = Arc::clone(self);
        tokio::spawn(async move {
            let done = slot.start().await;
            {
                let mut state = lock(&slot.state);
                *state = match &done {
                    Ok(connection) => State::Up(Arc::clone(connection), Instant::now()),
                    Err(error) => {
                        let mut failures = lock(&slot.failures);
                        *failures += 1;
                        State::Down { error: error.clone(), until: Instant::now() + pause(*failures) }
                    }
                };
            }
            tell.send_replace(Some(done));
        });
        started
    }

    async fn start(self: &Arc<Self>) -> Result<Arc<Connection>, ToolError> {
        let name = &self.spec.name;
        let changed = Arc::new(Notify::new());
        let era = *lock(&self.era);
        let news = News { tools: Arc::clone(&changed), more: Arc::clone(&self.more_version) };
        let opening = Opening { spec: &self.spec, parts: &self.parts, era, news };
        let opened = self.open_and_list(&opening).await.map_err(|mut error| {
            error.message = self.parts.hidden(&error.message);
            error
        });
        match &opened {
            Ok(connection) => {
                *lock(&self.era) = Some(connection.era);
                self.parts.log.event(name, "started", &format!("protocol {}", connection.version));
                tokio::spawn(follow(Arc::downgrade(self), Arc::downgrade(connection), changed));
            }
            Err(error) => self.parts.log.event(name, "failed", &error.message),
        }
        opened
    }

    /// A server may let anybody in and want the owner to sign in only when it is asked for its tools.
    async fn open_and_list(&self, opening: &Opening<'_>) -> Result<Arc<Connection>, ToolError> {
        for _ in 0..=SIGN_INS {
            let connection = Arc::new(opening.open().await?);
            match self.refresh(&connection).await {
                Ok(()) => return Ok(connection),
                Err(CallFailure::SignIn(challenge)) => opening.sign_in(Some(&challenge)).await?,
                Err(CallFailure::Plain(error) | CallFailure::Gone(error)) => return Err(error),
            }
        }
        Err(self.wants_more())
    }

    pub(crate) fn wants_more(&self) -> ToolError {
        let message = format!("The MCP server '{}' keeps asking for more rights.", self.spec.name);
        ToolError::new(ErrorKind::Blocked, message)
    }

    fn not_yet(&self, error: &ToolError, until: Instant) -> ToolError {
        let seconds = until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
        let mut error = error.clone();
        error.message = format!("{} It is tried again in {seconds} s.", error.message);
        error
    }

    /// Lists the tools anew and holds them against the pins.
    async fn refresh(&self, connection: &Connection) -> Result<(), CallFailure> {
        let _one_at_a_time = self.listing.lock().await;
        let listed = connection.list(Listed::Tools, self.parts.limits.tools, self.spec.start_timeout).await?;
        let mut definitions: Vec<Definition> = Vec::with_capacity(listed.len());
        let mut rejected = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for raw in &listed {
            match definition::read_hiding(&self.spec.name, raw, &self.parts.hide) {
                Ok(definition) if seen.insert(definition.tool.clone()) => definitions.push(definition),
                Ok(definition) => {
                    rejected
                        .push(Rejected { tool: definition.tool, reason: "it is listed twice".to_owned() });
                }
                Err(fault) => rejected.push(fault),
            }
        }
        let standings = self.standings(&definitions).await.map_err(CallFailure::Plain)?;
        for fault in &rejected {
            self.parts.log.event(
                &self.spec.name,
                "refused",
                &format!("tool {}: {}", fault.tool, fault.reason),
            );
        }
        let looks = definitions.into_iter().zip(standings).map(|(definition, standing)| {
            if matches!(standing, Standing::Changed { .. } | Standing::New) {
                let (tool, hash) = (&definition.tool, &definition.hash);
                let text = format!("tool {tool} is off until the owner agrees to it: {hash}");
                self.parts.log.event(&self.spec.name, "changed", &text);
            }
            (definition.tool.clone(), ToolLook { definition, standing })
        });
        let tools = looks.collect();
        self.put(Catalog { tools, rejected, is_known: true });
        Ok(())
    }

    async fn standings(&self, definitions: &[Definition]) -> Result<Vec<Standing>, ToolError> {
        let pins = self.pins().await?;
        let (mut standings, fresh) = pins::stand(definitions, pins.as_deref(), self.spec.trusted);
        if pins.is_none() || !fresh.is_empty() {
            let (store, name) = (Arc::clone(&self.parts.pins), self.spec.name.clone());
            off_loop(move || store.pin(&name, fresh)).await?;
        }
        for (standing, definition) in standings.iter_mut().zip(definitions) {
            if !self.offered.offers(&definition.tool) {
                *standing = Standing::Denied;
            }
        }
        Ok(standings)
    }

    /// Everything about it; it is started if it is not yet.
    pub(crate) async fn look(self: &Arc<Self>) -> Result<ServerLook, ToolError> {
        let connection = self.connection().await?;
        let catalog = lock(&self.catalog);
        Ok(ServerLook {
            name: self.spec.name.clone(),
            era: connection.era,
            version: connection.version.clone(),
            server_info: connection.server_info.clone(),
            instructions: connection.instructions.clone(),
            opened_in: connection.opened_in,
            sandbox: connection.sandbox(),
            tools: catalog.tools.values().cloned().collect(),
            rejected: catalog.rejected.clone(),
        })
    }

    /// How it is, without starting it.
    pub(crate) fn state(&self) -> ServerState {
        let (state, error) = match &*lock(&self.state) {
            State::Idle => (StateName::Idle, None),
            State::Starting(_) => (StateName::Starting, None),
            State::Up(connection, _) if connection.is_closed() => (StateName::Down, None),
            State::Up(..) => (StateName::Up, None),
            State::Down { error, .. } => (StateName::Down, Some(error.clone())),
        };
        let catalog = lock(&self.catalog);
        let on = catalog.tools.values().filter(|look| look.standing == Standing::On).count();
        ServerState { name: self.spec.name.clone(), state, error, tools: (on, catalog.tools.len()) }
    }

    /// Sends one call to the server, if it is there, nothing runs that the call has to wait for, and that can be done straight.
    pub(crate) fn send(self: &Arc<Self>, call: &ServerCall, session: Session) -> Option<Sent> {
        let connection = match &*lock(&self.state) {
            State::Up(connection, _) if !connection.is_closed() => Arc::clone(connection),
            _ => return None,
        };
        self.may_call(&call.tool).ok()?;
        let turn = self.turn_now(call)?;
        Sent::new(self, connection, call, session, turn)
    }

    /// Why a call failed that nobody can do anything about.
    pub(super) fn failed(&self, failure: CallFailure) -> ToolError {
        match failure {
            CallFailure::Plain(error) => error,
            CallFailure::Gone(error) => {
                self.parts.log.event(&self.spec.name, "ended", &error.message);
                error
            }
            CallFailure::SignIn(_) => self.wants_more(),
        }
    }

    /// Carries one call to the server.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: ServerCall,
        session: Session,
    ) -> Result<ServerReply, ToolError> {
        let mut sign_ins = 0;
        let _turn = match self.turn_now(&call) {
            Some(turn) => turn,
            None => tokio::select! {
                biased;
                turn = Box::pin(self.turn(&call)) => turn,
                () = call.cancel.cancelled() => return Err(cancelled()),
            },
        };
        loop {
            let connection = tokio::select! {
                biased;
                connection = Box::pin(self.connection()) => connection?,
                () = call.cancel.cancelled() => return Err(cancelled()),
            };
            if call.act.is_call() {
                self.may_call(&call.tool)?;
            }
            // Boxed, as what is seldom needed is: the size of a call is copied each time that it is handed on.
            match Box::pin(connection.call(&call, session, self.spec.call_timeout)).await {
                Ok(reply) => return Ok(reply),
                Err(CallFailure::SignIn(challenge)) if sign_ins < SIGN_INS => {
                    sign_ins += 1;
                    let news = News { tools: Arc::default(), more: Arc::clone(&self.more_version) };
                    let opening = Opening { spec: &self.spec, parts: &self.parts, era: None, news };
                    Box::pin(opening.sign_in(Some(&challenge))).await?;
                    // The new rights are with a new connection.
                    let mut state = lock(&self.state);
                    if matches!(&*state, State::Up(now, _) if Arc::ptr_eq(now, &connection)) {
                        *state = State::Idle;
                    }
                }
                Err(failure) => return Err(self.failed(failure)),
            }
        }
    }

    /// Lets go of the connection, which is given back; the process ends with it.
    pub(crate) fn stop(&self) -> Option<Arc<Connection>> {
        match std::mem::replace(&mut *lock(&self.state), State::Idle) {
            State::Up(connection, _) => Some(connection),
            _ => None,
        }
    }
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LAST_PAUSE)
}

/// Lists the tools anew when the server says that they changed, for as long as the connection is in use.
async fn follow(slot: std::sync::Weak<Slot>, connection: std::sync::Weak<Connection>, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        tokio::time::sleep(SETTLE).await;
        let (Some(slot), Some(connection)) = (slot.upgrade(), connection.upgrade()) else { return };
        if let Err(CallFailure::Plain(error) | CallFailure::Gone(error)) = slot.refresh(&connection).await {
            slot.parts.log.event(&slot.spec.name, "failed", &error.message);
            if connection.is_closed() {
                return;
            }
        }
        drop((slot, connection));
        tokio::time::sleep(SETTLE * 10).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn pauses_grow_to_a_minute() {
        let seconds: Vec<u64> =
            [1, 2, 3, 6, 7, 8, 40].iter().map(|failures| pause(*failures).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60, 60]);
    }
}
