//! The question: what a person is asked, and what an answer is worth.
//!
//! A call that needs an answer becomes a [`Question`]. Where earlier grants cover every part of it, it goes ahead on
//! them; else it is asked, together with the other questions of its batch. An answer is not taken on trust: a grant
//! must have been offered or still match what was shown, never holds longer than the owner's ceiling, and what the
//! command would run must be what it was when the person looked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{CallId, Decision, ErrorKind, ToolError, Verdict};
use helve_policy::ApprovalLength;
use helve_shell::analysis::Analysis;
use helve_store::{StoreError, Within};
use serde_json::json;

use super::judge::{Asking, Judged};
use super::refuse::{refused, stopped};
use super::{Authority, Decided, Permit, Refusal, Shown, only};
use crate::Caller;
use crate::approval::binding::{Binder, Bound};
use crate::approval::breaker::Stop;
use crate::approval::grants::{Given, Part, Wish};
use crate::approval::note::ApprovalNote;
use crate::approval::{
    Answer, Approval, ApprovalRequest, AskedPart, Grant, Lasting, Scope, Script, pattern, short,
};
use crate::off_async;
use crate::side::{AskClock, Side};

/// How long an approver has to end by itself when the calls are taken back.
const GRACE: Duration = Duration::from_secs(2);

/// A question with more parts than these is answered for this once only: nobody reads so many rules.
const MOST_PARTS: usize = 64;
/// So many grants that a call goes ahead on are named in its decision, each so long; the journal has the ids of all.
const MOST_NAMED: usize = 3;
const MAX_NAMED_CHARS: usize = 80;

/// A call that may happen if the owner agrees.
pub(crate) struct Question {
    permit: Permit,
    request: ApprovalRequest,
    held: Vec<Option<HeldPart>>,
    /// What all runs of the command are bound to, whether they ask or not.
    bound: Vec<Bound>,
    within: Within,
    note: ApprovalNote,
}

/// What one part of a question is bound to.
#[derive(Clone)]
struct HeldPart {
    bound: Bound,
    /// Whether the part can be granted for longer: nothing else in the command changes what it is bound to.
    steady: bool,
}

/// What an answer was given for: it holds as long as that has not changed.
pub(crate) struct Held {
    analysis: Arc<Analysis>,
    bound: Vec<Bound>,
}

impl Authority {
    /// Puts the question together.
    pub(super) fn question(
        &self,
        (call, side): (&CallId, &Side),
        permit: Permit,
        asking: Vec<Asking>,
        judged: Option<&Judged>,
        shown: &Shown<'_>,
    ) -> Question {
        let tool = permit.entry.spec().name.clone();
        let same = judged.is_none_or(Judged::is_shown_as_it_is);
        let longest = self.longest(&asking);
        let (held, bound) = self.hold(judged, &asking, longest);
        let mut parts = Vec::with_capacity(asking.len());
        for (part, held) in asking.into_iter().zip(&held) {
            let raw = judged.map(|judged| judged.command.command.as_str());
            let run = judged.zip(part.run).and_then(|(judged, run)| judged.analysis.runs.get(run));
            let text = match (run.and_then(pattern::exact), raw, part.span) {
                (Some(exact), ..) => exact,
                (None, Some(raw), Some(span)) => raw.get(span.range()).unwrap_or(raw).to_owned(),
                _ => part.path.clone().unwrap_or_else(|| tool.clone()),
            };
            let steady = held.as_ref().filter(|held| held.steady).map(|held| &held.bound);
            let offer = steady
                .zip(judged)
                .and_then(|(bound, judged)| pattern::offer(&judged.analysis, bound, &self.workspace));
            // A pattern that holds a secret would be kept in the clear.
            let offer = offer.filter(|offer| shown.cleaned(offer).as_ref() == Some(offer));
            let bound = steady.filter(|_| offer.is_some());
            parts.push(AskedPart {
                span: part.span.filter(|_| same).map(|span| (span.start, span.end)),
                text: (shown.text)(&text),
                program: run.and_then(|run| run.program.clone()).map(|name| (shown.text)(&name)),
                rule: part.rule,
                reason: part.reason,
                offer,
                directory: bound.map(|bound| bound.directory.clone()),
                scripts: bound.map(|bound| bound.scripts.clone()).unwrap_or_default(),
                run: part.run,
            });
        }
        let mut request = ApprovalRequest {
            call: call.clone(),
            caller: side.caller.name().to_owned(),
            client: side.client.clone(),
            session: self.session.clone(),
            workspace: self.workspace.clone(),
            tool,
            args: (shown.args)(permit.args()),
            command: judged.map(|judged| judged.text.clone()),
            cwd: judged.map(|judged| judged.cwd.clone()),
            decision: permit.decision.clone(),
            parts,
            effects: permit.effects().cloned(),
            scripts: all_scripts(&bound),
            shown: String::new(),
            longest,
            analysis: judged.map(|judged| Arc::clone(&judged.analysis)),
        };
        request.shown = shown_hash(&request);
        let note = ApprovalNote::of(&request);
        let within = judged.map_or(Within::Nothing, |judged| judged.within);
        Question { permit, request, held, bound, within, note }
    }

    /// What each part is bound to, none for one of which that is not known; and what all runs are.
    fn hold(
        &self,
        judged: Option<&Judged>,
        asking: &[Asking],
        longest: Lasting,
    ) -> (Vec<Option<HeldPart>>, Vec<Bound>) {
        let Some(judged) = judged else { return (asking.iter().map(|_| None).collect(), Vec::new()) };
        let binder = Binder::new(&judged.analysis, &self.workspace);
        let bound: Vec<Option<Bound>> = (0..judged.analysis.runs.len()).map(|run| binder.bind(run)).collect();
        let hold = |part: &Asking| {
            let bound = bound.get(part.run?)?.clone()?;
            let steady = longest > Lasting::Once && binder.is_steady(&bound);
            Some(HeldPart { bound, steady })
        };
        (asking.iter().map(hold).collect(), bound.iter().flatten().cloned().collect())
    }

    /// The longest that an answer may hold.
    fn longest(&self, asking: &[Asking]) -> Lasting {
        // Where the call as a whole asks, by the owner's word or because it runs no command, it will ask again anyway. So
        // does what a rule of the machine's ceiling asks about.
        let whole = asking.iter().any(|part| part.ceiling || (part.run.is_none() && part.span.is_none()));
        match self.policy.longest_approval() {
            _ if whole || asking.len() > MOST_PARTS => Lasting::Once,
            ApprovalLength::Once => Lasting::Once,
            ApprovalLength::Session => Lasting::Session,
            ApprovalLength::Always => Lasting::Always,
        }
    }

    /// Lets a question go ahead on what was granted before, if that covers every part of it.
    pub(super) fn covered(&self, mut question: Question) -> Result<Permit, Box<Question>> {
        let request = &question.request;
        let found = match self.wish(&question) {
            Some(wish) => {
                let asked = request.parts.iter().map(|part| (part.rule.as_str(), part.reason.as_str()));
                let parts = parts(&question.held, asked);
                self.granted(&wish, parts, &request.decision.rule, true)
            }
            None => Ok(None),
        };
        match found {
            Ok(Some((decision, ids))) => {
                question.note.answer = "stored";
                question.note.ids = ids;
                question.permit.decision = decision;
                Ok(question.go_ahead())
            }
            Ok(None) => Err(Box::new(question)),
            Err(error) => {
                question.permit.notes.push(format!("earlier approvals were not looked at: {error}"));
                Err(Box::new(question))
            }
        }
    }

    /// The decision by earlier grants, where they cover every part. Nothing is noted.
    pub(super) fn granted_before(&self, tool: &str, caller: &Caller, decided: &Decided) -> Option<Decision> {
        let judged = only(&decided.judged).filter(|_| decided.decision.verdict == Verdict::Ask)?;
        let longest = self.longest(&decided.asking);
        let caller = caller.name();
        let wish = Wish { tool, caller, within: judged.within, analysis: &judged.analysis, longest };
        let (held, _) = self.hold(Some(judged), &decided.asking, longest);
        let asked = decided.asking.iter().map(|part| (part.rule.as_str(), part.reason.as_str()));
        let found = self.granted(&wish, parts(&held, asked), &decided.decision.rule, false);
        found.ok().flatten().map(|(decision, _)| decision)
    }

    /// The decision by earlier grants and their ids; `uses` notes that a call goes ahead on them.
    fn granted(
        &self,
        wish: &Wish<'_>,
        parts: Option<Vec<Part<'_>>>,
        asked_by: &str,
        uses: bool,
    ) -> Result<Option<(Decision, Vec<String>)>, StoreError> {
        let Some(parts) = parts.filter(|_| wish.longest > Lasting::Once) else { return Ok(None) };
        let Some(mut grants) = self.grants.covering(wish, &parts)? else { return Ok(None) };
        grants.sort_by(|a, b| a.id.cmp(&b.id));
        grants.dedup_by(|a, b| a.id == b.id);
        let ids: Vec<String> = grants.iter().map(|grant| grant.id.clone()).collect();
        if uses && !self.grants.touch(&ids)? {
            return Ok(None);
        }
        let named = grants.iter().take(MOST_NAMED);
        let given: Vec<String> =
            named.map(|grant| format!("`{}`", short(&grant.granted.pattern, MAX_NAMED_CHARS))).collect();
        let more = match ids.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let reason = format!("the owner allowed {}{more}, which {asked_by} asks about", given.join(", "));
        let rule = format!("approval {}{more}", ids[..ids.len().min(MOST_NAMED)].join(" "));
        Ok(Some((Decision { reason: Some(reason), ..Decision::allow(rule) }, ids)))
    }

    /// Asks all questions of one batch together; the results stand in their order.
    pub(crate) async fn ask(
        &self,
        questions: Vec<Question>,
        side: &Side,
    ) -> Vec<Result<Box<Permit>, Refusal>> {
        let (per_minute, caller) = (self.policy.limits().prompts_per_minute, side.caller.name());
        let breaker = &self.counts.breaker;
        let stops: Vec<Option<Stop>> = questions
            .iter()
            // An answer that a call brings was counted when it was asked for.
            .map(|question| !side.approver.has_answer(&question.request))
            .map(|is_new| is_new.then(|| breaker.ask(caller, per_minute, Instant::now()).err()).flatten())
            .collect();
        let open = questions.iter().zip(&stops).filter(|(_, stop)| stop.is_none());
        let requests: Vec<ApprovalRequest> = open.map(|(question, _)| question.request.clone()).collect();
        let mut answers = answers(&requests, side).await.into_iter();
        let results = questions.into_iter().zip(stops).map(|(question, stop)| match stop {
            Some(stop) => Err(refusal(question, stopped(stop))),
            None => {
                let answer = answers.next().unwrap_or_else(|| Answer::new("nobody", Approval::Nobody));
                breaker.answered(caller, &answer.approval, Instant::now());
                off_async(|| self.settle(question, &answer)).map(Box::new)
            }
        });
        results.collect()
    }

    /// A yes of a hook of the owner's, for this call.
    pub(crate) fn agreed(&self, question: Question, by: &str) -> Result<Permit, Refusal> {
        off_async(|| self.settle(question, &Answer::new(by, Approval::Once)))
    }

    /// What an answer is worth.
    fn settle(&self, mut question: Question, answer: &Answer) -> Result<Permit, Refusal> {
        question.note = question.note.answered(answer);
        let given = match &answer.approval {
            Approval::Once => Vec::new(),
            Approval::Session { grants } => scoped(grants, Lasting::Session),
            Approval::Always { grants } => scoped(grants, Lasting::Always),
            other => {
                let error = refused(other, &question.request.decision);
                return Err(refusal(question, error));
            }
        };
        if let Some(held) = question.held()
            && let Err(error) = self.has_not_changed(&held)
        {
            return Err(refusal(question, error));
        }
        let mut widest = None;
        for grant in given {
            match self.keep(&question, &grant, &answer.by) {
                Ok(id) => {
                    question.note.ids.push(id);
                    widest = widest.max(Some(lasting(grant.scope)));
                }
                Err(why) => {
                    let note = format!(
                        "the answer holds for this call only: `{}` is not kept, {why}",
                        grant.pattern
                    );
                    question.permit.notes.push(note);
                }
            }
        }
        question.note.answer = match widest {
            None | Some(Lasting::Once) => "once",
            Some(Lasting::Session) => "session",
            Some(Lasting::Always) => "always",
        };
        Ok(question.go_ahead())
    }

    /// Whether what an answer was given for is still what the command would run.
    pub(crate) fn still_holds(&self, permit: &Permit) -> Result<(), ToolError> {
        permit.held.as_deref().map_or(Ok(()), |held| off_async(|| self.has_not_changed(held)))
    }

    fn has_not_changed(&self, held: &Held) -> Result<(), ToolError> {
        let binder = Binder::new(&held.analysis, &self.workspace);
        if held.bound.iter().all(|bound| binder.bind(bound.run).as_ref() == Some(bound)) {
            return Ok(());
        }
        let message = "A script or a file that says what the command does changed since it was approved, so the approval \
                       does not hold.";
        Err(ToolError::new(ErrorKind::Conflict, message)
            .hint("Make the call again; the owner is asked about the new content."))
    }

    /// The call as far as grants are concerned; none if it runs no command.
    fn wish<'a>(&'a self, question: &'a Question) -> Option<Wish<'a>> {
        let Question { request, within, .. } = question;
        let analysis = request.analysis.as_deref()?;
        let (tool, caller) = (&request.tool, request.caller.as_str());
        Some(Wish { tool, caller, within: *within, analysis, longest: request.longest })
    }

    /// Keeps a grant if it may be kept; its id, or why not.
    fn keep(&self, question: &Question, grant: &Grant, by: &str) -> Result<String, String> {
        let request = &question.request;
        if lasting(grant.scope) > request.longest {
            return Err("because an answer to this question does not hold so long".to_owned());
        }
        let held = question.held.get(grant.part).and_then(Option::as_ref).filter(|held| held.steady);
        let (Some(held), Some(asked), Some(wish)) =
            (held, request.parts.get(grant.part), self.wish(question))
        else {
            return Err("because it can be allowed only this once".to_owned());
        };
        request.accepts(grant.part, &grant.pattern)?;
        let given = Given {
            pattern: &grant.pattern,
            scope: grant.scope,
            expires: grant.expires,
            part: Part { bound: &held.bound, rule: &asked.rule, reason: &asked.reason },
            by,
            call: request.call.as_str(),
            shown: &request.shown,
        };
        let kept = self.grants.keep(&wish, &given);
        kept.map(|kept| kept.id).map_err(|error| error.to_string())
    }
}

async fn answers(requests: &[ApprovalRequest], side: &Side) -> Vec<Answer> {
    if requests.is_empty() {
        return Vec::new();
    }
    let _asking = side.asked.as_ref().map(AskClock::begin);
    let given_up = async {
        side.cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        answers = side.approver.ask_many(requests) => answers,
        () = given_up => requests.iter().map(|_| Answer::new("nobody", Approval::Cancelled)).collect(),
    }
}

impl Question {
    /// The permit that there will be.
    pub(super) fn permit(&self) -> &Permit {
        &self.permit
    }

    /// What an answer is given for; none if nothing is bound.
    fn held(&self) -> Option<Held> {
        let analysis = self.request.analysis.clone().filter(|_| !self.bound.is_empty())?;
        Some(Held { analysis, bound: self.bound.clone() })
    }

    /// The permit of a call that the owner agreed to.
    fn go_ahead(mut self) -> Permit {
        self.permit.held = self.held().map(Box::new);
        self.permit.approval = Some(Box::new(self.note));
        self.permit
    }
}

/// The parts as grants see them; none if one of them can be allowed only once.
fn parts<'a>(
    held: &'a [Option<HeldPart>],
    asked: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<Vec<Part<'a>>> {
    let part = |(held, (rule, reason)): (&'a Option<HeldPart>, _)| {
        let held = held.as_ref().filter(|held| held.steady)?;
        Some(Part { bound: &held.bound, rule, reason })
    };
    held.iter().zip(asked).map(part).collect()
}

/// How long a grant of this scope holds.
fn lasting(scope: Scope) -> Lasting {
    match scope {
        Scope::Session => Lasting::Session,
        Scope::Workspace | Scope::User => Lasting::Always,
    }
}

/// The grants with the scope that the answer gives them: one for the session is never widened.
fn scoped(grants: &[Grant], lasting: Lasting) -> Vec<Grant> {
    let scope = |grant: &Grant| if lasting == Lasting::Always { grant.scope } else { Scope::Session };
    grants.iter().map(|grant| Grant { scope: scope(grant), ..grant.clone() }).collect()
}

fn all_scripts(bound: &[Bound]) -> Vec<Script> {
    let mut scripts: Vec<Script> = bound.iter().flat_map(|bound| bound.scripts.iter().cloned()).collect();
    scripts.sort();
    scripts.dedup();
    scripts
}

/// The hash of all that is shown.
fn shown_hash(request: &ApprovalRequest) -> String {
    let parts: Vec<_> = request.parts.iter().map(|part| (&part.text, &part.directory)).collect();
    let all = json!([request.tool, request.args, request.command, request.cwd, parts, request.scripts]);
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
}

fn refusal(question: Question, error: ToolError) -> Refusal {
    let Question { mut permit, note, .. } = question;
    Refusal {
        error,
        decision: Some(Box::new(permit.decision.clone())),
        effects: permit.effects.take(),
        approval: Some(Box::new(note)),
    }
}
