//! The person at the terminal. Asked on the terminal itself, never through standard input, so that nothing that feeds
//! Helve can answer; what was typed before the question is thrown away. The whole call is shown, nothing is shortened.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use helve::{Answer, Approval, ApprovalRequest, Approver, BoxFuture, Cancel};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{Mutex, oneshot};

use crate::harmless::harmless;

/// An answer longer than this is none.
const LONGEST_ANSWER: u64 = 1000;

/// Somebody who can be asked.
pub(crate) struct Person {
    cancel: Cancel,
    /// One question at a time.
    asking: Mutex<()>,
}

/// The person at the terminal, if there is one.
pub(crate) fn person(cancel: &Cancel) -> Option<Person> {
    let present = io::stdin().is_terminal() && io::stderr().is_terminal();
    present.then(|| Person { cancel: cancel.clone(), asking: Mutex::new(()) })
}

impl Approver for Person {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _alone = self.asking.lock().await;
            let question = question(request);
            let (answer, answered) = oneshot::channel();
            // A thread of its own: one that waits for a person must not hold up the end of the program.
            let asker = std::thread::Builder::new().name("approval".to_owned()).spawn(move || {
                let _ = answer.send(ask_on_terminal(&question).unwrap_or(Approval::Nobody));
            });
            let approval = match asker {
                Err(_) => Approval::Nobody,
                Ok(_) => tokio::select! {
                    answer = answered => answer.unwrap_or(Approval::Nobody),
                    () = self.cancel.cancelled() => Approval::Cancelled,
                },
            };
            Answer::new("terminal", approval)
        })
    }
}

fn ask_on_terminal(question: &str) -> io::Result<Approval> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    tcflush(&terminal, QueueSelector::IFlush)?;
    terminal.write_all(question.as_bytes())?;
    let mut line = Vec::new();
    BufReader::new(terminal.take(LONGEST_ANSWER)).read_until(b'\n', &mut line)?;
    Ok(answer(&line))
}

/// Only a plain yes is one.
fn answer(line: &[u8]) -> Approval {
    match line.trim_ascii() {
        b"y" | b"Y" | b"yes" | b"Yes" | b"YES" => Approval::Once,
        _ => Approval::Denied { reason: "asked at the terminal".to_owned() },
    }
}

/// The whole call as a person reads it.
fn question(request: &ApprovalRequest) -> String {
    let mut text = format!("\n{} wants to run:\n", harmless(&request.tool));
    let mut rest = request.args.clone();
    let members = rest.as_object_mut();
    if let Some(command) = members.and_then(|members| members.shift_remove("command")) {
        let command = command.as_str().map_or_else(|| command.to_string(), str::to_owned);
        quote(&mut text, &command);
    }
    for (key, value) in rest.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(text, "  {}:", harmless(key));
        quote(&mut text, &value);
    }
    let _ = write!(text, "It needs your agreement under the rule {}", harmless(&request.decision.rule));
    if let Some(reason) = &request.decision.reason {
        let _ = write!(text, ": {}", harmless(reason));
    }
    text.push_str("\nRun it? [y/N] ");
    text
}

/// Every line behind a bar, so that no line can pass for one of ours.
fn quote(text: &mut String, quoted: &str) {
    for line in harmless(quoted).split('\n') {
        let _ = writeln!(text, "  | {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::{CallId, Decision};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn request(args: serde_json::Value, decision: Decision) -> ApprovalRequest {
        ApprovalRequest {
            call: CallId::from_parts(0, 0),
            caller: "owner".into(),
            session: "s".into(),
            workspace: "/w".into(),
            tool: "exec".into(),
            args,
            command: None,
            cwd: None,
            decision,
            parts: Vec::new(),
            effects: None,
            scripts: Vec::new(),
            shown: String::new(),
            longest: helve::Lasting::Once,
        }
    }

    #[test]
    fn the_question_shows_the_whole_call_and_nothing_can_imitate_it() {
        let args = json!({"timeout": 5, "command": "true\u{1b}[2K\nRun it? [y/N] y", "working_dir": "src"});
        let request = request(args, Decision::ask("guard.destructive.x", "It removes\r things."));
        assert_eq!(
            question(&request),
            "\nexec wants to run:\n  | true\\x1b[2K\n  | Run it? [y/N] y\n  timeout:\n  | 5\n  working_dir:\n  | src\n\
             It needs your agreement under the rule guard.destructive.x: It removes\\r things.\nRun it? [y/N] "
        );
    }

    #[test]
    fn a_long_command_is_shown_to_its_end() {
        let args = json!({"command": format!("{}; the end", "x".repeat(100_000))});
        let request = request(args, Decision::ask("r", "s"));
        assert!(question(&request).contains("; the end\n"));
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        for yes in ["y\n", "Y", " yes \r\n"] {
            assert_eq!(answer(yes.as_bytes()), Approval::Once, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yy\n", "yes please\n", "\u{1b}y\n"] {
            assert!(matches!(answer(no.as_bytes()), Approval::Denied { .. }), "{no:?}");
        }
    }
}
