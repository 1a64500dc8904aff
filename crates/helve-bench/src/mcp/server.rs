//! A small MCP server: `echo`, and as many more tools as it is told. It does nothing that costs time. With no tools at all it
//! only gives back what stands in a call, for measuring clients. As a relay it passes on what a client and another server say,
//! and looks at none of it: the least that can stand between the two. As a recorder it also writes each line into a journal before
//! it passes it on: the least that a gateway can do which nothing passes unrecorded.

use std::io::{BufRead as _, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use helve::store::{Batch, EntryKind, Home, Journal, JournalOptions};
use serde_json::{Value, json};

use super::Measured;

/// Serves standard input until it ends.
pub(crate) fn serve(tools: usize) -> Measured<()> {
    if tools == 0 {
        return mirror();
    }
    let listed = listed(tools);
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id").cloned() else { continue };
        let params = &message["params"];
        let answer = match message["method"].as_str() {
            Some("initialize") => Ok(json!({
                "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "small", "version": "1"},
            })),
            Some("tools/list") => Ok(json!({"tools": listed})),
            Some("tools/call") => {
                let text = params["arguments"]["message"].as_str().unwrap_or_default();
                Ok(json!({"content": [{"type": "text", "text": format!("Echo: {text}")}]}))
            }
            Some("ping") => Ok(json!({})),
            _ => Err(json!({"code": -32601, "message": "there is no such method"})),
        };
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        out.write_all(&text)?;
        out.flush()?;
    }
    Ok(())
}

/// Answers whatever has a number with the text that it brought, all that was read in one write.
fn mirror() -> Measured<()> {
    let (mut input, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut held, mut answers) = (String::new(), String::new());
    loop {
        let read = std::str::from_utf8(input.fill_buf()?)?;
        if read.is_empty() {
            return Ok(());
        }
        held.push_str(read);
        let count = read.len();
        input.consume(count);
        let whole = held.rfind('\n').map_or(0, |at| at + 1);
        answers.clear();
        for line in held[..whole].lines() {
            let after = |mark: &str| line.find(mark).map(|at| &line[at + mark.len()..]);
            let Some(id) = after("\"id\":").and_then(|rest| rest.split([',', '}']).next()) else { continue };
            let text = after("\"message\":\"").and_then(|rest| rest.split('"').next()).unwrap_or_default();
            answers.push_str(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            ));
            answers.push('\n');
        }
        held.drain(..whole);
        out.write_all(answers.as_bytes())?;
        out.flush()?;
    }
}

/// Passes bytes on between standard streams and a command, each way on a thread of its own.
pub(crate) fn relay(words: &[String]) -> Measured<()> {
    between(words, pass, pass)
}

/// The same line by line, each in a journal in `state` first: what a client says as planned, what comes back as the outcome.
pub(crate) fn recorder(state: &str, words: &[String]) -> Measured<()> {
    let home = Home::open(Path::new(state))?;
    let journal = Arc::new(Journal::open(&home, "recorded", JournalOptions { fsync: false })?);
    let back = Arc::clone(&journal);
    between(
        words,
        move |from, to| record(&journal, EntryKind::Planned, from, to),
        move |from, to| record(&back, EntryKind::Outcome, from, to),
    )
}

fn between(
    words: &[String],
    there: impl FnOnce(std::io::StdinLock<'static>, ChildStdin) -> std::io::Result<()>,
    back: impl FnOnce(ChildStdout, std::io::StdoutLock<'static>) -> std::io::Result<()> + Send + 'static,
) -> Measured<()> {
    let (program, args) = words.split_first().ok_or("the relay wants a command")?;
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a started server has no streams".into());
    };
    let back = std::thread::spawn(move || back(from, std::io::stdout().lock()));
    there(std::io::stdin().lock(), to)?;
    // Its input is closed by now, so that it ends.
    child.wait()?;
    let _ = back.join();
    Ok(())
}

fn record(
    journal: &Journal,
    kind: EntryKind,
    mut from: impl Read,
    mut to: impl Write,
) -> std::io::Result<()> {
    let (mut held, mut batch, mut lines) = (vec![0; 64 << 10], Batch::default(), Vec::new());
    loop {
        let count = from.read(&mut held)?;
        if count == 0 {
            return Ok(());
        }
        lines.extend_from_slice(&held[..count]);
        let whole = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = u64::try_from(now.as_micros()).unwrap_or_default();
        for line in lines[..whole].split_inclusive(|byte| *byte == b'\n') {
            let said = String::from_utf8_lossy(line);
            batch.put(kind, Some("c_1"), at_us, &json!({"said": said})).map_err(std::io::Error::other)?;
        }
        if !batch.is_empty() {
            journal.record_batch(&batch).map_err(std::io::Error::other)?;
            batch.clear();
        }
        to.write_all(&lines[..whole])?;
        to.flush()?;
        lines.drain(..whole);
    }
}

fn pass(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut held = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut held)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&held[..count])?;
        to.flush()?;
    }
}

fn listed(tools: usize) -> Vec<Value> {
    let schema = json!({
        "type": "object", "required": ["message"],
        "properties": {"message": {"type": "string", "description": "What is said back."}},
    });
    let tool = |name: String| json!({"name": name, "description": "Says a text back, as it came.", "inputSchema": schema});
    let more = (1..tools).map(|number| tool(format!("tool_{number}")));
    std::iter::once(tool("echo".to_owned())).chain(more).collect()
}
