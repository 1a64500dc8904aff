//! The stages and the whole pipeline, in this process.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;

use helve::{Args, Call, Caller, Policy, Runtime};
use serde_json::{Value, json};

use crate::report::{Promise, Row};
use crate::sample::in_turns;

const EXEC_CALL: &str =
    r#"{"command":"cargo test --workspace 2>&1 | tail -n 20","working_dir":"src","timeout":120}"#;

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

/// Every row of this kind.
pub(crate) fn measure(quick: bool) -> Measured<Vec<Row>> {
    let root = tempfile::tempdir()?;
    std::fs::create_dir(root.path().join("workspace"))?;
    let async_runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let runtime = runtime(root.path())?;
    let rounds = if quick { 10 } else { 60 };
    Ok(vec![
        arguments(&runtime, rounds)?,
        decision(&runtime, rounds)?,
        hostile_decision(&runtime, rounds.min(20))?,
        echo(&runtime, &async_runtime, root.path(), rounds)?,
        exec_true(&runtime, &async_runtime, rounds)?,
    ])
}

fn runtime(root: &Path) -> Measured<Runtime> {
    let builder = Runtime::builder()
        .policy(Policy::builtin())
        .workspace(root.join("workspace"))
        .home(root.join("state"))
        .caller(Caller::Owner);
    Ok(helve::register_container_tools(helve::register_builtin_tools(builder)).build()?)
}

/// Normalize and validate, beside a parse of the same bytes.
fn arguments(runtime: &Runtime, rounds: usize) -> Measured<Row> {
    const BATCH: u32 = 1000;
    let ours = || -> Measured<()> {
        for _ in 0..BATCH {
            black_box(runtime.arguments("exec", Args::Text(black_box(EXEC_CALL).to_owned()))?);
        }
        Ok(())
    };
    let parse = || -> Measured<()> {
        for _ in 0..BATCH {
            black_box(serde_json::from_str::<Value>(black_box(EXEC_CALL))?);
        }
        Ok(())
    };
    let pair = in_turns(rounds, BATCH, ours, parse)?;
    Ok(Row {
        name: "normalize + validate an exec call".into(),
        subject: pair.subject,
        reference: Some(("serde_json parse of the same bytes", pair.reference)),
        promise: Promise::Ratio(10.0),
        mib: None,
    })
}

/// What the policy says of an everyday command, beside a parse of the call that carries it.
fn decision(runtime: &Runtime, rounds: usize) -> Measured<Row> {
    const BATCH: u32 = 1000;
    const COMMAND: &str = "git status && cargo test -q 2>&1 | tail -5";
    let call = json!({"command": COMMAND}).to_string();
    let ours = || -> Measured<()> {
        for _ in 0..BATCH {
            black_box(runtime.check(black_box(COMMAND), None));
        }
        Ok(())
    };
    let parse = || -> Measured<()> {
        for _ in 0..BATCH {
            black_box(serde_json::from_str::<Value>(black_box(&call))?);
        }
        Ok(())
    };
    let pair = in_turns(rounds, BATCH, ours, parse)?;
    Ok(Row {
        name: "decide on an everyday command".into(),
        subject: pair.subject,
        reference: Some(("serde_json parse of the same bytes", pair.reference)),
        promise: Promise::Ratio(50.0),
        mib: None,
    })
}

/// What the policy says of a long text that is made to take long, each kB of it, beside a parse of the same bytes.
fn hostile_decision(runtime: &Runtime, rounds: usize) -> Measured<Row> {
    const KILOBYTES: u32 = 60;
    let calls = "f;".repeat(KILOBYTES as usize * 500);
    let command = format!("f(){{ g;}};g(){{ a;}};{calls}");
    let call = json!({"command": command}).to_string();
    let ours = || -> Measured<()> {
        black_box(runtime.check(black_box(&command), None));
        Ok(())
    };
    let parse = || -> Measured<()> {
        black_box(serde_json::from_str::<Value>(black_box(&call))?);
        Ok(())
    };
    let pair = in_turns(rounds, KILOBYTES, ours, parse)?;
    Ok(Row {
        name: "decide on hostile text, each kB".into(),
        subject: pair.subject,
        reference: Some(("serde_json parse of the same bytes", pair.reference)),
        promise: Promise::PerSecond(1000.0),
        mib: None,
    })
}

/// `echo` through the pipeline with its two journal entries, beside one appended line.
fn echo(runtime: &Runtime, on: &tokio::runtime::Runtime, root: &Path, rounds: usize) -> Measured<Row> {
    const BATCH: u32 = 500;
    let ours = || -> Measured<()> {
        on.block_on(async {
            for _ in 0..BATCH {
                let result = runtime.call(Call::new("echo", json!({"message": "hello"}))).await;
                black_box(&result);
            }
        });
        Ok(())
    };
    let mut line = vec![b'x'; 400];
    line.push(b'\n');
    let mut file = OpenOptions::new().append(true).create(true).open(root.join("lines"))?;
    let append = || -> Measured<()> {
        for _ in 0..BATCH {
            file.write_all(&line)?;
        }
        Ok(())
    };
    let pair = in_turns(rounds, BATCH, ours, append)?;
    Ok(Row {
        name: "echo through the pipeline, journalled".into(),
        subject: pair.subject,
        reference: Some(("one appended line, write(2)", pair.reference)),
        promise: Promise::Ratio(25.0),
        mib: None,
    })
}

/// A sandboxed command, beside a bare spawn of the same shell.
fn exec_true(runtime: &Runtime, on: &tokio::runtime::Runtime, rounds: usize) -> Measured<Row> {
    let ours = || -> Measured<()> {
        let result = on.block_on(runtime.call(Call::new("exec", json!({"command": "true"}))));
        if result.ok { Ok(()) } else { Err(result.text().into()) }
    };
    let spawn = || -> Measured<()> {
        std::process::Command::new("bash").args(["-c", "true"]).status()?;
        Ok(())
    };
    let pair = in_turns(rounds, 1, ours, spawn)?;
    Ok(Row {
        name: "exec of `true` in the sandbox".into(),
        subject: pair.subject,
        reference: Some(("posix_spawn of bash -c true", pair.reference)),
        promise: Promise::None,
        mib: None,
    })
}
