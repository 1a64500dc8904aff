//! The question: what a person is asked, and what an answer is worth.
//!
//! A call that needs an answer becomes a [`Question`]. Where earlier grants cover every part of it, it goes ahead on
//! them; else it is asked, together with the other questions of its batch. An answer is not taken on trust: a grant
//! must have been offered or still match what was shown, never holds longer than the owner's ceiling, and what the
//! command would run must be what it was when the person looked.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{CallId, Decision, ErrorKind, ToolError, Verdict};
use helve_policy::ApprovalLength;
use helve_shell::analysis::Analysis;
use helve_store::StoreError;
use serde_json::{Value, json};

use super::judge::{Asking, Judged};
use super::{Authority, Decided, Permit, Refusal, only};
use crate::approval::breaker::Stop;
use crate::approval::grants::{Bound, Given, Wish};
use crate::approval::note::ApprovalNote;
use crate::approval::{
    Answer, Approval, ApprovalRequest, AskedPart, Grant, Lasting, Scope, Script, binding, pattern,
};
use crate::off_async;

/// How long an approver has to end by itself when the calls are taken back.
const GRACE: Duration = Duration::from_secs(2);

/// A call that may happen if the owner agrees.
pub(crate) struct Question {
    permit: Permit,
    request: ApprovalRequest,
    /// For each part, what a grant for it is bound to; none if it can be allowed only this once.
    bound: Vec<Option<Bound>>,
    note: ApprovalNote,
}

/// How arguments and texts are shown: without secrets.
pub(crate) struct Shown<'a> {
    pub(crate) args: &'a dyn Fn(&Value) -> Value,
    pub(crate) text: &'a dyn Fn(&str) -> String,
}

impl Authority {
    /// Puts the question together.
    pub(super) fn question(
        &self,
        call: &CallId,
        permit: Permit,
        asking: Vec<Asking>,
        judged: Option<&Judged>,
        shown: &Shown<'_>,
    ) -> Question {
        let tool = permit.entry.spec().name.clone();
        let raw = judged.map(|judged| judged.command.command.as_str());
        let command = raw.map(|raw| (shown.text)(raw));
        let same = command.as_deref() == raw;
        let longest = self.longest(&asking);
        let mut bound = Vec::with_capacity(asking.len());
        let mut parts = Vec::with_capacity(asking.len());
        for part in asking {
            let found = judged.and_then(|judged| Some((judged, part.run?)));
            let run = found.and_then(|(judged, run)| judged.analysis.runs.get(run));
            let text = match (run, raw, part.span) {
                (Some(run), ..) if pattern::exact(run).is_some() => pattern::exact(run).unwrap_or_default(),
                (_, Some(raw), Some(span)) => raw.get(span.range()).unwrap_or(raw).to_owned(),
                _ => tool.clone(),
            };
            let can =
                found.filter(|_| longest > Lasting::Once).and_then(|(judged, run)| self.bind(judged, run));
            let offer = can.as_ref().zip(judged).and_then(|(bound, judged)| {
                pattern::offer(&judged.analysis, bound.run, &self.workspace, &bound.scripts)
            });
            // A pattern that holds a secret would be kept in the clear.
            let offer = offer.filter(|offer| (shown.text)(offer) == *offer);
            parts.push(AskedPart {
                span: part.span.filter(|_| same).map(|span| (span.start, span.end)),
                text: (shown.text)(&text),
                program: run.and_then(|run| run.program.clone()).map(|name| (shown.text)(&name)),
                rule: part.rule,
                reason: (shown.text)(&part.reason),
                offer,
                run: part.run,
            });
            bound.push(can);
        }
        let mut request = ApprovalRequest {
            call: call.clone(),
            caller: self.caller.name().to_owned(),
            session: self.session.clone(),
            workspace: self.workspace.clone(),
            tool,
            args: (shown.args)(&permit.args),
            command,
            cwd: judged.map(|judged| judged.cwd.clone()),
            decision: permit.decision.clone(),
            parts,
            effects: permit.effects.clone(),
            scripts: all_scripts(&bound),
            shown: String::new(),
            longest,
            analysis: judged.map(|judged| Arc::clone(&judged.analysis)),
        };
        request.shown = shown_hash(&request);
        let note = ApprovalNote::of(&request);
        Question { permit, request, bound, note }
    }

    /// The longest that an answer may hold.
    fn longest(&self, asking: &[Asking]) -> Lasting {
        // Where the call as a whole asks, by the owner's word or because it runs no command, it will ask again anyway. So
        // does what a rule of the machine's ceiling asks about.
        let whole = asking.iter().any(|part| part.ceiling || (part.run.is_none() && part.span.is_none()));
        match self.policy.longest_approval() {
            _ if whole => Lasting::Once,
            ApprovalLength::Once => Lasting::Once,
            ApprovalLength::Session => Lasting::Session,
            ApprovalLength::Always => Lasting::Always,
        }
    }

    fn bind(&self, judged: &Judged, run: usize) -> Option<Bound> {
        let scripts = binding::scripts(&judged.analysis, run, &judged.cwd, &self.workspace)?;
        Some(Bound { run, scripts })
    }

    /// Lets a question go ahead on what was granted before, if that covers every part of it.
    pub(super) fn covered(&self, mut question: Question) -> Result<Permit, Box<Question>> {
        let request = &question.request;
        let found = match (&request.analysis, &request.cwd) {
            (Some(analysis), Some(cwd)) => {
                let wish = wish(request, analysis, cwd);
                off_async(|| self.granted(&wish, &question.bound, &request.decision.rule, true))
            }
            _ => Ok(None),
        };
        match found {
            Ok(Some((decision, ids))) => {
                question.note.answer = "stored";
                question.note.ids = ids;
                question.permit.decision = decision;
                question.permit.approval = Some(Box::new(question.note));
                Ok(question.permit)
            }
            Ok(None) => Err(Box::new(question)),
            Err(error) => {
                question.permit.notes.push(format!("earlier approvals were not looked at: {error}"));
                Err(Box::new(question))
            }
        }
    }

    /// The decision by earlier grants, where they cover every part. Nothing is noted.
    pub(super) fn granted_before(&self, tool: &str, decided: &Decided) -> Option<Decision> {
        let judged = only(&decided.judged).filter(|_| decided.decision.verdict == Verdict::Ask)?;
        let longest = self.longest(&decided.asking);
        let wish = Wish { tool, analysis: &judged.analysis, cwd: &judged.cwd, longest };
        let bound: Vec<Option<Bound>> =
            decided.asking.iter().map(|part| self.bind(judged, part.run?)).collect();
        let found = off_async(|| self.granted(&wish, &bound, &decided.decision.rule, false));
        found.ok().flatten().map(|(decision, _)| decision)
    }

    /// The decision by earlier grants and their ids; `uses` notes that a call goes ahead on them.
    fn granted(
        &self,
        wish: &Wish<'_>,
        bound: &[Option<Bound>],
        asked_by: &str,
        uses: bool,
    ) -> Result<Option<(Decision, Vec<String>)>, StoreError> {
        let bound: Option<Vec<Bound>> = bound.iter().cloned().collect();
        let Some(bound) = bound.filter(|_| wish.longest > Lasting::Once) else { return Ok(None) };
        let Some(grants) = self.grants.covering(wish, &bound)? else { return Ok(None) };
        if uses && !self.grants.touch(&grants)? {
            return Ok(None);
        }
        let mut ids: Vec<String> = grants.iter().map(|grant| grant.id.clone()).collect();
        ids.dedup();
        let given: Vec<String> = grants.iter().map(|grant| format!("`{}`", grant.granted.pattern)).collect();
        let reason = format!("the owner allowed {}, which {asked_by} asks about", given.join(", "));
        let rule = format!("approval {}", ids.join(" "));
        Ok(Some((Decision { reason: Some(reason), ..Decision::allow(rule) }, ids)))
    }

    /// Asks all questions of one batch together; the results stand in their order.
    pub(crate) async fn ask(&self, questions: Vec<Question>) -> Vec<Result<Permit, Refusal>> {
        let per_minute = self.policy.limits().prompts_per_minute;
        let stops: Vec<Option<Stop>> =
            questions.iter().map(|_| self.breaker.ask(per_minute, Instant::now()).err()).collect();
        let open = questions.iter().zip(&stops).filter(|(_, stop)| stop.is_none());
        let requests: Vec<ApprovalRequest> = open.map(|(question, _)| question.request.clone()).collect();
        let mut answers = self.answers(&requests).await.into_iter();
        let results = questions.into_iter().zip(stops).map(|(question, stop)| match stop {
            Some(stop) => Err(stopped(question, stop)),
            None => {
                let answer = answers.next().unwrap_or_else(|| Answer::new("nobody", Approval::Nobody));
                self.breaker.answered(&answer.approval);
                off_async(|| self.settle(question, &answer))
            }
        });
        results.collect()
    }

    async fn answers(&self, requests: &[ApprovalRequest]) -> Vec<Answer> {
        if requests.is_empty() {
            return Vec::new();
        }
        let given_up = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            answers = self.approver.ask_many(requests) => answers,
            () = given_up => requests.iter().map(|_| Answer::new("nobody", Approval::Cancelled)).collect(),
        }
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
        let bound: Vec<Option<Bound>> = question
            .bound
            .iter()
            .map(|bound| bound.as_ref().and_then(|bound| self.rebind(&question.request, bound.run)))
            .collect();
        if bound != question.bound {
            let error = ToolError::new(
                ErrorKind::Conflict,
                "A script that the command runs changed while the owner was asked, so the answer does not hold.",
            )
            .hint("Make the call again; the owner is asked about the new content.");
            return Err(refusal(question, error));
        }
        for grant in given {
            match self.keep(&question, &grant, &answer.by) {
                Ok(id) => question.note.ids.push(id),
                Err(why) => {
                    let note = format!(
                        "the answer holds for this call only: `{}` is not kept, {why}",
                        grant.pattern
                    );
                    question.permit.notes.push(note);
                }
            }
        }
        if question.note.ids.is_empty() {
            question.note.answer = "once";
        }
        question.permit.approval = Some(Box::new(question.note));
        Ok(question.permit)
    }

    fn rebind(&self, request: &ApprovalRequest, run: usize) -> Option<Bound> {
        let (analysis, cwd) = (request.analysis.as_deref()?, request.cwd.as_deref()?);
        Some(Bound { run, scripts: binding::scripts(analysis, run, cwd, &self.workspace)? })
    }

    /// Keeps a grant if it may be kept; its id, or why not.
    fn keep(&self, question: &Question, grant: &Grant, by: &str) -> Result<String, String> {
        let request = &question.request;
        let needed = if grant.scope == Scope::Session { Lasting::Session } else { Lasting::Always };
        if needed > request.longest {
            return Err("because the owner's ceiling does not let an answer hold so long".to_owned());
        }
        let bound = question.bound.get(grant.part).and_then(Option::as_ref);
        let (Some(bound), Some(analysis), Some(cwd)) = (bound, &request.analysis, &request.cwd) else {
            return Err("because it can be allowed only this once".to_owned());
        };
        request.accepts(grant.part, &grant.pattern)?;
        pattern::covers(&grant.pattern, analysis, bound.run, &self.workspace, &bound.scripts)?;
        let given = Given {
            pattern: &grant.pattern,
            scope: grant.scope,
            expires: grant.expires,
            bound,
            by,
            call: request.call.as_str(),
            shown: &request.shown,
        };
        let kept = self.grants.keep(&wish(request, analysis, cwd), &given);
        kept.map(|kept| kept.id).map_err(|error| error.to_string())
    }
}

fn wish<'a>(request: &'a ApprovalRequest, analysis: &'a Analysis, cwd: &'a Path) -> Wish<'a> {
    Wish { tool: &request.tool, analysis, cwd, longest: request.longest }
}

/// The grants with the scope that the answer gives them.
fn scoped(grants: &[Grant], lasting: Lasting) -> Vec<Grant> {
    let scope = |grant: &Grant| match (lasting, grant.scope) {
        (Lasting::Always, Scope::User) => Scope::User,
        (Lasting::Always, _) => Scope::Workspace,
        _ => Scope::Session,
    };
    grants.iter().map(|grant| Grant { scope: scope(grant), ..grant.clone() }).collect()
}

fn all_scripts(bound: &[Option<Bound>]) -> Vec<Script> {
    let scripts = bound.iter().flatten().flat_map(|bound| bound.scripts.iter().cloned());
    let mut scripts: Vec<Script> = scripts.collect();
    scripts.sort();
    scripts.dedup();
    scripts
}

/// The hash of all that is shown.
fn shown_hash(request: &ApprovalRequest) -> String {
    let texts: Vec<&str> = request.parts.iter().map(|part| part.text.as_str()).collect();
    let all = json!([request.tool, request.args, request.command, request.cwd, texts, request.scripts]);
    blake3::hash(all.to_string().as_bytes()).to_hex().to_string()
}

fn refusal(question: Question, error: ToolError) -> Refusal {
    let Question { mut permit, note, .. } = question;
    Refusal {
        error,
        decision: Some(Box::new(permit.decision.clone())),
        effects: permit.effects.take().map(Box::new),
        approval: Some(Box::new(note)),
    }
}

fn stopped(question: Question, stop: Stop) -> Refusal {
    let error = match stop {
        Stop::TooMany(wait) => {
            let message = "Too many questions: the owner was asked as often as a minute allows.";
            ToolError::new(ErrorKind::ApprovalRequired, message)
                .hint(format!("Wait {} seconds, or do what needs no approval.", wait.as_secs() + 1))
        }
        Stop::Denied => ToolError::new(
            ErrorKind::ApprovalDenied,
            "The owner said no so often that no more questions are asked.",
        )
        .hint(
            "Stop trying what needs approval; tell the owner what you wanted and why, and do something else.",
        ),
    };
    refusal(question, error)
}

fn refused(approval: &Approval, decision: &Decision) -> ToolError {
    let mut way = String::new();
    if let Some(grant) = &decision.grant {
        way = format!(", or allow it with: {grant}");
    }
    match approval {
        Approval::Denied { reason } => {
            ToolError::new(ErrorKind::ApprovalDenied, format!("The owner said no: {reason}"))
                .hint("Do not try the same by other means; choose another way or ask what is wanted.")
        }
        Approval::TimedOut => {
            let message = format!("Approval required by {}, and nobody answered in time.", decision.rule);
            ToolError::new(ErrorKind::ApprovalRequired, message)
                .hint(format!("The owner can answer when the call is made again{way}"))
        }
        Approval::Cancelled => {
            ToolError::new(ErrorKind::Cancelled, "The call was cancelled before the owner answered.")
        }
        _ => {
            let reason = decision.reason.clone().unwrap_or_default();
            ToolError::new(
                ErrorKind::ApprovalRequired,
                format!("Approval required by {}: {reason}.", decision.rule),
            )
            .hint(format!("Nobody is there to ask. The owner can make the call on a terminal{way}"))
        }
    }
}
