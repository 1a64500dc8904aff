//! What the owner's hooks say of a call, and what that is worth.
//!
//! Before a call each hook that hears of it is asked, in the order of the configuration, once the policy has had its word: a
//! refusal never reaches a hook, so that none can lift it. A hook can refuse the call, agree where somebody has to, or change
//! the arguments. Changed arguments are normalized, validated and authorized like any, and all hooks hear of the call as it
//! is then: what one agreed to before counts no more. A second change is refused. A hook that fails refuses the call.
//!
//! After a call each adds a note at most. One that fails then is told, and changes nothing: the call has happened.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use helve_core::{Args, BoxFuture, CallResult, Cancel, Content, Decision, ErrorKind, ToolError};
use helve_policy::HookEvent;
use serde_json::Value;

use super::authorize::{Authorized, Permit, Refusal};
use super::resolve::Found;
use super::{Pipeline, Story};
use crate::hooks::{HookNote, HookSaid, OfCall, OfSession, Said, Silent, Word};
use crate::registry::Entry;

/// So much of what a hook says is kept and told, in characters.
const MAX_CHARS: usize = 4_000;

const OTHER_WAY: &str = "Do not try the same by other means; choose another way or ask the owner.";
const TELL: &str = "Tell the owner; nothing in the arguments can mend it.";

/// What came of asking all hooks once.
enum Round {
    /// The call goes on.
    On(Authorized),
    Refused(Refusal),
    /// A hook wants other arguments.
    Again {
        args: Value,
        by: String,
    },
}

impl Pipeline {
    /// Asks the hooks about calls that the policy does not refuse, all calls at once.
    pub(super) async fn hooked(
        &self,
        looks: Vec<(Box<Story>, Result<Authorized, Refusal>)>,
    ) -> Vec<(Box<Story>, Result<Authorized, Refusal>)> {
        let deaf = |tool: &str| self.hooks.are_deaf(HookEvent::BeforeCall, tool);
        if looks.iter().all(|(story, _)| deaf(&story.tool)) {
            return looks;
        }
        let one = |(story, look)| -> BoxFuture<'_, _> { Box::pin(self.hooked_one(story, look)) };
        all(looks.into_iter().map(one).collect()).await
    }

    /// The same for one call.
    pub(super) async fn hooked_one(
        &self,
        mut story: Box<Story>,
        mut look: Result<Authorized, Refusal>,
    ) -> (Box<Story>, Result<Authorized, Refusal>) {
        if self.hooks.are_deaf(HookEvent::BeforeCall, &story.tool) {
            return (story, look);
        }
        let mut rewritten_by: Option<String> = None;
        loop {
            let authorized = match look {
                Ok(authorized) => authorized,
                Err(refusal) => return (story, Err(refusal)),
            };
            let entry = Arc::clone(authorized.permit().entry());
            look = match self.round(&mut story, authorized, rewritten_by.as_deref()).await {
                Round::On(authorized) => return (story, Ok(authorized)),
                Round::Refused(refusal) => return (story, Err(refusal)),
                Round::Again { args, by } => {
                    let look = self.authorized_again(&mut story, &entry, args, &by);
                    rewritten_by = Some(by);
                    look
                }
            };
        }
    }

    /// Asks every hook about the call as it is now.
    async fn round(&self, story: &mut Story, authorized: Authorized, rewritten_by: Option<&str>) -> Round {
        let (mut agreed, asked) = (None, matches!(authorized, Authorized::Question(_)));
        let permit = authorized.permit();
        for runner in self.hooks.of_call(HookEvent::BeforeCall, &story.tool) {
            let of = OfCall {
                decision: Some(permit.decision()),
                effects: permit.effects(),
                rewritten_by,
                ..self.of_call(story)
            };
            let name = runner.name();
            let said = match self.hooks.ask(runner, HookEvent::BeforeCall, of, &story.side.cancel).await {
                Ok(said) => said,
                Err(Silent::Cancelled) => return Round::Refused(cancelled()),
                Err(Silent::Failed(why)) => {
                    let why = self.told(&why);
                    story.hooks.push(HookNote::failed(name, why.clone()));
                    let message =
                        format!("The call is refused, because the owner's hook '{name}' failed: {why}.");
                    return Round::Refused(refusal(
                        name,
                        permit,
                        message,
                        &format!("it failed: {why}"),
                        TELL,
                    ));
                }
            };
            let Said { verdict, reason, args, note } = said;
            let note = note.map(|note| self.told(&note)).filter(|note| !note.is_empty());
            story.said.extend(note.iter().map(|note| heard(name, note)));
            let mut record = HookNote { note, ..HookNote::nothing(name) };
            if verdict == Some(Word::Deny) {
                let reason =
                    reason.map_or_else(|| "it gives no reason".to_owned(), |reason| self.told(&reason));
                (record.said, record.reason) = ("deny", Some(reason.clone()));
                story.hooks.push(record);
                let message = format!("The owner's hook '{name}' refuses the call: {reason}");
                return Round::Refused(refusal(name, permit, message, &reason, OTHER_WAY));
            }
            if let Some(args) = args.filter(|args| self.are_others(permit, args)) {
                record.said = "rewrite";
                record.args = story.args.as_deref().cloned();
                story.hooks.push(record);
                return self.rewritten(story, permit, name, args, rewritten_by);
            }
            if verdict == Some(Word::Allow) {
                record.said = "allow";
                agreed = agreed.or_else(|| asked.then(|| name.to_owned()));
            }
            story.hooks.push(record);
        }
        match (authorized, agreed) {
            (Authorized::Question(question), Some(by)) => {
                match self.authority.agreed(*question, &format!("hooks.{by}")) {
                    Ok(permit) => Round::On(Authorized::Permit(Box::new(permit))),
                    Err(refusal) => Round::Refused(refusal),
                }
            }
            (authorized, _) => Round::On(authorized),
        }
    }

    /// Whether a hook's arguments are others than those of the call, also when they are normalized.
    fn are_others(&self, permit: &Permit, args: &Value) -> bool {
        let shown = self.shown_args(permit.entry().spec(), permit.args());
        if *args == shown || args == permit.args() {
            return false;
        }
        let normalized = self.checked_ours(permit.entry(), &Args::Value(args.clone()));
        normalized.map_or(true, |normalized| normalized.args != *permit.args())
    }

    /// What becomes of a change of the arguments.
    fn rewritten(
        &self,
        story: &Story,
        permit: &Permit,
        name: &str,
        args: Value,
        rewritten_by: Option<&str>,
    ) -> Round {
        let refused = |message: String, why: &str| Round::Refused(refusal(name, permit, message, why, TELL));
        if let Some(first) = rewritten_by {
            let message = format!(
                "The call is refused: the owner's hook '{name}' changed arguments that the hook '{first}' had changed."
            );
            return refused(message, "arguments are changed once at most");
        }
        // It was shown a mark in the place of the secret, and would put that into the call.
        if story.args.as_deref() != Some(permit.args()) {
            let message = format!(
                "The call is refused: the owner's hook '{name}' changed arguments that hold a secret, which it was not shown."
            );
            return refused(message, "arguments that hold a secret cannot be changed");
        }
        Round::Again { args, by: name.to_owned() }
    }

    /// Normalize to authorize, for arguments that come from a hook. They are in our words, whatever dialect the call was in.
    fn authorized_again(
        &self,
        story: &mut Story,
        entry: &Arc<Entry>,
        args: Value,
        by: &str,
    ) -> Result<Authorized, Refusal> {
        let found = Found { entry, spoken: None };
        let valid = self.valid(found, Args::Value(args), story).map_err(|error| {
            let message = format!(
                "The call is refused: the owner's hook '{by}' changed its arguments, and what it made of them does not fit. {}",
                error.message
            );
            let decision = Decision::deny(rule(by), "it changed the arguments to some that do not fit");
            let error = ToolError::new(ErrorKind::Blocked, message).hint(TELL);
            Refusal { decision: Some(Box::new(decision)), ..error.into() }
        })?;
        self.permitted(story, entry, valid)
    }

    /// Asks the hooks that hear of calls that ended, and puts their notes to the result.
    pub(super) async fn heard_after(&self, story: &Story, result: &mut CallResult) -> Vec<HookNote> {
        let mut records = Vec::new();
        for runner in self.hooks.of_call(HookEvent::AfterCall, &story.tool) {
            let name = runner.name();
            let of = OfCall { result: Some(result), ..self.of_call(story) };
            // The call is over: what takes it back comes too late, and the time of the hook is bounded.
            match self.hooks.ask(runner, HookEvent::AfterCall, of, &Cancel::never()).await {
                Ok(said) => {
                    let note = said.note.map(|note| self.told(&note)).filter(|note| !note.is_empty());
                    result.content.extend(note.iter().map(|note| Content::text(heard(name, note))));
                    records.push(HookNote { note, ..HookNote::nothing(name) });
                }
                Err(Silent::Cancelled) => {}
                Err(Silent::Failed(why)) => {
                    let why = self.told(&why);
                    result.notes.push(format!("the hook '{name}' failed after the call: {why}"));
                    records.push(HookNote::failed(name, why));
                }
            }
        }
        records
    }

    /// Tells the hooks that hear of sessions, and gives what they have to say. It goes into the journal.
    pub(crate) async fn session(&self, event: HookEvent, of: OfSession<'_>) -> Vec<HookSaid> {
        if !self.hooks.is_new(event) {
            return Vec::new();
        }
        // What ends a session may have taken everything back already; the time of each hook is bounded.
        let cancel = if event == HookEvent::SessionEnd { Cancel::never() } else { self.side.cancel.clone() };
        let mut records = Vec::new();
        for runner in self.hooks.of_session(event) {
            let name = runner.name();
            records.push(match self.hooks.ask(runner, event, of, &cancel).await {
                Ok(said) => {
                    let note = said.note.map(|note| self.told(&note)).filter(|note| !note.is_empty());
                    HookNote { note, ..HookNote::nothing(name) }
                }
                Err(Silent::Cancelled) => HookNote::failed(name, "it was taken back".to_owned()),
                Err(Silent::Failed(why)) => HookNote::failed(name, self.told(&why)),
            });
        }
        let mut said: Vec<HookSaid> = records.iter().filter_map(HookSaid::of).collect();
        if !records.is_empty()
            && let Err(error) = self.recorder.session(event, &records)
        {
            let text = format!("what the hooks said is not recorded: {}", error.message);
            said.push(HookSaid { hook: event.name().to_owned(), text, failed: true });
        }
        said
    }

    fn of_call<'a>(&'a self, story: &'a Story) -> OfCall<'a> {
        OfCall {
            caller: story.side.caller.name(),
            call: &story.call,
            id: story.id.as_ref(),
            tool: &story.tool,
            args: story.args.as_deref().unwrap_or(&Value::Null),
            decision: story.decision.as_ref(),
            effects: None,
            tainted: story.side.tainted.as_deref(),
            rewritten_by: None,
            result: None,
        }
    }

    /// What a hook says, as it may be told: it may have seen more than a model or the journal should.
    pub(super) fn told(&self, text: &str) -> String {
        self.governor.clean_short(text.trim(), MAX_CHARS)
    }
}

/// A note of a hook as a model reads it.
fn heard(hook: &str, note: &str) -> String {
    format!("[the owner's hook {hook}: {note}]")
}

fn rule(hook: &str) -> String {
    format!("hooks.{hook}")
}

fn refusal(hook: &str, permit: &Permit, message: String, reason: &str, hint: &str) -> Refusal {
    Refusal {
        error: ToolError::new(ErrorKind::Blocked, message).hint(hint),
        decision: Some(Box::new(Decision::deny(rule(hook), reason))),
        effects: permit.effects().cloned().map(Box::new),
        approval: None,
    }
}

fn cancelled() -> Refusal {
    ToolError::new(ErrorKind::Cancelled, "The call was cancelled before it began.").into()
}

/// Waits for all of them at once; what they give stands in their order.
async fn all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    poll_fn(|poller| {
        let mut left = false;
        for (future, done) in waiting.iter_mut().zip(&mut done) {
            let Some(running) = future else { continue };
            match running.as_mut().poll(poller) {
                Poll::Ready(value) => (*done, *future) = (Some(value), None),
                Poll::Pending => left = true,
            }
        }
        if left { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}
