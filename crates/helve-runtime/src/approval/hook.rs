//! A program of the owner's that answers questions: `approval.hook` names it. It gets the request as one line of JSON on
//! its standard input and answers with one line of JSON: `{"answer": "once" | "session" | "always" | "deny" | "nobody",
//! "reason": …, "grants": [{"part": 0, "pattern": …, "scope": "session" | "workspace" | "user", "expires_in":
//! seconds}]}`. Without `grants`, "session" and "always" mean every pattern that was offered, in this workspace.
//!
//! Everything else fails closed: an answer that is no such line, an exit code other than 0 or an answer that is too long
//! mean that nobody is there, and the program is ended when its time is up. How it is run: `program.rs`.

use std::time::{Duration, SystemTime};

use helve_core::BoxFuture;
use serde::Deserialize;

use super::{Answer, Approval, ApprovalRequest, Approver, Grant, Scope};
use crate::program::{Heard, Program};

/// The name under which its answers are recorded.
const NAME: &str = "hook";
/// The longest answer.
const MAX_ANSWER: usize = 64 << 10;

/// A program of the owner's that answers questions.
pub(crate) struct Hook(Program);

/// The line that the program answers with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    answer: Word,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    grants: Option<Vec<LineGrant>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Once,
    Session,
    Always,
    Deny,
    Nobody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineGrant {
    part: usize,
    pattern: String,
    #[serde(default = "workspace")]
    scope: Scope,
    #[serde(default)]
    expires_in: Option<u64>,
}

fn workspace() -> Scope {
    Scope::Workspace
}

impl Approver for Hook {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move { Answer::new(NAME, self.run(request).await) })
    }
}

impl Hook {
    /// The program and its arguments, and how long it may take.
    pub(crate) fn new(words: &[String], timeout: Duration) -> Hook {
        Hook(Program::new(words, timeout, MAX_ANSWER))
    }

    async fn run(&self, request: &ApprovalRequest) -> Approval {
        let Ok(question) = serde_json::to_vec(request) else { return Approval::Nobody };
        match self.0.ask(question).await {
            Heard::Line(line) => read(&line, request).unwrap_or(Approval::Nobody),
            Heard::Failed(_) => Approval::Nobody,
            Heard::TimedOut => Approval::TimedOut,
        }
    }
}

/// The answer in a line; none if it is no answer.
fn read(line: &[u8], request: &ApprovalRequest) -> Option<Approval> {
    // A list would be taken for the members in their order.
    let line: Line =
        serde_json::from_slice(line.trim_ascii()).ok().filter(|_| line.trim_ascii().starts_with(b"{"))?;
    let grants = match line.grants {
        Some(grants) => grants.into_iter().map(grant).collect::<Option<Vec<Grant>>>()?,
        None => offered(request),
    };
    Some(match line.answer {
        Word::Once => Approval::Once,
        Word::Session => Approval::Session { grants },
        Word::Always => Approval::Always { grants },
        Word::Deny => {
            Approval::Denied { reason: line.reason.unwrap_or_else(|| "the hook said no".to_owned()) }
        }
        Word::Nobody => Approval::Nobody,
    })
}

/// None where it would end at a moment that no clock shows: that is not to say "never".
fn grant(line: LineGrant) -> Option<Grant> {
    let expires = match line.expires_in {
        Some(seconds) => Some(SystemTime::now().checked_add(Duration::from_secs(seconds))?),
        None => None,
    };
    Some(Grant { pattern: line.pattern, scope: line.scope, expires, part: line.part })
}

/// Every pattern that was offered.
fn offered(request: &ApprovalRequest) -> Vec<Grant> {
    let parts = request.parts.iter().enumerate();
    let offers = parts.filter_map(|(part, asked)| Some((part, asked.offer.clone()?)));
    let grants =
        offers.map(|(part, pattern)| Grant { pattern, scope: Scope::Workspace, expires: None, part });
    grants.collect()
}
