//! The question about a call, put to the person behind an MCP client.

use std::fmt::Write as _;
use std::sync::Arc;

use helve_core::harmless::harmless;
use helve_core::{BoxFuture, Peer, QuestionKind};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver, Grant, Lasting, Scope};
use serde_json::{Value, json};

/// The name under which its answers are recorded.
const NAME: &str = "mcp";
/// So much of a command or of arguments is shown; a call of which more would have to be shown is not asked about here.
const MAX_SHOWN_CHARS: usize = 8_000;

/// Asks the person behind a client, where that takes questions.
pub struct PeerApprover(Arc<dyn Peer>);

impl PeerApprover {
    /// Asks through `peer`.
    pub fn new(peer: Arc<dyn Peer>) -> Self {
        PeerApprover(peer)
    }
}

impl Approver for PeerApprover {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move { Answer::new(NAME, self.answer(request).await) })
    }
}

impl PeerApprover {
    async fn answer(&self, request: &ApprovalRequest) -> Approval {
        // What cannot be shown whole cannot be agreed to.
        let Some(message) = message(request).filter(|_| self.0.takes(QuestionKind::Form)) else {
            return Approval::Nobody;
        };
        let choices = choices(request);
        let params = json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "answer": {
                        "type": "string",
                        "title": "May it run?",
                        "description": "once: this call. session: what is listed, until the session ends. \
                                        always: what is listed, in this workspace. deny: no.",
                        "enum": choices,
                    },
                    "reason": {
                        "type": "string",
                        "title": "Why not",
                        "description": "What the model should know if the answer is deny.",
                    },
                },
                "required": ["answer"],
            },
        });
        // The key is what was shown: an answer never counts for anything else.
        let key = format!("approval-{}", request.shown.chars().take(32).collect::<String>());
        match self.0.ask(&key, QuestionKind::Form, params).await {
            Ok(answer) => read(&answer, request, &choices),
            // Nobody else is asked while the client is.
            Err(_) => Approval::TimedOut,
        }
    }
}

/// The answers that can be given.
fn choices(request: &ApprovalRequest) -> Vec<&'static str> {
    let mut choices = vec!["once"];
    if request.parts.iter().any(|part| part.offer.is_some()) {
        if request.longest >= Lasting::Session {
            choices.push("session");
        }
        if request.longest >= Lasting::Always {
            choices.push("always");
        }
    }
    choices.push("deny");
    choices
}

/// What the person reads: the whole call, the rule, and what a longer answer would allow. None if it would not fit.
fn message(request: &ApprovalRequest) -> Option<String> {
    let mut text = String::from("Helve asks before it runs this call.\n");
    match &request.command {
        Some(command) => {
            let _ = write!(text, "\nCommand ({}):\n{command}\n", request.tool);
        }
        None => {
            let args = serde_json::to_string_pretty(&request.args).unwrap_or_default();
            let _ = write!(text, "\nTool: {}\nArguments: {args}\n", request.tool);
        }
    }
    if let Some(cwd) = &request.cwd {
        let _ = writeln!(text, "In: {}", cwd.display());
    }
    let _ = writeln!(text, "Rule: {}", request.decision.rule);
    if let Some(reason) = &request.decision.reason {
        let _ = writeln!(text, "Because: {reason}");
    }
    for part in &request.parts {
        let _ = write!(text, "- {} [{}] {}", part.text, part.rule, part.reason);
        if let Some(offer) = &part.offer {
            let _ = write!(text, "; a longer answer allows `{offer}`");
        }
        text.push('\n');
    }
    for script in &request.scripts {
        let _ = writeln!(text, "Bound to the content of {}", script.path);
    }
    let _ = write!(text, "Workspace: {}", request.workspace.display());
    (text.chars().count() <= MAX_SHOWN_CHARS).then(|| harmless(&text))
}

/// What an answer says; anything that was not offered is a no.
fn read(answer: &Value, request: &ApprovalRequest, choices: &[&str]) -> Approval {
    let denied = |reason: &str| Approval::Denied { reason: reason.to_owned() };
    let content = &answer["content"];
    match (answer["action"].as_str(), content["answer"].as_str()) {
        (Some("accept"), Some(word)) if choices.contains(&word) => match word {
            "once" => Approval::Once,
            "session" => Approval::Session { grants: offered(request, Scope::Session) },
            "always" => Approval::Always { grants: offered(request, Scope::Workspace) },
            _ => {
                let reason = content["reason"].as_str().map(str::trim).filter(|reason| !reason.is_empty());
                denied(reason.unwrap_or("no reason was given"))
            }
        },
        (Some("accept"), _) => denied("the client's answer was none of those that were offered"),
        (Some("cancel"), _) => denied("the question was put away without an answer"),
        _ => denied("no reason was given"),
    }
}

/// Every pattern that was offered.
fn offered(request: &ApprovalRequest, scope: Scope) -> Vec<Grant> {
    let parts = request.parts.iter().enumerate();
    let offers = parts.filter_map(|(part, asked)| Some((part, asked.offer.clone()?)));
    offers.map(|(part, pattern)| Grant { pattern, scope, expires: None, part }).collect()
}
