//! A small MCP server: `echo`, and as many more tools as it is told. It does nothing that costs time. With no tools at all it
//! only gives back what stands in a call, for measuring clients.

use std::io::{BufRead as _, Write as _};

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

fn listed(tools: usize) -> Vec<Value> {
    let schema = json!({
        "type": "object", "required": ["message"],
        "properties": {"message": {"type": "string", "description": "What is said back."}},
    });
    let tool = |name: String| json!({"name": name, "description": "Says a text back, as it came.", "inputSchema": schema});
    let more = (1..tools).map(|number| tool(format!("tool_{number}")));
    std::iter::once(tool("echo".to_owned())).chain(more).collect()
}
