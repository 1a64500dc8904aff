//! The loop around a model: `helve-bench agent`.
//!
//! What a round of the loop costs by itself is the time of a run of many rounds less that of a run of one, divided by the
//! rounds; each round has one call of `echo`, and the model's side comes from a record, so that no model's time is in it.
//! Beside it stands the same call in `helve batch`, measured the same way. And the start: how long it takes from the spawn of
//! `helve agent` until its first request reaches the model's server, which is a listener of this program's own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::report::{Promise, Row};
use crate::sample::{in_turns, median};

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked of the run.
pub(crate) struct Asked<'a> {
    /// Fewer rounds.
    pub(crate) quick: bool,
    /// The program `helve`.
    pub(crate) helve: &'a Path,
}

/// Every row.
pub(crate) fn measure(asked: &Asked<'_>) -> Measured<Vec<Row>> {
    let place = Place { root: tempfile::tempdir()?, helve: asked.helve };
    std::fs::create_dir_all(place.root.path().join("workspace"))?;
    std::fs::create_dir_all(place.root.path().join("config"))?;
    Ok(vec![round(asked, &place)?, first_request(asked, &place)?])
}

/// Where the measured program keeps its state and works.
struct Place<'a> {
    root: tempfile::TempDir,
    helve: &'a Path,
}

impl Place<'_> {
    fn helve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.helve);
        command
            .args(args)
            .current_dir(self.root.path().join("workspace"))
            .env("HELVE_HOME", self.root.path().join("state"))
            .env("XDG_CONFIG_HOME", self.root.path().join("config"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// A record of so many rounds, each with one call.
    fn record(&self, rounds: u32) -> Measured<String> {
        let path = self.root.path().join(format!("{rounds}.jsonl"));
        let mut text = format!("{}\n", json!({"agent": "said", "message": {"text": "go"}}));
        for round in 0..rounds {
            // Different each time: a model that does the same over and over is stopped.
            let call =
                json!({"id": format!("c{round}"), "name": "echo", "args": {"message": round.to_string()}});
            text += &format!("{}\n", json!({"agent": "answered", "answer": {"text": "", "calls": [call]}}));
        }
        text += &format!("{}\n", json!({"agent": "answered", "answer": {"text": "done"}}));
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// A run of so many rounds.
    fn run(&self, record: &str, rounds: u32) -> Measured<()> {
        let model = format!("replay:{record}");
        let most = (rounds + 2).to_string();
        let args = ["agent", "--model", &model, "--max-rounds", &most, "go"];
        let status = self.helve(&args).stdin(Stdio::null()).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a run of {rounds} rounds ended with {status}").into())
        }
    }

    /// So many calls in one batch, each after the answer to the one before, as a model makes them.
    fn batch(&self, calls: u32) -> Measured<()> {
        let mut child = self.helve(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a started batch has no streams".into());
        };
        let mut from = std::io::BufReader::new(from);
        let mut line = String::new();
        for call in 0..calls {
            writeln!(to, "{}", json!({"tool": "echo", "args": {"message": call.to_string()}}))?;
            line.clear();
            std::io::BufRead::read_line(&mut from, &mut line)?;
        }
        drop(to);
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the batch ended with {status}").into()) }
    }
}

/// One round beside the same call in a batch.
fn round(asked: &Asked<'_>, place: &Place<'_>) -> Measured<Row> {
    let rounds = if asked.quick { 100 } else { 400 };
    let (many, one) = (place.record(rounds + 1)?, place.record(1)?);
    let turns = if asked.quick { 3 } else { 9 };
    let most = in_turns(turns, 1, || place.run(&many, rounds + 1), || place.batch(rounds + 1))?;
    let least = in_turns(turns, 1, || place.run(&one, 1), || place.batch(1))?;
    Ok(Row {
        name: "a round of the agent with one echo".into(),
        subject: most.subject.saturating_sub(least.subject) / rounds,
        reference: Some((
            "the same call in helve batch",
            most.reference.saturating_sub(least.reference) / rounds,
        )),
        promise: Promise::Ratio(3.0),
        mib: None,
    })
}

/// Ends the measured program when it is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// From the spawn to the first byte of the first request.
fn first_request(asked: &Asked<'_>, place: &Place<'_>) -> Measured<Row> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let args = ["agent", "--model", "openai-compatible:bench", "--base-url", &url, "go"];
    let turns = if asked.quick { 5 } else { 31 };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..=turns {
        let start = Instant::now();
        let child = Started(place.helve(&args).stdin(Stdio::null()).spawn()?);
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.read_exact(&mut [0])?;
        let took = start.elapsed();
        drop(child);
        let start = Instant::now();
        Command::new("/bin/true").stdin(Stdio::null()).status()?;
        // The first turn warms caches up and is not counted.
        if turn > 0 {
            ours.push(took);
            theirs.push(start.elapsed());
        }
    }
    Ok(Row {
        name: "helve agent, to its first request".into(),
        subject: median(ours),
        reference: Some(("/bin/true", median(theirs))),
        promise: Promise::Ratio(25.0),
        mib: None,
    })
}
