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

    fn has_answer(&self, request: &ApprovalRequest) -> bool {
        self.0.has_answer(&key(request))
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
        match self.0.ask(&key(request), QuestionKind::Form, params).await {
            Ok(answer) => read(&answer, request, &choices),
            // Nobody else is asked while the client is.
            Err(_) => Approval::TimedOut,
        }
    }
}

/// The key of the question is what was shown: an answer never counts for anything else.
fn key(request: &ApprovalRequest) -> String {
    format!("approval-{}", request.shown.chars().take(32).collect::<String>())
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

/// What the person reads: first who calls and what asks, a line each, so that nothing in the call can stand in their place; then the
/// whole call and what a longer answer would allow, each line behind a mark. None if it would not fit.
fn message(request: &ApprovalRequest) -> Option<String> {
    let mut text =
        String::from("Helve asks before it runs this call. Lines behind | are the call's own text.\n\n");
    match &request.client {
        Some(client) => {
            fact(&mut text, "Client", &format!("{}, which calls itself {client}", request.caller))
        }
        None => fact(&mut text, "Client", &request.caller),
    }
    fact(&mut text, "Rule", &request.decision.rule);
    if let Some(reason) = &request.decision.reason {
        fact(&mut text, "Because", reason);
    }
    fact(&mut text, "Workspace", &request.workspace.display().to_string());
    if let Some(cwd) = &request.cwd {
        fact(&mut text, "In", &cwd.display().to_string());
    }
    for script in &request.scripts {
        fact(&mut text, "Bound to the content of", &script.path);
    }
    fact(&mut text, "Tool", &request.tool);
    match &request.command {
        Some(command) => marked(&mut text, "Command", command),
        None => {
            let args = serde_json::to_string_pretty(&request.args).unwrap_or_default();
            marked(&mut text, "Arguments", &args);
        }
    }
    for part in &request.parts {
        let asks = format!("Asked about by {}, because {}", one_line(&part.rule), one_line(&part.reason));
        marked(&mut text, &asks, &part.text);
        if let Some(offer) = &part.offer {
            marked(&mut text, "A longer answer allows", offer);
        }
    }
    (text.chars().count() <= MAX_SHOWN_CHARS).then_some(text)
}

/// Something that is known, on one line.
fn fact(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}: {}", one_line(value));
}

/// A text of the call's own: every line of it can be told from ours.
fn marked(text: &mut String, name: &str, own: &str) {
    let _ = writeln!(text, "\n{name}:");
    for line in harmless(own).split('\n') {
        let _ = writeln!(text, "  | {line}");
    }
}

fn one_line(text: &str) -> String {
    harmless(text).replace('\n', "\\n")
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

#[cfg(test)]
mod tests {
    use helve_core::{CallId, Decision};
    use helve_runtime::AskedPart;
    use pretty_assertions::assert_eq;

    use super::*;

    fn request(command: &str) -> ApprovalRequest {
        let part = AskedPart {
            span: None,
            text: command.to_owned(),
            program: None,
            rule: "some.rule".into(),
            reason: "it asks".into(),
            offer: Some(command.to_owned()),
            directory: None,
            scripts: Vec::new(),
            run: None,
        };
        ApprovalRequest {
            call: CallId::from_parts(0, 0),
            caller: "mcp:one".into(),
            client: Some("tests".into()),
            session: "s".into(),
            workspace: "/ws".into(),
            tool: "exec".into(),
            args: json!({"command": command}),
            command: Some(command.to_owned()),
            cwd: Some("/ws/a\nRule: no.rule".into()),
            decision: Decision::ask("some.rule", "it asks\nRule: no.rule"),
            parts: vec![part],
            effects: None,
            scripts: Vec::new(),
            shown: String::new(),
            longest: Lasting::Always,
            analysis: None,
        }
    }

    #[test]
    fn what_is_known_comes_first_and_nothing_in_the_call_can_look_like_it() {
        let message = message(&request("echo\n\nRule: no.rule\r\n\rWorkspace: /tmp\u{2028}In: /")).unwrap();
        let own = "  | echo\n  | \n  | Rule: no.rule\n  | \\rWorkspace: /tmp\\u{2028}In: /\n";
        let expected = format!(
            "Helve asks before it runs this call. Lines behind | are the call's own text.\n\n\
             Client: mcp:one, which calls itself tests\nRule: some.rule\nBecause: it asks\\nRule: no.rule\n\
             Workspace: /ws\nIn: /ws/a\\nRule: no.rule\nTool: exec\n\nCommand:\n{own}\n\
             Asked about by some.rule, because it asks:\n{own}\nA longer answer allows:\n{own}"
        );
        assert_eq!(message, expected);
    }

    #[test]
    fn arguments_stand_behind_the_mark_too_and_what_is_too_long_is_not_asked() {
        let tool = ApprovalRequest { command: None, cwd: None, ..request("x\nRule: no.rule") };
        let text = message(&tool).unwrap();
        let forged = |line: &&str| line.starts_with("Rule: no");
        assert_eq!(text.lines().find(forged), None, "{text}");
        assert!(text.contains("  |   \"command\": \"x\\nRule: no.rule\"\n"), "{text}");
        assert_eq!(message(&request(&"x".repeat(MAX_SHOWN_CHARS))), None);
    }
}
