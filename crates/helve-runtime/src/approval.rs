//! Who is asked when a person has to agree, and what comes back. No argument of any call can carry an approval: it
//! comes from here only.
//!
//! In comes an [`ApprovalRequest`], the whole of what is asked about; out comes an [`Answer`]. Whoever implements
//! [`Approver`] can answer: the terminal, a program of the owner's, another part of the program ([`channel()`]). What an answer is worth is decided in the pipeline's authorize stage, not by who gives it: a grant
//! that was not offered counts for this one call only.
//!
//! | module | does |
//! |---|---|
//! | `effects` | [`EffectSummary`]: what a command does, short enough to read |
//! | `pattern` | which command patterns a grant may have |
//! | `binding` | what a grant is bound to: the directory, the content of scripts and of task files |
//! | `tasks` | which files say what a task does |
//! | `grants` | finds and keeps what was granted for longer than a call |
//! | `note` | what the journal keeps of a question |
//! | `breaker` | how often a person may be asked, and when to stop |
//! | `hook`, `channel`, `chain` | brokers: a program of the owner's, another part of the program, one after the other |
//!
//! Deliberately not here: drawing a question on a terminal (`helve-cli`), keeping grants (`helve-store`).

pub(crate) mod binding;
pub(crate) mod breaker;
pub(crate) mod chain;
mod channel;
mod effects;
pub(crate) mod grants;
pub(crate) mod hook;
pub(crate) mod note;
pub(crate) mod pattern;
mod tasks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use helve_core::{BoxFuture, CallId, Decision};
use helve_shell::analysis::Analysis;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use channel::{Channel, Questions, channel};
pub use effects::{EffectSummary, OpaquePart};

/// What a person is asked about: the whole call, not a summary of it. In JSON it is what a hook program reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalRequest {
    /// The call.
    pub call: CallId,
    /// Who calls: what grants are kept for.
    pub caller: String,
    /// What the caller's program calls itself, which nobody has looked into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The session that a session grant would hold for.
    pub session: String,
    /// The workspace that a workspace grant would hold for.
    pub workspace: PathBuf,
    /// The tool's name.
    pub tool: String,
    /// The normalized arguments, without known secrets.
    pub args: Value,
    /// The command that the call would run, without known secrets; none if it runs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where the command would start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Which rule wants it asked, and why.
    pub decision: Decision,
    /// The parts of the call that need an answer, at least one.
    pub parts: Vec<AskedPart>,
    /// What the command does, as far as reading can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<EffectSummary>,
    /// The scripts and task files of the workspace that the answer is bound to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<Script>,
    /// The hash of all that is shown: tool, arguments, directory, argv of each part, content of the scripts.
    pub shown: String,
    /// The longest that the owner lets an answer hold.
    pub longest: Lasting,
    /// What the command does in full; a pattern has to match a run of it. Never shown, because it may hold secrets.
    #[serde(skip)]
    pub analysis: Option<Arc<Analysis>>,
}

impl ApprovalRequest {
    /// Whether a grant of `pattern` for this part would be taken; the error says why not.
    pub fn accepts(&self, part: usize, pattern: &str) -> Result<(), String> {
        let part = self.parts.get(part).ok_or("there is no such part")?;
        match (&self.analysis, part.run, &part.offer) {
            (_, _, Some(offer)) if offer == pattern => Ok(()),
            (Some(analysis), Some(run), Some(_)) => {
                pattern::read(pattern)?.covers_as_shown(analysis, run, &self.workspace)
            }
            _ => Err("this part can be allowed only this once".to_owned()),
        }
    }
}

/// One part of a call that needs an answer: a simple command of a chain, or the call as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AskedPart {
    /// Which bytes of [`ApprovalRequest::command`] it is; none for the call as a whole, or where a secret was taken out
    /// of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<(usize, usize)>,
    /// The argv as a shell would read it back, without known secrets; the tool's name for the call as a whole.
    pub text: String,
    /// The program, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The rule that asks.
    pub rule: String,
    /// Why, in a sentence.
    pub reason: String,
    /// The command pattern that a longer answer would allow; none if it can be allowed only this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<String>,
    /// The directory that a longer answer is bound to: where this part works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The scripts and task files that a longer answer is bound to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<Script>,
    /// The run behind it, an index into the runs of [`ApprovalRequest::analysis`].
    #[serde(skip)]
    pub run: Option<usize>,
}

/// A script of the workspace that a command names, or a file that says what a task of it does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Script {
    /// Its path below the workspace.
    pub path: String,
    /// The BLAKE3 hash of its content, in hexadecimal.
    pub hash: String,
}

/// How long an answer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// For this call.
    Once,
    /// For the rest of the session.
    Session,
    /// Until it is revoked or expires.
    Always,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Yes, this once.
    Once,
    /// Yes, and these patterns for the rest of the session, whatever their scope.
    Session {
        /// What is allowed from now on.
        grants: Vec<Grant>,
    },
    /// Yes, and these patterns where their scope says, until they expire or are revoked.
    Always {
        /// What is allowed from now on.
        grants: Vec<Grant>,
    },
    /// No.
    Denied {
        /// Why, for the model.
        reason: String,
    },
    /// There is nobody to ask.
    Nobody,
    /// The call was taken back before there was an answer.
    Cancelled,
    /// Nobody answered in time.
    TimedOut,
}

/// A command pattern that is allowed from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The pattern: the one that was offered for the part, or an edited one that still matches it.
    pub pattern: String,
    /// Where it holds.
    pub scope: Scope,
    /// When it ends; none for never.
    pub expires: Option<SystemTime>,
    /// The part of [`ApprovalRequest::parts`] that it was given for.
    pub part: usize,
}

/// Where a grant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In this session.
    Session,
    /// In this workspace.
    Workspace,
    /// In every workspace of the user.
    User,
}

/// An approval and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answered: `terminal`, `hook`, the name of a channel.
    pub by: String,
    /// What.
    pub approval: Approval,
}

impl Answer {
    /// What `by` answered.
    pub fn new(by: impl Into<String>, approval: Approval) -> Self {
        Answer { by: by.into(), approval }
    }
}

/// Asks a person, or whatever stands in for one.
pub trait Approver: Send + Sync {
    /// Waits for an answer. When the calls are taken back it has a moment to end by itself.
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer>;

    /// Waits for the answers to the questions of one batch, in their order. One after the other, unless the approver
    /// has a way to show them together.
    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(requests.len());
            for request in requests {
                answers.push(self.ask(request).await);
            }
            answers
        })
    }

    /// Whether the answer came with the call, because it was asked about before. Then asking asks nobody, and is not counted as a
    /// question.
    fn has_answer(&self, _request: &ApprovalRequest) -> bool {
        false
    }
}

/// Nobody is there.
pub struct Headless;

impl Approver for Headless {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::new("nobody", Approval::Nobody) })
    }
}

/// The first characters of a text.
pub(crate) fn short(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
