//! Authorize: valid arguments and the owner's policy in, a [`Permit`] out, or a refusal that names its rule.
//!
//! In order: is the tool enabled, what does the guard say of its commands, has the caller calls left, must a person
//! agree. The strictest rule wins. A permit can be made nowhere else, and execute takes nothing else.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use helve_core::{
    Access, ApprovalNeed, CallId, CommandUse, Decision, ErrorKind, Lane, RateLimit, ShellBackend, ToolError,
    ToolSpec, Verdict,
};
use helve_policy::{Policy, RateLimiter, Ticket, ToolRule, blocked_message};
use serde_json::Value;

use crate::Caller;
use crate::approval::{Approval, ApprovalRequest, Approver, AskedPart, Lasting};
use crate::registry::Entry;

/// The proof that a call may happen. Its fields are private to this module.
pub(crate) struct Permit {
    entry: Arc<Entry>,
    args: Value,
    access: Access,
    decision: Decision,
    ticket: Option<Ticket>,
}

impl Permit {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The lane is entered: the call counts from here on, and its arguments go to the tool.
    pub(crate) fn enter(mut self) -> Value {
        self.ticket = None;
        std::mem::take(&mut self.args)
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
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        Refusal { error, decision: None }
    }
}

/// What the stage decides with.
pub(crate) struct Authority {
    pub(crate) policy: Policy,
    pub(crate) workspace: PathBuf,
    pub(crate) caller: Caller,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) limiter: RateLimiter,
}

impl Authority {
    /// The stage. `shell` gives the sandbox that a command would run in; it is asked only where a command would.
    pub(crate) async fn authorize(
        &self,
        call: &CallId,
        entry: &Arc<Entry>,
        args: Value,
        shown_args: impl FnOnce(&Value) -> Value,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Result<Permit, Refusal> {
        let spec = entry.spec();
        let rule = entry.rule(&self.policy);
        enabled(spec, rule)?;
        let (access, declared) =
            contained_call(spec, || (entry.tool.access(&args), entry.tool.approval(&args)))?;
        let decision = self.decide(spec, rule, &access, declared, shell)?;
        let ticket = self.reserve(spec, rule)?;
        let permit = Permit { entry: Arc::clone(entry), args, access, decision, ticket };
        if permit.decision.verdict == Verdict::Allow {
            return Ok(permit);
        }
        self.ask(call, permit, shown_args).await
    }

    /// The decision on a call of `entry` that runs `command`, as `helve check` shows it. Nothing is reserved or asked.
    pub(crate) fn check(
        &self,
        entry: &Entry,
        command: CommandUse,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Decision {
        let (spec, rule) = (entry.spec(), entry.rule(&self.policy));
        let access = Access { commands: vec![command], ..Access::default() };
        let decided =
            enabled(spec, rule).and_then(|()| self.decide(spec, rule, &access, spec.approval, shell));
        decided.unwrap_or_else(|refusal| match refusal.decision {
            Some(decision) => *decision,
            None => Decision::deny(refusal.error.kind.name(), refusal.error.message),
        })
    }

    /// What guard and approval say; the strictest wins.
    fn decide(
        &self,
        spec: &ToolSpec,
        rule: &ToolRule,
        access: &Access,
        declared: ApprovalNeed,
        shell: impl FnOnce() -> Result<Arc<dyn ShellBackend>, ToolError>,
    ) -> Result<Decision, Refusal> {
        let guard = self.guard(spec, access)?;
        let contained = if spec.lane == Lane::Sandbox { shell()?.contains() } else { false };
        Ok(match (guard, self.need(spec, rule, declared, contained)) {
            (Some(ask), _) if ask.verdict == Verdict::Ask => ask,
            (_, Need::Asked(question)) => question,
            // What the guard found is worth knowing where it is more than that nothing was found.
            (guard, Need::None(rule)) => Decision {
                reason: guard.map(|allowed| allowed.rule).filter(|rule| rule != "guard.default"),
                ..Decision::allow(rule)
            },
        })
    }

    /// The strictest of what the guard says of each command; none if there is no command.
    fn guard(&self, spec: &ToolSpec, access: &Access) -> Result<Option<Decision>, Refusal> {
        let mut strictest: Option<Decision> = None;
        for command in &access.commands {
            let limit = self.policy.limits().command_bytes;
            if command.command.len() as u64 > limit {
                let message =
                    format!("The command is {} bytes long; the limit is {limit}.", command.command.len());
                return Err(ToolError::new(ErrorKind::TooLarge, message)
                    .hint("Write the long part into a file in the workspace and run that.")
                    .into());
            }
            let decision = self.policy.check(command, &self.workspace);
            if decision.verdict == Verdict::Deny {
                let message = blocked_message(&decision, &command.command);
                let error = ToolError::new(ErrorKind::Blocked, message)
                    .hint("Do not try the same by other means; choose another way or ask the owner.");
                return Err(Refusal { error, decision: Some(Box::new(decision)) });
            }
            strictest = Some(match strictest {
                Some(before) => before.stricter(decision),
                None => decision,
            });
        }
        if spec.lane == Lane::Sandbox && access.commands.is_empty() {
            let message = format!("Tool '{}' runs commands and does not say which.", spec.name);
            return Err(ToolError::new(ErrorKind::Blocked, message)
                .hint("Its author has to name the command in access().")
                .into());
        }
        Ok(strictest)
    }

    fn reserve(&self, spec: &ToolSpec, rule: &ToolRule) -> Result<Option<Ticket>, Refusal> {
        let Some(limit) = self.limit(spec, rule) else { return Ok(None) };
        match self.limiter.reserve(self.caller.name(), &spec.name, limit, Instant::now()) {
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
                let error = ToolError::new(ErrorKind::RateLimited, message).hint(hint);
                Err(Refusal { error, decision: Some(Box::new(decision)) })
            }
        }
    }

    /// The owner's own command line has a limit only where the policy writes one.
    fn limit(&self, spec: &ToolSpec, rule: &ToolRule) -> Option<RateLimit> {
        let declared = match self.caller {
            Caller::Owner => None,
            Caller::Named(_) => spec.rate_limit,
        };
        rule.rate(declared)
    }

    fn need(&self, spec: &ToolSpec, rule: &ToolRule, declared: ApprovalNeed, contained: bool) -> Need {
        let by_policy = rule.approval;
        let name = || match by_policy {
            Some(_) => format!("tools.{}.approval", spec.name),
            None => format!("approval.{}", spec.name),
        };
        match by_policy.unwrap_or(declared) {
            ApprovalNeed::Never => Need::None("default".to_owned()),
            ApprovalNeed::UnlessAutoApproved if contained => Need::None("sandbox.contains".to_owned()),
            ApprovalNeed::UnlessAutoApproved if self.policy.auto_approve() => {
                Need::None("auto_approve".to_owned())
            }
            ApprovalNeed::UnlessAutoApproved => {
                let reason = match spec.lane {
                    Lane::Sandbox => {
                        "the command would run without a sandbox that Helve vouches for".to_owned()
                    }
                    _ => format!("'{}' asks for approval", spec.name),
                };
                Need::Asked(Decision::ask(name(), reason).grant("auto_approve = true"))
            }
            ApprovalNeed::Always => {
                let grant = format!("tools.{}.approval = \"unless_auto_approved\"", spec.name);
                Need::Asked(
                    Decision::ask(name(), format!("'{}' always asks for approval", spec.name)).grant(grant),
                )
            }
        }
    }

    async fn ask(
        &self,
        call: &CallId,
        permit: Permit,
        shown_args: impl FnOnce(&Value) -> Value,
    ) -> Result<Permit, Refusal> {
        let tool = permit.entry.spec().name.clone();
        let decision = permit.decision.clone();
        let part = AskedPart {
            span: None,
            text: tool.clone(),
            program: None,
            rule: decision.rule.clone(),
            reason: decision.reason.clone().unwrap_or_default(),
            offer: None,
            run: None,
        };
        let request = ApprovalRequest {
            call: call.clone(),
            caller: self.caller.name().to_owned(),
            session: String::new(),
            workspace: self.workspace.clone(),
            tool,
            args: shown_args(&permit.args),
            command: None,
            cwd: None,
            decision,
            parts: vec![part],
            effects: None,
            scripts: Vec::new(),
            shown: String::new(),
            longest: Lasting::Once,
        };
        let error = match self.approver.ask(&request).await.approval {
            Approval::Once | Approval::Session { .. } | Approval::Always { .. } => return Ok(permit),
            Approval::TimedOut => {
                ToolError::new(ErrorKind::ApprovalRequired, "Nobody answered the question in time.")
            }
            Approval::Denied { reason } => {
                ToolError::new(ErrorKind::ApprovalDenied, format!("The owner said no: {reason}"))
                    .hint("Do not try the same by other means; choose another way or ask what is wanted.")
            }
            Approval::Nobody => {
                let reason = request.decision.reason.clone().unwrap_or_default();
                let message = format!("Approval required by {}: {reason}.", request.decision.rule);
                let mut hint = "Nobody is there to ask. The owner can make the call on a terminal".to_owned();
                if let Some(grant) = &request.decision.grant {
                    hint.push_str(&format!(", or allow it with: {grant}"));
                }
                ToolError::new(ErrorKind::ApprovalRequired, message).hint(hint)
            }
            Approval::Cancelled => {
                ToolError::new(ErrorKind::Cancelled, "The call was cancelled before the owner answered.")
            }
        };
        Err(Refusal { error, decision: Some(Box::new(permit.decision.clone())) })
    }
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
    Err(Refusal { error, decision: Some(Box::new(decision)) })
}

/// Whether a person must agree, by which rule and why.
enum Need {
    None(String),
    Asked(Decision),
}
