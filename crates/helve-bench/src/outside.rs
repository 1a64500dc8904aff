//! The `helve` program as its users start it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::report::{Promise, Row};
use crate::sample::in_turns;

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

/// Where the measured program keeps its state and works.
struct Place {
    root: tempfile::TempDir,
    helve: std::path::PathBuf,
}

impl Place {
    fn new(helve: &Path) -> Measured<Place> {
        let root = tempfile::tempdir()?;
        std::fs::create_dir(root.path().join("workspace"))?;
        Ok(Place { root, helve: helve.to_owned() })
    }

    /// The program with a state and a configuration of its own.
    fn helve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.helve);
        command
            .args(args)
            .current_dir(self.root.path().join("workspace"))
            .env("HELVE_HOME", self.root.path().join("state"))
            .env("XDG_CONFIG_HOME", self.root.path().join("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }
}

/// Every row of this kind.
pub(crate) fn measure(helve: &Path, quick: bool) -> Measured<Vec<Row>> {
    let place = Place::new(helve)?;
    let rounds = if quick { 30 } else { 200 };
    Ok(vec![
        process(&place, "helve --version", &["--version"], Promise::Ratio(3.0), rounds)?,
        process(&place, "helve call echo", &["call", "echo", "message=hi"], Promise::Ratio(10.0), rounds)?,
        batch(&place, if quick { 5_000 } else { 30_000 })?,
        idle(&place)?,
        gigabyte(&place, if quick { 1 } else { 3 })?,
    ])
}

fn finished(command: &mut Command) -> Measured<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

fn process(
    place: &Place,
    name: &'static str,
    args: &[&str],
    promise: Promise,
    rounds: usize,
) -> Measured<Row> {
    let ours = || finished(&mut place.helve(args));
    let bare = || finished(Command::new("/bin/true").stdin(Stdio::null()));
    let pair = in_turns(rounds, 1, ours, bare)?;
    Ok(Row {
        name: name.into(),
        subject: pair.subject,
        reference: Some(("/bin/true", pair.reference)),
        promise,
        mib: None,
    })
}

/// `helve batch` with many calls of echo.
fn batch(place: &Place, calls: u32) -> Measured<Row> {
    let file = place.root.path().join("calls.jsonl");
    let mut lines = String::new();
    for id in 0..calls {
        lines.push_str(&format!("{{\"id\":{id},\"tool\":\"echo\",\"args\":{{\"message\":\"hello\"}}}}\n"));
    }
    std::fs::write(&file, lines)?;
    let start = Instant::now();
    finished(place.helve(&["batch"]).stdin(std::fs::File::open(&file)?))?;
    Ok(Row {
        name: "one echo call of helve batch".into(),
        subject: start.elapsed() / calls,
        reference: None,
        promise: Promise::PerSecond(10_000.0),
        mib: None,
    })
}

/// Memory of a `helve batch` that has answered once and waits.
fn idle(place: &Place) -> Measured<Row> {
    let mut child = place.helve(&["batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let mut stdout = BufReader::new(child.stdout.take().ok_or("no standard output")?);
    writeln!(stdin, "{{\"tool\":\"echo\",\"args\":{{\"message\":\"hello\"}}}}")?;
    stdin.flush()?;
    stdout.read_line(&mut String::new())?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    drop(stdin);
    child.wait()?;
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or("no VmRSS")?;
    Ok(Row {
        name: "memory of an idle helve batch".into(),
        subject: Duration::ZERO,
        reference: None,
        promise: Promise::Mib(20.0),
        mib: Some(kib / 1024.0),
    })
}

/// A gigabyte of output through exec, beside the same pipeline into a reader that throws it away.
fn gigabyte(place: &Place, rounds: usize) -> Measured<Row> {
    let ours = || finished(&mut place.helve(&["run", "yes | head -c 1G"]));
    let bare = || finished(Command::new("sh").args(["-c", "yes | head -c 1G | cat"]).stdout(Stdio::null()));
    let pair = in_turns(rounds, 1, ours, bare)?;
    Ok(Row {
        name: "1 GB of output through helve run".into(),
        subject: pair.subject,
        reference: Some(("sh -c 'yes | head -c 1G | cat'", pair.reference)),
        promise: Promise::None,
        mib: None,
    })
}
