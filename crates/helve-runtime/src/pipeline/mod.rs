//! The one way that every call takes, from every face, into every kind of tool:
//!
//! ```text
//! call ─ resolve ─ normalize ─ validate ─ authorize ─ schedule ─ execute ─ govern ─ record ─ result
//! ```
//!
//! One stage is one module. [`Pipeline::admit`] takes a batch through authorize and into the line, in call order;
//! [`Pipeline::finish`] runs one of them to its result. What is refused on the way is recorded like what ran.

pub(crate) mod authorize;
mod execute;
pub(crate) mod govern;
pub(crate) mod normalize;
mod record;
mod resolve;
pub(crate) mod schedule;
pub(crate) mod validate;

use std::sync::Arc;
use std::time::Instant;

use helve_core::{
    Args, Call, CallId, CallResult, Content, Decision, Lane, Output, SandboxReport, ToolError, ToolSpec,
    WireError,
};
use serde_json::Value;

use crate::call_id;
use crate::lanes::Lanes;
use crate::registry::Registry;
use authorize::{Authority, Permit, Refusal};
pub(crate) use execute::Executor;
use govern::Governor;
use record::Planned;
pub(crate) use record::Recorder;
use schedule::{Claim, Place, Scheduler};

/// What stands for the value of a sensitive parameter outside its tool.
const REDACTED: &str = "[REDACTED]";

/// The stages with what each needs.
pub(crate) struct Pipeline {
    pub(crate) registry: Registry,
    pub(crate) authority: Authority,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) executor: Executor,
    pub(crate) governor: Arc<Governor>,
    pub(crate) recorder: Recorder,
    pub(crate) lanes: Arc<Lanes>,
}

/// A call that has its permit and its place in the line, or its refusal.
pub(crate) enum Admitted {
    Ready(Box<Ready>),
    Refused(Box<CallResult>),
}

pub(crate) struct Ready {
    story: Story,
    permit: Permit,
    place: Place,
}

/// What is known of a call on its way.
#[derive(Clone)]
struct Story {
    id: Option<Value>,
    call: CallId,
    tool: String,
    lane: Option<Lane>,
    started: Instant,
    notes: Vec<String>,
    decision: Option<Decision>,
    sandbox: Option<SandboxReport>,
    /// The arguments as the journal may show them.
    args: Value,
}

impl Story {
    /// The result, and the unshaped answer that only the journal keeps.
    fn result(self, outcome: Result<Output, ToolError>) -> (CallResult, Option<String>) {
        let (ok, output, error) = match outcome {
            Ok(output) => (true, output, None),
            Err(mut error) => {
                let output = error.output.take().map_or_else(|| explained(&error), |output| *output);
                (false, output, Some(wire(error)))
            }
        };
        let result = CallResult {
            id: self.id,
            call: self.call,
            tool: self.tool,
            ok,
            content: output.content,
            details: output.details,
            error,
            notes: self.notes,
            decision: self.decision,
            sandbox: self.sandbox,
            truncated: output.truncated,
            cost: output.cost,
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        };
        (result, output.raw)
    }
}

impl Admitted {
    /// The result of a call whose own result never came.
    pub(crate) fn lost(&self) -> CallResult {
        match self {
            Admitted::Refused(result) => (**result).clone(),
            Admitted::Ready(ready) => {
                let error =
                    ToolError::internal("The call crashed inside Helve; the journal shows it as cut.");
                ready.story.clone().result(Err(error)).0
            }
        }
    }
}

impl Pipeline {
    /// Resolve to schedule.
    pub(crate) async fn admit(&self, call: Call) -> Admitted {
        let mut story = Story {
            id: call.id,
            call: call_id::fresh(),
            tool: call.tool,
            lane: None,
            started: Instant::now(),
            notes: Vec::new(),
            decision: None,
            sandbox: None,
            args: Value::Null,
        };
        match self.permit(&mut story, call.args).await {
            Ok(permit) => {
                let claim = Claim::new(permit.entry().spec(), permit.access());
                let place = self.scheduler.join(claim);
                Admitted::Ready(Box::new(Ready { story, permit, place }))
            }
            Err(refusal) => {
                story.decision = refusal.decision.map(|decision| *decision);
                Admitted::Refused(Box::new(self.refuse(story, refusal.error)))
            }
        }
    }

    /// Resolve to validate, for whoever wants to know what a tool would get.
    pub(crate) fn arguments(&self, tool: &str, args: Args) -> Result<Value, ToolError> {
        let entry = resolve::resolve(&self.registry, tool)?;
        let name = &entry.spec().name;
        let normalized = normalize::normalize(name, entry.arguments.schema(), args, &self.governor.limits)?;
        validate::validate(name, &entry.arguments, &normalized.args)?;
        Ok(normalized.args)
    }

    async fn permit(&self, story: &mut Story, args: Args) -> Result<Permit, Refusal> {
        story.args = self.unread_args(&args);
        let entry = resolve::resolve(&self.registry, &story.tool)?;
        let spec = entry.spec();
        story.tool.clone_from(&spec.name);
        story.lane = Some(spec.lane);
        if !spec.sensitive.is_empty() {
            // Unread text may hold a sensitive value anywhere.
            story.args = Value::String(REDACTED.to_owned());
        }
        let schema = entry.arguments.schema();
        let normalized = normalize::normalize(&spec.name, schema, args, &self.governor.limits)?;
        story.args = self.shown_args(spec, &normalized.args);
        story.notes = normalized.notes;
        validate::validate(&spec.name, &entry.arguments, &normalized.args)?;
        let shown = |args: &Value| self.shown_args(spec, args);
        let shell = || self.lanes.shell();
        let permit = self.authority.authorize(&story.call, entry, normalized.args, shown, shell).await?;
        story.decision = Some(permit.decision().clone());
        if spec.lane == Lane::Sandbox {
            story.sandbox = self.lanes.shell().ok().map(|shell| shell.report());
        }
        Ok(permit)
    }

    /// Schedule to record.
    pub(crate) async fn finish(&self, ready: Ready) -> CallResult {
        let Ready { mut story, permit, place } = ready;
        let _worker = place.turn().await;
        if let Err(error) = self.recorder.planned(self.planned(&story)) {
            permit.refund();
            return story.result(Err(error)).0;
        }
        let entry = Arc::clone(permit.entry());
        let outcome = self.executor.execute(&story.call, permit).await;
        let (outcome, notes) = self.govern(&story.call, outcome, entry.details());
        story.notes.extend(notes);
        let (mut result, raw) = story.result(outcome);
        if let Err(error) = self.recorder.outcome(&result, raw.as_deref()) {
            result.ok = false;
            result.error = Some(wire(error));
        }
        result
    }

    fn refuse(&self, story: Story, error: ToolError) -> CallResult {
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
            caller: self.authority.caller.name(),
            args: &story.args,
            decision: story.decision.as_ref(),
        }
    }

    fn govern(
        &self,
        call: &CallId,
        outcome: Result<Output, ToolError>,
        details: Option<&validate::Validator>,
    ) -> (Result<Output, ToolError>, Vec<String>) {
        let blobs = || self.lanes.blobs().ok();
        match outcome {
            Ok(mut output) => {
                let notes = self.governor.govern(call, &mut output, details, blobs);
                (Ok(output), notes)
            }
            Err(error) => {
                let mut error = self.clean_error(error);
                let notes = match error.output.as_mut() {
                    Some(output) => self.governor.govern(call, output, details, blobs),
                    None => Vec::new(),
                };
                (Err(error), notes)
            }
        }
    }

    fn clean_error(&self, mut error: ToolError) -> ToolError {
        error.message = self.governor.clean(&error.message);
        error.hint = error.hint.map(|hint| self.governor.clean(&hint));
        for problem in &mut error.problems {
            problem.expected = self.governor.clean(&problem.expected);
            problem.received = self.governor.clean(&problem.received);
        }
        error
    }

    /// Arguments as the journal, a prompt or a log may show them.
    fn shown_args(&self, spec: &ToolSpec, args: &Value) -> Value {
        let mut shown = args.clone();
        for name in &spec.sensitive {
            if let Some(value) = shown.get_mut(name) {
                *value = Value::String(REDACTED.to_owned());
            }
        }
        self.governor.clean_value(&mut shown);
        shown
    }

    /// Arguments that no stage has read yet: kept as text, short, so that a refusal can be understood later.
    fn unread_args(&self, args: &Args) -> Value {
        let text = match args {
            Args::Text(text) => text.chars().take(2000).collect::<String>(),
            Args::Value(_) => return Value::Null,
        };
        Value::String(self.governor.clean(&text))
    }
}

/// An error as the model reads it.
fn explained(error: &ToolError) -> Output {
    let mut text = error.message.clone();
    if !text.starts_with("Error:") {
        text.insert_str(0, "Error: ");
    }
    if let Some(hint) = &error.hint {
        text.push_str("\n\n");
        text.push_str(hint);
    }
    Output { content: vec![Content::Text { text }], ..Output::default() }
}

fn wire(error: ToolError) -> WireError {
    WireError { kind: error.kind, message: error.message, hint: error.hint, problems: error.problems }
}
