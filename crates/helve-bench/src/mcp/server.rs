//! A small MCP server: `echo`, and as many more tools as it is told. It does nothing that costs time. With no tools at all it
//! only gives back what stands in a call, for measuring clients. As a relay it passes on what a client and another server say,
//! and looks at none of it: the least that can stand between the two. As a recorder it also writes all of it into a journal before
//! it passes it on: the least that a gateway can do which nothing passes unrecorded.

use std::io::{BufRead as _, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helve::store::{After, Batch, EntryKind, Home, Journal, JournalOptions};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
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

/// What is done with bytes before they are passed on: what the client says is planned, what the server says an outcome.
type Before<'b> = &'b mut dyn FnMut(EntryKind, &[u8]) -> Measured<()>;

/// Passes on what standard streams and a command say to each other.
pub(crate) fn relay(words: &[String]) -> Measured<()> {
    between(words, &mut |_, _| Ok(()))
}

/// The same, and writes it into a journal in `state` first: what a client says as planned, what comes back as the outcome.
pub(crate) fn recorder(state: &str, words: &[String]) -> Measured<()> {
    let home = Home::open(Path::new(state))?;
    let journal = Journal::open(&home, "recorded", JournalOptions { fsync: false })?;
    let mut batch = Batch::default();
    between(words, &mut |kind, bytes| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let said = String::from_utf8_lossy(bytes);
        batch.put(kind, Some("c_1"), u64::try_from(now.as_micros())?, &json!({"said": said}))?;
        journal.record_batch(&batch, After::Rest)?;
        batch.clear();
        Ok(())
    })
}

/// One thread looks at both sides, and for a moment after something has come it does not sleep: the least that takes.
fn between(words: &[String], before: Before<'_>) -> Measured<()> {
    const MOMENT: Duration = Duration::from_micros(100);
    let (program, args) = words.split_first().ok_or("the relay wants a command")?;
    let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a started server has no streams".into());
    };
    let (input, mut out) = (std::io::stdin(), std::io::stdout().lock());
    rustix::io::ioctl_fionbio(&input, true)?;
    rustix::io::ioctl_fionbio(&from, true)?;
    let mut held = vec![0; 64 << 10];
    let mut last = Instant::now();
    loop {
        let mut is_quiet = true;
        if let Some(said) = read(&input, &mut held)? {
            if said.is_empty() {
                break;
            }
            before(EntryKind::Planned, said)?;
            to.write_all(said)?;
            is_quiet = false;
        }
        if let Some(said) = read(&from, &mut held)? {
            if said.is_empty() {
                break;
            }
            before(EntryKind::Outcome, said)?;
            out.write_all(said)?;
            out.flush()?;
            is_quiet = false;
        }
        if !is_quiet {
            last = Instant::now();
        } else if last.elapsed() < MOMENT {
            std::thread::yield_now();
        } else {
            let mut both = [PollFd::new(&input, PollFlags::IN), PollFd::new(&from, PollFlags::IN)];
            rustix::event::poll(&mut both, None)?;
        }
    }
    // Its input is closed, so that it ends.
    drop(to);
    child.wait()?;
    Ok(())
}

/// What there is to read; none if there is nothing yet, and nothing at the end.
fn read(from: impl AsFd, held: &mut [u8]) -> Measured<Option<&[u8]>> {
    match rustix::io::read(from, &mut *held) {
        Ok(count) => Ok(held.get(..count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
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
