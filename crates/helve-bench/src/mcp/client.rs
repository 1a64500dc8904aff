//! Clients that people have, each a process of its own: what a call costs them with Helve between, beside the same without.
//!
//! A client is a command to which the tool, the counts of its calls and the command of a server are added. It starts that
//! server over standard streams, waits until the tool is offered, makes each count of calls one after the other, and prints
//! for each how many nanoseconds all of them took, a line a count. `rmcp`, with which programs in Rust are made, is part of
//! this program; others are in `clients/`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::json;
use tokio::net::unix::pipe;

use super::talk::end;
use super::{BETWEEN, FIRST, LATER, Measured, RUN, Run};

/// The word with which this program is that client.
pub(crate) const CLIENT: &str = "mcp-client";

/// What a client's calls of `tool` of a server took.
pub(super) fn run(client: &[String], tool: &str, server: &Command, quick: bool) -> Measured<Run> {
    let of = |calls: u32| if quick { calls / 100 } else { calls };
    let counts = [1, of(FIRST), of(RUN - FIRST), of(BETWEEN), of(LATER)];
    let (program, words) = client.split_first().ok_or("a client has no command")?;
    let mut command = Command::new(program);
    command.args(words).arg(tool).arg(counts.map(|count| count.to_string()).join(","));
    command.arg(server.get_program()).args(server.get_args());
    if let Some(dir) = server.get_current_dir() {
        command.current_dir(dir);
    }
    command.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(said.stdout)?;
    let took: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    let [_, first, rest, _, later] = took[..] else {
        return Err(format!("the client {program} ended with {} and said {text:?}", said.status).into());
    };
    let each = |nanos, calls: u32| Duration::from_nanos(nanos) / calls.max(1);
    Ok(Run {
        whole: each(first + rest, of(RUN)),
        first: each(first, of(FIRST)),
        later: each(later, of(LATER)),
    })
}

/// Is such a client: `rmcp`, on a runtime with threads as its users have it.
#[expect(clippy::print_stdout, reason = "what it measured is this program's output")]
pub(crate) fn be(words: &[String]) -> Measured<()> {
    let [tool, counts, server @ ..] = words else {
        return Err("a client wants TOOL COUNTS COMMAND…".into());
    };
    let counts: Vec<u32> = counts.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let (program, args) = server.split_first().ok_or("a server has no command")?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a started server has no streams".into());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let to = pipe::Sender::from_owned_fd(to.into())?;
        let service = ().serve((pipe::Receiver::from_owned_fd(from.into())?, to)).await?;
        wait_for_tool(&service, tool).await?;
        for count in counts {
            let start = Instant::now();
            for _ in 0..count {
                call(&service, tool).await?;
            }
            println!("{}", start.elapsed().as_nanos());
        }
        service.cancel().await?;
        Ok(())
    });
    drop(runtime);
    end(&mut child);
    done
}

async fn wait_for_tool(service: &RunningService<RoleClient, ()>, name: &str) -> Measured<()> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if service.list_all_tools().await?.iter().any(|tool| tool.name == name) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("{name} is not offered").into())
}

async fn call(service: &RunningService<RoleClient, ()>, tool: &str) -> Measured<()> {
    let arguments = json!({"message": "hello"}).as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let result = service.call_tool(params).await?;
    let told = result.content.first().and_then(|block| block.as_text());
    if result.is_error == Some(true) || !told.is_some_and(|text| text.text.contains("hello")) {
        return Err(format!("a call gave {result:?}").into());
    }
    Ok(())
}
