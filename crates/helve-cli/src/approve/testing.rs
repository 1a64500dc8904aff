//! Requests and keys for the tests of the question.

use helve::{ApprovalRequest, AskedPart, CallId, Decision, Lasting};
use serde_json::json;

use super::keys::{Decoder, Event};
use super::screen::Screen;

/// A question about a command, with one part for each offer.
pub(super) fn request(command: &str, offers: &[Option<&str>]) -> ApprovalRequest {
    let part = |offer: &Option<&str>| AskedPart {
        span: None,
        text: offer.unwrap_or("part").to_owned(),
        program: None,
        rule: "some.rule".into(),
        reason: "it asks".into(),
        offer: offer.map(str::to_owned),
        directory: None,
        scripts: Vec::new(),
        run: None,
    };
    ApprovalRequest {
        call: CallId::from_parts(0, 0),
        caller: "owner".into(),
        client: None,
        session: "tests".into(),
        workspace: "/ws".into(),
        tool: "exec".into(),
        args: json!({"command": command}),
        command: Some(command.to_owned()),
        cwd: Some("/ws".into()),
        decision: Decision::ask("some.rule", "it asks"),
        parts: offers.iter().map(part).collect(),
        effects: None,
        scripts: Vec::new(),
        shown: String::new(),
        longest: Lasting::Always,
        analysis: None,
    }
}

/// The events of bytes that come at once.
pub(super) fn keys(bytes: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut decoder = Decoder::default();
    decoder.push(bytes.as_bytes(), &mut events);
    decoder.settle(&mut events);
    events
}

/// A screen without its styles.
pub(super) fn shown(screen: &Screen) -> String {
    anstream::adapter::strip_str(&screen.rows.join("\n")).to_string()
}
