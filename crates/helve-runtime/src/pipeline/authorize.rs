//! Authorize: valid arguments and the owner's policy in, a [`Permit`] out, or a refusal that names its rule.
//!
//! In order: is the tool enabled, what does the guard say of its commands, what do the rules say of it and of the paths that
//! it names, has the caller calls left, must a person agree, and did one agree before. The strictest rule wins. A permit can be made nowhere else, and execute takes nothing
//! else.
//!
//! | module | does |
//! |---|---|
//! | `judge` | what the policy says of the commands of a call |
//! | `paths` | what it says of the paths that a call names |
//! | `need` | whether a person must agree |
//! | `taint` | whether one must because of who wrote what led to the call |
//! | `ask` | the question to a person, and what the answer is worth |
//! | `refuse` | the words for a question that brought no yes |
//! | `preview` | what would be decided, for whoever only wants to know |
//! | `shown` | what is shown of a call: no known secrets |

mod ask;
mod judge;
mod need;
mod own_act;
mod paths;
mod preview;
mod refuse;
mod shown;
pub(super) mod taint;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use helve_core::{
    Access, ApprovalNeed, CallId, Decision, ErrorKind, Lane, RateLimit, Resource, SandboxChoice,
    ShellBackend, ToolError, ToolSpec, Verdict,
};
use helve_policy::{PathDecision, Policy, RunBy, Ticket, ToolRule, blocked_message};
use helve_store::Within;
use serde_json::Value;

use crate::Caller;
use crate::approval::EffectSummary;
use crate::approval::grants::Grants;
use crate::approval::note::ApprovalNote;
use crate::counts::Counts;
use crate::off_async;
use crate::registry::Entry;
use crate::side::Side;
use ask::Held;
pub(crate) use ask::Question;
use judge::{Asking, Judged, judge};
use need::Need;
pub(crate) use shown::Shown;

pub(crate) use own_act::OwnAct;

/// The rule that allows a bare command without a question, and why.
const BARE: &str = "guard.bare";
const READS: &str = "it only reads";
/// The rule behind what the owner does at the command line, which is not a tool call.
const OWNER: &str = "owner";

/// The proof that a call may happen. Its fields are private to this module.
pub(crate) struct Permit {
    entry: Arc<Entry>,
    /// None once they went to the tool.
    args: Option<Arc<Value>>,
    access: Arc<Access>,
    /// Why it was given, until the story has that.
    decision: Decision,
    ticket: Option<Ticket>,
    /// What its commands do, until the story has that.
    effects: Option<Box<EffectSummary>>,
    /// How the owner agreed, where that was needed, until the story has that.
    approval: Option<Box<ApprovalNote>>,
    /// What the answer was bound to.
    held: Option<Box<Held>>,
    /// Protected paths that the call may write, because the owner agreed.
    agreed: Vec<String>,
    /// Which act of the owner's own it is, if it is one.
    own: Option<OwnAct>,
    /// What the reader of the result should know.
    notes: Vec<String>,
    /// Who else writes what it brings, as far as that shows before it runs; none once that was taken.
    brings: Option<String>,
}

impl Permit {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(crate) fn args(&self) -> &Value {
        self.args.as_deref().unwrap_or(&Value::Null)
    }

    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }

    pub(crate) fn effects(&self) -> Option<&EffectSummary> {
        self.effects.as_deref()
    }

    /// Why it was given, which is the story's to tell from here on.
    pub(crate) fn take_reasons(
        &mut self,
    ) -> (Decision, Option<Box<EffectSummary>>, Option<Box<ApprovalNote>>) {
        let decision = std::mem::replace(&mut self.decision, Decision::allow(String::new()));
        (decision, self.effects.take(), self.approval.take())
    }

    pub(crate) fn agreed(&self) -> &[String] {
        &self.agreed
    }

    pub(crate) fn own(&self) -> Option<&OwnAct> {
        self.own.as_ref()
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The lane is entered: the call counts from here on, and its arguments go to the tool.
    pub(crate) fn enter(mut self: Box<Self>) -> Value {
        self.ticket = None;
        self.args.take().map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

/// A permit that is dropped before its lane was entered gives the call back to the caller's budget.
impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.refund();
        }
    }
}

/// A refusal, with the decision behind it where a rule decided.
pub(crate) struct Refusal {
    pub(crate) error: ToolError,
    pub(crate) decision: Option<Box<Decision>>,
    /// What the commands would do.
    pub(crate) effects: Option<Box<EffectSummary>>,
    /// What the owner answered, where that was asked.
    pub(crate) approval: Option<Box<ApprovalNote>>,
}

impl Refusal {
    fn new(error: ToolError, decision: Decision) -> Self {
        Refusal { decision: Some(Box::new(decision)), ..error.into() }
    }

    /// The decision behind it; where no rule decided, one in the error's words.
    fn into_decision(self) -> Decision {
        let Refusal { error, decision, .. } = self;
        decision.map_or_else(|| Decision::deny(error.kind.name(), error.message), |decision| *decision)
    }
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        Refusal { error, decision: None, effects: None, approval: None }
    }
}

/// What the stage gives for a call that is not refused.
pub(crate) enum Authorized {
    /// It may happen.
    Permit(Box<Permit>),
    /// It may happen if the owner agrees.
    Question(Box<Question>),
}

impl Authorized {
    /// The permit, or the one that there will be.
    pub(crate) fn permit(&self) -> &Permit {
        match self {
            Authorized::Permit(permit) => permit,
            Authorized::Question(question) => question.permit(),
        }
    }
}

/// What the stage decides with.
pub(crate) struct Authority {
    pub(crate) policy: Policy,
    pub(crate) workspace: PathBuf,
    pub(crate) session: String,
    pub(crate) counts: Counts,
    pub(crate) grants: Grants,
}

/// The decision on a call and what it rests on.
struct Decided {
    decision: Decision,
    judged: Vec<Judged>,
    asking: Vec<Asking>,
}

impl Authority {
    /// The stage. `shell` gives the sandbox that a command would run in; it is asked only where a command would.
    pub(crate) fn authorize(
        &self,
        call: &CallId,
        side: &Side,
        entry: &Arc<Entry>,
        args: Arc<Value>,
        shown: &Shown<'_>,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Result<Authorized, Refusal> {
        let spec = entry.spec();
        let rule = entry.rule(&self.policy);
        enabled(spec, rule)?;
        let (access, declared) = contained_call(spec, || entry.tool.plans(&args))?;
        let contained = contained(spec, shell);
        let mut judged = self.judge(spec, &access, &contained)?;
        judged.iter_mut().for_each(|one| one.hide_secrets(shown));
        let effects = summary(&judged, shown).map(Box::new);
        let paths = self.judge_paths(spec, &access, shown);
        // Only a call that nobody refuses gets further, so each of these was asked about.
        let agreed = paths.iter().filter(|one| one.protected).filter_map(|one| one.path.clone()).collect();
        let decided = self.decide(spec, rule, judged, paths, declared, matches!(contained, Ok(true)));
        let mut decided = decided.map_err(|refusal| Refusal { effects: effects.clone(), ..refusal })?;
        let contained = contained?;
        self.ask_where_tainted(side, spec, rule, &access, contained, &mut decided);
        if decided.decision.verdict == Verdict::Ask
            && let Some(refusal) = self.closed(spec, &access, shown)
        {
            return Err(refusal);
        }
        let ticket = self.reserve(&side.caller, spec, rule)?;
        let Decided { decision, judged, asking } = decided;
        let brings = self.brings(spec, &access, &judged, contained).map(|source| (shown.text)(&source));
        let entry = Arc::clone(entry);
        let (approval, held, own, notes) = (None, None, None, Vec::new());
        let permit = Permit {
            entry,
            args: Some(args),
            access: shared(access),
            decision,
            ticket,
            effects,
            approval,
            held,
            agreed,
            own,
            notes,
            brings,
        };
        if permit.decision.verdict == Verdict::Allow {
            return Ok(Authorized::Permit(Box::new(permit)));
        }
        // Scripts and the store of approvals are read.
        off_async(|| {
            let question = self.question((call, side), permit, asking, only(&judged), shown);
            Ok(match self.covered(question) {
                Ok(permit) => Authorized::Permit(Box::new(permit)),
                Err(question) => Authorized::Question(question),
            })
        })
    }

    /// The permit of the owner's own act: nobody is asked, and what is protected is the owner's to change.
    pub(crate) fn own(&self, entry: Arc<Entry>, act: OwnAct) -> Permit {
        let args = Value::Object(serde_json::Map::new());
        let access = Arc::new(entry.tool.access(&args));
        let args = Some(Arc::new(args));
        let agreed = access.writes.iter().filter_map(|resource| match resource {
            Resource::Path(path) => Some(path.clone()),
            Resource::Host(_) | Resource::Key(_) => None,
        });
        let agreed = agreed.collect();
        let decision = Decision::allow(OWNER);
        let (ticket, effects, approval, held) = (None, None, None, None);
        let (own, notes) = (Some(act), Vec::new());
        let brings = None;
        Permit { entry, args, access, decision, ticket, effects, approval, held, agreed, own, notes, brings }
    }

    /// What the policy says of each command.
    fn judge(
        &self,
        spec: &ToolSpec,
        access: &Access,
        contained: &Result<bool, ToolError>,
    ) -> Result<Vec<Judged>, Refusal> {
        let limit = self.policy.limits().command_bytes;
        if let Some(long) = access.commands.iter().find(|one| one.command.len() as u64 > limit) {
            let message = format!("The command is {} bytes long; the limit is {limit}.", long.command.len());
            return Err(ToolError::new(ErrorKind::TooLarge, message)
                .hint("Write the long part into a file in the workspace and run that.")
                .into());
        }
        if spec.lane == Lane::Sandbox && access.commands.is_empty() {
            let message = format!("Tool '{}' runs commands and does not say which.", spec.name);
            return Err(ToolError::new(ErrorKind::Blocked, message)
                .hint("Its author has to name the command in access().")
                .into());
        }
        // Where there is no sandbox to be had nothing runs, and what is refused anyway is refused for that.
        let contained = spec.lane != Lane::Sandbox || *contained.as_ref().unwrap_or(&true);
        let within = match contained {
            true => Within::Sandbox,
            false if self.is_wrapped() => Within::Wrapper,
            false => Within::Nothing,
        };
        let by = RunBy { tool: &spec.name, session: Some(&self.session) };
        let judged = |command| judge(&self.policy, by, command, &self.workspace, within);
        Ok(access.commands.iter().map(judged).collect())
    }

    /// Whether the owner's own wrapper is around commands.
    fn is_wrapped(&self) -> bool {
        matches!(self.policy.sandbox(), SandboxChoice::Wrapper { .. })
    }

    /// What rules, guard and approval say; the strictest wins.
    fn decide(
        &self,
        spec: &ToolSpec,
        rule: &ToolRule,
        mut judged: Vec<Judged>,
        paths: Vec<PathDecision>,
        declared: ApprovalNeed,
        contained: bool,
    ) -> Result<Decided, Refusal> {
        if let Some(denied) = paths.iter().find(|one| one.decision.verdict == Verdict::Deny) {
            let Decision { rule, reason, .. } = &denied.decision;
            let reason = reason.as_deref().unwrap_or_default();
            let message = format!("Tool '{}' is blocked by {rule}: {reason}", spec.name);
            return Err(blocked(message, denied.decision.clone()));
        }
        let of_tool = paths.iter().find(|one| one.path.is_none()).map(|one| one.decision.clone());
        let of_paths = paths.iter().filter(|one| one.path.is_some() && one.decision.verdict == Verdict::Ask);
        let need = match (self.need(spec, rule, declared, contained), of_tool) {
            (Need::None(_), Some(asks)) if asks.verdict == Verdict::Ask => {
                Need::Asked { decision: asks, every: false }
            }
            // Only a question that an answer of the owner's could have spared.
            (Need::Asked { every: true, .. }, Some(allows)) if allows.verdict == Verdict::Allow => {
                Need::None(allows.rule)
            }
            (need, _) => need,
        };
        if matches!(need, Need::None(_)) {
            // The owner has answered the question whether it may run bare.
            judged.iter_mut().for_each(Judged::forget_bare);
        }
        let mut guard: Option<Decision> = of_paths.clone().map(|one| one.decision.clone()).next();
        for one in &judged {
            if one.decision.verdict == Verdict::Deny {
                let message = blocked_message(&one.decision, &one.text);
                return Err(blocked(message, one.decision.clone()));
            }
            guard = Some(match guard {
                Some(before) => before.stricter(one.decision.clone()),
                None => one.decision.clone(),
            });
        }
        let mut asking: Vec<Asking> = judged.iter().flat_map(|one| one.asking.iter().cloned()).collect();
        asking.extend(of_paths.map(Asking::path));
        if let Need::Asked { decision, every } = &need {
            let more = match only(&judged).filter(|_| *every) {
                Some(one) => judge::every_run(decision, &one.analysis),
                None => vec![Asking::whole(decision)],
            };
            judge::extend(&mut asking, more);
        }
        let asks = guard.filter(|guard| guard.verdict == Verdict::Ask);
        let allowed_by = judged.iter().find_map(|one| one.allowed_by.clone());
        let decision = match (asks, need) {
            (Some(asks), _) => asks,
            (None, Need::Asked { decision, .. }) => decision,
            (None, Need::Guarded) => allowed_by
                .unwrap_or_else(|| Decision { reason: Some(READS.to_owned()), ..Decision::allow(BARE) }),
            // What the guard found is worth knowing where it is more than that nothing was found.
            (None, Need::None(rule)) => {
                Decision { reason: allowed_by.map(|allowed| allowed.rule), ..Decision::allow(rule) }
            }
        };
        Ok(Decided { decision, judged, asking })
    }

    fn reserve(&self, caller: &Caller, spec: &ToolSpec, rule: &ToolRule) -> Result<Option<Ticket>, Refusal> {
        let Some(limit) = limit(caller, spec, rule) else { return Ok(None) };
        match self.counts.limiter.reserve(caller.name(), &spec.name, limit, Instant::now()) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(wait) => {
                let seconds = wait.0.as_secs_f64().ceil();
                let message = format!(
                    "Rate limit of '{}' reached: {} calls a minute, {} an hour.",
                    spec.name, limit.per_minute, limit.per_hour
                );
                let hint = format!("Wait {seconds} seconds, or do more in one call.");
                let grant =
                    format!("tools.{}.per_minute = {}", spec.name, limit.per_minute.saturating_mul(2));
                let decision = Decision::deny("rate_limit", message.clone()).grant(grant);
                Err(Refusal::new(ToolError::new(ErrorKind::RateLimited, message).hint(hint), decision))
            }
        }
    }
}

/// What a call touches, for its permit and its place in the line. Many calls touch nothing, and share that.
fn shared(access: Access) -> Arc<Access> {
    static NOTHING: LazyLock<Arc<Access>> = LazyLock::new(Arc::default);
    if access == Access::default() { Arc::clone(&NOTHING) } else { Arc::new(access) }
}

/// The owner's own command line has a limit only where the policy writes one.
fn limit(caller: &Caller, spec: &ToolSpec, rule: &ToolRule) -> Option<RateLimit> {
    let declared = match caller {
        Caller::Owner => None,
        Caller::Named(_) => spec.rate_limit,
    };
    rule.rate(declared)
}

fn blocked(message: String, decision: Decision) -> Refusal {
    let error = ToolError::new(ErrorKind::Blocked, message)
        .hint("Do not try the same by other means; choose another way or ask the owner.");
    Refusal::new(error, decision)
}

/// Runs a tool's own code that is not its work; a crash in it refuses the call and touches nothing else.
fn contained_call<T>(spec: &ToolSpec, ask: impl FnOnce() -> T) -> Result<T, Refusal> {
    std::panic::catch_unwind(AssertUnwindSafe(ask)).map_err(|_panic| {
        let message = format!("Tool '{}' crashed while it was asked what it would do.", spec.name);
        ToolError::internal(message)
            .hint("This is a fault in the tool, not in the arguments; try another way.")
            .into()
    })
}

/// Whether a sandbox contains what the tool runs; tools that run no commands have nothing to contain.
fn contained(
    spec: &ToolSpec,
    shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
) -> Result<bool, ToolError> {
    match spec.lane {
        Lane::Sandbox => Ok(shell()?.contains()),
        _ => Ok(false),
    }
}

/// Refuses a tool that the owner switched off.
fn enabled(spec: &ToolSpec, rule: &ToolRule) -> Result<(), Refusal> {
    if rule.enabled {
        return Ok(());
    }
    let rule = format!("tools.{}.enabled", spec.name);
    let decision = Decision::deny(&rule, format!("the owner switched the tool '{}' off", spec.name))
        .grant(format!("{rule} = true"));
    let error =
        ToolError::new(ErrorKind::Blocked, format!("Tool '{}' is blocked by {rule} = false.", spec.name))
            .hint(format!("Use another tool; only the owner can write {rule} = true."));
    Err(Refusal::new(error, decision))
}

/// The command, where there is one and no other.
fn only(judged: &[Judged]) -> Option<&Judged> {
    match judged {
        [one] => Some(one),
        _ => None,
    }
}

/// What the commands do, without secrets.
fn summary(judged: &[Judged], shown: &Shown<'_>) -> Option<EffectSummary> {
    only(judged).map(|one| EffectSummary::of(&one.analysis).cleaned(shown.text, !one.is_shown_as_it_is()))
}
