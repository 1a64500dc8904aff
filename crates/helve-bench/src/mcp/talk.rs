//! A client of the protocol that does no more than it must: one line a message, in and out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::Measured;

/// What is checked of an answer.
#[derive(Deserialize)]
struct Answer<'l> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Option<Cow<'l, str>>,
    #[serde(borrow)]
    result: Option<Told<'l>>,
}

#[derive(Deserialize)]
struct Told<'l> {
    #[serde(borrow)]
    content: Vec<Block<'l>>,
}

#[derive(Deserialize)]
struct Block<'l> {
    #[serde(borrow)]
    text: Cow<'l, str>,
}

/// A server that was started, and the talk with it.
pub(super) struct Talk {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    line: String,
}

impl Drop for Talk {
    fn drop(&mut self) {
        drop(self.to.take());
        end(&mut self.child);
    }
}

/// Waits for a server whose input has ended, which is what ends one, and kills one that does not care.
pub(super) fn end(child: &mut Child) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Talk {
    /// Starts a server and agrees on the protocol.
    pub(super) fn open(mut command: Command) -> Measured<Talk> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a started server has no streams".into());
        };
        let mut talk = Talk {
            child,
            to: Some(to),
            from: BufReader::with_capacity(1 << 20, from),
            next: 1,
            line: String::new(),
        };
        let client = json!({"name": "helve-bench", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        talk.request("initialize", &hello)?;
        talk.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(talk)
    }

    fn write(&mut self, message: &Value) -> Measured<()> {
        let mut text = serde_json::to_vec(message)?;
        text.push(b'\n');
        let to = self.to.as_mut().ok_or("the server was left")?;
        to.write_all(&text)?;
        to.flush()?;
        Ok(())
    }

    /// Sends a request; gives its number.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> Measured<u64> {
        let id = self.next;
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// The next answer, with the number of its request. What the server says or asks by itself is passed over.
    pub(super) fn answer(&mut self) -> Measured<(u64, Value)> {
        loop {
            self.line.clear();
            if self.from.read_line(&mut self.line)? == 0 {
                return Err("the server ended".into());
            }
            let mut message: Value = serde_json::from_str(&self.line)?;
            if message.get("method").is_some() {
                continue;
            }
            if let Some(error) = message.get("error") {
                return Err(format!("the server answered {error}").into());
            }
            let id = message["id"].as_u64().ok_or("an answer without a number")?;
            return Ok((id, message["result"].take()));
        }
    }

    /// Asks and waits.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Measured<Value> {
        let asked = self.send(method, params)?;
        let (id, result) = self.answer()?;
        if id == asked { Ok(result) } else { Err(format!("{id} was answered, {asked} was asked").into()) }
    }

    /// Calls a tool so often, with so many calls under way, and looks at each answer. What can be sent is sent at once, and no
    /// more is read of an answer than has to be checked, so that the server's time is what is measured.
    pub(super) fn stream(&mut self, tool: &str, calls: u32, under_way: usize) -> Measured<()> {
        let first = self.next;
        let mut answered = vec![false; calls as usize];
        let (mut sent, mut done) = (0, 0);
        let (mut out, mut line, mut expected) = (String::new(), String::new(), String::new());
        while done < answered.len() {
            out.clear();
            while sent < answered.len() && sent - done < under_way {
                let id = self.next;
                let _ = writeln!(
                    out,
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"text {id}."}}}}}}"#
                );
                self.next += 1;
                sent += 1;
            }
            let to = self.to.as_mut().ok_or("the server was left")?;
            to.write_all(out.as_bytes())?;
            loop {
                line.clear();
                if self.from.read_line(&mut line)? == 0 {
                    return Err("the server ended".into());
                }
                let answer: Answer<'_> = serde_json::from_str(&line)?;
                if let (None, Some(id)) = (&answer.method, answer.id) {
                    expected.clear();
                    let _ = write!(expected, "text {id}.");
                    let place =
                        usize::try_from(id.wrapping_sub(first)).ok().and_then(|at| answered.get_mut(at));
                    let said = answer.result.as_ref().and_then(|result| result.content.first());
                    let fits = said.is_some_and(|block| block.text.ends_with(&*expected));
                    match place {
                        Some(place) if fits && !*place => *place = true,
                        _ => return Err(format!("a call gave {line}").into()),
                    }
                    done += 1;
                }
                if !self.from.buffer().contains(&b'\n') {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until a tool is offered: servers behind a gateway start by themselves.
    pub(super) fn wait_for_tool(&mut self, name: &str, limit: Duration) -> Measured<()> {
        let start = Instant::now();
        while start.elapsed() < limit {
            let pages = self.pages()?;
            let mut tools = pages.iter().flat_map(|page| page["tools"].as_array().into_iter().flatten());
            if tools.any(|tool| tool["name"] == name) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{name} is not offered").into())
    }

    /// All pages of the list of tools.
    pub(super) fn pages(&mut self) -> Measured<Vec<Value>> {
        let mut pages = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", &params)?;
            let cursor = page.get("nextCursor").filter(|cursor| cursor.is_string()).cloned();
            pages.push(page);
            match cursor {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(pages),
            }
        }
    }

    /// The same without looking at more than where the next page begins, so that the server's time is what is measured.
    pub(super) fn skim_pages(&mut self) -> Measured<()> {
        let mut params = json!({});
        loop {
            self.send("tools/list", &params)?;
            loop {
                self.line.clear();
                if self.from.read_line(&mut self.line)? == 0 {
                    return Err("the server ended".into());
                }
                if !self.line.contains("\"method\":\"notifications/") {
                    break;
                }
            }
            match after(&self.line, "\"nextCursor\":\"") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(()),
            }
        }
    }
}

/// The text from behind `mark` to the next quote. Cursors hold none.
fn after<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    let start = line.rfind(mark)? + mark.len();
    line[start..].split('"').next()
}
