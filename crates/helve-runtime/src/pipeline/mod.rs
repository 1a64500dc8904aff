//! The one way that every call takes, from every face, into every kind of tool:
//!
//! ```text
//! call ─ resolve ─ normalize ─ validate ─ authorize ─ schedule ─ execute ─ govern ─ record ─ result
//! ```
//!
//! One stage is one module. [`Pipeline::admit`] takes a batch through authorize and into the line, in call order;
//! [`Pipeline::finish`] runs one of them to its result; `at_once` takes calls that wait for nothing, or for a server alone, the same
//! way, several at a time. What is refused on the way is recorded like what ran. `clean` is no
//! stage: it keeps secrets out of what is shown on the way. Nor is `hooked`: what the owner's hooks say of a call that was
//! authorized, before it takes its place, and of one that ended, before that is recorded. `story` is what a call is told by
//! from there on. `preview` goes the same way up to the decision,
//! for whoever only wants to know.

mod at_once;
pub(crate) mod authorize;
mod clean;
mod execute;
pub(crate) mod govern;
mod hooked;
pub(crate) mod normalize;
mod preview;
mod record;
mod resolve;
pub(crate) mod schedule;
mod story;
pub(crate) mod validate;

use std::sync::Arc;

use helve_core::{Args, Call, CallId, CallResult, ErrorKind, Lane, Output, Tool, ToolError};
use helve_policy::{ExecMode, HookEvent};
use serde_json::Value;

use crate::Caller;
use crate::approval::Approver;
use crate::hooks::Hooks;
use crate::lanes::Lanes;
use crate::off_async;
use crate::registry::{Entry, Live};
use crate::side::Side;
pub use at_once::{AtOnce, Stand, Taken, Waits};
use authorize::{Authority, Authorized, OwnAct, Permit, Refusal, Shown};
use clean::{REDACTED, hidden, is_too_large};
pub(crate) use execute::Executor;
use execute::{Notes, Told};
pub use govern::redact::{KnownSecrets, Redactor};
use govern::{Governor, Origin};
use record::Planned;
pub(crate) use record::Recorder;
use resolve::Found;
use schedule::{Claim, Place, Scheduler};
use story::{Ended, Story};

/// So much of an unknown tool's name is kept.
const MAX_NAME_CHARS: usize = 64;

/// The stages with what each needs.
pub(crate) struct Pipeline {
    pub(crate) registry: Live,
    /// The caller's side of every call that comes without one of its own.
    pub(crate) side: Arc<Side>,
    /// The owner's program that answers questions.
    pub(crate) hook: Option<Arc<dyn Approver>>,
    /// The owner's programs that hear of calls and sessions.
    pub(crate) hooks: Hooks,
    pub(crate) authority: Authority,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) executor: Executor,
    pub(crate) governor: Arc<Governor>,
    pub(crate) recorder: Recorder,
    pub(crate) lanes: Arc<Lanes>,
}

/// A call that has its permit and its place in the line, or its refusal. What is large is boxed: it is handed on often.
pub(crate) enum Admitted {
    Ready(Ready),
    Refused(Box<CallResult>),
}

/// A call with what authorize says of it.
pub(crate) struct Looked(Box<Story>, Result<Authorized, Refusal>);

pub(crate) struct Ready {
    story: Box<Story>,
    permit: Box<Permit>,
    place: Place,
}

impl Admitted {
    /// The result of a call whose own result never comes; none for a refusal, which has its result.
    pub(crate) fn lost(&self) -> Option<CallResult> {
        match self {
            Admitted::Refused(_) => None,
            Admitted::Ready(ready) => {
                let error =
                    ToolError::internal("The call crashed inside Helve; the journal shows it as cut.");
                Some(*ready.story.clone().result(Err(error)).0)
            }
        }
    }
}

impl Pipeline {
    /// Resolve to schedule. The questions of all calls are asked together, before any of them takes its place in the line.
    pub(crate) async fn admit(&self, calls: Vec<Call>, side: &Arc<Side>) -> Vec<Admitted> {
        let mut questions = Vec::new();
        let looks = calls.into_iter().map(|call| self.look(call, side)).collect();
        let mut looked = Vec::new();
        for (story, look) in self.hooked(looks).await {
            looked.push(match look {
                Ok(Authorized::Permit(permit)) => (story, Some(Ok(permit))),
                Ok(Authorized::Question(question)) => {
                    questions.push(*question);
                    (story, None)
                }
                Err(refusal) => (story, Some(Err(refusal))),
            });
        }
        let mut answers = self.authority.ask(questions, side).await.into_iter();
        let settled = looked.into_iter().map(|(story, result)| {
            let result = result.or_else(|| answers.next()).unwrap_or_else(unanswered);
            self.place(story, result)
        });
        settled.collect()
    }

    /// Schedule, for one call that was looked at.
    pub(crate) async fn admit_one(&self, looked: Looked, side: &Arc<Side>) -> Admitted {
        let Looked(story, look) = looked;
        let (story, look) = match self.hooks.are_deaf(HookEvent::BeforeCall, &story.tool) {
            true => (story, look),
            // Boxed, as few calls need it: a large future is copied each time that it is handed on.
            false => Box::pin(self.hooked_one(story, look)).await,
        };
        let result = match look {
            Ok(Authorized::Permit(permit)) => Ok(permit),
            Ok(Authorized::Question(question)) => {
                // Boxed, as what is seldom needed is: the size of a call is copied each time that it is handed on.
                let asked = Box::pin(self.authority.ask(vec![*question], side));
                asked.await.pop().unwrap_or_else(unanswered)
            }
            Err(refusal) => Err(refusal),
        };
        self.place(story, result)
    }

    /// Resolve to authorize for one call, up to the question where there is one.
    pub(crate) fn look_at(&self, call: Call, side: &Arc<Side>) -> Looked {
        let (story, look) = self.look(call, side);
        Looked(story, look)
    }

    /// Resolve to authorize, up to the question where there is one.
    fn look(&self, call: Call, side: &Arc<Side>) -> (Box<Story>, Result<Authorized, Refusal>) {
        let mut id = call.id;
        if let Some(id) = &mut id {
            self.governor.clean_value(id);
        }
        let mut story = Story::new(id, call.tool, side);
        let look = self.authorized(&mut story, call.args);
        (story, look)
    }

    /// Schedule, or the refusal's result.
    fn place(&self, mut story: Box<Story>, result: Result<Box<Permit>, Refusal>) -> Admitted {
        match result {
            Ok(mut permit) => {
                story.notes.extend(permit.take_notes().iter().map(|note| self.governor.clean(note)));
                let (decision, effects, approval) = permit.take_reasons();
                (story.decision, story.effects, story.approval) = (Some(decision), effects, approval);
                if story.lane == Some(Lane::Sandbox) {
                    story.sandbox = self.lanes.shell().ok().map(|shell| shell.report().into());
                }
                let claim = Claim::new(permit.entry().spec(), permit.access());
                let place = self.scheduler.join(claim);
                Admitted::Ready(Ready { story, permit, place })
            }
            Err(refusal) => {
                story.decision = refusal.decision.map(|decision| *decision);
                story.effects = refusal.effects;
                story.approval = refusal.approval;
                Admitted::Refused(self.refuse(story, refusal.error))
            }
        }
    }

    /// An act of the owner's own: schedule to record. There is nothing to resolve, and nobody to ask.
    pub(crate) async fn own(&self, tool: impl Tool + 'static, act: OwnAct) -> CallResult {
        let entry = Arc::new(Entry::new(Arc::new(tool)));
        let mut story = Story::new(None, entry.spec().name.clone(), &self.side);
        story.lane = Some(entry.spec().lane);
        story.args = Some(Arc::new(serde_json::json!({ "call": act.call() })));
        let permit = Box::new(self.authority.own(entry, act));
        match self.place(story, Ok(permit)) {
            Admitted::Ready(ready) => *self.finish(ready).await,
            Admitted::Refused(result) => *result,
        }
    }

    /// The refusal of a call beyond the most that a batch may hold.
    pub(crate) fn too_many(&self, call: Call, side: &Arc<Side>, limit: u64) -> CallResult {
        let story = Story::new(None, self.governor.clean_short(&call.tool, MAX_NAME_CHARS), side);
        let error = ToolError::new(ErrorKind::TooLarge, format!("A batch holds at most {limit} calls."))
            .hint("Send the rest in another batch.");
        let mut id = call.id;
        id.iter_mut().for_each(|id| self.governor.clean_value(id));
        CallResult { id, ..*story.result(Err(error)).0 }
    }

    fn authorized(&self, story: &mut Story, args: Args) -> Result<Authorized, Refusal> {
        if matches!(&story.side.caller, Caller::Named(name) if name == Caller::Owner.name()) {
            let error = ToolError::internal("The caller's name 'owner' is the owner's own.");
            return Err(error.hint("The program that serves the caller has to give it another.").into());
        }
        let registry = self.registry.now();
        let found = resolve::resolve(&registry, &story.tool);
        let found @ Found { entry, spoken } = match found {
            Ok(found) => found,
            Err(error) => {
                let missing = self.lanes.servers().and_then(|servers| servers.missing(&story.tool));
                // A name that no tool has came from outside like the arguments, and may hold anything.
                story.tool = self.governor.clean_short(&story.tool, MAX_NAME_CHARS);
                story.args = Some(Arc::new(self.unread_args(&args)));
                return Err(missing.unwrap_or(error).into());
            }
        };
        let spec = entry.spec();
        story.called = spoken.map(|spoken| spoken.spec().name.clone());
        story.tool.clone_from(&spec.name);
        story.lane = Some(spec.lane);
        let valid = self.valid(found, args, story)?;
        self.permitted(story, entry, valid)
    }

    /// Authorize.
    fn permitted(&self, story: &Story, entry: &Arc<Entry>, valid: Arc<Value>) -> Result<Authorized, Refusal> {
        let spec = entry.spec();
        // It makes ready while the guard reads the command.
        if spec.lane == Lane::Sandbox
            && let Ok(shell) = self.lanes.shell()
        {
            match self.lanes.policy.exec_mode() {
                ExecMode::Direct => shell.prepare(),
                ExecMode::Preview | ExecMode::Checkpoint => {
                    shell.prepare_layer(self.governor.limits.exec_layer_bytes);
                }
            }
        }
        let shown =
            Shown { args: &|args| self.shown_args(spec, args), text: &|text| self.governor.redact(text) };
        let side = &story.side;
        self.authority.authorize(&story.call, side, entry, valid, &shown, || self.lanes.shell())
    }

    /// Normalize and validate. What a refusal shows of the arguments is taken from a copy without secrets, because an
    /// error shortens what it shows, and half a secret would not be found any more.
    fn valid(&self, found: Found<'_>, args: Args, story: &mut Story) -> Result<Arc<Value>, ToolError> {
        let spec = found.entry.spec();
        let args = match args {
            // Most arguments need no copy of which something could be told.
            Args::Value(value) if normalize::goes_on(found, &value, &self.governor.limits) => {
                let value = Arc::new(value);
                story.args = Some(self.shown(spec, &value));
                return Ok(value);
            }
            args => args,
        };
        match self.checked(found, &args) {
            Ok(normalized) => {
                let valid = Arc::new(normalized.args);
                story.args = Some(self.shown(spec, &valid));
                story.notes = normalized.notes.iter().map(|note| self.governor.clean(note)).collect();
                if !spec.sensitive.is_empty() {
                    story.notes.retain(|note| {
                        !spec.sensitive.iter().any(|name| note.starts_with(&format!("/{name}")))
                    });
                }
                Ok(valid)
            }
            Err(error) => {
                let unread = self.redacted(&args);
                story.args = Some(Arc::new(match &unread {
                    _ if !spec.sensitive.is_empty() => Value::String(REDACTED.to_owned()),
                    Some(unread) => self.unread_args(unread),
                    None => Value::Null,
                }));
                if is_too_large(&error) {
                    return Err(error);
                }
                let told = unread.and_then(|unread| self.checked(found, &unread).err());
                Err(self.without_sensitive(spec, told.unwrap_or_else(|| hidden(error))))
            }
        }
    }

    /// Normalize and validate. A call in a dialect is checked as it was declared there, becomes ours, and is checked again.
    fn checked(&self, found: Found<'_>, args: &Args) -> Result<normalize::Normalized, ToolError> {
        let Some(spoken) = found.spoken else { return self.checked_ours(found.entry, args) };
        let (ours, mut notes) = spoken.translate(args, &self.governor.limits)?;
        let checked =
            self.checked_ours(found.entry, &Args::Value(ours)).map_err(|error| spoken.retell(error))?;
        notes.extend(checked.notes);
        Ok(normalize::Normalized { notes, ..checked })
    }

    fn checked_ours(&self, entry: &Entry, args: &Args) -> Result<normalize::Normalized, ToolError> {
        let name = &entry.spec().name;
        let normalized = normalize::normalize(name, &entry.arguments, args, &self.governor.limits)?;
        validate::validate(name, &entry.arguments, &normalized.args)?;
        Ok(normalized)
    }

    /// Schedule to record.
    pub(crate) async fn finish(&self, ready: Ready) -> Box<CallResult> {
        let Ready { mut story, mut permit, place } = ready;
        // It has its worker before it is planned in the journal: what only waited when Helve was killed was never begun.
        let worker = place.turn().await;
        // A call before this one may have changed what was approved.
        if let Err(error) = self.authority.still_holds(&permit) {
            return self.refuse(story, error);
        }
        let alone = !story.side.beside && self.scheduler.is_alone();
        if let Err(error) = self.recorder.planned(self.planned(&story), alone).await {
            return story.result(Err(error)).0;
        }
        let entry = Arc::clone(permit.entry());
        let notes = Notes::default();
        // What the owner does by hand is no call that anybody hears of.
        let by_owner = permit.own().is_some();
        let is_heard = !by_owner && !self.hooks.are_deaf(HookEvent::AfterCall, &story.tool);
        if !is_heard {
            // Nobody wants to know them any more, so that the tool gets them without a copy.
            story.args = None;
        }
        let sources = self.authority.take_sources(&mut permit);
        let outcome = self.executor.execute(&story.call, &story.side, permit, &notes).await;
        // The next call is planned while this one tells of itself, so that both entries are written together.
        drop(worker);
        story.tainted = self.authority.brought(sources, &self.governor);
        let alone = !story.side.beside && self.scheduler.is_alone();
        let mut ended = self.ended(story, outcome, &entry, notes.take(), is_heard);
        let hooks = match ended.heard.take() {
            Some(story) => Box::pin(self.heard_after(&story, &mut ended.result)).await,
            None => Vec::new(),
        };
        let recorded = self.recorder.outcome(&ended.result, ended.beside(&hooks), alone).await;
        ended.holds_if(recorded);
        ended.result
    }

    /// Govern, and all that is to be told of a call that has run.
    fn ended(
        &self,
        mut story: Box<Story>,
        outcome: Result<Output, ToolError>,
        entry: &Entry,
        mut told: Told,
        is_heard: bool,
    ) -> Ended {
        let outcome = outcome.map_err(|error| match error.kind {
            ErrorKind::InvalidParams => self.without_sensitive(entry.spec(), error),
            _ => error,
        });
        if !told.changed.is_empty() {
            self.lanes.blob_kept();
        }
        told.changed.iter_mut().for_each(|change| change.path = self.governor.clean(&change.path));
        story.notes.extend(told.notes.iter().map(|note| self.governor.clean(note)));
        // Before the run it was only known which sandbox was meant.
        story.sandbox = told.sandbox.or(story.sandbox);
        let (outcome, notes) = self.govern(&story.call, outcome, entry);
        story.notes.extend(notes);
        let heard = is_heard.then(|| story.clone());
        let (result, raw) = story.result(outcome);
        Ended { result, raw, changed: told.changed, heard }
    }

    fn refuse(&self, story: Box<Story>, error: ToolError) -> Box<CallResult> {
        let (mut result, _) = story.clone().result(Err(self.clean_error(error)));
        if let Err(error) = self.recorder.refused(self.planned(&story), &result) {
            result.notes.push(error.message);
        }
        result
    }

    fn planned<'a>(&'a self, story: &'a Story) -> Planned<'a> {
        Planned {
            call: &story.call,
            id: story.id.as_ref(),
            tool: &story.tool,
            lane: story.lane.map(Lane::name),
            called: story.called.as_deref(),
            caller: story.side.caller.name(),
            client: story.side.client.as_deref(),
            tainted: story.side.tainted.as_deref(),
            args: story.args.as_deref().unwrap_or(&Value::Null),
            approval: story.approval.as_deref(),
            decision: story.decision.as_ref(),
            effects: story.effects.as_deref(),
            hooks: &story.hooks,
            workspace: self.recorder.workspace(),
        }
    }

    fn govern(
        &self,
        call: &CallId,
        outcome: Result<Output, ToolError>,
        entry: &Entry,
    ) -> (Result<Output, ToolError>, Vec<String>) {
        let by = Origin { schema: entry.details(), foreign: entry.spec().lane == Lane::Mcp };
        let keep = |whole: &str| {
            // That takes longer than anybody should have to wait for the journal.
            self.recorder.rest();
            off_async(|| self.lanes.keep(whole))
        };
        match outcome {
            Ok(mut output) => {
                let notes = self.governor.govern(call, &mut output, &by, keep);
                match notes {
                    Ok(notes) => (Ok(output), notes),
                    Err(error) => (Err(error), Vec::new()),
                }
            }
            Err(error) => {
                let mut error = self.clean_error(error);
                // What failed need not look as what worked would.
                let by = Origin { schema: by.schema.filter(|_| !by.foreign), ..by };
                let notes = error.output.as_mut().map(|output| self.governor.govern(call, output, &by, keep));
                (Err(error), notes.and_then(Result::ok).unwrap_or_default())
            }
        }
    }
}

/// Each question has its answer; one without is no yes.
fn unanswered() -> Result<Box<Permit>, Refusal> {
    Err(ToolError::internal("The answer to the question about the call was lost.").into())
}
